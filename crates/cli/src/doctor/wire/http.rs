//! An endpoint, spoken to by hand.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;
use switchboard_net::http::fetch::{Fetch, FetchError};
use switchboard_proto::header::{METHOD, PROTOCOL_VERSION, SESSION_ID};
use switchboard_proto::revision::Era;
use switchboard_proto::sse;

use super::super::evidence::{ExchangeResult, Facts, Heard, Reply};
use super::{MAX, Sorted, sort};

/// A body that is read piece by piece.
pub(super) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

pub(in crate::doctor) struct Http {
    pub(in crate::doctor) url: Uri,
    pub(in crate::doctor) fetch: Fetch,
    pub(in crate::doctor) headers: HeaderMap,
    pub(in crate::doctor) era: Era,
    /// What is spoken, once that is settled.
    pub(in crate::doctor) revision: Option<String>,
    pub(in crate::doctor) session: Option<String>,
    pub(in crate::doctor) heard: Heard,
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
        let mut events = sse::EventDecoder::new(MAX);
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
    pub(in crate::doctor) fn common(&self) -> HeaderMap {
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
    pub(in crate::doctor) async fn send(
        &self,
        method: Method,
        url: &Uri,
        headers: HeaderMap,
        body: String,
    ) -> Result<(Facts, Body), FetchError> {
        send(&self.fetch, method, url, headers, body).await
    }

    /// One request of which only the head of the response is of interest.
    pub(in crate::doctor) async fn head(
        &self,
        method: Method,
        headers: HeaderMap,
        body: String,
    ) -> Reply {
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
    let facts = Facts::of(response.status().as_u16(), response.headers());
    Ok((facts, response.into_body().map_err(Into::into).boxed_unsync()))
}

/// Text of the server goes back to it only if it fits a header.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
