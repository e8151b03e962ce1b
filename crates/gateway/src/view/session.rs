//! A legacy client: how it introduced itself, and its link to each server.
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
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde_json::json;
use switchboard_net::backend::{Backend as _, PendingWork};
use switchboard_net::bridge::Bridge;
use switchboard_net::call::{Asker, Call, ReplyRewrite as _, ReplySink};
use switchboard_net::connection::ClientConnection;
use switchboard_net::server::Level;
use switchboard_net::upstream::Through;
use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::reply::{AnswerChange, PathContext, Questions, ServerReply};
use super::{Front, FrontRequest};
use crate::fleet::{RunningServer, RunningServers};
use crate::lock;

/// What is remembered of a client with a session.
pub(super) struct ClientSession {
    pub(super) client: Arc<ClientConnection>,
    /// What it speaks.
    pub(super) revision: Revision,
    /// Its greeting, to be repeated to each server that it calls.
    pub(super) hello: Message,
    /// How much it wants logged, in its own words.
    level: Mutex<Option<Message>>,
    /// What servers ask it.
    pub(super) questions: Questions,
    links: Mutex<BTreeMap<Arc<str>, Arc<ServerLink>>>,
    /// Ways to servers that others took the place of; as long as calls are open there.
    old: Mutex<Vec<Weak<ServerLink>>>,
    pub(super) context: PathContext,
    /// What it came through, if it is another gateway: told on as long as it is there.
    through: OnceLock<Through>,
}

impl ClientSession {
    pub(super) fn new(
        client: &Arc<ClientConnection>,
        hello: Message,
        context: PathContext,
    ) -> Arc<Self> {
        let asked = hello.string(Member::ProtocolVersion);
        let same = asked.and_then(|asked| Revision::parse(&asked));
        let same = same.filter(|revision| revision.era() == Era::Legacy);
        Arc::new(Self {
            client: Arc::clone(client),
            revision: same.unwrap_or(Revision::NEWEST_LEGACY),
            hello,
            level: Mutex::default(),
            questions: Questions::default(),
            links: Mutex::default(),
            old: Mutex::default(),
            context,
            through: OnceLock::new(),
        })
    }

    /// It is another gateway, and came through these servers.
    pub(super) fn came_through(&self, through: Through) {
        // What its greeting says holds.
        _ = self.through.set(through);
    }

    /// The way to a server, made if need be; `stage` is that of a new one.
    pub(super) fn link(
        self: &Arc<Self>,
        server: &Arc<str>,
        running: &RunningServer,
        stage: LinkStage,
    ) -> Arc<ServerLink> {
        let mut links = lock(&self.links);
        let old = links.get(server);
        if let Some(link) = old.filter(|link| link.leads_to(&running.bridge)) {
            return Arc::clone(link);
        }
        old.inspect(|old| self.retire(old));
        let link = Arc::new_cyclic(|this| ServerLink {
            client: Arc::clone(&self.client),
            server: Arc::clone(server),
            context: self.context.clone(),
            bridge: Arc::clone(&running.bridge),
            session: Arc::downgrade(self),
            stage: Mutex::new(stage),
            watched: Mutex::new(old.map(|old| old.watched()).unwrap_or_default()),
            this: Weak::clone(this),
        });
        links.insert(Arc::clone(server), Arc::clone(&link));
        link
    }

    /// Leaves servers that are not there any more: their open calls keep what they
    /// need. Where the client waits to hear of resources, the server that took
    /// the place of another is greeted at once.
    pub(super) fn follow(self: &Arc<Self>, running_servers: &RunningServers) {
        let mut watching = Vec::new();
        lock(&self.links).retain(|server, link| match running_servers.get(server) {
            Some(running) if link.leads_to(&running.bridge) => true,
            Some(running) if !link.watched().is_empty() => {
                watching.push((Arc::clone(server), Arc::clone(running)));
                true
            }
            _ => {
                self.retire(link);
                false
            }
        });
        for (server, running) in watching {
            self.link(&server, &running, LinkStage::New).greet(&running).detach();
        }
    }

    /// The ways to these servers are closed, and what is open there fails.
    pub(super) fn leave(&self, is_left: impl Fn(&str) -> bool) {
        let left: Vec<_> = lock(&self.links).extract_if(.., |name, _| is_left(name)).collect();
        let old: Vec<_> = lock(&self.old).iter().filter_map(Weak::upgrade).collect();
        let old = old.into_iter().filter(|link| is_left(&link.server));
        for link in left.into_iter().map(|(_, link)| link).chain(old) {
            link.close();
        }
        for call in self.client.open_calls() {
            if call.server().is_some_and(|server| is_left(&server)) {
                call.finish(Failure::CLOSED);
            }
        }
    }

    /// Calls that are open come back by this way, and others go by another.
    fn retire(&self, link: &Arc<ServerLink>) {
        let mut old = lock(&self.old);
        old.retain(|link| link.strong_count() > 0);
        old.push(Arc::downgrade(link));
    }

    /// The way to a server, if it was taken.
    pub(super) fn find(&self, server: &str) -> Option<Arc<ServerLink>> {
        lock(&self.links).get(server).cloned()
    }

    pub(super) fn links(&self) -> Vec<Arc<ServerLink>> {
        lock(&self.links).values().cloned().collect()
    }

    /// Something that concerns every server that the client has called.
    pub(super) fn note(&self, message: &Message) -> PendingWork {
        let mut works = PendingWork::none();
        let is_progress = message.method() == method::PROGRESS;
        if let Some((asker, message)) = self.questions.find(message).filter(|_| is_progress) {
            return asker.progress(message);
        }
        let links = self.links();
        // Progress is about a question of one server, and only one can be meant here.
        let is_unclear = is_progress && links.len() != 1;
        if message.method() == method::INITIALIZED || is_unclear {
            return works;
        }
        for bridge in links.iter().filter_map(|link| link.greeted()) {
            works.append(bridge.note(&self.client, message.clone()));
        }
        works
    }

    /// Remembers how much the client wants logged, if this says so.
    pub(super) fn keep_level(&self, request: &Message) {
        if request.method() == method::SET_LEVEL {
            *lock(&self.level) = Some(request.clone());
        }
    }
}

impl Front {
    /// `logging/setLevel`: for every server that the client has called or will call.
    pub(super) fn set_level(&self, request: &FrontRequest) -> PendingWork {
        let level = request.message.string(Member::Level);
        let is_known = level.as_deref().is_some_and(|name| Level::parse(name).is_some());
        let session = self.session(&request.client).filter(|_| is_known);
        let Some(session) = session else {
            let what = "params.level must be one of the levels of syslog".to_owned();
            return request.finish(Refusal::BadParams { what });
        };
        session.keep_level(&request.message);
        let mut works = request.answer(&json!({}));
        for link in session.links() {
            works.append(link.set_level(&request.message));
        }
        works
    }
}

/// Our own calls, by numbers that no client gets to.
const GREETING: Exchange = Exchange(u64::MAX);
const LEVEL: Exchange = Exchange(u64::MAX - 1);
/// The last of those by which resources are watched anew.
const LAST_WATCH: u64 = u64::MAX - 2;

/// Resources that are watched anew at a server that takes the place of another.
const MOST_WATCHED: usize = 1024;

/// Bytes of their URIs.
const MOST_WATCHED_BYTES: usize = 1 << 20;

/// A client in its calls to one server.
pub(super) struct ServerLink {
    client: Arc<ClientConnection>,
    server: Arc<str>,
    context: PathContext,
    bridge: Arc<Bridge>,
    session: Weak<ClientSession>,
    stage: Mutex<LinkStage>,
    /// The resources that the client watches there.
    watched: Mutex<BTreeSet<String>>,
    this: Weak<Self>,
}

pub(super) enum LinkStage {
    New,
    /// What waits here must find the server there.
    Greeting(Vec<FrontRequest>, Arc<RunningServer>),
    Greeted,
}

impl ServerLink {
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
        *lock(&self.stage) = LinkStage::New;
    }

    /// Passes a call on, once the server is greeted.
    pub(super) fn open(
        self: &Arc<Self>,
        running: &Arc<RunningServer>,
        request: FrontRequest,
        change: AnswerChange,
    ) -> PendingWork {
        request.call.set_rewrite(Arc::new(self.reply(change)));
        let listener: Arc<Self> = Arc::clone(self);
        request.call.set_listener(listener);
        self.note_watch(&request.message);
        let mut stage = lock(&self.stage);
        match &mut *stage {
            LinkStage::Greeted => {
                drop(stage);
                request.open_at(&self.bridge)
            }
            LinkStage::Greeting(waiting, _) => {
                // As many as a client may have calls open, which its half has counted.
                waiting.retain(|waits| !waits.call.is_over());
                waiting.push(request);
                PendingWork::none()
            }
            LinkStage::New => {
                *stage = LinkStage::Greeting(vec![request], Arc::clone(running));
                drop(stage);
                self.introduce()
            }
        }
    }

    fn reply(&self, change: AnswerChange) -> ServerReply {
        let (client, server) = (Arc::clone(&self.client), Arc::clone(&self.server));
        let session = if self.context.is_many { Weak::clone(&self.session) } else { Weak::new() };
        ServerReply { client, server, context: self.context.clone(), change, session }
    }

    /// Greets the server although nobody calls.
    pub(super) fn greet(self: &Arc<Self>, running: &Arc<RunningServer>) -> PendingWork {
        let mut stage = lock(&self.stage);
        let LinkStage::New = *stage else { return PendingWork::none() };
        *stage = LinkStage::Greeting(Vec::new(), Arc::clone(running));
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
        matches!(*lock(&self.stage), LinkStage::Greeted).then_some(&self.bridge)
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
        let next = if is_welcome { LinkStage::Greeted } else { LinkStage::New };
        // What is held until the end of this keeps the server there.
        let LinkStage::Greeting(waiting, _backend) =
            std::mem::replace(&mut *lock(&self.stage), next)
        else {
            return;
        };
        if !is_welcome {
            for request in &waiting {
                request.call.finish(outcome.clone());
            }
            return;
        }
        let message = Message::notification(method::INITIALIZED, None);
        let mut works = self.bridge.note(&self.client, message);
        if let Some(level) = self.session.upgrade().and_then(|session| lock(&session.level).clone())
        {
            works.append(self.set_level(&level));
        }
        let mut watched = self.watched();
        for FrontRequest { message, .. } in &waiting {
            if let (method::SUBSCRIBE, Some(uri)) = (message.method(), message.uri()) {
                // It watches by itself.
                watched.remove(&*uri);
            }
        }
        for (number, uri) in (0..).zip(watched) {
            let params = json!({"uri": uri}).to_string();
            let request =
                Message::request(&Id::Integer(0), method::SUBSCRIBE, Some(params.as_bytes()));
            works.append(self.call(Exchange(LAST_WATCH - number), request));
        }
        for request in waiting {
            works.append(request.open_at(&self.bridge));
        }
        works.detach();
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
    fn client(&self) -> Option<&Arc<ClientConnection>> {
        Some(&self.client)
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        let told = self.context.to_client(&self.client, &self.server, message);
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
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink")
            .field("client", &self.client)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
