//! The accept loop around an HTTP service, and its graceful stop.
//!
//! Speaks HTTP/1.1 and HTTP/2 with prior knowledge, no TLS. Bounds what a peer
//! can take before the service has a say: connections, header bytes, time.
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
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tower_service::Service;

use crate::drive::DEFAULT_GRACE;
pub(crate) use peer::{Awaited, Carrying, Peer};
use peer::{ConnectionSlot, ConnectionSlots};

mod peer;

/// The bounds of a listener.
#[derive(Clone, Debug)]
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
    /// For requests in flight once the listener is told to stop.
    pub grace: Duration,
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
            grace: DEFAULT_GRACE,
        }
    }
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
    let (phase, watcher) = watch::channel(Phase::Serving);
    let slots = ConnectionSlots::new(&options);
    let http = builder(&options, options.head_timeout, watcher.clone());
    let brief = builder(&options, RESERVE_TIME, watcher.clone());
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
        let connection = Connection { slot, phase: watcher.clone(), patience, only };
        tokio::spawn(connection.run(http.clone(), stream, service));
    }
    drop((listener, watcher, http, brief));
    phase.send_replace(Phase::Draining);
    if tokio::time::timeout(options.grace, phase.closed()).await.is_err() {
        let left = slots.taken();
        tracing::warn!(left, "connections outlived the grace period and are cut");
        phase.send_replace(Phase::Cut);
        phase.closed().await;
    }
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Phase {
    Serving,
    Draining,
    Cut,
}

/// Completes in `phase` or a later one. Without a sender, [`serve`] was dropped.
async fn reached(watcher: &mut watch::Receiver<Phase>, phase: Phase) {
    _ = watcher.wait_for(|current| *current >= phase).await;
}

fn builder(
    options: &ListenOptions,
    patience: Duration,
    phase: watch::Receiver<Phase>,
) -> Builder<Streams> {
    let mut http = Builder::new(Streams { phase });
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(options.max_head.max(8192));
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(options.max_head).unwrap_or(u32::MAX))
        // An idle HTTP/2 connection has no head to wait for; pings find the dead ones.
        .keep_alive_interval(patience)
        .keep_alive_timeout(patience);
    http
}

tokio::task_local! {
    /// The HTTP/2 stream that a task serves.
    static STREAM: Peer;
}

/// Runs HTTP/2 streams as tasks that end with the rest, or alone: other clients may
/// be answered by the same connection.
#[derive(Clone)]
struct Streams {
    phase: watch::Receiver<Phase>,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let mut phase = self.phase.clone();
        let peer = Peer::default();
        tokio::spawn(STREAM.scope(peer.clone(), async move {
            tokio::select! {
                _ = stream => {}
                () = reached(&mut phase, Phase::Cut) => {}
                () = poll_fn(|cx| peer.poll_cut(cx)) => {
                    tracing::debug!("stream of a client that does not read is cut");
                }
            }
        }));
    }
}

struct Connection {
    /// Goes with the stream, which may become a socket and outlive this.
    slot: ConnectionSlot,
    phase: watch::Receiver<Phase>,
    patience: Duration,
    /// What it may ask for, if not everything: it is one of the reserve.
    only: Option<Arc<[String]>>,
}

impl Connection {
    async fn run<S, B>(self, http: Builder<Streams>, stream: TcpStream, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { slot, phase: mut watching, patience, only } = self;
        let is_reserve = only.is_some();
        let spoke = Arc::new(AtomicBool::new(false));
        let leaving = Arc::new(Notify::new());
        let peer = Peer::default();
        let service = TowerToHyperService::new(service);
        let noting = hyper::service::service_fn({
            let (spoke, leaving, peer) = (Arc::clone(&spoke), Arc::clone(&leaving), peer.clone());
            move |mut request: Request<Incoming>| {
                spoke.store(true, Ordering::Relaxed);
                let version = request.version();
                // Before the first poll: in between, hyper looks for the end of input.
                let awaited = (version <= Version::HTTP_11).then(|| peer.await_answer());
                let path = request.uri().path();
                let is_let = only.as_ref().is_none_or(|only| only.iter().any(|one| one == path));
                let (service, leaving, peer) =
                    (service.clone(), Arc::clone(&leaving), peer.clone());
                async move {
                    if !is_let {
                        leaving.notify_one();
                        return Ok(full(version));
                    }
                    request.extensions_mut().insert(STREAM.try_with(Peer::clone).unwrap_or(peer));
                    let answer = service.call(request);
                    let response = match awaited {
                        Some(awaited) => awaited.wait_for(answer).await,
                        None => answer.await,
                    };
                    let mut response = response?.map(Either::Left);
                    if is_reserve || response.status() == StatusCode::UNAUTHORIZED {
                        // Strangers do not keep connections that others need.
                        close(&mut response, version);
                        leaving.notify_one();
                    }
                    Ok::<_, S::Error>(response)
                }
            }
        });
        let cutting = peer.clone();
        let stream = TokioIo::new(peer::PeerStream::new(stream, peer, slot));
        let mut connection = pin!(http.serve_connection_with_upgrades(stream, noting));
        // hyper's own timer starts only after it knows the HTTP version, which a
        // peer that sends nothing, or the start of a preface, never lets it know.
        let mut silence = pin!(tokio::time::sleep(patience));
        let mut awaited = Phase::Draining;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "connection ended early");
                    }
                    break;
                }
                () = reached(&mut watching, awaited) => {
                    if awaited == Phase::Cut || watching.has_changed().is_err() {
                        break;
                    }
                    connection.as_mut().graceful_shutdown();
                    awaited = Phase::Cut;
                }
                () = poll_fn(|cx| cutting.poll_cut(cx)) => {
                    tracing::debug!("connection of a client that is gone, or does not read, is cut");
                    break;
                }
                () = leaving.notified() => connection.as_mut().graceful_shutdown(),
                () = silence.as_mut(), if !silence.is_elapsed() => {
                    if is_reserve || !spoke.load(Ordering::Relaxed) {
                        tracing::debug!("peer sent no request in time");
                        break;
                    }
                }
            }
        }
    }
}

/// How long a connection of the reserve lasts: others wait for it.
const RESERVE_TIME: Duration = Duration::from_secs(2);

/// What somebody gets for whom there is no connection left.
fn full<B>(version: Version) -> Response<Either<B, Full<Bytes>>> {
    let text = Bytes::from_static(b"too many connections; try again later\n");
    let mut response = Response::new(Either::Right(Full::new(text)));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    close(&mut response, version);
    response
}

/// Says that the connection ends with this answer; HTTP/2 has frames for that.
fn close<B>(response: &mut Response<B>, version: Version) {
    if version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}
