//! One request of a client, from the moment it is opened until it is over.
//!
//! The record is the only thing that an answer, a question, a cancel or a retry looks
//! for. It knows the client that waits, the holder that has the call at present (a
//! queue or a connection to a server), and what is released when the call is over.
//!
//! ```text
//!   ClientConnection ──▶ Call ──▶ Backend::open ──▶ … ──▶ a connection holds it
//!     cancel, retry ────▶ Call ──▶ its holder
//!     answer, progress ◀── Call ◀── its connection
//! ```

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use switchboard_proto::client::Ticket;
use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::Message;

use crate::backend::PendingWork;
#[cfg(feature = "client")]
use crate::bridge::Permit;
use crate::charge::Charge;
use crate::connection::{ClientConnection, lock};

/// Only a bridge has permits.
#[cfg(not(feature = "client"))]
type NoPermit = Box<std::convert::Infallible>;
#[cfg(not(feature = "client"))]
use self::NoPermit as Permit;

/// One request, and who must be told what comes of it. Clones are the same call.
#[derive(Clone)]
pub struct Call(Arc<Record>);

struct Record {
    sink: Arc<dyn ReplySink>,
    exchange: Exchange,
    /// The gateway makes it for itself, beside the calls of clients.
    is_internal: bool,
    /// Its request has the id that its client gave it.
    has_own_id: bool,
    /// Its client speaks the era of the server.
    is_native: AtomicBool,
    state: Mutex<CallState>,
}

#[derive(Default)]
struct CallState {
    phase: CallPhase,
    holder: Option<Weak<dyn CallHolder>>,
    /// The name of the server that it was sent to.
    server: Option<Arc<str>>,
    /// Hears what the server says that belongs to no call; the sink if there is none.
    listener: Option<Arc<dyn ReplySink>>,
    rewrite: Option<Arc<dyn ReplyRewrite>>,
    intercept: Option<Intercept>,
    recovery: Option<Arc<dyn CallRecovery>>,
    observer: Option<Box<dyn CallObserver>>,
    /// Its place among the calls that the server may have at once.
    permit: Option<Permit>,
    /// The bytes of its request.
    charge: Option<Arc<Charge>>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum CallPhase {
    #[default]
    Open,
    /// The client has cancelled it. Its answer may still be passed on.
    Cancelled,
    Over,
}

/// Sees the server's answer first. If it returns true, another answer will follow.
type Intercept = Box<dyn FnOnce(&Message) -> bool + Send>;

/// Where a server's words about calls go: a client that is served, or a client of ours.
///
/// Called while messages are passed on, so nothing here may wait.
pub trait ReplySink: fmt::Debug + Send + Sync {
    /// The client that it stands in for: what it does not say itself, that client does.
    fn client(&self) -> Option<&Arc<ClientConnection>> {
        None
    }
    /// Tells it from all others.
    fn number(&self) -> u64 {
        self.client().map_or(0, |client| client.number())
    }
    /// The identity that it speaks for; empty if it has shown none.
    fn principal(&self) -> &[u8] {
        self.client().map_or(b"", |client| client.principal())
    }
    /// A notification, about a call or about the session.
    fn note(&self, exchange: Option<Exchange>, message: &Message);
    /// The server needs input, and `asker` takes the answer; the backend does if there is no
    /// asker. False if the client cannot be asked.
    #[must_use]
    fn ask(
        self: Arc<Self>,
        _exchange: Option<Exchange>,
        _asker: Weak<dyn Asker>,
        _ask: Ask,
        _request: &Message,
    ) -> bool {
        false
    }
    /// The server does not need the input any more.
    fn recall(&self, _ask: Ask, _message: &Message) {}
    /// A call is over.
    fn finish(&self, exchange: Exchange, outcome: Outcome);
    /// The server may still answer this call, which was cancelled. True if
    /// that answer is to be passed on: then `finish` or `end_cancelled` follows.
    fn await_cancelled(&self, _exchange: Exchange) -> bool {
        false
    }
    /// A cancelled call gets no answer.
    fn end_cancelled(&self, _exchange: Exchange) {}
    /// The server ended the connection of a call on purpose: its answer takes long.
    fn hang_up(&self, _exchange: Exchange) {}
    /// The connection to the server is gone; it may come back.
    fn lost(&self, _why: &Failure) {}
    /// Whether what belongs to no call reaches it now.
    fn hears(&self) -> bool {
        true
    }
    /// Whether it reads slower than it is written to.
    fn is_slow(&self) -> bool {
        self.client().is_some_and(|client| client.is_slow())
    }
    /// Waits until it has read enough.
    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self.client() {
            Some(client) => Arc::clone(client).room(),
            None => Box::pin(std::future::ready(())),
        }
    }
    /// It is disconnected.
    fn end(self: Arc<Self>) {
        if let Some(client) = self.client() {
            ClientConnection::end(client);
        }
    }
}

/// Who asked a question, and takes what the client says to it.
pub trait Asker: Send + Sync {
    /// The answer.
    fn supply(self: Arc<Self>, ask: Ask, answer: &Message) -> PendingWork;
    /// Progress on the question.
    fn progress(self: Arc<Self>, message: Message) -> PendingWork;
}

/// Who has a call: a queue, a connection, or the code that answers it.
pub trait CallHolder: Send + Sync {
    /// The client cancels the call; its own words, if it said any.
    fn cancel(self: Arc<Self>, call: &Call, words: Option<&Message>) -> PendingWork;
    /// A modern client is back with input for the call, by this request.
    fn retry(self: Arc<Self>, _call: &Call, _request: &Message) -> PendingWork {
        PendingWork::none()
    }
    /// The client is gone. A connection to a server is told for all its calls at once.
    fn abandon(&self) {}
}

/// What is changed in a server's words about a call before the client gets them.
pub trait ReplyRewrite: Send + Sync {
    /// The server's answer.
    fn answer(&self, answer: &Message) -> Outcome;
    /// A notification on the way; none if the client must not hear it.
    fn note<'m>(&self, message: &'m Message) -> Option<Cow<'m, Message>> {
        Some(Cow::Borrowed(message))
    }
    /// A question; none if the client must not be asked.
    fn question<'m>(
        &self,
        _asker: &Weak<dyn Asker>,
        _ask: Ask,
        request: &'m Message,
    ) -> Option<Cow<'m, Message>> {
        Some(Cow::Borrowed(request))
    }
    /// The question is not open: it was recalled, or could not be put.
    fn recalled(&self, _ask: Ask) {}
}

/// Sees why a call failed before its client does.
pub trait CallRecovery: Send + Sync {
    /// True if it sees to the call: another outcome, or a question, follows.
    fn recover(self: Arc<Self>, call: &Call, why: &Failure) -> bool;
}

/// A point on the way of a call that its observer is told of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CallPoint {
    /// It has its place among the calls that the server may have at once.
    Admitted,
    /// The server asks the client something.
    Asked,
    /// The server's answer has come, or why there is none.
    Answered,
}

/// A call that is not over, for people who look at it.
#[derive(Clone, Debug)]
pub struct CallDescription {
    /// Its method.
    pub method: Box<str>,
    /// The tool, prompt or resource, as the client calls it.
    pub offered: Option<Box<str>>,
    /// The server that it went to.
    pub server: Option<Arc<str>>,
    /// When it came.
    pub at: SystemTime,
    /// How long ago that was.
    pub age: Duration,
    /// The trace that it is part of.
    pub trace: u128,
    /// What a client without a session calls itself.
    pub client: Option<Box<str>>,
}

/// Sees a call: for counts, log lines and traces.
pub trait CallObserver: Send {
    /// What it is; none if this observer does not know.
    fn describe(&self) -> Option<CallDescription> {
        None
    }
    /// It is sent to a server, as `request`; what that server gets.
    fn forward(&mut self, server: &Arc<str>, request: Message) -> Message;
    /// It has come so far.
    fn reach(&mut self, _point: CallPoint) {}
    /// It is over; without an answer if its client gave it up. Another answer may be returned.
    fn finish(
        self: Box<Self>,
        client: &ClientConnection,
        answer: Option<&Message>,
    ) -> Option<Message>;
}

impl Call {
    /// A request of whom `sink` tells.
    pub fn new(sink: Arc<dyn ReplySink>, exchange: Exchange) -> Self {
        Self(Arc::new(Record::new(sink, exchange)))
    }

    /// A request that the gateway makes for itself: it takes no permit from clients.
    pub(crate) fn internal(sink: Arc<dyn ReplySink>, exchange: Exchange) -> Self {
        Self(Arc::new(Record { is_internal: true, ..Record::new(sink, exchange) }))
    }

    /// A request as a client sent it, with the charge for its bytes.
    pub(crate) fn of_client(
        sink: Arc<dyn ReplySink>,
        exchange: Exchange,
        charge: Option<Arc<Charge>>,
    ) -> Self {
        let state = Mutex::new(CallState { charge, ..CallState::default() });
        let record = Record::new(sink, exchange);
        Self(Arc::new(Record { has_own_id: true, state, ..record }))
    }

    /// Its number at its client.
    pub fn exchange(&self) -> Exchange {
        self.0.exchange
    }

    /// Who is told what comes of it.
    pub(crate) fn sink(&self) -> &Arc<dyn ReplySink> {
        &self.0.sink
    }

    /// Whether the gateway makes it for itself.
    pub(crate) fn is_internal(&self) -> bool {
        self.0.is_internal
    }

    /// Whether nobody waits for its answer any more.
    pub fn is_over(&self) -> bool {
        lock(&self.0.state).phase != CallPhase::Open
    }

    /// The server that it was sent to.
    pub fn server(&self) -> Option<Arc<str>> {
        lock(&self.0.state).server.clone()
    }

    /// `holder` has it from here on. False if it is over: then nothing may be made of it.
    #[must_use]
    pub fn hold(&self, holder: Weak<dyn CallHolder>) -> bool {
        let mut state = lock(&self.0.state);
        let is_open = state.phase == CallPhase::Open;
        if is_open {
            state.holder = Some(holder);
        }
        is_open
    }

    /// Its client speaks the server's own era.
    pub(crate) fn set_native(&self, is_native: bool) {
        self.0.is_native.store(is_native, Ordering::Relaxed);
    }

    /// Changes what the server says before the client gets it.
    pub fn set_rewrite(&self, rewrite: Arc<dyn ReplyRewrite>) {
        lock(&self.0.state).rewrite = Some(rewrite);
    }

    /// Has `listener` hear what the server says that belongs to no call.
    pub fn set_listener(&self, listener: Arc<dyn ReplySink>) {
        lock(&self.0.state).listener = Some(listener);
    }

    /// Who hears what the server says that belongs to no call.
    pub(crate) fn listener(&self) -> Arc<dyn ReplySink> {
        lock(&self.0.state).listener.clone().unwrap_or_else(|| Arc::clone(&self.0.sink))
    }

    /// Has `intercept` see the answer first.
    pub(crate) fn set_intercept(&self, intercept: impl FnOnce(&Message) -> bool + Send + 'static) {
        let mut state = lock(&self.0.state);
        if state.phase == CallPhase::Open {
            state.intercept = Some(Box::new(intercept));
        }
    }

    /// Has `recovery` see each failure first.
    pub fn set_recovery(&self, recovery: Arc<dyn CallRecovery>) {
        let mut state = lock(&self.0.state);
        if state.phase == CallPhase::Open {
            state.recovery = Some(recovery);
        }
    }

    /// It waits for its client, and is open at no server: the next call may be let on.
    pub fn release_permit(&self) {
        let permit = lock(&self.0.state).permit.take();
        drop(permit);
    }

    /// Keeps a permit until the call is over.
    pub(crate) fn set_permit(&self, permit: Permit) {
        let mut state = lock(&self.0.state);
        if state.phase == CallPhase::Open {
            state.permit = Some(permit);
            state.reach(CallPoint::Admitted);
            return;
        }
        drop(state);
        drop(permit);
    }

    /// Has it seen by `observer`.
    pub fn set_observer(&self, observer: Box<dyn CallObserver>) {
        lock(&self.0.state).observer = Some(observer);
    }

    /// What its observer knows of it; none if it is over.
    pub fn describe(&self) -> Option<CallDescription> {
        lock(&self.0.state).observer.as_ref()?.describe()
    }

    /// It is sent to a server, as `request`; what that server gets.
    pub fn forward(&self, server: &Arc<str>, request: Message) -> Message {
        let mut state = lock(&self.0.state);
        state.server = Some(Arc::clone(server));
        match &mut state.observer {
            Some(observer) => observer.forward(server, request),
            None => request,
        }
    }

    /// The answer, or why there is none. Only the first one counts.
    pub fn finish(&self, outcome: impl Into<Outcome>) {
        let outcome = outcome.into();
        let mut state = lock(&self.0.state);
        if state.phase == CallPhase::Over {
            return;
        }
        state.reach(CallPoint::Answered);
        let (intercept, rewrite) = (state.intercept.take(), state.rewrite.clone());
        let recovery = state.recovery.clone().filter(|_| state.phase == CallPhase::Open);
        drop(state);
        if let (Some(recovery), Outcome::Failed(why)) = (recovery, &outcome)
            && recovery.recover(self, why)
        {
            return;
        }
        if let (Some(intercept), Some(answer)) = (intercept, outcome.answer())
            && intercept(answer)
        {
            return;
        }
        let outcome = match &rewrite {
            Some(rewrite) => outcome.and_then(|answer| rewrite.answer(answer)),
            None => outcome,
        };
        let mut state = lock(&self.0.state);
        (state.phase, state.holder) = (CallPhase::Over, None);
        let released = state.release();
        drop(state);
        self.0.sink.finish(self.0.exchange, outcome);
        // Once the client has its answer, the next call may be let on.
        drop(released);
    }

    /// An answer that no server gave: it is not changed on its way.
    pub fn finish_unchanged(&self, answer: Message) {
        lock(&self.0.state).rewrite = None;
        self.finish(answer);
    }

    /// A notification on the way.
    pub fn note(&self, message: &Message) {
        let Some(rewrite) = self.rewrite_while_open() else { return };
        let message = match &rewrite {
            Some(rewrite) => rewrite.note(message),
            None => Some(Cow::Borrowed(message)),
        };
        if let Some(message) = message {
            self.0.sink.note(Some(self.0.exchange), &message);
        }
    }

    /// What changes the server's words. Once the call is over, nothing more is heard of it.
    #[expect(clippy::option_option, reason = "whether it is open, and whether it has one")]
    fn rewrite_while_open(&self) -> Option<Option<Arc<dyn ReplyRewrite>>> {
        let state = lock(&self.0.state);
        (state.phase != CallPhase::Over).then(|| state.rewrite.clone())
    }

    /// The server needs input. False if the client cannot be asked.
    pub fn ask(&self, asker: Weak<dyn Asker>, ask: Ask, request: &Message) -> bool {
        let Some(rewrite) = self.rewrite_while_open() else { return false };
        lock(&self.0.state).reach(CallPoint::Asked);
        let sink = Arc::clone(&self.0.sink);
        let Some(rewrite) = rewrite else {
            return sink.ask(Some(self.0.exchange), asker, ask, request);
        };
        let Some(request) = rewrite.question(&asker, ask, request) else { return false };
        let is_asked = sink.ask(Some(self.0.exchange), asker, ask, &request);
        if !is_asked {
            rewrite.recalled(ask);
        }
        is_asked
    }

    /// The server does not need the input any more.
    pub(crate) fn recall(&self, ask: Ask, message: &Message) {
        let rewrite = lock(&self.0.state).rewrite.clone();
        if let Some(rewrite) = rewrite {
            rewrite.recalled(ask);
        }
        self.0.sink.recall(ask, message);
    }

    /// A cancelled call gets no answer.
    pub(crate) fn unanswered(&self) {
        self.0.sink.end_cancelled(self.0.exchange);
        self.close();
    }

    /// The client cancels it: whoever has it is told. Does nothing if that was done.
    pub fn cancel(&self, words: Option<&Message>) -> PendingWork {
        let mut state = lock(&self.0.state);
        if state.phase == CallPhase::Open {
            state.phase = CallPhase::Cancelled;
        }
        let holder = state.holder.take().and_then(|holder| holder.upgrade());
        let released = state.release();
        drop(state);
        let rest = holder.map_or_else(PendingWork::none, |holder| holder.cancel(self, words));
        // The next call goes on once the server knows that this one is cancelled.
        drop(released);
        rest
    }

    /// A modern client is back with input, by this request.
    pub(crate) fn retry(&self, request: &Message) -> PendingWork {
        let holder = lock(&self.0.state).holder.as_ref().and_then(Weak::upgrade);
        holder.map_or_else(PendingWork::none, |holder| holder.retry(self, request))
    }

    /// The client is gone.
    pub(crate) fn abandon(&self, client: &ClientConnection) {
        self.observe_end(client, None);
        self.close();
        let holder = lock(&self.0.state).holder.take().and_then(|holder| holder.upgrade());
        if let Some(holder) = holder {
            holder.abandon();
        }
    }

    /// Its observer sees its end; without an answer if the client gave it up.
    pub(crate) fn observe_end(
        &self,
        client: &ClientConnection,
        answer: Option<&Message>,
    ) -> Option<Message> {
        let observer = lock(&self.0.state).observer.take();
        observer.and_then(|observer| observer.finish(client, answer))
    }

    /// It is over: what it held is released.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.0.state);
        state.phase = CallPhase::Over;
        let released = state.release();
        // Not under the lock: the next call may be let on.
        drop(state);
        drop(released);
    }
}

impl Record {
    fn new(sink: Arc<dyn ReplySink>, exchange: Exchange) -> Self {
        let is_native = AtomicBool::new(true);
        let (is_internal, has_own_id) = (false, false);
        Self { sink, exchange, is_internal, has_own_id, is_native, state: Mutex::default() }
    }
}

impl CallState {
    fn reach(&mut self, point: CallPoint) {
        if let Some(observer) = &mut self.observer {
            observer.reach(point);
        }
    }

    /// What it held. What refers to this record in its turn must go, or neither would ever end.
    fn release(&mut self) -> impl Sized + use<> {
        let held = (self.permit.take(), self.charge.take());
        (held, self.intercept.take(), self.listener.take(), self.recovery.take())
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Ticket for Call {
    fn owner(&self) -> u64 {
        self.0.sink.number()
    }

    fn principal(&self) -> &[u8] {
        self.0.sink.principal()
    }

    fn is_native(&self) -> bool {
        self.0.is_native.load(Ordering::Relaxed)
    }

    fn awaits_dropped(&self) -> bool {
        self.0.sink.await_cancelled(self.0.exchange)
    }

    fn counts(&self) -> bool {
        !self.0.is_internal
    }

    fn has_own_id(&self) -> bool {
        self.0.has_own_id
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("sink", &self.0.sink)
            .field("exchange", &self.0.exchange)
            .finish_non_exhaustive()
    }
}
