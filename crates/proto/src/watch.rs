//! Which resources are watched, and for whom.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashSet};

/// Resources that are watched through one link: more than this is a mistake of the
/// client. What is not counted here must not be watched.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_uri: BTreeMap<Box<str>, BTreeMap<u64, Watch>>,
}

/// What one owner has of a resource: one of these at least.
#[derive(Debug, Default)]
struct Watch {
    granted: bool,
    /// Calls that ask for it.
    asked: BTreeSet<u64>,
}

impl Watch {
    fn is_over(&self) -> bool {
        !self.granted && self.asked.is_empty()
    }
}

impl Watches {
    /// Whether all of these can be watched besides the rest.
    pub(crate) fn have_room<'a>(&self, uris: impl Iterator<Item = &'a str>) -> bool {
        let new: HashSet<&str> = uris.filter(|&uri| !self.by_uri.contains_key(uri)).collect();
        self.by_uri.len() + new.len() <= MOST
    }

    /// It is watched, if there is room for it.
    pub(crate) fn add(&mut self, uri: &str, owner: u64) {
        if let Some(watch) = self.watch(uri, owner) {
            watch.granted = true;
        }
    }

    /// A call asks for it, if there is room for it.
    pub(crate) fn ask(&mut self, uri: &str, owner: u64, call: u64) {
        if let Some(watch) = self.watch(uri, owner) {
            watch.asked.insert(call);
        }
    }

    fn watch(&mut self, uri: &str, owner: u64) -> Option<&mut Watch> {
        let has_room = self.have_room(std::iter::once(uri));
        has_room.then(|| self.by_uri.entry(uri.into()).or_default().entry(owner).or_default())
    }

    /// What a call asked for is granted, or not.
    pub(crate) fn settle(&mut self, uri: &str, owner: u64, call: u64, is_granted: bool) {
        let Some(owners) = self.by_uri.get_mut(uri) else { return };
        let Entry::Occupied(mut watch) = owners.entry(owner) else { return };
        if !watch.get_mut().asked.remove(&call) {
            // It was taken back meanwhile.
            return;
        }
        watch.get_mut().granted |= is_granted;
        if watch.get().is_over() {
            watch.remove();
        }
        if owners.is_empty() {
            self.by_uri.remove(uri);
        }
    }

    /// No call is open any more: what was asked for is not granted.
    pub(crate) fn settle_all(&mut self) {
        self.by_uri.retain(|_, owners| {
            owners.retain(|_, watch| {
                watch.asked.clear();
                watch.granted
            });
            !owners.is_empty()
        });
    }

    /// True if nobody watches it any more.
    pub(crate) fn remove(&mut self, uri: &str, owner: u64) -> bool {
        let Some(owners) = self.by_uri.get_mut(uri) else { return true };
        owners.remove(&owner);
        let last = owners.is_empty();
        if last {
            self.by_uri.remove(uri);
        }
        last
    }

    /// An owner is gone: what nobody watches any more.
    pub(crate) fn forget(&mut self, owner: u64) -> Vec<Box<str>> {
        let mut orphans = Vec::new();
        self.by_uri.retain(|uri, owners| {
            if owners.remove(&owner).is_some() && owners.is_empty() {
                orphans.push(uri.clone());
            }
            !owners.is_empty()
        });
        orphans
    }

    pub(crate) fn uris(&self) -> impl Iterator<Item = &str> {
        self.by_uri.keys().map(|uri| &**uri)
    }
}
