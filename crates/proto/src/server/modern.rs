//! A client of the era without a handshake.
//!
//! ```text
//!            request, envelope sound             finish
//!   (none) ────────────────────────▶ open ───────────────────▶ gone
//!     │                                │ ask: parked, until the retry (park.rs)
//!     └─ refused: answered at once     └─ lane closed, cancelled: ClientEvent::Drop
//! ```
//!
//! Rules:
//! - Each request stands alone; nothing is remembered from one to the next (MOD-2).
//! - No request is sent to the client and none of its messages is an answer (MOD-1).
//! - What belongs to no call is not said (SUB-2).
//! - On HTTP a closed lane cancels (MH-9); on a pipe a notification does (CAN-2).

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Frame;
use crate::exchange::{Carrier, ClientEvent, Exchange, HeaderParams, Lane};
use crate::header::{Mirror, PARAM_PREFIX};
use crate::jsonrpc::{Id, InvalidMessage, Kind, Member, Message};
use crate::limits::Limits;
use crate::method::{self, meta};
use crate::project;
use crate::refusal::{Refusal, status_of_error};
use crate::revision::{Era, Revision};
use park::{Held, Parked, Round};

mod park;

/// One modern client on a pipe, or one POST of it.
#[derive(Debug)]
pub struct ModernServerHalf {
    carrier: Carrier,
    most_calls: usize,
    /// Who answers, as JSON: for the results that are made here (MOD-7).
    server: Option<Bytes>,
    next_exchange: u64,
    calls: HashMap<Exchange, Call>,
    by_id: HashMap<Id, Exchange>,
    parked: BTreeMap<Exchange, Parked>,
    /// Calls with questions that have not been put to the client.
    due: VecDeque<Exchange>,
    out: VecDeque<(Lane, Frame)>,
    up: VecDeque<ClientEvent>,
}

#[derive(Debug)]
struct Call {
    id: Id,
    lane: Lane,
    listens: bool,
    streaming: bool,
    /// As it came first.
    request: Message,
    /// The arguments that it repeated as headers.
    said: Vec<(HeaderName, HeaderValue)>,
    round: Round,
    /// What its client said of itself the last time it came back with input.
    retry: Option<Envelope>,
    held: Held,
}

impl ModernServerHalf {
    /// A client that has asked for nothing yet.
    pub fn new(carrier: Carrier, limits: &Limits) -> Self {
        Self {
            carrier,
            most_calls: limits.calls,
            server: None,
            next_exchange: 1,
            calls: HashMap::new(),
            by_id: HashMap::new(),
            parked: BTreeMap::new(),
            due: VecDeque::new(),
            out: VecDeque::new(),
            up: VecDeque::new(),
        }
    }

    /// Says who answers, as a JSON object: results that are made here name it.
    pub fn introduce(&mut self, server: Bytes) {
        self.server = Some(server);
    }

    /// A message arrived on `lane`; with its headers, if it came over HTTP.
    pub fn handle_message(&mut self, lane: Lane, message: Message, headers: Option<&HeaderMap>) {
        match message.kind() {
            Kind::Request => match self.objection(&message, headers).or_else(|| self.crowding()) {
                None => self.open(lane, message, headers.map(param_headers)),
                Some(why) => self.refuse(lane, message.id(), &why),
            },
            Kind::Notification => {
                if message.method() != method::CANCELLED {
                    self.up.push_back(ClientEvent::Note { message });
                } else if self.carrier == Carrier::Pipe {
                    self.handle_cancel(message);
                }
                self.accept(lane);
            }
            // On a pipe an error about an error could go back and forth for ever.
            Kind::Result | Kind::Error if self.carrier == Carrier::Pipe => {}
            Kind::Result | Kind::Error => self.refuse(lane, None, &Refusal::UnaskedResponse),
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

    /// Why a request cannot be taken, if it cannot: in the order of 3.6, steps 8 to 11.
    fn objection(&self, request: &Message, headers: Option<&HeaderMap>) -> Option<Refusal> {
        let version = match check_envelope(request) {
            Ok(version) => version,
            Err(why) => return Some(why),
        };
        let name = match mirrored_name(request) {
            Ok(name) => name,
            Err(why) => return Some(why),
        };
        let mirror = Mirror { version: &version, method: request.method(), name: name.as_deref() };
        if let Some(Err(mismatch)) = headers.map(|headers| mirror.check(headers)) {
            return Some(Refusal::HeaderMismatch { what: mismatch.to_string() });
        }
        if Revision::parse(&version).is_none_or(|revision| revision.era() != Era::Modern) {
            return Some(Refusal::UnknownRevision { asked: version });
        }
        if method::is_legacy_only(request.method()) {
            return Some(Refusal::UnknownMethod { method: request.method().to_owned() });
        }
        if request.id().is_some_and(|id| self.by_id.contains_key(id)) {
            let id = request.id().map(ToString::to_string).unwrap_or_default();
            return Some(Refusal::IdInUse { id });
        }
        None
    }

    /// Why there is no room for one more call, if there is none.
    fn crowding(&self) -> Option<Refusal> {
        let open = self.calls.len() + self.parked.len();
        (open >= self.most_calls).then_some(Refusal::TooManyCalls)
    }

    fn open(&mut self, lane: Lane, request: Message, said: HeaderParams) {
        let Some(id) = request.id().cloned() else { return };
        let exchange = Exchange(self.next_exchange);
        self.next_exchange += 1;
        self.by_id.insert(id.clone(), exchange);
        let listens = request.method() == method::LISTEN;
        let call = Call {
            id,
            lane,
            listens,
            streaming: false,
            request: request.clone(),
            said: said.clone().unwrap_or_default(),
            round: Round::default(),
            retry: None,
            held: Held::default(),
        };
        self.calls.insert(exchange, call);
        self.up.push_back(ClientEvent::Open { exchange, request, said });
    }

    fn handle_cancel(&mut self, message: Message) {
        let Some(&exchange) = message.cancelled_id().and_then(|id| self.by_id.get(&id)) else {
            return;
        };
        self.forget(exchange);
        self.up.push_back(ClientEvent::Drop { exchange, message: Some(message) });
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
            self.up.push_back(ClientEvent::Drop { exchange, message: None });
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
            return parked.keep(answer);
        }
        self.tell_held(exchange);
        if let Some(call) = self.forget(exchange) {
            self.answer(&call, answer);
        }
    }

    fn answer(&mut self, call: &Call, answer: &Message) {
        let text = stamp(&answer.with_id(&call.id), &call.id).text().clone();
        if self.carrier == Carrier::Http && !call.streaming {
            let status = status_of(answer);
            self.out.push_back((call.lane, Frame::Answer { status, text }));
            return;
        }
        self.out.push_back((call.lane, Frame::Message { event: None, text }));
        if self.carrier == Carrier::Http {
            self.out.push_back((call.lane, Frame::End));
        }
    }

    fn forget(&mut self, exchange: Exchange) -> Option<Call> {
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

    fn accept(&mut self, lane: Lane) {
        if self.carrier == Carrier::Http {
            self.out.push_back((lane, Frame::Accepted));
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
    pub fn poll_up(&mut self) -> Option<ClientEvent> {
        self.up.pop_front()
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

/// The value that `Mcp-Name` repeats, if the method has one.
fn mirrored_name(request: &Message) -> Result<Option<String>, Refusal> {
    let Some(member) = method::name_member(request.method()) else { return Ok(None) };
    match request.mirrored() {
        Some(name) => Ok(Some(name.into_owned())),
        None => Err(Refusal::BadEnvelope { what: format!("params.{member} must be a string") }),
    }
}

/// The arguments that the client repeated as headers, as it wrote them.
fn param_headers(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
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

fn status_of(answer: &Message) -> u16 {
    answer.error_code().map_or(200, status_of_error)
}

/// What a retry says of itself besides its call: what its client can do, and what it
/// wants to hear on the way. Each request speaks for itself (META-3), a retry too: from
/// then on its call is served by what the retry says.
#[derive(Debug)]
struct Envelope {
    capabilities: Box<[u8]>,
    /// What progress goes by, if it is wanted.
    token: Option<Bytes>,
    /// The least grave log records that are wanted, if any are (LOG-1).
    level: Option<usize>,
}

impl Envelope {
    fn read(retry: &Message) -> Self {
        Self {
            capabilities: retry.declared_capabilities().into(),
            token: retry.get(Member::MetaProgressToken).map(Bytes::copy_from_slice),
            level: method::wanted_severity(retry),
        }
    }
}

impl Call {
    /// Whether the last request of its client declares that it can answer this.
    fn permits(&self, question: &Message) -> bool {
        let declared = match &self.retry {
            Some(retry) => &retry.capabilities,
            None => self.request.declared_capabilities(),
        };
        let params = question.payload().unwrap_or_default();
        project::permits(declared, question.method(), params)
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
    let broken = |what: &str| Refusal::BadEnvelope { what: format!("params._meta: {what}") };
    if !request.has(Member::MetaVersion) {
        return Err(broken(&format!("{} is missing", meta::VERSION)));
    }
    let version = request
        .string(Member::MetaVersion)
        .ok_or_else(|| broken(&format!("{} must be a string", meta::VERSION)))?;
    match request.part(Member::MetaCapabilities) {
        None => Err(broken(&format!("{} is missing", meta::CAPABILITIES))),
        Some(value) if !value.is_object() => {
            Err(broken(&format!("{} must be an object", meta::CAPABILITIES)))
        }
        Some(_) => Ok(version.into_owned()),
    }
}

#[cfg(test)]
mod tests;
