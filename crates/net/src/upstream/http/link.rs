//! The session at a Streamable HTTP endpoint: made, probed, refused, deleted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::client::probe::{self, ProbeReply};
use switchboard_proto::failure::Failure;
use switchboard_proto::framing::EventDecoder;
use switchboard_proto::header;
use switchboard_proto::header::Mirror;
use switchboard_proto::jsonrpc::{self, Id, Kind, Member, Message, Part};
use switchboard_proto::refusal::{Refusal, is_modern_code};
use switchboard_proto::revision::Revision;
use tokio::sync::watch;

use super::ear::Ear;
use crate::connection::lock;
use crate::http::fetch::Fetch;
use crate::http::{content_type, is_event_stream};
use crate::secret::redact;
use crate::upstream::via::{self, Via};
use crate::upstream::{Target, Upstream};

/// The endpoint and our session there.
pub(in crate::upstream) struct Link {
    pub(super) fetch: Fetch,
    url: Uri,
    via: Option<Arc<Via>>,
    /// What was shown last.
    headers: Mutex<Arc<HeaderMap>>,
    /// Another one comes only together with another ear.
    session: Mutex<Session>,
    /// The id that came with the answer to a greeting: it is one with the result.
    offered: Mutex<Option<HeaderValue>>,
    pub(super) ear: watch::Sender<Ear>,
    /// How it begins in each session.
    first_ear: Ear,
    /// The server has let us listen, in this session or an earlier one.
    pub(super) was_heard: AtomicBool,
    /// The server could not be listened to for a while.
    pub(super) missed: AtomicBool,
    /// How often listening went wrong in the session before this one.
    pub(super) strain: Mutex<Option<Reconnect>>,
    /// The event that was heard last, and the number of its session.
    pub(super) last: Mutex<Option<(u64, HeaderValue)>>,
}

/// What goes on every message of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::upstream) struct Session {
    /// Tells it from those before it: not every one has an id.
    pub(super) number: u64,
    pub(super) id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// How long the server may take to end a session: we are on our way out.
const DELETE_WAIT: Duration = Duration::from_secs(2);

impl Upstream {
    pub(super) fn link(&self) -> Option<&Link> {
        let (Target::Url { url, headers, .. }, Some(fetch)) =
            (self.server.target(), self.server.fetch())
        else {
            return None;
        };
        Some(self.http.get_or_init(|| Link {
            fetch: fetch.clone(),
            url: url.clone(),
            via: self.server.via().cloned(),
            headers: Mutex::new(Arc::new(headers.clone())),
            session: Mutex::default(),
            offered: Mutex::default(),
            ear: watch::Sender::default(),
            first_ear: if self.is_deaf() { Ear::Refused } else { Ear::NotYet },
            was_heard: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            strain: Mutex::default(),
            last: Mutex::default(),
        }))
    }
}

impl Link {
    /// From here on this is shown.
    pub(super) fn show(&self, headers: &Arc<HeaderMap>) {
        lock(&self.headers).clone_from(headers);
    }

    /// What was shown last.
    pub(super) fn last_shown(&self) -> Arc<HeaderMap> {
        Arc::clone(&lock(&self.headers))
    }

    /// A request with the user's headers; ours come later and win (HDR-15).
    fn request(&self, method: Method, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        let shown = self.last_shown();
        for (name, value) in &*shown {
            request.headers_mut().append(name, value.clone());
        }
        if let Some(via) = &self.via {
            request.headers_mut().insert(via::HEADER, via.header());
        }
        request
    }

    pub(super) fn post(&self, text: &Bytes, session: &Session) -> Request<Bytes> {
        let mut request = self.request(Method::POST, text.clone());
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        session.add_to(headers);
        request
    }

    /// Asks for a stream of a session, or for what of it came after `last`.
    pub(super) fn get(&self, session: &Session, last: Option<&HeaderValue>) -> Request<Bytes> {
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
    pub(super) fn session(&self) -> Session {
        lock(&self.session).clone()
    }

    /// A session is over, unless it has been followed by another.
    pub(super) fn forget(&self, over: &Session) {
        let mut session = lock(&self.session);
        if session.number == over.number {
            *session = Session { number: over.number, ..Session::default() };
        }
    }

    /// An answer to a greeting has begun.
    pub(super) fn handle_offer(&self, headers: &HeaderMap) {
        *lock(&self.offered) = headers.get(header::SESSION_ID).cloned().map(|mut id| {
            id.set_sensitive(true);
            id
        });
    }

    /// The session that it may come to, for the rest of that answer.
    pub(super) fn offered(&self) -> Session {
        Session { id: lock(&self.offered).clone(), ..Session::default() }
    }

    /// The session has begun, if the answer is no error. Its version goes on every
    /// request, from the revision on that has the header.
    pub(super) fn handle_greeted(&self, answer: &[u8]) {
        let Some(welcome) = Part::new(answer).get(&["result"]) else { return };
        let id = lock(&self.offered).take();
        self.begin(id);
        let name = welcome.string("protocolVersion").unwrap_or_default();
        if Revision::legacy_at_most(&name).rules().version_header {
            lock(&self.session).version = HeaderValue::from_str(&name).ok();
        }
    }

    /// Another session, or none, in the place of this one.
    fn begin(&self, id: Option<HeaderValue>) -> Session {
        let mut before = Session::default();
        self.ear.send_modify(|ear| {
            let mut session = lock(&self.session);
            let number = session.number + 1;
            before = std::mem::replace(&mut session, Session { number, id, version: None });
            *ear = self.first_ear;
        });
        // Whoever greets a server again tells what that means.
        self.missed.store(false, Ordering::Relaxed);
        before
    }

    /// Ends the session at the server, if there is one. Failing is no matter.
    pub(in crate::upstream) async fn delete_session(&self) {
        let session = self.begin(None);
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

impl Session {
    fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(header::SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(header::PROTOCOL_VERSION, version.clone());
        }
    }
}

/// What came of the question.
pub(crate) struct Probed {
    pub(crate) reply: ProbeReply,
    /// The answer, if it is one.
    pub(crate) answer: Option<Message>,
    /// What came is the stream of an HTTP+SSE server.
    pub(crate) is_old: bool,
    /// Why there is no answer, for whoever cannot go on.
    pub(crate) failure: Option<Failure>,
}

impl Probed {
    fn answered(status: StatusCode, answer: Message, failure: Option<Failure>) -> Self {
        let reply = probe::reply(Some(status.as_u16()), &answer);
        Self { reply, answer: Some(answer), is_old: false, failure }
    }

    fn unanswered(status: StatusCode, is_old: bool, failure: Failure) -> Self {
        let reply = ProbeReply::Http { status: status.as_u16() };
        Self { reply, answer: None, is_old, failure: Some(failure) }
    }

    fn broken(failure: Failure) -> Self {
        Self { reply: ProbeReply::Broken, answer: None, is_old: false, failure: Some(failure) }
    }
}

impl Upstream {
    /// Asks an endpoint which era it speaks.
    pub(crate) async fn probe(&self, question: &Message) -> Probed {
        let Some(link) = self.link() else { return Probed::broken(Failure::CLOSED) };
        let asking = self.send(link, |link| {
            let mut request = link.post(question.text(), &Session::default());
            let version = Revision::NEWEST_MODERN.as_str();
            Mirror { version, method: question.method(), name: None }.write(request.headers_mut());
            request
        });
        match asking.await {
            Ok(response) => self.read_probe(link, response).await,
            Err(why) => Probed::broken(why),
        }
    }

    async fn read_probe(&self, link: &Link, response: Response<Incoming>) -> Probed {
        let status = response.status();
        if !status.is_success() {
            let refused = Refused::read(response, &link.last_shown()).await;
            let failure = refused.failure(self);
            return match refused.error() {
                Some(error) => Probed::answered(status, error.clone(), Some(failure)),
                None => Probed::unanswered(status, false, failure),
            };
        }
        let media = content_type(response.headers()).unwrap_or_default().to_owned();
        let first = if is_event_stream(&media) {
            self.first_answer(response.into_body()).await
        } else {
            let body = Limited::new(response.into_body(), self.limits.message).collect().await;
            body.map_or(First::Nothing, |body| First::of(body.to_bytes()))
        };
        let failure = Failure::NotMcp { status: status.as_u16(), media: None };
        match first {
            First::Answer(answer) => Probed::answered(status, answer, None),
            First::Endpoint => Probed::unanswered(status, true, failure),
            First::Nothing => Probed::unanswered(status, false, failure),
        }
    }

    /// The first thing on an event stream that tells something.
    async fn first_answer(&self, mut body: Incoming) -> First {
        let mut decoder = EventDecoder::new(self.limits.message);
        while let Some(Ok(frame)) = body.frame().await {
            decoder.push(frame.data_ref().map_or(&[], |data| &data[..]));
            while let Some(event) = decoder.next_event() {
                let Ok(event) = event else { continue };
                if event.name.as_deref() == Some("endpoint") {
                    return First::Endpoint;
                }
                if let first @ First::Answer(_) = First::of(event.data) {
                    return first;
                }
            }
        }
        First::Nothing
    }
}

/// What a body begins with.
enum First {
    Answer(Message),
    /// Where to post to: this is the stream of the oldest transport.
    Endpoint,
    Nothing,
}

impl First {
    fn of(text: Bytes) -> Self {
        let message = jsonrpc::parse_one(text).ok().filter(Message::is_response);
        message.map_or(Self::Nothing, Self::Answer)
    }
}

/// What a server said instead of an answer.
pub(in crate::upstream) struct Refused {
    pub(in crate::upstream) status: StatusCode,
    text: String,
    hints: String,
    /// The `WWW-Authenticate` headers.
    challenge: Option<Box<str>>,
    error: Option<Message>,
}

/// Bodies are read this far and this long, for their text.
const BODY: usize = 64 << 10;
const BODY_WAIT: Duration = Duration::from_secs(5);

/// What of a body is shown to people.
const SHOWN: usize = 512;

impl Refused {
    /// Reads what came instead of an answer to a request with these headers.
    pub(in crate::upstream) async fn read(response: Response<Incoming>, sent: &HeaderMap) -> Self {
        let status = response.status();
        let hints = redact(&hints(response.headers()), sent);
        let challenge: Vec<_> = values(response.headers(), "www-authenticate").collect();
        let challenge = Some(challenge.join(", ")).filter(|it| !it.is_empty());
        let challenge = challenge.map(|it| redact(&it, sent).into());
        let body = beginning(response.into_body()).await.freeze();
        let error = jsonrpc::parse_one(body.clone()).ok();
        let error = error.filter(|answer| answer.kind() == Kind::Error);
        let message = error.as_ref().and_then(|error| error.string(Member::ErrorMessage));
        let text = message.unwrap_or_else(|| String::from_utf8_lossy(&body));
        let told = redact(&text, sent);
        let is_whole = told == *text;
        let error = error.as_ref().map(|it| if is_whole { it.clone() } else { saying(it, &told) });
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
        Some(saying(&error, &format!("{text}{}", self.hints)))
    }

    /// The error that the body holds.
    pub(super) fn error(&self) -> Option<&Message> {
        self.error.as_ref()
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

    /// Whether it says who is let in, and not what came of a call.
    pub(super) fn is_about_us(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// Why the call has no answer.
    pub(in crate::upstream) fn failure(&self, up: &Upstream) -> Failure {
        if let Some(looped) = self.error.as_ref().and_then(|error| up.loop_in(error)) {
            return looped;
        }
        let reason = self.status.canonical_reason().unwrap_or_default();
        let text = if self.text.is_empty() { reason } else { &self.text };
        let (status, text) = (self.status.as_u16(), format!("{text}{}", self.hints).into());
        Failure::HttpStatus { status, text, challenge: self.challenge.clone() }
    }

    /// Whether only a modern server says this.
    pub(super) fn is_modern(&self) -> bool {
        self.error.as_ref().and_then(Message::error_code).is_some_and(is_modern_code)
    }
}

/// What the server says about how to get in.
fn hints(headers: &HeaderMap) -> String {
    let mut hints = String::new();
    for name in ["www-authenticate", "mcp-auth-server"] {
        for value in values(headers, name) {
            hints = format!("{hints} ({name}: {value})");
        }
    }
    hints
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

/// As much of a body as is worth showing.
async fn beginning(mut body: Incoming) -> BytesMut {
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

/// The same error in other words.
fn saying(error: &Message, text: &str) -> Message {
    error.with_string(Member::ErrorMessage, text)
}
