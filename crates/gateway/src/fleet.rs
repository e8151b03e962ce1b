//! The servers that a plan names, running: a bridge to each for its clients,
//! and a roster that knows what they offer.
//!
//! The roster's connections are ours alone. They tell what there is, so that a
//! list costs no client a connection; a client's calls go by connections of its
//! own, which are made when it first calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use switchboard_net::bridge::{Bridge, Children, Hidden};
use switchboard_net::client::ClientOptions;
use switchboard_net::inside::Inside;
use switchboard_net::roster::{AddError, Cache, Deferred, Roster, RosterOptions, State};
use switchboard_net::upstream::Server;
use switchboard_proto::limits::Limits;
use tokio::task::JoinSet;

use crate::plan::{Plan, Process, ServerPlan};

mod alone;
mod tend;

use alone::Alone;

/// How often a server that has failed is looked at.
const PROBE: Duration = Duration::from_mins(1);

/// How long lists wait for servers of which nothing is known.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// All servers of a plan.
pub struct Fleet {
    pub(crate) roster: Roster,
    backends: BTreeMap<Arc<str>, Backend>,
    /// Headers of clients that some server wants.
    pub(crate) carried: Option<Arc<[HeaderName]>>,
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
}

impl Fleet {
    /// Starts to connect every server of `plan`; `server` says how each is reached.
    pub fn start(
        plan: &Plan,
        options: FleetOptions,
        server: impl Fn(&ServerPlan) -> Server,
    ) -> Result<Arc<Self>, AddError> {
        let roster = Roster::new(RosterOptions {
            cache: options.cache,
            patience: PATIENCE,
            probe: Some(PROBE),
            ..RosterOptions::default()
        });
        let mut backends = BTreeMap::new();
        for (name, plan) in &plan.servers {
            let name: Arc<str> = name.as_str().into();
            let server = server(plan);
            let client = ClientOptions::default();
            roster.add_within(Arc::clone(&name), server.clone(), client, plan.start)?;
            let bridge = bridge(plan, server, &options.limits);
            backends.insert(name, Backend { plan: plan.clone(), bridge });
        }
        let carried = carried(plan);
        let fleet = Arc::new(Self { roster, backends, carried });
        fleet.tend();
        Ok(fleet)
    }

    /// The names of all servers.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.backends.keys()
    }

    /// One server alone, as it is; whether its clients share a connection to it.
    pub fn alone(self: &Arc<Self>, name: &str) -> Option<(Arc<dyn Inside>, bool)> {
        let (name, backend) = self.backends.get_key_value(name)?;
        let (name, bridge) = (Arc::clone(name), Arc::clone(&backend.bridge));
        let is_shared = bridge.is_shared();
        let alone = Alone { fleet: Arc::downgrade(self), name, bridge };
        Some((Arc::new(alone), is_shared))
    }

    pub(crate) fn backend(&self, name: &str) -> Option<&Backend> {
        self.backends.get(name)
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

    /// How many calls of clients wait for a server, or for their turn there.
    pub fn queued(&self, name: &str) -> usize {
        self.backends.get(name).map_or(0, |backend| backend.bridge.queued())
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

/// The way of clients' calls to one server.
fn bridge(plan: &ServerPlan, server: Server, limits: &Limits) -> Arc<Bridge> {
    let mut limits = limits.clone();
    limits.quiet = plan.call.unwrap_or(limits.quiet);
    limits.greet = Some(plan.start);
    let bounds = (plan.calls, plan.start);
    Bridge::guarding(hidden(plan), server, children(plan.process), Arc::new(limits), bounds)
}

/// Who shares a connection.
fn children(process: Process) -> Children {
    match process {
        Process::Shared => Children::Shared,
        Process::PerSession => Children::PerSession,
        Process::PerUser => Children::PerUser,
        Process::PerRequest => Children::PerRequest,
        Process::Pool(count) => Children::Pool(count.get()),
    }
}

/// Headers of clients that any server wants, each once.
fn carried(plan: &Plan) -> Option<Arc<[HeaderName]>> {
    let wanted = plan.servers.values().flat_map(|plan| &plan.credentials.pass);
    let mut names: Vec<HeaderName> = Vec::new();
    for name in wanted {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    (!names.is_empty()).then(|| names.into())
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
