//! HTTP+SSE, the transport of the first revision: one event stream back, a POST for each
//! message.
//!
//! ```text
//!   GET ──▶ `endpoint` event, same origin ──▶ messages as events ──▶ stream lost: all lost
//!      └──▶ no such thing here ──▶ the other transport, if that may be tried
//! ```

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use http_body_util::BodyExt;
use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::framing::{EventDecoder, EventTooLong, SseEvent};
use switchboard_proto::jsonrpc::{Kind, Message};

use super::http::{HttpRefusal, HttpSession};
use super::pipe::PipeEnd;
use super::{Fallback, Target, Upstream};
use crate::backend::PendingWork;
use crate::connection::lock;
use crate::drive::race;
use crate::http::fetch::{FetchBody, is_same_origin, resolve};
use crate::http::{content_type, is_event_stream};

/// How long the server may take to say where to POST.
const ENDPOINT_WAIT: Duration = Duration::from_secs(10);

/// How long a POST is waited for before the next: a pipe has an order, but some
/// servers answer a POST only after what it asked for has been done.
const IN_ORDER: Duration = Duration::from_secs(1);

/// How long a server may take to answer a POST at all.
const POST_WAIT: Duration = Duration::from_mins(1);

/// An open stream, and what of it has not been read yet.
struct SseStream {
    body: FetchBody,
    decoder: EventDecoder,
}

/// Connects and serves the stream until it ends or we are told to stop.
pub(super) async fn run(up: &Arc<Upstream>) -> PipeEnd {
    let (mut stream, post_to) = match up.stop.until(connect(up)).await {
        None => return PipeEnd::Stopped,
        Some(Ok(connected)) => connected,
        Some(Err(end)) => return end,
    };
    lock(&up.core).fallback = Fallback::Settled;
    up.handle_hearing(true);
    match up.serve_pipe(race(write(up, &post_to), read(up, &mut stream))).await {
        Ok(_) => PipeEnd::Broke(Failure::closed("the event stream ended")),
        Err(end) => end,
    }
}

/// Opens the stream; where messages go, or why there is no stream.
async fn connect(up: &Arc<Upstream>) -> Result<(SseStream, Uri), PipeEnd> {
    let (Some(endpoint), Target::Url { url, .. }) = (&up.http, up.server.target()) else {
        return Err(PipeEnd::Broke(Failure::CLOSED));
    };
    up.renew_credentials().await;
    let session = HttpSession::default();
    let sending = up.send(endpoint, url, false, |endpoint| endpoint.get_request(&session, None));
    let response = sending.await.map_err(PipeEnd::Broke)?;
    let no_stream = |failure, may_be_http: bool| {
        let changes = may_be_http && up.may_change_transport();
        if changes { PipeEnd::WrongTransport(failure) } else { PipeEnd::Broke(failure) }
    };
    let status = response.status();
    if !status.is_success() {
        let failure = HttpRefusal::read(response, endpoint).await.failure(up);
        return Err(no_stream(failure, matches!(status.as_u16(), 400 | 404 | 405 | 406)));
    }
    if !is_event_stream(content_type(response.headers()).unwrap_or_default()) {
        let (status, text) = (status.as_u16(), "no event stream at this URL".into());
        let failure = Failure::HttpStatus { status, text, challenge: None };
        return Err(no_stream(failure, true));
    }
    let decoder = EventDecoder::new(up.limits.message);
    let mut stream = SseStream { body: response.into_body(), decoder };
    let first = tokio::time::timeout(ENDPOINT_WAIT, stream.next(up)).await;
    let why = match first {
        Ok(Some(event)) if event.name.as_deref() == Some("endpoint") => {
            let post_to = resolve(url, &String::from_utf8_lossy(&event.data));
            match post_to.filter(|post_to| is_same_origin(url, post_to)) {
                Some(post_to) => return Ok((stream, post_to)),
                None => "the endpoint event names no URL of the same origin",
            }
        }
        Ok(_) => "the event stream did not begin with an endpoint event",
        Err(_) => "Timed out waiting for SSE endpoint",
    };
    Err(PipeEnd::Broke(Failure::WrongTransport { why }))
}

impl SseStream {
    /// The next event that says anything; none when the stream is over.
    async fn next(&mut self, up: &Arc<Upstream>) -> Option<SseEvent> {
        loop {
            match self.decoder.next_event() {
                Some(Ok(event)) if !event.data.is_empty() => return Some(event),
                Some(Ok(_)) => {}
                Some(Err(EventTooLong { limit, head })) => {
                    up.handle_too_long(Lane::MAIN, &head, limit).await;
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

async fn read(up: &Arc<Upstream>, stream: &mut SseStream) {
    while let Some(event) = stream.next(up).await {
        if event.is_message() {
            up.receive(Lane::MAIN, event.data).await;
        }
    }
}

/// POSTs what is to be written, one after the other.
async fn write(up: &Arc<Upstream>, post_to: &Uri) {
    loop {
        for message in up.next_outbound().await {
            let mut posting = PendingWork::one(post(Arc::clone(up), post_to.clone(), message));
            // What takes longer goes on by itself.
            _ = tokio::time::timeout(IN_ORDER, &mut posting).await;
        }
    }
}

async fn post(up: Arc<Upstream>, post_to: Uri, message: Message) {
    let Some(endpoint) = &up.http else { return };
    let _in_flight = up.count_in_flight(&message);
    let sending = up.send(endpoint, &post_to, false, |endpoint| {
        let mut request = endpoint.request(Method::POST, message.text().clone());
        *request.uri_mut() = post_to.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request
    });
    let sending = tokio::time::timeout(POST_WAIT, sending);
    let why = match up.stop.until(sending).await {
        Some(Ok(Ok(response))) if !response.status().is_success() => {
            HttpRefusal::read(response, endpoint).await.failure(&up)
        }
        Some(Ok(Err(why))) => why,
        // Taken, or perhaps: then the stream will tell.
        Some(Ok(Ok(_)) | Err(_)) | None => return,
    };
    // A message that could not be delivered has no answer.
    up.log_undelivered(&message, &why);
    if let Some(id) = message.id().filter(|_| message.kind() == Kind::Request) {
        let fail = |half: &mut ClientHalf<_>, now| {
            if let Some(lane) = half.lane_of(id) {
                half.handle_unanswered(lane, &why, now);
            }
        };
        up.step(fail).detach();
    }
}
