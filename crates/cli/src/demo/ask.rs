//! Tools that ask the client: its person, or its model.

use serde_json::{Value, json};
use switchboard_net::server::{Context, Elicited, Error, Nature, Tool, ToolDraft, VisitPage};

use super::text;

fn tool(name: impl Into<String>) -> ToolDraft<Value> {
    Tool::new(name).nature(Nature { category: "questions", ..super::NATURE })
}

pub(super) fn tools() -> Vec<Tool> {
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
    tool("test_sampling")
        .description("Asks the client's model")
        .input_schema(&one_string("prompt"))
        .run(async |args: Value, cx: Context| {
            let answer = cx.sample(question(&text(&args, "prompt"))).await?;
            let said = answer["content"]["text"].as_str().unwrap_or("nothing that is a text");
            Ok::<_, Error>(format!("LLM response: {said}"))
        })
}

fn with_tools() -> Tool {
    tool("test_sampling_with_tools")
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
    tool("test_url_elicitation").description("Asks the person at the client to visit a page").run(
        async |_: Value, cx: Context| {
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
        },
    )
}

/// Puts a form to the person, and says what came of it.
async fn elicit(cx: Context, message: &str, form: Value) -> Result<String, Error> {
    Ok(match cx.elicit(message, form).await? {
        Elicited::Accept(content) => format!("User response: action=accept, content={content}"),
        Elicited::Decline => "User response: action=decline, content={}".to_owned(),
        Elicited::Cancel => "User response: action=cancel, content={}".to_owned(),
    })
}

fn elicitation() -> Tool {
    tool("test_elicitation")
        .description("Asks the person at the client")
        .input_schema(&one_string("message"))
        .run(async |args: Value, cx: Context| {
            let message = text(&args, "message");
            // Not required: the suites answer with members of their own.
            let form = json!({"type": "object", "properties": {"response": {"type": "string"}}});
            elicit(cx, &message, form).await
        })
}

fn defaults() -> Tool {
    tool("test_elicitation_sep1034_defaults")
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
            elicit(cx, "Please look through what is filled in", form).await
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
    tool("test_elicitation_sep1330_enums").description("Asks with every form of choice").run(
        move |_: Value, cx: Context| {
            let form = form.clone();
            async move { elicit(cx, "Please choose", form).await }
        },
    )
}
