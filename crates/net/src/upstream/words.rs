//! What callers hear of a server in trouble.
//!
//! Whoever has a server for themselves wants to know all of it. Where strangers
//! call a server that is not theirs, they hear what kind of trouble it is: the
//! rest may name files, addresses and secrets, and is for the log.

use super::Upstream;

/// A command that is not there, or not as it should be.
pub(super) const NOT_STARTED: &str = "the server could not be started";

/// A URL where nobody answers.
pub(super) const UNREACHABLE: &str = "the server cannot be reached";

impl Upstream {
    /// What to tell callers: `whole`, or `plain` if the rest is not for them.
    pub(super) fn told(&self, whole: String, plain: impl Into<String>) -> String {
        if !self.server.is_discreet() {
            return whole;
        }
        let plain = plain.into();
        if whole != plain {
            tracing::warn!(server = self.name, "{whole}");
        }
        plain
    }
}
