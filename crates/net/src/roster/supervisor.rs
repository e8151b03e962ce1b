//! Which server stands how, and what to do about it next.
//!
//! Knows names, attempts and instants. Does not connect, does not read a
//! clock: the caller says what happened and when, then drains
//! [`poll`](Supervisor::poll).
//!
//! ```text
//!              a place is free            lists are there
//!   Queued ───────────────────▶ Starting ──────────────▶ Ready ──nobody uses it──▶ Sleeping
//!      ▲                            │ it failed             │ it broke                │
//!      │ it is time                 ▼                       │                         │
//!      ├──────────────────────── Retrying ◀─────────────────┘                         │
//!      │ somebody wants it,         │ too often                                       │
//!      │ and it has rested          ▼                                                 │
//!      ├───────────────────────── Failed              somebody wants it               │
//!      └──────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! With a [`probe`](RosterOptions::probe) one that failed is also tried every now and
//! then. Only its success is published.
//!
//! Attempts are numbered, and what is told about an old one changes nothing.
//! An attempt that takes long gives up its place, but not itself: servers that
//! hang must not keep the others waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use switchboard_proto::failure::Failure;

use switchboard_proto::backoff::{Reconnect, Restart};

use super::state::{RosterOptions, ServerPhase, ServerState};

/// The servers and how they stand.
#[derive(Debug)]
pub(super) struct Supervisor {
    options: Arc<RosterOptions>,
    members: BTreeMap<Arc<str>, SupervisedServer>,
    /// Those that wait for a place, longest first; each at most once.
    queue: VecDeque<Arc<str>>,
    next_attempt: u64,
    actions: VecDeque<(Arc<str>, Action)>,
}

#[derive(Debug)]
struct SupervisedServer {
    phase: MemberPhase,
    retry: Retry,
    /// It failed, and is only looked at.
    is_probed: bool,
}

#[derive(Debug)]
enum MemberPhase {
    Queued,
    /// Until `turn_over` it holds a place.
    Starting {
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
        probe: Option<Instant>,
    },
    Sleeping,
}

/// What the caller must do about a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Connect; what comes of it is told under this number.
    Connect { attempt: u64 },
    /// Nothing that belongs to this attempt is wanted any more.
    Release { attempt: u64 },
    /// Let everybody know.
    Tell { state: ServerState },
}

impl Supervisor {
    pub(super) fn new(options: Arc<RosterOptions>) -> Self {
        let members = BTreeMap::new();
        let (queue, actions) = (VecDeque::new(), VecDeque::new());
        Self { options, members, queue, next_attempt: 1, actions }
    }

    /// There is one more server. False if the name is taken.
    pub(super) fn add(&mut self, name: &Arc<str>, now: Instant) -> bool {
        if self.members.contains_key(name) {
            return false;
        }
        let (phase, retry) = (MemberPhase::Queued, Retry::new(&self.options));
        let member = SupervisedServer { phase, retry, is_probed: false };
        self.members.insert(Arc::clone(name), member);
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
        self.remove(name, now) && self.add(&Arc::from(name), now)
    }

    /// A client wants to use a server: one that sleeps, or was left alone long
    /// enough, gets another attempt.
    pub(super) fn want(&mut self, name: &str, now: Instant) {
        let Some((name, member)) = self.members.get_key_value(name) else { return };
        let is_meant = match member.phase {
            MemberPhase::Sleeping => true,
            MemberPhase::Failed { rested, .. } => rested <= now,
            _ => false,
        };
        if is_meant {
            let name = Arc::clone(name);
            self.enqueue(&name, now);
        }
    }

    /// No client uses a server: it is let go of until one does. False if it is not ready.
    pub(super) fn sleep(&mut self, name: &str) -> bool {
        let Some((name, member)) = self.members.get_key_value(name) else { return false };
        let is_ready = matches!(member.phase, MemberPhase::Ready { .. });
        if is_ready {
            let state = ServerState::new(ServerPhase::Sleeping);
            self.leave(&Arc::clone(name), MemberPhase::Sleeping, state);
        }
        is_ready
    }

    /// An attempt has succeeded.
    pub(super) fn handle_ready(&mut self, name: &str, attempt: u64, now: Instant) {
        let Some((name, member)) = self.at(name, attempt) else { return };
        if let MemberPhase::Starting { .. } = member.phase {
            member.phase = MemberPhase::Ready { attempt, since: now };
            member.is_probed = false;
            self.tell(&name, ServerState::new(ServerPhase::Ready));
            self.fill(now);
        }
    }

    /// An attempt has failed, or what it led to has broken. `jitter` keeps clients of one
    /// server from coming back all at once; without one, trying again soon would not help.
    pub(super) fn handle_broken(
        &mut self,
        name: &str,
        attempt: u64,
        error: Failure,
        now: Instant,
        jitter: Option<Duration>,
    ) {
        let Some((name, member)) = self.at(name, attempt) else { return };
        let since = match member.phase {
            MemberPhase::Ready { since, .. } => Some(since),
            _ => None,
        };
        // One look is one attempt.
        let jitter = jitter.filter(|_| !member.is_probed);
        let next = jitter.and_then(|jitter| member.retry.handle_broken(since, now, jitter));
        self.fail(&name, error, next, now);
    }

    /// A server is not there, and is tried again then; else now and then.
    fn fail(&mut self, name: &Arc<str>, error: Failure, next: Option<Instant>, now: Instant) {
        let RosterOptions { rest, probe, .. } = *self.options;
        let (phase, state) = if let Some(at) = next {
            (MemberPhase::Retrying { at }, ServerState::down(ServerPhase::Retrying, error, next))
        } else {
            let probe = probe.map(|time| now + time);
            let phase = MemberPhase::Failed { rested: probe.unwrap_or(now + rest), probe };
            (phase, ServerState::down(ServerPhase::Failed, error, probe))
        };
        self.leave(name, phase, state);
        self.handle_timeout(now);
    }

    /// Time has reached `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let is_due = |member: &SupervisedServer| member.due().is_some_and(|at| at <= now);
        let due = self.members.iter().filter(|(_, member)| is_due(member));
        for name in due.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            if let Some(member) = self.members.get_mut(&name) {
                member.is_probed = matches!(member.phase, MemberPhase::Failed { .. });
            }
            self.enqueue(&name, now);
        }
        self.fill(now);
    }

    /// The next thing to do, oldest first. Drain after every other call.
    pub(super) fn poll(&mut self) -> Option<(Arc<str>, Action)> {
        self.actions.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let is_awaited = !self.queue.is_empty();
        let times = self.members.values().filter_map(|member| match member.phase {
            MemberPhase::Starting { turn_over, .. } if is_awaited => turn_over,
            _ => member.due(),
        });
        times.min()
    }

    /// The member, if `attempt` is its latest and has not failed.
    fn at(&mut self, name: &str, attempt: u64) -> Option<(Arc<str>, &mut SupervisedServer)> {
        let name = Arc::clone(self.members.get_key_value(name)?.0);
        let member = self.members.get_mut(&name)?;
        (member.phase.attempt() == Some(attempt)).then_some((name, member))
    }

    fn enqueue(&mut self, name: &Arc<str>, now: Instant) {
        if let Some(member) = self.members.get_mut(name) {
            member.phase = MemberPhase::Queued;
            self.queue.push_back(Arc::clone(name));
            self.tell(name, ServerState::new(ServerPhase::Queued));
        }
        self.fill(now);
    }

    /// Gives free places to servers that wait.
    fn fill(&mut self, now: Instant) {
        let mut taken = 0;
        for member in self.members.values_mut() {
            if let MemberPhase::Starting { turn_over, .. } = &mut member.phase {
                *turn_over = turn_over.filter(|over| now < *over);
                taken += usize::from(turn_over.is_some());
            }
        }
        while taken < self.options.at_once.max(1)
            && let Some(name) = self.queue.pop_front()
        {
            let Some(member) = self.members.get_mut(&name) else { continue };
            let attempt = self.next_attempt;
            self.next_attempt += 1;
            member.phase =
                MemberPhase::Starting { attempt, turn_over: Some(now + self.options.turn) };
            self.tell(&name, ServerState::new(ServerPhase::Starting));
            self.actions.push_back((name, Action::Connect { attempt }));
            taken += 1;
        }
    }

    /// Nothing of the attempt is wanted any more: the server is in this phase now.
    fn leave(&mut self, name: &Arc<str>, phase: MemberPhase, state: ServerState) {
        if let Some(member) = self.members.get_mut(name) {
            let old = std::mem::replace(&mut member.phase, phase);
            self.release(name, &old);
            self.tell(name, state);
        }
    }

    fn release(&mut self, name: &Arc<str>, old: &MemberPhase) {
        if let Some(attempt) = old.attempt() {
            self.actions.push_back((Arc::clone(name), Action::Release { attempt }));
        }
    }

    fn tell(&mut self, name: &Arc<str>, state: ServerState) {
        let is_probed = self.members.get(name).is_some_and(|member| member.is_probed);
        if is_probed && state.is_pending() {
            return;
        }
        self.actions.push_back((Arc::clone(name), Action::Tell { state }));
    }
}

impl SupervisedServer {
    /// When it is tried again, if the supervisor decides that.
    fn due(&self) -> Option<Instant> {
        match self.phase {
            MemberPhase::Retrying { at } => Some(at),
            MemberPhase::Failed { probe, .. } => probe,
            _ => None,
        }
    }
}

impl MemberPhase {
    fn attempt(&self) -> Option<u64> {
        match self {
            Self::Starting { attempt, .. } | Self::Ready { attempt, .. } => Some(*attempt),
            Self::Queued | Self::Retrying { .. } | Self::Failed { .. } | Self::Sleeping => None,
        }
    }
}

/// The attempts at one server that count.
#[derive(Debug)]
enum Retry {
    /// A little later each time, so many times in a row.
    Growing(Reconnect),
    /// At once after a long life, else three times in five minutes.
    Supervised(Restart),
}

impl Retry {
    fn new(options: &RosterOptions) -> Self {
        match options.probe {
            Some(_) => Self::Supervised(Restart::default()),
            None => Self::Growing(Reconnect::new(options.attempts)),
        }
    }

    /// It broke, after it had been there since then: when to try again. `jitter`
    /// keeps clients of one server from coming back all at once.
    fn handle_broken(
        &mut self,
        since: Option<Instant>,
        now: Instant,
        jitter: Duration,
    ) -> Option<Instant> {
        match self {
            Self::Growing(reconnect) => {
                let life = since.map(|since| now.saturating_duration_since(since));
                let lived_long = life.is_some_and(|life| life >= LONG_LIFE);
                if lived_long {
                    reconnect.handle_success();
                }
                let next = reconnect.handle_break(now, jitter);
                // After a long life the end was bad luck.
                if lived_long { next.map(|_| now) } else { next }
            }
            Self::Supervised(restart) => restart.handle_exit(since.unwrap_or(now), now),
        }
    }
}

/// A server that served this long was not broken from the start.
const LONG_LIFE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
