//! How the program ends, and what it says when it could not do its work.

use std::error::Error;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use crate::output::plain;

/// How the program ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExitStatus {
    /// Done, or asked to stop.
    Success = 0,
    /// It could not start.
    Failure = 1,
    /// The arguments make no sense; clap uses the same number.
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
    /// For scripts: one line of JSON instead of sentences.
    line: Option<Value>,
}

impl CommandError {
    /// States a fact.
    pub(crate) fn new(error: impl Into<String>) -> Self {
        let status = ExitStatus::Failure;
        Self { status, error: error.into(), hints: Vec::new(), line: None }
    }

    /// States an error and everything that led to it, in one line.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |&error| error.source());
        Self::new(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }

    /// The same as a mistake in the arguments.
    pub(crate) fn of_usage(self) -> Self {
        Self { status: ExitStatus::Usage, ..self }
    }

    /// Adds something to try.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same as one line of JSON, as the Inspector's command line has it;
    /// `kind` is a word for what went wrong.
    #[must_use]
    pub(crate) fn for_scripts(mut self, status: ExitStatus, kind: &str) -> Self {
        let mut error = json!({"kind": kind, "message": one_line(&self.error)});
        if !self.hints.is_empty() {
            error["hints"] = json!(self.hints);
        }
        self.line = Some(json!({ "error": error }));
        self.status = status;
        self
    }

    /// Adds a member to that line, if there is such a value.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let (Some(line), Some(value)) = (&mut self.line, value) {
            line["error"][name] = value.into();
        }
        self
    }

    /// The fact, and what to try, for a log.
    pub(crate) fn line(&self) -> String {
        let hints = self.hints.iter().map(String::as_str);
        std::iter::once(self.error.as_str()).chain(hints).collect::<Vec<_>>().join("; ")
    }

    /// Tells the user, on stderr: a script in JSON, a person in sentences.
    pub(crate) fn report(&self) {
        let stderr = std::io::stderr();
        let text = if stderr.is_terminal() { self.sentences() } else { self.to_string() };
        // There is no other stream to report this on.
        _ = write!(stderr.lock(), "{text}");
    }

    fn sentences(&self) -> String {
        let hints = self.hints.iter().map(|hint| format!("hint: {}\n", one_line(hint)));
        format!("error: {}\n{}", one_line(&self.error), hints.collect::<String>())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = &self.line {
            return writeln!(out, "{line}");
        }
        out.write_str(&self.sentences())
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
        let line = failure.for_scripts(ExitStatus::Failure, "other");
        assert_eq!(line.sentences(), "error: no bread: no flour\nhint: buy some\nhint: or bake\n");
        assert_eq!(line.to_string().lines().count(), 1);
    }

    #[test]
    fn what_a_server_says_in_an_error_cannot_drive_the_terminal() {
        let failure = CommandError::new("MCP error 1: a\u{1b}[2J\u{9b}31mb").hint("c\u{7}d");
        assert_eq!(failure.to_string(), "error: MCP error 1: a[2J31mb\nhint: cd\n");
    }
}
