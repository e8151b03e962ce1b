//! What an end has seen: a sequence for each call and each stream. Among one
//! another they have no order, within there is nothing but order.

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SERVER: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// What was seen, by what it belongs to; each thing as often as it came.
pub(crate) type Log = BTreeMap<String, Vec<String>>;

/// One more thing.
pub(crate) fn put(log: &mut Log, stream: impl Into<String>, what: String) {
    log.entry(stream.into()).or_default().push(what);
}

/// Questions of one round have no order: a modern server asks them all at once.
pub(crate) fn sort_rounds(lines: &mut [String]) {
    let round = |line: &String| {
        let of = line.strip_prefix("asked ")?.split_once(' ')?.1;
        let params: Value = serde_json::from_str(of).ok()?;
        Some(params["_meta"]["of"].as_str()?.to_owned())
    };
    for same in lines.chunk_by_mut(|a, b| round(a).is_some() && round(a) == round(b)) {
        same.sort();
    }
}

/// The same without what belongs to one hop: the envelope, names of calls,
/// what one era says and the other does not.
pub(crate) fn across(log: &Log) -> Log {
    // Only one era has it, and it is answered where it arrives (GW-21).
    let kept = log.iter().filter(|(stream, _)| *stream != "ping");
    let plain = kept.map(|(stream, lines)| {
        let lines = lines.iter().map(|line| plain(line)).collect();
        (stream.clone(), lines)
    });
    plain.collect()
}

fn plain(line: &str) -> String {
    let hop = [VERSION, CAPABILITIES, SUBSCRIPTION, LOG_LEVEL, SERVER, CLIENT];
    let own = ["resultType", "ttlMs", "cacheScope", "protocolVersion", "progressToken"];
    let (what, payload) = line.split_once(" {").unwrap_or((line, "}"));
    let mut value: Value = serde_json::from_str(&format!("{{{payload}")).expect("JSON");
    let members = value.as_object_mut().expect("an object");
    members.retain(|name, _| !own.contains(&name.as_str()));
    if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.retain(|name, _| !hop.contains(&name.as_str()) && !own.contains(&name.as_str()));
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    format!("{what} {value}")
}

/// The questions that a tool of each name asks: first these, then those.
pub(crate) const QUESTIONS: [(&str, &[&str], &[&str]); 5] = [
    ("ask a person", &["elicitation/create"], &["elicitation/create"]),
    ("ask a model", &["sampling/createMessage"], &["sampling/createMessage"]),
    ("ask for roots", &["roots/list"], &["roots/list"]),
    ("ask it all", &["sampling/createMessage", "roots/list"], &["roots/list"]),
    ("ask again", &["roots/list"], &["sampling/createMessage"]),
];
