//! Results that a modern server allows to be kept, and for how long.
//!
//! Rules: CACHE-2 to CACHE-5.
//! - An entry is found by server, method and parameters; a private one only by
//!   the identity that it was given to.
//! - The pages of one list share a scope, the narrowest that any of them names.
//! - A note about a change empties what it is about, also what is on its way.
//! - What took questions and answers is not kept (MRTR-12), nor what an error says.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::jsonrpc::Part;
use switchboard_proto::method;
use switchboard_proto::server::legacy::covers;

use crate::connection::{lock, next_number};
use crate::secret::IdentityDigest;
use crate::upstream::{ServerTarget, Target};

/// The longest that anything is kept, whatever its server says.
const LONGEST: Duration = Duration::from_hours(24);

/// What an entry costs beside its text.
const OVERHEAD: usize = 256;

/// Results kept for later, in memory. Clones share them, and so may clients: what a server
/// calls private stays with the headers, the certificate and the account that it was shown.
/// Clients that trust other certificates share nothing.
#[derive(Clone)]
pub struct ResponseCache {
    entries: Arc<Mutex<Entries>>,
    most: usize,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<CacheKey, CacheEntry>,
    bytes: usize,
    /// Counts what was emptied.
    emptied: u64,
}

#[derive(Clone, Eq, Hash, PartialEq)]
struct CacheKey {
    server: Arc<str>,
    /// None if anybody may have it.
    identity: Option<Arc<str>>,
    method: String,
    params: Bytes,
}

struct CacheEntry {
    result: Bytes,
    until: Instant,
}

/// Which server, and who we are to it.
#[derive(Clone)]
pub(super) struct CacheOwner {
    server: Arc<str>,
    identity: Arc<str>,
}

impl CacheOwner {
    /// A child is nobody else's, so each is a server of its own.
    pub(super) fn new(server: &ServerTarget) -> Self {
        let (mut place, mut identity) = (IdentityDigest::new(), IdentityDigest::new());
        if let Target::Command(_) = server.target() {
            place.add(next_number().to_le_bytes());
        }
        server.digest_place(&mut place);
        server.digest_identity(&mut identity);
        Self { server: place.finish().into(), identity: identity.finish().into() }
    }

    fn key(&self, method: &str, params: &Bytes, private: bool) -> CacheKey {
        let identity = private.then(|| Arc::clone(&self.identity));
        let (server, method) = (Arc::clone(&self.server), method.to_owned());
        CacheKey { server, identity, method, params: params.clone() }
    }
}

impl ResponseCache {
    /// Keeps at most `most` bytes; what is stale soonest goes first.
    pub fn new(most: usize) -> Self {
        Self { entries: Arc::default(), most }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        lock(&self.entries).forget(|_| true);
    }

    /// How often something was emptied: what was asked for before is not kept after.
    pub(super) fn emptied(&self) -> u64 {
        lock(&self.entries).emptied
    }

    pub(super) fn get(
        &self,
        owner: &CacheOwner,
        method: &str,
        params: &Bytes,
        now: Instant,
    ) -> Option<Bytes> {
        let entries = lock(&self.entries);
        let mut kept = [true, false]
            .into_iter()
            .filter_map(|private| entries.by_key.get(&owner.key(method, params, private)));
        kept.find(|entry| now < entry.until).map(|entry| entry.result.clone())
    }

    /// Keeps a result, if its server allows that. `emptied` is from before it was asked for.
    pub(super) fn put(
        &self,
        owner: &CacheOwner,
        (method, params): (&str, &Bytes),
        result: &Bytes,
        emptied: u64,
        now: Instant,
    ) {
        let (ttl, is_public) = read_hints(Part::new(result));
        let mut entries = lock(&self.entries);
        if ttl.is_zero() || entries.emptied != emptied {
            return;
        }
        let mut private = !is_public;
        if method != method::READ_RESOURCE {
            private |= entries.narrow(owner, method, private);
        }
        let key = owner.key(method, params, private);
        let size = size(&key, result);
        entries.forget_one(&key);
        // What does not fit at all must not cost the others their place.
        if size <= self.most {
            entries.make_room(size, self.most, now);
            entries.bytes += size;
            let entry = CacheEntry { result: result.clone(), until: now + ttl };
            entries.by_key.insert(key, entry);
        }
    }

    /// Something has changed at the server.
    pub(super) fn handle_note(
        &self,
        owner: &CacheOwner,
        note: &str,
        params: impl FnOnce() -> Value,
    ) {
        let is_changed = |list| method::list_changed(list) == Some(note);
        let lists: &[&str] = match note {
            method::UPDATED => &[method::READ_RESOURCE],
            _ if is_changed("tools") => &[method::LIST_TOOLS],
            _ if is_changed("prompts") => &[method::LIST_PROMPTS],
            _ if is_changed("resources") => &[method::LIST_RESOURCES, method::LIST_TEMPLATES],
            _ => return,
        };
        let params = params();
        let uri = params["uri"].as_str().filter(|_| note == method::UPDATED);
        lock(&self.entries).forget(|key| {
            let of = Part::new(&key.params).string("uri");
            // What changed may be a part of what was read (SUB-13).
            let is_about = uri.is_none_or(|uri| of.is_some_and(|of| covers(&of, uri)));
            key.server == owner.server && lists.contains(&&*key.method) && is_about
        });
    }

    /// A list has changed under its reader: its pages do not fit together any
    /// more. Whether there were any.
    pub(super) fn forget_list(&self, owner: &CacheOwner, method: &str) -> bool {
        let mut entries = lock(&self.entries);
        let before = entries.by_key.len();
        entries.forget(|key| key.server == owner.server && key.method == method);
        entries.by_key.len() < before
    }
}

impl Entries {
    fn forget(&mut self, is_stale: impl Fn(&CacheKey) -> bool) {
        self.emptied += 1;
        self.retain(|key, _| !is_stale(key));
    }

    fn retain(&mut self, keep: impl Fn(&CacheKey, &CacheEntry) -> bool) {
        self.by_key.retain(|key, entry| keep(key, entry));
        self.bytes = self.by_key.iter().map(|(key, entry)| size(key, &entry.result)).sum();
    }

    fn forget_one(&mut self, key: &CacheKey) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= size(key, &entry.result);
        }
    }

    /// Whether a page is private because another one of its list is. If this one
    /// is, the others were not for everybody either.
    fn narrow(&mut self, owner: &CacheOwner, method: &str, private: bool) -> bool {
        let is_page = |key: &CacheKey| key.server == owner.server && key.method == method;
        if private {
            self.retain(|key, _| !is_page(key) || key.identity.is_some());
        }
        self.by_key.keys().any(|key| is_page(key) && key.identity.as_ref() == Some(&owner.identity))
    }

    fn make_room(&mut self, size: usize, most: usize, now: Instant) {
        if self.bytes + size > most {
            self.retain(|_, entry| now < entry.until);
        }
        while self.bytes + size > most {
            let soonest = self.by_key.iter().min_by_key(|(_, entry)| entry.until);
            let Some(key) = soonest.map(|(key, _)| key.clone()) else { return };
            self.forget_one(&key);
        }
    }
}

/// What is kept is somebody's, and so are the addresses: only how much there is.
impl fmt::Debug for ResponseCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entries { by_key, bytes, .. } = &*lock(&self.entries);
        write!(f, "ResponseCache {{ entries: {}, bytes: {bytes}, .. }}", by_key.len())
    }
}

/// How long a result may be kept, and whether by anybody.
pub(super) fn read_hints(result: Part<'_>) -> (Duration, bool) {
    let ttl = result.get(&["ttlMs"]).and_then(|ttl| ttl.read().ok()).unwrap_or_default();
    let is_public = result.string("cacheScope").as_deref() == Some("public");
    (Duration::from_millis(ttl).min(LONGEST), is_public)
}

fn size(key: &CacheKey, result: &Bytes) -> usize {
    OVERHEAD + key.method.len() + key.params.len() + result.len()
}

#[cfg(test)]
mod tests;
