//! The accept loop around an HTTP service, and its graceful stop.
//!
//! Speaks HTTP/1.1 and HTTP/2: with prior knowledge, or as agreed in the TLS handshake.
//! Bounds what a peer can take before the service has a say: connections, header bytes, time.
//!
//! ```text
//!   Serving ── shutdown ──▶ Draining ── grace over ──▶ Cut
//!   accepts                 port closed, requests      every task ends
//!                           in flight go on            where it stands
//! ```
//!
//! Each connection, and each HTTP/2 stream, is a task that watches the phase; its
//! receiver also counts it, so that [`serve`] returns when the last one is gone.
//! Long streams and calls that take their time are not told here: the service ends
//! them by its own means when it hears of the shutdown, as
//! [`Sites::stop`](super::site::Sites::stop) does, and what it leaves open is cut.

use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{Either as EitherBody, Full};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::time::Sleep;
use tower_service::Service;

#[cfg(feature = "tls")]
use super::tls::ListenTls;
use crate::drive::{DEFAULT_GRACE, TaskPart, at_one_time, now};

#[cfg(feature = "tls")]
mod handshake;
mod peer;
mod slots;

use peer::PeerStream;
pub(crate) use peer::{Awaited, Carrying, ClientPeer};
use slots::ConnectionSlots;
pub(super) use slots::network;

/// The bounds of a listener.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct ListenOptions {
    /// Open connections; beyond it new ones wait in the kernel's queue, once the
    /// reserve is taken too.
    pub max_connections: usize,
    /// Open connections of one address, or of one network of IPv6; beyond it new ones
    /// are of the reserve, or closed. Three of four if none is given: behind a proxy
    /// all clients have one address.
    pub max_per_address: Option<usize>,
    /// Connections beyond those that are there for [`reserve_paths`](Self::reserve_paths) alone.
    /// Each is closed after its answer, and everything else is answered with 503.
    pub reserve: usize,
    /// What whoever watches over us asks for; without any there is no reserve.
    pub reserve_paths: Vec<String>,
    /// The head of a request, in bytes; at least 8192.
    pub max_head: usize,
    /// For a whole head to arrive, and for the next one on an idle connection.
    pub head_timeout: Duration,
    /// HTTP/2 streams of one connection.
    pub max_streams: u32,
    /// For requests in flight once the listener is told to stop.
    pub grace: Duration,
    /// Speaks TLS, and nothing else, if it is there.
    #[cfg(feature = "tls")]
    pub tls: Option<ListenTls>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            // Half of the descriptors a process commonly gets, as each may need a peer upstream.
            max_connections: 512,
            max_per_address: None,
            reserve: 8,
            reserve_paths: Vec::new(),
            // Room for large bearer tokens and mirrored parameters.
            max_head: 64 * 1024,
            // Longer than any honest client needs, short enough to free slots.
            head_timeout: Duration::from_secs(30),
            // As hyper has it, against peers that open streams only to cancel them.
            max_streams: 200,
            grace: DEFAULT_GRACE,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

setters! {
    ListenOptions {
        max_connections: usize,
        max_per_address: impl Into<Option<usize>>,
        reserve: usize,
        reserve_paths: Vec<String>,
        max_head: usize,
        head_timeout: Duration,
        max_streams: u32,
        grace: Duration,
    }
}

#[cfg(feature = "tls")]
setters! {
    ListenOptions { tls: impl Into<Option<ListenTls>> }
}

/// Serves `listener` until `shutdown`, and returns when every connection is over.
///
/// Dropping the future cuts all connections at once.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    options: ListenOptions,
    shutdown: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (phase, watcher) = watch::channel(ListenPhase::Serving);
    let slots = ConnectionSlots::new(&options);
    let http = HttpBuilders::new(&options, options.head_timeout, &watcher);
    let brief = HttpBuilders::new(&options, RESERVE_TIME, &watcher);
    let reserved: Arc<[String]> = options.reserve_paths.into();
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, slot) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = slots.accept(&listener) => accepted,
        };
        let service = service.clone();
        let (http, patience, only) = if slot.is_reserve() {
            (&brief, RESERVE_TIME, Some(Arc::clone(&reserved)))
        } else {
            (&http, options.head_timeout, None)
        };
        let (http, phase) = (Arc::clone(http), watcher.clone());
        #[cfg(feature = "tls")]
        if let Some(tls) = &options.tls {
            let acceptor = tls.acceptor();
            tokio::spawn(async move {
                let greeting = handshake::greet(acceptor, stream, slot, patience, phase.clone());
                if let Some(stream) = Box::pin(greeting).await {
                    serve_one(http, stream, service, phase, patience, only).await;
                }
            });
            continue;
        }
        let stream = PeerStream::new(stream, slot);
        tokio::spawn(serve_one(http, stream, service, phase, patience, only));
    }
    drop((listener, watcher, http, brief));
    phase.send_replace(ListenPhase::Draining);
    if tokio::time::timeout(options.grace, phase.closed()).await.is_err() {
        let left = slots.taken();
        tracing::warn!(left, "connections outlived the grace period and are cut");
        phase.send_replace(ListenPhase::Cut);
        phase.closed().await;
    }
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum ListenPhase {
    Serving,
    Draining,
    Cut,
}

/// Completes in `phase` or a later one. Without a sender, [`serve`] was dropped.
async fn reached(watcher: &mut watch::Receiver<ListenPhase>, phase: ListenPhase) {
    _ = watcher.wait_for(|current| *current >= phase).await;
}

/// What hyper serves a connection with.
struct HttpBuilders {
    /// For a client that begins with HTTP/1. hyper keeps twice the buffer for a connection
    /// whose version it has to find out.
    http1: http1::Builder,
    /// For any other client.
    either: auto::Builder<StreamExecutor>,
}

impl HttpBuilders {
    fn new(
        options: &ListenOptions,
        patience: Duration,
        phase: &watch::Receiver<ListenPhase>,
    ) -> Arc<Self> {
        let max_head = options.max_head.max(8192);
        let mut http1 = http1::Builder::new();
        // A timer for each request costs more than one for the connection.
        http1.header_read_timeout(None).max_buf_size(max_head);
        let mut either = auto::Builder::new(StreamExecutor { phase: phase.clone() });
        either.http1().header_read_timeout(None).max_buf_size(max_head);
        either
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(options.max_streams)
            .max_header_list_size(u32::try_from(options.max_head).unwrap_or(u32::MAX))
            // An idle HTTP/2 connection has no head to wait for; pings find the dead ones.
            .keep_alive_interval(patience)
            .keep_alive_timeout(patience);
        Arc::new(Self { http1, either })
    }
}

tokio::task_local! {
    /// The HTTP/2 stream that a task serves.
    static STREAM: ClientPeer;
}

/// Runs HTTP/2 streams as tasks that end with the rest, or alone: other clients may
/// be answered by the same connection.
#[derive(Clone)]
struct StreamExecutor {
    phase: watch::Receiver<ListenPhase>,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let mut phase = self.phase.clone();
        let peer = ClientPeer::default();
        tokio::spawn(STREAM.scope(peer.clone(), async move {
            tokio::select! {
                _ = stream => {}
                () = reached(&mut phase, ListenPhase::Cut) => {}
                () = poll_fn(|cx| peer.poll_cut(cx)) => {
                    tracing::debug!("stream of a client that does not read is cut");
                }
            }
        }));
    }
}

/// Serves one connection. `only` is what a connection of the reserve may ask for.
async fn serve_one<S, B>(
    http: Arc<HttpBuilders>,
    mut stream: PeerStream,
    service: S,
    mut phase: watch::Receiver<ListenPhase>,
    patience: Duration,
    only: Option<Arc<[String]>>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // hyper's own timer starts only after it knows the HTTP version, which a
    // peer that sends nothing, or the start of a preface, never lets it know.
    let mut silence = pin!(tokio::time::sleep(patience));
    let is_http1 = tokio::select! {
        is_http1 = stream.begins_with_http1() => is_http1,
        () = reached(&mut phase, ListenPhase::Draining) => return,
        () = silence.as_mut() => {
            tracing::debug!("peer sent nothing in time");
            return;
        }
    };
    let is_reserve = only.is_some();
    let leaving = Arc::new(Notify::new());
    let peer = stream.peer.clone();
    let noting = hyper::service::service_fn({
        let (leaving, peer) = (Arc::clone(&leaving), peer.clone());
        move |mut request: Request<Incoming>| {
            let version = request.version();
            // Before the first poll: in between, hyper looks for the end of input.
            let awaited = (version <= Version::HTTP_11).then(|| peer.await_answer());
            let answering = peer.answer(version);
            let path = request.uri().path();
            let is_let = only.as_ref().is_none_or(|only| only.iter().any(|one| one == path));
            let (mut service, leaving, peer) =
                (service.clone(), Arc::clone(&leaving), peer.clone());
            async move {
                let mut response = if is_let {
                    // In the task of the stream, if it has one.
                    request.extensions_mut().insert(peer.for_request());
                    poll_fn(|cx| service.poll_ready(cx)).await?;
                    let answer = service.call(request);
                    let response = match awaited {
                        Some(awaited) => awaited.wait_for(answer).await,
                        None => answer.await,
                    };
                    response?.map(EitherBody::Left)
                } else {
                    full().map(EitherBody::Right)
                };
                if is_reserve || response.status() == StatusCode::UNAUTHORIZED {
                    // Strangers do not keep connections that others need.
                    if version <= Version::HTTP_11 {
                        response.headers_mut().insert(CONNECTION, CLOSE);
                    }
                    leaving.notify_one();
                }
                Ok::<_, S::Error>(response.map(|body| answering.until_end_of(body)))
            }
        }
    });
    let io = TokioIo::new(stream);
    let ends = ConnectionEnds { phase, peer, leaving, patience, is_reserve, silence };
    if is_http1 {
        let connection = http.http1.serve_connection(io, noting).with_upgrades();
        ends.conduct(connection, http1::UpgradeableConnection::graceful_shutdown).await;
    } else {
        let connection = http.either.serve_connection_with_upgrades(io, noting);
        Box::pin(ends.conduct(connection, auto::UpgradeableConnection::graceful_shutdown)).await;
    }
}

/// What there is to do for a connection.
enum ConnectionEvent {
    Phase,
    Leaving,
    Cut,
    Silence,
}

/// What ends a connection besides its client.
struct ConnectionEnds<'a> {
    phase: watch::Receiver<ListenPhase>,
    peer: ClientPeer,
    /// Told when the connection is to end with its next answer.
    leaving: Arc<Notify>,
    /// How long the head of a request may take.
    patience: Duration,
    is_reserve: bool,
    silence: Pin<&'a mut Sleep>,
}

impl ConnectionEnds<'_> {
    /// Runs a connection to its end. `leave` has it end after the answers that are owed.
    async fn conduct<C, E>(mut self, connection: C, leave: impl Fn(Pin<&mut C>))
    where
        C: Future<Output = Result<(), E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut connection = pin!(connection);
        let (mut serving, mut waiting) = (TaskPart::new(), TaskPart::new());
        let mut awaited = ListenPhase::Draining;
        loop {
            let event = {
                let mut event = pin!(self.wait(awaited));
                poll_fn(|cx| {
                    at_one_time(|| match serving.poll(cx, |cx| connection.as_mut().poll(cx)) {
                        Poll::Ready(ended) => Poll::Ready(Err(ended)),
                        Poll::Pending => waiting.poll(cx, |cx| event.as_mut().poll(cx)).map(Ok),
                    })
                })
                .await
            };
            match event {
                Err(Ok(())) => return,
                Err(Err(error)) => {
                    let error: Box<dyn Error + Send + Sync> = error.into();
                    tracing::debug!(error, "connection ended early");
                    return;
                }
                Ok(ConnectionEvent::Cut) => {
                    tracing::debug!(
                        "connection of a client that is gone, or does not read, is cut"
                    );
                    return;
                }
                Ok(ConnectionEvent::Phase)
                    if awaited == ListenPhase::Cut || self.phase.has_changed().is_err() =>
                {
                    return;
                }
                Ok(ConnectionEvent::Phase) => awaited = ListenPhase::Cut,
                Ok(ConnectionEvent::Leaving) => {}
                Ok(ConnectionEvent::Silence) => {
                    // The head of a request must come in time after the answer to the last one.
                    let due = self.peer.silent_since().unwrap_or_else(now) + self.patience;
                    if self.is_reserve || due <= now() {
                        tracing::debug!("peer sent no request in time");
                        return;
                    }
                    self.silence.as_mut().reset(due.into());
                    continue;
                }
            }
            leave(connection.as_mut());
            serving.look_again();
        }
    }

    /// Waits for something to do but for what the client sends and gets.
    async fn wait(&mut self, phase: ListenPhase) -> ConnectionEvent {
        tokio::select! {
            () = reached(&mut self.phase, phase) => ConnectionEvent::Phase,
            () = poll_fn(|cx| self.peer.poll_cut(cx)) => ConnectionEvent::Cut,
            () = self.leaving.notified() => ConnectionEvent::Leaving,
            () = self.silence.as_mut() => ConnectionEvent::Silence,
        }
    }
}

/// How long a connection of the reserve lasts: others wait for it.
const RESERVE_TIME: Duration = Duration::from_secs(2);

/// What somebody gets for whom there is no connection left.
fn full() -> Response<Full<Bytes>> {
    let text = Bytes::from_static(b"too many connections; try again later\n");
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

/// Says that the connection ends with this answer; HTTP/2 has frames for that.
const CLOSE: HeaderValue = HeaderValue::from_static("close");
