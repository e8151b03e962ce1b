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
//!
//! # Whether a client is still there
//!
//! A client may close its sending side once its request is sent, and read on. To
//! us that looks like a client that is gone, until we write: then one that is gone
//! resets the connection. So the end of what the client sends is kept from hyper
//! while an answer is awaited, the answer is begun at once to find out, and a
//! reset is told to hyper as the end. Where nothing can be written before the whole
//! answer is there, the client is waited for for a while.
//!
//! ```text
//!   Open ── end of input, an answer is awaited ──▶ Ended ──┬─ reset ────▶ the end
//!     └──── end of input, none is awaited ──▶ the end      ├─ answered ─▶ the end
//!                                                          └─ too late ─▶ cut
//! ```
//!
//! Only HTTP/1 knows this: on HTTP/2 a stream is ended by a frame of its own, and
//! each is a `ClientPeer` of its own.

use std::collections::HashMap;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt as _, Either as EitherBody, Full};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Sleep;
use tower_service::Service;

use crate::connection::{lock, wait};
use crate::drive::{DEFAULT_GRACE, Either, TaskPart, at_one_time, now, race};

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

/// How long a client that sends nothing more is waited for, if its answer cannot be
/// begun: only what is written shows whether it is still there.
const MOST_DOUBT: Duration = Duration::from_secs(30);

/// The connection that a request came by, or its stream on one, among the request's
/// extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientPeer(Arc<Mutex<PeerState>>, Option<IpAddr>);

#[derive(Debug, Default)]
struct PeerState {
    /// Answers that somebody works on.
    awaited: usize,
    /// Whether the client sends nothing more.
    has_ended: bool,
    reader: Option<Waker>,
    answerer: Option<Waker>,
    /// Answers that are not over.
    answering: usize,
    /// When the last one was over.
    silent_since: Option<Instant>,
    speaks_http2: bool,
    cutter: Option<Waker>,
    /// The number of the client that is answered.
    carries: u64,
    is_cut: bool,
}

impl PeerState {
    fn end_answer(&mut self) {
        self.answering -= 1;
        self.silent_since = Some(now());
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl ClientPeer {
    /// The stream of a request on this connection, if it has one of its own.
    fn for_request(self) -> Self {
        let stream = STREAM.try_with(Self::clone);
        stream.map(|stream| Self(stream.0, self.1)).unwrap_or(self)
    }

    /// Where the connection comes from.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.1
    }

    /// Says that an answer is on its way to the client, until it is dropped.
    pub(crate) fn await_answer(&self) -> Awaited {
        lock(&self.0).awaited += 1;
        Awaited { peer: self.clone(), is_doubted: false }
    }

    /// Says that an answer is not over, until it is dropped. A client of HTTP/2 may be silent
    /// for as long as it answers pings.
    fn answer(&self, version: Version) -> OpenAnswer {
        let mut state = lock(&self.0);
        state.answering += 1;
        state.speaks_http2 |= version > Version::HTTP_11;
        OpenAnswer(self.clone())
    }

    /// Since when a request is expected; none if one is being answered.
    fn silent_since(&self) -> Option<Instant> {
        let state = lock(&self.0);
        state.silent_since.filter(|_| state.answering == 0 && !state.speaks_http2)
    }

    /// Says which client is answered by it from here on.
    pub(crate) fn carry(&self, client: u64) -> Carrying {
        lock(&self.0).carries = client;
        Carrying { peer: Arc::downgrade(&self.0), client }
    }

    /// Ends the connection, whatever is still to be written.
    pub(crate) fn cut(&self) {
        let mut state = lock(&self.0);
        state.is_cut = true;
        if let Some(cutter) = state.cutter.take() {
            cutter.wake();
        }
    }

    /// Ready when the connection is to end.
    fn poll_cut(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        wait(&mut state.cutter, cx);
        if state.is_cut { Poll::Ready(()) } else { Poll::Pending }
    }

    fn end(&self) {
        let mut state = lock(&self.0);
        state.has_ended = true;
        if let Some(answerer) = state.answerer.take() {
            answerer.wake();
        }
    }

    /// Whether an answer is awaited; wakes the reader when that changes.
    fn is_awaited(&self, cx: &Context<'_>) -> bool {
        let mut state = lock(&self.0);
        wait(&mut state.reader, cx);
        state.awaited > 0
    }
}

/// A client that is answered by a connection, until that is over or answers another.
#[derive(Debug)]
pub(crate) struct Carrying {
    peer: Weak<Mutex<PeerState>>,
    client: u64,
}

impl Carrying {
    /// The connection, if it still answers the client.
    pub(crate) fn peer(&self) -> Option<ClientPeer> {
        let peer = ClientPeer(self.peer.upgrade()?, None);
        let is_so = lock(&peer.0).carries == self.client;
        is_so.then_some(peer)
    }

    /// Whether it is about this connection.
    pub(crate) fn is_by(&self, peer: &ClientPeer) -> bool {
        std::ptr::eq(self.peer.as_ptr(), Arc::as_ptr(&peer.0))
    }
}

/// An answer that is on its way to the client.
#[derive(Debug)]
pub(crate) struct Awaited {
    peer: ClientPeer,
    /// Whether the client had ended what it sends when that was last asked.
    pub(crate) is_doubted: bool,
}

impl Awaited {
    /// Waits for the head of the answer. If that does not come in time to a client
    /// that sends nothing more, its connection is cut, and this with it.
    async fn wait_for<T>(mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        let (mut part, mut doubt) = (TaskPart::new(), None);
        // hyper polls it whenever something happens on the connection.
        let mut step = |cx: &mut Context<'_>| {
            let answer = answer.as_mut().poll(cx);
            if self.poll_doubt(cx) {
                doubt = Some(Box::pin(tokio::time::sleep(MOST_DOUBT)));
            }
            if doubt.as_mut().is_some_and(|doubt| doubt.as_mut().poll(cx).is_ready()) {
                self.peer.cut();
            }
            answer
        };
        poll_fn(|cx| part.poll(cx, &mut step)).await
    }

    /// Whether the client sends nothing more, so that what is missing does not come.
    pub(crate) fn poll_ended(&self, cx: &Context<'_>) -> bool {
        let mut state = lock(&self.peer.0);
        wait(&mut state.answerer, cx);
        state.has_ended
    }

    /// Whether something must be written, to find out if the client is gone: true
    /// once, when it has ended what it sends.
    pub(crate) fn poll_doubt(&mut self, cx: &Context<'_>) -> bool {
        if self.is_doubted {
            return false;
        }
        self.is_doubted = self.poll_ended(cx);
        self.is_doubted
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let mut state = lock(&self.peer.0);
        state.awaited -= 1;
        // As long as the client sends, the reader waits for no answer.
        if state.has_ended {
            state.wake_reader();
        }
    }
}

/// An answer that is not over.
struct OpenAnswer(ClientPeer);

impl OpenAnswer {
    /// The body, until whose end no other request is to be expected.
    fn until_end_of<B: Body>(self, body: B) -> impl Body<Data = B::Data, Error = B::Error> {
        body.map_err(move |error| {
            _ = &self;
            error
        })
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        lock(&self.0.0).end_answer();
    }
}

/// What there is to do for a connection.
enum ConnectionEvent {
    Phase,
    Leaving,
    Cut,
    Silence,
}

/// What a client sends first that speaks HTTP/2 (RFC 9113, 3.4).
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection as hyper reads and writes it.
struct PeerStream {
    read: ReadSide,
    write: OwnedWriteHalf,
    peer: ClientPeer,
    /// Whether hyper has something to write that the socket does not take yet.
    is_full: bool,
    /// Last, so that it is freed after the connection, which may become a socket.
    _slot: ConnectionSlot,
}

enum ReadSide {
    Open(OwnedReadHalf),
    /// The client sends nothing more; ready when the connection is broken.
    Ended(Pin<Box<dyn Future<Output = ()> + Send>>),
    Over,
}

impl PeerStream {
    fn new(stream: TcpStream, slot: ConnectionSlot) -> Self {
        let address = stream.peer_addr().ok().map(|address| address.ip());
        let (read, write) = stream.into_split();
        let state = PeerState { silent_since: Some(now()), ..PeerState::default() };
        let (read, peer) = (ReadSide::Open(read), ClientPeer(Arc::new(Mutex::new(state)), address));
        Self { read, write, peer, is_full: false, _slot: slot }
    }

    /// Whether the first bytes, which are left to be read, cannot begin HTTP/2.
    async fn begins_with_http1(&mut self) -> bool {
        let mut first = [0; HTTP2.len()];
        let ReadSide::Open(read) = &mut self.read else { return false };
        // A connection that has ended or is broken is for hyper to find.
        let length = read.peek(&mut first).await.unwrap_or(0);
        !HTTP2.starts_with(&first[..length])
    }

    fn written<T>(&mut self, wrote: Poll<T>) -> Poll<T> {
        if std::mem::replace(&mut self.is_full, wrote.is_pending()) != self.is_full {
            let mut state = lock(&self.peer.0);
            // What is not written is not over.
            if self.is_full {
                state.answering += 1;
            } else {
                state.end_answer();
                state.wake_reader();
            }
        }
        wrote
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let ReadSide::Open(read) = &mut self.read {
            let before = buffer.filled().len();
            ready!(Pin::new(read).poll_read(cx, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if !self.peer.is_awaited(cx) && !self.is_full {
                return Poll::Ready(Ok(()));
            }
            if let ReadSide::Open(read) = std::mem::replace(&mut self.read, ReadSide::Over) {
                let broken = async move { _ = read.ready(Interest::ERROR).await };
                self.read = ReadSide::Ended(Box::pin(broken));
            }
            self.peer.end();
        }
        let is_awaited = self.peer.is_awaited(cx) || self.is_full;
        match &mut self.read {
            ReadSide::Ended(broken) if is_awaited => broken.as_mut().poll(cx).map(Ok),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.write).poll_write(cx, bytes);
        self.written(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.write).poll_write_vectored(cx, pieces);
        self.written(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.write.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }
}

/// The bounds on open connections: so many in all, a share of them for each address,
/// and a few more for health checks.
struct ConnectionSlots {
    free: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    max: usize,
    max_each: usize,
    each: SlotCounts,
    /// Whether it was told that all are taken, since one was free.
    told: AtomicBool,
}

/// Open connections by address.
type SlotCounts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The place of one connection, free again when it is dropped.
struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    /// None if it is one of the reserve, which does not count for its address.
    counted: Option<(SlotCounts, IpAddr)>,
}

impl ConnectionSlot {
    /// Whether it may only ask for the paths that the reserve is for.
    fn is_reserve(&self) -> bool {
        self.counted.is_none()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some((each, address)) = &self.counted else { return };
        let mut each = lock(each);
        let Some(open) = each.get_mut(address) else { return };
        *open -= 1;
        if *open == 0 {
            each.remove(address);
        }
    }
}

impl ConnectionSlots {
    fn new(options: &ListenOptions) -> Self {
        let max = options.max_connections;
        let reserve = if options.reserve_paths.is_empty() { 0 } else { options.reserve };
        Self {
            free: Arc::new(Semaphore::new(max)),
            reserve: Arc::new(Semaphore::new(reserve)),
            max,
            max_each: options.max_per_address.unwrap_or(max - max / 4).max(1),
            each: Arc::default(),
            told: AtomicBool::new(false),
        }
    }

    fn taken(&self) -> usize {
        self.max - self.free.available_permits()
    }

    /// The next connection that there is a place for. Never gives up.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, ConnectionSlot) {
        loop {
            self.has_place().await;
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if is_peers_fault(&error) => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections, pausing");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(slot) = self.take(network(peer.ip())) else {
                tracing::debug!(%peer, "one address has all the connections that it may have");
                continue;
            };
            // Answers are small and whole; waiting for more to send only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "no TCP_NODELAY");
            }
            return (stream, slot);
        }
    }

    /// Waits until a connection may be taken.
    async fn has_place(&self) {
        if self.free.available_permits() > 0 {
            self.told.store(false, Ordering::Relaxed);
            return;
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(max = self.max, "all connection slots are taken");
        }
        // One that is there is not kept: which it is, the peer's address says.
        let (Either::Left(place) | Either::Right(place)) =
            race(self.free.acquire(), self.reserve.acquire()).await;
        drop(place);
    }

    fn take(&self, address: IpAddr) -> Option<ConnectionSlot> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            let mut each = lock(&self.each);
            let open = each.entry(address).or_default();
            if *open < self.max_each {
                *open += 1;
                let counted = Some((Arc::clone(&self.each), address));
                return Some(ConnectionSlot { _permit: permit, counted });
            }
        }
        let permit = Arc::clone(&self.reserve).try_acquire_owned().ok()?;
        Some(ConnectionSlot { _permit: permit, counted: None })
    }
}

/// What counts as one address: whoever has one of version 6 has 2^64 of them.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
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

    #[test]
    fn addresses_of_one_network_share_their_connections() {
        let options = ListenOptions {
            max_connections: 8,
            reserve: 1,
            reserve_paths: vec!["/healthz".to_owned()],
            ..ListenOptions::default()
        };
        let slots = ConnectionSlots::new(&options);
        let take = |address: &str| slots.take(network(address.parse().unwrap()));
        let mut taken: Vec<_> = (0..6).map(|n| take(&format!("2001:db8::{n}"))).collect();
        assert!(taken.iter().flatten().all(|slot| !slot.is_reserve()) && taken.len() == 6);
        assert!(take("2001:db8::7").is_some_and(|slot| slot.is_reserve()));
        taken.push(take("2001:db8:0:1::1"));
        taken.push(take("::ffff:192.0.2.1"));
        assert!(taken.iter().flatten().all(|slot| !slot.is_reserve()));
        let last = take("192.0.2.2");
        assert!(last.as_ref().is_some_and(ConnectionSlot::is_reserve), "all are taken");
        assert!(take("192.0.2.3").is_none());
        drop((taken, last));
        assert!(lock(&slots.each).is_empty() && slots.taken() == 0);
    }
}
