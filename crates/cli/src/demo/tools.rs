//! Tools that answer without asking: everyday ones, each kind of content, schemas, and
//! one for each rule of the protocol.

use std::future::ready;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchboard_net::server::{
    Content, Contents, Context, Error, Level, Tool, ToolDraft, ToolResult,
};
use switchboard_proto::moment;

use super::{PNG, Touched, WATCHED, WAV, moment, questions, text, tool};

pub(super) fn everyday_tools(touched: &Touched) -> Vec<Tool> {
    vec![echo(), add(), time(), touch(touched.clone())]
}

fn echo() -> Tool {
    tool("everyday", "echo")
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
    tool("everyday", "add")
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
    tool("everyday", "time")
        .description("Tells the time here, in UTC")
        .run(async |_: Value, _| moment::text(SystemTime::now()))
}

fn touch(touched: Touched) -> Tool {
    tool("everyday", "touch")
        .nature(super::Nature { safety: "write", idempotent: false, ..super::NATURE })
        .description("Changes the resource test://watched-resource; who watches it is told")
        .run(move |_: Value, cx: Context| {
            let times = touched.touch();
            cx.server().resource_updated(WATCHED);
            ready(format!("Touched {times} times"))
        })
}

pub(super) fn content_tools() -> Vec<Tool> {
    vec![
        plain("test_simple_text", "Returns a text")
            .run(async |_: Value, _| "This is a simple text response for testing."),
        plain("test_image_content", "Returns a picture")
            .run(async |_: Value, _| Content::image(PNG, "image/png")),
        plain("test_audio_content", "Returns a sound")
            .run(async |_: Value, _| Content::audio(WAV, "audio/wav")),
        plain("test_embedded_resource", "Returns a resource in place").run(async |_: Value, _| {
            let text = "This is an embedded resource content.";
            Content::resource(&Contents::text("test://embedded-resource", "text/plain", text))
        }),
        plain("test_resource_link", "Returns a link to a resource").run(async |_: Value, _| {
            Content::link("test://static-text", "static-text").with("mimeType", "text/plain")
        }),
        plain("test_multiple_content_types", "Returns a text, a picture and a resource")
            .run(async |_: Value, _| mixed()),
        plain("test_error_handling", "Fails, always").run(async |_: Value, _| {
            ToolResult::error("This tool intentionally returns an error for testing")
        }),
        plain("test_tool_with_progress", "Reports its progress")
            .run(async |_: Value, cx| progress(cx).await),
        plain("test_tool_with_logging", "Sends log records")
            .run(async |_: Value, cx| logging(cx).await),
    ]
}

fn plain(name: &str, description: &str) -> ToolDraft<Value> {
    tool("content", name).description(description)
}

fn mixed() -> Vec<Content> {
    let data = json!({"test": "data", "value": 123}).to_string();
    vec![
        Content::text("Multiple content types test:"),
        Content::image(PNG, "image/png"),
        Content::resource(&Contents::text(
            "test://mixed-content-resource",
            "application/json",
            data,
        )),
    ]
}

async fn progress(cx: Context) -> &'static str {
    cx.progress(0.0, Some(100.0), Some("Begun"));
    moment().await;
    cx.progress(50.0, Some(100.0), Some("Half way"));
    moment().await;
    cx.progress(100.0, Some(100.0), Some("Done"));
    "Reported its progress"
}

async fn logging(cx: Context) -> &'static str {
    cx.log(Level::Info, Some("demo"), "Tool execution started");
    moment().await;
    cx.log(Level::Info, Some("demo"), "Tool processing data");
    moment().await;
    cx.log(Level::Info, Some("demo"), "Tool execution completed");
    "Sent three log records"
}

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

pub(super) fn schema_tools() -> Vec<Tool> {
    let keywords = tool("schemas", "json_schema_2020_12_tool")
        .description("Takes arguments with keywords of JSON Schema 2020-12")
        .input_schema_text(KEYWORDS)
        .run(async |args: Value, _| format!("These arguments fit: {args}"));
    let header = tool("schemas", "test_custom_header")
        .description("Takes an argument that a header repeats")
        .input_schema(&json!({
            "type": "object",
            "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
            "required": ["value"],
        }))
        .run(async |args: Value, _| format!("The value is {}", args["value"]));
    vec![keywords, header]
}

pub(super) fn protocol_tools() -> Vec<Tool> {
    vec![
        missing_capability(),
        streaming(),
        log_levels(),
        reconnection(),
        tool_change(),
        prompt_change(),
    ]
}

fn missing_capability() -> Tool {
    tool("protocol", "test_missing_capability")
        .description("Refuses clients that do not declare sampling")
        .run(async |_: Value, cx: Context| {
            if cx.client_capabilities()["sampling"].is_object() {
                return Ok("You declare sampling");
            }
            Err(Error::missing_capability(&json!({"sampling": {}}), cx.era()))
        })
}

fn streaming() -> Tool {
    tool("protocol", "test_streaming_elicitation")
        .description("Reports its progress, then asks")
        .run(async |_: Value, cx: Context| {
            cx.progress(1.0, Some(2.0), Some("About to ask"));
            let answer =
                questions::elicit(&cx, "user_name", "What is your name?", ("name", "string"))
                    .await?;
            cx.progress(2.0, Some(2.0), None);
            Ok::<_, Error>(format!("You said {}", answer["content"]))
        })
}

fn log_levels() -> Tool {
    tool("protocol", "test_logging_tool")
        .description("Sends log records to clients that want them")
        .run(async |_: Value, cx: Context| {
            for level in [Level::Debug, Level::Info, Level::Warning, Level::Error] {
                cx.log(level, Some("demo"), format!("A record of level {level}"));
                moment().await;
            }
            "Logged at four levels"
        })
}

fn reconnection() -> Tool {
    tool("protocol", "test_reconnection")
        .description("Hangs up before it answers; the client comes back for the answer")
        .run(async |_: Value, cx: Context| {
            cx.hang_up();
            // On a pipe there is nothing to hang up; whoever stands in between
            // needs some time to do it.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            "You came back"
        })
}

fn tool_change() -> Tool {
    tool("protocol", "test_trigger_tool_change")
        .description("Says that the list of tools has changed")
        .run(async |_: Value, cx: Context| {
            cx.server().tools_changed();
            "Said so"
        })
}

fn prompt_change() -> Tool {
    tool("protocol", "test_trigger_prompt_change")
        .description("Says that the list of prompts has changed")
        .run(async |_: Value, cx: Context| {
            cx.server().prompts_changed();
            "Said so"
        })
}
