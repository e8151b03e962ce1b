//! One call, and what came of it.

use serde_json::{Map, Value, json};

use super::{Asked, failed, usage};
use crate::exit::{CommandError, ExitStatus};
use crate::output::{contents, plain, resource};

pub(in crate::command) async fn call(asked: Asked) -> Result<(), CommandError> {
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

pub(in crate::command) async fn prompt(asked: Asked) -> Result<(), CommandError> {
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

pub(in crate::command) async fn read(asked: Asked) -> Result<(), CommandError> {
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

pub(in crate::command) async fn complete(asked: Asked) -> Result<(), CommandError> {
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
