//! Who may talk to us: from where (`Host`, `Origin`, CORS), and as whom.
//!
//! ```text
//!   request ──▶ Guard: from where? ──▶ Authenticate: who? ───┬─▶ Who: the endpoint
//!                                                            ├─▶ AuthDenial: 401, 403, 404 …
//!                                                            └─▶ later: keys are fetched first
//! ```
//!
//! # From where
//!
//! A web page can reach a server on the user's own machine by letting its own
//! name resolve to 127.0.0.1 (DNS rebinding). The browser then sends that name as
//! `Host` and `Origin`, which is how we tell. Rules, in the order they apply:
//!
//! 1. The host (`Host`, or the authority of the target) must be known: a loopback
//!    name or address on any port, the address we are bound to, or a listed one.
//! 2. No `Origin`: not a browser, passes.
//! 3. A listed origin passes, and is granted CORS.
//! 4. A loopback origin passes where loopback hosts do, and is granted CORS.
//! 5. The server's own origin passes if its host cannot be rebound: it is an
//!    address, or a listed name.
//!
//! # As whom
//!
//! A site asks its [`Authenticate`] about every request but preflights, before it reads
//! anything of it. [`ApiKey`] is one with a single key; the gateway has one
//! with many, and with the access tokens of issuers. It answers at once, or with a
//! future if it must ask an issuer first ([`AuthAnswer`]). What a client lacks for one
//! call is said before a stream opens ([`Authenticate::step_up`]).
//!
//! The [`Who`] that it returns stays with the client's connection. Its identity is what
//! sessions, tasks, parked calls and connections are bound to: the name, or what the
//! authenticator tells apart under one name. What was shown to prove it is not kept.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HOST, ORIGIN, RETRY_AFTER, VARY,
    WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use ring::digest::{SHA256, digest};

use crate::http::Body;
use crate::http::listen::ClientPeer;
use crate::http::site::{nothing_at, plain};

pub use api_key::{ApiKey, shown_keys};
pub use regex::{Error as PatternError, Regex};
pub(crate) use who::{SessionPermit, Turns};
pub use who::{Standing, Who};

mod api_key;
mod who;

/// The rules for one listener; cheap to ask, made once.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Guard {
    hosts: Allowed,
    origins: Allowed,
    /// Whether loopback names and addresses count as known.
    loopback: bool,
    /// Whether an origin need not be known at all.
    any_origin: bool,
    /// Headers that pages may send and read beside the usual ones.
    sendable: Vec<String>,
    readable: Vec<String>,
}

/// Names a user listed, lower case, or all names.
#[derive(Clone, Debug, Default)]
struct Allowed {
    all: bool,
    listed: Vec<String>,
    like: Vec<Regex>,
}

/// The request comes from where it must not come from.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GuardError {
    /// More than one `Host`, or one that is no host: RFC 9112 asks for 400.
    #[error("host header is malformed")]
    HostMalformed,
    /// HTTP/1.1 and later must say which host they mean.
    #[error("host header is missing")]
    HostMissing,
    /// A name that is not ours; the user may list it as an allowed host.
    #[error("host {host:?} is not served here")]
    HostUnknown { host: String },
    /// A web page that the user has not listed as an allowed origin.
    #[error("origin {origin:?} is not allowed here")]
    OriginNotAllowed { origin: String },
}

impl GuardError {
    /// What to answer with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::HostMalformed | Self::HostMissing => StatusCode::BAD_REQUEST,
            Self::HostUnknown { .. } | Self::OriginNotAllowed { .. } => StatusCode::FORBIDDEN,
        }
    }
}

impl Guard {
    /// For a server that only this machine can reach.
    pub fn loopback() -> Self {
        Self { loopback: true, ..Self::default() }
    }

    /// Lets everybody through: for servers behind something that guards them.
    pub fn open() -> Self {
        Self { any_origin: true, ..Self::default() }.allow_host("*")
    }

    /// What fits a listener at `address`: on loopback as [`loopback`](Self::loopback), elsewhere
    /// any host (we cannot know our names) but only listed or own origins.
    pub fn bound_to(address: SocketAddr) -> Self {
        if address.ip().to_canonical().is_loopback() {
            Self::loopback().allow_host(&address.to_string())
        } else {
            Self::default().allow_host("*")
        }
    }

    /// Also serves `host`: `name` for every port, `name:port` for one, `*` for all.
    pub fn allow_host(mut self, host: &str) -> Self {
        self.hosts.add(host);
        self
    }

    /// Also lets web pages of `origin` in, with CORS; `*` for all.
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.origins.add(origin.trim_end_matches('/'));
        self
    }

    /// Also lets web pages of every origin in that `pattern` finds itself in, with CORS.
    pub fn allow_origins_like(mut self, pattern: Regex) -> Self {
        self.origins.like.push(pattern);
        self
    }

    /// Lets listed pages also send the header `name`.
    pub fn allow_header(mut self, name: &HeaderName) -> Self {
        self.sendable.push(name.to_string());
        self
    }

    /// Lets listed pages also read the header `name`.
    pub fn expose_header(mut self, name: &HeaderName) -> Self {
        self.readable.push(name.to_string());
        self
    }

    /// Checks host and origin of a request.
    pub fn check(&self, parts: &Parts) -> Result<(), GuardError> {
        let host = self.check_host(parts)?;
        self.check_origin(&parts.headers, host)
    }

    /// The host that a request names, if it is known by name or is this machine. Where any
    /// host is served, the name that a request has proves nothing.
    fn known_host<'a>(&self, parts: &'a Parts) -> Option<&'a str> {
        let target = parts.uri.authority().map(http::uri::Authority::as_str);
        let text = target.or_else(|| single(&parts.headers, HOST).ok().flatten())?;
        self.knows(text).then_some(text)
    }

    fn knows(&self, host: &str) -> bool {
        let host = Authority::parse(host);
        host.is_some_and(|host| self.is_local(&host) || self.hosts.lists(&host))
    }

    pub(crate) fn check_host<'a>(
        &self,
        parts: &'a Parts,
    ) -> Result<Option<Authority<'a>>, GuardError> {
        let target = parts.uri.authority().map(http::uri::Authority::as_str);
        let header = single(&parts.headers, HOST).map_err(|()| GuardError::HostMalformed)?;
        if target.is_none() && header.is_none() {
            // Browsers do not speak HTTP/1.0, health checks do.
            let excused = self.hosts.all || parts.version <= Version::HTTP_10;
            return if excused { Ok(None) } else { Err(GuardError::HostMissing) };
        }
        let mut host = None;
        // Where a request names two hosts, a service behind us may look at either.
        for text in [header, target].into_iter().flatten() {
            let authority = Authority::parse(text).ok_or(GuardError::HostMalformed)?;
            let is_known =
                self.hosts.all || self.is_local(&authority) || self.hosts.lists(&authority);
            if !is_known {
                return Err(GuardError::HostUnknown { host: text.to_owned() });
            }
            host = Some(authority);
        }
        Ok(host)
    }

    fn check_origin(
        &self,
        headers: &HeaderMap,
        host: Option<Authority<'_>>,
    ) -> Result<(), GuardError> {
        let refused = |text: &str| Err(GuardError::OriginNotAllowed { origin: text.to_owned() });
        let text = match single(headers, ORIGIN) {
            Ok(None) => return Ok(()),
            Ok(Some(text)) => text,
            Err(()) if self.any_origin || self.origins.all => return Ok(()),
            Err(()) => return refused("(unclear)"),
        };
        if self.any_origin || self.origins.contains(text) {
            return Ok(());
        }
        let Some(origin) = web_origin(text) else { return refused(text) };
        let is_own = host.is_some_and(|host| {
            // No DNS server can point an address elsewhere.
            let is_fixed = host.address.is_some() || self.hosts.lists(&host);
            host.is_host_of(&origin) && host.port == origin.port && is_fixed
        });
        if is_own || self.is_local(&origin) { Ok(()) } else { refused(text) }
    }

    /// Whether it is this machine, as only this machine can reach it, whatever DNS says.
    fn is_local(&self, host: &Authority<'_>) -> bool {
        let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
        let is_named = host.name.eq_ignore_ascii_case("localhost");
        self.loopback && host.address.map_or(is_named, is_loopback)
    }
}

impl Allowed {
    fn add(&mut self, text: &str) {
        match text.trim() {
            "*" => self.all = true,
            text => self.listed.push(text.to_ascii_lowercase()),
        }
    }

    fn contains(&self, text: &str) -> bool {
        self.all
            || self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(text))
            || self.like.iter().any(|pattern| pattern.is_match(text))
    }

    /// Whether `host` is listed by name; `*` lists nobody.
    fn lists(&self, host: &Authority<'_>) -> bool {
        self.listed.iter().filter_map(|listed| Authority::parse(listed)).any(|listed| {
            listed.is_host_of(host) && (listed.port.is_none() || listed.port == host.port)
        })
    }
}

/// The value of a header; an error if there are several, or one that is not text.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        _ => Err(()),
    }
}

/// A host and the port that was written, if any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authority<'a> {
    name: &'a str,
    /// If the name is one.
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// `None` for anything that is not exactly a host with an optional port:
    /// userinfo, spaces, an IPv6 address without brackets, port 70000.
    fn parse(text: &'a str) -> Option<Self> {
        let (name, address, rest) = if let Some(rest) = text.strip_prefix('[') {
            let (name, rest) = rest.split_once(']')?;
            (name, Some(name.parse::<Ipv6Addr>().ok()?.into()), rest)
        } else {
            let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (name, name.parse::<Ipv4Addr>().ok().map(IpAddr::from), rest)
        };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if address.is_none() && (name.is_empty() || !name.bytes().all(fits)) {
            return None;
        }
        let port = match rest.strip_prefix(':') {
            // `parse` alone would take a sign.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            None if rest.is_empty() => None,
            _ => return None,
        };
        Some(Self { name, address, port })
    }

    fn is_host_of(&self, other: &Authority<'_>) -> bool {
        match (self.address, other.address) {
            (None, None) => self.name.eq_ignore_ascii_case(other.name),
            (one, two) => one == two,
        }
    }
}

/// The host of an `Origin` that a web page can have, unlike `vscode-webview://` and the
/// like; `null` has none.
fn web_origin(text: &str) -> Option<Authority<'_>> {
    let (scheme, authority) = text.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    Authority::parse(authority).filter(|_| is_web)
}

/// The CORS headers that let a page of another origin read an answer. Only origins that
/// the user listed get them, and those of this machine where it serves itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CorsGrant {
    origin: HeaderValue,
    readable: HeaderValue,
}

impl Guard {
    /// The CORS grant for the answer to this request, if its origin is listed or local.
    pub fn grant(&self, headers: &HeaderMap) -> Option<CorsGrant> {
        let text = single(headers, ORIGIN).ok().flatten()?;
        let origin = match headers.get(ORIGIN) {
            _ if self.origins.all => HeaderValue::from_static("*"),
            origin => {
                let is_local = |text| web_origin(text).is_some_and(|it| self.is_local(&it));
                origin.filter(|_| self.origins.contains(text) || is_local(text))?.clone()
            }
        };
        let readable = listing(EXPOSED, self.readable.iter().map(String::as_str));
        Some(CorsGrant { origin, readable })
    }

    /// The headers of a 204 answer, if the request is a preflight of such an origin.
    pub fn preflight(&self, parts: &Parts) -> Option<HeaderMap> {
        let asks = parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let grant =
            self.grant(&parts.headers).filter(|_| asks && parts.method == Method::OPTIONS)?;
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        // Ours, those that the user lists, and those `Mcp-Param-*` that the page asks
        // for: their names are not known beforehand.
        let asked = single(&parts.headers, ACCESS_CONTROL_REQUEST_HEADERS).ok().flatten();
        let asked = asked.unwrap_or_default().split(',').map(str::trim);
        let parameters = asked.filter(|name| {
            let start = name.get(..PARAMETER.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(PARAMETER))
        });
        let sendable = self.sendable.iter().map(String::as_str).chain(parameters);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, listing(HEADERS, sendable));
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        grant.apply(&mut headers);
        Some(headers)
    }
}

impl CorsGrant {
    /// Adds the grant to the headers of an answer.
    pub fn apply(&self, headers: &mut HeaderMap) {
        if self.origin != "*" {
            // Without it a cache could hand one origin the grant of another.
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, self.readable.clone());
    }
}

/// `usual`, and `more`.
fn listing<'a>(usual: &'static str, more: impl Iterator<Item = &'a str>) -> HeaderValue {
    let list = [usual].into_iter().chain(more).collect::<Vec<_>>().join(", ");
    HeaderValue::try_from(list).unwrap_or(HeaderValue::from_static(usual))
}

const PARAMETER: &str = "mcp-param-";
const HEADERS: &str = "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, x-api-key";
const EXPOSED: &str = "mcp-session-id, retry-after, www-authenticate";
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
/// Two hours, in seconds: the longest that browsers honour.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// A request that asks to come in.
#[derive(Clone, Copy, Debug)]
pub struct EntryRequest<'r> {
    parts: &'r Parts,
    guard: &'r Guard,
}

impl<'r> EntryRequest<'r> {
    pub(crate) fn new(parts: &'r Parts, guard: &'r Guard) -> Self {
        Self { parts, guard }
    }

    /// Its headers.
    pub fn headers(&self) -> &'r HeaderMap {
        &self.parts.headers
    }

    /// The path that it asks for.
    pub fn path(&self) -> &'r str {
        self.parts.uri.path()
    }

    /// The host and port that it names, if that is listed or this machine.
    pub fn known_host(&self) -> Option<&'r str> {
        self.guard.known_host(self.parts)
    }

    /// Whether a host, with its port if there is one, is listed or this machine.
    pub fn knows_host(&self, host: &str) -> bool {
        self.guard.knows(host)
    }

    /// The address that it came from, if it came by a listener of ours.
    pub fn peer(&self) -> Option<IpAddr> {
        self.parts.extensions.get::<ClientPeer>()?.address()
    }
}

/// Whether a request may come in, at once or when that is known.
pub enum AuthAnswer {
    /// As whom, or why not.
    Now(Result<Who, AuthDenial>),
    /// The same, once somebody else was asked.
    Later(Pin<Box<dyn Future<Output = Result<Who, AuthDenial>> + Send>>),
}

/// Decides who may come in.
pub trait Authenticate: fmt::Debug + Send + Sync + 'static {
    /// Who sends a request with these headers, or what they are told.
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial>;

    /// The same for those who look at more than the headers, or cannot say at once.
    fn admit(&self, request: EntryRequest<'_>) -> AuthAnswer {
        AuthAnswer::Now(self.authenticate(request.headers()))
    }

    /// Whether somebody who came in earlier may stay, if what they showed is
    /// still [current](Standing::is_current); asked by
    /// [`Site::recheck`](crate::http::site::Site::recheck).
    fn keeps(&self, _who: &Who) -> bool {
        true
    }

    /// What somebody is told who lacks these scopes for what they ask.
    fn step_up(&self, _request: EntryRequest<'_>, _scope: &str) -> AuthDenial {
        AuthDenial::forbidden("this is not for you")
    }

    /// A page under `/.well-known/` that is for everybody, as JSON: how to come in here.
    fn page(&self, _request: EntryRequest<'_>) -> Option<String> {
        None
    }
}

/// What somebody gets who does not come in.
#[derive(Clone, Debug)]
pub struct AuthDenial {
    pub(crate) status: StatusCode,
    challenge: Option<HeaderValue>,
    /// Seconds after which it may be otherwise.
    retry: Option<u16>,
    text: String,
}

impl AuthDenial {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, challenge: None, retry: None, text: text.into() }
    }

    /// They have not shown who they are (401); `challenge` says how to.
    pub fn unknown(challenge: HeaderValue, text: impl Into<String>) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, text) }
    }

    /// What they show cannot be read (400).
    pub fn unclear(challenge: HeaderValue, text: impl Into<String>) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::BAD_REQUEST, text) }
    }

    /// They are known, and this is not for them (403).
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// They are known, and need more than they show (403); `challenge` says what.
    pub fn insufficient(challenge: HeaderValue, text: impl Into<String>) -> Self {
        Self { challenge: Some(challenge), ..Self::forbidden(text) }
    }

    /// It cannot be told at this time who they are (503).
    pub fn unavailable(retry: u16, text: impl Into<String>) -> Self {
        Self { retry: Some(retry), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, text) }
    }

    /// They are known, and are not to know that something is here (404): just
    /// what [`Sites`](crate::http::site::Sites) says of a path that it does not have.
    pub fn nothing_here(endpoint: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, nothing_at(endpoint))
    }

    pub(crate) fn response(self) -> Response<Body> {
        let mut response = plain(self.status, format!("{}\n", self.text.trim_end()));
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.retry {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Asks an authenticator, if there is one.
pub(crate) async fn authenticate(
    authenticator: Option<&Arc<dyn Authenticate>>,
    request: EntryRequest<'_>,
) -> Result<Who, AuthDenial> {
    match authenticator.map(|it| it.admit(request)) {
        None => Ok(Who::default()),
        Some(AuthAnswer::Now(admitted)) => admitted,
        Some(AuthAnswer::Later(admitted)) => admitted.await,
    }
}

/// Whoever makes a request without a name, as far as it says: who has another
/// token is somebody else (MRTR-8). The token itself is not kept.
pub(crate) fn mark_by_token(who: Who, headers: &HeaderMap) -> Who {
    let token = headers.get(AUTHORIZATION).filter(|_| who.name().is_empty());
    let Some(token) = token else { return who };
    let digest = digest(&SHA256, token.as_bytes());
    // No name begins like this.
    let mark =
        digest.as_ref().iter().fold("\0".to_owned(), |mark, byte| format!("{mark}{byte:02x}"));
    who.marked(mark)
}
