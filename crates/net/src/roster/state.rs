//! How a server stands, in words for the user.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use switchboard_proto::failure::Failure;

use super::definition::Kind;
use crate::client;

/// How a server stands.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// It has not had its turn to connect.
    Waiting,
    /// It is being connected, and its lists read.
    Connecting,
    /// It can be called, and its lists are its own.
    Ready,
    /// It broke or could not be reached, and is tried again then.
    Retrying { error: Failure, at: Instant },
    /// It broke too often. It is tried again then; if that is not said, when it
    /// is restarted or, after a while, used.
    Failed { error: Failure, at: Option<Instant> },
    /// Nobody has used it for long. Its lists are its own, and whoever wants it wakes it.
    Asleep,
}

impl State {
    /// Whether its lists are its own, and it can be called.
    pub(super) fn is_current(&self) -> bool {
        matches!(self, Self::Ready | Self::Asleep)
    }

    /// Whether something is known of this attempt: there is nothing to wait for.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Connecting)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting for its turn to connect"),
            Self::Connecting => f.write_str("connecting"),
            Self::Ready => f.write_str("ready"),
            Self::Retrying { error, .. } => write!(f, "{error}; it is tried again soon"),
            Self::Asleep => f.write_str("asleep"),
            Self::Failed { error, .. } => {
                write!(f, "{error}; it broke too often and is left alone")
            }
        }
    }
}

/// A server that is not ready, and what is offered in its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deferred {
    /// Its name.
    pub name: Arc<str>,
    /// Why it is not ready.
    pub state: State,
    /// Whether its lists of an earlier time are offered meanwhile.
    pub is_cached: bool,
}

/// Something about the servers is different.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// A server stands otherwise.
    State { server: Arc<str>, state: State },
    /// A server offers something else.
    Definitions { server: Arc<str>, kind: Kind },
    /// A server was removed.
    Removed { server: Arc<str> },
    /// Whoever reads this was too slow: look at everything again.
    Missed,
}

/// Why a server was not added.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddError {
    /// The roster was closed.
    #[error("the roster is closed")]
    Closed,
    /// There are as many servers as there may be.
    #[error("there are {most} servers already")]
    Full { most: usize },
    /// Another server has the name.
    #[error("there is a server called {name:?} already")]
    Taken { name: String },
}

/// Why a call has no result.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The call was made, and failed. It may have been acted on.
    #[error(transparent)]
    Failed(#[from] client::CallError),
    /// The server was not there in time. Nothing was sent.
    #[error("server {name:?} is not ready: {state}")]
    NotReady { name: String, state: State },
    /// There is no such server.
    #[error("no server is called {name:?}")]
    Unknown { name: String },
}
