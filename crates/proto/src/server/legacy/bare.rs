//! A client without a session: it is there for one request, and for its answer.
//!
//! What would be told it later, asked of it, or remembered for it cannot be
//! offered (GW-11): changes of lists, watched resources, the level of log
//! records, tasks, questions. The server hears nothing of all that.

use bytes::Bytes;

use super::Legacy;
use super::stand::revision_in;
use crate::jsonrpc::{Kind, Member, Message, Part};
use crate::method;
use crate::refusal::Refusal;

/// Capabilities that are for sessions only: where they stand, and their names.
const OF_SESSIONS: [(&[&str], &[&str]); 4] = [
    (&[], &["logging", "tasks"]),
    (&["prompts"], &["listChanged"]),
    (&["resources"], &["listChanged", "subscribe"]),
    (&["tools"], &["listChanged"]),
];

impl Legacy {
    /// The client has no session. To be said before anything else.
    pub fn go_bare(&mut self) {
        self.bare = true;
        self.streams.forget_all();
    }

    /// Whether the client has no session.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Why a request makes no sense without a session, if it makes none.
    pub(super) fn needs_session(&self, request: &Message) -> Option<Refusal> {
        let needs = self.bare && method::needs_session(request.method());
        needs.then(|| Refusal::UnknownMethod { method: request.method().to_owned() })
    }

    /// Who greets in the stead of a client says what that speaks. It hears nothing
    /// of the answer, so that changes nothing.
    pub(super) fn note_greeting(&mut self, request: &Message) {
        self.note_abilities(request);
        if self.bare {
            self.revision = revision_in(request);
        }
    }

    /// A request without what only a session could be told of.
    pub(super) fn for_server(&self, request: Message) -> Message {
        match request.method() {
            _ if !self.bare || request.payload().is_none() => request,
            method::INITIALIZE => request.with(Member::Capabilities, "{}"),
            method::CALL_TOOL => request.without(Member::Task),
            _ => request,
        }
    }

    /// A welcome as the client is to have it.
    pub(super) fn for_client(&self, welcome: &Message) -> Message {
        let all = welcome.get(Member::Capabilities);
        let Some(all) = all.filter(|_| self.bare && welcome.kind() == Kind::Result) else {
            return welcome.clone();
        };
        let mut all = Bytes::copy_from_slice(all);
        for (path, names) in OF_SESSIONS {
            all = Part::new(&all).without(path, names).unwrap_or_else(|| all.clone());
        }
        welcome.with(Member::Capabilities, all)
    }
}
