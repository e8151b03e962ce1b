//! Reads a line of another tool, and says it as a line of `switchboard bridge`.

use super::table::{Complaint, Lookup, Means, Needs, Row, Takes, Tool, screaming};
use crate::args;

/// What a line says.
#[derive(Debug)]
pub(crate) struct ParsedLine {
    tool: &'static Tool,
    flags: Vec<(&'static Row, Vec<String>)>,
    /// What is no flag and belongs to none.
    pub(super) operands: Vec<String>,
    /// What follows `--`.
    pub(super) command: Vec<String>,
    /// Flags of ours among theirs.
    pub(super) ours: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// What a switch says when it is off.
const OFF: &str = "false";

impl ParsedLine {
    pub(super) fn read(
        tool: &'static Tool,
        words: &[String],
        strict: bool,
    ) -> Result<Self, Complaint> {
        let mut given = Self {
            tool,
            flags: Vec::new(),
            operands: Vec::new(),
            command: Vec::new(),
            ours: Vec::new(),
            notes: Vec::new(),
        };
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
        row: &'static Row,
        off: bool,
        value: Option<&str>,
        rest: &'a [String],
    ) -> Result<&'a [String], Complaint> {
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
            return Err(self.lacks_value(row));
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

    fn lacks_value(&self, row: &Row) -> Complaint {
        let what = format!("{} needs a value", row.flag);
        Complaint::new(what, format!("see {} --help", self.tool.name))
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
    ) -> Result<&'a [String], Complaint> {
        if let Some(takes_value) = args::takes_value(flag) {
            let count = usize::from(takes_value && value.is_none()).min(rest.len());
            self.ours.push(word.to_owned());
            self.ours.extend_from_slice(&rest[..count]);
            return Ok(&rest[count..]);
        }
        if self.operands.first().is_some_and(|first| !first.contains("://")) {
            self.operands.push(word.to_owned());
            return Ok(rest);
        }
        let (name, what) = (self.tool.name, format!("{} has no flag {flag}", self.tool.name));
        if strict || !self.tool.yargs {
            return Err(Complaint::new(what, format!("see {name} --help")));
        }
        self.notes.push(format!("{what}; it is left out"));
        let is_value = |word: &String| !word.starts_with('-') && !word.contains("://");
        let has_value = value.is_none() && rest.first().is_some_and(is_value);
        Ok(&rest[usize::from(has_value)..])
    }

    /// Flags that are set by variables and not on the line.
    pub(super) fn add_variables(&mut self, lookup: Lookup<'_>) {
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

    pub(super) fn flags(&self) -> &[(&'static Row, Vec<String>)] {
        &self.flags
    }

    /// Whether the line has this flag.
    pub(super) fn says(&self, flag: &str) -> bool {
        self.flags.iter().any(|(row, _)| row.flag == flag)
    }

    /// Whether this switch is on.
    pub(super) fn is_on(&self, flag: &str) -> bool {
        self.last(flag).is_some_and(|value| value != OFF)
    }

    /// The last value of this flag.
    pub(super) fn last(&self, flag: &str) -> Option<&str> {
        let (_, values) = self.flags.iter().rev().find(|(row, _)| row.flag == flag)?;
        values.last().map(String::as_str)
    }

    /// All values of this flag, in the order of the line.
    pub(super) fn all(&self, flag: &str) -> impl Iterator<Item = &[String]> {
        self.flags.iter().filter(move |(row, _)| row.flag == flag).map(|(_, values)| &values[..])
    }
}

/// What is served, and where.
#[derive(Debug, Default)]
pub(crate) struct BridgeLine {
    pub(super) server: BridgeServer,
    /// None for stdin and stdout.
    pub(super) port: Option<String>,
    /// Words of ours that follow from all flags together.
    pub(super) words: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// The server at the root.
#[derive(Debug, Default)]
pub(super) enum BridgeServer {
    #[default]
    None,
    Url(String),
    /// As words.
    Command(Vec<String>),
    /// In one string.
    Line(String),
}

impl BridgeLine {
    /// Adds a flag of ours.
    pub(super) fn say(&mut self, flag: &str, value: impl AsRef<str>) {
        self.words.push(format!("{flag}={}", value.as_ref()));
    }

    /// The whole line in our words, and what the user has to know.
    pub(super) fn finish(
        mut self,
        given: &ParsedLine,
    ) -> Result<(Vec<String>, Vec<String>), Complaint> {
        self.notes.extend_from_slice(&given.notes);
        for (row, values) in given.flags() {
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
        match self.server {
            BridgeServer::None => {}
            BridgeServer::Url(url) => line.push(url),
            BridgeServer::Line(text) => line.push(format!("--stdio={text}")),
            BridgeServer::Command(words) => {
                line.push("--".to_owned());
                line.extend(words);
            }
        }
        Ok((line, self.notes))
    }

    fn misplaced(&self, row: &Row) -> Option<&'static str> {
        match (row.needs, &self.server) {
            (Needs::Port, _) if self.port.is_none() => Some("nothing is served over HTTP"),
            (Needs::Url, BridgeServer::Command(_) | BridgeServer::Line(_) | BridgeServer::None) => {
                Some("the server is a command")
            }
            (Needs::Command | Needs::Unnamed, BridgeServer::Url(_)) => {
                Some("the server is at a URL")
            }
            (Needs::Unnamed, BridgeServer::None) => Some("it is not for servers with a name"),
            _ => None,
        }
    }

    fn apply(&mut self, row: &Row, values: &[String]) -> Result<(), Complaint> {
        let is_off = values.first().is_some_and(|value| value == "false");
        match row.means {
            Means::Ours(flag) => {
                for value in values {
                    self.say(flag, value);
                }
            }
            Means::Converted(flag, turn) => {
                let turned = turn(values).map_err(|why| {
                    let what = format!("{} {}: {why}", row.flag, values.join(" "));
                    Complaint::new(what, row.help)
                })?;
                for value in turned {
                    self.say(flag, value);
                }
            }
            Means::Words(words) if !is_off => {
                self.words.extend(words.iter().map(|&word| word.to_owned()));
            }
            Means::Ignored(why) if !is_off => {
                self.notes.push(format!("{} is ignored: {why}", row.flag));
            }
            Means::Refused(why) if !is_off => {
                return Err(Complaint::new(format!("{}: {why}", row.flag), "leave it out"));
            }
            _ => {}
        }
        Ok(())
    }
}
