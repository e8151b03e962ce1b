//! From where requests may come: `Host`, `Origin`, CORS.
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

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use regex::Regex;

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
    pub(super) fn known_host<'a>(&self, parts: &'a Parts) -> Option<&'a str> {
        let target = parts.uri.authority().map(http::uri::Authority::as_str);
        let text = target.or_else(|| single(&parts.headers, HOST).ok().flatten())?;
        self.knows(text).then_some(text)
    }

    pub(super) fn knows(&self, host: &str) -> bool {
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
