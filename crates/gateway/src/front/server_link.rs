//! The way between one client with a session and one server.
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
//! A server that another takes the place of has a link of its own: the calls that
//! it has come back by it, and the next call goes by a new one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};

use serde_json::json;
use switchboard_net::backend::{Backend as _, PendingWork};
use switchboard_net::bridge::Bridge;
use switchboard_net::call::{Asker, Call, ReplyRewrite as _, ReplySink};
use switchboard_net::connection::ClientConnection;
use switchboard_proto::exchange::{Ask, Exchange, HeaderParams};
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;

use super::lock;
use super::reply::{AnswerChange, PathContext, Reply};
use super::session::Session;
use crate::fleet::RunningServer;

/// Our own calls, by numbers that no client gets to.
const GREETING: Exchange = Exchange(u64::MAX);
const LEVEL: Exchange = Exchange(u64::MAX - 1);
/// The last of those by which resources are watched anew.
const WATCH: u64 = u64::MAX - 2;

/// Resources that are watched anew at a server that takes the place of another.
const MOST_WATCHED: usize = 1024;

/// Bytes of their URIs.
const MOST_WATCHED_BYTES: usize = 1 << 20;

/// A client in its calls to one server.
pub(super) struct ServerLink {
    client: Arc<ClientConnection>,
    server: Arc<str>,
    at: PathContext,
    bridge: Arc<Bridge>,
    session: Weak<Session>,
    stage: Mutex<Stage>,
    /// The resources that the client watches there.
    watched: Mutex<BTreeSet<String>>,
    this: Weak<Self>,
}

enum Stage {
    New,
    /// What waits here must find the server there.
    Greeting(Vec<(Call, Message, HeaderParams)>, Arc<RunningServer>),
    Greeted,
}

impl ServerLink {
    pub(super) fn new(
        session: &Arc<Session>,
        server: &Arc<str>,
        running: &RunningServer,
    ) -> Arc<Self> {
        Self::with(session, server, running, Stage::New, BTreeSet::new())
    }

    /// The client greets the server itself.
    pub(super) fn greeted_by_client(
        session: &Arc<Session>,
        server: &Arc<str>,
        running: &RunningServer,
    ) -> Arc<Self> {
        Self::with(session, server, running, Stage::Greeted, BTreeSet::new())
    }

    /// Takes the place of this one, which leads to a server that was replaced.
    pub(super) fn replaced(&self, session: &Arc<Session>, running: &RunningServer) -> Arc<Self> {
        Self::with(session, &self.server, running, Stage::New, self.watched())
    }

    fn with(
        session: &Arc<Session>,
        server: &Arc<str>,
        running: &RunningServer,
        stage: Stage,
        watched: BTreeSet<String>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            client: Arc::clone(&session.client),
            server: Arc::clone(server),
            at: session.at.clone(),
            bridge: Arc::clone(&running.bridge),
            session: Arc::downgrade(session),
            stage: Mutex::new(stage),
            watched: Mutex::new(watched),
            this: Weak::clone(this),
        })
    }

    /// The server that it leads to.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Whether it leads there.
    pub(super) fn leads_to(&self, bridge: &Arc<Bridge>) -> bool {
        Arc::ptr_eq(&self.bridge, bridge)
    }

    /// What the client watches at the server.
    pub(super) fn watched(&self) -> BTreeSet<String> {
        lock(&self.watched).clone()
    }

    /// The server is not the client's to call any more: what waits for the greeting
    /// is not made after it.
    pub(super) fn close(&self) {
        *lock(&self.stage) = Stage::New;
    }

    /// Passes a call on, once the server is greeted.
    pub(super) fn open(
        self: &Arc<Self>,
        running: &Arc<RunningServer>,
        call: &Call,
        change: AnswerChange,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        self.reply(change).set_on(call);
        let listener: Arc<Self> = Arc::clone(self);
        call.set_listener(listener);
        self.note_watch(&request);
        let mut stage = lock(&self.stage);
        match &mut *stage {
            Stage::Greeted => {
                drop(stage);
                self.bridge.open(&self.client, call, request, said)
            }
            Stage::Greeting(waiting, _) => {
                // As many as a client may have calls open, which its half has counted.
                waiting.retain(|(waits, ..)| !waits.is_over());
                waiting.push((call.clone(), request, said));
                PendingWork::none()
            }
            Stage::New => {
                let waiting = vec![(call.clone(), request, said)];
                *stage = Stage::Greeting(waiting, Arc::clone(running));
                drop(stage);
                self.introduce()
            }
        }
    }

    fn reply(&self, change: AnswerChange) -> Reply {
        let reply = Reply::new(&self.client, &self.server, self.at.clone(), change);
        // Where one server is alone, the tokens of its questions cannot meet others.
        if self.at.is_many() { reply.within(&self.session) } else { reply }
    }

    /// Greets the server although nobody calls.
    pub(super) fn greet(self: &Arc<Self>, running: &Arc<RunningServer>) -> PendingWork {
        let mut stage = lock(&self.stage);
        let Stage::New = *stage else { return PendingWork::none() };
        *stage = Stage::Greeting(Vec::new(), Arc::clone(running));
        drop(stage);
        self.introduce()
    }

    fn introduce(self: &Arc<Self>) -> PendingWork {
        match self.session.upgrade() {
            Some(session) => self.call(GREETING, session.hello.clone()),
            None => PendingWork::none(),
        }
    }

    /// Makes a call of our own.
    fn call(self: &Arc<Self>, exchange: Exchange, request: Message) -> PendingWork {
        let sink: Arc<Self> = Arc::clone(self);
        self.bridge.open(&self.client, &Call::new(sink, exchange), request, None)
    }

    /// The bridge to the server, if it has been greeted.
    pub(super) fn greeted(&self) -> Option<&Arc<Bridge>> {
        matches!(*lock(&self.stage), Stage::Greeted).then_some(&self.bridge)
    }

    /// Says how much is to be logged; what the server answers is between it and us.
    pub(super) fn set_level(self: &Arc<Self>, request: &Message) -> PendingWork {
        match self.greeted() {
            Some(_) => self.call(LEVEL, request.clone()),
            None => PendingWork::none(),
        }
    }

    /// The server has answered the greeting.
    fn handle_greeting(self: &Arc<Self>, outcome: &Outcome) {
        let is_welcome = outcome.result().is_some();
        let next = if is_welcome { Stage::Greeted } else { Stage::New };
        // What is held until the end of this keeps the server there.
        let Stage::Greeting(waiting, _backend) = std::mem::replace(&mut *lock(&self.stage), next)
        else {
            return;
        };
        if !is_welcome {
            for (call, ..) in &waiting {
                call.finish(outcome.clone());
            }
            return;
        }
        let message = Message::notification(method::INITIALIZED, None);
        let mut works = self.bridge.note(&self.client, message);
        if let Some(level) = self.session.upgrade().and_then(|session| session.level()) {
            works.append(self.set_level(&level));
        }
        // Those that wait here watch by themselves.
        for (number, uri) in (0..).zip(self.watched_before(&waiting)) {
            let params = json!({"uri": uri}).to_string();
            let request =
                Message::request(&Id::Integer(0), method::SUBSCRIBE, Some(params.as_bytes()));
            works.append(self.call(Exchange(WATCH - number), request));
        }
        for (call, request, said) in waiting {
            works.append(self.bridge.open(&self.client, &call, request, said));
        }
        works.detach();
    }

    /// What the client watched at a server that this one takes the place of.
    fn watched_before(&self, waiting: &[(Call, Message, HeaderParams)]) -> BTreeSet<String> {
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

    /// Remembers what the client watches.
    fn note_watch(&self, request: &Message) {
        let mut watched = lock(&self.watched);
        match request.method() {
            method::SUBSCRIBE if watched.len() < MOST_WATCHED => {
                let bytes: usize = watched.iter().map(String::len).sum();
                let uri = request.uri().filter(|uri| bytes + uri.len() <= MOST_WATCHED_BYTES);
                watched.extend(uri.map(Cow::into_owned));
            }
            method::UNSUBSCRIBE => _ = request.uri().map(|uri| watched.remove(&*uri)),
            _ => {}
        }
    }
}

/// Hears what belongs to no call, and what comes of our own calls.
impl ReplySink for ServerLink {
    fn number(&self) -> u64 {
        self.client.number()
    }

    fn principal(&self) -> &[u8] {
        self.client.principal()
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        let told = self.at.told(&self.client, &self.server, message);
        if let (Some(message), None) = (told, exchange) {
            self.client.note(None, &message);
        }
    }

    fn ask(
        self: Arc<Self>,
        _: Option<Exchange>,
        asker: Weak<dyn Asker>,
        ask: Ask,
        request: &Message,
    ) -> bool {
        let reply = self.reply(AnswerChange::Plain);
        let Some(request) = reply.question(&asker, ask, request) else { return false };
        let is_asked = Arc::clone(&self.client).ask(None, asker, ask, &request);
        if !is_asked {
            reply.recalled(ask);
        }
        is_asked
    }

    fn recall(&self, ask: Ask, message: &Message) {
        self.reply(AnswerChange::Plain).recalled(ask);
        self.client.recall(ask, message);
    }

    fn finish(&self, exchange: Exchange, outcome: Outcome) {
        if exchange == GREETING
            && let Some(link) = self.this.upgrade()
        {
            link.handle_greeting(&outcome);
        }
    }

    fn is_slow(&self) -> bool {
        self.client.is_slow()
    }

    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Arc::clone(&self.client).room()
    }

    fn end(self: Arc<Self>) {
        ClientConnection::end(&self.client);
    }
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink")
            .field("face", &self.client)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
