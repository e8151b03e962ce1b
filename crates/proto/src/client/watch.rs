//! Which resources are watched, and for whom.

use std::collections::{BTreeMap, BTreeSet};

/// Resources one server is asked to watch. Bounded: watching more than this
/// through one link is a mistake of the client, and costs only a renewal.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Watches {
    by_uri: BTreeMap<Box<str>, BTreeSet<u64>>,
}

impl Watches {
    pub(super) fn add(&mut self, uri: &str, owner: u64) {
        if self.by_uri.len() < MOST || self.by_uri.contains_key(uri) {
            self.by_uri.entry(uri.into()).or_default().insert(owner);
        }
    }

    /// True if nobody watches it any more.
    pub(super) fn remove(&mut self, uri: &str, owner: u64) -> bool {
        let Some(owners) = self.by_uri.get_mut(uri) else { return true };
        owners.remove(&owner);
        let last = owners.is_empty();
        if last {
            self.by_uri.remove(uri);
        }
        last
    }

    /// An owner is gone: what nobody watches any more.
    pub(super) fn forget(&mut self, owner: u64) -> Vec<Box<str>> {
        let mut orphans = Vec::new();
        self.by_uri.retain(|uri, owners| {
            if owners.remove(&owner) && owners.is_empty() {
                orphans.push(uri.clone());
            }
            !owners.is_empty()
        });
        orphans
    }

    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.by_uri.keys().map(|uri| &**uri)
    }
}
