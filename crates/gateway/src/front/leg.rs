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

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};

use switchboard_net::bridge::Bridge;
use switchboard_net::face::Face;
use switchboard_net::inside::Works;
use switchboard_net::upstream::Recipient;
use switchboard_proto::exchange::{Ask, Exchange, Said, Up};
use switchboard_proto::jsonrpc::{Kind, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;

use super::session::Session;
use super::task::Errand;
use super::{Front, lock, state};

/// Our own calls, by numbers that no client gets to.
const GREETING: Exchange = Exchange(u64::MAX);
const LEVEL: Exchange = Exchange(u64::MAX - 1);

/// Stands before a client in its calls to one server.
pub(super) struct Leg {
    face: Arc<Face>,
    server: Arc<str>,
    front: Weak<Front>,
    /// None for a modern client, which is greeted by nobody.
    way: Option<Way>,
    /// Calls whose answers are about tasks; as many as a client may have open.
    errands: Mutex<HashMap<Exchange, Errand>>,
}

/// What it takes to greet a server.
pub(super) struct Way {
    bridge: Arc<Bridge>,
    session: Weak<Session>,
    stage: Mutex<Stage>,
}

enum Stage {
    New,
    Greeting(Vec<(Exchange, Message, Said)>),
    Greeted,
}

impl Way {
    pub(super) fn new(bridge: &Arc<Bridge>, session: &Arc<Session>) -> Self {
        let (bridge, session) = (Arc::clone(bridge), Arc::downgrade(session));
        Self { bridge, session, stage: Mutex::new(Stage::New) }
    }
}

impl Leg {
    pub(super) fn modern(face: &Arc<Face>, server: &Arc<str>, front: &Weak<Front>) -> Arc<Self> {
        let (face, server, front) = (Arc::clone(face), Arc::clone(server), Weak::clone(front));
        Arc::new(Self { face, server, front, way: None, errands: Mutex::default() })
    }

    pub(super) fn legacy(
        face: &Arc<Face>,
        server: &Arc<str>,
        front: &Weak<Front>,
        way: Way,
    ) -> Arc<Self> {
        let (face, server, front) = (Arc::clone(face), Arc::clone(server), Weak::clone(front));
        Arc::new(Self { face, server, front, way: Some(way), errands: Mutex::default() })
    }

    /// The answer to this call will be about tasks.
    pub(super) fn expect(&self, exchange: Exchange, errand: Errand) {
        lock(&self.errands).insert(exchange, errand);
    }

    /// Nobody waits for the answer to this call any more.
    pub(super) fn forget(&self, exchange: Exchange) {
        lock(&self.errands).remove(&exchange);
    }

    /// Passes a call on, once the server is greeted.
    pub(super) fn open(
        self: &Arc<Self>,
        exchange: Exchange,
        request: Message,
        said: Said,
    ) -> Works {
        let Some(way) = &self.way else { return Works::none() };
        let mut stage = lock(&way.stage);
        match &mut *stage {
            Stage::Greeted => {
                drop(stage);
                self.pass(way, Up::Open { exchange, request, said })
            }
            Stage::Greeting(waiting) => {
                // As many as a client may have calls open, which its half has counted.
                waiting.push((exchange, request, said));
                Works::none()
            }
            Stage::New => {
                *stage = Stage::Greeting(vec![(exchange, request, said)]);
                drop(stage);
                let Some(session) = way.session.upgrade() else { return Works::none() };
                let request = session.hello.clone();
                self.pass(way, Up::Open { exchange: GREETING, request, said: None })
            }
        }
    }

    fn pass(self: &Arc<Self>, way: &Way, verb: Up) -> Works {
        way.bridge.take_for(&self.face, Arc::<Self>::clone(self), verb)
    }

    /// Whether the call waited for the greeting: it is not made.
    pub(super) fn give_up(&self, exchange: Exchange) -> bool {
        let Some(way) = &self.way else { return false };
        match &mut *lock(&way.stage) {
            Stage::Greeting(waiting) => {
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
    fn handle_greeting(self: Arc<Self>, answer: &Message) {
        let Some(way) = &self.way else { return };
        let is_welcome = answer.kind() == Kind::Result;
        let next = if is_welcome { Stage::Greeted } else { Stage::New };
        let Stage::Greeting(waiting) = std::mem::replace(&mut *lock(&way.stage), next) else {
            return;
        };
        if !is_welcome {
            for (exchange, ..) in waiting {
                self.face.finish(exchange, answer);
            }
            return;
        }
        let message = Message::notification(method::INITIALIZED, None);
        let mut works = self.pass(way, Up::Note { message });
        if let Some(level) = way.session.upgrade().and_then(|session| session.level()) {
            works.append(self.set_level(&level));
        }
        for (exchange, request, said) in waiting {
            works.append(self.pass(way, Up::Open { exchange, request, said }));
        }
        works.detach();
    }

    /// What the server says, in words that the client knows; none if it is for another.
    fn told<'m>(&self, message: &'m Message) -> Option<Cow<'m, Message>> {
        match self.front.upgrade() {
            Some(front) => front.fleet.tasks.told(&self.face, &self.server, message),
            None => Some(Cow::Borrowed(message)),
        }
    }

    /// Passes an answer on, in words that lead back to this server.
    fn answer(&self, exchange: Exchange, answer: &Message) {
        let (front, errand) = (self.front.upgrade(), lock(&self.errands).remove(&exchange));
        let renamed = front.as_ref().zip(errand);
        let renamed =
            renamed.map(|(front, errand)| front.renamed(&self.face, &self.server, errand, answer));
        let answer = renamed.as_ref().unwrap_or(answer);
        if self.way.is_some() {
            return self.face.finish(exchange, answer);
        }
        let sealer = front.as_ref().and_then(|front| front.sealer.as_ref());
        let ours = state::sealed(sealer, &self.face, &self.server, answer);
        let answer = ours.unwrap_or_else(|| {
            let text = "the server's state cannot be sealed".to_owned();
            Message::refusal(answer.id(), &Refusal::FarSide { text })
        });
        self.face.finish(exchange, &answer);
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

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        // Which lists have changed the fleet tells, for all servers.
        let is_ours = matches!(exchange, Some(GREETING | LEVEL)) || Self::is_about_lists(message);
        if let Some(message) = self.told(message).filter(|_| !is_ours) {
            self.face.note(exchange, &message);
        }
    }

    fn ask(self: Arc<Self>, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        let request = self.told(request);
        request.is_some_and(|request| Face::ask(&self.face, exchange, ask, &request))
    }

    fn recall(&self, ask: Ask, message: &Message) {
        self.face.recall(ask, message);
    }

    fn finish(&self, exchange: Exchange, answer: &Message) {
        match exchange {
            GREETING => {
                let session = self.way.as_ref().and_then(|way| way.session.upgrade());
                if let Some(leg) = session.and_then(|session| session.find(&self.server)) {
                    leg.handle_greeting(answer);
                }
            }
            LEVEL => {}
            _ => self.answer(exchange, answer),
        }
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
