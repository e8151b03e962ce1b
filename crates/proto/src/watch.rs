//! Which resources are watched, and for whom.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Resources that are watched through one link: more than this is a mistake of the
/// client. What is not counted here must not be watched.
const MOST: usize = 4096;

/// Bytes of their URIs.
const MOST_BYTES: usize = 1 << 20;

/// Of both, what one principal may have where several share a link.
const fn share(most: usize) -> usize {
    most - most / 4
}

#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_uri: BTreeMap<Box<str>, BTreeMap<u64, ResourceWatch>>,
    bytes: usize,
    /// What each principal watches: how much, and in how many bytes.
    shares: HashMap<u64, (usize, usize)>,
}

/// Who watches: a client, and a mark of the principal behind it, if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    pub(crate) client: u64,
    principal: Option<u64>,
}

impl Watcher {
    /// The principal is empty if the client shares its link with nobody else.
    pub(crate) fn new(client: u64, principal: &[u8]) -> Self {
        let mut mark = DefaultHasher::new();
        principal.hash(&mut mark);
        Self { client, principal: (!principal.is_empty()).then(|| mark.finish()) }
    }
}

/// What one client has of a resource: granted, or asked for at least.
#[derive(Debug, Default)]
struct ResourceWatch {
    principal: Option<u64>,
    granted: bool,
    /// Calls that ask for it.
    asked: BTreeSet<u64>,
}

impl Watches {
    /// Whether all of these can be watched besides the rest.
    pub(crate) fn have_room<'a>(&self, uris: impl Iterator<Item = &'a str>, who: Watcher) -> bool {
        let uris: HashSet<&str> = uris.collect();
        let new = |is_known: &dyn Fn(&str) -> bool| {
            let new = uris.iter().filter(|uri| !is_known(uri));
            new.fold((0, 0), |(count, bytes), uri| (count + 1, bytes + uri.len()))
        };
        let (count, bytes) = new(&|uri| self.by_uri.contains_key(uri));
        let fits = self.by_uri.len() + count <= MOST && self.bytes + bytes <= MOST_BYTES;
        let Some(principal) = who.principal else { return fits };
        let own = self.shares.get(&principal).copied().unwrap_or_default();
        let is_own =
            |uri: &str| self.by_uri.get(uri).is_some_and(|owners| owners.contains_key(&who.client));
        let (count, bytes) = new(&is_own);
        fits && own.0 + count <= share(MOST) && own.1 + bytes <= share(MOST_BYTES)
    }

    /// It is watched, if there is room for it.
    pub(crate) fn add(&mut self, uri: &str, watcher: Watcher) {
        if let Some(watch) = self.watch(uri, watcher) {
            watch.granted = true;
        }
    }

    /// A call asks for it, if there is room for it.
    pub(crate) fn ask(&mut self, uri: &str, watcher: Watcher, call: u64) {
        if let Some(watch) = self.watch(uri, watcher) {
            watch.asked.insert(call);
        }
    }

    fn watch(&mut self, uri: &str, watcher: Watcher) -> Option<&mut ResourceWatch> {
        if !self.have_room(std::iter::once(uri), watcher) {
            return None;
        }
        if !self.by_uri.contains_key(uri) {
            self.bytes += uri.len();
        }
        let owners = self.by_uri.entry(uri.into()).or_default();
        let watch = owners.entry(watcher.client).or_insert_with(|| {
            if let Some(principal) = watcher.principal {
                let own = self.shares.entry(principal).or_default();
                *own = (own.0 + 1, own.1 + uri.len());
            }
            ResourceWatch { principal: watcher.principal, ..ResourceWatch::default() }
        });
        Some(watch)
    }

    /// What a call asked for is granted, or not.
    pub(crate) fn confirm(&mut self, uri: &str, owner: u64, call: u64, is_granted: bool) {
        let watch = self.by_uri.get_mut(uri).and_then(|owners| owners.get_mut(&owner));
        // It may have been taken back meanwhile.
        let Some(watch) = watch.filter(|watch| watch.asked.contains(&call)) else { return };
        watch.asked.remove(&call);
        watch.granted |= is_granted;
        if !watch.granted && watch.asked.is_empty() {
            self.remove(uri, owner);
        }
    }

    /// No call is open any more: what was asked for is not granted.
    pub(crate) fn end_asking(&mut self) {
        let mut over = Vec::new();
        for (uri, owners) in &mut self.by_uri {
            for (&owner, watch) in owners {
                watch.asked.clear();
                if !watch.granted {
                    over.push((uri.clone(), owner));
                }
            }
        }
        for (uri, owner) in over {
            self.remove(&uri, owner);
        }
    }

    /// True if nobody watches it any more.
    pub(crate) fn remove(&mut self, uri: &str, owner: u64) -> bool {
        let Some(owners) = self.by_uri.get_mut(uri) else { return true };
        if let Some(principal) = owners.remove(&owner).and_then(|watch| watch.principal)
            && let Some(own) = self.shares.get_mut(&principal)
        {
            *own = (own.0 - 1, own.1 - uri.len());
            if own.0 == 0 {
                self.shares.remove(&principal);
            }
        }
        let is_last = owners.is_empty();
        if is_last {
            self.bytes -= uri.len();
            self.by_uri.remove(uri);
        }
        is_last
    }

    /// A client is gone: what nobody watches any more.
    pub(crate) fn forget(&mut self, owner: u64) -> Vec<Box<str>> {
        let own = self.by_uri.iter().filter(|(_, owners)| owners.contains_key(&owner));
        let mut own: Vec<_> = own.map(|(uri, _)| uri.clone()).collect();
        own.retain(|uri| self.remove(uri, owner));
        own
    }

    pub(crate) fn uris(&self) -> impl Iterator<Item = &str> {
        self.by_uri.keys().map(|uri| &**uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(watches: &mut Watches, who: Watcher, uri: impl Fn(usize) -> String) -> usize {
        (0..=MOST)
            .take_while(|number| {
                let uri = uri(*number);
                let has_room = watches.have_room(std::iter::once(&*uri), who);
                watches.add(&uri, who);
                has_room
            })
            .count()
    }

    #[test]
    fn one_principal_leaves_room_for_others() {
        let (ada, bob) = (Watcher::new(1, b"ada"), Watcher::new(2, b"bob"));
        let mut watches = Watches::default();
        assert_eq!(fill(&mut watches, ada, |number| format!("a{number}")), share(MOST));
        let other_session = Watcher::new(3, b"ada");
        assert!(!watches.have_room(std::iter::once("new"), other_session));
        assert_eq!(fill(&mut watches, bob, |number| format!("b{number}")), MOST - share(MOST));
        assert!(watches.have_room(std::iter::once("a7"), bob), "it is watched already");
        watches.end_asking();
        assert_eq!(watches.forget(1).len(), share(MOST));
        assert!(watches.have_room(std::iter::once("new"), other_session));
        watches.forget(2);
        assert_eq!((watches.bytes, watches.shares.len(), watches.by_uri.len()), (0, 0, 0));
    }

    #[test]
    fn long_uris_have_a_bound_in_bytes() {
        let long = |number: usize| format!("{number:0>8192}");
        let alone = fill(&mut Watches::default(), Watcher::new(1, b""), long);
        assert_eq!(alone, MOST_BYTES / 8192);
        let shared = fill(&mut Watches::default(), Watcher::new(1, b"ada"), long);
        assert_eq!(shared, share(MOST_BYTES) / 8192);
    }
}
