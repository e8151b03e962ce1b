//! Legacy clients over HTTP: sessions, requests without one, and HTTP+SSE.
//!
//! | client | its session |
//! |---|---|
//! | carries the id in a header | until it deletes it, or is idle for a while |
//! | has no session ([`stateless_client`]) | one for each request |
//! | HTTP+SSE ([`open_sse`]) | as long as its stream (OLD-5) |
//!
//! A session with a header never ends while a call is in flight or a stream is attached:
//! an idle timer that cuts a long call is worse than none.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use switchboard_proto::exchange::{Carrier, Lane};
use switchboard_proto::jsonrpc::{self, Id, Incoming, InvalidMessage, Kind, Member, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::legacy::Phase;
use switchboard_proto::server::{Frame, ServerHalf};
use switchboard_proto::sse::{self, Outgoing};
use switchboard_proto::{header, method};

use super::body::{Body, OpenLane, ReadBody, RequestBody, parse_to_keep, read};
use super::endpoint::{Reply, only_id, refused, stream};
use super::listen::Peer;
use super::site::{SiteState, plain};
use super::{accepts, content_type, is_json};
use crate::access::{SessionPermit, Who};
use crate::backend::PendingWork;
use crate::connection::{ClientConnection, now};
use crate::drive::OwnedTask;

/// All sessions of one endpoint.
#[derive(Debug)]
pub(crate) struct Sessions {
    most: AtomicUsize,
    idle: Duration,
    /// Every request of a legacy client looks here, so looking must not exclude looking.
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<SessionId, OpenSession>,
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
pub(crate) struct Held {
    sessions: Arc<Sessions>,
    id: SessionId,
    client: Arc<ClientConnection>,
    told: bool,
    /// Whether the client may have been gone when it was told.
    doubted: bool,
}

impl Held {
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// The client gets to know the id: the session lives on, unless its greeting fails.
    /// If it is doubted that the client is there, its session ends with the stream of
    /// a greeting that is not answered.
    pub(crate) fn tell(&mut self, doubted: bool) -> HeaderValue {
        (self.told, self.doubted) = (true, doubted);
        self.id.to_header()
    }
}

impl Drop for Held {
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
pub(crate) struct SessionId(Box<str>);

impl SessionId {
    fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{:032x}", u128::from_ne_bytes(bytes)).into()))
    }

    /// As it was sent to us.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn to_header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("a session id is hexadecimal")
    }
}

impl fmt::Debug for SessionId {
    /// Whoever has the id has the session, so logs show only its beginning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.0.get(..6).unwrap_or_default())
    }
}

impl Sessions {
    pub(crate) fn new(most: usize, idle: Duration) -> Arc<Self> {
        Arc::new(Self { most: AtomicUsize::new(most), idle, table: RwLock::default() })
    }

    /// Takes so many from here on; those that are there stay.
    pub(crate) fn bound(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// A new session for `client`; it ends with what is returned.
    pub(crate) fn open(self: &Arc<Self>, client: &Arc<ClientConnection>) -> Result<Held, Refusal> {
        let stay = client.who().stay()?;
        let id = SessionId::random().map_err(|_| Refusal::TooManySessions)?;
        let mut table = self.write();
        if table.closed || table.by_id.len() >= self.most.load(Ordering::Relaxed) {
            return Err(Refusal::TooManySessions);
        }
        client.mark(id.as_str());
        table.by_id.insert(id.clone(), OpenSession { client: Arc::clone(client), _stay: stay });
        let reap = || OwnedTask::spawn(reap(Arc::downgrade(self), self.idle));
        table.reaping.get_or_insert_with(reap);
        let (sessions, client) = (Arc::clone(self), Arc::clone(client));
        Ok(Held { sessions, id, client, told: false, doubted: false })
    }

    /// The session of this id, if it is theirs. Others learn nothing of it.
    pub(crate) fn find(&self, id: &SessionId, who: &Who) -> Result<Arc<ClientConnection>, Refusal> {
        let table = self.read();
        let client = table.by_id.get(id).map(|open| Arc::clone(&open.client));
        drop(table);
        let client = client.filter(|client| client.who().is_same(who));
        let client = client.ok_or(Refusal::SessionOver)?;
        if client.is_over() {
            // The inside ended it, for instance because its client reads too slowly.
            self.write().by_id.remove(id);
            return Err(Refusal::SessionOver);
        }
        Ok(client)
    }

    /// Ends a session, if it is there.
    pub(crate) fn close(&self, id: &SessionId) -> bool {
        let open = self.write().by_id.remove(id);
        open.inspect(|open| open.client.end()).is_some()
    }

    /// Ends the sessions of everybody who may not stay.
    pub(crate) fn close_unless(&self, stays: impl Fn(&Who) -> bool) {
        let table = self.read();
        let gone = table.by_id.iter().filter(|(_, open)| !stays(open.client.who()));
        let gone: Vec<_> = gone.map(|(id, _)| id.clone()).collect();
        drop(table);
        for id in gone {
            self.close(&id);
        }
    }

    /// Takes no new sessions, and ends each as soon as it waits for no answer.
    pub(crate) fn close_all(self: &Arc<Self>) {
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

    pub(crate) fn clients(&self) -> Vec<Arc<ClientConnection>> {
        self.read().by_id.values().map(|open| Arc::clone(&open.client)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().by_id.len()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_idle(&self) {
        let deadline = now().checked_sub(self.idle);
        let is_idle = |client: &ClientConnection| {
            client.idle_since().is_some_and(|since| Some(since) <= deadline)
        };
        let mut table = self.write();
        let idle = table.by_id.iter().filter(|(_, open)| is_idle(&open.client));
        let idle: Vec<_> = idle.map(|(id, _)| id.clone()).collect();
        let gone: Vec<_> = idle.iter().filter_map(|id| table.by_id.remove(id)).collect();
        drop(table);
        for (id, open) in idle.iter().zip(&gone) {
            tracing::debug!(session = ?id, "idle for too long, closed");
            open.client.end();
        }
    }
}

/// A look that comes so late tells that the process was stopped, or the machine.
const LATE: Duration = Duration::from_secs(2);

/// Looks for idle sessions as long as the endpoint is there.
async fn reap(sessions: Weak<Sessions>, idle: Duration) {
    let pace = (idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(30));
    let mut looked = now();
    loop {
        tokio::time::sleep(pace).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let since = now().saturating_duration_since(std::mem::replace(&mut looked, now()));
        // After a stop of the process its clients have a moment: what they sent
        // meanwhile is not read yet.
        if since < LATE.max(2 * pace) {
            sessions.close_idle();
        }
    }
}

/// The client for one request without a session, greeted, and what ends it.
///
/// Clients that never greet, or that reach another replica with each request, are
/// served as if each request were a session. The server behind is greeted in the
/// client's stead, and forgotten with the answer. What would outlive that is not
/// offered: the client's half is a bare one.
pub(super) async fn stateless_client(
    site: &SiteState,
    who: &Who,
    usual: Revision,
    incoming: &Incoming,
    headers: &HeaderMap,
) -> Result<(Arc<ClientConnection>, Held), Refusal> {
    site.is_full()?;
    let client = site.new_client(Era::Legacy, Carrier::Http, who, headers)?;
    client.go_bare();
    let held = site.sessions.open(&client)?;
    if wants_server(incoming) {
        greet(&client, spoken(headers, incoming).unwrap_or(usual)).await?;
    }
    Ok((client, held))
}

/// What wants no answer has nobody to go to.
pub(super) fn wants_nothing(incoming: &Incoming) -> bool {
    let is_quiet = |message: &Message| message.kind() != Kind::Request;
    match incoming {
        Incoming::One(message) => is_quiet(message),
        Incoming::Batch(all) => all.iter().all(|one| one.as_ref().is_ok_and(is_quiet)),
    }
}

/// Whether somebody has to greet the server first: neither who does so nor who
/// is refused in any case.
fn wants_server(incoming: &Incoming) -> bool {
    match incoming {
        Incoming::One(message) => {
            message.method() != method::INITIALIZE && !method::needs_session(message.method())
        }
        Incoming::Batch(_) => true,
    }
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
    let params = serde_json::json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {},
        "clientInfo": {"name": "switchboard", "version": env!("CARGO_PKG_VERSION")},
    });
    let hello =
        Message::request(&Id::from(0), method::INITIALIZE, Some(params.to_string().as_bytes()));
    let answer = ask(client, hello).await.ok_or_else(|| failed("no answer"))?;
    if answer.kind() == Kind::Error {
        let words = answer.string(Member::ErrorMessage);
        return Err(failed(words.as_deref().unwrap_or("an error")));
    }
    let ready = Incoming::One(Message::notification(method::INITIALIZED, None));
    let lane = OpenLane { client: Arc::clone(client), lane: client.open_lane() };
    // The call that follows waits for its delivery where it has to.
    client.step(|half| half.handle_incoming(lane.lane, ready, None)).1.detach();
    Ok(())
}

/// The answer to a request of ours, whatever comes before it.
async fn ask(client: &Arc<ClientConnection>, request: Message) -> Option<Message> {
    let lane = OpenLane { client: Arc::clone(client), lane: client.open_lane() };
    let request = Incoming::One(request);
    let ((), works) = client.step(|half| half.handle_incoming(lane.lane, request, None));
    works.detach();
    loop {
        let (Frame::Answer { text, .. } | Frame::Message { text, .. }) =
            client.next_frame(lane.lane).await?
        else {
            continue;
        };
        match jsonrpc::parse_one(text) {
            Ok(message) if message.is_response() => return Some(message),
            _ => {}
        }
    }
}

fn failed(why: &str) -> Refusal {
    Refusal::NotGreeted { why: why.to_owned() }
}

/// HTTP+SSE, the stream: it begins with the address to send to, and carries everything
/// that the server says. When it closes, the session is over (OLD-5).
pub(super) fn open_sse(site: &SiteState, who: &Who, parts: &Parts) -> Reply {
    if parts.method != Method::GET {
        return Err(Refusal::WrongHttpMethod { allow: "GET" });
    }
    if !accepts(&parts.headers, "text/event-stream") {
        return Err(Refusal::NotAcceptable);
    }
    site.is_full()?;
    let client = site.new_client(Era::Legacy, Carrier::Pipe, who, &parts.headers)?;
    let peer: Option<&Peer> = parts.extensions.get();
    client.reached_by(peer);
    let held = site.old.open(&client)?;
    let options = &site.options;
    let address =
        format!("{}{}?sessionId={}", options.base, options.message_path, held.id().as_str());
    let mut opening = Vec::new();
    let event =
        Outgoing { name: Some("endpoint"), data: address.as_bytes(), ..Outgoing::default() };
    sse::encode(&event, &mut opening);
    let open = OpenLane { client, lane: Lane::MAIN };
    let body = Body::streaming(open, PendingWork::none(), opening, site.options.keep_alive);
    let body = body.awaited(peer.map(Peer::await_answer));
    Ok(stream(body.holding(Some(held))))
}

/// HTTP+SSE, a message to the server: the answer comes on the stream.
pub(super) async fn post_sse_message(
    site: &SiteState,
    who: &Who,
    parts: Parts,
    body: impl RequestBody,
) -> Reply {
    if parts.method != Method::POST {
        return Err(Refusal::WrongHttpMethod { allow: "POST" });
    }
    let query = parts.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let id = id.ok_or(Refusal::NoSession)?;
    let client = site.old.find(&SessionId::from_text(id), who)?;
    if !content_type(&parts.headers).is_some_and(is_json) {
        return Err(Refusal::WrongMediaType);
    }
    let answers = client.is_asked();
    let awaited = parts.extensions.get().map(Peer::await_answer);
    let ReadBody { text, turns, charge } =
        read(&parts.headers, body, site, who, answers, awaited.as_ref()).await?;
    // A client that does not read its stream is not read from: what it sends
    // would be answered there.
    client.wait_for_room().await;
    if client.is_over() {
        return Err(Refusal::SessionOver);
    }
    match parse_to_keep(text) {
        Ok(incoming) => {
            let turns = match site.keeps(who).and_then(|()| who.enter(&incoming, turns)) {
                Ok(turns) => turns,
                Err(why) => return Ok(refused(only_id(&incoming), &why)),
            };
            let take = |half: &mut ServerHalf| half.handle_incoming(Lane::MAIN, incoming, None);
            client.step_in(turns, Some(&charge), take).1.holding(charge).detach();
            site.after_call(&client);
            Ok(plain(StatusCode::ACCEPTED, "Accepted".to_owned()))
        }
        Err(InvalidMessage { id, why }) => Ok(refused(id.as_ref(), &why)),
    }
}
