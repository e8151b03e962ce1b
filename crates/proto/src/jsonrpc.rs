//! The JSON-RPC envelope over text that is otherwise left alone.
//!
//! A [`Message`] is the text it came as, and where in it the id, the method, the
//! payload and the [`Member`]s are that anybody routes by. All are found in the pass
//! that checks the text. Changes are collected, and written once: they replace a few
//! bytes and nothing else, so members and methods we have never heard of survive
//! every hop.
//!
//! Rules: `jsonrpc` is `"2.0"`; no member of the envelope occurs twice, nor in
//! letters of another case, which some servers take for it; an id is a string
//! or an integer and keeps its type; a message is exactly one of request,
//! notification, result, error.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::json::{Fault, Walker, try_unescape, unescape};
use crate::limits::MAX_BATCH;
use crate::method::{self, meta};
use crate::refusal::Refusal;
use edit::Edits;

pub(crate) use edit::{quoted, splice};
pub use part::{Id, ItemAction, Part};
pub use torn::{Answered, answered, parse_torn};

mod edit;
mod part;
mod torn;

/// One request, notification or response. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Message {
    parsed: Arc<Parsed>,
    /// What is different from the text that was parsed.
    edits: Option<Arc<Edits>>,
}

/// A message as it came, or as it was made.
#[derive(Debug)]
struct Parsed {
    text: Bytes,
    kind: Kind,
    id: Option<Id>,
    /// Where the id is; empty if there is no such member.
    id_at: Range<usize>,
    /// Empty on responses.
    method: MethodName,
    payload: Option<Range<usize>>,
    /// Of a message that we made: found when somebody asks.
    members: OnceLock<Members>,
}

/// The name of a method; a frequent one takes no memory.
type MethodName = Cow<'static, str>;

/// Which of the four a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// Answers with a result.
    Result,
    /// Answers with an error; has no id if the request could not be read.
    Error,
}

/// What arrived: one message, or an array of them.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// The ordinary case.
    One(Message),
    /// An array; each element on its own terms. Never empty.
    Batch(Vec<Result<Message, InvalidMessage>>),
}

/// Text that is no message, and the id it was sent under, if that could be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct InvalidMessage {
    /// The id to answer under.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub why: Refusal,
}

/// Reads one message or a batch.
pub fn parse(text: Bytes) -> Result<Incoming, InvalidMessage> {
    check_utf8(&text)?;
    if first_byte(&text) != Some(b'[') {
        return parse_object(text).map(Incoming::One);
    }
    let elements = split_batch(&text)?;
    if elements.is_empty() {
        return Err(Refusal::BadBatch { why: "it is empty" }.into());
    }
    Ok(Incoming::Batch(elements.into_iter().map(parse_object).collect()))
}

fn first_byte(text: &[u8]) -> Option<u8> {
    text.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

/// Reads one message; an array is refused.
pub fn parse_one(text: Bytes) -> Result<Message, InvalidMessage> {
    check_utf8(&text)?;
    parse_object(text)
}

fn check_utf8(text: &[u8]) -> Result<(), Refusal> {
    let checked = simdutf8::compat::from_utf8(text).map(drop);
    checked.map_err(|fault| Refusal::NotUtf8 { at: fault.valid_up_to() })
}

/// The texts of the elements of a batch, in their order; none if it cannot be read.
pub fn elements(batch: &Bytes) -> Vec<Bytes> {
    split_batch(batch).unwrap_or_default()
}

fn split_batch(text: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let mut elements = Vec::new();
    let mut is_long = false;
    let walked = Walker::new(text).elements(|place| match elements.len() {
        MAX_BATCH => is_long = true,
        _ => elements.push(text.slice(place)),
    });
    match walked {
        _ if is_long => Err(Refusal::BadBatch { why: "more than 100 messages" }),
        walked => Ok(walked.map(|()| elements)?),
    }
}

fn parse_object(text: Bytes) -> Result<Message, InvalidMessage> {
    if first_byte(&text) != Some(b'{') && Walker::new(&text).whole().is_ok() {
        return Err(wrong("it is no object").into());
    }
    let mut found = EnvelopeScan::default();
    let walked = found.walk(&text);
    let classified = walked.and_then(|()| found.classify(&text));
    let id = found.id;
    match classified {
        Ok((kind, method, payload)) => {
            let id_at = found.places[1].clone().unwrap_or_default();
            let members = OnceLock::new();
            if payload.is_some() && payload == found.walked {
                _ = members.set(found.members);
            }
            let parsed = Arc::new(Parsed { text, kind, id, id_at, method, payload, members });
            Ok(Message { parsed, edits: None })
        }
        Err(why) => Err(InvalidMessage { id, why }),
    }
}

/// The members of an envelope that mean something; those with a payload last.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of an envelope as they are found.
#[derive(Debug, Default)]
struct EnvelopeScan {
    /// In the order of [`ENVELOPE`].
    places: [Option<Range<usize>>; 6],
    id: Option<Id>,
    /// The payload that was looked into last, and what is in it.
    walked: Option<Range<usize>>,
    members: Members,
}

impl EnvelopeScan {
    fn walk(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let mut walker = Walker::new(text);
        let mut more = walker.open(b'{', b'}')?;
        while more {
            let key = walker.key()?;
            let start = walker.position();
            let plain = key.plain();
            let which = ENVELOPE.iter().position(|name| name.as_bytes() == &*plain);
            if which >= Some(3) {
                self.members.read(&mut walker)?;
                self.walked = Some(start..walker.position());
            } else {
                walker.value(1)?;
            }
            match which {
                Some(which) => self.note(text, which, start..walker.position())?,
                None if ENVELOPE.iter().any(|name| key.resembles(name)) => {
                    return Err(wrong("a member of the envelope is not in lower case"));
                }
                None => {}
            }
            more = walker.more(b'}')?;
        }
        Ok(walker.end()?)
    }

    fn note(&mut self, text: &[u8], which: usize, at: Range<usize>) -> Result<(), Refusal> {
        let is_version = text[at.clone()] == *b"\"2.0\"";
        if ENVELOPE[which] == "id" {
            self.id = Id::parse(&text[at.clone()])?;
        }
        let is_twice = self.places[which].replace(at).is_some();
        match ENVELOPE[which] {
            "jsonrpc" if is_twice || !is_version => Err(wrong("jsonrpc must be \"2.0\", once")),
            _ if is_twice => Err(wrong("a member of the envelope occurs twice")),
            _ => Ok(()),
        }
    }

    fn classify(&self, text: &[u8]) -> Result<(Kind, MethodName, Option<Range<usize>>), Refusal> {
        let id = &self.id;
        let [version, id_at, method, params, result, error] = self.places.clone();
        if version.is_none() {
            return Err(wrong("jsonrpc is missing"));
        }
        match (method, (result, error)) {
            (Some(method), (None, None)) => {
                if id.is_none() && id_at.is_some() {
                    return Err(wrong("id must be a string or an integer"));
                }
                let params = params.filter(|place| text[place.clone()] != *b"null");
                if params.as_ref().is_some_and(|place| !matches!(text[place.start], b'{' | b'[')) {
                    return Err(wrong("params must be an object"));
                }
                let kind = if id.is_some() { Kind::Request } else { Kind::Notification };
                Ok((kind, method_name(&text[method])?, params))
            }
            (None, (Some(result), None)) if id.is_some() => {
                Ok((Kind::Result, Cow::Borrowed(""), Some(result)))
            }
            (None, (None, Some(error))) if text[error.start] == b'{' => {
                Ok((Kind::Error, Cow::Borrowed(""), Some(error)))
            }
            (None, (Some(_), None)) => Err(wrong("a result needs an id")),
            (None, (None, Some(_))) => Err(wrong("error must be an object")),
            (None, (None, None)) => Err(wrong("neither method, result nor error")),
            _ => Err(wrong("more than one of method, result and error")),
        }
    }
}

fn method_name(value: &[u8]) -> Result<MethodName, Refusal> {
    let Some(body) = value.strip_prefix(b"\"") else {
        return Err(wrong("method must be a string"));
    };
    let name = try_unescape(&body[..body.len() - 1]).ok_or(wrong("method is no text"))?;
    Ok(method::shared(&name))
}

impl Message {
    /// Which of the four it is.
    pub fn kind(&self) -> Kind {
        self.parsed.kind
    }

    /// Whether it answers something.
    pub fn is_response(&self) -> bool {
        matches!(self.kind(), Kind::Result | Kind::Error)
    }

    /// Its id: always there on requests and results.
    pub fn id(&self) -> Option<&Id> {
        let edited = self.edits.as_ref().and_then(|edits| edits.id.as_ref());
        edited.or(self.parsed.id.as_ref())
    }

    /// Its method; empty on responses.
    pub fn method(&self) -> &str {
        &self.parsed.method
    }

    /// The string that a member is, if it is there and is one.
    pub fn string(&self, member: Member) -> Option<Cow<'_, str>> {
        as_string(self.get(member)?)
    }

    /// Whether a member is there.
    pub fn has(&self, member: Member) -> bool {
        self.outline(member).is_some()
    }

    /// The member that decides what this is about and is there twice, or in letters
    /// of another case: peers do not agree which of those counts.
    pub fn ambiguous(&self) -> Option<Member> {
        DECISIVE.iter().copied().find(|it| self.is_ambiguous(*it))
    }

    /// Whether this member is there twice, or in letters of another case.
    pub fn is_ambiguous(&self, member: Member) -> bool {
        self.parsed.members().ambiguous >> (member as u8) & 1 == 1
    }
}

impl Parsed {
    /// Whether the id is a number such as `7.0`.
    fn has_decimal_id(&self) -> bool {
        !matches!(self.id, Some(Id::Text(_))) && self.text[self.id_at.clone()].contains(&b'.')
    }

    fn payload(&self) -> Option<&[u8]> {
        self.payload.clone().map(|place| &self.text[place])
    }

    fn members(&self) -> &Members {
        self.members.get_or_init(|| {
            let mut members = Members::default();
            // Text that cannot be read has no members.
            _ = self.payload().map(|payload| members.read(&mut Walker::new(payload)));
            members
        })
    }

    fn get(&self, member: Member) -> Option<&[u8]> {
        let place = self.members().place(member)?;
        self.payload().map(|payload| &payload[place])
    }
}

/// The string that this JSON text is, if it is one.
pub(crate) fn as_string(text: &[u8]) -> Option<Cow<'_, str>> {
    let body = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescape(body))
}

fn wrong(why: &'static str) -> Refusal {
    Refusal::NotJsonRpc { why }
}

impl From<Refusal> for InvalidMessage {
    fn from(why: Refusal) -> Self {
        Self { id: None, why }
    }
}

// The members of a payload that anybody routes by or changes, found while the text is walked.
// A payload is the params of a request or notification, the result of an answer, or its error.

/// Declares [`Member`] and [`ObjectLevel`]: each member with the object it is in and its key there.
macro_rules! members {
    ($($level:ident { $($(#[$doc:meta])* $member:ident = $key:expr,)* })*) => {
        /// A member that a [`Message`](Message) can be asked for.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u8)]
        pub enum Member { $($($(#[$doc])* $member,)*)* }

        /// An object whose members are looked at.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        enum ObjectLevel { $($level,)* }

        impl ObjectLevel {
            const ALL: &[Self] = &[$(Self::$level,)*];
        }

        impl Member {
            /// How many there are.
            const COUNT: usize = [$($(Self::$member,)*)*].len();

            /// The object that it is in, and its key there.
            fn place(self) -> (ObjectLevel, &'static str) {
                match self { $($(Self::$member => (ObjectLevel::$level, $key),)*)* }
            }

            fn find(level: ObjectLevel, key: &[u8]) -> Option<Self> {
                match level {
                    $(ObjectLevel::$level => {
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

impl ObjectLevel {
    /// The member that this object is, if it is not the payload itself.
    fn member(self) -> Option<Member> {
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
    fn opens(self) -> Option<ObjectLevel> {
        ObjectLevel::ALL.iter().copied().find(|level| level.member() == Some(self))
    }

    /// Its key.
    pub fn key(self) -> &'static str {
        self.place().1
    }

    /// The keys that lead to it, from the payload on.
    fn path(self) -> Vec<&'static str> {
        let (level, key) = self.place();
        let mut path = level.member().map_or_else(Vec::new, Self::path);
        path.push(key);
        path
    }

    /// Whether it is inside `outer`.
    fn is_inside(self, outer: Self) -> bool {
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
struct Members {
    /// Where the payload begins in what was walked; places are counted from there.
    from: usize,
    found: Vec<FoundMember>,
    /// A bit for each member that is there twice, or in letters of another case.
    ambiguous: u64,
}

#[derive(Clone, Copy, Debug)]
struct FoundMember {
    member: Member,
    start: u32,
    end: u32,
}

impl Members {
    /// Walks over the value that is next, the payload of a message, and notes its members.
    fn read(&mut self, walker: &mut Walker<'_>) -> Result<(), Fault> {
        self.from = walker.position();
        self.found.clear();
        self.ambiguous = 0;
        if walker.is_at_object() {
            self.walk(walker, ObjectLevel::Payload, 1)
        } else {
            walker.value(1)
        }
    }

    fn walk(&mut self, text: &mut Walker<'_>, level: ObjectLevel, depth: u32) -> Result<(), Fault> {
        let mut seen = 0_u64;
        let mut more = text.open(b'{', b'}')?;
        while more {
            let key = text.key()?;
            let member = Member::find(level, &key.plain());
            // Peers do not agree which counts of two members, or whether case does.
            let near = |it: &Member| it.place().0 == level && key.resembles(it.key());
            if let Some(meant) = member.or_else(|| DECISIVE.iter().copied().find(near)) {
                let bit = 1 << meant as u8;
                if member.is_none() || seen & bit != 0 {
                    self.ambiguous |= bit;
                }
                seen |= bit;
            }
            let start = text.position();
            match member.and_then(Member::opens).filter(|_| text.is_at_object()) {
                Some(inner) => {
                    self.forget(inner);
                    self.walk(text, inner, depth + 1)?;
                }
                None => text.value(depth + 1)?,
            }
            if let Some(member) = member {
                self.set(member, start, text.position());
            }
            more = text.more(b'}')?;
        }
        Ok(())
    }

    /// The last of equal members counts, as in every SDK's parser.
    fn set(&mut self, member: Member, start: usize, end: usize) {
        let place = |at: usize| u32::try_from(at - self.from).unwrap_or(u32::MAX);
        let found = FoundMember { member, start: place(start), end: place(end) };
        if let Some(before) = self.found.iter_mut().find(|it| it.member == member) {
            *before = found;
            return;
        }
        if self.found.capacity() == 0 {
            // Room for all that most messages have.
            self.found.reserve(8);
        }
        self.found.push(found);
    }

    /// Another object takes the place of the one whose members these are.
    fn forget(&mut self, level: ObjectLevel) {
        if let Some(object) = level.member() {
            self.found.retain(|it| !it.member.is_inside(object));
        }
    }

    /// Where a member's value is in the payload.
    fn place(&self, member: Member) -> Option<Range<usize>> {
        let found = self.found.iter().find(|it| it.member == member)?;
        Some(found.start as usize..found.end as usize)
    }
}

#[cfg(test)]
mod tests;
