//! Calls that wait at the gate of a bridge, and are let on in turn.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use tokio::sync::watch;

use super::queue::{self, AdmissionQueue, Entry, Key, NOBODY};
use super::{Bridge, Opening};
use crate::call::Call;
use crate::connection::{ClientConnection, lock, now};
use crate::drive::OwnedTask;
use crate::roster::ServerState;

/// The gate, and what is under way at it.
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
    pub(super) fn new(queue: AdmissionQueue<Opening>) -> Mutex<Self> {
        Mutex::new(Self { queue, watching: None, following: None, is_draining: false })
    }

    /// The next call that may go on. With none, the loop that asks is over: whoever makes
    /// room later begins another.
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

/// Tells principals apart.
fn mark(principal: &[u8]) -> u64 {
    if principal.is_empty() {
        return NOBODY;
    }
    let mut mark = DefaultHasher::new();
    principal.hash(&mut mark);
    mark.finish() | 1
}

/// Greetings and listens take no turn: the one comes before all calls, the
/// other lasts as long as its client likes.
fn counts(request: &Message) -> bool {
    !matches!(request.method(), method::INITIALIZE | method::LISTEN | method::PING)
}

impl Bridge {
    /// Lets a call on, or keeps it until its turn.
    pub(super) fn admit(&self, opening: Opening) -> Option<Opening> {
        let Some(admission) = &self.admission else { return Some(opening) };
        let Opening { client, call, request, .. } = &opening;
        let counts = !call.is_internal() && counts(request);
        let linked =
            !lock(admission).queue.is_open() && self.is_linked(client, call.exchange(), request);
        let (key, principal) = (key(&opening), mark(client.principal()));
        let this: Weak<Self> = Weak::clone(&self.this);
        if !call.hold(this) {
            return None;
        }
        let waiting = call.clone();
        let call = queue::Call { key, principal, counts, linked };
        let entry = lock(admission).queue.enter(call, opening, now());
        self.stirred.notify_waiters();
        let (opening, why) = match entry {
            Entry::Passes(opening) => {
                self.permit(&opening);
                return Some(opening);
            }
            Entry::Waits => {
                self.watch_gate(admission);
                if waiting.is_over() {
                    // It was cancelled before it was in the queue.
                    self.leave_queue(&waiting);
                }
                return None;
            }
            Entry::Fails(opening, why) => (opening, Outcome::from(why)),
            Entry::Crowded(opening) => (opening, Refusal::TooManyCalls.into()),
        };
        opening.call.finish(why);
        None
    }

    /// The call was let on: its permit ends with it.
    fn permit(&self, opening: &Opening) {
        if !opening.call.is_internal() && counts(&opening.request) {
            let (bridge, key) = (Weak::clone(&self.this), key(opening));
            opening.call.set_permit(Permit { bridge, key });
        }
    }

    /// A call that waits is not wanted any more.
    pub(super) fn leave_queue(&self, call: &Call) {
        if let Some(admission) = &self.admission {
            lock(admission).queue.withdraw(|opening| opening.call == *call);
            self.call_next();
        }
    }

    /// Whether a call has a link to go by that lives.
    fn is_linked(&self, client: &ClientConnection, exchange: Exchange, request: &Message) -> bool {
        let whose = self.whose(client, exchange, request);
        lock(&self.state).connections.get(&whose).is_some_and(|upstream| upstream.is_linked())
    }

    /// Lets on the calls whose turn it is, one after the other.
    ///
    /// A call that is refused at once is over before `go_on` returns, and its end leads
    /// here again. The loop that is under way takes the next call then, whoever runs it:
    /// a thousand calls that are refused need no more stack than one.
    fn call_next(&self) {
        let Some(admission) = &self.admission else { return };
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
            self.go_on(opening).detach();
        }
    }

    /// Follows what the supervisor of the server publishes: calls wait while the server is
    /// down. Only a bridge with a bound on calls minds. `name` is what callers know the
    /// server by.
    pub fn follow(&self, name: &str, mut state: watch::Receiver<ServerState>) {
        let Some(admission) = &self.admission else { return };
        let now = state.borrow_and_update().clone();
        let (bridge, name) = (Weak::clone(&self.this), Arc::from(name));
        self.handle_state(&name, &now);
        lock(admission).following = Some(OwnedTask::spawn(follow(bridge, name, state)));
    }

    fn handle_state(&self, name: &Arc<str>, state: &ServerState) {
        let Some(admission) = &self.admission else { return };
        let (opens, vain) = {
            let queue = &mut lock(admission).queue;
            let opens = state.accepts_calls && !queue.is_open();
            if opens {
                // A server that took long to start does not sleep the moment it is there.
                queue.touch(now());
            }
            (opens, queue.handle_state(name, state, now()))
        };
        for (opening, why) in vain {
            opening.call.finish(why);
        }
        if opens {
            self.fill_pool();
        }
        let waits_for_server = lock(admission).queue.poll_timeout().is_some();
        if waits_for_server {
            self.watch_gate(admission);
        }
        self.call_next();
    }

    /// Other bounds for a bridge that has some: what [`guarding`](Self::guarding) wants.
    pub fn set_bounds(&self, (calls, start): (NonZeroUsize, Duration)) {
        let Some(admission) = &self.admission else { return };
        lock(admission).queue.set_bounds(calls.get(), start);
        self.call_next();
    }

    /// How many calls wait for their turn, or for the server.
    pub fn queued(&self) -> usize {
        self.admission.as_ref().map_or(0, |admission| lock(admission).queue.queued())
    }

    /// Whether no call is open, waits, or is on its way from the gate.
    pub fn is_idle(&self) -> bool {
        let is_left = |admission: &Mutex<Admission>| lock(admission).queue.idle_since().is_some();
        self.admission.as_ref().is_none_or(is_left) && self.calls() == 0
    }

    /// A client is gone.
    pub(super) fn leave_gate(&self, client: &ClientConnection) {
        if let Some(admission) = &self.admission {
            lock(admission).queue.forget(client.number());
            self.call_next();
        }
    }

    /// Makes sure that somebody looks at the time while calls wait for the server.
    fn watch_gate(&self, admission: &Mutex<Admission>) {
        let watch = || OwnedTask::spawn(watch(Weak::clone(&self.this)));
        lock(admission).watching.get_or_insert_with(watch);
    }

    /// Fails who has waited for too long; whether somebody still waits for the server.
    fn look_at_gate(&self) -> Option<Instant> {
        let admission = self.admission.as_ref()?;
        let (late, next, waited, server) = {
            let mut admission = lock(admission);
            let late = admission.queue.handle_timeout(now());
            let next = admission.queue.poll_timeout();
            if next.is_none() {
                admission.watching = None;
            }
            (late, next, admission.queue.patience(), admission.queue.name())
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

    /// Lets go of a server that nobody has used for so long: children end, and
    /// sessions there too. Whoever calls next begins anew. False if it was used.
    pub fn rest(&self, idle: Duration) -> bool {
        let Some(admission) = &self.admission else { return false };
        // Held, so that nobody comes by meanwhile.
        let admission = lock(admission);
        let since = admission.queue.idle_since();
        if since.is_none_or(|since| now().saturating_duration_since(since) < idle) {
            return false;
        }
        lock(&self.state).rest()
    }

    /// Somebody wanted something of the server that took no call.
    pub fn touch(&self) {
        if let Some(admission) = &self.admission {
            lock(admission).queue.touch(now());
            self.stirred.notify_waiters();
        }
    }
}

async fn watch(bridge: Weak<Bridge>) {
    loop {
        let next = match bridge.upgrade() {
            Some(bridge) => bridge.look_at_gate(),
            None => None,
        };
        let Some(next) = next else { return };
        tokio::time::sleep_until(next.into()).await;
    }
}

fn key(opening: &Opening) -> Key {
    (opening.client.number(), opening.call.exchange())
}

async fn follow(bridge: Weak<Bridge>, name: Arc<str>, mut state: watch::Receiver<ServerState>) {
    while state.changed().await.is_ok() {
        let Some(bridge) = bridge.upgrade() else { return };
        let now = state.borrow_and_update().clone();
        bridge.handle_state(&name, &now);
    }
}

/// The place of one call among those that the server may have at once. It is free again
/// when this is dropped.
pub(crate) struct Permit {
    bridge: Weak<Bridge>,
    key: Key,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(bridge) = self.bridge.upgrade()
            && let Some(admission) = &bridge.admission
        {
            lock(admission).queue.leave(self.key, now());
            bridge.call_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_proto::exchange::Carrier;
    use switchboard_proto::jsonrpc::parse;
    use switchboard_proto::limits::Limits;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::backend::Backend as _;
    use crate::bridge::Children;
    use crate::roster::ServerPhase;
    use crate::stdio::child::Command;
    use crate::upstream::ServerTarget;

    #[tokio::test]
    async fn a_call_that_is_dropped_on_its_way_from_the_gate_is_dropped_at_the_server() {
        let server = ServerTarget::command(Command::new("sleep").args(["1000"]), Vec::new());
        let bounds = (NonZeroUsize::MIN, Duration::from_mins(1));
        let bridge = Bridge::guarding(server, Children::PerSession, Arc::default(), bounds);
        let backend: Arc<Bridge> = Arc::clone(&bridge);
        let client =
            ClientConnection::new(Era::Legacy, Carrier::Http, backend, &Limits::default(), false);
        let exchange = Exchange(1);
        let request = Message::request(&1.into(), method::CALL_TOOL, None);
        let call = Call::new(Arc::<ClientConnection>::clone(&client), exchange);
        bridge.open(&client, &call, request, None).detach();
        assert_eq!(bridge.queued(), 1, "the server is not there yet");
        let admission = bridge.admission.as_ref().unwrap();
        // As `follow` does, but nobody lets the call on.
        let ready = ServerState::new(ServerPhase::Ready);
        lock(admission).queue.handle_state(&"a".into(), &ready, now());
        let open = lock(admission).next().unwrap();
        call.cancel(None).detach();
        bridge.permit(&open);
        bridge.go_on(open).detach();
        assert_eq!(bridge.calls(), 0, "nobody waits for it");
        bridge.close().await;
    }

    #[tokio::test]
    async fn a_client_that_leaves_before_its_greeting_is_answered_leaves_nothing_behind() {
        let server = ServerTarget::command(Command::new("sleep").args(["1000"]), Vec::new());
        let bridge = Bridge::new(server, Children::PerSession, Arc::default());
        let backend: Arc<Bridge> = Arc::clone(&bridge);
        let (era, limits) = (Era::Legacy, Limits::default());
        let client = ClientConnection::new(era, Carrier::Http, backend, &limits, false);
        let params = br#"{"protocolVersion":"x","capabilities":{}}"#;
        let greeting = Message::request(&1.into(), method::INITIALIZE, Some(params));
        let greeting = parse(greeting.text().clone()).unwrap();
        let lane = client.open_lane();
        client.step(|half| half.handle_incoming(lane, greeting, None)).1.detach();
        assert_eq!(bridge.calls(), 1, "the server does not answer");
        client.end();
        bridge.close().await;
        let gone = Arc::downgrade(&client);
        drop(client);
        assert!(gone.upgrade().is_none());
    }
}
