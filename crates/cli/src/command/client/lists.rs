//! What a server has.

use std::time::Instant;

use serde_json::{Value, json};
use switchboard_net::client::CallError;
use switchboard_proto::revision::Era;

use super::{Asked, failed};
use crate::exit::CommandError;
use crate::output::{cell, plain, table};

pub(in crate::command) async fn tools(asked: Asked) -> Result<(), CommandError> {
    asked.no_more_than(0)?;
    let client = asked.connect().await?;
    let tools = client.tools().await.map_err(|error| failed(&error))?;
    asked.output.show(&json!({ "tools": tools }), |list| {
        named(&list["tools"], &["name", "description"], &["NAME", "DESCRIPTION"], "no tools")
    });
    Ok(())
}

pub(in crate::command) async fn prompts(asked: Asked) -> Result<(), CommandError> {
    asked.no_more_than(0)?;
    let client = asked.connect().await?;
    let prompts = client.prompts().await.map_err(|error| failed(&error))?;
    asked.output.show(&json!({ "prompts": prompts }), |list| {
        let rows = list["prompts"].as_array().into_iter().flatten().map(|prompt| {
            vec![
                cell(&prompt["name"]),
                arguments(&prompt["arguments"]),
                cell(&prompt["description"]),
            ]
        });
        table(&["NAME", "ARGUMENTS", "DESCRIPTION"], &rows.collect::<Vec<_>>(), "no prompts")
    });
    Ok(())
}

/// The names of a prompt's arguments; those that may be left out in brackets.
fn arguments(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten().map(|argument| {
        let name = cell(&argument["name"]);
        if argument["required"] == true { name } else { format!("[{name}]") }
    });
    names.collect::<Vec<_>>().join(" ")
}

pub(in crate::command) async fn resources(asked: Asked) -> Result<(), CommandError> {
    asked.no_more_than(0)?;
    let client = asked.connect().await?;
    let resources = client.resources().await.map_err(|error| failed(&error))?;
    let templates = match client.templates().await {
        // Some servers with resources have no such method.
        Err(CallError::Server { .. }) => Vec::new(),
        templates => templates.map_err(|error| failed(&error))?,
    };
    let list = json!({"resources": resources, "resourceTemplates": templates});
    asked.output.show(&list, |list| {
        let members = ["uri", "name", "mimeType"];
        let mut text =
            named(&list["resources"], &members, &["URI", "NAME", "TYPE"], "no resources");
        if list["resourceTemplates"].as_array().is_some_and(|list| !list.is_empty()) {
            let members = ["uriTemplate", "name", "mimeType"];
            let head = ["TEMPLATE", "NAME", "TYPE"];
            text = format!("{text}\n\n{}", named(&list["resourceTemplates"], &members, &head, ""));
        }
        text
    });
    Ok(())
}

fn named(list: &Value, members: &[&str], head: &[&str], none: &str) -> String {
    let items = list.as_array().into_iter().flatten();
    let rows = items.map(|item| members.iter().map(|member| cell(&item[*member])).collect());
    table(head, &rows.collect::<Vec<_>>(), none)
}

pub(in crate::command) async fn discover(asked: Asked) -> Result<(), CommandError> {
    asked.no_more_than(0)?;
    let client = asked.connect().await?;
    let era = if client.era() == Era::Legacy { "legacy" } else { "modern" };
    let found = json!({
        "era": era,
        "protocolVersion": client.revision(),
        "serverInfo": client.server(),
        "capabilities": client.capabilities(),
        "instructions": client.welcome()["instructions"],
        "supportedVersions": client.welcome()["supportedVersions"],
    });
    asked.output.show(&found, |found| {
        let can = found["capabilities"].as_object().into_iter().flatten();
        let can = can.map(|(name, _)| plain(name)).collect::<Vec<_>>().join(", ");
        let server = &found["serverInfo"];
        let mut rows = vec![
            ("server", format!("{} {}", cell(&server["name"]), cell(&server["version"]))),
            ("protocol", format!("{} ({era})", cell(&found["protocolVersion"]))),
            ("can do", can),
        ];
        rows.extend(found["instructions"].as_str().map(|text| ("says", plain(text))));
        let lines = rows.iter().map(|(what, text)| format!("{what:8}  {}", text.trim()));
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

pub(in crate::command) async fn ping(asked: Asked) -> Result<(), CommandError> {
    asked.no_more_than(0)?;
    let client = asked.connect().await?;
    let sent = Instant::now();
    client.ping().await.map_err(|error| failed(&error))?;
    let millis = sent.elapsed().as_secs_f64() * 1000.0;
    asked
        .output
        .show(&json!({ "milliseconds": millis }), |_| format!("answered in {millis:.1} ms"));
    Ok(())
}
