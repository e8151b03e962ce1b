//! What a call comes to when it cannot be answered.

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::refusal::{Refusal, code};
use switchboard_proto::revision::Era;

/// A JSON-RPC error: the call was wrong, or we cannot serve it.
///
/// What a tool has to say about its own failure is a result with `isError`
/// instead ([`ToolResult::error`](super::ToolResult::error)): models read that.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Outside -32768..-32000 if it is your own (ERR-1).
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs.
    pub data: Option<Value>,
}

impl Error {
    /// An error with a code of your own.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same, with something for programs.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The parameters are wrong.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// The fault is ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// There is no such method.
    pub fn unknown_method(method: &str) -> Self {
        Refusal::UnknownMethod { method: method.to_owned() }.into()
    }

    /// There is no such resource; each era has its own code for that (ERR-3).
    pub fn no_such_resource(uri: &str, era: Era) -> Self {
        let code = match era {
            Era::Legacy => code::RESOURCE_NOT_FOUND,
            Era::Modern => code::INVALID_PARAMS,
        };
        Self::new(code, format!("Resource not found: {uri}")).with_data(json!({"uri": uri}))
    }

    /// The client did not declare what the call needs of it (META-3).
    pub fn missing_capability(required: &Value, era: Era) -> Self {
        let names = required.as_object().into_iter().flat_map(|members| members.keys());
        let names: Vec<_> = names.map(String::as_str).collect();
        let message =
            format!("this call needs a client that declares the capability {}", names.join(", "));
        match era {
            Era::Modern => Self::new(code::MISSING_CAPABILITY, message)
                .with_data(json!({"requiredCapabilities": required})),
            Era::Legacy => Self::new(code::INVALID_REQUEST, message),
        }
    }

    /// The error in an answer of the client.
    pub(super) fn from_answer(answer: &Message) -> Option<Self> {
        if answer.kind() != Kind::Error {
            return None;
        }
        let error = answer.payload_value()?;
        let message = error["message"].as_str().unwrap_or("the client refused").to_owned();
        let code = error["code"].as_i64().unwrap_or(code::INTERNAL);
        Some(Self { code, message, data: error.get("data").cloned() })
    }

    pub(super) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }

    pub(super) fn to_message(&self, id: Option<&Id>) -> Message {
        Message::error(id, &self.to_json())
    }
}

impl From<Refusal> for Error {
    fn from(why: Refusal) -> Self {
        Self { code: why.rpc_code().into(), message: why.to_string(), data: why.data() }
    }
}
