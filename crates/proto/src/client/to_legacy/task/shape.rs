//! Tasks in the words of the extension.

use serde_json::{Map, Value};

use crate::jsonrpc::{Kind, Message};

/// How a task stands, with its end, or with what it asks.
pub(super) fn full(
    mut state: Value,
    end: Option<&Message>,
    asks: Option<Map<String, Value>>,
) -> Value {
    let status = state["status"].as_str().unwrap_or_default().to_owned();
    let payload = end.and_then(Message::payload_value);
    match (status.as_str(), end.map(Message::kind), payload) {
        // A tool that failed has completed; only a call that failed has not (TASK-3).
        ("completed" | "failed", Some(Kind::Result), Some(result)) => {
            state["status"] = "completed".into();
            state["result"] = result;
        }
        ("completed" | "failed", Some(_), Some(error)) => {
            state["status"] = "failed".into();
            state["error"] = error;
        }
        ("input_required", ..) => state["inputRequests"] = asks.unwrap_or_default().into(),
        _ => {}
    }
    state
}
