//! A server of the era without a handshake.
//!
//! ```text
//!          open                   answer
//!   (none) ─────▶ open ─────────────────────────────▶ ServerEvent::Finish
//!                  │ drop: lane closed, or a notice on a pipe
//!                  └ its headers refused: list the tools, send it once more (HDR-12)
//! ```
//!
//! Rules:
//! - Requests pass with the envelope they came with. On a pipe their ids change. Over HTTP
//!   each has a response of its own, and keeps its id: an answer is that of its lane, or of
//!   no call. A listen's id is ours, for other messages name it.
//! - Over HTTP the mirror headers are computed from the body that is sent.
//! - A server asks nothing (MOD-1): its requests are not answered.
//! - Notifications belong to a call, by lane, token or subscription; others are dropped.

use std::collections::VecDeque;
use std::time::Instant;

use super::tool_headers::{HeaderRetry, ToolHeaders};
use super::{
    EventQueue, Ledger, OWN_IDS, OutstandingCall, Sharing, Ticket, Transmit, cancel_notice, sole,
};
use crate::exchange::{Ask, Carrier, HeaderParams, Lane, To};
use crate::failure::Failure;
use crate::header::{Header, Mirror};
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::{HEADER_MISMATCH, Refusal};
use crate::server::modern::listen_over;

/// One modern server.
#[derive(Debug)]
pub struct ModernClientHalf<T> {
    carrier: Carrier,
    pub(super) ledger: Ledger<ModernCallOwner<T>>,
    tools: ToolHeaders,
    pub(super) out: VecDeque<Transmit>,
    pub(super) to_client: EventQueue<T>,
}

type CallToModern<T> = OutstandingCall<ModernCallOwner<T>>;

/// Whose a call is.
#[derive(Debug)]
pub(super) struct ModernCallOwner<T> {
    pub(super) ticket: T,
    /// It is our own `tools/list`, to learn the headers that this call needs.
    retry: Option<Box<HeaderRetry>>,
}

impl<T: Ticket> ModernClientHalf<T> {
    /// A server that has been asked nothing yet.
    pub fn new(carrier: Carrier, sharing: Sharing, limits: &Limits) -> Self {
        Self {
            carrier,
            ledger: Ledger::new(sharing, limits),
            tools: ToolHeaders::default(),
            out: VecDeque::new(),
            to_client: EventQueue(VecDeque::new()),
        }
    }

    /// A client opens a call.
    pub(super) fn open(&mut self, ticket: T, request: &Message, said: &HeaderParams, now: Instant) {
        if self.ledger.is_full() {
            return self.to_client.finish(ticket, Refusal::TooManyCalls);
        }
        match self.tools.headers(request, said) {
            Ok(params) => {
                let is_listen = request.method() == method::LISTEN;
                let passes = self.carrier == Carrier::Http && ticket.has_own_id() && !is_listen;
                let number = request.id().filter(|_| passes).and_then(Id::number);
                let wire_id = number.filter(|number| *number < OWN_IDS).map(Id::from);
                let owner = ModernCallOwner { ticket, retry: None };
                self.begin(owner, request, wire_id, params, now);
            }
            Err(mismatch) => self.to_client.finish(ticket, Refusal::from(mismatch)),
        }
    }

    fn begin(
        &mut self,
        owner: ModernCallOwner<T>,
        request: &Message,
        wire_id: Option<Id>,
        params: Vec<Header>,
        now: Instant,
    ) -> Lane {
        let (id, message) = self.ledger.begin(owner, request, wire_id, now);
        self.send(id, message, params);
        id
    }

    fn send(&mut self, lane: Lane, message: Message, params: Vec<Header>) {
        let headers = match self.carrier {
            Carrier::Pipe => Vec::new(),
            Carrier::Http => mirror(&message, params),
        };
        self.out.push_back(Transmit::Send { lane, message, headers });
    }

    /// A client says something that wants no answer.
    pub(super) fn note(&mut self, message: Message, _now: Instant) {
        self.send(Lane::MAIN, message, Vec::new());
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub(super) fn drop_call(&mut self, ticket: &T, words: Option<&Message>, _now: Instant) {
        self.drop_calls(|theirs| theirs == ticket, words);
    }

    fn drop_calls(&mut self, is_meant: impl Fn(&T) -> bool, words: Option<&Message>) {
        let calls = self.ledger.select(|call| is_meant(&call.owner.ticket));
        for id in calls.collect::<Vec<_>>() {
            if let Some(call) = self.ledger.end(id) {
                self.cancel_on_wire(id, &call.wire_id, words);
            }
        }
    }

    fn cancel_on_wire(&mut self, lane: Lane, wire_id: &Id, words: Option<&Message>) {
        match self.carrier {
            Carrier::Http => self.out.push_back(Transmit::Abort { lane }),
            Carrier::Pipe => self.send(Lane::MAIN, cancel_notice(wire_id, words), Vec::new()),
        }
    }

    /// A client is gone for good: its calls are cancelled.
    pub(super) fn forget_owner(&mut self, owner: u64, _now: Instant) {
        self.drop_calls(|ticket| ticket.owner() == owner, None);
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub(super) fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        match message.kind() {
            Kind::Request => {}
            Kind::Notification => self.handle_notification(lane, message, now),
            Kind::Result | Kind::Error => {
                let answered = match self.carrier {
                    Carrier::Http => self.ledger.answer_on(lane, message, now),
                    Carrier::Pipe => self.ledger.answer(message, now),
                };
                if let Some((_, call)) = answered {
                    self.handle_answer(call, message, now);
                }
            }
        }
    }

    fn handle_answer(&mut self, call: CallToModern<T>, answer: &Message, now: Instant) {
        let mut answer = answer.clone();
        if call.request.method() == method::LIST_TOOLS && answer.kind() == Kind::Result {
            let left = self.tools.learn(&answer);
            if self.carrier == Carrier::Http {
                answer = left;
            }
        }
        let is_call = self.carrier == Carrier::Http && call.request.method() == method::CALL_TOOL;
        let lacks_header = is_call && answer.error_code() == Some(HEADER_MISMATCH);
        let ModernCallOwner { ticket, retry } = call.owner;
        match retry {
            // The server missed a header: it is asked which it wants.
            None if lacks_header && !call.repeated => {
                let retry = HeaderRetry { request: call.request, answer, pages: 0 };
                let list = retry.list(None);
                let retry = Some(Box::new(retry));
                self.begin(ModernCallOwner { ticket, retry }, &list, None, vec![], now);
            }
            None => self.to_client.finish(ticket, answer),
            Some(retry) if answer.kind() == Kind::Error => {
                self.to_client.finish(ticket, retry.answer);
            }
            Some(mut retry) => {
                if let Some(list) = retry.next_page(&answer) {
                    let retry = Some(retry);
                    self.begin(ModernCallOwner { ticket, retry }, &list, None, vec![], now);
                } else {
                    // The call once more, with the headers that the list names.
                    let params = self.tools.headers(&retry.request, &None).unwrap_or_default();
                    let owner = ModernCallOwner { ticket, retry: None };
                    // Its own id has been answered already.
                    let id = self.begin(owner, &retry.request, None, params, now);
                    self.ledger.open.entry(id).and_modify(|call| call.repeated = true);
                }
            }
        }
    }

    fn handle_notification(&mut self, lane: Lane, message: &Message, now: Instant) {
        let mut message = message.clone();
        let id = match message.method() {
            method::CANCELLED => return self.handle_listen_over(&message),
            method::PROGRESS => {
                let Some((id, renamed)) = self.ledger.progress(&message, now) else { return };
                message = renamed;
                id
            }
            _ if message.has(Member::MetaSubscription) => {
                let id = message.id_in(Member::MetaSubscription);
                Lane(id.and_then(|id| id.number()).unwrap_or_default())
            }
            _ if self.is_open(lane) => lane,
            name => self.sole_talker(name).unwrap_or(Lane::MAIN),
        };
        let Some(call) = self.ledger.open.get(&id) else { return };
        let listens = call.request.method() == method::LISTEN;
        if call.owner.retry.is_none() {
            self.to_client.note(To::Call(call.owner.ticket.clone()), message);
        }
        if listens {
            self.ledger.keep(id, now);
        }
    }

    /// The only call that something on a pipe could be about. What a listen
    /// asked for is about none.
    fn sole_talker(&self, method: &str) -> Option<Lane> {
        let wants = |call: &OutstandingCall<_>| call.sent.has(Member::MetaLogLevel);
        let mut wanting = self.ledger.select(wants).filter(|_| method == method::LOG).peekable();
        match self.ledger.sharing {
            _ if method::is_for_all(method) || method == method::ACKNOWLEDGED => None,
            // Calls that asked for log records (LOG-1).
            _ if wanting.peek().is_some() => sole(wanting),
            Sharing::Alone => sole(self.ledger.asking()),
            Sharing::Shared => self.ledger.only(),
        }
    }

    /// The server ends a listen with a notice instead of its result (SUB-9).
    fn handle_listen_over(&mut self, message: &Message) {
        let Some(id) = message.id_in(Member::RequestId).and_then(|id| id.number()) else { return };
        let call = self.ledger.open.get(&Lane(id));
        if call.is_some_and(|call| call.request.method() == method::LISTEN)
            && let Some(call) = self.ledger.end(Lane(id))
        {
            let result = listen_over(&id.to_string());
            self.to_client.finish(call.owner.ticket, Message::result(&Id::from(id), &result));
        }
    }

    /// A call's lane ended without its answer.
    pub(super) fn handle_unanswered(&mut self, lane: Lane, why: &Failure) {
        if let Some(call) = self.ledger.end(lane) {
            self.to_client.finish(call.owner.ticket, why.clone());
        }
    }

    /// There are no sessions: the server has another reason.
    pub(super) fn handle_session_over(&mut self, lane: Lane, _now: Instant) {
        self.handle_unanswered(lane, &Refusal::SessionOver.into());
    }

    /// The link is gone. Every open call fails with `why`.
    pub(super) fn handle_lost(&mut self, why: &Failure, _now: Instant) {
        self.out.clear();
        for call in self.ledger.drain() {
            self.to_client.finish(call.owner.ticket, why.clone());
        }
    }

    /// Whether a task goes on. Who listens has a call open.
    pub(super) fn is_needed(&self, now: Instant) -> bool {
        self.ledger.running.holds(now)
    }

    /// Time has reached `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, call)) = self.ledger.expired(now) {
            self.cancel_on_wire(id, &call.wire_id, None);
            let why = call.timed_out(now);
            self.to_client.finish(call.owner.ticket, why);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.ledger.poll_timeout()
    }

    /// Whether the call that travels on `lane` still waits for its answer.
    pub(super) fn is_open(&self, lane: Lane) -> bool {
        self.ledger.open.contains_key(&lane)
    }

    /// The lane of the call that the server knows by this id.
    pub(super) fn lane_of(&self, wire_id: &Id) -> Option<Lane> {
        self.ledger.lane_of(wire_id)
    }
}

#[expect(clippy::unused_self, reason = "a legacy server has sessions, and asks")]
impl<T: Ticket> ModernClientHalf<T> {
    /// There are no sessions.
    pub(super) fn renew_session(&mut self, _now: Instant) {}

    /// The server asks nothing.
    pub(super) fn supply(&mut self, _ask: Ask, _answer: &Message, _now: Instant) {}

    /// The server asks nothing.
    pub(super) fn handle_unsupplied(&mut self, _answer: &Message) {}

    /// Who listens knows by itself.
    pub(super) fn handle_gap(&mut self) {}
}

/// The headers that repeat what the body says (HDR-1 to HDR-3), and what of its arguments.
fn mirror(message: &Message, params: Vec<Header>) -> Vec<Header> {
    let version = message.string(Member::MetaVersion);
    let version = version.as_deref().unwrap_or(crate::revision::Revision::NEWEST_MODERN.as_str());
    let name = message.mirrored();
    let mirror = Mirror { version, method: message.method(), name: name.as_deref() };
    mirror.headers().chain(params).collect()
}

#[cfg(test)]
mod tests;
