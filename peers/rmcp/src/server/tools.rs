//! The fixture's tools: their list in pages of three, and what each does.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
        ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
        Tool,
    },
    service::{RequestContext, RoleServer, ServiceError},
};
use serde_json::{Value, json};

use super::{ask, fixture::Fixture, shared::Change};

const PAGE: usize = 3;
/// The TypeScript clients drop a progress note that arrives in one read with the response.
const NOTE_PAUSE: Duration = Duration::from_millis(50);

/// Names of arguments with their JSON types.
type Arguments = &'static [(&'static str, &'static str)];

/// Name, what it does, and its arguments, in the order of the contract.
const TOOLS: [(&str, &str, Arguments); 11] = [
    ("ask", "Asks the client", &[("kind", "string")]),
    ("big", "Returns a long text", &[("bytes", "integer")]),
    ("die", "Ends the process", &[]),
    ("echo", "Returns its text", &[("text", "string")]),
    ("grow", "Adds a tool", &[]),
    ("log", "Writes three log notes", &[("level", "string")]),
    ("progress", "Reports progress", &[("steps", "integer")]),
    ("slow", "Waits", &[("ms", "integer"), ("tag", "string")]),
    ("touch", "Changes peer://watched", &[]),
    ("was_cancelled", "Says whether a wait was cancelled", &[("tag", "string")]),
    ("whoami", "Returns the process id", &[]),
];

/// One page of the list; the cursor is the number of the first tool on it.
pub(crate) fn page(grown: usize, cursor: Option<String>) -> Result<ListToolsResult, ErrorData> {
    let mut all: Vec<Tool> = TOOLS
        .iter()
        .map(|(name, does, arguments)| Tool::new(*name, *does, schema(arguments)))
        .collect();
    all.extend((1..=grown).map(|n| Tool::new(format!("grown_{n}"), "Grew", schema(&[]))));
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor
            .strip_prefix("from-")
            .and_then(|number| number.parse().ok())
            .filter(|start| *start < all.len())
            .ok_or_else(|| ErrorData::invalid_params("unknown cursor", None))?,
    };
    let end = all.len().min(start + PAGE);
    let next = (end < all.len()).then(|| format!("from-{end}"));
    let mut result = ListToolsResult::with_all_items(all[start..end].to_vec());
    result.next_cursor = next;
    Ok(result)
}

fn schema(arguments: Arguments) -> JsonObject {
    let properties: JsonObject = arguments
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind })))
        .collect();
    let names: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(names));
    schema
}

pub(crate) async fn call(
    fixture: &Fixture,
    mut request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.take().unwrap_or_default();
    let shared = &fixture.shared;
    let answer = match request.name.as_ref() {
        "ask" => return ask::ask(&text(&arguments, "kind")?, &request, &context).await,
        "big" => "0123456789abcdef".chars().cycle().take(number(&arguments, "bytes")?).collect(),
        "die" => std::process::exit(7),
        "echo" => text(&arguments, "text")?,
        "grow" => format!("grown_{}", shared.grow()),
        "log" => log(fixture, &arguments, &context).await?,
        "progress" => progress(number(&arguments, "steps")?, &context).await?,
        "slow" => slow(fixture, &arguments, &context).await?,
        "touch" => {
            shared.tell(Change::WatchedTouched);
            "touched".to_owned()
        }
        "was_cancelled" => shared.was_cancelled(&text(&arguments, "tag")?).to_string(),
        "whoami" => std::process::id().to_string(),
        name if is_grown(name, shared.grown()) => name.to_owned(),
        _ => return Err(ErrorData::invalid_params("unknown tool", None)),
    };
    Ok(plain(answer))
}

/// A result of one text item.
pub(crate) fn plain(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// What the peer did not let us send, as an error of the call.
pub(crate) fn unsent(error: &ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn is_grown(name: &str, grown: usize) -> bool {
    name.strip_prefix("grown_")
        .and_then(|number| number.parse().ok())
        .is_some_and(|number| (1..=grown).contains(&number))
}

fn text(arguments: &JsonObject, name: &str) -> Result<String, ErrorData> {
    match arguments.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(ErrorData::invalid_params(format!("{name} must be a string"), None)),
    }
}

fn number(arguments: &JsonObject, name: &str) -> Result<usize, ErrorData> {
    arguments
        .get(name)
        .and_then(Value::as_u64)
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| ErrorData::invalid_params(format!("{name} must be an integer"), None))
}

async fn log(
    fixture: &Fixture,
    arguments: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<String, ErrorData> {
    let level: LoggingLevel = serde_json::from_value(json!(text(arguments, "level")?))
        .map_err(|_| ErrorData::invalid_params("level is not a log level", None))?;
    let wanted = fixture.log_level(context);
    if wanted.is_some_and(|wanted| level as u8 >= wanted as u8) {
        for n in 1..=3 {
            let note = LoggingMessageNotificationParam::new(level, json!(format!("log {n}")))
                .with_logger("peer");
            let sent = context.peer.notify_logging_message(note).await;
            sent.map_err(|error| unsent(&error))?;
        }
    }
    Ok("logged".to_owned())
}

async fn progress(steps: usize, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
    let Some(token) = context.meta.get_progress_token() else {
        return Ok(format!("done {steps}"));
    };
    let steps =
        u32::try_from(steps).map_err(|_| ErrorData::invalid_params("steps is too large", None))?;
    for n in 1..=steps {
        let note = ProgressNotificationParam::new(token.clone(), f64::from(n))
            .with_total(f64::from(steps))
            .with_message(format!("step {n}"));
        let sent = context.peer.notify_progress(note).await;
        sent.map_err(|error| unsent(&error))?;
        tokio::time::sleep(NOTE_PAUSE).await;
    }
    Ok(format!("done {steps}"))
}

async fn slow(
    fixture: &Fixture,
    arguments: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<String, ErrorData> {
    let tag = text(arguments, "tag")?;
    let wait = Duration::from_millis(number(arguments, "ms")? as u64);
    tokio::select! {
        () = tokio::time::sleep(wait) => {}
        () = context.ct.cancelled() => fixture.shared.remember_cancelled(tag),
    }
    Ok("slept".to_owned())
}
