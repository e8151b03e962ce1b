//! What servers offer to one person, where they can tell people apart.
//!
//! ```text
//!   client ──▶ mark: whom it speaks for, its era, the headers it passes on
//!                └▶ Person: a roster of the servers that know people, each reached
//!                   behind its bridge, by the connection that this person's calls go by
//! ```
//!
//! A `Person` is there as long as a front shows what is theirs. It ends no
//! connection of clients, and what it knows is nowhere written down.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::SystemRandom;
use switchboard_net::OwnedTask;
use switchboard_net::access::Who;
use switchboard_net::bridge::Bridge;
use switchboard_net::client::ClientOptions;
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::{Roster, RosterOptions, ServerPhase};
use switchboard_net::upstream::{ClientIdentity, ServerTarget};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::revision::Era;
use tokio::time::Instant;

use super::{Front, Views};
use crate::fleet::{PATIENCE, PROBE, RunningServer, RunningServers};
use crate::lock;
use crate::plan::ServerPlan;
use crate::policy::Grant;

/// Tells one person from another without telling what they showed.
pub(crate) type PersonMark = [u8; 32];

/// Bytes that a remembered user takes besides their lists and headers: a roster, a front and
/// their tasks.
pub(crate) const FOOTPRINT: usize = 16 << 10;

/// How many people are remembered whom nobody speaks for at the time, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PersonBounds {
    /// How long after their last request, if they have no session and listen to nothing.
    pub idle: Duration,
    /// How many, at each path; those who have a session are bounded as sessions are.
    pub most: usize,
    /// How many bytes they may take together, with their lists and headers, at each path.
    pub bytes: usize,
    /// For how many of them servers are listened to, at each path. The lists of the
    /// others are read again when they come back.
    pub awake: usize,
    /// Connections to each server for all people. One principal keeps a quarter of
    /// them that nobody uses, and has three quarters at most.
    pub connections: usize,
}

impl Default for PersonBounds {
    fn default() -> Self {
        Self {
            // As long as a bridge keeps what nobody uses.
            idle: Duration::from_mins(10),
            most: 1024,
            bytes: 256 << 20,
            // Half of what a bridge keeps for one principal, who may be all there is.
            awake: Bridge::PLACES / 8,
            connections: Bridge::PLACES,
        }
    }
}

/// Everybody of whom something is known.
pub(crate) struct People {
    secret: Key,
    pub(crate) bounds: PersonBounds,
    known: Mutex<HashMap<PersonMark, Weak<Person>>>,
}

/// What is known for one person.
pub(crate) struct Person {
    identity: Arc<ClientIdentity>,
    pub(crate) roster: Roster,
    /// The servers of the roster, as they were when it met them.
    servers: Mutex<BTreeMap<Arc<str>, Met>>,
    /// What shows them something, at each path.
    fronts: Mutex<Vec<Weak<Front>>>,
}

/// A server as it was, and its connections.
type Met = (Weak<RunningServer>, Weak<Bridge>);

impl People {
    pub(crate) fn new(bounds: PersonBounds) -> Self {
        // Without randomness the marks are guessable, but nobody is shown them.
        let secret = Key::generate(HMAC_SHA256, &SystemRandom::new());
        let secret = secret.unwrap_or_else(|_| Key::new(HMAC_SHA256, &[]));
        Self { secret, bounds, known: Mutex::default() }
    }

    /// What tells those whom a client speaks for from others.
    pub(crate) fn mark(&self, client: &ClientConnection) -> PersonMark {
        let mut text = vec![u8::from(client.era() == Era::Modern)];
        let mut add = |part: &[u8]| {
            text.extend((part.len() as u64).to_be_bytes());
            text.extend(part);
        };
        add(client.principal());
        for (name, value) in client.carried().into_iter().flatten() {
            add(name.as_str().as_bytes());
            add(value.as_bytes());
        }
        let mut mark = PersonMark::default();
        mark.copy_from_slice(sign(&self.secret, &text).as_ref());
        mark
    }

    /// Whom a client speaks for; `words` are its own.
    pub(crate) fn meet(
        &self,
        mark: PersonMark,
        client: &ClientConnection,
        words: Option<&Message>,
    ) -> Arc<Person> {
        let mut known = lock(&self.known);
        if let Some(person) = known.get(&mark).and_then(Weak::upgrade) {
            return person;
        }
        known.retain(|_, person| person.strong_count() > 0);
        let roster = RosterOptions::default().patience(PATIENCE).probe(PROBE).quiet();
        let person = Arc::new(Person {
            identity: Arc::new(ClientIdentity::of(client, words)),
            roster: Roster::new(roster),
            servers: Mutex::default(),
            fronts: Mutex::default(),
        });
        known.insert(mark, Arc::downgrade(&person));
        person
    }

    /// Whom a client speaks for, if something is known of them.
    pub(crate) fn find(&self, client: &ClientConnection) -> Option<Arc<Person>> {
        let mark = self.mark(client);
        lock(&self.known).get(&mark).and_then(Weak::upgrade)
    }

    pub(crate) fn each(&self) -> Vec<Arc<Person>> {
        lock(&self.known).values().filter_map(Weak::upgrade).collect()
    }

    /// Those whom clients of this principal speak for.
    pub(crate) fn each_of(&self, principal: &str) -> Vec<Arc<Person>> {
        let mut all = self.each();
        all.retain(|person| person.identity.who().name() == principal);
        all
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.each().len()
    }

    /// For how many people a server is ready.
    pub(crate) fn ready(&self, server: &str) -> usize {
        self.each().iter().filter(|person| person.roster.is_ready(server)).count()
    }

    /// Lets go of everybody's servers, and waits for it.
    pub(crate) async fn close(&self) {
        for person in self.each() {
            person.roster.close().await;
        }
    }
}

impl Person {
    /// The bytes that they take, besides their lists.
    pub(crate) fn weight(&self) -> usize {
        FOOTPRINT + self.identity.size()
    }

    /// A front shows what is theirs.
    pub(crate) fn is_shown_by(&self, front: &Arc<Front>) {
        let mut fronts = lock(&self.fronts);
        fronts.retain(|front| front.strong_count() > 0);
        fronts.push(Arc::downgrade(front));
    }

    /// Whether somebody has a session on their behalf, or listens.
    pub(crate) fn is_here(&self) -> bool {
        let fronts: Vec<_> = lock(&self.fronts).iter().filter_map(Weak::upgrade).collect();
        fronts.iter().any(|front| front.is_occupied())
    }

    /// Whether any server is listened to on their behalf.
    pub(crate) fn is_awake(&self) -> bool {
        self.roster.servers().iter().any(|(_, state)| state.phase == ServerPhase::Ready)
    }

    /// Nobody listens on their behalf any more until they want something. What is
    /// known stays.
    pub(crate) fn rest(&self) {
        for (server, _) in self.roster.servers() {
            self.roster.sleep(&server);
        }
    }

    /// Whether this server is asked on their behalf.
    pub(crate) fn has(&self, server: &str) -> bool {
        lock(&self.servers).contains_key(server)
    }

    /// The servers of which nothing is known yet, but may be in a moment.
    pub(crate) fn awaited(&self) -> Vec<Arc<str>> {
        let late = self.roster.deferred().into_iter();
        let late = late.filter(|late| !late.is_cached && late.state.is_pending());
        late.map(|late| late.name).collect()
    }

    /// Asks those of these servers that know people, and those that it has asked
    /// before, as they are at this time.
    pub(crate) fn follow(
        &self,
        running_servers: &RunningServers,
        is_wanted: impl Fn(&str) -> bool,
    ) {
        let mut servers = lock(&self.servers);
        servers.retain(|name, _| {
            let stays = running_servers.get(name).is_some_and(|it| it.plan.knows_people());
            if !stays {
                // What is left of it ends by itself.
                drop(self.roster.let_go(name));
            }
            stays
        });
        for (name, running) in running_servers.iter().filter(|(_, it)| it.plan.knows_people()) {
            let now = (Arc::downgrade(running), Arc::downgrade(&running.bridge));
            let before = servers.get(name);
            if before.is_none() && !is_wanted(name)
                || before.is_some_and(|(running, _)| running.ptr_eq(&now.0))
            {
                continue;
            }
            match before {
                // The same connections, but other tools may be hidden there.
                Some((_, bridge)) if bridge.ptr_eq(&now.1) => _ = self.roster.restart(name),
                before => self.ask(name, running, before.is_some()),
            }
            // It only listens for what has changed, and would keep the server awake.
            self.roster.sleep_after(name, running.plan.idle, &running.bridge, false);
            servers.insert(Arc::clone(name), now);
        }
    }

    fn ask(&self, name: &Arc<str>, running: &RunningServer, replaces: bool) {
        let server = ServerTarget::behind(&running.bridge, &self.identity);
        let start = running.plan.start;
        running.bridge.touch();
        if replaces {
            drop(self.roster.replace_within(name, server, start));
            return;
        }
        let timeout = ClientOptions::default().timeout.max(start);
        let options = ClientOptions::default().timeout(timeout);
        if let Err(error) = self.roster.add_within(Arc::clone(name), server, options, start) {
            tracing::warn!(server = &**name, "not asked for one person: {error}");
        }
    }
}

/// How often somebody looks who is gone, at least.
const LOOK: Duration = Duration::from_secs(10);

/// The fronts of people, in no order.
#[derive(Default)]
pub(super) struct RememberedPeople {
    people: Vec<RememberedPerson>,
    /// The task that looks who is gone, while somebody is remembered.
    sweeping: Option<OwnedTask>,
}

/// What one person sees.
struct RememberedPerson {
    mark: PersonMark,
    /// Who lets them in: a key may speak for many.
    who: Who,
    person: Arc<Person>,
    front: Arc<Front>,
    used: Instant,
}

impl RememberedPerson {
    /// Whether nobody would miss it: no session, no listen, no call on its way.
    fn is_left(&self) -> bool {
        Arc::strong_count(&self.front) == 1 && !self.front.is_occupied()
    }
}

/// Who goes first: of the principal with most, whoever was not here for longest.
/// What one principal has costs no other anything.
fn first_to_go<'o>(
    ones: impl Iterator<Item = (usize, &'o RememberedPerson)> + Clone,
    weigh: impl Fn(&RememberedPerson) -> usize,
) -> Option<usize> {
    let mut loads: HashMap<&str, usize> = HashMap::new();
    for (_, one) in ones.clone() {
        *loads.entry(one.who.name()).or_default() += weigh(one);
    }
    let key = |one: &RememberedPerson| (loads.get(one.who.name()).copied(), Reverse(one.used));
    ones.max_by_key(|(_, one)| key(one)).map(|(at, _)| at)
}

impl RememberedPeople {
    pub(super) fn fronts(&self) -> impl Iterator<Item = &Arc<Front>> {
        self.people.iter().map(|one| &one.front)
    }

    fn find(&mut self, mark: &PersonMark, grant: &Grant) -> Option<&mut RememberedPerson> {
        self.people.iter_mut().find(|one| one.mark == *mark && one.front.grant == *grant)
    }

    /// Forgets those who see something else now or whose key is gone, unless they are still here.
    pub(super) fn keep_grants(&mut self, grants: &[Grant]) {
        let stays =
            |one: &RememberedPerson| one.who.is_current() && grants.contains(&one.front.grant);
        self.people.retain(|one| stays(one) || !one.is_left());
    }

    /// Forgets those who were not here for long or whose key is gone, then those who are too many, and
    /// lets others rest.
    fn sweep(&mut self, bounds: &PersonBounds) {
        let now = Instant::now();
        let stays = |one: &RememberedPerson| one.who.is_current() && now < one.used + bounds.idle;
        self.people.retain(|one| stays(one) || !one.is_left());
        self.forget_beyond(bounds.most, |_| 1);
        self.forget_beyond(bounds.bytes, |one| one.front.weight());
        self.rest(bounds.awake);
    }

    /// Forgets people until those who are not here weigh no more than that.
    fn forget_beyond(&mut self, most: usize, weigh: impl Fn(&RememberedPerson) -> usize) {
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
        let is_idle = |one: &RememberedPerson| one.person.is_awake() && !one.person.is_here();
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
    pub(super) fn front_of_person(
        &self,
        grant: &Grant,
        client: &ClientConnection,
        words: Option<&Message>,
    ) -> Arc<Front> {
        let people = &self.fleet.people;
        let mark = people.mark(client);
        let mut seen = lock(&self.people);
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
        let front = self.make_front(grant, Some(Arc::clone(&person)));
        let (who, shown, used) = (client.who().clone(), Arc::clone(&front), Instant::now());
        seen.people.push(RememberedPerson { mark, who, person, front: shown, used });
        seen.sweep(&people.bounds);
        let this = || Weak::clone(&self.this);
        seen.sweeping.get_or_insert_with(|| OwnedTask::spawn(sweep(this())));
        front
    }

    /// The fronts of people that a client may have something open at.
    pub(super) fn fronts_of_people(&self, client: &ClientConnection) -> Vec<Arc<Front>> {
        let seen = lock(&self.people);
        if seen.people.is_empty() {
            return Vec::new();
        }
        let mark = self.fleet.people.mark(client);
        let hosting = seen.people.iter().filter(|one| one.mark == mark || one.front.hosts(client));
        hosting.map(|one| Arc::clone(&one.front)).collect()
    }

    /// How many people are remembered.
    #[cfg(test)]
    pub(crate) fn people(&self) -> usize {
        lock(&self.people).people.len()
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
        let mut seen = lock(&views.people);
        seen.sweep(&views.fleet.people.bounds);
        if seen.people.is_empty() {
            seen.sweeping = None;
            return;
        }
    }
}

#[cfg(test)]
mod tests;
