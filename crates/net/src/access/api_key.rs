//! One key that every client must show.

use std::fmt;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{Digest, SHA256, digest};

use super::{AuthDenial, Authenticate, Who};

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
        // The digests are compared, and nobody can aim at one byte of a digest.
        shown_keys(headers).any(|key| digest(&SHA256, key).as_ref() == self.digest.as_ref())
    }
}

/// The keys that a request shows, as `X-API-Key` and as bearer tokens.
pub fn shown_keys(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(bearer_token);
    headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes).chain(bearer)
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

impl Authenticate for ApiKey {
    /// Everybody who has the key is one.
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        if self.is_shown(headers) {
            return Ok(Who::new("key"));
        }
        let text = "the API key is missing or wrong; send it as 'X-API-Key: KEY' or 'Authorization: Bearer KEY'";
        Err(AuthDenial::unknown(HeaderValue::from_static("Bearer"), text))
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
