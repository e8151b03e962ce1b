//! Everything between the two ends: the halves, the bridge, and links that misbehave.
//!
//! Bytes wait in queues, one for each direction of a pipe and one for each
//! lane; chance picks the queue that moves next. Order holds within a queue
//! and nowhere else.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use switchboard_proto::client::legacy::Legacy;
use switchboard_proto::client::modern::Modern;
use switchboard_proto::client::to_legacy::ToLegacy;
use switchboard_proto::client::to_modern::ToModern;
use switchboard_proto::client::{self, CallId, Sharing, Ticket, Transmit};
use switchboard_proto::exchange::{Carrier, Down, Exchange, Lane, To, Up};
use switchboard_proto::header::Mirror;
use switchboard_proto::jsonrpc::{Id, Kind, Message, parse, parse_one};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::patch;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::{self, Frame};
use switchboard_proto::{line, sse};

use super::Seen;
use super::actors::{Client, Server};

/// A place where things wait their turn.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Queue {
    /// From the client to the server half; each POST on its own.
    NearUp(Lane),
    /// From the server half to the client.
    NearDown(Lane),
    /// Questions that wait for others to join them.
    Round,
    /// From the client half to the server.
    FarUp(Lane),
    /// From the server to the client half.
    FarDown(Lane),
}

enum Thing {
    Bytes(Vec<u8>),
    Whole(Message),
    Listen(Option<Arc<str>>),
    Round(Exchange, u32),
    End,
}

#[derive(Clone, Debug, PartialEq)]
struct Seat(Exchange);

impl Ticket for Seat {
    fn owner(&self) -> u64 {
        1
    }
}

pub(crate) struct World {
    near: Carrier,
    far: Carrier,
    /// The client speaks the modern era; the server does.
    modern: (bool, bool),
    dice: u64,
    now: Instant,
    client: Client,
    server: Server,
    front: server::Half,
    back: client::Half<Seat>,
    calls: HashMap<Exchange, CallId>,
    queues: BTreeMap<Queue, VecDeque<Thing>>,
    lines: BTreeMap<Queue, line::Decoder>,
    events: BTreeMap<Queue, sse::Decoder>,
    last_ids: HashMap<Lane, Arc<str>>,
    /// Lanes that are broken, noticed or not.
    broken: HashSet<Lane>,
    /// Lanes of the client's own calls, which closing cancels in the modern era.
    lanes: HashMap<Id, Lane>,
    next_lane: u64,
}

impl World {
    pub(crate) fn new(
        (client, server): (Revision, Revision),
        (near, far): (Carrier, Carrier),
        elicits: bool,
        seed: u64,
    ) -> Self {
        let limits = Limits::default();
        let modern = (client.era() == Era::Modern, server.era() == Era::Modern);
        let front = if modern.0 {
            server::Half::Modern(Box::new(server::modern::Modern::new(near, &limits)))
        } else {
            server::Half::Legacy(Box::new(server::legacy::Legacy::new(near, &limits)))
        };
        let alone = Sharing::Alone;
        let back = match modern {
            (true, true) => client::Half::Modern(Box::new(Modern::new(far, alone, &limits))),
            (false, false) => client::Half::Legacy(Box::new(Legacy::new(alone, &limits))),
            (false, true) => client::Half::ToModern(Box::new(ToModern::new(far, alone, &limits))),
            (true, false) => client::Half::ToLegacy(Box::new(ToLegacy::new(far, alone, &limits))),
        };
        Self {
            near,
            far,
            modern,
            dice: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now: start(),
            client: Client::new(client, elicits),
            server: Server::new(server),
            front,
            back,
            calls: HashMap::new(),
            queues: BTreeMap::new(),
            lines: BTreeMap::new(),
            events: BTreeMap::new(),
            last_ids: HashMap::new(),
            broken: HashSet::new(),
            lanes: HashMap::new(),
            next_lane: 1,
        }
    }

    /// Plays until nothing moves any more.
    pub(crate) fn play(mut self) -> Seen {
        let first = self.client.start();
        self.client_says(first);
        for _ in 0..100_000 {
            self.queues.retain(|_, things| !things.is_empty());
            if self.queues.is_empty() {
                if self.waits() {
                    continue;
                }
                return (self.client.seen(), self.server.seen());
            }
            let at = self.roll(self.queues.len() as u64);
            let at = usize::try_from(at).expect("small");
            let queue = *self.queues.keys().nth(at).expect("in range");
            let thing = self.queues.get_mut(&queue).and_then(VecDeque::pop_front);
            let later = self.roll(20);
            self.now += Duration::from_millis(later);
            self.moves(queue, thing.expect("not empty"));
            self.bridge();
        }
        panic!("it never comes to rest");
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
    fn roll(&mut self, below: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % below
    }

    fn put(&mut self, queue: Queue, thing: Thing) {
        self.queues.entry(queue).or_default().push_back(thing);
    }

    /// Puts bytes in pieces of any size.
    fn put_split(&mut self, queue: Queue, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let most = rest.len().min(400) as u64;
            let (piece, after) =
                rest.split_at(1 + usize::try_from(self.roll(most)).expect("small"));
            self.put(queue, Thing::Bytes(piece.to_vec()));
            rest = after;
        }
    }

    fn put_line(&mut self, queue: Queue, message: &Message) {
        let mut bytes = Vec::new();
        line::encode(message.text(), &mut bytes);
        self.put_split(queue, &bytes);
    }

    fn put_event(&mut self, queue: Queue, event: &sse::Outgoing<'_>) {
        let mut bytes = Vec::new();
        if self.roll(4) == 0 {
            sse::comment("ping", &mut bytes);
        }
        sse::encode(event, &mut bytes);
        self.put_split(queue, &bytes);
    }

    fn fresh_lane(&mut self) -> Lane {
        self.next_lane += 1;
        Lane(self.next_lane)
    }

    fn client_says(&mut self, messages: Vec<Message>) {
        for message in messages {
            if self.near == Carrier::Pipe {
                self.put_line(Queue::NearUp(Lane::MAIN), &message);
                continue;
            }
            let params = message.payload().unwrap_or_default();
            let cancelled = patch::get(params, &["requestId"]).filter(|_| self.modern.0);
            if let Some(id) = cancelled.and_then(|id| Id::parse(id).ok().flatten()) {
                let lane = self.lanes[&id];
                self.queues.remove(&Queue::NearDown(lane));
                self.front.handle_closed(lane);
                continue;
            }
            let lane = self.fresh_lane();
            if let Some(id) = message.id() {
                self.lanes.insert(id.clone(), lane);
            }
            let confirms = message.method() == method::INITIALIZED;
            self.put(Queue::NearUp(lane), Thing::Whole(message));
            if confirms {
                let lane = self.fresh_lane();
                self.put(Queue::NearUp(lane), Thing::Listen(None));
            }
        }
    }

    fn moves(&mut self, queue: Queue, thing: Thing) {
        match (queue, thing) {
            (Queue::Round, Thing::Round(exchange, round)) => {
                let state = format!("{}/{round}", exchange.0);
                if let server::Half::Modern(front) = &mut self.front {
                    front.close_round((exchange, round), &state, self.now + Duration::from_mins(1));
                }
            }
            (Queue::NearUp(lane), thing) => self.reaches_front(lane, thing),
            (Queue::NearDown(lane), thing) => self.reaches_client(lane, thing),
            (Queue::FarUp(lane), Thing::Bytes(bytes)) => {
                for message in self.lines_of(Queue::FarUp(lane), &bytes) {
                    self.reaches_server(&message);
                }
            }
            (Queue::FarUp(_), Thing::Whole(message)) => self.reaches_server(&message),
            (Queue::FarDown(lane), Thing::Bytes(bytes)) => {
                let messages = match self.far {
                    Carrier::Pipe => self.lines_of(queue, &bytes),
                    Carrier::Http => self.events_of(queue, &bytes).0,
                };
                for message in messages {
                    self.back.handle_message(lane, &message, self.now);
                }
            }
            (queue, _) => panic!("nothing of the kind goes by {queue:?}"),
        }
    }

    fn lines_of(&mut self, queue: Queue, bytes: &[u8]) -> Vec<Message> {
        let decoder = self.lines.entry(queue).or_insert_with(|| line::Decoder::new(1 << 20));
        decoder.push(bytes);
        let lines = std::iter::from_fn(|| decoder.next_line());
        lines.map(|line| parse_one(line.expect("short")).expect("a message")).collect()
    }

    fn events_of(&mut self, queue: Queue, bytes: &[u8]) -> (Vec<Message>, Option<Arc<str>>) {
        let decoder = self.events.entry(queue).or_insert_with(|| sse::Decoder::new(1 << 20));
        decoder.push(bytes);
        let (mut messages, mut last) = (Vec::new(), None);
        while let Some(event) = decoder.next_event() {
            let event = event.expect("short");
            last = event.id.clone().or(last);
            if event.is_message() {
                messages.push(parse_one(event.data).expect("a message"));
            }
        }
        (messages, last)
    }

    fn reaches_front(&mut self, lane: Lane, thing: Thing) {
        match thing {
            Thing::Bytes(bytes) => {
                for message in self.lines_of(Queue::NearUp(lane), &bytes) {
                    self.front_takes(lane, &message, None);
                }
            }
            Thing::Whole(message) => {
                let headers = headers_of(&message);
                self.front_takes(lane, &message, Some(&headers));
                if self.roll(2) == 0 {
                    self.front.begin_stream(lane);
                }
            }
            Thing::Listen(last) => {
                self.front.handle_listen(lane, last.as_deref()).expect("it can be resumed");
            }
            Thing::End | Thing::Round(..) => panic!("a client does not end a lane"),
        }
    }

    /// Hands a message over; one that brings a state of ours goes to its call.
    fn front_takes(&mut self, lane: Lane, message: &Message, headers: Option<&HeaderMap>) {
        let state = message.payload().and_then(|params| patch::string(params, &["requestState"]));
        let key = state.as_deref().and_then(|state| state.split_once('/'));
        let key = key.and_then(|(exchange, round)| {
            Some((Exchange(exchange.parse().ok()?), round.parse().ok()?))
        });
        if let (Some(key), server::Half::Modern(front)) = (key, &mut self.front) {
            return front.handle_retry(key, lane, message, headers);
        }
        let incoming = parse(message.text().clone()).expect("parsed before");
        self.front.handle_incoming(lane, incoming, headers);
    }

    fn reaches_client(&mut self, lane: Lane, thing: Thing) {
        let messages = match thing {
            Thing::Whole(message) => vec![message],
            Thing::Bytes(bytes) if self.near == Carrier::Pipe => {
                self.lines_of(Queue::NearDown(lane), &bytes)
            }
            Thing::Bytes(bytes) => {
                if self.cuts(lane) {
                    return;
                }
                let (messages, last) = self.events_of(Queue::NearDown(lane), &bytes);
                self.last_ids.extend(last.map(|last| (lane, last)));
                messages
            }
            Thing::End => Vec::new(),
            Thing::Listen(_) | Thing::Round(..) => panic!("a server does not listen"),
        };
        for message in messages {
            let says = self.client.handle(&message);
            self.client_says(says);
        }
    }

    /// Cuts a stream that has shown how to come back; sometimes nobody notices.
    fn cuts(&mut self, lane: Lane) -> bool {
        if self.modern.0 || self.roll(12) != 0 || !self.last_ids.contains_key(&lane) {
            return false;
        }
        let last = self.last_ids.remove(&lane);
        self.broken.insert(lane);
        self.queues.remove(&Queue::NearDown(lane));
        if self.roll(2) == 0 {
            self.front.handle_closed(lane);
        }
        let again = self.fresh_lane();
        self.put(Queue::NearUp(again), Thing::Listen(last));
        true
    }

    fn reaches_server(&mut self, message: &Message) {
        for (of, message) in self.server.handle(message) {
            let Carrier::Http = self.far else {
                self.put_line(Queue::FarDown(Lane::MAIN), &message);
                continue;
            };
            let lane = of.and_then(|id| id.to_string().parse().ok()).map_or(Lane::MAIN, Lane);
            let event = sse::Outgoing { data: message.text(), ..sse::Outgoing::default() };
            // A server that replays too much: hearing an answer again does no harm.
            let may_repeat = !self.modern.1 && message.kind() != Kind::Request;
            let times = 1 + usize::from(may_repeat && self.roll(6) == 0);
            for _ in 0..times {
                self.put_event(Queue::FarDown(lane), &event);
            }
        }
    }

    /// Passes the verbs across, and puts on the links what the halves say.
    fn bridge(&mut self) {
        loop {
            let mut moved = false;
            while let Some(up) = self.front.poll_up() {
                moved = true;
                self.pass_up(up);
            }
            while let Some(down) = self.back.poll_down() {
                moved = true;
                self.pass_down(down);
            }
            if !moved {
                break;
            }
        }
        while let Some((exchange, round)) = self.front.poll_round() {
            self.put(Queue::Round, Thing::Round(exchange, round));
        }
        while let Some((lane, frame)) = self.front.poll_transmit() {
            self.put_frame(lane, frame);
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
                    self.queues.remove(&Queue::FarDown(lane));
                    // To a legacy server a closed stream says nothing (HTTP-9).
                    if self.modern.1 {
                        self.server.cancel(&Id::from(lane.0));
                    }
                }
            }
        }
    }

    fn pass_up(&mut self, up: Up) {
        match up {
            Up::Open { exchange, request, said } => {
                let said = if self.far == Carrier::Http { said } else { None };
                let id = self.back.open(Seat(exchange), &request, &said, self.now);
                self.calls.insert(exchange, id);
            }
            Up::Supply { ask, answer } => self.back.supply(ask, &answer, self.now),
            Up::Note { message } => self.back.note(message, self.now),
            Up::Drop { exchange, message } => {
                self.back.drop_call(self.calls[&exchange], message.as_ref(), self.now);
            }
        }
    }

    fn pass_down(&mut self, down: Down<Seat>) {
        let of = |to: To<Seat>| match to {
            To::Call(Seat(exchange)) => Some(exchange),
            To::Session => None,
        };
        match down {
            Down::Note { to, message } => self.front.note(of(to), &message),
            Down::Ask { to, ask, request } => {
                assert!(self.front.ask(of(to), ask, &request), "nobody to ask");
            }
            Down::Recall { ask, message, .. } => self.front.recall(ask, &message),
            Down::Finish { to, answer } => self.front.finish(to.0, &answer),
        }
    }

    fn put_frame(&mut self, lane: Lane, frame: Frame) {
        let queue = Queue::NearDown(lane);
        match frame {
            _ if self.broken.contains(&lane) => {}
            Frame::Answer { text, .. } => self.put(queue, Thing::Whole(whole(text))),
            Frame::Accepted | Frame::Begin { prime: None } => {}
            Frame::Begin { prime: Some(prime) } => {
                let id = prime.event.to_string();
                let retry = Some(prime.retry_ms);
                let event = sse::Outgoing { id: Some(&id), retry, ..sse::Outgoing::default() };
                self.put_event(queue, &event);
            }
            Frame::Message { text, .. } if self.near == Carrier::Pipe => {
                self.put_line(queue, &whole(text));
            }
            Frame::Message { event, text } => {
                let id = event.map(|event| event.to_string());
                let event =
                    sse::Outgoing { id: id.as_deref(), data: &text, ..sse::Outgoing::default() };
                self.put_event(queue, &event);
            }
            Frame::End => self.put(queue, Thing::End),
        }
    }
}

fn whole(text: Bytes) -> Message {
    parse_one(text).expect("what we send is a message")
}

fn headers_of(message: &Message) -> HeaderMap {
    let params = message.payload().unwrap_or_default();
    let name = method::name_member(message.method());
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
