//! Every message that stands anywhere in the repository survives being read as a type.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Value};
use switchboard_proto::types::{
    CallToolParams, CallToolResult, CompleteParams, CompleteResult, ContentBlock, DiscoverResult,
    ElicitParams, ElicitResult, GetPromptParams, GetPromptResult, InitializeParams,
    InitializeResult, InputRequiredResult, ListParams, ListPromptsResult, ListResourcesResult,
    ListRootsResult, ListTemplatesResult, ListToolsResult, ListedTool, ListenParams, LogNote,
    ProgressNote, ReadResourceParams, ReadResourceResult, SampleParams, SampleResult,
    SetLevelParams, TaskParams, TaskState, UpdateTaskParams, read,
};
use switchboard_testkit::source;

/// What became of all values of one type.
#[derive(Default)]
struct Fate {
    read: usize,
    changed: Vec<String>,
}

type Fates = BTreeMap<&'static str, Fate>;

fn rewrite<T: DeserializeOwned + Serialize>(value: &Value, fates: &mut Fates) {
    let fate = fates.entry(std::any::type_name::<T>()).or_default();
    // Much of what tests say is wrong on purpose.
    let Ok(typed) = read::<T>(value) else { return };
    fate.read += 1;
    let mut written = serde_json::to_value(typed).expect("it was JSON");
    if value.get("content").is_none() && written.get("content").is_some_and(Value::is_array) {
        written.as_object_mut().expect("a result").remove("content");
    }
    if written != without_nulls(value) && written != *value {
        fate.changed.push(format!("{value}\nbecame {written}"));
    }
}

/// An optional member that is null counts as absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            members.map(|(name, member)| (name.clone(), without_nulls(member))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Reads the parameters of a request or a notification as those of its method.
fn rewrite_params(method: &str, params: &Value, fates: &mut Fates) {
    match method {
        "initialize" => rewrite::<InitializeParams>(params, fates),
        "tools/call" => rewrite::<CallToolParams>(params, fates),
        "prompts/get" => rewrite::<GetPromptParams>(params, fates),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            rewrite::<ReadResourceParams>(params, fates);
        }
        "completion/complete" => rewrite::<CompleteParams>(params, fates),
        "logging/setLevel" => rewrite::<SetLevelParams>(params, fates),
        "subscriptions/listen" => rewrite::<ListenParams>(params, fates),
        "sampling/createMessage" => rewrite::<SampleParams>(params, fates),
        "elicitation/create" => rewrite::<ElicitParams>(params, fates),
        "tasks/get" | "tasks/cancel" | "tasks/result" => rewrite::<TaskParams>(params, fates),
        "tasks/update" => rewrite::<UpdateTaskParams>(params, fates),
        "notifications/message" => rewrite::<LogNote>(params, fates),
        "notifications/progress" => rewrite::<ProgressNote>(params, fates),
        _ if method.ends_with("/list") => rewrite::<ListParams>(params, fates),
        _ => {}
    }
}

/// Reads whatever the members of an object tell it to be.
fn rewrite_object(value: &Value, fates: &mut Fates) {
    if let (Some(method), Some(params)) = (value["method"].as_str(), value.get("params")) {
        rewrite_params(method, params, fates);
    }
    let has = |member: &str| value.get(member).is_some();
    match () {
        () if has("tools") => rewrite::<ListToolsResult>(value, fates),
        () if has("prompts") => rewrite::<ListPromptsResult>(value, fates),
        () if has("resources") => rewrite::<ListResourcesResult>(value, fates),
        () if has("resourceTemplates") => rewrite::<ListTemplatesResult>(value, fates),
        () if has("roots") => rewrite::<ListRootsResult>(value, fates),
        () if has("contents") => rewrite::<ReadResourceResult>(value, fates),
        () if has("messages") => rewrite::<GetPromptResult>(value, fates),
        () if has("model") => rewrite::<SampleResult>(value, fates),
        () if has("content") || has("structuredContent") => rewrite::<CallToolResult>(value, fates),
        () if has("action") => rewrite::<ElicitResult>(value, fates),
        () if has("completion") => rewrite::<CompleteResult>(value, fates),
        () if has("taskId") => rewrite::<TaskState>(value, fates),
        () if has("supportedVersions") => rewrite::<DiscoverResult>(value, fates),
        () if has("serverInfo") => rewrite::<InitializeResult>(value, fates),
        () if has("inputRequests") => rewrite::<InputRequiredResult>(value, fates),
        () if has("inputSchema") => rewrite::<ListedTool>(value, fates),
        () if has("type") => rewrite::<ContentBlock>(value, fates),
        () => {}
    }
}

/// Messages that are read, at the least; fewer mean that this test does not find them.
const FEWEST: usize = 500;

#[test]
fn every_message_in_the_repository_is_written_as_it_was_read() {
    let mut fates = Fates::new();
    for source in source::read_all(&source::root()).unwrap() {
        let lines: Vec<_> = source.lines.iter().map(|line| line.text.as_str()).collect();
        let text = lines.join("\n");
        for (start, _) in text.match_indices("{\"") {
            let mut values = Deserializer::from_str(&text[start..]).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                rewrite_object(&value, &mut fates);
            }
        }
    }
    let changed: Vec<_> = fates.values().flat_map(|fate| &fate.changed).collect();
    assert!(changed.is_empty(), "{changed:#?}");
    let found: usize = fates.values().map(|fate| fate.read).sum();
    assert!(found >= FEWEST, "{found}");
}
