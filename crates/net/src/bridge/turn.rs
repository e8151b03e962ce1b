//! Calls that wait at the gate of a bridge, and are let on in turn.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use switchboard_proto::exchange::{Exchange, Up};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use tokio::sync::watch;

use super::gate::{Call, Entry, Gate, Key, NOBODY};
use super::going::{self, Going};
use super::{Bridge, Caller};
use crate::drive::OwnedTask;
use crate::face::{Face, lock, now};
use crate::roster::{ServerPhase, ServerState};
use crate::upstream::{Before, LEADS_BACK, Passing, Recipient};

/// The gate, and what is under way at it.
#[derive(Debug)]
pub(super) struct Gatehouse {
    gate: Gate<(Caller, Up)>,
    /// Looks at the time while calls wait for the server.
    watching: Option<OwnedTask>,
    /// Hears what the supervisor of the server publishes.
    following: Option<OwnedTask>,
    /// A thread lets waiting calls on, one after the other.
    is_draining: bool,
    going: Going,
}

impl Gatehouse {
    pub(super) fn new(gate: Gate<(Caller, Up)>) -> Mutex<Self> {
        let (watching, following) = (None, None);
        Mutex::new(Self { gate, watching, following, is_draining: false, going: Going::default() })
    }

    /// The next call that may go on. With none, the loop that asks is over: whoever makes
    /// room later begins another.
    fn next(&mut self) -> Option<(Caller, Up)> {
        let next = self.gate.poll(now());
        self.is_draining = next.is_some();
        self.going = Going::default();
        next.inspect(|open| self.going.begin(open))
    }
}

/// A loop that lets calls on. If it panics, the next call begins another.
struct Draining<'a>(&'a Mutex<Gatehouse>);

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
    /// Lets a verb on, or keeps it until its turn.
    pub(super) fn admit(
        &self,
        mut caller: Caller,
        verb: Up,
        is_counted: bool,
    ) -> Option<(Caller, Up)> {
        let Some(house) = &self.house else { return Some((caller, verb)) };
        let number = caller.face.number();
        match &verb {
            Up::Open { exchange, request, .. } => {
                let (exchange, counts) = (*exchange, is_counted && counts(request));
                let key = (number, exchange);
                let linked =
                    !lock(house).gate.is_open() && self.is_linked(&caller.face, exchange, request);
                if counts {
                    let (owner, bridge) = (Arc::clone(&caller.owner), Weak::clone(&self.this));
                    caller.owner = Arc::new(Passing(Turn { owner, key, bridge }));
                }
                let principal = mark(caller.face.principal());
                let call = Call { key, principal, counts, linked };
                let entry = lock(house).gate.enter(call, (caller, verb), now());
                self.stirred.notify_waiters();
                self.let_in(house, exchange, entry)
            }
            Up::Drop { exchange, .. } => {
                let mut here = lock(house);
                let was_waiting = here.gate.leave((number, *exchange), now());
                let verb = here.going.keep((caller, verb)).filter(|_| !was_waiting);
                drop(here);
                self.call_next();
                verb
            }
            Up::Again { .. } | Up::Supply { .. } | Up::Note { .. } => Some((caller, verb)),
        }
    }

    fn let_in(
        &self,
        house: &Mutex<Gatehouse>,
        exchange: Exchange,
        entry: Entry<(Caller, Up)>,
    ) -> Option<(Caller, Up)> {
        let (caller, why) = match entry {
            Entry::Passes(open) => return Some(open),
            Entry::Waits => {
                self.watch_gate(house);
                return None;
            }
            Entry::Fails((caller, _), text) => (caller, Refusal::FarSide { text }),
            Entry::Crowded((caller, _)) => (caller, Refusal::TooManyCalls),
        };
        caller.owner.finish(exchange, &Message::refusal(None, &why));
        None
    }

    /// Whether a call has a link to go by that lives.
    fn is_linked(&self, face: &Face, exchange: Exchange, request: &Message) -> bool {
        let whose = self.whose(face, exchange, request);
        lock(&self.state).connections.get(&whose).is_some_and(|upstream| upstream.is_linked())
    }

    /// Lets on the calls whose turn it is, one after the other.
    ///
    /// A call that is refused at once is over before `go_on` returns, and its end leads
    /// here again. The loop that is under way takes the next call then, whoever runs it:
    /// a thousand calls that are refused need no more stack than one.
    fn call_next(&self) {
        let Some(house) = &self.house else { return };
        self.stirred.notify_waiters();
        if std::mem::replace(&mut lock(house).is_draining, true) {
            return;
        }
        let _draining = Draining(house);
        loop {
            // Not in the head of a loop: the lock must not be held in its body.
            let next = lock(house).next();
            let Some(open) = next else { return };
            self.make(house, open);
        }
    }

    /// Makes a call that has waited, and drops it if its client has meanwhile.
    fn make(&self, house: &Mutex<Gatehouse>, open: (Caller, Up)) {
        let key = going::key(&open);
        let (caller, verb) = open;
        self.go_on(&caller, verb).detach();
        let dropped = lock(house).going.end(key);
        if let Some((caller, verb)) = dropped {
            self.go_on(&caller, verb).detach();
        }
    }

    /// Follows what the supervisor of the server publishes: calls wait while the server is
    /// down. Only a bridge with a bound on calls minds. `name` is what callers know the
    /// server by.
    pub fn follow(&self, name: &str, mut state: watch::Receiver<ServerState>) {
        let Some(house) = &self.house else { return };
        let now = state.borrow_and_update().clone();
        self.handle_state(name, &now);
        let (bridge, name) = (Weak::clone(&self.this), Arc::from(name));
        lock(house).following = Some(OwnedTask::spawn(follow(bridge, name, state)));
    }

    fn handle_state(&self, name: &str, state: &ServerState) {
        let Some(house) = &self.house else { return };
        let why = self.why_down(name, state);
        let (opens, vain) = {
            let gate = &mut lock(house).gate;
            let opens = state.accepts_calls && !gate.is_open();
            if opens {
                // A server that took long to start does not sleep the moment it is there.
                gate.touch(now());
            }
            (opens, gate.handle_state(state, &why, now()))
        };
        for (caller, verb) in vain {
            fail(&caller, &verb, why.clone());
        }
        if opens {
            self.fill_pool();
        }
        let waits_for_server = lock(house).gate.poll_timeout().is_some();
        if waits_for_server {
            self.watch_gate(house);
        }
        self.call_next();
    }

    /// What callers hear of a server that is down. The reason itself is not for them: it
    /// may name files and addresses.
    fn why_down(&self, name: &str, state: &ServerState) -> String {
        if state.phase != ServerPhase::Failed {
            return format!("server {name:?} could not be started, and is tried again soon");
        }
        if self.server.leads_back() {
            return format!("server {name:?} {LEADS_BACK}");
        }
        format!("server {name:?} has failed too often, and is tried again later")
    }

    /// Other bounds for a bridge that has some: what [`guarding`](Self::guarding) wants.
    pub fn set_bounds(&self, (calls, start): (NonZeroUsize, Duration)) {
        let Some(house) = &self.house else { return };
        lock(house).gate.set_bounds(calls.get(), start);
        self.call_next();
    }

    /// How many calls wait for their turn, or for the server.
    pub fn queued(&self) -> usize {
        self.house.as_ref().map_or(0, |house| lock(house).gate.queued())
    }

    /// Whether no call is open, waits, or is on its way from the gate.
    pub fn is_idle(&self) -> bool {
        let is_left = |house: &Mutex<Gatehouse>| lock(house).gate.idle_since().is_some();
        self.house.as_ref().is_none_or(is_left) && self.calls() == 0
    }

    /// A client is gone.
    pub(super) fn leave_gate(&self, face: &Face) {
        if let Some(house) = &self.house {
            lock(house).gate.forget(face.number());
            self.call_next();
        }
    }

    /// Makes sure that somebody looks at the time while calls wait for the server.
    fn watch_gate(&self, house: &Mutex<Gatehouse>) {
        let watch = || OwnedTask::spawn(watch(Weak::clone(&self.this)));
        lock(house).watching.get_or_insert_with(watch);
    }

    /// Fails who has waited for too long; whether somebody still waits for the server.
    fn look_at_gate(&self) -> Option<Instant> {
        let house = self.house.as_ref()?;
        let (late, next) = {
            let mut house = lock(house);
            let late = house.gate.handle_timeout(now());
            let next = house.gate.poll_timeout();
            if next.is_none() {
                house.watching = None;
            }
            (late, next)
        };
        for (caller, verb) in late {
            fail(&caller, &verb, "the server did not start in time".to_owned());
        }
        next
    }

    /// Since when no call is open or waits.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        lock(self.house.as_ref()?).gate.idle_since()
    }

    /// Lets go of a server that nobody has used for so long: children end, and
    /// sessions there too. Whoever calls next begins anew. False if it was used.
    pub fn rest(&self, idle: Duration) -> bool {
        let Some(house) = &self.house else { return false };
        // Held, so that nobody comes by meanwhile.
        let house = lock(house);
        let since = house.gate.idle_since();
        if since.is_none_or(|since| now().saturating_duration_since(since) < idle) {
            return false;
        }
        lock(&self.state).rest()
    }

    /// Somebody wanted something of the server that took no call.
    pub fn touch(&self) {
        if let Some(house) = &self.house {
            lock(house).gate.touch(now());
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

async fn follow(bridge: Weak<Bridge>, name: Arc<str>, mut state: watch::Receiver<ServerState>) {
    while state.changed().await.is_ok() {
        let Some(bridge) = bridge.upgrade() else { return };
        let now = state.borrow_and_update().clone();
        bridge.handle_state(&name, &now);
    }
}

fn fail(caller: &Caller, verb: &Up, text: String) {
    if let Up::Open { exchange, .. } = verb {
        let answer = Message::refusal(None, &Refusal::FarSide { text });
        caller.owner.finish(*exchange, &answer);
    }
}

/// Who has a turn: it ends with the answer.
struct Turn {
    owner: Arc<dyn Recipient>,
    key: Key,
    bridge: Weak<Bridge>,
}

impl Before for Turn {
    fn owner(&self) -> &Arc<dyn Recipient> {
        &self.owner
    }

    fn finish(&self, exchange: Exchange, answer: &Message) {
        self.owner.finish(exchange, answer);
        if let Some(bridge) = self.bridge.upgrade()
            && let Some(house) = &bridge.house
        {
            lock(house).gate.leave(self.key, now());
            bridge.call_next();
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("owner", &self.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use switchboard_proto::exchange::Carrier;
    use switchboard_proto::limits::Limits;
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::bridge::Children;
    use crate::inside::Inside as _;
    use crate::stdio::child::Command;
    use crate::upstream::Server;

    #[tokio::test]
    async fn a_call_that_is_dropped_on_its_way_from_the_gate_is_dropped_at_the_server() {
        let server = Server::command(Command::new("sleep").args(["1000"]), Vec::new());
        let bounds = (NonZeroUsize::MIN, Duration::from_mins(1));
        let bridge = Bridge::guarding(server, Children::PerSession, Arc::default(), bounds);
        let inside: Arc<Bridge> = Arc::clone(&bridge);
        let face = Face::new(Era::Legacy, Carrier::Http, inside, &Limits::default(), false);
        let exchange = Exchange(1);
        let request = Message::request(&1.into(), method::CALL_TOOL, None);
        bridge.take(&face, Up::Open { exchange, request, said: None }).detach();
        assert_eq!(bridge.queued(), 1, "the server is not there yet");
        let house = bridge.house.as_ref().unwrap();
        // As `follow` does, but nobody lets the call on.
        lock(house).gate.handle_state(&ServerState::new(ServerPhase::Ready), "", now());
        let open = lock(house).next().unwrap();
        bridge.take(&face, Up::Drop { exchange, message: None }).detach();
        bridge.make(house, open);
        assert_eq!(bridge.calls(), 0, "nobody waits for it");
        bridge.close().await;
    }
}
