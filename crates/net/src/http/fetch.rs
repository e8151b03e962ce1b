//! Our HTTP client: one pool of connections for plain HTTP, and one for TLS and proxies.
//!
//! HTTP/1.1 and, where the server offers it in the TLS handshake, HTTP/2. Trusts
//! what the system trusts. Goes through the user's proxies, never for loopback
//! unless asked. Follows a redirect only where nothing can leak or change:
//! same origin, 307 or 308, so that method, body and credentials arrive as sent.
//!
//! Dropping the future or the response body takes the request off the wire, which
//! is how a request is cancelled. No deadlines beyond the connection: whoever
//! calls knows how long an answer may take.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use connect::Connector;
use direct::IdleConnections;
use http::header::{LOCATION, PROXY_AUTHORIZATION};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use proxy::Proxies;
use switchboard_proto::auth::origin_of;
use tower_service::Service as _;

mod connect;
mod direct;
mod fetch_error;
mod proxy;
mod reach;
#[cfg(feature = "tls")]
mod server_tls;
#[cfg(feature = "tls")]
mod tls_error;
#[cfg(feature = "tls")]
mod verify;
#[cfg(not(feature = "tls"))]
mod without_tls;

pub use direct::FetchBody;
pub use fetch_error::{Cause, FetchError, SetupError};
pub use proxy::ProxySettings;
pub use reach::{AddressRange, BadRange, Reach, is_public};
#[cfg(feature = "tls")]
pub use rustls::pki_types::CertificateDer;
#[cfg(feature = "tls")]
pub use server_tls::{HostTls, ServerTls};

/// How to reach servers.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct FetchOptions {
    /// Which proxies to go through; none by default.
    pub proxy: ProxySettings,
    /// Certificates to trust beside the system's, for corporate authorities.
    #[cfg(feature = "tls")]
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// From name lookup to the end of the TLS handshake, proxy included.
    pub connect_timeout: Duration,
    /// After which an unused connection is closed.
    pub idle_timeout: Duration,
    /// Whether IPv6 addresses of names are left out, where they lead nowhere.
    pub only_ipv4: bool,
    /// Which addresses a name may lead to.
    pub reach: Reach,
    /// What else holds for TLS with one server, and with no other.
    #[cfg(feature = "tls")]
    pub host_tls: Option<HostTls>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            proxy: ProxySettings::default(),
            #[cfg(feature = "tls")]
            extra_roots: Vec::new(),
            // Three lost SYN packets, and then some.
            connect_timeout: Duration::from_secs(10),
            // Node.js and uvicorn, on which most servers run, close a silent connection
            // after five seconds; a call that is sent at that moment is lost.
            idle_timeout: Duration::from_secs(4),
            only_ipv4: false,
            reach: Reach::Anywhere,
            #[cfg(feature = "tls")]
            host_tls: None,
        }
    }
}

setters! {
    FetchOptions {
        proxy: ProxySettings,
        connect_timeout: Duration,
        idle_timeout: Duration,
        reach: Reach,
    }
}

impl FetchOptions {
    /// Leaves out IPv6 addresses of names.
    pub fn only_ipv4(mut self) -> Self {
        self.only_ipv4 = true;
        self
    }
}

/// The client. Clones share the pool.
#[derive(Clone, Debug)]
pub struct Fetch {
    client: Client<Connector, Full<Bytes>>,
    /// For plain HTTP without a proxy; the client does the rest.
    idle: Arc<IdleConnections>,
    connector: Connector,
    proxies: Arc<Proxies>,
    options: Arc<FetchOptions>,
    /// The same client for servers with settings of their own for TLS, the newest last.
    #[cfg(feature = "tls")]
    others: Arc<Mutex<Vec<Self>>>,
}

impl Fetch {
    /// A client with an empty pool; connects to nothing yet.
    pub fn new(options: FetchOptions) -> Result<Self, SetupError> {
        let proxies = Arc::new(options.proxy.compile()?);
        let connector = Connector::new(&options, Arc::clone(&proxies))?;
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .pool_max_idle_per_host(MAX_IDLE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE)
            .build(connector.clone());
        let idle = IdleConnections::new(options.idle_timeout);
        Ok(Self {
            client,
            idle,
            connector,
            proxies,
            options: Arc::new(options),
            #[cfg(feature = "tls")]
            others: Arc::default(),
        })
    }

    /// The same client, with a pool of its own, for URLs that others name.
    pub fn within(&self, reach: Reach) -> Result<Self, SetupError> {
        Self::new(FetchOptions { reach, ..FetchOptions::clone(&self.options) })
    }

    /// Makes a connection and closes it, to see whether that works and how long
    /// it takes: name lookup, proxy, TCP and TLS.
    pub async fn dial(&self, target: &Uri) -> Result<(), FetchError> {
        check_target(target)?;
        let dialled = self.connector.clone().call(target.clone()).await;
        dialled.map(drop).map_err(|error| {
            let shown = self.shows_identity(target);
            FetchError::from_connector(error.as_ref(), target, self.options.connect_timeout, shown)
        })
    }

    /// The proxy on the way to a server, if there is one.
    pub fn proxy_for(&self, target: &Uri) -> Option<String> {
        self.proxies.towards(target).map(|proxy| origin_of(proxy.uri()))
    }

    /// Sends a request to an absolute URL and follows what may be followed.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<FetchBody>, FetchError> {
        self.send_made(request.uri(), &|| request.clone()).await
    }

    /// The same with what `request` makes, once for each attempt.
    pub(crate) async fn send_made(
        &self,
        target: &Uri,
        request: &impl Fn() -> Request<Bytes>,
    ) -> Result<Response<FetchBody>, FetchError> {
        let response = self.send_to(target, request).await?;
        match redirect_target(target, &response)? {
            Some(next) => Box::pin(self.follow(next, request)).await,
            None => Ok(response),
        }
    }

    /// Sends a request to where the answer to the one before leads, as long as it leads on.
    async fn follow(
        &self,
        mut target: Uri,
        request: &impl Fn() -> Request<Bytes>,
    ) -> Result<Response<FetchBody>, FetchError> {
        for _ in 0..MAX_REDIRECTS {
            let response = self.send_to(&target, request).await?;
            match redirect_target(&target, &response)? {
                Some(next) => target = next,
                None => return Ok(response),
            }
        }
        Err(FetchError::TooManyRedirects { max: MAX_REDIRECTS })
    }

    /// Sends a request and returns even a redirect as it came.
    pub async fn send_once(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<FetchBody>, FetchError> {
        self.send_to(request.uri(), &|| request.clone()).await
    }

    /// Sends what `request` makes to `target`. A request is large: it is made where it is sent,
    /// because a future copies what it is given.
    async fn send_to(
        &self,
        target: &Uri,
        request: &impl Fn() -> Request<Bytes>,
    ) -> Result<Response<FetchBody>, FetchError> {
        if target.scheme() == Some(&Scheme::HTTP) && self.proxies.towards(target).is_none() {
            return self.send_directly(target, request).await;
        }
        Box::pin(self.send_by_client(target, request())).await
    }

    async fn send_by_client(
        &self,
        target: &Uri,
        mut request: Request<Bytes>,
    ) -> Result<Response<FetchBody>, FetchError> {
        check_target(target)?;
        *request.uri_mut() = target.clone();
        // A proxy for plain HTTP reads each request, so each one carries the credentials.
        let proxy = self.proxies.reading(target);
        if let Some(auth) = proxy.as_ref().and_then(Intercept::basic_auth) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, auth.clone());
        }
        let sent = self.client.request(request.map(Full::new)).await;
        let response = sent.map_err(|error| {
            let shown = self.shows_identity(target);
            FetchError::from_client(&error, target, self.options.connect_timeout, shown)
        })?;
        match proxy {
            Some(proxy) if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err(FetchError::proxy_wants_credentials(proxy.uri(), target))
            }
            _ => Ok(response.map(FetchBody::from)),
        }
    }
}

/// Enough for a trailing slash and a moved path; more is a loop.
const MAX_REDIRECTS: usize = 5;
/// Idle connections to one server; more are closed after use.
const MAX_IDLE: usize = 256;
/// How often a connection with a silent stream proves that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Refuses targets that we cannot send to.
fn check_target(target: &Uri) -> Result<(), FetchError> {
    let is_web = target.scheme() == Some(&Scheme::HTTP) || target.scheme() == Some(&Scheme::HTTPS);
    match target.host() {
        Some(host) if is_web && !host.is_empty() => Ok(()),
        _ => Err(FetchError::BadUrl),
    }
}

/// Where `response` sends us, if anywhere and if we may go there.
fn redirect_target<B>(from: &Uri, response: &Response<B>) -> Result<Option<Uri>, FetchError> {
    let status = response.status();
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    let target = location.to_str().ok().and_then(|location| resolve(from, location));
    let keeps_method = matches!(status.as_u16(), 307 | 308);
    match target {
        Some(target) if keeps_method && is_same_origin(from, &target) => Ok(Some(target)),
        Some(target) => Err(FetchError::RedirectRefused { status, origin: origin_of(&target) }),
        None => Err(FetchError::RedirectRefused { status, origin: "nowhere".to_owned() }),
    }
}

/// The `Host` of requests to a plain HTTP URL. Where HTTP/2 may be spoken, hyper decides.
pub(crate) fn host_header(url: &Uri) -> Option<HeaderValue> {
    origin_of(url).strip_prefix("http://").and_then(|host| HeaderValue::from_str(host).ok())
}

/// Whether both are of one scheme, host and port.
pub fn is_same_origin(one: &Uri, two: &Uri) -> bool {
    let port = |url: &Uri| url.port_u16().or(default_port(url));
    let host = |url: &Uri| url.host().map(str::to_ascii_lowercase);
    one.scheme() == two.scheme() && host(one) == host(two) && port(one) == port(two)
}

fn default_port(url: &Uri) -> Option<u16> {
    match url.scheme_str()? {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// A reference against the URL it was found at, as RFC 3986 5.2 has it.
pub fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next()?.trim();
    let scheme = base.scheme_str()?;
    let end = reference.find([':', '/', '?']);
    if end.is_some_and(|end| end > 0 && reference[end..].starts_with(':')) {
        return reference.parse().ok();
    }
    if reference.starts_with("//") {
        return format!("{scheme}:{reference}").parse().ok();
    }
    let (path, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
    let directory = base.path().rfind('/').map_or("/", |at| &base.path()[..=at]);
    let target = match path {
        "" if query.is_empty() => base.path_and_query()?.to_string(),
        "" => format!("{}{query}", base.path()),
        _ if path.starts_with('/') => format!("{}{query}", without_dots(path)),
        _ => format!("{}{query}", without_dots(&format!("{directory}{path}"))),
    };
    format!("{scheme}://{}{target}", base.authority()?).parse().ok()
}

fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            _ => kept.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_where_the_rfc_says() {
        let base = Uri::from_static("http://host:81/a/b/mcp?x=1");
        for (reference, expected) in [
            ("/mcp/", "http://host:81/mcp/"),
            ("other", "http://host:81/a/b/other"),
            ("./other?y#part", "http://host:81/a/b/other?y"),
            ("../c", "http://host:81/a/c"),
            ("../../../c", "http://host:81/c"),
            ("..", "http://host:81/a/"),
            ("?y=2", "http://host:81/a/b/mcp?y=2"),
            ("#part", "http://host:81/a/b/mcp?x=1"),
            ("//other/c", "http://other/c"),
            ("https://other:8443/c", "https://other:8443/c"),
            ("/c?next=http://x/../y", "http://host:81/c?next=http://x/../y"),
        ] {
            assert_eq!(resolve(&base, reference).unwrap(), *expected, "{reference}");
        }
    }

    #[test]
    fn the_host_of_a_plain_url_has_no_credentials_and_no_usual_port() {
        for (url, host) in [
            ("http://host/mcp", Some("host")),
            ("http://host:80/mcp", Some("host")),
            ("http://user:secret@host:81/mcp", Some("host:81")),
            ("http://[::1]:3000/mcp", Some("[::1]:3000")),
            ("https://host/mcp", None),
        ] {
            let found = host_header(&Uri::from_static(url));
            assert_eq!(found.as_ref().map(HeaderValue::as_bytes), host.map(str::as_bytes), "{url}");
        }
    }

    #[test]
    fn only_method_preserving_redirects_within_the_origin_are_followed() {
        // wire: MH-18, OLD-3
        let from = Uri::from_static("http://host/mcp");
        for (status, location, expected) in [
            (307, "/mcp/", "goes to http://host/mcp/"),
            (308, "http://HOST:80/mcp/", "goes to http://HOST:80/mcp/"),
            (301, "/mcp/", "http://host"),
            (302, "/mcp/", "http://host"),
            (303, "/mcp/", "http://host"),
            (307, "https://host/mcp", "https://host"),
            (307, "http://host:81/mcp", "http://host:81"),
            (308, "//user:secret@evil.example/mcp", "http://evil.example"),
            (308, "http://host@evil.example/", "http://evil.example"),
            (308, "http://[bad", "nowhere"),
            (304, "/mcp/", "stays"),
            (200, "/mcp/", "stays"),
        ] {
            let response = Response::builder().status(status).header(LOCATION, location).body(());
            let found = match redirect_target(&from, &response.unwrap()) {
                Ok(Some(target)) => format!("goes to {target}"),
                Ok(None) => "stays".to_owned(),
                Err(FetchError::RedirectRefused { origin, .. }) => origin,
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found, expected, "{status} {location}");
        }
    }
}
