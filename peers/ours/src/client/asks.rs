//! What the client answers when the server asks, and the checks that it does.

use serde_json::{Value, json};
use switchboard_net::client::{ClientOptions, Declined};

use super::Connection;
use super::checks::same;
use crate::Failure;

pub(super) fn answering(options: ClientOptions) -> ClientOptions {
    options
        .on_elicitation(async |_| Ok(elicited()))
        .on_url_elicitation(async |params: Value| {
            let known = params["url"] == "https://peer.test/sign-in?a=1&b=%20";
            Ok(json!({"action": if known { "accept" } else { "decline" }}))
        })
        .on_sampling_with_tools(async |params: Value| {
            if params["tools"][0]["name"] == "weather" {
                let input = json!({"city": "Ulm"});
                let used =
                    json!([{"type": "tool_use", "id": "use-1", "name": "weather", "input": input}]);
                let message = json!({"role": "assistant", "model": "peer-model", "content": used});
                return Ok(with(message, "stopReason", "toolUse"));
            }
            let content = &params["messages"][0]["content"];
            let words = content["text"].as_str().or_else(|| content[0]["text"].as_str());
            let words = words.ok_or_else(|| Declined("no text message".to_owned()))?;
            let text = format!("sampled: {words}");
            let content = json!({"type": "text", "text": text});
            Ok(json!({"role": "assistant", "model": "peer-model", "content": content}))
        })
        .on_roots(async |_| Ok(json!({"roots": [root()]})))
}

fn with(mut value: Value, name: &str, text: &str) -> Value {
    value[name] = text.into();
    value
}

/// The person behind the form; not plain ASCII, so that mangled text shows.
fn elicited() -> Value {
    json!({"action": "accept", "content": {"name": "Ada Ünï 🦀"}})
}

fn root() -> Value {
    json!({"uri": "file:///peer/root", "name": "peer root"})
}

async fn asked(connection: &Connection, kind: &str) -> Result<Value, Failure> {
    let answer = connection.call("ask", json!({ "kind": kind })).await?;
    Ok(serde_json::from_str(&answer)?)
}

pub(super) async fn elicit(connection: &Connection) -> Result<(), Failure> {
    let answer = asked(connection, "form").await?;
    let answer = json!({"action": answer["action"], "content": answer["content"]});
    same(&answer, &elicited())
}

pub(super) async fn visit(connection: &Connection) -> Result<(), Failure> {
    same(&asked(connection, "url").await?["action"], &json!("accept"))
}

pub(super) async fn sample_tools(connection: &Connection) -> Result<(), Failure> {
    let answer = asked(connection, "tools").await?;
    let content = &answer["content"];
    let content = content.get(0).unwrap_or(content);
    let found = json!([answer["stopReason"], content["name"], content["input"]]);
    same(&found, &json!(["toolUse", "weather", {"city": "Ulm"}]))
}

pub(super) async fn sample(connection: &Connection) -> Result<(), Failure> {
    let answer = asked(connection, "sampling").await?;
    let content = &answer["content"];
    let words = content.get("text").unwrap_or(&content[0]["text"]);
    let found = json!([answer["role"], answer["model"], words]);
    same(&found, &json!(["assistant", "peer-model", "sampled: Say something"]))
}

pub(super) async fn roots(connection: &Connection) -> Result<(), Failure> {
    let answer = asked(connection, "roots").await?;
    let only = &answer["roots"][0];
    same(&answer["roots"].as_array().map(Vec::len), &Some(1))?;
    same(&json!({"uri": only["uri"], "name": only["name"]}), &root())
}
