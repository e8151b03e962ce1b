//! `switchboard approve`: tools that changed since they were first seen or approved.

use serde_json::{Value, json};
use switchboard_gateway::approval::{self, Difference, ServerRecord, WaitingChange, differences};
use switchboard_gateway::hidden::marked;
use switchboard_net::private_folder::PrivateFolder;

use super::serve::gateway_folder;
use crate::args::{ApproveArgs, Form};
use crate::exit::{CommandError, CommandResult, wrong};
use crate::output::counted;
use crate::target::{nearby_files, surroundings};

/// Shows what waits, or approves what is named.
pub(crate) fn run(args: &ApproveArgs) -> CommandResult {
    let mut files = args.config.clone();
    if files.is_empty() {
        files = nearby_files(&surroundings()?);
    }
    let Some(folder) = gateway_folder(&files) else {
        return wrong("there is no configuration file", "name those of the gateway: --config FILE");
    };
    let records = approval::read_records(&folder)?;
    let waiting: Vec<_> = records.iter().flat_map(ServerRecord::waiting).collect();
    if args.names.is_empty() && !args.all {
        let rows: Vec<_> = waiting.iter().map(described).collect();
        args.output.show(&json!({ "waiting": rows }), |_| text(&waiting));
        return Ok(());
    }
    let is_meant =
        |change: &&WaitingChange, name: &String| *name == change.server || *name == address(change);
    let unknown = args.names.iter().find(|name| !waiting.iter().any(|it| is_meant(&it, name)));
    if let Some(name) = unknown {
        let what = format!("nothing that waits is called {name:?}");
        return wrong(what, "switchboard approve shows what waits; names are SERVER/NAME");
    }
    let named = |it: &&WaitingChange| args.all || args.names.iter().any(|name| is_meant(it, name));
    approve(&folder, waiting.iter().filter(named), args.output)
}

fn approve<'c>(
    folder: &PrivateFolder,
    changes: impl Iterator<Item = &'c WaitingChange>,
    output: Form,
) -> CommandResult {
    let mut approved = Vec::new();
    for change in changes {
        if !approval::approve_in(folder, change)? {
            let what = format!("{} changed once more meanwhile", address(change));
            return Err(CommandError::new(what).hint("look at it again: switchboard approve"));
        }
        approved.push(address(change));
    }
    output.show(&json!({ "approved": approved }), |_| match approved.len() {
        0 => "nothing waits".to_owned(),
        count => format!("approved {}", counted(count, "definition")),
    });
    Ok(())
}

/// What users call it.
fn address(change: &WaitingChange) -> String {
    format!("{}/{}", change.server, change.name)
}

fn described(change: &WaitingChange) -> Value {
    let WaitingChange { server, kind, name, is_new, before, after, .. } = change;
    let changes = differences(before.as_deref(), after.as_deref());
    let changes = changes.into_iter().map(|Difference { path, before, after }| {
        json!({"path": path, "before": before, "after": after})
    });
    let changes: Vec<_> = changes.collect();
    json!({"server": server, "kind": kind.noun(), "name": name, "isNew": is_new, "changes": changes})
}

fn text(waiting: &[WaitingChange]) -> String {
    if waiting.is_empty() {
        return "nothing waits: no tool has changed since it was approved".to_owned();
    }
    let mut lines = Vec::new();
    for change in waiting {
        let what = if change.is_new { "is new" } else { "changed" };
        lines.push(format!("{} ({}) {what}", marked(&address(change)), change.kind.noun()));
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        if after.is_none() || (before.is_none() && !change.is_new) {
            lines.push("  its text was too long to be kept".to_owned());
            continue;
        }
        for Difference { path, before, after } in differences(before, after) {
            lines.push(format!("  {}", marked(&path)));
            for (sign, text) in [('-', before), ('+', after)] {
                let text = text.map(|text| marked(&text)).unwrap_or_default();
                lines.extend(text.lines().map(|line| format!("    {sign} {line}")));
            }
        }
    }
    lines.push("\nApprove what you have read: switchboard approve SERVER/NAME".to_owned());
    lines.join("\n")
}
