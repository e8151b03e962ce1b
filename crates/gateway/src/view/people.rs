//! Fronts that are for one person each, because a server tells people apart.
//!
//! They are as many as there are people with a session or a listen, and a
//! bounded number more of those who were here a while ago.

use std::sync::{Arc, Weak};

use switchboard_net::face::Face;
use switchboard_proto::jsonrpc::Message;
use tokio::time::Instant;

use super::Views;
use crate::front::Front;
use crate::person::{Mark, PersonBounds};
use crate::policy::Grant;

/// The fronts of people, in no order.
#[derive(Default)]
pub(super) struct Seen {
    people: Vec<One>,
    /// Somebody looks who is gone.
    is_swept: bool,
}

/// What one person sees.
struct One {
    mark: Mark,
    grant: Grant,
    front: Arc<Front>,
    used: Instant,
}

impl One {
    /// Whether nobody would miss it: no session, no listen, no call on its way.
    fn is_left(&self) -> bool {
        Arc::strong_count(&self.front) == 1 && !self.front.is_occupied()
    }
}

impl Seen {
    pub(super) fn fronts(&self) -> impl Iterator<Item = &Arc<Front>> {
        self.people.iter().map(|one| &one.front)
    }

    fn find(&mut self, mark: &Mark, grant: &Grant) -> Option<&mut One> {
        self.people.iter_mut().find(|one| one.mark == *mark && one.grant == *grant)
    }

    /// Forgets those who see something else now, unless they are still here.
    pub(super) fn keep_grants(&mut self, grants: &[Grant]) {
        self.people.retain(|one| grants.contains(&one.grant) || !one.is_left());
    }

    /// Forgets those who were not here for long, then those who were not here for longest.
    fn sweep(&mut self, bounds: &PersonBounds) {
        let now = Instant::now();
        self.people.retain(|one| now < one.used + bounds.idle || !one.is_left());
        let mut bytes: usize = self.fronts().map(|front| front.weight()).sum();
        while self.people.len() > bounds.most || bytes > bounds.bytes {
            let left = self.people.iter().enumerate().filter(|(_, one)| one.is_left());
            let Some((oldest, _)) = left.min_by_key(|(_, one)| one.used) else { return };
            bytes = bytes.saturating_sub(self.people.swap_remove(oldest).front.weight());
        }
    }
}

impl Views {
    /// Whether something of what a grant has is another thing for each person.
    pub(super) fn knows_people(&self, grant: &Grant) -> bool {
        let knows = |name: &Arc<str>| {
            let backend = self.fleet.backend(name).filter(|_| grant.has_server(name));
            backend.is_some_and(|backend| backend.plan.knows_people())
        };
        self.fleet.knows_people() && self.members().iter().any(knows)
    }

    /// What the person sees whom a client speaks for, made if need be.
    pub(super) fn of_person(
        &self,
        grant: &Grant,
        face: &Face,
        words: Option<&Message>,
    ) -> Arc<Front> {
        let people = &self.fleet.people;
        let mark = people.mark(face);
        let mut seen = self.seen();
        if let Some(one) = seen.find(&mark, grant) {
            one.used = Instant::now();
            return Arc::clone(&one.front);
        }
        let person = Some(people.meet(mark, face, words));
        let (members, sealer) = (self.members(), self.sealer.clone());
        let front = Front::showing(grant, &self.fleet, members.iter().cloned(), sealer, person);
        let (grant, used) = (grant.clone(), Instant::now());
        seen.people.push(One { mark, grant, front: Arc::clone(&front), used });
        seen.sweep(&people.bounds);
        if !std::mem::replace(&mut seen.is_swept, true) {
            tokio::spawn(sweep(Weak::clone(&self.this)));
        }
        front
    }

    /// The fronts of people that a client may have something open at.
    pub(super) fn hosting(&self, face: &Face) -> Vec<Arc<Front>> {
        let seen = self.seen();
        if seen.people.is_empty() {
            return Vec::new();
        }
        let mark = self.fleet.people.mark(face);
        let hosting = seen.people.iter().filter(|one| one.mark == mark || one.front.hosts(face));
        hosting.map(|one| Arc::clone(&one.front)).collect()
    }

    /// How many people are remembered.
    pub fn people(&self) -> usize {
        self.seen().people.len()
    }
}

/// Looks who is gone, until nobody is left.
async fn sweep(views: Weak<Views>) {
    loop {
        let Some(idle) = views.upgrade().map(|views| views.fleet.people.bounds.idle) else {
            return;
        };
        tokio::time::sleep(idle / 4).await;
        let Some(views) = views.upgrade() else { return };
        let mut seen = views.seen();
        seen.sweep(&views.fleet.people.bounds);
        if seen.people.is_empty() {
            seen.is_swept = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests;
