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
//! - Requests pass with the envelope they came with; only the id changes.
//! - Over HTTP the mirror headers are computed from the body that is sent.
//! - A server asks nothing (MOD-1): its requests are not answered.
//! - Notifications belong to a call, by lane, token or subscription; others are dropped.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::tool_headers::{HeaderRetry, ToolHeaders};
use super::{CallId, Ledger, OutstandingCall, Sharing, Ticket, Transmit, cancel_notice};
use crate::exchange::{Carrier, HeaderParams, Lane, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::header::Mirror;
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::{HEADER_MISMATCH, Refusal};
use crate::server::modern::listen_over;

/// One modern server.
#[derive(Debug)]
pub struct ModernClientHalf<T> {
    carrier: Carrier,
    sharing: Sharing,
    most_calls: usize,
    /// Calls that were sent again: as their owners know them, and as they are now.
    renamed: BTreeMap<CallId, CallId>,
    ledger: Ledger<ModernCallOwner<T>>,
    tools: ToolHeaders,
    out: VecDeque<Transmit>,
    to_client: VecDeque<ServerEvent<T>>,
}

/// Whose a call is.
#[derive(Debug)]
struct ModernCallOwner<T> {
    ticket: T,
    /// It is our own `tools/list`, to learn the headers that this call needs.
    retry: Option<Box<HeaderRetry>>,
}

impl<T: Ticket> ModernClientHalf<T> {
    /// A server that has been asked nothing yet.
    pub fn new(carrier: Carrier, sharing: Sharing, limits: &Limits) -> Self {
        Self {
            carrier,
            sharing,
            most_calls: limits.calls,
            renamed: BTreeMap::new(),
            ledger: Ledger::new(sharing, limits),
            tools: ToolHeaders::default(),
            out: VecDeque::new(),
            to_client: VecDeque::new(),
        }
    }

    /// A client opens a call.
    pub fn open(
        &mut self,
        ticket: T,
        request: &Message,
        said: &HeaderParams,
        now: Instant,
    ) -> CallId {
        if self.ledger.len() >= self.most_calls.saturating_mul(4) {
            return self.fail(ticket, &Refusal::TooManyCalls);
        }
        match self.tools.headers(request, said.as_deref()) {
            Ok(params) => self.begin(ModernCallOwner { ticket, retry: None }, request, params, now),
            Err(mismatch) => self.fail(ticket, &mismatch.into()),
        }
    }

    fn fail(&mut self, to: T, why: &Refusal) -> CallId {
        self.finish(to, why.clone());
        CallId::DONE
    }

    fn finish(&mut self, to: T, outcome: impl Into<Outcome>) {
        self.to_client.push_back(ServerEvent::Finish { to, outcome: outcome.into() });
    }

    fn begin(
        &mut self,
        owner: ModernCallOwner<T>,
        request: &Message,
        params: Vec<(HeaderName, HeaderValue)>,
        now: Instant,
    ) -> CallId {
        let (id, message) = self.ledger.begin(owner, request, now);
        self.send(id.lane(), message, params);
        id
    }

    fn send(&mut self, lane: Lane, message: Message, params: Vec<(HeaderName, HeaderValue)>) {
        let headers = match self.carrier {
            Carrier::Pipe => Vec::new(),
            Carrier::Http => mirror(&message).chain(params).collect(),
        };
        self.out.push_back(Transmit::Send { lane, message, headers });
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: Message) {
        self.send(Lane::MAIN, message, Vec::new());
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub fn drop_call(&mut self, id: CallId, words: Option<&Message>, _now: Instant) {
        let id = self.renamed.get(&id).copied().unwrap_or(id);
        self.first_name(id);
        if self.ledger.end(id).is_some() {
            self.cancel_on_wire(id, words);
        }
    }

    fn cancel_on_wire(&mut self, id: CallId, words: Option<&Message>) {
        match self.carrier {
            Carrier::Http => self.out.push_back(Transmit::Abort { lane: id.lane() }),
            Carrier::Pipe => self.send(Lane::MAIN, cancel_notice(id, words), Vec::new()),
        }
    }

    /// A client is gone for good: its calls are cancelled.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        for id in self.ledger.ids(|it| it.ticket.owner() == owner) {
            self.drop_call(id, None, now);
        }
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        match message.kind() {
            Kind::Request => {}
            Kind::Notification => self.handle_notification(lane, message, now),
            Kind::Result | Kind::Error => {
                if let Some((id, call)) = self.ledger.answer(message) {
                    self.ledger.running.see(&call.request, message, now);
                    let first = self.first_name(id);
                    self.handle_answer(first, call, message, now);
                }
            }
        }
    }

    /// The name that the owner of a call knows it by. The call is over, or goes
    /// on under yet another one.
    fn first_name(&mut self, id: CallId) -> CallId {
        let first =
            self.renamed.iter().find(|&(_, &current)| current == id).map(|(&first, _)| first);
        first.inspect(|first| _ = self.renamed.remove(first)).unwrap_or(id)
    }

    fn handle_answer(
        &mut self,
        first: CallId,
        call: OutstandingCall<ModernCallOwner<T>>,
        answer: &Message,
        now: Instant,
    ) {
        let lists_tools = call.request.method() == method::LIST_TOOLS;
        let is_error = answer.kind() == Kind::Error;
        let mut answer = answer.clone();
        if lists_tools && answer.kind() == Kind::Result {
            let left = self.tools.learn(&answer);
            if self.carrier == Carrier::Http {
                answer = left;
            }
        }
        let ModernCallOwner { ticket, retry } = call.owner;
        let again = match retry {
            None if is_header_fault(&answer) && !call.repeated => {
                self.list_tools_for(ticket, call.request, answer, now)
            }
            None => {
                self.finish(ticket, answer);
                None
            }
            Some(retry) if is_error => {
                self.finish(ticket, retry.answer);
                None
            }
            Some(mut retry) => Some(match retry.next_page(&answer) {
                Some(list) => self.list_tools(ticket, retry, &list, now),
                None => self.repeat(ticket, &retry.request, now),
            }),
        };
        self.renamed.extend(again.map(|again| (first, again)));
    }

    /// The server missed a header: ask it which it wants.
    fn list_tools_for(
        &mut self,
        to: T,
        request: Message,
        answer: Message,
        now: Instant,
    ) -> Option<CallId> {
        if self.carrier == Carrier::Pipe || request.method() != method::CALL_TOOL {
            self.finish(to, answer);
            return None;
        }
        let retry = Box::new(HeaderRetry::new(request, answer));
        let list = retry.list(None);
        Some(self.list_tools(to, retry, &list, now))
    }

    fn list_tools(
        &mut self,
        ticket: T,
        retry: Box<HeaderRetry>,
        list: &Message,
        now: Instant,
    ) -> CallId {
        self.begin(ModernCallOwner { ticket, retry: Some(retry) }, list, vec![], now)
    }

    /// The tools are listed: send the call once more, with the headers that the list names.
    fn repeat(&mut self, to: T, refused: &Message, now: Instant) -> CallId {
        let params = self.tools.headers(refused, None).unwrap_or_default();
        let id = self.begin(ModernCallOwner { ticket: to, retry: None }, refused, params, now);
        self.ledger.repeat(id);
        id
    }

    fn handle_notification(&mut self, lane: Lane, message: &Message, now: Instant) {
        let (id, message) = match (message.method(), message.has(Member::MetaSubscription)) {
            (method::CANCELLED, _) => return self.handle_listen_over(message),
            (method::PROGRESS, _) => {
                let Some(found) = self.ledger.progress(message, now) else { return };
                found
            }
            (_, true) => {
                let id = message.id_in(Member::MetaSubscription);
                let Some(id) = id.and_then(|id| id.number()) else { return };
                (CallId(id), message.clone())
            }
            (name, false) => {
                let Some(id) = self.call_on(lane).or_else(|| self.sole_talker(name)) else {
                    return;
                };
                (id, message.clone())
            }
        };
        let Some(call) = self.ledger.get(id) else { return };
        let listens = call.request.method() == method::LISTEN;
        if call.owner.retry.is_none() {
            let to = To::Call(call.owner.ticket.clone());
            self.to_client.push_back(ServerEvent::Note { to, message });
        }
        if listens {
            self.ledger.keep(id, now);
        }
    }

    /// The only call that something on a pipe could be about. What a listen
    /// asked for is about none.
    fn sole_talker(&self, method: &str) -> Option<CallId> {
        let wanting = if method == method::LOG { self.ledger.wanting_logs() } else { Vec::new() };
        match self.sharing {
            _ if method::is_for_all(method) || method == method::ACKNOWLEDGED => None,
            _ if !wanting.is_empty() => wanting.first().copied().filter(|_| wanting.len() == 1),
            Sharing::Alone => self.ledger.sole_asking(),
            Sharing::Shared => self.ledger.only(),
        }
    }

    fn call_on(&self, lane: Lane) -> Option<CallId> {
        Some(CallId(lane.0)).filter(|&id| self.ledger.get(id).is_some())
    }

    /// The server ends a listen with a notice instead of its result (SUB-9).
    fn handle_listen_over(&mut self, message: &Message) {
        let Some(id) = message.cancelled_id().and_then(|id| id.number()) else { return };
        let call = self.ledger.get(CallId(id));
        if call.is_none_or(|call| call.request.method() != method::LISTEN) {
            return;
        }
        let result = listen_over(&id.to_string());
        let answer = Message::result(&Id::from(id), &result);
        if let Some((_, call)) = self.ledger.answer(&answer) {
            self.finish(call.owner.ticket, answer);
        }
    }

    /// A call's lane ended without its answer.
    pub fn handle_unanswered(&mut self, lane: Lane, why: &Failure) {
        if let Some(call) = self.ledger.end(CallId(lane.0)) {
            self.first_name(CallId(lane.0));
            self.finish(call.owner.ticket, why.clone());
        }
    }

    /// The link is gone. Every open call fails with `why`.
    pub fn handle_lost(&mut self, why: &Failure) {
        self.out.clear();
        self.renamed.clear();
        for call in self.ledger.drain() {
            self.finish(call.owner.ticket, why.clone());
        }
    }

    /// Whether a task goes on. Who listens has a call open.
    pub fn is_needed(&self, now: Instant) -> bool {
        self.ledger.running.holds(now)
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, call)) = self.ledger.expired(now) {
            self.first_name(id);
            self.cancel_on_wire(id, None);
            let why = call.timed_out(now);
            self.finish(call.owner.ticket, why);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ledger.poll_timeout()
    }

    /// What to put on the wire, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// What to tell the clients, oldest first.
    pub fn poll_to_client(&mut self) -> Option<ServerEvent<T>> {
        self.to_client.pop_front()
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        self.ledger.ids(|owner| owner.ticket == *ticket).first().copied()
    }

    /// The lane of the only open call, if there is just one.
    pub fn only_call(&self) -> Option<Lane> {
        self.ledger.only().map(CallId::lane)
    }

    /// Whether the call that travels on `lane` still waits for its answer.
    pub fn is_open(&self, lane: Lane) -> bool {
        self.ledger.get(CallId(lane.0)).is_some()
    }

    /// Who has calls open.
    pub fn tickets(&self) -> impl Iterator<Item = &T> {
        self.ledger.owners().map(|owner| &owner.ticket)
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        self.ledger.len()
    }
}

/// The headers that repeat what the body says (HDR-1 to HDR-3).
fn mirror(message: &Message) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let version = message.string(Member::MetaVersion);
    let version = version.as_deref().unwrap_or(crate::revision::Revision::NEWEST_MODERN.as_str());
    let name = message.mirrored();
    let mut headers = HeaderMap::with_capacity(4);
    Mirror { version, method: message.method(), name: name.as_deref() }.write(&mut headers);
    headers.into_iter().filter_map(|(name, value)| Some((name?, value)))
}

fn is_header_fault(answer: &Message) -> bool {
    answer.error_code() == Some(HEADER_MISMATCH)
}

#[cfg(test)]
mod tests;
