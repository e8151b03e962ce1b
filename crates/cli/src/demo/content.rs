//! Tools that return each kind of content, and report on the way.

use serde_json::{Value, json};
use switchboard_net::server::{
    Content, Contents, Context, Level, Nature, Tool, ToolDraft, ToolResult,
};

use super::{PNG, WAV, moment};

fn tool(name: impl Into<String>) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category: "content", ..super::NATURE })
}

pub(super) fn tools() -> Vec<Tool> {
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
    tool(name).description(description)
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
