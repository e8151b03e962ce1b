//! One MCP endpoint for both eras: POST, GET, DELETE.
//!
//! ```text
//!   POST   body ──▶ message ──▶ era ──┬─▶ legacy: the session's client connection
//!                                     └─▶ modern: a client connection for this request alone
//!          first frame on the lane:  Answer ▶ JSON,  Begin ▶ event stream,  Accepted ▶ 202
//!   GET    a legacy session's listening stream, or the rest of a broken one
//!   DELETE ends a legacy session
//! ```

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use switchboard_proto::exchange::{Carrier, Exchange};
use switchboard_proto::jsonrpc::{Id, Incoming, InvalidMessage, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::classify;
use switchboard_proto::server::legacy::Phase;
use switchboard_proto::server::{Frame, ServerHalf};
use switchboard_proto::{header, method, trace};
use tokio::time::Instant;

use super::body::{
    Body, Charge, OpenLane, ReadBody, RefusalReason, RequestBody, parse_to_keep, read,
};
use super::legacy_session::{Held, SessionId};
use super::listen::{Awaited, Peer};
use super::site::{SiteOptions, SiteState};
use super::{accepts, content_type, is_json, legacy_session};
use crate::access::{Turns, Who};
use crate::backend::PendingWork;
use crate::connection::ClientConnection;

/// What a request comes to.
pub(super) type Reply = Result<Response<Body>, Refusal>;

/// How long a GET may come before the handshake is over: requests have no order.
const READY_WAIT: Duration = Duration::from_secs(5);

/// Tells nginx and its kin not to collect events (MH-7).
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The HTTP methods of the endpoint.
pub(super) const METHODS: &str = "GET, POST, DELETE, OPTIONS";

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

pub(super) async fn answer(
    site: &SiteState,
    who: &Who,
    parts: Parts,
    body: impl RequestBody,
) -> Reply {
    match parts.method {
        Method::POST => post(site, who, parts, body).await,
        // Without sessions there is nothing to listen to and nothing to end.
        _ if site.options.stateless.is_some() => {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
            Ok(response)
        }
        // Browsers accept everything: who wants events asks for them by name.
        Method::GET if super::names(&parts.headers, EVENT_STREAM) => {
            listen(site, who, &parts).await
        }
        Method::GET => Ok(describe(site)),
        Method::DELETE => delete(site, who, &parts.headers),
        _ => Err(Refusal::WrongHttpMethod { allow: METHODS }),
    }
}

async fn post(site: &SiteState, who: &Who, parts: Parts, body: impl RequestBody) -> Reply {
    if !content_type(&parts.headers).is_some_and(is_json) {
        return Err(Refusal::WrongMediaType);
    }
    if !accepts(&parts.headers, JSON) && !accepts(&parts.headers, EVENT_STREAM) {
        return Err(Refusal::NotAcceptable);
    }
    let is_asked = || Some(session_of(site, who, &parts.headers).ok()?.is_asked());
    let answers = parts.headers.contains_key(header::SESSION_ID) && is_asked() == Some(true);
    // A client that sends nothing more may still wait for its answer.
    let peer: Option<&Peer> = parts.extensions.get();
    let awaited = peer.map(Peer::await_answer);
    let ReadBody { text, turns, charge } =
        read(&parts.headers, body, site, who, answers, awaited.as_ref()).await?;
    let incoming = match parse_to_keep(text) {
        Ok(Incoming::One(message)) => {
            let traced = trace::from_headers(&message, &parts.headers);
            Incoming::One(traced.unwrap_or(message))
        }
        Ok(incoming) => incoming,
        Err(InvalidMessage { id, why }) => return Ok(refused(id.as_ref(), &why)),
    };
    let turns = match site.keeps(who).and_then(|()| who.enter(&incoming, turns)) {
        Ok(turns) => turns,
        Err(why) => return Ok(refused(only_id(&incoming), &why)),
    };
    match converse(site, who, &parts.headers, &incoming).await {
        Ok(None) => Ok(empty(StatusCode::ACCEPTED)),
        Ok(Some(talk)) => {
            talk.client.reached_by(peer);
            Ok(exchange(site, talk, (incoming, turns, charge), awaited, &parts.headers).await)
        }
        Err(why) => Ok(refused(only_id(&incoming), &why)),
    }
}

pub(super) fn only_id(incoming: &Incoming) -> Option<&Id> {
    match incoming {
        Incoming::One(message) => message.id(),
        Incoming::Batch(_) => None,
    }
}

/// The conversation a message belongs to.
struct Talk {
    client: Arc<ClientConnection>,
    /// The session or the listen that it starts.
    held: Option<Held>,
    /// The parked call that it goes on with.
    parked: Option<(Exchange, u32)>,
}

impl Talk {
    fn with(client: Arc<ClientConnection>, held: Option<Held>) -> Self {
        Self { client, held, parked: None }
    }
}

/// None if there is nobody to pass it to, and nobody waits for an answer.
async fn converse(
    site: &SiteState,
    who: &Who,
    headers: &HeaderMap,
    incoming: &Incoming,
) -> Result<Option<Talk>, Refusal> {
    let method = match incoming {
        Incoming::One(message) => message.method(),
        Incoming::Batch(_) => "",
    };
    if classify(incoming, Some(headers))? == Era::Modern {
        if !site.options.modern {
            return Err(legacy_only(headers));
        }
        if let Incoming::One(message) = incoming
            && let Some((client, parked)) = site.parking.claim(message, who.identity())?
        {
            return Ok(Some(Talk { client, held: None, parked: Some(parked) }));
        }
        let client = site.new_client(Era::Modern, Carrier::Http, who, headers)?;
        let listen = (method == method::LISTEN).then(|| site.listens.open(&client)).transpose()?;
        return Ok(Some(Talk::with(client, listen)));
    }
    check_version(headers)?;
    if let Some(revision) = site.options.stateless {
        if legacy_session::wants_nothing(incoming) {
            return Ok(None);
        }
        let (client, held) =
            legacy_session::stateless_client(site, who, revision, incoming, headers).await?;
        return Ok(Some(Talk::with(client, Some(held))));
    }
    if method == method::INITIALIZE && !headers.contains_key(header::SESSION_ID) {
        site.is_full()?;
        let client = site.new_client(Era::Legacy, Carrier::Http, who, headers)?;
        let held = site.sessions.open(&client)?;
        return Ok(Some(Talk::with(client, Some(held))));
    }
    Ok(Some(Talk::with(session_of(site, who, headers)?, None)))
}

fn legacy_only(headers: &HeaderMap) -> Refusal {
    let asked = headers.get(header::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    Refusal::WrongEra { asked: asked.unwrap_or("this revision").to_owned(), serves: "legacy" }
}

fn session_of(
    site: &SiteState,
    who: &Who,
    headers: &HeaderMap,
) -> Result<Arc<ClientConnection>, Refusal> {
    site.sessions.find(&session_id(headers)?, who)
}

fn session_id(headers: &HeaderMap) -> Result<SessionId, Refusal> {
    let value = headers.get(header::SESSION_ID).ok_or(Refusal::NoSession)?;
    value.to_str().map(SessionId::from_text).map_err(|_| Refusal::SessionOver)
}

/// A version header that we cannot follow is refused (HTTP-26).
fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(value) = headers.get(header::PROTOCOL_VERSION) else { return Ok(()) };
    let name = value.to_str().unwrap_or_default().trim();
    match Revision::parse(name) {
        Some(revision) if revision.era() == Era::Legacy => Ok(()),
        _ => Err(Refusal::BadVersionHeader { asked: name.to_owned() }),
    }
}

/// Hands a message to its conversation and turns what comes of it into a response.
async fn exchange(
    site: &SiteState,
    Talk { client, mut held, parked }: Talk,
    (incoming, turns, charge): (Incoming, Turns, Arc<Charge>),
    mut awaited: Option<Awaited>,
    headers: &HeaderMap,
) -> Response<Body> {
    let since = Instant::now();
    let lane = client.open_lane();
    let open = OpenLane { client: Arc::clone(&client), lane };
    let works = if let (Some(key), Incoming::One(request)) = (parked, &incoming) {
        client.retry(key, (turns, Some(&charge)), lane, request, Some(headers))
    } else {
        let take = |half: &mut ServerHalf| half.handle_incoming(lane, incoming, Some(headers));
        client.step_in(turns, Some(&charge), take).1
    };
    // The work has a copy of the text, in the words of its server.
    let mut works = works.holding(charge);
    site.after_call(&client);
    let patience = patience(headers, &site.options);
    let doubted = awaited.as_mut().filter(|_| accepts(headers, EVENT_STREAM));
    let frame = first_frame(&open, &mut works, patience, doubted).await;
    // Whether a session has come, or may still come, of a greeting.
    let is_session = site.options.stateless.is_none()
        && !matches!(client.phase(), None | Some(Phase::Fresh | Phase::Ended));
    let doubted = awaited.as_ref().is_some_and(Awaited::is_doubted);
    let session = held.as_mut().filter(|_| is_session).map(|held| held.tell(doubted));
    let mut response = match frame {
        Some(Frame::Answer { status, text }) => {
            json(status, text).map(|body| body.lent_by(&client))
        }
        Some(Frame::Accepted) => empty(StatusCode::ACCEPTED),
        Some(Frame::Begin { prime }) => {
            let body = Body::live(open, works, prime, site.options.keep_alive);
            stream(body.hanging_up(site.options.hang_up, since).holding(held))
        }
        // Nothing will be said: the call was cancelled.
        Some(Frame::Message { .. } | Frame::End) | None => stream(Body::empty()),
    };
    if let Some(id) = session {
        response.headers_mut().insert(header::SESSION_ID, id);
    }
    response.map(|body| body.awaited(awaited))
}

/// Drives the request until its lane has something to say, or until a stream has
/// to show whether the client is still there.
async fn first_frame(
    open: &OpenLane,
    works: &mut PendingWork,
    patience: Duration,
    mut awaited: Option<&mut Awaited>,
) -> Option<Frame> {
    let mut waiting = !patience.is_zero();
    if !waiting {
        open.client.begin_stream(open.lane);
    }
    let mut patience = pin!(tokio::time::sleep(patience));
    poll_fn(|cx| {
        // The work ends on its own terms; what comes of it arrives on the lane.
        _ = Pin::new(&mut *works).poll(cx);
        let frame = open.client.poll_frame(open.lane, cx);
        let is_doubted = awaited.as_mut().is_some_and(|awaited| awaited.poll_doubt(cx));
        let is_late = waiting && patience.as_mut().poll(cx).is_ready();
        if frame.is_ready() || !(waiting && (is_late || is_doubted)) {
            return frame;
        }
        waiting = false;
        open.client.begin_stream(open.lane);
        open.client.poll_frame(open.lane, cx)
    })
    .await
}

/// How long a POST may wait before it becomes a stream: who takes only one of
/// the two forms of an answer gets that one, as far as it goes.
fn patience(headers: &HeaderMap, options: &SiteOptions) -> Duration {
    let SiteOptions { limits, hang_up, .. } = options;
    match (accepts(headers, JSON), accepts(headers, EVENT_STREAM)) {
        (false, _) => Duration::ZERO,
        (true, false) => limits.total,
        (true, true) if hang_up.is_zero() => limits.stream_after,
        // What is to be hung up must be a stream by then.
        (true, true) => limits.stream_after.min(*hang_up),
    }
}

async fn listen(site: &SiteState, who: &Who, parts: &Parts) -> Reply {
    let headers = &parts.headers;
    check_version(headers)?;
    let client = session_of(site, who, headers)?;
    match tokio::time::timeout(READY_WAIT, client.ready()).await {
        Ok(true) => {}
        Ok(false) => return Err(Refusal::SessionOver),
        Err(_) => return Err(Refusal::NotInitialized),
    }
    let last = headers.get(header::LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    let peer: Option<&Peer> = parts.extensions.get();
    client.reached_by(peer);
    let lane = client.open_lane();
    let open = OpenLane { client: Arc::clone(&client), lane };
    let (listening, works) = client.step(|half| half.handle_listen(lane, last));
    listening?;
    if last.is_some() {
        site.options.tally.add_resumed();
    }
    let prime = match client.next_frame(lane).await {
        Some(Frame::Begin { prime }) => prime,
        _ => None,
    };
    let body = Body::live(open, works, prime, site.options.keep_alive);
    let body = body.hanging_up(site.options.hang_up, Instant::now());
    Ok(stream(body.awaited(peer.map(Peer::await_answer))))
}

fn delete(site: &SiteState, who: &Who, headers: &HeaderMap) -> Reply {
    check_version(headers)?;
    let id = session_id(headers)?;
    site.sessions.find(&id, who)?;
    if site.sessions.close(&id) {
        Ok(empty(StatusCode::NO_CONTENT))
    } else {
        Err(Refusal::SessionOver)
    }
}

/// What a person, or a curious program, gets to see.
fn describe(site: &SiteState) -> Response<Body> {
    let [legacy, modern] = [Era::Legacy, Era::Modern].map(Revision::names);
    let versions = [modern, legacy].concat().join("\",\"");
    let SiteOptions { base, path, sse_path, .. } = &site.options;
    let text = format!(
        "{{\"transport\":\"streamable-http\",\"endpoint\":\"{base}{path}\",\"methods\":[\"POST\",\"GET\",\"DELETE\"],\
         \"protocolVersions\":[\"{versions}\"],\"sse\":{{\"endpoint\":\"{base}{sse_path}\"}}}}\n",
    );
    json(200, text.into())
}

pub(super) fn json(status: u16, text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    if matches!(status, 429 | 503) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(super) fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// A refusal as a response.
pub(super) fn refused(id: Option<&Id>, why: &Refusal) -> Response<Body> {
    let mut response = json(why.http_status(), Message::refusal(id, why).text().clone());
    response.extensions_mut().insert(RefusalReason(why.name()));
    if let Refusal::WrongHttpMethod { allow } = why {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(seconds) = why.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
