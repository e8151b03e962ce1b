//! Joins clients to a server: a server half and a client half for each pair.
//!
//! The bridge passes calls across and decides two things only: which connection
//! to the server a client's calls go by ([`Children`]), and which era is spoken
//! there. Everything else, translation too, is the business of the halves.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use switchboard_proto::Table;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, Exchange, HeaderParams};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::Phase;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::admission::Admission;
use crate::backend::{Backend, PendingWork};
use crate::call::{Call, CallHolder};
use crate::connection::{ClientConnection, lock};
use crate::drive::OwnedTask;
use crate::upstream::{self, Eras, ServerTarget, Target, Tenant, Through, Upstream};
use crate::who::Who;
use deferral::DeferredClient;
use era::EraWait;

mod admission;
mod deferral;
mod era;
mod hide;
mod idle;

pub(crate) use admission::Permit;
pub use hide::Hidden;

/// Any number of clients in front of one server.
///
/// Serve it like a server of your own: with [`stdio::serve`](crate::stdio::serve)
/// or as a [`Site`](crate::http::site::Site). The [crate's page](crate) has an example.
pub struct Bridge {
    server: ServerTarget,
    children: Children,
    limits: Mutex<Arc<Limits>>,
    hidden: Arc<Hidden>,
    /// Where calls wait, if their number is bounded.
    admission: Option<Mutex<Admission>>,
    state: Mutex<BridgeState>,
    /// Clients that were welcomed while a person signs in.
    deferred: Mutex<Table<u64, DeferredClient>>,
    /// A client may have begun or ended to use the server.
    stirred: Notify,
    this: Weak<Self>,
}

#[derive(Default)]
struct BridgeState {
    connections: Table<ConnectionKey, Arc<Upstream>>,
    /// The greeting of each client, to repeat it on connections of single calls.
    hellos: Table<u64, Message>,
    era: EraWait,
    /// Children that were started ahead.
    pool: VecDeque<Arc<Upstream>>,
    /// The task that ends what no client uses, while there is such a connection.
    sweeping: Option<OwnedTask>,
    /// How many connections there may be for users that the server can tell from others.
    /// Each is a child or a session there.
    places: usize,
    /// Connections that no call gets any more; each has calls open that are answered.
    leaving: Vec<Arc<Upstream>>,
    closing: JoinSet<()>,
    closed: bool,
}

/// A call on its way to the server.
#[derive(Clone, Debug)]
struct Opening {
    client: Arc<ClientConnection>,
    call: Call,
    request: Message,
    said: HeaderParams,
}

impl Bridge {
    /// A bridge to `server`; it is reached when the first client needs it.
    pub fn new(server: ServerTarget, children: Children, limits: Arc<Limits>) -> Arc<Self> {
        Self::hiding(Hidden::default(), server, children, limits)
    }

    /// The same, without some of the server's tools.
    pub fn hiding(
        hidden: Hidden,
        server: ServerTarget,
        children: Children,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        Self::made(hidden, server, children, limits, None)
    }

    /// A bridge with a bound on the calls that the server gets at once; further
    /// ones wait for their turn. They also wait for a server that is not there,
    /// for `start` at most: [`follow`](Self::follow) names its supervisor,
    /// and until then it is being started.
    pub fn guarding(
        server: ServerTarget,
        children: Children,
        limits: Arc<Limits>,
        (calls, start): (NonZeroUsize, Duration),
    ) -> Arc<Self> {
        let admission = Some(Admission::new(calls.get(), start));
        // The supervisor has no connection of its own there, and logs what becomes of this one.
        let server = if is_common(&server, children) { server.supervised() } else { server };
        Self::made(Hidden::default(), server, children, limits, admission)
    }

    /// Whether several clients may stand behind one connection.
    pub fn sharing(&self) -> Sharing {
        if self.children.is_shared() { Sharing::Shared } else { Sharing::Alone }
    }

    /// Connections that are made from here on keep these bounds.
    pub fn set_limits(&self, limits: Limits) {
        *lock(&self.limits) = fitting(self.children, Arc::new(limits));
    }

    /// The bounds of connections that are made at this time.
    fn limits(&self) -> Arc<Limits> {
        Arc::clone(&lock(&self.limits))
    }

    fn made(
        hidden: Hidden,
        server: ServerTarget,
        children: Children,
        limits: Arc<Limits>,
        admission: Option<Mutex<Admission>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            server,
            children,
            limits: Mutex::new(fitting(children, limits)),
            hidden: Arc::new(hidden),
            admission,
            state: Mutex::new(BridgeState { places: Self::PLACES, ..BridgeState::default() }),
            deferred: Mutex::default(),
            stirred: Notify::new(),
            this: Weak::clone(this),
        })
    }

    /// How many calls are open at the server, or wait to be made.
    pub fn calls(&self) -> usize {
        let state = lock(&self.state);
        let all = state.connections.values().chain(&state.leaving);
        let open: usize = all.map(|upstream| upstream.calls()).sum();
        let waiting = state.era.opens.len();
        drop(state);
        open + waiting + self.queued()
    }

    /// How many messages wait to be written to the server.
    pub fn unsent(&self) -> usize {
        lock(&self.state).connections.values().map(|upstream| upstream.unsent()).sum()
    }

    /// How many connections to the server there are.
    pub fn connections(&self) -> usize {
        lock(&self.state).connections.len()
    }

    /// The server.
    pub fn server(&self) -> &ServerTarget {
        &self.server
    }

    /// Whether everybody goes by one connection.
    pub fn is_common(&self) -> bool {
        is_common(&self.server, self.children)
    }

    /// What is spoken on the connection that all share, if there is one.
    pub(crate) fn common_era(&self) -> Option<Era> {
        lock(&self.state).connections.get(&ConnectionKey::Everybody).map(|upstream| upstream.era())
    }

    /// The process that all share did not come up as it should: the next attempt
    /// is with another, unless a client uses this one.
    pub(crate) fn begin_anew(&self) {
        if !self.is_common() {
            return;
        }
        let mut state = lock(&self.state);
        let is_met = state.connections.get(&ConnectionKey::Everybody).is_some_and(|it| it.is_met());
        if !is_met
            && state.is_quiet()
            && let Some(upstream) = state.connections.remove(&ConnectionKey::Everybody)
        {
            // No client knows it yet, nor what it speaks.
            return state.close(upstream);
        }
        state.rest();
    }

    /// Whether there is a process that all share.
    pub fn is_running(&self) -> bool {
        let state = lock(&self.state);
        state.connections.get(&ConnectionKey::Everybody).is_some_and(|it| it.is_linked())
    }

    /// Ends every connection, and waits until each is over.
    pub async fn close(&self) {
        let mut closing = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.era.asking.take().iter().for_each(Upstream::stop);
            let ahead = std::mem::take(&mut state.pool);
            let all = std::mem::take(&mut state.connections).into_values();
            let leaving = std::mem::take(&mut state.leaving);
            for upstream in all.chain(ahead).chain(leaving) {
                state.close(upstream);
            }
            std::mem::take(&mut state.closing)
        };
        while closing.join_next().await.is_some() {}
    }
}

impl Backend for Bridge {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        let (client, call) = (Arc::clone(client), call.clone());
        let opening = Opening { client, call, request, said };
        match self.answer_meanwhile(opening) {
            Ok(opening) => self.pass_on(opening),
            Err(works) => works,
        }
    }

    /// What belongs to no call goes by each connection that is for more than one.
    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        let mut works = PendingWork::none();
        if self.keeps_note(client, &message) {
            return works;
        }
        for upstream in self.hearing(client, &message) {
            works.append(upstream.note(message.clone()));
        }
        works
    }

    fn listen(&self, client: &Arc<ClientConnection>) {
        let state = lock(&self.state);
        let own = state.connections.iter().filter(|(key, _)| key.serves(client));
        let own: Vec<_> = own.map(|(_, upstream)| Arc::clone(upstream)).collect();
        drop(state);
        own.iter().for_each(Upstream::listen_again);
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        self.leave_queue(|queue| queue.forget(client.number()));
        lock(&self.deferred).remove(&client.number());
        let mut state = lock(&self.state);
        state.hellos.remove(&client.number());
        state.era.opens.retain(|open| open.client.number() != client.number());
        state.close_if(|key, _| key.sharing() == Sharing::Alone && key.serves(client));
        let shared = state.connections.iter().filter(|(key, _)| key.serves(client));
        let shared = shared.map(|(_, upstream)| upstream).chain(&state.leaving);
        let shared: Vec<_> = shared.map(Arc::clone).collect();
        drop(state);
        for upstream in shared {
            upstream.forget(client);
        }
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        let names = self.server.passes();
        (!names.is_empty()).then(|| names.into())
    }

    fn leads_back(&self, _: &Who, through: &Through) -> bool {
        upstream::leads_back(std::iter::once(&self.server), through)
    }
}

impl CallHolder for Bridge {
    /// The call waits here: it is not made.
    fn cancel(self: Arc<Self>, call: &Call, _: Option<&Message>) -> PendingWork {
        lock(&self.state).era.opens.retain(|open| open.call != *call);
        self.leave_queue(|queue| queue.withdraw(|opening| opening.call == *call));
        PendingWork::none()
    }
}

impl Bridge {
    /// Passes a call on, when there is room for it.
    fn pass_on(&self, opening: Opening) -> PendingWork {
        // What comes of an internal call tells the supervisor how the server stands.
        let is_probe = opening.call.is_internal() && self.is_common();
        let opening = match &self.admission {
            Some(admission) if !is_probe => self.admit(admission, opening),
            _ => Some(opening),
        };
        opening.map_or_else(PendingWork::none, |opening| self.connect(opening))
    }

    /// Passes a call on to the connection that it belongs to, once it is known what the
    /// server speaks.
    fn connect(&self, opening: Opening) -> PendingWork {
        let needs_era = match opening.client.era() {
            Era::Modern => self.server.speaks(Era::Modern).is_none(),
            // The server says its era in its answer to a legacy client.
            Era::Legacy => self.is_common(),
        };
        let opening = if needs_era { self.hold_back(opening) } else { Some(opening) };
        let Some(opening) = opening else { return PendingWork::none() };
        let Opening { client, call, request, said } = &opening;
        let (key, eras) = (self.choose_key(client, call.exchange(), request), self.eras(client));
        let found = {
            let state = lock(&self.state);
            if let Some(why) = self.hidden.refuses(request) {
                Err(why.into())
            } else if state.closed || client.phase() == Some(Phase::Ended) {
                // A client that was forgotten meanwhile must not get a new connection.
                Err(Failure::CLOSED)
            } else if let Some(upstream) = state.connections.get(&key) {
                upstream.touch();
                Ok(Arc::clone(upstream))
            } else {
                self.make_upstream(state, client, key, eras, request)
            }
        };
        let upstream = match found {
            Ok(upstream) => upstream,
            Err(why) => {
                call.finish(why);
                return PendingWork::none();
            }
        };
        if call.is_internal() && self.is_common() {
            // The supervisor must be told when the server exits.
            upstream.attach(&call.listener());
        }
        if request.method() == method::INITIALIZE && upstream.era() == Era::Legacy {
            self.watch_greeting(&opening, &upstream, key);
        } else if self.hidden.concerns(request) {
            call.set_rewrite(Arc::<Hidden>::clone(&self.hidden));
        }
        let works = upstream.open(call, client.era() == upstream.era(), request, said);
        if let ConnectionKey::Call(..) = key {
            // A connection for one call ends with it.
            let bridge = Weak::clone(&self.this);
            lock(&self.state).spawn(async move {
                upstream.until(|it| it.calls() == 0).await;
                if let Some(bridge) = bridge.upgrade() {
                    lock(&bridge.state).connections.remove(&key);
                }
                upstream.close().await;
            });
        }
        works
    }

    /// The eras of this client and of the server.
    fn eras(&self, client: &ClientConnection) -> Eras {
        let other = |era| if era == Era::Legacy { Era::Modern } else { Era::Legacy };
        let clients = client.era();
        let is_other = self.server.speaks(clients) == Some(false);
        let server = if is_other { other(clients) } else { clients };
        if self.is_common() {
            // Clients of that era pass by the layer.
            let server = self.common_era().unwrap_or(server);
            return Eras { clients: other(server), server };
        }
        Eras { clients, server }
    }

    /// Makes the connection that a call goes by.
    fn make_upstream(
        &self,
        mut state: MutexGuard<'_, BridgeState>,
        client: &ClientConnection,
        key: ConnectionKey,
        eras: Eras,
        request: &Message,
    ) -> Result<Arc<Upstream>, Failure> {
        let greets = request.method() == method::INITIALIZE;
        if greets && self.children == Children::PerRequest {
            state.hellos.insert(client.number(), request.clone());
        }
        state.make_room(key)?;
        let tenant = self.tenant(&mut state, key, client)?;
        if key.is_swept() {
            let sweep = || OwnedTask::spawn(idle::sweep(Weak::clone(&self.this)));
            state.sweeping.get_or_insert_with(sweep);
        }
        let hello = match key {
            ConnectionKey::Call(number, _) if !greets => state.hellos.get(&number).cloned(),
            _ => None,
        };
        let server = self.server_for(client);
        let is_alike = |spare: &mut Arc<Upstream>| spare.server().is_for_same_user(&server);
        let fits = eras.clients == Era::Modern || key == ConnectionKey::Everybody;
        let spare = state.era.spare.take_if(|spare| fits && is_alike(spare));
        let spare = spare.or_else(|| state.take_warm().filter(|_| !server.has_accounts()));
        let upstream = if let Some(spare) = spare {
            spare.change_eras(eras, key.sharing());
            spare
        } else {
            let limits = self.limits();
            Upstream::new(server, eras, key.sharing(), hello, limits)
        };
        if let Some(tenant) = tenant {
            upstream.let_to(tenant);
        }
        if client.is_bare() && key.sharing() == Sharing::Alone {
            upstream.go_deaf();
        }
        state.connections.insert(key, Arc::clone(&upstream));
        drop(state);
        self.fill_pool();
        Ok(upstream)
    }

    /// The user that a connection is for; none if it is for all clients.
    fn tenant(
        &self,
        state: &mut BridgeState,
        key: ConnectionKey,
        client: &ClientConnection,
    ) -> Result<Option<Tenant>, Refusal> {
        if matches!(key, ConnectionKey::Everybody | ConnectionKey::All(_)) {
            return Ok(None);
        }
        let who = client.who();
        if !who.is_known() {
            return Err(Refusal::KeyRemoved);
        }
        if !matches!(self.server.target(), Target::Command(_)) {
            return Ok(Some(Tenant::visiting(who)));
        }
        let tenant = Tenant::housed(who, || state.end_unused(key));
        tenant.map(Some).ok_or(Refusal::TooManyProcesses)
    }

    /// The connections that hear what belongs to no call: those of this client
    /// alone, else the one that it shares with others.
    fn hearing(&self, client: &ClientConnection, message: &Message) -> Vec<Arc<Upstream>> {
        let key = if self.children.is_shared() {
            self.choose_key(client, Exchange(0), message)
        } else {
            ConnectionKey::All(client.era())
        };
        let state = lock(&self.state);
        let is_own = |key: &ConnectionKey| {
            let is_call = matches!(key, ConnectionKey::Call(..));
            key.sharing() == Sharing::Alone && !is_call && key.serves(client)
        };
        let own = state.connections.iter().filter(|(key, _)| is_own(key));
        let own: Vec<_> = own.map(|(_, upstream)| Arc::clone(upstream)).collect();
        let shared = state.connections.get(&key).cloned().filter(|_| own.is_empty());
        drop(state);
        // To a modern server this means that a client wants to hear of changes.
        let is_vain = message.method() == method::INITIALIZED && client.is_bare();
        let hears = |upstream: &Arc<Upstream>| !is_vain || upstream.era() == Era::Legacy;
        own.into_iter().chain(shared).filter(hears).collect()
    }

    /// The server, as it is reached for this client.
    fn server_for(&self, client: &ClientConnection) -> ServerTarget {
        self.server.passing(self.server.passed_of(client.carried()), client.who())
    }

    /// The key of the connection that a call goes by.
    fn choose_key(
        &self,
        client: &ClientConnection,
        exchange: Exchange,
        request: &Message,
    ) -> ConnectionKey {
        if self.is_common() {
            return ConnectionKey::Everybody;
        }
        let (eras, passed) = (self.eras(client), self.server.passed_of(client.carried()));
        let passed = PassedOn { headers: &passed, has_account: self.server.has_accounts() };
        let key = self.children.choose_key(client, exchange, request, eras.server, passed);
        self.keeper(key, client, request).unwrap_or(key)
    }

    /// The connection by which the same caller began the task that a request is
    /// about: its id is enough, whatever the request declares besides.
    fn keeper(
        &self,
        key: ConnectionKey,
        client: &ClientConnection,
        request: &Message,
    ) -> Option<ConnectionKey> {
        let task = subject(request)?;
        let state = lock(&self.state);
        let has_it = |upstream: &Upstream| upstream.has_task(&task, client.principal());
        if state.connections.get(&key).is_some_and(|upstream| has_it(upstream)) {
            return None;
        }
        let mut theirs = state.connections.iter().filter(|(other, _)| other.is_alike(key));
        theirs.find(|(_, upstream)| has_it(upstream)).map(|(other, _)| *other)
    }
}

impl BridgeState {
    /// Runs what is left to do at the end of a connection.
    fn spawn(&mut self, closing: impl Future<Output = ()> + Send + 'static) {
        while self.closing.try_join_next().is_some() {}
        self.closing.spawn(closing);
    }

    fn close(&mut self, upstream: Arc<Upstream>) {
        self.spawn(async move { upstream.close().await });
    }

    /// Ends the connections that are meant.
    fn close_if(&mut self, is_meant: impl FnMut(&ConnectionKey, &mut Arc<Upstream>) -> bool) {
        let meant: Vec<_> = self.connections.extract_if(is_meant).collect();
        for (_, upstream) in meant {
            self.close(upstream);
        }
    }
}

impl Drop for Bridge {
    /// No caller waits for the end, but it comes.
    fn drop(&mut self) {
        let state = lock(&self.state);
        let all = state.connections.values().chain(&state.pool).chain(&state.leaving);
        all.chain(&state.era.asking).for_each(Upstream::stop);
    }
}

/// How many connections to the server there are, and which clients share them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Children {
    /// One for each legacy session; modern clients share one, for each of
    /// their requests stands alone (GW-81). A legacy server knows nothing of
    /// that: there, clients that can do the same share one (GW-41), and a client
    /// on a pipe has one for whatever its requests say that it can do.
    #[default]
    PerSession,
    /// One process for everybody, whatever era they speak; at a URL a session for all
    /// clients of an era. Safe if the server keeps nothing about a session.
    Shared,
    /// One for each call.
    PerRequest,
    /// One for each principal; like those of [`Children::PerSession`] otherwise.
    PerUser,
    /// Like [`Children::PerSession`], with so many children started ahead.
    Pool(usize),
}

/// Tells users and what clients can do from one another, in as much room however long
/// they are: no two that differ are known to have the same.
type Digest = [u8; SHA256_OUTPUT_LEN];

/// A user that the server can tell from others, and the principal behind it:
/// one for each name, whatever else its clients show.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct ConnectionUser {
    principal: Digest,
    said: Digest,
}

/// The clients that go by a connection: all clients, those of an era, those of one user, modern
/// clients that are alike, one client, its calls that are alike, or one call of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum ConnectionKey {
    Everybody,
    All(Era),
    User(Era, ConnectionUser),
    /// By user, and by what the clients can do besides.
    Alike(ConnectionUser, Digest),
    Client(u64),
    /// A modern client on a pipe, by what it can do: each request says that anew.
    Able(u64, Digest),
    Call(u64, Exchange),
}

/// What the server is shown of a user: no other user's connection shows it.
#[derive(Clone, Copy, Debug)]
struct PassedOn<'c> {
    headers: &'c HeaderMap,
    /// The token of an account of theirs.
    has_account: bool,
}

impl Children {
    /// The key of the connection that a call goes by, to a server of this era.
    /// What is passed on of a client's headers is shown by no other's connection.
    fn choose_key(
        self,
        client: &ClientConnection,
        exchange: Exchange,
        request: &Message,
        server: Era,
        passed: PassedOn<'_>,
    ) -> ConnectionKey {
        let era = client.era();
        let together = || {
            let is_user = self == Self::PerUser || !passed.headers.is_empty() || passed.has_account;
            if is_user {
                ConnectionKey::User(era, user(client, passed.headers))
            } else {
                ConnectionKey::All(era)
            }
        };
        match (self, era) {
            // What came by one request without a session is one call already.
            (Self::PerRequest, _) if !client.is_bare() => {
                ConnectionKey::Call(client.number(), exchange)
            }
            (Self::Shared, _) | (Self::PerUser, Era::Legacy) => together(),
            (_, Era::Legacy) => ConnectionKey::Client(client.number()),
            (_, Era::Modern) if server == Era::Modern => together(),
            (_, Era::Modern) if client.carrier() == Carrier::Http => {
                ConnectionKey::Alike(user(client, passed.headers), declared(request))
            }
            (_, Era::Modern) => ConnectionKey::Able(client.number(), declared(request)),
        }
    }

    /// Whether clients with sessions share a connection.
    fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::PerUser)
    }
}

/// The same for clients of the same principal that pass on the same.
fn user(client: &ClientConnection, passed: &HeaderMap) -> ConnectionUser {
    let mut principal = Context::new(&SHA256);
    principal.update(client.who().name().as_bytes());
    let mut said = Context::new(&SHA256);
    let mut say = |part: &[u8]| {
        said.update(&part.len().to_be_bytes());
        said.update(part);
    };
    say(client.principal());
    // In the order in which the server's plan names them.
    for (name, value) in passed {
        say(name.as_str().as_bytes());
        say(value.as_bytes());
    }
    ConnectionUser { principal: digest(principal), said: digest(said) }
}

/// The same for requests that declare the same (GW-41), however it is written.
fn declared(request: &Message) -> Digest {
    let declared = request.value(Member::MetaCapabilities).unwrap_or_default();
    let mut said = Context::new(&SHA256);
    said.update(declared.to_string().as_bytes());
    digest(said)
}

fn digest(said: Context) -> Digest {
    said.finish().as_ref().try_into().expect("a digest has its own length")
}

impl ConnectionKey {
    /// Whether calls of this client may go by it.
    fn serves(self, client: &ClientConnection) -> bool {
        match self {
            Self::Everybody => true,
            Self::All(era) | Self::User(era, _) => era == client.era(),
            Self::Alike(..) => client.era() == Era::Modern,
            Self::Client(number) | Self::Able(number, _) | Self::Call(number, _) => {
                number == client.number()
            }
        }
    }

    /// The user it is for, if the server can tell that user from others.
    fn user(self) -> Option<ConnectionUser> {
        match self {
            Self::User(_, user) | Self::Alike(user, _) => Some(user),
            _ => None,
        }
    }

    /// Whether it is for a user of this principal.
    fn is_of(self, principal: Digest) -> bool {
        self.user().is_some_and(|user| user.principal == principal)
    }

    /// Whether both are of the same caller, which may have declared something else.
    fn is_alike(self, other: Self) -> bool {
        match (self, other) {
            (Self::Alike(one, _), Self::Alike(other, _)) => one == other,
            (Self::Able(one, _), Self::Able(other, _)) => one == other,
            _ => false,
        }
    }

    /// Whether it ends when no client has used it for a while.
    fn is_swept(self) -> bool {
        matches!(self, Self::User(..) | Self::Alike(..) | Self::Able(..))
    }

    /// Whether several clients go by it.
    fn sharing(self) -> Sharing {
        match self {
            Self::Everybody | Self::All(_) | Self::User(..) | Self::Alike(..) => Sharing::Shared,
            Self::Client(_) | Self::Able(..) | Self::Call(..) => Sharing::Alone,
        }
    }
}

/// The task that a request is about; of a listen the first.
fn subject(request: &Message) -> Option<Cow<'_, str>> {
    match request.method() {
        method::LISTEN => {
            let tasks: Vec<String> = request.read(Member::ListenTasks)?;
            tasks.into_iter().next().map(Cow::Owned)
        }
        name if name.starts_with("tasks/") => request.task_id(),
        _ => None,
    }
}

/// Whether everybody goes by one connection.
fn is_common(server: &ServerTarget, children: Children) -> bool {
    let is_process = matches!(server.target(), Target::Command(_));
    children == Children::Shared && is_process && !server.tells_users_apart()
}

/// The bounds of connections that are shared like this.
fn fitting(children: Children, limits: Arc<Limits>) -> Arc<Limits> {
    match children {
        // A child that has answered is gone: no client could ask it for a task.
        Children::PerRequest => Arc::new(Limits { tasks: 0, ..Limits::clone(&limits) }),
        _ => limits,
    }
}
