//! Checks of what a server offers: tools in pages, resources, prompts.

use std::collections::HashSet;

use rmcp::model::{
    GetPromptRequestParams, JsonObject, PaginatedRequestParams, ReadResourceRequestParams,
};
use serde_json::json;

use super::same;
use crate::{client::connection::Connection, era::Failure};

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
    let (names, pages) = tools(connection).await?;
    if pages < 2 {
        return Err("all tools came on one page".into());
    }
    let different: HashSet<&str> = names.iter().map(String::as_str).collect();
    same(&different.len(), &names.len())?;
    for tool in TOOLS {
        if !different.contains(tool) {
            return Err(format!("{tool} is not listed").into());
        }
    }
    resources(connection).await?;
    prompts(connection).await
}

/// The names on all pages, and how many pages there were.
pub(super) async fn tools(connection: &Connection) -> Result<(Vec<String>, usize), Failure> {
    let (mut names, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = connection.peer().list_tools(Some(params)).await?;
        names.extend(page.tools.into_iter().map(|tool| tool.name.into_owned()));
        pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((names, pages));
        }
    }
}

async fn resources(connection: &Connection) -> Result<(), Failure> {
    let peer = connection.peer();
    let listed = peer.list_resources(None).await?.resources;
    for uri in ["peer://watched", "peer://static"] {
        if !listed.iter().any(|resource| resource.uri == uri) {
            return Err(format!("{uri} is not listed").into());
        }
    }
    let params = ReadResourceRequestParams::new("peer://static");
    let read = serde_json::to_value(peer.read_resource(params).await?)?;
    same(&read["contents"][0]["text"], &json!("static"))
}

async fn prompts(connection: &Connection) -> Result<(), Failure> {
    let peer = connection.peer();
    let listed = peer.list_prompts(None).await?.prompts;
    if !listed.iter().any(|prompt| prompt.name == "greet") {
        return Err("greet is not listed".into());
    }
    let arguments = JsonObject::from_iter([("name".to_owned(), json!("Ada"))]);
    let params = GetPromptRequestParams::new("greet").with_arguments(arguments);
    let prompt = serde_json::to_value(peer.get_prompt(params).await?)?;
    let text = &prompt["messages"][0]["content"]["text"];
    same(text, &json!("Hello, Ada!"))
}
