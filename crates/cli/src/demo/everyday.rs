//! Tools for a person who wants to see that a client works.

use std::future::ready;

use serde_json::{Value, json};
use switchboard_net::server::{Context, Error, Nature, Tool, ToolDraft, ToolResult};

use super::resource::{Touched, WATCHED};
use super::text;
use crate::log;

fn tool(name: impl Into<String>) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category: "everyday", ..super::NATURE })
}

pub(super) fn tools(touched: &Touched) -> Vec<Tool> {
    vec![echo(), add(), time(), touch(touched.clone())]
}

fn echo() -> Tool {
    tool("echo")
        .description("Says what you say")
        .annotations(json!({"readOnlyHint": true}))
        .input_schema(&json!({
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What to say"}},
            "required": ["message"],
        }))
        .run(async |args: Value, _| text(&args, "message"))
}

fn add() -> Tool {
    tool("add")
        .description("Adds two numbers")
        .annotations(json!({"readOnlyHint": true}))
        .input_schema(&json!({
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        }))
        .output_schema(&json!({
            "type": "object",
            "properties": {"sum": {"type": "number"}},
            "required": ["sum"],
        }))
        .run(async |args: Value, _| {
            let whole =
                args["a"].as_i64().zip(args["b"].as_i64()).and_then(|(a, b)| a.checked_add(b));
            let sum = match whole {
                Some(sum) => json!(sum),
                None => {
                    json!(args["a"].as_f64().unwrap_or(0.0) + args["b"].as_f64().unwrap_or(0.0))
                }
            };
            ToolResult::text(sum.to_string()).with_structured(json!({"sum": sum}))
        })
}

fn time() -> Tool {
    tool("time")
        .description("Tells the time here, in UTC")
        .run(async |_: Value, _| log::timestamp().map_err(|_| Error::internal("there is no clock")))
}

fn touch(touched: Touched) -> Tool {
    tool("touch")
        .nature(Nature { safety: "write", idempotent: false, ..super::NATURE })
        .description("Changes the resource test://watched-resource; who watches it is told")
        .run(move |_: Value, cx: Context| {
            let times = touched.touch();
            cx.server().resource_updated(WATCHED);
            ready(format!("Touched {times} times"))
        })
}
