//! Tools that ask under fixed names, which a modern client sees as the keys of
//! its input rounds. A legacy client is asked by requests all the same.

use serde_json::{Value, json};
use switchboard_net::server::{Context, Error, Nature, Tool, ToolDraft};

use super::ask::question;

fn tool(name: impl Into<String>) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category: "questions", ..super::NATURE })
}

pub(super) fn tools() -> Vec<Tool> {
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
    tool(format!("test_input_required_result_{name}")).description(description)
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
