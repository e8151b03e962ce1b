//! Understands the command lines of other bridges.
//!
//! A user of `supergateway`, `mcp-remote` or one of the two `mcp-proxy` can write our
//! name in its place. One table for each tool says what its flags mean; its help text is
//! made from the table. The line becomes a line of `switchboard bridge`, so that there is
//! one way to serve.
//!
//! ```text
//!   argv ─▶ whose line is it ─▶ read: flags, operands ─▶ arrange: what is served
//!                                                          (supergateway.rs, …)
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
use crate::exit::{CommandResult, wrong};
use table::{FlagRow, ForeignTool, Lookup, Means, Needs, Takes, screaming};

mod mcp_proxy_npm;
mod mcp_proxy_py;
mod mcp_remote;
mod supergateway;
mod table;

/// What a line comes to.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum CommandLine {
    /// A line of switchboard, or of no tool that we know.
    Ours(Vec<String>),
    /// Theirs, in our words; and what the user has to know.
    Theirs { words: Vec<String>, notes: Vec<String> },
    /// They want to be told something.
    Answer(String),
}

/// Every tool, in the order in which they are tried on a line that names none.
const TOOLS: [&ForeignTool; 4] =
    [&supergateway::TOOL, &mcp_proxy_npm::TOOL, &mcp_remote::TOOL, &mcp_proxy_py::TOOL];

/// Reads a line; `lookup` is the environment.
pub(crate) fn understand(words: Vec<String>, lookup: Lookup<'_>) -> CommandResult<CommandLine> {
    let Some((tool, rest)) = whose(&words, lookup) else { return Ok(CommandLine::Ours(words)) };
    let says = |flags: &[&str]| before_dashes(rest).any(|word| flags.contains(&word));
    if says(&["--help", "-h"]) {
        return Ok(CommandLine::Answer(table::help_text(tool)));
    }
    if says(&["--version"]) {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(CommandLine::Answer(format!("switchboard {version} as {}\n", tool.name)));
    }
    let (words, notes) = translate(tool, rest, lookup, false)?;
    Ok(CommandLine::Theirs { words, notes })
}

/// The tool that a line is for, and its arguments.
fn whose<'a>(
    words: &'a [String],
    lookup: Lookup<'_>,
) -> Option<(&'static ForeignTool, &'a [String])> {
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
    let is_foreign = |flag: &str| args::value_count(flag).is_none() && known(flag);
    let is_flag = |flag: &str| flag.starts_with("--") && !args::is_global(flag) && known(flag);
    let rest = match first.as_str() {
        "bridge" if flags(after).any(is_foreign) => after,
        "bridge" => return None,
        // Without a command of ours the line is theirs, or of no tool that we know.
        first if is_flag(first) || first.contains("://") => rest,
        _ => return None,
    };
    let fits = |tool: &&'static ForeignTool| translate(tool, rest, lookup, true).is_ok();
    let known =
        |tool: &&'static ForeignTool| flags(rest).filter(|flag| tool.row(flag).is_some()).count();
    // Of equals the last counts, so the first tool must come last.
    let tool = TOOLS.into_iter().rev().filter(fits).max_by_key(known)?;
    Some((tool, rest))
}

fn by_name(name: &str, rest: &[String], npx: bool) -> Option<&'static ForeignTool> {
    match name {
        "mcp-proxy" => Some(which_proxy(rest, npx)),
        name => TOOLS.into_iter().find(|tool| tool.name == name),
    }
}

/// The two tools of one name. A URL or a flag tells which is meant.
fn which_proxy(rest: &[String], npx: bool) -> &'static ForeignTool {
    let [npm, python] = [&mcp_proxy_npm::TOOL, &mcp_proxy_py::TOOL];
    let only = |tool: &ForeignTool, other: &ForeignTool| {
        flags(rest).any(|flag| tool.row(flag).is_some() && other.row(flag).is_none())
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
    let flags = before_dashes(rest).filter(|word| word.starts_with('-'));
    flags.map(|word| word.split('=').next().unwrap_or(word))
}

fn before_dashes(rest: &[String]) -> impl Iterator<Item = &str> {
    rest.iter().map(String::as_str).take_while(|word| *word != "--")
}

/// The line in our words, and what the user has to know. `strict` if a flag that
/// nobody knows is a mistake.
fn translate(
    tool: &'static ForeignTool,
    rest: &[String],
    lookup: Lookup<'_>,
    strict: bool,
) -> CommandResult<(Vec<String>, Vec<String>)> {
    let mut given = ParsedLine::read(tool, rest, strict)?;
    given.add_variables(lookup);
    (tool.arrange)(&given, lookup)?.finish(&given)
}

/// What a line says.
#[derive(Debug)]
pub(crate) struct ParsedLine {
    tool: &'static ForeignTool,
    flags: Vec<(&'static FlagRow, Vec<String>)>,
    /// What is no flag and belongs to none.
    operands: Vec<String>,
    /// What follows `--`.
    command: Vec<String>,
    /// Flags of ours among theirs.
    ours: Vec<String>,
    notes: Vec<String>,
}

/// What a switch says when it is off.
const OFF: &str = "false";

impl ParsedLine {
    fn read(tool: &'static ForeignTool, words: &[String], strict: bool) -> CommandResult<Self> {
        let [operands, command, ours, notes] = [(); 4].map(|()| Vec::new());
        let mut given = Self { tool, flags: Vec::new(), operands, command, ours, notes };
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if word == "--" {
                given.command = rest.to_vec();
                break;
            }
            if !word.starts_with('-') || word == "-" {
                given.operands.push(word.clone());
                continue;
            }
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (word.as_str(), None),
            };
            rest = match tool.find(flag) {
                Some((row, off)) => given.take(row, off, value, rest)?,
                None => given.take_unknown(word, flag, value, rest, strict)?,
            };
        }
        Ok(given)
    }

    /// Takes the values of a flag; what is left of the line.
    fn take<'a>(
        &mut self,
        row: &'static FlagRow,
        off: bool,
        value: Option<&str>,
        rest: &'a [String],
    ) -> CommandResult<&'a [String]> {
        let free = rest.iter().take_while(|word| !word.starts_with('-')).count();
        let is_switch = |word: &str| word == "true" || word == OFF;
        let count = match (row.takes, value) {
            (Takes::Nothing, None) => rest.first().filter(|word| is_switch(word)).iter().count(),
            (Takes::Maybe, None) => free.min(1),
            (Takes::One, None) | (Takes::Two, Some(_)) => 1,
            (Takes::Two, None) => 2,
            (Takes::Any, _) => free,
            (_, Some(_)) => 0,
        };
        if count > rest.len() {
            return wrong(format!("{} needs a value", row.flag), self.see_help());
        }
        let (more, rest) = rest.split_at(count);
        let mut values: Vec<String> = value.map(ToOwned::to_owned).into_iter().collect();
        values.extend_from_slice(more);
        if row.takes == Takes::Nothing {
            let is_off = off != values.first().is_some_and(|value| value == OFF);
            values = vec![if is_off { OFF.to_owned() } else { "true".to_owned() }];
        }
        self.flags.push((row, values));
        Ok(rest)
    }

    fn see_help(&self) -> String {
        format!("see {} --help", self.tool.name)
    }

    /// A flag of ours, an argument of a command that stands without `--`, or
    /// something that nobody knows.
    fn take_unknown<'a>(
        &mut self,
        word: &str,
        flag: &str,
        value: Option<&str>,
        rest: &'a [String],
        strict: bool,
    ) -> CommandResult<&'a [String]> {
        if let Some(count) = args::value_count(flag) {
            let count = count.saturating_sub(value.iter().count()).min(rest.len());
            self.ours.push(word.to_owned());
            self.ours.extend_from_slice(&rest[..count]);
            return Ok(&rest[count..]);
        }
        if self.operands.first().is_some_and(|first| !first.contains("://")) {
            self.operands.push(word.to_owned());
            return Ok(rest);
        }
        let what = format!("{} has no flag {flag}", self.tool.name);
        if strict || !self.tool.yargs {
            return wrong(what, self.see_help());
        }
        self.notes.push(format!("{what}; it is left out"));
        let is_value = |word: &String| !word.starts_with('-') && !word.contains("://");
        let has_value = value.is_none() && rest.first().is_some_and(is_value);
        Ok(&rest[usize::from(has_value)..])
    }

    /// Flags that are set by variables and not on the line.
    fn add_variables(&mut self, lookup: Lookup<'_>) {
        let Some(prefix) = self.tool.variables else { return };
        for row in self.tool.rows {
            let name = format!("{prefix}_{}", screaming(row.flag));
            let Some(mut value) = lookup(&name).filter(|_| !self.says(row.flag)) else { continue };
            if row.takes == Takes::Nothing && value != "true" {
                OFF.clone_into(&mut value);
            }
            self.flags.push((row, vec![value]));
        }
    }

    /// Whether the line has this flag.
    fn says(&self, flag: &str) -> bool {
        self.flags.iter().any(|(row, _)| row.flag == flag)
    }

    /// Whether this switch is on.
    fn is_on(&self, flag: &str) -> bool {
        self.last(flag).is_some_and(|value| value != OFF)
    }

    /// Whether this switch is said to be off.
    fn is_off(&self, flag: &str) -> bool {
        self.last(flag) == Some(OFF)
    }

    /// The last value of this flag.
    fn last(&self, flag: &str) -> Option<&str> {
        let (_, values) = self.flags.iter().rev().find(|(row, _)| row.flag == flag)?;
        values.last().map(String::as_str)
    }

    /// All values of this flag, in the order of the line.
    fn all(&self, flag: &str) -> impl Iterator<Item = &[String]> {
        self.flags.iter().filter(move |(row, _)| row.flag == flag).map(|(_, values)| &values[..])
    }
}

/// What is served, and where.
#[derive(Debug, Default)]
pub(crate) struct BridgeLine {
    /// The server at the root in our words: a URL, `--stdio=…`, or `--` and a command.
    server: Vec<String>,
    /// None for stdin and stdout.
    port: Option<String>,
    /// Words of ours that follow from all flags together.
    words: Vec<String>,
    notes: Vec<String>,
}

impl BridgeLine {
    /// Adds a flag of ours.
    fn say(&mut self, flag: &str, value: impl AsRef<str>) {
        self.words.push(format!("{flag}={}", value.as_ref()));
    }

    /// Adds words of ours.
    fn add(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(ToString::to_string));
    }

    /// Serves a command.
    fn run(&mut self, words: &[String]) {
        self.server = vec!["--".to_owned()];
        self.server.extend_from_slice(words);
    }

    fn is_for_url(&self) -> bool {
        self.server.first().is_some_and(|word| !word.starts_with("--"))
    }

    /// The whole line in our words, and what the user has to know.
    fn finish(mut self, given: &ParsedLine) -> CommandResult<(Vec<String>, Vec<String>)> {
        self.notes.extend_from_slice(&given.notes);
        for (row, values) in &given.flags {
            if let Some(why) = self.misplaced(row) {
                self.notes.push(format!("{} has no effect here: {why}", row.flag));
                continue;
            }
            self.apply(row, values)?;
        }
        let mut line = vec!["switchboard".to_owned(), "bridge".to_owned()];
        line.append(&mut self.words);
        line.extend(self.port.map(|port| format!("--port={port}")));
        line.extend_from_slice(&given.ours);
        line.append(&mut self.server);
        Ok((line, self.notes))
    }

    fn misplaced(&self, row: &FlagRow) -> Option<&'static str> {
        match row.needs {
            Needs::Port if self.port.is_none() => Some("nothing is served over HTTP"),
            Needs::Url if !self.is_for_url() => Some("the server is a command"),
            Needs::Command | Needs::Unnamed if self.is_for_url() => Some("the server is at a URL"),
            Needs::Unnamed if self.server.is_empty() => Some("it is not for servers with a name"),
            _ => None,
        }
    }

    fn apply(&mut self, row: &FlagRow, values: &[String]) -> CommandResult {
        let is_off = values.first().is_some_and(|value| value == OFF);
        match row.means {
            Means::Ours(flag) => values.iter().for_each(|value| self.say(flag, value)),
            Means::Converted(flag, turn) => match turn(values) {
                Ok(turned) => turned.iter().for_each(|value| self.say(flag, value)),
                Err(why) => {
                    return wrong(format!("{} {}: {why}", row.flag, values.join(" ")), row.help);
                }
            },
            Means::Word(word) if !is_off => self.add(&[word]),
            Means::Ignored(why) if !is_off => {
                self.notes.push(format!("{} is ignored: {why}", row.flag));
            }
            Means::Refused(why) if !is_off => {
                return wrong(format!("{}: {why}", row.flag), "leave it out");
            }
            _ => {}
        }
        Ok(())
    }
}

/// Every flag of every tool.
#[cfg(test)]
fn rows() -> impl Iterator<Item = (&'static ForeignTool, &'static FlagRow)> {
    TOOLS.into_iter().flat_map(|tool| tool.rows.iter().map(move |row| (tool, row)))
}

#[cfg(test)]
mod tests;
