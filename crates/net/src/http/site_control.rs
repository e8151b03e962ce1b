//! A site while it runs: rules that may change, connected clients, counters, and its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::{Response, StatusCode};
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;

use super::guard::Guard;
use super::response_body::Body;
use super::site::{Inner, Site, SiteOptions};
use crate::backend::PendingWork;
use crate::connection::{ClientConnection, lock};
use crate::who::Who;

/// Who may talk to a site, and how much. See [`Site::adjust`].
#[derive(Clone, Debug)]
pub struct SiteRules {
    /// Who may talk to it.
    pub guard: Guard,
    /// Bounds of each conversation.
    pub limits: Arc<Limits>,
    /// Sessions at once; beyond it new ones are refused.
    pub max_sessions: usize,
}

/// The rules of one site, replaced as a whole.
#[derive(Debug)]
pub(super) struct CurrentRules(RwLock<Arc<SiteRules>>);

impl CurrentRules {
    /// Those that a site begins with.
    pub(super) fn of(options: &SiteOptions) -> Self {
        let SiteOptions { guard, limits, max_sessions, .. } = options;
        let (guard, limits) = (guard.clone(), Arc::clone(limits));
        Self(RwLock::new(Arc::new(SiteRules { guard, limits, max_sessions: *max_sessions })))
    }
}

impl Inner {
    /// The rules as they are at this time.
    pub(super) fn rules(&self) -> Arc<SiteRules> {
        Arc::clone(&self.rules.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Site {
    /// Goes by these rules from the next request on, whatever its options said.
    /// Sessions that are open stay, with the bounds that they began with.
    pub fn adjust(&self, rules: SiteRules) {
        let inner = &*self.inner;
        for sessions in [&inner.sessions, &inner.old, &inner.listens] {
            sessions.bound(rules.max_sessions);
        }
        inner.parking.bound(rules.limits.parked);
        *inner.rules.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }
}

impl Site {
    /// Takes no new sessions, and ends those that are open with their streams.
    /// One that waits for an answer ends when it has it, however long that takes.
    pub fn close(&self) {
        for sessions in [&self.inner.sessions, &self.inner.old, &self.inner.listens] {
            sessions.close_all();
        }
        self.inner.sockets.close();
    }

    /// Waits until no call is open that was made until now, in whichever era.
    pub async fn all_answered(&self) {
        for client in self.inner.clients() {
            client.all_answered().await;
        }
        for pipe in self.inner.sockets.pipes() {
            pipe.is_quiet().await;
        }
    }

    /// Answers every call that is open, and each that still comes, with an error
    /// of its own. The work that is left tells the servers that nobody waits.
    pub fn give_up(&self) -> PendingWork {
        self.inner.stopping.store(true, Ordering::SeqCst);
        let mut works = PendingWork::none();
        for client in self.inner.clients() {
            works.append(client.give_up(&Refusal::Stopping));
        }
        for pipe in self.inner.sockets.pipes() {
            works.append(pipe.give_up(&Refusal::Stopping));
        }
        works
    }

    /// Waits until the last `WebSocket` is closed: the listener does not know them.
    pub async fn sockets_closed(&self) {
        self.inner.sockets.all_closed().await;
    }
}

impl Inner {
    /// All clients but those on a `WebSocket`.
    fn clients(&self) -> Vec<Arc<ClientConnection>> {
        [self.sessions.clients(), self.old.clients(), self.parking.clients()].concat()
    }

    /// Whether somebody who was let in may still come in. A body may take long, and a
    /// key may be removed, or its grant taken away, while it arrives.
    pub(super) fn keeps(&self, who: &Who) -> Result<(), Refusal> {
        let stays = self.options.gate.as_ref().is_none_or(|gate| gate.keeps(who.name()));
        if stays && who.is_current() { Ok(()) } else { Err(Refusal::KeyRemoved) }
    }

    /// A call that came while calls were given up, or while its key was removed, is
    /// given up too.
    pub(super) fn after_call(&self, client: &Arc<ClientConnection>) {
        if self.stopping.load(Ordering::SeqCst) {
            client.give_up(&Refusal::Stopping).detach();
        } else if let Err(why) = self.keeps(client.who()) {
            client.give_up(&why).detach();
            // Listens do not count as calls.
            client.end();
        }
    }
}

/// A client that has a session, or listens.
#[derive(Clone, Debug)]
pub struct ConnectedClient {
    /// The client.
    pub client: Arc<ClientConnection>,
    /// How it is connected: `http` or `sse`.
    pub transport: &'static str,
    /// Where it came in.
    pub path: Arc<str>,
}

impl Site {
    /// Everybody who has a session here, but for those on a `WebSocket`, and modern
    /// clients that listen.
    pub fn seen(&self) -> Vec<ConnectedClient> {
        let Inner { options, sessions, old, listens, .. } = &*self.inner;
        let seen = |clients: Vec<Arc<ClientConnection>>, transport, path: &str| {
            let path: Arc<str> = path.into();
            let seen = move |client| ConnectedClient { client, transport, path: Arc::clone(&path) };
            clients.into_iter().map(seen)
        };
        seen(sessions.clients(), "http", &options.path)
            .chain(seen(listens.clients(), "http", &options.path))
            .chain(seen(old.clients(), "sse", &options.sse_path))
            .collect()
    }

    /// Ends the listens of these clients, each with its result: those who still want
    /// to hear of changes listen again, and look at what there is (SUB-8).
    pub fn end_listens_of(&self, is_meant: impl Fn(&Who) -> bool) {
        self.inner.listens.close_unless(|who| !is_meant(who));
    }

    /// How many listens of modern clients are open.
    pub fn listens(&self) -> usize {
        self.inner.listens.len()
    }
}

/// Counters of one site or of several.
#[derive(Debug, Default)]
pub struct HttpCounters {
    received: AtomicU64,
    sent: AtomicU64,
    streams: AtomicU64,
    resumed: AtomicU64,
    /// As many as there are reasons.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl HttpCounters {
    /// Bytes of bodies that clients have sent.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes of bodies that clients were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Event streams that are open.
    pub fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }

    /// How often a client came back for the rest of a stream.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// How many requests were turned away, by reason.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.refused).clone()
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_resumed(&self) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response, and its body as it is written.
    pub(super) fn count(self: &Arc<Self>, response: Response<Body>) -> Response<Body> {
        if let Some(reason) = reason(&response) {
            *lock(&self.refused).entry(reason).or_default() += 1;
        }
        response.map(|body| body.counted(self))
    }
}

/// Why a request was turned away, for whoever counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusalReason(pub(super) &'static str);

fn reason(response: &Response<Body>) -> Option<&'static str> {
    if let Some(RefusalReason(name)) = response.extensions().get() {
        return Some(name);
    }
    match response.status() {
        StatusCode::UNAUTHORIZED => Some("unauthorized"),
        StatusCode::FORBIDDEN => Some("forbidden"),
        StatusCode::TOO_MANY_REQUESTS => Some("too_many_requests"),
        status if status.is_server_error() => Some("unavailable"),
        // A half said why, in the body.
        status if status.is_client_error() => Some("message"),
        _ => None,
    }
}

/// The bytes of one body, and that it is a stream.
#[derive(Debug)]
pub(super) struct BodyCounter {
    tally: Arc<HttpCounters>,
    is_stream: bool,
}

impl BodyCounter {
    pub(super) fn new(tally: &Arc<HttpCounters>, is_stream: bool) -> Self {
        if is_stream {
            tally.streams.fetch_add(1, Ordering::Relaxed);
        }
        Self { tally: Arc::clone(tally), is_stream }
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.tally.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for BodyCounter {
    fn drop(&mut self) {
        if self.is_stream {
            self.tally.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
