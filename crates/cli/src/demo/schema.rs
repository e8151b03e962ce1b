//! Tools whose schemas are the point.

use serde_json::{Value, json};
use switchboard_net::server::{Nature, Tool, ToolDraft};

/// Listed byte for byte: what a client makes of these keywords is its affair.
const KEYWORDS: &str = r##"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "$defs": {
    "address": {
      "$anchor": "addressDef",
      "type": "object",
      "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
    }
  },
  "properties": {
    "name": { "type": "string" },
    "address": { "$ref": "#/$defs/address" },
    "contactMethod": { "type": "string", "enum": ["phone", "email"] },
    "phone": { "type": "string" },
    "email": { "type": "string" }
  },
  "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
  "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
  "then": { "required": ["phone"] },
  "else": { "required": ["email"] },
  "additionalProperties": false
}"##;

fn tool(name: impl Into<String>) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category: "schemas", ..super::NATURE })
}

pub(super) fn tools() -> Vec<Tool> {
    let keywords = tool("json_schema_2020_12_tool")
        .description("Takes arguments with keywords of JSON Schema 2020-12")
        .input_schema_text(KEYWORDS)
        .run(async |args: Value, _| format!("These arguments fit: {args}"));
    let header = tool("test_custom_header")
        .description("Takes an argument that a header repeats")
        .input_schema(&json!({
            "type": "object",
            "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
            "required": ["value"],
        }))
        .run(async |args: Value, _| format!("The value is {}", args["value"]));
    vec![keywords, header]
}
