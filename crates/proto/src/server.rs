//! The server half: faces one client, whatever revision it speaks.
//!
//! [`era::classify`] tells by its first message which era a client speaks;
//! [`legacy::Legacy`] and [`modern::Modern`] are the two machines. Both are
//! told what arrived on which lane and hand out [`Frame`]s for lanes and
//! [`Up`](crate::exchange::Up) verbs for the inside; drain both after every call.

use bytes::Bytes;

use crate::replay::EventId;

pub mod era;
pub mod legacy;
pub mod modern;
mod streams;

/// What to do on a lane next.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum Frame {
    /// The whole answer: nothing came before it, nothing follows.
    Answer { status: u16, text: Bytes },
    /// Taken; there is no answer to wait for.
    Accepted,
    /// This begins a stream; more is to come.
    Begin { prime: Option<Prime> },
    /// One message of a stream, or one line of a pipe.
    Message { event: Option<EventId>, text: Bytes },
    /// The stream is over, or the call is without an answer.
    End,
}

/// An event that only says how to come back (HTTP-10, HTTP-11).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the field names say it")]
pub struct Prime {
    pub event: EventId,
    pub retry_ms: u64,
}

impl Frame {
    /// How much of a backlog it is.
    pub fn weight(&self) -> usize {
        match self {
            Self::Answer { text, .. } | Self::Message { text, .. } => text.len() + 64,
            Self::Accepted | Self::Begin { .. } | Self::End => 64,
        }
    }
}
