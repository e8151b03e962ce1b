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
use switchboard_proto::failure::Failure;
use switchboard_proto::framing::{EventDecoder, EventTooLong, SseEvent};
use switchboard_proto::jsonrpc::{Kind, Message};

use super::http::{Refused, lane_of};
use super::pipe::End;
use super::{Fallback, Upstream, via};
use crate::backend::PendingWork;
use crate::connection::lock;
use crate::drive::{Either, race};
use crate::http::fetch::{Fetch, is_same_origin, resolve};
use crate::http::{content_type, is_event_stream};

/// How long the server may take to say where to POST.
const ENDPOINT_WAIT: Duration = Duration::from_secs(10);

/// How long a POST is waited for before the next: a pipe has an order, but some
/// servers answer a POST only after what it asked for has been done.
const IN_ORDER: Duration = Duration::from_secs(1);

/// How long a server may take to answer a POST at all.
const POST_WAIT: Duration = Duration::from_mins(1);

/// An open stream, and what of it has not been read yet.
struct Stream {
    body: Incoming,
    decoder: EventDecoder,
}

/// Connects and serves the stream until it ends or we are told to stop.
pub(super) async fn run(up: &Arc<Upstream>, url: &Uri) -> End {
    let Some(fetch) = up.server.fetch() else {
        return End::Broke(Failure::CLOSED);
    };
    let connected = up.stop.until(enter(up, fetch, url)).await;
    let (mut stream, endpoint, headers) = match connected {
        None => return End::Stopped,
        Some(Ok(connected)) => connected,
        Some(Err(why)) if why.wrong_transport && up.may_change_road() => {
            return End::WrongRoad(why.failure);
        }
        Some(Err(why)) => return End::Broke(why.failure),
    };
    lock(&up.core).trial = Fallback::Settled;
    up.hears(true);
    let there = There { fetch: fetch.clone(), endpoint, headers: HeaderMap::clone(&headers) };
    let talk = race(up.choked(), race(write(up, &there), read(up, &mut stream)));
    match up.stop.until(race(up.until_rest(), Box::pin(talk))).await {
        None => End::Stopped,
        Some(Either::Left(())) => End::Rested,
        Some(Either::Right(Either::Left(why))) => End::Broke(why),
        Some(Either::Right(Either::Right(_))) => {
            End::Broke(Failure::closed("the event stream ended"))
        }
    }
}

/// Where messages go, and with what.
#[derive(Clone)]
struct There {
    fetch: Fetch,
    endpoint: Uri,
    headers: HeaderMap,
}

/// Why there is no stream.
struct NoStream {
    failure: Failure,
    wrong_transport: bool,
}

impl From<Failure> for NoStream {
    fn from(failure: Failure) -> Self {
        Self { failure, wrong_transport: false }
    }
}

/// Connects with what we show, and with something else if that is not enough.
async fn enter(
    up: &Arc<Upstream>,
    fetch: &Fetch,
    url: &Uri,
) -> Result<(Stream, Uri, Arc<HeaderMap>), NoStream> {
    up.show_anew().await;
    let old = up.shown(None).await?;
    let (connected, shown) = match connect(up, fetch, url, &old).await {
        Err(why) if why.failure.status() == Some(401) && up.may_show_others() => {
            let new = up.shown(Some(&old)).await?;
            (connect(up, fetch, url, &new).await, new)
        }
        connected => (connected, old),
    };
    connected.map(|(stream, endpoint)| (stream, endpoint, shown))
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
    add_via(up, request.headers_mut());
    let response = fetch.send(request).await.map_err(Failure::from)?;
    let response = check(up, headers, response).await?;
    let mut stream =
        Stream { body: response.into_body(), decoder: EventDecoder::new(up.limits.message) };
    let first = tokio::time::timeout(ENDPOINT_WAIT, stream.next(up)).await;
    let event = match first {
        Ok(Some(event)) if event.name.as_deref() == Some("endpoint") => event,
        Ok(_) => return Err(no_endpoint("the event stream did not begin with an endpoint event")),
        Err(_) => return Err(no_endpoint("Timed out waiting for SSE endpoint")),
    };
    let place = String::from_utf8_lossy(&event.data).into_owned();
    let endpoint = resolve(url, &place)
        .filter(|endpoint| is_same_origin(url, endpoint))
        .ok_or_else(|| no_endpoint("the endpoint event names no URL of the same origin"))?;
    Ok((stream, endpoint))
}

fn no_endpoint(why: &'static str) -> NoStream {
    Failure::WrongTransport { why }.into()
}

async fn check(
    up: &Upstream,
    sent: &HeaderMap,
    response: Response<Incoming>,
) -> Result<Response<Incoming>, NoStream> {
    let status = response.status();
    let media = content_type(response.headers()).unwrap_or_default();
    if status.is_success() && is_event_stream(media) {
        return Ok(response);
    }
    if status.is_success() {
        let (status, text) = (status.as_u16(), "no event stream at this URL".into());
        let failure = Failure::HttpStatus { status, text, challenge: None };
        return Err(NoStream { failure, wrong_transport: true });
    }
    let wrong_transport = matches!(status.as_u16(), 400 | 404 | 405 | 406);
    let failure = Refused::read(response, sent).await.failure(up);
    Err(NoStream { failure, wrong_transport })
}

impl Stream {
    /// The next event that says anything; none when the stream is over.
    async fn next(&mut self, up: &Arc<Upstream>) -> Option<SseEvent> {
        loop {
            match self.decoder.next_event() {
                Some(Ok(event)) if !event.data.is_empty() => return Some(event),
                Some(Ok(_)) => {}
                Some(Err(EventTooLong { limit, head })) => {
                    up.handle_too_long(Lane::MAIN, &head, limit);
                    up.pace().await;
                }
                None if self.decoder.is_endless() => return None,
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

/// POSTs what is to be written, one after the other.
async fn write(up: &Arc<Upstream>, there: &There) {
    loop {
        for message in up.next_outbound().await {
            let mut posting = PendingWork::one(post(Arc::clone(up), there.clone(), message));
            // What takes longer goes on by itself.
            _ = tokio::time::timeout(IN_ORDER, &mut posting).await;
        }
    }
}

async fn post(up: Arc<Upstream>, there: There, message: Message) {
    let _in_flight = up.count_in_flight(&message);
    let mut request = Request::new(message.text().clone());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = there.endpoint;
    request.headers_mut().clone_from(&there.headers);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    add_via(&up, request.headers_mut());
    let sending = tokio::time::timeout(POST_WAIT, there.fetch.send(request));
    match up.stop.until(sending).await {
        Some(Ok(Ok(response))) if !response.status().is_success() => {
            fail(&up, &message, &Refused::read(response, &there.headers).await.failure(&up));
        }
        Some(Ok(Err(error))) => fail(&up, &message, &error.into()),
        // Taken, or perhaps: then the stream will tell.
        Some(Ok(Ok(_)) | Err(_)) | None => {}
    }
}

fn add_via(up: &Upstream, headers: &mut HeaderMap) {
    if let Some(via) = up.server.via() {
        headers.insert(via::HEADER, via.header());
    }
}

/// A message that could not be delivered has no answer.
fn fail(up: &Arc<Upstream>, message: &Message, why: &Failure) {
    up.tell_undelivered(message, why);
    let id = message.id().filter(|_| message.kind() == Kind::Request);
    if let Some(lane) = id.and_then(lane_of) {
        up.step(|half, now| half.handle_unanswered(lane, why, now)).1.detach();
    }
}
