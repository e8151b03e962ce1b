//! Three replicas, a store, and clients that send each request to another replica.
//!
//! Time is virtual: everything that happens is an event at a millisecond. What happens to a
//! replica that is frozen waits; what happens to one that was killed is lost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard_proto::cluster::command::{LogEntry, StoreCommand, StoreReply, StoredClaim};
use switchboard_proto::cluster::holdings::{Holdings, ServingState};
use switchboard_proto::cluster::model::ModelStore;
use switchboard_proto::cluster::owner_search::{HopResult, OwnerSearch, SearchEnd, SearchStep};
use switchboard_proto::cluster::stream_log::{StreamEvent, StreamLog, unanswered};
use switchboard_proto::cluster::{Claim, ClaimName, Epoch, ReplicaId};

use self::fault::Trouble;

pub(super) const SLOTS: usize = 3;
pub(super) const CLIENTS: usize = 2;
const LEASE: u64 = 3000;
const KEEP: Duration = Duration::from_mins(30);
/// How long a replica waits for the store.
const PATIENCE: u64 = 200;
/// How long a connection or a ping may take.
const CONNECT: u64 = 500;
pub(super) const FAULTS_END: u64 = 12_000;
pub(super) const END: u64 = 24_000;

/// A guard that is taken away, to see that the promises need it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mutation {
    None,
    /// The store takes writes of any epoch.
    NoFence,
    /// The store gives a claim to whoever wants it.
    TakeAnything,
    /// A stream is shown before the store knows of it.
    ShowBeforeBegin,
    /// An answer is sent before the store has it.
    AnswerBeforeWrite,
    /// A request that may have been received is sent again.
    SendAgain,
    /// A session that cannot be found now is said to be gone.
    GoneInDoubt,
    /// A replica serves what it owned before it was frozen.
    NoDoubt,
}

pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    pub(super) fn slot(&mut self) -> usize {
        usize::try_from(self.below(SLOTS as u64)).expect("a small number")
    }
}

/// One process at the address of a slot.
type Process = (usize, ReplicaId);

pub(super) struct Node {
    pub(super) id: ReplicaId,
    pub(super) is_up: bool,
    pub(super) frozen_until: u64,
    holdings: Holdings,
    sessions: BTreeMap<ClaimName, OwnedSession>,
    /// Sessions whose take is not answered yet.
    taking: BTreeSet<ClaimName>,
    /// Which of the store's lives it is connected to.
    connection: u64,
    /// When it last had no answer from the store, or did not run.
    pub(super) troubled: u64,
}

struct OwnedSession {
    epoch: Epoch,
    log: StreamLog,
    history: Vec<LogEntry>,
    /// What is sent when the store has the entry of that position.
    gated: Vec<(u64, Shown)>,
    streams: BTreeMap<u64, OwnedStream>,
}

#[derive(Default)]
struct OwnedStream {
    attached: Option<usize>,
    /// The answer, once it may be shown.
    answer: Option<String>,
}

#[derive(Clone)]
enum Shown {
    Begin { stream: u64, request: usize },
    Answer { stream: u64, text: String },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wish {
    Greet,
    Call,
    Stream,
    Resume(u64),
}

#[expect(clippy::struct_excessive_bools, reason = "each may hold beside the others")]
struct Request {
    client: usize,
    /// The same when it is made again.
    call: u64,
    /// Made beside another one, whose outcome the client follows.
    is_extra: bool,
    wish: Wish,
    entry: Process,
    session: ClaimName,
    search: Option<OwnerSearch>,
    at: Option<Process>,
    is_over: bool,
    is_shown: bool,
    is_pinging: bool,
    silent_since: Option<u64>,
    begun: u64,
}

#[derive(Default)]
pub(super) struct Client {
    session: Option<ClaimName>,
    /// Whether the store may not have the session, so that it lives as long as its owner.
    at_risk: bool,
    /// Whether its owner died meanwhile.
    excused: bool,
    wish: Option<(u64, Wish)>,
    /// Streams of which the store may know nothing.
    excused_streams: BTreeSet<u64>,
    shown: Option<ShownStream>,
    pub(super) answered: u64,
    last_answer: u64,
}

struct ShownStream {
    number: u64,
    answers: BTreeSet<String>,
}

enum Outcome {
    Answer,
    Unknown,
    Gone,
    Unavailable,
    Begun(u64),
    Final(u64, String),
    NotKnown,
    Closed,
    Refused,
}

#[derive(Clone)]
enum Purpose {
    Renew,
    /// With the store's life in which it was sent.
    Assert(ClaimName, Epoch, u64),
    Log(ClaimName, Epoch),
    /// With the store's life in which it was sent.
    Create(usize, u64),
    Read(usize),
    Take(usize, Claim),
    Check(usize, Epoch),
}

enum Event {
    Tick(Process),
    Store { from: Process, purpose: Purpose, sent: u64, commands: Vec<StoreCommand> },
    Reply { to: Process, purpose: Purpose, sent: u64, replies: Option<Vec<StoreReply>> },
    Hop(usize, HopResult),
    Arrive(Process, usize),
    Work(Process, usize),
    Deliver(Process, usize, Outcome),
    Watch(usize),
    Act(usize),
    Fault,
    Heal(Trouble),
}

pub(super) struct World {
    pub(super) now: u64,
    start: Instant,
    pub(super) chance: Chance,
    mutation: Mutation,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    next_event: u64,
    store: ModelStore,
    pub(super) store_up: bool,
    /// What a failover falls back to.
    behind: Option<ModelStore>,
    /// Counts what the store has lost, for the check that an epoch has one writer.
    losses: u64,
    writers: BTreeMap<(u64, ClaimName, Epoch), ReplicaId>,
    taken_at: BTreeMap<ClaimName, u64>,
    /// Sessions that the store has lost once. If an old owner wrote first, and the new one came
    /// back much later, the old one hears of it with its next write only.
    lost_once: BTreeSet<ClaimName>,
    pub(super) nodes: Vec<Node>,
    pub(super) cut: [[bool; SLOTS]; SLOTS],
    pub(super) cut_store: [bool; SLOTS],
    requests: Vec<Request>,
    pub(super) clients: Vec<Client>,
    executed: BTreeSet<u64>,
    next_call: u64,
    next_id: u32,
}

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}

impl World {
    pub(super) fn new(seed: u64, mutation: Mutation) -> Self {
        let mut world = Self {
            now: 0,
            start: start(),
            chance: Chance(seed),
            mutation,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            store: ModelStore::default(),
            store_up: true,
            behind: None,
            losses: 0,
            writers: BTreeMap::new(),
            taken_at: BTreeMap::new(),
            lost_once: BTreeSet::new(),
            nodes: Vec::new(),
            cut: [[false; SLOTS]; SLOTS],
            cut_store: [false; SLOTS],
            requests: Vec::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            executed: BTreeSet::new(),
            next_call: 0,
            next_id: 0,
        };
        for slot in 0..SLOTS {
            let node = world.new_node();
            let process = (slot, node.id);
            world.nodes.push(node);
            world.at(slot as u64, Event::Tick(process));
        }
        for client in 0..CLIENTS {
            world.after(50, 500, Event::Act(client));
        }
        world.after(500, 3000, Event::Fault);
        world
    }

    /// Plays until the end; the promise that was broken, if one was.
    pub(super) fn play(&mut self) -> Result<(), String> {
        while let Some(Reverse((at, number))) = self.queue.pop() {
            if at > END {
                break;
            }
            self.now = at;
            let event = self.events.remove(&number).expect("each event has its number");
            self.happen(event)?;
        }
        self.check_end()
    }

    fn new_node(&mut self) -> Node {
        self.next_id += 1;
        let id = ReplicaId(self.next_id);
        Node {
            id,
            is_up: true,
            frozen_until: 0,
            holdings: Holdings::new(id, Duration::from_millis(LEASE)),
            sessions: BTreeMap::new(),
            taking: BTreeSet::new(),
            connection: self.losses,
            troubled: self.now,
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.next_event += 1;
        self.events.insert(self.next_event, event);
        self.queue.push(Reverse((at, self.next_event)));
    }

    fn after(&mut self, least: u64, most: u64, event: Event) {
        let at = self.now + least + self.chance.below(most - least + 1);
        self.at(at, event);
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    fn runs(&self, (slot, id): Process) -> bool {
        self.nodes[slot].is_up && self.nodes[slot].id == id
    }

    fn is_frozen(&self, (slot, _): Process) -> bool {
        self.nodes[slot].frozen_until > self.now
    }

    fn can_talk(&self, one: usize, other: usize) -> bool {
        one == other || !self.cut[one][other]
    }

    fn reaches_store(&self, slot: usize) -> bool {
        self.store_up && !self.cut_store[slot]
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        let process = match &event {
            Event::Tick(process)
            | Event::Arrive(process, _)
            | Event::Work(process, _)
            | Event::Deliver(process, ..) => Some(*process),
            Event::Reply { to, .. } => Some(*to),
            Event::Hop(request, _) | Event::Watch(request) => Some(self.requests[*request].entry),
            _ => None,
        };
        if let Some(process) = process {
            if !self.runs(process) {
                return Ok(());
            }
            if self.is_frozen(process) {
                self.at(self.nodes[process.0].frozen_until, event);
                return Ok(());
            }
        }
        match event {
            Event::Tick(process) => self.tick(process),
            Event::Store { from, purpose, sent, commands } => {
                return self.at_store(from, purpose, sent, &commands);
            }
            Event::Reply { to, purpose, sent, replies } => {
                return self.handle_reply(to, purpose, sent, replies);
            }
            Event::Hop(request, result) => return self.hop_over(request, result),
            Event::Arrive(process, request) => return self.arrive(process, request),
            Event::Work(process, request) => return self.work(process, request),
            Event::Deliver(process, request, outcome) => {
                return self.deliver(process, request, outcome);
            }
            Event::Watch(request) => return self.watch(request),
            Event::Act(client) => return self.act(client),
            Event::Fault => self.fault(),
            Event::Heal(fault) => self.heal(fault),
        }
        Ok(())
    }

    fn send(&mut self, from: Process, purpose: Purpose, commands: Vec<StoreCommand>) {
        let sent = self.now;
        self.after(0, 4, Event::Store { from, purpose, sent, commands });
    }

    fn at_store(
        &mut self,
        from: Process,
        purpose: Purpose,
        sent: u64,
        commands: &[StoreCommand],
    ) -> Result<(), String> {
        let is_lost = self.chance.below(100) == 0;
        let mut replies = None;
        if self.reaches_store(from.0) && !(is_lost && self.chance.below(2) == 0) {
            let mut all = Vec::new();
            for command in commands {
                all.push(self.execute(command)?);
            }
            replies = Some(all).filter(|_| !is_lost);
        }
        let wait = if replies.is_some() { self.chance.below(5) } else { PATIENCE };
        self.at(self.now + wait, Event::Reply { to: from, purpose, sent, replies });
        Ok(())
    }

    fn execute(&mut self, command: &StoreCommand) -> Result<StoreReply, String> {
        let now = self.instant();
        let mut command = command.clone();
        if let StoreCommand::Write { name, owner, epoch, .. } = &mut command
            && self.mutation == Mutation::NoFence
            && let StoreReply::Claim(Some(stored)) =
                self.store.execute(now, &StoreCommand::Read(name.clone()))
            && let Claim { owner: Some(current), .. } = stored.claim
        {
            let meant = (*owner, *epoch);
            (*owner, *epoch) = (current, stored.claim.epoch.max(*epoch));
            self.audit_write(&name.clone(), meant)?;
        }
        if let StoreCommand::Take { name, expected, by, .. } = &command
            && self.mutation == Mutation::TakeAnything
            && let StoreReply::Claim(Some(stored)) =
                self.store.execute(now, &StoreCommand::Read(name.clone()))
            && let Claim { owner: Some(owner), epoch } = stored.claim
            && epoch == expected.epoch.next()
            && owner != *by
        {
            self.store.execute(now, &StoreCommand::Delete { name: name.clone(), owner, epoch });
            let write = Self::write((0, *by), name, epoch, Vec::new());
            self.execute(&write)?;
            let claim = Claim { owner: Some(*by), epoch };
            return Ok(StoreReply::Taken(StoredClaim { claim, record: Bytes::new() }));
        }
        let reply = self.store.execute(now, &command);
        match (&command, &reply) {
            (StoreCommand::Write { name, owner, epoch, .. }, StoreReply::Done) => {
                self.audit_write(name, (*owner, *epoch))?;
            }
            (StoreCommand::Take { name, .. }, StoreReply::Taken(_)) => {
                self.taken_at.insert(name.clone(), self.now);
            }
            _ => {}
        }
        Ok(reply)
    }

    /// At most one owner's writes are taken in an epoch, and none of an older one.
    fn audit_write(
        &mut self,
        name: &ClaimName,
        (owner, epoch): (ReplicaId, Epoch),
    ) -> Result<(), String> {
        let key = (self.losses, name.clone(), epoch);
        let writer = *self.writers.entry(key).or_insert(owner);
        let later = (self.losses, name.clone(), epoch.next());
        let is_old = self
            .writers
            .range(later..)
            .next()
            .is_some_and(|(key, _)| (key.0, &key.1) == (self.losses, name));
        if writer != owner || is_old {
            return Err(format!("the store took a write of {owner} in {epoch:?} of {name}"));
        }
        Ok(())
    }

    fn tick(&mut self, process: Process) {
        let (slot, id) = process;
        let now = self.instant();
        for other in 0..SLOTS {
            let is_there = self.nodes[other].is_up && !self.is_frozen((other, id));
            if other != slot && is_there && self.can_talk(slot, other) {
                self.nodes[slot].holdings.handle_peer(now);
            }
        }
        let renewal = self.nodes[slot].holdings.renewal(Bytes::new());
        self.send(process, Purpose::Renew, vec![renewal]);
        self.assert_claims(process);
        self.at(self.now + LEASE / 3, Event::Tick(process));
    }

    fn assert_claims(&mut self, process: Process) {
        while let Some((name, epoch)) = self.nodes[process.0].holdings.poll_unasserted() {
            let entries = match self.nodes[process.0].sessions.get(&name) {
                Some(session) => session.history.clone(),
                None => continue,
            };
            let write = Self::write(process, &name, epoch, entries);
            self.send(process, Purpose::Assert(name, epoch, self.losses), vec![write]);
        }
    }

    fn write(
        (_, owner): Process,
        name: &ClaimName,
        epoch: Epoch,
        entries: Vec<LogEntry>,
    ) -> StoreCommand {
        let (name, record) = (name.clone(), Some(Bytes::new()));
        StoreCommand::Write { name, owner, epoch, record, entries, keep: KEEP }
    }
}

mod client;
mod fault;
mod owner;
