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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Table;
use crate::exchange::{Ask, HeaderParams, Lane, ServerEvent, To, take_number};
use crate::failure::{Failure, Outcome};
use crate::header::Header;
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

    /// Whether its request has an id that its client chose, and that no other request of
    /// this client has. Then the server may see that id.
    fn has_own_id(&self) -> bool {
        false
    }
}

/// What the clients are to be told, oldest first.
#[derive(Debug)]
struct EventQueue<T>(VecDeque<ServerEvent<T>>);

impl<T> EventQueue<T> {
    fn note(&mut self, to: To<T>, message: Message) {
        self.0.push_back(ServerEvent::Note { to, message });
    }

    fn ask(&mut self, to: To<T>, ask: Ask, request: Message) {
        self.0.push_back(ServerEvent::Ask { to, ask, request });
    }

    /// Takes a question back in the server's name.
    fn recall(&mut self, to: To<T>, ask: Ask) {
        let message = Message::notification(method::CANCELLED, Some(b"{\"requestId\":0}"));
        self.0.push_back(ServerEvent::Recall { to, ask, message });
    }

    fn finish(&mut self, to: T, outcome: impl Into<Outcome>) {
        self.0.push_back(ServerEvent::Finish { to, outcome: outcome.into() });
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
    /// To know what its tools are like.
    Tools,
    /// To know what a task comes to, by the task's id.
    TaskEnd(Box<str>),
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
            Self::Listen(listen) | Self::Watch { listen, .. } => listener(*listen),
            other => other.ticket().map_or(u64::MAX, Ticket::owner),
        }
    }

    fn awaits_dropped(&self) -> bool {
        self.native().is_some_and(Ticket::awaits_dropped)
    }

    fn principal(&self) -> &[u8] {
        self.ticket().map_or(b"", Ticket::principal)
    }

    // A layer makes several requests of one: those have ids of ours.
    fn has_own_id(&self) -> bool {
        self.native().is_some_and(Ticket::has_own_id)
    }
}

/// Who watches for a listen: a number apart from those of clients.
fn listener(listen: u64) -> u64 {
    listen | 1 << 63
}

/// Whether one client or several stand behind the calls.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sharing {
    /// One: its ids and progress tokens pass as they are.
    #[default]
    Alone,
    /// Several: ids and tokens are rewritten, what belongs to no call goes to nobody
    /// who could be the wrong one.
    Shared,
}

/// What to put on the wire.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum Transmit {
    /// Write it to the pipe, or POST it; over HTTP its answer comes back on `lane`.
    Send { lane: Lane, message: Message, headers: Vec<Header> },
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

/// The same member of whichever half it is.
macro_rules! each {
    ($half:expr, $($member:tt)+) => {
        match $half {
            ClientHalf::Legacy(half) => half.$($member)+,
            ClientHalf::Modern(half) => half.$($member)+,
            ClientHalf::ToModern(layer) => layer.$($member)+,
            ClientHalf::ToLegacy(layer) => layer.$($member)+,
        }
    };
}

/// The same member of the half that faces the server, which a layer is upon or not.
macro_rules! facing {
    ($half:expr, $($member:tt)+) => {
        match $half {
            ClientHalf::Legacy(half) => half.$($member)+,
            ClientHalf::Modern(half) => half.$($member)+,
            ClientHalf::ToModern(layer) => layer.inner.$($member)+,
            ClientHalf::ToLegacy(layer) => layer.inner.$($member)+,
        }
    };
}

impl<T: Ticket> ClientHalf<T> {
    /// A client opens a call.
    pub fn open(&mut self, ticket: T, request: &Message, said: &HeaderParams, now: Instant) {
        match self {
            Self::Legacy(half) => half.open(ticket, request, now),
            Self::Modern(half) => half.open(ticket, request, said, now),
            Self::ToModern(layer) => layer.open(ticket, request, said, now),
            Self::ToLegacy(layer) => layer.open(ticket, request, said, now),
        }
        self.translate(now);
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: Message, now: Instant) {
        each!(self, note(message, now));
        self.translate(now);
    }

    /// A client answers a question.
    pub fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        each!(self, supply(ask, answer, now));
        self.translate(now);
    }

    /// Nobody is there to answer a question.
    pub fn refuse_ask(&mut self, ask: Ask, now: Instant) {
        self.supply(ask, &Message::refusal(None, &Refusal::NobodyToAsk), now);
    }

    /// A modern client is back with input for a call, by this request.
    pub fn again(&mut self, ticket: &T, request: &Message, now: Instant) {
        // Who speaks the client's own era gets each request of it.
        if let Self::ToLegacy(layer) = self {
            layer.again(ticket, request, now);
        }
        self.translate(now);
    }

    /// A client gave up on a call, which may be over; its own words, if it gave any.
    pub fn drop_call(&mut self, ticket: &T, words: Option<&Message>, now: Instant) {
        each!(self, drop_call(ticket, words, now));
        self.translate(now);
    }

    /// A client is gone for good.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        each!(self, forget_owner(owner, now));
        self.translate(now);
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        facing!(self, handle_message(lane, message, now));
        self.translate(now);
    }

    /// A call's lane ended without its answer.
    pub fn handle_unanswered(&mut self, lane: Lane, why: &Failure, now: Instant) {
        facing!(self, handle_unanswered(lane, why));
        self.translate(now);
    }

    /// The server knows our session no more, and so did not run this call.
    pub fn handle_session_over(&mut self, lane: Lane, now: Instant) {
        facing!(self, handle_session_over(lane, now));
        self.translate(now);
    }

    /// The server knows our session no more, and no call has found out: it is
    /// greeted again. Does nothing while it is being greeted.
    pub fn renew_session(&mut self, now: Instant) {
        facing!(self, renew_session(now));
        self.translate(now);
    }

    /// The server did not take the answer to a question.
    pub fn handle_unsupplied(&mut self, answer: &Message, now: Instant) {
        facing!(self, handle_unsupplied(answer));
        self.translate(now);
    }

    /// For a while nobody heard what the server says that belongs to no call.
    pub fn handle_gap(&mut self, now: Instant) {
        facing!(self, handle_gap());
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
        each!(self, handle_lost(why, now));
    }

    /// Whether the server says anything that belongs to no call is known now.
    pub fn handle_hearing(&mut self, hears: bool, now: Instant) {
        if let Self::ToLegacy(layer) = self {
            layer.handle_hearing(hears, now);
        }
        self.translate(now);
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        each!(self, handle_timeout(now));
        self.translate(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        each!(self, poll_timeout())
    }

    /// What to put on the wire, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        facing!(self, out.pop_front())
    }

    /// What to tell the clients, oldest first.
    pub fn poll_to_client(&mut self) -> Option<ServerEvent<T>> {
        each!(self, to_client.0.pop_front())
    }

    /// The lane of the only open call, if there is just one.
    pub fn only_call(&self) -> Option<Lane> {
        facing!(self, ledger.only())
    }

    /// Whether the call that travels on `lane` still waits for its answer.
    pub fn is_open(&self, lane: Lane) -> bool {
        facing!(self, is_open(lane))
    }

    /// The lane of the call that the server knows by this id, where ids tell calls apart.
    pub fn lane_of(&self, wire_id: &Id) -> Option<Lane> {
        facing!(self, lane_of(wire_id))
    }

    /// Whether the server has ever told of itself, so that clients may count on it.
    pub fn is_met(&self) -> bool {
        match self {
            Self::Legacy(half) => half.welcome.is_some(),
            Self::ToLegacy(layer) => layer.inner.welcome.is_some(),
            Self::ToModern(layer) => layer.is_met(),
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
            Self::ToLegacy(layer) => layer.inner.ticket(lane)?.native(),
            // A modern call lives and dies with its connection, on either side.
            Self::Modern(_) | Self::ToModern(_) => None,
        }
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        match self {
            Self::Legacy(half) => half.ledger.open.len(),
            Self::Modern(half) => half.ledger.open.len(),
            Self::ToModern(layer) => layer.calls(),
            Self::ToLegacy(layer) => layer.calls(),
        }
    }

    /// How many of these calls only wait to hear of changes.
    pub fn listens(&self) -> usize {
        match self {
            Self::Legacy(_) => 0,
            Self::Modern(half) => {
                let open = half.ledger.open.values();
                open.filter(|call| call.request.method() == method::LISTEN).count()
            }
            Self::ToModern(layer) => layer.listeners(),
            Self::ToLegacy(layer) => layer.listeners(),
        }
    }

    /// What a legacy server was greeted with, for clients that share it.
    pub fn hello(&self) -> Option<&Message> {
        match self {
            Self::Legacy(half) => half.hello.as_ref(),
            _ => None,
        }
    }

    /// Whether a client counts on the link without any call of its own: it waits
    /// to hear of a resource, or a task of its goes on there.
    pub fn is_needed(&self, now: Instant) -> bool {
        each!(self, is_needed(now))
    }

    /// Whether somebody began this task by this link, and its server, of another
    /// era, knows it by nothing else.
    pub fn has_task(&self, id: &str, principal: &[u8]) -> bool {
        matches!(self, Self::ToLegacy(layer) if layer.has_task(id, principal))
    }

    /// The link is ended because nobody uses it: the next call begins anew, and
    /// nobody is told that anything may have changed.
    pub fn rest(&mut self, why: &Failure, now: Instant) {
        self.handle_lost(why, now);
        match self {
            Self::Legacy(half) => half.rested = true,
            Self::Modern(_) => {}
            Self::ToModern(layer) => layer.rest(),
            Self::ToLegacy(layer) => layer.inner.rested = true,
        }
    }
}

// The ledger: the calls towards one server: their owners, ids and progress tokens, and which of
// them a question is about.
//
// A call has a number of ours, its lane. Its wire id is the one that the server sees: the
// client's own where no other call can be taken for it, else that number, or one far above it
// where the client's ids may be numbers. A call that takes too long is given up. Tokens are rewritten only where clients share the server (STD-9).

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
    /// By the lanes on which they travel over HTTP.
    open: BTreeMap<Lane, OutstandingCall<O>>,
    /// Each open call once, the most urgent first.
    deadlines: BTreeSet<(Instant, Lane)>,
    /// By value, for a server may spell a token its own way.
    tokens: Table<Id, Lane>,
    next_token: u64,
    /// The open calls of a session that have another wire id than their number.
    wire_ids: Table<Id, Lane>,
    /// Ids of the client pass. Ours do not look like them from here on.
    ids_pass: bool,
    /// The highest number below [`OWN_IDS`] that was an id in a session of one client. Only
    /// higher ones pass, so that an answer that comes late is never taken for another's.
    highest: Option<u64>,
    limits: Limits,
    running: Running,
}

/// One call in flight.
#[derive(Debug)]
struct OutstandingCall<O> {
    owner: O,
    /// In its client's words.
    request: Message,
    /// As it went out except for its id, in case it may be sent again.
    sent: Message,
    /// What the server knows it by.
    wire_id: Id,
    /// It was sent again already.
    repeated: bool,
    begun: Instant,
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

/// Where ids of ours begin in a session in which those of a client pass: more than clients
/// count to. Every server reads such a number and those below it, and answers under it;
/// texts, fractions and larger numbers some do not.
const OWN_IDS: u64 = 1_000_000_000;

/// How progress tokens of ours begin.
const OURS: &str = "switchboard-";

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 10);

/// A time without end must not overflow the clock.
fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now + FOR_EVER)
}

/// The only one that there is.
pub(crate) fn sole<I>(mut all: impl Iterator<Item = I>) -> Option<I> {
    let first = all.next();
    first.filter(|_| all.next().is_none())
}

impl<O> Ledger<O> {
    fn new(sharing: Sharing, limits: &Limits) -> Self {
        Self {
            sharing,
            next_id: 1,
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            tokens: Table::default(),
            next_token: 1,
            wire_ids: Table::default(),
            ids_pass: false,
            highest: None,
            limits: limits.clone(),
            running: Running::new(limits),
        }
    }

    /// Whether as many calls are open as one server may have.
    fn is_full(&self) -> bool {
        self.open.len() >= self.limits.calls.saturating_mul(4)
    }

    /// Starts a call in a session. Where that belongs to one client, `own_id` passes, if it is
    /// a number that every server reads and higher than those before it: clients count.
    fn begin_in_session(
        &mut self,
        owner: O,
        request: &Message,
        own_id: Option<&Id>,
        now: Instant,
    ) -> (Lane, Message) {
        let number = self.next_id;
        self.ids_pass |= own_id.is_some() && self.sharing == Sharing::Alone;
        if !self.ids_pass {
            self.highest = Some(number);
            return self.begin(owner, request, None, now);
        }
        let is_new = |id: &u64| *id < OWN_IDS && self.highest.is_none_or(|highest| *id > highest);
        let own_id = own_id.and_then(Id::number).filter(is_new);
        self.highest = own_id.or(self.highest);
        let wire_id = Id::from(own_id.unwrap_or(OWN_IDS + number));
        self.wire_ids.insert(wire_id.clone(), Lane(number));
        self.begin(owner, request, Some(wire_id), now)
    }

    /// Starts a call; says on which lane, and what to send. Without a `wire_id` the lane's
    /// number is its id.
    fn begin(
        &mut self,
        owner: O,
        request: &Message,
        wire_id: Option<Id>,
        now: Instant,
    ) -> (Lane, Message) {
        let id = Lane(take_number(&mut self.next_id));
        let wire_id = wire_id.unwrap_or(Id::from(id.0));
        let mut sent = request.clone();
        if self.sharing == Sharing::Shared && request.progress_token().is_some() {
            let token = format!("\"{OURS}{}\"", take_number(&mut self.next_token));
            sent = sent.with(Member::MetaProgressToken, token);
        }
        self.tokens.extend(sent.progress_token().map(|token| (token, id)));
        let message = sent.with_id(&wire_id);
        let greeting = self.limits.greeting.filter(|_| request.method() == method::INITIALIZE);
        let quiet = greeting.unwrap_or(self.limits.quiet);
        let latest = after(now, self.limits.total);
        let deadline = latest.min(after(now, quiet));
        let call = OutstandingCall {
            owner,
            request: request.clone(),
            sent,
            wire_id,
            repeated: false,
            begun: now,
            quiet,
            deadline,
            latest,
            holds: 0,
        };
        self.open.insert(id, call);
        self.deadlines.insert((deadline, id));
        (id, message)
    }

    /// The open call that the server knows by this id.
    fn lane_of(&self, wire_id: &Id) -> Option<Lane> {
        let named = self.wire_ids.get(wire_id).copied();
        let lane = named.or_else(|| wire_id.number().map(Lane))?;
        self.open.get(&lane).filter(|call| call.wire_id == *wire_id).map(|_| lane)
    }

    /// An answer arrived by the lane of its call, and names that call: whose it is. None if
    /// nobody waits for it.
    fn answer_on(
        &mut self,
        lane: Lane,
        answer: &Message,
        now: Instant,
    ) -> Option<(Lane, OutstandingCall<O>)> {
        let is_its_own = Some(&self.open.get(&lane)?.wire_id) == answer.id();
        if is_its_own { self.finish(lane, answer, now) } else { None }
    }

    /// An answer arrived by any lane: whose it is. None if nobody waits for it.
    fn answer(&mut self, answer: &Message, now: Instant) -> Option<(Lane, OutstandingCall<O>)> {
        self.finish(self.lane_of(answer.id()?)?, answer, now)
    }

    fn finish(
        &mut self,
        id: Lane,
        answer: &Message,
        now: Instant,
    ) -> Option<(Lane, OutstandingCall<O>)> {
        let call = self.end(id)?;
        self.running.see(&call.request, answer, now);
        Some((id, call))
    }

    /// A call is over: answered, or nobody wants the answer any more. None if it is not open.
    fn end(&mut self, id: Lane) -> Option<OutstandingCall<O>> {
        let call = self.open.remove(&id)?;
        self.deadlines.remove(&(call.deadline, id));
        if self.open.is_empty() {
            // Empty, they would keep room for eleven calls as long as the session lasts.
            (self.open, self.deadlines) = (BTreeMap::new(), BTreeSet::new());
        }
        if !self.wire_ids.is_empty() {
            self.wire_ids.remove(&call.wire_id);
        }
        if let Some(token) = call.sent.progress_token() {
            self.tokens.remove(&token);
        }
        Some(call)
    }

    /// Progress arrived: the call it is about, and the notification in its client's words.
    fn progress(&mut self, message: &Message, now: Instant) -> Option<(Lane, Message)> {
        let &id = self.tokens.get(&message.progress_token()?)?;
        let message = match self.sharing {
            Sharing::Alone => message.clone(),
            Sharing::Shared => {
                let original = self.open.get(&id)?.request.get(Member::MetaProgressToken)?;
                message.with(Member::ProgressToken, Bytes::copy_from_slice(original))
            }
        };
        self.change(id, now, |_| {});
        Some((id, message))
    }

    /// The server took a call on for an unknown time: it goes on for as long as it takes.
    fn keep(&mut self, id: Lane, now: Instant) {
        self.change(id, now, |call| (call.quiet, call.latest) = (FOR_EVER, now + FOR_EVER));
    }

    /// The server waits for the client of a call: until as many times
    /// [`release`](Self::release), only the time in all runs.
    fn hold(&mut self, id: Lane, now: Instant) {
        self.change(id, now, |call| call.holds += 1);
    }

    /// It has what it waited for.
    fn release(&mut self, id: Lane, now: Instant) {
        self.change(id, now, |call| call.holds = call.holds.saturating_sub(1));
    }

    /// There is a sign of life.
    fn change(&mut self, id: Lane, now: Instant, change: impl FnOnce(&mut OutstandingCall<O>)) {
        let Some(call) = self.open.get_mut(&id) else { return };
        self.deadlines.remove(&(call.deadline, id));
        change(call);
        let is_held = call.holds > 0;
        call.deadline = if is_held { call.latest } else { call.latest.min(after(now, call.quiet)) };
        self.deadlines.insert((call.deadline, id));
    }

    /// The next call that has taken too long.
    fn expired(&mut self, now: Instant) -> Option<(Lane, OutstandingCall<O>)> {
        let &(_, id) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        Some((id, self.end(id)?))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The link is gone: every call that was open, oldest first.
    fn drain(&mut self) -> impl Iterator<Item = OutstandingCall<O>> + use<O> {
        self.deadlines.clear();
        self.tokens.clear();
        self.wire_ids.clear();
        self.running.lose();
        std::mem::take(&mut self.open).into_values()
    }

    /// The open calls that `is_meant` says yes to, oldest first.
    fn select(&self, is_meant: impl Fn(&OutstandingCall<O>) -> bool) -> impl Iterator<Item = Lane> {
        self.open.iter().filter(move |(_, call)| is_meant(call)).map(|(&id, _)| id)
    }

    /// The calls that the server could be asking about, oldest first.
    fn asking(&self) -> impl Iterator<Item = Lane> {
        self.select(|call| method::may_ask(call.request.method()))
    }

    /// The only open call, if there is just one.
    fn only(&self) -> Option<Lane> {
        sole(self.open.keys().copied())
    }
}

/// The notice that a call is cancelled: the client's own, if it gave one, under its wire id.
fn cancel_notice(wire_id: &Id, words: Option<&Message>) -> Message {
    let words = words.filter(|message| message.kind() == Kind::Notification);
    // Who might read another id than this in them could cancel a call of somebody else.
    let words = words.filter(|message| !message.is_ambiguous(Member::RequestId)).cloned();
    let words = words.unwrap_or_else(|| Message::notification(method::CANCELLED, None));
    let has_list = words.payload().is_some_and(|params| !params.starts_with(b"{"));
    let words = if has_list { words.with_payload(b"{}") } else { words };
    words.with(Member::RequestId, wire_id.to_string())
}

#[cfg(test)]
mod tests;
