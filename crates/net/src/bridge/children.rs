//! Which connection to the server a call goes by: found by its key, or made.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use http::HeaderMap;
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, Exchange};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::Phase;

use super::{Bridge, State, idle};
use crate::connection::{ClientConnection, lock};
use crate::drive::OwnedTask;
use crate::upstream::{Eras, ServerTarget, Target, Tenant, Upstream};

/// How many connections to the server there are, and who shares them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Children {
    /// One for each legacy session; modern clients share one, for each of
    /// their requests stands alone (GW-81). A legacy server knows nothing of
    /// that: there, those share one who can do the same (GW-41), and a client
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
type Mark = [u8; SHA256_OUTPUT_LEN];

/// Somebody whom the server can tell from others, and the principal behind them:
/// one for each name, whatever else its clients show.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct User {
    pub(super) principal: Mark,
    mark: Mark,
}

/// Who goes by a connection: all clients, those of an era, those of one user, modern
/// clients that are alike, one client, its calls that are alike, or one call of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum ConnectionKey {
    Everybody,
    All(Era),
    User(Era, User),
    /// By who they are, and by what they can do besides.
    Alike(User, Mark),
    Client(u64),
    /// A modern client on a pipe, by what it can do: each request says that anew.
    Able(u64, Mark),
    Call(u64, Exchange),
}

impl Children {
    /// Who goes by the connection that a call goes by, to a server of this era.
    /// What is passed on of a client's headers is shown by no other's connection.
    pub(super) fn whose(
        self,
        client: &ClientConnection,
        exchange: Exchange,
        request: &Message,
        server: Era,
        passed: &HeaderMap,
    ) -> ConnectionKey {
        let era = client.era();
        let together = || {
            let is_user = self == Self::PerUser || !passed.is_empty();
            if is_user {
                ConnectionKey::User(era, user(client, passed))
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
                ConnectionKey::Alike(user(client, passed), declared(request))
            }
            (_, Era::Modern) => ConnectionKey::Able(client.number(), declared(request)),
        }
    }

    /// Whether clients with sessions share a connection.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::PerUser)
    }
}

/// The same for clients of the same principal that pass on the same.
fn user(client: &ClientConnection, passed: &HeaderMap) -> User {
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
    User { principal: mark(principal), mark: mark(said) }
}

/// The same for requests that declare the same (GW-41), however it is written.
fn declared(request: &Message) -> Mark {
    let declared = request.value(Member::MetaCapabilities).unwrap_or_default();
    let mut said = Context::new(&SHA256);
    said.update(declared.to_string().as_bytes());
    mark(said)
}

fn mark(said: Context) -> Mark {
    said.finish().as_ref().try_into().expect("a digest has its own length")
}

impl ConnectionKey {
    /// Whether calls of this client may go by it.
    pub(super) fn serves(self, client: &ClientConnection) -> bool {
        match self {
            Self::Everybody => true,
            Self::All(era) | Self::User(era, _) => era == client.era(),
            Self::Alike(..) => client.era() == Era::Modern,
            Self::Client(number) | Self::Able(number, _) | Self::Call(number, _) => {
                number == client.number()
            }
        }
    }

    /// Whose it is, if it is somebody's whom the server can tell from others.
    pub(super) fn user(self) -> Option<User> {
        match self {
            Self::User(_, user) | Self::Alike(user, _) => Some(user),
            _ => None,
        }
    }

    /// Whether it is for this client alone, and for more than one of its calls.
    pub(super) fn is_own(self, client: &ClientConnection) -> bool {
        matches!(self, Self::Client(_) | Self::Able(..)) && self.serves(client)
    }

    /// Whether both are the same caller's, who may have declared something else.
    pub(super) fn is_alike(self, other: Self) -> bool {
        match (self, other) {
            (Self::Alike(one, _), Self::Alike(other, _)) => one == other,
            (Self::Able(one, _), Self::Able(other, _)) => one == other,
            _ => false,
        }
    }

    /// Whether it is there for as long as somebody uses it, and no longer.
    pub(super) fn is_swept(self) -> bool {
        matches!(self, Self::User(..) | Self::Alike(..) | Self::Able(..))
    }

    /// Whether several clients go by it.
    pub(super) fn sharing(self) -> Sharing {
        match self {
            Self::Everybody | Self::All(_) | Self::User(..) | Self::Alike(..) => Sharing::Shared,
            Self::Client(_) | Self::Able(..) | Self::Call(..) => Sharing::Alone,
        }
    }
}

impl Bridge {
    /// The connection that a call goes by, made if need be; none at the end.
    pub(super) fn upstream_for(
        &self,
        client: &ClientConnection,
        whose: ConnectionKey,
        eras: Eras,
        request: &Message,
    ) -> Result<Arc<Upstream>, Failure> {
        let mut state = lock(&self.state);
        // A client that was forgotten meanwhile must not get a new connection.
        if state.closed || client.phase() == Some(Phase::Ended) {
            return Err(Failure::CLOSED);
        }
        let greets = request.method() == method::INITIALIZE;
        if greets && self.children == Children::PerRequest {
            state.hellos.insert(client.number(), request.clone());
        }
        if let Some(upstream) = state.connections.get(&whose) {
            upstream.touch();
            return Ok(Arc::clone(upstream));
        }
        state.make_room(whose)?;
        let tenant = self.tenant(&mut state, whose, client)?;
        if whose.is_swept() {
            let sweep = || OwnedTask::spawn(idle::sweep(Weak::clone(&self.this)));
            state.sweeping.get_or_insert_with(sweep);
        }
        let hello = match whose {
            ConnectionKey::Call(number, _) if !greets => state.hellos.get(&number).cloned(),
            _ => None,
        };
        let server = self.server_for(client);
        let is_alike = |spare: &mut Arc<Upstream>| spare.passed() == server.passed();
        let fits = eras.clients == Era::Modern || whose == ConnectionKey::Everybody;
        let spare = state.waiting.spare.take_if(|spare| fits && is_alike(spare));
        let spare = spare.or_else(|| state.take_warm());
        let upstream = if let Some(spare) = spare {
            spare.turn(eras, whose.sharing());
            spare
        } else {
            let limits = self.limits();
            Upstream::new(server, eras, whose.sharing(), hello, limits)
        };
        if let Some(tenant) = tenant {
            upstream.let_to(tenant);
        }
        if client.is_bare() && whose.sharing() == Sharing::Alone {
            upstream.go_deaf();
        }
        state.connections.insert(whose, Arc::clone(&upstream));
        drop(state);
        self.fill_pool();
        Ok(upstream)
    }

    /// Whom a connection is for; none if it is for everybody.
    fn tenant(
        &self,
        state: &mut State,
        whose: ConnectionKey,
        client: &ClientConnection,
    ) -> Result<Option<Tenant>, Refusal> {
        if matches!(whose, ConnectionKey::Everybody | ConnectionKey::All(_)) {
            return Ok(None);
        }
        let who = client.who();
        if !who.is_known() {
            return Err(Refusal::KeyRemoved);
        }
        if !matches!(self.server.target(), Target::Command(_)) {
            return Ok(Some(Tenant::visiting(who)));
        }
        let tenant = Tenant::housed(who, || state.end_unused(whose));
        tenant.map(Some).ok_or(Refusal::TooManyProcesses)
    }

    /// The connections that hear what belongs to no call: those of this client
    /// alone, else the one that it shares with others.
    pub(super) fn hearing(
        &self,
        client: &ClientConnection,
        message: &Message,
    ) -> Vec<Arc<Upstream>> {
        let whose = if self.children.is_shared() {
            self.whose(client, Exchange(0), message)
        } else {
            ConnectionKey::All(client.era())
        };
        let state = lock(&self.state);
        let own = state.connections.iter().filter(|(whose, _)| whose.is_own(client));
        let own: Vec<_> = own.map(|(_, upstream)| Arc::clone(upstream)).collect();
        let shared = state.connections.get(&whose).cloned().filter(|_| own.is_empty());
        drop(state);
        // To a modern server this means that somebody wants to hear of changes.
        let is_vain = message.method() == method::INITIALIZED && client.is_bare();
        let hears = |upstream: &Arc<Upstream>| !is_vain || upstream.era() == Era::Legacy;
        own.into_iter().chain(shared).filter(hears).collect()
    }

    /// The server, as it is reached for this client.
    pub(super) fn server_for(&self, client: &ClientConnection) -> ServerTarget {
        self.server.passing(self.server.passed_of(client.carried()))
    }

    /// Who goes by the connection that a call goes by.
    pub(super) fn whose(
        &self,
        client: &ClientConnection,
        exchange: Exchange,
        request: &Message,
    ) -> ConnectionKey {
        if self.is_common() {
            return ConnectionKey::Everybody;
        }
        let (eras, passed) = (self.eras(client), self.server.passed_of(client.carried()));
        let whose = self.children.whose(client, exchange, request, eras.server, &passed);
        self.keeper(whose, client, request).unwrap_or(whose)
    }

    /// The connection by which the same caller began the task that a request is
    /// about: its id is enough, whatever the request declares besides.
    fn keeper(
        &self,
        whose: ConnectionKey,
        client: &ClientConnection,
        request: &Message,
    ) -> Option<ConnectionKey> {
        let task = subject(request)?;
        let state = lock(&self.state);
        let has_it = |upstream: &Upstream| upstream.has_task(&task, client.principal());
        if state.connections.get(&whose).is_some_and(|upstream| has_it(upstream)) {
            return None;
        }
        let mut theirs = state.connections.iter().filter(|(other, _)| other.is_alike(whose));
        theirs.find(|(_, upstream)| has_it(upstream)).map(|(other, _)| *other)
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
