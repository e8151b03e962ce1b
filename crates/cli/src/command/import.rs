//! `switchboard import`: the servers of other clients, in one file.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_gateway::config::{
    Candidate, Import, ImportOutcome, ReadError, Surroundings, known,
};
use switchboard_net::platform;
use switchboard_net::upstream::Target;

use crate::args::{Form, ImportArgs};
use crate::exit::{CommandResult, cannot, wrong};
use crate::output::{counted, plain, table, write_line};
use crate::target::{not_read, short, surroundings};

/// Shows what there is, and writes it if that was asked for.
pub(crate) fn run(args: &ImportArgs) -> CommandResult {
    let around = surroundings()?;
    let end = args.write.as_ref().and_then(|file| file.extension());
    if end.is_some_and(|end| end.eq_ignore_ascii_case("toml")) {
        let hint = "name a file that ends with .json; TOML files are read all the same";
        return wrong("servers can be added to JSON files only", hint);
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
        Some(Target::Command(command)) => command.program.clone(),
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
    let before = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.map_err(&failed)?,
    };
    let hint = "write { \"mcpServers\": {} }, or name another file";
    let after = import.merge(&before).map_err(cannot("add to", file, hint))?;
    replace(file, &after).map_err(&failed)?;
    say(args, &format!("\nAdded {} to {}.", counted(count, "server"), file.display()));
    Ok(())
}

fn say(args: &ImportArgs, text: &str) {
    if args.output == Form::Text {
        write_line(text);
    }
}

/// Asks on the terminal; without one the answer is no.
fn ask(question: &str) -> CommandResult<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let what = "nothing was written, for nobody can be asked here";
        return wrong(what, "write without asking: --yes");
    }
    // Without stderr the question cannot be shown.
    _ = write!(io::stderr().lock(), "\n{question} [y/N] ");
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Puts a whole file in the place of the old one, so that none is half written.
/// A new one is for its owner alone: servers may have tokens in it.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let draft = file.with_added_extension(format!("{}~", std::process::id()));
    let write = || {
        let mut opened = platform::private_file().write(true).create_new(true).open(&draft)?;
        if let Ok(known) = fs::metadata(&file) {
            opened.set_permissions(known.permissions())?;
        }
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&draft, &file)
    };
    // A half-written file is of no use.
    write().inspect_err(|_| _ = fs::remove_file(&draft))
}
