//! Fronts that are for one person each, because a server tells people apart.
//!
//! They are as many as there are people with a session or a listen, and a
//! bounded number more of those who were here a while ago.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use switchboard_net::OwnedTask;
use switchboard_net::access::Who;
use switchboard_net::connection::ClientConnection;
use switchboard_proto::jsonrpc::Message;
use tokio::time::Instant;

use super::Views;
use crate::front::Front;
use crate::person::{Mark, Person, PersonBounds};
use crate::plan::ServerPlan;
use crate::policy::Grant;

/// How often somebody looks who is gone, at least.
const LOOK: Duration = Duration::from_secs(10);

/// The fronts of people, in no order.
#[derive(Default)]
pub(super) struct Seen {
    people: Vec<One>,
    /// The task that looks who is gone, while somebody is remembered.
    sweeping: Option<OwnedTask>,
}

/// What one person sees.
struct One {
    mark: Mark,
    /// Who lets them in: a key may speak for many.
    who: Who,
    grant: Grant,
    person: Arc<Person>,
    front: Arc<Front>,
    used: Instant,
}

impl One {
    /// Whether nobody would miss it: no session, no listen, no call on its way.
    fn is_left(&self) -> bool {
        Arc::strong_count(&self.front) == 1 && !self.front.is_occupied()
    }
}

/// Who goes first: of the principal with most, whoever was not here for longest.
/// What one principal has costs no other anything.
fn first_to_go<'o>(
    ones: impl Iterator<Item = (usize, &'o One)> + Clone,
    weigh: impl Fn(&One) -> usize,
) -> Option<usize> {
    let mut loads: HashMap<&str, usize> = HashMap::new();
    for (_, one) in ones.clone() {
        *loads.entry(one.who.name()).or_default() += weigh(one);
    }
    let key = |one: &One| (loads.get(one.who.name()).copied(), Reverse(one.used));
    ones.max_by_key(|(_, one)| key(one)).map(|(at, _)| at)
}

impl Seen {
    pub(super) fn fronts(&self) -> impl Iterator<Item = &Arc<Front>> {
        self.people.iter().map(|one| &one.front)
    }

    fn find(&mut self, mark: &Mark, grant: &Grant) -> Option<&mut One> {
        self.people.iter_mut().find(|one| one.mark == *mark && one.grant == *grant)
    }

    /// Forgets those who see something else now or whose key is gone, unless they are still here.
    pub(super) fn keep_grants(&mut self, grants: &[Grant]) {
        let stays = |one: &One| one.who.is_current() && grants.contains(&one.grant);
        self.people.retain(|one| stays(one) || !one.is_left());
    }

    /// Forgets those who were not here for long or whose key is gone, then those who are too many, and
    /// lets others rest.
    fn sweep(&mut self, bounds: &PersonBounds) {
        let now = Instant::now();
        let stays = |one: &One| one.who.is_current() && now < one.used + bounds.idle;
        self.people.retain(|one| stays(one) || !one.is_left());
        self.forget_beyond(bounds.most, |_| 1);
        self.forget_beyond(bounds.bytes, |one| one.front.weight());
        self.rest(bounds.awake);
    }

    /// Forgets people until those who are not here weigh no more than that.
    fn forget_beyond(&mut self, most: usize, weigh: impl Fn(&One) -> usize) {
        let away = self.people.iter().filter(|one| !one.front.is_occupied());
        let mut weight: usize = away.map(&weigh).sum();
        while weight > most {
            let left = self.people.iter().enumerate().filter(|(_, one)| one.is_left());
            let Some(first) = first_to_go(left, &weigh) else { return };
            weight = weight.saturating_sub(weigh(&self.people.swap_remove(first)));
        }
    }

    /// Has servers listened to for so many of those who are not here.
    fn rest(&self, most: usize) {
        let is_idle = |one: &One| one.person.is_awake() && !one.person.is_here();
        let mut idle: Vec<_> = self.people.iter().filter(|one| is_idle(one)).collect();
        while idle.len() > most {
            let ones = idle.iter().map(|one| &**one).enumerate();
            let Some(first) = first_to_go(ones, |_| 1) else { return };
            idle.swap_remove(first).person.rest();
        }
    }
}

impl Views {
    /// Whether something of what a grant has is another thing for each person.
    pub(super) fn knows_people(&self, grant: &Grant) -> bool {
        let knows = |name: &Arc<str>| {
            let running = self.fleet.running(name).filter(|_| grant.has_server(name));
            // On its own path a server tells people apart by itself. What it lists to them
            // must be known only where that decides on what they see.
            let decides = |plan: &ServerPlan| self.only.is_none() || !plan.resources.is_open();
            running.is_some_and(|it| it.plan.knows_people() && decides(&it.plan))
        };
        self.fleet.knows_people() && self.members().iter().any(knows)
    }

    /// What the person sees whom a client speaks for, made if need be.
    pub(super) fn of_person(
        &self,
        grant: &Grant,
        client: &ClientConnection,
        words: Option<&Message>,
    ) -> Arc<Front> {
        let people = &self.fleet.people;
        let mark = people.mark(client);
        let mut seen = self.seen();
        if let Some(one) = seen.find(&mark, grant) {
            one.used = Instant::now();
            let (front, is_awake) = (Arc::clone(&one.front), one.person.is_awake());
            if !is_awake {
                // They may be woken by what they want.
                seen.rest(people.bounds.awake);
            }
            return front;
        }
        let person = people.meet(mark, client, words);
        let front = self.make(grant, &self.members(), Some(Arc::clone(&person)));
        let (grant, used) = (grant.clone(), Instant::now());
        let (who, shown) = (client.who().clone(), Arc::clone(&front));
        seen.people.push(One { mark, who, grant, person, front: shown, used });
        seen.sweep(&people.bounds);
        let this = || Weak::clone(&self.this);
        seen.sweeping.get_or_insert_with(|| OwnedTask::spawn(sweep(this())));
        front
    }

    /// The fronts of people that a client may have something open at.
    pub(super) fn hosting(&self, client: &ClientConnection) -> Vec<Arc<Front>> {
        let seen = self.seen();
        if seen.people.is_empty() {
            return Vec::new();
        }
        let mark = self.fleet.people.mark(client);
        let hosting = seen.people.iter().filter(|one| one.mark == mark || one.front.hosts(client));
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
        tokio::time::sleep(LOOK.min(idle / 4)).await;
        let Some(views) = views.upgrade() else { return };
        let mut seen = views.seen();
        seen.sweep(&views.fleet.people.bounds);
        if seen.people.is_empty() {
            seen.sweeping = None;
            return;
        }
    }
}

#[cfg(test)]
mod tests;
