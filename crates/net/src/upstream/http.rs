//! Streamable HTTP: a POST for each message, and our session at the endpoint.
//!
//! ```text
//!   POST ──▶ 200 JSON ─────────────▶ the answer
//!       ├──▶ 200 event stream ─────▶ messages; broken: resumed, if legacy and it had ids
//!       ├──▶ 202 ──────────────────▶ nothing to wait for
//!       ├──▶ 404, with a session ──▶ greet again, send it once more, unless it is the answer
//!       ├──▶ 400, 404, 405 to the first greeting ──▶ perhaps HTTP+SSE (OLD-7)
//!       └──▶ any other ────────────▶ its JSON-RPC error, else `HTTP <status>: <text>`
//! ```
//!
//! POSTs have no order, but the end of the handshake comes before what follows
//! it: servers refuse calls that overtake it. So does progress on a question come
//! before further progress and before the answer: servers ignore what is late.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{self, Id, Kind, Member, Message, Part};
use switchboard_proto::refusal::{Refusal, is_modern_code};
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::{header, method, trace};
use tokio::sync::{Notify, watch};

use super::flood::too_long;
use super::via::{self, Via};
use super::{Core, CredentialRefusal, Fallback, ServerTarget, Target, Upstream, add};
use crate::backend::PendingWork;
use crate::connection::lock;
use crate::drive::{Either, Stop, race};
use crate::http::body::room_for;
use crate::http::fetch::{Fetch, FetchBody, host_header};
use crate::http::{EITHER, content_type, is_event_stream, is_json};
use crate::secret::redact;

mod stream;

use stream::ListenState;

/// One message on its way, and all that goes with it.
struct Post {
    lane: Lane,
    message: Message,
    mirrored: Vec<(HeaderName, HeaderValue)>,
    session: HttpSession,
    /// The call is not wanted any more.
    ended: Arc<Notify>,
    /// The end of the handshake that comes first.
    after: Option<Arc<Stop>>,
    /// The progress that comes first.
    progress: Option<Arc<Stop>>,
}

impl Post {
    fn is_call(&self) -> bool {
        self.message.kind() == Kind::Request
    }

    fn greets(&self) -> bool {
        self.message.method() == method::INITIALIZE
    }
}

/// The POSTs that must arrive before what follows them, while they are on their way.
#[derive(Default)]
pub(super) struct PostOrder {
    /// The end of the handshake.
    confirming: Option<Arc<Stop>>,
    /// The last progress of a client on a question.
    progressing: Option<Arc<Stop>>,
}

impl PostOrder {
    /// Nothing waits for this POST any more.
    fn remove(&mut self, arrived: &Arc<Stop>) {
        for latest in [&mut self.confirming, &mut self.progressing] {
            latest.take_if(|latest| Arc::ptr_eq(latest, arrived));
        }
        arrived.say();
    }
}

/// How long a server may take over what it need not answer.
const NOTE_WAIT: Duration = Duration::from_secs(30);

/// How long calls wait for the end of the handshake. A server that takes
/// longer over it may be waiting for the calls.
const CONFIRM_WAIT: Duration = Duration::from_secs(5);

/// How long progress on a question, and its answer, wait until the server has
/// taken the progress before them.
const PROGRESS_WAIT: Duration = Duration::from_secs(5);

/// POSTs of one server in flight that carry no request, before its streams are
/// read no further: each takes a connection.
const MOST: usize = 32;

/// One POST that carries no request, until it is dropped.
pub(super) struct InFlight(Arc<Upstream>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.0.arrived.notify_waiters();
    }
}

impl Upstream {
    /// Sends a message by a POST of its own.
    pub(super) fn post(
        self: &Arc<Self>,
        core: &mut Core,
        lane: Lane,
        message: Message,
        mut mirrored: Vec<(HeaderName, HeaderValue)>,
    ) -> PendingWork {
        let Some(endpoint) = &self.http else { return PendingWork::none() };
        self.start(core);
        add(&self.server.traffic().sent, message.text().len());
        mirrored.extend(trace::to_headers(&message));
        let ended = Arc::new(Notify::new());
        if lane != Lane::MAIN {
            core.lanes.insert(lane, Arc::clone(&ended));
        }
        let greets = message.method() == method::INITIALIZE;
        let confirms = message.method() == method::INITIALIZED;
        let progresses = message.method() == method::PROGRESS;
        let order = &mut core.order;
        if greets {
            order.confirming = None;
        }
        let after = order.confirming.clone();
        let progress = order.progressing.clone().filter(|_| progresses || message.is_response());
        let arrived = (confirms || progresses).then(|| Arc::new(Stop::new()));
        if confirms {
            order.confirming.clone_from(&arrived);
        } else if progresses {
            order.progressing.clone_from(&arrived);
        }
        let with_session = self.era() == Era::Legacy && !greets;
        let session = if with_session { endpoint.session() } else { HttpSession::default() };
        let post = Post { lane, message, mirrored, session, ended, after, progress };
        let in_flight = self.count_in_flight(&post.message);
        let this = Arc::clone(self);
        PendingWork::one(async move {
            this.carry(post).await;
            drop(in_flight);
            if let Some(arrived) = arrived {
                lock(&this.core).order.remove(&arrived);
            }
            if confirms && let Some(endpoint) = &this.http {
                this.begin_listening(endpoint);
            }
        })
    }

    /// Sends one message and follows its answer to the end.
    async fn carry(self: &Arc<Self>, post: Post) {
        let conversing = pin!(self.converse(&post));
        let works = if post.is_call() {
            let Either::Right(works) = race(post.ended.notified(), conversing).await else {
                // The caller that opened the lane closed it, and waits no more.
                return;
            };
            let mut core = lock(&self.core);
            // The call may have been sent again, and have a new POST.
            if core.lanes.get(&post.lane).is_some_and(|ended| Arc::ptr_eq(ended, &post.ended)) {
                core.lanes.remove(&post.lane);
            }
            works
        } else {
            let sending = self.without_sign_in(NOTE_WAIT, conversing);
            let Some(Some(works)) = Box::pin(self.stop.until(sending)).await else { return };
            works
        };
        works.await;
    }

    async fn converse(self: &Arc<Self>, post: &Post) -> PendingWork {
        let Some(endpoint) = &self.http else { return PendingWork::none() };
        if let Some(after) = &post.after
            && tokio::time::timeout(CONFIRM_WAIT, after.said()).await.is_err()
        {
            // Too late or not, it is our turn, and that of the next ones.
            lock(&self.core).order.remove(after);
        }
        if let Some(progress) = &post.progress {
            // Too late or not, it is our turn.
            _ = tokio::time::timeout(PROGRESS_WAIT, progress.said()).await;
        }
        let method = post.message.method();
        // The server may say more than its answer, and only a listen stream may hear that.
        let is_followed_by_more = method == method::SUBSCRIBE || method::may_ask(method);
        if self.era() == Era::Legacy && is_followed_by_more && !endpoint.is_settled() {
            Box::pin(self.until_heard(endpoint)).await;
        }
        if post.greets() {
            Box::pin(self.renew_credentials()).await;
        }
        let sending = self.send(endpoint, &endpoint.url, false, |endpoint| {
            endpoint.post_request(post.message.text(), &post.session, &post.mirrored)
        });
        let response = match sending.await {
            Ok(response) => response,
            Err(why) => return self.unanswered(post, &why),
        };
        match response.status() {
            StatusCode::OK => self.take_answer(endpoint, post, response).await,
            status if status.is_success() => self.no_answer_unless_note(post),
            status => {
                let refused = Box::pin(HttpRefusal::read(response, endpoint)).await;
                let of_session = status == StatusCode::NOT_FOUND && post.session.id.is_some();
                if of_session && post.is_call() && !refused.answers(post.message.id()) {
                    return self.handle_session_over(endpoint, post);
                }
                self.take_error(post, &refused)
            }
        }
    }

    /// Sends what `request` makes, with our credentials. A server that does not let
    /// us in has done nothing: it is asked again while there are other credentials.
    pub(super) async fn send(
        &self,
        endpoint: &HttpEndpoint,
        target: &Uri,
        is_background: bool,
        request: impl Fn(&HttpEndpoint) -> Request<Bytes>,
    ) -> Result<Response<FetchBody>, Failure> {
        let credential = self.server.details.credential.as_ref();
        let none = HeaderMap::new();
        let (mut shown, _) = self.credentials(None).await?.unwrap_or_default();
        let (mut attempt, mut is_new_login) = (0, false);
        loop {
            lock(&endpoint.headers).clone_from(&shown);
            let make = || {
                let mut request = request(endpoint);
                if let Some(credential) = credential {
                    credential.sign(self.server.user(&none), &mut request);
                }
                request
            };
            let response = endpoint.fetch.send_made(target, &make).await?;
            let status = response.status();
            let is_final = !matches!(status.as_u16(), 401 | 403) || attempt == MOST_CREDENTIALS;
            if is_final || credential.is_none() {
                return Ok(response);
            }
            let answer = response.headers().clone();
            let url = endpoint.url.clone();
            let refusal = CredentialRefusal {
                url,
                status,
                answer,
                shown,
                attempt,
                is_new_login,
                is_background,
            };
            let Some((other, is_new)) = Box::pin(self.credentials(Some(&refusal))).await? else {
                return Ok(response);
            };
            (shown, is_new_login) = (other, is_new_login || is_new);
            attempt += 1;
        }
    }

    /// The server does not know our session any more.
    fn handle_session_over(self: &Arc<Self>, endpoint: &HttpEndpoint, post: &Post) -> PendingWork {
        self.step(|half, now| {
            half.handle_session_over(post.lane, now);
            // Only when it is being renewed: else a call would go without any.
            if half.is_greeting() {
                add(&self.server.traffic().greeted_again, 1);
                endpoint.forget(&post.session);
            }
        })
    }

    /// The same where no call has found out.
    fn renew_session(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        session: &HttpSession,
    ) -> PendingWork {
        self.step(|half: &mut ClientHalf<_>, now| {
            if endpoint.session().number != session.number {
                return;
            }
            if !half.is_greeting() {
                add(&self.server.traffic().greeted_again, 1);
                endpoint.forget(session);
            }
            half.renew_session(now);
        })
    }

    async fn take_answer(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        post: &Post,
        response: Response<FetchBody>,
    ) -> PendingWork {
        let offered = post.greets().then(|| HttpSession::offered(response.headers()));
        if post.is_call() && offered.is_none() {
            self.listen_again();
        }
        let media = content_type(response.headers()).unwrap_or_default();
        if is_event_stream(media) {
            return Box::pin(self.follow(endpoint, post, offered.as_ref(), response)).await;
        }
        if !is_json(media) {
            let why = Failure::NotMcp { status: 200, media: Some(media.into()) };
            return self.unanswered(post, &why);
        }
        match read_whole(response.into_body(), self.limits.message).await {
            Ok(Some(text)) => {
                if let Some(offered) = offered {
                    self.handle_greeted(endpoint, &offered, &text);
                }
                let mut works = self.from_server(post.lane, text);
                if post.is_call() && self.is_open(post.lane) {
                    works.append(self.no_answer_unless_note(post));
                }
                self.clients_have_room().await;
                works
            }
            Ok(None) => self.unanswered(post, &too_long(self.limits.message)),
            Err(error) => self.unanswered(post, &Failure::closed(error.to_string())),
        }
    }

    /// The server has answered a greeting: this is the right transport. If the answer is no
    /// error, a session begins. Its version goes on every request, from the revision on that
    /// has the header.
    fn handle_greeted(&self, endpoint: &HttpEndpoint, offered: &HttpSession, answer: &[u8]) {
        lock(&self.core).fallback = Fallback::Settled;
        let Some(welcome) = Part::new(answer).get(&["result"]) else { return };
        let name = welcome.string("protocolVersion").unwrap_or_default();
        let has_header = Revision::legacy_at_most(&name).rules().version_header;
        let version = HeaderValue::from_str(&name).ok().filter(|_| has_header);
        endpoint.begin(HttpSession { version, ..offered.clone() });
    }

    fn is_open(&self, lane: Lane) -> bool {
        lock(&self.core).half.is_open(lane)
    }

    fn no_answer_unless_note(self: &Arc<Self>, post: &Post) -> PendingWork {
        match post.message.id().filter(|_| post.is_call()) {
            Some(id) => self.unanswered(post, &Failure::NoAnswer { id: id.clone() }),
            None => PendingWork::none(),
        }
    }

    fn take_error(self: &Arc<Self>, post: &Post, refused: &HttpRefusal) -> PendingWork {
        let mut why = refused.failure(self);
        if post.greets() {
            // What answers our own id speaks JSON-RPC here.
            let is_answer = refused.error.as_ref().is_some_and(|it| it.id() == post.message.id());
            let code = refused.error.as_ref().and_then(Message::error_code);
            let is_modern = code.is_some_and(is_modern_code);
            let may_be_sse = matches!(refused.status.as_u16(), 400 | 404 | 405);
            if may_be_sse && !is_answer && !is_modern {
                match self.try_other_transport(&why, Some(&post.message)) {
                    Ok(()) => return PendingWork::none(),
                    Err(both) => why = both,
                }
            }
        }
        // Our credentials are between the server and us: no answer to the call.
        let is_about_us = matches!(refused.status.as_u16(), 401 | 403);
        let id = post.message.id().filter(|_| post.is_call() && !is_about_us);
        match id.and_then(|id| refused.answer(id)) {
            Some(answer) => self.from_server(post.lane, answer.text().clone()),
            None if post.message.is_response() && refused.status.is_client_error() => {
                tracing::warn!(server = self.name, "an answer was refused: {why}");
                self.step(|half, now| half.handle_unsupplied(&post.message, now))
            }
            None => self.unanswered(post, &why),
        }
    }

    /// The message went out, or did not, and no answer will come.
    fn unanswered(self: &Arc<Self>, post: &Post, why: &Failure) -> PendingWork {
        if !post.is_call() {
            self.log_undelivered(&post.message, why);
            return PendingWork::none();
        }
        // The log has what the client is not told.
        if self.server.details.is_discreet && why.brief() != why.to_string() {
            self.log_trouble(why);
        }
        self.step(|half, now| half.handle_unanswered(post.lane, why, now))
    }

    /// Counts the POST of `message` while the value lives, unless it is a request.
    pub(super) fn count_in_flight(self: &Arc<Self>, message: &Message) -> Option<InFlight> {
        if message.kind() == Kind::Request {
            return None;
        }
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Some(InFlight(Arc::clone(self)))
    }

    /// Waits until the server has taken enough of what it was sent.
    pub(super) async fn answers_are_taken(&self) {
        loop {
            // It hears of what arrives from here on, so nothing is missed after the look.
            let arrived = self.arrived.notified();
            if self.in_flight.load(Ordering::Acquire) < MOST {
                return;
            }
            arrived.await;
        }
    }
}

/// How often one request may be refused before the refusal is final: for an old token, for
/// a new one, and for its scopes, twice.
const MOST_CREDENTIALS: usize = 5;

/// The endpoint and our session there.
pub(super) struct HttpEndpoint {
    pub(super) fetch: Fetch,
    pub(super) url: Uri,
    /// The `Host` of its requests, if it is known to speak HTTP/1.1.
    host: Option<HeaderValue>,
    via: Option<Arc<Via>>,
    /// What was shown last.
    headers: Mutex<Arc<HeaderMap>>,
    /// Another one comes only together with another listen stream.
    session: Mutex<HttpSession>,
    last_post: Mutex<Option<LastPost>>,
    listening: watch::Sender<ListenState>,
    /// No client would ever be told what belongs to no call: we do not listen for it.
    pub(super) is_deaf: AtomicBool,
    /// The server has let us listen, in this session or an earlier one.
    pub(super) was_heard: AtomicBool,
    /// The server could not be listened to for a while.
    pub(super) missed: AtomicBool,
    /// How often listening went wrong in the session before this one.
    pub(super) strain: Mutex<Option<Reconnect>>,
    /// The event that was heard last, and the number of its session.
    last_event: Mutex<Option<(u64, HeaderValue)>>,
}

/// What goes on every message of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct HttpSession {
    /// Tells it from those before it: not every one has an id.
    pub(super) number: u64,
    pub(super) id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// A POST without a message, and whose headers and session it has.
struct LastPost {
    users: Arc<HeaderMap>,
    session: HttpSession,
    /// The names of the headers that repeat what is in the message.
    mirrored: Vec<HeaderName>,
    request: Request<Bytes>,
}

/// Headers of a request that are not the user's: with room for all, the map does not grow.
const OUR_HEADERS: usize = 10;

/// How long the server may take to end a session: we are on our way out.
const DELETE_WAIT: Duration = Duration::from_secs(2);

impl HttpEndpoint {
    /// The endpoint of a server; none if it is a command.
    pub(super) fn new(server: &ServerTarget) -> Option<Self> {
        let Target::Url { url, headers, .. } = server.target() else { return None };
        Some(Self {
            fetch: server.details.fetch.clone()?,
            url: url.clone(),
            host: host_header(url),
            via: server.via().cloned(),
            headers: Mutex::new(Arc::new(headers.clone())),
            session: Mutex::default(),
            last_post: Mutex::default(),
            listening: watch::Sender::default(),
            is_deaf: AtomicBool::new(false),
            was_heard: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            strain: Mutex::default(),
            last_event: Mutex::default(),
        })
    }

    /// A request with the user's headers; ours come later and win (HDR-15).
    pub(super) fn request(&self, method: Method, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        let users = Arc::clone(&lock(&self.headers));
        let mut headers = HeaderMap::with_capacity(users.len() + OUR_HEADERS);
        headers.extend(users.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(host) = &self.host {
            headers.entry(HOST).or_insert_with(|| host.clone());
        }
        if let Some(via) = &self.via {
            headers.insert(via::HEADER, via.header());
        }
        *request.headers_mut() = headers;
        request
    }

    /// A POST. Mostly it is like the last one, but for its text and two headers.
    pub(super) fn post_request(
        &self,
        text: &Bytes,
        session: &HttpSession,
        mirrored: &[(HeaderName, HeaderValue)],
    ) -> Request<Bytes> {
        let users = Arc::clone(&lock(&self.headers));
        let mut last = lock(&self.last_post);
        last.take_if(|last| {
            let names = mirrored.iter().map(|(name, _)| name);
            !Arc::ptr_eq(&last.users, &users)
                || last.session != *session
                || !names.eq(&last.mirrored)
        });
        let last = last.get_or_insert_with(|| {
            let mut request = self.request(Method::POST, Bytes::new());
            let headers = request.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(ACCEPT, HeaderValue::from_static(EITHER));
            // Set below. A copy has no room for what is added to it.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            session.add_to(headers);
            headers.extend(mirrored.iter().cloned());
            let mirrored = mirrored.iter().map(|(name, _)| name.clone()).collect();
            LastPost { users, session: session.clone(), mirrored, request }
        });
        let mut request = last.request.clone();
        *request.body_mut() = text.clone();
        request.headers_mut().insert(CONTENT_LENGTH, text.len().into());
        for (name, value) in mirrored {
            request.headers_mut().insert(name, value.clone());
        }
        if let Some(via) = &self.via {
            request.headers_mut().insert(via::HEADER, via.header());
        }
        request
    }

    /// Asks for a stream of a session, or for what of it came after `last`.
    pub(super) fn get_request(
        &self,
        session: &HttpSession,
        last: Option<&HeaderValue>,
    ) -> Request<Bytes> {
        let mut request = self.request(Method::GET, Bytes::new());
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        session.add_to(headers);
        if let Some(last) = last {
            headers.insert(header::LAST_EVENT_ID, last.clone());
        }
        request
    }

    /// The session as it is now.
    pub(super) fn session(&self) -> HttpSession {
        lock(&self.session).clone()
    }

    /// A session is over, unless it has been followed by another.
    pub(super) fn forget(&self, over: &HttpSession) {
        let mut session = lock(&self.session);
        if session.number == over.number {
            *session = HttpSession { number: over.number, ..HttpSession::default() };
        }
    }

    /// Another session, or none, in the place of this one.
    fn begin(&self, next: HttpSession) -> HttpSession {
        let mut before = HttpSession::default();
        self.listening.send_modify(|listening| {
            let mut session = lock(&self.session);
            let number = session.number + 1;
            before = std::mem::replace(&mut session, HttpSession { number, ..next });
            let is_deaf = self.is_deaf.load(Ordering::Relaxed);
            *listening = if is_deaf { ListenState::Refused } else { ListenState::NotYet };
        });
        // The half tells clients what a new greeting means.
        self.missed.store(false, Ordering::Relaxed);
        before
    }

    /// Ends the session at the server, if there is one. Failing is no matter.
    pub(super) async fn delete_session(&self) {
        let session = self.begin(HttpSession::default());
        if session.id.is_none() {
            return;
        }
        let mut request = self.request(Method::DELETE, Bytes::new());
        session.add_to(request.headers_mut());
        let sent = tokio::time::timeout(DELETE_WAIT, self.fetch.send(request)).await;
        if let Ok(Err(error)) = sent {
            tracing::debug!("session not deleted: {error}");
        }
    }
}

impl HttpSession {
    /// The session that an answer to a greeting may come to: its id is one with the result.
    fn offered(headers: &HeaderMap) -> Self {
        let mut id = headers.get(header::SESSION_ID).cloned();
        if let Some(id) = &mut id {
            id.set_sensitive(true);
        }
        Self { id, ..Self::default() }
    }

    fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(header::SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(header::PROTOCOL_VERSION, version.clone());
        }
    }
}

/// What a server said instead of an answer.
pub(super) struct HttpRefusal {
    pub(super) status: StatusCode,
    text: String,
    hints: String,
    /// The `WWW-Authenticate` headers.
    challenge: Option<Box<str>>,
    /// The JSON-RPC error that the body holds.
    pub(super) error: Option<Message>,
}

/// Bodies are read this far and this long, for their text.
const BODY: usize = 64 << 10;
const BODY_WAIT: Duration = Duration::from_secs(5);

/// What of a body is shown to people.
const SHOWN: usize = 512;

impl HttpRefusal {
    /// Reads what came instead of an answer. It repeats none of the credentials.
    pub(super) async fn read(response: Response<FetchBody>, endpoint: &HttpEndpoint) -> Self {
        let status = response.status();
        let sent = &Arc::clone(&lock(&endpoint.headers));
        let mut hints = String::new();
        for name in ["www-authenticate", "mcp-auth-server"] {
            for value in values(response.headers(), name) {
                hints = format!("{hints} ({name}: {value})");
            }
        }
        let hints = redact(&hints, sent);
        let challenge: Vec<_> = values(response.headers(), "www-authenticate").collect();
        let challenge = challenge.join(", ");
        let challenge = (!challenge.is_empty()).then(|| redact(&challenge, sent).into());
        let body = beginning(response.into_body()).await.freeze();
        let error = jsonrpc::parse_one(body.clone()).ok();
        let error = error.filter(|answer| answer.kind() == Kind::Error);
        let message = error.as_ref().and_then(|error| error.string(Member::ErrorMessage));
        let text = message.unwrap_or_else(|| String::from_utf8_lossy(&body));
        let told = redact(&text, sent);
        let other = (told != *text).then_some(&told);
        let error = error.as_ref().map(|error| match other {
            Some(told) => error.with_string(Member::ErrorMessage, told),
            None => error.clone(),
        });
        let text = told.trim().chars().take(SHOWN).collect();
        Self { status, text, hints, challenge, error }
    }

    /// The error that the body holds, as the answer to the request `id`: it
    /// tells more than the status, and its own id may be missing.
    pub(super) fn answer(&self, id: &Id) -> Option<Message> {
        let error = self.error.as_ref()?.with_id(id);
        if self.hints.is_empty() {
            return Some(error);
        }
        let text = error.error_message();
        Some(error.with_string(Member::ErrorMessage, &format!("{text}{}", self.hints)))
    }

    /// Whether it is the answer to a request, and no word about the session.
    pub(super) fn answers(&self, id: Option<&Id>) -> bool {
        let Some(error) = self.error.as_ref().filter(|error| error.id() == id) else {
            return false;
        };
        let is_over = error.error_code() == Some(Refusal::SessionOver.rpc_code().into());
        let text = error.error_message();
        id.is_some() && !is_over && !text.to_ascii_lowercase().contains("session")
    }

    /// Why the call has no answer.
    pub(super) fn failure(&self, up: &Upstream) -> Failure {
        if let Some(looped) = self.error.as_ref().and_then(|error| up.loop_in(error)) {
            return looped;
        }
        let reason = self.status.canonical_reason().unwrap_or_default();
        let text = if self.text.is_empty() { reason } else { &self.text };
        let (status, text) = (self.status.as_u16(), format!("{text}{}", self.hints).into());
        Failure::HttpStatus { status, text, challenge: self.challenge.clone() }
    }
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

/// A whole body; none if it is longer than `limit`. One that comes in one piece is not copied.
/// The pieces of another are copied as they come, while they are at hand: kept until the last
/// one, they would leave no room to be used again for the next.
async fn read_whole(mut body: FetchBody, limit: usize) -> Result<Option<Bytes>, hyper::Error> {
    let announced = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let mut first = Bytes::new();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        let length = first.len() + text.len() + piece.len();
        if length > limit {
            return Ok(None);
        }
        if first.is_empty() && text.is_empty() {
            first = piece;
            continue;
        }
        if length > text.capacity() {
            let room = room_for(length, text.capacity(), announced, limit);
            text.reserve_exact(room - text.len());
        }
        text.extend_from_slice(&std::mem::take(&mut first));
        text.extend_from_slice(&piece);
    }
    Ok(Some(if text.is_empty() { first } else { text.into() }))
}

/// As much of a body as is worth showing.
async fn beginning(mut body: FetchBody) -> BytesMut {
    let mut bytes = BytesMut::new();
    let reading = async {
        while bytes.len() < BODY
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        }
    };
    // A body that stalls has said what it has to say.
    _ = tokio::time::timeout(BODY_WAIT, reading).await;
    bytes.truncate(BODY);
    bytes
}
