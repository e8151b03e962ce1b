//! The members of a payload that somebody routes by or changes, and where they are.
//!
//! They are found in the same pass that checks the text. A payload is the params of a
//! request or notification, the result of an answer, or its error.

use std::ops::Range;

use crate::json::{Fault, Key, Walker};
use crate::method::meta;

/// Declares [`Member`]: each with the object it is in and its key there.
macro_rules! members {
    ($($level:ident { $($(#[$doc:meta])* $member:ident = $key:expr,)* })*) => {
        /// A member that a [`Message`](super::Message) can be asked for.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u8)]
        pub enum Member { $($($(#[$doc])* $member,)*)* }

        impl Member {
            /// How many there are.
            const COUNT: usize = [$($(Self::$member,)*)*].len();

            /// The object that it is in, and its key there.
            pub(super) fn place(self) -> (Level, &'static str) {
                match self { $($(Self::$member => (Level::$level, $key),)*)* }
            }

            fn find(level: Level, key: &[u8]) -> Option<Self> {
                match level {
                    $(Level::$level => {
                        $(if key == $key.as_bytes() { return Some(Self::$member); })*
                        None
                    })*
                }
            }
        }
    };
}

members! {
    Payload {
        /// What both sides say besides the protocol.
        Meta = "_meta",
        /// The tool or prompt that is meant.
        Name = "name",
        /// The resource that is meant.
        Uri = "uri",
        /// What a tool or prompt is called with.
        Arguments = "arguments",
        /// Where a list goes on.
        Cursor = "cursor",
        /// Where the next page of a list begins.
        NextCursor = "nextCursor",
        /// The task that is meant.
        TaskId = "taskId",
        /// How a call is to run as a task; in an answer, the task that was made.
        Task = "task",
        /// What a modern server lets its client carry.
        RequestState = "requestState",
        /// What a modern client answers.
        InputResponses = "inputResponses",
        /// What a modern server asks.
        InputRequests = "inputRequests",
        /// Of log records.
        Level = "level",
        /// What is to be completed.
        Ref = "ref",
        /// What a listen is for.
        Notifications = "notifications",
        /// The call that a cancel is about.
        RequestId = "requestId",
        /// What progress is reported under.
        ProgressToken = "progressToken",
        /// How far it has got.
        Progress = "progress",
        /// The revision that a greeting names.
        ProtocolVersion = "protocolVersion",
        /// What the peer can do.
        Capabilities = "capabilities",
        /// Who greets.
        ClientInfo = "clientInfo",
        /// Who is greeted.
        ServerInfo = "serverInfo",
        /// Whether a result is whole, a question or a task.
        ResultType = "resultType",
        /// Whether a tool failed.
        IsError = "isError",
        /// How long a result may be kept.
        TtlMs = "ttlMs",
        /// By whom it may be kept.
        CacheScope = "cacheScope",
        /// Of an error.
        Code = "code",
        /// Of an error, in words.
        ErrorMessage = "message",
        /// What else an error says.
        Data = "data",
        /// A list of tools.
        Tools = "tools",
        /// A list of prompts.
        Prompts = "prompts",
        /// A list of resources.
        Resources = "resources",
        /// A list of templates.
        ResourceTemplates = "resourceTemplates",
        /// A list of tasks.
        Tasks = "tasks",
        /// How a task stands.
        Status = "status",
        /// What a task came to.
        EndResult = "result",
        /// What a task failed with.
        EndError = "error",
        /// What a person did with a question.
        Action = "action",
        /// What a tool returns besides content.
        StructuredContent = "structuredContent",
        /// What a server wants its clients to know.
        Instructions = "instructions",
    }
    Meta {
        /// What progress on a request is to be reported under.
        MetaProgressToken = meta::PROGRESS_TOKEN,
        /// The revision of a modern request.
        MetaVersion = meta::VERSION,
        /// Who sends a modern request.
        MetaClient = meta::CLIENT,
        /// Who sends a modern result.
        MetaServer = meta::SERVER,
        /// What the sender of a modern request can do.
        MetaCapabilities = meta::CAPABILITIES,
        /// Which log records a modern request wants.
        MetaLogLevel = meta::LOG_LEVEL,
        /// The listen that a notification belongs to.
        MetaSubscription = meta::SUBSCRIPTION,
        /// The task that a message is about.
        MetaRelatedTask = meta::RELATED_TASK,
        /// Trace Context.
        TraceParent = "traceparent",
        /// Trace Context.
        TraceState = "tracestate",
        /// Trace Context.
        Baggage = "baggage",
    }
    Ref {
        /// Prompt or resource.
        RefType = "type",
        /// The prompt.
        RefName = "name",
        /// The template of the resource.
        RefUri = "uri",
    }
    Notifications {
        /// Resources that a listen is for.
        ListenUris = "resourceSubscriptions",
        /// Tasks that a listen is for.
        ListenTasks = "taskIds",
    }
    Task {
        /// The id of a task that was made.
        NewTaskId = "taskId",
        /// How long a task is to be kept.
        TaskTtl = "ttl",
    }
    RelatedTask {
        /// The id of the task that a message is about.
        RelatedTaskId = "taskId",
    }
}

/// Each has a bit of its own in [`Members`].
const _: () = assert!(Member::COUNT <= u64::BITS as usize, "a mask has no more bits");

/// An object whose members are looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Level {
    Payload,
    Meta,
    Ref,
    Notifications,
    Task,
    RelatedTask,
}

impl Level {
    pub(super) const ALL: [Self; 6] =
        [Self::Payload, Self::Meta, Self::Ref, Self::Notifications, Self::Task, Self::RelatedTask];

    /// The member that this object is, if it is not the payload itself.
    pub(super) fn member(self) -> Option<Member> {
        match self {
            Self::Payload => None,
            Self::Meta => Some(Member::Meta),
            Self::Ref => Some(Member::Ref),
            Self::Notifications => Some(Member::Notifications),
            Self::Task => Some(Member::Task),
            Self::RelatedTask => Some(Member::MetaRelatedTask),
        }
    }
}

impl Member {
    /// The object that it is, if its members are looked at.
    fn opens(self) -> Option<Level> {
        match self {
            Self::Meta => Some(Level::Meta),
            Self::Ref => Some(Level::Ref),
            Self::Notifications => Some(Level::Notifications),
            Self::Task => Some(Level::Task),
            Self::MetaRelatedTask => Some(Level::RelatedTask),
            _ => None,
        }
    }

    /// Its key.
    pub fn key(self) -> &'static str {
        self.place().1
    }

    /// The keys that lead to it, from the payload on.
    pub(super) fn path(self) -> Vec<&'static str> {
        let (level, key) = self.place();
        let mut path = level.member().map_or_else(Vec::new, Self::path);
        path.push(key);
        path
    }

    /// Whether it is inside `outer`.
    pub(super) fn is_inside(self, outer: Self) -> bool {
        let container = self.place().0.member();
        container.is_some_and(|it| it == outer || it.is_inside(outer))
    }
}

/// The members by which we or a server decide what a request is about.
const DECISIVE: [Member; 19] = [
    Member::Meta,
    Member::MetaProgressToken,
    Member::MetaRelatedTask,
    Member::Arguments,
    Member::Cursor,
    Member::InputResponses,
    Member::Name,
    Member::Notifications,
    Member::ListenUris,
    Member::ListenTasks,
    Member::Ref,
    Member::RefName,
    Member::RefType,
    Member::RefUri,
    Member::RequestState,
    Member::RequestId,
    Member::Task,
    Member::TaskId,
    Member::Uri,
];

/// The members that were found in one payload.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// Where the payload begins in what was walked; places are counted from there.
    from: usize,
    found: Vec<Found>,
    /// A bit for each member that is there twice, or in letters of another case.
    ambiguous: u64,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    member: Member,
    start: u32,
    end: u32,
}

impl Members {
    /// Those of a payload that was walked before.
    pub(super) fn find_in(payload: &[u8]) -> Self {
        let mut members = Self::default();
        // Text that cannot be read has no members.
        _ = members.read(&mut Walker::new(payload));
        members
    }

    /// Walks over the value that is next, the payload of a message, and notes its members.
    pub(super) fn read(&mut self, walker: &mut Walker<'_>) -> Result<(), Fault> {
        self.from = walker.position();
        self.found.clear();
        self.ambiguous = 0;
        if walker.is_at_object() { self.object(walker, Level::Payload, 1) } else { walker.value(1) }
    }

    fn object(&mut self, walker: &mut Walker<'_>, level: Level, depth: u32) -> Result<(), Fault> {
        let mut seen = 0_u64;
        let mut more = walker.open_object()?;
        while more {
            let key = walker.next_key()?;
            let member = Member::find(level, &key.plain());
            self.note_doubt(level, key, member, &mut seen);
            let start = walker.position();
            match member.and_then(Member::opens).filter(|_| walker.is_at_object()) {
                Some(inner) => {
                    self.forget(inner);
                    self.object(walker, inner, depth + 1)?;
                }
                None => walker.value(depth + 1)?,
            }
            if let Some(member) = member {
                self.set(member, start, walker.position());
            }
            more = walker.next_member()?;
        }
        Ok(())
    }

    /// Peers do not agree which counts of two members, or whether case does.
    fn note_doubt(&mut self, level: Level, key: Key<'_>, member: Option<Member>, seen: &mut u64) {
        let near = |it: &Member| it.place().0 == level && key.resembles(it.key());
        let Some(meant) = member.or_else(|| DECISIVE.iter().copied().find(near)) else { return };
        let bit = 1 << meant as u8;
        if member.is_none() || *seen & bit != 0 {
            self.ambiguous |= bit;
        }
        *seen |= bit;
    }

    /// The last of equal members counts, as in every SDK's parser.
    fn set(&mut self, member: Member, start: usize, end: usize) {
        let place = |at: usize| u32::try_from(at - self.from).unwrap_or(u32::MAX);
        let found = Found { member, start: place(start), end: place(end) };
        match self.found.iter_mut().find(|it| it.member == member) {
            Some(before) => *before = found,
            None => self.found.push(found),
        }
    }

    /// Another object takes the place of the one whose members these are.
    fn forget(&mut self, level: Level) {
        if let Some(object) = level.member() {
            self.found.retain(|it| !it.member.is_inside(object));
        }
    }

    /// Where a member's value is in the payload.
    pub(super) fn place(&self, member: Member) -> Option<Range<usize>> {
        let found = self.found.iter().find(|it| it.member == member)?;
        Some(found.start as usize..found.end as usize)
    }

    pub(super) fn is_ambiguous(&self, member: Member) -> bool {
        self.ambiguous >> (member as u8) & 1 == 1
    }

    /// The first member that decides something and is there more than once.
    pub(super) fn ambiguous(&self) -> Option<Member> {
        DECISIVE.iter().copied().find(|it| self.is_ambiguous(*it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::parse_one;

    fn request(params: &str) -> crate::jsonrpc::Message {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{params},"method":"m"}}"#);
        parse_one(text.into()).unwrap()
    }

    #[test]
    fn members_are_found_however_their_key_is_spelled_and_only_in_their_place() {
        let message = request(
            r#"{"n\u0061me" : "x\ny","arguments":{"uri":"u","_meta":{"traceparent":1}},"_meta":{ "progressToken":[1], "io.modelcontextprotocol/related-task":{"taskId":"t"}},"ref":{"name":"r"}}"#,
        );
        assert_eq!(message.string(Member::Name).unwrap(), "x\ny");
        assert_eq!(message.get(Member::MetaProgressToken), Some(&b"[1]"[..]));
        assert_eq!(message.string(Member::RelatedTaskId).unwrap(), "t");
        assert_eq!(message.string(Member::RefName).unwrap(), "r");
        for none in [Member::Uri, Member::TraceParent, Member::TaskId] {
            assert_eq!(message.get(none), None, "{none:?}");
        }
        assert_eq!(message.ambiguous(), None);
    }

    #[test]
    fn the_last_of_equal_members_counts_with_all_that_is_in_it() {
        let message = request(r#"{"_meta":{"traceparent":1},"name":1,"_meta":{},"name":2}"#);
        assert_eq!(message.get(Member::Name), Some(&b"2"[..]));
        assert_eq!(message.get(Member::TraceParent), None);
        assert_eq!(request("[{\"name\":1}]").get(Member::Name), None);
    }

    #[test]
    fn an_answer_may_have_params_that_mean_nothing() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"params":{"taskId":1},"result":{"taskId":2}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":2},"params":{"taskId":1}}"#,
        ] {
            assert_eq!(parse_one(text.into()).unwrap().get(Member::TaskId), Some(&b"2"[..]));
        }
    }

    #[test]
    fn members_that_readers_may_confuse_are_found_wherever_they_decide_something() {
        for clear in [
            "{}",
            "[]",
            r#"{"name":"a","names":1,"arguments":{"Name":1,"name":2,"name":3}}"#,
            r#"{"ref":{"type":"x","name":"y","Names":0},"x":1,"x":2,"n":1}"#,
            r#"{"t\u0061skId":"x"}"#,
        ] {
            assert_eq!(request(clear).ambiguous(), None, "{clear}");
        }
        for (text, member) in [
            (r#"{"name":"a","name":"b"}"#, Member::Name),
            (r#"{"name":"a","n\u0061me":"b"}"#, Member::Name),
            (r#"{"name":"a","Name":"b"}"#, Member::Name),
            (r#"{"NAME":"b"}"#, Member::Name),
            (r#"{"name":"a","\u004eame":"b"}"#, Member::Name),
            (r#"{"ref":{"type":"x","Type":"y"}}"#, Member::RefType),
            (r#"{"ref":{"type":"x"},"Ref":{}}"#, Member::Ref),
            ("{\"taskId\":1,\"ta\u{17f}\u{212a}Id\":2}", Member::TaskId),
            ("{\"task\u{131}d\":2}", Member::TaskId),
        ] {
            assert_eq!(request(text).ambiguous(), Some(member), "{text}");
        }
    }
}
