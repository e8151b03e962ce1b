//! Which server stands how, and what to do about it next.
//!
//! Knows names, attempts and instants. Does not connect, does not read a
//! clock: the caller says what happened and when, then drains
//! [`poll`](Muster::poll).
//!
//! ```text
//!              a place is free            lists are there
//!   Waiting ──────────────────▶ Connecting ─────────────▶ Ready
//!      ▲                            │ it failed             │ it broke
//!      │ it is time                 ▼                       │
//!      └──────────────────────── Retrying ◀─────────────────┘
//!      │ somebody wants it,         │ too often
//!      │ and it has rested          ▼
//!      └───────────────────────── Failed
//! ```
//!
//! Attempts are numbered, and what is told about an old one changes nothing.
//! An attempt that takes long gives up its place, but not itself: servers that
//! hang must not keep the others waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_proto::backoff::Reconnect;

use super::state::State;

/// How servers are brought up, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Attempts that may hold a place.
    pub(super) at_once: usize,
    /// How long an attempt holds its place.
    pub(super) turn: Duration,
    /// Attempts in a row before a server is left alone.
    pub(super) attempts: u32,
    /// How long it is left alone, even if it is wanted.
    pub(super) rest: Duration,
}

/// The servers and how they stand.
#[derive(Debug)]
pub(super) struct Muster {
    pace: Pace,
    members: BTreeMap<Arc<str>, Member>,
    /// Those that wait for a place, longest first; each at most once.
    queue: VecDeque<Arc<str>>,
    next_attempt: u64,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
struct Member {
    phase: Phase,
    reconnect: Reconnect,
}

#[derive(Debug)]
enum Phase {
    Waiting,
    /// Until `turn_over` it holds a place.
    Connecting {
        attempt: u64,
        turn_over: Option<Instant>,
    },
    Ready {
        attempt: u64,
        since: Instant,
    },
    Retrying {
        at: Instant,
    },
    Failed {
        rested: Instant,
    },
}

/// What the caller must do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Connect; what comes of it is told under this number.
    Connect { name: Arc<str>, attempt: u64 },
    /// Nothing that belongs to this attempt is wanted any more.
    Release { name: Arc<str>, attempt: u64 },
    /// Let everybody know.
    Tell { name: Arc<str>, state: State },
}

impl Muster {
    pub(super) fn new(pace: Pace) -> Self {
        let members = BTreeMap::new();
        let (queue, actions) = (VecDeque::new(), VecDeque::new());
        Self { pace, members, queue, next_attempt: 1, actions }
    }

    /// There is one more server. False if the name is taken.
    pub(super) fn add(&mut self, name: &Arc<str>, now: Instant) -> bool {
        if self.members.contains_key(name) {
            return false;
        }
        let reconnect = Reconnect::new(self.pace.attempts);
        self.members.insert(Arc::clone(name), Member { phase: Phase::Waiting, reconnect });
        self.enqueue(name, now);
        true
    }

    /// A server is not wanted any more. False if it is not known.
    pub(super) fn remove(&mut self, name: &str, now: Instant) -> bool {
        let Some((name, member)) = self.members.remove_entry(name) else { return false };
        self.queue.retain(|waiting| *waiting != name);
        self.release(&name, &member.phase);
        self.fill(now);
        true
    }

    /// A server is to be connected anew, whatever it is doing. False if it is not known.
    pub(super) fn restart(&mut self, name: &str, now: Instant) -> bool {
        let Some((name, _)) = self.members.get_key_value(name) else { return false };
        let name = Arc::clone(name);
        let fresh = Member { phase: Phase::Waiting, reconnect: Reconnect::new(self.pace.attempts) };
        if let Some(old) = self.members.insert(Arc::clone(&name), fresh) {
            self.release(&name, &old.phase);
        }
        self.queue.retain(|waiting| *waiting != name);
        self.enqueue(&name, now);
        true
    }

    /// Somebody wants to use a server: one that was left alone long enough gets
    /// another attempt.
    pub(super) fn want(&mut self, name: &str, now: Instant) {
        let Some((name, member)) = self.members.get_key_value(name) else { return };
        if matches!(member.phase, Phase::Failed { rested } if rested <= now) {
            let name = Arc::clone(name);
            self.enqueue(&name, now);
        }
    }

    /// An attempt has succeeded.
    pub(super) fn handle_ready(&mut self, name: &str, attempt: u64, now: Instant) {
        let Some((name, member)) = self.at(name, attempt) else { return };
        if let Phase::Connecting { .. } = member.phase {
            member.phase = Phase::Ready { attempt, since: now };
            self.tell(&name, State::Ready);
            self.fill(now);
        }
    }

    /// An attempt has failed, or what it led to has broken. `jitter` keeps
    /// clients of one server from coming back all at once.
    pub(super) fn handle_broken(
        &mut self,
        name: &str,
        attempt: u64,
        error: &str,
        now: Instant,
        jitter: Duration,
    ) {
        let rest = self.pace.rest;
        let Some((name, member)) = self.at(name, attempt) else { return };
        let lived_long = matches!(member.phase, Phase::Ready { since, .. }
            if now.saturating_duration_since(since) >= LONG_LIFE);
        if lived_long {
            member.reconnect.handle_success();
        }
        let next = member.reconnect.handle_break(now, jitter);
        // After a long life the end was bad luck.
        let next = if lived_long { next.map(|_| now) } else { next };
        let error = error.to_owned();
        let (phase, state) = match next {
            Some(at) => (Phase::Retrying { at }, State::Retrying { error, at }),
            None => (Phase::Failed { rested: now + rest }, State::Failed { error }),
        };
        let old = std::mem::replace(&mut member.phase, phase);
        self.release(&name, &old);
        self.tell(&name, state);
        self.handle_timeout(now);
    }

    /// Time has reached `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let due = |member: &Member| matches!(member.phase, Phase::Retrying { at } if at <= now);
        let due = self.members.iter().filter(|(_, member)| due(member));
        for name in due.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            self.enqueue(&name, now);
        }
        self.fill(now);
    }

    /// The next thing to do, oldest first. Drain after every other call.
    pub(super) fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let is_awaited = !self.queue.is_empty();
        let times = self.members.values().filter_map(|member| match member.phase {
            Phase::Connecting { turn_over, .. } if is_awaited => turn_over,
            Phase::Retrying { at } => Some(at),
            _ => None,
        });
        times.min()
    }

    /// The member, if `attempt` is its latest and has not failed.
    fn at(&mut self, name: &str, attempt: u64) -> Option<(Arc<str>, &mut Member)> {
        let name = Arc::clone(self.members.get_key_value(name)?.0);
        let member = self.members.get_mut(&name)?;
        (member.phase.attempt() == Some(attempt)).then_some((name, member))
    }

    fn enqueue(&mut self, name: &Arc<str>, now: Instant) {
        if let Some(member) = self.members.get_mut(name) {
            member.phase = Phase::Waiting;
            self.queue.push_back(Arc::clone(name));
            self.tell(name, State::Waiting);
        }
        self.fill(now);
    }

    /// Gives free places to those who wait.
    fn fill(&mut self, now: Instant) {
        let mut taken = 0;
        for member in self.members.values_mut() {
            if let Phase::Connecting { turn_over, .. } = &mut member.phase {
                *turn_over = turn_over.filter(|over| now < *over);
                taken += usize::from(turn_over.is_some());
            }
        }
        while taken < self.pace.at_once
            && let Some(name) = self.queue.pop_front()
        {
            let Some(member) = self.members.get_mut(&name) else { continue };
            let attempt = self.next_attempt;
            self.next_attempt += 1;
            member.phase = Phase::Connecting { attempt, turn_over: Some(now + self.pace.turn) };
            self.tell(&name, State::Connecting);
            self.actions.push_back(Action::Connect { name, attempt });
            taken += 1;
        }
    }

    fn release(&mut self, name: &Arc<str>, old: &Phase) {
        if let Some(attempt) = old.attempt() {
            self.actions.push_back(Action::Release { name: Arc::clone(name), attempt });
        }
    }

    fn tell(&mut self, name: &Arc<str>, state: State) {
        self.actions.push_back(Action::Tell { name: Arc::clone(name), state });
    }
}

impl Phase {
    fn attempt(&self) -> Option<u64> {
        match self {
            Self::Connecting { attempt, .. } | Self::Ready { attempt, .. } => Some(*attempt),
            Self::Waiting | Self::Retrying { .. } | Self::Failed { .. } => None,
        }
    }
}

/// A server that served this long was not broken from the start.
const LONG_LIFE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
