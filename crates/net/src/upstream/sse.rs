//! The road of the first revision: one event stream back, a POST for each message.
//!
//! ```text
//!   GET ──▶ `endpoint` event, same origin ──▶ messages as events ──▶ stream lost: all lost
//!      └──▶ no such thing here ──▶ the other transport, if that may be tried
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use switchboard_proto::exchange::Lane;
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::sse::{Decoder, Event};

use super::pipe::End;
use super::{Strategy, Target, Upstream};
use crate::drive::race;
use crate::http::fetch::Fetch;
use crate::http::{content_type, is_event_stream};

/// How long the server may take to say where to POST.
const ENDPOINT_WAIT: Duration = Duration::from_secs(10);

/// An open stream, and what of it has not been read yet.
struct Stream {
    body: Incoming,
    decoder: Decoder,
}

/// Connects and serves the stream until it ends or we are told to stop.
pub(super) async fn run(up: &Arc<Upstream>, url: &Uri) -> End {
    let (Target::Url { strategy, headers, .. }, Some(fetch)) =
        (up.server.target(), up.server.fetch())
    else {
        return End::Broke("Transport closed".to_owned());
    };
    let connected = up.stop.until(connect(up, fetch, url, headers)).await;
    let (mut stream, endpoint) = match connected {
        None => return End::Stopped,
        Some(Ok(connected)) => connected,
        Some(Err(why)) => {
            let other = why.wrong_transport && *strategy == Strategy::SseFirst;
            return if other { End::WrongRoad } else { End::Broke(why.text) };
        }
    };
    let talk = race(write(up, fetch, &endpoint, headers), read(up, &mut stream));
    match up.stop.until(talk).await {
        None => End::Stopped,
        Some(_) => End::Broke("Transport closed (the event stream ended)".to_owned()),
    }
}

/// Why there is no stream.
struct NoStream {
    text: String,
    wrong_transport: bool,
}

impl NoStream {
    fn because(text: impl Into<String>) -> Self {
        Self { text: text.into(), wrong_transport: false }
    }
}

async fn connect(
    up: &Arc<Upstream>,
    fetch: &Fetch,
    url: &Uri,
    headers: &HeaderMap,
) -> Result<(Stream, Uri), NoStream> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response =
        fetch.send(request).await.map_err(|error| NoStream::because(error.to_string()))?;
    let response = check(response)?;
    let mut stream =
        Stream { body: response.into_body(), decoder: Decoder::new(up.limits.message) };
    let first = tokio::time::timeout(ENDPOINT_WAIT, stream.next(up)).await;
    let event = match first {
        Ok(Some(event)) if event.name.as_deref() == Some("endpoint") => event,
        _ => {
            return Err(NoStream::because("the event stream did not begin with an endpoint event"));
        }
    };
    let place = String::from_utf8_lossy(&event.data).into_owned();
    let endpoint = resolve(url, place.trim())
        .ok_or_else(|| NoStream::because("the endpoint event names no URL of the same origin"))?;
    Ok((stream, endpoint))
}

fn check(response: Response<Incoming>) -> Result<Response<Incoming>, NoStream> {
    let status = response.status();
    let media = content_type(response.headers()).unwrap_or_default();
    if status.is_success() && is_event_stream(media) {
        return Ok(response);
    }
    let wrong_transport = status.is_success() || matches!(status.as_u16(), 400 | 404 | 405 | 406);
    let text = format!("HTTP {}: no event stream at this URL", status.as_u16());
    Err(NoStream { text, wrong_transport })
}

impl Stream {
    /// The next event that says anything; none when the stream is over.
    async fn next(&mut self, up: &Upstream) -> Option<Event> {
        loop {
            match self.decoder.next_event() {
                Some(Ok(event)) if !event.data.is_empty() => return Some(event),
                Some(Ok(_)) => {}
                Some(Err(error)) => tracing::warn!(server = up.name, "skipped an event: {error}"),
                None => match self.body.frame().await {
                    Some(Ok(frame)) => {
                        if let Some(chunk) = frame.data_ref() {
                            self.decoder.push(chunk);
                        }
                    }
                    Some(Err(_)) | None => return None,
                },
            }
        }
    }
}

async fn read(up: &Arc<Upstream>, stream: &mut Stream) {
    while let Some(event) = stream.next(up).await {
        if event.is_message() {
            up.handle_piped(event.data).await;
        }
    }
}

/// POSTs what is to be written, one after the other: a pipe has an order.
async fn write(up: &Arc<Upstream>, fetch: &Fetch, endpoint: &Uri, headers: &HeaderMap) {
    loop {
        for message in up.next_outbound().await {
            let mut request = Request::new(message.text().clone());
            *request.method_mut() = Method::POST;
            *request.uri_mut() = endpoint.clone();
            *request.headers_mut() = headers.clone();
            request
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let trouble = match fetch.send(request).await {
                Ok(response) if response.status().is_success() => continue,
                Ok(response) => {
                    format!("HTTP {}: the message was refused", response.status().as_u16())
                }
                Err(error) => error.to_string(),
            };
            fail(up, &message, trouble);
        }
    }
}

/// A message that could not be delivered has no answer.
fn fail(up: &Arc<Upstream>, message: &Message, text: String) {
    tracing::warn!(server = up.name, method = message.method(), "not delivered: {text}");
    if let (Kind::Request, Some(Id::Integer(number))) = (message.kind(), message.id()) {
        let lane = Lane(u64::try_from(*number).unwrap_or_default());
        let why = Refusal::FarSide { text };
        up.step(|half, _| half.handle_unanswered(lane, &why)).1.detach();
    }
}

/// `place` as seen from `base`, if it is of the same origin (OLD-2, OLD-3).
fn resolve(base: &Uri, place: &str) -> Option<Uri> {
    let origin = format!("{}://{}", base.scheme_str()?, base.authority()?);
    let absolute = if place.contains("://") {
        place.to_owned()
    } else if place.starts_with("//") {
        format!("{}:{place}", base.scheme_str()?)
    } else if place.starts_with('/') {
        format!("{origin}{place}")
    } else if place.starts_with('?') {
        format!("{origin}{}{place}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{origin}{folder}/{place}")
    };
    let uri: Uri = absolute.parse().ok()?;
    let is_same = uri.scheme() == base.scheme() && uri.authority() == base.authority();
    is_same.then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: OLD-2, OLD-3
    #[test]
    fn endpoints_are_resolved_and_foreign_ones_refused() {
        let check = |place| {
            resolve(&Uri::from_static("http://a.test:8/x/sse"), place).map(|uri| uri.to_string())
        };
        let found = |uri: &str| Some(uri.to_owned());
        assert_eq!(check("/message?s=1"), found("http://a.test:8/message?s=1"));
        assert_eq!(check("message?s=1"), found("http://a.test:8/x/message?s=1"));
        assert_eq!(check("?s=1"), found("http://a.test:8/x/sse?s=1"));
        assert_eq!(check("http://a.test:8/m"), found("http://a.test:8/m"));
        for foreign in [
            "http://a.test:9/m",
            "https://a.test:8/m",
            "//evil.test/m",
            "http://evil.test/m",
            "ftp://a.test:8/",
        ] {
            assert_eq!(check(foreign), None, "{foreign}");
        }
    }
}
