//! What servers offer, as the bytes it came in.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use switchboard_proto::jsonrpc::{Member, Part};
use switchboard_proto::method;
use switchboard_proto::project::CacheHints;

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

    /// The method that lists it.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => method::LIST_TOOLS,
            Self::Prompts => method::LIST_PROMPTS,
            Self::Resources => method::LIST_RESOURCES,
            Self::Templates => method::LIST_TEMPLATES,
        }
    }

    /// The member of the result that has the list.
    pub fn member(self) -> Member {
        match self {
            Self::Tools => Member::Tools,
            Self::Prompts => Member::Prompts,
            Self::Resources => Member::Resources,
            Self::Templates => Member::ResourceTemplates,
        }
    }

    /// The capability that a server declares for it.
    pub fn capability(self) -> &'static str {
        if self == Self::Templates { "resources" } else { self.member().key() }
    }

    /// The member that tells one definition from another.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// What a notification says has changed.
    pub(super) fn changed_by(note: &str) -> impl Iterator<Item = Self> {
        let says = |kind: &Self| method::list_changed(kind.capability()) == Some(note);
        Self::ALL.into_iter().filter(says)
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
pub(super) struct Terms {
    pub(super) read_at: Instant,
    /// None where the era knows no such time: then a list stands until it is said to have changed.
    pub(super) ttl: Option<Duration>,
    pub(super) is_public: bool,
}

/// However short a time a server names, a list is not read again sooner.
const SOONEST: Duration = Duration::from_secs(1);

impl Terms {
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

/// All that one server offers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Definitions {
    lists: [Vec<Bytes>; 4],
}

impl Definitions {
    pub(super) fn list(&self, kind: ListKind) -> &[Bytes] {
        &self.lists[kind as usize]
    }

    pub(super) fn set(&mut self, kind: ListKind, list: Vec<Bytes>) {
        self.lists[kind as usize] = list;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: CACHE-2
    #[test]
    fn a_list_is_stale_when_its_time_is_over_and_others_may_keep_what_is_left_of_it() {
        let start = crate::connection::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let terms = |ttl| Terms { read_at: start, ttl, is_public: true };
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
