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

use std::time::Instant;

use http::{HeaderName, HeaderValue};

use crate::exchange::{Ask, HeaderParams, Lane, ServerEvent};
use crate::failure::Failure;
use crate::jsonrpc::Message;
use crate::refusal::Refusal;
use legacy::LegacyClientHalf;
use modern::ModernClientHalf;
use to_legacy::ToLegacy;
use to_modern::ToModern;

mod across;
mod ledger;
pub mod legacy;
pub mod modern;
pub mod probe;
pub mod to_legacy;
pub mod to_modern;
mod tool_headers;

#[cfg(test)]
mod script;

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
        match self {
            Self::Legacy(half) => half.refuse_ask(ask, now),
            Self::Modern(_) => {}
            Self::ToModern(half) => half.refuse_ask(ask, now),
            Self::ToLegacy(half) => half.refuse_ask(ask, now),
        }
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
        each!(self, half => half.handle_message(lane, message, now));
    }

    /// A call's lane ended without its answer.
    pub fn handle_unanswered(&mut self, lane: Lane, why: &Failure, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_unanswered(lane, why),
            Self::Modern(half) => half.handle_unanswered(lane, why),
            Self::ToModern(half) => half.handle_unanswered(lane, why, now),
            Self::ToLegacy(half) => half.handle_unanswered(lane, why, now),
        }
    }

    /// The server knows our session no more, and so did not run this call.
    pub fn handle_session_over(&mut self, lane: Lane, now: Instant) {
        let why = Failure::from(Refusal::SessionOver);
        match self {
            Self::Legacy(half) => half.handle_session_over(lane, now),
            Self::Modern(half) => half.handle_unanswered(lane, &why),
            Self::ToModern(half) => half.handle_unanswered(lane, &why, now),
            Self::ToLegacy(half) => half.handle_session_over(lane, now),
        }
    }

    /// The server knows our session no more, and no call has found out: it is
    /// greeted again. Does nothing while it is being greeted.
    pub fn renew_session(&mut self, now: Instant) {
        match self {
            Self::Legacy(half) => half.renew_session(now),
            Self::ToLegacy(half) => half.renew_session(now),
            // They have none.
            Self::Modern(_) | Self::ToModern(_) => {}
        }
    }

    /// The server did not take the answer to a question.
    pub fn handle_unsupplied(&mut self, answer: &Message, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_unsupplied(answer),
            Self::ToLegacy(half) => half.handle_unsupplied(answer, now),
            // They are answered by calls.
            Self::Modern(_) | Self::ToModern(_) => {}
        }
    }

    /// For a while nobody heard what the server says that belongs to no call.
    pub fn handle_gap(&mut self, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_gap(),
            Self::ToLegacy(half) => half.handle_gap(now),
            // They know by themselves.
            Self::Modern(_) | Self::ToModern(_) => {}
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
        each!(self, half => half.poll_transmit())
    }

    /// What to tell the clients, oldest first.
    pub fn poll_down(&mut self) -> Option<ServerEvent<T>> {
        each!(self, half => half.poll_down())
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        each!(self, half => half.find(ticket))
    }

    /// The lane of the only open call, if there is just one.
    pub fn only_call(&self) -> Option<Lane> {
        each!(self, half => half.only_call())
    }

    /// Whether the call that travels on `lane` still waits for its answer.
    pub fn is_open(&self, lane: Lane) -> bool {
        each!(self, half => half.is_open(lane))
    }

    /// Whether the server has ever told of itself, so that clients may count on it.
    pub fn is_met(&self) -> bool {
        match self {
            Self::Legacy(half) => half.welcome().is_some(),
            Self::ToLegacy(half) => half.is_met(),
            Self::ToModern(half) => half.is_met(),
            Self::Modern(_) => false,
        }
    }

    /// Whether a server with a handshake has not been through it.
    pub fn is_greeting(&self) -> bool {
        match self {
            Self::Legacy(half) => !half.is_ready(),
            Self::ToLegacy(half) => !half.is_ready(),
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
        match self {
            Self::Legacy(half) => half.is_needed(now),
            Self::Modern(half) => half.is_needed(now),
            Self::ToModern(half) => half.is_needed(now),
            Self::ToLegacy(half) => half.is_needed(now),
        }
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
