//! Checks of what a server offers: tools in pages, resources, prompts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Connection;
use super::checks::same;
use crate::Failure;

const TOOLS: [&str; 11] = [
    "ask",
    "big",
    "die",
    "echo",
    "grow",
    "log",
    "progress",
    "slow",
    "touch",
    "was_cancelled",
    "whoami",
];

pub(super) async fn list(connection: &Connection) -> Result<(), Failure> {
    let (names, pages) = by_hand(connection).await?;
    if pages < 2 {
        return Err("all tools came on one page".into());
    }
    let different: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    same(&different.len(), &names.len())?;
    let missing = TOOLS.into_iter().find(|tool| !different.contains(tool));
    same(&missing, &None)?;
    // The library follows the pages by itself.
    same(&tools(connection).await?, &names)?;
    resources(connection).await?;
    prompts(connection).await
}

/// The names on all pages, and how many pages there were.
async fn by_hand(connection: &Connection) -> Result<(Vec<String>, usize), Failure> {
    let (mut found, mut pages, mut params) = (Vec::new(), 0, json!({}));
    loop {
        let mut page = connection.client.request("tools/list", &params).await?;
        found.extend(names(page["tools"].as_array().into_iter().flatten(), "name"));
        pages += 1;
        match page["nextCursor"].take() {
            Value::Null => return Ok((found, pages)),
            cursor => params["cursor"] = cursor,
        }
    }
}

fn names<'a>(
    entries: impl IntoIterator<Item = &'a Value>,
    member: &str,
) -> impl Iterator<Item = String> {
    entries.into_iter().map(move |entry| entry[member].as_str().unwrap_or_default().to_owned())
}

/// The names of all tools.
pub(super) async fn tools(connection: &Connection) -> Result<Vec<String>, Failure> {
    Ok(names(&connection.client.tools().await?, "name").collect())
}

async fn resources(connection: &Connection) -> Result<(), Failure> {
    let listed = connection.client.resources().await?;
    let uris: BTreeSet<String> = names(&listed, "uri").collect();
    same(&uris, &["peer://static", "peer://watched"].map(str::to_owned).into())?;
    let read = connection.client.read("peer://static").await?;
    same(&read["contents"][0]["text"], &json!("static"))
}

async fn prompts(connection: &Connection) -> Result<(), Failure> {
    let listed: Vec<_> = names(&connection.client.prompts().await?, "name").collect();
    same(&listed, &vec!["greet".to_owned()])?;
    let prompt = connection.client.prompt("greet", json!({"name": "Ada"})).await?;
    same(&prompt["messages"][0]["content"]["text"], &json!("Hello, Ada!"))
}
