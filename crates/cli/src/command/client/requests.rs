//! What each client command asks the server, and how it shows the answer.

use std::time::Instant;

use serde_json::{Map, Value, json};
use switchboard_net::client::{CallError, ListenFilter};
use switchboard_proto::revision::Era;

use super::{Asked, failed, usage};
use crate::exit::{CommandError, ExitStatus};
use crate::output::{cell, contents, plain, resource, table};

pub(crate) async fn call(asked: Asked) -> Result<(), CommandError> {
    let name = asked.operand(0, "the name of the tool")?;
    let arguments = asked.arguments(1)?;
    let client = asked.connect().await?;
    let called = client.call_tool_with(name, arguments, asked.shown()).await;
    asked.ticker.clear();
    let result = called.map_err(|error| failed(&error))?;
    asked.output.show(&result, |result| {
        let text = contents(&result["content"]);
        match result.get("structuredContent") {
            Some(content) if text.trim().is_empty() => {
                plain(&serde_json::to_string_pretty(content).unwrap_or_default())
            }
            _ => text,
        }
    });
    if result["isError"] == true {
        let text = contents(&result["content"]);
        let text = if text.trim().is_empty() { "the tool failed".to_owned() } else { text };
        return Err(CommandError::new(text).for_scripts(ExitStatus::Tool, "tool"));
    }
    Ok(())
}

pub(crate) async fn prompt(asked: Asked) -> Result<(), CommandError> {
    let name = asked.operand(0, "the name of the prompt")?;
    let arguments = asked.arguments(1)?;
    let arguments = if arguments == json!({}) { Value::Null } else { arguments };
    let client = asked.connect().await?;
    let got = client.prompt(name, arguments).await.map_err(|error| failed(&error))?;
    asked.output.show(&got, |got| {
        let messages = got["messages"].as_array().into_iter().flatten();
        let lines = messages.map(|message| {
            let role = plain(message["role"].as_str().unwrap_or_default());
            format!("{role}: {}", contents(&json!([message["content"]])))
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

pub(crate) async fn read(asked: Asked) -> Result<(), CommandError> {
    let uri = asked.operand(0, "the URI of the resource")?;
    asked.no_more_than(1)?;
    let client = asked.connect().await?;
    let read = client.read(uri).await.map_err(|error| failed(&error))?;
    asked.output.show(&read, |read| {
        let parts = read["contents"].as_array().into_iter().flatten().map(resource);
        parts.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

pub(crate) async fn complete(asked: Asked) -> Result<(), CommandError> {
    let of = asked.operand(0, "prompt:NAME or the template")?;
    let name = asked.operand(1, "the name of the argument")?;
    let of = match of.strip_prefix("prompt:") {
        Some(prompt) => json!({"type": "ref/prompt", "name": prompt}),
        None => json!({"type": "ref/resource", "uri": of}),
    };
    let value = asked.operands.get(2).map_or("", String::as_str);
    let Value::Object(context) = asked.arguments(3)? else {
        return Err(usage(CommandError::new("arguments are an object")));
    };
    let context: Map<String, Value> = context;
    let client = asked.connect().await?;
    let done = client.complete(of, name, value, context).await;
    let done = done.map_err(|error| failed(&error))?;
    asked.output.show(&done, |done| {
        let values = done["completion"]["values"].as_array().into_iter().flatten();
        values.map(|value| plain(value.as_str().unwrap_or_default())).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

pub(crate) async fn tools(asked: Asked) -> Result<(), CommandError> {
    asked.no_more_than(0)?;
    let client = asked.connect().await?;
    let tools = client.tools().await.map_err(|error| failed(&error))?;
    asked.output.show(&json!({ "tools": tools }), |list| {
        named(&list["tools"], &["name", "description"], &["NAME", "DESCRIPTION"], "no tools")
    });
    Ok(())
}

pub(crate) async fn prompts(asked: Asked) -> Result<(), CommandError> {
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

pub(crate) async fn resources(asked: Asked) -> Result<(), CommandError> {
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

pub(crate) async fn discover(asked: Asked) -> Result<(), CommandError> {
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

pub(crate) async fn ping(asked: Asked) -> Result<(), CommandError> {
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

/// Prints until the server ends it or a signal comes.
pub(crate) async fn listen(asked: Asked) -> Result<(), CommandError> {
    let filter = filter(&asked.operands)?;
    asked.no_arguments()?;
    let client = asked.connect().await?;
    let mut listening = client.listen(filter).await.map_err(|error| failed(&error))?;
    tracing::info!("listening for {}", listening.honoured());
    while let Some(note) = listening.next().await {
        let line = json!({"method": note.method, "params": note.params});
        asked.output.show_line(&line, |line| {
            let about = cell(&line["params"]["uri"]);
            format!("{} {about}", plain(&note.method)).trim_end().to_owned()
        });
    }
    if client.is_connected() {
        return Ok(());
    }
    Err(CommandError::new("Transport closed").for_scripts(ExitStatus::Unreachable, "unreachable"))
}

/// All lists, unless something is named.
fn filter(words: &[String]) -> Result<ListenFilter, CommandError> {
    let lists = ["tools", "prompts", "resources"];
    let strange = words.iter().find(|word| !word.contains(':') && !lists.contains(&word.as_str()));
    if let Some(strange) = strange {
        let failure = CommandError::new(format!("{strange:?} is nothing to listen for"));
        return Err(usage(
            failure.hint("name tools, prompts, resources, or the URI of a resource"),
        ));
    }
    let has = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let uris = words.iter().filter(|word| word.contains(':')).cloned().collect();
    let [tools, prompts, resources] = lists.map(has);
    Ok(ListenFilter { tools, prompts, resources, uris })
}
