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

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::Frame;
use super::streams::Streams;
use crate::exchange::{Ask, Carrier, ClientEvent, Exchange, Lane};
use crate::jsonrpc::{Id, Incoming, InvalidMessage, Kind, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::watch::Watches;
use abilities::SELF;

pub(crate) use abilities::covers;

mod abilities;

/// One legacy client: a session, a stdio peer, or an HTTP+SSE stream.
#[derive(Debug)]
pub struct LegacyServerHalf {
    phase: Phase,
    revision: Revision,
    most_calls: usize,
    most_asks: usize,
    next_exchange: u64,
    calls: BTreeMap<Exchange, Call>,
    by_id: HashMap<Id, Exchange>,
    /// Calls that were cancelled, and whether an answer may still come. As many as
    /// there may be calls.
    cancelled: BTreeMap<Exchange, (Call, bool)>,
    next_ask: u64,
    asks: HashMap<u64, Asked>,
    /// The questions that it said it can be asked.
    able: Vec<&'static str>,
    /// Resources this client watches; others' updates are not for it.
    watched: Watches,
    only_watched: bool,
    /// It has no session.
    bare: bool,
    streams: Streams,
    /// `initialized` came while `initialize` was still with the backend.
    confirmed: bool,
    up: VecDeque<ClientEvent>,
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
struct Call {
    id: Id,
    lane: Lane,
    greets: bool,
    /// The resource that it asks to be watched.
    watch: Option<Box<str>>,
}

#[derive(Debug)]
struct Asked {
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
            by_id: HashMap::new(),
            cancelled: BTreeMap::new(),
            next_ask: 1,
            asks: HashMap::new(),
            able: Vec::new(),
            watched: Watches::default(),
            only_watched: false,
            bare: false,
            streams: Streams::new(carrier, limits),
            confirmed: false,
            up: VecDeque::new(),
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
            return self.refuse(lane, id.as_ref(), &Refusal::SessionOver);
        }
        match incoming {
            Incoming::One(message) => {
                self.streams.expect_for(lane, &message);
                self.handle_message(lane, message);
            }
            Incoming::Batch(elements) => self.handle_batch(lane, elements),
        }
    }

    fn handle_batch(&mut self, lane: Lane, elements: Vec<Result<Message, InvalidMessage>>) {
        let greets =
            |e: &Result<Message, _>| e.as_ref().is_ok_and(|m| m.method() == method::INITIALIZE);
        let why = if self.phase != Phase::Fresh && !self.revision.rules().batches {
            Some(Refusal::NoBatches { era: self.revision.era() })
        } else if elements.iter().any(greets) {
            Some(Refusal::BadBatch { why: "initialize must come alone" })
        } else {
            None
        };
        if let Some(why) = why {
            return self.refuse(lane, None, &why);
        }
        let asks = |e: &Result<Message, InvalidMessage>| match e {
            Ok(message) => message.kind() == Kind::Request,
            Err(_) => true,
        };
        self.streams.expect(lane, elements.iter().filter(|e| asks(e)).count());
        for element in elements {
            match element {
                Ok(message) => self.handle_message(lane, message),
                Err(refused) => {
                    let answer = Message::refusal(refused.id.as_ref(), &refused.why);
                    self.streams.answer(lane, answer.text().clone());
                }
            }
        }
    }

    /// Something arrived on `lane` that is no message.
    pub fn handle_refused(&mut self, lane: Lane, refused: &InvalidMessage) {
        self.refuse(lane, refused.id.as_ref(), &refused.why);
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
            let answer = Message::refusal(Some(&id), &why);
            return self.streams.answer(lane, answer.text().clone());
        }
        if let Some(why) = self.objection(&id, &request) {
            let answer = Message::refusal(Some(&id), &why);
            return self.streams.turn_away(lane, why.http_status(), answer.text().clone());
        }
        if self.phase == Phase::Fresh && request.method() == method::PING {
            let answer = Message::result(&id, b"{}");
            return self.streams.answer(lane, answer.text().clone());
        }
        if greets {
            self.phase = Phase::Greeting;
            self.note_greeting(&request);
        }
        self.end_cancelled_under(&id);
        let exchange = Exchange(self.next_exchange);
        self.next_exchange += 1;
        self.by_id.insert(id.clone(), exchange);
        let watch = self.note_watching(exchange, &request);
        self.calls.insert(exchange, Call { id, lane, greets, watch });
        let request = self.for_server(request);
        self.up.push_back(ClientEvent::Open { exchange, request, said: None });
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
            _ => self.up.push_back(ClientEvent::Note { message }),
        }
    }

    /// The client gave up on a call. `initialize` cannot be cancelled (UTL-1).
    fn handle_cancel(&mut self, message: Message) {
        let Some(&exchange) = message.cancelled_id().and_then(|id| self.by_id.get(&id)) else {
            return;
        };
        if self.calls.get(&exchange).is_some_and(|call| call.greets) {
            return;
        }
        if let Some(call) = self.forget(exchange, false) {
            self.cancelled.insert(exchange, (call, false));
            self.up.push_back(ClientEvent::Drop { exchange, message: Some(message) });
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
        self.streams.send(lane, message.text().clone());
    }

    /// The answer to a call. Ignored if the call is over.
    pub fn finish(&mut self, exchange: Exchange, answer: &Message) {
        let call = self.forget(exchange, answer.kind() == Kind::Result);
        let cancelled = || self.cancelled.remove(&exchange).map(|(call, _)| call);
        let Some(call) = call.or_else(cancelled) else { return };
        if call.greets {
            self.handle_greeted(answer);
            let welcome = self.for_client(answer).with_id(&call.id);
            return self.streams.answer(call.lane, welcome.text().clone());
        }
        self.streams.answer(call.lane, answer.with_id(&call.id).text().clone());
    }

    /// The client confirms; some do before they have the answer, which says the same.
    fn handle_initialized(&mut self, message: Message) {
        match self.phase {
            Phase::AwaitingInitialized => self.phase = Phase::Ready,
            Phase::Greeting if !self.confirmed => self.confirmed = true,
            _ => return,
        }
        self.up.push_back(ClientEvent::Note { message });
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
        self.streams.set_priming(self.revision.rules().priming);
        self.phase = if confirmed { Phase::Ready } else { Phase::AwaitingInitialized };
    }

    fn forget(&mut self, exchange: Exchange, is_granted: bool) -> Option<Call> {
        let call = self.calls.remove(&exchange)?;
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
            let why = Refusal::SessionOver;
            let answer = Message::refusal(Some(&call.id), &why);
            self.streams.abandon(call.lane, why.http_status(), answer.text().clone());
        }
        self.cancelled.clear();
        self.streams.end();
        self.by_id.clear();
        self.asks.clear();
    }

    fn refuse(&mut self, lane: Lane, id: Option<&Id>, why: &Refusal) {
        let answer = Message::refusal(id, why);
        self.streams.refuse(lane, why.http_status(), answer.text().clone());
    }

    /// What to do on which lane, oldest first.
    pub fn poll_transmit(&mut self) -> Option<(Lane, Frame)> {
        self.streams.poll()
    }

    /// What the client wants, oldest first.
    pub fn poll_up(&mut self) -> Option<ClientEvent> {
        self.up.pop_front()
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

    /// The client uses an id again: a late answer would be taken for another.
    fn end_cancelled_under(&mut self, id: &Id) {
        let same = self.cancelled.iter().find(|(_, (call, _))| call.id == *id);
        if let Some(exchange) = same.map(|(&exchange, _)| exchange) {
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
        !self.calls.is_empty() || self.streams.is_attached()
    }

    /// Bytes kept for a client that comes back to a stream, or opens one.
    pub fn history_bytes(&self) -> usize {
        self.streams.history_bytes()
    }

    /// Keeps none of them; returns how many there were.
    pub fn forget_history(&mut self) -> usize {
        self.streams.forget_history()
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
    message.protocol_version().map_or(Revision::ASSUMED, |name| Revision::legacy_at_most(&name))
}

#[cfg(test)]
mod tests;
