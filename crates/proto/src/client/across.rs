//! What both translations need: a client of one era, in the words of the other.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::jsonrpc::{Kind, Member, Message, Part};
use crate::limits::{MAX_ID, MAX_WELCOME};
use crate::method;
use crate::revision::Revision;

/// The extension that modern peers declare which know tasks.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What a listen calls each list that may change, and the capability that offers the list.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "tools"),
    ("promptsListChanged", "prompts"),
    ("resourcesListChanged", "resources"),
];

/// What a modern request says about its client.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) capabilities: Bytes,
    pub(super) client: Option<Bytes>,
    pub(super) level: Option<Box<str>>,
}

impl Envelope {
    /// One that declares nothing, for what we ask on our own account.
    pub(super) fn ours() -> Self {
        let client = identity().to_string().into();
        Self { capabilities: Bytes::from_static(b"{}"), client: Some(client), level: None }
    }

    /// The same for a request that may become a task, if it may.
    pub(super) fn taking_tasks(mut self, takes: bool) -> Self {
        if takes && let Some(Value::Object(mut all)) = Part::new(&self.capabilities).value() {
            let known = all.remove("extensions").filter(Value::is_object);
            let mut extensions = known.unwrap_or_else(|| json!({}));
            extensions[TASKS] = json!({});
            all.insert("extensions".to_owned(), extensions);
            self.capabilities = json!(all).to_string().into();
        }
        self
    }

    /// The request of a legacy client as a modern one (GW-12). What it says of
    /// a task is for us (GW-27).
    pub(super) fn put_on(&self, request: &Message) -> Message {
        let mut request = request.without(Member::Task);
        if let Some(level) = &self.level {
            request = request.with_string(Member::MetaLogLevel, level);
        }
        if let Some(client) = &self.client {
            request = request.with(Member::MetaClient, client.clone());
        }
        request
            .with(Member::MetaCapabilities, self.capabilities.clone())
            .with_string(Member::MetaVersion, Revision::NEWEST_MODERN.as_str())
    }
}

/// Members of a modern request that mean nothing to a legacy server (GW-43).
const ENVELOPE: [Member; 5] = [
    Member::MetaVersion,
    Member::MetaCapabilities,
    Member::MetaClient,
    Member::MetaLogLevel,
    Member::MetaSubscription,
];

/// The request of a modern client as a legacy one.
pub(super) fn strip_envelope(request: &Message) -> Message {
    if request.payload().is_none() {
        return request.with_payload(b"{}");
    }
    let request = request.without_meta(&ENVELOPE);
    let bare = request.without(Member::InputResponses).without(Member::RequestState);
    // Only a legacy client asks for a task in this way (TASK-9).
    bare.without(Member::Task)
}

/// A notification without the mark of the listen that it came by.
pub(super) fn unmarked(message: &Message) -> Message {
    let bare = message.without_meta(&[Member::MetaSubscription]);
    match bare.payload() {
        Some(b"{}") => Message::notification(message.method(), None),
        _ => bare,
    }
}

/// What a legacy client of `revision` declared, in modern words and no more
/// than its revision has (GW-12).
pub(super) fn modern_capabilities(hello: &Message, revision: Revision) -> Bytes {
    let Some(Value::Object(mut all)) = hello.value(Member::Capabilities) else {
        return Bytes::from_static(b"{}");
    };
    all.remove("tasks");
    let rules = revision.rules();
    if !rules.elicitation {
        all.remove("elicitation");
    }
    let mut take = |capability: &str, member: &str| {
        if let Some(members) = all.get_mut(capability).and_then(Value::as_object_mut) {
            members.remove(member);
        }
    };
    take("roots", "listChanged");
    if !rules.rich_questions {
        take("elicitation", "url");
        take("sampling", "tools");
    }
    json!(all).to_string().into()
}

/// How a legacy server is greeted in the name of a modern client (GW-41).
pub(super) fn hello(request: &Message) -> Message {
    let mut capabilities = request.value(Member::MetaCapabilities).unwrap_or_else(|| json!({}));
    if let Some(members) = capabilities.as_object_mut() {
        members.remove("extensions");
    }
    let client = request.value(Member::MetaClient).filter(Value::is_object);
    let params = json!({
        "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
        "capabilities": capabilities,
        "clientInfo": client.unwrap_or_else(identity),
    });
    Message::request(&0.into(), method::INITIALIZE, Some(params.to_string().as_bytes()))
}

/// Pages of tools that we look through on our own account.
pub(super) const MOST_PAGES: usize = 32;

/// The question for a page of tools: the first, or that which a cursor names.
pub(super) fn page_of_tools(cursor: Option<&[u8]>) -> Message {
    let params = match cursor {
        Some(cursor) => [b"{\"cursor\":", cursor, b"}"].concat(),
        None => b"{}".to_vec(),
    };
    Message::request(&0.into(), method::LIST_TOOLS, Some(&params))
}

/// What a server says of itself, or that it says too much of it to be kept.
pub(super) fn welcome_within_bounds(answer: &Message) -> Result<&Message, Failure> {
    if answer.kind() == Kind::Error || answer.size() <= MAX_WELCOME {
        return Ok(answer);
    }
    Err(Failure::TooLarge { what: "the server's greeting", limit: MAX_WELCOME })
}

/// Who we are, where a peer does not say who it is.
pub(super) fn identity() -> Value {
    json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// `text` as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

// Tasks in the words of either era (9.4): one has them in its core, the other as an extension.

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
    /// What its server said of it; none for as long as it likes.
    over: Option<Instant>,
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

    /// When it is to be forgotten, if ever.
    pub(super) fn over(&self) -> Option<Instant> {
        self.over
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

/// A request of our own about one thing, which `member` names.
pub(super) fn request_about(method: &str, member: &str, name: &str) -> Message {
    let params = json!({ member: name }).to_string();
    Message::request(&0.into(), method, Some(params.as_bytes()))
}

/// Whether the modern client that made a request knows tasks.
pub(super) fn declares_tasks(request: &Message) -> bool {
    let declared = request.inside(Member::MetaCapabilities, &["extensions", TASKS]);
    declared.is_some_and(Part::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_that_is_too_long_to_be_kept_fails() {
        let welcome = |length: usize| {
            let result = format!(r#"{{"serverInfo":{{"name":"{}"}}}}"#, "x".repeat(length));
            let answer = Message::result(&7.into(), result.as_bytes());
            welcome_within_bounds(&answer).is_ok()
        };
        assert!(welcome(1000) && !welcome(MAX_WELCOME));
    }
}

#[cfg(test)]
mod task_tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_a_task_is_kept_within_bounds() {
        let long = "é".repeat(1 << 20);
        let task =
            json!({"taskId": "t", "status": "working", "statusMessage": long, "ttl": [long]});
        for shown in [task_as_extension(&task, "working"), task_as_core(&task)] {
            assert!(shown.to_string().len() < 5000);
            assert_eq!((&shown["taskId"], &shown["status"]), (&json!("t"), &json!("working")));
        }
        assert_eq!(new_task_id(&task), Ok("t"));
        assert!(new_task_id(&json!({"taskId": "x".repeat(MAX_ID + 1)})).is_err());
    }
}
