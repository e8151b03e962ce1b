//! The other end of a connection: whether the client is still there, and whether it is answered.
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
//! each is a `ClientPeer` of its own. In TLS a client says that it ends the connection, and
//! clients of HTTP end no side alone there: the end of input is the end.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use http::Version;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

use super::STREAM;
use super::slots::ConnectionSlot;
use crate::connection::{lock, wait};
use crate::drive::{TaskPart, now};
#[cfg(feature = "tls")]
use crate::http::tls::H2;

/// How long a client that sends nothing more is waited for, if its answer cannot be
/// begun: only what is written shows whether it is still there.
const MOST_DOUBT: Duration = Duration::from_secs(30);

/// The connection that a request came by, or its stream on one, among the request's
/// extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientPeer(Arc<Mutex<PeerState>>, PeerPlace);

/// Where a connection comes from, and how.
#[derive(Clone, Copy, Debug, Default)]
struct PeerPlace {
    address: Option<IpAddr>,
    is_secure: bool,
}

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
    carries: Option<u64>,
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
    pub(super) fn for_request(self) -> Self {
        let stream = STREAM.try_with(Self::clone);
        stream.map(|stream| Self(stream.0, self.1)).unwrap_or(self)
    }

    /// Where the connection comes from.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.1.address
    }

    /// Whether it is by TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.1.is_secure
    }

    /// Says that an answer is on its way to the client, until it is dropped.
    pub(crate) fn await_answer(&self) -> Awaited {
        lock(&self.0).awaited += 1;
        Awaited { peer: self.clone(), is_doubted: false }
    }

    /// Says that an answer is not over, until it is dropped. A client of HTTP/2 may be silent
    /// for as long as it answers pings.
    pub(super) fn answer(&self, version: Version) -> OpenAnswer {
        let mut state = lock(&self.0);
        state.answering += 1;
        state.speaks_http2 |= version > Version::HTTP_11;
        OpenAnswer(self.clone())
    }

    /// Since when a request is expected; none if one is being answered.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let state = lock(&self.0);
        state.silent_since.filter(|_| state.answering == 0 && !state.speaks_http2)
    }

    /// Says which client is answered by it from here on. None if it is the same as before.
    pub(crate) fn carry(&self, client: u64) -> Option<Carrying> {
        let before = lock(&self.0).carries.replace(client);
        (before != Some(client)).then(|| Carrying { peer: Arc::downgrade(&self.0), client })
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
    pub(super) fn poll_cut(&self, cx: &Context<'_>) -> Poll<()> {
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
        let peer = ClientPeer(self.peer.upgrade()?, PeerPlace::default());
        let is_so = lock(&peer.0).carries == Some(self.client);
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
    pub(super) async fn wait_for<T>(mut self, answer: impl Future<Output = T>) -> T {
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
pub(super) struct OpenAnswer(ClientPeer);

impl OpenAnswer {
    /// The body, until whose end no other request is to be expected.
    pub(super) fn until_end_of<B: Body>(
        self,
        body: B,
    ) -> impl Body<Data = B::Data, Error = B::Error> {
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

/// What a client sends first that speaks HTTP/2 (RFC 9113, 3.4).
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection as hyper reads and writes it.
pub(super) struct PeerStream {
    wire: Wire,
    pub(super) peer: ClientPeer,
    /// Whether hyper has something to write that the socket does not take yet.
    is_full: bool,
    /// Last, so that it is freed after the connection, which may become a socket.
    _slot: ConnectionSlot,
}

/// How bytes travel.
enum Wire {
    Plain { read: ReadSide, write: OwnedWriteHalf },
    Tls(Box<SecureStream>),
}

#[cfg(feature = "tls")]
type SecureStream = TlsStream<TcpStream>;

// Stands where TLS would be, and is never made.
#[cfg(not(feature = "tls"))]
use tokio::io::Empty as SecureStream;

enum ReadSide {
    Open(OwnedReadHalf),
    /// The client sends nothing more; ready when the connection is broken.
    Ended(Pin<Box<dyn Future<Output = ()> + Send>>),
    Over,
}

impl PeerStream {
    pub(super) fn new(stream: TcpStream, slot: ConnectionSlot) -> Self {
        let address = stream.peer_addr().ok();
        let (read, write) = stream.into_split();
        Self::by(Wire::Plain { read: ReadSide::Open(read), write }, address, slot)
    }

    /// The same after a TLS handshake.
    #[cfg(feature = "tls")]
    pub(super) fn secure(stream: TlsStream<TcpStream>, slot: ConnectionSlot) -> Self {
        let address = stream.get_ref().0.peer_addr().ok();
        Self::by(Wire::Tls(Box::new(stream)), address, slot)
    }

    fn by(wire: Wire, address: Option<SocketAddr>, slot: ConnectionSlot) -> Self {
        let state = PeerState { silent_since: Some(now()), ..PeerState::default() };
        let is_secure = matches!(wire, Wire::Tls(_));
        let place = PeerPlace { address: address.map(|address| address.ip()), is_secure };
        let peer = ClientPeer(Arc::new(Mutex::new(state)), place);
        Self { wire, peer, is_full: false, _slot: slot }
    }

    /// Whether the first bytes, which are left to be read, cannot begin HTTP/2. In TLS the
    /// handshake says which it is.
    pub(super) async fn begins_with_http1(&mut self) -> bool {
        let mut first = [0; HTTP2.len()];
        let read = match &mut self.wire {
            Wire::Plain { read: ReadSide::Open(read), .. } => read,
            Wire::Plain { .. } => return false,
            #[cfg(feature = "tls")]
            Wire::Tls(stream) => return stream.get_ref().1.alpn_protocol() != Some(H2),
            #[cfg(not(feature = "tls"))]
            Wire::Tls(_) => return false,
        };
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
        let Self { wire, peer, is_full, .. } = &mut *self;
        let side = match wire {
            Wire::Plain { read, .. } => read,
            Wire::Tls(stream) => return Pin::new(stream).poll_read(cx, buffer),
        };
        if let ReadSide::Open(read) = side {
            let before = buffer.filled().len();
            ready!(Pin::new(read).poll_read(cx, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if !peer.is_awaited(cx) && !*is_full {
                return Poll::Ready(Ok(()));
            }
            if let ReadSide::Open(read) = std::mem::replace(side, ReadSide::Over) {
                let broken = async move { _ = read.ready(Interest::ERROR).await };
                *side = ReadSide::Ended(Box::pin(broken));
            }
            peer.end();
        }
        let is_awaited = peer.is_awaited(cx) || *is_full;
        match side {
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
        let wrote = match &mut self.wire {
            Wire::Plain { write, .. } => Pin::new(write).poll_write(cx, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.written(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = match &mut self.wire {
            Wire::Plain { write, .. } => Pin::new(write).poll_write_vectored(cx, pieces),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        };
        self.written(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain { write, .. } => write.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain { write, .. } => Pin::new(write).poll_flush(cx),
            Wire::Tls(stream) => {
                // TLS takes more than it has sent.
                let flushed = Pin::new(stream).poll_flush(cx);
                self.written(flushed)
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain { write, .. } => Pin::new(write).poll_shutdown(cx),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
