//! What we know of each method. Methods that are not here pass all the same.

use std::borrow::Cow;

use crate::jsonrpc::{Member, Message};

/// Opens a legacy conversation.
pub const INITIALIZE: &str = "initialize";
/// Ends the legacy handshake.
pub const INITIALIZED: &str = "notifications/initialized";
/// Asks whether the peer is there (legacy).
pub const PING: &str = "ping";
/// Asks a modern server what it speaks.
pub const DISCOVER: &str = "server/discover";
/// Opens a stream of changes (modern).
pub const LISTEN: &str = "subscriptions/listen";
/// Begins what a listen brings (modern).
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Nobody wants the answer any more.
pub const CANCELLED: &str = "notifications/cancelled";
/// How far a call has got.
pub const PROGRESS: &str = "notifications/progress";
/// A log record.
pub const LOG: &str = "notifications/message";
/// A resource has changed.
pub const UPDATED: &str = "notifications/resources/updated";
/// Sets the level of log records (legacy).
pub const SET_LEVEL: &str = "logging/setLevel";
/// Watches a resource (legacy).
pub const SUBSCRIBE: &str = "resources/subscribe";
/// Stops watching it (legacy).
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Lists the tools.
pub const LIST_TOOLS: &str = "tools/list";
/// Calls a tool.
pub const CALL_TOOL: &str = "tools/call";

/// Lists the prompts.
pub const LIST_PROMPTS: &str = "prompts/list";
/// Fills in a prompt.
pub const GET_PROMPT: &str = "prompts/get";
/// Lists the resources.
pub const LIST_RESOURCES: &str = "resources/list";
/// Lists the patterns of resources.
pub const LIST_TEMPLATES: &str = "resources/templates/list";
/// Reads a resource.
pub const READ_RESOURCE: &str = "resources/read";
/// Asks what an argument could be.
pub const COMPLETE: &str = "completion/complete";
/// Says how a task stands.
pub const GET_TASK: &str = "tasks/get";
/// Answers what a task asks (modern).
pub const UPDATE_TASK: &str = "tasks/update";
/// Ends a task early.
pub const CANCEL_TASK: &str = "tasks/cancel";
/// Lists the tasks of a client (legacy).
pub const LIST_TASKS: &str = "tasks/list";
/// A task has changed (modern).
pub const TASK_CHANGED: &str = "notifications/tasks";
/// The same (legacy).
pub const TASK_STATUS: &str = "notifications/tasks/status";
/// Waits for what a task comes to (legacy).
pub const TASK_RESULT: &str = "tasks/result";
/// Asks a person something.
pub const ELICIT: &str = "elicitation/create";
/// The person is done with a page they were sent to.
pub const ELICITED: &str = "notifications/elicitation/complete";
/// Asks the client's model something.
pub const SAMPLE: &str = "sampling/createMessage";
/// Asks where the client works.
pub const ROOTS: &str = "roots/list";

/// Methods that the modern era no longer has, whoever asks (MH-13).
pub const REMOVED: &[&str] = &[
    INITIALIZE,
    PING,
    SET_LEVEL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    LIST_TASKS,
    TASK_RESULT,
    ELICIT,
    SAMPLE,
    ROOTS,
];

/// Methods that are sent again and again.
const FREQUENT: &[&str] = &[
    CALL_TOOL,
    PROGRESS,
    LIST_TOOLS,
    READ_RESOURCE,
    GET_PROMPT,
    LOG,
    PING,
    INITIALIZE,
    INITIALIZED,
    CANCELLED,
    DISCOVER,
    GET_TASK,
];

/// A method name that messages can share: a frequent one takes no memory of its own.
pub(crate) fn shared(name: &str) -> Cow<'static, str> {
    let known = FREQUENT.iter().find(|known| **known == name);
    known.map_or_else(|| Cow::Owned(name.to_owned()), |known| Cow::Borrowed(*known))
}

/// Whether a complete result says how long it may be kept (CACHE-1).
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        DISCOVER | LIST_TOOLS | LIST_PROMPTS | LIST_RESOURCES | LIST_TEMPLATES | READ_RESOURCE
    )
}

/// Members of `_meta` that a transport reads.
pub mod meta {
    /// Who the client says it is (modern).
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// Who the server says it is (modern).
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    /// Which log records a modern request wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The revision a modern request is made in.
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// What the client can do, on every modern request.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Which listen a notification belongs to (modern).
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
    /// Which task a message is about (legacy).
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// What progress is reported under.
    pub const PROGRESS_TOKEN: &str = "progressToken";

    /// Whether this may be a key of `_meta`: a name, with a prefix of dotted
    /// labels and a slash if need be (MSG-6). An empty name is allowed after a prefix.
    pub fn is_key(key: &str) -> bool {
        let split = key.rsplit_once('/').map(|(prefix, name)| (Some(prefix), name));
        let (prefix, name) = split.unwrap_or((None, key));
        let named = is_word(name, "-_.") || (name.is_empty() && prefix.is_some());
        let is_label = |it: &str| it.starts_with(char::is_alphabetic) && is_word(it, "-");
        named && prefix.is_none_or(|prefix| prefix.split('.').all(is_label))
    }

    /// Whether this may be the name of an extension: a key with a prefix (EXT-1).
    pub fn is_extension(id: &str) -> bool {
        is_key(id) && id.rsplit_once('/').is_some_and(|(_, name)| !name.is_empty())
    }

    /// Whether it is made of letters and digits, with these `marks` between them.
    fn is_word(word: &str, marks: &str) -> bool {
        let plain = |letter: char| letter.is_ascii_alphanumeric();
        let is_inner = |letter| plain(letter) || marks.contains(letter);
        word.starts_with(plain) && word.ends_with(plain) && word.chars().all(is_inner)
    }
}

/// The member that the `Mcp-Name` header repeats (HDR-3).
pub fn named_by(method: &str) -> Option<Member> {
    match method {
        CALL_TOOL | GET_PROMPT => Some(Member::Name),
        READ_RESOURCE => Some(Member::Uri),
        GET_TASK | UPDATE_TASK | CANCEL_TASK => Some(Member::TaskId),
        _ => None,
    }
}

/// Whether a server may ask for input on the way to the answer (MRTR-1).
pub fn may_ask(method: &str) -> bool {
    matches!(method, CALL_TOOL | GET_PROMPT | READ_RESOURCE)
}

/// The part of the server's capabilities whose lists a notification is about.
pub fn list_changed(capability: &str) -> Option<&'static str> {
    match capability {
        "tools" => Some("notifications/tools/list_changed"),
        "prompts" => Some("notifications/prompts/list_changed"),
        "resources" => Some("notifications/resources/list_changed"),
        _ => None,
    }
}

/// Whether a request came with the modern era: a legacy server does not have it.
pub fn is_modern_only(method: &str) -> bool {
    matches!(method, DISCOVER | LISTEN | GET_TASK | UPDATE_TASK | CANCEL_TASK)
}

/// Whether a request is about tasks as the core of a legacy revision has them.
pub fn is_about_core_tasks(method: &str) -> bool {
    matches!(method, GET_TASK | CANCEL_TASK | LIST_TASKS | TASK_RESULT)
}

/// Whether a request of the legacy era is about something that outlives its answer.
pub fn needs_session(method: &str) -> bool {
    matches!(method, SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE) || is_about_core_tasks(method)
}

/// Whether a notification of a client went with the legacy era.
pub fn is_legacy_notice(method: &str) -> bool {
    matches!(
        method,
        INITIALIZED | CANCELLED | PROGRESS | "notifications/roots/list_changed" | TASK_STATUS
    )
}

/// Whether a request went with the handshake: a modern server does not have it (MH-13).
pub fn is_legacy_only(method: &str) -> bool {
    REMOVED.contains(&method)
}

/// How grave a log record is, from debug on; none if there is no such level (LOG-1).
pub fn severity(level: &str) -> Option<usize> {
    LEVELS.iter().position(|name| *name == level)
}

/// How grave log records must be for who made a modern request; none if it wants
/// none (LOG-1).
pub fn wanted_severity(request: &Message) -> Option<usize> {
    severity(&request.string(Member::MetaLogLevel)?)
}

/// Whether a log record is as grave as `least`, or has a level of its server's own.
pub fn is_grave(record: &Message, least: usize) -> bool {
    record
        .string(Member::Level)
        .and_then(|level| severity(&level))
        .is_none_or(|level| level >= least)
}

/// The levels of log records, the least grave first.
pub const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Whether a notification of a legacy server may be said to all its clients:
/// it tells them to look again, and nothing about one another.
pub fn is_for_all(method: &str) -> bool {
    method == UPDATED
        || ["tools", "prompts", "resources"].into_iter().any(|of| list_changed(of) == Some(method))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: MSG-6, EXT-1
    #[test]
    fn keys_of_meta_are_names_with_or_without_a_prefix() {
        let keys =
            ["a", "a-b_c.d", "traceparent", meta::VERSION, "a.b-c.d1/e", "com.example/", "a/1"];
        for key in keys {
            assert!(meta::is_key(key), "{key}");
        }
        let none = ["", "-a", "a-", "_", "a b", "é", "/a", "1.com/a", "a-.b/c", "a..b/c", "a/b/c"];
        for key in none {
            assert!(!meta::is_key(key), "{key}");
        }
        let named = ["io.modelcontextprotocol/tasks", "com.example/x", "x/y"];
        assert!(named.iter().all(|id| meta::is_extension(id)));
        assert!(!["tasks", "com.example/", "/x", ""].iter().any(|id| meta::is_extension(id)));
    }

    /// wire: HDR-3, MRTR-1
    #[test]
    fn names_are_mirrored_for_the_methods_that_have_one() {
        let named = |method| named_by(method).map_or("-", Member::key);
        let methods =
            [CALL_TOOL, "prompts/get", "resources/read", "tasks/cancel", LIST_TOOLS, DISCOVER];
        assert_eq!(methods.map(named), ["name", "name", "uri", "taskId", "-", "-"]);
        assert_eq!(methods.map(may_ask), [true, true, true, false, false, false]);
    }
}
