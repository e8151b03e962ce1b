//! What is changed in a server's words about a call before the client gets them.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use switchboard_net::call::{Asker, Call, ReplyRewrite};
use switchboard_net::face::Face;
use switchboard_net::roster::Kind;
use switchboard_proto::exchange::Ask;
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::Message;

use super::at::At;
use super::session::Session;
use super::task::Errand;
use crate::plan::ServerPlan;
use crate::policy::Grant;
use crate::sight::Sight;

/// What is owed to whoever waits for an answer.
#[derive(Debug)]
pub(super) enum Duty {
    /// It is passed on.
    Plain,
    /// It is a list, of which a part is shown.
    Show(Shown),
    /// It is about tasks.
    Task(Errand),
}

impl From<Option<Errand>> for Duty {
    fn from(errand: Option<Errand>) -> Self {
        errand.map_or(Self::Plain, Self::Task)
    }
}

/// What is shown of a list of one server, by the rules at the time of the call.
#[derive(Debug)]
pub(super) struct Shown {
    kind: Kind,
    plan: Arc<ServerPlan>,
    grant: Grant,
}

impl Shown {
    pub(super) fn new(kind: Kind, plan: &Arc<ServerPlan>, grant: &Grant) -> Self {
        Self { kind, plan: Arc::clone(plan), grant: grant.clone() }
    }

    /// The list without what is hidden.
    pub(super) fn of(&self, answer: &Message) -> Message {
        Sight::new(&self.plan, &self.grant).without_hidden(self.kind, answer)
    }
}

/// The way back of one call: from its server to its client.
pub(super) struct Reply {
    face: Arc<Face>,
    server: Arc<str>,
    at: At,
    duty: Duty,
    /// Keeps the questions that are put to a legacy client.
    session: Weak<Session>,
}

impl Reply {
    pub(super) fn new(face: &Arc<Face>, server: &Arc<str>, at: At, duty: Duty) -> Self {
        let (face, server) = (Arc::clone(face), Arc::clone(server));
        Self { face, server, at, duty, session: Weak::new() }
    }

    /// The same for a client with a session.
    pub(super) fn within(self, session: &Weak<Session>) -> Self {
        Self { session: Weak::clone(session), ..self }
    }

    /// Has `call` answered this way.
    pub(super) fn set_on(self, call: &Call) {
        call.set_rewrite(Arc::new(self));
    }
}

impl ReplyRewrite for Reply {
    fn answer(&self, answer: &Message) -> Outcome {
        self.at.answer(&self.face, &self.server, &self.duty, answer)
    }

    fn note<'m>(&self, message: &'m Message) -> Option<Cow<'m, Message>> {
        self.at.told(&self.face, &self.server, message)
    }

    fn question<'m>(
        &self,
        asker: &Weak<dyn Asker>,
        ask: Ask,
        request: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        let request = self.at.told(&self.face, &self.server, request)?;
        Some(match self.session.upgrade() {
            Some(session) => session.questions.put(asker, ask, request),
            None => request,
        })
    }

    fn recalled(&self, ask: Ask) {
        if let Some(session) = self.session.upgrade() {
            session.questions.remove(ask);
        }
    }
}
