//! Questions to a client that cannot be asked: its call is answered with them,
//! kept, and taken up by the retry that brings the answers.
//!
//! ```text
//!          ask, round closed                       retry, state and call agree
//!   open ─────────────────────▶ parked ─────────────────────────────────────────▶ open
//!                                  │ nobody came back in time
//!                                  └──────────────────────────▶ gone: ClientEvent::Drop
//! ```
//!
//! Rules:
//! - Whoever owns the half decides when a round is closed, and seals its state.
//! - A retry must be the same call (MRTR-5), of the round that was asked last, and
//!   repeat in its headers what the first request did (HDR-11).
//! - What a retry leaves unanswered is asked again (MRTR-9).
//! - What is said on a call after a question is told after it.
//! - A call that is answered while its client is away keeps the answer for it.
//! - What a client was told cannot be taken back. If it turns out to be asked on
//!   behalf of another call, the answer is taken from where it was told.
//! - Only what the last request of the call declared is asked for (MRTR-4). What a
//!   retry leaves open and does not declare is refused to who asks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::{Call, Envelope, Frame, ModernServerHalf, stamp};
use crate::exchange::{Ask, ClientEvent, Exchange, Lane};
use crate::header::param;
use crate::jsonrpc::{Id, Member, Message};
use crate::method;
use crate::refusal::Refusal;

/// Questions that one call may have open at once.
const MOST_QUESTIONS: usize = 64;

/// Bytes of them: all are in one answer, and kept until its client is back.
const MOST_QUESTION_BYTES: usize = 8 << 20;

/// What a call has asked, and how often.
#[derive(Debug, Default)]
pub(super) struct Round {
    questions: BTreeMap<String, Question>,
    /// How many rounds were closed; the state of the last one is the valid one.
    number: u32,
    next_key: u32,
}

#[derive(Debug)]
struct Question {
    ask: Ask,
    request: Message,
    /// Its client has been told.
    told: bool,
    /// Nobody waits for its answer.
    moot: bool,
}

/// A call that waits for its client to come back.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) call: Call,
    until: Instant,
    /// It was answered while its client was away.
    answer: Option<Message>,
}

impl Parked {
    /// What is kept for its client.
    fn bytes(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |answer| answer.text().len());
        self.call.request.text().len() + self.call.round.bytes() + answer
    }

    /// Keeps an answer until somebody comes for it. What was asked is moot.
    pub(super) fn keep(&mut self, answer: &Message) {
        self.answer.get_or_insert_with(|| answer.clone());
    }
}

impl ModernServerHalf {
    /// The server needs input for a call. False if this client did not say that it can give it.
    #[must_use]
    pub fn ask(&mut self, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        let Some(exchange) = exchange else { return false };
        if self.was_told(ask) {
            return true;
        }
        let is_open = self.calls.contains_key(&exchange);
        let parked = self.parked.get_mut(&exchange).map(|parked| &mut parked.call);
        let Some(call) = parked.or_else(|| self.calls.get_mut(&exchange)) else { return false };
        let more = call.round.bytes() + request.text().len();
        let full = call.round.questions.len() >= MOST_QUESTIONS || more > MOST_QUESTION_BYTES;
        if full || !method::may_ask(call.request.method()) || !call.permits(request) {
            return false;
        }
        let key = call.round.key_for(request);
        let question = Question { ask, request: request.clone(), told: false, moot: false };
        call.round.questions.insert(key, question);
        if is_open {
            self.due.push_back(exchange);
        }
        true
    }

    /// Whether a client that is away has been asked this already: its answer counts.
    fn was_told(&mut self, ask: Ask) -> bool {
        let parked = self.parked.values_mut().map(|parked| &mut parked.call.round.questions);
        let mut told = parked.flat_map(BTreeMap::values_mut).filter(|it| it.told && it.ask == ask);
        told.next().is_some_and(|question| std::mem::replace(&mut question.moot, false))
    }

    /// The server does not need the input any more.
    pub fn recall(&mut self, ask: Ask) {
        let parked = self.parked.values_mut().map(|parked| &mut parked.call);
        for call in self.calls.values_mut().chain(parked) {
            call.round.questions.retain(|_, question| {
                question.moot |= question.ask == ask;
                !question.moot || question.told
            });
        }
        self.tell_who_is_not_asked();
    }

    /// A call whose questions wait to be put to its client, and the number of
    /// the round: seal both, then close the round.
    pub fn poll_round(&mut self) -> Option<(Exchange, u32)> {
        while let Some(exchange) = self.due.pop_front() {
            self.due.retain(|&other| other != exchange);
            if let Some(call) = self.calls.get(&exchange) {
                return Some((exchange, call.round.number + 1));
            }
        }
        None
    }

    /// Answers a call with its questions, and keeps it until its client comes
    /// back with `state`, or `until`. Not if the round was closed before: each
    /// question wants it closed, and the next round has a state of its own.
    pub fn close_round(&mut self, (exchange, round): (Exchange, u32), state: &str, until: Instant) {
        let Some(call) = self.calls.get(&exchange) else { return };
        if call.round.questions.is_empty() || call.round.number + 1 != round {
            return;
        }
        let Some(mut call) = self.forget(exchange) else { return };
        call.round.number += 1;
        call.round.questions.values_mut().for_each(|question| question.told = true);
        let result = call.round.to_result(state).to_string();
        let answer = self.signed(Message::result(&call.id, result.as_bytes()));
        self.answer(&call, &answer);
        self.parked.insert(exchange, Parked { call, until, answer: None });
    }

    /// How many questions a round has that is still open.
    pub fn questions(&self, (exchange, round): (Exchange, u32)) -> usize {
        let call = self.calls.get(&exchange).filter(|call| call.round.number + 1 == round);
        call.map_or(0, |call| call.round.questions.len())
    }

    /// A request arrived that brings back the state of a parked call.
    pub fn handle_retry(
        &mut self,
        (exchange, round): (Exchange, u32),
        lane: Lane,
        request: &Message,
        headers: Option<&HeaderMap>,
    ) {
        if let Some(why) = self.objection(request, headers) {
            return self.refuse(lane, request.id(), &why);
        }
        let fits = |parked: &&Parked| {
            parked.call.round.number == round && is_same_call(&parked.call.request, request)
        };
        let Some(parked) = self.parked.get(&exchange).filter(fits) else {
            return self.refuse(lane, request.id(), &Refusal::BadState);
        };
        // Who knows the tool saw the first request only.
        let again = headers.map(|headers| param::check_again(&parked.call.said, headers));
        if let Some(Err(mismatch)) = again {
            let why = Refusal::HeaderMismatch { what: mismatch.to_string() };
            return self.refuse(lane, request.id(), &why);
        }
        let Some(Parked { mut call, answer, .. }) = self.parked.remove(&exchange) else { return };
        let Some(id) = request.id().cloned() else { return };
        call.id = id.clone();
        call.lane = lane;
        call.streaming = false;
        call.retry = Some(Envelope::read(request));
        if answer.is_none() {
            self.up.push_back(ClientEvent::Again { exchange, request: request.clone() });
        }
        for (ask, answer) in call.round.take_answers(request) {
            self.up.push_back(ClientEvent::Supply { ask, answer });
        }
        let open = std::mem::take(&mut call.round.questions).into_iter();
        let may_ask = |question: &Question| answer.is_none() && call.permits(&question.request);
        let (asked, refused) = open.partition(|(_, question)| may_ask(question));
        call.round.questions = asked;
        self.refuse_asks(&refused);
        if call.round.is_asking() {
            self.due.push_back(exchange);
        }
        self.by_id.insert(id, exchange);
        self.calls.insert(exchange, call);
        self.tell_held(exchange);
        if let Some(answer) = answer {
            self.finish(exchange, &answer);
        }
    }

    /// Time has reached `now`: who has not come back will not.
    pub fn handle_timeout(&mut self, now: Instant) {
        let gone = self.parked.iter().filter(|(_, parked)| parked.until <= now);
        for exchange in gone.map(|(&exchange, _)| exchange).collect::<Vec<_>>() {
            if let Some(parked) = self.parked.remove(&exchange) {
                self.give_up(exchange, &parked);
            }
        }
    }

    /// Nobody comes back for a call.
    fn give_up(&mut self, exchange: Exchange, parked: &Parked) {
        match parked.answer {
            Some(_) => self.refuse_asks(&parked.call.round.questions),
            None => self.up.push_back(ClientEvent::Drop { exchange, message: None }),
        }
    }

    /// The client will not be asked this, or not again, but somebody may wait for the answers.
    fn refuse_asks(&mut self, questions: &BTreeMap<String, Question>) {
        let answer = Message::refusal(None, &Refusal::NobodyToAsk);
        for question in questions.values().filter(|question| !question.moot) {
            self.up.push_back(ClientEvent::Supply { ask: question.ask, answer: answer.clone() });
        }
    }

    /// The client will not come back for anything.
    pub fn handle_silence(&mut self) {
        for (exchange, parked) in std::mem::take(&mut self.parked) {
            self.give_up(exchange, &parked);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.parked.values().map(|parked| parked.until).min()
    }

    /// How many calls wait for their client.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// The bytes that are kept for them.
    pub fn parked_bytes(&self) -> usize {
        self.parked.values().map(Parked::bytes).sum()
    }
}

impl Round {
    fn bytes(&self) -> usize {
        self.questions.values().map(|question| question.request.text().len()).sum()
    }

    /// Whether the call waits for its client.
    pub(super) fn is_asking(&self) -> bool {
        !self.questions.is_empty()
    }

    /// What the client knows a question by: the name that the server gave it as
    /// its id, if that is free; else one of ours.
    fn key_for(&mut self, request: &Message) -> String {
        if let Some(Id::Text(name)) = request.id()
            && !self.questions.contains_key(&**name)
        {
            return name.to_string();
        }
        loop {
            self.next_key += 1;
            let key = format!("q{}", self.next_key);
            if !self.questions.contains_key(&key) {
                return key;
            }
        }
    }

    fn to_result(&self, state: &str) -> Value {
        let questions = self.questions.iter().map(|(key, question)| {
            let mut entry = Map::new();
            entry.insert("method".to_owned(), question.request.method().into());
            if question.request.payload().is_some() {
                let params = question.request.payload_value().unwrap_or_default();
                entry.insert("params".to_owned(), params);
            }
            (key.clone(), Value::Object(entry))
        });
        let questions: Map<_, _> = questions.collect();
        json!({"resultType": "input_required", "inputRequests": questions, "requestState": state})
    }

    /// The answers that a retry brings to what was asked; other keys are ignored.
    fn take_answers(&mut self, request: &Message) -> Vec<(Ask, Message)> {
        let mut answers = Vec::new();
        self.questions.retain(|key, question| {
            let answer = request.inside(Member::InputResponses, &[key]);
            // Anything but an object is no answer, and is asked for again.
            let answer = answer.filter(|answer| answer.is_object());
            let is_over = question.moot || answer.is_some();
            question.told = false;
            if let Some(answer) = answer.filter(|_| !question.moot) {
                answers.push((question.ask, Message::result(&Id::from(0), answer.text())));
            }
            !is_over
        });
        answers
    }
}

/// Whether a retry is the call it claims to be: same method, same params but
/// for what a retry adds and what describes the single request.
fn is_same_call(first: &Message, retry: &Message) -> bool {
    let essence = |message: &Message| {
        if message.payload().is_none() {
            return json!({});
        }
        let mut params = message.payload_value().unwrap_or_default();
        if let Some(params) = params.as_object_mut() {
            for added in [Member::Meta, Member::InputResponses, Member::RequestState] {
                params.remove(added.key());
            }
        }
        params
    };
    first.method() == retry.method() && essence(first) == essence(retry)
}

// Notifications that come after a question wait until the retry that brings the answer.
// Sent before, they would arrive together with the question, in an answer that clients take
// for the end of the call. Sent while the client is away, they would be lost.

/// Bytes that are kept for one call; the oldest go first, as the newest tell how
/// far it got.
const MOST_HELD_BYTES: usize = 64 << 10;

/// Counted for each besides its text, so that short ones have a bound as well.
const HELD_OVERHEAD: usize = 128;

/// Notifications that wait for their client, oldest first.
#[derive(Debug, Default)]
pub(super) struct Held {
    notes: VecDeque<Message>,
    bytes: usize,
}

impl Held {
    fn push(&mut self, note: Message) {
        self.bytes += weight(&note);
        self.notes.push_back(note);
        while self.bytes > MOST_HELD_BYTES
            && let Some(oldest) = self.notes.pop_front()
        {
            self.bytes -= weight(&oldest);
        }
    }
}

fn weight(note: &Message) -> usize {
    note.text().len() + HELD_OVERHEAD
}

impl ModernServerHalf {
    /// Something on the way, for a call. What belongs to none is not said.
    pub fn note(&mut self, exchange: Option<Exchange>, message: &Message) {
        let Some(exchange) = exchange else { return };
        let is_open = self.calls.contains_key(&exchange);
        let parked = self.parked.get_mut(&exchange).map(|parked| &mut parked.call);
        let Some(call) = parked.or_else(|| self.calls.get_mut(&exchange)) else { return };
        if is_open && !call.round.is_asking() {
            self.tell(exchange, message);
        } else {
            call.held.push(message.clone());
        }
    }

    /// Tells the client of an open call what was held back for it.
    pub(super) fn tell_held(&mut self, exchange: Exchange) {
        let held = self.calls.get_mut(&exchange).map(|call| std::mem::take(&mut call.held));
        for note in held.into_iter().flat_map(|held| held.notes) {
            self.tell(exchange, &note);
        }
    }

    /// The same for all calls that have no question any more.
    pub(super) fn tell_who_is_not_asked(&mut self) {
        let is_due = |call: &Call| !call.held.notes.is_empty() && !call.round.is_asking();
        let due = self.calls.iter().filter(|(_, call)| is_due(call));
        for exchange in due.map(|(&exchange, _)| exchange).collect::<Vec<_>>() {
            self.tell_held(exchange);
        }
    }

    fn tell(&mut self, exchange: Exchange, message: &Message) {
        let Some(call) = self.calls.get(&exchange) else { return };
        if call.listens && matches!(message.method(), method::PROGRESS | method::LOG) {
            return;
        }
        let Some(message) = call.in_its_words(message) else { return };
        let (lane, text) = (call.lane, stamp(&message, &call.id).text().clone());
        self.begin_stream(lane);
        self.out.push_back((lane, Frame::Message { event: None, text }));
    }
}

#[cfg(test)]
mod tests;
