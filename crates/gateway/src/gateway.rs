//! A gateway that runs: its servers, and what clients find at each path.
//!
//! ```text
//!                        ┌─▶ /mcp           Views of all servers ─┐
//!   Authenticator: who? ─┼─▶ /groups/NAME   Views of some         ├─▶ Fleet ──▶ servers
//!                        └─▶ /servers/NAME  Views of one          ─┘
//! ```
//!
//! [`Gateway::apply`] leads from one plan to another while clients call. What
//! stays keeps its sessions; what is served at the paths is told by
//! [`Gateway::places`], and the caller serves it there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use switchboard_net::backend::Backend;
use switchboard_net::bridge::Children;
use switchboard_net::roster::AddError;
use switchboard_net::upstream::ServerTarget;
use tokio::sync::Notify;

use crate::authenticator::Authenticator;
use crate::fleet::{Fleet, FleetOptions};
use crate::lock;
use crate::plan::{Plan, PlanChanges, ServerPlan};
use crate::view::Views;
use switchboard_proto::client::Sharing;

/// Many servers behind one address, of which others may take the place.
pub struct Gateway {
    fleet: Arc<Fleet>,
    authenticator: Arc<Authenticator>,
    all: Arc<Views>,
    state: Mutex<ServedPaths>,
    /// A server was stopped or started by people.
    switched: Notify,
}

#[derive(Default)]
struct ServedPaths {
    /// What is followed: `whole` without the servers that people have stopped.
    plan: Arc<Plan>,
    whole: Plan,
    /// Servers that people have stopped, until the next plan.
    stopped: BTreeSet<String>,
    groups: BTreeMap<String, Arc<Views>>,
    servers: BTreeMap<String, Arc<Views>>,
}

/// Where clients find something.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Place {
    /// All servers together.
    All,
    /// A server alone.
    Server(String),
    /// A group of servers.
    Group(String),
}

/// What is at a place.
#[derive(Clone)]
pub struct Offered {
    /// Where it is.
    pub place: Place,
    /// Who answers there.
    pub backend: Arc<dyn Backend>,
    /// Whether its clients may share a connection to a server.
    pub sharing: Sharing,
    /// Whether no process is started for one of its clients alone.
    pub light: bool,
}

impl Gateway {
    /// Starts the servers of `plan`; `server` says how each is reached. Must be
    /// called within a tokio runtime.
    pub fn start(
        mut plan: Plan,
        options: FleetOptions,
        server: impl Fn(&ServerPlan) -> ServerTarget + Send + Sync + 'static,
    ) -> Result<Arc<Self>, AddError> {
        plan.assign_accounts();
        let (fetch, connector) = (options.fetch.clone(), options.connector.clone());
        let fleet = Fleet::start(&plan, options, server)?;
        let (access, most) = (plan.access.clone(), sessions(&plan));
        let authenticator = match fetch {
            Some(fetch) => Authenticator::fetching(access, most, fetch),
            None => Authenticator::new(access, most),
        };
        authenticator.keep_subjects(plan.exchanges_tokens());
        if let Some(connector) = connector {
            connector.serve(&fleet, &authenticator);
        }
        let all = Views::new(&fleet, fleet.names(), None, &authenticator);
        let mut state = ServedPaths::default();
        state.follow(&fleet, &authenticator, &plan);
        (state.whole, state.plan) = (plan.clone(), Arc::new(plan));
        let (state, switched) = (Mutex::new(state), Notify::new());
        Ok(Arc::new(Self { fleet, authenticator, all, state, switched }))
    }

    /// Follows another plan from here on; what is different about it. Servers
    /// that run as before go on, calls that are open are answered by whom they
    /// were made to, and clients are told whose lists are others now.
    ///
    /// Where we listen does not change, whatever the plan says of it. Bounds of
    /// conversations hold for those that begin from here on.
    pub fn apply(&self, plan: Plan) -> Result<PlanChanges, AddError> {
        let mut state = lock(&self.state);
        let changes = self.follow(&mut state, plan.clone())?;
        (state.whole, state.stopped) = (plan, BTreeSet::new());
        Ok(changes)
    }

    /// Starts a server anew, as if its plan were another. False if there is none of this name.
    pub fn restart(&self, name: &str) -> Result<bool, AddError> {
        let state = lock(&self.state);
        if !self.fleet.restart(name, &state.plan)? {
            return Ok(false);
        }
        self.all.change(&self.fleet.names());
        for (group, members) in &state.plan.groups {
            let members = members.iter().map(|member| Arc::from(member.as_str())).collect();
            state.groups.get(group).iter().for_each(|group| group.change(&members));
        }
        let only = [Arc::from(name)].into();
        state.servers.get(name).iter().for_each(|server| server.change(&only));
        Ok(true)
    }

    /// Stops a server until it is started again, or another plan is followed; starts it again.
    /// False if it is so already, or there is none of this name. The caller serves
    /// [`Gateway::places`] again after [`Gateway::switched`].
    pub fn switch(&self, name: &str, is_on: bool) -> Result<bool, AddError> {
        let mut state = lock(&self.state);
        let mut stopped = state.stopped.clone();
        let is_other = if is_on {
            stopped.remove(name)
        } else {
            state.whole.servers.contains_key(name) && stopped.insert(name.to_owned())
        };
        if is_other {
            let plan = state.whole.without(&stopped);
            self.follow(&mut state, plan)?;
            state.stopped = stopped;
            self.switched.notify_one();
        }
        Ok(is_other)
    }

    /// Waits until people have stopped or started a server.
    pub async fn switched(&self) {
        self.switched.notified().await;
    }

    /// The servers that people have stopped.
    pub fn stopped(&self) -> BTreeSet<String> {
        lock(&self.state).stopped.clone()
    }

    fn follow(&self, state: &mut ServedPaths, mut plan: Plan) -> Result<PlanChanges, AddError> {
        plan.assign_accounts();
        let changes = plan.diff(&state.plan);
        let old = Arc::clone(&state.plan);
        let is_other = plan.access != old.access;
        if is_other {
            // Nobody is let to a new server by an old grant, nor to an old one by a new.
            self.authenticator.replace(plan.access.within(&old.access));
        }
        if let Err(why) = self.fleet.change(&plan) {
            if is_other {
                self.authenticator.replace(old.access.clone());
            }
            return Err(why);
        }
        state.follow(&self.fleet, &self.authenticator, &plan);
        self.all.change(&self.fleet.names());
        self.authenticator.bound(sessions(&plan));
        self.authenticator.keep_subjects(plan.exchanges_tokens());
        if is_other {
            self.authenticator.replace(plan.access.clone());
            self.fleet.bridges(|_| true).iter().for_each(|bridge| bridge.evict());
        }
        for (name, server) in &state.servers {
            server.change(&[Arc::from(name.as_str())].into());
        }
        if plan.diagnostics != old.diagnostics || plan.search != old.search {
            // Tools of our own come or go.
            self.all.tell_tools();
            state.groups.values().for_each(|group| group.tell_tools());
        }
        state.plan = Arc::new(plan);
        Ok(changes)
    }

    /// The plan that is followed.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&lock(&self.state).plan)
    }

    /// Who knows who may come in.
    pub fn authenticator(&self) -> &Arc<Authenticator> {
        &self.authenticator
    }

    /// The servers.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// All that is served: everything together first, then groups, then each
    /// server, by name. What was there before a change is the same thing after it.
    pub fn places(&self) -> Vec<Offered> {
        let state = lock(&self.state);
        let is_shared = |plan: &ServerPlan| plan.process == Children::Shared;
        let light = state.plan.servers.values().all(is_shared);
        let offered = |place, views: &Arc<Views>, sharing, light| {
            let backend: Arc<dyn Backend> = Arc::<Views>::clone(views);
            Offered { place, backend, sharing, light }
        };
        // Each server may be shared, and what is not theirs is kept from clients.
        let mut places = vec![offered(Place::All, &self.all, Sharing::Shared, light)];
        let groups = state.groups.iter();
        places.extend(groups.map(|(name, group)| {
            offered(Place::Group(name.clone()), group, Sharing::Shared, light)
        }));
        let servers = state.servers.iter().map(|(name, views)| {
            let plan = state.plan.servers.get(name);
            let light = plan.is_some_and(is_shared);
            let per_user = plan.is_some_and(|plan| plan.process == Children::PerUser);
            let sharing = if light || per_user { Sharing::Shared } else { Sharing::Alone };
            offered(Place::Server(name.clone()), views, sharing, light)
        });
        places.extend(servers);
        places
    }

    /// Ends every listen with its result: nothing else would (SUB-8).
    pub fn end_listens(&self) {
        self.all.close();
        lock(&self.state).groups.values().for_each(|group| group.close());
    }

    /// Ends every server, and waits for the end of each.
    pub async fn close(&self) {
        self.fleet.close().await;
    }
}

/// Sessions of all together.
fn sessions(plan: &Plan) -> usize {
    plan.bounds.sessions.unwrap_or(Authenticator::SESSIONS)
}

impl ServedPaths {
    /// Has the groups and the servers of `plan`, which the fleet follows already.
    fn follow(&mut self, fleet: &Arc<Fleet>, authenticator: &Arc<Authenticator>, plan: &Plan) {
        self.servers.retain(|name, _| plan.servers.contains_key(name));
        for name in &*fleet.names() {
            let only = || Some(Arc::clone(name));
            let views = || Views::new(fleet, only().into_iter().collect(), only(), authenticator);
            self.servers.entry(name.to_string()).or_insert_with(views);
        }
        let gone = self.groups.extract_if(.., |name, _| !plan.groups.contains_key(name));
        gone.for_each(|(_, group)| group.close());
        for (name, members) in &plan.groups {
            let members = members.iter().map(|member| Arc::from(member.as_str())).collect();
            if let Some(group) = self.groups.get(name) {
                group.change(&members);
            } else {
                let views = Views::new(fleet, members, None, authenticator);
                self.groups.insert(name.clone(), views);
            }
        }
    }
}

#[cfg(test)]
mod tests;
