//! The client half: faces one server, whatever revision it speaks.
//!
//! [`legacy::Legacy`] and [`modern::Modern`] are the two machines,
//! [`probe::Probe`] tells which one a server needs. Both are handed the verbs
//! of [`Up`](crate::exchange::Up), told what arrived on which lane, and hand
//! out [`Transmit`]s for the wire and [`Down`](crate::exchange::Down) verbs
//! for whoever opened the calls; drain both after every call.

use http::{HeaderName, HeaderValue};

use crate::exchange::Lane;
use crate::jsonrpc::Message;

mod ledger;
pub mod legacy;
pub mod modern;
pub mod probe;
mod tools;
mod watch;

/// What a call's owner must be able to say of itself.
pub trait Ticket: Clone {
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
