//! Why a call has no answer of its server, and what that looks like to its client.
//!
//! A [`Refusal`] is about what a client sent. A [`Failure`] is about the way to the
//! server: it is made where something went wrong and stays what it is until a client
//! is answered. Nobody reads its words to find out what happened.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use crate::auth::AuthError;
use crate::jsonrpc::{Id, Kind, Message};
use crate::refusal::{Refusal, code, seconds};

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The server's answer: a result or an error.
    Answered(Message),
    /// There is none.
    Failed(Failure),
}

/// Why a call has no answer, or a server cannot be used.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The server neither answered nor made progress in the time it had.
    #[error("Request timeout after {}ms", waited.as_millis())]
    Timeout { waited: Duration },
    /// The call waited for the server to start for as long as it may.
    #[error("the server {server:?} did not start within {}ms", waited.as_millis())]
    StartTimeout { server: Arc<str>, waited: Duration },
    /// The connection is over.
    #[error("Transport closed{}", bracketed(reason.as_deref()))]
    Closed { reason: Option<Arc<str>> },
    /// The server's process ended.
    #[error("{0}")]
    Exited(Exit),
    /// The server's process could not be started.
    #[error("{problem}: {source}")]
    NotStarted { problem: StartProblem, source: FailureSource },
    /// No HTTP response came.
    #[error("{source}")]
    Unreachable { source: FailureSource },
    /// The headers that the server wants to see could not be found out.
    #[error("the credentials for this server cannot be had")]
    NoCredential,
    /// Somebody has to sign in to the server, and nobody has.
    #[error("a sign-in is needed: {why}")]
    NotSignedIn { why: Arc<AuthError> },
    /// An HTTP response that is no answer. The challenge is its `WWW-Authenticate`.
    #[error("HTTP {status}: {text}")]
    HttpStatus { status: u16, text: Box<str>, challenge: Option<Box<str>> },
    /// An HTTP response of something that does not speak MCP.
    #[error("HTTP {status}, but {}; is this an MCP endpoint?", instead(media.as_deref()))]
    NotMcp { status: u16, media: Option<Box<str>> },
    /// The server does not speak the HTTP transport that it was asked by.
    #[error("{why}")]
    WrongTransport { why: &'static str },
    /// Neither HTTP transport works with this server.
    #[error("{}", both(first, second))]
    BothTransports { first: Arc<Self>, second: Arc<Self> },
    /// The server sent more than is taken.
    #[error("{what} is longer than {limit} bytes")]
    TooLarge { what: &'static str, limit: usize },
    /// The server writes a line without an end.
    #[error("the server writes a line that does not end")]
    EndlessLine,
    /// The server's answer is no JSON-RPC message.
    #[error("the server's answer cannot be read: {why}")]
    Unreadable { why: Refusal },
    /// The server took the request, and ended the response without an answer.
    #[error("No response received for request ID {id}")]
    NoAnswer { id: Id },
    /// The server leaves so much unread that it is sent nothing more.
    #[error("the server does not read what it is sent; try again later")]
    NotReading,
    /// The server has ended too often, and is not started for a while.
    #[error("{}", left_alone(why))]
    LeftAlone { why: Arc<Self> },
    /// The supervisor of the server knows that it cannot be used now.
    #[error("{}", down(server, why, *next))]
    Down { server: Arc<str>, why: Arc<Self>, next: Option<Duration> },
    /// The server leads to this gateway again.
    #[error("{} leads back to this gateway; remove it from the configuration", named(server.as_deref()))]
    Loop { server: Option<Arc<str>> },
    /// The server answered the greeting with an error.
    #[error("MCP error {code}: {message}")]
    Rejected { code: i64, message: Box<str> },
    /// Server and client have no protocol version in common.
    #[error("no protocol version in common; the server speaks {theirs}")]
    NoCommonRevision { theirs: Box<str> },
    /// What the server says makes no sense.
    #[error("the server's answer cannot be used: {what}")]
    Unusable { what: Box<str> },
    /// What the server says cannot be said in the client's era.
    #[error("{what}")]
    Translation { what: Box<str> },
    /// The server asked something, and the answer did not get there.
    #[error("{why}; make the call again")]
    AnswerLost { why: &'static str },
    /// The server was asked to watch a resource, and did not agree.
    #[error("the server does not watch {uri}")]
    NotWatched { uri: Box<str> },
    /// The task that the server made of the call ended badly, without saying why.
    #[error("the task has failed")]
    TaskFailed,
    /// The server's state for its client could not be sealed.
    #[error("the server's state cannot be sealed")]
    NotSealed,
    /// It did not even reach the server.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// For whom a failure is put into words.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Words {
    /// For the owner of the server: everything that is known.
    #[default]
    Full,
    /// For a stranger: no file, no address and nothing that the process wrote.
    Brief,
}

impl Failure {
    /// A server that leads to this gateway again, by whatever name.
    pub const LOOP: Self = Self::Loop { server: None };

    /// A connection that is over, without a reason.
    pub const CLOSED: Self = Self::Closed { reason: None };

    /// A connection that is over.
    pub fn closed(reason: impl Into<Arc<str>>) -> Self {
        Self::Closed { reason: Some(reason.into()) }
    }

    /// What the server says cannot be said in the client's era.
    pub fn translation(what: impl Into<Box<str>>) -> Self {
        Self::Translation { what: what.into() }
    }

    /// Which failure it is, in a word for programs. The words do not change.
    #[rustfmt::skip]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Timeout { .. } | Self::StartTimeout { .. } => "timeout",
            Self::Closed { .. }                       => "closed",
            Self::Exited(_)                           => "exited",
            Self::NotStarted { .. }                   => "not_started",
            Self::Unreachable { .. }                  => "unreachable",
            Self::NoCredential                        => "no_credential",
            Self::NotSignedIn { .. }                  => "not_signed_in",
            Self::HttpStatus { .. }                   => "http_status",
            Self::NotMcp { .. }                       => "not_mcp",
            Self::WrongTransport { .. }               => "wrong_transport",
            Self::BothTransports { first, .. }        => first.kind(),
            Self::TooLarge { .. } | Self::EndlessLine => "too_large",
            Self::Unreadable { .. }                   => "unreadable",
            Self::NoAnswer { .. }                     => "no_answer",
            Self::NotReading                          => "not_reading",
            Self::LeftAlone { why, .. }               => why.kind(),
            Self::Down { .. }                         => "down",
            Self::Loop { .. }                         => "loop",
            Self::Rejected { .. }                     => "rejected",
            Self::NoCommonRevision { .. }             => "no_common_revision",
            Self::Unusable { .. }                     => "unusable",
            Self::Translation { .. }                  => "translation",
            Self::AnswerLost { .. }                   => "answer_lost",
            Self::NotWatched { .. }                   => "not_watched",
            Self::TaskFailed                          => "task_failed",
            Self::NotSealed                           => "not_sealed",
            Self::Refused(_)                          => "refused",
        }
    }

    /// The HTTP status, if one is the reason.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::HttpStatus { status, .. } => Some(*status),
            Self::NotSignedIn { .. } => Some(401),
            Self::BothTransports { first, second } => first.status().or_else(|| second.status()),
            Self::LeftAlone { why, .. } | Self::Down { why, .. } => why.status(),
            _ => None,
        }
    }

    /// Whether somebody has to sign in, whatever it led to.
    pub fn is_sign_in(&self) -> bool {
        match self {
            Self::NotSignedIn { why } => {
                matches!(**why, AuthError::UserSignIn { .. } | AuthError::NoPerson(_))
            }
            Self::BothTransports { first, second } => first.is_sign_in() || second.is_sign_in(),
            Self::LeftAlone { why } | Self::Down { why, .. } => why.is_sign_in(),
            _ => false,
        }
    }

    /// Whether another attempt would fail too, until a person installs or repairs something.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::NotStarted { problem, .. } => *problem != StartProblem::Other,
            Self::LeftAlone { why } | Self::Down { why, .. } => why.is_lasting(),
            _ => false,
        }
    }

    /// Whether the server does not let us in.
    pub fn is_about_us(&self) -> bool {
        matches!(self.status(), Some(401 | 403))
    }

    /// In words for a stranger, who may know what the server says but not what it is.
    pub fn brief(&self) -> String {
        match self {
            Self::HttpStatus { .. } if !self.is_about_us() => self.to_string(),
            Self::BothTransports { first, second } => both(&first.brief(), &second.brief()),
            _ => self.summary(),
        }
    }

    /// In our own words only, whatever the server said.
    pub fn summary(&self) -> String {
        match self {
            Self::Exited(exit) => exit.brief(),
            Self::NotStarted { problem, .. } => problem.to_string(),
            Self::Unreachable { .. } => "the server cannot be reached".to_owned(),
            Self::NotSignedIn { why } => match &**why {
                AuthError::NoAccount | AuthError::NoSubjectToken { .. } => why.to_string(),
                AuthError::ExchangeRefused { .. } => "your access token was not exchanged for one \
                    of this server; sign in to the gateway again, or ask its owner, whose log has \
                    the reason"
                    .to_owned(),
                _ => "nobody has signed in to this server".to_owned(),
            },
            Self::HttpStatus { status, .. } => {
                let status = StatusCode::from_u16(*status).unwrap_or_default();
                let reason = status.canonical_reason().unwrap_or("no success");
                format!("HTTP {}: {reason}", status.as_u16())
            }
            Self::BothTransports { first, second } => both(&first.summary(), &second.summary()),
            Self::LeftAlone { why } => left_alone(&why.summary()),
            Self::Down { server, why, next } => down(server, &why.summary(), *next),
            Self::Rejected { code, .. } => format!("the server refused us with error {code}"),
            Self::NoCommonRevision { .. } => "no protocol version in common".to_owned(),
            Self::Unusable { .. } => "the server's answer cannot be used".to_owned(),
            other => other.to_string(),
        }
    }

    /// The error that a client is answered with.
    pub fn to_error(&self, id: Option<&Id>, words: Words) -> Message {
        if let Self::Refused(why) = self {
            return Message::refusal(id, why);
        }
        let text = match words {
            Words::Full => self.to_string(),
            Words::Brief => self.brief(),
        };
        Message::error(id, &json!({"code": code::INTERNAL, "message": text}))
    }
}

impl Outcome {
    /// The server's answer, if it gave one.
    pub fn answer(&self) -> Option<&Message> {
        if let Self::Answered(answer) = self { Some(answer) } else { None }
    }

    /// The server's answer, if it is a result.
    pub fn result(&self) -> Option<&Message> {
        self.answer().filter(|answer| answer.kind() == Kind::Result)
    }

    /// The same after a change to the server's answer.
    #[must_use]
    pub fn and_then(self, change: impl FnOnce(&Message) -> Self) -> Self {
        match self {
            Self::Answered(answer) => change(&answer),
            failed @ Self::Failed(_) => failed,
        }
    }

    /// What a client is answered. What failed has no id.
    pub fn into_message(self, words: Words) -> Message {
        match self {
            Self::Answered(answer) => answer,
            Self::Failed(why) => why.to_error(None, words),
        }
    }
}

impl From<Message> for Outcome {
    fn from(answer: Message) -> Self {
        Self::Answered(answer)
    }
}

impl From<Failure> for Outcome {
    fn from(why: Failure) -> Self {
        Self::Failed(why)
    }
}

impl From<Refusal> for Outcome {
    fn from(why: Refusal) -> Self {
        Self::Failed(why.into())
    }
}

impl From<Result<Message, Failure>> for Outcome {
    fn from(outcome: Result<Message, Failure>) -> Self {
        outcome.map_or_else(Self::Failed, Self::Answered)
    }
}

/// What led to a failure: `source` of a [`Failure`] is this, and behind it the error
/// of the system or of the HTTP client. Shown with its own causes, in one line.
#[derive(Clone, Debug)]
pub struct FailureSource(Arc<dyn Error + Send + Sync>);

impl FailureSource {
    /// This error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The error, to be downcast.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for FailureSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl Error for FailureSource {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl PartialEq for FailureSource {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for FailureSource {}

/// A reason in brackets, if there is one.
fn bracketed(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!(" ({reason})"))
}

fn named(server: Option<&str>) -> String {
    server.map_or_else(|| "this server".to_owned(), |name| format!("server {name:?}"))
}

/// Why neither transport works; once, if it is the same for both.
fn both(first: &impl ToString, second: &impl ToString) -> String {
    let (first, second) = (first.to_string(), second.to_string());
    if first == second { first } else { format!("{first}; {second}") }
}

fn left_alone(why: &dyn fmt::Display) -> String {
    format!("{why}; it has ended too often and is left alone for a minute")
}

fn down(server: &str, why: &dyn fmt::Display, next: Option<Duration>) -> String {
    format!("server {server:?} {}", down_text(why, next))
}

/// Why a server is down, and when it is tried again: the same words for the log and for clients.
pub fn down_text(why: &dyn fmt::Display, next: Option<Duration>) -> String {
    let next = match next {
        Some(wait) => format!("next try in {} s", seconds(wait)),
        None => "restart it, or call it again later".to_owned(),
    };
    format!("is down ({why}); {next}")
}

/// What keeps a command from starting, in words that name no file.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StartProblem {
    /// There is no such program.
    #[error("command not found")]
    NoCommand,
    /// There is no such working directory.
    #[error("working directory not found")]
    NoDirectory,
    /// The first line of a script names a program that is not there.
    #[error("interpreter not found")]
    NoInterpreter,
    /// The file may not be run.
    #[error("command may not be executed")]
    NotExecutable,
    /// Anything else, which may pass.
    #[error("the server could not be started")]
    Other,
}

fn instead(media: Option<&str>) -> String {
    match media {
        Some(media) => format!("with {media:?} instead of JSON or an event stream"),
        None => "no answer".to_owned(),
    }
}

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
        let reason = self.reason.as_ref().map_or_else(String::new, |it| format!(": {it}"));
        write!(out, "Transport closed ({}{reason})", self.status)?;
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
    fn a_stranger_hears_no_path_no_address_and_no_words_of_the_process() {
        let source = || FailureSource::new(std::io::Error::other("/s3cret"));
        let exit = Exit {
            status: Status::Code(3),
            reason: Some("s3cret".to_owned()),
            last_words: vec!["s3cret".to_owned()],
        };
        let http = |status| Failure::HttpStatus { status, text: "s3cret".into(), challenge: None };
        let down = |why| {
            let (server, next) = ("a".into(), Some(Duration::from_secs(40)));
            Failure::Down { server, why: Arc::new(why), next }
        };
        for (failure, kind, brief) in [
            (
                Failure::NotStarted { problem: StartProblem::NoCommand, source: source() },
                "not_started",
                "command not found",
            ),
            (
                Failure::NotStarted { problem: StartProblem::Other, source: source() },
                "not_started",
                "the server could not be started",
            ),
            (
                Failure::Unreachable { source: source() },
                "unreachable",
                "the server cannot be reached",
            ),
            (Failure::Exited(exit.clone()), "exited", "Transport closed (exit status 3)"),
            (http(401), "http_status", "HTTP 401: Unauthorized"),
            (
                down(Failure::Exited(exit)),
                "down",
                "server \"a\" is down (Transport closed (exit status 3)); next try in 40 s",
            ),
            (
                down(http(500)),
                "down",
                "server \"a\" is down (HTTP 500: Internal Server Error); next try in 40 s",
            ),
        ] {
            assert!(failure.to_string().contains("s3cret"), "{failure:?}");
            assert_eq!((failure.kind(), &*failure.brief()), (kind, brief));
            let error = failure.to_error(None, Words::Brief);
            assert_eq!((error.error_code(), &*error.error_message()), (Some(-32603), brief));
        }
        let twice = |first, second| {
            let (first, second) = (Arc::new(http(first)), Arc::new(http(second)));
            Failure::BothTransports { first, second }.summary()
        };
        assert_eq!(twice(404, 404), "HTTP 404: Not Found");
        assert_eq!(twice(404, 405), "HTTP 404: Not Found; HTTP 405: Method Not Allowed");
        assert_eq!(http(500).brief(), "HTTP 500: s3cret", "what the server says to a call");
        assert_eq!(http(500).summary(), "HTTP 500: Internal Server Error");
    }

    #[test]
    fn what_both_transports_say_is_said_once() {
        let http = |status| Failure::HttpStatus { status, text: "no".into(), challenge: None };
        let both = |first, second| {
            let (first, second) = (Arc::new(http(first)), Arc::new(http(second)));
            Failure::BothTransports { first, second }
        };
        assert_eq!(both(404, 404).to_string(), "HTTP 404: no");
        assert_eq!(both(404, 405).to_string(), "HTTP 404: no; HTTP 405: no");
        assert_eq!(both(404, 404).summary(), "HTTP 404: Not Found");
        assert_eq!(both(404, 404).brief(), "HTTP 404: no");
    }

    #[test]
    fn what_led_to_a_failure_is_its_source() {
        let failure =
            Failure::Unreachable { source: FailureSource::new(std::io::Error::other("why")) };
        assert_eq!(failure.to_string(), "why");
        let source: Option<&std::io::Error> =
            failure.source().and_then(Error::source).and_then(<dyn Error>::downcast_ref);
        assert!(source.is_some());
        assert_eq!(failure, failure.clone());
    }

    #[test]
    fn a_refusal_keeps_its_code() {
        let why = Failure::from(Refusal::NobodyToAsk);
        assert_eq!(why.to_error(None, Words::Full).error_code(), Some(-32601));
    }
}

#[cfg(test)]
mod exit_tests {
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
