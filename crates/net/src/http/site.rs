//! The paths of a server, several servers behind one listener, and a site while it runs.
//!
//! A [`Site`] is a `tower` service. Mounted as it is, it answers at
//! [`SiteOptions::path`] and its HTTP+SSE neighbours; [`Site::endpoint`] is the
//! endpoint alone, to mount anywhere in somebody's own router.
//!
//! [`Sites`] are several of them, and a few pages that are no MCP: whether we are well,
//! and what is served. Each site has its own paths (`/servers/files/mcp`), sessions and
//! server behind it. Pages that only say whether we are well need no key: whoever watches
//! over a machine has none. The others are behind the [`Authenticate`] of [`Sites::behind`].

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::limits::Limits;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::body::{Body, RequestBody};
use super::endpoint::{self, HttpReply, HttpSessions};
use super::listen::{self, ListenOptions};
pub use super::page::SitePage;
use super::page::{self, LivePage};
pub use super::site_options::SiteOptions;
use super::ws::{self, Sockets};
use crate::access::{self, Authenticate, CorsGrant, EntryRequest, Guard};
use crate::backend::{Backend, PendingWork, Through};
use crate::connection::ClientConnection;
use crate::drive;
use crate::parked_calls::Parking;
#[cfg(feature = "client")]
use crate::upstream;
use crate::who::Who;

pub use connected::ConnectedClient;

mod connected;

/// Whether a browser asks. A client that has forgotten the path of the endpoint is told of it.
fn wants_html(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    accepted.any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")))
}

/// A server on HTTP, for clients of every era and transport. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    inner: Arc<SiteState>,
}

pub(super) struct SiteState {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) options: SiteOptions,
    /// What of the options may be otherwise by now.
    rules: RwLock<Arc<SiteRules>>,
    pub(super) sessions: Arc<HttpSessions>,
    /// Clients of the first revision: their stream is their session.
    pub(super) old: Arc<HttpSessions>,
    /// Listens of modern clients: nothing but us would ever end them.
    pub(super) listens: Arc<HttpSessions>,
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
        let new = || HttpSessions::new(options.session_idle, options.replica_id());
        let SiteOptions { guard, limits, max_sessions, .. } = options.clone();
        let parking = match options.shared_sealer() {
            Some(sealer) => Parking::sealed_by(&limits, Some(sealer)),
            None => Parking::new(&limits),
        };
        let state = SiteState {
            backend,
            rules: RwLock::new(Arc::new(SiteRules { guard, limits, max_sessions })),
            sessions: new(),
            old: new(),
            listens: new(),
            parking,
            sockets: Sockets::default(),
            stopping: AtomicBool::new(false),
            options,
        };
        Self { inner: Arc::new(state) }
    }

    /// Goes by these rules from the next request on, whatever its options said.
    /// Sessions that are open stay, with the bounds that they began with.
    pub fn adjust(&self, rules: SiteRules) {
        self.inner.parking.bound(rules.limits.parked);
        *self.inner.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Ends the sessions, streams and calls of everybody whom the authenticator does not keep,
    /// whether they wait for their server or for their client.
    pub fn recheck(&self) {
        let SiteState { options, sessions, old, listens, sockets, parking, .. } = &*self.inner;
        if options.authenticator.is_none() {
            return;
        }
        let stays = |who: &Who| self.inner.keeps(who).is_ok();
        for sessions in [sessions, old, listens] {
            sessions.close_where("not let in any more", |client| !stays(client.who()));
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

    /// How it behaves.
    pub fn options(&self) -> &SiteOptions {
        &self.inner.options
    }

    /// Answers at the endpoint, whatever the path.
    pub async fn endpoint(&self, request: Request<impl RequestBody>) -> Response<Body> {
        self.answer(SitePath::Endpoint, request).await
    }

    /// Answers at the path that the request names.
    pub async fn route(&self, request: Request<impl RequestBody>) -> Response<Body> {
        let options = &self.inner.options;
        match options.place(request.uri().path()) {
            Some(place) => self.answer(place, request).await,
            None => nothing_here(&format!("{}{}", options.base, options.first_path())),
        }
    }

    async fn answer(
        &self,
        place: SitePath,
        mut request: Request<impl RequestBody>,
    ) -> Response<Body> {
        let site = &*self.inner;
        let upgrade = (place == SitePath::Socket).then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let admitted = match self.admit(&parts).await {
            Ok(admitted) => admitted,
            Err(response) => return site.options.tally.count(*response),
        };
        let who = &admitted.who;
        let reply = match (place, upgrade) {
            (SitePath::Socket, Some(upgrade)) => ws::open(site, who, &parts, upgrade),
            (SitePath::Listen, _) => endpoint::open_sse(site, who, &parts),
            (SitePath::Message, _) => endpoint::post_sse_message(site, who, &parts, body).await,
            _ => endpoint::answer(site, who, &parts, body).await,
        };
        site.options.tally.count(admitted.answer(reply))
    }
}

impl SiteOptions {
    /// What is at `path`, with or without a slash at its end.
    fn place(&self, path: &str) -> Option<SitePath> {
        let is = |place: &str| !place.is_empty() && same_path(place, path);
        // A page of a `WebSocket` may share the place that clients of the first revision send to.
        let places = [
            (&self.path, SitePath::Endpoint),
            (&self.ws_path, SitePath::Socket),
            (&self.sse_path, SitePath::Listen),
            (&self.message_path, SitePath::Message),
        ];
        places.into_iter().find_map(|(name, place)| is(name).then_some(place))
    }

    /// Where clients should come to: the endpoint, or what is served in its place.
    fn first_path(&self) -> &str {
        let paths = [&self.path, &self.sse_path, &self.ws_path];
        paths.into_iter().find(|path| !path.is_empty()).map_or("", String::as_str)
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

pub(crate) fn nothing_at(place: &str) -> String {
    if place.is_empty() {
        return "there is nothing here".to_owned();
    }
    format!("there is nothing here; the MCP endpoint is {place}")
}

/// A few words for people.
pub(crate) fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::whole(text.into()));
    *response.status_mut() = status;
    let media = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

impl<B: RequestBody + 'static> Service<Request<B>> for Site {
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
    async fn admit(&self, parts: &Parts) -> Result<Admitted<'_>, Box<Response<Body>>> {
        let rules = self.inner.rules();
        let guard = &rules.guard;
        let SiteOptions { authenticator, headers: more, .. } = &self.inner.options;
        if let Err(refused) = guard.check(parts) {
            let mut response = plain(refused.status(), format!("{refused}\n"));
            add_headers(&mut response, more);
            return Err(Box::new(response));
        }
        let request = EntryRequest::new(parts, guard);
        let who = access::authenticate(authenticator.as_ref(), request).await;
        if parts.method == Method::OPTIONS {
            if who.is_err() {
                return Err(Box::new(preflight_of_stranger(guard, parts)));
            }
            // What is passed on must be sent first.
            let carried = self.inner.backend.carries();
            let carried = carried.iter().flat_map(|names| names.iter());
            let guard = carried.fold(guard.clone(), Guard::allow_header);
            return Err(Box::new(preflight(&guard, parts)));
        }
        let grant = guard.grant(&parts.headers);
        let mut admitted = Admitted { who: Who::default(), grant, more, through: None };
        match who {
            Ok(who) => admitted.who = access::mark_by_token(who, &parts.headers),
            Err(denied) => return Err(Box::new(admitted.answer(Ok(denied.response())))),
        }
        // Without servers of its own nothing leads back to it.
        #[cfg(not(feature = "client"))]
        let through = Through::default();
        #[cfg(feature = "client")]
        let through = upstream::through(&parts.headers);
        if !through.is_empty() {
            if self.inner.backend.leads_back(&admitted.who, &through) {
                let refused = Refusal::Loop { ids: through.to_vec() };
                return Err(Box::new(admitted.answer(Err(refused.into()))));
            }
            admitted.through = Some(through);
        }
        Ok(admitted)
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
    fn answer(self, reply: HttpReply) -> Response<Body> {
        let mut response = reply.unwrap_or_else(|refused| endpoint::refused(&refused));
        add_headers(&mut response, self.more);
        if let Some(grant) = self.grant {
            grant.apply(response.headers_mut());
        }
        response.body_mut().through = self.through;
        response
    }
}

fn add_headers(response: &mut Response<Body>, more: &HeaderMap) {
    for (name, value) in more {
        response.headers_mut().insert(name, value.clone());
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

impl SiteState {
    /// The rules as they are at this time.
    pub(super) fn rules(&self) -> Arc<SiteRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A client that has said nothing yet.
    pub(super) fn new_client(
        &self,
        era: Era,
        carrier: Carrier,
        who: &Who,
        headers: &HeaderMap,
    ) -> Result<Arc<ClientConnection>, Refusal> {
        let backend = Arc::clone(&self.backend);
        let (limits, sharing) = (&self.rules().limits, self.options.sharing);
        let client = ClientConnection::new(era, carrier, backend, limits, sharing);
        client.carry(headers)?;
        client.speak_for(who);
        client.count_in(&self.options.unread);
        if era == Era::Modern {
            client.park_in(&self.parking);
        }
        Ok(client)
    }

    /// How many sessions there may be, if there is room for one more.
    pub(super) fn is_full(&self) -> Result<usize, Refusal> {
        let open = self.sessions.len() + self.old.len() + self.sockets.len();
        Some(self.rules().max_sessions).filter(|&most| open < most).ok_or(Refusal::TooManySessions)
    }

    /// All clients but those on a `WebSocket`.
    fn clients(&self) -> Vec<Arc<ClientConnection>> {
        [self.sessions.clients(), self.old.clients(), self.parking.clients()].concat()
    }

    /// Whether somebody who was let in may still come in. A body may take long, and a
    /// key may be removed, or its grant taken away, while it arrives.
    pub(super) fn keeps(&self, who: &Who) -> Result<(), Refusal> {
        let authenticator = self.options.authenticator.as_ref();
        let stays = authenticator.is_none_or(|it| it.keeps(who));
        if stays && who.is_current() { Ok(()) } else { Err(Refusal::KeyRemoved) }
    }

    /// A call that came while calls were given up, or while its key was removed, is
    /// given up too.
    pub(super) fn after_call(&self, client: &Arc<ClientConnection>) {
        if self.stopping.load(Ordering::SeqCst) {
            client.give_up(&Refusal::Stopping).detach();
        } else if let Err(why) = self.keeps(client.who()) {
            client.give_up(&why).detach();
            // Listens do not count as calls.
            client.end();
        }
    }
}

/// Who may talk to a site, and how much. See [`Site::adjust`].
#[derive(Clone, Debug)]
pub struct SiteRules {
    /// Who may talk to it.
    pub guard: Guard,
    /// Bounds of each conversation.
    pub limits: Arc<Limits>,
    /// Sessions at once; beyond it new ones are refused.
    pub max_sessions: usize,
}

impl Site {
    /// Takes no new sessions, and ends those that are open with their streams.
    /// One that waits for an answer ends when it has it, however long that takes.
    pub fn close(&self) {
        for sessions in [&self.inner.sessions, &self.inner.old, &self.inner.listens] {
            sessions.close_all();
        }
        self.inner.sockets.close();
    }

    /// Serves `listener` until `shutdown`; calls in flight then have
    /// [`ListenOptions::grace`] to finish. Say [`Server::close`](crate::server::Server::close)
    /// at the end of `shutdown`: then clients that listen are told that it is over.
    pub async fn serve(
        self,
        listener: TcpListener,
        options: ListenOptions,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) {
        let guard = self.inner.rules().guard.clone();
        Sites::new(guard, vec![self], Vec::new()).serve(listener, options, shutdown).await;
    }

    /// Waits until no call is open that was made until now, in whichever era.
    pub async fn all_answered(&self) {
        for client in self.inner.clients() {
            client.all_answered().await;
        }
        for pipe in self.inner.sockets.pipes() {
            pipe.is_quiet().await;
        }
    }

    /// Answers every call that is open, and each that still comes, with an error
    /// of its own. The work that is left tells the servers that nobody waits.
    pub fn give_up(&self) -> PendingWork {
        self.inner.stopping.store(true, Ordering::SeqCst);
        let mut works = PendingWork::none();
        for client in self.inner.clients() {
            works.append(client.give_up(&Refusal::Stopping));
        }
        for pipe in self.inner.sockets.pipes() {
            works.append(pipe.give_up(&Refusal::Stopping));
        }
        works
    }

    /// Waits until the last `WebSocket` is closed: the listener does not know them.
    pub async fn sockets_closed(&self) {
        self.inner.sockets.all_closed().await;
    }
}

/// Sites and pages, as one `tower` service. Cheap to clone.
#[derive(Clone)]
pub struct Sites {
    inner: Arc<SitesState>,
}

struct SitesState {
    guard: RwLock<Arc<Guard>>,
    sites: RwLock<Arc<[Site]>>,
    pages: Vec<(String, SitePage)>,
    authenticator: Option<Arc<dyn Authenticate>>,
    /// When a client was last heard, in milliseconds of Unix time.
    used: AtomicU64,
    /// Requests to live pages whose bodies may be read.
    visits: Semaphore,
}

impl Sites {
    /// All that is served. `guard` is for the pages; the sites have their own.
    pub fn new(guard: Guard, sites: Vec<Site>, pages: Vec<(String, SitePage)>) -> Self {
        Self::behind(None, guard, sites, pages)
    }

    /// The same with an authenticator for the pages that tell more than whether we are well,
    /// and for paths where nothing is: strangers do not learn which those are.
    pub fn behind(
        authenticator: Option<Arc<dyn Authenticate>>,
        guard: Guard,
        sites: Vec<Site>,
        pages: Vec<(String, SitePage)>,
    ) -> Self {
        let used = AtomicU64::new(unix_millis());
        let sites = RwLock::new(sites.into());
        let guard = RwLock::new(Arc::new(guard));
        let visits = Semaphore::new(page::MAX_VISITS);
        Self { inner: Arc::new(SitesState { guard, sites, pages, authenticator, used, visits }) }
    }

    /// The sites, in the order they were given.
    pub fn each(&self) -> Arc<[Site]> {
        Arc::clone(&self.inner.sites.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves these from here on. Requests that are under way go on where they
    /// are; a site that is left out is for the caller to close.
    pub fn replace(&self, sites: Vec<Site>) {
        *self.inner.sites.write().unwrap_or_else(PoisonError::into_inner) = sites.into();
    }

    /// Guards the pages so from here on. Sites have guards of their own.
    pub fn guard(&self, guard: Guard) {
        *self.inner.guard.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(guard);
    }

    /// When a client was last heard. Kept only where there are pages to tell it.
    pub fn last_used(&self) -> SystemTime {
        let millis = self.inner.used.load(Ordering::Relaxed);
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    /// Ends what belongs to people whom the authenticators do not keep; see [`Site::recheck`].
    pub fn recheck(&self) {
        self.each().iter().for_each(Site::recheck);
    }

    pub(super) async fn route(&self, request: Request<impl RequestBody>) -> Response<Body> {
        let inner = &*self.inner;
        let path = request.uri().path();
        let sites = self.each();
        let place = |site: &Site| site.inner.options.place(path);
        if let Some((site, place)) = sites.iter().find_map(|site| Some((site, place(site)?))) {
            if !inner.pages.is_empty() {
                inner.used.store(unix_millis(), Ordering::Relaxed);
            }
            return site.answer(place, request).await;
        }
        let is_html = wants_html(request.headers());
        let is_meant = |page: &SitePage| is_html || !matches!(page, SitePage::Redirect(_));
        let mut pages = inner.pages.iter();
        let page = pages.find(|(place, page)| page.is_at(place, path) && is_meant(page));
        let (parts, body) = request.into_parts();
        match page.map(|(_, page)| page) {
            Some(SitePage::Live(page)) => self.visit(&**page, parts, body).await,
            page => self.show(page, &parts).await,
        }
    }

    /// Has a live page answer. Its own checks are better than those of an origin: browsers
    /// send none that is of use with the forms of pages that tell nobody where they are.
    async fn visit(
        &self,
        page: &dyn LivePage,
        parts: Parts,
        body: impl RequestBody,
    ) -> Response<Body> {
        let guard = Arc::clone(&self.inner.guard.read().unwrap_or_else(PoisonError::into_inner));
        if let Err(refused) = guard.check_host(&parts) {
            return plain(refused.status(), format!("{refused}\n"));
        }
        let Ok(reading) = self.inner.visits.try_acquire() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too many visitors\n".to_owned());
        };
        let most = page.max_body(&parts);
        let received = page::receive(parts, body, most).await;
        drop(reading);
        match received.map(|visit| (page.stream(&visit), visit)) {
            Ok((Some(stream), _)) => stream.map(Body::piped),
            Ok((None, visit)) => page.visit(visit).await.map(Body::whole),
            Err((status, text)) => plain(status, text.to_owned()),
        }
    }

    /// A page, or that there is none.
    async fn show(&self, page: Option<&SitePage>, parts: &Parts) -> Response<Body> {
        let SitesState { guard, authenticator, .. } = &*self.inner;
        let guard = Arc::clone(&guard.read().unwrap_or_else(PoisonError::into_inner));
        let request = EntryRequest::new(parts, &guard);
        if parts.uri.path().starts_with("/.well-known/")
            && let Some(page) = authenticator.as_ref().and_then(|it| it.page(request))
        {
            return page::show_to_all(&guard, page, parts);
        }
        if let Err(refused) = guard.check(parts) {
            return plain(refused.status(), format!("{refused}\n"));
        }
        if parts.method == Method::OPTIONS {
            return preflight_of_stranger(&guard, parts);
        }
        let is_open = page.is_some_and(SitePage::is_open);
        let authenticator = authenticator.as_ref().filter(|_| !is_open);
        let who = access::authenticate(authenticator, request).await;
        let mut response = match (who, page) {
            (Ok(_), Some(page)) => page.read(self, &parts.method),
            (Err(denied), Some(_)) => denied.response(),
            // It is not even known who they are.
            (Err(denied), _) if denied.status == StatusCode::UNAUTHORIZED => denied.response(),
            _ => nothing_here(self.each().first().map_or("", |site| site.options().first_path())),
        };
        if let Some(grant) = guard.grant(&parts.headers) {
            grant.apply(response.headers_mut());
        }
        response
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl<B: RequestBody + 'static> Service<Request<B>> for Sites {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let sites = self.clone();
        Box::pin(async move { Ok(sites.route(request).await) })
    }
}

impl fmt::Debug for Sites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites").field("sites", &self.each()).finish_non_exhaustive()
    }
}

impl Sites {
    /// Ends every site; see [`Site::close`].
    pub fn close(&self) {
        self.each().iter().for_each(Site::close);
    }

    /// Serves `listener` until `shutdown`; calls in flight then have
    /// [`ListenOptions::grace`] to finish, as [`stop`](Self::stop) says. All types are known
    /// here, so that no crate compiles the HTTP server for itself once more.
    pub fn serve(
        self,
        listener: TcpListener,
        options: ListenOptions,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.serve_until(listener, options, Box::pin(shutdown))
    }

    fn serve_until(
        self,
        listener: TcpListener,
        options: ListenOptions,
        shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (sites, grace) = (self.clone(), options.grace);
        let (begin, stopped) = oneshot::channel::<()>();
        let (tell, served) = oneshot::channel::<()>();
        let serving = async move {
            let shutdown = async move {
                shutdown.await;
                drop(begin);
            };
            listen::serve(listener, self, options, shutdown).await;
            drop(tell);
        };
        let stopping = async move {
            _ = stopped.await;
            sites.stop(grace, async { _ = served.await }).await;
        };
        Box::pin(async {
            tokio::join!(serving, stopping);
        })
    }

    /// Ends every site within `grace`, which is that of the listener: calls go on
    /// until a moment before it is over; then each that is open is answered with an
    /// error of its own, and its server is told that nobody waits.
    ///
    /// To be begun when the listener is told to stop, and awaited beside it;
    /// `served` completes when it has no connection left.
    pub async fn stop(&self, grace: Duration, served: impl Future<Output = ()>) {
        let begin = Instant::now();
        let (patience, end) = (begin + drive::time_for_calls(grace), begin + grace);
        let finished = async {
            for site in self.each().iter() {
                site.all_answered().await;
            }
            self.close();
            // What was on its way when we looked is still answered.
            served.await;
            self.sockets_closed().await;
        };
        if timeout_at(patience, finished).await.is_ok() {
            return;
        }
        tracing::warn!("the grace period is all but over: calls that are open are given up");
        let mut works = PendingWork::none();
        for site in self.each().iter() {
            works.append(site.give_up());
        }
        // Before the sessions end, and with them the connections to their servers.
        _ = timeout_at(patience + drive::time_to_read_errors(grace) / 2, works).await;
        self.close();
        _ = timeout_at(end, self.sockets_closed()).await;
    }

    /// Waits until the last `WebSocket` of any site is closed.
    async fn sockets_closed(&self) {
        for site in self.each().iter() {
            site.sockets_closed().await;
        }
    }
}
