//! The way between one client and one server.
//!
//! A server with a session of its own must be greeted before it is called. The
//! client has greeted us, long ago; its first call makes us repeat its words:
//!
//! ```text
//!   New ──call──▶ Greeting, calls wait ──welcome──▶ Greeted: confirm, level, the calls
//!    ▲                                 └─refused──▶ the calls fail, and
//!    └──────────────────────────────────────────────the next call tries again
//! ```
//!
//! A server that another takes the place of has a leg of its own: the calls that
//! it has come back by it, and the next call goes by a new one.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};

use serde_json::json;
use switchboard_net::bridge::Bridge;
use switchboard_net::face::Face;
use switchboard_net::inside::Works;
use switchboard_net::upstream::Recipient;
use switchboard_proto::exchange::{Ask, Exchange, Said, Up};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;

use super::at::At;
use super::duty::Duty;
use super::lock;
use super::session::Session;
use crate::fleet::Backend;
use way::Stage;
pub(super) use way::Way;

mod way;

/// Our own calls, by numbers that no client gets to.
const GREETING: Exchange = Exchange(u64::MAX);
const LEVEL: Exchange = Exchange(u64::MAX - 1);
/// The last of those by which resources are watched anew.
const WATCH: u64 = u64::MAX - 2;

/// Resources that are watched anew at a server that takes the place of another.
const MOST_WATCHED: usize = 1024;

/// Bytes of their URIs.
const MOST_WATCHED_BYTES: usize = 1 << 20;

fn is_ours(exchange: Exchange) -> bool {
    exchange.0 > WATCH - MOST_WATCHED as u64
}

/// Stands before a client in its calls to one server.
pub(super) struct Leg {
    face: Arc<Face>,
    server: Arc<str>,
    at: At,
    /// None for a modern client, which is greeted by nobody.
    way: Option<Way>,
    /// Calls that are not answered; as many as a client may have open.
    calls: Mutex<HashMap<Exchange, Duty>>,
    /// Calls that the client has cancelled, while their answer is still passed on.
    cancelled: Mutex<HashMap<Exchange, Duty>>,
    this: Weak<Self>,
}

impl Leg {
    /// For one call of a modern client.
    pub(super) fn modern(
        face: &Arc<Face>,
        server: &Arc<str>,
        at: At,
        (exchange, duty): (Exchange, Duty),
    ) -> Arc<Self> {
        let leg = Self::made(face, server, at, None);
        lock(&leg.calls).insert(exchange, duty);
        leg
    }

    pub(super) fn legacy(face: &Arc<Face>, server: &Arc<str>, at: At, way: Way) -> Arc<Self> {
        Self::made(face, server, at, Some(way))
    }

    fn made(face: &Arc<Face>, server: &Arc<str>, at: At, way: Option<Way>) -> Arc<Self> {
        let (face, server) = (Arc::clone(face), Arc::clone(server));
        let (calls, cancelled) = (Mutex::default(), Mutex::default());
        Arc::new_cyclic(|this| {
            let this = Weak::clone(this);
            Self { face, server, at, way, calls, cancelled, this }
        })
    }

    /// The server that it leads to.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Whether it leads there.
    pub(super) fn leads_to(&self, bridge: &Arc<Bridge>) -> bool {
        self.way.as_ref().is_some_and(|way| Arc::ptr_eq(&way.bridge, bridge))
    }

    /// What the client watches at the server.
    pub(super) fn watched(&self) -> BTreeSet<String> {
        self.way.as_ref().map(|way| lock(&way.watched).clone()).unwrap_or_default()
    }

    /// Nobody waits for the answer to this call any more.
    pub(super) fn forget(&self, exchange: Exchange) {
        lock(&self.calls).remove(&exchange);
    }

    /// The server is not the client's to call any more: what is open there fails.
    pub(super) fn close(&self) {
        if let Some(way) = &self.way {
            // What waits for the greeting is not made after it.
            *lock(&way.stage) = Stage::New;
        }
        // Not in the head of a loop: the lock must not be held in its body.
        let calls = std::mem::take(&mut *lock(&self.calls));
        for exchange in calls.into_keys() {
            self.face.finish(exchange, Failure::CLOSED);
        }
    }

    /// Passes a call on, once the server is greeted.
    pub(super) fn open(
        self: &Arc<Self>,
        backend: &Arc<Backend>,
        (exchange, duty): (Exchange, Duty),
        request: Message,
        said: Said,
    ) -> Works {
        let Some(way) = &self.way else { return Works::none() };
        lock(&self.calls).insert(exchange, duty);
        way.heed(&request);
        let mut stage = lock(&way.stage);
        match &mut *stage {
            Stage::Greeted => {
                drop(stage);
                self.pass(way, Up::Open { exchange, request, said })
            }
            Stage::Greeting(waiting, _) => {
                // As many as a client may have calls open, which its half has counted.
                waiting.push((exchange, request, said));
                Works::none()
            }
            Stage::New => {
                let waiting = vec![(exchange, request, said)];
                *stage = Stage::Greeting(waiting, Arc::clone(backend));
                drop(stage);
                self.introduce(way)
            }
        }
    }

    /// Greets the server although nobody calls.
    pub(super) fn greet(self: &Arc<Self>, backend: &Arc<Backend>) -> Works {
        let Some(way) = &self.way else { return Works::none() };
        let mut stage = lock(&way.stage);
        let Stage::New = *stage else { return Works::none() };
        *stage = Stage::Greeting(Vec::new(), Arc::clone(backend));
        drop(stage);
        self.introduce(way)
    }

    fn introduce(self: &Arc<Self>, way: &Way) -> Works {
        let Some(session) = way.session.upgrade() else { return Works::none() };
        let request = session.hello.clone();
        self.pass(way, Up::Open { exchange: GREETING, request, said: None })
    }

    fn pass(self: &Arc<Self>, way: &Way, verb: Up) -> Works {
        way.bridge.take_for(&self.face, Arc::<Self>::clone(self), verb)
    }

    /// Whether the call waited for the greeting: it is not made.
    pub(super) fn give_up(&self, exchange: Exchange) -> bool {
        let Some(way) = &self.way else { return false };
        match &mut *lock(&way.stage) {
            Stage::Greeting(waiting, _) => {
                let before = waiting.len();
                waiting.retain(|(waits, ..)| *waits != exchange);
                waiting.len() < before
            }
            _ => false,
        }
    }

    /// The bridge to the server, if it has been greeted.
    pub(super) fn greeted(&self) -> Option<&Arc<Bridge>> {
        let way = self.way.as_ref()?;
        matches!(*lock(&way.stage), Stage::Greeted).then_some(&way.bridge)
    }

    /// Says how much is to be logged; what the server answers is between it and us.
    pub(super) fn set_level(self: &Arc<Self>, request: &Message) -> Works {
        match &self.way {
            Some(way) if self.greeted().is_some() => {
                let request = request.clone();
                self.pass(way, Up::Open { exchange: LEVEL, request, said: None })
            }
            _ => Works::none(),
        }
    }

    /// The server has answered the greeting.
    fn handle_greeting(self: Arc<Self>, outcome: &Outcome) {
        let Some(way) = &self.way else { return };
        let is_welcome = outcome.result().is_some();
        let next = if is_welcome { Stage::Greeted } else { Stage::New };
        // What is held until the end of this keeps the server there.
        let Stage::Greeting(waiting, _backend) = std::mem::replace(&mut *lock(&way.stage), next)
        else {
            return;
        };
        if !is_welcome {
            for (exchange, ..) in waiting {
                self.answer(exchange, outcome.clone());
            }
            return;
        }
        let message = Message::notification(method::INITIALIZED, None);
        let mut works = self.pass(way, Up::Note { message });
        if let Some(level) = way.session.upgrade().and_then(|session| session.level()) {
            works.append(self.set_level(&level));
        }
        // Those that wait here watch by themselves.
        for (number, uri) in (0..).zip(self.watched_before(&waiting)) {
            let params = json!({"uri": uri}).to_string();
            let request =
                Message::request(&Id::Integer(0), method::SUBSCRIBE, Some(params.as_bytes()));
            let exchange = Exchange(WATCH - number);
            works.append(self.pass(way, Up::Open { exchange, request, said: None }));
        }
        for (exchange, request, said) in waiting {
            works.append(self.pass(way, Up::Open { exchange, request, said }));
        }
        works.detach();
    }

    /// What the client watched at a server that this one takes the place of.
    fn watched_before(&self, waiting: &[(Exchange, Message, Said)]) -> BTreeSet<String> {
        let mut watched = self.watched();
        for (_, request, _) in waiting {
            if request.method() == method::SUBSCRIBE
                && let Some(uri) = request.uri()
            {
                watched.remove(&*uri);
            }
        }
        watched
    }

    /// Passes an answer on, in words that lead back to this server.
    fn answer(&self, exchange: Exchange, outcome: Outcome) {
        let duty = lock(&self.calls).remove(&exchange);
        let cancelled = || lock(&self.cancelled).remove(&exchange);
        let Some(duty) = duty.or_else(cancelled) else { return };
        let change = |answer: &_| self.at.answer(&self.face, &self.server, &duty, answer);
        self.face.finish(exchange, outcome.and_then(change));
    }

    /// A list has changed in the client's own session with the server.
    fn is_about_lists(message: &Message) -> bool {
        ["tools", "prompts", "resources"]
            .iter()
            .any(|list| method::list_changed(list) == Some(message.method()))
    }
}

impl Recipient for Leg {
    fn number(&self) -> u64 {
        self.face.number()
    }

    fn principal(&self) -> &[u8] {
        self.face.principal()
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        // Which lists have changed the front tells, for all servers.
        let is_told = !self.at.is_alone() && Self::is_about_lists(message);
        if exchange.is_some_and(is_ours) || is_told {
            return;
        }
        if let Some(message) = self.at.told(&self.face, &self.server, message) {
            self.face.note(exchange, &message);
        }
    }

    fn ask(self: Arc<Self>, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        let Some(request) = self.at.told(&self.face, &self.server, request) else { return false };
        let way = self.way.as_ref().filter(|_| !self.at.is_alone());
        let session = way.and_then(|way| Some((way, way.session.upgrade()?)));
        let Some((way, session)) = session else {
            return Face::ask(&self.face, exchange, ask, &request);
        };
        let other = session.questions.add(&way.bridge, ask, &request);
        let is_asked = Face::ask(&self.face, exchange, ask, other.as_ref().unwrap_or(&request));
        if !is_asked {
            session.questions.remove(ask);
        }
        is_asked
    }

    fn recall(&self, ask: Ask, message: &Message) {
        if let Some(session) = self.way.as_ref().and_then(|way| way.session.upgrade()) {
            session.questions.remove(ask);
        }
        self.face.recall(ask, message);
    }

    fn finish(&self, exchange: Exchange, outcome: Outcome) {
        match exchange {
            GREETING => {
                if let Some(leg) = self.this.upgrade() {
                    leg.handle_greeting(&outcome);
                }
            }
            _ if is_ours(exchange) => {}
            _ => self.answer(exchange, outcome),
        }
    }

    fn await_dropped(&self, exchange: Exchange) -> bool {
        let mut calls = lock(&self.calls);
        if !calls.contains_key(&exchange) || !self.face.await_cancelled(exchange) {
            return false;
        }
        let duty = calls.remove(&exchange);
        lock(&self.cancelled).extend(duty.map(|duty| (exchange, duty)));
        true
    }

    fn unanswered(&self, exchange: Exchange) {
        lock(&self.cancelled).remove(&exchange);
        self.face.end_cancelled(exchange);
    }

    fn hang_up(&self, exchange: Exchange) {
        self.face.hang_up(exchange);
    }

    fn is_slow(&self) -> bool {
        self.face.is_slow()
    }

    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Arc::clone(&self.face).room_for_more()
    }

    fn end(self: Arc<Self>) {
        Face::end(&self.face);
    }
}

impl fmt::Debug for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leg")
            .field("face", &self.face)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
