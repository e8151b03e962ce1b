//! Event streams: the answer to a POST, and the listen stream for what belongs to no call.
//!
//! A legacy stream that showed an event id and broke is taken up again with a
//! GET (HTTP-11, HTTP-12, HTTP-18); a modern one is lost with its call (MH-8).
//!
//! The listen stream:
//!
//! ```text
//!   GET ──▶ 200 ──▶ read until it breaks ──▶ a while later the same again
//!      ├──▶ 405, or any 4xx if nothing was ever heard ──▶ there is no listening
//!      ├──▶ 404, later ──▶ the session is over: greeted again, if a client waits to hear
//!      └──▶ any other ───▶ a while later the same again
//! ```
//!
//! Each session has one. After too many attempts in a row it is lost, until the
//! server answers a call, a client begins to listen, or half a minute has passed.
//!
//! A connection for one client alone has none while that client has no stream of its own
//! and no call open: nothing that the server says could be passed on. A call that the
//! server may have questions about, or the client's stream, opens it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::client::{ClientHalf, Sharing};
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::framing::{EventDecoder, EventTooLong};
use switchboard_proto::revision::Era;

use super::{HttpEndpoint, HttpSession, Post};
use crate::backend::PendingWork;
use crate::connection::lock;
use crate::drive::{Either, now, race};
use crate::http::fetch::FetchBody;
use crate::http::{content_type, is_event_stream};
use crate::upstream::flood::too_long;
use crate::upstream::{Transport, Upstream, add};

/// Attempts in a row that bring nothing before a stream is given up.
const ATTEMPTS: u32 = 5;

/// A connection that lasted this long was sound, even if nothing had to be
/// said: what cuts idle connections must not make us give up.
const SOUND: Duration = Duration::from_secs(10);

/// How long calls wait for the client to end its handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(1);

/// How long calls wait until the server has let us listen. Some do not say so
/// before they have something else to say; but a call that is sent this much later
/// does not overtake the request to listen. Clients may wait for the first sign of
/// life no longer than a few hundred milliseconds.
const HEAR_WAIT: Duration = Duration::from_millis(250);

/// How long a server is left alone that was tried too often, while a client
/// waits to hear of it.
const SELDOM: Duration = Duration::from_secs(30);

/// How often we look whether a client could still be told what the server says: two looks
/// without one, and we rest.
const REST_AFTER: Duration = Duration::from_secs(15);

/// One stream over all its connections.
struct StreamState {
    reconnect: Reconnect,
    last_event: Option<HeaderValue>,
    /// The server said when to come back, as one does that hangs up on purpose (HTTP-11).
    polls: bool,
    /// An event was too long to be read.
    skipped: bool,
}

impl StreamState {
    fn new(reconnect: Reconnect) -> Self {
        Self { reconnect, last_event: None, polls: false, skipped: false }
    }
}

/// Why a connection of a stream is over.
enum StreamEnd {
    /// The call was answered.
    Answered,
    /// The server ended it before that.
    Ended,
    /// It broke before that.
    Broken,
    /// It is the stream of the first revision's transport, whatever was asked.
    WrongTransport,
}

/// Whether we listen for what belongs to no call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum ListenState {
    /// The handshake is not over.
    #[default]
    NotYet,
    /// It is not over, and no call waits for it any more.
    Late,
    /// The server has not said yet whether we may.
    Asking,
    Listening,
    /// No client could be told what we hear.
    Resting,
    /// The stream kept breaking; worth another try when the server is seen to answer.
    Lost,
    /// The server does not offer it.
    Refused,
}

impl ListenState {
    fn is_settled(self) -> bool {
        !matches!(self, Self::NotYet | Self::Asking | Self::Resting)
    }
}

impl Upstream {
    /// Follows the event stream that answers a POST, over as many connections as it takes.
    pub(super) async fn follow(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        post: &Post,
        offered: Option<&HttpSession>,
        response: Response<FetchBody>,
    ) -> PendingWork {
        let mut stream = StreamState::new(Reconnect::new(ATTEMPTS));
        let session = offered.unwrap_or(&post.session);
        let mut response = Some(response);
        loop {
            if let Some(response) = response.take() {
                match self.read(endpoint, (post.lane, offered), &mut stream, response).await {
                    StreamEnd::Answered => return PendingWork::none(),
                    StreamEnd::Ended if stream.polls && stream.last_event.is_some() => {
                        // A server that lets a call's connection go means its client's too.
                        let call = lock(&self.core).half.ticket(post.lane).cloned();
                        if let Some(call) = call {
                            call.sink().hang_up(call.exchange());
                        }
                    }
                    StreamEnd::Ended | StreamEnd::Broken => {}
                    StreamEnd::WrongTransport => return self.handle_wrong_transport(post),
                }
            }
            if stream.skipped {
                // Resuming would bring the same again.
                return self.unanswered(post, &too_long(self.limits.message));
            }
            let resumable = self.era() == Era::Legacy && stream.last_event.is_some();
            if !resumable || !self.pause(&mut stream).await {
                return self.no_answer_unless_note(post);
            }
            match self.get(endpoint, session, &stream).await {
                Ok(again) => response = again,
                Err(_) => return self.no_answer_unless_note(post),
            }
        }
    }

    /// The answer to a POST is where to POST to (OLD-2): so the greeting goes by
    /// that transport, if it may.
    fn handle_wrong_transport(self: &Arc<Self>, post: &Post) -> PendingWork {
        let why = "HTTP 200, but with the stream of an HTTP+SSE server";
        let mut why = Failure::WrongTransport { why };
        if post.greets() {
            match self.try_other_transport(&why, Some(&post.message)) {
                Ok(()) => return PendingWork::none(),
                Err(both) => why = both,
            }
        }
        self.unanswered(post, &why)
    }

    /// Waits before the next connection; false if there is to be none.
    async fn pause(&self, stream: &mut StreamState) -> bool {
        match stream.reconnect.handle_break(now(), Duration::ZERO) {
            Some(at) => self.stop.sleep(at.saturating_duration_since(now())).await,
            None => false,
        }
    }

    /// Reads one connection to its end, or until the call of its lane is answered.
    async fn read(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        (lane, offered): (Lane, Option<&HttpSession>),
        stream: &mut StreamState,
        response: Response<FetchBody>,
    ) -> StreamEnd {
        let opened = now();
        let mut body = response.into_body();
        let mut decoder = EventDecoder::new(self.limits.message);
        let mut end = StreamEnd::Ended;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                end = StreamEnd::Broken;
                break;
            };
            let Some(chunk) = frame.data_ref() else { continue };
            decoder.push(chunk);
            while let Some(event) = decoder.next_event() {
                let event = match event {
                    Ok(event) => event,
                    Err(EventTooLong { limit, head }) => {
                        self.handle_too_long(lane, &head, limit).await;
                        stream.skipped = true;
                        continue;
                    }
                };
                if let Some(millis) = event.retry {
                    stream.reconnect.handle_retry(millis);
                    stream.polls = true;
                }
                if let Some(id) = event.id.as_ref().and_then(|id| HeaderValue::from_str(id).ok()) {
                    stream.last_event = Some(id);
                }
                if event.name.as_deref() == Some("endpoint") && lane != Lane::MAIN {
                    return StreamEnd::WrongTransport;
                }
                if event.is_message() {
                    stream.reconnect.handle_success();
                    if let Some(offered) = offered {
                        self.handle_greeted(endpoint, offered, &event.data);
                    }
                    self.receive(lane, event.data).await;
                }
            }
            if lane != Lane::MAIN && !self.is_open(lane) {
                return StreamEnd::Answered;
            }
            if decoder.is_endless() {
                end = StreamEnd::Broken;
                break;
            }
        }
        if now().saturating_duration_since(opened) >= SOUND {
            stream.reconnect.handle_success();
        }
        end
    }

    /// Asks for the rest of a stream. `Ok(None)` if it may be worth trying again.
    async fn get(
        &self,
        endpoint: &HttpEndpoint,
        session: &HttpSession,
        stream: &StreamState,
    ) -> Result<Option<Response<FetchBody>>, StatusCode> {
        let last = stream.last_event.as_ref();
        let sending = self
            .send(endpoint, &endpoint.url, true, |endpoint| endpoint.get_request(session, last));
        let Ok(response) = sending.await else { return Ok(None) };
        let media = content_type(response.headers()).unwrap_or_default();
        match response.status() {
            StatusCode::OK if is_event_stream(media) => {
                if last.is_some() {
                    add(&self.server.traffic().resumed, 1);
                }
                Ok(Some(response))
            }
            status if status.is_server_error() => Ok(None),
            status => Err(status),
        }
    }
}

/// The listen stream.
impl HttpEndpoint {
    /// Changes how we listen, if the state so far is meant.
    fn change_listening(&self, is_meant: impl FnOnce(ListenState) -> bool, to: ListenState) {
        self.listening.send_if_modified(|listening| {
            let changes = is_meant(*listening);
            if changes {
                *listening = to;
            }
            changes
        });
    }

    /// The server has let us listen, or takes too long to say so.
    fn heard(&self) {
        self.change_listening(|it| it == ListenState::Asking, ListenState::Listening);
    }

    /// Whether it is known if the server lets us listen.
    pub(super) fn is_settled(&self) -> bool {
        self.listening.borrow().is_settled()
    }

    /// Waits until the server has let us listen, or has not: what it says before
    /// that, other than as an answer, is lost with many servers.
    pub(super) async fn until_heard(&self) {
        if self.is_settled() {
            return;
        }
        let mut listening = self.listening.subscribe();
        // Too late or not, the calls have to begin, and the next ones at once.
        let begun = listening.wait_for(|listening| *listening != ListenState::NotYet);
        if tokio::time::timeout(HANDSHAKE_WAIT, begun).await.is_err() {
            return self.change_listening(|it| it == ListenState::NotYet, ListenState::Late);
        }
        let settled = listening.wait_for(|listening| listening.is_settled());
        if tokio::time::timeout(HEAR_WAIT, settled).await.is_err() {
            self.heard();
        }
    }

    /// Waits until another session has come.
    async fn until_after(&self, session: &HttpSession) {
        let is_after = |_: &ListenState| self.session().number != session.number;
        // The sender is ours, so waiting cannot fail.
        _ = self.listening.subscribe().wait_for(is_after).await;
    }
}

impl Upstream {
    /// Listens for what belongs to no call, if that is not done already.
    pub(super) fn listen(self: &Arc<Self>, endpoint: &HttpEndpoint) {
        let mut session = None;
        let begins = |listening| {
            use ListenState::{Late, Lost, NotYet, Resting};
            let begins = matches!(listening, NotYet | Late | Lost | Resting);
            session = begins.then(|| endpoint.session());
            begins
        };
        endpoint.change_listening(begins, ListenState::Asking);
        if let Some(session) = session {
            self.spawn(Arc::clone(self).keep_listening(session));
        }
    }

    /// The handshake is over: listens, if a client could be told what we hear.
    pub(super) fn begin_listening(self: &Arc<Self>, endpoint: &HttpEndpoint) {
        use ListenState::{Late, NotYet, Resting};
        endpoint.change_listening(|it| matches!(it, NotYet | Late), Resting);
        // A client that begins to listen after this look calls `listen_again`.
        if self.can_pass_on() {
            self.listen(endpoint);
        }
    }

    /// Waits until the server has let us listen, or has not.
    pub(super) async fn until_heard(self: &Arc<Self>, endpoint: &HttpEndpoint) {
        if *endpoint.listening.borrow() == ListenState::Resting {
            self.listen(endpoint);
        }
        endpoint.until_heard().await;
    }

    /// Waits until it is known whether the server lets us listen.
    pub(crate) async fn until_listening(self: &Arc<Self>) {
        let by_http = lock(&self.core).transport == Transport::Http;
        if let Some(endpoint) = self.http.as_ref().filter(|_| by_http) {
            self.stop.until(self.until_heard(endpoint)).await;
        }
    }

    /// It is known whether the server can say what belongs to no call.
    pub(in crate::upstream) fn handle_hearing(self: &Arc<Self>, hears: bool) {
        self.step(|half, now| half.handle_hearing(hears, now)).detach();
    }

    /// Time to listen again, if that had been given up: the server has answered,
    /// or a client begins to wait for what it says.
    pub(crate) fn listen_again(self: &Arc<Self>) {
        let Some(endpoint) = &self.http else { return };
        let listening = *endpoint.listening.borrow();
        match listening {
            ListenState::Lost => *lock(&endpoint.strain) = None,
            ListenState::Resting if self.can_pass_on() => {}
            // A call ended the rest; this client was not told what it may have missed.
            ListenState::Asking | ListenState::Listening
                if endpoint.missed.load(Ordering::Relaxed)
                    && self.can_tell()
                    && endpoint.missed.swap(false, Ordering::Relaxed) =>
            {
                return self.step(ClientHalf::handle_gap).detach();
            }
            _ => return,
        }
        self.listen(endpoint);
    }

    /// Whether a client could be told now what the server says besides its answers.
    fn can_pass_on(&self) -> bool {
        self.is_used() || self.can_tell()
    }

    /// Whether a client could be told now what belongs to no call.
    fn can_tell(&self) -> bool {
        let is_alone = lock(&self.core).sharing == Sharing::Alone;
        let clients = self.attached();
        !is_alone || clients.is_empty() || clients.iter().any(|client| client.hears())
    }

    /// Waits until no client could be told what we hear. A client between two streams of its
    /// own is waited for.
    async fn until_unheard(&self) {
        let mut looks = 0;
        while looks < 2 && self.stop.sleep(REST_AFTER).await {
            looks = if self.can_pass_on() { 0 } else { looks + 1 };
        }
    }

    /// Whether a client would miss what the server says.
    fn is_awaited(&self) -> bool {
        self.is_used() || self.is_attached()
    }

    /// Listens until the session is over or the server does not offer it.
    async fn keep_listening(self: Arc<Self>, session: HttpSession) {
        let Some(endpoint) = &self.http else { return };
        let reconnect = lock(&endpoint.strain).take().unwrap_or_else(|| Reconnect::new(ATTEMPTS));
        let mut stream = StreamState::new(reconnect);
        let last = lock(&endpoint.last_event).take();
        stream.last_event = last.filter(|(number, _)| *number == session.number).map(|last| last.1);
        let hearing = Box::pin(self.hear(endpoint, &session, &mut stream));
        let hearing = race(self.until_unheard(), hearing);
        let listening = race(endpoint.until_after(&session), hearing);
        let Some(Either::Right(end)) = self.stop.until(listening).await else { return };
        let end = match end {
            Either::Left(()) => ListenState::Resting,
            Either::Right(end) => end,
        };
        *lock(&endpoint.last_event) = stream.last_event.map(|last| (session.number, last));
        let is_ours = |_| endpoint.session().number == session.number;
        endpoint.change_listening(is_ours, end);
        if end == ListenState::Resting {
            endpoint.missed.store(endpoint.was_heard.load(Ordering::Relaxed), Ordering::Relaxed);
            // A client may have begun to listen meanwhile.
            return self.listen_again();
        }
        if end != ListenState::Lost || !self.is_awaited() {
            return;
        }
        let mut listening = endpoint.listening.subscribe();
        let others = listening.wait_for(|listening| *listening != ListenState::Lost);
        if let Either::Right(true) = race(others, self.stop.sleep(SELDOM)).await {
            *lock(&endpoint.strain) = Some(stream.reconnect);
            self.listen(endpoint);
        }
    }

    /// Hears what is said in one session, over as many connections as it takes.
    async fn hear(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        session: &HttpSession,
        stream: &mut StreamState,
    ) -> ListenState {
        let mut was_heard = false;
        loop {
            let got = self.get(endpoint, session, stream).await;
            endpoint.heard();
            match got {
                Ok(Some(response)) => {
                    was_heard = true;
                    endpoint.was_heard.store(true, Ordering::Relaxed);
                    self.handle_hearing(true);
                    if stream.last_event.is_some() {
                        // The server says it now.
                        endpoint.missed.store(false, Ordering::Relaxed);
                    }
                    // A client without a stream would have missed it at the server, too.
                    if self.can_tell() && endpoint.missed.swap(false, Ordering::Relaxed) {
                        self.step(ClientHalf::handle_gap).detach();
                    }
                    self.read(endpoint, (Lane::MAIN, None), stream, response).await;
                }
                Err(status) if is_final(status, endpoint.was_heard.load(Ordering::Relaxed)) => {
                    self.handle_hearing(false);
                    tracing::debug!(server = self.name, "no listening stream: HTTP {status}");
                    return ListenState::Refused;
                }
                Err(StatusCode::NOT_FOUND) if session.id.is_some() => {
                    self.renew(endpoint, session, stream, was_heard).await;
                    return ListenState::Lost;
                }
                // What was said before we were ever heard is not missed.
                Ok(None) | Err(_) => {
                    endpoint
                        .missed
                        .store(endpoint.was_heard.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            if !self.pause(stream).await {
                return ListenState::Lost;
            }
        }
    }

    /// The server has forgotten the session, and no call has met that yet: a client that
    /// waits to hear of something would wait for ever. Over when the next one begins.
    async fn renew(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        session: &HttpSession,
        stream: &mut StreamState,
        was_heard: bool,
    ) {
        // One that did not last is not followed by another at once.
        let mut goes_on = was_heard || self.pause_longer(stream).await;
        while goes_on && self.is_awaited() {
            *lock(&endpoint.strain) = Some(stream.reconnect.clone());
            self.renew_session(endpoint, session).detach();
            goes_on = self.pause_longer(stream).await;
        }
    }

    /// Waits before the next attempt, however many there were.
    async fn pause_longer(&self, stream: &mut StreamState) -> bool {
        self.pause(stream).await || self.stop.sleep(SELDOM).await
    }
}

/// Whether a refusal means that there is no listening, and not that it is
/// troubled: a server that has let us listen before offers it.
fn is_final(status: StatusCode, was_heard: bool) -> bool {
    let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status == StatusCode::METHOD_NOT_ALLOWED || !was_heard && !passes.contains(&status)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Uri};
    use switchboard_proto::revision::Era;

    use super::*;
    use crate::http::fetch::{Fetch, FetchOptions};
    use crate::upstream::{Eras, ServerTarget, Strategy};

    fn upstream() -> Arc<Upstream> {
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        let url = Uri::from_static("http://127.0.0.1:1/mcp");
        let server = ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch);
        Upstream::new(server, Eras::both(Era::Legacy), Sharing::Alone, None, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_made_soon_though_the_server_does_not_say_that_it_is_heard() {
        let up = upstream();
        let endpoint = up.http.as_ref().unwrap();
        endpoint.listening.send_replace(ListenState::Asking);
        let begun = tokio::time::Instant::now();
        endpoint.until_heard().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(250));
        endpoint.until_heard().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(250), "the next one waits too");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_once_for_a_client_that_never_ends_its_handshake() {
        let up = upstream();
        let endpoint = up.http.as_ref().unwrap();
        let begun = tokio::time::Instant::now();
        endpoint.until_heard().await;
        assert_eq!(begun.elapsed(), HANDSHAKE_WAIT);
        endpoint.until_heard().await;
        assert_eq!(begun.elapsed(), HANDSHAKE_WAIT, "the next one waits too");
        // It may be over later.
        up.listen(endpoint);
        assert_eq!(*endpoint.listening.borrow(), ListenState::Asking);
    }
}
