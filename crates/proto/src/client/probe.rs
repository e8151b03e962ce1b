//! Which era does this server speak?
//!
//! ```text
//!              server/discover
//!   (start) ───────────────────▶ asked ──▶ Modern(revision)   it answered, or named its versions
//!                                  ├─────▶ Legacy             any other error; on a pipe also silence or death
//!                                  └─────▶ Undecided          HTTP: 401, 403, 5xx, network: not evidence
//! ```
//!
//! Rules: NEG-3 and NEG-5. Fallback never hangs on one specific code; a
//! recognised modern error never falls back (DIV-2); a list that holds only
//! legacy versions does (DIV-3).

use serde_json::{Value, json};

use crate::exchange::Carrier;
use crate::jsonrpc::{Id, Kind, Message};
use crate::method::{self, meta};
use crate::refusal::is_modern_code;
use crate::revision::{Era, Revision};

/// What came of asking.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum ProbeReply {
    /// A JSON-RPC answer, with its HTTP status if it has one.
    Answer { status: Option<u16>, message: Box<Value> },
    /// An HTTP response that is no JSON-RPC answer.
    Http { status: u16 },
    /// Nothing within reasonable time.
    Silence,
    /// The link broke; on a pipe: the child died of it.
    Broken,
}

/// What the server is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Speak this revision to it.
    Modern(Revision),
    /// Greet it with `initialize`; if the child died of the question, after a restart.
    Legacy,
    /// Ask again once the trouble is over: authorization, a server error, the network.
    Undecided,
    /// It is modern, but no revision is common to us.
    Unusable,
}

/// The question, as text for the wire. `client` is the `clientInfo` to show.
pub fn question(id: &Id, client: &Value) -> Message {
    let params = json!({"_meta": {
        meta::VERSION: Revision::NEWEST_MODERN.as_str(),
        meta::CAPABILITIES: {},
        "io.modelcontextprotocol/clientInfo": client,
    }});
    Message::request(id, method::DISCOVER, Some(params.to_string().as_bytes()))
}

/// What the reply says about the server.
pub fn verdict(carrier: Carrier, reply: &ProbeReply) -> Verdict {
    match reply {
        ProbeReply::Answer { status, message } => judge(*status, message),
        ProbeReply::Http { status } => judge_status(*status),
        ProbeReply::Silence | ProbeReply::Broken if carrier == Carrier::Pipe => Verdict::Legacy,
        ProbeReply::Silence | ProbeReply::Broken => Verdict::Undecided,
    }
}

fn judge(status: Option<u16>, message: &Value) -> Verdict {
    if let Some(result) = message.get("result") {
        // Some legacy servers answer whatever they are asked.
        return result.get("supportedVersions").map_or(Verdict::Legacy, pick);
    }
    let error = &message["error"];
    if error["code"].as_i64().is_some_and(is_modern_code) {
        let newest = Verdict::Modern(Revision::NEWEST_MODERN);
        return error["data"].get("supported").map_or(newest, pick);
    }
    status.filter(|status| *status >= 400).map_or(Verdict::Legacy, judge_status)
}

fn judge_status(status: u16) -> Verdict {
    match status {
        // Nothing about the era: who asks, when, how often.
        401 | 403 | 407 | 408 | 425 | 429 => Verdict::Undecided,
        400..=499 => Verdict::Legacy,
        _ => Verdict::Undecided,
    }
}

/// The newest modern revision that both know; legacy if it lists only those.
fn pick(list: &Value) -> Verdict {
    let names: Vec<_> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let common = names.iter().filter_map(|name| Revision::parse(name));
    match common.clone().filter(|revision| revision.era() == Era::Modern).max() {
        Some(revision) => Verdict::Modern(revision),
        None if common.count() > 0 => Verdict::Legacy,
        None => Verdict::Unusable,
    }
}

/// Reads a reply from a message that arrived.
pub fn reply(status: Option<u16>, message: &Message) -> ProbeReply {
    debug_assert!(matches!(message.kind(), Kind::Result | Kind::Error), "a response");
    let member = if message.kind() == Kind::Error { "error" } else { "result" };
    let message = json!({member: message.payload_value()});
    ProbeReply::Answer { status, message: Box::new(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: NEG-3, NEG-5, NEG-6, DIV-2, DIV-3, DISC-3
    #[test]
    fn verdicts_follow_the_evidence() {
        let modern = Verdict::Modern(Revision::NEWEST_MODERN);
        let result = |list: Value| json!({"result": {"supportedVersions": list}});
        let error = |code: i64, data: Value| json!({"error": {"code": code, "data": data}});
        let both = [Carrier::Pipe, Carrier::Http];
        for carrier in both {
            let judge = |message: Value| {
                verdict(carrier, &ProbeReply::Answer { status: None, message: Box::new(message) })
            };
            assert_eq!(judge(result(json!(["2026-07-28", "2025-11-25"]))), modern);
            assert_eq!(judge(result(json!(["2025-11-25"]))), Verdict::Legacy);
            assert_eq!(judge(result(json!(["2031-01-01"]))), Verdict::Unusable);
            assert_eq!(judge(json!({"result": {}})), Verdict::Legacy);
            assert_eq!(judge(error(-32022, json!({"supported": ["2026-07-28"]}))), modern);
            assert_eq!(judge(error(-32022, json!({"supported": ["2024-11-05"]}))), Verdict::Legacy);
            assert_eq!(judge(error(-32020, json!(null))), modern);
            assert_eq!(judge(error(-32021, json!(null))), modern);
            for code in [-32601, -32600, -32602, -32000, 7] {
                assert_eq!(judge(error(code, json!(null))), Verdict::Legacy, "{code}");
            }
        }
        assert_eq!(verdict(Carrier::Pipe, &ProbeReply::Silence), Verdict::Legacy);
        assert_eq!(verdict(Carrier::Pipe, &ProbeReply::Broken), Verdict::Legacy);
        assert_eq!(verdict(Carrier::Http, &ProbeReply::Silence), Verdict::Undecided);
        let status = |status| verdict(Carrier::Http, &ProbeReply::Http { status });
        assert_eq!([400, 404, 405].map(status), [Verdict::Legacy; 3]);
        assert_eq!([401, 403, 429, 500, 503].map(status), [Verdict::Undecided; 5]);
        let limited = Box::new(error(-32603, json!(null)));
        let limited = ProbeReply::Answer { status: Some(429), message: limited };
        assert_eq!(verdict(Carrier::Http, &limited), Verdict::Undecided);
    }

    /// wire: NEG-3
    #[test]
    fn the_question_is_a_modern_request() {
        let message = question(&Id::Integer(1), &json!({"name": "n", "version": "1"}));
        assert!(crate::server::claims_modern(&message));
        assert_eq!(message.method(), method::DISCOVER);
    }
}
