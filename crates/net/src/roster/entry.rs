//! One server of the roster: where it is, its state, what it offers, and when it sleeps.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard_proto::project::CacheHints;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Roster;
use super::cache::Key;
use super::connection::{Link, List};
use super::definition::{Definition, Definitions, ListKind, Terms};
use super::inner::Inner;
use super::state::{Deferred, ServerPhase, ServerState};
use crate::bridge::Bridge;
use crate::client::{Client, ClientOptions, Remembered};
use crate::connection::lock;
use crate::drive::{Either, OwnedTask, race};
use crate::upstream::{ServerTarget, Target};

/// A server with a name.
pub(super) struct ServerEntry {
    pub(super) name: Arc<str>,
    pub(super) server: ServerTarget,
    pub(super) options: ClientOptions,
    /// How long connecting and reading the lists may take.
    pub(super) connect: Duration,
    pub(super) key: Key,
    pub(super) state: watch::Sender<ServerState>,
    pub(super) lists: watch::Sender<Lists>,
    /// There while the server is ready; while it sleeps, as it was.
    pub(super) client: Mutex<Option<(Client, Arc<Link>)>>,
    /// The latest connection, and the task that keeps it.
    pub(super) kept: Mutex<Option<(Arc<Link>, JoinHandle<()>)>>,
    pub(super) remembered: Mutex<Option<Remembered>>,
    /// The task that asks the cache.
    pub(super) recalling: Mutex<Option<OwnedTask>>,
    /// The task that puts the server to sleep.
    pub(super) sleeping: Mutex<Option<OwnedTask>>,
}

/// What a server offers, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) definitions: Arc<Definitions>,
    /// Of each kind; none for what the server does not have.
    pub(super) terms: [Option<Terms>; 4],
    /// The definitions are its own, of whatever time.
    pub(super) is_known: bool,
    /// The cache has been asked.
    pub(super) is_loaded: bool,
}

impl ServerEntry {
    pub(super) fn new(
        name: Arc<str>,
        server: ServerTarget,
        options: ClientOptions,
        connect: Duration,
    ) -> Self {
        let state = watch::Sender::new(ServerState::new(ServerPhase::Queued));
        let key = Key::of(&server);
        let remembered = Mutex::new(options.remembered);
        Self {
            name,
            server,
            options,
            connect,
            key,
            state,
            lists: watch::Sender::default(),
            client: Mutex::default(),
            kept: Mutex::default(),
            remembered,
            recalling: Mutex::default(),
            sleeping: Mutex::default(),
        }
    }

    /// Offers what another one offered, until it knows better.
    pub(super) fn succeed(&self, old: &Self) {
        let old = old.lists.borrow().clone();
        self.lists.send_modify(|lists| {
            lists.definitions = old.definitions;
            lists.is_known = old.is_known;
        });
    }

    /// The server is in this state from here on.
    pub(super) fn publish(&self, state: ServerState) {
        let is_up = state.is_up();
        if state.phase == ServerPhase::Draining {
            *lock(&self.recalling) = None;
            *lock(&self.sleeping) = None;
        }
        self.state.send_modify(|before| *before = state.after(before));
        if !is_up {
            *lock(&self.client) = None;
        }
    }

    /// The connection, while the server is in a state like this.
    pub(super) fn client_if(
        &self,
        is_it: impl Fn(&ServerState) -> bool,
    ) -> Option<(Client, Arc<Link>)> {
        let client = lock(&self.client).clone();
        client.filter(|_| is_it(&self.state.borrow()))
    }

    /// Replaces lists; those that are different now.
    pub(super) fn set(&self, lists: Vec<List>) -> Vec<ListKind> {
        let mut different = Vec::new();
        self.lists.send_modify(|known| {
            let mut definitions = Definitions::clone(&known.definitions);
            for List { kind, items, terms } in lists {
                known.terms[kind as usize] = terms;
                if definitions.list(kind) != items {
                    different.push(kind);
                    definitions.set(kind, items);
                }
            }
            known.definitions = Arc::new(definitions);
            known.is_known = true;
        });
        different
    }

    /// What it offers of one kind.
    pub(super) fn definitions(&self, kind: ListKind) -> Vec<Definition> {
        let is_cached = !self.state.borrow().is_up();
        let definition = |text: &Bytes| Definition {
            server: Arc::clone(&self.name),
            kind,
            text: text.clone(),
            is_cached,
        };
        self.lists.borrow().definitions.list(kind).iter().map(definition).collect()
    }

    /// How long others may keep its list; none if it has none of that kind.
    pub(super) fn hints(&self, kind: ListKind, now: Instant) -> Option<CacheHints> {
        if self.state.borrow().phase != ServerPhase::Ready {
            return Some(CacheHints::default());
        }
        self.lists.borrow().terms[kind as usize].map(|terms| terms.hints(now))
    }

    /// Has a list read again whose time is over. Who asks gets the old one.
    pub(super) fn freshen(&self, kind: ListKind, now: Instant) {
        let terms = self.lists.borrow().terms[kind as usize];
        let is_stale = terms.is_some_and(|terms| terms.is_stale(now));
        if let Some((_, link)) = lock(&self.client).as_ref().filter(|_| is_stale) {
            link.changed([kind]);
        }
    }

    /// What there is to say if it is not ready.
    pub(super) fn deferred(&self) -> Option<Deferred> {
        let state = self.state.borrow().clone();
        let is_cached = self.lists.borrow().is_known;
        let is_up = state.is_up();
        (!is_up).then(|| Deferred { name: Arc::clone(&self.name), state, is_cached })
    }

    /// Something to keep those who share a server from coming back all at once.
    /// A child is nobody else's.
    pub(super) fn jitter(&self) -> Duration {
        let mut chance = [0; 1];
        match self.server.target() {
            Target::Url { .. } if getrandom::fill(&mut chance).is_ok() => {
                Duration::from_millis(2 * u64::from(chance[0]))
            }
            _ => Duration::ZERO,
        }
    }
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A server, and the bridge that the calls of clients go by.
struct Sleeper {
    inner: Weak<Inner>,
    name: Arc<str>,
    bridge: Arc<Bridge>,
    idle: Duration,
    /// The connections of the bridge end with ours.
    is_owner: bool,
}

impl Roster {
    /// Has a server sleep whenever no client has made a call by `bridge` for `idle`; never,
    /// if that is not said. The connections of the bridge end too if this roster is their
    /// owner; other rosters only leave them.
    pub fn sleep_after(
        &self,
        name: &str,
        idle: Option<Duration>,
        bridge: &Arc<Bridge>,
        is_owner: bool,
    ) {
        let Some(entry) = self.inner.entry(name) else { return };
        let sleeper = idle.map(|idle| Sleeper {
            inner: Arc::downgrade(&self.inner),
            name: Arc::clone(&entry.name),
            bridge: Arc::clone(bridge),
            idle,
            is_owner,
        });
        let state = entry.state.subscribe();
        *lock(&entry.sleeping) = sleeper.map(|it| OwnedTask::spawn(it.run(state)));
    }
}

impl Sleeper {
    async fn run(self, mut state: watch::Receiver<ServerState>) {
        let bridge = &self.bridge;
        let mut children = bridge.server().traffic().watch_children();
        while !bridge.is_closed() {
            bridge.unused_for(self.idle).await;
            if self.is_owner {
                bridge.until_quiet().await;
            }
            let stirred = bridge.stirred();
            children.borrow_and_update();
            let phase = state.borrow_and_update().phase;
            if phase == ServerPhase::Ready && (!self.is_owner || bridge.is_common()) {
                // It goes by the bridge too, and leaves it first: it would start the server again.
                match self.leave() {
                    Some(link) => link.gone.said().await,
                    None => tokio::task::yield_now().await,
                }
            } else if !self.put_to_sleep(phase) {
                // Somebody came to use it at this moment.
                tokio::task::yield_now().await;
            } else {
                let changed = race(state.changed(), children.changed());
                if let Either::Right(Either::Left(Err(_))) = race(stirred, changed).await {
                    return;
                }
            }
        }
    }

    fn sleep(&self) -> bool {
        let inner = self.inner.upgrade();
        inner.is_some_and(|inner| inner.step(|supervisor, _| supervisor.sleep(&self.name)))
    }

    /// Ends the connection of the roster; what is left of it. None if it broke meanwhile.
    fn leave(&self) -> Option<Arc<Link>> {
        let entry = self.inner.upgrade()?.entry(&self.name)?;
        let (_, link) = lock(&entry.client).clone()?;
        self.sleep();
        Some(link)
    }

    /// Ends the connections of clients. False if that must be tried again once nobody
    /// uses the server.
    fn put_to_sleep(&self, phase: ServerPhase) -> bool {
        let bridge = &self.bridge;
        let is_asleep = match phase {
            ServerPhase::Ready => bridge.rest(self.idle) && self.sleep(),
            ServerPhase::Sleeping if self.is_owner && bridge.is_common() && bridge.is_running() => {
                bridge.rest(self.idle)
            }
            _ => return true,
        };
        if is_asleep {
            tracing::info!(server = &*self.name, "put to sleep: nobody uses it");
        }
        is_asleep
    }
}
