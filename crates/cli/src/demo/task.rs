//! Tools that go on as tasks, where the client can handle that.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::server::{Context, Error, Nature, TaskSupport, Tool, ToolDraft, ToolResult};

use super::round::elicit;
use super::text;

/// The longest that `slow_compute` computes.
const LONGEST: f64 = 600.0;

fn tool(name: impl Into<String>) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category: "tasks", ..super::NATURE })
}

pub(super) fn tools() -> Vec<Tool> {
    vec![greet(), slow(), failing(), breaking(), confirm(), multiple(), late()]
}

fn greet() -> Tool {
    tool("greet")
        .description("Greets you; never as a task")
        .input_schema(&json!({
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        }))
        .run(async |args: Value, _| format!("Hello, {}!", text(&args, "name")))
}

fn slow() -> Tool {
    tool("slow_compute")
        .description("Computes for some seconds, as a task if you can handle that")
        .tasks(TaskSupport::Optional)
        .input_schema(&json!({
            "type": "object",
            "properties": {
                "seconds": {"type": "number", "minimum": 0, "maximum": LONGEST},
                "label": {"type": "string"},
            },
        }))
        .run(async |args: Value, cx: Context| {
            let seconds = args["seconds"].as_f64().unwrap_or(1.0).clamp(0.0, LONGEST);
            cx.progress(0.0, Some(seconds), Some("computing"));
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            cx.progress(seconds, Some(seconds), None);
            let label = args["label"].as_str().unwrap_or("something");
            format!("Computed {label} for {seconds} seconds")
        })
}

fn failing() -> Tool {
    tool("failing_job")
        .description("Fails after a second; only as a task")
        .tasks(TaskSupport::Required)
        .run(async |_: Value, _| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ToolResult::error("The job failed, as it always does")
        })
}

fn breaking() -> Tool {
    tool("protocol_error_job")
        .description("Ends with an error of the protocol; as a task if you can handle that")
        .tasks(TaskSupport::Optional)
        .run(async |_: Value, _| {
            Err::<ToolResult, _>(Error::internal("The job broke, as it always does"))
        })
}

fn confirm() -> Tool {
    tool("confirm_delete")
        .description("Asks before it deletes (nothing is deleted)")
        .tasks(TaskSupport::Optional)
        .input_schema(&json!({
            "type": "object",
            "properties": {"filename": {"type": "string"}},
            "required": ["filename"],
        }))
        .run(async |args: Value, cx: Context| {
            let file = text(&args, "filename");
            let question = format!("Delete {file}?");
            let answer = elicit(&cx, "confirm", &question, ("confirm", "boolean")).await?;
            let sure = answer["action"] == "accept" && answer["content"]["confirm"] != false;
            let done = if sure { "Deleted" } else { "Kept" };
            Ok::<_, Error>(format!("{done} {file}"))
        })
}

fn multiple() -> Tool {
    tool("multi_input").description("Asks two things at once").tasks(TaskSupport::Optional).run(
        async |_: Value, cx: Context| {
            let (name, color) = tokio::join!(
                elicit(&cx, "name", "What is your name?", ("name", "string")),
                elicit(&cx, "color", "What is your favourite colour?", ("color", "string")),
            );
            Ok::<_, Error>(format!("{} likes {}", name?["content"], color?["content"]))
        },
    )
}

fn late() -> Tool {
    tool("test_tool_with_task")
        .description("Asks for your name first, and goes on as a task")
        .defers(TaskSupport::Optional)
        .run(async |_: Value, cx: Context| {
            let answer = elicit(&cx, "user_name", "What is your name?", ("name", "string")).await?;
            let name = text(&answer["content"], "name");
            cx.defer(async move |_| {
                super::moment().await;
                format!("Hello, {name}!")
            })
            .await
        })
}
