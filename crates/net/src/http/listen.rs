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
//! [`Sites::stop`](super::sites::Sites::stop) does, and what it leaves open is cut.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower_service::Service;

use crate::grace::GRACE;

/// The bounds of a listener.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Open connections; beyond it new ones wait in the kernel's queue.
    pub max_connections: usize,
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
            // Room for large bearer tokens and mirrored parameters.
            max_head: 64 * 1024,
            // Longer than any honest client needs, short enough to free slots.
            head_timeout: Duration::from_secs(30),
            grace: GRACE,
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
    let slots = Slots::new(options.max_connections);
    let http = builder(&options, watcher.clone());
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, slot) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = slots.accept(&listener) => accepted,
        };
        let service = service.clone();
        let connection =
            Connection { slot, phase: watcher.clone(), patience: options.head_timeout };
        tokio::spawn(connection.run(http.clone(), stream, service));
    }
    drop((listener, watcher, http));
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

fn builder(options: &ListenOptions, phase: watch::Receiver<Phase>) -> Builder<Streams> {
    let mut http = Builder::new(Streams { phase });
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(options.max_head.max(8192));
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(options.max_head).unwrap_or(u32::MAX))
        // An idle HTTP/2 connection has no head to wait for; pings find the dead ones.
        .keep_alive_interval(options.head_timeout)
        .keep_alive_timeout(options.head_timeout);
    http
}

/// Runs HTTP/2 streams as tasks that end with the rest.
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
        tokio::spawn(async move {
            tokio::select! {
                _ = stream => {}
                () = reached(&mut phase, Phase::Cut) => {}
            }
        });
    }
}

struct Connection {
    /// Frees the slot when the connection is over.
    slot: OwnedSemaphorePermit,
    phase: watch::Receiver<Phase>,
    patience: Duration,
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
        // First, so that the slot is freed last.
        let Self { slot: _slot, phase: mut watching, patience } = self;
        let spoke = Arc::new(AtomicBool::new(false));
        let service = TowerToHyperService::new(service);
        let noting = hyper::service::service_fn({
            let spoke = Arc::clone(&spoke);
            move |request| {
                spoke.store(true, Ordering::Relaxed);
                service.call(request)
            }
        });
        let mut connection =
            pin!(http.serve_connection_with_upgrades(TokioIo::new(stream), noting));
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
                () = silence.as_mut(), if !silence.is_elapsed() => {
                    if !spoke.load(Ordering::Relaxed) {
                        tracing::debug!("peer sent no request in time");
                        break;
                    }
                }
            }
        }
    }
}

/// The bound on open connections.
struct Slots {
    free: Arc<Semaphore>,
    max: usize,
}

impl Slots {
    fn new(max: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(max)), max }
    }

    fn taken(&self) -> usize {
        self.max - self.free.available_permits()
    }

    /// The next connection, once there is a slot for it. Never gives up.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, OwnedSemaphorePermit) {
        if self.free.available_permits() == 0 {
            tracing::warn!(max = self.max, "all connection slots are taken, new peers wait");
        }
        let slot = Arc::clone(&self.free).acquire_owned().await;
        let slot = slot.expect("semaphore is never closed");
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Answers are small and whole; waiting for more to send only delays them.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "no TCP_NODELAY");
                    }
                    return (stream, slot);
                }
                Err(error) if is_peers_fault(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections, pausing");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Whether the connection failed, not the listener: no reason to pause.
fn is_peers_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Long enough for descriptors to be freed, short enough to go unnoticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_listener_makes_us_pause() {
        let aborted = io::Error::from(io::ErrorKind::ConnectionAborted);
        let too_many_files = io::Error::from_raw_os_error(24);
        assert!(is_peers_fault(&aborted));
        assert!(!is_peers_fault(&too_many_files));
    }
}
