//! `get_tool_manifest`: everything there is to know about all tools, at once.

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::Part;

use super::catalog::Listed;
use super::tool::Tool;
use super::tool_outcome::{Nature, ToolOutcome};

pub(super) fn tool() -> Tool {
    Tool::new("get_tool_manifest")
        .description("Lists all tools of this server with their schemas and examples")
        .nature(Nature::DIAGNOSTIC)
        .run(async |_: Value, cx| {
            let catalog = cx.server().catalog();
            let tools: Vec<Value> = catalog.tools.iter().map(|tool| entry(tool)).collect();
            ToolOutcome::success(format!("{} tools", tools.len())).with("tools", tools)
        })
}

fn entry(tool: &Tool) -> Value {
    let mut text = Vec::new();
    tool.list(true, &mut text);
    let mut entry = Part::new(&text).value().unwrap_or_default();
    entry["examples"] = json!(tool.examples);
    entry
}
