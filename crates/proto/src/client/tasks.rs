//! Tasks in the words of either era (9.4): one has them in its core, the other as an extension.
//! Also what both translations ask a server on their own account.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::jsonrpc::{Kind, Member, Message, Part};
use crate::limits::{Limits, MAX_ID};
use crate::method;
use crate::project::TASKS;

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
pub(super) fn task_as_extension(task: &Value, status: &str) -> Value {
    let mut shown = json!({"status": status, "ttlMs": null});
    let members = MEMBERS.iter().filter_map(|(core, extension)| Some((extension, task.get(core)?)));
    members.for_each(|(name, value)| shown[name] = bounded(name, value));
    shown
}

/// A task of the extension as the core shows it.
pub(super) fn task_as_core(state: &Value) -> Value {
    let mut shown = json!({"ttl": null});
    let known = MEMBERS.iter().filter_map(|(core, extension)| Some((core, state.get(extension)?)));
    known.for_each(|(name, value)| shown[name] = bounded(name, value));
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
pub(super) fn new_task_id(state: &Value) -> Result<&str, Failure> {
    let id = state["taskId"].as_str().unwrap_or_default();
    let why = Failure::TooLarge { what: "the server's task id", limit: MAX_ID };
    if id.len() <= MAX_ID { Ok(id) } else { Err(why) }
}

/// Whether a task in either form goes on.
pub(super) fn task_goes_on(state: &Value) -> bool {
    !matches!(state["status"].as_str(), Some("completed" | "failed" | "cancelled"))
}

/// How long a task is remembered, and may keep a session for itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskTerm {
    began: Instant,
    /// When it is to be forgotten, by what its server said of it; none for as long as it likes.
    pub(super) over: Option<Instant>,
}

impl TaskTerm {
    /// That of a task in either form, which has just begun.
    pub(super) fn begin(state: &Value, now: Instant) -> Self {
        let mut term = Self { began: now, over: None };
        term.renew(state);
        term
    }

    /// The server may think otherwise of it later.
    pub(super) fn renew(&mut self, state: &Value) {
        let ttl = state.get("ttlMs").or_else(|| state.get("ttl")).and_then(Value::as_u64);
        self.over = ttl.and_then(|ttl| self.began.checked_add(Duration::from_millis(ttl)));
    }

    /// Whether it may keep a session, for `most` at the longest.
    pub(super) fn holds(&self, now: Instant, most: Duration) -> bool {
        let is_in_time = now.saturating_duration_since(self.began) < most;
        is_in_time && self.over.is_none_or(|over| now < over)
    }
}

/// A request about a task.
pub(super) fn task_request(method: &str, id: &str) -> Message {
    request_about(method, "taskId", id)
}

/// Whether the modern client that made a request knows tasks.
pub(super) fn declares_tasks(request: &Message) -> bool {
    let declared = request.inside(Member::MetaCapabilities, &["extensions", TASKS]);
    declared.is_some_and(Part::is_object)
}

// Tasks that go on at a server, as seen in passing. Clients of its era know of them without
// our help, but the server must not be taken for unused.
// In the core of an era a task is over when its result was fetched, for its server must keep it
// until then. As an extension, it is over when the server says so.

#[derive(Debug)]
pub(super) struct Running {
    tasks: BTreeMap<Box<str>, TaskTerm>,
    most: usize,
    longest: Duration,
}

impl Running {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { tasks: BTreeMap::new(), most: limits.tasks, longest: limits.total }
    }

    /// Whether one goes on.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.tasks.values().any(|term| term.holds(now, self.longest))
    }

    /// The server is another from here on.
    pub(super) fn lose(&mut self) {
        self.tasks.clear();
    }

    /// The server answers a request.
    pub(super) fn see(&mut self, request: &Message, answer: &Message, now: Instant) {
        let is_result = answer.kind() == Kind::Result;
        let subject = || request.task_id().unwrap_or_default();
        match request.method() {
            method::CALL_TOOL if is_result => self.begin(answer, now),
            method::GET_TASK if is_result => self.renew(&subject(), answer),
            method::CANCEL_TASK if !is_result => {}
            method::GET_TASK | method::TASK_RESULT | method::CANCEL_TASK => {
                self.tasks.remove(&*subject());
            }
            _ => {}
        }
    }

    /// A task may have begun.
    fn begin(&mut self, answer: &Message, now: Instant) {
        let is_flat = answer.result_type().is_some_and(|kind| kind == "task");
        let id = answer.string(if is_flat { Member::TaskId } else { Member::NewTaskId });
        let Some(id) = id.filter(|id| id.len() <= MAX_ID) else { return };
        let state = if is_flat { answer.payload_value() } else { answer.value(Member::Task) };
        if self.tasks.len() >= self.most {
            self.tasks.retain(|_, term| term.holds(now, self.longest));
        }
        if self.tasks.len() < self.most {
            self.tasks.insert(id.into(), TaskTerm::begin(&state.unwrap_or_default(), now));
        }
    }

    fn renew(&mut self, id: &str, answer: &Message) {
        let has_end = answer.has(Member::EndResult) || answer.has(Member::EndError);
        if has_end || answer.string(Member::Status).is_some_and(|status| status == "cancelled") {
            self.tasks.remove(id);
        } else if let Some(term) = self.tasks.get_mut(id) {
            term.renew(&answer.payload_value().unwrap_or_default());
        }
    }
}

// What we ask a server on our own account.

/// What a listen calls each list that may change, and the capability that offers the list.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "tools"),
    ("promptsListChanged", "prompts"),
    ("resourcesListChanged", "resources"),
];

/// What a listen is for, or what of it is honoured.
pub(super) fn listen_filter(
    has_list: impl Fn(&str) -> bool,
    uris: Value,
    tasks: Value,
) -> Map<String, Value> {
    let lists = LISTS.iter().filter(|(_, capability)| has_list(capability));
    let lists = lists.map(|(name, _)| (*name, Value::from(true)));
    let named = [("resourceSubscriptions", uris), ("taskIds", tasks)].into_iter();
    let named = named.filter(|(_, names)| *names != json!([]));
    lists.chain(named).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Pages of tools that we look through on our own account.
pub(super) const MOST_PAGES: usize = 32;

/// The question for a page of tools: the first, or that which a cursor names.
pub(super) fn page_of_tools(cursor: Option<&[u8]>) -> Message {
    let first = Message::request(&0.into(), method::LIST_TOOLS, Some(b"{}"));
    match cursor {
        Some(cursor) => first.with(Member::Cursor, Bytes::copy_from_slice(cursor)),
        None => first,
    }
}

/// A request of our own about one thing, which `member` names.
pub(super) fn request_about(method: &str, member: &str, name: &str) -> Message {
    let params = json!({ member: name }).to_string();
    Message::request(&0.into(), method, Some(params.as_bytes()))
}

#[cfg(test)]
mod tests;
