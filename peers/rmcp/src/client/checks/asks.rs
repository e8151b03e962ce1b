//! Checks of what the server asks the client during a call.

use serde_json::{Value, json};

use super::same;
use crate::{
    client::{answers::form_answer, connection::Connection},
    era::Failure,
};

pub(super) async fn elicit(connection: &Connection) -> Result<(), Failure> {
    let answer = ask(connection, "form").await?;
    same(&answer["action"], &form_answer()["action"])?;
    same(&answer["content"], &form_answer()["content"])
}

pub(super) async fn visit(connection: &Connection) -> Result<(), Failure> {
    same(&ask(connection, "url").await?["action"], &json!("accept"))
}

pub(super) async fn sample_tools(connection: &Connection) -> Result<(), Failure> {
    let answer = ask(connection, "tools").await?;
    let content = &answer["content"];
    let content = content.get(0).unwrap_or(content);
    let found = json!([answer["stopReason"], content["name"], content["input"]]);
    same(&found, &json!(["toolUse", "weather", {"city": "Ulm"}]))
}

pub(super) async fn sample(connection: &Connection) -> Result<(), Failure> {
    let answer = ask(connection, "sampling").await?;
    same(&answer["role"], &json!("assistant"))?;
    same(&answer["model"], &json!("peer-model"))?;
    // One content block may travel alone or as a list of one.
    let content = match &answer["content"] {
        Value::Array(blocks) => &blocks[0],
        block => block,
    };
    same(&content["text"], &json!("sampled: Say something"))
}

pub(super) async fn roots(connection: &Connection) -> Result<(), Failure> {
    let answer = ask(connection, "roots").await?;
    let expected = json!([{ "uri": "file:///peer/root", "name": "peer root" }]);
    same(&answer["roots"], &expected)
}

async fn ask(connection: &Connection, kind: &str) -> Result<Value, Failure> {
    let text = connection.call("ask", json!({ "kind": kind })).await?;
    Ok(serde_json::from_str(&text)?)
}
