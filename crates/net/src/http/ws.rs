//! Clients on a `WebSocket`: one message in each text frame.
//!
//! No revision of the protocol has this transport, but clients and gateways that
//! speak it are about. The connection is the session, as on stdio, and both eras
//! are spoken on it. Browsers ask nobody before they open one, so the guard's
//! check of `Origin` is all that stands between a web page and us.
//!
//! ```text
//!   GET, Upgrade ──▶ 101 ──▶ Talking ──┬─ peer closes, or is silent to two pings ──▶ over
//!                                      └─ told to stop ──▶ in flight answered ──▶ close frame
//! ```

use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use switchboard_proto::refusal::Refusal;
use tokio::io::{AsyncRead, Join, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::body::{Body, NEVER};
use super::endpoint::{HttpReply, empty};
use super::site::{SiteState, plain};
use crate::charge::{BodyBudget, Charge, charged};
use crate::connection::lock;
use crate::drive::{DEFAULT_GRACE, Either, race, time_to_read_errors};
use crate::pipe::Pipe;
use crate::who::Who;

type Upgrade = TokioIo<Upgraded>;
type Socket = WebSocketStream<Join<MeteredRead, WriteHalf<Upgrade>>>;

/// For the connection to change hands, and for the peer to confirm that it is over.
const PATIENCE: Duration = Duration::from_secs(5);

/// All that are open at one site; each holds a receiver, which also counts it.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    closing: watch::Sender<bool>,
    /// Those of clients whom an authenticator let in: it may change its mind.
    open: Mutex<Vec<(Who, Weak<Pipe>)>>,
}

impl Sockets {
    pub(super) fn len(&self) -> usize {
        self.closing.receiver_count()
    }

    /// Ends each as soon as it waits for no answer.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Ends those of everybody who may not stay.
    pub(super) fn close_unless(&self, stays: impl Fn(&Who) -> bool) {
        let mut open = lock(&self.open);
        let gone: Vec<_> = open.extract_if(.., |(who, _)| !stays(who)).collect();
        drop(open);
        for pipe in gone.iter().filter_map(|(_, pipe)| pipe.upgrade()) {
            pipe.end();
        }
    }

    /// Everybody's.
    pub(super) fn pipes(&self) -> Vec<Arc<Pipe>> {
        lock(&self.open).iter().filter_map(|(_, pipe)| pipe.upgrade()).collect()
    }

    /// At most as many as there are sockets.
    fn add(&self, who: &Who, pipe: &Arc<Pipe>) {
        let mut open = lock(&self.open);
        open.retain(|(_, pipe)| pipe.strong_count() > 0);
        open.push((who.clone(), Arc::downgrade(pipe)));
    }

    pub(super) async fn all_closed(&self) {
        self.closing.closed().await;
    }
}

/// Takes the connection over, if the request asks for that.
pub(super) fn open(site: &SiteState, who: &Who, parts: &Parts, upgrade: OnUpgrade) -> HttpReply {
    if parts.method != Method::GET {
        return Err(Refusal::WrongHttpMethod { allow: "GET" }.into());
    }
    let Some(key) = key(parts) else { return Ok(upgrade_required()) };
    site.is_full()?;
    let closing = site.sockets.closing.subscribe();
    if *closing.borrow() {
        return Err(Refusal::TooManySessions.into());
    }
    let stay = who.stay()?;
    let limits = &site.rules().limits;
    let pipe = Arc::new(Pipe::new(&site.backend, site.options.sharing, limits, who));
    pipe.carry(&parts.headers)?;
    pipe.count_in(&site.options.unread);
    site.sockets.add(who, &pipe);
    if !who.is_current() {
        // Its key was removed before it was there to be ended.
        return Err(Refusal::KeyRemoved.into());
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.message))
        .max_frame_size(Some(limits.message))
        // Each message is written out before the next is taken.
        .max_write_buffer_size(limits.backlog.max(limits.message.saturating_mul(2)));
    let keep_alive = site.options.keep_alive;
    let keep_alive = if keep_alive.is_zero() { NEVER } else { keep_alive };
    let meter = SocketMeter::new(&site.options.bodies, who);
    // It ends with `closing`, which the site owns: by then its calls are answered.
    tokio::spawn(async move {
        let _stay = stay;
        match tokio::time::timeout(PATIENCE, upgrade).await {
            Ok(Ok(stream)) => {
                let (stream, write) = tokio::io::split(TokioIo::new(stream));
                let read = MeteredRead { stream, meter: Arc::clone(&meter) };
                let stream = tokio::io::join(read, write);
                let socket = Socket::from_raw_socket(stream, Role::Server, Some(config)).await;
                let heard = AtomicBool::new(true);
                SocketTalk { pipe: &pipe, meter: &meter, keep_alive, heard }
                    .run(socket, closing)
                    .await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the connection was not handed over"),
            Err(_) => tracing::debug!("the connection was not handed over in time"),
        }
        pipe.end();
    });
    Ok(switching(&parts.headers, key))
}

/// The key of a proper handshake (RFC 6455, 4.2.1).
fn key(parts: &Parts) -> Option<&[u8]> {
    let headers = &parts.headers;
    let is_handshake = parts.version == Version::HTTP_11
        && lists(headers, CONNECTION, "upgrade")
        && lists(headers, UPGRADE, "websocket")
        && headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_handshake).map(HeaderValue::as_bytes)
}

fn lists(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
}

fn upgrade_required() -> Response<Body> {
    let text = "this is for a WebSocket, version 13, over HTTP/1.1\n";
    let mut response = plain(StatusCode::UPGRADE_REQUIRED, text.to_owned());
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}

fn switching(request: &HeaderMap, key: &[u8]) -> Response<Body> {
    let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    let accept = HeaderValue::from_str(&derive_accept_key(key));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept.expect("base64 may stand in a header"));
    // SDKs offer `mcp`, and give up if nobody takes what they offer.
    let offered = request.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
    let first = offered.and_then(|list| list.split(',').map(str::trim).next());
    let chosen = if lists(request, SEC_WEBSOCKET_PROTOCOL, "mcp") { Some("mcp") } else { first };
    if let Some(Ok(chosen)) = chosen.map(HeaderValue::from_str) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, chosen);
    }
    response
}

/// What a socket carries.
struct SocketTalk<'a> {
    pipe: &'a Pipe,
    meter: &'a SocketMeter,
    keep_alive: Duration,
    /// Whether the peer has said something since the last ping.
    heard: AtomicBool,
}

impl SocketTalk<'_> {
    async fn run(&self, socket: Socket, mut closing: watch::Receiver<bool>) {
        let pipe = self.pipe;
        let (mut sink, mut stream) = socket.split();
        let told_to_stop = async {
            // Without a sender the site is gone, and it is over too.
            _ = closing.wait_for(|&closing| closing).await;
        };
        let reading = async {
            match race(self.read(&mut stream), told_to_stop).await {
                Either::Left(code) => code,
                Either::Right(()) => {
                    pipe.finish_within(DEFAULT_GRACE).await;
                    CloseCode::Away
                }
            }
        };
        let mut code = CloseCode::Normal;
        {
            let mut writing = pin!(self.write(&mut sink));
            // Nobody here has ended it yet: somebody else did, and a client that does
            // not read what is on its way does not keep the socket.
            let cut = async {
                pipe.over().await;
                tokio::time::sleep(time_to_read_errors(DEFAULT_GRACE)).await;
            };
            match race(reading, race(&mut writing, cut)).await {
                Either::Left(read) => {
                    code = read;
                    pipe.end();
                    // Whoever does not read what is left does not keep us.
                    _ = tokio::time::timeout(DEFAULT_GRACE, writing).await;
                }
                Either::Right(Either::Left(())) => {}
                Either::Right(Either::Right(())) => {
                    tracing::debug!("a socket whose client does not read is cut");
                    return;
                }
            }
        }
        let goodbye = async {
            let frame = CloseFrame { code, reason: Utf8Bytes::from_static("") };
            // The peer may have said it first, or be gone.
            _ = sink.send(Message::Close(Some(frame))).await;
            while let Some(Ok(_)) = stream.next().await {}
        };
        _ = tokio::time::timeout(PATIENCE, goodbye).await;
    }

    /// Reads until the peer closes; with which code to answer.
    async fn read(&self, stream: &mut SplitStream<Socket>) -> CloseCode {
        while let Some(next) = stream.next().await {
            self.heard.store(true, Ordering::Relaxed);
            let text: Bytes = match next {
                Ok(Message::Text(text)) => text.into(),
                Ok(Message::Binary(text)) => text,
                Ok(Message::Close(_)) => return CloseCode::Normal,
                // Pings are answered on the way.
                Ok(Message::Ping(payload) | Message::Pong(payload)) => {
                    self.meter.forgive(payload.len());
                    continue;
                }
                Ok(Message::Frame(_)) => continue,
                Err(Error::Capacity(_)) => return CloseCode::Size,
                Err(_) if self.meter.is_refused() => return CloseCode::Again,
                Err(error) => {
                    tracing::debug!(%error, "a socket broke");
                    return CloseCode::Protocol;
                }
            };
            let Ok((text, charge)) = self.meter.finish(text) else { return CloseCode::Again };
            self.pipe.message_from_client(Ok(text), Some(&charge)).detach();
            // A client that does not read its answers is not read from.
            self.pipe.room().await;
        }
        CloseCode::Normal
    }

    /// Writes until the conversation is over or the peer is silent for too long.
    async fn write(&self, sink: &mut SplitSink<Socket, Message>) {
        let mut unanswered = 0;
        loop {
            let next = tokio::time::timeout(self.keep_alive, self.pipe.next()).await;
            let written = if let Ok((messages, over)) = next {
                let frames = messages.into_iter().map(|text| {
                    let text = Utf8Bytes::try_from(text).map_err(|_| Error::AttackAttempt);
                    text.map(Message::Text)
                });
                let written = sink.send_all(&mut futures_util::stream::iter(frames)).await;
                if over {
                    return;
                }
                written
            } else {
                unanswered =
                    if self.heard.swap(false, Ordering::Relaxed) { 0 } else { unanswered + 1 };
                if unanswered == MOST_UNANSWERED {
                    tracing::debug!("a socket answers no pings, closed");
                    return;
                }
                sink.send(Message::Ping(Bytes::new())).await
            };
            if let Err(error) = written {
                tracing::debug!(%error, "a socket broke");
                return;
            }
        }
    }
}

/// A peer that leaves so many pings without a word is gone.
const MOST_UNANSWERED: u32 = 2;

/// Charges the bytes that one socket has read since its last whole message.
///
/// A message may come in many frames, and a frame in many pieces. All of them are kept
/// until the last one is there, so they are charged as they are read.
#[derive(Debug)]
struct SocketMeter(Mutex<Unfinished>);

#[derive(Debug)]
struct Unfinished {
    charge: Charge,
    bytes: usize,
    is_refused: bool,
}

impl SocketMeter {
    fn new(budget: &Arc<BodyBudget>, who: &Who) -> Arc<Self> {
        let unfinished = Unfinished { charge: budget.charge(who), bytes: 0, is_refused: false };
        Arc::new(Self(Mutex::new(unfinished)))
    }

    /// A message has ended: what it holds is charged for as long as it lives.
    fn finish(&self, text: Bytes) -> Result<(Bytes, Arc<Charge>), Refusal> {
        let mut unfinished = lock(&self.0);
        let mut charge = unfinished.charge.fresh();
        (unfinished.charge, unfinished.bytes) = (charge.fresh(), 0);
        drop(unfinished);
        charge.grow_to(text.len())?;
        let charge = Arc::new(charge);
        Ok((charged(text, &charge), charge))
    }

    /// A control frame with so much in it is no part of a message.
    fn forgive(&self, payload: usize) {
        let mut unfinished = lock(&self.0);
        // Its head and its mask have six bytes.
        unfinished.bytes = unfinished.bytes.saturating_sub(payload + 6);
    }

    /// Whether there was no room for what came.
    fn is_refused(&self) -> bool {
        lock(&self.0).is_refused
    }

    fn add(&self, bytes: usize) -> Result<(), Refusal> {
        let Unfinished { charge, bytes: all, is_refused } = &mut *lock(&self.0);
        *all += bytes;
        let charged = charge.grow_to(*all);
        *is_refused = charged.is_err();
        charged
    }
}

/// What a connection reads, counted. Once its bytes are refused, further ones are
/// read and dropped: a peer that still sends would not hear why.
struct MeteredRead {
    stream: ReadHalf<Upgrade>,
    meter: Arc<SocketMeter>,
}

impl AsyncRead for MeteredRead {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let is_refused = self.meter.is_refused();
        loop {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            let read = buffer.filled().len() - before;
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            if !is_refused {
                return Poll::Ready(self.meter.add(read).map_err(io::Error::other));
            }
            buffer.set_filled(before);
        }
    }
}
