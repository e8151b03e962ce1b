//! Tools that ask the client for something, at once, in input rounds or as tasks.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::server::{
    Context, Elicited, Error, TaskSupport, Tool, ToolDraft, ToolResult, VisitPage,
};

use super::{text, tool};

pub(super) fn question_tools() -> Vec<Tool> {
    vec![sampling(), with_tools(), elicitation(), page(), defaults(), enums()]
}

fn one_string(name: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]})
}

/// What `sampling/createMessage` takes, for one question.
pub(super) fn question(prompt: &str) -> Value {
    json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": 100,
    })
}

fn sampling() -> Tool {
    tool("questions", "test_sampling")
        .description("Asks the client's model")
        .input_schema(&one_string("prompt"))
        .run(async |args: Value, cx: Context| {
            let answer = cx.sample(question(&text(&args, "prompt"))).await?;
            let said = answer["content"]["text"].as_str().unwrap_or("nothing that is a text");
            Ok::<_, Error>(format!("LLM response: {said}"))
        })
}

fn with_tools() -> Tool {
    tool("questions", "test_sampling_with_tools")
        .description("Asks the client's model, and gives it a tool to use")
        .input_schema(&one_string("prompt"))
        .run(async |args: Value, cx: Context| {
            let mut params = question(&text(&args, "prompt"));
            let schema = one_string("city");
            params["tools"] =
                json!([{"name": "weather", "description": "Tells the weather", "inputSchema": schema}]);
            let answer = cx.sample(params).await?;
            Ok::<_, Error>(format!("LLM response: {}", answer["content"]))
        })
}

fn page() -> Tool {
    tool("questions", "test_url_elicitation")
        .description("Asks the person at the client to visit a page")
        .run(async |_: Value, cx: Context| {
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

fn elicitation() -> Tool {
    tool("questions", "test_elicitation")
        .description("Asks the person at the client")
        .input_schema(&one_string("message"))
        .run(async |args: Value, cx: Context| {
            let message = text(&args, "message");
            // Not required: the suites answer with members of their own.
            let form = json!({"type": "object", "properties": {"response": {"type": "string"}}});
            ask_form(cx, &message, form).await
        })
}

fn defaults() -> Tool {
    tool("questions", "test_elicitation_sep1034_defaults")
        .description("Asks with a form that is filled in already")
        .run(async |_: Value, cx: Context| {
            let form = json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Your name", "default": "John Doe"},
                    "age": {"type": "integer", "description": "Your age", "default": 30},
                    "score": {"type": "number", "description": "Your score", "default": 95.5},
                    "status": {
                        "type": "string",
                        "description": "How you are",
                        "enum": ["active", "inactive", "pending"],
                        "default": "active",
                    },
                    "verified": {"type": "boolean", "description": "Is it so?", "default": true},
                },
                "required": [],
            });
            ask_form(cx, "Please look through what is filled in", form).await
        })
}

fn enums() -> Tool {
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
    tool("questions", "test_elicitation_sep1330_enums")
        .description("Asks with every form of choice")
        .run(move |_: Value, cx: Context| {
            let form = form.clone();
            async move { ask_form(cx, "Please choose", form).await }
        })
}

pub(super) fn input_round_tools() -> Vec<Tool> {
    vec![
        named("elicitation", "Asks for your name").run(async |_: Value, cx: Context| {
            let answer = elicit(&cx, "user_name", "What is your name?", NAME).await?;
            let name = answer["content"]["name"].as_str().unwrap_or("you").to_owned();
            Ok::<_, Error>(format!("Hello, {name}!"))
        }),
        named("sampling", "Asks your model").run(async |_: Value, cx: Context| {
            sample(&cx, "capital").await.map(|answer| format!("It said {}", answer["content"]))
        }),
        named("list_roots", "Asks where you work").run(async |_: Value, cx: Context| {
            roots(&cx).await.map(|answer| format!("You work at {}", answer["roots"]))
        }),
        named("request_state", "Asks, and has you carry its state").run(
            async |_: Value, cx: Context| {
                elicit(&cx, "confirm", "Is that all right?", OK).await.map(|_| "state-ok")
            },
        ),
        named("multiple_inputs", "Asks three things at once").run(async |_: Value, cx: Context| {
            let (name, greeting, roots) = tokio::join!(
                elicit(&cx, "user_name", "What is your name?", NAME),
                sample(&cx, "greeting"),
                roots(&cx),
            );
            let (name, greeting, roots) = (name?, greeting?, roots?);
            let said = format!("{} {} {}", name["content"], greeting["content"], roots["roots"]);
            Ok::<_, Error>(said)
        }),
        named("multi_round", "Asks twice").run(async |_: Value, cx: Context| {
            let name = elicit(&cx, "step1", "What is your name?", NAME).await?;
            let color = elicit(&cx, "step2", "What is your favourite colour?", COLOR).await?;
            Ok::<_, Error>(format!("{} likes {}", name["content"], color["content"]))
        }),
        named("tampered_state", "Asks, and notices if its state was changed on the way").run(
            async |_: Value, cx: Context| {
                elicit(&cx, "confirm", "Is that all right?", OK).await.map(|_| "state-ok")
            },
        ),
        named("capabilities", "Asks only what you can answer")
            .run(async |_: Value, cx| what_it_can(cx).await),
    ]
}

const NAME: (&str, &str) = ("name", "string");
const COLOR: (&str, &str) = ("color", "string");
const OK: (&str, &str) = ("ok", "boolean");

fn named(name: &str, description: &str) -> ToolDraft<Value> {
    tool("questions", format!("test_input_required_result_{name}")).description(description)
}

/// Asks for one thing, by name and type.
pub(super) async fn elicit(
    cx: &Context,
    key: &str,
    message: &str,
    (name, kind): (&str, &str),
) -> Result<Value, Error> {
    let schema =
        json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
    let params = json!({"message": message, "requestedSchema": schema});
    cx.ask_as(key, "elicitation/create", params).await
}

async fn sample(cx: &Context, key: &str) -> Result<Value, Error> {
    cx.ask_as(key, "sampling/createMessage", question("What is the capital of France?")).await
}

async fn roots(cx: &Context) -> Result<Value, Error> {
    cx.ask_as("client_roots", "roots/list", json!({})).await
}

async fn what_it_can(cx: Context) -> Result<String, Error> {
    let can = cx.client_capabilities();
    let mut said = Vec::new();
    if can["sampling"].is_object() {
        said.push(sample(&cx, "capital").await?["content"].to_string());
    }
    if can["elicitation"].is_object() {
        said.push(
            elicit(&cx, "user_name", "What is your name?", NAME).await?["content"].to_string(),
        );
    }
    Ok(if said.is_empty() { "You cannot be asked".to_owned() } else { said.join(" ") })
}

/// The longest that `slow_compute` computes.
const LONGEST: f64 = 600.0;

pub(super) fn task_tools() -> Vec<Tool> {
    vec![greet(), slow(), failing(), breaking(), confirm(), multiple(), late()]
}

fn greet() -> Tool {
    tool("tasks", "greet")
        .description("Greets you; never as a task")
        .input_schema(&json!({
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        }))
        .run(async |args: Value, _| format!("Hello, {}!", text(&args, "name")))
}

fn slow() -> Tool {
    tool("tasks", "slow_compute")
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
    tool("tasks", "failing_job")
        .description("Fails after a second; only as a task")
        .tasks(TaskSupport::Required)
        .run(async |_: Value, _| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ToolResult::error("The job failed, as it always does")
        })
}

fn breaking() -> Tool {
    tool("tasks", "protocol_error_job")
        .description("Ends with an error of the protocol; as a task if you can handle that")
        .tasks(TaskSupport::Optional)
        .run(async |_: Value, _| {
            Err::<ToolResult, _>(Error::internal("The job broke, as it always does"))
        })
}

fn confirm() -> Tool {
    tool("tasks", "confirm_delete")
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
    tool("tasks", "multi_input")
        .description("Asks two things at once")
        .tasks(TaskSupport::Optional)
        .run(async |_: Value, cx: Context| {
            let (name, color) = tokio::join!(
                elicit(&cx, "name", "What is your name?", ("name", "string")),
                elicit(&cx, "color", "What is your favourite colour?", ("color", "string")),
            );
            Ok::<_, Error>(format!("{} likes {}", name?["content"], color?["content"]))
        })
}

fn late() -> Tool {
    tool("tasks", "test_tool_with_task")
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
