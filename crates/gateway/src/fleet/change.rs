//! From one plan to another while clients call.
//!
//! ```text
//!   the same, or other filters and names ──▶ the same connections
//!   another place, process, ...          ──▶ a new one takes the calls, the old one leaves
//!   not in the plan any more             ──▶ it leaves
//! ```

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use switchboard_net::bridge::Door;
use switchboard_net::roster::AddError;
use switchboard_proto::limits::Limits;

use super::{Backend, Backends, Fleet, able, bounded, carried};
use crate::plan::{Plan, ServerPlan};
use crate::tap::Peer;

/// Servers at once: what the roster holds.
const MOST: usize = 1024;

impl Fleet {
    /// Has the servers of `plan`, and no others. Those that run as before are
    /// not touched.
    pub(crate) fn change(&self, plan: &Plan) -> Result<(), AddError> {
        if plan.servers.len() > MOST {
            return Err(AddError::Full { most: MOST });
        }
        self.tap().offer_tools(plan.diagnostics);
        let old = self.backends();
        for name in old.keys().filter(|name| !plan.servers.contains_key(&***name)) {
            if let Some(gone) = self.roster.let_go(name) {
                self.leaving.end(gone);
            }
        }
        let limits = plan.bounds.limits(&self.options.limits);
        let mut next = Backends::new();
        for (name, plan) in &plan.servers {
            let name: Arc<str> = name.as_str().into();
            let backend = match old.get(&name) {
                Some(before) if *before.plan == *plan => Arc::clone(before),
                Some(before) if plan.runs_as(&before.plan) => Arc::new(before.adjusted(plan)),
                before => Arc::new(self.started(&name, plan, &limits, before.is_some())?),
            };
            backend.bridge.set_limits(bounded(plan, &limits));
            next.insert(name, backend);
        }
        *self.search.write().unwrap_or_else(PoisonError::into_inner) = plan.search;
        let knows_people = next.values().any(|backend| backend.plan.knows_people());
        self.knows_people.store(knows_people, Ordering::Release);
        let next = Arc::new(next);
        *self.backends.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
        *self.carried.write().unwrap_or_else(PoisonError::into_inner) = carried(plan);
        // Whoever looks from here on finds the new ones.
        for (name, before) in old.iter() {
            let goes_on = next.get(name).is_some_and(|it| Arc::ptr_eq(&it.bridge, &before.bridge));
            if !goes_on {
                // Nobody looks after it any more: what waits there goes on as it is.
                before.bridge.stands(Door::Open);
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
    ) -> Result<Backend, AddError> {
        let server = (self.reach)(plan).discreet();
        self.tap().meet(name, Peer::new(&server));
        let backend = Backend::new(plan, server, limits);
        let listed = backend.listed();
        if replaces {
            let old = self.roster.replace_within(name, listed, plan.start);
            if let Some(gone) = old {
                self.leaving.end(gone);
            }
        } else {
            let client = able(plan.start);
            self.roster.add_within(Arc::clone(name), listed, client, plan.start)?;
        }
        backend.bridge.set_places(self.options.people.connections);
        Ok(backend)
    }
}

impl Backend {
    /// The same connections under another plan.
    fn adjusted(&self, plan: &ServerPlan) -> Self {
        self.bridge.set_bounds((plan.calls, plan.start));
        let (bridge, held) = (Arc::clone(&self.bridge), Arc::clone(&self.held));
        Self { plan: Arc::new(plan.clone()), bridge, held }
    }
}
