//! Connections that no client uses: started ahead of their clients, ended when they are
//! idle or too many (GW-41).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use switchboard_proto::client::Sharing;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use tokio::sync::futures::Notified;

use super::{Bridge, BridgeState, Children, ConnectionKey, ConnectionUser};
use crate::connection::lock;
use crate::drive::{now, race};
use crate::upstream::{Eras, Target, Upstream};

/// How long a session at the server outlives its last call: what the server
/// remembers for clients that are alike goes with it.
const IDLE: Duration = Duration::from_mins(10);

/// How often unused connections are looked for.
const LOOK: Duration = Duration::from_mins(1);

/// Sessions of one user, or of one client on a pipe, for clients that are alike:
/// what a client can do it says itself, and must keep no other client out by it.
const MOST_OF_ONE: usize = 16;

impl BridgeState {
    /// Sees to it that there is a place for one more, if need be in the place of
    /// one that no client uses: of the same user, of the same principal, or of one
    /// that has more.
    pub(super) fn make_room(&mut self, key: ConnectionKey) -> Result<(), Refusal> {
        self.keep_below(MOST_OF_ONE, |it| it.is_alike(key))?;
        let Some(user) = key.user() else { return Ok(()) };
        let of_principal = |it: ConnectionKey| it.is_of(user.principal);
        let places = self.places;
        // What the clients of one principal show is theirs to choose, and must cost no
        // other user a place: it keeps a quarter that are not used, and has three quarters in all.
        if self.count(of_principal) >= (places / 4).max(1) {
            // Those that are used stay, as long as there are places.
            self.end_unused(key);
        }
        self.keep_below((places - places / 4).max(1), of_principal)?;
        if self.count(|it| it.user().is_some()) < places {
            return Ok(());
        }
        self.end_greediest(user).then_some(()).ok_or(Refusal::TooManySessions)
    }

    /// Ends the connection of the same principal that was not used for longest; false
    /// if all are in use, or if this is a client's own.
    pub(super) fn end_unused(&mut self, key: ConnectionKey) -> bool {
        let Some(user) = key.user() else { return false };
        self.end_oldest(|it| it.is_of(user.principal))
    }

    fn count(&self, is_one: impl Fn(ConnectionKey) -> bool) -> usize {
        self.connections.keys().filter(|key| is_one(**key)).count()
    }

    /// Ends the one that was not used for longest, if there are so many.
    fn keep_below(
        &mut self,
        most: usize,
        is_one: impl Fn(ConnectionKey) -> bool,
    ) -> Result<(), Refusal> {
        let has_room = self.count(&is_one) < most || self.end_oldest(is_one);
        has_room.then_some(()).ok_or(Refusal::TooManySessions)
    }

    /// Ends the one of these that was not used for longest; false if all are in use.
    fn end_oldest(&mut self, is_one: impl Fn(ConnectionKey) -> bool) -> bool {
        let unused = self
            .connections
            .iter()
            .filter(|(key, it)| is_one(**key) && !it.is_used() && !it.is_attached());
        let oldest = unused.min_by_key(|(_, upstream)| upstream.used()).map(|(key, _)| *key);
        let upstream = oldest.and_then(|oldest| self.connections.remove(&oldest));
        let Some(upstream) = upstream else { return false };
        self.close(upstream);
        true
    }

    /// Ends one of the principal that has most, but of none that has less than this user's
    /// principal; false if all of theirs are in use.
    fn end_greediest(&mut self, user: ConnectionUser) -> bool {
        let mut counts: HashMap<_, usize> = HashMap::from([(user.principal, 1)]);
        for it in self.connections.keys().filter_map(|key| key.user()) {
            *counts.entry(it.principal).or_default() += 1;
        }
        let own = counts[&user.principal];
        let mut greedy: Vec<_> = counts.into_iter().filter(|(_, count)| *count >= own).collect();
        greedy.sort_unstable_by_key(|(it, count)| (Reverse(*count), *it != user.principal));
        greedy.into_iter().any(|(principal, _)| self.end_oldest(|it| it.is_of(principal)))
    }

    /// What each client on a pipe used last. It stays, as the only one of a legacy
    /// client does: the client is there, and the server may remember something.
    fn last_of_clients(&self) -> HashSet<ConnectionKey> {
        let mut last: HashMap<u64, (Instant, ConnectionKey)> = HashMap::new();
        for (&key, upstream) in &self.connections {
            let ConnectionKey::Able(client, _) = key else { continue };
            let used = upstream.used();
            let latest = last.entry(client).or_insert((used, key));
            if used > latest.0 {
                *latest = (used, key);
            }
        }
        last.into_values().map(|(_, key)| key).collect()
    }

    /// Ends what has not been used for long.
    fn close_idle(&mut self) {
        let now = now();
        let last = self.last_of_clients();
        let is_idle = |key: &ConnectionKey, upstream: &mut Arc<Upstream>| {
            let unused = now.saturating_duration_since(upstream.used()) >= IDLE;
            let is_free = unused && !upstream.is_used() && !upstream.is_attached();
            key.is_swept() && is_free && !last.contains(key)
        };
        self.close_if(is_idle);
    }

    /// Whether no client uses a connection, or waits for one.
    pub(super) fn is_quiet(&self) -> bool {
        let is_used = self.connections.values().any(|upstream| upstream.is_used());
        let is_asking = self.era.asking.is_some() || self.era.reconsidered > 0;
        !is_used && !is_asking && self.era.opens.is_empty()
    }

    /// Ends what no client needs for now; what clients count on is remembered.
    pub(super) fn rest(&mut self) -> bool {
        if self.closed || !self.is_quiet() {
            return false;
        }
        let is_needless = |key: &ConnectionKey, upstream: &mut Arc<Upstream>| {
            let is_remembered = match *key {
                ConnectionKey::All(era) | ConnectionKey::User(era, _) => era == Era::Legacy,
                ConnectionKey::Alike(..) | ConnectionKey::Call(..) => false,
                _ => true,
            };
            // One that a client has come to use meanwhile goes on.
            _ = is_remembered && upstream.rest();
            !is_remembered
        };
        self.close_if(is_needless);
        while let Some(upstream) = self.pool.pop_front() {
            self.close(upstream);
        }
        true
    }

    /// A child that was started ahead and lives.
    pub(super) fn take_warm(&mut self) -> Option<Arc<Upstream>> {
        while let Some(warm) = self.pool.pop_front() {
            if warm.is_linked() {
                return Some(warm);
            }
            self.close(warm);
        }
        None
    }
}

/// Looks after the sessions of users and of clients that are alike, until none is left.
pub(super) async fn sweep(bridge: Weak<Bridge>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(bridge) = bridge.upgrade() else { return };
        let mut state = lock(&bridge.state);
        state.close_idle();
        if state.closed || !state.connections.keys().any(|key| key.is_swept()) {
            state.sweeping = None;
            return;
        }
    }
}

impl Bridge {
    /// Ends the connections of clients that may not come in any more.
    pub fn evict(&self) {
        lock(&self.state).close_if(|_, upstream| upstream.is_orphaned());
    }

    /// Ends the connections of one user: the next call begins anew. Calls that are open are
    /// answered before.
    pub fn evict_user(&self, name: &str) {
        let mut state = lock(&self.state);
        let theirs = state.connections.extract_if(|_, upstream| upstream.is_of(name));
        for (key, upstream) in theirs.collect::<Vec<_>>() {
            if upstream.has_hello() {
                // They do not greet again.
                let fresh = upstream.successor();
                fresh.inherit(&upstream);
                state.connections.insert(key, fresh);
            }
            state.leaving.push(Arc::clone(&upstream));
            let bridge = Weak::clone(&self.this);
            state.spawn(async move {
                upstream.until(|it| !it.is_called()).await;
                upstream.close().await;
                if let Some(bridge) = bridge.upgrade() {
                    lock(&bridge.state).leaving.retain(|it| !Arc::ptr_eq(it, &upstream));
                }
            });
        }
    }

    /// How many connections there are for users that the server can tell apart,
    /// unless [`Bridge::set_places`] says otherwise.
    pub const PLACES: usize = 1024;

    /// Has at most so many connections for users that the server can tell apart.
    pub fn set_places(&self, most: usize) {
        lock(&self.state).places = most;
    }

    /// Starts as many children ahead as there should be. They are greeted by
    /// the client that takes them: what their clients can do is not known before.
    pub(super) fn fill_pool(&self) {
        let Children::Pool(most) = self.children else { return };
        // What is started ahead is for nobody in particular.
        if !matches!(self.server.target(), Target::Command(_)) || self.server.has_accounts() {
            return;
        }
        let mut state = lock(&self.state);
        while !state.closed && state.pool.len() < most {
            let (server, limits) = (self.server.clone(), self.limits());
            let warm = Upstream::new(server, Eras::both(Era::Legacy), Sharing::Alone, None, limits);
            warm.warm();
            state.pool.push_back(warm);
        }
    }

    /// Hears when a client begins or ends to use the server.
    pub(crate) fn stirred(&self) -> Notified<'_> {
        self.stirred.notified()
    }

    /// Waits until no client has made a call for so long, even if clients listen.
    pub(crate) async fn unused_for(&self, idle: Duration) {
        loop {
            let stirred = self.stirred();
            match self.unused_since() {
                Some(since) if since + idle <= now() => return,
                Some(since) => tokio::time::sleep_until((since + idle).into()).await,
                None => stirred.await,
            }
        }
    }

    /// Waits until no client uses a connection, or waits for one.
    pub(crate) async fn until_quiet(&self) {
        self.until(|| lock(&self.state).is_quiet(), |it| !it.is_used()).await;
    }

    /// Waits until no call is open, waits, or is on its way from the queue.
    pub async fn until_idle(&self) {
        self.until(|| self.is_idle(), |it| it.calls() == 0).await;
    }

    /// Waits until `is_so`, for which each connection must be `free`.
    async fn until(&self, is_so: impl Fn() -> bool, free: impl Fn(&Upstream) -> bool) {
        loop {
            let stirred = self.stirred();
            if is_so() {
                return;
            }
            let is_used = |it: &&Arc<Upstream>| !free(it) && !it.is_stopped();
            let used = lock(&self.state).connections.values().find(is_used).cloned();
            match used {
                Some(used) => _ = race(stirred, used.until(&free)).await,
                None => stirred.await,
            }
        }
    }

    /// Whether every connection was ended, and there will be no other.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }
}

#[cfg(test)]
mod tests;
