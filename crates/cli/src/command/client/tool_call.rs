//! `call`: reads arguments by the schema of the tool, calls it, shows what it says, and says what
//! to change if it failed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchboard_gateway::config::nearest;
use switchboard_net::client::{CallError, CallOptions, Client};
use switchboard_net::roster::ListKind;

use super::listing::{ServerListing, list};
use super::media::PictureProtocol;
use super::tool_schema::{ToolArguments, quoted};
use super::{ClientRequest, failed, usage};
use crate::args::Form;
use crate::exit::{CommandError, CommandResult, ExitStatus};
use crate::output::{contents_with, plain};
use crate::progress::{show_progress, waiting};

pub(in crate::command) async fn call(request: &ClientRequest) -> CommandResult {
    let name = request.operand(0, "the name of the tool")?;
    let mut arguments = request.arguments(1)?;
    let client = request.connect().await?;
    let mut tools = None;
    let texts = texts(request.words_from(1));
    if !texts.is_empty() {
        tools = list_with(request, client, name).await;
        if let Some(tool) = tools.as_ref().and_then(|tools| tools.find(name)) {
            let schema = ToolArguments::new(&tool["inputSchema"]);
            for (name, text) in texts {
                arguments.insert(name.to_owned(), schema.read(name, text).map_err(usage)?);
            }
        }
    }
    let options = CallOptions::default().on_progress(|step| show_progress(&step));
    let calling = client.call_tool_with(name, arguments.clone(), options);
    let result = match waiting(format!("waiting for {name}"), calling).await {
        Ok(result) => result,
        Err(error) => {
            if tools.is_none() && matches!(error, CallError::Server { .. }) {
                tools = list_with(request, client, name).await;
            }
            let failure = failed(error);
            return Err(with_advice(failure, name, &arguments, tools.as_ref()));
        }
    };
    let has_failed = result["isError"] == true;
    let text = shown(request, name, &result)?;
    // What went wrong is told once: on stderr, unless the whole result was asked for.
    if !has_failed || request.form == Form::Json {
        request.form.show(&result, |_| text.clone());
    }
    if has_failed {
        let text = if text.trim().is_empty() { "the tool failed".to_owned() } else { text };
        let failure = CommandError::new(text).for_scripts(ExitStatus::Tool, "tool");
        return Err(with_advice(failure, name, &arguments, tools.as_ref()));
    }
    Ok(())
}

/// The words that are `k=v`. A later word for the same argument counts, also a `k:=json`.
fn texts(words: &[String]) -> BTreeMap<&str, &str> {
    let mut texts = BTreeMap::new();
    for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
        match name.strip_suffix(':') {
            Some(name) => texts.remove(name),
            None => texts.insert(name, value),
        };
    }
    texts
}

/// The tools of the server, once this one is among them. A server without a list may have the
/// tool all the same.
async fn list_with(request: &ClientRequest, client: &Client, name: &str) -> Option<ServerListing> {
    let has_it = |listing: &ServerListing| listing.find(name).is_some();
    list(request, client, ListKind::Tools, has_it).await.ok()
}

/// What a result says, for people; with `--save`, what is saved of it.
fn shown(request: &ClientRequest, name: &str, result: &Value) -> CommandResult<String> {
    let blocks = &result["content"];
    let saved = request.save_media(name, blocks)?;
    // What failed goes to stderr, as text.
    let is_for_screen = request.form == Form::Text && result["isError"] != true;
    let protocol = PictureProtocol::of_terminal().filter(|_| is_for_screen);
    let text = contents_with(blocks, |at, block| {
        saved.get(&at).cloned().or_else(|| protocol?.sequence(block))
    });
    Ok(match result.get("structuredContent") {
        Some(content) if text.trim().is_empty() => {
            plain(&serde_json::to_string_pretty(content).unwrap_or_default())
        }
        _ => text,
    })
}

/// A tool that the server does not list.
pub(super) fn unknown_tool(name: &str, tools: &ServerListing) -> CommandError {
    hint_at_tool(CommandError::new(format!("there is no tool {name:?}")), name, tools)
}

fn hint_at_tool(failure: CommandError, name: &str, tools: &ServerListing) -> CommandError {
    let failure = match tools.missing_words() {
        none if none.is_empty() => failure,
        missing => failure.hint(format!("missing: {missing}")),
    };
    match nearest(name, tools.names()) {
        Some(near) => failure.hint(format!("did you mean {near:?}?")),
        None => failure.hint("see what there is: switchboard tools TARGET"),
    }
}

/// Says what to change about a call, if that can be seen in the list of tools. The URL or the
/// command of the server may hold secrets, and hints end up in the logs of scripts.
fn with_advice(
    failure: CommandError,
    name: &str,
    arguments: &Map<String, Value>,
    tools: Option<&ServerListing>,
) -> CommandError {
    let Some(tools) = tools else { return failure };
    let Some(tool) = tools.find(name) else { return hint_at_tool(failure, name, tools) };
    let missing = ToolArguments::new(&tool["inputSchema"]).missing(arguments);
    if missing.is_empty() {
        return failure;
    }
    failure
        .hint(format!("these arguments are missing: {}", missing.join(", ")))
        .hint(format!("see what it takes: switchboard tools TARGET {}", quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_for_an_argument_counts() {
        let check = |words: [&str; 3], expected: &[(&str, &str)]| {
            let words = words.map(str::to_owned);
            assert_eq!(texts(&words).into_iter().collect::<Vec<_>>(), expected, "{words:?}");
        };
        check(["x=2", "x:=1", "y=a=b"], &[("y", "a=b")]);
        check(["x:=1", "x=2", "x=3"], &[("x", "3")]);
    }
}
