//! One process for everybody: clients of both eras, and ourselves.
//!
//! What is spoken there is settled by whoever comes first. A layer translates for
//! the clients of the other era; those of the server's own pass by it.

use switchboard_proto::revision::Era;

use super::{Bridge, Children, Whose};
use crate::face::lock;
use crate::upstream::Target;

impl Bridge {
    /// Whether everybody goes by one connection.
    pub fn is_common(&self) -> bool {
        let is_process = matches!(self.server.target(), Target::Command(_));
        self.children == Children::Shared && is_process && self.server.passes().is_empty()
    }

    /// What is spoken on the connection that all share, if there is one.
    pub(crate) fn common_era(&self) -> Option<Era> {
        lock(&self.state).connections.get(&Whose::Everybody).map(|upstream| upstream.era())
    }

    /// The process that all share did not come up as it should: the next attempt
    /// is with another, unless somebody uses this one.
    pub(crate) fn begin_anew(&self) {
        if !self.is_common() {
            return;
        }
        let mut state = lock(&self.state);
        let is_met = state.connections.get(&Whose::Everybody).is_some_and(|it| it.is_met());
        if !is_met
            && state.is_quiet()
            && let Some(upstream) = state.connections.remove(&Whose::Everybody)
        {
            // Nobody knows it yet, nor what it speaks.
            return state.close(async move { upstream.close().await });
        }
        state.rest();
    }

    /// Whether there is a process that all share.
    pub fn is_running(&self) -> bool {
        let state = lock(&self.state);
        state.connections.get(&Whose::Everybody).is_some_and(|upstream| upstream.is_linked())
    }
}
