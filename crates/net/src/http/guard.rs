//! Who may talk to an HTTP server: the `Host` and `Origin` checks, and CORS.
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
//! Pure: looks at the head of a request and at nothing else. Does not
//! authenticate anybody.

mod authority;
mod cors;

use std::net::SocketAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode, Version};
pub use regex::{Error as PatternError, Regex};

use authority::{Authority, Origin};
pub use cors::Grant;

/// The rules for one listener; cheap to ask, made once.
#[derive(Clone, Debug, Default)]
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
pub enum Refused {
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

impl Refused {
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
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.hosts.add(host);
        self
    }

    /// Also lets web pages of `origin` in, with CORS; `*` for all.
    #[must_use]
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.origins.add(origin.trim_end_matches('/'));
        self
    }

    /// Also lets web pages of every origin in that `pattern` finds itself in, with CORS.
    #[must_use]
    pub fn allow_origins_like(mut self, pattern: Regex) -> Self {
        self.origins.like.push(pattern);
        self
    }

    /// Lets listed pages also send the header `name`.
    #[must_use]
    pub fn allow_header(mut self, name: &HeaderName) -> Self {
        self.sendable.push(name.to_string());
        self
    }

    /// Lets listed pages also read the header `name`.
    #[must_use]
    pub fn expose_header(mut self, name: &HeaderName) -> Self {
        self.readable.push(name.to_string());
        self
    }

    /// Checks host and origin of a request.
    pub fn check(&self, parts: &Parts) -> Result<(), Refused> {
        let host = self.check_host(parts)?;
        self.check_origin(&parts.headers, host)
    }

    fn check_host<'a>(&self, parts: &'a Parts) -> Result<Option<Authority<'a>>, Refused> {
        let target = parts.uri.authority().map(http::uri::Authority::as_str);
        let header = single(&parts.headers, HOST).map_err(|_| Refused::HostMalformed)?;
        if target.is_none() && header.is_none() {
            // Browsers do not speak HTTP/1.0, health checks do.
            let excused = self.hosts.all || parts.version <= Version::HTTP_10;
            return if excused { Ok(None) } else { Err(Refused::HostMissing) };
        }
        let mut host = None;
        // Where a request names two hosts, a service behind us may look at either.
        for text in [header, target].into_iter().flatten() {
            let authority = Authority::parse(text).ok_or(Refused::HostMalformed)?;
            if !self.knows(&authority) {
                return Err(Refused::HostUnknown { host: text.to_owned() });
            }
            host = Some(authority);
        }
        Ok(host)
    }

    fn check_origin(
        &self,
        headers: &HeaderMap,
        host: Option<Authority<'_>>,
    ) -> Result<(), Refused> {
        let refused = |text: &str| Err(Refused::OriginNotAllowed { origin: text.to_owned() });
        let text = match single(headers, ORIGIN) {
            Ok(None) => return Ok(()),
            Ok(Some(text)) => text,
            Err(Unclear) if self.any_origin || self.origins.all => return Ok(()),
            Err(Unclear) => return refused("(unclear)"),
        };
        if self.any_origin || self.origins.contains(text) {
            return Ok(());
        }
        let Some(origin) = Origin::parse(text) else { return refused(text) };
        let is_own = host.is_some_and(|host| {
            host == origin.authority && (host.is_address() || self.hosts.lists(&host))
        });
        let is_let = origin.is_web && is_own || self.is_local(&origin);
        if is_let { Ok(()) } else { refused(text) }
    }

    /// Whether it is a page of this machine, which only this machine can reach.
    fn is_local(&self, origin: &Origin<'_>) -> bool {
        self.loopback && origin.is_web && origin.authority.is_loopback()
    }

    fn knows(&self, host: &Authority<'_>) -> bool {
        self.hosts.all || (self.loopback && host.is_loopback()) || self.hosts.lists(host)
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
            listed.host == host.host && (listed.port.is_none() || listed.port == host.port)
        })
    }
}

/// Several values, or one that is not text.
struct Unclear;

fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Unclear> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Unclear),
        _ => Err(Unclear),
    }
}
