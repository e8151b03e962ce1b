//! The connection to one server: where calls go, the inbox for what comes back, and the
//! calls that wait for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use tokio::sync::{Notify, mpsc};

use super::CallError;
use super::cache::CacheOwner;
use super::call::take_member;
use super::options::{Callback, ClientOptions, Notification, Progress};
use crate::backend::{Backend as _, PendingWork};
use crate::bridge::Bridge;
use crate::call::{Asker, Call, ReplySink};
use crate::connection::{ClientConnection, lock, next_number};
use crate::drive::{Either, OwnedTask, now, race};
use crate::upstream::{Eras, ServerTarget, Upstream};

/// The connection of a client to its server. Dropping it ends it: nobody waits for that,
/// but it comes.
pub(super) struct ServerConnection {
    route: CallRoute,
    pub(super) inbox: Arc<Inbox>,
}

/// Where calls go.
enum CallRoute {
    /// A connection that nobody else uses.
    Own(Arc<Upstream>),
    /// A bridge, to which we are one client of many.
    ViaBridge(Arc<Bridge>, Arc<ClientConnection>),
}

impl ServerConnection {
    pub(super) fn new(server: &ServerTarget, era: Era, options: &Arc<ClientOptions>) -> Arc<Self> {
        let client = server.through().map(|through| through.client(era));
        let inbox = Arc::new(Inbox {
            // A bridge knows us by the number of the client connection.
            number: client.as_ref().map_or_else(next_number, |client| client.number()),
            cache_owner: CacheOwner::new(server),
            options: Arc::clone(options),
            client: client.clone(),
            connected: AtomicBool::new(true),
            state: Mutex::default(),
        });
        let route = if let (Some(through), Some(client)) = (server.through(), client) {
            CallRoute::ViaBridge(Arc::clone(&through.bridge), client)
        } else {
            let limits = Arc::clone(&options.limits);
            let upstream =
                Upstream::new(server.clone(), Eras::both(era), Sharing::Alone, None, limits);
            upstream.attach(&(Arc::clone(&inbox) as Arc<dyn ReplySink>));
            CallRoute::Own(upstream)
        };
        Arc::new(Self { route, inbox })
    }

    /// The connection that nobody else uses, if it is one.
    pub(super) fn own(&self) -> Option<&Arc<Upstream>> {
        match &self.route {
            CallRoute::Own(upstream) => Some(upstream),
            CallRoute::ViaBridge(..) => None,
        }
    }

    /// A plain question within a time.
    pub(super) async fn ask(
        self: &Arc<Self>,
        method: &str,
        params: &[u8],
        time: Duration,
    ) -> Result<Message, CallError> {
        let request = Message::request(&Id::from(0), method, Some(params));
        let limit = TimeLimit { quiet: time, until: now() + time };
        OpenCall::new(self, PendingCall::new(None, None)).ask(&request, limit).await
    }

    /// Sends a notification; what must be done for it.
    pub(super) fn note(&self, message: Message) -> PendingWork {
        match &self.route {
            CallRoute::Own(upstream) => upstream.note(message),
            CallRoute::ViaBridge(bridge, client) => bridge.note(client, message),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        match &self.route {
            CallRoute::Own(upstream) => upstream.is_stopped(),
            CallRoute::ViaBridge(_, client) => client.is_over(),
        }
    }

    /// Ends it; a bridge only forgets us.
    pub(super) async fn close(&self) {
        match &self.route {
            CallRoute::Own(upstream) => upstream.close().await,
            CallRoute::ViaBridge(_, client) => client.end(),
        }
    }

    /// Ends it in a task of its own, because nobody waits for the end of a failed attempt.
    /// The task ends in the time of a call, and what is left of the connection with it.
    pub(super) fn close_later(self: Arc<Self>) {
        let time = self.inbox.options.timeout;
        tokio::spawn(async move { tokio::time::timeout(time, self.close()).await });
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        match &self.route {
            CallRoute::Own(upstream) => upstream.stop(),
            CallRoute::ViaBridge(_, client) => client.end(),
        }
    }
}

/// A call that is open. Dropped before it is over, it is cancelled, and the
/// server told (CAN-1, CAN-2, UTL-1).
pub(super) struct OpenCall {
    connection: Arc<ServerConnection>,
    call: Call,
    pub(super) pending: Arc<PendingCall>,
    over: bool,
}

impl OpenCall {
    pub(super) fn new(connection: &Arc<ServerConnection>, pending: PendingCall) -> Self {
        let (connection, pending) = (Arc::clone(connection), Arc::new(pending));
        let mut state = lock(&connection.inbox.state);
        state.next += 1;
        let exchange = Exchange(state.next);
        state.pending.insert(exchange, Arc::clone(&pending));
        drop(state);
        let sink = Arc::<Inbox>::clone(&connection.inbox);
        // Behind a bridge our calls are beside those of its clients.
        let call = match connection.route {
            CallRoute::Own(_) => Call::new(sink, exchange),
            CallRoute::ViaBridge(..) => Call::internal(sink, exchange),
        };
        Self { connection, call, pending, over: false }
    }

    pub(super) fn exchange(&self) -> Exchange {
        self.call.exchange()
    }

    /// Sends its request; what must be done for it.
    pub(super) fn to_server(&self, request: &Message) -> PendingWork {
        match &self.connection.route {
            CallRoute::Own(upstream) => upstream.open(&self.call, true, request, &None),
            CallRoute::ViaBridge(bridge, client) => {
                // The bridge passes on what it takes for a client's, and adds nothing.
                let request = bridge.server().tell_chain(request.clone());
                bridge.open(client, &self.call, request, None)
            }
        }
    }

    /// Sends its request and waits for the answer, whatever that is.
    pub(super) async fn ask(
        mut self,
        request: &Message,
        limit: TimeLimit,
    ) -> Result<Message, CallError> {
        let started = now();
        let work = self.to_server(request);
        // On HTTP the work is the call itself, so it goes on here.
        let working = async {
            work.await;
            std::future::pending::<()>().await;
        };
        // A user who is asked something takes as long as the call may take in all.
        let answer = self.pending.wait(limit, |state| state.outcome.take());
        match race(answer, working).await {
            Either::Left(Some(outcome)) => {
                self.over = true;
                match outcome {
                    Outcome::Answered(answer) => Ok(answer),
                    Outcome::Failed(why) => Err(why.into()),
                }
            }
            Either::Left(None) | Either::Right(()) => {
                self.give_up("Request timeout");
                let waited = now().saturating_duration_since(started);
                Err(CallError::timeout(if now() < limit.until { limit.quiet } else { waited }))
            }
        }
    }

    fn give_up(&mut self, reason: &str) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let params = json!({"requestId": 0, "reason": reason}).to_string();
        let words = Message::notification(method::CANCELLED, Some(params.as_bytes()));
        lock(&self.connection.inbox.state).pending.remove(&self.exchange());
        self.call.cancel(Some(&words)).detach();
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.give_up("not wanted any more");
    }
}

/// Receives what the server sends, and wakes the call that waits for it.
pub(super) struct Inbox {
    number: u64,
    /// Whose results are kept here, if any are.
    pub(super) cache_owner: CacheOwner,
    pub(super) options: Arc<ClientOptions>,
    /// What tells us from others, if a bridge knows us by it.
    client: Option<Arc<ClientConnection>>,
    pub(super) connected: AtomicBool,
    state: Mutex<InboxState>,
}

#[derive(Default)]
struct InboxState {
    next: u64,
    pending: HashMap<Exchange, Arc<PendingCall>>,
    /// The tasks that answer questions of the server.
    asked: HashMap<Ask, OwnedTask>,
    /// How many listens watch each resource of a legacy server.
    watched: HashMap<String, usize>,
    /// Told what belongs to no call.
    listeners: Vec<mpsc::Sender<ListenerEvent>>,
}

impl Inbox {
    /// One listen more watches a resource.
    pub(super) fn watch(&self, uri: &str) {
        *lock(&self.state).watched.entry(uri.to_owned()).or_default() += 1;
    }

    /// One less; true if it was the last.
    pub(super) fn unwatch(&self, uri: &str) -> bool {
        let mut state = lock(&self.state);
        let left = state.watched.remove(uri).map_or(0, |count| count - 1);
        if left > 0 {
            state.watched.insert(uri.to_owned(), left);
        }
        left == 0
    }

    /// Has a listener hear what belongs to no call.
    pub(super) fn listen(&self, listener: mpsc::Sender<ListenerEvent>) {
        let mut state = lock(&self.state);
        state.listeners.retain(|listener| !listener.is_closed());
        state.listeners.push(listener);
    }

    /// Something has changed, or may have: what was kept of it is stale.
    pub(super) fn handle_change(&self, method: &str, params: impl FnOnce() -> Value) {
        if let Some(cache) = &self.options.cache {
            cache.handle_note(&self.cache_owner, method, params);
        }
    }

    /// The connection is over: nothing more will be heard.
    pub(super) fn close(&self) {
        let was = self.connected.swap(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        state.listeners.clear();
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
        let listeners = lock(&self.state).listeners.clone();
        if self.options.callbacks.on_notification.is_none() && listeners.is_empty() {
            return;
        }
        let note = notification(message);
        for listener in &listeners {
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
        let Some(answer) = answers.find(request.method(), &params) else {
            if answers.knows(request.method()) {
                let what = "this mode of elicitation was not declared".to_owned();
                supply(&asker, ask, &Message::refusal(None, &Refusal::BadEnvelope { what }));
            }
            return answers.knows(request.method());
        };
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
        for listener in &lock(&self.state).listeners {
            // A listener that is behind will see that its link works again.
            _ = listener.try_send(ListenerEvent::Lost);
        }
    }

    fn end(self: Arc<Self>) {
        self.close();
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("number", &self.number).finish_non_exhaustive()
    }
}

/// How long to wait: without a sign of life, and at most.
#[derive(Clone, Copy)]
pub(super) struct TimeLimit {
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
    /// Questions of the server about it that are being answered.
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
    fn note(&self, message: &Message) -> bool {
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
    fn ask(&self, begins: bool) {
        let mut state = lock(&self.state);
        state.touched = now();
        state.asking = if begins { state.asking + 1 } else { state.asking.saturating_sub(1) };
        drop(state);
        self.woken.notify_one();
    }

    fn finish(&self, outcome: Outcome) {
        let mut state = lock(&self.state);
        state.outcome = Some(outcome);
        state.notes = None;
        drop(state);
        self.woken.notify_one();
    }

    /// Waits until a listen has begun, or was refused.
    pub(super) async fn begun(&self, limit: TimeLimit) -> Option<Result<Value, Outcome>> {
        let begun = |state: &mut PendingState| match state.acknowledged.take() {
            Some(honoured) => Some(Ok(honoured)),
            None => state.outcome.clone().map(Err),
        };
        self.wait(limit, begun).await
    }

    /// What a listen ended with, if it has.
    pub(super) fn ending(&self) -> Option<Outcome> {
        lock(&self.state).outcome.clone()
    }

    async fn wait<T>(
        &self,
        limit: TimeLimit,
        mut take: impl FnMut(&mut PendingState) -> Option<T>,
    ) -> Option<T> {
        loop {
            let deadline = {
                let mut state = lock(&self.state);
                if let Some(found) = take(&mut state) {
                    return Some(found);
                }
                let quiet = state.touched + limit.quiet;
                if state.asking > 0 { limit.until } else { quiet.min(limit.until) }
            };
            if deadline <= now() {
                return None;
            }
            // Woken or not, the next look tells.
            _ = tokio::time::timeout_at(deadline.into(), self.woken.notified()).await;
        }
    }
}

/// A listener that does not read misses the newest.
fn send(to: &mpsc::Sender<ListenerEvent>, note: Notification) {
    if let Err(mpsc::error::TrySendError::Full(_)) = to.try_send(ListenerEvent::Note(note)) {
        tracing::warn!("a listener does not read; a notification is dropped");
    }
}

fn notification(message: &Message) -> Notification {
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
