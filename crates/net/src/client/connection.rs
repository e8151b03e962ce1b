//! The connection to one server: where its calls go, and the inbox for what comes back.

use std::sync::Arc;
use std::time::Duration;

use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use super::CallError;
use super::cache::CacheOwner;
use super::inbox::{Inbox, Patience, PendingCall};
use super::options::ClientOptions;
use crate::backend::{Backend as _, PendingWork};
use crate::bridge::Bridge;
use crate::call::{Call, ReplySink};
use crate::connection::{ClientConnection, now};
use crate::drive::{Either, race};
use crate::upstream::{Eras, ServerTarget, Upstream};

/// Everything that a call needs of a connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) far: Far,
    pub(super) inbox: Arc<Inbox>,
    _end: Arc<End>,
}

/// Ends the connection with its last user. Nobody waits for it, but it comes.
#[derive(Debug)]
struct End(Far);

impl Drop for End {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Connection {
    pub(super) fn new(server: &ServerTarget, era: Era, options: &Arc<ClientOptions>) -> Self {
        let far = Far::new(server, era, Arc::clone(&options.limits));
        let inbox = Inbox::new(CacheOwner::of(server), Arc::clone(options), &far);
        far.attach(&inbox);
        let end = Arc::new(End(far.clone()));
        Self { far, inbox, _end: end }
    }

    /// Opens a call; its place, and what keeps it open.
    pub(super) fn open(&self, exchange: Exchange, pending: &Arc<PendingCall>) -> OpenCall {
        self.inbox.await_answer(exchange, pending);
        let sink = Arc::<Inbox>::clone(&self.inbox);
        // Behind a bridge our calls are beside those of its clients.
        let call = match self.far.client() {
            Some(_) => Call::internal(sink, exchange),
            None => Call::new(sink, exchange),
        };
        OpenCall { connection: self.clone(), call, over: false }
    }

    /// Sends a request and waits for its answer, whatever that is.
    pub(super) async fn ask(
        &self,
        exchange: Exchange,
        pending: Arc<PendingCall>,
        request: &Message,
        patience: Patience,
    ) -> Result<Message, CallError> {
        let mut open = self.open(exchange, &pending);
        let started = now();
        let works = self.far.open(&open.call, request);
        // On HTTP the work is the call itself, so it goes on here.
        let working = async {
            works.await;
            std::future::pending::<()>().await;
        };
        match race(pending.answer(patience), working).await {
            Either::Left(Some(outcome)) => {
                open.over = true;
                match outcome {
                    Outcome::Answered(answer) => Ok(answer),
                    Outcome::Failed(why) => Err(why.into()),
                }
            }
            Either::Left(None) | Either::Right(()) => {
                open.give_up("Request timeout");
                let waited = now().saturating_duration_since(started);
                let time = if now() < patience.until { patience.quiet } else { waited };
                Err(CallError::timeout(time))
            }
        }
    }

    /// Starts a call that is not answered soon; the works are on their way.
    pub(super) fn start(&self, open: &OpenCall, request: &Message) {
        self.far.open(&open.call, request).detach();
    }

    /// A plain question within a time.
    pub(super) async fn ask_within(
        &self,
        method: &str,
        params: &[u8],
        time: Duration,
    ) -> Result<Message, CallError> {
        let request = Message::request(&Id::from(0), method, Some(params));
        let pending = Arc::new(PendingCall::new(None, None));
        let patience = Patience { quiet: time, until: now() + time };
        self.ask(self.inbox.next_exchange(), pending, &request, patience).await
    }
}

/// A call that is open. Dropped before it is over, it is cancelled, and the
/// server told (CAN-1, CAN-2, UTL-1).
#[derive(Debug)]
pub(super) struct OpenCall {
    connection: Connection,
    call: Call,
    over: bool,
}

impl OpenCall {
    fn give_up(&mut self, reason: &str) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let params = serde_json::json!({"requestId": 0, "reason": reason}).to_string();
        let words = Message::notification(method::CANCELLED, Some(params.as_bytes()));
        self.connection.inbox.forget(self.call.exchange());
        self.call.cancel(Some(&words)).detach();
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.give_up("not wanted any more");
    }
}

/// Where calls go.
#[derive(Clone)]
pub(super) enum Far {
    /// A connection that nobody else uses.
    Own(Arc<Upstream>),
    /// A bridge, to which we are one client of many.
    ViaBridge(Arc<Bridge>, Arc<ClientConnection>),
}

impl Far {
    pub(super) fn new(server: &ServerTarget, era: Era, limits: Arc<Limits>) -> Self {
        if let Some(behind) = server.through() {
            return Self::ViaBridge(Arc::clone(&behind.bridge), behind.client(era));
        }
        Self::Own(Upstream::new(server.clone(), Eras::both(era), Sharing::Alone, None, limits))
    }

    /// What tells us from others there, if somebody else gave it.
    pub(super) fn client(&self) -> Option<&Arc<ClientConnection>> {
        match self {
            Self::Own(_) => None,
            Self::ViaBridge(_, client) => Some(client),
        }
    }

    /// Opens a call; what must be done for it.
    pub(super) fn open(&self, call: &Call, request: &Message) -> PendingWork {
        match self {
            Self::Own(upstream) => upstream.open(call, true, request, &None),
            Self::ViaBridge(bridge, client) => bridge.open(client, call, request.clone(), None),
        }
    }

    pub(super) fn note(&self, message: Message) -> PendingWork {
        match self {
            Self::Own(upstream) => upstream.note(message),
            Self::ViaBridge(bridge, client) => bridge.note(client, message),
        }
    }

    /// The server does not speak what it was asked for first.
    pub(super) fn turn_legacy(&self) {
        if let Self::Own(upstream) = self {
            upstream.change_era(Era::Legacy);
        }
    }

    /// Says whether it is asked for its era only.
    pub(super) fn scout(&self, scouts: bool) {
        if let Self::Own(upstream) = self {
            upstream.set_probing(scouts);
        }
    }

    /// Sends what belongs to no call to the inbox.
    pub(super) fn attach(&self, inbox: &Arc<Inbox>) {
        if let Self::Own(upstream) = self {
            upstream.attach(&(Arc::clone(inbox) as Arc<dyn ReplySink>));
        }
    }

    /// Waits until what belongs to no call is heard.
    pub(super) async fn until_listening(&self) {
        if let Self::Own(upstream) = self {
            upstream.until_listening().await;
        }
    }

    /// Ends it without waiting; a bridge only forgets us.
    pub(super) fn stop(&self) {
        match self {
            Self::Own(upstream) => upstream.stop(),
            Self::ViaBridge(_, client) => client.end(),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        match self {
            Self::Own(upstream) => upstream.is_stopped(),
            Self::ViaBridge(_, client) => client.is_over(),
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Own(upstream) => upstream.close().await,
            Self::ViaBridge(_, client) => client.end(),
        }
    }
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(upstream) => upstream.fmt(f),
            Self::ViaBridge(_, client) => client.fmt(f),
        }
    }
}
