//! Which calls may go on to the server now. Knows no server and no clock.
//!
//! ```text
//!   call ──▶ the server has failed ─────────────────▶ refused, with why
//!       ──▶ it is not there, nor a link to it ──────▶ waits for it, but not for long
//!       ──▶ as many calls are open as may be ───────▶ waits for its turn, in order
//!       ──▶ else ───────────────────────────────────▶ goes on, and counts until it is over
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::Failure;

/// A client's call: the number of the client, and what it calls the call.
pub(super) type Key = (u64, Exchange);

/// Calls that may wait for one server: more are a flood, and waiting helps none of them.
pub(super) const MOST_WAITING: usize = 1024;

/// Those of one principal, where clients show who they are.
const SHARE_WAITING: usize = MOST_WAITING - MOST_WAITING / 4;

/// The mark of those who show nothing.
pub(super) const NOBODY: u64 = 0;

/// How the server stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Door {
    /// It can be called.
    Open,
    /// It is being started: calls wait for it.
    Starting,
    /// It has ended or could not be started, for this reason, and is started again soon.
    /// Calls wait for it; if it was never up, those that wait fail, and further ones wait.
    Retrying(Outage),
    /// It is given up for now, for this reason.
    Failed(Outage),
}

/// Why a server cannot be called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outage {
    /// The name of the server.
    pub server: Arc<str>,
    /// What happened to it.
    pub why: Arc<Failure>,
    /// When it is tried again, if that is known.
    pub next: Option<Instant>,
}

impl Outage {
    /// Why a call fails now.
    fn failure(&self, now: Instant) -> Failure {
        let (server, why) = (Arc::clone(&self.server), Arc::clone(&self.why));
        if let Failure::Loop { .. } = *why {
            // Trying again does not help.
            return Failure::Loop { server: Some(server) };
        }
        let next = self.next.map(|next| next.saturating_duration_since(now));
        Failure::Down { server, why, next }
    }
}

/// What is let on, and what waits.
#[derive(Debug)]
pub(super) struct Gate<W> {
    most: usize,
    patience: Duration,
    door: Door,
    /// The server could be called at some time.
    was_up: bool,
    /// Those that have a turn, and whose they are.
    open: HashMap<Key, u64>,
    waiting: VecDeque<Waiter<W>>,
    /// When something last came by.
    used: Instant,
}

#[derive(Debug)]
struct Waiter<W> {
    what: W,
    call: Call,
    /// How long it waits for the server.
    until: Instant,
}

/// What must be known of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) key: Key,
    /// A mark of the principal behind it; the same for all who show nothing.
    pub(super) principal: u64,
    /// It takes a turn.
    pub(super) counts: bool,
    /// Its way to the server is there, however the server stands.
    pub(super) linked: bool,
}

/// What becomes of a call.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Entry<W> {
    Passes(W),
    Waits,
    /// The server cannot be reached; why.
    Fails(W, Failure),
    /// Too many wait.
    Crowded(W),
}

impl<W> Gate<W> {
    pub(super) fn new(most: usize, patience: Duration, now: Instant) -> Self {
        let (open, waiting) = (HashMap::new(), VecDeque::new());
        Self { most, patience, door: Door::Starting, was_up: false, open, waiting, used: now }
    }

    pub(super) fn is_open(&self) -> bool {
        self.door == Door::Open
    }

    /// Other bounds, from here on.
    pub(super) fn set_bounds(&mut self, most: usize, patience: Duration) {
        (self.most, self.patience) = (most, patience);
    }

    /// A call comes by.
    pub(super) fn enter(&mut self, call: Call, what: W, now: Instant) -> Entry<W> {
        self.used = now;
        if let (false, Door::Failed(why)) = (call.linked, &self.door) {
            return Entry::Fails(what, why.failure(now));
        }
        let is_first = !self.waiting.iter().any(|waiter| self.may_reach(&waiter.call));
        if self.may_reach(&call) && (!call.counts || is_first && self.open.len() < self.most) {
            if call.counts {
                self.open.insert(call.key, call.principal);
            }
            return Entry::Passes(what);
        }
        let own = self.waiting.iter().filter(|it| it.call.principal == call.principal).count();
        let most = if call.principal == NOBODY { MOST_WAITING } else { SHARE_WAITING };
        if self.waiting.len() >= MOST_WAITING || own >= most {
            return Entry::Crowded(what);
        }
        self.waiting.push_back(Waiter { what, call, until: now + self.patience });
        Entry::Waits
    }

    fn may_reach(&self, call: &Call) -> bool {
        call.linked || self.is_open()
    }

    /// The next one that may go on.
    pub(super) fn poll(&mut self, now: Instant) -> Option<W> {
        if self.waiting.is_empty() {
            return None;
        }
        let has_turn = self.open.len() < self.most;
        let may_go =
            |waiter: &Waiter<W>| self.may_reach(&waiter.call) && (has_turn || !waiter.call.counts);
        let mut turns: HashMap<u64, usize> = HashMap::new();
        for principal in self.open.values() {
            *turns.entry(*principal).or_default() += 1;
        }
        // Of those that have waited longest, that of whoever has the fewest turns.
        let waiting = self.waiting.iter().enumerate().filter(|(_, waiter)| may_go(waiter));
        let next = waiting.min_by_key(|(_, waiter)| {
            turns.get(&waiter.call.principal).copied().unwrap_or_default()
        });
        let at = next?.0;
        let waiter = self.waiting.remove(at)?;
        if waiter.call.counts {
            self.open.insert(waiter.call.key, waiter.call.principal);
        }
        self.used = now;
        Some(waiter.what)
    }

    /// A call is over, or nobody wants it any more. True if it was waiting: it was never made.
    pub(super) fn leave(&mut self, key: Key, now: Instant) -> bool {
        if self.open.remove(&key).is_some() {
            self.used = now;
        }
        let before = self.waiting.len();
        self.waiting.retain(|waiter| waiter.call.key != key);
        self.waiting.len() < before
    }

    /// Takes out what waits and is not wanted any more.
    pub(super) fn withdraw(&mut self, is_meant: impl Fn(&W) -> bool) {
        self.waiting.retain(|waiter| !is_meant(&waiter.what));
    }

    /// A client is gone.
    pub(super) fn forget(&mut self, client: u64) {
        self.open.retain(|(number, _), _| *number != client);
        self.waiting.retain(|waiter| waiter.call.key.0 != client);
    }

    /// How the server stands: those who wait in vain, and why. One that can be
    /// called and is started once more can be called meanwhile.
    pub(super) fn stands(&mut self, door: Door, now: Instant) -> Vec<(W, Failure)> {
        if self.door == door || self.is_open() && door == Door::Starting {
            return Vec::new();
        }
        if self.is_open() {
            // They were never sent: from here on they wait for the server, not for their turn.
            let until = now + self.patience;
            self.waiting.iter_mut().for_each(|waiter| waiter.until = until);
        }
        self.was_up |= door == Door::Open;
        let why = match &door {
            Door::Failed(down) => Some(down.failure(now)),
            // Whether it can be started at all is not known.
            Door::Retrying(down) if !self.was_up => Some(down.failure(now)),
            _ => None,
        };
        self.door = door;
        let Some(why) = why else { return Vec::new() };
        let vain = self.take(|waiter| !waiter.call.linked);
        vain.into_iter().map(|what| (what, why.clone())).collect()
    }

    /// How long a call waits for the server to start.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Those who have waited for the server for too long.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Vec<W> {
        if self.is_open() {
            return Vec::new();
        }
        self.take(|waiter| !waiter.call.linked && waiter.until <= now)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if self.is_open() {
            return None;
        }
        let waiting = self.waiting.iter().filter(|waiter| !waiter.call.linked);
        waiting.map(|waiter| waiter.until).min()
    }

    fn take(&mut self, is_meant: impl Fn(&Waiter<W>) -> bool) -> Vec<W> {
        let (taken, kept): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_meant);
        self.waiting = kept.into();
        taken.into_iter().map(|waiter| waiter.what).collect()
    }

    /// How many wait.
    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }

    /// Since when nothing has come by; none while something is open.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.open.is_empty() && self.waiting.is_empty()).then_some(self.used)
    }

    /// Somebody was here, if only to look.
    pub(super) fn touch(&mut self, now: Instant) {
        self.used = now;
    }
}

#[cfg(test)]
mod tests;
