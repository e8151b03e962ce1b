//! How a child ended, and what it said last.

use std::fmt;

/// The end of a child: every call still open fails with this text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exit {
    /// What the system reported.
    pub status: Status,
    /// Why, if it is known better than the status says; for people.
    pub reason: Option<String>,
    /// The tail of stderr, oldest line first, bounded and made harmless.
    pub last_words: Vec<String>,
}

/// What became of the process.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// It exited by itself.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Nobody saw it end: it withstood SIGKILL, or the runtime ended first.
    Unseen,
}

impl Exit {
    /// The same without what the child itself said: that may hold anything.
    pub fn brief(&self) -> String {
        format!("Transport closed ({})", self.status)
    }

    /// Nobody saw the child end.
    pub fn unseen(last_words: Vec<String>) -> Self {
        Self { status: Status::Unseen, reason: None, last_words }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(out, "exit status {code}"),
            Self::Signal(signal) => write!(out, "killed by signal {signal}"),
            Self::Unseen => out.write_str("end not seen"),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(out, "Transport closed ({}: {reason})", self.status)?,
            None => write!(out, "Transport closed ({})", self.status)?,
        }
        let shown = self.last_words.len().saturating_sub(SHOWN);
        match &self.last_words[shown..] {
            [] => Ok(()),
            words => write!(out, "; last words: {}", words.join(" | ")),
        }
    }
}

/// Lines of stderr in one error message: the end of a stack trace, not all of it.
const SHOWN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_reads_as_one_line_with_the_last_words() {
        let words = |count: usize| (1..=count).map(|n| format!("line {n}")).collect();
        let exit = |status, last_words| Exit { status, reason: None, last_words }.to_string();
        assert_eq!(exit(Status::Code(0), words(0)), "Transport closed (exit status 0)");
        assert_eq!(
            exit(Status::Signal(9), words(1)),
            "Transport closed (killed by signal 9); last words: line 1"
        );
        let reason = Some("docker is not running".to_owned());
        assert_eq!(
            Exit { status: Status::Code(125), reason, last_words: words(1) }.to_string(),
            "Transport closed (exit status 125: docker is not running); last words: line 1"
        );
        assert_eq!(
            Exit { status: Status::Code(1), reason: None, last_words: words(1) }.brief(),
            "Transport closed (exit status 1)"
        );
        assert_eq!(
            exit(Status::Code(1), words(7)),
            "Transport closed (exit status 1); last words: line 3 | line 4 | line 5 | line 6 | line 7"
        );
    }
}
