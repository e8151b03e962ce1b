//! What there is to count about a bridge.

use super::Bridge;
use crate::face::lock;
use crate::upstream::{Server, Upstream};

impl Bridge {
    /// How many calls are open at the server, or wait to be made.
    pub fn calls(&self) -> usize {
        let state = lock(&self.state);
        let open: usize = state.connections.values().map(|upstream| upstream.calls()).sum();
        let waiting = state.waiting.calls();
        drop(state);
        open + waiting + self.queued()
    }

    /// How many messages wait to be written to the server.
    pub fn unsent(&self) -> usize {
        let upstreams: Vec<_> = lock(&self.state).connections.values().cloned().collect();
        upstreams.iter().map(|upstream| Upstream::unsent(upstream)).sum()
    }

    /// How many connections to the server there are.
    pub fn connections(&self) -> usize {
        lock(&self.state).connections.len()
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }
}
