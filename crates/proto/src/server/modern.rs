//! A client of the era without a handshake.
//!
//! ```text
//!            request, envelope sound             finish
//!   (none) ────────────────────────▶ open ───────────────────▶ gone
//!     │                                │ ask: parked, until the retry (below)
//!     └─ refused: answered at once     └─ lane closed, cancelled: ClientEvent::Drop
//! ```
//!
//! Rules:
//! - Each request stands alone; nothing is remembered from one to the next (MOD-2).
//! - No request is sent to the client and none of its messages is an answer (MOD-1).
//! - What belongs to no call is not said (SUB-2).
//! - On HTTP a closed lane cancels (MH-9); on a pipe a notification does (CAN-2).

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::Frame;
use crate::Table;
use crate::exchange::{Ask, Carrier, ClientEvent, Exchange, Lane, take_number};
use crate::header::{Header, Mirror, PARAM_PREFIX, param};
use crate::jsonrpc::{Id, InvalidMessage, Kind, Member, Message};
use crate::limits::Limits;
use crate::method::{self, meta};
use crate::project;
use crate::refusal::{Refusal, status_of_error};
use crate::revision::{Era, Revision};

/// One modern client on a pipe, or one POST of it.
#[derive(Debug)]
pub struct ModernServerHalf {
    carrier: Carrier,
    most_calls: usize,
    /// Who answers, as JSON: for the results that are made here (MOD-7).
    server: Option<Bytes>,
    next_exchange: u64,
    calls: Table<Exchange, ModernCall>,
    by_id: Table<Id, Exchange>,
    parked: BTreeMap<Exchange, ParkedRequest>,
    /// Calls with questions that have not been put to the client.
    due: VecDeque<Exchange>,
    out: VecDeque<(Lane, Frame)>,
    to_server: VecDeque<ClientEvent>,
}

#[derive(Debug)]
struct ModernCall {
    id: Id,
    lane: Lane,
    listens: bool,
    streaming: bool,
    /// As it came first.
    request: Message,
    /// The arguments that it repeated as headers.
    said: Vec<Header>,
    round: QuestionRound,
    /// What its client said of itself the last time it came back with input.
    retry: Option<RetryEnvelope>,
    held: HeldNotes,
}

impl ModernServerHalf {
    /// A client that has asked for nothing yet.
    pub fn new(carrier: Carrier, limits: &Limits) -> Self {
        Self {
            carrier,
            most_calls: limits.calls,
            server: None,
            next_exchange: 1,
            calls: Table::default(),
            by_id: Table::default(),
            parked: BTreeMap::new(),
            due: VecDeque::new(),
            out: VecDeque::new(),
            to_server: VecDeque::new(),
        }
    }

    /// Says who answers, as a JSON object: results that are made here name it.
    pub fn introduce(&mut self, server: Bytes) {
        self.server = Some(server);
    }

    /// A message arrived on `lane`; with its headers, if it came over HTTP.
    pub fn handle_message(&mut self, lane: Lane, message: Message, headers: Option<&HeaderMap>) {
        let request = match message.kind() {
            Kind::Request => message,
            Kind::Notification => return self.handle_notification(lane, message),
            // On a pipe an error about an error could go back and forth for ever.
            Kind::Result | Kind::Error if self.carrier == Carrier::Pipe => return,
            Kind::Result | Kind::Error => {
                return self.refuse(lane, None, &Refusal::UnaskedResponse);
            }
        };
        let is_full = self.calls.len() + self.parked.len() >= self.most_calls;
        let checked = self.check(&request, headers);
        let checked = checked.and(if is_full { Err(Refusal::TooManyCalls) } else { Ok(()) });
        if let Err(why) = checked {
            return self.refuse(lane, request.id(), &why);
        }
        let Some(id) = request.id().cloned() else { return };
        let said = headers.map(param_headers);
        let exchange = Exchange(take_number(&mut self.next_exchange));
        self.by_id.insert(id.clone(), exchange);
        let call = ModernCall {
            id,
            lane,
            listens: request.method() == method::LISTEN,
            streaming: false,
            request: request.clone(),
            said: said.clone().unwrap_or_default(),
            round: QuestionRound::default(),
            retry: None,
            held: HeldNotes::default(),
        };
        self.calls.insert(exchange, call);
        self.to_server.push_back(ClientEvent::Open { exchange, request, said });
    }

    fn handle_notification(&mut self, lane: Lane, message: Message) {
        if message.method() != method::CANCELLED {
            self.to_server.push_back(ClientEvent::Note { message });
        } else if self.carrier == Carrier::Pipe {
            self.handle_cancel(message);
        }
        if self.carrier == Carrier::Http {
            self.out.push_back((lane, Frame::Accepted));
        }
    }

    /// Something arrived on `lane` that is no message.
    pub fn handle_refused(&mut self, lane: Lane, refused: &InvalidMessage) {
        self.refuse(lane, refused.id.as_ref(), &refused.why);
    }

    /// The inside does not take a call, before it has begun with it (MH-14).
    pub fn turn_away(&mut self, exchange: Exchange, why: &Refusal) {
        if let Some(call) = self.forget(exchange) {
            self.refuse(call.lane, Some(&call.id), why);
        }
    }

    /// Whether a request can be taken, or why not: in the order of 3.6, steps 8 to 11.
    fn check(&self, request: &Message, headers: Option<&HeaderMap>) -> Result<(), Refusal> {
        let version = check_envelope(request)?;
        // What `Mcp-Name` repeats, if the method has such a member.
        let name = request.mirrored();
        if let (Some(member), None) = (method::named_by(request.method()), &name) {
            let what = format!("params.{} must be a string", member.key());
            return Err(Refusal::BadEnvelope { what });
        }
        if let Some(headers) = headers {
            let (method, name) = (request.method(), name.as_deref());
            Mirror { version: &version, method, name }.check(headers)?;
        }
        if Revision::parse(&version).is_none_or(|revision| revision.era() != Era::Modern) {
            return Err(Refusal::UnknownRevision { asked: version });
        }
        if method::is_legacy_only(request.method()) {
            return Err(Refusal::unknown_method(request.method()));
        }
        let in_use = request.id().filter(|id| self.by_id.contains_key(id));
        in_use.map_or(Ok(()), |id| Err(Refusal::IdInUse { id: id.to_string() }))
    }

    fn handle_cancel(&mut self, message: Message) {
        let id = message.id_in(Member::RequestId);
        let Some(&exchange) = id.and_then(|id| self.by_id.get(&id)) else { return };
        self.forget(exchange);
        self.to_server.push_back(ClientEvent::Drop { exchange, message: Some(message) });
    }

    /// Whether a call is open under this id.
    pub fn knows(&self, id: &Id) -> bool {
        self.by_id.contains_key(id)
    }

    /// A lane was closed from outside: its call is cancelled.
    pub fn handle_closed(&mut self, lane: Lane) {
        let gone = self.calls.iter().filter(|(_, call)| call.lane == lane);
        for exchange in gone.map(|(&exchange, _)| exchange).collect::<Vec<_>>() {
            self.forget(exchange);
            self.to_server.push_back(ClientEvent::Drop { exchange, message: None });
        }
    }

    /// The answer takes its time: show a stream that can be kept alive.
    pub fn begin_stream(&mut self, lane: Lane) {
        let call = self.calls.values_mut().find(|call| call.lane == lane && !call.streaming);
        if let (Some(call), Carrier::Http) = (call, self.carrier) {
            call.streaming = true;
            self.out.push_back((lane, Frame::Begin { prime: None }));
        }
    }

    /// The answer to a call. Ignored if the call is over.
    pub fn finish(&mut self, exchange: Exchange, answer: &Message) {
        if let Some(parked) = self.parked.get_mut(&exchange) {
            // It is kept until somebody comes for it. What was asked is moot.
            parked.answer.get_or_insert_with(|| answer.clone());
            return;
        }
        self.tell_held(exchange);
        if let Some(call) = self.forget(exchange) {
            self.answer(&call, answer);
        }
    }

    fn answer(&mut self, call: &ModernCall, answer: &Message) {
        let own = answer.with_id(&call.id);
        let own = if call.listens { stamp(&own, &call.id) } else { own };
        let text = own.text().clone();
        if self.carrier == Carrier::Http && !call.streaming {
            let status = answer.error_code().map_or(200, status_of_error);
            self.out.push_back((call.lane, Frame::Answer { status, text }));
            return;
        }
        self.out.push_back((call.lane, Frame::Message { event: None, text }));
        if self.carrier == Carrier::Http {
            self.out.push_back((call.lane, Frame::End));
        }
    }

    fn forget(&mut self, exchange: Exchange) -> Option<ModernCall> {
        let call = self.calls.remove(&exchange)?;
        self.by_id.remove(&call.id);
        Some(call)
    }

    /// The conversation is over: each listen gets its result (SUB-8), and every lane closes.
    pub fn end(&mut self) {
        self.by_id.clear();
        self.parked.clear();
        for (_, call) in std::mem::take(&mut self.calls) {
            if call.listens {
                let over = Message::result(&call.id, &listen_over(&call.id.to_string()));
                let text = self.signed(over).text().clone();
                if self.carrier == Carrier::Http && !call.streaming {
                    self.out.push_back((call.lane, Frame::Begin { prime: None }));
                }
                self.out.push_back((call.lane, Frame::Message { event: None, text }));
            }
            if self.carrier == Carrier::Http {
                self.out.push_back((call.lane, Frame::End));
            }
        }
    }

    /// A result of ours with the name of the server, if it is known.
    fn signed(&self, result: Message) -> Message {
        match &self.server {
            Some(server) => result.with(Member::MetaServer, server.clone()),
            None => result,
        }
    }

    fn refuse(&mut self, lane: Lane, id: Option<&Id>, why: &Refusal) {
        let text = Message::refusal(id, why).text().clone();
        self.out.push_back(match self.carrier {
            Carrier::Pipe => (lane, Frame::Message { event: None, text }),
            Carrier::Http => (lane, Frame::Answer { status: why.http_status(), text }),
        });
    }

    /// What to do on which lane, oldest first.
    pub fn poll_transmit(&mut self) -> Option<(Lane, Frame)> {
        self.out.pop_front()
    }

    /// What the client wants, oldest first.
    pub fn poll_to_server(&mut self) -> Option<ClientEvent> {
        self.to_server.pop_front()
    }

    /// How many calls are open that are no listens.
    pub fn owed(&self) -> usize {
        self.calls.values().filter(|call| !call.listens).count()
    }

    /// The calls that are open and no listens, oldest first.
    pub fn owed_calls(&self) -> Vec<Exchange> {
        let owed = self.calls.iter().filter(|(_, call)| !call.listens);
        let mut owed: Vec<_> = owed.map(|(&exchange, _)| exchange).collect();
        owed.sort_unstable();
        owed
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }
}

/// The arguments that the client repeated as headers, as it wrote them.
fn param_headers(headers: &HeaderMap) -> Vec<Header> {
    let params = headers.iter().filter(|(name, _)| name.as_str().starts_with(PARAM_PREFIX));
    params.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Notifications and the result of a listen name it by the client's own id (SUB-4).
fn stamp(message: &Message, id: &Id) -> Message {
    if message.kind() == Kind::Error || !message.has(Member::MetaSubscription) {
        return message.clone();
    }
    message.with(Member::MetaSubscription, id.to_string())
}

/// The result of a listen that was known by `id`, which is JSON.
pub(crate) fn listen_over(id: &str) -> Vec<u8> {
    format!(r#"{{"resultType":"complete","_meta":{{"{}":{id}}}}}"#, meta::SUBSCRIPTION).into_bytes()
}

/// What a retry says of itself besides its call: what its client can do, and what it
/// wants to hear on the way. Each request speaks for itself (META-3), a retry too: from
/// then on its call is served by what the retry says.
#[derive(Debug)]
struct RetryEnvelope {
    capabilities: Box<[u8]>,
    /// What progress goes by, if it is wanted.
    token: Option<Bytes>,
    /// The least grave log records that are wanted, if any are (LOG-1).
    level: Option<usize>,
}

impl RetryEnvelope {
    fn read(retry: &Message) -> Self {
        Self {
            capabilities: retry.get(Member::MetaCapabilities).unwrap_or_default().into(),
            token: retry.get(Member::MetaProgressToken).map(Bytes::copy_from_slice),
            level: method::wanted_severity(retry),
        }
    }
}

impl ModernCall {
    /// Whether the last request of its client declares that it can answer this.
    fn permits(&self, question: &Message) -> bool {
        let declared = self.retry.as_ref().map(|retry| &*retry.capabilities);
        let declared = declared.or_else(|| self.request.get(Member::MetaCapabilities));
        let params = question.payload().unwrap_or_default();
        project::permits(declared.unwrap_or_default(), question.method(), params)
    }

    /// A notification as the last request of its client wants it: progress under the
    /// token it brought, or not at all (GW-55); log records of the level it named
    /// (LOG-1). Whoever answers has seen the first request, and a retry of it not.
    fn in_its_words(&self, message: &Message) -> Option<Message> {
        let Some(retry) = &self.retry else { return Some(message.clone()) };
        match message.method() {
            method::PROGRESS if !message.has(Member::ProgressToken) => None,
            method::PROGRESS => Some(message.with(Member::ProgressToken, retry.token.clone()?)),
            method::LOG if !method::is_grave(message, retry.level?) => None,
            _ => Some(message.clone()),
        }
    }
}

/// Both required members of the envelope, each of its type (META-1).
fn check_envelope(request: &Message) -> Result<String, Refusal> {
    let broken = |member: Member, how: &str| Refusal::BadEnvelope {
        what: format!("params._meta: {} {how}", member.key()),
    };
    let find = |member| request.part(member).ok_or_else(|| broken(member, "is missing"));
    let version = find(Member::MetaVersion)?.as_string();
    let version = version.ok_or_else(|| broken(Member::MetaVersion, "must be a string"))?;
    if !find(Member::MetaCapabilities)?.is_object() {
        return Err(broken(Member::MetaCapabilities, "must be an object"));
    }
    Ok(version.into_owned())
}

// Questions to a client that cannot be asked: its call is answered with them,
// kept, and taken up by the retry that brings the answers.
//
// ```text
//          ask, round closed                       retry, state and call agree
//   open ─────────────────────▶ parked ─────────────────────────────────────────▶ open
//                                  │ nobody came back in time
//                                  └──────────────────────────▶ gone: ClientEvent::Drop
// ```
//
// Rules:
// - Whoever owns the half decides when a round is closed, and seals its state.
// - A retry must be the same call (MRTR-5), of the round that was asked last, and
//   repeat in its headers what the first request did (HDR-11).
// - What a retry leaves unanswered is asked again (MRTR-9).
// - What is said on a call after a question is told after it.
// - A call that is answered while its client is away keeps the answer for it.
// - What a client was told cannot be taken back. If it turns out to be asked on
//   behalf of another call, the answer is taken from where it was told.
// - Only what the last request of the call declared is asked for (MRTR-4). What a
//   retry leaves open and does not declare is refused to who asks.

/// Questions that one call may have open at once.
const MOST_QUESTIONS: usize = 64;

/// Bytes of them: all are in one answer, and kept until its client is back.
const MOST_QUESTION_BYTES: usize = 8 << 20;

/// What a call has asked, and how often.
#[derive(Debug, Default)]
struct QuestionRound {
    questions: BTreeMap<String, ParkedQuestion>,
    /// How many rounds were closed; the state of the last one is the valid one.
    number: u32,
    next_key: u32,
}

#[derive(Debug)]
struct ParkedQuestion {
    ask: Ask,
    request: Message,
    /// Its client has been told.
    told: bool,
    /// Nobody waits for its answer.
    moot: bool,
}

/// A call that waits for its client to come back.
#[derive(Debug)]
struct ParkedRequest {
    call: ModernCall,
    until: Instant,
    /// It was answered while its client was away.
    answer: Option<Message>,
}

impl ParkedRequest {
    /// What is kept for its client.
    fn bytes(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |answer| answer.text().len());
        self.call.request.text().len() + self.call.round.bytes() + answer
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
        let Some(call) = self.call_mut(exchange) else { return false };
        let more = call.round.bytes() + request.text().len();
        let full = call.round.questions.len() >= MOST_QUESTIONS || more > MOST_QUESTION_BYTES;
        if full || !method::may_ask(call.request.method()) || !call.permits(request) {
            return false;
        }
        let key = call.round.key_for(request);
        let question = ParkedQuestion { ask, request: request.clone(), told: false, moot: false };
        call.round.questions.insert(key, question);
        if is_open {
            self.due.push_back(exchange);
        }
        true
    }

    /// A call that is open, or waits for its client.
    fn call_mut(&mut self, exchange: Exchange) -> Option<&mut ModernCall> {
        let parked = self.parked.get_mut(&exchange).map(|parked| &mut parked.call);
        parked.or_else(|| self.calls.get_mut(&exchange))
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
        let is_due = |call: &ModernCall| !call.held.notes.is_empty() && !call.round.is_asking();
        let due = self.calls.iter().filter(|(_, call)| is_due(call));
        for exchange in due.map(|(&exchange, _)| exchange).collect::<Vec<_>>() {
            self.tell_held(exchange);
        }
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
        self.parked.insert(exchange, ParkedRequest { call, until, answer: None });
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
        if let Err(why) = self.check(request, headers) {
            return self.refuse(lane, request.id(), &why);
        }
        let fits = |parked: &&ParkedRequest| {
            parked.call.round.number == round && is_same_call(&parked.call.request, request)
        };
        let Some(parked) = self.parked.get(&exchange).filter(fits) else {
            return self.refuse(lane, request.id(), &Refusal::BadState);
        };
        // Who knows the tool saw the first request only.
        let again = headers.map(|headers| param::check_again(&parked.call.said, headers));
        if let Some(Err(mismatch)) = again {
            return self.refuse(lane, request.id(), &mismatch.into());
        }
        let Some(ParkedRequest { mut call, answer, .. }) = self.parked.remove(&exchange) else {
            return;
        };
        let Some(id) = request.id().cloned() else { return };
        call.id = id.clone();
        call.lane = lane;
        call.streaming = false;
        call.retry = Some(RetryEnvelope::read(request));
        if answer.is_none() {
            self.to_server.push_back(ClientEvent::Again { exchange, request: request.clone() });
        }
        for (ask, answer) in call.round.take_answers(request) {
            self.to_server.push_back(ClientEvent::Supply { ask, answer });
        }
        let open = std::mem::take(&mut call.round.questions).into_iter();
        let may_ask = |it: &ParkedQuestion| answer.is_none() && call.permits(&it.request);
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
        let gone = self.parked.extract_if(.., |_, parked| parked.until <= now);
        for (exchange, parked) in gone.collect::<Vec<_>>() {
            self.give_up(exchange, &parked);
        }
    }

    /// Nobody comes back for a call.
    fn give_up(&mut self, exchange: Exchange, parked: &ParkedRequest) {
        match parked.answer {
            Some(_) => self.refuse_asks(&parked.call.round.questions),
            None => self.to_server.push_back(ClientEvent::Drop { exchange, message: None }),
        }
    }

    /// The client will not be asked this, or not again, but somebody may wait for the answers.
    fn refuse_asks(&mut self, questions: &BTreeMap<String, ParkedQuestion>) {
        let answer = Message::refusal(None, &Refusal::NobodyToAsk);
        for question in questions.values().filter(|question| !question.moot) {
            self.to_server
                .push_back(ClientEvent::Supply { ask: question.ask, answer: answer.clone() });
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
        self.parked.values().map(ParkedRequest::bytes).sum()
    }
}

impl QuestionRound {
    fn bytes(&self) -> usize {
        self.questions.values().map(|question| question.request.text().len()).sum()
    }

    /// Whether the call waits for its client.
    fn is_asking(&self) -> bool {
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
            let mut entry = json!({"method": question.request.method()});
            if question.request.payload().is_some() {
                entry["params"] = question.request.payload_value().unwrap_or_default();
            }
            (key.clone(), entry)
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
struct HeldNotes {
    notes: VecDeque<Message>,
    bytes: usize,
}

impl HeldNotes {
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
        let Some(call) = self.call_mut(exchange) else { return };
        if is_open && !call.round.is_asking() {
            self.tell(exchange, message);
        } else {
            call.held.push(message.clone());
        }
    }

    /// Tells the client of an open call what was held back for it.
    fn tell_held(&mut self, exchange: Exchange) {
        let held = self.calls.get_mut(&exchange).map(|call| std::mem::take(&mut call.held));
        for note in held.into_iter().flat_map(|held| held.notes) {
            self.tell(exchange, &note);
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
