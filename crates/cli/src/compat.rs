//! Understands the command lines of other bridges.
//!
//! A user of `supergateway`, `mcp-remote` or one of the two `mcp-proxy` can write our
//! name in its place. One table for each tool says what its flags mean; its help text is
//! made from the table. The line becomes a line of `switchboard bridge`, so that there is
//! one way to serve.
//!
//! ```text
//!   argv ─▶ whose line is it ─▶ read: flags, operands ─▶ arrange: what is served
//!             (here)              (translate.rs)          (supergateway.rs, …)
//!                                                              │
//!   clap ◀── switchboard bridge … ◀── the rows of the table ◀──┘
//! ```
//!
//! A line is for another tool
//!
//! - if the program was called by the name of the tool,
//! - if the name is the first argument, also after `-y` as with `npx`,
//! - if `bridge` has a flag that only the other tool knows,
//! - if it begins with no command of ours. Then the tool that knows most flags is taken.
//!
//! The flags say which `mcp-proxy` is meant. If they do not, it is the one of Python,
//! or with `-y` the one of npm.

use std::path::Path;

use crate::args;
use table::{Complaint, Lookup, Tool};
use translate::ParsedLine;

mod mcp_proxy_npm;
mod mcp_proxy_py;
mod mcp_remote;
mod supergateway;
mod table;
mod translate;

/// What a line comes to.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line {
    /// A line of switchboard, or of no tool that we know.
    Ours(Vec<String>),
    /// Theirs, in our words; and what the user has to know.
    Theirs { words: Vec<String>, notes: Vec<String> },
    /// They want to be told something.
    Answer(String),
    /// It makes no sense.
    Wrong(Complaint),
}

/// Every tool, in the order in which they are tried on a line that names none.
const TOOLS: [&Tool; 4] =
    [&supergateway::TOOL, &mcp_proxy_npm::TOOL, &mcp_remote::TOOL, &mcp_proxy_py::TOOL];

/// Reads a line; `lookup` is the environment.
pub(crate) fn understand(words: Vec<String>, lookup: Lookup<'_>) -> Line {
    let Some((tool, rest)) = whose(&words, lookup) else { return Line::Ours(words) };
    if rest.iter().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h") {
        return Line::Answer(table::help_text(tool));
    }
    if rest.iter().take_while(|word| *word != "--").any(|word| word == "--version") {
        let version = env!("CARGO_PKG_VERSION");
        return Line::Answer(format!("switchboard {version} as {}\n", tool.name));
    }
    match translate(tool, rest, lookup, false) {
        Ok((words, notes)) => Line::Theirs { words, notes },
        Err(complaint) => Line::Wrong(complaint),
    }
}

/// The tool that a line is for, and its arguments.
fn whose<'a>(words: &'a [String], lookup: Lookup<'_>) -> Option<(&'static Tool, &'a [String])> {
    let (program, rest) = words.split_first()?;
    let program = Path::new(program).file_stem()?.to_str()?;
    if let Some(tool) = by_name(program, rest, false) {
        return Some((tool, rest));
    }
    let is_yes = |word: &String| word == "-y" || word == "--yes";
    let yes = rest.iter().take_while(|word| is_yes(word)).count();
    if let Some((first, rest)) = rest[yes..].split_first()
        && let Some(tool) = by_name(first.split('@').next()?, rest, yes > 0)
    {
        return Some((tool, rest));
    }
    let (first, after) = rest.split_first()?;
    let known = |flag: &str| TOOLS.iter().any(|tool| tool.row(flag).is_some());
    let rest = if first == "bridge" {
        let is_foreign = |flag: &str| args::takes_value(flag).is_none() && known(flag);
        Some(after).filter(|rest| flags(rest).any(is_foreign))?
    } else {
        // Without a command of ours the line is theirs, or of no tool that we know.
        let is_flag = first.starts_with("--") && !args::is_global(first) && known(first);
        Some(rest).filter(|_| is_flag || first.contains("://"))?
    };
    let fits = |tool: &&'static Tool| translate(tool, rest, lookup, true).is_ok();
    let known = |tool: &&'static Tool| flags(rest).filter(|flag| tool.row(flag).is_some()).count();
    // Of equals the last counts, so the first tool must come last.
    let tool = TOOLS.into_iter().rev().filter(fits).max_by_key(known)?;
    Some((tool, rest))
}

fn by_name(name: &str, rest: &[String], npx: bool) -> Option<&'static Tool> {
    match name {
        "mcp-proxy" => Some(which_proxy(rest, npx)),
        name => TOOLS.into_iter().find(|tool| tool.name == name),
    }
}

/// The two tools of one name. A URL or a flag tells which is meant.
fn which_proxy(rest: &[String], npx: bool) -> &'static Tool {
    let [npm, python] = [&mcp_proxy_npm::TOOL, &mcp_proxy_py::TOOL];
    let flags = || flags(rest);
    let only = |tool: &Tool, other: &Tool| {
        flags().any(|flag| tool.row(flag).is_some() && other.row(flag).is_none())
    };
    match (only(npm, python), only(python, npm)) {
        (true, false) => npm,
        (false, true) => python,
        _ if npx => npm,
        _ => python,
    }
}

/// The flags of a line, as far as they are before `--`.
fn flags(rest: &[String]) -> impl Iterator<Item = &str> {
    let words = rest.iter().map(String::as_str).take_while(|word| *word != "--");
    words.filter(|word| word.starts_with('-')).map(|word| word.split('=').next().unwrap_or(word))
}

/// The line in our words, and what the user has to know. `strict` if a flag that
/// nobody knows is a mistake.
fn translate(
    tool: &'static Tool,
    rest: &[String],
    lookup: Lookup<'_>,
    strict: bool,
) -> Result<(Vec<String>, Vec<String>), Complaint> {
    let mut given = ParsedLine::read(tool, rest, strict)?;
    given.add_variables(lookup);
    let bridge = (tool.arrange)(&given, lookup)?;
    bridge.finish(&given)
}

/// Every flag of every tool.
#[cfg(test)]
fn rows() -> impl Iterator<Item = (&'static Tool, &'static table::Row)> {
    TOOLS.into_iter().flat_map(|tool| tool.rows.iter().map(move |row| (tool, row)))
}

#[cfg(test)]
mod tests;
