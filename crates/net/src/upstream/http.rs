//! The road to a Streamable HTTP endpoint: a POST for each message.
//!
//! ```text
//!   POST ──▶ 200 JSON ─────────────▶ the answer
//!       ├──▶ 200 event stream ─────▶ messages; broken: resumed, if legacy and it had ids
//!       ├──▶ 202 ──────────────────▶ nothing to wait for
//!       ├──▶ 404, with a session ──▶ greet again, send it once more
//!       ├──▶ 400, 404, 405 to the first greeting ──▶ perhaps HTTP+SSE (OLD-7)
//!       └──▶ any other ────────────▶ its JSON-RPC error, else `HTTP <status>: <text>`
//! ```

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use switchboard_proto::exchange::Lane;
use switchboard_proto::header;
use switchboard_proto::jsonrpc::{self, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::patch;
use switchboard_proto::refusal::{Refusal, is_modern_code};
use switchboard_proto::revision::{Era, Revision};
use tokio::sync::Notify;

use super::{Road, Strategy, Target, Upstream};
use crate::drive::{Either, race};
use crate::face::lock;
use crate::http::fetch::{Fetch, FetchError};
use crate::http::{content_type, is_event_stream, is_json};
use crate::inside::Works;

mod stream;

/// What is known about the endpoint.
pub(super) struct Link {
    fetch: Fetch,
    url: Uri,
    headers: HeaderMap,
    session: Mutex<Session>,
}

#[derive(Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    listening: bool,
}

/// Error bodies are read this far, for their text.
const ERROR_BODY: usize = 64 << 10;

/// What of an error body is shown to people.
const SHOWN: usize = 512;

impl Upstream {
    fn link(&self) -> Option<&Link> {
        let (Target::Url { url, headers, .. }, Some(fetch)) =
            (self.server.target(), self.server.fetch())
        else {
            return None;
        };
        Some(self.http.get_or_init(|| Link {
            fetch: fetch.clone(),
            url: url.clone(),
            headers: headers.clone(),
            session: Mutex::default(),
        }))
    }

    /// Sends one message and sees its answer through.
    pub(super) async fn post(
        self: Arc<Self>,
        lane: Lane,
        message: Message,
        headers: Vec<(HeaderName, HeaderValue)>,
        ended: Arc<Notify>,
    ) {
        match race(ended.notified(), self.converse(lane, &message, headers)).await {
            // Whoever opened the lane closed it: there is nobody to tell.
            Either::Left(()) => {}
            Either::Right(works) => {
                self.close_lane(lane);
                works.await;
            }
        }
    }

    fn close_lane(&self, lane: Lane) {
        if lane != Lane::MAIN {
            lock(&self.core).lanes.remove(&lane);
        }
    }

    async fn converse(
        self: &Arc<Self>,
        lane: Lane,
        message: &Message,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Works {
        let Some(link) = self.link() else { return Works::none() };
        let request = link.post(self.era, message, headers);
        let response = match link.fetch.send(request).await {
            Ok(response) => response,
            Err(error) => return self.unanswered(lane, message, sentence(&error)),
        };
        let works = match response.status() {
            StatusCode::OK => self.take_answer(link, lane, message, response).await,
            status if status.is_success() => self.no_answer_unless_note(lane, message),
            StatusCode::NOT_FOUND if link.has_session() && self.era == Era::Legacy => {
                link.forget_session();
                self.step(|half, now| half.handle_session_over(lane, now)).1
            }
            _ => self.take_error(lane, message, response).await,
        };
        if message.method() == method::INITIALIZED {
            self.listen(link);
        }
        works
    }

    async fn take_answer(
        self: &Arc<Self>,
        link: &Link,
        lane: Lane,
        message: &Message,
        response: Response<Incoming>,
    ) -> Works {
        let greets = message.method() == method::INITIALIZE;
        if greets {
            link.remember_session(response.headers());
        }
        let media = content_type(response.headers()).unwrap_or_default();
        if is_event_stream(media) {
            return self.follow(link, lane, message, response).await;
        }
        if !is_json(media) {
            let text = format!(
                "HTTP 200, but with {media:?} instead of JSON or an event stream; is this an MCP endpoint?"
            );
            return self.unanswered(lane, message, text);
        }
        match Limited::new(response.into_body(), self.limits.message).collect().await {
            Ok(body) => self.deliver(link, lane, message, body.to_bytes()),
            Err(error) => self.unanswered(lane, message, format!("Transport closed ({error})")),
        }
    }

    /// Hands an answer to the half, after a look at what a greeting settled.
    fn deliver(self: &Arc<Self>, link: &Link, lane: Lane, message: &Message, text: Bytes) -> Works {
        if message.method() == method::INITIALIZE {
            link.remember_version(&text);
        }
        let mut works = self.handle_text(lane, text);
        if message.kind() == Kind::Request && self.is_open(lane) {
            works.append(self.no_answer_unless_note(lane, message));
        }
        works
    }

    fn is_open(&self, lane: Lane) -> bool {
        lock(&self.core).half.is_open(lane)
    }

    fn no_answer_unless_note(self: &Arc<Self>, lane: Lane, message: &Message) -> Works {
        if message.kind() != Kind::Request {
            return Works::none();
        }
        let id = message.id().map(ToString::to_string).unwrap_or_default();
        self.unanswered(lane, message, format!("No response received for request ID {id}"))
    }

    async fn take_error(
        self: &Arc<Self>,
        lane: Lane,
        message: &Message,
        response: Response<Incoming>,
    ) -> Works {
        let status = response.status();
        let hints = auth_hints(response.headers());
        let body = Limited::new(response.into_body(), ERROR_BODY).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let error =
            jsonrpc::parse_one(body.clone()).ok().filter(|answer| answer.kind() == Kind::Error);
        let is_modern = error.as_ref().and_then(error_code).is_some_and(is_modern_code);
        if self.may_fall_back(status, message) && !is_modern && self.change_to_sse(lane, message) {
            return Works::none();
        }
        match error {
            // The body's own error tells more than its status; its id may be missing.
            Some(error) if message.kind() == Kind::Request => {
                let id = message.id().cloned().unwrap_or_else(|| 0.into());
                self.handle_text(lane, error.with_id(&id).text().clone())
            }
            _ => {
                let text = String::from_utf8_lossy(&body);
                let text: String = text.trim().chars().take(SHOWN).collect();
                self.unanswered(lane, message, format!("HTTP {}: {text}{hints}", status.as_u16()))
            }
        }
    }

    /// Whether this refusal may mean that the server has only the older transport.
    fn may_fall_back(&self, status: StatusCode, message: &Message) -> bool {
        let refused = matches!(status.as_u16(), 400 | 404 | 405);
        let http_first =
            matches!(self.server.target(), Target::Url { strategy: Strategy::HttpFirst, .. });
        refused && http_first && message.method() == method::INITIALIZE
    }

    /// Sends the greeting again over HTTP+SSE. False if that has been tried.
    fn change_to_sse(self: &Arc<Self>, lane: Lane, message: &Message) -> bool {
        if lock(&self.core).road != Road::Http {
            return false;
        }
        self.close_lane(lane);
        self.change_road();
        self.resend(message.clone()).detach();
        true
    }

    /// Sends a message of the ledger once more, by whatever road there is now.
    pub(super) fn resend(self: &Arc<Self>, message: Message) -> Works {
        let mut core = lock(&self.core);
        match core.road {
            Road::Pipe => {
                core.outbound_bytes += message.text().len();
                core.outbound.push_back(message);
                self.start(&mut core);
                self.written.notify_one();
                Works::none()
            }
            Road::Http => {
                let lane = Lane(number_of(&message));
                let ended = Arc::new(Notify::new());
                core.lanes.insert(lane, Arc::clone(&ended));
                self.start(&mut core);
                Works::one(Arc::clone(self).post(lane, message, Vec::new(), ended))
            }
        }
    }

    /// The message went out, or did not, and no answer will come.
    fn unanswered(self: &Arc<Self>, lane: Lane, message: &Message, text: String) -> Works {
        if message.kind() != Kind::Request {
            tracing::warn!(server = self.name, method = message.method(), "not delivered: {text}");
            return Works::none();
        }
        self.step(|half, _| half.handle_unanswered(lane, &Refusal::FarSide { text })).1
    }
}

impl Link {
    fn post(
        &self,
        era: Era,
        message: &Message,
        mirrored: Vec<(HeaderName, HeaderValue)>,
    ) -> Request<Bytes> {
        let mut request = Request::new(message.text().clone());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        self.add_headers(headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if era == Era::Legacy && message.method() != method::INITIALIZE {
            self.add_session(headers);
        }
        for (name, value) in mirrored {
            headers.insert(name, value);
        }
        request
    }

    /// The user's headers; ours come later and win (HDR-15).
    fn add_headers(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
    }

    fn add_session(&self, headers: &mut HeaderMap) {
        let session = lock(&self.session);
        if let Some(id) = &session.id {
            headers.insert(header::SESSION_ID, id.clone());
        }
        if let Some(version) = &session.version {
            headers.insert(header::PROTOCOL_VERSION, version.clone());
        }
    }

    fn has_session(&self) -> bool {
        lock(&self.session).id.is_some()
    }

    fn forget_session(&self) {
        *lock(&self.session) = Session::default();
    }

    fn remember_session(&self, headers: &HeaderMap) {
        let id = headers.get(header::SESSION_ID).cloned().map(|mut id| {
            id.set_sensitive(true);
            id
        });
        *lock(&self.session) = Session { id, version: None, listening: false };
    }

    /// The version goes on every request from the revision on that has the header.
    fn remember_version(&self, answer: &[u8]) {
        let Some(name) = patch::string(answer, &["result", "protocolVersion"]) else { return };
        if Revision::legacy_at_most(&name).rules().version_header {
            lock(&self.session).version = HeaderValue::from_str(&name).ok();
        }
    }

    /// Ends the session at the server, if there is one. Failing is no matter.
    pub(super) async fn delete_session(&self) {
        if !self.has_session() {
            return;
        }
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = Method::DELETE;
        *request.uri_mut() = self.url.clone();
        self.add_headers(request.headers_mut());
        self.add_session(request.headers_mut());
        let patience = std::time::Duration::from_secs(2);
        if let Ok(Err(error)) = tokio::time::timeout(patience, self.fetch.send(request)).await {
            tracing::debug!("session not deleted: {error}");
        }
    }
}

fn number_of(message: &Message) -> u64 {
    match message.id() {
        Some(jsonrpc::Id::Integer(number)) => u64::try_from(*number).unwrap_or_default(),
        _ => Lane::MAIN.0,
    }
}

fn error_code(error: &Message) -> Option<i64> {
    std::str::from_utf8(patch::get(error.payload()?, &["code"])?).ok()?.parse().ok()
}

/// What the server says about how to get in.
fn auth_hints(headers: &HeaderMap) -> String {
    let mut hints = String::new();
    for name in ["www-authenticate", "mcp-auth-server"] {
        for value in headers.get_all(name).iter().filter_map(|value| value.to_str().ok()) {
            hints = format!("{hints} ({name}: {value})");
        }
    }
    hints
}

/// An error and its causes as one sentence.
fn sentence(error: &FetchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
