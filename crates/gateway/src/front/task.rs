//! Tasks of many servers, under ids of ours.
//!
//! ```text
//!   a call becomes a task ──▶ an id of ours, bound to who made the call
//!   tasks/get, result, cancel, update ──▶ its server, under the server's id
//!   tasks/list ──▶ one server after the other: a cursor says whose turn it is
//!   what is said about a task ──▶ under our id, to its owner alone
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use switchboard_net::backend::PendingWork;
use switchboard_net::call::Call;
use switchboard_net::connection::ClientConnection;
use switchboard_proto::exchange::HeaderParams;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{ItemAction, Kind, Member, Message, Part};
use switchboard_proto::limits::MAX_ID;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::{Front, id};
use crate::merge::TASKS;
use crate::route::Nowhere;

pub(crate) use table::Tasks;

mod table;

/// What the answer to a call has to do with tasks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum TaskReply {
    /// It may be a task that was made.
    Create,
    /// It is about one.
    About,
    /// It is a list of them, and goes on with those of these servers.
    List(Vec<Arc<str>>),
}

impl TaskReply {
    /// What a request has to do with tasks, if anything.
    pub(super) fn of(
        request: &Message,
        era: Era,
        servers: impl FnOnce() -> Vec<Arc<str>>,
    ) -> Option<Self> {
        match (request.method(), era) {
            (method::CALL_TOOL, Era::Legacy) => request.has(Member::Task).then_some(Self::Create),
            (method::CALL_TOOL, Era::Modern) => declares(request).then_some(Self::Create),
            (method::LIST_TASKS, _) => Some(Self::List(servers())),
            (
                method::GET_TASK | method::CANCEL_TASK | method::TASK_RESULT | method::UPDATE_TASK,
                _,
            ) => Some(Self::About),
            _ => None,
        }
    }
}

/// Whether a modern client says with a request that it takes tasks.
fn declares(request: &Message) -> bool {
    let settings = request.inside(Member::MetaCapabilities, &["extensions", TASKS]);
    settings.is_some_and(Part::is_object)
}

impl Front {
    /// A request about tasks: to the server whose they are.
    pub(super) fn task(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: &Message,
        said: HeaderParams,
    ) -> PendingWork {
        let is_known = match (request.method(), client.era()) {
            (method::TASK_RESULT | method::LIST_TASKS, era) => era == Era::Legacy,
            (method::UPDATE_TASK, era) => era == Era::Modern,
            (name, _) => matches!(name, method::GET_TASK | method::CANCEL_TASK),
        };
        if !is_known || !self.has_tasks(client.era()) {
            let method = request.method().to_owned();
            client.turn_away(call.exchange(), request.id(), &Refusal::UnknownMethod { method });
            return PendingWork::none();
        }
        if client.era() == Era::Modern && !declares(request) {
            let needed = json!({"extensions": {TASKS: {}}});
            client.turn_away(call.exchange(), request.id(), &Refusal::NeedsMore { needed });
            return PendingWork::none();
        }
        let meant = match request.method() {
            method::LIST_TASKS => self.whose_turn(client, request),
            _ => self.whose_task(client, request).map(Some),
        };
        match meant {
            Ok(Some((server, request))) => self.forward(client, call, &server, request, said),
            Ok(None) => {
                call.finish(Message::result(id(request), br#"{"tasks":[]}"#));
                PendingWork::none()
            }
            Err(nowhere) => {
                let answer = Message::error(request.id(), &nowhere.error(client.era()));
                call.finish(answer);
                PendingWork::none()
            }
        }
    }

    /// Whether any server has tasks that clients of this era can use.
    pub(super) fn has_tasks(&self, era: Era) -> bool {
        let all = self.capabilities(era);
        match era {
            Era::Legacy => all.get("tasks").is_some(),
            Era::Modern => all["extensions"].get(TASKS).is_some(),
        }
    }

    /// The server of a client's task, and its id there, if the server is one of ours.
    pub(super) fn own_task(
        &self,
        client: &ClientConnection,
        ours: &str,
    ) -> Option<(Arc<str>, String)> {
        let found = self.fleet.tasks.find(client, ours);
        found.filter(|(server, _)| self.members().contains(server))
    }

    /// Our servers at which a client has tasks, by name.
    pub(super) fn task_servers(&self, client: &ClientConnection) -> Vec<Arc<str>> {
        let mut servers = self.fleet.tasks.servers(client);
        let members = self.members();
        servers.retain(|server| members.contains(server));
        servers
    }

    /// The server of a task, and the request in its words.
    fn whose_task(
        &self,
        client: &ClientConnection,
        request: &Message,
    ) -> Result<(Arc<str>, Message), Nowhere> {
        let ours = request.task_id().ok_or(Nowhere::Params { member: Member::TaskId.key() })?;
        let found = self.own_task(client, &ours);
        let unknown = || Nowhere::Unknown { what: "task", name: ours.into_owned() };
        let (server, theirs) = found.ok_or_else(unknown)?;
        Ok((server, request.with_string(Member::TaskId, &theirs)))
    }

    /// The server whose tasks are next in a list; none if the client has no tasks.
    fn whose_turn(
        &self,
        client: &ClientConnection,
        request: &Message,
    ) -> Result<Option<(Arc<str>, Message)>, Nowhere> {
        let servers = self.task_servers(client);
        let (server, theirs) = match request.part(Member::Cursor) {
            None => match servers.first() {
                Some(first) => (Arc::clone(first), None),
                None => return Ok(None),
            },
            Some(cursor) => {
                let cursor = cursor.as_string();
                let read = cursor.as_deref().and_then(|cursor| read_cursor(cursor, &servers));
                read.ok_or(Nowhere::Params { member: "cursor" })?
            }
        };
        let request = match theirs {
            Some(cursor) => request.with_string(Member::Cursor, &cursor),
            None => request.without(Member::Cursor),
        };
        Ok(Some((server, request)))
    }
}

impl Tasks {
    /// An answer under ids of ours.
    pub(super) fn renamed(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        task_reply: &TaskReply,
        answer: &Message,
    ) -> Result<Message, Failure> {
        if answer.kind() != Kind::Result {
            return Ok(answer.clone());
        }
        Ok(match task_reply {
            TaskReply::Create => self.created(client, server, answer)?,
            TaskReply::About => [Member::TaskId, Member::RelatedTaskId]
                .into_iter()
                .find_map(|member| self.under_ours(client, server, answer, member))
                .unwrap_or_else(|| answer.clone()),
            TaskReply::List(servers) => of_ours(self, client, server, answer, servers),
        })
    }

    /// The answer with our id of a new task, if it is one. The server's id is kept for
    /// as long as the task is known, so its length has a bound.
    fn created(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        answer: &Message,
    ) -> Result<Message, Failure> {
        let (member, is_task) = match client.era() {
            Era::Legacy => (Member::NewTaskId, true),
            Era::Modern => (Member::TaskId, answer.result_type().as_deref() == Some("task")),
        };
        let Some(theirs) = answer.string(member).filter(|_| is_task) else {
            return Ok(answer.clone());
        };
        if theirs.len() > MAX_ID {
            return Err(Failure::TooLarge { what: "the server's task id", limit: MAX_ID });
        }
        Ok(answer.with_string(member, &self.put(client, server, &theirs)))
    }

    /// What a server says, under our id; none if it is about a task of somebody else.
    pub(super) fn told<'m>(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        message: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let ours = |member| self.under_ours(client, server, message, member).map(Cow::Owned);
        if matches!(message.method(), method::TASK_STATUS | method::TASK_CHANGED) {
            return ours(Member::TaskId);
        }
        let ours = if self.is_empty() { None } else { ours(Member::RelatedTaskId) };
        ours.or(Some(Cow::Borrowed(message)))
    }

    /// What a client answers, under the server's id.
    pub(super) fn given<'m>(
        &self,
        client: &ClientConnection,
        answer: &'m Message,
    ) -> Cow<'m, Message> {
        let found = || self.find(client, &answer.related_task()?);
        match if self.is_empty() { None } else { found() } {
            Some((_, theirs)) => Cow::Owned(answer.with_string(Member::RelatedTaskId, &theirs)),
            None => Cow::Borrowed(answer),
        }
    }

    /// The message with our id as `member`; none if there is none there, or of a task of somebody else.
    fn under_ours(
        &self,
        client: &ClientConnection,
        server: &Arc<str>,
        message: &Message,
        member: Member,
    ) -> Option<Message> {
        let ours = self.ours(client, server, &message.string(member)?)?;
        Some(message.with_string(member, &ours))
    }
}

/// The server and its own cursor.
fn read_cursor(cursor: &str, servers: &[Arc<str>]) -> Option<(Arc<str>, Option<String>)> {
    let (length, rest) = cursor.split_once(':')?;
    let (name, theirs) = rest.split_at_checked(length.parse().ok()?)?;
    let server = servers.iter().find(|server| ***server == *name)?;
    Some((Arc::clone(server), (!theirs.is_empty()).then(|| theirs.to_owned())))
}

fn written(server: &str, theirs: &str) -> String {
    format!("{}:{server}{theirs}", server.len())
}

/// Where the list goes on after this page of `server`, if it does.
fn next_cursor(server: &str, page: &Message, servers: &[Arc<str>]) -> Option<String> {
    let theirs = page.string(Member::NextCursor).filter(|cursor| !cursor.is_empty());
    match theirs {
        Some(theirs) => Some(written(server, &theirs)),
        None => servers.iter().find(|other| ***other > *server).map(|next| written(next, "")),
    }
}

/// The page with this client's tasks alone, under our ids.
fn of_ours(
    tasks: &Tasks,
    client: &ClientConnection,
    server: &Arc<str>,
    page: &Message,
    servers: &[Arc<str>],
) -> Message {
    if !page.part(Member::Tasks).is_some_and(Part::is_list) {
        return page.clone();
    }
    let id = Member::TaskId.key();
    let under_ours = |task: Part<'_>| {
        let ours = tasks.ours(client, server, &task.string(id)?)?;
        task.with_string(id, &ours)
    };
    let ours = page.with_list(Member::Tasks, |task| {
        under_ours(task).map_or(ItemAction::Drop, ItemAction::Replace)
    });
    match next_cursor(server, page, servers) {
        Some(next) => ours.with_string(Member::NextCursor, &next),
        None => ours.without(Member::NextCursor),
    }
}

#[cfg(test)]
mod list_tests {
    use switchboard_proto::jsonrpc::Id;

    use super::*;

    #[test]
    fn a_list_goes_on_with_the_next_server_where_one_has_ended() {
        let servers: Vec<Arc<str>> = ["a", "b:1"].map(Arc::from).to_vec();
        let next_cursor = |server, page: &str| {
            next_cursor(server, &Message::result(&Id::Integer(1), page.as_bytes()), &servers)
        };
        let more = next_cursor("a", r#"{"tasks":[],"nextCursor":"x:1"}"#).unwrap();
        assert_eq!(read_cursor(&more, &servers), Some(("a".into(), Some("x:1".to_owned()))));
        let next = next_cursor("a", r#"{"tasks":[]}"#).unwrap();
        assert_eq!(read_cursor(&next, &servers), Some(("b:1".into(), None)));
        assert_eq!(next_cursor("b:1", "{}"), None);
        for wrong in ["", "a", "1:z", "9:a", "x:a", "2:é"] {
            assert_eq!(read_cursor(wrong, &servers), None, "{wrong}");
        }
    }
}
