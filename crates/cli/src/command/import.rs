//! `switchboard import`: the servers of other clients, in one file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_gateway::config::{
    Candidate, Import, ImportOutcome, ReadError, Surroundings, known, replace_file,
};
use switchboard_net::upstream::Target;

use crate::args::{Form, ImportArgs};
use crate::exit::{CommandError, CommandResult, cannot, wrong};
use crate::file_change::{self, ask};
use crate::output::{counted, plain, table, write_line};
use crate::target::{not_read, short, surroundings};

/// Shows what there is, and writes it if that was asked for.
pub(crate) fn run(args: &ImportArgs) -> CommandResult {
    let around = surroundings()?;
    let end = args.write.as_ref().and_then(|file| file.extension());
    if end.is_some_and(|end| ["toml", "yaml", "yml"].iter().any(|it| end.eq_ignore_ascii_case(it)))
    {
        let hint = "name a file that ends with .json; TOML and YAML files are read all the same";
        return wrong("servers can be added to JSON files only", hint)
            .map_err(CommandError::of_usage);
    }
    let from = places(args, &around)?;
    let import = Import::gather(&from, args.write.as_deref(), &around).map_err(|e| not_read(&e))?;
    let rows: Vec<_> = import.candidates.iter().map(describe).collect();
    args.output.show(&json!({ "servers": rows }), |_| text(&import, &around));
    if let Some(file) = &args.write {
        return write(&import, file, args);
    }
    if import.added() > 0 {
        say(args, "\nPut them into a file with --write FILE.");
    }
    Ok(())
}

/// The files that the user named must be there; of the usual ones some are.
fn places(args: &ImportArgs, around: &Surroundings) -> CommandResult<Vec<(String, PathBuf)>> {
    if args.from.is_empty() {
        return Ok(known(around));
    }
    let named = args.from.iter().map(|file| {
        let hint = "check its path and who may read it";
        fs::metadata(file).map_err(cannot("read", file, hint))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((stem, file.clone()))
    });
    named.collect()
}

/// A server for scripts.
fn describe(found: &Candidate) -> Value {
    let (status, name) = match &found.fate {
        ImportOutcome::Added(name) => ("new", Some(name)),
        ImportOutcome::Same(name) => ("same", Some(name)),
        ImportOutcome::Broken => ("broken", None),
        ImportOutcome::Gateway => ("gateway", None),
    };
    let problems = found.problems.iter();
    let problems = problems.map(|problem| format!("{problem}; {}", problem.instead));
    json!({
        "name": found.name,
        "client": found.client,
        "file": found.place.file.to_string_lossy(),
        "line": found.place.line,
        "status": status,
        "as": name,
        "problems": problems.collect::<Vec<_>>(),
    })
}

/// The table for people, and what is wrong below it.
fn text(import: &Import, around: &Surroundings) -> String {
    let rows = import.candidates.iter().map(|found| {
        let whose = format!("{} ({})", found.client, short(&found.place.file, around));
        [&found.name, &place(found), &whose, &fate(found)].map(|cell| plain(cell)).to_vec()
    });
    let rows: Vec<_> = rows.collect();
    let head = "NAME  SERVER  FROM  WHAT BECOMES OF IT";
    let mut lines = vec![table(head, &rows, "No other client names a server.")];
    let broken = import.candidates.iter().flat_map(Candidate::errors);
    lines.extend(broken.map(|problem| format!("{problem}; {}", problem.instead)));
    lines.extend(import.unread.iter().map(ReadError::line));
    lines.join("\n")
}

/// The program or the host: never anything that may be a secret.
fn place(found: &Candidate) -> String {
    match found.entry.as_ref().map(|entry| &entry.plan.target) {
        // Some write the whole command line in the place of the program.
        Some(Target::Command(command)) => {
            command.program.split_whitespace().next().unwrap_or_default().to_owned()
        }
        Some(Target::Url { url, .. }) => url.host().unwrap_or_default().to_owned(),
        None => "?".to_owned(),
    }
}

fn fate(found: &Candidate) -> String {
    let is_off = found.entry.as_ref().is_some_and(|entry| !entry.enabled);
    match &found.fate {
        ImportOutcome::Added(name) if *name != found.name => format!("new, as {name}"),
        ImportOutcome::Added(_) if is_off => "new, switched off".to_owned(),
        ImportOutcome::Added(_) => "new".to_owned(),
        ImportOutcome::Same(name) => format!("the same as {name}"),
        ImportOutcome::Broken => "left out: it has mistakes".to_owned(),
        ImportOutcome::Gateway => "left out: it is this gateway".to_owned(),
    }
}

fn write(import: &Import, file: &Path, args: &ImportArgs) -> CommandResult {
    let count = import.added();
    if count == 0 {
        say(args, &format!("\nNothing to add to {}.", file.display()));
        return Ok(());
    }
    if !args.yes && !ask(&format!("Add {} to {}?", counted(count, "server"), file.display()))? {
        say(args, "Nothing was written.");
        return Ok(());
    }
    let failed = cannot("write", file, "check its path and who may write there");
    let before = file_change::read(file).map_err(&failed)?.unwrap_or_default();
    let hint = "write { \"mcpServers\": {} }, or name another file";
    let after = import.merge(file, &before).map_err(cannot("add to", file, hint))?;
    replace_file(file, &after).map_err(&failed)?;
    say(args, &format!("\nAdded {} to {}.", counted(count, "server"), file.display()));
    Ok(())
}

fn say(args: &ImportArgs, text: &str) {
    if args.output == Form::Text {
        write_line(text);
    }
}
