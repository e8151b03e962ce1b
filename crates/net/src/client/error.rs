//! What can come of a call but its result.

use std::time::Duration;

use serde_json::Value;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Kind, Message};

/// Why a call has no result. The texts are those of seed 000.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("MCP error {code}: {message}")]
    Server { code: i64, message: String, data: Option<Value> },
    /// There is no answer: the server could not be reached, went away, or took too long.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// An answer that makes no sense.
    #[error("the server's answer cannot be used: {what}")]
    Unusable { what: String },
    /// The parameters are no JSON object.
    #[error("parameters must be a JSON object")]
    BadParams,
    /// The server needs input that nobody here gives.
    #[error("the server asks for {method}: {why}")]
    Unanswered { method: String, why: String },
    /// The server has not said that it can do this.
    #[error("the server does not offer {what}")]
    Unsupported { what: String },
    /// The task ended because somebody cancelled it.
    #[error("the task was cancelled")]
    Cancelled,
    /// The server kept asking.
    #[error("the server asked for input more than {rounds} times in a row")]
    TooManyRounds { rounds: usize },
}

impl CallError {
    /// The HTTP status, if one is the reason.
    pub fn status(&self) -> Option<u16> {
        self.failure().and_then(Failure::status)
    }

    /// Why there is no answer, if there is none.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether there is no answer, and the server may be gone.
    pub(crate) fn is_broken(&self) -> bool {
        let is_told = |it: &Failure| matches!(it, Failure::Timeout { .. }) || it.status().is_some();
        self.failure().is_some_and(|failure| !is_told(failure))
    }

    /// No answer came in this time.
    pub(crate) fn timeout(waited: Duration) -> Self {
        Self::Failed(Failure::Timeout { waited })
    }

    /// What an error answer says.
    pub(super) fn from_answer(answer: &Message) -> Self {
        debug_assert_eq!(answer.kind(), Kind::Error);
        Self::from_error(&answer.payload_value().unwrap_or_default())
    }

    /// What an error object says.
    pub(super) fn from_error(error: &Value) -> Self {
        let code = error["code"].as_i64().unwrap_or_default();
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        Self::Server { code, message, data: error.get("data").cloned() }
    }
}

/// Why there is no connection.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// The first exchange failed.
    #[error(transparent)]
    Failed(#[from] CallError),
    /// Nothing that both sides speak.
    #[error("no protocol version in common; the server speaks {theirs}")]
    NoCommonRevision { theirs: String },
    /// The era that was asked for is not the server's.
    #[error("the server does not speak the modern protocol: {why}")]
    NotModern { why: String },
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Failed(CallError::Failed(failure)) => failure,
            ConnectError::Failed(CallError::Server { code, message, .. }) => {
                Self::Rejected { code, message: message.into() }
            }
            ConnectError::NoCommonRevision { theirs } => {
                Self::NoCommonRevision { theirs: theirs.into() }
            }
            ConnectError::NotModern { .. } => Self::Unusable { what: error.to_string().into() },
            ConnectError::Failed(error) => Self::Unusable { what: error.to_string().into() },
        }
    }
}
