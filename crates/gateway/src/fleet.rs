//! The servers that a plan names, running: a bridge to each for its clients,
//! and a roster that knows what they offer.
//!
//! The roster's connections are ours alone. They tell what there is, so that a
//! list costs no client a connection; a client's calls go by connections of its
//! own, which are made when it first calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_net::bridge::{Bridge, Children, Hidden};
use switchboard_net::client::ClientOptions;
use switchboard_net::inside::Inside;
use switchboard_net::roster::{AddError, Cache, Deferred, Roster, RosterOptions, State};
use switchboard_net::upstream::Server;
use switchboard_proto::limits::Limits;
use tokio::task::JoinSet;

use crate::plan::{Plan, Process, ServerPlan};
use crate::tap::{Peer, Tap};

pub use gauge::Gauges;

mod gauge;

/// How long lists wait for servers of which nothing is known.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// All servers of a plan.
pub struct Fleet {
    pub(crate) roster: Roster,
    backends: BTreeMap<Arc<str>, Backend>,
    tap: Arc<Tap>,
}

/// One server, for the calls of clients.
pub(crate) struct Backend {
    pub(crate) plan: ServerPlan,
    pub(crate) bridge: Arc<Bridge>,
}

/// What may be different about a fleet.
#[derive(Clone, Debug, Default)]
pub struct FleetOptions {
    /// Bounds on each conversation.
    pub limits: Limits,
    /// Where lists are kept for the next time.
    pub cache: Option<Cache>,
    /// What sees the calls.
    pub tap: Arc<Tap>,
}

impl Fleet {
    /// Starts to connect every server of `plan`; `server` says how each is reached.
    pub fn start(
        plan: &Plan,
        options: FleetOptions,
        server: impl Fn(&ServerPlan) -> Server,
    ) -> Result<Arc<Self>, AddError> {
        let client = ClientOptions::default();
        let roster = Roster::new(RosterOptions {
            cache: options.cache,
            patience: PATIENCE,
            connect: plan.servers.values().map(|plan| plan.start).max().unwrap_or_default(),
            client,
            ..RosterOptions::default()
        });
        let mut backends = BTreeMap::new();
        for (name, plan) in &plan.servers {
            let name: Arc<str> = name.as_str().into();
            let server = server(plan);
            options.tap.meet(&name, Peer::of(&server));
            roster.add(Arc::clone(&name), server.clone())?;
            let mut limits = options.limits.clone();
            limits.quiet = plan.call.unwrap_or(limits.quiet);
            let hidden = hidden(plan);
            let bridge = Bridge::hiding(hidden, server, children(plan.process), Arc::new(limits));
            backends.insert(name, Backend { plan: plan.clone(), bridge });
        }
        let fleet = Arc::new(Self { roster, backends, tap: options.tap });
        let known = Arc::downgrade(&fleet);
        fleet.tap.ask(move |server, tool| {
            known.upgrade().is_some_and(|fleet| fleet.has_tool(server, tool))
        });
        Ok(fleet)
    }

    /// The names of all servers.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.backends.keys()
    }

    /// One server alone, as it is; whether its clients share a connection to it.
    pub fn alone(&self, name: &str) -> Option<(Arc<dyn Inside>, bool)> {
        let bridge = &self.backends.get(name)?.bridge;
        Some((Arc::clone(bridge) as _, bridge.is_shared()))
    }

    /// What sees the calls.
    pub fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    pub(crate) fn backend(&self, name: &str) -> Option<&Backend> {
        self.backends.get(name)
    }

    /// Where a server is.
    pub(crate) fn server(&self, name: &str) -> Option<&Server> {
        self.backends.get(name).map(|backend| backend.bridge.server())
    }

    /// How each server stands, by name.
    pub fn states(&self) -> Vec<(Arc<str>, State)> {
        self.roster.servers()
    }

    /// The servers that are not ready.
    pub fn deferred(&self) -> Vec<Deferred> {
        self.roster.deferred()
    }

    /// How many calls of clients are open at a server.
    pub fn calls(&self, name: &str) -> usize {
        self.backends.get(name).map_or(0, |backend| backend.bridge.calls())
    }

    /// Waits until every server is ready or known to be broken, for a moment at most.
    pub(crate) async fn settled(&self) {
        self.roster.ready().await;
    }

    /// Ends every connection, and waits for the end of each.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for backend in self.backends.values() {
            let bridge = Arc::clone(&backend.bridge);
            closing.spawn(async move { bridge.close().await });
        }
        self.roster.close().await;
        while closing.join_next().await.is_some() {}
    }
}

/// Who shares a connection. What there is no such rule for has one a session.
fn children(process: Process) -> Children {
    match process {
        Process::Shared => Children::Shared,
        Process::PerRequest => Children::PerRequest,
        Process::PerSession | Process::PerUser | Process::Pool(_) => Children::PerSession,
    }
}

/// The tools that clients must not see, whichever way they come.
fn hidden(plan: &ServerPlan) -> Hidden {
    let hidden = Hidden::new(&plan.tools.never);
    match &plan.tools.only {
        Some(only) => hidden.but(only),
        None => hidden,
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("servers", &self.backends.keys()).finish_non_exhaustive()
    }
}
