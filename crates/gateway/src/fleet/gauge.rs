//! What there is to count about each server of a fleet.

use std::sync::Arc;

use switchboard_net::roster::{Kind, ServerState};
use switchboard_net::upstream::Traffic;

use super::{Backend, Fleet};

/// How much goes on at a server, just now and so far.
#[derive(Clone, Debug)]
pub struct Gauges {
    /// Its name.
    pub server: Arc<str>,
    /// Calls that are open there.
    pub calls: usize,
    /// Calls that wait for it, or for their turn there.
    pub queued: usize,
    /// Messages that wait to be written to it.
    pub unsent: usize,
    /// Connections to it for calls of clients.
    pub connections: usize,
    /// What was counted since it is there.
    pub traffic: Arc<Traffic>,
}

impl Fleet {
    /// Whether a server turns our own connection away, but is asked by people
    /// who show it headers of their own.
    pub fn is_open_to_people(&self, server: &str, state: &ServerState) -> bool {
        let is_refused = |error: &str| ["HTTP 401", "HTTP 403"].iter().any(|it| error.contains(it));
        let is_refused = state.reason.as_deref().is_some_and(is_refused);
        let passes = |it: Arc<Backend>| !it.plan.passes().is_empty();
        is_refused && self.backend(server).is_some_and(passes)
    }

    /// For how many people a server is ready, if it can tell them apart.
    pub fn ready_people(&self, server: &str) -> Option<usize> {
        let backend = self.backend(server).filter(|it| it.plan.knows_people());
        backend.map(|_| self.people.ready(server))
    }

    /// Whether a server is known to have a tool of this name.
    pub(super) fn has_tool(&self, server: &str, tool: &str) -> bool {
        let tools = self.roster.definitions(Kind::Tools);
        let mut tools = tools.iter().filter(|it| &*it.server == server);
        tools.any(|it| it.name() == tool)
            || self.knows_people() && self.people.has_tool(server, tool)
    }

    /// What there is to count about each server, by name.
    pub fn gauges(&self) -> Vec<Gauges> {
        let gauges = |(name, backend): (&Arc<str>, &Arc<Backend>)| Gauges {
            server: Arc::clone(name),
            calls: backend.bridge.calls(),
            queued: backend.bridge.queued(),
            unsent: backend.bridge.unsent(),
            connections: backend.bridge.connections(),
            traffic: Arc::clone(backend.bridge.server().traffic()),
        };
        self.backends().iter().map(gauges).collect()
    }
}
