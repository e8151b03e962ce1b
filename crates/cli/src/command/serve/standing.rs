//! How a server stands, in words that tell no file, address or secret.

use std::time::Instant;

use serde_json::{Value, json};
use switchboard_gateway::fleet::Fleet;
use switchboard_net::roster::State;

/// Its state, when it is tried again, and the calls that are open and that wait.
pub(super) fn standing(fleet: &Fleet, name: &str, state: &State) -> Value {
    let (word, next) = match state {
        State::Ready => ("ready", None),
        State::Retrying { at, .. } => ("retrying", Some(*at)),
        State::Failed { at, .. } => ("failed", *at),
        State::Asleep => ("asleep", None),
        _ => ("starting", None),
    };
    let mut standing =
        json!({"state": word, "calls": fleet.calls(name), "queued": fleet.queued(name)});
    if let Some(next) = next {
        let wait = next.saturating_duration_since(Instant::now());
        standing["nextAttemptMs"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
    }
    standing
}
