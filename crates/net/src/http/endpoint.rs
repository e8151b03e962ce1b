//! One MCP endpoint for both eras, its sessions, and HTTP+SSE.
//!
//! ```text
//!   POST   body ──▶ message ──▶ era ──┬─▶ legacy: the session's client connection
//!                                     └─▶ modern: a client connection for this request alone
//!          first frame on the lane:  Answer ▶ JSON,  Begin ▶ event stream,  Accepted ▶ 202
//!   GET    a legacy session's listening stream, or the rest of a broken one
//!   DELETE ends a legacy session
//! ```
//!
//! | legacy client | its session |
//! |---|---|
//! | carries the id in a header | until it deletes it, or is idle for a while |
//! | has no session ([`converse_alone`]) | one for each request |
//! | HTTP+SSE ([`open_sse`]) | as long as its stream (OLD-5) |
//!
//! A session with a header never ends while a call is in flight or a stream is attached:
//! an idle timer that cuts a long call is worse than none.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use switchboard_proto::Table;
use switchboard_proto::cluster::ReplicaId;
use switchboard_proto::exchange::{Carrier, Exchange, Lane};
use switchboard_proto::framing::{self, Outgoing};
use switchboard_proto::jsonrpc::{self, Id, Incoming, InvalidMessage, Kind, Member, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::classify;
use switchboard_proto::server::legacy::Phase;
use switchboard_proto::server::{Frame, ServerHalf};
use switchboard_proto::{header, method, trace};

use super::body::{Body, OpenLane, RefusalReason, RequestBody};
use super::body::{NEVER, primed, read};
#[cfg(feature = "client")]
use super::hop;
use super::listen::{Awaited, ClientPeer};
use super::site::{SiteOptions, SiteState, plain};
use super::{Accepted, EVENT_STREAM, JSON, content_type, is_json};
use crate::access::EntryRequest;
use crate::backend::PendingWork;
use crate::charge::{Charge, parse_to_keep};
use crate::connection::ClientConnection;
use crate::drive::{OwnedTask, now};
use crate::seal::random_id;
use crate::who::{SessionPermit, Turns, Who};

/// What a request comes to. A refusal is answered under the id of its message.
pub(super) type HttpReply = Result<Response<Body>, InvalidMessage>;

/// How long a GET may come before the handshake is over: requests have no order.
const READY_WAIT: Duration = Duration::from_secs(5);

/// Tells nginx and its kin not to collect events (MH-7).
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The HTTP methods of the endpoint.
pub(super) const METHODS: &str = "GET, POST, DELETE, OPTIONS";

pub(super) async fn answer(
    site: &SiteState,
    who: &Who,
    parts: &Parts,
    body: impl RequestBody,
) -> HttpReply {
    #[cfg(feature = "client")]
    if let Some(owner) = hop::owner_of(site, parts, || hop::in_header(parts)) {
        return hop::pass_on(site, who, parts, body, owner).await;
    }
    match parts.method {
        Method::POST => post(site, who, parts, body).await,
        // Without sessions there is nothing to listen to and nothing to end.
        _ if site.options.stateless.is_some() => {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
            Ok(response)
        }
        // Browsers accept everything: who wants events asks for them by name.
        Method::GET if super::names(&parts.headers, EVENT_STREAM) => listen(site, who, parts).await,
        Method::GET => Ok(describe(site)),
        Method::DELETE => delete(site, who, &parts.headers),
        _ => Err(Refusal::WrongHttpMethod { allow: METHODS }.into()),
    }
}

async fn post(site: &SiteState, who: &Who, parts: &Parts, body: impl RequestBody) -> HttpReply {
    let headers = &parts.headers;
    if !content_type(headers).is_some_and(is_json) {
        return Err(Refusal::WrongMediaType.into());
    }
    let accepted = Accepted::read(headers);
    if !accepted.json && !accepted.events {
        return Err(Refusal::NotAcceptable.into());
    }
    let answers = || session_of(site, who, headers).is_ok_and(|client| client.is_asked());
    // A client that sends nothing more may still wait for its answer.
    let peer: Option<&ClientPeer> = parts.extensions.get();
    let awaited = peer.map(ClientPeer::await_answer);
    let (text, turns, charge) = read(headers, body, site, who, answers, awaited.as_ref()).await?;
    #[cfg(feature = "client")]
    if let Some(reply) = hop::pass_retry_on(site, who, parts, &text).await {
        return reply;
    }
    let (mut incoming, turns) = enter(site, who, text, turns)?;
    if let Incoming::One(message) = &mut incoming
        && let Some(traced) = trace::from_headers(message, headers)
    {
        *message = traced;
    }
    match find_conversation(site, who, headers, &incoming).await {
        Ok(None) => Ok(empty(StatusCode::ACCEPTED)),
        Ok(Some(conversation)) => {
            if let Some(denied) = lacks(site, who, &conversation.client, parts, &incoming) {
                return Ok(denied);
            }
            conversation.client.reached_by(peer);
            let taken = (incoming, turns, charge);
            Ok(exchange(site, conversation, taken, awaited, (headers, accepted)).await)
        }
        Err(why) => Err(InvalidMessage { id: only_id(&incoming), why }),
    }
}

/// Parses a message, and has each of its calls get its turn.
fn enter(
    site: &SiteState,
    who: &Who,
    text: Bytes,
    turns: Turns,
) -> Result<(Incoming, Turns), InvalidMessage> {
    let incoming = parse_to_keep(text)?;
    match site.keeps(who).and_then(|()| who.enter(&incoming, turns)) {
        Ok(turns) => Ok((incoming, turns)),
        Err(why) => Err(InvalidMessage { id: only_id(&incoming), why }),
    }
}

/// What a client is told that lacks a scope for what it sends: before anything else is done
/// about it, so that no stream is open (AUTH-35).
fn lacks(
    site: &SiteState,
    who: &Who,
    client: &Arc<ClientConnection>,
    parts: &Parts,
    incoming: &Incoming,
) -> Option<Response<Body>> {
    let authenticator = site.options.authenticator.as_ref()?;
    let lacks = |message: &Message| site.backend.lacks(who, client, message);
    let scope = match incoming {
        Incoming::One(message) => lacks(message)?,
        Incoming::Batch(all) => all.iter().flatten().find_map(lacks)?,
    };
    let rules = site.rules();
    let request = EntryRequest::new(parts, &rules.guard);
    Some(authenticator.step_up(request, &scope).response())
}

fn only_id(incoming: &Incoming) -> Option<Id> {
    match incoming {
        Incoming::One(message) => message.id().cloned(),
        Incoming::Batch(_) => None,
    }
}

/// The conversation a message belongs to.
struct Conversation {
    client: Arc<ClientConnection>,
    /// The session or the listen that it starts.
    held: Option<HeldSession>,
    /// The parked call that it goes on with.
    parked: Option<(Exchange, u32)>,
}

/// None if there is nobody to pass it to, and nobody waits for an answer.
async fn find_conversation(
    site: &SiteState,
    who: &Who,
    headers: &HeaderMap,
    incoming: &Incoming,
) -> Result<Option<Conversation>, Refusal> {
    let method = match incoming {
        Incoming::One(message) => message.method(),
        Incoming::Batch(_) => "",
    };
    if classify(incoming, Some(headers))? == Era::Modern {
        if !site.options.modern {
            let asked = headers.get(header::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
            let asked = asked.unwrap_or("this revision").to_owned();
            return Err(Refusal::WrongEra { asked, serves: "legacy" });
        }
        if let Incoming::One(message) = incoming
            && let Some((client, parked)) = site.parking.claim(message, who.identity())?
        {
            return Ok(Some(Conversation { client, held: None, parked: Some(parked) }));
        }
        let client = site.new_client(Era::Modern, Carrier::Http, who, headers)?;
        let listen = || site.listens.open(&client, site.rules().max_sessions);
        let held = (method == method::LISTEN).then(listen).transpose()?;
        return Ok(Some(Conversation { client, held, parked: None }));
    }
    check_version(headers)?;
    if let Some(revision) = site.options.stateless {
        return converse_alone(site, who, revision, incoming, headers).await;
    }
    let (client, held) =
        if method == method::INITIALIZE && !headers.contains_key(header::SESSION_ID) {
            let most = site.is_full()?;
            let client = site.new_client(Era::Legacy, Carrier::Http, who, headers)?;
            let held = site.sessions.open(&client, most)?;
            (client, Some(held))
        } else {
            (session_of(site, who, headers)?, None)
        };
    Ok(Some(Conversation { client, held, parked: None }))
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
    value.to_str().map(|text| SessionId(text.into())).map_err(|_| Refusal::SessionOver)
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
    Conversation { client, mut held, parked }: Conversation,
    (incoming, turns, charge): (Incoming, Turns, Arc<Charge>),
    mut awaited: Option<Awaited>,
    (headers, accepted): (&HeaderMap, Accepted),
) -> Response<Body> {
    let since = now();
    let open = OpenLane::new(&client);
    let lane = open.lane;
    let take = |half: &mut ServerHalf| match (parked, incoming) {
        (Some(key), Incoming::One(retry)) => half.handle_retry(key, lane, &retry, Some(headers)),
        (_, incoming) => half.handle_incoming(lane, incoming, Some(headers)),
    };
    let works = client.step_in(turns, Some(&charge), take).1;
    // The work has a copy of the text, in the words of its server.
    let mut works = works.holding(charge);
    site.after_call(&client);
    let patience = patience(accepted, &site.options);
    let doubted = awaited.as_mut().filter(|_| accepted.events);
    let frame = first_frame(&open, &mut works, since + patience.min(NEVER), doubted).await;
    // Whether a session has come, or may still come, of a greeting.
    let is_session = site.options.stateless.is_none()
        && !matches!(client.phase(), None | Some(Phase::Fresh | Phase::Ended));
    let doubted = awaited.as_ref().is_some_and(|awaited| awaited.is_doubted);
    let session = held.as_mut().filter(|_| is_session).map(|held| held.tell(doubted));
    let mut response = match frame {
        Some(Frame::Answer { status, text }) => {
            json(status, text).map(|body| body.lent_by(&client))
        }
        Some(Frame::Accepted) => empty(StatusCode::ACCEPTED),
        Some(Frame::Begin { prime }) => {
            stream(Body::live(open, works, primed(prime), &site.options, Some(since), held))
        }
        // Nothing will be said: the call was cancelled.
        Some(Frame::Message { .. } | Frame::End) | None => stream(Body::default()),
    };
    if let Some(id) = session {
        response.headers_mut().insert(header::SESSION_ID, id);
    }
    response.body_mut().awaited = awaited;
    response
}

/// Drives the request until its lane has something to say, or until a stream has
/// to show whether the client is still there.
async fn first_frame(
    open: &OpenLane,
    works: &mut PendingWork,
    until: Instant,
    mut awaited: Option<&mut Awaited>,
) -> Option<Frame> {
    let mut waiting = until > now();
    if !waiting {
        open.client.begin_stream(open.lane);
    }
    let mut patience = pin!(tokio::time::sleep_until(until.into()));
    poll_fn(|cx| {
        // The work ends on its own terms; what comes of it arrives on the lane.
        open.client.look_away(open.lane);
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
fn patience(accepted: Accepted, options: &SiteOptions) -> Duration {
    let SiteOptions { limits, hang_up, .. } = options;
    match (accepted.json, accepted.events) {
        (false, _) => Duration::ZERO,
        (true, false) => limits.total,
        (true, true) if hang_up.is_zero() => limits.stream_after,
        // What is to be hung up must be a stream by then.
        (true, true) => limits.stream_after.min(*hang_up),
    }
}

async fn listen(site: &SiteState, who: &Who, parts: &Parts) -> HttpReply {
    let headers = &parts.headers;
    check_version(headers)?;
    let client = session_of(site, who, headers)?;
    match tokio::time::timeout(READY_WAIT, client.ready()).await {
        Ok(true) => {}
        Ok(false) => return Err(Refusal::SessionOver.into()),
        Err(_) => return Err(Refusal::NotInitialized.into()),
    }
    let last = headers.get(header::LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    let peer: Option<&ClientPeer> = parts.extensions.get();
    client.reached_by(peer);
    let open = OpenLane::new(&client);
    let (listening, works) = client.step(|half| half.handle_listen(open.lane, last));
    listening?;
    site.backend.listen(&client);
    if last.is_some() {
        site.options.tally.resumed.fetch_add(1, Ordering::Relaxed);
    }
    let prime = match client.next_frame(open.lane).await {
        Some(Frame::Begin { prime }) => prime,
        _ => None,
    };
    let silent_since = Some(now());
    let mut body = Body::live(open, works, primed(prime), &site.options, silent_since, None);
    body.awaited = peer.map(ClientPeer::await_answer);
    Ok(stream(body))
}

fn delete(site: &SiteState, who: &Who, headers: &HeaderMap) -> HttpReply {
    check_version(headers)?;
    let id = session_id(headers)?;
    site.sessions.find(&id, who)?;
    if !site.sessions.close(&id) {
        return Err(Refusal::SessionOver.into());
    }
    Ok(empty(StatusCode::NO_CONTENT))
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
    let mut response = Response::new(Body::default());
    *response.status_mut() = status;
    response
}

fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// A refusal as a response.
pub(super) fn refused(InvalidMessage { id, why }: &InvalidMessage) -> Response<Body> {
    let text = Message::refusal(id.as_ref(), why).text().clone();
    let mut response = json(why.http_status(), text);
    response.extensions_mut().insert(RefusalReason(why.name()));
    if let Refusal::WrongHttpMethod { allow } = why {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(seconds) = why.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// The conversation of one request without a session.
///
/// Clients that never greet, or that reach another replica with each request, are
/// served as if each request were a session. The server behind is greeted in the
/// client's stead, and forgotten with the answer. What would outlive that is not
/// offered: the client's half is a bare one.
async fn converse_alone(
    site: &SiteState,
    who: &Who,
    usual: Revision,
    incoming: &Incoming,
    headers: &HeaderMap,
) -> Result<Option<Conversation>, Refusal> {
    let is_quiet = |message: &Message| message.kind() != Kind::Request;
    let (wants_nothing, wants_server) = match incoming {
        // A greeting needs none before it, and some methods are refused in any case.
        Incoming::One(message) => {
            let is_greeting = message.method() == method::INITIALIZE;
            (is_quiet(message), !is_greeting && !method::needs_session(message.method()))
        }
        Incoming::Batch(all) => (all.iter().all(|one| one.as_ref().is_ok_and(is_quiet)), true),
    };
    if wants_nothing {
        return Ok(None);
    }
    let most = site.is_full()?;
    let client = site.new_client(Era::Legacy, Carrier::Http, who, headers)?;
    client.go_bare();
    let held = Some(site.sessions.open(&client, most)?);
    if wants_server {
        greet(&client, spoken(headers, incoming).unwrap_or(usual)).await?;
    }
    Ok(Some(Conversation { client, held, parked: None }))
}

/// The revision that the client has settled on, as far as it can be told. Those
/// who send several messages at once are older than the header.
fn spoken(headers: &HeaderMap, incoming: &Incoming) -> Option<Revision> {
    match headers.get(header::PROTOCOL_VERSION) {
        Some(name) => Revision::parse(name.to_str().ok()?.trim()),
        None => matches!(incoming, Incoming::Batch(_)).then_some(Revision::ASSUMED),
    }
}

async fn greet(client: &Arc<ClientConnection>, revision: Revision) -> Result<(), Refusal> {
    let failed = |why: &str| Refusal::NotGreeted { why: why.to_owned() };
    let params = serde_json::json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {},
        "clientInfo": {"name": "switchboard", "version": env!("CARGO_PKG_VERSION")},
    });
    let hello =
        Message::request(&Id::from(0), method::INITIALIZE, Some(params.to_string().as_bytes()));
    let lane = OpenLane::new(client);
    client.step(|half| half.handle_incoming(lane.lane, Incoming::One(hello), None)).1.detach();
    let answer = loop {
        let frame = client.next_frame(lane.lane).await.ok_or_else(|| failed("no answer"))?;
        if let Frame::Answer { text, .. } | Frame::Message { text, .. } = frame
            && let Ok(message) = jsonrpc::parse_one(text)
            && message.is_response()
        {
            break message;
        }
    };
    drop(lane);
    if answer.kind() == Kind::Error {
        let words = answer.string(Member::ErrorMessage);
        return Err(failed(words.as_deref().unwrap_or("an error")));
    }
    let lane = OpenLane::new(client);
    let ready = Message::notification(method::INITIALIZED, None);
    // The call that follows waits for its delivery where it has to.
    client.step(|half| half.handle_incoming(lane.lane, Incoming::One(ready), None)).1.detach();
    Ok(())
}

/// HTTP+SSE, the stream: it begins with the address to send to, and carries everything
/// that the server says. When it closes, the session is over (OLD-5).
pub(super) fn open_sse(site: &SiteState, who: &Who, parts: &Parts) -> HttpReply {
    if parts.method != Method::GET {
        return Err(Refusal::WrongHttpMethod { allow: "GET" }.into());
    }
    if !Accepted::read(&parts.headers).events {
        return Err(Refusal::NotAcceptable.into());
    }
    let most = site.is_full()?;
    let client = site.new_client(Era::Legacy, Carrier::Pipe, who, &parts.headers)?;
    let peer: Option<&ClientPeer> = parts.extensions.get();
    client.reached_by(peer);
    let held = site.old.open(&client, most)?;
    let SiteOptions { base, message_path, .. } = &site.options;
    let address = format!("{base}{message_path}?sessionId={}", held.id.0);
    let mut opening = Vec::new();
    let event =
        Outgoing { name: Some("endpoint"), data: address.as_bytes(), ..Outgoing::default() };
    framing::encode_event(&event, &mut opening);
    let open = OpenLane { client, lane: Lane::MAIN };
    let works = PendingWork::none();
    let mut body = Body::live(open, works, opening, &site.options, None, Some(held));
    body.awaited = peer.map(ClientPeer::await_answer);
    Ok(stream(body))
}

/// HTTP+SSE, a message to the server: the answer comes on the stream.
pub(super) async fn post_sse_message(
    site: &SiteState,
    who: &Who,
    parts: &Parts,
    body: impl RequestBody,
) -> HttpReply {
    if parts.method != Method::POST {
        return Err(Refusal::WrongHttpMethod { allow: "POST" }.into());
    }
    let query = parts.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    #[cfg(feature = "client")]
    if let Some(owner) = hop::owner_of(site, parts, || id) {
        return hop::pass_on(site, who, parts, body, owner).await;
    }
    let client = site.old.find(&SessionId(id.ok_or(Refusal::NoSession)?.into()), who)?;
    if !content_type(&parts.headers).is_some_and(is_json) {
        return Err(Refusal::WrongMediaType.into());
    }
    let awaited = parts.extensions.get().map(ClientPeer::await_answer);
    let (text, turns, charge) =
        read(&parts.headers, body, site, who, || client.is_asked(), awaited.as_ref()).await?;
    // A client that does not read its stream is not read from: what it sends
    // would be answered there.
    client.wait_for_room().await;
    if client.is_over() {
        return Err(Refusal::SessionOver.into());
    }
    let (incoming, turns) = enter(site, who, text, turns)?;
    if let Some(denied) = lacks(site, who, &client, parts, &incoming) {
        return Ok(denied);
    }
    let take = |half: &mut ServerHalf| half.handle_incoming(Lane::MAIN, incoming, None);
    client.step_in(turns, Some(&charge), take).1.holding(charge).detach();
    site.after_call(&client);
    Ok(plain(StatusCode::ACCEPTED, "Accepted".to_owned()))
}

/// All sessions of one endpoint.
#[derive(Debug)]
pub(super) struct HttpSessions {
    idle: Duration,
    /// Where the sessions are, if there are several replicas: their ids begin with it.
    replica: Option<ReplicaId>,
    /// Every request of a legacy client looks here, so looking must not exclude looking.
    table: RwLock<SessionTable>,
}

#[derive(Debug, Default)]
struct SessionTable {
    by_id: Table<SessionId, OpenSession>,
    /// The task that looks for idle sessions, once there was one.
    reaping: Option<OwnedTask>,
    closed: bool,
}

/// A session, and its place among those that its owner may have.
#[derive(Debug)]
struct OpenSession {
    client: Arc<ClientConnection>,
    _stay: SessionPermit,
}

/// Ends a session when it is dropped.
#[derive(Debug)]
pub(super) struct HeldSession {
    sessions: Arc<HttpSessions>,
    id: SessionId,
    client: Arc<ClientConnection>,
    told: bool,
    /// Whether the client may have been gone when it was told.
    doubted: bool,
}

impl HeldSession {
    /// The client gets to know the id: the session lives on, unless its greeting fails.
    /// If it is doubted that the client is there, its session ends with the stream of
    /// a greeting that is not answered.
    fn tell(&mut self, doubted: bool) -> HeaderValue {
        (self.told, self.doubted) = (true, doubted);
        HeaderValue::from_str(&self.id.0).expect("a session id is hexadecimal, perhaps with a dash")
    }
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        let phase = self.client.phase();
        let is_lost = self.doubted && phase == Some(Phase::Greeting);
        if !self.told || is_lost || phase == Some(Phase::Fresh) {
            self.sessions.close(&self.id);
        }
    }
}

/// An unguessable name, in visible ASCII (HTTP-20).
#[derive(Clone, Eq, Hash, PartialEq)]
struct SessionId(Box<str>);

impl fmt::Debug for SessionId {
    /// Whoever has the id has the session, so logs show only its beginning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unguessable = self.0.rsplit('-').next().unwrap_or_default();
        write!(f, "{}…", unguessable.get(..6).unwrap_or_default())
    }
}

impl HttpSessions {
    pub(super) fn new(idle: Duration, replica: Option<ReplicaId>) -> Arc<Self> {
        Arc::new(Self { idle, replica, table: RwLock::default() })
    }

    /// A new session for `client`, if there are fewer than `most`; it ends with what is returned.
    fn open(
        self: &Arc<Self>,
        client: &Arc<ClientConnection>,
        most: usize,
    ) -> Result<HeldSession, Refusal> {
        let stay = client.who().stay()?;
        let mut id = random_id().map_err(|_| Refusal::TooManySessions)?;
        let shown = id.clone();
        if let Some(replica) = self.replica {
            id = format!("{replica}-{id}");
        }
        let id = SessionId(id.into());
        let mut table = self.write();
        if table.closed || table.by_id.len() >= most {
            return Err(Refusal::TooManySessions);
        }
        client.mark(&shown);
        table.by_id.insert(id.clone(), OpenSession { client: Arc::clone(client), _stay: stay });
        let reap = || OwnedTask::spawn(reap(Arc::downgrade(self), self.idle));
        table.reaping.get_or_insert_with(reap);
        let (sessions, client) = (Arc::clone(self), Arc::clone(client));
        Ok(HeldSession { sessions, id, client, told: false, doubted: false })
    }

    /// The session of this id, if it is theirs. Others learn nothing of it.
    fn find(&self, id: &SessionId, who: &Who) -> Result<Arc<ClientConnection>, Refusal> {
        let table = self.read();
        let client = table.by_id.get(id).map(|open| Arc::clone(&open.client));
        drop(table);
        let client = client.filter(|client| client.who().is_same(who));
        let client = client.ok_or(Refusal::SessionOver)?;
        if client.is_over() {
            // The backend ended it, for instance because its client reads too slowly.
            self.write().by_id.remove(id);
            return Err(Refusal::SessionOver);
        }
        client.who().renew(who);
        Ok(client)
    }

    /// Ends a session, if it is there.
    fn close(&self, id: &SessionId) -> bool {
        let open = self.write().by_id.remove(id);
        open.inspect(|open| open.client.end()).is_some()
    }

    /// Ends the sessions of these clients.
    pub(super) fn close_where(&self, why: &str, is_meant: impl Fn(&ClientConnection) -> bool) {
        let gone: Vec<_> =
            self.write().by_id.extract_if(|_, open| is_meant(&open.client)).collect();
        for (id, open) in gone {
            tracing::debug!(session = ?id, "{why}, closed");
            open.client.end();
        }
    }

    /// Takes no new sessions, and ends each as soon as it waits for no answer.
    pub(super) fn close_all(self: &Arc<Self>) {
        let mut table = self.write();
        table.closed = true;
        let open = table.by_id.iter().map(|(id, open)| (id.clone(), Arc::clone(&open.client)));
        let open: Vec<_> = open.collect();
        drop(table);
        for (id, client) in open {
            if client.owed() == 0 {
                self.close(&id);
                continue;
            }
            let sessions = Arc::clone(self);
            tokio::spawn(async move {
                client.all_answered().await;
                sessions.close(&id);
            });
        }
    }

    pub(super) fn clients(&self) -> Vec<Arc<ClientConnection>> {
        self.read().by_id.values().map(|open| Arc::clone(&open.client)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.read().by_id.len()
    }

    fn read(&self) -> RwLockReadGuard<'_, SessionTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SessionTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A look that comes so late tells that the process was stopped, or the machine.
const LATE: Duration = Duration::from_secs(2);

/// Looks for idle sessions as long as the endpoint is there.
async fn reap(sessions: Weak<HttpSessions>, idle: Duration) {
    let pace = (idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(30));
    let mut looked = now();
    loop {
        tokio::time::sleep(pace).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let since = now().saturating_duration_since(std::mem::replace(&mut looked, now()));
        // After a stop of the process its clients have a moment: what they sent
        // meanwhile is not read yet.
        if since < LATE.max(2 * pace) {
            let deadline = now().checked_sub(idle);
            sessions.close_where("idle for too long", |client| {
                client.idle_since().is_some_and(|since| Some(since) <= deadline)
            });
        }
    }
}
