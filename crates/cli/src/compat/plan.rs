//! What a line of theirs asks for, and how to say it in our words.

use super::read::Given;
use super::table::{Complaint, Means, Needs, Row};

/// What is served, and where.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(super) server: Server,
    /// None for stdin and stdout.
    pub(super) port: Option<String>,
    /// Words of ours that follow from all flags together.
    pub(super) words: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// The server at the root.
#[derive(Debug, Default)]
pub(super) enum Server {
    #[default]
    None,
    Url(String),
    /// As words.
    Command(Vec<String>),
    /// In one string.
    Line(String),
}

impl Plan {
    /// Adds a flag of ours.
    pub(super) fn say(&mut self, flag: &str, value: impl AsRef<str>) {
        self.words.push(format!("{flag}={}", value.as_ref()));
    }

    /// The whole line in our words, and what the user has to know.
    pub(super) fn finish(mut self, given: &Given) -> Result<(Vec<String>, Vec<String>), Complaint> {
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
            Server::None => {}
            Server::Url(url) => line.push(url),
            Server::Line(text) => line.push(format!("--stdio={text}")),
            Server::Command(words) => {
                line.push("--".to_owned());
                line.extend(words);
            }
        }
        Ok((line, self.notes))
    }

    fn misplaced(&self, row: &Row) -> Option<&'static str> {
        match (row.needs, &self.server) {
            (Needs::Port, _) if self.port.is_none() => Some("nothing is served over HTTP"),
            (Needs::Url, Server::Command(_) | Server::Line(_) | Server::None) => {
                Some("the server is a command")
            }
            (Needs::Command | Needs::Unnamed, Server::Url(_)) => Some("the server is at a URL"),
            (Needs::Unnamed, Server::None) => Some("it is not for servers with a name"),
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
            Means::Turned(flag, turn) => {
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
            Means::Later(why) if !is_off => {
                self.notes.push(format!("{} is understood but not honoured yet: {why}", row.flag));
            }
            Means::Never(why) if !is_off => {
                return Err(Complaint::new(format!("{}: {why}", row.flag), "leave it out"));
            }
            _ => {}
        }
        Ok(())
    }
}
