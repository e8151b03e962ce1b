//! Everything between the two ends: the halves, the bridge, and links that misbehave.
//!
//! Bytes wait in queues, one for each direction of a pipe and one for each
//! lane; chance picks the queue that moves next. Order holds within a queue
//! and nowhere else.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use switchboard_proto::client::legacy::LegacyClientHalf;
use switchboard_proto::client::modern::ModernClientHalf;
use switchboard_proto::client::to_legacy::ToLegacy;
use switchboard_proto::client::to_modern::ToModern;
use switchboard_proto::client::{self, Sharing, Ticket, Transmit};
use switchboard_proto::exchange::{Carrier, ClientEvent, Exchange, Lane, ServerEvent, To};
use switchboard_proto::failure::Words;
use switchboard_proto::framing;
use switchboard_proto::header::Mirror;
use switchboard_proto::jsonrpc::{Id, Member, Message, parse};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::patch;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server;

use super::client::{AFTERWARDS, Client, Sort};
use super::link::Carried;
use super::log::Log;
use super::server::Server;

/// A place where things wait their turn; the first number is the client's.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Queue {
    /// From a client to its server half; each POST on its own.
    NearUp(usize, Lane),
    /// From the server half to its client.
    NearDown(usize, Lane),
    /// Questions that wait for others to join them.
    Round(usize),
    /// From the client half to the server.
    FarUp(Lane),
    /// From the server to the client half.
    FarDown(Lane),
}

pub(super) enum Thing {
    Bytes(Vec<u8>),
    Whole(Message),
    Listen(Option<Arc<str>>),
    Round(Exchange, u32),
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seat(usize, Exchange);

impl Ticket for Seat {
    fn owner(&self) -> u64 {
        self.0 as u64 + 1
    }

    fn has_own_id(&self) -> bool {
        true
    }
}

/// What goes wrong in a run, besides what must not be noticed at all: bytes in
/// any pieces, any order among lanes, streams that break and are resumed,
/// servers that say things twice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    Nothing,
    /// Once, the server or the stream of a call is lost for good.
    Lost,
    /// The first client is gone at some point.
    Gone,
}

/// Who meets whom, and how.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub(crate) clients: Vec<Sort>,
    pub(crate) server: Revision,
    pub(crate) near: Carrier,
    pub(crate) far: Carrier,
    pub(crate) sharing: Sharing,
    pub(crate) fault: Fault,
    pub(crate) seed: u64,
}

impl Meeting {
    /// Whether only the server is of the newer era.
    pub(crate) fn is_to_modern(&self) -> bool {
        self.server.era() == Era::Modern && self.clients[0].revision.era() == Era::Legacy
    }

    /// Whether only the clients are.
    pub(crate) fn is_to_legacy(&self) -> bool {
        self.server.era() == Era::Legacy && self.clients[0].revision.era() == Era::Modern
    }

    /// Whether the server does not say which call its questions are about.
    pub(crate) fn hides_whose(&self) -> bool {
        let is_legacy = self.server.era() == Era::Legacy;
        is_legacy && self.far == Carrier::Pipe && self.sharing == Sharing::Shared
    }
}

/// What came of it.
pub(crate) struct PairResult {
    pub(crate) clients: Vec<Log>,
    pub(crate) server: Log,
    /// For each client, the calls that may have suffered.
    pub(crate) hit: Vec<BTreeSet<String>>,
    /// What nobody should still be busy with.
    pub(crate) left: Vec<String>,
}

/// One client and the half that it faces.
pub(super) struct End {
    pub(super) client: Client,
    pub(super) front: server::ServerHalf,
    pub(super) last_ids: HashMap<Lane, Arc<str>>,
    /// Lanes that are broken, noticed or not.
    pub(super) broken: HashSet<Lane>,
    /// Lanes of the client's own calls, which closing cancels in the modern era.
    pub(super) lanes: HashMap<Id, Lane>,
    pub(super) hit: BTreeSet<String>,
    pub(super) is_gone: bool,
}

pub(crate) struct World {
    pub(super) near: Carrier,
    pub(super) far: Carrier,
    /// The clients speak the modern era; the server does.
    pub(super) modern: (bool, bool),
    pub(super) fault: Fault,
    /// One in so many moves makes it happen: early, or late.
    pub(super) calm: u64,
    /// It has happened.
    pub(super) is_hurt: bool,
    dice: u64,
    pub(super) now: Instant,
    pub(super) ends: Vec<End>,
    pub(super) server: Server,
    pub(super) back: client::ClientHalf<Seat>,
    pub(super) queues: BTreeMap<Queue, VecDeque<Thing>>,
    pub(super) lines: BTreeMap<Queue, framing::LineDecoder>,
    pub(super) events: BTreeMap<Queue, framing::EventDecoder>,
    /// What the server has sent on each lane, and how much of it has come.
    pub(super) history: BTreeMap<Lane, (Vec<Message>, usize)>,
    /// What each lane to the server is there for, and the id of its request.
    pub(super) carried: HashMap<Lane, (Carried, Id)>,
    /// How far the clients are in what they do when all is over.
    pub(super) afterwards: usize,
    next_lane: u64,
}

impl World {
    pub(crate) fn new(meeting: &Meeting) -> Self {
        let limits = Limits::default();
        let Meeting { near, far, sharing, fault, seed, .. } = *meeting;
        let is_modern = |revision: Revision| revision.era() == Era::Modern;
        let modern = (is_modern(meeting.clients[0].revision), is_modern(meeting.server));
        let back = match modern {
            (true, true) => {
                client::ClientHalf::Modern(Box::new(ModernClientHalf::new(far, sharing, &limits)))
            }
            (false, false) => {
                client::ClientHalf::Legacy(Box::new(LegacyClientHalf::new(sharing, &limits)))
            }
            (false, true) => {
                client::ClientHalf::ToModern(Box::new(ToModern::new(far, sharing, &limits)))
            }
            (true, false) => {
                client::ClientHalf::ToLegacy(Box::new(ToLegacy::new(far, sharing, &limits)))
            }
        };
        let ends = meeting.clients.iter().map(|&sort| End::new(sort, near, sharing)).collect();
        Self {
            near,
            far,
            modern,
            fault,
            calm: if seed % 2 == 0 { 60 } else { 300 },
            is_hurt: false,
            dice: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now: start(),
            ends,
            server: Server::new(meeting.server),
            back,
            queues: BTreeMap::new(),
            lines: BTreeMap::new(),
            events: BTreeMap::new(),
            history: BTreeMap::new(),
            carried: HashMap::new(),
            afterwards: 0,
            next_lane: 1,
        }
    }

    /// Plays until nothing moves any more.
    pub(crate) fn play(mut self) -> PairResult {
        for of in 0..self.ends.len() {
            let first = self.ends[of].client.start();
            self.client_says(of, first);
        }
        for _ in 0..200_000 {
            self.queues.retain(|_, things| !things.is_empty());
            if self.queues.is_empty() {
                if self.waits() || self.goes_on() {
                    continue;
                }
                return self.outcome();
            }
            let at = self.roll(self.queues.len() as u64);
            let at = usize::try_from(at).expect("small");
            let queue = *self.queues.keys().nth(at).expect("in range");
            let later = self.roll(20);
            self.now += Duration::from_millis(later);
            if !self.hurts(queue) {
                let thing = self.queues.get_mut(&queue).and_then(VecDeque::pop_front);
                self.moves(queue, thing.expect("not empty"));
            }
            self.bridge();
        }
        panic!("it never comes to rest");
    }

    fn outcome(self) -> PairResult {
        let mut left: Vec<String> = Vec::new();
        for end in self.ends.iter().filter(|end| !end.is_gone) {
            let open = end.client.open().into_iter();
            left.extend(open.filter(|name| *name != "listen s3"));
            left.extend((!end.client.is_done()).then(|| "the script".to_owned()));
        }
        if self.ends.iter().all(|end| end.is_gone) {
            // Whoever is gone last takes the connection along, and with it our own listen.
            let open =
                self.server.open().into_iter().filter(|name| self.modern.0 || *name != "listen");
            left.extend(open.map(str::to_owned));
            left.extend((self.back.calls() > 0).then(|| "calls at the back".to_owned()));
        }
        PairResult {
            left,
            hit: self.ends.iter().map(|end| end.hit.clone()).collect(),
            clients: self.ends.into_iter().map(|end| end.client.seen()).collect(),
            server: self.server.seen(),
        }
    }

    /// Nothing moves any more: has the clients look whether all is well.
    fn goes_on(&mut self) -> bool {
        if self.afterwards == AFTERWARDS {
            return false;
        }
        // A legacy client within its era comes back by its next call; for all others
        // their server is brought back.
        let is_told = |end: &&End| !end.is_gone && end.client.is_watching();
        for end in self.ends.iter().filter(is_told) {
            let uri = format!("x:2/{}", end.client.name());
            let is_late =
                matches!(self.back, client::ClientHalf::Legacy(_)) && self.afterwards == 0;
            assert!(is_late || self.server.is_watched(&uri), "nobody hears of {uri} any more");
        }
        for of in 0..self.ends.len() {
            if !self.ends[of].is_gone {
                let says = self.ends[of].client.afterwards(self.afterwards);
                self.client_says(of, says);
            }
        }
        self.afterwards += 1;
        true
    }

    /// Nothing moves: lets time pass if somebody waits for that.
    fn waits(&mut self) -> bool {
        let Some(at) = self.back.poll_timeout() else { return false };
        if at > self.now + Duration::from_mins(1) {
            return false;
        }
        self.now = self.now.max(at);
        self.back.handle_timeout(self.now);
        self.bridge();
        true
    }

    /// Xorshift: all the chance there is.
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % below
    }

    pub(super) fn fresh_lane(&mut self) -> Lane {
        self.next_lane += 1;
        Lane(self.next_lane)
    }

    fn client_says(&mut self, of: usize, messages: Vec<Message>) {
        for message in messages {
            if self.near == Carrier::Pipe {
                self.put_line(Queue::NearUp(of, Lane::MAIN), &message);
                continue;
            }
            let params = message.payload().unwrap_or_default();
            let cancelled = patch::get(params, &["requestId"]).filter(|_| self.modern.0);
            if let Some(id) = cancelled.and_then(|id| Id::parse(id).ok().flatten()) {
                let lane = self.ends[of].lanes[&id];
                self.queues.remove(&Queue::NearDown(of, lane));
                self.ends[of].front.handle_closed(lane);
                continue;
            }
            let lane = self.fresh_lane();
            if let Some(id) = message.id() {
                self.ends[of].lanes.insert(id.clone(), lane);
            }
            let confirms = message.method() == method::INITIALIZED;
            self.put(Queue::NearUp(of, lane), Thing::Whole(message));
            if confirms {
                let lane = self.fresh_lane();
                self.put(Queue::NearUp(of, lane), Thing::Listen(None));
            }
        }
    }

    fn moves(&mut self, queue: Queue, thing: Thing) {
        match (queue, thing) {
            (Queue::Round(of), Thing::Round(exchange, round)) => {
                let state = format!("{}/{round}", exchange.0);
                let until = self.now + Duration::from_mins(1);
                if let server::ServerHalf::Modern(front) = &mut self.ends[of].front {
                    front.close_round((exchange, round), &state, until);
                }
            }
            (Queue::NearUp(of, lane), thing) => self.reaches_front(of, lane, thing),
            (Queue::NearDown(of, lane), thing) => {
                for message in self.messages_for(of, lane, thing) {
                    let says = self.ends[of].client.handle(&message);
                    self.client_says(of, says);
                }
            }
            (Queue::FarUp(lane), Thing::Bytes(bytes)) => {
                for message in self.lines_of(Queue::FarUp(lane), &bytes) {
                    self.reaches_child(&message);
                }
            }
            (Queue::FarUp(lane), Thing::Whole(message)) => self.reaches_endpoint(lane, &message),
            (Queue::FarDown(lane), Thing::Bytes(bytes)) => {
                for message in self.messages_of(lane, &bytes) {
                    self.back.handle_message(lane, &message, self.now);
                }
            }
            (queue, _) => panic!("nothing of the kind goes by {queue:?}"),
        }
    }

    fn reaches_front(&mut self, of: usize, lane: Lane, thing: Thing) {
        match thing {
            Thing::Bytes(bytes) => {
                for message in self.lines_of(Queue::NearUp(of, lane), &bytes) {
                    self.front_takes(of, lane, &message, None);
                }
            }
            Thing::Whole(message) => {
                let headers = headers_of(&message);
                self.front_takes(of, lane, &message, Some(&headers));
                if self.roll(2) == 0 {
                    self.ends[of].front.begin_stream(lane);
                }
            }
            Thing::Listen(last) => {
                let front = &mut self.ends[of].front;
                front.handle_listen(lane, last.as_deref()).expect("it can be resumed");
            }
            Thing::End | Thing::Round(..) => panic!("a client does not end a lane"),
        }
    }

    /// Hands a message over; one that brings a state of ours goes to its call.
    fn front_takes(
        &mut self,
        of: usize,
        lane: Lane,
        message: &Message,
        headers: Option<&HeaderMap>,
    ) {
        let state = message.payload().and_then(|params| patch::string(params, &["requestState"]));
        let key = state.as_deref().and_then(|state| state.split_once('/'));
        let key = key.and_then(|(exchange, round)| {
            Some((Exchange(exchange.parse().ok()?), round.parse().ok()?))
        });
        let front = &mut self.ends[of].front;
        if let (Some(key), server::ServerHalf::Modern(front)) = (key, &mut *front) {
            return front.handle_retry(key, lane, message, headers);
        }
        let incoming = parse(message.text().clone()).expect("parsed before");
        front.handle_incoming(lane, incoming, headers);
    }

    /// Passes the verbs across, and puts on the links what the halves say.
    fn bridge(&mut self) {
        loop {
            let mut moved = false;
            for of in 0..self.ends.len() {
                while let Some(up) = self.ends[of].front.poll_to_server() {
                    moved = true;
                    self.pass_up(of, up);
                }
            }
            while let Some(down) = self.back.poll_to_client() {
                moved = true;
                self.pass_down(down);
            }
            if !moved {
                break;
            }
        }
        for of in 0..self.ends.len() {
            while let Some((exchange, round)) = self.ends[of].front.poll_round() {
                self.put(Queue::Round(of), Thing::Round(exchange, round));
            }
            while let Some((lane, frame)) = self.ends[of].front.poll_transmit() {
                self.put_frame(of, lane, frame);
            }
        }
        while let Some(transmit) = self.back.poll_transmit() {
            match (transmit, self.far) {
                (Transmit::Send { message, .. }, Carrier::Pipe) => {
                    self.put_line(Queue::FarUp(Lane::MAIN), &message);
                }
                (Transmit::Send { lane, message, .. }, Carrier::Http) => {
                    self.put(Queue::FarUp(lane), Thing::Whole(message));
                }
                (Transmit::Abort { lane }, _) => {
                    // What was not sent yet is not sent at all.
                    self.queues.remove(&Queue::FarUp(lane));
                    self.queues.remove(&Queue::FarDown(lane));
                    // To a legacy server a closed stream says nothing (HTTP-9).
                    if self.modern.1 {
                        self.server.cancel(&Id::from(lane.0));
                    }
                }
            }
        }
    }

    fn pass_up(&mut self, of: usize, up: ClientEvent) {
        match up {
            ClientEvent::Open { exchange, request, said } => {
                let said = if self.far == Carrier::Http { said } else { None };
                self.back.open(Seat(of, exchange), &request, &said, self.now);
            }
            ClientEvent::Again { exchange, request } => {
                self.back.again(&Seat(of, exchange), &request, self.now);
            }
            ClientEvent::Supply { ask, answer } => self.back.supply(ask, &answer, self.now),
            ClientEvent::Note { message } => self.back.note(message, self.now),
            ClientEvent::Drop { exchange, message } => {
                self.back.drop_call(&Seat(of, exchange), message.as_ref(), self.now);
                self.ends[of].front.acknowledge_cancelled(exchange);
            }
        }
    }

    fn pass_down(&mut self, down: ServerEvent<Seat>) {
        let of = |to: To<Seat>| match to {
            To::Call(Seat(of, exchange)) => (of, Some(exchange)),
            // Who shares a server is asked nothing that belongs to no call.
            To::Session => (0, None),
        };
        match down {
            ServerEvent::Note { to: To::Session, message } => {
                for end in self.ends.iter_mut().filter(|end| !end.is_gone) {
                    end.front.note(None, &message);
                }
            }
            ServerEvent::Note { to, message } => {
                let (of, exchange) = of(to);
                self.ends[of].front.note(exchange, &message);
            }
            ServerEvent::Ask { to, ask, request } => {
                let (of, exchange) = of(to);
                let asked = self.ends[of].front.ask(exchange, ask, &request);
                assert!(asked || self.is_hurt, "nobody to ask");
                if !asked {
                    self.back.refuse_ask(ask, self.now);
                }
            }
            ServerEvent::Recall { to, ask, message } => {
                self.ends[of(to).0].front.recall(ask, &message);
            }
            ServerEvent::Finish { to: Seat(of, exchange), outcome } => {
                let answer = outcome.into_message(Words::Full);
                self.ends[of].front.finish(exchange, &answer);
            }
            ServerEvent::Unanswered { .. } => panic!("nobody awaits what was dropped"),
        }
    }
}

impl End {
    fn new(sort: Sort, near: Carrier, sharing: Sharing) -> Self {
        let limits = Limits::default();
        let front = if sort.revision.era() == Era::Modern {
            server::ServerHalf::Modern(Box::new(server::modern::ModernServerHalf::new(
                near, &limits,
            )))
        } else {
            let half = server::legacy::LegacyServerHalf::new(near, &limits);
            let half = if sharing == Sharing::Shared { half.sharing() } else { half };
            server::ServerHalf::Legacy(Box::new(half))
        };
        Self {
            client: Client::new(sort),
            front,
            last_ids: HashMap::new(),
            broken: HashSet::new(),
            lanes: HashMap::new(),
            hit: BTreeSet::new(),
            is_gone: false,
        }
    }
}

fn headers_of(message: &Message) -> HeaderMap {
    let params = message.payload().unwrap_or_default();
    let name = method::named_by(message.method()).map(Member::key);
    let name = name.and_then(|member| patch::string(params, &[member]));
    let mut headers = HeaderMap::new();
    let version = Revision::NEWEST_MODERN.as_str();
    Mirror { version, method: message.method(), name: name.as_deref() }.write(&mut headers);
    headers
}

#[expect(clippy::disallowed_methods, reason = "the one start that all of time is counted from")]
fn start() -> Instant {
    Instant::now()
}
