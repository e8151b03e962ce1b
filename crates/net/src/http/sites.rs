//! Several sites behind one listener, and a few pages that are no MCP: whether
//! we are well, and what is served.
//!
//! Each site has its own paths (`/servers/files/mcp`), sessions and server behind
//! it. Pages that only say whether we are well need no key: whoever watches over
//! a machine has none. The others are behind the [`Gate`] of [`Sites::behind`].

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::endpoint;
use super::gate::{self, Gate};
use super::guard::Guard;
use super::response_body::Body;
use super::site::{Site, nothing_here, plain, preflight_of_stranger, same_path};
use crate::backend::PendingWork;
use crate::drive;

/// Sites and pages, as one `tower` service. Cheap to clone.
#[derive(Clone)]
pub struct Sites {
    inner: Arc<Inner>,
}

struct Inner {
    guard: RwLock<Arc<Guard>>,
    sites: RwLock<Arc<[Site]>>,
    pages: Vec<(String, SitePage)>,
    gate: Option<Arc<dyn Gate>>,
    /// When a client was last heard, in milliseconds of Unix time.
    used: AtomicU64,
}

/// What a page says.
pub enum SitePage {
    /// Always the same words.
    Text(String),
    /// JSON, made when it is asked for.
    Json(Box<dyn Fn(&Sites) -> String + Send + Sync>),
    /// Whether something is so: `ok`, or the status 503.
    Check(Box<dyn Fn() -> bool + Send + Sync>),
    /// Metrics in the text format of Prometheus, made when they are asked for.
    Metrics(Box<dyn Fn(&Sites) -> String + Send + Sync>),
}

impl SitePage {
    /// Whether it only says that we are well: it needs no key.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Check(_))
    }
}

impl Sites {
    /// All that is served. `guard` is for the pages; the sites have their own.
    pub fn new(guard: Guard, sites: Vec<Site>, pages: Vec<(String, SitePage)>) -> Self {
        Self::behind(None, guard, sites, pages)
    }

    /// The same with a gate for the pages that tell more than whether we are well,
    /// and for paths where nothing is: strangers do not learn which those are.
    pub fn behind(
        gate: Option<Arc<dyn Gate>>,
        guard: Guard,
        sites: Vec<Site>,
        pages: Vec<(String, SitePage)>,
    ) -> Self {
        let used = AtomicU64::new(unix_millis());
        let sites = RwLock::new(sites.into());
        let guard = RwLock::new(Arc::new(guard));
        Self { inner: Arc::new(Inner { guard, sites, pages, gate, used }) }
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

    /// Ends what belongs to people whom the gates do not keep; see [`Site::recheck`].
    pub fn recheck(&self) {
        self.each().iter().for_each(Site::recheck);
    }

    async fn route<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: fmt::Display,
    {
        let inner = &*self.inner;
        let path = request.uri().path();
        let sites = self.each();
        if let Some(site) = sites.iter().find(|site| site.has(path)) {
            if !inner.pages.is_empty() {
                inner.used.store(unix_millis(), Ordering::Relaxed);
            }
            return site.route(request).await;
        }
        let page = inner.pages.iter().find(|(place, _)| same_path(place, path));
        self.show(page.map(|(_, page)| page), &request.into_parts().0)
    }

    /// A page, or that there is none.
    fn show(&self, page: Option<&SitePage>, parts: &Parts) -> Response<Body> {
        let Inner { guard, gate, .. } = &*self.inner;
        let guard = Arc::clone(&guard.read().unwrap_or_else(PoisonError::into_inner));
        if let Err(refused) = guard.check(parts) {
            return plain(refused.status(), format!("{refused}\n"));
        }
        if parts.method == Method::OPTIONS {
            return preflight_of_stranger(&guard, parts);
        }
        let is_open = page.is_some_and(SitePage::is_open);
        let gate = gate.as_ref().filter(|_| !is_open);
        let mut response = match (gate::admit(gate, &parts.headers), page) {
            (Ok(_), Some(page)) => self.read(page, &parts.method),
            (Err(denied), page) if page.is_some() || denied.is_unknown() => denied.response(),
            _ => nothing_here(self.each().first().map_or("", |site| site.options().path.as_str())),
        };
        if let Some(grant) = guard.grant(&parts.headers) {
            grant.apply(response.headers_mut());
        }
        response
    }

    fn read(&self, page: &SitePage, method: &Method) -> Response<Body> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "read it\n".to_owned());
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match page {
            SitePage::Text(text) => plain(StatusCode::OK, text.clone()),
            SitePage::Json(text) => endpoint::json(200, text(self).into()),
            SitePage::Metrics(text) => metrics(text(self)),
            SitePage::Check(is_so) if is_so() => plain(StatusCode::OK, "ok".to_owned()),
            SitePage::Check(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "not yet".to_owned()),
        }
    }
}

fn metrics(text: String) -> Response<Body> {
    let mut response = plain(StatusCode::OK, text);
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl<B> Service<Request<B>> for Sites
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
