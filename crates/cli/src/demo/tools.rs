//! The tools: everyday ones, each kind of content, schemas, questions to the client, tasks,
//! and one for each rule of the protocol.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use switchboard_net::server::{
    Content, Contents, Context, Elicited, Error, Level, Nature, Server, TaskSupport, Tool,
    ToolDraft, ToolResult, VisitPage,
};
use switchboard_proto::moment;

use super::{PNG, Touched, WATCHED, WAV};

/// All of them, in the order of their list.
pub(super) fn tools(touched: &Touched) -> impl Iterator<Item = Tool> {
    everyday_tools(touched)
        .into_iter()
        .chain(content_tools())
        .chain(schema_tools())
        .chain(question_tools())
        .chain(input_round_tools())
        .chain(task_tools())
        .chain(protocol_tools())
}

/// What most tools are: they look and tell.
const NATURE: Nature = Nature {
    layer: "demo",
    category: "everyday",
    safety: "read",
    idempotent: true,
    supports_dry_run: false,
};

fn tool(category: &'static str, name: &str, description: &str) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category, ..NATURE }).description(description)
}

/// An argument that the schema says is a string.
fn text(arguments: &Value, name: &str) -> String {
    arguments[name].as_str().unwrap_or_default().to_owned()
}

/// The schema of an object that has all of these members, by name and type.
fn object(members: &[(&str, &str)]) -> Value {
    let properties: Map<_, _> =
        members.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    let required: Vec<_> = members.iter().map(|(name, _)| name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// Takes a moment, so that one can watch.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn everyday_tools(touched: &Touched) -> Vec<Tool> {
    let touched = Arc::clone(touched);
    let everyday = |name, description| tool("everyday", name, description);
    vec![
        everyday("echo", "Says what you say")
            .annotations(json!({"readOnlyHint": true}))
            .input_schema(&json!({
                "type": "object",
                "properties": {"message": {"type": "string", "description": "What to say"}},
                "required": ["message"],
            }))
            .run(async |args, _| text(&args, "message")),
        everyday("add", "Adds two numbers")
            .annotations(json!({"readOnlyHint": true}))
            .input_schema(&object(&[("a", "number"), ("b", "number")]))
            .output_schema(&object(&[("sum", "number")]))
            .run(async |args, _| {
                let (a, b) = (&args["a"], &args["b"]);
                let whole = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
                let sum = match whole {
                    Some(sum) => json!(sum),
                    None => json!(a.as_f64().unwrap_or(0.0) + b.as_f64().unwrap_or(0.0)),
                };
                ToolResult::text(sum.to_string()).with_structured(json!({"sum": sum}))
            }),
        everyday("time", "Tells the time here, in UTC")
            .run(async |_, _| moment::text(SystemTime::now())),
        everyday("touch", "Changes the resource test://watched-resource; who watches it is told")
            .nature(Nature { safety: "write", idempotent: false, ..NATURE })
            .run(move |_, cx| {
                let times = touched.fetch_add(1, Ordering::Relaxed) + 1;
                cx.server().resource_updated(WATCHED);
                ready(format!("Touched {times} times"))
            }),
    ]
}

fn content_tools() -> Vec<Tool> {
    let content = |name, description| tool("content", name, description);
    vec![
        content("test_simple_text", "Returns a text")
            .run(async |_, _| "This is a simple text response for testing."),
        content("test_image_content", "Returns a picture")
            .run(async |_, _| Content::image(PNG, "image/png")),
        content("test_audio_content", "Returns a sound")
            .run(async |_, _| Content::audio(WAV, "audio/wav")),
        content("test_embedded_resource", "Returns a resource in place").run(async |_, _| {
            let text = "This is an embedded resource content.";
            Content::resource(&Contents::text("test://embedded-resource", "text/plain", text))
        }),
        content("test_resource_link", "Returns a link to a resource").run(async |_, _| {
            Content::link("test://static-text", "static-text").with("mimeType", "text/plain")
        }),
        content("test_multiple_content_types", "Returns a text, a picture and a resource").run(
            async |_, _| {
                let data = json!({"test": "data", "value": 123}).to_string();
                let uri = "test://mixed-content-resource";
                vec![
                    Content::text("Multiple content types test:"),
                    Content::image(PNG, "image/png"),
                    Content::resource(&Contents::text(uri, "application/json", data)),
                ]
            },
        ),
        content("test_error_handling", "Fails, always").run(async |_, _| {
            ToolResult::error("This tool intentionally returns an error for testing")
        }),
        content("test_tool_with_progress", "Reports its progress").run(async |_, cx| {
            for (done, words) in [(0.0, "Begun"), (50.0, "Half way"), (100.0, "Done")] {
                cx.progress(done, Some(100.0), Some(words));
                pause().await;
            }
            "Reported its progress"
        }),
        content("test_tool_with_logging", "Sends log records").run(async |_, cx| {
            for doing in ["execution started", "processing data", "execution completed"] {
                cx.log(Level::Info, Some("demo"), format!("Tool {doing}"));
                pause().await;
            }
            "Sent three log records"
        }),
    ]
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

fn schema_tools() -> Vec<Tool> {
    let keywords = "Takes arguments with keywords of JSON Schema 2020-12";
    vec![
        tool("schemas", "json_schema_2020_12_tool", keywords)
            .input_schema_text(KEYWORDS)
            .run(async |args, _| format!("These arguments fit: {args}")),
        tool("schemas", "test_custom_header", "Takes an argument that a header repeats")
            .input_schema(&json!({
                "type": "object",
                "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
                "required": ["value"],
            }))
            .run(async |args, _| format!("The value is {}", args["value"])),
    ]
}

/// What `sampling/createMessage` takes, for one question.
fn question(prompt: &str) -> Value {
    json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": 100,
    })
}

/// Puts a form to the person, and says what came of it.
async fn ask_form(cx: Context, message: &str, form: Value) -> Result<String, Error> {
    Ok(match cx.elicit(message, form).await? {
        Elicited::Accept(content) => format!("User response: action=accept, content={content}"),
        Elicited::Decline => "User response: action=decline, content={}".to_owned(),
        Elicited::Cancel => "User response: action=cancel, content={}".to_owned(),
    })
}

fn question_tools() -> Vec<Tool> {
    let asking = |name, description| tool("questions", name, description);
    let prompt = object(&[("prompt", "string")]);
    let page = "Asks the person at the client to visit a page";
    let with_tools = "Asks the client's model, and gives it a tool to use";
    vec![
        asking("test_sampling", "Asks the client's model").input_schema(&prompt).run(
            async |args, cx| {
                let answer = cx.sample(question(&text(&args, "prompt"))).await?;
                let said = answer["content"]["text"].as_str().unwrap_or("nothing that is a text");
                Ok::<_, Error>(format!("LLM response: {said}"))
            },
        ),
        asking("test_sampling_with_tools", with_tools).input_schema(&prompt).run(
            async |args, cx| {
                let mut params = question(&text(&args, "prompt"));
                let (about, schema) = ("Tells the weather", object(&[("city", "string")]));
                let tool = json!({"name": "weather", "description": about, "inputSchema": schema});
                params["tools"] = json!([tool]);
                let answer = cx.sample(params).await?;
                Ok::<_, Error>(format!("LLM response: {}", answer["content"]))
            },
        ),
        asking("test_elicitation", "Asks the person at the client")
            .input_schema(&object(&[("message", "string")]))
            .run(async |args, cx| {
                // Not required: the suites answer with members of their own.
                let form =
                    json!({"type": "object", "properties": {"response": {"type": "string"}}});
                ask_form(cx, &text(&args, "message"), form).await
            }),
        asking("test_url_elicitation", page).run(async |_, cx| {
            let page = VisitPage::new("Please read this page", "https://modelcontextprotocol.io/")?;
            Ok::<_, Error>(match cx.visit(&page).await? {
                Elicited::Accept(_) => {
                    // There is nothing to do there, so they are done at once.
                    cx.visited(&page);
                    "You went there"
                }
                Elicited::Decline => "You do not want to go there",
                Elicited::Cancel => "You did not answer",
            })
        }),
        filled_form(),
        form_of_choices(),
    ]
}

fn filled_form() -> Tool {
    let form = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Your name", "default": "John Doe"},
            "age": {"type": "integer", "description": "Your age", "default": 30},
            "score": {"type": "number", "description": "Your score", "default": 95.5},
            "status": {"type": "string", "description": "How you are", "default": "active",
                "enum": ["active", "inactive", "pending"]},
            "verified": {"type": "boolean", "description": "Is it so?", "default": true},
        },
        "required": [],
    });
    let about = "Asks with a form that is filled in already";
    let message = "Please look through what is filled in";
    form_tool("test_elicitation_sep1034_defaults", about, message, form)
}

fn form_of_choices() -> Tool {
    let choices = ["option1", "option2", "option3"];
    let titled = json!([
        {"const": "value1", "title": "First"},
        {"const": "value2", "title": "Second"},
        {"const": "value3", "title": "Third"},
    ]);
    let form = json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": choices},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": choices}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
        "required": [],
    });
    let about = "Asks with every form of choice";
    form_tool("test_elicitation_sep1330_enums", about, "Please choose", form)
}

fn form_tool(name: &str, about: &str, message: &'static str, form: Value) -> Tool {
    tool("questions", name, about).run(move |_, cx| {
        let form = form.clone();
        async move { ask_form(cx, message, form).await }
    })
}

fn input_round_tools() -> Vec<Tool> {
    let named = |name, description| {
        tool("questions", &format!("test_input_required_result_{name}"), description)
    };
    let tampered = "Asks, and notices if its state was changed on the way";
    vec![
        named("elicitation", "Asks for your name").run(async |_, cx| {
            let answer = ask_name(&cx, "user_name").await?;
            let name = answer["content"]["name"].as_str().unwrap_or("you").to_owned();
            Ok::<_, Error>(format!("Hello, {name}!"))
        }),
        named("sampling", "Asks your model").run(async |_, cx| {
            sample(&cx, "capital").await.map(|answer| format!("It said {}", answer["content"]))
        }),
        named("list_roots", "Asks where you work").run(async |_, cx| {
            roots(&cx).await.map(|answer| format!("You work at {}", answer["roots"]))
        }),
        named("request_state", "Asks, and has you carry its state")
            .run(async |_, cx| carry_state(cx).await),
        named("multiple_inputs", "Asks three things at once").run(async |_, cx| {
            let name = ask_name(&cx, "user_name");
            let (name, greeting, roots) = tokio::join!(name, sample(&cx, "greeting"), roots(&cx));
            let (name, greeting, roots) = (name?, greeting?, roots?);
            let said = format!("{} {} {}", name["content"], greeting["content"], roots["roots"]);
            Ok::<_, Error>(said)
        }),
        named("multi_round", "Asks twice").run(async |_, cx| {
            let name = ask_name(&cx, "step1").await?;
            let color = ask_color(&cx, "step2").await?;
            Ok::<_, Error>(format!("{} likes {}", name["content"], color["content"]))
        }),
        named("tampered_state", tampered).run(async |_, cx| carry_state(cx).await),
        named("capabilities", "Asks only what you can answer").run(async |_, cx| {
            let can = cx.client_capabilities();
            let mut said = Vec::new();
            if can["sampling"].is_object() {
                said.push(sample(&cx, "capital").await?["content"].to_string());
            }
            if can["elicitation"].is_object() {
                said.push(ask_name(&cx, "user_name").await?["content"].to_string());
            }
            let nothing = "You cannot be asked".to_owned();
            Ok::<_, Error>(if said.is_empty() { nothing } else { said.join(" ") })
        }),
    ]
}

/// Asks for one thing, by name and type.
pub(super) async fn elicit(
    cx: &Context,
    key: &str,
    message: &str,
    wanted: (&str, &str),
) -> Result<Value, Error> {
    let params = json!({"message": message, "requestedSchema": object(&[wanted])});
    cx.ask_as(key, "elicitation/create", params).await
}

async fn ask_name(cx: &Context, key: &str) -> Result<Value, Error> {
    elicit(cx, key, "What is your name?", ("name", "string")).await
}

async fn ask_color(cx: &Context, key: &str) -> Result<Value, Error> {
    elicit(cx, key, "What is your favourite colour?", ("color", "string")).await
}

async fn carry_state(cx: Context) -> Result<&'static str, Error> {
    elicit(&cx, "confirm", "Is that all right?", ("ok", "boolean")).await.map(|_| "state-ok")
}

async fn sample(cx: &Context, key: &str) -> Result<Value, Error> {
    cx.ask_as(key, "sampling/createMessage", question("What is the capital of France?")).await
}

async fn roots(cx: &Context) -> Result<Value, Error> {
    cx.ask_as("client_roots", "roots/list", json!({})).await
}

/// The longest that `slow_compute` computes.
const LONGEST: f64 = 600.0;

fn task_tools() -> Vec<Tool> {
    let task = |name, description| tool("tasks", name, description).tasks(TaskSupport::Optional);
    let protocol_error = "Ends with an error of the protocol; as a task if you can handle that";
    vec![
        tool("tasks", "greet", "Greets you; never as a task")
            .input_schema(&object(&[("name", "string")]))
            .run(async |args, _| format!("Hello, {}!", text(&args, "name"))),
        task("slow_compute", "Computes for some seconds, as a task if you can handle that")
            .input_schema(&json!({
                "type": "object",
                "properties": {
                    "seconds": {"type": "number", "minimum": 0, "maximum": LONGEST},
                    "label": {"type": "string"},
                },
            }))
            .run(async |args, cx| {
                let seconds = args["seconds"].as_f64().unwrap_or(1.0).clamp(0.0, LONGEST);
                cx.progress(0.0, Some(seconds), Some("computing"));
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                cx.progress(seconds, Some(seconds), None);
                let label = args["label"].as_str().unwrap_or("something");
                format!("Computed {label} for {seconds} seconds")
            }),
        tool("tasks", "failing_job", "Fails after a second; only as a task")
            .tasks(TaskSupport::Required)
            .run(async |_, _| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                ToolResult::error("The job failed, as it always does")
            }),
        task("protocol_error_job", protocol_error).run(async |_, _| {
            Err::<ToolResult, _>(Error::internal("The job broke, as it always does"))
        }),
        task("confirm_delete", "Asks before it deletes (nothing is deleted)")
            .input_schema(&object(&[("filename", "string")]))
            .run(async |args, cx| {
                let file = text(&args, "filename");
                let question = format!("Delete {file}?");
                let answer = elicit(&cx, "confirm", &question, ("confirm", "boolean")).await?;
                let sure = answer["action"] == "accept" && answer["content"]["confirm"] != false;
                let done = if sure { "Deleted" } else { "Kept" };
                Ok::<_, Error>(format!("{done} {file}"))
            }),
        task("multi_input", "Asks two things at once").run(async |_, cx| {
            let (name, color) = tokio::join!(ask_name(&cx, "name"), ask_color(&cx, "color"));
            Ok::<_, Error>(format!("{} likes {}", name?["content"], color?["content"]))
        }),
        tool("tasks", "test_tool_with_task", "Asks for your name first, and goes on as a task")
            .defers(TaskSupport::Optional)
            .run(async |_, cx| {
                let name = text(&ask_name(&cx, "user_name").await?["content"], "name");
                cx.defer(async move |_| {
                    pause().await;
                    format!("Hello, {name}!")
                })
                .await
            }),
    ]
}

/// Says that the list of things of this kind has changed.
fn changing(kind: &str, change: fn(&Server)) -> Tool {
    let about = format!("Says that the list of {kind}s has changed");
    tool("protocol", &format!("test_trigger_{kind}_change"), &about).run(move |_, cx| {
        change(cx.server());
        ready("Said so")
    })
}

fn protocol_tools() -> Vec<Tool> {
    let protocol = |name, about| tool("protocol", &format!("test_{name}"), about);
    let reconnection = "Hangs up before it answers; the client comes back for the answer";
    vec![
        protocol("missing_capability", "Refuses clients that do not declare sampling").run(
            async |_, cx| {
                if cx.client_capabilities()["sampling"].is_object() {
                    return Ok("You declare sampling");
                }
                Err(Error::missing_capability(&json!({"sampling": {}}), cx.era()))
            },
        ),
        protocol("streaming_elicitation", "Reports its progress, then asks").run(async |_, cx| {
            cx.progress(1.0, Some(2.0), Some("About to ask"));
            let answer = ask_name(&cx, "user_name").await?;
            cx.progress(2.0, Some(2.0), None);
            Ok::<_, Error>(format!("You said {}", answer["content"]))
        }),
        protocol("logging_tool", "Sends log records to clients that want them").run(
            async |_, cx| {
                for level in [Level::Debug, Level::Info, Level::Warning, Level::Error] {
                    cx.log(level, Some("demo"), format!("A record of level {level}"));
                    pause().await;
                }
                "Logged at four levels"
            },
        ),
        protocol("reconnection", reconnection).run(async |_, cx| {
            cx.hang_up();
            // On a pipe there is nothing to hang up; whoever stands in between
            // needs some time to do it.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            "You came back"
        }),
        changing("tool", Server::tools_changed),
        changing("prompt", Server::prompts_changed),
    ]
}
