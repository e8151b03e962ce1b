//! What the supervisor publishes of a server, what servers offer, and how they are brought up.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Member, Part};
use switchboard_proto::method;
use switchboard_proto::project::CacheHints;

use super::cache::Cache;
use crate::client::{self, ClientOptions};

/// What the supervisor of a server knows of it. The supervisor publishes it in a
/// [`watch`](tokio::sync::watch) channel, and nothing else decides whether a server is up.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerState {
    /// What the server is doing.
    pub phase: ServerPhase,
    /// Why the server broke, or could not be reached.
    pub reason: Option<Failure>,
    /// When the supervisor tries again, if it does so by itself.
    pub next_attempt: Option<Instant>,
    /// Whether the server was ready at some time.
    pub was_ready: bool,
    /// Whether calls go on to the server. A server that was ready and is started once
    /// more still gets them.
    pub accepts_calls: bool,
}

/// What a server is doing.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServerPhase {
    /// It waits for its turn to connect.
    Queued,
    /// It is being connected, and its lists are read.
    Starting,
    /// It can be called, and its lists are its own.
    Ready,
    /// No client has used it for long. Its lists are its own, and the next use wakes it.
    Sleeping,
    /// It broke or could not be reached, and is tried again soon.
    Retrying,
    /// It broke too often. Without a time of the next attempt it is tried again when
    /// it is restarted or, after a while, used.
    Failed,
    /// It is not in the roster any more. Calls that it has are still answered.
    Draining,
}

impl ServerState {
    /// A server in this phase, with nothing wrong about it.
    pub fn new(phase: ServerPhase) -> Self {
        let accepts_calls =
            matches!(phase, ServerPhase::Ready | ServerPhase::Sleeping | ServerPhase::Draining);
        let was_ready = phase == ServerPhase::Ready;
        Self { phase, reason: None, next_attempt: None, was_ready, accepts_calls }
    }

    /// A server that is down for this reason.
    pub fn down(phase: ServerPhase, reason: Failure, next_attempt: Option<Instant>) -> Self {
        Self { reason: Some(reason), next_attempt, ..Self::new(phase) }
    }

    /// The same state, after another one of the same server.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        self.was_ready |= before.was_ready;
        self.accepts_calls |= self.is_pending() && before.accepts_calls;
        self
    }

    /// Whether its lists are its own, and it can be called.
    pub fn is_up(&self) -> bool {
        matches!(self.phase, ServerPhase::Ready | ServerPhase::Sleeping)
    }

    /// Whether an attempt to connect has begun or is about to, and nothing is known of it.
    pub fn is_pending(&self) -> bool {
        matches!(self.phase, ServerPhase::Queued | ServerPhase::Starting)
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason.as_ref().unwrap_or(&Failure::CLOSED);
        match self.phase {
            ServerPhase::Queued => f.write_str("waiting for its turn to connect"),
            ServerPhase::Starting => f.write_str("connecting"),
            ServerPhase::Ready => f.write_str("ready"),
            ServerPhase::Sleeping => f.write_str("asleep"),
            ServerPhase::Retrying => write!(f, "{reason}; it is tried again soon"),
            ServerPhase::Failed => write!(f, "{reason}; it broke too often and is left alone"),
            ServerPhase::Draining => f.write_str("removed"),
        }
    }
}

/// A server that is not ready, and what is offered in its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deferred {
    /// Its name.
    pub name: Arc<str>,
    /// Why it is not ready.
    pub state: ServerState,
    /// Whether its lists of an earlier time are offered meanwhile.
    pub is_cached: bool,
}

/// What a list is a list of.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources.
    Resources,
    /// Patterns of resources.
    Templates,
}

impl ListKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists it, the member of the result that has the list, and the member
    /// that tells one definition from another.
    fn names(self) -> (&'static str, Member, &'static str) {
        match self {
            Self::Tools => (method::LIST_TOOLS, Member::Tools, "name"),
            Self::Prompts => (method::LIST_PROMPTS, Member::Prompts, "name"),
            Self::Resources => (method::LIST_RESOURCES, Member::Resources, "uri"),
            Self::Templates => (method::LIST_TEMPLATES, Member::ResourceTemplates, "uriTemplate"),
        }
    }

    /// The method that lists it.
    pub fn method(self) -> &'static str {
        self.names().0
    }

    /// The member of the result that has the list.
    pub fn member(self) -> Member {
        self.names().1
    }

    /// The member that tells one definition from another.
    pub fn key(self) -> &'static str {
        self.names().2
    }

    /// One of it, in a word.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Prompts => "prompt",
            Self::Resources => "resource",
            Self::Templates => "resource template",
        }
    }

    /// The capability that a server declares for it.
    pub fn capability(self) -> &'static str {
        if self == Self::Templates { "resources" } else { self.member().key() }
    }
}

/// One thing that a server offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Definition {
    /// The server that offers it.
    pub server: Arc<str>,
    /// What it is.
    pub kind: ListKind,
    /// The definition as it came.
    pub text: Bytes,
    /// Whether it is from an earlier time, for the server is not ready.
    pub is_cached: bool,
}

impl Definition {
    /// Its name, or its URI, or its pattern; empty if it has none.
    pub fn name(&self) -> Cow<'_, str> {
        Part::new(&self.text).string(self.kind.key()).unwrap_or_default()
    }

    /// The definition as a value.
    pub fn value(&self) -> Value {
        Part::new(&self.text).value().unwrap_or_default()
    }
}

/// When a list was read, and how long its server lets it be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListTerms {
    pub(super) read_at: Instant,
    /// None where the era knows no such time: then a list stands until it is said to have changed.
    pub(super) ttl: Option<Duration>,
    pub(super) is_public: bool,
}

/// However short a time a server names, a list is not read again sooner.
const SOONEST: Duration = Duration::from_secs(1);

impl ListTerms {
    /// Whether it is to be read again before it is shown much longer (CACHE-2).
    pub(super) fn is_stale(self, now: Instant) -> bool {
        self.ttl.is_some_and(|ttl| now >= self.read_at + ttl.max(SOONEST))
    }

    /// How long others may keep it from here on.
    pub(super) fn hints(self, now: Instant) -> CacheHints {
        let left = self.ttl.unwrap_or_default();
        let left = left.saturating_sub(now.saturating_duration_since(self.read_at));
        let ttl_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        CacheHints { ttl_ms, public: self.is_public }
    }
}

/// How much servers offer of each kind, for people: `11 tools, 1 prompt`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ListCounts(pub [usize; 4]);

impl fmt::Display for ListCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offered = ListKind::ALL.into_iter().filter(|kind| self.0[*kind as usize] > 0);
        let counted = |kind: ListKind| {
            let count = self.0[kind as usize];
            format!("{count} {}{}", kind.noun(), if count == 1 { "" } else { "s" })
        };
        let texts: Vec<_> = offered.map(counted).collect();
        f.write_str(if texts.is_empty() { "no tools" } else { "" })?;
        f.write_str(&texts.join(", "))
    }
}

/// All that one server offers, by its kind.
pub(super) type Definitions = [Vec<Bytes>; 4];

/// Something about the servers is different.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// A server stands otherwise.
    State { server: Arc<str>, state: ServerState },
    /// A server offers something else.
    Definitions { server: Arc<str>, kind: ListKind },
    /// A server was removed.
    Removed { server: Arc<str> },
    /// The reader was too slow: look at everything again.
    Missed,
}

/// Why a server was not added.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddError {
    /// The roster was closed.
    #[error("the roster is closed")]
    Closed,
    /// There are as many servers as there may be.
    #[error("there are {most} servers already")]
    Full { most: usize },
    /// Another server has the name.
    #[error("there is a server called {name:?} already")]
    Taken { name: String },
}

/// Why a call has no result.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RosterError {
    /// The call was made, and failed. It may have been acted on.
    #[error(transparent)]
    Failed(#[from] client::CallError),
    /// The server was not there in time. Nothing was sent.
    #[error("server {name:?} is not ready: {state}")]
    NotReady { name: String, state: ServerState },
    /// There is no such server.
    #[error("no server is called {name:?}")]
    Unknown { name: String },
}

/// How servers are brought up and kept.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct RosterOptions {
    /// How to connect, unless said otherwise for a server.
    pub client: ClientOptions,
    /// Where lists of earlier times are kept; nowhere, if not said.
    pub cache: Option<Cache>,
    /// Servers that are started at once.
    pub at_once: usize,
    /// How long one that starts keeps the next in the queue waiting. It has
    /// time to start all the same; see `connect`.
    pub turn: Duration,
    /// How long [`ready`](super::Roster::ready) waits.
    pub patience: Duration,
    /// How long connecting and reading the lists may take.
    pub connect: Duration,
    /// How long a call waits for a server that is not ready; never longer than
    /// the call itself may be silent.
    pub wait: Duration,
    /// Attempts in a row before a server is left alone.
    pub attempts: u32,
    /// How long it is left alone, even if it is used.
    pub rest: Duration,
    /// Servers are supervised like processes, whatever `attempts` and `rest` say:
    /// one that broke is back at once after a long life, else after 1, 5 and 15
    /// seconds, three times in five minutes; then it is tried this often.
    pub probe: Option<Duration>,
    /// How long a list that has changed is not read, because more may change.
    pub coalesce: Duration,
    /// How long closing may take.
    pub close: Duration,
    /// Servers at most.
    pub servers: usize,
    /// Whether the log has changes of servers at `debug` only, because another roster has the
    /// same servers.
    pub is_quiet: bool,
}

impl Default for RosterOptions {
    fn default() -> Self {
        Self {
            client: ClientOptions::default(),
            cache: None,
            at_once: 16,
            turn: Duration::from_millis(100),
            patience: Duration::from_millis(250),
            connect: Duration::from_mins(1),
            wait: Duration::from_secs(10),
            attempts: 10,
            rest: Duration::from_secs(30),
            probe: None,
            coalesce: Duration::from_millis(50),
            // A child has six seconds to end in; see `stdio::child::Grace`.
            close: Duration::from_secs(10),
            servers: 1024,
            is_quiet: false,
        }
    }
}

setters! {
    RosterOptions {
        client: ClientOptions,
        cache: impl Into<Option<Cache>>,
        at_once: usize,
        turn: Duration,
        patience: Duration,
        connect: Duration,
        wait: Duration,
        attempts: u32,
        rest: Duration,
        probe: impl Into<Option<Duration>>,
        coalesce: Duration,
        close: Duration,
        servers: usize,
    }
}

impl RosterOptions {
    /// Logs changes of servers at `debug` only.
    pub fn quiet(mut self) -> Self {
        self.is_quiet = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_name_what_there_is() {
        let text = |counts| ListCounts(counts).to_string();
        assert_eq!(text([11, 1, 0, 2]), "11 tools, 1 prompt, 2 resource templates");
        assert_eq!(text([0; 4]), "no tools");
    }

    /// wire: CACHE-2
    #[test]
    fn a_list_is_stale_when_its_time_is_over_and_others_may_keep_what_is_left_of_it() {
        let start = crate::drive::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let terms = |ttl| ListTerms { read_at: start, ttl, is_public: true };
        let minute = terms(Some(Duration::from_mins(1)));
        assert!(!minute.is_stale(after(59)) && minute.is_stale(after(60)));
        let left = [0, 45, 60, 90].map(|seconds| minute.hints(after(seconds)).ttl_ms);
        assert_eq!(left, [60_000, 15_000, 0, 0]);
        let at_once = terms(Some(Duration::ZERO));
        assert!(!at_once.is_stale(start) && at_once.is_stale(after(1)), "not with every question");
        let legacy = terms(None);
        assert!(!legacy.is_stale(after(1_000_000)), "it says when it changes");
        assert_eq!(legacy.hints(start).ttl_ms, 0);
    }
}
