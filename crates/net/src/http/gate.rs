//! Who comes in: the seam between a site and whoever knows people.
//!
//! A site asks its [`Gate`] about every request but preflights, before it reads
//! anything of it. The gate says who that is, or turns them away:
//!
//! ```text
//!   request ──▶ guard: from where? ──▶ gate: who? ──┬─▶ Who: the endpoint
//!                                                   └─▶ GateDenial: 401, 403, 404
//! ```
//!
//! [`ApiKey`] is a gate with one key; the gateway has one
//! with many. One for OAuth goes here too: it checks the bearer token as a
//! resource server does, names its subject, and says in the challenge of
//! [`GateDenial::unknown`] where its metadata are. It answers at once, so the keys
//! of the issuer it has to fetch beforehand.

use std::fmt;
use std::sync::Arc;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use ring::digest::{Digest, SHA256, digest};

use super::Body;
use super::site::{nothing_at, plain};
use crate::who::Who;

/// Decides who may come in.
pub trait Gate: fmt::Debug + Send + Sync + 'static {
    /// Who sends a request with these headers, or what they are told.
    fn admit(&self, headers: &HeaderMap) -> Result<Who, GateDenial>;

    /// Whether somebody of this name who came in earlier may stay, if what they showed is
    /// still [current](crate::who::Standing::is_current); asked by
    /// [`Site::recheck`](super::site::Site::recheck).
    fn keeps(&self, _name: &str) -> bool {
        true
    }
}

/// What somebody gets who does not come in.
#[derive(Clone, Debug)]
pub struct GateDenial {
    status: StatusCode,
    challenge: Option<HeaderValue>,
    text: String,
}

impl GateDenial {
    /// They have not shown who they are (401); `challenge` says how to.
    pub fn unknown(challenge: HeaderValue, text: impl Into<String>) -> Self {
        let challenge = Some(challenge);
        Self { status: StatusCode::UNAUTHORIZED, challenge, text: text.into() }
    }

    /// They are known, and this is not for them (403).
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, challenge: None, text: text.into() }
    }

    /// They are known, and are not to know that something is here (404): just
    /// what [`Sites`](super::sites::Sites) says of a path that it does not have.
    pub fn nothing_here(endpoint: &str) -> Self {
        Self { status: StatusCode::NOT_FOUND, challenge: None, text: nothing_at(endpoint) }
    }

    /// Whether it is not even known who they are.
    pub(super) fn is_unknown(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    pub(super) fn response(self) -> Response<Body> {
        let mut response = plain(self.status, format!("{}\n", self.text.trim_end()));
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Asks a gate, if there is one.
pub(super) fn admit(gate: Option<&Arc<dyn Gate>>, headers: &HeaderMap) -> Result<Who, GateDenial> {
    gate.map_or_else(|| Ok(Who::default()), |gate| gate.admit(headers))
}

/// Whoever makes a request without a name, as far as it says: who has another
/// token is somebody else (MRTR-8). The token itself is not kept.
pub(super) fn mark_by_token(who: &Who, headers: &HeaderMap) -> Who {
    let token = headers.get(AUTHORIZATION).filter(|_| who.name().is_empty());
    let Some(token) = token else { return who.clone() };
    let digest = digest(&SHA256, token.as_bytes());
    // No name begins like this.
    let mark =
        digest.as_ref().iter().fold("\0".to_owned(), |mark, byte| format!("{mark}{byte:02x}"));
    who.clone().marked(mark)
}

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A key that every client must show, as `X-API-Key` or as a bearer token.
///
/// It does not tell one client from another. It is compared by its digest, so that
/// nobody learns how much of a guess was right.
#[derive(Clone)]
pub struct ApiKey {
    digest: Digest,
}

impl ApiKey {
    /// Whoever shows `key` is let in.
    pub fn new(key: &str) -> Self {
        Self { digest: digest(&SHA256, key.as_bytes()) }
    }

    /// Whether a request shows it.
    pub fn is_shown(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(bearer_token);
        let keys = headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes);
        // The digests are compared, and nobody can aim at one byte of a digest.
        keys.chain(bearer).any(|key| digest(&SHA256, key).as_ref() == self.digest.as_ref())
    }
}

fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().as_bytes())
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl Gate for ApiKey {
    /// Everybody who has the key is one.
    fn admit(&self, headers: &HeaderMap) -> Result<Who, GateDenial> {
        if self.is_shown(headers) {
            return Ok(Who::new("key"));
        }
        let text = "the API key is missing or wrong; send it as 'X-API-Key: KEY' or 'Authorization: Bearer KEY'";
        Err(GateDenial::unknown(HeaderValue::from_static("Bearer"), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_shown_as_such_or_as_a_bearer_token() {
        let key = ApiKey::new("s3cret");
        for (name, value, shown) in [
            ("x-api-key", "s3cret", true),
            ("x-api-key", "s3cre", false),
            ("x-api-key", "s3cret2", false),
            ("authorization", "Bearer s3cret", true),
            ("authorization", "bearer  s3cret", true),
            ("authorization", "Basic s3cret", false),
            ("authorization", "s3cret", false),
            ("cookie", "s3cret", false),
        ] {
            let name: HeaderName = name.parse().unwrap();
            let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
            assert_eq!(key.is_shown(&headers), shown, "{headers:?}");
        }
        assert!(!key.is_shown(&HeaderMap::new()));
        assert!(!format!("{key:?}").contains("s3cret"));
    }
}
