//! Every message that stands anywhere in the repository survives being read as a type.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Value};
use switchboard_proto::types::{
    CallToolParams, CallToolResult, ClientCapabilities, CompleteParams, CompleteResult,
    ContentBlock, DiscoverResult, ElicitParams, ElicitResult, GetPromptParams, GetPromptResult,
    InitializeParams, InitializeResult, InputRequiredResult, ListParams, ListPromptsResult,
    ListResourcesResult, ListRootsResult, ListTemplatesResult, ListToolsResult, ListedTool,
    ListenParams, LogNote, ProgressNote, ReadResourceParams, ReadResourceResult, SampleParams,
    SampleResult, SamplingMessage, ServerCapabilities, SetLevelParams, TaskParams, TaskState,
    UpdateTaskParams, read,
};
use switchboard_testkit::source;

/// What became of all values of one type.
#[derive(Default)]
struct Fate {
    read: usize,
    changed: Vec<String>,
    unfit: Vec<String>,
}

/// Values that tests get wrong on purpose.
const WRONG: &[(&str, &str)] = &[
    ("CallToolParams", "[1,2]"),
    ("CallToolParams", "{}"),
    ("ElicitParams", r#"{"message":"m","requestedSchema":{}}"#),
    ("ElicitParams", r#"{"message":"m"}"#),
    ("InitializeParams", r#"{"capabilities":{"sampling":{}},"protocolVersion":"2025-11-25"}"#),
    ("InitializeParams", "{}"),
    ("InitializeResult", A_SERVER_WITHOUT_A_VERSION),
    ("LogNote", r#"{"data":1}"#),
    ("SampleParams", r#"{"_meta":{"progressToken":1},"of":"%s"}"#),
    ("SampleParams", "{}"),
    ("SampleResult", r#"{"content":{"text":"x","type":"text"},"model":"m"}"#),
    ("SampleResult", r#"{"model":"m"}"#),
    ("TaskParams", r#"{"taskId":1}"#),
    ("TaskParams", r#"{"taskId":2}"#),
    ("TaskParams", r#"{"taskId":8}"#),
];

const A_SERVER_WITHOUT_A_VERSION: &str = r#"{"capabilities":{"logging":{},"resources":{"subscribe":true},"tasks":{"requests":{"tools":{"call":{}}}},"tools":{"listChanged":true}},"protocolVersion":"2025-11-25","serverInfo":{"name":"s"}}"#;

/// How many values of each type are read, at the least; fewer mean that this test does not find
/// them. Those that are in no text of the repository are tested beside their types.
const LEAST: &[(&str, usize)] = &[
    ("CallToolParams", 15),
    ("CallToolResult", 60),
    ("ClientCapabilities", 60),
    ("CompleteResult", 1),
    ("ContentBlock", 250),
    ("DiscoverResult", 3),
    ("ElicitParams", 1),
    ("ElicitResult", 65),
    ("GetPromptResult", 5),
    ("InitializeParams", 5),
    ("InitializeResult", 3),
    ("InputRequiredResult", 10),
    ("ListParams", 4),
    ("ListPromptsResult", 5),
    ("ListResourcesResult", 5),
    ("ListRootsResult", 60),
    ("ListTemplatesResult", 3),
    ("ListToolsResult", 65),
    ("ListedTool", 25),
    ("ListenParams", 3),
    ("ReadResourceParams", 3),
    ("ReadResourceResult", 4),
    ("SampleResult", 4),
    ("SamplingMessage", 2),
    ("ServerCapabilities", 45),
    ("SetLevelParams", 1),
    ("TaskParams", 70),
    ("TaskState", 30),
    ("UpdateTaskParams", 1),
];

type Fates = BTreeMap<&'static str, Fate>;

fn rewrite<T: DeserializeOwned + Serialize>(value: &Value, fates: &mut Fates) {
    let name = std::any::type_name::<T>().rsplit("::").next().expect("a type has a name");
    let fate = fates.entry(name).or_default();
    let Ok(typed) = read::<T>(value) else {
        fate.unfit.push(value.to_string());
        return;
    };
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
    let lists = |member: &str| value[member].is_array();
    let can = |member: &&str| value[member].is_object();
    match () {
        () if lists("tools") => rewrite::<ListToolsResult>(value, fates),
        () if lists("prompts") => rewrite::<ListPromptsResult>(value, fates),
        () if lists("resources") => rewrite::<ListResourcesResult>(value, fates),
        () if lists("resourceTemplates") => rewrite::<ListTemplatesResult>(value, fates),
        () if lists("roots") => rewrite::<ListRootsResult>(value, fates),
        () if ["roots", "sampling", "elicitation"].iter().any(can) => {
            rewrite::<ClientCapabilities>(value, fates);
        }
        () if ["tools", "prompts", "resources"].iter().any(can) => {
            rewrite::<ServerCapabilities>(value, fates);
        }
        () if has("contents") => rewrite::<ReadResourceResult>(value, fates),
        () if has("messages") => rewrite::<GetPromptResult>(value, fates),
        () if has("model") => rewrite::<SampleResult>(value, fates),
        () if has("action") => rewrite::<ElicitResult>(value, fates),
        () if has("role") && has("content") => rewrite::<SamplingMessage>(value, fates),
        () if has("content") || has("structuredContent") => rewrite::<CallToolResult>(value, fates),
        () if has("completion") => rewrite::<CompleteResult>(value, fates),
        () if has("taskId") && has("status") => rewrite::<TaskState>(value, fates),
        () if has("taskId") && has("inputResponses") => rewrite::<UpdateTaskParams>(value, fates),
        () if has("taskId") => rewrite::<TaskParams>(value, fates),
        () if has("supportedVersions") => rewrite::<DiscoverResult>(value, fates),
        () if has("serverInfo") => rewrite::<InitializeResult>(value, fates),
        () if has("inputRequests") => rewrite::<InputRequiredResult>(value, fates),
        () if has("inputSchema") => rewrite::<ListedTool>(value, fates),
        () if has("type") => rewrite::<ContentBlock>(value, fates),
        () => {}
    }
}

/// Where this is.
const OWN_PATH: &str = "crates/testkit/tests/it/types.rs";

#[test]
fn every_message_in_the_repository_is_written_as_it_was_read() {
    let mut fates = Fates::new();
    let sources = source::read_all(&source::root()).unwrap();
    // What is wrong on purpose is listed here.
    for source in sources.iter().filter(|source| source.path != OWN_PATH) {
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
    let unfit = |(name, fate): (&&'static str, &Fate)| {
        let name = *name;
        fate.unfit.iter().map(move |text| (name, text.clone())).collect::<Vec<_>>()
    };
    let unfit: BTreeSet<_> = fates.iter().flat_map(unfit).collect();
    let wrong: BTreeSet<_> = WRONG.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    let by_mistake: Vec<_> = unfit.difference(&wrong).collect();
    assert!(by_mistake.is_empty(), "these do not fit their type: {by_mistake:#?}");
    let mended: Vec<_> = wrong.difference(&unfit).collect();
    assert!(mended.is_empty(), "nothing of this is wrong any more: {mended:#?}");
    let least: BTreeMap<_, _> = LEAST.iter().copied().collect();
    let found: BTreeMap<_, _> = fates.iter().map(|(name, fate)| (*name, fate.read)).collect();
    let is_lost = |(name, least): (&&str, &usize)| found.get(*name).is_none_or(|it| it < least);
    assert!(!least.iter().any(is_lost), "too few of a type: {found:#?}");
    let is_new = |(name, read): (&&str, &usize)| *read > 0 && !least.contains_key(*name);
    assert!(!found.iter().any(is_new), "a type without a least number: {found:#?}");
}
