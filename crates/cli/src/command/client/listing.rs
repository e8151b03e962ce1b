//! The lists of a server. A gateway may answer before all of its servers have started: then we
//! wait for them, for a while, and say which are missing.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_gateway::catalog::DEFERRED;
use switchboard_net::client::{CallError, Client};
use switchboard_net::roster::ListKind;
use tokio::time::Instant;

use super::tool_call::unknown_tool;
use super::tool_schema::{ToolArguments, quoted};
use super::{ClientRequest, failed};
use crate::args::Form;
use crate::exit::{CommandError, CommandResult, ExitStatus};
use crate::output::{cell, plain, table, write_finding};
use crate::progress::waiting;

/// How long servers of a gateway may take to start, unless the user says otherwise.
const START_WAIT: Duration = Duration::from_secs(10);
/// How often a gateway is asked again meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// A list, and the servers of a gateway that are not in it.
pub(super) struct ServerListing {
    pub(super) items: Vec<Value>,
    missing: Vec<Value>,
}

impl ServerListing {
    pub(super) async fn read(client: &Client, kind: ListKind) -> Result<Self, CallError> {
        let first = client.request(kind.method(), json!({})).await?;
        let missing = first["_meta"][DEFERRED].as_array().into_iter().flatten();
        // Of the others, what they had before is in the list.
        let missing = missing.filter(|server| server["cached"] != true).cloned().collect();
        let items = match (first.get("nextCursor"), kind) {
            (None | Some(Value::Null), _) => {
                first[kind.member().key()].as_array().cloned().unwrap_or_default()
            }
            (_, ListKind::Tools) => client.tools().await?,
            (_, ListKind::Prompts) => client.prompts().await?,
            (_, ListKind::Resources) => client.resources().await?,
            (_, ListKind::Templates) => client.templates().await?,
        };
        Ok(Self { items, missing })
    }

    /// The servers that may be there in a moment.
    fn starting(&self) -> Vec<String> {
        let starting = self.missing.iter().filter(|server| server["state"] == "starting");
        starting.map(|server| cell(&server["server"])).collect()
    }

    /// Each with its state.
    pub(super) fn missing_words(&self) -> String {
        let words = self.missing.iter();
        let words = words.map(|it| format!("{} ({})", cell(&it["server"]), cell(&it["state"])));
        words.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn find(&self, name: &str) -> Option<&Value> {
        self.items.iter().find(|item| item["name"] == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| item["name"].as_str())
    }
}

/// A list of the server, once it has all that it will have soon, or what is looked for.
pub(super) async fn list(
    request: &ClientRequest,
    client: &Client,
    kind: ListKind,
    is_enough: impl Fn(&ServerListing) -> bool,
) -> Result<ServerListing, CallError> {
    let reading =
        waiting(format!("waiting for {}", kind.method()), ServerListing::read(client, kind));
    let first = reading.await?;
    let starting = first.starting();
    if starting.is_empty() || is_enough(&first) {
        return Ok(first);
    }
    let until = Instant::now() + request.start_wait.unwrap_or(START_WAIT);
    let asking_again = async {
        let mut latest = first;
        while !is_enough(&latest) && !latest.starting().is_empty() && Instant::now() < until {
            tokio::time::sleep(ASK_EVERY).await;
            latest = ServerListing::read(client, kind).await?;
        }
        Ok(latest)
    };
    waiting(format!("waiting for {} to start", starting.join(", ")), asking_again).await
}

/// Shows a list, and which servers are missing in it.
fn show(
    request: &ClientRequest,
    (kind, listing): (ListKind, &ServerListing),
    mut whole: Value,
    text: impl FnOnce(&Value) -> String,
) -> CommandResult {
    let mut lists = whole.as_object().into_iter().flatten();
    let is_empty = lists.all(|(_, list)| list.as_array().is_none_or(Vec::is_empty));
    if is_empty && !listing.missing.is_empty() {
        let what = format!("no {} yet: {}", kind.capability(), listing.missing_words());
        return Err(CommandError::new(what)
            .hint("see why with: switchboard status TARGET")
            .hint("wait longer with: --timeout SECONDS")
            .for_scripts(ExitStatus::Unreachable, "unreachable")
            .with("missing", Some(listing.missing.clone())));
    }
    if !listing.missing.is_empty() {
        match request.form {
            Form::Json => whole["missing"] = listing.missing.clone().into(),
            Form::Text => write_finding(&format!("missing: {}", listing.missing_words())),
        }
    }
    request.form.show(&whole, text);
    Ok(())
}

pub(in crate::command) async fn tools(request: &ClientRequest) -> CommandResult {
    let client = request.connect_with(1).await?;
    let Some(name) = request.operands.first() else {
        let listing = list(request, client, ListKind::Tools, |_| false).await.map_err(failed)?;
        let whole = json!({ "tools": listing.items });
        return show(request, (ListKind::Tools, &listing), whole, |list| {
            named(&list["tools"], &["name", "description"], "NAME  DESCRIPTION", "no tools")
        });
    };
    let has_it = |listing: &ServerListing| listing.find(name).is_some();
    let listing = list(request, client, ListKind::Tools, has_it).await.map_err(failed)?;
    let Some(tool) = listing.find(name) else { return Err(unknown_tool(name, &listing)) };
    request.form.show(tool, |tool| one_tool(request, tool));
    Ok(())
}

/// Said of a tool whose arguments no table can hold.
const OTHERS: &str = "Its schema allows other arguments: see --output json.";

/// What a person has to know to call a tool.
fn one_tool(request: &ClientRequest, tool: &Value) -> String {
    let name = tool["name"].as_str().unwrap_or_default();
    let mut parts = vec![match tool["title"].as_str() {
        Some(title) => plain(&format!("{name}: {title}")),
        None => plain(name),
    }];
    parts.extend(tool["description"].as_str().map(|text| plain(text.trim())));
    let arguments = ToolArguments::new(&tool["inputSchema"]);
    let rows: Vec<_> = arguments.rows().collect();
    let has_others = arguments.has_others();
    let none = if has_others { OTHERS } else { "It takes no arguments." };
    parts.push(table("ARGUMENT  TYPE  NEEDED  DESCRIPTION", &rows, none));
    parts.extend((has_others && !rows.is_empty()).then(|| OTHERS.to_owned()));
    parts.extend(words_to_type(name, &arguments).map(|words| {
        let [before, after] = &request.named_by;
        format!("Call it:\n  switchboard call{} {words}{}", one_line(before), one_line(after))
    }));
    parts.join("\n\n")
}

/// The words of a command line that call a tool. None, if the server chose names that would be
/// flags of ours, such as `--stdio`, which runs a command.
fn words_to_type(name: &str, arguments: &ToolArguments<'_>) -> Option<String> {
    let words = std::iter::once(quoted(name)).chain(arguments.example());
    let words: Vec<_> = words.map(|word| one_line(&word)).collect();
    let is_flag = |word: &String| word.trim_start_matches('\'').starts_with('-');
    (!words.iter().any(is_flag)).then(|| words.join(" "))
}

/// Text that stays in its line, and does not drive a terminal.
fn one_line(text: &str) -> String {
    plain(text).replace('\n', " ")
}

pub(in crate::command) async fn prompts(request: &ClientRequest) -> CommandResult {
    let client = request.connect_with(0).await?;
    let listing = list(request, client, ListKind::Prompts, |_| false).await.map_err(failed)?;
    let whole = json!({ "prompts": listing.items });
    show(request, (ListKind::Prompts, &listing), whole, |list| {
        let members = ["name", "arguments", "description"];
        named(&list["prompts"], &members, "NAME  ARGUMENTS  DESCRIPTION", "no prompts")
    })
}

pub(in crate::command) async fn resources(request: &ClientRequest) -> CommandResult {
    let client = request.connect_with(0).await?;
    let listing = list(request, client, ListKind::Resources, |_| false).await.map_err(failed)?;
    let templates = match client.templates().await {
        // Some servers with resources have no such method.
        Err(CallError::Server { .. }) => Vec::new(),
        templates => templates.map_err(failed)?,
    };
    let has_templates = !templates.is_empty();
    let whole = json!({"resources": listing.items, "resourceTemplates": templates});
    show(request, (ListKind::Resources, &listing), whole, |list| {
        let members = ["uri", "name", "mimeType"];
        let mut text = named(&list["resources"], &members, "URI  NAME  TYPE", "no resources");
        if has_templates {
            let members = ["uriTemplate", "name", "mimeType"];
            let head = "TEMPLATE  NAME  TYPE";
            text = format!("{text}\n\n{}", named(&list["resourceTemplates"], &members, head, ""));
        }
        text
    })
}

/// A table of these members. Of arguments it has the names; those that may be left out in
/// brackets.
fn named(list: &Value, members: &[&str], head: &str, none: &str) -> String {
    let argument = |argument: &Value| match cell(&argument["name"]) {
        name if argument["required"] == true => name,
        name => format!("[{name}]"),
    };
    let shown = |value: &Value| match value.as_array() {
        Some(arguments) => arguments.iter().map(argument).collect::<Vec<_>>().join(" "),
        None => cell(value),
    };
    let items = list.as_array().into_iter().flatten();
    let rows = items.map(|item| members.iter().map(|member| shown(&item[*member])).collect());
    table(head, &rows.collect::<Vec<_>>(), none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_listed_may_be_of_a_server_that_is_missing() {
        let items = vec![json!({"name": "git2__status"})];
        let missing = vec![json!({"server": "git", "state": "failed"})];
        let failure = unknown_tool("git__status", &ServerListing { items, missing }).to_string();
        assert!(failure.contains("missing: git (failed)"), "{failure}");
    }

    #[test]
    fn a_line_to_type_has_nothing_in_it_that_the_server_slipped_in() {
        let line = |name: &str, schema: Value| words_to_type(name, &ToolArguments::new(&schema));
        assert_eq!(line("add", json!({})).unwrap(), "add");
        assert_eq!(line("a\nb;c", json!({})).unwrap(), "'a b;c'");
        assert_eq!(line("--stdio=sh", json!({})), None);
        for name in ["--stdio", "\u{1b}--stdio"] {
            let schema = json!({"properties": {name: {"default": "sh"}}, "required": [name]});
            assert_eq!(line("add", schema), None, "{name:?}");
        }
    }
}
