//! The two endpoints of 2024-11-05, spoken to by hand.

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::sse;

use super::super::evidence::{ExchangeResult, Facts, Heard};
use super::http::{Body, send};
use super::{MAX, Sorted, sort};

pub(in crate::doctor) struct Old {
    fetch: Fetch,
    headers: HeaderMap,
    post: Uri,
    body: Body,
    events: sse::EventDecoder,
    pub(in crate::doctor) heard: Heard,
}

impl Old {
    /// Opens the stream and waits for the address to post to.
    pub(in crate::doctor) async fn open(
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
            (fetch.clone(), headers.clone(), sse::EventDecoder::new(MAX));
        let heard = Heard::default();
        let mut old = Self { fetch, headers, post: url.clone(), body, events, heard };
        let Some(address) = old.endpoint().await else { return Err(ExchangeResult::Http(facts)) };
        old.post = resolve(url, &address).ok_or(ExchangeResult::Http(facts))?;
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

    async fn next(&mut self) -> Option<sse::SseEvent> {
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

    pub(in crate::doctor) async fn write(&self, message: &Value) -> Result<Facts, ExchangeResult> {
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = message.to_string();
        let sent = send(&self.fetch, Method::POST, &self.post, headers, body).await;
        sent.map(|(facts, _)| facts).map_err(ExchangeResult::Lost)
    }
}

/// The address that a stream names, if it is at the same origin.
fn resolve(base: &Uri, address: &str) -> Option<Uri> {
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
