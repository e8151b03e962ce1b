//! One call of ours that waits for its answer.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use tokio::sync::{Notify, mpsc};

use super::call::taken;
use super::options::{Callback, Notification, Progress};
use crate::face::{lock, now};

/// How long to wait: without a sign of life, and at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) quiet: Duration,
    pub(super) until: Instant,
}

/// What a listener is told.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    Note(Notification),
    /// The link broke: what was said meanwhile is lost.
    Lost,
}

/// A call's place on our side.
pub(super) struct Slot {
    state: Mutex<State>,
    woken: Notify,
    on_progress: Option<Callback<Progress>>,
}

struct State {
    outcome: Option<Outcome>,
    acknowledged: Option<Value>,
    /// The last sign of life.
    touched: Instant,
    /// Questions of the server about it that somebody is answering.
    asking: usize,
    notes: Option<mpsc::Sender<Heard>>,
}

impl Slot {
    pub(super) fn new(
        on_progress: Option<Callback<Progress>>,
        notes: Option<mpsc::Sender<Heard>>,
    ) -> Self {
        let state = State { outcome: None, acknowledged: None, touched: now(), asking: 0, notes };
        Self { state: Mutex::new(state), woken: Notify::new(), on_progress }
    }

    /// Something came for this call; false if others want to hear it too.
    pub(super) fn note(&self, message: &Message) -> bool {
        let mut state = lock(&self.state);
        state.touched = now();
        let params = || message.payload_value().unwrap_or_default();
        if message.method() == method::ACKNOWLEDGED {
            state.acknowledged = Some(taken(&mut params(), "notifications"));
            drop(state);
            self.woken.notify_one();
            return true;
        }
        if let Some(notes) = &state.notes {
            // In the legacy era a change is told to everybody; so it is here.
            send(notes, notification(message));
            return false;
        }
        drop(state);
        if message.method() != method::PROGRESS {
            return false;
        }
        self.woken.notify_one();
        if let (Some(told), Some(progress)) = (&self.on_progress, progress(&params())) {
            told(progress);
        }
        true
    }

    /// A question about this call is being answered, or has been.
    pub(super) fn ask(&self, begins: bool) {
        let mut state = lock(&self.state);
        state.touched = now();
        state.asking = if begins { state.asking + 1 } else { state.asking.saturating_sub(1) };
        drop(state);
        self.woken.notify_one();
    }

    pub(super) fn finish(&self, outcome: Outcome) {
        let mut state = lock(&self.state);
        state.outcome = Some(outcome);
        state.notes = None;
        drop(state);
        self.woken.notify_one();
    }

    /// Waits for the answer; none if it did not come in time. A user who is
    /// being asked something takes as long as the call may take in all.
    pub(super) async fn answer(&self, patience: Patience) -> Option<Outcome> {
        self.wait(patience, |state| state.outcome.take()).await
    }

    /// Waits until a listen has begun, or was refused.
    pub(super) async fn begun(&self, patience: Patience) -> Option<Result<Value, Outcome>> {
        let begun = |state: &mut State| match state.acknowledged.take() {
            Some(honoured) => Some(Ok(honoured)),
            None => state.outcome.clone().map(Err),
        };
        self.wait(patience, begun).await
    }

    /// What a listen ended with, if it has.
    pub(super) fn ending(&self) -> Option<Outcome> {
        lock(&self.state).outcome.clone()
    }

    async fn wait<T>(
        &self,
        patience: Patience,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        loop {
            let deadline = {
                let mut state = lock(&self.state);
                if let Some(found) = take(&mut state) {
                    return Some(found);
                }
                let quiet = state.touched + patience.quiet;
                if state.asking > 0 { patience.until } else { quiet.min(patience.until) }
            };
            if deadline <= now() {
                return None;
            }
            // Woken or not, the next look tells.
            _ = tokio::time::timeout_at(deadline.into(), self.woken.notified()).await;
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

/// Whoever does not read what it listens to misses the newest.
pub(super) fn send(to: &mpsc::Sender<Heard>, note: Notification) {
    if let Err(mpsc::error::TrySendError::Full(_)) = to.try_send(Heard::Note(note)) {
        tracing::warn!("a listener does not read; a notification is dropped");
    }
}

pub(super) fn notification(message: &Message) -> Notification {
    let params = message.payload_value().unwrap_or_default();
    Notification { method: message.method().to_owned(), params }
}

fn progress(params: &Value) -> Option<Progress> {
    Some(Progress {
        progress: params["progress"].as_f64()?,
        total: params["total"].as_f64(),
        message: params["message"].as_str().map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_of_any_shape_is_survived() {
        let slot = Slot::new(None, None);
        let strange = Message::notification(method::ACKNOWLEDGED, Some(b"[1]"));
        assert!(slot.note(&strange));
    }
}
