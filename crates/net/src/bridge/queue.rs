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

use crate::roster::{ServerPhase, ServerState};

/// A client's call: the number of the client, and what it calls the call.
pub(super) type Key = (u64, Exchange);

/// Calls that may wait for one server: more are a flood, and waiting helps none of them.
pub(super) const MOST_WAITING: usize = 1024;

/// Those of one principal, where clients show who they are.
const SHARE_WAITING: usize = MOST_WAITING - MOST_WAITING / 4;

/// The mark of those who show nothing.
pub(super) const NOBODY: u64 = 0;

/// What is let on, and what waits.
#[derive(Debug)]
pub(super) struct AdmissionQueue<W> {
    most: usize,
    patience: Duration,
    /// What callers know the server by.
    name: Arc<str>,
    /// Calls go on to the server.
    is_open: bool,
    /// Why calls are refused at once, if they are: the server has failed.
    failed: Option<(Arc<str>, ServerState)>,
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

impl<W> AdmissionQueue<W> {
    pub(super) fn new(most: usize, patience: Duration, now: Instant) -> Self {
        let (open, waiting) = (HashMap::new(), VecDeque::new());
        let name = Arc::from("");
        Self { most, patience, name, is_open: false, failed: None, open, waiting, used: now }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Other bounds, from here on.
    pub(super) fn set_bounds(&mut self, most: usize, patience: Duration) {
        (self.most, self.patience) = (most, patience);
    }

    /// A call comes by.
    pub(super) fn enter(&mut self, call: Call, what: W, now: Instant) -> Entry<W> {
        self.used = now;
        if let (false, Some(why)) = (call.linked, &self.failed) {
            return Entry::Fails(what, failure(why, now));
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
        call.linked || self.is_open
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

    /// The supervisor has published this of the server, which callers know by this name.
    /// The calls that wait in vain, and why.
    ///
    /// Calls wait for a server that is tried again. If it was never ready, whether it can
    /// be started at all is not known: those that wait fail, and further ones wait.
    pub(super) fn handle_state(
        &mut self,
        name: &Arc<str>,
        state: &ServerState,
        now: Instant,
    ) -> Vec<(W, Failure)> {
        if self.is_open && !state.accepts_calls {
            // They were never sent: from here on they wait for the server, not for their turn.
            let until = now + self.patience;
            self.waiting.iter_mut().for_each(|waiter| waiter.until = until);
        }
        self.is_open = state.accepts_calls;
        let has_failed = state.phase == ServerPhase::Failed;
        self.name = Arc::clone(name);
        let down = (Arc::clone(name), state.clone());
        let why = failure(&down, now);
        self.failed = has_failed.then_some(down);
        if has_failed || state.phase == ServerPhase::Retrying && !state.was_ready {
            let vain = self.take(|waiter| !waiter.call.linked);
            return vain.into_iter().map(|what| (what, why.clone())).collect();
        }
        Vec::new()
    }

    /// How long a call waits for the server to start.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// What callers know the server by; empty if nobody has said.
    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Those who have waited for the server for too long.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Vec<W> {
        if self.is_open {
            return Vec::new();
        }
        self.take(|waiter| !waiter.call.linked && waiter.until <= now)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if self.is_open {
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

/// Why a call to a server that is down fails now.
fn failure((name, state): &(Arc<str>, ServerState), now: Instant) -> Failure {
    let (server, why) = (Arc::clone(name), state.reason.clone().unwrap_or(Failure::CLOSED));
    if let Failure::Loop { .. } = why {
        // Trying again does not help.
        return Failure::Loop { server: Some(server) };
    }
    let next = state.next_attempt.map(|next| next.saturating_duration_since(now));
    Failure::Down { server, why: Arc::new(why), next }
}

#[cfg(test)]
mod tests;
