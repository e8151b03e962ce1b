//! Tasks in the words of the extension.

use serde_json::{Map, Value, json};

use crate::client::across::TASKS;
use crate::jsonrpc::{Kind, Message};
use crate::method::meta;
use crate::patch;

/// How a task stands, with its end, or with what it asks.
pub(super) fn full(
    mut state: Value,
    end: Option<&Message>,
    asks: Option<Map<String, Value>>,
) -> Value {
    let status = state["status"].as_str().unwrap_or_default().to_owned();
    let payload = end.and_then(|end| serde_json::from_slice::<Value>(end.payload()?).ok());
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

/// A task of a legacy server as a modern one shows it.
pub(super) fn flat(task: &Value, status: &str) -> Value {
    let mut shown = json!({"status": status});
    for (name, as_name) in [
        ("taskId", "taskId"),
        ("status", "status"),
        ("statusMessage", "statusMessage"),
        ("createdAt", "createdAt"),
        ("lastUpdatedAt", "lastUpdatedAt"),
        ("ttl", "ttlMs"),
        ("pollInterval", "pollIntervalMs"),
    ] {
        if let Some(value) = task.get(name) {
            shown[as_name] = value.clone();
        }
    }
    if shown.get("ttlMs").is_none() {
        shown["ttlMs"] = Value::Null;
    }
    shown
}

/// Whether the client that made a request knows tasks.
pub(super) fn declares(request: &Message) -> bool {
    let path = ["_meta", meta::CAPABILITIES, "extensions", TASKS];
    let declared = request.payload().and_then(|params| patch::get(params, &path));
    declared.is_some_and(|settings| settings.starts_with(b"{"))
}
