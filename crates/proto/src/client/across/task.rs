//! Tasks in the words of either era (9.4): one has them in its core, the other
//! as an extension.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::TASKS;
use crate::failure::Failure;
use crate::jsonrpc::{Member, Message, Part};
use crate::limits::MAX_ID;

/// Bytes of each thing that a server says of a task in words.
const MOST_WORDS: usize = 4 << 10;

/// What describes a task: its name in the core, and in the extension.
const MEMBERS: [(&str, &str); 7] = [
    ("taskId", "taskId"),
    ("status", "status"),
    ("statusMessage", "statusMessage"),
    ("createdAt", "createdAt"),
    ("lastUpdatedAt", "lastUpdatedAt"),
    ("ttl", "ttlMs"),
    ("pollInterval", "pollIntervalMs"),
];

/// A task of the core as the extension shows it; `status` if it does not say.
pub(in crate::client) fn as_extension(task: &Value, status: &str) -> Value {
    let mut shown = json!({"status": status, "ttlMs": null});
    let members = MEMBERS.iter().filter_map(|(core, extension)| Some((extension, task.get(core)?)));
    members.for_each(|(name, value)| shown[name] = bounded(name, value));
    shown
}

/// A task of the extension as the core shows it.
pub(in crate::client) fn as_core(state: &Value) -> Value {
    let mut shown = json!({"ttl": null});
    let members =
        MEMBERS.iter().filter_map(|(core, extension)| Some((core, state.get(extension)?)));
    members.for_each(|(name, value)| shown[name] = bounded(name, value));
    // A tool that failed has completed for one era, and has failed for the other (TASK-3).
    if state["result"]["isError"] == true {
        shown["status"] = "failed".into();
    }
    shown
}

/// What a server says of a task, as far as it is kept. An id is kept whole, or not at
/// all: see [`new_id`].
fn bounded(name: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if name != "taskId" => {
            text[..text.floor_char_boundary(MOST_WORDS)].into()
        }
        Value::Object(_) | Value::Array(_) => Value::Null,
        other => other.clone(),
    }
}

/// The id of a task that a server has made; an error if it is too long to be kept.
pub(in crate::client) fn new_id(state: &Value) -> Result<&str, Failure> {
    let id = state["taskId"].as_str().unwrap_or_default();
    let why = Failure::TooLarge { what: "the server's task id", limit: MAX_ID };
    if id.len() <= MAX_ID { Ok(id) } else { Err(why) }
}

/// Whether a task in either form goes on.
pub(in crate::client) fn goes_on(state: &Value) -> bool {
    !matches!(state["status"].as_str(), Some("completed" | "failed" | "cancelled"))
}

/// How long a task is remembered, and may keep a session for itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Term {
    began: Instant,
    /// What its server said of it; none for as long as it likes.
    over: Option<Instant>,
}

impl Term {
    /// That of a task in either form, which has just begun.
    pub(in crate::client) fn of(state: &Value, now: Instant) -> Self {
        let mut term = Self { began: now, over: None };
        term.renew(state);
        term
    }

    /// The server may think otherwise of it later.
    pub(in crate::client) fn renew(&mut self, state: &Value) {
        let ttl = state.get("ttlMs").or_else(|| state.get("ttl")).and_then(Value::as_u64);
        self.over = ttl.and_then(|ttl| self.began.checked_add(Duration::from_millis(ttl)));
    }

    /// When it is to be forgotten, if ever.
    pub(in crate::client) fn over(&self) -> Option<Instant> {
        self.over
    }

    /// Whether it may keep a session, for `most` at the longest.
    pub(in crate::client) fn holds(&self, now: Instant, most: Duration) -> bool {
        let is_in_time = now.saturating_duration_since(self.began) < most;
        is_in_time && self.over.is_none_or(|over| now < over)
    }
}

/// A request about a task.
pub(in crate::client) fn about(method: &str, id: &str) -> Message {
    let params = json!({ "taskId": id }).to_string();
    Message::request(&0.into(), method, Some(params.as_bytes()))
}

/// Whether the modern client that made a request knows tasks.
pub(in crate::client) fn declares(request: &Message) -> bool {
    let declared = request.inside(Member::MetaCapabilities, &["extensions", TASKS]);
    declared.is_some_and(Part::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_a_task_is_kept_within_bounds() {
        let long = "é".repeat(1 << 20);
        let task =
            json!({"taskId": "t", "status": "working", "statusMessage": long, "ttl": [long]});
        for shown in [as_extension(&task, "working"), as_core(&task)] {
            assert!(shown.to_string().len() < 5000);
            assert_eq!((&shown["taskId"], &shown["status"]), (&json!("t"), &json!("working")));
        }
        assert_eq!(new_id(&task), Ok("t"));
        assert!(new_id(&json!({"taskId": "x".repeat(MAX_ID + 1)})).is_err());
    }
}
