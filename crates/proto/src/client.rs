//! The client half: faces one server, whatever revision it speaks.
//!
//! [`legacy::LegacyClientHalf`] and [`modern::ModernClientHalf`] are the two machines,
//! [`probe`] tells which one a server needs. Both are handed the verbs
//! of [`ClientEvent`](crate::exchange::ClientEvent), told what arrived on which lane, and hand
//! out [`Transmit`]s for the wire and [`ServerEvent`] verbs
//! for whoever opened the calls; drain both after every call.
//!
//! Where clients and server have no era in common, a layer on the machine
//! speaks for the clients: [`to_modern::ToModern`] and [`to_legacy::ToLegacy`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use crate::exchange::{Ask, HeaderParams, Lane, ServerEvent};
use crate::failure::Failure;
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::Refusal;
use legacy::LegacyClientHalf;
use modern::ModernClientHalf;
use tasks::Running;
use to_legacy::ToLegacy;
use to_modern::ToModern;

pub mod legacy;
pub mod modern;
pub mod probe;
mod tasks;
pub mod to_legacy;
pub mod to_modern;
mod tool_headers;

/// What a call's owner must be able to say of itself.
pub trait Ticket: Clone + PartialEq {
    /// Which of the clients that share this server it belongs to.
    fn owner(&self) -> u64;

    /// Who stands behind it, where clients of several share a server.
    fn principal(&self) -> &[u8] {
        b""
    }

    /// Whether it speaks the server's own era, where a layer serves clients of
    /// both: it passes by the layer.
    fn is_native(&self) -> bool {
        false
    }

    /// Whether the answer to this call, which was just dropped, is still passed on
    /// if the server gives one. Then [`ServerEvent::Finish`] or [`ServerEvent::Unanswered`] follows.
    fn awaits_dropped(&self) -> bool {
        false
    }

    /// Whether its calls are those of a client, who counts on the link.
    fn counts(&self) -> bool {
        true
    }
}

/// A call as a client half knows it; also the lane it travels on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(pub u64);

impl CallId {
    /// A call that was answered on the spot: there is nothing to cancel.
    pub const DONE: Self = Self(0);

    /// Apart from the numbers that a layer between the eras gives its own calls.
    const NATIVE: u64 = 1 << 63;

    /// The lane on which it travels over HTTP.
    pub fn lane(self) -> Lane {
        Lane(self.0)
    }

    /// How a layer between the eras names a call that passes by it, because its client
    /// speaks the server's own era. `self` is the id in the half below the layer.
    fn mark_native(self) -> Self {
        if self == Self::DONE { self } else { Self(self.0 | Self::NATIVE) }
    }

    /// The id in the half below the layer, if the call passes by the layer.
    fn unmark_native(self) -> Option<Self> {
        (self.0 & Self::NATIVE != 0).then_some(Self(self.0 & !Self::NATIVE))
    }
}

/// What a layer between the eras opens a call at the server for.
#[derive(Clone, Debug, PartialEq)]
enum InternalCall<T> {
    /// A call of a client, by its number in the layer.
    Call {
        number: u64,
        ticket: T,
    },
    Discover(T),
    /// Of a client that speaks the server's own era.
    Native(T),
    /// To know what the server says of itself.
    Meet,
    /// To hear of changes, or to have been greeted before that.
    Listen(u64),
    Watch {
        listen: u64,
        uri: Box<str>,
        /// The client that listens.
        ticket: T,
    },
    Unwatch {
        listen: u64,
    },
    /// To know what its tools are like.
    Tools,
    /// To know what a task comes to.
    TaskEnd(u64),
    /// To be there again for who listens.
    Return,
    Level,
    /// To tell it something; nobody waits for the answer.
    Aside,
}

impl<T> InternalCall<T> {
    /// The client whose call it is, or for whom it is made.
    fn ticket(&self) -> Option<&T> {
        match self {
            Self::Call { ticket, .. }
            | Self::Watch { ticket, .. }
            | Self::Discover(ticket)
            | Self::Native(ticket) => Some(ticket),
            _ => None,
        }
    }

    /// The client that passes by the layer, if it is a call of one.
    fn native(&self) -> Option<&T> {
        if let Self::Native(ticket) = self { Some(ticket) } else { None }
    }
}

impl<T: Ticket> Ticket for InternalCall<T> {
    fn owner(&self) -> u64 {
        match self {
            // Each listen watches for itself.
            Self::Listen(listen) | Self::Watch { listen, .. } | Self::Unwatch { listen } => {
                listener(*listen)
            }
            other => other.ticket().map_or(u64::MAX, Ticket::owner),
        }
    }

    fn awaits_dropped(&self) -> bool {
        self.native().is_some_and(Ticket::awaits_dropped)
    }

    fn principal(&self) -> &[u8] {
        self.ticket().map_or(b"", Ticket::principal)
    }
}

/// Who watches for a listen: a number apart from those of clients.
fn listener(listen: u64) -> u64 {
    listen | 1 << 63
}

/// Whether one client or several stand behind the calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// One: its progress tokens pass as they are.
    Alone,
    /// Several: tokens are rewritten, what belongs to no call goes to nobody
    /// who could be the wrong one.
    Shared,
}

/// What to put on the wire.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum Transmit {
    /// Write it to the pipe, or POST it; over HTTP its answer comes back on `lane`.
    Send { lane: Lane, message: Message, headers: Vec<(HeaderName, HeaderValue)> },
    /// Close the lane: that is how a call is cancelled there.
    Abort { lane: Lane },
}

impl Transmit {
    /// What it is, for logs: a method, or what has none.
    pub fn name(&self) -> &str {
        match self {
            Self::Send { message, .. } if message.is_response() => "an answer",
            Self::Send { message, .. } => message.method(),
            Self::Abort { .. } => "hanging up",
        }
    }
}

/// The half for one server of either era, for clients of either.
#[derive(Debug)]
pub enum ClientHalf<T> {
    /// All speak the legacy era.
    Legacy(Box<LegacyClientHalf<T>>),
    /// All speak the modern era.
    Modern(Box<ModernClientHalf<T>>),
    /// The server is modern, its clients are legacy; modern ones pass by.
    ToModern(Box<ToModern<T>>),
    /// The server is legacy, its clients are modern; legacy ones pass by.
    ToLegacy(Box<ToLegacy<T>>),
}

/// The same method of whichever half it is.
macro_rules! each {
    ($half:expr, $it:ident => $what:expr) => {
        match $half {
            ClientHalf::Legacy($it) => $what,
            ClientHalf::Modern($it) => $what,
            ClientHalf::ToModern($it) => $what,
            ClientHalf::ToLegacy($it) => $what,
        }
    };
}

/// The same method of the half that faces the server, which a layer is upon or not.
macro_rules! facing {
    ($half:expr, ($($borrow:tt)+) $it:ident => $what:expr) => {
        match $half {
            ClientHalf::Legacy($it) => $what,
            ClientHalf::Modern($it) => $what,
            ClientHalf::ToModern(layer) => {
                let $it = $($borrow)+ layer.inner;
                $what
            }
            ClientHalf::ToLegacy(layer) => {
                let $it = $($borrow)+ layer.inner;
                $what
            }
        }
    };
}

impl<T: Ticket> ClientHalf<T> {
    /// A client opens a call.
    pub fn open(
        &mut self,
        ticket: T,
        request: &Message,
        said: &HeaderParams,
        now: Instant,
    ) -> CallId {
        match self {
            Self::Legacy(half) => half.open(ticket, request, now),
            Self::Modern(half) => half.open(ticket, request, said, now),
            Self::ToModern(half) => half.open(ticket, request, said, now),
            Self::ToLegacy(half) => half.open(ticket, request, said, now),
        }
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: Message, now: Instant) {
        match self {
            Self::Legacy(half) => half.note(message),
            Self::Modern(half) => half.note(message),
            Self::ToModern(half) => half.note(message, now),
            Self::ToLegacy(half) => half.note(&message, now),
        }
    }

    /// A client answers a question.
    pub fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        match self {
            Self::Legacy(half) => half.supply(ask, answer, now),
            // It asked nothing.
            Self::Modern(_) => {}
            Self::ToModern(half) => half.supply(ask, answer, now),
            Self::ToLegacy(half) => half.supply(ask, answer, now),
        }
    }

    /// Nobody is there to answer a question.
    pub fn refuse_ask(&mut self, ask: Ask, now: Instant) {
        self.supply(ask, &Message::refusal(None, &Refusal::NobodyToAsk), now);
    }

    /// A modern client is back with input for a call, by this request.
    pub fn again(&mut self, id: CallId, request: &Message, now: Instant) {
        // Who speaks the client's own era gets each request of it.
        if let Self::ToLegacy(half) = self {
            half.again(id, request, now);
        }
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub fn drop_call(&mut self, id: CallId, words: Option<&Message>, now: Instant) {
        each!(self, half => half.drop_call(id, words, now));
    }

    /// A client is gone for good.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        each!(self, half => half.forget_owner(owner, now));
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        facing!(self, (&mut) half => half.handle_message(lane, message, now));
        self.translate(now);
    }

    /// A call's lane ended without its answer.
    pub fn handle_unanswered(&mut self, lane: Lane, why: &Failure, now: Instant) {
        facing!(self, (&mut) half => half.handle_unanswered(lane, why));
        self.translate(now);
    }

    /// The server knows our session no more, and so did not run this call.
    pub fn handle_session_over(&mut self, lane: Lane, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_session_over(lane, now),
            Self::ToLegacy(layer) => layer.inner.handle_session_over(lane, now),
            Self::Modern(_) | Self::ToModern(_) => {
                return self.handle_unanswered(lane, &Refusal::SessionOver.into(), now);
            }
        }
        self.translate(now);
    }

    /// The server knows our session no more, and no call has found out: it is
    /// greeted again. Does nothing while it is being greeted.
    pub fn renew_session(&mut self, now: Instant) {
        match self {
            Self::Legacy(half) => half.renew_session(now),
            Self::ToLegacy(layer) => layer.inner.renew_session(now),
            // They have none.
            Self::Modern(_) | Self::ToModern(_) => {}
        }
        self.translate(now);
    }

    /// The server did not take the answer to a question.
    pub fn handle_unsupplied(&mut self, answer: &Message, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_unsupplied(answer),
            Self::ToLegacy(layer) => layer.inner.handle_unsupplied(answer),
            // They are answered by calls.
            Self::Modern(_) | Self::ToModern(_) => {}
        }
        self.translate(now);
    }

    /// For a while nobody heard what the server says that belongs to no call.
    pub fn handle_gap(&mut self, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_gap(),
            Self::ToLegacy(layer) => layer.inner.handle_gap(),
            // They know by themselves.
            Self::Modern(_) | Self::ToModern(_) => {}
        }
        self.translate(now);
    }

    /// Turns what the server said into what its clients understand, where they need that.
    fn translate(&mut self, now: Instant) {
        match self {
            Self::Legacy(_) | Self::Modern(_) => {}
            Self::ToModern(layer) => layer.translate(now),
            Self::ToLegacy(layer) => layer.translate(now),
        }
    }

    /// The link is gone. Every open call fails with `why`.
    pub fn handle_lost(&mut self, why: &Failure, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_lost(why),
            Self::Modern(half) => half.handle_lost(why),
            Self::ToModern(half) => half.handle_lost(why, now),
            Self::ToLegacy(half) => half.handle_lost(why, now),
        }
    }

    /// Whether the server says anything that belongs to no call is known now.
    pub fn handle_hearing(&mut self, hears: bool, now: Instant) {
        if let Self::ToLegacy(half) = self {
            half.handle_hearing(hears, now);
        }
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        each!(self, half => half.handle_timeout(now));
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        each!(self, half => half.poll_timeout())
    }

    /// What to put on the wire, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        facing!(self, (&mut) half => half.poll_transmit())
    }

    /// What to tell the clients, oldest first.
    pub fn poll_to_client(&mut self) -> Option<ServerEvent<T>> {
        each!(self, half => half.poll_to_client())
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        each!(self, half => half.find(ticket))
    }

    /// The lane of the only open call, if there is just one.
    pub fn only_call(&self) -> Option<Lane> {
        facing!(self, (&) half => half.only_call())
    }

    /// Whether the call that travels on `lane` still waits for its answer.
    pub fn is_open(&self, lane: Lane) -> bool {
        facing!(self, (&) half => half.is_open(lane))
    }

    /// Whether the server has ever told of itself, so that clients may count on it.
    pub fn is_met(&self) -> bool {
        match self {
            Self::Legacy(half) => half.welcome().is_some(),
            Self::ToLegacy(layer) => layer.inner.welcome().is_some(),
            Self::ToModern(half) => half.is_met(),
            Self::Modern(_) => false,
        }
    }

    /// Whether a server with a handshake has not been through it.
    pub fn is_greeting(&self) -> bool {
        match self {
            Self::Legacy(half) => !half.is_ready(),
            Self::ToLegacy(layer) => !layer.inner.is_ready(),
            Self::Modern(_) | Self::ToModern(_) => false,
        }
    }

    /// Who opened the call that travels on `lane`, if it is open and may be
    /// answered on another connection than its own.
    pub fn ticket(&self, lane: Lane) -> Option<&T> {
        match self {
            Self::Legacy(half) => half.ticket(lane),
            Self::ToLegacy(half) => half.ticket(lane),
            // A modern call lives and dies with its connection, on either side.
            Self::Modern(_) | Self::ToModern(_) => None,
        }
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        each!(self, half => half.calls())
    }

    /// Whether a client counts on the link without any call of its own: it waits
    /// to hear of a resource, or a task of its goes on there.
    pub fn is_needed(&self, now: Instant) -> bool {
        each!(self, half => half.is_needed(now))
    }

    /// Whether somebody began this task by this link, and its server, of another
    /// era, knows it by nothing else.
    pub fn has_task(&self, id: &str, principal: &[u8]) -> bool {
        match self {
            Self::ToLegacy(half) => half.has_task(id, principal),
            _ => false,
        }
    }

    /// The link is ended because nobody uses it: the next call begins anew, and
    /// nobody is told that anything may have changed.
    pub fn rest(&mut self, why: &Failure, now: Instant) {
        match self {
            Self::Legacy(half) => half.rest(why),
            Self::Modern(half) => half.handle_lost(why),
            Self::ToModern(half) => half.rest(why, now),
            Self::ToLegacy(half) => half.rest(why, now),
        }
    }
}

// The ledger: the calls towards one server: their owners, ids and progress tokens, and which of
// them a question is about.
//
// Every call gets an id of ours, so that no two clients and none of our own
// calls collide. A call that takes too long is given up. Tokens are rewritten only where clients share the server (STD-9).

/// All calls in flight. `O` says whose a call is.
///
/// ```text
///              begin
///                │
///                ▼        answer, cancel, or deadline
///   progress ┌─ open ──────────────────────────────▶ gone
///   (extends)└──▶│ ▲
///                │ └─ release: the server has what it waited for
///                └ hold: the server waits for a client, only the time in all runs
/// ```
#[derive(Debug)]
struct Ledger<O> {
    sharing: Sharing,
    next_id: u64,
    open: BTreeMap<u64, OutstandingCall<O>>,
    /// Each open call once, the most urgent first.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Open calls on which the server may want input.
    asking: BTreeSet<u64>,
    /// By value, for a server may spell a token its own way.
    tokens: HashMap<Id, ProgressToken>,
    next_token: u64,
    /// How long a call may take: between signs of life, and in all.
    quiet: Duration,
    total: Duration,
    /// The first for the greeting.
    greeting: Duration,
    running: Running,
}

/// One call in flight.
#[derive(Debug)]
struct OutstandingCall<O> {
    owner: O,
    /// In its client's words.
    request: Message,
    /// As it went out, in case it may be sent again.
    sent: Message,
    /// It was sent again already.
    repeated: bool,
    begun: Instant,
    token: Option<Id>,
    quiet: Duration,
    deadline: Instant,
    /// When its time in all is over.
    latest: Instant,
    /// What of a client the server waits for.
    holds: usize,
}

impl<O> OutstandingCall<O> {
    /// What its owner is told when it has taken too long.
    fn timed_out(&self, now: Instant) -> Failure {
        Failure::Timeout { waited: now.saturating_duration_since(self.begun) }
    }
}

/// What the client calls its progress, and the call that it is about.
#[derive(Debug)]
struct ProgressToken {
    original: Bytes,
    call: u64,
}

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);

/// A time without end must not overflow the clock.
fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + FOR_EVER)
}

impl<O> Ledger<O> {
    fn new(sharing: Sharing, limits: &Limits) -> Self {
        Self {
            sharing,
            next_id: 1,
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            asking: BTreeSet::new(),
            tokens: HashMap::new(),
            next_token: 1,
            quiet: limits.quiet,
            total: limits.total,
            greeting: limits.greeting.unwrap_or(limits.quiet),
            running: Running::new(limits),
        }
    }

    /// Starts a call; says under which id, and what to send.
    fn begin(&mut self, owner: O, request: &Message, now: Instant) -> (CallId, Message) {
        let id = self.next_id;
        self.next_id += 1;
        let (sent, token) = self.take_token(request);
        let message = sent.with_id(&Id::from(id));
        let greets = request.method() == method::INITIALIZE;
        let quiet = if greets { self.greeting } else { self.quiet };
        let latest = after(now, self.total);
        let deadline = latest.min(after(now, quiet));
        let call = OutstandingCall {
            owner,
            request: request.clone(),
            sent,
            repeated: false,
            begun: now,
            token: token.as_ref().map(|(wire, _)| wire.clone()),
            quiet,
            deadline,
            latest,
            holds: 0,
        };
        self.open.insert(id, call);
        self.deadlines.insert((deadline, id));
        if let Some((wire, original)) = token {
            self.tokens.insert(wire, ProgressToken { original, call: id });
        }
        if method::may_ask(request.method()) {
            self.asking.insert(id);
        }
        (CallId(id), message)
    }

    /// The request as it goes out, and its progress token: on the wire, and the client's own.
    fn take_token(&mut self, request: &Message) -> (Message, Option<(Id, Bytes)>) {
        let original = request.get(Member::MetaProgressToken).map(Bytes::copy_from_slice);
        let (Some(original), Some(token)) = (original, request.progress_token()) else {
            return (request.clone(), None);
        };
        if self.sharing == Sharing::Alone {
            return (request.clone(), Some((token, original)));
        }
        let wire = Id::Text(format!("switchboard-{}", self.next_token).into());
        self.next_token += 1;
        let sent = request.with(Member::MetaProgressToken, wire.to_string());
        (sent, Some((wire, original)))
    }

    /// An answer arrived: whose it is. None if nobody waits for it.
    fn answer(&mut self, answer: &Message) -> Option<(CallId, OutstandingCall<O>)> {
        let id = CallId(answer.id()?.number()?);
        Some((id, self.end(id)?))
    }

    /// A call is over: answered, or nobody wants the answer any more. None if it is not open.
    fn end(&mut self, id: CallId) -> Option<OutstandingCall<O>> {
        let call = self.open.remove(&id.0)?;
        self.deadlines.remove(&(call.deadline, id.0));
        self.asking.remove(&id.0);
        if let Some(token) = &call.token {
            self.tokens.remove(token);
        }
        Some(call)
    }

    /// Progress arrived: the call it is about, and the notification in its client's words.
    fn progress(&mut self, message: &Message, now: Instant) -> Option<(CallId, Message)> {
        let token = self.tokens.get(&message.progress_token()?)?;
        let id = CallId(token.call);
        let message = match self.sharing {
            Sharing::Alone => message.clone(),
            Sharing::Shared => message.with(Member::ProgressToken, token.original.clone()),
        };
        self.change(id, now, |_| {});
        Some((id, message))
    }

    /// The server took a call on for an unknown time: it goes on for as long as it takes.
    fn keep(&mut self, id: CallId, now: Instant) {
        self.change(id, now, |call| (call.quiet, call.latest) = (FOR_EVER, now + FOR_EVER));
    }

    /// The server waits for the client of a call: until as many times
    /// [`release`](Self::release), only the time in all runs.
    fn hold(&mut self, id: CallId, now: Instant) {
        self.change(id, now, |call| call.holds += 1);
    }

    /// It has what it waited for.
    fn release(&mut self, id: CallId, now: Instant) {
        self.change(id, now, |call| call.holds = call.holds.saturating_sub(1));
    }

    /// There is a sign of life.
    fn change(
        &mut self,
        CallId(id): CallId,
        now: Instant,
        change: impl FnOnce(&mut OutstandingCall<O>),
    ) {
        let Some(call) = self.open.get_mut(&id) else { return };
        self.deadlines.remove(&(call.deadline, id));
        change(call);
        let is_held = call.holds > 0;
        call.deadline = if is_held { call.latest } else { call.latest.min(after(now, call.quiet)) };
        self.deadlines.insert((call.deadline, id));
    }

    /// Open calls of this method, and what was asked.
    fn of_method(&self, method: &str) -> impl Iterator<Item = (CallId, &Message)> {
        let open = self.open.iter().map(|(&id, call)| (CallId(id), &call.request));
        open.filter(move |(_, request)| request.method() == method)
    }

    /// The next call that has taken too long.
    fn expired(&mut self, now: Instant) -> Option<(CallId, OutstandingCall<O>)> {
        let &(_, id) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        Some((CallId(id), self.end(CallId(id))?))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The link is gone: every call that was open, oldest first.
    fn drain(&mut self) -> impl Iterator<Item = OutstandingCall<O>> + use<O> {
        self.deadlines.clear();
        self.asking.clear();
        self.tokens.clear();
        self.running.lose();
        std::mem::take(&mut self.open).into_values()
    }

    fn get(&self, id: CallId) -> Option<&OutstandingCall<O>> {
        self.open.get(&id.0)
    }

    fn get_mut(&mut self, id: CallId) -> Option<&mut OutstandingCall<O>> {
        self.open.get_mut(&id.0)
    }

    /// Notes that a call was sent again; false if it had been before.
    fn repeat(&mut self, id: CallId) -> bool {
        match self.open.get_mut(&id.0) {
            Some(call) => !std::mem::replace(&mut call.repeated, true),
            None => false,
        }
    }

    /// The calls that the server could be asking about, oldest first.
    fn asking(&self) -> impl Iterator<Item = CallId> {
        self.asking.iter().map(|&id| CallId(id))
    }

    /// The only call that the server could be asking about, if there is just one.
    fn sole_asking(&self) -> Option<CallId> {
        let mut open = self.asking.iter();
        match (open.next(), open.next()) {
            (Some(&id), None) => Some(CallId(id)),
            _ => None,
        }
    }

    /// The open calls that asked for log records, oldest first (LOG-1).
    fn wanting_logs(&self) -> Vec<CallId> {
        let open = self.open.iter().filter(|(_, call)| call.sent.has(Member::MetaLogLevel));
        open.map(|(&id, _)| CallId(id)).collect()
    }

    /// The open calls that `is_theirs` says yes to.
    fn ids(&self, is_theirs: impl Fn(&O) -> bool) -> Vec<CallId> {
        let theirs = self.open.iter().filter(|(_, call)| is_theirs(&call.owner));
        theirs.map(|(&id, _)| CallId(id)).collect()
    }

    /// Whose the open calls are.
    fn owners(&self) -> impl Iterator<Item = &O> {
        self.open.values().map(|call| &call.owner)
    }

    /// The only open call, if there is just one.
    fn only(&self) -> Option<CallId> {
        let mut open = self.open.iter();
        match (open.next(), open.next()) {
            (Some((&id, _)), None) => Some(CallId(id)),
            _ => None,
        }
    }

    fn len(&self) -> usize {
        self.open.len()
    }
}

/// The notice that a call is cancelled: the client's own, if it gave one, under our id.
fn cancel_notice(id: CallId, words: Option<&Message>) -> Message {
    let words = words.filter(|message| message.kind() == Kind::Notification);
    // Who might read another id than ours in them could cancel a call of somebody else.
    let words = words.filter(|message| !message.is_ambiguous(Member::RequestId)).cloned();
    let words = words.unwrap_or_else(|| Message::notification(method::CANCELLED, None));
    let has_list = words.payload().is_some_and(|params| !params.starts_with(b"{"));
    let words = if has_list { words.with_payload(b"{}") } else { words };
    words.with(Member::RequestId, id.0.to_string())
}

#[cfg(test)]
mod tests;
