//! How the program ends, and what it says when it could not do its work.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExitStatus {
    /// Done, or asked to stop.
    Success,
    /// It could not start.
    Failure,
    /// The arguments make no sense; clap uses the same number.
    Usage,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Success => Self::SUCCESS,
            ExitStatus::Failure => Self::FAILURE,
            ExitStatus::Usage => Self::from(2),
        }
    }
}

/// A start that failed: the fact with its causes, and what to do next.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    error: String,
    hints: Vec<String>,
}

impl Failure {
    /// States a fact.
    pub(crate) fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), hints: Vec::new() }
    }

    /// States an error and everything that led to it, in one line.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            // Writing to a string does not fail.
            _ = write!(text, ": {inner}");
            cause = inner.source();
        }
        Self::new(text)
    }

    /// Adds something to try.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Tells the user, on stderr.
    pub(crate) fn report(&self) {
        // Nobody is left to be told that stderr is closed.
        _ = write!(std::io::stderr().lock(), "{self}");
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "error: {}", one_line(&self.error))?;
        self.hints.iter().try_for_each(|hint| writeln!(out, "hint: {}", one_line(hint)))
    }
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).collect::<Vec<_>>().join(" ")
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
        let failure = Failure::of(&error).hint("buy some").hint("or bake");
        assert_eq!(
            failure.to_string(),
            "error: no bread: no flour\nhint: buy some\nhint: or bake\n"
        );
    }
}
