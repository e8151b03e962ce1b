//! Speaks to a server without our client: over the pipes of a child process, to a
//! Streamable HTTP endpoint, or to the two endpoints of HTTP+SSE.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::{Value, json};
use switchboard_net::auth::OauthCredential;
use switchboard_net::http::fetch::{Fetch, FetchError, is_same_origin, resolve};
use switchboard_net::stdio::child::{Child, Command, Grace, SpawnError};
use switchboard_net::upstream::{Credential as _, CredentialUser};
use switchboard_proto::framing::LineDecoder;
use switchboard_proto::header::{METHOD, PROTOCOL_VERSION, SESSION_ID};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::{framing, method};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::evidence::{Facts, Heard, RecordedRequest, RequestResult};

/// Bytes of one message; more is not looked at.
const MAX: usize = 8 << 20;

/// A connection to the server.
pub(super) enum DoctorConnection {
    Child(Box<ChildPipe>),
    Http(Box<VisitedEndpoint>),
    Sse(Box<SseEndpoint>),
}

impl DoctorConnection {
    /// Sends a request and waits for what comes of it.
    pub(super) async fn ask(
        &mut self,
        id: Value,
        method: &str,
        params: Value,
        patience: Duration,
        heard: &mut Heard,
    ) -> RecordedRequest {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let asked = tokio::time::timeout(patience, self.converse(&request, heard)).await;
        if let Self::Http(http) = self {
            http.response = None;
        }
        let (Ok(outcome) | Err(outcome)) = asked.unwrap_or(Err(RequestResult::Silence));
        RecordedRequest { id, method: method.to_owned(), outcome }
    }

    /// An answer, or what came instead of one.
    async fn converse(
        &mut self,
        request: &Value,
        heard: &mut Heard,
    ) -> Result<RequestResult, RequestResult> {
        match self {
            Self::Child(pipe) => pipe.request(request).await?,
            Self::Http(http) => http.request(request).await?,
            Self::Sse(sse) => sse.request(request).await?,
        }
        loop {
            let text = match self {
                Self::Child(pipe) => pipe.next(heard).await?,
                Self::Http(http) => http.next().await?,
                Self::Sse(sse) => sse.next().await?,
            };
            for message in messages(&text, heard) {
                let id = message.get("id").unwrap_or(&Value::Null);
                if let Some(method) = message["method"].as_str() {
                    if !id.is_null() {
                        self.reply(&reply_to(id, method, heard)).await;
                    }
                } else if message.get("result").or(message.get("error")).is_none() {
                    heard.stray(&message.to_string());
                } else if is_answer(id, &message, request) {
                    let http = if let Self::Http(http) = self { http.facts() } else { None };
                    return Ok(RequestResult::Answer { message, http });
                } else {
                    heard.unasked.get_or_insert_with(|| id.clone());
                }
            }
        }
    }

    /// Answers a request of the server. Whether that is of use to it shows later.
    async fn reply(&mut self, reply: &Value) {
        match self {
            Self::Child(pipe) => _ = pipe.write(reply).await,
            Self::Sse(sse) => _ = sse.write(reply).await,
            Self::Http(http) if http.facts().is_some_and(|facts| facts.is_stream()) => {
                _ = http.post(reply.to_string(), "").await;
            }
            Self::Http(_) => {}
        }
    }
}

/// The messages of a text; what is none is written down.
fn messages(text: &[u8], heard: &mut Heard) -> Vec<Value> {
    match serde_json::from_slice(text) {
        Ok(Value::Array(batch)) => batch,
        Ok(message @ Value::Object(_)) => vec![message],
        _ => {
            heard.stray(&String::from_utf8_lossy(text));
            Vec::new()
        }
    }
}

/// Whether a body is a JSON-RPC message, if a bad one. What guards a server, or fails in front
/// of it, answers in JSON of its own, and only its status counts.
fn is_meant_as_rpc(text: &[u8], status: u16) -> bool {
    let is_fine = (200..300).contains(&status);
    let is_meant = |message: &Value| {
        message.get("jsonrpc").is_some()
            || message["error"]["code"].is_i64()
            || (is_fine && (message.get("result").is_some() || message["method"].is_string()))
    };
    match serde_json::from_slice(text) {
        Ok(Value::Array(batch)) => batch.iter().any(is_meant),
        Ok(message) => is_meant(&message),
        Err(_) => false,
    }
}

/// What to answer to a request of the server. We offer nothing, so nothing but pings may
/// be asked of us.
fn reply_to(id: &Value, method: &str, heard: &mut Heard) -> Value {
    if method == method::PING {
        return json!({"jsonrpc": "2.0", "id": id, "result": {}});
    }
    heard.asked.get_or_insert_with(|| method.to_owned());
    let refusal = Refusal::UnknownMethod { method: method.to_owned() };
    let error = json!({"code": refusal.rpc_code(), "message": refusal.to_string()});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// An id of the wrong type is found by a check; here it is the answer.
fn is_answer(id: &Value, message: &Value, request: &Value) -> bool {
    let looks_like = |value: &Value| value.to_string().trim_matches('"').to_owned();
    looks_like(id) == looks_like(&request["id"]) || (id.is_null() && message.get("error").is_some())
}

/// The pipes of a child process.
pub(super) struct ChildPipe {
    child: Child,
    lines: LineDecoder,
}

impl ChildPipe {
    pub(super) fn start(
        command: &Command,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, SpawnError> {
        Ok(Self { child: command.spawn(environment)?, lines: LineDecoder::new(MAX) })
    }

    pub(super) async fn write(&mut self, message: &Value) -> Option<()> {
        let stdin = self.child.stdin.as_mut()?;
        stdin.write_all(format!("{message}\n").as_bytes()).await.ok()?;
        stdin.flush().await.ok()
    }

    async fn request(&mut self, request: &Value) -> Result<(), RequestResult> {
        if self.write(request).await.is_some() { Ok(()) } else { Err(self.gone().await) }
    }

    async fn next(&mut self, heard: &mut Heard) -> Result<Bytes, RequestResult> {
        loop {
            match self.lines.next_line() {
                Some(Ok(line)) => return Ok(line),
                Some(Err(_)) => heard.stray("a line that is longer than 8 MiB"),
                None => {
                    if let Some(stdout) = &mut self.child.stdout
                        && let Ok(1..) = stdout.read_buf(self.lines.buffer()).await
                    {
                        continue;
                    }
                    return Err(self.gone().await);
                }
            }
        }
    }

    /// Why it is gone; some close their stdout and live on.
    async fn gone(&mut self) -> RequestResult {
        let Ok(exit) = tokio::time::timeout(LAST_WORDS, self.child.wait()).await else {
            return RequestResult::Gone { text: "it closed its stdout".to_owned() };
        };
        let words = &exit.last_words[exit.last_words.len().saturating_sub(5)..];
        let words =
            if words.is_empty() { "nothing on stderr".to_owned() } else { words.join(" | ") };
        RequestResult::Gone { text: format!("{}; {words}", exit.status) }
    }

    /// Ends it; whether the end of its stdin was enough.
    pub(super) async fn close(mut self) -> bool {
        drop(self.child.stdin.take());
        let went = tokio::time::timeout(EXIT_PATIENCE, self.child.wait()).await.is_ok();
        self.child.stop(Grace { close: Duration::ZERO, ..Grace::default() }).await;
        went
    }
}

/// How long the end of a process may come after that of its stdout.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a server may take to end by itself, before clients send a signal.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// A URL, and how to send requests there.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) url: Uri,
    pub(super) headers: HeaderMap,
    pub(super) fetch: Fetch,
    /// Shows a token, if there is an account.
    pub(super) credential: Option<Arc<OauthCredential>>,
}

impl Endpoint {
    /// One request; redirects are shown, not followed.
    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: String,
    ) -> Result<EndpointResponse, FetchError> {
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = headers;
        if let Some(credential) = &self.credential {
            let none = HeaderMap::new();
            credential.sign(CredentialUser { headers: &none, principal: "" }, &mut request);
        }
        let response = self.fetch.send_once(request).await?;
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        let facts = Facts { status, headers, body: String::new() };
        let body = Mutex::new(body.map_err(Into::into).boxed_unsync());
        let events = framing::EventDecoder::new(MAX);
        Ok(EndpointResponse { facts, body, events })
    }
}

/// A response, whose body is read piece by piece.
struct EndpointResponse {
    facts: Facts,
    /// Never waited for: a visit may move between threads, and a body alone may not be shared.
    body: Mutex<UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>,
    events: framing::EventDecoder,
}

/// Bytes of a body that is no answer, for the report.
const START: usize = 2048;

impl EndpointResponse {
    /// The next piece of the body; none if it has ended, or broke off.
    async fn next_piece(&mut self) -> Option<Bytes> {
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let frame = body.frame().await?.ok()?;
        Some(frame.into_data().unwrap_or_default())
    }

    /// The next event of a stream.
    async fn next_event(&mut self) -> Option<framing::SseEvent> {
        loop {
            match self.events.next_event() {
                Some(Ok(event)) => return Some(event),
                Some(Err(_)) => {}
                None => {
                    let more = self.next_piece().await?;
                    self.events.push(&more);
                }
            }
        }
    }

    /// The data of the next event that is a message.
    async fn next_message(&mut self) -> Option<Bytes> {
        loop {
            let event = self.next_event().await?;
            if event.is_message() {
                return Some(event.data);
            }
        }
    }

    /// The whole body, once.
    async fn read_whole(&mut self) -> Option<Bytes> {
        let mut text = Vec::new();
        while let Some(more) = self.next_piece().await {
            if text.len() + more.len() <= MAX {
                text.extend_from_slice(&more);
            }
        }
        if text.is_empty() {
            return None;
        }
        let start = text.get(..START).unwrap_or(&text);
        self.facts.body = String::from_utf8_lossy(start).into_owned();
        Some(text.into())
    }
}

/// A Streamable HTTP endpoint.
pub(super) struct VisitedEndpoint {
    endpoint: Endpoint,
    /// What is spoken, once that is settled.
    pub(super) revision: Option<String>,
    pub(super) session: Option<HeaderValue>,
    /// What the open request is answered with.
    response: Option<EndpointResponse>,
}

impl VisitedEndpoint {
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone(), revision: None, session: None, response: None }
    }

    async fn request(&mut self, request: &Value) -> Result<(), RequestResult> {
        let method = request["method"].as_str().unwrap_or_default();
        let response = self.post(request.to_string(), method).await;
        self.response = Some(response.map_err(RequestResult::Lost)?);
        Ok(())
    }

    async fn next(&mut self) -> Result<Bytes, RequestResult> {
        let Some(response) = &mut self.response else { return Err(RequestResult::Silence) };
        let is_stream = response.facts.is_stream();
        let text =
            if is_stream { response.next_message().await } else { response.read_whole().await };
        let status = response.facts.status;
        let is_message = |text: &Bytes| is_stream || is_meant_as_rpc(text, status);
        let text = text.filter(|text| status != 401 && is_message(text));
        text.ok_or_else(|| RequestResult::Http(response.facts.clone()))
    }

    fn facts(&self) -> Option<Facts> {
        self.response.as_ref().map(|response| response.facts.clone())
    }

    async fn post(&self, body: String, method: &str) -> Result<EndpointResponse, FetchError> {
        let mut headers = self.for_post();
        let revision = self.revision.as_deref().and_then(Revision::parse);
        let is_modern = revision.is_some_and(|revision| revision.era() == Era::Modern);
        if is_modern && !method.is_empty() {
            insert(&mut headers, METHOD, method);
        }
        self.endpoint.send(Method::POST, headers, body).await
    }

    /// What every request says.
    pub(super) fn common(&self) -> HeaderMap {
        let mut headers = self.endpoint.headers.clone();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        if let Some(revision) = &self.revision {
            insert(&mut headers, PROTOCOL_VERSION, revision);
        }
        if let Some(session) = &self.session {
            headers.insert(SESSION_ID, session.clone());
        }
        headers
    }

    /// What every POST says.
    pub(super) fn for_post(&self) -> HeaderMap {
        let mut headers = self.common();
        headers.insert(header::CONTENT_TYPE, JSON);
        headers
    }

    /// One request of which only the head of the response is of interest.
    pub(super) async fn try_out(
        &self,
        patience: Duration,
        method: Method,
        headers: HeaderMap,
        body: String,
    ) -> Result<Facts, String> {
        let sent = self.endpoint.send(method, headers, body);
        let sent = tokio::time::timeout(patience, sent).await;
        let response = sent.map_err(|_| "no response in time")?;
        response.map(|response| response.facts).map_err(|error| error.to_string())
    }
}

/// Media types of what is sent and accepted.
const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Text of the server goes back to it only if it fits a header.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The two endpoints of HTTP+SSE.
pub(super) struct SseEndpoint {
    /// Where messages are posted to.
    post: Endpoint,
    stream: EndpointResponse,
}

impl SseEndpoint {
    /// Opens the stream and waits for the address to post to.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, RequestResult> {
        let mut headers = endpoint.headers.clone();
        headers.insert(header::ACCEPT, STREAM);
        let sent = endpoint.send(Method::GET, headers, String::new()).await;
        let mut stream = sent.map_err(RequestResult::Lost)?;
        let is_stream = stream.facts.status == 200 && stream.facts.is_stream();
        while is_stream && let Some(event) = stream.next_event().await {
            if event.name.as_deref() == Some("endpoint") {
                let url = resolve(&endpoint.url, &String::from_utf8_lossy(&event.data));
                let Some(url) = url.filter(|url| is_same_origin(&endpoint.url, url)) else { break };
                return Ok(Self { post: Endpoint { url, ..endpoint.clone() }, stream });
            }
        }
        Err(RequestResult::Http(stream.facts))
    }

    async fn next(&mut self) -> Result<Bytes, RequestResult> {
        let ended = || RequestResult::Gone { text: "the event stream ended".to_owned() };
        self.stream.next_message().await.ok_or_else(ended)
    }

    async fn request(&self, request: &Value) -> Result<(), RequestResult> {
        let facts = self.write(request).await?;
        let is_taken = (200..300).contains(&facts.status);
        if is_taken { Ok(()) } else { Err(RequestResult::Http(facts)) }
    }

    pub(super) async fn write(&self, message: &Value) -> Result<Facts, RequestResult> {
        let mut headers = self.post.headers.clone();
        headers.insert(header::CONTENT_TYPE, JSON);
        let sent = self.post.send(Method::POST, headers, message.to_string()).await;
        sent.map(|response| response.facts).map_err(RequestResult::Lost)
    }
}
