//! From one plan to another while clients call.
//!
//! ```text
//!   the same, or other filters and names ──▶ the same connections
//!   another place, process, ...          ──▶ a new one takes the calls, the old one leaves
//!   not in the plan any more             ──▶ it leaves
//! ```
//!
//! A server that leaves gets no new calls, and ends when those that it has are answered.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_net::backend::Backend as _;
use switchboard_net::bridge::Bridge;
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::{AddError, ServerPhase, ServerState};
use switchboard_net::{Either, race};
use switchboard_proto::limits::Limits;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Fleet, RunningServer, RunningServers, able, bounded, carried};
use crate::monitor::Peer;
use crate::plan::{Plan, ServerPlan};

/// Servers at once: what the roster holds.
const MOST: usize = 1024;

impl Fleet {
    /// Has the servers of `plan`, and no others. Those that run as before are
    /// not touched.
    pub(crate) fn change(&self, plan: &Plan) -> Result<(), AddError> {
        if plan.servers.len() > MOST {
            return Err(AddError::Full { most: MOST });
        }
        self.monitor().offer_tools(plan.diagnostics);
        let old = self.running_servers();
        for name in old.keys().filter(|name| !plan.servers.contains_key(&***name)) {
            if let Some(gone) = self.roster.let_go(name) {
                self.leaving.end(gone);
            }
        }
        let limits = plan.bounds.limits(&self.options.limits);
        let mut next = RunningServers::new();
        for (name, plan) in &plan.servers {
            let name: Arc<str> = name.as_str().into();
            let running = match old.get(&name) {
                Some(before) if *before.plan == *plan => Arc::clone(before),
                Some(before) if plan.runs_as(&before.plan) => Arc::new(before.adjusted(plan)),
                before => Arc::new(self.started(&name, plan, &limits, before.is_some())?),
            };
            running.bridge.set_limits(bounded(plan, &limits));
            let is_new = old.get(&name).is_none_or(|before| !Arc::ptr_eq(before, &running));
            if is_new {
                self.roster.sleep_after(&name, plan.idle(), &running.bridge, true);
            }
            next.insert(name, running);
        }
        *self.search.write().unwrap_or_else(PoisonError::into_inner) = plan.search;
        let knows_people = next.values().any(|running| running.plan.knows_people());
        self.knows_people.store(knows_people, Ordering::Release);
        let next = Arc::new(next);
        *self.running_servers.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        *self.carried.write().unwrap_or_else(PoisonError::into_inner) = carried(plan);
        // Whoever looks from here on finds the new ones.
        for (name, before) in old.iter() {
            let goes_on = next.get(name).is_some_and(|it| Arc::ptr_eq(&it.bridge, &before.bridge));
            if !goes_on {
                self.leaving.leave(name, before);
            }
        }
        Ok(())
    }

    /// Begins to connect a server, in the place of another if there was one.
    fn started(
        &self,
        name: &Arc<str>,
        plan: &ServerPlan,
        limits: &Limits,
        replaces: bool,
    ) -> Result<RunningServer, AddError> {
        let server = (self.reach)(plan).discreet();
        self.monitor().meet(name, Peer::new(&server));
        let running = RunningServer::new(plan, server, limits);
        let listed = running.listed();
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
        let is_known = plan.passes().is_empty();
        let ours = self.roster.state(name).filter(|_| is_known);
        let always = || watch::channel(ServerState::new(ServerPhase::Ready)).1;
        running.bridge.follow(name, ours.unwrap_or_else(always));
        running.bridge.set_places(self.options.people.connections);
        Ok(running)
    }
}

impl RunningServer {
    /// The same connections under another plan.
    fn adjusted(&self, plan: &ServerPlan) -> Self {
        self.bridge.set_bounds((plan.calls, plan.start));
        let (bridge, held) = (Arc::clone(&self.bridge), self.held.clone());
        Self { plan: Arc::new(plan.clone()), bridge, held }
    }
}

/// How long open calls keep a server that nobody wants any more.
const DRAIN: Duration = Duration::from_mins(1);

/// Bridges, each with the name of its server.
type Named = Vec<(Arc<str>, Arc<Bridge>)>;

/// Those that are on their way out.
#[derive(Default)]
pub(super) struct Leaving {
    bridges: Arc<Mutex<Named>>,
    /// Nobody waits for calls any more.
    hurry: watch::Sender<bool>,
    ending: Mutex<JoinSet<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leaving {
    /// Ends a server once it has answered all that it was asked, or a while has passed.
    pub(super) fn leave(&self, name: &Arc<str>, running: &RunningServer) {
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
    pub(super) fn end(&self, end: impl Future<Output = ()> + Send + 'static) {
        let mut ending = lock(&self.ending);
        while ending.try_join_next().is_some() {}
        ending.spawn(end);
    }

    /// Ends them all, and waits for it.
    pub(super) async fn hurry(&self) {
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
