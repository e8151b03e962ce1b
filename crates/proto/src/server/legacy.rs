//! A client of the era with a handshake.
//!
//! ```text
//!   Fresh ──initialize──▶ Greeting ──its result──▶ AwaitingInitialized ──initialized──▶ Ready
//!     ▲                      │                                                           │
//!     └──────its error───────┘                              end, from anywhere ──▶ Ended ◀┘
//! ```
//!
//! Rules:
//! - The inside answers `initialize`; this half only watches it pass, to know the revision.
//! - After the handshake's first half requests pass: POSTs have no order (LIF-2).
//! - A cancelled call counts no more. Its late answer is passed on if the backend
//!   says that there may be one; else its stream ends at once.
//! - A question outlives the call it was asked on: whose it is may be a guess.
//! - A question goes where its call came from; else to a listening stream; else
//!   to the newest call, because some client reads every stream.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{Frame, Prime};
use crate::Table;
use crate::exchange::{Ask, Carrier, ClientEvent, Exchange, Lane, take_number};
use crate::jsonrpc::{Id, Incoming, InvalidMessage, Kind, Member, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::Refusal;
use crate::replay::{EventId, Replay};
use crate::revision::Revision;
use crate::watch::Watches;
use abilities::SELF;

pub use abilities::covers;

mod abilities;

/// One legacy client: a session, a stdio peer, or an HTTP+SSE stream.
#[derive(Debug)]
pub struct LegacyServerHalf {
    phase: Phase,
    revision: Revision,
    most_calls: usize,
    most_asks: usize,
    next_exchange: u64,
    calls: BTreeMap<Exchange, LegacyCall>,
    by_id: Table<Id, Exchange>,
    /// Calls that were cancelled, and whether an answer may still come. As many as
    /// there may be calls.
    cancelled: BTreeMap<Exchange, (LegacyCall, bool)>,
    next_ask: u64,
    asks: Table<u64, AskedQuestion>,
    /// The questions that it said it can be asked.
    able: Vec<&'static str>,
    /// Resources this client watches; others' updates are not for it.
    watched: Watches,
    only_watched: bool,
    /// It has no session.
    bare: bool,
    streams: ClientStreams,
    /// `initialized` came while `initialize` was still with the backend.
    confirmed: bool,
    to_server: VecDeque<ClientEvent>,
}

/// How far the conversation has got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Nothing yet.
    Fresh,
    /// `initialize` is with the backend.
    Greeting,
    /// Answered; the client has not confirmed.
    AwaitingInitialized,
    /// Confirmed.
    Ready,
    /// Over.
    Ended,
}

#[derive(Debug)]
struct LegacyCall {
    id: Id,
    lane: Lane,
    greets: bool,
    /// The resource that it asks to be watched.
    watch: Option<Box<str>>,
}

#[derive(Debug)]
struct AskedQuestion {
    ask: Ask,
    exchange: Option<Exchange>,
}

impl LegacyServerHalf {
    /// A client that has said nothing yet.
    pub fn new(carrier: Carrier, limits: &Limits) -> Self {
        Self {
            phase: Phase::Fresh,
            revision: Revision::ASSUMED,
            most_calls: limits.calls,
            most_asks: limits.asks,
            next_exchange: 1,
            calls: BTreeMap::new(),
            by_id: Table::default(),
            cancelled: BTreeMap::new(),
            next_ask: 1,
            asks: Table::default(),
            able: Vec::new(),
            watched: Watches::default(),
            only_watched: false,
            bare: false,
            streams: ClientStreams::new(carrier, limits),
            confirmed: false,
            to_server: VecDeque::new(),
        }
    }

    /// Several clients share what is inside: keep the updates of the others away.
    #[must_use]
    pub fn sharing(mut self) -> Self {
        self.only_watched = true;
        self
    }

    /// A message, or a batch, arrived on `lane`.
    pub fn handle_incoming(&mut self, lane: Lane, incoming: Incoming) {
        if self.phase == Phase::Ended {
            let id = match &incoming {
                Incoming::One(message) if message.kind() == Kind::Request => message.id().cloned(),
                _ => None,
            };
            return self.streams.refuse(lane, id.as_ref(), &Refusal::SessionOver);
        }
        match incoming {
            Incoming::One(message) => {
                self.streams.expect(lane, usize::from(message.kind() == Kind::Request));
                self.handle_message(lane, message);
            }
            Incoming::Batch(elements) => self.handle_batch(lane, elements),
        }
    }

    fn handle_batch(&mut self, lane: Lane, elements: Vec<Result<Message, InvalidMessage>>) {
        if self.phase != Phase::Fresh && !self.revision.rules().batches {
            let why = Refusal::NoBatches { era: self.revision.era() };
            return self.streams.refuse(lane, None, &why);
        }
        if elements.iter().flatten().any(|message| message.method() == method::INITIALIZE) {
            let why = Refusal::BadBatch { why: "initialize must come alone" };
            return self.streams.refuse(lane, None, &why);
        }
        let asks = |message: &Message| message.kind() == Kind::Request;
        let owed = elements.iter().filter(|it| it.as_ref().map_or(true, asks)).count();
        self.streams.expect(lane, owed);
        for element in elements {
            match element {
                Ok(message) => self.handle_message(lane, message),
                Err(refused) => {
                    let answer = Message::refusal(refused.id.as_ref(), &refused.why);
                    self.streams.answer(lane, &answer);
                }
            }
        }
    }

    /// Something arrived on `lane` that is no message.
    pub fn handle_refused(&mut self, lane: Lane, refused: &InvalidMessage) {
        self.streams.refuse(lane, refused.id.as_ref(), &refused.why);
    }

    fn handle_message(&mut self, lane: Lane, message: Message) {
        match message.kind() {
            Kind::Request => self.handle_request(lane, message),
            Kind::Notification => self.handle_notification(message),
            Kind::Result | Kind::Error => self.handle_answer(message),
        }
    }

    fn handle_request(&mut self, lane: Lane, request: Message) {
        let Some(id) = request.id().cloned() else { return };
        let greets = request.method() == method::INITIALIZE;
        if let Some(why) = self.needs_session(&request) {
            return self.streams.answer(lane, &Message::refusal(Some(&id), &why));
        }
        if let Some(why) = self.objection(&id, &request) {
            return self.streams.turn_away(lane, Some(&id), &why);
        }
        if self.phase == Phase::Fresh && request.method() == method::PING {
            return self.streams.answer(lane, &Message::result(&id, b"{}"));
        }
        if greets {
            self.phase = Phase::Greeting;
            self.note_greeting(&request);
        }
        // A late answer to another call under this id would be taken for one to this.
        let same = self.cancelled.iter().find(|(_, (call, _))| call.id == id);
        if let Some(exchange) = same.map(|(&exchange, _)| exchange) {
            self.end_cancelled(exchange);
        }
        let exchange = Exchange(take_number(&mut self.next_exchange));
        self.by_id.insert(id.clone(), exchange);
        let watch = self.note_watch(exchange, &request);
        self.calls.insert(exchange, LegacyCall { id, lane, greets, watch });
        let request = self.for_server(request);
        self.to_server.push_back(ClientEvent::Open { exchange, request, said: None });
    }

    /// Why a request cannot be taken now, if it cannot.
    fn objection(&self, id: &Id, request: &Message) -> Option<Refusal> {
        let method = request.method();
        if self.by_id.contains_key(id) {
            return Some(Refusal::IdInUse { id: id.to_string() });
        }
        if self.calls.len() >= self.most_calls {
            return Some(Refusal::TooManyCalls);
        }
        if !self.has_room_to_watch(request) {
            return Some(Refusal::TooManyWatched);
        }
        match self.phase {
            Phase::Fresh if matches!(method, method::INITIALIZE | method::PING) => None,
            Phase::Fresh => Some(Refusal::NotInitialized),
            _ if method == method::INITIALIZE => Some(Refusal::Initialized),
            _ => None,
        }
    }

    fn handle_notification(&mut self, message: Message) {
        match message.method() {
            method::CANCELLED => self.handle_cancel(message),
            method::INITIALIZED => self.handle_initialized(message),
            _ if self.phase == Phase::Fresh => {}
            _ => self.to_server.push_back(ClientEvent::Note { message }),
        }
    }

    /// The client gave up on a call. `initialize` cannot be cancelled (UTL-1).
    fn handle_cancel(&mut self, message: Message) {
        let id = message.id_in(Member::RequestId);
        let Some(&exchange) = id.and_then(|id| self.by_id.get(&id)) else { return };
        if self.calls.get(&exchange).is_some_and(|call| call.greets) {
            return;
        }
        if let Some(call) = self.forget(exchange, false) {
            self.cancelled.insert(exchange, (call, false));
            self.to_server.push_back(ClientEvent::Drop { exchange, message: Some(message) });
        }
    }

    /// A GET wants to hear what belongs to no call, or what it missed after `last`.
    pub fn handle_listen(&mut self, lane: Lane, last: Option<&str>) -> Result<(), Refusal> {
        match last {
            _ if self.phase == Phase::Ended => Err(Refusal::SessionOver),
            Some(last) => self.streams.resume(lane, last),
            None => self.streams.listen(lane),
        }
    }

    /// A lane was closed from outside. That cancels nothing (HTTP-9).
    pub fn handle_closed(&mut self, lane: Lane) {
        self.streams.closed(lane);
    }

    /// The answer to a POST takes its time: show a stream instead.
    pub fn begin_stream(&mut self, lane: Lane) {
        self.streams.begin(lane);
    }

    /// Ends the connection that a call came by; its client comes back for the rest.
    pub fn hang_up(&mut self, exchange: Exchange) {
        if let Some(call) = self.calls.get(&exchange) {
            self.streams.hang_up(call.lane);
        }
    }

    /// The same for the call that is at present shown on `lane`, if one is.
    pub fn let_go(&mut self, lane: Lane) {
        self.streams.let_go(lane);
    }

    /// Something on the way, for a call or for the session.
    pub fn note(&mut self, exchange: Option<Exchange>, message: &Message) {
        let is_of_others = self.is_for_others(message);
        let is_vain = self.bare && (exchange.is_none() || method::is_for_all(message.method()));
        if is_of_others || is_vain {
            return;
        }
        let lane = exchange.and_then(|exchange| self.calls.get(&exchange)).map(|call| call.lane);
        if lane.is_none() && exchange.is_some() && message.method() == method::PROGRESS {
            return;
        }
        self.streams.send(lane, message);
    }

    /// The answer to a call. Ignored if the call is over.
    pub fn finish(&mut self, exchange: Exchange, answer: &Message) {
        let call = self.forget(exchange, answer.kind() == Kind::Result);
        let cancelled = || self.cancelled.remove(&exchange).map(|(call, _)| call);
        let Some(call) = call.or_else(cancelled) else { return };
        if call.greets {
            self.handle_greeted(answer);
            let welcome = self.for_client(answer).with_id(&call.id);
            return self.streams.answer(call.lane, &welcome);
        }
        self.streams.answer(call.lane, &answer.with_id(&call.id));
    }

    /// The client confirms; some do before they have the answer, which says the same.
    fn handle_initialized(&mut self, message: Message) {
        match self.phase {
            Phase::AwaitingInitialized => self.phase = Phase::Ready,
            Phase::Greeting if !self.confirmed => self.confirmed = true,
            _ => return,
        }
        self.to_server.push_back(ClientEvent::Note { message });
    }

    fn handle_greeted(&mut self, answer: &Message) {
        let confirmed = std::mem::replace(&mut self.confirmed, false);
        if answer.kind() == Kind::Error {
            self.phase = Phase::Fresh;
            return;
        }
        if !self.bare {
            self.revision = revision_in(answer);
        }
        // From here on streams begin with a priming event.
        self.streams.priming = self.revision.rules().priming && self.streams.resumable;
        self.phase = if confirmed { Phase::Ready } else { Phase::AwaitingInitialized };
    }

    fn forget(&mut self, exchange: Exchange, is_granted: bool) -> Option<LegacyCall> {
        let call = self.calls.remove(&exchange)?;
        if self.calls.is_empty() {
            // An empty map would keep room for eleven calls.
            self.calls = BTreeMap::new();
        }
        self.by_id.remove(&call.id);
        if let Some(uri) = &call.watch {
            self.watched.confirm(uri, SELF, exchange.0, is_granted);
        }
        Some(call)
    }

    /// The conversation is over: who waits for an answer is told, and every lane closes.
    pub fn end(&mut self) {
        self.phase = Phase::Ended;
        for call in std::mem::take(&mut self.calls).into_values() {
            // On a pipe the end of the pipe says as much.
            if self.streams.carrier == Carrier::Http {
                self.streams.turn_away(call.lane, Some(&call.id), &Refusal::SessionOver);
            }
        }
        self.cancelled.clear();
        self.streams.end();
        self.by_id.clear();
        self.asks.clear();
    }

    /// What to do on which lane, oldest first.
    pub fn poll_transmit(&mut self) -> Option<(Lane, Frame)> {
        poll_queue(&mut self.streams.out)
    }

    /// What the client wants, oldest first.
    pub fn poll_to_server(&mut self) -> Option<ClientEvent> {
        poll_queue(&mut self.to_server)
    }

    /// The inside may still answer a call that was cancelled: `finish` or
    /// [`end_cancelled`](Self::end_cancelled) follows. False if there is no such call.
    #[must_use]
    pub fn await_cancelled(&mut self, exchange: Exchange) -> bool {
        let Some((_, is_awaited)) = self.cancelled.get_mut(&exchange) else { return false };
        *is_awaited = true;
        let awaited = || self.cancelled.iter().filter(|(_, (_, is_awaited))| *is_awaited);
        if awaited().count() > self.most_calls
            && let Some(oldest) = awaited().next().map(|(&oldest, _)| oldest)
        {
            self.end_cancelled(oldest);
        }
        true
    }

    /// No answer will come: the stream of a cancelled call ends.
    pub fn end_cancelled(&mut self, exchange: Exchange) {
        if let Some((call, _)) = self.cancelled.remove(&exchange) {
            self.streams.count_answer(call.lane);
        }
    }

    /// The inside has heard that a call was cancelled.
    pub fn acknowledge_cancelled(&mut self, exchange: Exchange) {
        if self.cancelled.get(&exchange).is_some_and(|(_, is_awaited)| !is_awaited) {
            self.end_cancelled(exchange);
        }
    }

    /// How far the conversation has got.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The revision that was settled on.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether ending it now would take something away from somebody.
    pub fn is_busy(&self) -> bool {
        !self.calls.is_empty()
            || self.streams.is_heard()
            || self.streams.open.values().any(|stream| stream.lane.is_some())
    }

    /// Bytes kept for a client that comes back to a stream, or opens one.
    pub fn history_bytes(&self) -> usize {
        self.streams.history.bytes() + self.streams.unheard_bytes
    }

    /// Keeps none of them.
    pub fn forget_history(&mut self) {
        self.streams.history.clear();
        self.streams.unheard.clear();
        self.streams.unheard_bytes = 0;
    }

    /// Whether the server waits for an answer of the client.
    pub fn is_asked(&self) -> bool {
        !self.asks.is_empty()
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// The calls that are open, oldest first.
    pub fn owed_calls(&self) -> Vec<Exchange> {
        self.calls.keys().copied().collect()
    }

    /// How many streams it is told things on.
    pub fn streams(&self) -> usize {
        self.streams.count()
    }
}

/// The revision that a greeting asks for, or that its answer settles on.
fn revision_in(message: &Message) -> Revision {
    let name = message.string(Member::ProtocolVersion);
    name.map_or(Revision::ASSUMED, |name| Revision::legacy_at_most(&name))
}

// Where each message towards a legacy client leaves: lanes, event ids, history.
//
// On a pipe everything leaves by the one lane. On HTTP each POST opens a
// stream of its own, and each GET listens on the stream that belongs to no call:
//
// ```text
//            POST                       note, ask            answer owed no more
//   (none) ────────▶ quiet ─────────────────────▶ streaming ─────────────▶ gone
//                      │   the answer: one Frame::Answer            (history keeps
//                      └──────────────────────────────────────────▶  the answer)
// ```
//
// A lane that closes takes nothing with it: its stream goes on into the
// history, and a GET with the last event id takes it up again (HTTP-9, HTTP-18).
// A stream that never showed an event id cannot be taken up, so nothing of it is kept.

/// Messages kept for a client that has no stream open to hear them on, in as
/// many bytes as the history. A longer absence costs the oldest ones, which a
/// client that lists again does not miss.
const UNHEARD: usize = 256;

/// The streams of one client.
#[derive(Debug)]
struct ClientStreams {
    carrier: Carrier,
    /// Whether a client may come back to a stream; else nothing is kept, and no event has an id.
    resumable: bool,
    priming: bool,
    retry_ms: u64,
    most: usize,
    /// By number; a POST's stream has the number of the lane that opened it.
    open: Table<u64, AnswerStream>,
    /// Lanes listening on the main stream, newest last: that one is spoken to.
    listeners: Vec<Lane>,
    main_seq: u64,
    unheard: VecDeque<(EventId, Bytes)>,
    unheard_bytes: usize,
    most_bytes: usize,
    history: Replay,
    out: VecDeque<(Lane, Frame)>,
}

/// The oldest of a queue. An empty queue gives its memory back: most sessions are idle.
fn poll_queue<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let next = queue.pop_front();
    if next.is_none() {
        *queue = VecDeque::new();
    }
    next
}

/// The answer stream of one POST.
#[derive(Debug)]
struct AnswerStream {
    lane: Option<Lane>,
    owed: usize,
    streaming: bool,
    seq: u64,
}

const MAIN: u64 = Lane::MAIN.0;

impl ClientStreams {
    fn new(carrier: Carrier, limits: &Limits) -> Self {
        Self {
            carrier,
            resumable: true,
            priming: false,
            retry_ms: u64::try_from(limits.retry.as_millis()).unwrap_or(u64::MAX),
            most: limits.streams,
            open: Table::default(),
            listeners: Vec::new(),
            main_seq: 0,
            unheard: VecDeque::new(),
            unheard_bytes: 0,
            most_bytes: limits.history,
            history: Replay::new(limits.history, limits.events),
            out: VecDeque::new(),
        }
    }

    /// A POST that brought `owed` requests. None owed: there is nothing to wait for.
    fn expect(&mut self, lane: Lane, owed: usize) {
        if self.carrier == Carrier::Pipe {
            return;
        }
        if owed == 0 {
            self.out.push_back((lane, Frame::Accepted));
            return;
        }
        // Several answers do not fit one Frame::Answer.
        let stream = AnswerStream { lane: Some(lane), owed, streaming: false, seq: 0 };
        self.open.insert(lane.0, stream);
        if owed > 1 {
            self.begin(lane);
        }
    }

    /// A request that was expected, and is refused after all, or gets no answer.
    fn turn_away(&mut self, lane: Lane, id: Option<&Id>, why: &Refusal) {
        match self.open.get(&lane.0) {
            Some(stream) if !stream.streaming => {
                self.open.remove(&lane.0);
                self.refuse(lane, id, why);
            }
            _ => self.answer(lane, &Message::refusal(id, why)),
        }
    }

    /// A POST, or a line, that was turned away.
    fn refuse(&mut self, lane: Lane, id: Option<&Id>, why: &Refusal) {
        let text = Message::refusal(id, why).text().clone();
        self.out.push_back(match self.carrier {
            Carrier::Pipe => (Lane::MAIN, Frame::Message { event: None, text }),
            Carrier::Http => (lane, Frame::Answer { status: why.http_status(), text }),
        });
    }

    /// The answer takes its time: make it a stream that can be kept alive and resumed.
    fn begin(&mut self, lane: Lane) {
        let event = EventId { stream: lane.0, seq: 0 };
        let prime = self.priming.then_some(Prime { event, retry_ms: self.retry_ms });
        if let Some(stream) = self.open.get_mut(&lane.0).filter(|stream| !stream.streaming) {
            stream.streaming = true;
            if let Some(lane) = stream.lane {
                self.out.push_back((lane, Frame::Begin { prime }));
            }
        }
    }

    /// Ends the connection of a POST before its answer, which its client comes
    /// back for. Not done to those that were not told how (HTTP-10, HTTP-11).
    fn hang_up(&mut self, lane: Lane) {
        if !self.priming {
            return;
        }
        self.begin(lane);
        let left = self.open.get_mut(&lane.0).and_then(|stream| stream.lane.take());
        self.out.extend(left.map(|lane| (lane, Frame::End)));
    }

    /// The same for the call that is at present shown on `lane`, which a GET
    /// that took it up again may have opened.
    fn let_go(&mut self, lane: Lane) {
        let shown = self.open.iter().find(|(_, stream)| stream.lane == Some(lane));
        if let Some(number) = shown.map(|(&number, _)| number) {
            self.hang_up(Lane(number));
        }
    }

    /// Says something on the stream of a POST; on the main one if that is gone.
    fn send(&mut self, on: Option<Lane>, message: &Message) {
        let text = message.text().clone();
        if let Some(lane) = on.filter(|lane| self.open.contains_key(&lane.0)) {
            self.begin(lane);
            return self.push(lane.0, text, false);
        }
        if self.carrier == Carrier::Pipe {
            self.out.push_back((Lane::MAIN, Frame::Message { event: None, text }));
            return;
        }
        self.main_seq += 1;
        let event = EventId { stream: MAIN, seq: self.main_seq };
        self.history.push(event, &text, false);
        if let Some(&lane) = self.listeners.last() {
            self.out.push_back((lane, Frame::Message { event: Some(event), text }));
            return;
        }
        self.unheard_bytes += text.len();
        self.unheard.push_back((event, text));
        while self.unheard.len() > UNHEARD || self.unheard_bytes > self.most_bytes {
            let Some((_, oldest)) = self.unheard.pop_front() else { return };
            self.unheard_bytes -= oldest.len();
        }
    }

    /// Gives one of the answers that a POST is owed.
    fn answer(&mut self, lane: Lane, answer: &Message) {
        let text = answer.text().clone();
        if self.carrier == Carrier::Pipe {
            self.out.push_back((Lane::MAIN, Frame::Message { event: None, text }));
            return;
        }
        let Some(stream) = self.open.get(&lane.0) else { return };
        if stream.streaming {
            self.push(lane.0, text, true);
            self.count_answer(lane);
        } else if let Some(stream) = self.open.remove(&lane.0) {
            let answer = Frame::Answer { status: 200, text };
            self.out.extend(stream.lane.map(|lane| (lane, answer)));
        }
    }

    /// One of the answers that a POST was owed will not come, or has been given.
    fn count_answer(&mut self, lane: Lane) {
        let Some(stream) = self.open.get_mut(&lane.0) else { return };
        stream.owed = stream.owed.saturating_sub(1);
        if stream.owed == 0 {
            let gone = self.open.remove(&lane.0).and_then(|stream| stream.lane);
            self.out.extend(gone.map(|lane| (lane, Frame::End)));
        }
    }

    /// An event on a stream that has begun: to its lane, and into the history.
    fn push(&mut self, number: u64, text: Bytes, last: bool) {
        let Some(stream) = self.open.get_mut(&number) else { return };
        stream.seq += 1;
        let event = EventId { stream: number, seq: stream.seq };
        let event = self.resumable.then_some(event);
        if let Some(event) = event {
            self.history.push(event, &text, last);
        }
        let frame = Frame::Message { event, text };
        self.out.extend(stream.lane.map(|lane| (lane, frame)));
    }

    /// A GET that wants to hear what belongs to no call.
    fn listen(&mut self, lane: Lane) -> Result<(), Refusal> {
        self.room_for_listener()?;
        // Before what follows at once: a lane that breaks here must not skip it.
        let seq = self.unheard.front().map_or(self.main_seq, |(event, _)| event.seq - 1);
        let event = EventId { stream: MAIN, seq };
        let prime = self.priming.then_some(Prime { event, retry_ms: self.retry_ms });
        self.out.push_back((lane, Frame::Begin { prime }));
        self.unheard_bytes = 0;
        for (event, text) in self.unheard.drain(..) {
            self.out.push_back((lane, Frame::Message { event: Some(event), text }));
        }
        self.listeners.push(lane);
        Ok(())
    }

    /// A GET that takes a stream up again after `last`.
    fn resume(&mut self, lane: Lane, last: &str) -> Result<(), Refusal> {
        let unknown = || Refusal::UnknownEvent { id: last.to_owned() };
        let last = EventId::parse(last).ok_or_else(unknown)?;
        if last.stream == MAIN {
            self.room_for_listener()?;
        }
        let missed: Vec<_> = match self.history.after(last) {
            Some(events) => events.map(|(event, text)| (event, text.clone())).collect(),
            None if self.is_before_first_event(last) => Vec::new(),
            None => return Err(unknown()),
        };
        self.out.push_back((lane, Frame::Begin { prime: None }));
        if last.stream == MAIN {
            self.unheard.clear();
            self.unheard_bytes = 0;
        }
        for (event, text) in missed {
            self.out.push_back((lane, Frame::Message { event: Some(event), text }));
        }
        if last.stream == MAIN {
            self.listeners.push(lane);
        } else if let Some(stream) = self.open.get_mut(&last.stream) {
            // The lane that broke may not have been noticed yet.
            let broken = stream.lane.replace(lane);
            self.out.extend(broken.map(|lane| (lane, Frame::End)));
        } else {
            self.out.push_back((lane, Frame::End));
        }
        Ok(())
    }

    /// Primed, and nothing has been said since: the history does not know the stream yet.
    fn is_before_first_event(&self, last: EventId) -> bool {
        let said = match self.open.get(&last.stream) {
            Some(stream) if !stream.streaming => return false,
            Some(stream) => stream.seq,
            None if last.stream == MAIN => self.main_seq,
            None => return false,
        };
        last.seq == said
    }

    /// The streams of calls are bounded by the calls, so only listeners are counted.
    fn room_for_listener(&self) -> Result<(), Refusal> {
        if self.listeners.len() < self.most { Ok(()) } else { Err(Refusal::TooManyStreams) }
    }

    /// The client, or the network, closed a lane.
    fn closed(&mut self, lane: Lane) {
        self.listeners.retain(|&listener| listener != lane);
        self.open.retain(|_, stream| {
            let is_closed = stream.lane.take_if(|open| *open == lane).is_some();
            stream.streaming || !is_closed
        });
    }

    /// Whether anybody is there to hear what belongs to no call.
    fn is_heard(&self) -> bool {
        self.carrier == Carrier::Pipe || !self.listeners.is_empty()
    }

    /// How many streams somebody reads; a pipe is one.
    fn count(&self) -> usize {
        let is_read = |stream: &&AnswerStream| stream.streaming && stream.lane.is_some();
        match self.carrier {
            Carrier::Pipe => 1,
            Carrier::Http => self.listeners.len() + self.open.values().filter(is_read).count(),
        }
    }

    /// Closes every lane.
    fn end(&mut self) {
        let lanes = self.open.drain().filter_map(|(_, stream)| stream.lane);
        let lanes: Vec<_> = lanes.chain(self.listeners.drain(..)).collect();
        self.out.extend(lanes.into_iter().map(|lane| (lane, Frame::End)));
    }
}

#[cfg(test)]
mod tests;
