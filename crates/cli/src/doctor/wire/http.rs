//! Speaks to a Streamable HTTP endpoint, and to the two endpoints of HTTP+SSE.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;
use switchboard_net::http::fetch::{Fetch, FetchError};
use switchboard_proto::framing;
use switchboard_proto::header::{METHOD, PROTOCOL_VERSION, SESSION_ID};
use switchboard_proto::revision::Era;

use super::super::evidence::{ExchangeResult, Facts, Heard, Reply};
use super::{MAX, Sorted, sort};

/// A body that is read piece by piece.
pub(super) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

pub(crate) struct Http {
    pub(crate) url: Uri,
    pub(crate) fetch: Fetch,
    pub(crate) headers: HeaderMap,
    pub(crate) era: Era,
    /// What is spoken, once that is settled.
    pub(crate) revision: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) heard: Heard,
}

/// Bytes of a body that is no answer, for the report.
const START: usize = 2048;

impl Http {
    pub(super) async fn ask(&mut self, request: &Value) -> ExchangeResult {
        let method = request["method"].as_str().unwrap_or_default();
        let sent = self.post(request.to_string(), method).await;
        match sent {
            Ok((facts, body)) => self.read(facts, body, request).await,
            Err(error) => ExchangeResult::Lost(error),
        }
    }

    async fn read(&mut self, mut facts: Facts, mut body: Body, request: &Value) -> ExchangeResult {
        if facts.is_stream() {
            return self.read_stream(facts, body, request).await;
        }
        let mut text = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(more) = frame.into_data()
                && text.len() + more.len() <= MAX
            {
                text.extend_from_slice(&more);
            }
        }
        let start = text.get(..START).unwrap_or(&text);
        facts.body = String::from_utf8_lossy(start).into_owned();
        // What is no JSON at all is for the checks of HTTP, and not a stray.
        let sorted = match serde_json::from_slice::<Value>(&text) {
            Ok(_) => sort(&text, request, &mut self.heard),
            Err(_) => Vec::new(),
        };
        let answer = sorted.into_iter().find_map(|sorted| match sorted {
            Sorted::Answer(message) => Some(message),
            _ => None,
        });
        match answer {
            Some(message) => ExchangeResult::Answer { message, http: Some(facts) },
            None => ExchangeResult::Http(facts),
        }
    }

    async fn read_stream(
        &mut self,
        facts: Facts,
        mut body: Body,
        request: &Value,
    ) -> ExchangeResult {
        let mut events = framing::EventDecoder::new(MAX);
        loop {
            while let Some(event) = events.next_event() {
                let Ok(event) = event else { continue };
                if !event.is_message() {
                    continue;
                }
                for sorted in sort(&event.data, request, &mut self.heard) {
                    match sorted {
                        Sorted::Answer(message) => {
                            return ExchangeResult::Answer { message, http: Some(facts) };
                        }
                        // It may or may not come of use; the answer is awaited all the same.
                        Sorted::Reply(reply) => _ = self.post(reply.to_string(), "").await,
                        Sorted::Nothing => {}
                    }
                }
            }
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(more) = frame.into_data() {
                        events.push(&more);
                    }
                }
                _ => return ExchangeResult::Http(facts),
            }
        }
    }

    async fn post(&self, body: String, method: &str) -> Result<(Facts, Body), FetchError> {
        let mut headers = self.common();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.era == Era::Modern && !method.is_empty() {
            insert(&mut headers, METHOD, method);
        }
        self.send(Method::POST, &self.url, headers, body).await
    }

    /// What every request says.
    pub(crate) fn common(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        if let Some(revision) = &self.revision {
            insert(&mut headers, PROTOCOL_VERSION, revision);
        }
        if let Some(session) = &self.session {
            insert(&mut headers, SESSION_ID, session);
        }
        headers
    }

    /// One request; redirects are shown, not followed.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Uri,
        headers: HeaderMap,
        body: String,
    ) -> Result<(Facts, Body), FetchError> {
        send(&self.fetch, method, url, headers, body).await
    }

    /// One request of which only the head of the response is of interest.
    pub(crate) async fn head(&self, method: Method, headers: HeaderMap, body: String) -> Reply {
        match self.send(method, &self.url, headers, body).await {
            Ok((facts, _)) => Reply::Http(facts),
            Err(error) => Reply::Lost(error),
        }
    }
}

pub(super) async fn send(
    fetch: &Fetch,
    method: Method,
    url: &Uri,
    headers: HeaderMap,
    body: String,
) -> Result<(Facts, Body), FetchError> {
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    let response: Response<_> = fetch.send_once(request).await?;
    let facts = Facts::read(response.status().as_u16(), response.headers());
    Ok((facts, response.into_body().map_err(Into::into).boxed_unsync()))
}

/// Text of the server goes back to it only if it fits a header.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

pub(crate) struct SseEndpoint {
    fetch: Fetch,
    headers: HeaderMap,
    post: Uri,
    body: Body,
    events: framing::EventDecoder,
    pub(crate) heard: Heard,
}

impl SseEndpoint {
    /// Opens the stream and waits for the address to post to.
    pub(crate) async fn open(
        fetch: &Fetch,
        url: &Uri,
        headers: &HeaderMap,
    ) -> Result<Self, ExchangeResult> {
        let mut asking = headers.clone();
        asking.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let sent = send(fetch, Method::GET, url, asking, String::new()).await;
        let (facts, body) = sent.map_err(ExchangeResult::Lost)?;
        if facts.status != 200 || !facts.is_stream() {
            return Err(ExchangeResult::Http(facts));
        }
        let (fetch, headers, events) =
            (fetch.clone(), headers.clone(), framing::EventDecoder::new(MAX));
        let heard = Heard::default();
        let mut old = Self { fetch, headers, post: url.clone(), body, events, heard };
        let Some(address) = old.endpoint().await else { return Err(ExchangeResult::Http(facts)) };
        old.post = resolve_endpoint(url, &address).ok_or(ExchangeResult::Http(facts))?;
        Ok(old)
    }

    async fn endpoint(&mut self) -> Option<String> {
        loop {
            let event = self.next().await?;
            if event.name.as_deref() == Some("endpoint") {
                return Some(String::from_utf8_lossy(&event.data).trim().to_owned());
            }
        }
    }

    async fn next(&mut self) -> Option<framing::SseEvent> {
        loop {
            if let Some(event) = self.events.next_event() {
                match event {
                    Ok(event) => return Some(event),
                    Err(_) => continue,
                }
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(more) = frame.into_data() {
                self.events.push(&more);
            }
        }
    }

    pub(super) async fn ask(&mut self, request: &Value) -> ExchangeResult {
        match self.write(request).await {
            Ok(facts) if !(200..300).contains(&facts.status) => return ExchangeResult::Http(facts),
            Ok(_) => {}
            Err(outcome) => return outcome,
        }
        while let Some(event) = self.next().await {
            if !event.is_message() {
                continue;
            }
            for sorted in sort(&event.data, request, &mut self.heard) {
                match sorted {
                    Sorted::Answer(message) => {
                        return ExchangeResult::Answer { message, http: None };
                    }
                    Sorted::Reply(reply) => _ = self.write(&reply).await,
                    Sorted::Nothing => {}
                }
            }
        }
        ExchangeResult::Gone { text: "the event stream ended".to_owned() }
    }

    pub(crate) async fn write(&self, message: &Value) -> Result<Facts, ExchangeResult> {
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = message.to_string();
        let sent = send(&self.fetch, Method::POST, &self.post, headers, body).await;
        sent.map(|(facts, _)| facts).map_err(ExchangeResult::Lost)
    }
}

/// The address that a stream names, if it is at the same origin.
fn resolve_endpoint(base: &Uri, address: &str) -> Option<Uri> {
    let whole: Uri = if address.contains("://") {
        address.parse().ok()?
    } else {
        let path = match address.strip_prefix('/') {
            Some(path) => format!("/{path}"),
            None => format!("{}/{address}", base.path().rsplit_once('/')?.0),
        };
        format!("{}://{}{path}", base.scheme()?, base.authority()?).parse().ok()?
    };
    let is_same = whole.scheme() == base.scheme() && whole.authority() == base.authority();
    is_same.then_some(whole)
}
