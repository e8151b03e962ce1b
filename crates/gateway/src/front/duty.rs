//! What is left to do with the answer to a call.

use std::sync::Arc;

use switchboard_net::roster::Kind;
use switchboard_proto::jsonrpc::Message;

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
