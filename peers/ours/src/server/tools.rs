//! The tools of the fixture, in the order of their list.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::server::{Context, Error, Level, Tool, ToolDraft, ToolResult};
use switchboard_proto::revision::Era;
use tokio::time::sleep;

const PATTERN: &str = "0123456789abcdef";
/// Some clients drop a note of progress that arrives in one read with the response.
const NOTE_PAUSE: Duration = Duration::from_millis(50);
/// How the process ends by `die`; the runner starts it again then.
const DIED: i32 = 7;

/// The calls of `slow` that were cancelled. They belong to the process: the
/// modern era has no session to hang them on.
type Tags = Arc<Mutex<BTreeSet<String>>>;

pub(super) fn all() -> Vec<Tool> {
    let tags = Tags::default();
    vec![
        with("ask", &[("kind", "string")]).run(async |args: Value, cx| ask(&args, &cx).await),
        with("big", &[("bytes", "integer")]).run(async |args: Value, _| big(&args)),
        with("die", &[]).run(async |_: Value, _| -> ToolResult { std::process::exit(DIED) }),
        with("echo", &[("text", "string")]).run(async |args: Value, _| text(&args, "text")),
        grow(),
        with("log", &[("level", "string")]).run(async |args: Value, cx| log(&args, &cx)),
        with("progress", &[("steps", "integer")]).run(progress),
        slow(Arc::clone(&tags)),
        with("touch", &[]).run(async |_: Value, cx: Context| {
            cx.server().resource_updated("peer://watched");
            "touched"
        }),
        with("was_cancelled", &[("tag", "string")]).run(move |args: Value, _| {
            let tags = tags.lock().unwrap_or_else(PoisonError::into_inner);
            ready(tags.contains(&text(&args, "tag")).to_string())
        }),
        with("whoami", &[]).run(async |_: Value, _| std::process::id().to_string()),
    ]
}

/// A tool all of whose arguments are required.
fn with(name: &str, arguments: &[(&str, &str)]) -> ToolDraft<Value> {
    let mut schema = json!({"type": "object", "properties": {}, "required": []});
    for (argument, kind) in arguments {
        schema["properties"][argument] = json!({"type": kind});
    }
    schema["required"] = arguments.iter().map(|(argument, _)| *argument).collect();
    Tool::new(name).description(format!("The {name} tool of the fixture.")).input_schema(&schema)
}

/// An argument that the schema says is a string.
fn text(args: &Value, name: &str) -> String {
    args[name].as_str().unwrap_or_default().to_owned()
}

async fn ask(args: &Value, cx: &Context) -> Result<String, Error> {
    let (method, params) = match args["kind"].as_str() {
        Some("form") => {
            let name = json!({"name": {"type": "string"}});
            let schema = json!({"type": "object", "properties": name, "required": ["name"]});
            let params =
                json!({"mode": "form", "message": "What is your name?", "requestedSchema": schema});
            ("elicitation/create", params)
        }
        Some("url") => {
            let page = "https://peer.test/sign-in?a=1&b=%20";
            let mut params = json!({"mode": "url", "message": "Please sign in.", "url": page});
            if cx.era() == Era::Legacy {
                params["elicitationId"] = "visit-1".into();
            }
            ("elicitation/create", params)
        }
        Some("tools") => {
            let words = json!({"type": "text", "text": "How is the weather?"});
            let messages = json!([{"role": "user", "content": words}]);
            let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
            let tools = json!([{"name": "weather", "inputSchema": schema}]);
            let mut params = json!({"messages": messages, "maxTokens": 100, "tools": tools});
            params["toolChoice"] = json!({"mode": "required"});
            ("sampling/createMessage", params)
        }
        Some("sampling") => {
            let words = json!({"type": "text", "text": "Say something"});
            let messages = json!([{"role": "user", "content": words}]);
            ("sampling/createMessage", json!({"messages": messages, "maxTokens": 100}))
        }
        Some("roots") => ("roots/list", json!({})),
        _ => return Err(Error::invalid_params("kind is form, url, sampling, tools or roots")),
    };
    Ok(cx.ask_as("answer", method, params).await?.to_string())
}

fn big(args: &Value) -> Result<String, Error> {
    let bytes = args["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| Error::invalid_params("bytes is too much"))?;
    Ok(PATTERN.chars().cycle().take(bytes).collect())
}

fn grow() -> Tool {
    let grown = AtomicUsize::new(0);
    with("grow", &[]).run(move |_: Value, cx: Context| {
        let name = format!("grown_{}", grown.fetch_add(1, Ordering::Relaxed) + 1);
        let says = name.clone();
        let tool = with(&name, &[]).run(move |_: Value, _| ready(says.clone()));
        let added = cx.server().add_tool(tool);
        ready(added.map(|()| name).map_err(|flaw| Error::internal(flaw.to_string())))
    })
}

fn log(args: &Value, cx: &Context) -> Result<&'static str, Error> {
    let level = Level::parse(&text(args, "level"));
    let level = level.ok_or_else(|| Error::invalid_params("level is a log level"))?;
    for n in 1..=3 {
        cx.log(level, Some("peer"), format!("log {n}"));
    }
    Ok("logged")
}

async fn progress(args: Value, cx: Context) -> String {
    let steps = args["steps"].as_u64().and_then(|steps| u32::try_from(steps).ok());
    let steps = steps.unwrap_or_default();
    for step in 1..=steps {
        cx.progress(step.into(), Some(steps.into()), Some(&format!("step {step}")));
        sleep(NOTE_PAUSE).await;
    }
    format!("done {steps}")
}

fn slow(tags: Tags) -> Tool {
    with("slow", &[("ms", "integer"), ("tag", "string")]).run(move |args: Value, cx: Context| {
        let tags = Arc::clone(&tags);
        async move {
            let time = Duration::from_millis(args["ms"].as_u64().unwrap_or_default());
            let cancelled = tokio::time::timeout(time, cx.cancelled()).await.is_ok();
            if cancelled {
                let mut tags = tags.lock().unwrap_or_else(PoisonError::into_inner);
                tags.insert(text(&args, "tag"));
            }
            "slept"
        }
    })
}
