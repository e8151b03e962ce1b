//! Two tools that a server may add to its own: `get_trace_by_id` and `get_tool_manifest`.
//!
//! A trace has no arguments and no results: they may hold secrets, and nobody
//! promised to keep them.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::Part;
use switchboard_proto::moment;

use super::Error;
use super::tool::{Nature, Tool, ToolOutcome, ToolResult};
use crate::connection::lock;

/// Calls that are remembered.
const MOST_TRACES: usize = 256;

/// Where a result says which trace is its own.
const KEY: &str = "switchboard/traceId";

/// The last calls, newest last.
#[derive(Debug, Default)]
pub(super) struct Traces {
    calls: Mutex<VecDeque<CallTrace>>,
}

/// How a call went.
#[derive(Debug)]
struct CallTrace {
    id: String,
    tool: String,
    ended: SystemTime,
    elapsed: Duration,
    success: bool,
    code: Option<Value>,
}

impl CallTrace {
    fn to_json(&self) -> Value {
        json!({
            "traceId": self.id,
            "tool": self.tool,
            "startedAt": moment::text(self.ended - self.elapsed),
            "durationMs": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "success": self.success,
            "errorCode": self.code,
        })
    }
}

impl Traces {
    /// Remembers a call, and tells its result the id.
    pub(super) fn record(
        &self,
        tool: &str,
        elapsed: Duration,
        result: Result<ToolResult, Error>,
    ) -> Result<ToolResult, Error> {
        let Ok(id) = super::random_id() else { return result };
        let (success, code) = match &result {
            Ok(result) => {
                // As a `ToolOutcome` gave it.
                let structured = result.structured.as_ref().filter(|_| result.is_error());
                let code = structured.and_then(|it| it.pointer("/error/code"));
                (!result.is_error(), code.cloned())
            }
            Err(error) => (false, Some(error.code.into())),
        };
        let (tool, ended) = (tool.to_owned(), SystemTime::now());
        let trace = CallTrace { id: id.clone(), tool, ended, elapsed, success, code };
        let mut calls = lock(&self.calls);
        if calls.len() >= MOST_TRACES {
            calls.pop_front();
        }
        calls.push_back(trace);
        drop(calls);
        result.map(|result| result.with_meta(KEY, id))
    }

    fn find(&self, id: &str) -> Option<Value> {
        lock(&self.calls).iter().rev().find(|trace| trace.id == id).map(CallTrace::to_json)
    }
}

/// `get_trace_by_id`.
pub(super) fn trace_tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {"traceId": {"type": "string", "description": "as in the result's _meta"}},
        "required": ["traceId"],
    });
    Tool::new("get_trace_by_id")
        .description(
            "Tells how a recent call of a tool went: how long it elapsed and whether it succeeded",
        )
        .input_schema(&schema)
        .nature(Nature::DIAGNOSTIC)
        .run(async |arguments: Value, cx| {
            let id = arguments["traceId"].as_str().unwrap_or_default().to_owned();
            let ring = cx.server().trace.as_ref();
            match ring.and_then(|ring| ring.find(&id)) {
                Some(trace) => ToolOutcome::success(trace.to_string()).with("trace", trace),
                None => {
                    ToolOutcome::failure("E_TRACE_NOT_FOUND", "no recent call has this trace id")
                }
            }
        })
}

/// `get_tool_manifest`: everything there is to know about all tools, at once.
pub(super) fn manifest_tool() -> Tool {
    Tool::new("get_tool_manifest")
        .description("Lists all tools of this server with their schemas and examples")
        .nature(Nature::DIAGNOSTIC)
        .run(async |_: Value, cx| {
            let catalog = cx.server().catalog();
            let tools = catalog.tools.items.iter().map(|tool| {
                let text = tool.listing.to_json(true);
                let mut entry = Part::new(text.as_bytes()).value().unwrap_or_default();
                entry["examples"] = json!(tool.draft.examples);
                entry
            });
            let tools: Vec<Value> = tools.collect();
            ToolOutcome::success(format!("{} tools", tools.len())).with("tools", tools)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_calls_are_remembered() {
        let ring = Traces::default();
        let ids: Vec<_> = (0..MOST_TRACES + 10)
            .map(|_| {
                let result = Ok(ToolResult::text("secret"));
                let result = ring.record("t", Duration::from_millis(3), result).unwrap();
                result.meta[KEY].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(lock(&ring.calls).len(), MOST_TRACES);
        assert_eq!(ring.find(&ids[9]), None);
        let trace = ring.find(&ids[10]).unwrap();
        assert_eq!((&trace["durationMs"], &trace["success"]), (&json!(3), &json!(true)));
        assert!(!trace.to_string().contains("secret"), "{trace}");
    }
}
