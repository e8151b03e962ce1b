//! The paths of a server: the endpoint, and the two of the first revision beside it.
//!
//! A [`Site`] is a `tower` service. Mounted as it is, it answers at
//! [`SiteOptions::path`] and its HTTP+SSE neighbours; [`Site::endpoint`] is the
//! endpoint alone, to mount anywhere in somebody's own router.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Revision;
use tower_service::Service;

use super::endpoint::{self, Reply};
use super::gate::{self, Gate};
use super::guard::{CorsGrant, Guard};
use super::legacy_session::{self, Sessions};
use super::request_body::BodyBudget;
use super::response_body::Body;
use super::site_control::{CurrentRules, HttpCounters};
use super::ws::{self, Sockets};
use crate::backend::Backend;
use crate::connection::ClientConnection;
use crate::connection::unread::Unread;
use crate::park::Parking;
use crate::upstream::{self, Through};
use crate::who::Who;

/// How a site behaves.
#[derive(Clone, Debug)]
pub struct SiteOptions {
    /// Who may talk to it.
    pub guard: Guard,
    /// Bounds of each conversation.
    pub limits: Arc<Limits>,
    /// How long a stream is silent before a comment keeps it open; zero for no comments.
    pub keep_alive: Duration,
    /// How long the stream of a call is silent before its connection is ended and
    /// the client comes back for the answer, where its revision has that; zero
    /// for never.
    pub hang_up: Duration,
    /// Between two pieces of a request's body: longer than a network needs, short
    /// enough that slow senders do not hold all connections.
    pub body_pause: Duration,
    /// Bytes of a request's body that have to come in each second, on average, once
    /// a [`body_pause`](Self::body_pause) is over; zero for any number.
    pub body_rate: u32,
    /// The bytes of requests that may be held; shared by sites that count together.
    pub bodies: Arc<BodyBudget>,
    /// The bytes that clients may leave unread; shared by sites that count together.
    pub unread: Arc<Unread>,
    /// After which an unused session ends.
    pub session_idle: Duration,
    /// Sessions at once; beyond it new ones are refused.
    pub max_sessions: usize,
    /// Several clients share one server: keep what is not theirs from them.
    pub shared: bool,
    /// What clients see before these paths, where the site is nested in a router
    /// or stands behind a proxy: `/tools`, or `https://example.com/tools`.
    pub base: String,
    /// Where the endpoint is; empty for nowhere.
    pub path: String,
    /// Where clients of the first revision listen; empty for nowhere.
    pub sse_path: String,
    /// Where they send.
    pub message_path: String,
    /// Where clients may open a `WebSocket`; empty for nowhere, as it is by default.
    pub ws_path: String,
    /// Whom every request has to pass.
    pub gate: Option<Arc<dyn Gate>>,
    /// Added to every answer.
    pub headers: HeaderMap,
    /// No sessions: each request of a legacy client stands alone, and its server
    /// is greeted in this revision, unless the request names another. What needs a
    /// session is not offered then.
    pub stateless: Option<Revision>,
    /// Whether clients of the modern era are served.
    pub modern: bool,
    /// Where it counts what it does.
    pub tally: Arc<HttpCounters>,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            guard: Guard::loopback(),
            limits: Arc::new(Limits::default()),
            keep_alive: Duration::from_secs(15),
            hang_up: Duration::ZERO,
            body_pause: Duration::from_secs(30),
            // A slow telephone sends ten times as much.
            body_rate: 1024,
            bodies: Arc::default(),
            unread: Arc::default(),
            session_idle: Duration::from_mins(30),
            max_sessions: 1024,
            shared: false,
            base: String::new(),
            path: "/mcp".to_owned(),
            sse_path: "/sse".to_owned(),
            message_path: "/message".to_owned(),
            ws_path: String::new(),
            gate: None,
            headers: HeaderMap::new(),
            stateless: None,
            modern: true,
            tally: Arc::default(),
        }
    }
}

/// A server on HTTP, for clients of every era and transport. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) options: SiteOptions,
    /// What of the options may be otherwise by now.
    pub(super) rules: CurrentRules,
    pub(super) sessions: Arc<Sessions>,
    /// Clients of the first revision: their stream is their session.
    pub(super) old: Arc<Sessions>,
    /// Listens of modern clients: nothing but us would ever end them.
    pub(super) listens: Arc<Sessions>,
    /// Calls of modern clients that wait for input.
    pub(super) parking: Arc<Parking>,
    /// Clients on a `WebSocket`: their connection is their session.
    pub(super) sockets: Sockets,
    /// Whether calls are not waited for any more.
    pub(super) stopping: AtomicBool,
}

impl Site {
    /// A site in front of `backend`.
    pub fn new(backend: Arc<dyn Backend>, options: SiteOptions) -> Self {
        let new = || Sessions::new(options.max_sessions, options.session_idle);
        let (sessions, old, listens) = (new(), new(), new());
        let parking = Parking::new(&options.limits);
        let sockets = Sockets::new();
        let rules = CurrentRules::of(&options);
        let stopping = AtomicBool::new(false);
        Self {
            inner: Arc::new(Inner {
                backend,
                options,
                rules,
                sessions,
                old,
                listens,
                parking,
                sockets,
                stopping,
            }),
        }
    }

    /// Ends the sessions, streams and calls of everybody whom the gate does not keep,
    /// whether they wait for their server or for their client.
    pub fn recheck(&self) {
        let Inner { options, sessions, old, listens, sockets, parking, .. } = &*self.inner;
        if options.gate.is_none() {
            return;
        }
        let stays = |who: &Who| self.inner.keeps(who).is_ok();
        for sessions in [sessions, old, listens] {
            sessions.close_unless(stays);
        }
        sockets.close_unless(stays);
        parking.give_up_unless(|client| stays(client.who()) && self.inner.backend.keeps(client));
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.inner.sessions.len() + self.old_sessions() + self.inner.sockets.len()
    }

    /// The clients that have a session, but for those on a `WebSocket`.
    pub fn clients(&self) -> Vec<Arc<ClientConnection>> {
        [self.inner.sessions.clients(), self.inner.old.clients()].concat()
    }

    /// How many of them are clients of the first revision.
    pub fn old_sessions(&self) -> usize {
        self.inner.old.len()
    }

    /// How many calls wait for their clients to come back with input.
    pub fn parked(&self) -> usize {
        self.inner.parking.len()
    }

    /// Whether it has something at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.inner.options.place(path).is_some()
    }

    /// How it behaves.
    pub fn options(&self) -> &SiteOptions {
        &self.inner.options
    }

    /// Answers at the endpoint, whatever the path.
    pub async fn endpoint<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let response = match self.admit(&parts) {
            Ok(admitted) => {
                let reply = endpoint::answer(&self.inner, &admitted.who, parts, body).await;
                admitted.answer(reply)
            }
            Err(response) => *response,
        };
        self.inner.options.tally.count(response)
    }

    /// Answers at the path that the request names.
    pub async fn route<B>(&self, mut request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        let options = &self.inner.options;
        let Some(place) = options.place(request.uri().path()) else {
            return nothing_here(&format!("{}{}", options.base, options.path));
        };
        let upgrade = (place == SitePath::Socket).then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let admitted = match self.admit(&parts) {
            Ok(admitted) => admitted,
            Err(response) => return options.tally.count(*response),
        };
        let who = &admitted.who;
        let reply = match (place, upgrade) {
            (SitePath::Socket, Some(upgrade)) => ws::open(&self.inner, who, &parts, upgrade),
            (SitePath::Listen, _) => legacy_session::open_sse(&self.inner, who, &parts),
            (SitePath::Message, _) => {
                legacy_session::post_sse_message(&self.inner, who, parts, body).await
            }
            _ => endpoint::answer(&self.inner, who, parts, body).await,
        };
        options.tally.count(admitted.answer(reply))
    }
}

impl SiteOptions {
    /// What is at `path`, with or without a slash at its end.
    fn place(&self, path: &str) -> Option<SitePath> {
        let is = |place: &str| !place.is_empty() && same_path(place, path);
        // A page of a `WebSocket` may share the place that clients of the first revision send to.
        [
            (&self.path, SitePath::Endpoint),
            (&self.ws_path, SitePath::Socket),
            (&self.sse_path, SitePath::Listen),
            (&self.message_path, SitePath::Message),
        ]
        .into_iter()
        .find(|(name, _)| is(name))
        .map(|(_, place)| place)
    }
}

/// What a site has at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SitePath {
    Endpoint,
    Listen,
    Message,
    Socket,
}

/// Whether two paths are the same but for a slash at the end, which routers of
/// other servers add or leave out.
pub(super) fn same_path(one: &str, other: &str) -> bool {
    one == other || one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Says where to go instead.
pub(super) fn nothing_here(place: &str) -> Response<Body> {
    plain(StatusCode::NOT_FOUND, format!("{}\n", nothing_at(place)))
}

pub(super) fn nothing_at(place: &str) -> String {
    format!("there is nothing here; the MCP endpoint is {place}")
}

/// A few words for people.
pub(super) fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::whole(text.into()));
    *response.status_mut() = status;
    let media = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

impl Inner {
    /// A conversation that counts as a session, if there is room for one.
    pub(super) fn is_full(&self) -> Result<(), Refusal> {
        let open = self.sessions.len() + self.old.len() + self.sockets.len();
        if open < self.rules().max_sessions { Ok(()) } else { Err(Refusal::TooManySessions) }
    }
}

impl<B> Service<Request<B>> for Site
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let site = self.clone();
        Box::pin(async move { Ok(site.route(request).await) })
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Site {
    /// Turns strangers away, and answers preflights.
    fn admit(&self, parts: &Parts) -> Result<Admitted<'_>, Box<Response<Body>>> {
        let rules = self.inner.rules();
        let guard = &rules.guard;
        if let Err(refused) = guard.check(parts) {
            return Err(Box::new(plain(refused.status(), format!("{refused}\n"))));
        }
        let SiteOptions { gate, headers: more, .. } = &self.inner.options;
        let admitted = gate::admit(gate.as_ref(), &parts.headers);
        if parts.method == Method::OPTIONS {
            if admitted.is_err() {
                return Err(Box::new(preflight_of_stranger(guard, parts)));
            }
            // What is passed on must be sent first.
            let carried = self.inner.backend.carries();
            let carried = carried.iter().flat_map(|names| names.iter());
            let guard = carried.fold(guard.clone(), Guard::allow_header);
            return Err(Box::new(preflight(&guard, parts)));
        }
        let grant = guard.grant(&parts.headers);
        match admitted {
            Ok(who) => {
                let who = gate::mark_by_token(&who, &parts.headers);
                let through = upstream::through(&parts.headers);
                let is_loop = !through.is_empty() && self.inner.backend.leads_back(&who, &through);
                let ids = through.to_vec();
                let through = Some(through).filter(|through| !through.is_empty());
                let admitted = Admitted { who, grant, more, through };
                if is_loop {
                    return Err(Box::new(admitted.answer(Err(Refusal::Loop { ids }))));
                }
                Ok(admitted)
            }
            Err(denied) => {
                let admitted = Admitted { who: Who::default(), grant, more, through: None };
                Err(Box::new(admitted.answer(Ok(denied.response()))))
            }
        }
    }
}

/// A request that may be answered, whose it is, and who may read the answer.
struct Admitted<'a> {
    who: Who,
    grant: Option<CorsGrant>,
    more: &'a HeaderMap,
    /// The servers of other gateways that it came through, if any.
    through: Option<Through>,
}

impl Admitted<'_> {
    /// The answer, marked for the browsers that may read it.
    fn answer(self, reply: Reply) -> Response<Body> {
        let mut response = reply.unwrap_or_else(|refusal| endpoint::refused(None, &refusal));
        for (name, value) in self.more {
            response.headers_mut().insert(name, value.clone());
        }
        if let Some(grant) = self.grant {
            grant.apply(response.headers_mut());
        }
        response.map(|body| body.through(self.through))
    }
}

/// A preflight carries no key. It may ask to send any header: the answer is the
/// same on every path, so it does not tell which servers exist or what they pass on.
pub(super) fn preflight_of_stranger(guard: &Guard, parts: &Parts) -> Response<Body> {
    let asked = parts.headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let asked = asked.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let asked = asked.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    let guard = asked.fold(guard.clone(), |guard, name| guard.allow_header(&name));
    preflight(&guard, parts)
}

fn preflight(guard: &Guard, parts: &Parts) -> Response<Body> {
    let mut response = endpoint::empty(StatusCode::NO_CONTENT);
    let allow = (header::ALLOW, HeaderValue::from_static(endpoint::METHODS));
    let headers = guard.preflight(parts).unwrap_or_else(|| HeaderMap::from_iter([allow]));
    *response.headers_mut() = headers;
    response
}
