//! What there is to count about each server of a fleet.

use std::sync::Arc;

use switchboard_net::roster::Kind;
use switchboard_net::upstream::Traffic;
use switchboard_proto::patch;

use super::Fleet;

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
    /// Whether a server is known to have a tool of this name.
    pub(super) fn has_tool(&self, server: &str, tool: &str) -> bool {
        let tools = self.roster.definitions(Kind::Tools);
        let mut tools = tools.iter().filter(|it| &*it.server == server);
        tools.any(|it| patch::string(&it.text, &["name"]).is_some_and(|name| name == tool))
    }

    /// What there is to count about each server, by name.
    pub fn gauges(&self) -> Vec<Gauges> {
        let gauges = |(name, backend): (&Arc<str>, &Arc<super::Backend>)| Gauges {
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
