//! What both translations need: a client of one era, in the words of the other.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::jsonrpc::{Kind, Message};
use crate::limits::MAX_WELCOME;
use crate::method::{self, meta};
use crate::patch;
use crate::refusal::Refusal;
use crate::revision::Revision;

pub(super) mod task;

/// The extension that modern peers declare which know tasks.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

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
        let mut all: Map<String, Value> =
            serde_json::from_slice(&self.capabilities).unwrap_or_default();
        if takes {
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
        let params = request.payload().unwrap_or(b"{}");
        let mut params = patch::without(params, &[], &["task"])
            .unwrap_or_else(|| Bytes::copy_from_slice(params));
        if patch::get(&params, &["_meta"]).is_none_or(|it| !it.starts_with(b"{")) {
            params = patch::put(&params, &[], "_meta", b"{}").unwrap_or(params);
        }
        let mut put = |key: &str, value: &[u8]| {
            if let Some(more) = patch::put(&params, &["_meta"], key, value) {
                params = more;
            }
        };
        if let Some(level) = &self.level {
            put(meta::LOG_LEVEL, quoted(level).as_bytes());
        }
        if let Some(client) = &self.client {
            put(meta::CLIENT, client);
        }
        put(meta::CAPABILITIES, &self.capabilities);
        put(meta::VERSION, quoted(Revision::NEWEST_MODERN.as_str()).as_bytes());
        request.with_payload(&params)
    }
}

/// Members of a modern request that mean nothing to a legacy server (GW-43).
const ENVELOPE: [&str; 5] =
    [meta::VERSION, meta::CAPABILITIES, meta::CLIENT, meta::LOG_LEVEL, meta::SUBSCRIPTION];

/// The request of a modern client as a legacy one.
pub(super) fn take_off(request: &Message) -> Message {
    let params = request.payload().unwrap_or(b"{}");
    // Only a legacy client asks for a task in this way (TASK-9).
    let bare = patch::without(params, &[], &["inputResponses", "requestState", "task"]);
    let bare = bare.unwrap_or_else(|| Bytes::copy_from_slice(params));
    request.with_payload(&without_hop(&bare, &ENVELOPE))
}

/// `payload` without what of its `_meta` is about one hop, and without an empty `_meta`.
pub(super) fn without_hop(payload: &[u8], keys: &[&str]) -> Bytes {
    let own = || Bytes::copy_from_slice(payload);
    let bare = patch::without(payload, &["_meta"], keys).unwrap_or_else(own);
    match patch::get(&bare, &["_meta"]) {
        Some(b"{}") => patch::without(&bare, &[], &["_meta"]).unwrap_or(bare),
        _ => bare,
    }
}

/// A notification without the mark of the listen that it came by.
pub(super) fn unmarked(message: &Message) -> Message {
    let Some(params) = message.payload() else { return message.clone() };
    match &*without_hop(params, &[meta::SUBSCRIPTION]) {
        b"{}" => Message::notification(message.method(), None),
        bare => message.with_payload(bare),
    }
}

/// What a legacy client of `revision` declared, in modern words and no more
/// than its revision has (GW-12).
pub(super) fn modern_capabilities(declared: &[u8], revision: Revision) -> Bytes {
    let mut all: Map<String, Value> = serde_json::from_slice(declared).unwrap_or_default();
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
    let params = request.payload().unwrap_or_default();
    let read = |key: &str| -> Option<Value> {
        serde_json::from_slice(patch::get(params, &["_meta", key])?).ok()
    };
    let mut capabilities = read(meta::CAPABILITIES).unwrap_or_else(|| json!({}));
    if let Some(members) = capabilities.as_object_mut() {
        members.remove("extensions");
    }
    let params = json!({
        "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
        "capabilities": capabilities,
        "clientInfo": read(meta::CLIENT).filter(Value::is_object).unwrap_or_else(identity),
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

/// The cursor of the page after this one, if there is one.
pub(super) fn next_page(result: &[u8]) -> Option<&[u8]> {
    patch::get(result, &["nextCursor"]).filter(|it| it.starts_with(b"\""))
}

/// What a server says of itself, or that it says too much of it to be kept.
pub(super) fn welcome_within_bounds(answer: &Message) -> Cow<'_, Message> {
    if answer.kind() == Kind::Error || answer.text().len() <= MAX_WELCOME {
        return Cow::Borrowed(answer);
    }
    let text = format!("the server's greeting is longer than {MAX_WELCOME} bytes");
    Cow::Owned(Message::refusal(answer.id(), &Refusal::FarSide { text }))
}

/// Who we are, where a peer does not say who it is.
pub(super) fn identity() -> Value {
    json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// `text` as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The text of the member `name` of `payload`, parsed.
pub(super) fn member(payload: &[u8], path: &[&str]) -> Option<Value> {
    serde_json::from_slice(patch::get(payload, path)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_that_is_too_long_to_be_kept_fails() {
        let welcome = |length: usize| {
            let result = format!(r#"{{"serverInfo":{{"name":"{}"}}}}"#, "x".repeat(length));
            let answer = Message::result(&7.into(), result.as_bytes());
            let kept = welcome_within_bounds(&answer);
            assert_eq!(kept.id(), answer.id());
            kept.kind()
        };
        assert_eq!(welcome(1000), Kind::Result);
        assert_eq!(welcome(MAX_WELCOME), Kind::Error);
    }
}
