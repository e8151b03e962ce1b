//! Whatever is read is written again as it was.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::method;

/// Reads JSON as one of the types, and writes it again.
type Rewrite = fn(&Value) -> Option<Value>;

fn rewrite<T: DeserializeOwned + Serialize>(value: &Value) -> Option<Value> {
    let read: T = read(value).ok()?;
    Some(serde_json::to_value(read).expect("it was JSON"))
}

/// An example of every type that a message has, with all that it may have.
fn examples() -> Vec<(Rewrite, Value)> {
    let mut all = list_examples();
    all.extend(call_examples());
    all.extend(question_examples());
    all.extend(task_examples());
    all.extend(note_examples());
    all
}

fn icon() -> Value {
    json!({"src": "https://a.test/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"})
}

fn annotations() -> Value {
    json!({"audience": ["user", "assistant", "robot"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"})
}

fn content() -> Value {
    let (meta, annotations) = (json!({"a/b": 1}), annotations());
    let resource = json!({"uri": "a:b", "mimeType": "text/plain", "text": "t", "_meta": meta});
    let blob = json!({"uri": "a:c", "mimeType": "image/png", "blob": "AA==", "_meta": meta});
    json!([
        {"type": "text", "text": "words", "annotations": annotations, "_meta": meta},
        {"type": "image", "data": "AA==", "mimeType": "image/png", "annotations": annotations},
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav", "_meta": meta},
        {"type": "resource_link", "uri": "a:b", "name": "n", "title": "N", "description": "d",
         "mimeType": "text/plain", "size": 3, "icons": [icon()], "annotations": annotations},
        {"type": "resource", "resource": resource, "annotations": annotations, "_meta": meta},
        {"type": "resource", "resource": blob},
        {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}, "_meta": meta},
        {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "2"}],
         "structuredContent": null, "isError": false, "_meta": meta},
        {"type": "hologram", "depth": [1, 2]},
    ])
}

fn tool() -> Value {
    json!({
        "name": "add", "title": "Add", "description": "Adds", "icons": [icon()],
        "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "outputSchema": {"type": "object"},
        "annotations": {"title": "A", "readOnlyHint": true, "destructiveHint": false,
                        "idempotentHint": true, "openWorldHint": false},
        "execution": {"taskSupport": "optional"},
        "_meta": {"a/b": {}},
    })
}

fn page(member: &str, item: &Value) -> Value {
    json!({member: [item], "nextCursor": "", "ttlMs": 5, "cacheScope": "public", "resultType": "complete"})
}

fn list_examples() -> Vec<(Rewrite, Value)> {
    let argument = json!({"name": "a", "title": "A", "description": "d", "required": true});
    let prompt = json!({"name": "p", "title": "P", "description": "d", "arguments": [argument],
                        "icons": [icon()], "_meta": {}});
    let resource = json!({"uri": "a:b", "name": "n", "title": "N", "description": "d", "size": 1,
                          "mimeType": "text/plain", "icons": [], "annotations": annotations()});
    let template = json!({"uriTemplate": "a:{b}", "name": "n", "title": "N", "description": "d",
                          "mimeType": "text/plain", "annotations": annotations()});
    let messages: Vec<_> = content()
        .as_array()
        .expect("blocks")
        .iter()
        .map(|block| json!({"role": "user", "content": block}))
        .collect();
    let contents =
        json!([{"uri": "a:b", "text": "t"}, {"uri": "a:c", "blob": "AA=="}, {"uri": "?"}]);
    vec![
        (rewrite::<ListParams>, json!({"cursor": "c", "_meta": {"progressToken": 1}})),
        (rewrite::<ListToolsResult>, page("tools", &tool())),
        (rewrite::<ListPromptsResult>, page("prompts", &prompt)),
        (rewrite::<ListResourcesResult>, page("resources", &resource)),
        (rewrite::<ListTemplatesResult>, page("resourceTemplates", &template)),
        (
            rewrite::<ListRootsResult>,
            json!({"roots": [{"uri": "file:///a", "name": "a", "_meta": {}}]}),
        ),
        (rewrite::<GetPromptParams>, json!({"name": "p", "arguments": {"a": "b"}})),
        (rewrite::<GetPromptResult>, json!({"description": "d", "messages": messages})),
        (rewrite::<ReadResourceParams>, json!({"uri": "a:b", "requestState": "s"})),
        (
            rewrite::<ReadResourceResult>,
            json!({"contents": contents, "ttlMs": -1, "cacheScope": "odd"}),
        ),
        (
            rewrite::<CompleteParams>,
            json!({"ref": {"type": "ref/prompt", "name": "p", "title": "P"},
                   "argument": {"name": "a", "value": "b"}, "context": {"arguments": {"x": "y"}}}),
        ),
        (
            rewrite::<CompleteParams>,
            json!({"ref": {"type": "ref/resource", "uri": "a:{b}"}, "argument": {"name": "b", "value": ""}}),
        ),
        (
            rewrite::<CompleteResult>,
            json!({"completion": {"values": ["a"], "total": 2, "hasMore": true}}),
        ),
    ]
}

fn call_examples() -> Vec<(Rewrite, Value)> {
    let client = json!({"name": "c", "version": "1", "title": "C", "description": "d",
                        "icons": [icon()], "websiteUrl": "https://a.test"});
    let abilities = json!({
        "roots": {"listChanged": true}, "sampling": {"context": {}, "tools": {}},
        "elicitation": {"form": {}, "url": {}}, "extensions": {"a/b": {}}, "experimental": {"x": 1},
        "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}}},
    });
    let offers = json!({
        "tools": {"listChanged": true}, "prompts": {}, "logging": {}, "completions": {},
        "resources": {"subscribe": true, "listChanged": false}, "extensions": {"a/b": {}},
    });
    vec![
        (
            rewrite::<InitializeParams>,
            json!({"protocolVersion": "v", "capabilities": abilities, "clientInfo": client}),
        ),
        (
            rewrite::<InitializeResult>,
            json!({"protocolVersion": "v", "capabilities": offers, "serverInfo": client, "instructions": "i"}),
        ),
        (
            rewrite::<DiscoverResult>,
            json!({"supportedVersions": ["v"], "capabilities": offers, "instructions": "i",
                   "ttlMs": 0, "cacheScope": "private", "_meta": {"s": client}}),
        ),
        (
            rewrite::<CallToolParams>,
            json!({"name": "t", "arguments": {"a": 1}, "task": {"ttl": 5}, "requestState": "s",
                   "inputResponses": {"k": {"action": "accept"}}, "_meta": {"progressToken": "x"}}),
        ),
        (
            rewrite::<CallToolResult>,
            json!({"content": content(), "structuredContent": {"a": 1}, "isError": true, "_meta": {}}),
        ),
        (rewrite::<CallToolResult>, json!({"content": [], "structuredContent": null})),
        (
            rewrite::<InputRequiredResult>,
            json!({"resultType": "input_required", "requestState": "s", "inputRequests": {
                "k": {"method": "roots/list"}, "l": {"method": "sampling/createMessage", "params": {}}}}),
        ),
    ]
}

fn question_examples() -> Vec<(Rewrite, Value)> {
    let preferences = json!({"hints": [{"name": "m"}], "costPriority": 1, "speedPriority": 0.0,
                             "intelligencePriority": 0.25});
    let titled = json!([{"const": "a", "title": "A"}]);
    let fields = json!({
        "name": {"type": "string", "title": "N", "description": "d", "minLength": 1, "maxLength": 9,
                 "format": "email", "default": "x"},
        "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["A"], "default": "a"},
        "one": {"type": "string", "oneOf": titled},
        "age": {"type": "integer", "minimum": 0, "maximum": 150.5, "default": 1},
        "size": {"type": "number", "title": "S"},
        "sure": {"type": "boolean", "description": "d", "default": true},
        "some": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1, "default": ["a"]},
        "more": {"type": "array", "items": {"anyOf": titled}, "maxItems": 2},
        "odd": {"type": "object", "properties": {}},
    });
    let form =
        json!({"$schema": "s", "type": "object", "properties": fields, "required": ["name"]});
    vec![
        (
            rewrite::<SampleParams>,
            json!({
                "messages": [{"role": "user", "content": {"type": "text", "text": "a"}, "_meta": {}},
                             {"role": "assistant", "content": content()}],
                "maxTokens": 100, "modelPreferences": preferences, "systemPrompt": "s",
                "includeContext": "thisServer", "temperature": 0.7, "stopSequences": ["x"],
                "metadata": {"a": [1]}, "tools": [tool()], "toolChoice": {"mode": "auto"}, "task": {},
            }),
        ),
        (
            rewrite::<SampleResult>,
            json!({"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "m", "stopReason": "endTurn"}),
        ),
        (
            rewrite::<SampleResult>,
            json!({"role": "assistant", "content": content(), "model": "m", "stopReason": "bored"}),
        ),
        (
            rewrite::<ElicitParams>,
            json!({"mode": "form", "message": "m", "requestedSchema": form, "task": {"ttl": 1}}),
        ),
        (
            rewrite::<ElicitParams>,
            json!({"mode": "url", "message": "m", "url": "https://a.test", "elicitationId": "e"}),
        ),
        (rewrite::<ElicitParams>, json!({"mode": "dance", "message": "m"})),
        (
            rewrite::<ElicitResult>,
            json!({"action": "accept", "content": {"a": "b", "c": 1, "d": true, "e": ["f"]}}),
        ),
        (rewrite::<ElicitResult>, json!({"action": "shrug", "_meta": {"a/b": 1}})),
    ]
}

fn task_examples() -> Vec<(Rewrite, Value)> {
    let old = json!({"taskId": "t", "status": "working", "statusMessage": "m", "createdAt": "c",
                     "lastUpdatedAt": "u", "ttl": null, "pollInterval": 5});
    let new = json!({"taskId": "t", "status": "input_required", "createdAt": "c", "ttlMs": null,
                     "lastUpdatedAt": "u", "pollIntervalMs": 5, "resultType": "task",
                     "inputRequests": {"k": {"method": "roots/list", "params": {}}}});
    vec![
        (rewrite::<TaskParams>, json!({"taskId": "t", "_meta": {}})),
        (rewrite::<UpdateTaskParams>, json!({"taskId": "t", "inputResponses": {"k": {}}})),
        (rewrite::<TaskState>, old.clone()),
        (rewrite::<TaskState>, new),
        (
            rewrite::<TaskState>,
            json!({"taskId": "t", "status": "failed", "ttlMs": 5, "error": {"code": 1, "message": "m"}}),
        ),
        (
            rewrite::<TaskState>,
            json!({"taskId": "t", "status": "completed", "result": {"content": []}}),
        ),
        (rewrite::<CreateTaskResult>, json!({"task": old, "_meta": {}})),
        (rewrite::<ListTasksResult>, json!({"tasks": [old], "nextCursor": "n"})),
    ]
}

fn note_examples() -> Vec<(Rewrite, Value)> {
    let filter = json!({"toolsListChanged": true, "promptsListChanged": false, "taskIds": ["t"],
                        "resourcesListChanged": true, "resourceSubscriptions": ["a:b"]});
    vec![
        (rewrite::<ListChangedNote>, json!({"_meta": {"s": 1}, "x": 2})),
        (rewrite::<UpdatedNote>, json!({"uri": "a:b", "_meta": {}})),
        (rewrite::<LogNote>, json!({"level": "info", "logger": "l", "data": {"a": 1}})),
        (
            rewrite::<ProgressNote>,
            json!({"progressToken": "t", "progress": 1, "total": 2.0, "message": "m"}),
        ),
        (rewrite::<CancelledNote>, json!({"requestId": 5, "reason": "r"})),
        (rewrite::<ElicitedNote>, json!({"elicitationId": "e"})),
        (rewrite::<ListenParams>, json!({"notifications": filter})),
        (rewrite::<ListenedNote>, json!({"notifications": filter, "_meta": {"s": 1}})),
        (rewrite::<SetLevelParams>, json!({"level": "emergency"})),
    ]
}

#[test]
fn every_type_is_read_and_written_as_it_was() {
    for (rewrite, example) in examples() {
        assert_eq!(rewrite(&example).as_ref(), Some(&example));
    }
}

/// The containers in a value, the outermost first.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let members: Vec<_> = match value {
        Value::Object(members) => members.iter().map(|(name, it)| (name.clone(), it)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(n, it)| (n.to_string(), it)).collect()
        }
        _ => return,
    };
    found.push(at.to_owned());
    for (name, member) in members {
        let name = name.replace('~', "~0").replace('/', "~1");
        places(member, &format!("{at}/{name}"), found);
    }
}

/// Takes something away, adds something, or puts something else in its place.
fn mutate(value: &mut Value, (place, member, change): (usize, usize, u8)) {
    let mut found = Vec::new();
    places(value, "", &mut found);
    let Some(place) = value.pointer_mut(&found[place % found.len()]) else { return };
    let strange = [json!("strange"), json!(7), json!(false), json!([]), json!({"k": "v"})];
    let strange = strange[usize::from(change) % strange.len()].clone();
    match place {
        Value::Object(members) => {
            let name = members.keys().nth(member % (members.len() + 1)).cloned();
            match (name, change % 3) {
                (Some(name), 0) => _ = members.remove(&name),
                (Some(name), 1) => _ = members.insert(name, strange),
                _ => _ = members.insert("x-unknown".to_owned(), strange),
            }
        }
        Value::Array(items) if items.is_empty() || change % 2 == 0 => items.push(strange),
        Value::Array(items) => _ = items.remove(member % items.len()),
        _ => {}
    }
}

proptest! {
    /// Whatever a peer leaves out, adds or makes up.
    #[test]
    fn what_is_read_is_written_as_it_was(
        example in any::<prop::sample::Index>(),
        changes in prop::collection::vec(any::<(usize, usize, u8)>(), 0..6),
    ) {
        let examples = examples();
        let (rewrite, mut value) = examples[example.index(examples.len())].clone();
        for change in changes {
            mutate(&mut value, change);
        }
        if let Some(written) = rewrite(&value) {
            // The one thing that is added: a result without content has none.
            let adds = written.get("content") == Some(&json!([])) && value.get("content").is_none();
            if adds {
                value["content"] = json!([]);
            }
            prop_assert_eq!(written, value);
        }
    }
}

#[test]
fn an_optional_member_that_is_null_counts_as_absent() {
    let tool = json!({"name": "a", "inputSchema": {}, "title": null, "annotations": null});
    let tool: ListedTool = read(&tool).unwrap();
    assert_eq!(tool, ListedTool::new("a", JsonObject::new()));
}

#[test]
fn an_optional_member_that_does_not_fit_is_kept_in_other() {
    let picture = |sizes: &str| json!({"src": "https://a.test/i.png", "sizes": sizes});
    let tools = json!([
        {"name": "a", "inputSchema": {}, "icons": [picture("48x48")], "title": 7},
        {"name": "b", "inputSchema": {}, "icons": [{"no": "picture"}], "annotations": "safe"},
    ]);
    let page = json!({"tools": tools, "nextCursor": 5, "ttlMs": "soon"});
    let list: ListToolsResult = read(&page).unwrap();
    let icon = &list.tools[0].icons.as_ref().unwrap()[0];
    assert_eq!((&icon.sizes, &icon.other["sizes"]), (&None, &json!("48x48")));
    assert_eq!((&list.tools[0].title, &list.tools[0].other["title"]), (&None, &json!(7)));
    assert_eq!((&list.tools[1].icons, list.tools[1].other.len()), (&None, 2));
    assert_eq!((list.next_cursor.as_ref(), list.ttl_ms, list.other.len()), (None, None, 2));
    assert_eq!(json!(list), page);
}

#[test]
fn an_integer_may_be_written_as_a_whole_float() {
    let (tools, cost) = (json!([]), json!(4.0));
    let list: ListToolsResult = read(&json!({"tools": tools, "ttlMs": cost, "x": cost})).unwrap();
    assert_eq!((list.ttl_ms, &list.other["x"]), (Some(4), &cost));
    let sample: SampleParams = read(&json!({"messages": tools, "maxTokens": cost})).unwrap();
    assert_eq!(sample.max_tokens, 4);
    let state: TaskState =
        read(&json!({"taskId": "t", "status": "working", "ttl": cost, "pollInterval": 0.5}))
            .unwrap();
    assert_eq!(state.ttl, Some(TaskLifetime::Millis(4)));
    assert_eq!((state.poll_interval, &state.other["pollInterval"]), (None, &json!(0.5)));
}

#[test]
fn a_new_value_says_what_kind_it_is() {
    let page = json!({"mode": "url", "message": "m", "url": "https://a.test"});
    assert_eq!(json!(ElicitUrl::new("m", "https://a.test")), page);
    let kind = json!({"resultType": "input_required"});
    assert_eq!(json!(InputRequiredResult::new()), kind);
    assert_eq!(InputRequiredResult::default(), InputRequiredResult::new());
}

#[test]
fn a_choice_has_its_options_in_every_form() {
    let option = |value: &str, title: &str| FormOption::new(value, title);
    for (field, expected) in [
        (json!({"type": "string"}), vec![]),
        (json!({"type": "string", "enum": ["a", "b"]}), vec![option("a", "a"), option("b", "b")]),
        (
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A"]}),
            vec![option("a", "A"), option("b", "b")],
        ),
        (
            json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}),
            vec![option("a", "A")],
        ),
        (json!({"type": "array", "items": {"enum": ["a"]}}), vec![option("a", "a")]),
        (
            json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
            vec![option("a", "A")],
        ),
    ] {
        let field: FormField = read(&field).unwrap();
        assert_eq!(field.options(), expected);
    }
}

#[test]
fn a_block_that_lacks_what_its_kind_has_is_kept() {
    let block = json!({"type": "text", "txet": "words"});
    assert_eq!(read::<ContentBlock>(&block).unwrap(), ContentBlock::Other(block));
}

#[test]
fn an_error_says_what_was_there_and_why_it_does_not_fit() {
    let unfit = read::<Vec<ListedTool>>(&json!([{"name": "a"}])).unwrap_err();
    assert_eq!(unfit.found, r#"[{"name":"a"}]"#);
    assert_eq!(unfit.source().unwrap().to_string(), "missing field `inputSchema`");
    let long = read::<ListedTool>(&json!({ "name": "é".repeat(500) })).unwrap_err();
    assert!(long.found.ends_with("...") && long.found.len() <= SHOWN + 3, "{long}");
}

#[test]
fn structured_content_comes_from_where_it_is() {
    let structured =
        |result: Value| read::<CallToolResult>(&result).unwrap().structured::<Vec<u8>>();
    let text = |text: &str| json!({"type": "text", "text": text});
    let both = json!({"content": [text("[9]")], "structuredContent": [1]});
    assert_eq!(structured(both), Ok(vec![1]));
    assert_eq!(structured(json!({"content": [text("[2]")]})), Ok(vec![2]));
    let words = structured(json!({"content": [text("two")]})).unwrap_err().to_string();
    assert_eq!(words, r#""two" is no Vec<u8>"#);
    let two = structured(json!({"content": [text("[1]"), text("[2]")]})).unwrap_err();
    let why = "there is neither structured content nor a single block of text";
    assert_eq!(two.source().unwrap().to_string(), why);
}

#[test]
fn the_mode_of_a_question_says_what_it_is() {
    let schema = json!({"type": "object", "properties": {}});
    let both = |mode: Value| json!({"mode": mode, "message": "m", "requestedSchema": schema, "url": "https://a.test"});
    let read = |params: &Value| read::<ElicitParams>(params);
    assert!(matches!(read(&both(json!("url"))), Ok(ElicitParams::Url(_))));
    for form in [json!("form"), Value::Null] {
        assert!(matches!(read(&both(form)), Ok(ElicitParams::Form(_))));
    }
    for unknown in [json!("dance"), json!(5)] {
        assert!(matches!(read(&both(unknown)), Ok(ElicitParams::Other(_))));
    }
    let page = json!({"message": "m", "url": "https://a.test"});
    assert!(read(&page).is_err(), "a question without a mode is a form");
}

#[test]
fn a_member_is_written_once() {
    let tool = json!({"name": "a", "inputSchema": {}, "title": 7, "x": 1});
    let mut tool: ListedTool = read(&tool).unwrap();
    tool.other.insert("name".to_owned(), json!("b"));
    let text = serde_json::to_string(&tool.title("A")).unwrap();
    assert_eq!(text, r#"{"name":"a","inputSchema":{},"title":"A","x":1}"#);

    let block = json!({"type": "text", "text": "t"});
    let alone: TextContent = read(&block).unwrap();
    assert_eq!(json!(alone), block);
    let text = serde_json::to_string(&ContentBlock::Text(alone)).unwrap();
    assert_eq!(text, r#"{"type":"text","text":"t"}"#);

    let field = json!({"type": "string", "title": "T"});
    let field = FormField::String(read(&field).unwrap());
    let text = serde_json::to_string(&field).unwrap();
    assert_eq!(text, r#"{"type":"string","title":"T"}"#);

    let other = json!({"type": "x", "name": "y", "title": "P"}).as_object().unwrap().clone();
    let prompt = CompletionReference::Prompt { name: "p".to_owned(), other };
    let text = serde_json::to_string(&prompt).unwrap();
    assert_eq!(text, r#"{"type":"ref/prompt","name":"p","title":"P"}"#);
}

#[test]
fn an_item_that_does_not_fit_hides_no_other() {
    let good = |name: &str| json!({"name": name, "inputSchema": {}});
    let page = json!({"tools": [5, good("a"), {"name": "bad"}, null, good("b"), []]});
    let list: ListToolsResult = read(&page).unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(list.tools.unfit().count(), 4);
    assert_eq!(json!(list), page);
    let one = ListToolsResult::new(list.tools.into_iter().take(1).collect::<Items<_>>());
    assert_eq!(json!(one), json!({"tools": [good("a")]}));
    assert!(read::<ListToolsResult>(&json!({"tools": {}})).is_err());
}

#[test]
fn what_is_said_about_a_changed_list_is_kept() {
    let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 7}});
    let name = method::list_changed("tools").unwrap();
    let ServerNotification::ToolsChanged(note) = ServerNotification::read(name, &params) else {
        panic!("another notification");
    };
    assert_eq!(json!(note), params);
    for list in ["tools", "prompts", "resources"] {
        let name = method::list_changed(list).unwrap();
        let read = |params: Value| ServerNotification::read(name, &params);
        assert!(!matches!(read(Value::Null), ServerNotification::Other { .. }));
        assert!(matches!(read(json!(5)), ServerNotification::Other { .. }));
    }
}

#[test]
fn what_is_no_object_is_no_answer_to_a_form() {
    let answer = ElicitResult::accept(json!({"a": 1})).unwrap();
    assert_eq!(json!(answer), json!({"action": "accept", "content": {"a": 1}}));
    assert_eq!(json!(ElicitResult::accept_page()), json!({"action": "accept"}));
    for content in [json!(5), json!(null), json!([1])] {
        assert!(ElicitResult::accept(content).is_err());
    }
}
