//! What can come of a call but its result.

use serde_json::Value;
use switchboard_proto::jsonrpc::{Kind, Message};

/// Why a call has no result. The texts are those of seed 000.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("MCP error {code}: {message}")]
    Server { code: i64, message: String, data: Option<Value> },
    /// An HTTP response that is no answer.
    #[error("HTTP {status}: {text}")]
    Http { status: u16, text: String },
    /// The server could not be reached, or went away.
    #[error("{text}")]
    Transport { text: String },
    /// No answer, and no progress, in the time that was given.
    #[error("Request timeout after {millis}ms")]
    Timeout { millis: u128 },
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
        match self {
            Self::Http { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// What a transport said instead of an answer.
    pub(super) fn from_text(text: String) -> Self {
        let parts = text.strip_prefix("HTTP ").and_then(|rest| rest.split_once(": "));
        match parts.and_then(|(status, text)| Some((status.parse().ok()?, text.to_owned()))) {
            Some((status, text)) => Self::Http { status, text },
            None => Self::Transport { text },
        }
    }

    /// What an error answer says. One without an id was made on our side.
    pub(super) fn from_answer(answer: &Message) -> Self {
        debug_assert_eq!(answer.kind(), Kind::Error);
        if answer.id().is_none() {
            return Self::from_text(answer.error_message().into_owned());
        }
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
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
