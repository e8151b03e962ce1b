//! The inbox of a connection: answers, notifications and questions of the server, and the
//! calls that wait for them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use tokio::sync::{Notify, mpsc};

use super::cache::CacheOwner;
use super::call::take_member;
use super::connection::Far;
use super::options::{AnswerCallback, Callback, ClientOptions, Notification, Progress};
use crate::call::{Asker, ReplySink};
use crate::connection::{ClientConnection, lock, next_number, now};
use crate::drive::OwnedTask;

/// Receives what the server sends, and wakes the call that waits for it.
#[derive(Debug)]
pub(super) struct Inbox {
    number: u64,
    /// Whose results are kept here, if any are.
    pub(super) place: CacheOwner,
    options: Arc<ClientOptions>,
    /// What tells us from others, if a bridge knows us by it.
    client: Option<Arc<ClientConnection>>,
    connected: AtomicBool,
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    next: u64,
    pending: HashMap<Exchange, Arc<PendingCall>>,
    /// The tasks that answer questions of the server.
    asked: HashMap<Ask, OwnedTask>,
    /// How many listens watch each resource of a legacy server.
    watched: HashMap<String, usize>,
    /// Told what belongs to no call.
    ears: Vec<mpsc::Sender<ListenerEvent>>,
}

impl Inbox {
    pub(super) fn new(place: CacheOwner, options: Arc<ClientOptions>, far: &Far) -> Arc<Self> {
        let client = far.client().cloned();
        Arc::new(Self {
            // A bridge knows us by the number of the client connection.
            number: client.as_ref().map_or_else(next_number, |client| client.number()),
            place,
            options,
            client,
            connected: AtomicBool::new(true),
            state: Mutex::default(),
        })
    }

    /// One listen more watches a resource.
    pub(super) fn watch(&self, uri: &str) {
        *lock(&self.state).watched.entry(uri.to_owned()).or_default() += 1;
    }

    /// One less; true if it was the last.
    pub(super) fn unwatch(&self, uri: &str) -> bool {
        let mut state = lock(&self.state);
        let Some(count) = state.watched.get_mut(uri) else { return true };
        *count = count.saturating_sub(1);
        let last = *count == 0;
        if last {
            state.watched.remove(uri);
        }
        last
    }

    /// A number for a call to come.
    pub(super) fn next_exchange(&self) -> Exchange {
        let mut state = lock(&self.state);
        state.next += 1;
        Exchange(state.next)
    }

    pub(super) fn await_answer(&self, exchange: Exchange, pending: &Arc<PendingCall>) {
        lock(&self.state).pending.insert(exchange, Arc::clone(pending));
    }

    pub(super) fn forget(&self, exchange: Exchange) {
        lock(&self.state).pending.remove(&exchange);
    }

    /// Whoever is to hear what belongs to no call.
    pub(super) fn listen(&self, listener: mpsc::Sender<ListenerEvent>) {
        let mut state = lock(&self.state);
        state.ears.retain(|listener| !listener.is_closed());
        state.ears.push(listener);
    }

    /// Something has changed, or may have: what was kept of it is stale.
    pub(super) fn handle_change(&self, method: &str, params: impl FnOnce() -> Value) {
        if let Some(cache) = &self.options.cache {
            cache.handle_note(&self.place, method, params);
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// The connection is over: nothing more will be heard.
    pub(super) fn close(&self) {
        let was = self.connected.swap(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        state.ears.clear();
        state.asked.clear();
        let open = std::mem::take(&mut state.pending);
        drop(state);
        for pending in open.into_values() {
            pending.finish(Failure::CLOSED.into());
        }
        if was {
            self.tell_closed(None);
        }
    }

    fn tell_closed(&self, why: Option<&Failure>) {
        let callbacks = &self.options.callbacks;
        if let Some(watcher) = &callbacks.watcher {
            watcher.handle_close(why);
        }
        if let (Some(told), Some(why)) = (&callbacks.on_error, why) {
            told(why.clone());
        }
        if let Some(told) = &callbacks.on_close {
            told(());
        }
    }

    fn pending(&self, exchange: Option<Exchange>) -> Option<Arc<PendingCall>> {
        lock(&self.state).pending.get(&exchange?).cloned()
    }

    /// Has somebody answer a question.
    fn answer(
        self: Arc<Self>,
        exchange: Option<Exchange>,
        (asker, ask): (Weak<dyn Asker>, Ask),
        answer: &AnswerCallback,
        params: Value,
    ) {
        let answering = answer(params);
        let asking = self.pending(exchange).map(Asking::new);
        let inbox = Arc::downgrade(&self);
        // Held until the task is in the table: it takes itself out.
        let mut state = lock(&self.state);
        let task = OwnedTask::spawn(async move {
            let message = match answering.await {
                Ok(result) => Message::result(&Id::from(0), result.to_string().as_bytes()),
                // The code that the specification's example has (UTL-7).
                Err(declined) => {
                    Message::error(None, &json!({"code": -1, "message": declined.to_string()}))
                }
            };
            drop(asking);
            if let Some(inbox) = inbox.upgrade() {
                supply(&asker, ask, &message);
                lock(&inbox.state).asked.remove(&ask);
            }
        });
        state.asked.insert(ask, task);
    }
}

/// Answers a question, if the connection that asked it is still there.
fn supply(asker: &Weak<dyn Asker>, ask: Ask, answer: &Message) {
    if let Some(asker) = asker.upgrade() {
        asker.supply(ask, answer).detach();
    }
}

/// A call of which the server wants to know something; over when dropped.
struct Asking(Arc<PendingCall>);

impl Asking {
    fn new(pending: Arc<PendingCall>) -> Self {
        pending.ask(true);
        Self(pending)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.ask(false);
    }
}

impl ReplySink for Inbox {
    fn number(&self) -> u64 {
        self.number
    }

    fn principal(&self) -> &[u8] {
        self.client.as_ref().map_or(b"", |client| client.principal())
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        self.handle_change(message.method(), || notification(message).params);
        if self.pending(exchange).is_some_and(|pending| pending.note(message)) {
            return;
        }
        if let Some(watcher) = &self.options.callbacks.watcher {
            watcher.handle_note(message.method());
        }
        let ears = lock(&self.state).ears.clone();
        if self.options.callbacks.on_notification.is_none() && ears.is_empty() {
            return;
        }
        let note = notification(message);
        for listener in &ears {
            send(listener, note.clone());
        }
        if let Some(told) = &self.options.callbacks.on_notification {
            told(note);
        }
    }

    fn ask(
        self: Arc<Self>,
        exchange: Option<Exchange>,
        asker: Weak<dyn Asker>,
        ask: Ask,
        request: &Message,
    ) -> bool {
        let params = request.payload_value().unwrap_or_default();
        let answers = &self.options.callbacks.answers;
        match answers.find(request.method(), &params) {
            Some(answer) => self.answer(exchange, (asker, ask), &answer, params),
            None if answers.knows(request.method()) => {
                let what = "this mode of elicitation was not declared".to_owned();
                supply(&asker, ask, &Message::refusal(None, &Refusal::BadEnvelope { what }));
            }
            None => return false,
        }
        true
    }

    fn recall(&self, ask: Ask, _: &Message) {
        lock(&self.state).asked.remove(&ask);
    }

    fn finish(&self, exchange: Exchange, outcome: Outcome) {
        if outcome.answer().is_some() {
            self.connected.store(true, Ordering::Relaxed);
        }
        let pending = lock(&self.state).pending.remove(&exchange);
        if let Some(pending) = pending {
            pending.finish(outcome);
        }
    }

    fn lost(&self, why: &Failure) {
        if self.connected.swap(false, Ordering::Relaxed) {
            self.tell_closed(Some(why));
        }
        for listener in &lock(&self.state).ears {
            // A listener that is behind will see that its link works again.
            _ = listener.try_send(ListenerEvent::Lost);
        }
    }

    fn end(self: Arc<Self>) {
        self.close();
    }
}

/// How long to wait: without a sign of life, and at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) quiet: Duration,
    pub(super) until: Instant,
}

/// What a listener is told.
#[derive(Clone, Debug)]
pub(super) enum ListenerEvent {
    Note(Notification),
    /// The link broke: what was said meanwhile is lost.
    Lost,
}

/// A call's place on our side.
pub(super) struct PendingCall {
    state: Mutex<PendingState>,
    woken: Notify,
    on_progress: Option<Callback<Progress>>,
}

struct PendingState {
    outcome: Option<Outcome>,
    acknowledged: Option<Value>,
    /// The last sign of life.
    touched: Instant,
    /// Questions of the server about it that somebody is answering.
    asking: usize,
    notes: Option<mpsc::Sender<ListenerEvent>>,
}

impl PendingCall {
    pub(super) fn new(
        on_progress: Option<Callback<Progress>>,
        notes: Option<mpsc::Sender<ListenerEvent>>,
    ) -> Self {
        let state =
            PendingState { outcome: None, acknowledged: None, touched: now(), asking: 0, notes };
        Self { state: Mutex::new(state), woken: Notify::new(), on_progress }
    }

    /// Something came for this call; false if others want to hear it too.
    pub(super) fn note(&self, message: &Message) -> bool {
        let mut state = lock(&self.state);
        state.touched = now();
        let params = || message.payload_value().unwrap_or_default();
        if message.method() == method::ACKNOWLEDGED {
            state.acknowledged = Some(take_member(&mut params(), "notifications"));
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
        let begun = |state: &mut PendingState| match state.acknowledged.take() {
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
        mut take: impl FnMut(&mut PendingState) -> Option<T>,
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

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").finish_non_exhaustive()
    }
}

/// Whoever does not read what it listens to misses the newest.
pub(super) fn send(to: &mpsc::Sender<ListenerEvent>, note: Notification) {
    if let Err(mpsc::error::TrySendError::Full(_)) = to.try_send(ListenerEvent::Note(note)) {
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
        let pending = PendingCall::new(None, None);
        let strange = Message::notification(method::ACKNOWLEDGED, Some(b"[1]"));
        assert!(pending.note(&strange));
    }
}
