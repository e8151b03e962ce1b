//! The servers that a plan names, running: a bridge to each for its clients,
//! and a roster that knows what they offer.
//!
//! The roster's connections tell what there is, so that a list costs no client a
//! connection; a client's calls go by connections of its own, which are made when
//! it first calls. A process that everybody shares is one for the roster too: it
//! starts it, and has it started again.
//!
//! `Fleet::change` leads from one plan to another while clients call:
//!
//! ```text
//!   the same, or other filters and names ──▶ the same connections
//!   another place, process, ...          ──▶ a new one takes the calls, the old one leaves
//!   not in the plan any more             ──▶ it leaves
//! ```
//!
//! A server that leaves gets no new calls, and ends when those that it has are answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant};

use http::HeaderName;
use serde_json::json;
use switchboard_net::backend::Backend as _;
use switchboard_net::bridge::Bridge;
use switchboard_net::client::{ClientOptions, Declined};
use switchboard_net::cluster::replica::Replica;
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::fetch::Fetch;
use switchboard_net::parked_calls::Sealer;
use switchboard_net::roster::{
    AddError, Cache, Deferred, ListCounts, ListKind, Roster, RosterOptions, ServerPhase,
    ServerState,
};
use switchboard_net::upstream::{ClientIdentity, ServerTarget};
use switchboard_net::{Either, OwnedTask, now, race};
use switchboard_proto::failure::Failure;
use switchboard_proto::limits::Limits;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::approval::{self, Approvals};
use crate::connect::UserConnector;
use crate::monitor::CallMonitor;
use crate::plan::{Plan, PlanSecret, ServerPlan, ToolChanges, ToolSearch};
use crate::stderr_logs::StderrLogs;
use crate::view::{GatewayTasks, People, Views};
use crate::{lock, read, write};

pub use crate::view::PersonBounds;

/// How often a server that has failed is looked at.
pub(crate) const PROBE: Duration = Duration::from_mins(1);

/// How long lists wait for servers of which nothing is known.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// All servers of a plan.
pub struct Fleet {
    pub(crate) roster: Roster,
    options: FleetOptions,
    reach: ServerReach,
    /// As they are; replaced as a whole.
    running_servers: RwLock<Arc<RunningServers>>,
    /// Those that are switched off.
    pub(crate) disabled: RwLock<Vec<Arc<ServerPlan>>>,
    /// Whether there are more, with mistakes.
    pub(crate) has_broken: AtomicBool,
    leaving: Leaving,
    /// Of all clients, whichever way they come.
    pub(crate) tasks: GatewayTasks,
    /// When clients search for tools rather than list them.
    pub(crate) search: RwLock<ToolSearch>,
    /// Headers of clients that some server wants.
    pub(crate) carried: RwLock<Option<Arc<[HeaderName]>>>,
    /// Whether a server can tell people apart.
    knows_people: AtomicBool,
    pub(crate) people: People,
    /// What is served at the paths.
    views: Mutex<Vec<Weak<Views>>>,
    /// Compares what servers list with what was approved.
    reviewing: OnceLock<OwnedTask>,
    /// When it was started.
    pub(crate) began: Instant,
}

/// The servers at one time, by name.
pub(crate) type RunningServers = BTreeMap<Arc<str>, Arc<RunningServer>>;

/// How a server is reached.
type ServerReach = Box<dyn Fn(&ServerPlan) -> ServerTarget + Send + Sync>;

/// One server, for the calls of clients. Whoever is about to make a call holds
/// it: a bridge does not end as long as that is so.
pub(crate) struct RunningServer {
    pub(crate) plan: Arc<ServerPlan>,
    pub(crate) bridge: Arc<Bridge>,
    /// Shared by all that have the same bridge: it closes with the last of them.
    held: watch::Sender<()>,
}

/// What may be different about a fleet.
#[derive(Clone, Default)]
pub struct FleetOptions {
    /// Where lists are kept for the next time.
    pub cache: Option<Cache>,
    /// What sees the calls.
    pub monitor: Arc<CallMonitor>,
    /// Whether the clients are connected by our own stdio.
    pub is_stdio: bool,
    /// How often a server that has failed is tried; each minute if it is not said.
    pub probe: Option<Duration>,
    /// How many people are remembered, and for how long.
    pub people: PersonBounds,
    /// By what the keys of issuers are read; one of its own if it is not said.
    pub fetch: Option<Fetch>,
    /// Connects users with accounts of their own.
    pub connector: Option<Arc<UserConnector>>,
    /// Keeps what servers say on stderr.
    pub stderr: Option<Arc<StderrLogs>>,
    /// What people have approved of the servers.
    pub approvals: Arc<Approvals>,
    /// Which replica of a cluster this is, if there are several.
    pub replica: Option<Arc<Replica>>,
}

impl Fleet {
    /// Starts to connect every server of `plan`; `server` says how each is reached.
    pub fn start(
        plan: &Plan,
        options: FleetOptions,
        server: impl Fn(&ServerPlan) -> ServerTarget + Send + Sync + 'static,
    ) -> Result<Arc<Self>, AddError> {
        let roster = Roster::new(
            RosterOptions::default()
                .cache(options.cache.clone())
                .patience(PATIENCE)
                .client(able(Duration::ZERO))
                .probe(options.probe.unwrap_or(PROBE)),
        );
        let people = People::new(options.people);
        let fleet = Arc::new(Self {
            roster,
            options,
            reach: Box::new(server),
            running_servers: RwLock::default(),
            disabled: RwLock::default(),
            has_broken: AtomicBool::default(),
            leaving: Leaving::default(),
            tasks: GatewayTasks::default(),
            search: RwLock::default(),
            carried: RwLock::default(),
            knows_people: AtomicBool::new(false),
            people,
            views: Mutex::default(),
            reviewing: OnceLock::new(),
            began: Instant::now(),
        });
        fleet.monitor().know(&fleet);
        let (changes, approvals) = (fleet.roster.changes(), Arc::clone(fleet.approvals()));
        fleet.change(plan)?;
        let reviewing = approval::follow(Arc::downgrade(&fleet), approvals, changes);
        fleet.reviewing.get_or_init(|| OwnedTask::spawn(reviewing));
        Ok(fleet)
    }

    /// Whether any server can tell people apart.
    pub(crate) fn knows_people(&self) -> bool {
        self.knows_people.load(Ordering::Acquire)
    }

    /// The servers as they are at this time.
    pub(crate) fn running_servers(&self) -> Arc<RunningServers> {
        Arc::clone(&read(&self.running_servers))
    }

    /// The names of all servers.
    pub fn names(&self) -> Arc<[Arc<str>]> {
        self.running_servers().keys().cloned().collect()
    }

    pub(crate) fn running(&self, name: &str) -> Option<Arc<RunningServer>> {
        read(&self.running_servers).get(name).cloned()
    }

    /// Who connects users with accounts of their own.
    pub(crate) fn connector(&self) -> Option<&Arc<UserConnector>> {
        self.options.connector.as_ref()
    }

    /// Something is served at a path.
    pub(crate) fn remember(&self, views: &Arc<Views>) {
        let mut all = lock(&self.views);
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(views));
    }

    /// What is served at the paths.
    pub(crate) fn views(&self) -> Vec<Arc<Views>> {
        lock(&self.views).iter().filter_map(Weak::upgrade).collect()
    }

    /// What servers say on stderr, if it is kept.
    pub fn stderr(&self) -> Option<&Arc<StderrLogs>> {
        self.options.stderr.as_ref()
    }

    /// What people have approved of the servers.
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.options.approvals
    }

    /// Seals states that clients carry back. All replicas of a cluster open them.
    pub(crate) fn sealer(&self, purpose: &str) -> Option<Sealer> {
        match &self.options.replica {
            Some(replica) => Some(replica.sealer(purpose)),
            None => Sealer::new(now()).ok(),
        }
    }

    /// What sees the calls.
    pub fn monitor(&self) -> &Arc<CallMonitor> {
        &self.options.monitor
    }

    /// How clients are connected with us, as spans tell it.
    pub(crate) fn transport(&self) -> &'static str {
        if self.options.is_stdio { "pipe" } else { "tcp" }
    }

    /// How each server stands, by name.
    pub fn states(&self) -> Vec<(Arc<str>, ServerState)> {
        self.roster.servers()
    }

    /// How much all servers offer together, as each lists it.
    pub fn counts(&self) -> ListCounts {
        self.roster.counts()
    }

    /// Waits until each server is ready or could not be reached, for `patience` at most; those
    /// that are not ready. A server that users are let in to on their own counts as ready.
    pub async fn ready_within(&self, patience: Duration) -> Vec<Deferred> {
        let mut late = self.roster.ready_within(patience).await;
        late.retain(|late| !self.is_open_to_people(&late.name, &late.state));
        late
    }

    /// Somebody wants something of a server, if only to see its list: one that
    /// sleeps is woken, and nobody waits for it.
    pub(crate) fn want(&self, name: &str) {
        let Some(running) = self.running(name) else { return };
        if running.plan.idle.is_some() {
            running.bridge.touch();
            self.roster.wake(name);
        }
    }

    /// Whether a server turns our own connection away, but is asked by people
    /// who show it headers of their own.
    pub fn is_open_to_people(&self, server: &str, state: &ServerState) -> bool {
        let is_refused = state.reason.as_ref().is_some_and(Failure::is_about_us);
        let lets_in =
            |it: Arc<RunningServer>| !it.plan.passes().is_empty() || it.plan.has_accounts();
        is_refused && self.running(server).is_some_and(lets_in)
    }

    /// For how many people a server is ready, if it can tell them apart.
    pub fn ready_people(&self, server: &str) -> Option<usize> {
        let running = self.running(server).filter(|it| it.plan.knows_people());
        running.map(|_| self.people.ready(server))
    }

    /// Whether a server is known to have a tool of this name.
    pub(crate) fn has_tool(&self, server: &str, tool: &str) -> bool {
        let lists_it = |roster: &Roster| {
            let tools = roster.definitions(ListKind::Tools);
            tools.iter().any(|it| &*it.server == server && it.name() == tool)
        };
        lists_it(&self.roster)
            || self.knows_people() && self.people.each().iter().any(|it| lists_it(&it.roster))
    }

    /// Ends every connection, and waits for the end of each.
    pub async fn close(&self) {
        self.people.close().await;
        let mut closing = JoinSet::new();
        for running in self.running_servers().values() {
            let bridge = Arc::clone(&running.bridge);
            closing.spawn(async move { bridge.close().await });
        }
        tokio::join!(self.roster.close(), self.leaving.hurry());
        while closing.join_next().await.is_some() {}
        let approvals = Arc::clone(self.approvals());
        _ = tokio::task::spawn_blocking(move || approvals.save()).await;
    }
}

/// A client that can do everything, so that servers show all they have: some list
/// tools only to clients that can be asked. Whoever calls one asks in a session
/// of its own; here nobody is asked, and who asks all the same hears so. It waits
/// as long as a server may take to start.
fn able(start: Duration) -> ClientOptions {
    let nobody = async |_| Err(Declined("nobody is here to be asked".to_owned()));
    let timeout = ClientOptions::default().timeout.max(start);
    ClientOptions::default()
        .timeout(timeout)
        .on_elicitation(async |_| Ok(json!({"action": "decline"})))
        .on_url_elicitation(async |_| Ok(json!({"action": "decline"})))
        .on_sampling_with_tools(nobody)
        .on_roots(async |_| Ok(json!({"roots": []})))
}

/// The bounds of each connection to a server.
fn bounded(plan: &ServerPlan, limits: &Limits) -> Limits {
    let quiet = plan.call.unwrap_or(limits.quiet);
    Limits { quiet, greeting: Some(plan.start), ..limits.clone() }
}

/// Servers at once: what the roster holds.
const MAX_SERVERS: usize = 1024;

impl Fleet {
    /// Has the servers of `plan`, and no others. Those that run as before are
    /// not touched.
    pub(crate) fn change(&self, plan: &Plan) -> Result<(), AddError> {
        if plan.servers.len() > MAX_SERVERS {
            return Err(AddError::Full { most: MAX_SERVERS });
        }
        self.monitor().offer_tools(plan.diagnostics);
        self.approvals().follow(plan.servers.keys(), plan.tool_changes == ToolChanges::Refuse);
        let old = self.running_servers();
        for name in old.keys().filter(|name| !plan.servers.contains_key(&***name)) {
            if let Some(gone) = self.roster.let_go(name) {
                self.leaving.end(gone);
            }
        }
        if let Some(logs) = &self.options.stderr {
            // The servers of before may still speak.
            let before =
                old.iter().map(|(name, it)| (name.to_string(), ServerPlan::clone(&it.plan)));
            let before = Plan { servers: before.collect(), ..Plan::default() };
            logs.hide(PlanSecret::collect(&[&before, plan]));
            logs.keep(|name| plan.servers.contains_key(name));
        }
        let limits = plan.bounds.limits(&Limits::default());
        let mut next = RunningServers::new();
        for (name, plan) in &plan.servers {
            let name: Arc<str> = name.as_str().into();
            let running = match old.get(&name) {
                Some(before) if *before.plan == *plan => Arc::clone(before),
                Some(before) if plan.runs_as(&before.plan) => {
                    // The same connections under another plan.
                    before.bridge.set_bounds((plan.calls, plan.start));
                    let (bridge, held) = (Arc::clone(&before.bridge), before.held.clone());
                    Arc::new(RunningServer { plan: Arc::new(plan.clone()), bridge, held })
                }
                before => Arc::new(self.started(&name, plan, &limits, before.is_some())?),
            };
            running.bridge.set_limits(bounded(plan, &limits));
            let is_new = old.get(&name).is_none_or(|before| !Arc::ptr_eq(before, &running));
            if is_new {
                self.roster.sleep_after(&name, plan.idle, &running.bridge, true);
            }
            next.insert(name, running);
        }
        *write(&self.search) = plan.search;
        self.has_broken.store(plan.has_broken, Ordering::Relaxed);
        *write(&self.disabled) = plan.disabled.iter().cloned().map(Arc::new).collect();
        let knows_people = next.values().any(|running| running.plan.knows_people());
        self.knows_people.store(knows_people, Ordering::Release);
        let next = Arc::new(next);
        *write(&self.running_servers) = Arc::clone(&next);
        let mut carried: Vec<HeaderName> = Vec::new();
        for name in plan.servers.values().flat_map(ServerPlan::passes) {
            if !carried.contains(name) {
                carried.push(name.clone());
            }
        }
        *write(&self.carried) = (!carried.is_empty()).then(|| carried.into());
        // Whoever looks from here on finds the new ones.
        for (name, before) in old.iter() {
            let goes_on = next.get(name).is_some_and(|it| Arc::ptr_eq(&it.bridge, &before.bridge));
            if !goes_on {
                self.leaving.leave(name, before);
            }
        }
        Ok(())
    }

    /// Starts a server anew: the calls that the old one has are still answered. False if
    /// there is none of this name.
    pub(crate) fn restart(&self, name: &str, plan: &Plan) -> Result<bool, AddError> {
        let Some(before) = self.running(name) else { return Ok(false) };
        let (name, limits) = (Arc::from(name), plan.bounds.limits(&Limits::default()));
        let running = Arc::new(self.started(&name, &before.plan, &limits, true)?);
        running.bridge.set_limits(bounded(&before.plan, &limits));
        self.roster.sleep_after(&name, before.plan.idle, &running.bridge, true);
        let mut next = RunningServers::clone(&self.running_servers());
        next.insert(Arc::clone(&name), running);
        *write(&self.running_servers) = Arc::new(next);
        self.leaving.leave(&name, &before);
        Ok(true)
    }

    /// How a server is met that is no part of the fleet: for a trial.
    #[cfg(feature = "console")]
    pub(crate) fn to_try(&self, plan: &ServerPlan) -> (ServerTarget, ClientOptions) {
        ((self.reach)(plan).discreet(), able(plan.start))
    }

    /// Begins to connect a server, in the place of another if there was one.
    fn started(
        &self,
        name: &Arc<str>,
        plan: &ServerPlan,
        limits: &Limits,
        replaces: bool,
    ) -> Result<RunningServer, AddError> {
        let mut server = (self.reach)(plan).discreet();
        if let Some(logs) = &self.options.stderr {
            server = server.heard_by(logs.listener(name));
        }
        let (limits, bounds) = (Arc::new(bounded(plan, limits)), (plan.calls, plan.start));
        let bridge = Bridge::guarding(server, plan.process, limits, bounds);
        // A process that all share is not started once more for its lists.
        let listed = if bridge.is_common() {
            ServerTarget::behind(&bridge, &Arc::new(ClientIdentity::ours()))
        } else {
            bridge.server().clone()
        };
        if replaces {
            let old = self.roster.replace_within(name, listed, plan.start);
            if let Some(gone) = old {
                self.leaving.end(gone);
            }
        } else {
            let client = able(plan.start);
            self.roster.add_within(Arc::clone(name), listed, client, plan.start)?;
        }
        // Where clients show headers of their own, they may be let in where we are not.
        let is_known = plan.passes().is_empty() && !plan.has_accounts();
        let ours = self.roster.state(name).filter(|_| is_known);
        let always = || watch::channel(ServerState::new(ServerPhase::Ready)).1;
        bridge.follow(name, ours.unwrap_or_else(always));
        bridge.set_places(self.options.people.connections);
        let plan = Arc::new(plan.clone());
        Ok(RunningServer { plan, bridge, held: watch::Sender::default() })
    }
}

/// How long open calls keep a server that nobody wants any more.
const DRAIN: Duration = Duration::from_mins(1);

/// Bridges, each with the name of its server.
type Named = Vec<(Arc<str>, Arc<Bridge>)>;

/// Those that are on their way out.
#[derive(Default)]
struct Leaving {
    bridges: Arc<Mutex<Named>>,
    /// Nobody waits for calls any more.
    hurry: watch::Sender<bool>,
    ending: Mutex<JoinSet<()>>,
}

impl Leaving {
    /// Ends a server once it has answered all that it was asked, or a while has passed.
    fn leave(&self, name: &Arc<str>, running: &RunningServer) {
        let (bridges, name) = (Arc::clone(&self.bridges), Arc::clone(name));
        let bridge = Arc::clone(&running.bridge);
        let (mut held, mut hurry) = (running.held.subscribe(), self.hurry.subscribe());
        lock(&bridges).push((Arc::clone(&name), Arc::clone(&bridge)));
        self.end(async move {
            let answered = async {
                // Closed when nobody holds it: no call is on its way to it.
                _ = held.changed().await;
                bridge.until_idle().await;
            };
            let over = race(timeout(DRAIN, answered), hurry.wait_for(|hurry| *hurry));
            let is_left = matches!(over.await, Either::Left(Ok(())));
            if !is_left {
                let left = bridge.calls();
                tracing::warn!(server = &*name, left, "calls outlived their server");
            }
            bridge.close().await;
            lock(&bridges).retain(|(_, left)| !Arc::ptr_eq(left, &bridge));
        });
    }

    /// Goes on with the end of something.
    fn end(&self, end: impl Future<Output = ()> + Send + 'static) {
        let mut ending = lock(&self.ending);
        while ending.try_join_next().is_some() {}
        ending.spawn(end);
    }

    /// Ends them all, and waits for it.
    async fn hurry(&self) {
        self.hurry.send_replace(true);
        let mut ending = std::mem::take(&mut *lock(&self.ending));
        while ending.join_next().await.is_some() {}
    }
}

impl Fleet {
    /// A client is gone for good.
    pub(crate) fn forget(&self, client: &Arc<ClientConnection>) {
        self.tasks.forget(client.number());
        for bridge in self.bridges(|_| true) {
            bridge.forget(client);
        }
    }

    /// Everything that may know a call to one of these servers: those that are
    /// there, and those of that name that were.
    pub(crate) fn bridges(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Arc<Bridge>> {
        let running_servers = self.running_servers();
        let there = running_servers.iter().filter(|(name, _)| is_meant(name));
        let there = there.map(|(_, running)| Arc::clone(&running.bridge));
        let leaving = lock(&self.leaving.bridges);
        let left = leaving.iter().filter(|(name, _)| is_meant(name));
        let left = left.map(|(_, bridge)| Arc::clone(bridge));
        there.chain(left).collect()
    }
}
