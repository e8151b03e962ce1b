//! The log of a server's state: a line when the state changes, and none while it stays the same.
//!
//! ```text
//! [INFO] [files] ready: 11 tools, 2 prompts
//! [WARN] [files] is down (Transport closed (exit status 3)); next try in 5 s
//! ```
//!
//! Two failures are the same if their summaries are: a process may write other last words each
//! time it exits.

use std::sync::Mutex;

use switchboard_proto::failure::{Failure, down_text};

use super::server_entry::ServerEntry;
use super::state::{ServerPhase, ServerState};
use crate::connection::lock;
use crate::drive::now;

/// What the log has of a server.
#[derive(Debug, Default)]
pub(super) struct StateLog {
    last: Mutex<Option<(ServerPhase, Option<String>)>>,
}

impl StateLog {
    /// Remembers a state; whether the log does not have it yet. Attempts to connect are not
    /// remembered: what comes of them is.
    fn is_news(&self, state: &ServerState) -> bool {
        if state.is_pending() || state.phase == ServerPhase::Draining {
            return false;
        }
        let reason = state.reason.as_ref().map(Failure::summary);
        lock(&self.last).replace((state.phase, reason.clone())) != Some((state.phase, reason))
    }
}

impl ServerEntry {
    /// Logs a state that the server is about to have, if it is news.
    pub(super) fn log_state(&self, state: &ServerState, is_quiet: bool) {
        let server = &*self.name;
        let is_news = self.logged.is_news(state);
        let Some(reason) = &state.reason else {
            let is_ready = state.phase == ServerPhase::Ready;
            if is_ready && is_news && !is_quiet {
                tracing::info!(server, "ready: {}", self.counts());
            } else {
                tracing::debug!(server, "{state}");
            }
            return;
        };
        let next = state.next_attempt.map(|next| next.saturating_duration_since(now()));
        let text = down_text(reason, next);
        // A loop is for the operator to end, whoever finds it.
        let is_loop = matches!(reason, Failure::Loop { .. });
        if !is_news || (is_quiet && !is_loop) {
            tracing::debug!(server, "{text}");
        } else if is_loop {
            tracing::error!(server, "{}", self.server.loop_advice(server));
        } else if self.server.tells_users_apart() && reason.is_about_us() {
            let why = reason.summary();
            tracing::info!(
                server,
                "ready for users with an account or a token of their own ({why})"
            );
        } else {
            tracing::warn!(server, "{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_news_once_whatever_is_tried_in_between() {
        let log = StateLog::default();
        let phase = |phase| ServerState::new(phase);
        let down = |phase, status| {
            let reason = Failure::HttpStatus { status, text: "".into(), challenge: None };
            ServerState::down(phase, reason, None)
        };
        for (state, is_news) in [
            (phase(ServerPhase::Starting), false),
            (down(ServerPhase::Retrying, 500), true),
            (phase(ServerPhase::Queued), false),
            (down(ServerPhase::Retrying, 500), false),
            (down(ServerPhase::Retrying, 401), true),
            (down(ServerPhase::Failed, 401), true),
            (down(ServerPhase::Failed, 401), false),
            (phase(ServerPhase::Ready), true),
            (phase(ServerPhase::Sleeping), true),
            (phase(ServerPhase::Ready), true),
            (phase(ServerPhase::Draining), false),
        ] {
            assert_eq!(log.is_news(&state), is_news, "{state}");
        }
    }
}
