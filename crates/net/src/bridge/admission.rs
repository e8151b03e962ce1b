//! Which calls may go on to the server now, and where the others wait.
//!
//! ```text
//!   call ──▶ the server has failed ─────────────────▶ refused, with why
//!       ──▶ it is not there, nor a connection ───▶ waits for it, but not for long
//!       ──▶ as many calls are open as may be ───────▶ waits for its turn, in order
//!       ──▶ else ───────────────────────────────────▶ goes on, and counts until it is over
//! ```
//!
//! [`AdmissionQueue`] decides, and knows no server and no clock. The bridge does what it
//! says, and tells it what the supervisor of the server publishes.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use switchboard_proto::Table;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use tokio::sync::watch;

use super::{Bridge, Opening};
use crate::connection::lock;
use crate::drive::{OwnedTask, now};
use crate::roster::{ServerPhase, ServerState};

/// The queue of a bridge, and what is under way at it.
#[derive(Debug)]
pub(super) struct Admission {
    queue: AdmissionQueue<Opening>,
    /// Looks at the time while calls wait for the server.
    watching: Option<OwnedTask>,
    /// Hears what the supervisor of the server publishes.
    following: Option<OwnedTask>,
    /// A thread lets waiting calls on, one after the other.
    is_draining: bool,
}

impl Admission {
    pub(super) fn new(calls: usize, start: Duration) -> Mutex<Self> {
        let queue = AdmissionQueue::new(calls, start, now());
        Mutex::new(Self { queue, watching: None, following: None, is_draining: false })
    }

    /// The next call that may go on. With none, the loop that asks is over: the next call
    /// that leaves begins another.
    fn next(&mut self) -> Option<Opening> {
        let next = self.queue.poll(now());
        self.is_draining = next.is_some();
        next
    }
}

/// A loop that lets calls on. If it panics, the next call begins another.
struct Draining<'a>(&'a Mutex<Admission>);

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.0).is_draining = false;
        }
    }
}

impl Bridge {
    /// Lets a call on, or keeps it until its turn.
    pub(super) fn admit(&self, admission: &Mutex<Admission>, opening: Opening) -> Option<Opening> {
        let Opening { client, call, request, .. } = &opening;
        let is_open = lock(admission).queue.state.accepts_calls;
        // Whether the call has a living connection to go by.
        let linked = !is_open && {
            let connection = self.choose_key(client, call.exchange(), request);
            lock(&self.state).connections.get(&connection).is_some_and(|it| it.is_linked())
        };
        let (key, principal) = (key(&opening), principal(client.principal()));
        let this: Weak<Self> = Weak::clone(&self.this);
        if !call.hold(this) {
            return None;
        }
        let waiting = call.clone();
        let call = QueuedCall { key, principal, counts: opening.counts(), linked };
        let decision = lock(admission).queue.enter(call, opening, now());
        self.stirred.notify_waiters();
        let (opening, why) = match decision {
            Decision::Passes(opening) => {
                self.permit(&opening);
                return Some(opening);
            }
            Decision::Waits => {
                self.watch_queue(admission);
                if waiting.is_over() {
                    // It was cancelled before it was in the queue.
                    self.leave_queue(|queue| queue.withdraw(|opening| opening.call == waiting));
                }
                return None;
            }
            Decision::Fails(opening, why) => (opening, Outcome::from(why)),
            Decision::Crowded(opening) => (opening, Refusal::TooManyCalls.into()),
        };
        opening.call.finish(why);
        None
    }

    /// The call was let on: its permit ends with it.
    fn permit(&self, opening: &Opening) {
        if opening.counts() {
            self.server.traffic().call();
            let (bridge, key) = (Weak::clone(&self.this), key(opening));
            opening.call.set_permit(Permit { bridge, key });
        }
    }

    /// Changes the queue, if there is one, and lets on the calls whose turn it is then, one
    /// after the other.
    ///
    /// A call that is refused at once is over before `connect` returns, and its end leads
    /// here again. The loop that is under way takes the next call then, whichever thread
    /// runs it: a thousand calls that are refused need no more stack than one.
    pub(super) fn leave_queue(&self, change: impl FnOnce(&mut AdmissionQueue<Opening>)) {
        let Some(admission) = &self.admission else { return };
        change(&mut lock(admission).queue);
        self.stirred.notify_waiters();
        if std::mem::replace(&mut lock(admission).is_draining, true) {
            return;
        }
        let _draining = Draining(admission);
        loop {
            // Not in the head of a loop: the lock must not be held in its body.
            let next = lock(admission).next();
            let Some(opening) = next else { return };
            self.permit(&opening);
            self.connect(opening).detach();
        }
    }

    /// Follows what the supervisor of the server publishes: calls wait while the server is
    /// down. Only a bridge with a bound on calls minds. `name` is what callers know the
    /// server by.
    pub fn follow(&self, name: &str, mut state: watch::Receiver<ServerState>) {
        let Some(admission) = &self.admission else { return };
        let (bridge, name) = (Weak::clone(&self.this), Arc::from(name));
        let now = state.borrow_and_update().clone();
        self.handle_state(admission, &name, &now);
        lock(admission).following = Some(OwnedTask::spawn(async move {
            while state.changed().await.is_ok() {
                let Some(bridge) = bridge.upgrade() else { return };
                let Some(admission) = &bridge.admission else { return };
                let now = state.borrow_and_update().clone();
                bridge.handle_state(admission, &name, &now);
            }
        }));
    }

    fn handle_state(&self, admission: &Mutex<Admission>, name: &Arc<str>, state: &ServerState) {
        let (opens, vain, waits_for_server) = {
            let queue = &mut lock(admission).queue;
            let opens = state.accepts_calls && !queue.state.accepts_calls;
            if opens {
                // A server that took long to start does not sleep the moment it is there.
                queue.used = now();
            }
            let vain = queue.handle_state(name, state, now());
            (opens, vain, queue.poll_timeout().is_some())
        };
        for (opening, why) in vain {
            opening.call.finish(why);
        }
        if opens {
            self.fill_pool();
        }
        if waits_for_server {
            self.watch_queue(admission);
        }
        self.leave_queue(|_| {});
    }

    /// Other bounds for a bridge that has some: what [`guarding`](Self::guarding) wants.
    pub fn set_bounds(&self, (calls, start): (NonZeroUsize, Duration)) {
        self.leave_queue(|queue| (queue.most, queue.patience) = (calls.get(), start));
    }

    /// How many calls wait for their turn, or for the server.
    pub fn queued(&self) -> usize {
        self.admission.as_ref().map_or(0, |admission| lock(admission).queue.waiting.len())
    }

    /// Whether no call is open, waits, or is on its way from the queue.
    pub fn is_idle(&self) -> bool {
        (self.admission.is_none() || self.unused_since().is_some()) && self.calls() == 0
    }

    /// Makes sure that a task looks at the time while calls wait for the server.
    fn watch_queue(&self, admission: &Mutex<Admission>) {
        let watch = || {
            let bridge = Weak::clone(&self.this);
            OwnedTask::spawn(async move {
                while let Some(next) = bridge.upgrade().and_then(|it| it.fail_late()) {
                    tokio::time::sleep_until(next.into()).await;
                }
            })
        };
        lock(admission).watching.get_or_insert_with(watch);
    }

    /// Fails calls that have waited for too long; when to look again, if calls still wait
    /// for the server.
    fn fail_late(&self) -> Option<Instant> {
        let (late, next, waited, server) = {
            let mut admission = lock(self.admission.as_ref()?);
            let late = admission.queue.handle_timeout(now());
            let next = admission.queue.poll_timeout();
            if next.is_none() {
                admission.watching = None;
            }
            (late, next, admission.queue.patience, Arc::clone(&admission.queue.name))
        };
        for opening in late {
            let server = Arc::clone(&server);
            opening.call.finish(Failure::StartTimeout { server, waited });
        }
        next
    }

    /// Since when no call is open or waits.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        lock(self.admission.as_ref()?).queue.idle_since()
    }

    /// Lets go of a server that no client has used for so long: children end, and
    /// sessions there too. The next call begins anew. False if it was used.
    pub fn rest(&self, idle: Duration) -> bool {
        let Some(admission) = &self.admission else { return false };
        // Held, so that no call comes by meanwhile.
        let admission = lock(admission);
        let since = admission.queue.idle_since();
        if since.is_none_or(|since| now().saturating_duration_since(since) < idle) {
            return false;
        }
        lock(&self.state).rest()
    }

    /// A client wanted something of the server that took no call.
    pub fn touch(&self) {
        if let Some(admission) = &self.admission {
            lock(admission).queue.used = now();
            self.stirred.notify_waiters();
        }
    }
}

impl Opening {
    /// Whether it takes a turn. Greetings and listens take none: the one comes before all
    /// calls, the other lasts as long as its client likes.
    fn counts(&self) -> bool {
        let method = self.request.method();
        let is_free = matches!(method, method::INITIALIZE | method::LISTEN | method::PING);
        !self.call.is_internal() && !is_free
    }
}

fn key(opening: &Opening) -> CallKey {
    (opening.client.number(), opening.call.exchange())
}

/// Tells principals apart.
fn principal(name: &[u8]) -> u64 {
    if name.is_empty() {
        return NOBODY;
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() | 1
}

/// The place of one call among those that the server may have at once. It is free again
/// when this is dropped.
pub(crate) struct Permit {
    bridge: Weak<Bridge>,
    key: CallKey,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.leave_queue(|queue| _ = queue.leave(self.key, now()));
        }
    }
}

/// A client's call: the number of the client, and what it calls the call.
type CallKey = (u64, Exchange);

/// Calls that may wait for one server: more are a flood, and waiting helps none of them.
const MOST_WAITING: usize = 1024;

/// Those of one principal, where clients have a key.
const SHARE_WAITING: usize = MOST_WAITING - MOST_WAITING / 4;

/// The principal of clients that show none.
const NOBODY: u64 = 0;

/// What is let on, and what waits.
#[derive(Debug)]
pub(super) struct AdmissionQueue<W> {
    most: usize,
    patience: Duration,
    /// What callers know the server by.
    name: Arc<str>,
    /// What the supervisor of the server has published last.
    state: ServerState,
    /// Those that have a turn, and whose they are.
    open: Table<CallKey, u64>,
    waiting: VecDeque<Waiter<W>>,
    /// When something last came by.
    used: Instant,
}

#[derive(Debug)]
struct Waiter<W> {
    what: W,
    call: QueuedCall,
    /// How long it waits for the server.
    until: Instant,
}

/// What must be known of a call.
#[derive(Clone, Copy, Debug)]
struct QueuedCall {
    key: CallKey,
    /// The principal behind it; the same for all clients that show none.
    principal: u64,
    /// It takes a turn.
    counts: bool,
    /// Its way to the server is there, however the server stands.
    linked: bool,
}

/// What becomes of a call.
#[derive(Debug, Eq, PartialEq)]
enum Decision<W> {
    Passes(W),
    Waits,
    /// The server cannot be reached; why.
    Fails(W, Failure),
    /// Too many wait.
    Crowded(W),
}

impl<W> AdmissionQueue<W> {
    fn new(most: usize, patience: Duration, now: Instant) -> Self {
        let (open, waiting) = (Table::default(), VecDeque::new());
        let (name, state) = (Arc::from(""), ServerState::new(ServerPhase::Starting));
        Self { most, patience, name, state, open, waiting, used: now }
    }

    /// A call comes by.
    fn enter(&mut self, call: QueuedCall, what: W, now: Instant) -> Decision<W> {
        self.used = now;
        if !call.linked && self.state.phase == ServerPhase::Failed {
            return Decision::Fails(what, self.failure(now));
        }
        let is_first = !self.waiting.iter().any(|waiter| self.may_reach(&waiter.call));
        if self.may_reach(&call) && (!call.counts || is_first && self.open.len() < self.most) {
            if call.counts {
                self.open.insert(call.key, call.principal);
            }
            return Decision::Passes(what);
        }
        let own = self.waiting.iter().filter(|it| it.call.principal == call.principal).count();
        let most = if call.principal == NOBODY { MOST_WAITING } else { SHARE_WAITING };
        if self.waiting.len() >= MOST_WAITING || own >= most {
            return Decision::Crowded(what);
        }
        self.waiting.push_back(Waiter { what, call, until: now + self.patience });
        Decision::Waits
    }

    fn may_reach(&self, call: &QueuedCall) -> bool {
        call.linked || self.state.accepts_calls
    }

    /// The next one that may go on.
    fn poll(&mut self, now: Instant) -> Option<W> {
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
        // Of those that have waited longest, that of the principal with the fewest turns.
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

    /// A call is over, or not wanted any more. True if it was waiting: it was never made.
    fn leave(&mut self, key: CallKey, now: Instant) -> bool {
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
    fn handle_state(
        &mut self,
        name: &Arc<str>,
        state: &ServerState,
        now: Instant,
    ) -> Vec<(W, Failure)> {
        if self.state.accepts_calls && !state.accepts_calls {
            // They were never sent: from here on they wait for the server, not for their turn.
            let until = now + self.patience;
            self.waiting.iter_mut().for_each(|waiter| waiter.until = until);
        }
        (self.name, self.state) = (Arc::clone(name), state.clone());
        let is_new = state.phase == ServerPhase::Retrying && !state.was_ready;
        if is_new || state.phase == ServerPhase::Failed {
            let why = self.failure(now);
            let vain = self.take(|waiter| !waiter.call.linked);
            return vain.into_iter().map(|what| (what, why.clone())).collect();
        }
        Vec::new()
    }

    /// Calls that have waited for the server for too long.
    fn handle_timeout(&mut self, now: Instant) -> Vec<W> {
        if self.state.accepts_calls {
            return Vec::new();
        }
        self.take(|waiter| !waiter.call.linked && waiter.until <= now)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    fn poll_timeout(&self) -> Option<Instant> {
        if self.state.accepts_calls {
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

    /// Since when nothing has come by; none while something is open.
    fn idle_since(&self) -> Option<Instant> {
        (self.open.is_empty() && self.waiting.is_empty()).then_some(self.used)
    }
    /// Why a call to a server that is down fails now.
    fn failure(&self, now: Instant) -> Failure {
        let server = Arc::clone(&self.name);
        let why = self.state.reason.clone().unwrap_or(Failure::CLOSED);
        if let Failure::Loop { .. } = why {
            // Trying again does not help.
            return Failure::Loop { server: Some(server) };
        }
        let next = self.state.next_attempt.map(|next| next.saturating_duration_since(now));
        Failure::Down { server, why: Arc::new(why), next }
    }
}

#[cfg(test)]
mod tests;
