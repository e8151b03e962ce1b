//! Many servers as one: what stands behind `/mcp`.
//!
//! ```text
//!   client ──▶ face ──▶ open.rs ┬─▶ route.rs: whose is it? ──▶ leg ──▶ bridge ──▶ server
//!                               ├─▶ greet.rs, list.rs: answered here, of what is known
//!                               └─▶ listen.rs: some of both
//! ```
//!
//! A [`Front`] decides who is meant and nothing else. What a server says on the
//! way (progress, logs, questions) goes back by the link that its call came by,
//! to the one client that made it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use http::HeaderName;
use switchboard_net::OwnedTask;
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::Call;
use switchboard_net::connection::ClientConnection;
use switchboard_net::parked_calls::Sealer;
use switchboard_net::roster::ListKind;
use switchboard_proto::exchange::{Ask, HeaderParams};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::server::legacy::Phase;

use crate::catalog::Catalog;
use crate::fleet::{Fleet, RunningServer};
use crate::person::Person;
use crate::policy::Grant;
use listen::Listens;
use offer::Edition;
use reply::PathContext;
use session::Session;

pub(crate) use task::Tasks;

mod grant;
mod list;
mod listen;
mod offer;
mod one;
mod open;
mod reply;
mod server_link;
mod session;
mod task;
#[cfg(test)]
pub(crate) mod tests;

/// Any number of clients in front of some servers of a fleet.
pub struct Front {
    fleet: Arc<Fleet>,
    members: RwLock<Arc<BTreeSet<Arc<str>>>>,
    /// With the edition of the definitions that it was made of.
    catalog: RwLock<(Edition, Arc<Catalog>)>,
    /// Held by whoever makes the next catalog.
    making: Mutex<()>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    listens: Listens,
    /// Calls of which it could not be told whose they are.
    #[cfg(test)]
    late: Mutex<Vec<Call>>,
    /// None only if the system had no randomness for a key: then no state is let through.
    sealer: Option<Arc<Sealer>>,
    /// What is shown of the members.
    grant: Grant,
    /// Whom it is for, if a member can tell people apart.
    person: Option<Arc<Person>>,
    /// The one server of this path, which is passed on as it is.
    only: Option<Arc<str>>,
    /// By which rules clients of that path were last told what there is.
    rules: Mutex<Option<one::Rules>>,
    /// The tasks that hear of changes at the servers.
    watching: OnceLock<Vec<OwnedTask>>,
    this: Weak<Self>,
}

/// Takes a lock. What a panic left behind is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Front {
    /// Offers these servers of a fleet together. Must be called within a tokio runtime.
    pub fn new(fleet: &Arc<Fleet>, members: impl IntoIterator<Item = Arc<str>>) -> Arc<Self> {
        let sealer = Sealer::new(tokio::time::Instant::now().into_std()).ok().map(Arc::new);
        Self::unwatched(fleet, members, Grant::default(), sealer, None, None).watched()
    }

    /// Tells its clients of changes.
    fn watched(self: Arc<Self>) -> Arc<Self> {
        let theirs = self.person.iter().map(|person| &person.roster);
        let watching = std::iter::once(&self.fleet.roster)
            .chain(theirs)
            .map(|roster| OwnedTask::spawn(list::watch(Arc::downgrade(&self), roster.changes())));
        self.watching.get_or_init(|| watching.collect());
        self.refresh();
        self
    }

    /// The same, but nobody is told of changes.
    fn unwatched(
        fleet: &Arc<Fleet>,
        members: impl IntoIterator<Item = Arc<str>>,
        grant: Grant,
        sealer: Option<Arc<Sealer>>,
        person: Option<Arc<Person>>,
        only: Option<Arc<str>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            fleet: Arc::clone(fleet),
            members: RwLock::new(Arc::new(members.into_iter().collect())),
            catalog: RwLock::default(),
            making: Mutex::default(),
            sessions: Mutex::default(),
            listens: Listens::default(),
            #[cfg(test)]
            late: Mutex::default(),
            sealer,
            grant,
            person,
            only,
            rules: Mutex::default(),
            watching: OnceLock::new(),
            this: Weak::clone(this),
        })
    }

    /// What is offered. Whoever knows that a server is ready finds what it offers.
    pub fn catalog(&self) -> Arc<Catalog> {
        let (edition, catalog) = self.known();
        if edition == self.edition() {
            return catalog;
        }
        self.refresh();
        self.known().1
    }

    fn known(&self) -> (Edition, Arc<Catalog>) {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names of its servers.
    fn members(&self) -> Arc<BTreeSet<Arc<str>>> {
        Arc::clone(&self.members.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn running_servers(&self) -> Vec<Arc<RunningServer>> {
        let members = self.members();
        members.iter().filter_map(|name| self.fleet.running(name)).collect()
    }

    /// Offers these servers from here on, as far as they are granted; tells clients
    /// whose lists are others now.
    pub(crate) fn change(&self, members: impl IntoIterator<Item = Arc<str>>) {
        let members = members.into_iter().filter(|name| self.grant.has_server(name));
        let members = Arc::new(members.collect());
        let making = lock(&self.making);
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = members;
        // The catalog is of another plan, whatever its edition.
        self.catalog.write().unwrap_or_else(PoisonError::into_inner).0.0 = u64::MAX;
        drop(making);
        self.follow();
        if self.only.is_none() {
            self.end_listens_left();
            self.refresh();
        }
        let running_servers = self.fleet.running_servers();
        for session in self.ready_sessions() {
            session.follow(&running_servers);
        }
        self.tell_rules_changed();
    }

    /// Has those servers asked that know people, as they are at this time.
    fn follow(&self) {
        if let Some(person) = &self.person {
            let members = self.members();
            person.follow(&self.fleet.running_servers(), |name| members.contains(name));
        }
    }

    fn at(&self) -> PathContext {
        PathContext::many(&self.fleet, self.sealer.clone())
    }

    fn session(&self, client: &ClientConnection) -> Option<Arc<Session>> {
        lock(&self.sessions).get(&client.number()).cloned()
    }

    /// The clients with a session that have confirmed it.
    fn ready_sessions(&self) -> Vec<Arc<Session>> {
        let sessions: Vec<_> = lock(&self.sessions).values().cloned().collect();
        let is_ready = |session: &Arc<Session>| session.client.phase() == Some(Phase::Ready);
        sessions.into_iter().filter(is_ready).collect()
    }

    /// A client is not here any more.
    pub(crate) fn leave(&self, client: &ClientConnection) {
        self.forget_listens(client.number());
        let session = lock(&self.sessions).remove(&client.number());
        if let Some(session) = session {
            session.close_links();
        }
    }

    /// Ends every listen with its result, before a shutdown (SUB-8).
    pub fn close(&self) {
        self.end_listens();
    }
}

fn id(request: &Message) -> &Id {
    request.id().unwrap_or(&Id::Integer(0))
}

impl Backend for Front {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        match &self.only {
            Some(name) => self.open_at_one(name, client, call, request, said),
            None => self.take(client, call, &request, said),
        }
    }

    fn cancel(&self, client: &Arc<ClientConnection>, call: &Call) {
        self.unlisten(client.number(), call.exchange());
    }

    fn supply(&self, client: &Arc<ClientConnection>, ask: Ask, answer: Message) -> Option<Message> {
        if let Some(session) = self.session(client) {
            session.questions.remove(ask);
        }
        if self.only.is_some() {
            return Some(answer);
        }
        Some(self.fleet.tasks.given(client, &answer).into_owned())
    }

    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        match (&self.only, self.session(client)) {
            (Some(name), _) => self.note_to_one(name, client, &message),
            (None, Some(session)) => session.note(&message),
            (None, None) => PendingWork::none(),
        }
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        self.leave(client);
        self.fleet.forget(client);
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        self.fleet.carried()
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tools = self.catalog().count(ListKind::Tools);
        f.debug_struct("Front")
            .field("members", &self.members())
            .field("tools", &tools)
            .finish_non_exhaustive()
    }
}
