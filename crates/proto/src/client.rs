//! The client half: faces one server, whatever revision it speaks.
//!
//! [`legacy::Legacy`] and [`modern::Modern`] are the two machines,
//! [`probe`] tells which one a server needs. Both are handed the verbs
//! of [`Up`](crate::exchange::Up), told what arrived on which lane, and hand
//! out [`Transmit`]s for the wire and [`Down`] verbs
//! for whoever opened the calls; drain both after every call.

use std::time::Instant;

use http::{HeaderName, HeaderValue};

use crate::exchange::{Ask, Down, Lane, Said};
use crate::jsonrpc::Message;
use crate::refusal::Refusal;
use legacy::Legacy;
use modern::Modern;

mod ledger;
pub mod legacy;
pub mod modern;
pub mod probe;
mod tools;
mod watch;

/// What a call's owner must be able to say of itself.
pub trait Ticket: Clone + PartialEq {
    /// Which of the clients that share this server it belongs to.
    fn owner(&self) -> u64;
}

/// A call as a client half knows it; also the lane it travels on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(pub u64);

impl CallId {
    /// A call that was answered on the spot: there is nothing to cancel.
    pub const DONE: Self = Self(0);

    /// The lane on which it travels over HTTP.
    pub fn lane(self) -> Lane {
        Lane(self.0)
    }
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

/// The half for one server, of either era.
#[derive(Debug)]
#[expect(missing_docs, reason = "the eras say it")]
pub enum Half<T> {
    Legacy(Box<Legacy<T>>),
    Modern(Box<Modern<T>>),
}

impl<T: Ticket> Half<T> {
    /// A client opens a call.
    pub fn open(&mut self, ticket: T, request: &Message, said: &Said, now: Instant) -> CallId {
        match self {
            Self::Legacy(half) => half.open(ticket, request, now),
            Self::Modern(half) => half.open(ticket, request, said, now),
        }
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: Message) {
        match self {
            Self::Legacy(half) => half.note(message),
            Self::Modern(half) => half.note(message),
        }
    }

    /// A client answers a question.
    pub fn supply(&mut self, ask: Ask, answer: &Message) {
        if let Self::Legacy(half) = self {
            half.supply(ask, answer);
        }
    }

    /// Nobody is there to answer a question.
    pub fn refuse_ask(&mut self, ask: Ask) {
        if let Self::Legacy(half) = self {
            half.refuse_ask(ask);
        }
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub fn drop_call(&mut self, id: CallId, words: Option<&Message>, now: Instant) {
        match self {
            Self::Legacy(half) => half.drop_call(id, words, now),
            Self::Modern(half) => half.drop_call(id, words, now),
        }
    }

    /// A client is gone for good.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        match self {
            Self::Legacy(half) => half.forget_owner(owner, now),
            Self::Modern(half) => half.forget_owner(owner, now),
        }
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_message(lane, message, now),
            Self::Modern(half) => half.handle_message(lane, message, now),
        }
    }

    /// A call's lane ended without its answer.
    pub fn handle_unanswered(&mut self, lane: Lane, why: &Refusal) {
        match self {
            Self::Legacy(half) => half.handle_unanswered(lane, why),
            Self::Modern(half) => half.handle_unanswered(lane, why),
        }
    }

    /// The server knows our session no more, and so did not run this call.
    pub fn handle_session_over(&mut self, lane: Lane, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_session_over(lane, now),
            Self::Modern(half) => half.handle_unanswered(lane, &Refusal::SessionOver),
        }
    }

    /// The link is gone. Every open call fails with `why`.
    pub fn handle_lost(&mut self, why: &Refusal) {
        match self {
            Self::Legacy(half) => half.handle_lost(why),
            Self::Modern(half) => half.handle_lost(why),
        }
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Legacy(half) => half.handle_timeout(now),
            Self::Modern(half) => half.handle_timeout(now),
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Legacy(half) => half.poll_timeout(),
            Self::Modern(half) => half.poll_timeout(),
        }
    }

    /// What to put on the wire, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        match self {
            Self::Legacy(half) => half.poll_transmit(),
            Self::Modern(half) => half.poll_transmit(),
        }
    }

    /// What to tell the clients, oldest first.
    pub fn poll_down(&mut self) -> Option<Down<T>> {
        match self {
            Self::Legacy(half) => half.poll_down(),
            Self::Modern(half) => half.poll_down(),
        }
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        match self {
            Self::Legacy(half) => half.find(ticket),
            Self::Modern(half) => half.find(ticket),
        }
    }

    /// The lane of the only open call, if there is just one.
    pub fn only_call(&self) -> Option<Lane> {
        match self {
            Self::Legacy(half) => half.only_call(),
            Self::Modern(half) => half.only_call(),
        }
    }

    /// Whether the call that travels on `lane` still waits for its answer.
    pub fn is_open(&self, lane: Lane) -> bool {
        match self {
            Self::Legacy(half) => half.is_open(lane),
            Self::Modern(half) => half.is_open(lane),
        }
    }

    /// Who opened the call that travels on `lane`, if it is open and may be
    /// answered on another connection than its own.
    pub fn ticket(&self, lane: Lane) -> Option<&T> {
        match self {
            Self::Legacy(half) => half.ticket(lane),
            Self::Modern(_) => None,
        }
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        match self {
            Self::Legacy(half) => half.calls(),
            Self::Modern(half) => half.calls(),
        }
    }
}
