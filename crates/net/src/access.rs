//! Who may talk to us: from where (`Host`, `Origin`, CORS), and as whom.
//!
//! ```text
//!   request ──▶ Guard: from where? ──▶ Authenticate: who? ───┬─▶ Who: the endpoint
//!                                                            ├─▶ AuthDenial: 401, 403, 404 …
//!                                                            └─▶ later: keys are fetched first
//! ```
//!
//! [`Guard`] has the rules for where requests come from.
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
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use ring::digest::{SHA256, digest};

use crate::http::Body;
use crate::http::listen::ClientPeer;
use crate::http::site::{nothing_at, plain};

pub use crate::who::{Standing, Who};
pub use api_key::{ApiKey, shown_keys};
pub use guard::{CorsGrant, Guard, GuardError};
pub use regex::{Error as PatternError, Regex};

mod api_key;
mod guard;

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

    /// Whether it came by TLS, to a listener of ours.
    pub fn is_secure(&self) -> bool {
        self.parts.extensions.get().is_some_and(ClientPeer::is_secure)
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
