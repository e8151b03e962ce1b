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

use serde_json::{Value, json};
use switchboard_net::face::Face;
use switchboard_net::inside::Works;
use switchboard_proto::exchange::{Exchange, Said};
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::limits::MAX_ID;
use switchboard_proto::method::{self, meta};
use switchboard_proto::patch;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use super::{Front, id};
use crate::merge::TASKS;
use crate::route::Nowhere;
use list::{next_cursor, read_cursor};
pub(crate) use table::Tasks;

mod list;
mod table;

/// Where messages say which task they are about.
const RELATED: [&str; 3] = ["_meta", meta::RELATED_TASK, "taskId"];
const ID: &str = "taskId";

/// What the answer to a call has to do with tasks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Errand {
    /// It may be a task that was made.
    Create,
    /// It is about one.
    About,
    /// It is a list of them, and goes on with those of these servers.
    List(Vec<Arc<str>>),
}

impl Errand {
    /// What a request has to do with tasks, if anything.
    pub(super) fn of(
        request: &Message,
        era: Era,
        servers: impl FnOnce() -> Vec<Arc<str>>,
    ) -> Option<Self> {
        let params = request.payload().unwrap_or_default();
        match (request.method(), era) {
            (method::CALL_TOOL, Era::Legacy) => patch::get(params, &["task"]).map(|_| Self::Create),
            (method::CALL_TOOL, Era::Modern) => declares(params).then_some(Self::Create),
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
fn declares(params: &[u8]) -> bool {
    let path = ["_meta", meta::CAPABILITIES, "extensions", TASKS];
    patch::get(params, &path).is_some_and(|settings| settings.starts_with(b"{"))
}

impl Front {
    /// A request about tasks: to the server whose they are.
    pub(super) fn task(
        &self,
        face: &Arc<Face>,
        exchange: Exchange,
        request: &Message,
        said: Said,
    ) -> Works {
        let params = request.payload().unwrap_or_default();
        let is_known = match (request.method(), face.era()) {
            (method::TASK_RESULT | method::LIST_TASKS, era) => era == Era::Legacy,
            (method::UPDATE_TASK, era) => era == Era::Modern,
            (name, _) => matches!(name, method::GET_TASK | method::CANCEL_TASK),
        };
        if !is_known || !self.has_tasks(face.era()) {
            let method = request.method().to_owned();
            face.turn_away(exchange, request.id(), &Refusal::UnknownMethod { method });
            return Works::none();
        }
        if face.era() == Era::Modern && !declares(params) {
            let needed = json!({"extensions": {TASKS: {}}});
            face.turn_away(exchange, request.id(), &Refusal::NeedsMore { needed });
            return Works::none();
        }
        let meant = match request.method() {
            method::LIST_TASKS => self.whose_turn(face, request),
            _ => self.whose_task(face, request).map(Some),
        };
        match meant {
            Ok(Some((server, request))) => self.forward(face, exchange, &server, request, said),
            Ok(None) => {
                face.finish(exchange, &Message::result(id(request), br#"{"tasks":[]}"#));
                Works::none()
            }
            Err(nowhere) => {
                let answer = Message::error(request.id(), &nowhere.error(face.era()));
                face.finish(exchange, &answer);
                Works::none()
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
    pub(super) fn own_task(&self, face: &Face, ours: &str) -> Option<(Arc<str>, String)> {
        let found = self.fleet.tasks.find(face, ours);
        found.filter(|(server, _)| self.members().contains(server))
    }

    /// Our servers at which a client has tasks, by name.
    pub(super) fn task_servers(&self, face: &Face) -> Vec<Arc<str>> {
        let mut servers = self.fleet.tasks.servers(face);
        let members = self.members();
        servers.retain(|server| members.contains(server));
        servers
    }

    /// The server of a task, and the request in its words.
    fn whose_task(&self, face: &Face, request: &Message) -> Result<(Arc<str>, Message), Nowhere> {
        let params = request.payload().unwrap_or_default();
        let ours = patch::string(params, &[ID]).ok_or(Nowhere::Params { member: ID })?;
        let unknown = || Nowhere::Unknown { what: "task", name: ours.clone().into_owned() };
        let found = self.own_task(face, &ours);
        let (server, theirs) = found.ok_or_else(unknown)?;
        let theirs = Value::from(theirs).to_string();
        let params = patch::replace(params, &[ID], theirs.as_bytes()).ok_or_else(unknown)?;
        Ok((server, request.with_payload(&params)))
    }

    /// The server whose tasks are next in a list; none if the client has no tasks.
    fn whose_turn(
        &self,
        face: &Face,
        request: &Message,
    ) -> Result<Option<(Arc<str>, Message)>, Nowhere> {
        let params = request.payload().unwrap_or(b"{}");
        let servers = self.task_servers(face);
        let (server, theirs) = match patch::get(params, &["cursor"]) {
            None => match servers.first() {
                Some(first) => (Arc::clone(first), None),
                None => return Ok(None),
            },
            Some(cursor) => {
                let cursor = patch::as_string(cursor);
                let read = cursor.as_deref().and_then(|cursor| read_cursor(cursor, &servers));
                read.ok_or(Nowhere::Params { member: "cursor" })?
            }
        };
        let params =
            patch::without(params, &[], &["cursor"]).unwrap_or_else(|| params.to_vec().into());
        let params = match theirs {
            Some(cursor) => {
                let cursor = Value::from(cursor).to_string();
                patch::put(&params, &[], "cursor", cursor.as_bytes()).unwrap_or(params)
            }
            None => params,
        };
        Ok(Some((server, request.with_payload(&params))))
    }
}

impl Tasks {
    /// An answer under ids of ours.
    pub(super) fn renamed(
        &self,
        face: &Face,
        server: &Arc<str>,
        errand: &Errand,
        answer: &Message,
    ) -> Message {
        let Some(result) = answer.payload().filter(|_| answer.kind() == Kind::Result) else {
            return answer.clone();
        };
        let changed = match errand {
            Errand::Create => match self.created(face, server, result) {
                Ok(changed) => changed,
                Err(why) => return Message::refusal(answer.id(), &why),
            },
            Errand::About => [&[ID][..], &RELATED]
                .iter()
                .find_map(|path| self.under_ours(face, server, result, path)),
            Errand::List(servers) => {
                let next = next_cursor(server, result, servers);
                list::of_ours(self, face, server, result, next)
            }
        };
        changed.map_or_else(|| answer.clone(), |result| answer.with_payload(&result))
    }

    /// The answer with our id of a new task, if it is one. The server's id is kept for
    /// as long as the task is known, so its length has a bound.
    fn created(
        &self,
        face: &Face,
        server: &Arc<str>,
        result: &[u8],
    ) -> Result<Option<bytes::Bytes>, Refusal> {
        let path: &[&str] = match face.era() {
            Era::Legacy => &["task", ID],
            Era::Modern => &[ID],
        };
        let kind = patch::string(result, &["resultType"]);
        if face.era() == Era::Modern && kind.as_deref() != Some("task") {
            return Ok(None);
        }
        let Some(theirs) = patch::string(result, path) else { return Ok(None) };
        if theirs.len() > MAX_ID {
            let text = format!("the server's task id is longer than {MAX_ID} bytes");
            return Err(Refusal::FarSide { text });
        }
        let ours = Value::from(self.put(face, server, &theirs)).to_string();
        Ok(patch::replace(result, path, ours.as_bytes()))
    }

    /// What a server says, under our id; none if it is about a task of somebody else.
    pub(super) fn told<'m>(
        &self,
        face: &Face,
        server: &Arc<str>,
        message: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let params = message.payload().unwrap_or_default();
        if matches!(message.method(), method::TASK_STATUS | method::TASK_CHANGED) {
            let params = self.under_ours(face, server, params, &[ID])?;
            return Some(Cow::Owned(message.with_payload(&params)));
        }
        if self.is_empty() {
            return Some(Cow::Borrowed(message));
        }
        match self.under_ours(face, server, params, &RELATED) {
            Some(params) => Some(Cow::Owned(message.with_payload(&params))),
            None => Some(Cow::Borrowed(message)),
        }
    }

    /// What a client answers, under the server's id.
    pub(super) fn given<'m>(&self, face: &Face, answer: &'m Message) -> Cow<'m, Message> {
        let changed = || {
            let result = answer.payload()?;
            let (_, theirs) = self.find(face, &patch::string(result, &RELATED)?)?;
            let theirs = Value::from(theirs).to_string();
            patch::replace(result, &RELATED, theirs.as_bytes())
        };
        let changed = if self.is_empty() { None } else { changed() };
        changed.map_or(Cow::Borrowed(answer), |result| Cow::Owned(answer.with_payload(&result)))
    }

    /// The text with our id at `path`; none if there is none there, or of a task of somebody else.
    fn under_ours(
        &self,
        face: &Face,
        server: &Arc<str>,
        text: &[u8],
        path: &[&str],
    ) -> Option<bytes::Bytes> {
        let theirs = patch::string(text, path)?;
        let ours = Value::from(self.ours(face, server, &theirs)?).to_string();
        patch::replace(text, path, ours.as_bytes())
    }
}
