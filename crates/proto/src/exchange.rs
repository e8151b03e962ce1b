//! The era-neutral form of a conversation, and its six verbs.
//!
//! A server half faces a client and says what the client wants as [`ClientEvent`]; a
//! client half faces a server and says what came of it as [`ServerEvent`]. Whoever
//! stands between them passes the verbs across:
//!
//! ```text
//!   open    someone asks                   ClientEvent::Open
//!   note    something on the way           ClientEvent::Note, ServerEvent::Note
//!   ask     the server needs input         ServerEvent::Ask
//!   supply  here is the input              ClientEvent::Again, ClientEvent::Supply
//!   finish  the answer                     ServerEvent::Finish
//!   drop    nobody wants it any more       ClientEvent::Drop (a call), ServerEvent::Recall (a question)
//! ```
//!
//! Verbs carry whole messages, and their text passes as it is. Their ids mean nothing on
//! the other side: each half gives the message the id its own peer knows, which may be the
//! one that it has.

use crate::failure::Outcome;
use crate::header::Header;
use crate::jsonrpc::Message;

/// Arguments that a client repeated as headers; none if it has no headers.
pub type HeaderParams = Option<Vec<Header>>;

/// A call as a server half knows it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Exchange(pub u64);

/// A question as a client half knows it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ask(pub u64);

/// The number that is `next`, and counts on: each is given out once.
pub(crate) fn take_number(next: &mut u64) -> u64 {
    *next += 1;
    *next - 1
}

/// The HTTP exchange a message arrived on or must leave by. A pipe has one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Lane(pub u64);

impl Lane {
    /// The only lane of a pipe; on HTTP, the stream that belongs to no call.
    pub const MAIN: Self = Self(0);
}

/// How messages travel to and from one peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carrier {
    /// One ordered stream each way: stdio, HTTP+SSE.
    Pipe,
    /// A lane for each POST, and streams that can be resumed: Streamable HTTP.
    Http,
}

/// What a client wants, said by the half that faces it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum ClientEvent {
    /// A call begins. `said` is what the client sent as `Mcp-Param-*` headers,
    /// none if it has no headers to send.
    Open { exchange: Exchange, request: Message, said: HeaderParams },
    /// A modern client is back with input for a call that waited for it. From here on
    /// the call is made by this request, as far as `_meta` goes. Answers follow.
    Again { exchange: Exchange, request: Message },
    /// The answer to a question.
    Supply { ask: Ask, answer: Message },
    /// Something that wants no answer.
    Note { message: Message },
    /// The call is not wanted any more; the client's own words, if it said any.
    Drop { exchange: Exchange, message: Option<Message> },
}

/// What a server says, said by the half that faces it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum ServerEvent<T> {
    /// Something on the way.
    Note { to: To<T>, message: Message },
    /// The server needs input.
    Ask { to: To<T>, ask: Ask, request: Message },
    /// It does not need it any more.
    Recall { to: To<T>, ask: Ask, message: Message },
    /// The answer, or why there is none.
    Finish { to: T, outcome: Outcome },
    /// A call that was dropped, and whose answer would still have been passed on,
    /// gets none.
    Unanswered { to: T },
}

/// Whom something is meant for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum To<T> {
    /// The owner of this call.
    Call(T),
    /// Whoever is connected: it belongs to no call, or to none that could be told.
    Session,
}

impl ClientEvent {
    /// The call that it drops, if it drops one.
    pub fn dropped(&self) -> Option<Exchange> {
        if let Self::Drop { exchange, .. } = self { Some(*exchange) } else { None }
    }

    /// Which verb it is, for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Again { .. } => "again",
            Self::Supply { .. } => "supply",
            Self::Note { .. } => "note",
            Self::Drop { .. } => "drop",
        }
    }
}

impl<T> ServerEvent<T> {
    /// Which verb it is, for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Note { .. } => "note",
            Self::Ask { .. } => "ask",
            Self::Recall { .. } => "recall",
            Self::Finish { .. } => "finish",
            Self::Unanswered { .. } => "unanswered",
        }
    }
}
