//! How the program ends, and what it says when it could not do its work.

use std::error::Error;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use clap::builder::styling::Style;
use serde_json::{Map, Value, json};

use crate::output::{BAD, HINT, plain};

/// How the program ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExitStatus {
    /// Done, or asked to stop.
    Success = 0,
    /// It could not be done, or not even be started.
    Failure = 1,
    /// The arguments make no sense, whatever the command; clap uses the same number.
    Usage = 2,
    /// The server does not let us in.
    Auth = 3,
    /// The server cannot be reached.
    Unreachable = 4,
    /// The tool says that it failed.
    Tool = 5,
    /// A signal came first.
    Interrupted = 130,
}

/// What failed: the fact with its causes, and what to do next.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct CommandError {
    pub(crate) status: ExitStatus,
    error: String,
    hints: Vec<String>,
    /// For scripts: a word for what went wrong, and what else is known of it.
    kind: &'static str,
    members: Map<String, Value>,
}

impl CommandError {
    /// States a fact.
    pub(crate) fn new(error: impl Into<String>) -> Self {
        let (status, kind) = (ExitStatus::Failure, "other");
        Self { status, error: error.into(), hints: Vec::new(), kind, members: Map::new() }
    }

    /// States an error and everything that led to it, in one line.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |&error| error.source());
        Self::new(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }

    /// The same as a mistake in the arguments.
    pub(crate) fn of_usage(self) -> Self {
        self.for_scripts(ExitStatus::Usage, "usage")
    }

    /// Adds something to try.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says how the program ends, and a word for what went wrong, as the Inspector's command
    /// line has it.
    #[must_use]
    pub(crate) fn for_scripts(self, status: ExitStatus, kind: &'static str) -> Self {
        Self { status, kind, ..self }
    }

    /// Adds a member for scripts, if there is such a value.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        self.members.extend(value.map(|value| (name.to_owned(), value.into())));
        self
    }

    /// The fact, and what to try, for a log.
    pub(crate) fn line(&self) -> String {
        let hints = self.hints.iter().map(String::as_str);
        std::iter::once(self.error.as_str()).chain(hints).collect::<Vec<_>>().join("; ")
    }

    /// Tells the user, on stderr: a person in sentences, a script in one line of JSON.
    pub(crate) fn report(&self) {
        let text = if std::io::stderr().is_terminal() {
            self.sentences(BAD, HINT)
        } else {
            format!("{}\n", self.json())
        };
        // There is no other stream to report this on.
        _ = anstream::stderr().write_all(text.as_bytes());
    }

    fn sentences(&self, bad: Style, hint: Style) -> String {
        let hints = self.hints.iter();
        let hints = hints.map(|text| format!("{hint}hint:{hint:#} {}\n", one_line(text)));
        // What a tool says of its failure may be a page; everything else is one line.
        let text = match self.status {
            ExitStatus::Tool => plain(&self.error),
            _ => one_line(&self.error),
        };
        format!("{bad}error:{bad:#} {}\n{}", text.trim_end(), hints.collect::<String>())
    }

    fn json(&self) -> Value {
        let mut error = json!({"kind": self.kind, "message": one_line(&self.error)});
        if !self.hints.is_empty() {
            error["hints"] = json!(self.hints);
        }
        for (name, value) in &self.members {
            error[name] = value.clone();
        }
        json!({ "error": error })
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentences(Style::new(), Style::new()))
    }
}

/// What a command comes to.
pub(crate) type CommandResult<T = ()> = Result<T, CommandError>;

impl<E: Error + 'static> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

/// A failure with something to try.
pub(crate) fn wrong<T>(error: impl Into<String>, hint: impl Into<String>) -> CommandResult<T> {
    Err(CommandError::new(error).hint(hint))
}

/// Makes a failure of what went wrong with a file.
pub(crate) fn cannot<E: fmt::Display>(
    act: &str,
    file: &Path,
    hint: &str,
) -> impl Fn(E) -> CommandError {
    move |error| CommandError::new(format!("cannot {act} {}: {error}", file.display())).hint(hint)
}

/// Servers and their texts may be in it, so nothing in it drives the terminal.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(|line| plain(line.trim())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_with_its_causes_and_a_line_for_each_hint() {
        #[derive(Debug, thiserror::Error)]
        #[error("no bread")]
        struct Outer(#[source] std::io::Error);

        let error = Outer(std::io::Error::other("no\nflour"));
        let failure = CommandError::of(&error).hint("buy some").hint("or bake");
        assert_eq!(
            failure.to_string(),
            "error: no bread: no flour\nhint: buy some\nhint: or bake\n"
        );
        let line = failure.for_scripts(ExitStatus::Auth, "auth").with("status", Some(401)).json();
        assert_eq!(
            line,
            json!({"error": {"kind": "auth", "message": "no bread: no flour",
                "hints": ["buy some", "or bake"], "status": 401}})
        );
    }

    #[test]
    fn what_a_server_says_in_an_error_cannot_drive_the_terminal() {
        let failure = CommandError::new("MCP error 1: a\u{1b}[2J\u{9b}31mb").hint("c\u{7}d");
        assert_eq!(failure.to_string(), "error: MCP error 1: a[2J31mb\nhint: cd\n");
        let failure = CommandError::new("a\u{1b}[2J\n  b").for_scripts(ExitStatus::Tool, "tool");
        assert_eq!(failure.to_string(), "error: a[2J\n  b\n");
    }
}
