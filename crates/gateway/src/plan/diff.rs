//! What differs between two plans.

use super::{Bounds, Listen, Plan};

/// What a reload has to do. Names are in alphabetical order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Servers to start.
    pub added: Vec<String>,
    /// Servers to stop, once their calls are over.
    pub removed: Vec<String>,
    /// Servers that must be started anew: another place, process, credentials or
    /// time for a call.
    pub changed: Vec<String>,
    /// Servers that go on as they are, and of which clients see something else,
    /// or which have other limits.
    pub adjusted: Vec<String>,
    /// Whoever has the same name, and may use something else.
    pub regranted: Vec<String>,
    /// Whether groups, keys, grants, search or tools of ours differ.
    pub policy: bool,
    /// Whether other web pages or names are let in, or other bounds kept.
    pub bounds: bool,
    /// Whether the listener itself must be another, which a running gateway cannot
    /// do: its address, its connections, the heads that it reads.
    pub listen: bool,
}

impl Changes {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Plan {
    /// What a listener is made of, once.
    fn socket(&self) -> impl PartialEq {
        let Listen { host, port, unauthenticated, .. } = self.listen.clone();
        let Bounds { connections, connections_each, head, .. } = self.bounds;
        (host, port, unauthenticated, connections, connections_each, head)
    }

    /// What leads from `old` to this plan.
    pub fn diff(&self, old: &Self) -> Changes {
        let mut changes = Changes {
            policy: self.groups != old.groups
                || self.access != old.access
                || self.search != old.search
                || self.diagnostics != old.diagnostics,
            bounds: self.listen != old.listen || self.bounds != old.bounds,
            listen: self.socket() != old.socket(),
            regranted: self.access.regranted(&old.access),
            ..Changes::default()
        };
        for (name, server) in &self.servers {
            match old.servers.get(name) {
                None => changes.added.push(name.clone()),
                Some(before) if server == before => {}
                Some(before) if server.runs_as(before) => changes.adjusted.push(name.clone()),
                Some(_) => changes.changed.push(name.clone()),
            }
        }
        let gone = old.servers.keys().filter(|name| !self.servers.contains_key(*name));
        changes.removed.extend(gone.cloned());
        changes
    }
}
