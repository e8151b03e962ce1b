//! One server of the roster: where it is, how it stands, what it offers.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard_proto::project::CacheHints;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cache::Key;
use super::definition::{Definition, Definitions, Kind, Terms};
use super::keep::List;
use super::link::Link;
use super::state::{Deferred, State};
use crate::client::{Client, ClientOptions, Remembered};
use crate::upstream::{Server, Target};

/// A server with a name.
pub(super) struct Berth {
    pub(super) name: Arc<str>,
    pub(super) server: Server,
    pub(super) options: ClientOptions,
    /// How long connecting and reading the lists may take.
    pub(super) connect: Duration,
    pub(super) key: Key,
    pub(super) view: watch::Sender<View>,
    /// The latest connection, and the task that keeps it.
    pub(super) kept: Mutex<Option<(Arc<Link>, JoinHandle<()>)>>,
    pub(super) remembered: Mutex<Option<Remembered>>,
}

/// What is to be seen of a server.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) state: State,
    /// There while it is ready; while it sleeps, as it was.
    pub(super) client: Option<(Client, Arc<Link>)>,
    pub(super) definitions: Arc<Definitions>,
    /// Of each kind; none for what the server does not have.
    pub(super) terms: [Option<Terms>; 4],
    /// The definitions are its own, of whatever time.
    pub(super) is_known: bool,
    /// The cache has been asked.
    pub(super) is_loaded: bool,
    pub(super) is_removed: bool,
}

impl Berth {
    pub(super) fn new(
        name: Arc<str>,
        server: Server,
        options: ClientOptions,
        connect: Duration,
    ) -> Self {
        let view = View {
            state: State::Waiting,
            client: None,
            definitions: Arc::default(),
            terms: [None; 4],
            is_known: false,
            is_loaded: false,
            is_removed: false,
        };
        let view = watch::Sender::new(view);
        let key = Key::of(&server);
        let (kept, remembered) = (Mutex::default(), Mutex::new(options.remembered));
        Self { name, server, options, connect, key, view, kept, remembered }
    }

    /// Offers what another one offered, until it knows better.
    pub(super) fn succeed(&self, old: &Self) {
        let old = old.view.borrow().clone();
        self.view.send_modify(|view| {
            view.definitions = old.definitions;
            view.is_known = old.is_known;
        });
    }

    /// Replaces lists; those that are different now.
    pub(super) fn set(&self, lists: Vec<List>) -> Vec<Kind> {
        let mut different = Vec::new();
        self.view.send_modify(|view| {
            let mut definitions = Definitions::clone(&view.definitions);
            for List { kind, items, terms } in lists {
                view.terms[kind as usize] = terms;
                if definitions.list(kind) != items {
                    different.push(kind);
                    definitions.set(kind, items);
                }
            }
            view.definitions = Arc::new(definitions);
            view.is_known = true;
        });
        different
    }

    /// What it offers of one kind.
    pub(super) fn definitions(&self, kind: Kind) -> Vec<Definition> {
        let view = self.view.borrow();
        let is_cached = !view.state.is_current();
        let definition = |text: &Bytes| Definition {
            server: Arc::clone(&self.name),
            kind,
            text: text.clone(),
            is_cached,
        };
        view.definitions.list(kind).iter().map(definition).collect()
    }

    /// How long others may keep its list; none if it has none of that kind.
    pub(super) fn hints(&self, kind: Kind, now: Instant) -> Option<CacheHints> {
        let view = self.view.borrow();
        if view.state != State::Ready {
            return Some(CacheHints::default());
        }
        view.terms[kind as usize].map(|terms| terms.hints(now))
    }

    /// Has a list read again whose time is over. Who asks gets the old one.
    pub(super) fn freshen(&self, kind: Kind, now: Instant) {
        let view = self.view.borrow();
        let is_stale = view.terms[kind as usize].is_some_and(|terms| terms.is_stale(now));
        if let Some((_, link)) = view.client.as_ref().filter(|_| is_stale) {
            link.changed([kind]);
        }
    }

    /// What there is to say if it is not ready.
    pub(super) fn deferred(&self) -> Option<Deferred> {
        let view = self.view.borrow();
        let deferred = Deferred {
            name: Arc::clone(&self.name),
            state: view.state.clone(),
            is_cached: view.is_known,
        };
        (!view.state.is_current()).then_some(deferred)
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

impl fmt::Debug for Berth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Berth").field("name", &self.name).finish_non_exhaustive()
    }
}
