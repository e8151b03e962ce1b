//! Tools that show one rule of the protocol each.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::server::{Context, Error, Level, Nature, Tool, ToolDraft};

use super::{moment, round};

fn tool(name: impl Into<String>) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category: "protocol", ..super::NATURE })
}

pub(super) fn tools() -> Vec<Tool> {
    vec![
        missing_capability(),
        streaming(),
        logging(),
        reconnection(),
        tool_change(),
        prompt_change(),
    ]
}

fn missing_capability() -> Tool {
    tool("test_missing_capability").description("Refuses clients that do not declare sampling").run(
        async |_: Value, cx: Context| {
            if cx.client_capabilities()["sampling"].is_object() {
                return Ok("You declare sampling");
            }
            Err(Error::missing_capability(&json!({"sampling": {}}), cx.era()))
        },
    )
}

fn streaming() -> Tool {
    tool("test_streaming_elicitation").description("Reports its progress, then asks").run(
        async |_: Value, cx: Context| {
            cx.progress(1.0, Some(2.0), Some("About to ask"));
            let answer =
                round::elicit(&cx, "user_name", "What is your name?", ("name", "string")).await?;
            cx.progress(2.0, Some(2.0), None);
            Ok::<_, Error>(format!("You said {}", answer["content"]))
        },
    )
}

fn logging() -> Tool {
    tool("test_logging_tool").description("Sends log records to clients that want them").run(
        async |_: Value, cx: Context| {
            for level in [Level::Debug, Level::Info, Level::Warning, Level::Error] {
                cx.log(level, Some("demo"), format!("A record of level {level}"));
                moment().await;
            }
            "Logged at four levels"
        },
    )
}

fn reconnection() -> Tool {
    tool("test_reconnection")
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
    tool("test_trigger_tool_change").description("Says that the list of tools has changed").run(
        async |_: Value, cx: Context| {
            cx.server().tools_changed();
            "Said so"
        },
    )
}

fn prompt_change() -> Tool {
    tool("test_trigger_prompt_change").description("Says that the list of prompts has changed").run(
        async |_: Value, cx: Context| {
            cx.server().prompts_changed();
            "Said so"
        },
    )
}
