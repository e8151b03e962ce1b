//! The tools of the gateway itself: the list of all tools, and how a recent call went.
//!
//! `get_tool_manifest` is answered with the list that the same client would get without
//! tool search, so that it shows only what the client may see. `get_trace_by_id` finds only
//! calls of the same principal.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::connection::ClientConnection;
use switchboard_proto::jsonrpc::{Id, Member, Message, Part};
use switchboard_proto::revision::Era;
use switchboard_proto::{method, moment};

use super::{CallMonitor, CallResult, LoggedCall};

/// Lists all tools.
const MANIFEST: &str = "get_tool_manifest";
/// Tells how a recent call went.
const TRACE: &str = "get_trace_by_id";

/// Where a result says which trace is its own.
const KEY: &str = "switchboard/traceId";

/// Where a request for a list says that it wants all tools, also where clients search.
pub(crate) const WHOLE: &str = "switchboard/wholeList";

/// A tool of the gateway itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OwnTool {
    Manifest,
    Trace,
}

impl OwnTool {
    /// The tool of ours that has this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            MANIFEST => Some(Self::Manifest),
            TRACE => Some(Self::Trace),
            _ => None,
        }
    }

    /// The tool of ours that a request calls.
    pub(crate) fn called_by(request: &Message) -> Option<Self> {
        let is_call = request.method() == method::CALL_TOOL;
        is_call.then(|| request.name()).flatten().and_then(|name| Self::named(&name))
    }
}

fn definitions() -> [Value; 2] {
    let nature = json!({
        "layer": "core",
        "category": "diagnostics",
        "safety": "read",
        "idempotent": true,
        "supportsDryRun": false,
    });
    let tool = |name: &str, description: &str, schema: Value| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": schema,
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
            "_meta": nature,
        })
    };
    let cursor = json!({"cursor": {"type": "string", "description": "nextCursor of a manifest"}});
    let id = json!({"traceId": {"type": "string", "description": "as in the result's _meta"}});
    [
        tool(
            MANIFEST,
            "Lists all tools of all servers with their schemas",
            json!({"type": "object", "properties": cursor}),
        ),
        tool(
            TRACE,
            "Tells how a recent call of a tool went: how long it took and whether it succeeded",
            json!({"type": "object", "properties": id, "required": ["traceId"]}),
        ),
    ]
}

/// The list of tools with ours at its end; none if this is not the last page.
pub(super) fn listed(answer: &Message) -> Option<Message> {
    if answer.has(Member::NextCursor) {
        return None;
    }
    let rest = answer.get(Member::Tools)?.trim_ascii_end().strip_suffix(b"]")?;
    let ours = definitions().map(|tool| tool.to_string()).join(",");
    let comma = if rest.trim_ascii() == b"[" { "" } else { "," };
    let tools = [rest, comma.as_bytes(), ours.as_bytes(), b"]"].concat();
    Some(answer.with(Member::Tools, tools))
}

/// The request for a list that a call of `get_tool_manifest` stands for.
pub(crate) fn list_request(request: &Message) -> Message {
    let meta = request.part(Member::Meta).unwrap_or(Part::new(b"{}"));
    let whole = meta.with(WHOLE, b"true");
    let mut members = [b"{\"_meta\":", whole.as_deref().unwrap_or(meta.text())].concat();
    if let Some(cursor) = request.inside(Member::Arguments, &["cursor"]) {
        members.extend([b",\"cursor\":", cursor.text()].concat());
    }
    members.push(b'}');
    let id = request.id().unwrap_or(&Id::Integer(0));
    Message::request(id, method::LIST_TOOLS, Some(&members))
}

/// The list as the result of a tool.
pub(super) fn manifest(answer: &Message, era: Era) -> Message {
    let list = answer.payload_value().unwrap_or_default();
    let tools = list["tools"].as_array().cloned().unwrap_or_default();
    let mut content = json!({"success": true});
    if let Some(next) = list.get("nextCursor") {
        content["nextCursor"] = next.clone();
    }
    let text = format!("{} tools", tools.len());
    content["tools"] = tools.into();
    answer.with_payload(result(&text, &content, era).to_string().as_bytes())
}

/// What became of a call, as the result of a tool.
pub(crate) fn trace(monitor: &CallMonitor, client: &ClientConnection, request: &Message) -> Value {
    let arguments = request.part(Member::Arguments);
    let asked = arguments.and_then(|it| it.string("traceId")).unwrap_or_default();
    let mut calls = monitor.find_trace(client, &asked);
    if calls.is_empty() {
        let message = "no recent call of yours has this trace id";
        let error = json!({"code": "E_TRACE_NOT_FOUND", "message": message});
        let mut failed = result(message, &json!({"success": false, "error": error}), client.era());
        failed["isError"] = true.into();
        return failed;
    }
    let newest = calls.remove(0);
    let text = newest.to_string();
    let mut content = json!({"success": true, "trace": newest});
    if !calls.is_empty() {
        content["others"] = calls.into();
    }
    result(&text, &content, client.era())
}

fn result(text: &str, content: &Value, era: Era) -> Value {
    let mut result =
        json!({"content": [{"type": "text", "text": text}], "structuredContent": content});
    if era == Era::Modern {
        result["resultType"] = "complete".into();
    }
    result
}

/// The result of a tool, with the id of its trace.
pub(super) fn told(answer: &Message, trace: u128) -> Option<Message> {
    let meta = answer.part(Member::Meta).unwrap_or(Part::new(b"{}"));
    let meta = meta.with(KEY, format!("\"{trace:032x}\"").as_bytes())?;
    Some(answer.with(Member::Meta, meta))
}

impl CallMonitor {
    /// The calls of tools by this client's principal that are part of a trace, newest first.
    fn find_trace(&self, client: &ClientConnection, id: &str) -> Vec<Value> {
        let Ok(id) = u128::from_str_radix(id, 16) else { return Vec::new() };
        let whose = client.who().shared_identity();
        let is_meant = |call: &&Arc<LoggedCall>| {
            call.trace == id && call.identity == whose && call.method() == method::CALL_TOOL
        };
        self.calls.after(0).iter().filter(is_meant).map(|call| told_call(call)).collect()
    }
}

fn told_call(call: &LoggedCall) -> Value {
    json!({
        "traceId": format!("{:032x}", call.trace),
        "server": call.server.as_deref(),
        "tool": call.offered.as_deref(),
        "startedAt": moment::text(call.at()),
        "durationMs": u64::try_from(call.took().as_millis()).unwrap_or(u64::MAX),
        "success": call.outcome == CallResult::Ok,
        "outcome": call.outcome.name(),
        "errorCode": call.code,
    })
}
