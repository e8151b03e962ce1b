//! The calls we have made and not yet heard back about.
//!
//! Pairs each answer with its call and gives up on calls that take too long.
//! Does not send, does not read a clock, does not know the transport: the
//! caller says what happened and when, then drains [`poll`](Calls::poll). How
//! many calls may be open is the caller's to bound, by [`len`](Calls::len).
//!
//! ```text
//!              begin
//!                │
//!                ▼        answer
//!   progress ┌─ Open ───────────────▶ gone    CallEvent::Answered
//!   (extends)└──▶│ ▲
//!                │ └─ hold, release: it is our side that is waited for meanwhile
//!                │ cancel, or deadline        CallEvent::GaveUp
//!                ▼        answer, or grace over
//!             Dropped ──────────────▶ gone    nothing
//! ```
//!
//! A dropped call is remembered for a while: its answer may already be on the
//! way, and an answer we asked for is not the peer's mistake.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Calls in flight towards one peer.
///
/// `T` comes back with the outcome: a `oneshot::Sender` in the tokio shell, a
/// label in tests.
#[derive(Debug)]
pub struct Calls<T> {
    patience: Patience,
    next_id: u64,
    open: BTreeMap<u64, Open<T>>,
    /// Each open call once, the most urgent first.
    deadlines: BTreeSet<(Instant, u64)>,
    dropped: BTreeMap<u64, Instant>,
    /// Each dropped call once, the first to be forgotten first.
    forgets: BTreeSet<(Instant, u64)>,
    events: VecDeque<CallEvent<T>>,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// Between signs of life.
    pub quiet: Duration,
    /// In all, however lively the peer is.
    pub total: Duration,
}

/// What the caller must act on.
#[expect(missing_docs, reason = "the field names say it")]
#[derive(Debug, Eq, PartialEq)]
pub enum CallEvent<T> {
    /// The peer answered; the answer belongs to `ticket`.
    Answered { id: u64, ticket: T },
    /// We stopped waiting; tell the peer, and tell `ticket`.
    GaveUp { id: u64, ticket: T, why: Why },
}

/// Why we stopped waiting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// Our side no longer wants the answer.
    Cancelled,
    /// The peer took too long.
    TimedOut,
}

/// The peer answered a call that was never made, or had been answered.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("answer to call {id}, which is not open")]
pub struct Unasked {
    /// The id the peer used.
    pub id: u64,
}

#[derive(Debug)]
struct Open<T> {
    ticket: T,
    quiet: Duration,
    deadline: Instant,
    latest: Instant,
    /// What of our side the peer waits for.
    holds: usize,
}

impl<T> Open<T> {
    /// When to give up on it, if the peer shows no sign of life after `now`.
    fn due(&self, now: Instant) -> Instant {
        if self.holds > 0 { self.latest } else { self.latest.min(after(now, self.quiet)) }
    }
}

impl<T> Calls<T> {
    /// No calls yet; each will be given `patience`.
    pub fn new(patience: Patience) -> Self {
        Self {
            patience,
            next_id: 1,
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            dropped: BTreeMap::new(),
            forgets: BTreeSet::new(),
            events: VecDeque::new(),
        }
    }

    /// Starts a call and returns the id to put on the wire.
    pub fn begin(&mut self, ticket: T, now: Instant) -> u64 {
        self.begin_with(ticket, self.patience, now)
    }

    /// The same for a call that is worth another `patience` than the rest.
    pub fn begin_with(&mut self, ticket: T, patience: Patience, now: Instant) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let latest = after(now, patience.total);
        let deadline = latest.min(after(now, patience.quiet));
        let quiet = patience.quiet;
        self.open.insert(id, Open { ticket, quiet, deadline, latest, holds: 0 });
        self.deadlines.insert((deadline, id));
        id
    }

    /// Our side no longer wants the answer to `id`.
    pub fn cancel(&mut self, id: u64, now: Instant) {
        self.give_up(id, Why::Cancelled, now);
    }

    /// The peer answered `id`.
    pub fn handle_answer(&mut self, id: u64) -> Result<(), Unasked> {
        if let Some(call) = self.close(id) {
            self.events.push_back(CallEvent::Answered { id, ticket: call.ticket });
            return Ok(());
        }
        let forget_at = self.dropped.remove(&id).ok_or(Unasked { id })?;
        self.forgets.remove(&(forget_at, id));
        Ok(())
    }

    /// The peer reported progress on `id`: it is alive, so wait longer.
    pub fn handle_progress(&mut self, id: u64, now: Instant) {
        self.change(id, now, |_| {});
    }

    /// The peer waits for our side: until as many times [`release`](Self::release),
    /// only the time in all runs.
    pub fn hold(&mut self, id: u64, now: Instant) {
        self.change(id, now, |call| call.holds += 1);
    }

    /// The peer has what it waited for.
    pub fn release(&mut self, id: u64, now: Instant) {
        self.change(id, now, |call| call.holds = call.holds.saturating_sub(1));
    }

    /// There is a sign of life.
    fn change(&mut self, id: u64, now: Instant, change: impl FnOnce(&mut Open<T>)) {
        let Some(call) = self.open.get_mut(&id) else { return };
        self.deadlines.remove(&(call.deadline, id));
        change(call);
        call.deadline = call.due(now);
        self.deadlines.insert((call.deadline, id));
    }

    /// The peer took `id` on for an unknown time: its answer is waited for as long as it takes.
    pub fn keep(&mut self, id: u64, now: Instant) {
        self.change(id, now, |call| {
            call.quiet = FOR_EVER;
            call.latest = now + FOR_EVER;
        });
    }

    /// Time has reached `now`. Call when [`poll_timeout`](Self::poll_timeout) says so.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            self.give_up(id, Why::TimedOut, now);
        }
        while let Some(&(forget_at, _)) = self.forgets.first()
            && forget_at <= now
        {
            self.forget_oldest();
        }
    }

    /// The next thing to act on, oldest first. Drain after every other call.
    pub fn poll(&mut self) -> Option<CallEvent<T>> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let sooner = [self.deadlines.first(), self.forgets.first()];
        sooner.into_iter().flatten().map(|&(at, _)| at).min()
    }

    /// The ticket of an open call.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.open.get(&id).map(|call| &call.ticket)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.open.get_mut(&id).map(|call| &mut call.ticket)
    }

    /// All open calls, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.open.iter().map(|(&id, call)| (id, &call.ticket))
    }

    /// How many calls are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no call is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The link is gone: all open calls, oldest first, and none remembered.
    pub fn drain(&mut self) -> Vec<(u64, T)> {
        self.deadlines.clear();
        self.dropped.clear();
        self.forgets.clear();
        let open = std::mem::take(&mut self.open);
        open.into_iter().map(|(id, call)| (id, call.ticket)).collect()
    }

    fn close(&mut self, id: u64) -> Option<Open<T>> {
        let call = self.open.remove(&id)?;
        self.deadlines.remove(&(call.deadline, id));
        Some(call)
    }

    fn give_up(&mut self, id: u64, why: Why, now: Instant) {
        let Some(Open { ticket, .. }) = self.close(id) else { return };
        self.events.push_back(CallEvent::GaveUp { id, ticket, why });
        if self.dropped.len() == MOST_DROPPED {
            self.forget_oldest();
        }
        let forget_at = after(now, GRACE);
        self.dropped.insert(id, forget_at);
        self.forgets.insert((forget_at, id));
    }

    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.forgets.pop_first() {
            self.dropped.remove(&id);
        }
    }
}

/// A patience without end must not overflow the clock.
fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + FOR_EVER)
}

/// How long a late answer still counts as an answer: longer than any round
/// trip, short enough that ids do not pile up.
const GRACE: Duration = Duration::from_mins(1);

/// Dropped calls to remember, so that a flood of cancels costs no more than
/// this; forgetting one early costs a line in the log when its answer comes.
const MOST_DROPPED: usize = 1024;

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);

#[cfg(test)]
mod tests;
