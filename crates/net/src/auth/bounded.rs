//! Asks an issuer that the administrator named: small documents, in little time.
//!
//! Addresses are not checked here beyond https, or http on loopback. So this is not for
//! addresses that strangers name.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Map, Value};
use switchboard_proto::auth::{basic_authorization, form, is_loopback};

use crate::http::fetch::{Fetch, FetchBody, FetchError};

/// For one document, from the first byte sent to the last received.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no document.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Neither https nor loopback.
    #[error("{url} is neither https nor on this machine")]
    BadUrl { url: String },
    /// Nobody is there.
    #[error("{url} cannot be reached: {source}")]
    Unreachable { url: String, source: FetchError },
    /// Another status than 200.
    #[error("{url} answered with HTTP {status}")]
    Status { url: String, status: StatusCode },
    /// The answer is too long, or does not end.
    #[error("the answer of {url} is longer than {most} bytes, or breaks off")]
    TooLong { url: String, most: usize },
    /// It took more than [`FETCH_TIMEOUT`].
    #[error("{url} did not answer in time")]
    TooSlow { url: String },
    /// No JSON object.
    #[error("the answer of {url} is no JSON object")]
    NotJson { url: String },
}

/// A document, and how long it may be kept.
#[derive(Debug)]
pub struct AskedDocument {
    /// The JSON object.
    pub object: Map<String, Value>,
    /// `max-age` of the answer.
    pub max_age: Option<Duration>,
}

/// Whether an issuer may be asked here: https, or http on this machine.
pub fn is_safe_url(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    match url.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_loopback(host),
        _ => false,
    }
}

/// Reads a JSON object of at most so many bytes.
pub async fn get(fetch: &Fetch, url: &str, most: usize) -> Result<AskedDocument, AskError> {
    let request = Request::builder().method(Method::GET);
    ask(fetch, url, request, Bytes::new(), most).await
}

/// Reads a JSON object that is only for the bearer of a token.
pub async fn get_as(
    fetch: &Fetch,
    url: &str,
    token: &str,
    most: usize,
) -> Result<AskedDocument, AskError> {
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| AskError::BadUrl { url: url.to_owned() })?;
    bearer.set_sensitive(true);
    let request = Request::builder().method(Method::GET).header(AUTHORIZATION, bearer);
    ask(fetch, url, request, Bytes::new(), most).await
}

/// Sends a form, authenticated by an id and a secret, and reads a JSON object. It follows no redirect.
pub async fn post_form(
    fetch: &Fetch,
    url: &str,
    (id, secret): (&str, &str),
    pairs: &[(&str, &str)],
    most: usize,
) -> Result<AskedDocument, AskError> {
    let body = form(pairs.iter().copied());
    let mut basic = HeaderValue::try_from(basic_authorization(id, secret).reveal())
        .map_err(|_| AskError::BadUrl { url: url.to_owned() })?;
    basic.set_sensitive(true);
    let request = Request::builder().method(Method::POST).header(AUTHORIZATION, basic);
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    ask(fetch, url, request, body.into(), most).await
}

async fn ask(
    fetch: &Fetch,
    url: &str,
    request: http::request::Builder,
    body: Bytes,
    most: usize,
) -> Result<AskedDocument, AskError> {
    let told = || url.to_owned();
    let target: Uri = url.parse().map_err(|_| AskError::BadUrl { url: told() })?;
    if !is_safe_url(&target) {
        return Err(AskError::BadUrl { url: told() });
    }
    let request = request.uri(target).header(ACCEPT, "application/json").body(body);
    let request = request.map_err(|_| AskError::BadUrl { url: told() })?;
    let asked = async {
        let sent = fetch.send_once(request).await;
        read(url, sent.map_err(|source| AskError::Unreachable { url: told(), source })?, most).await
    };
    let late = |_| AskError::TooSlow { url: told() };
    tokio::time::timeout(FETCH_TIMEOUT, asked).await.map_err(late)?
}

async fn read(
    url: &str,
    response: Response<FetchBody>,
    most: usize,
) -> Result<AskedDocument, AskError> {
    let url = || url.to_owned();
    let status = response.status();
    if status != StatusCode::OK {
        return Err(AskError::Status { url: url(), status });
    }
    let max_age = response.headers().get_all(CACHE_CONTROL).iter().find_map(max_age);
    let body = Limited::new(response.into_body(), most).collect().await;
    let body = body.map_err(|_| AskError::TooLong { url: url(), most })?.to_bytes();
    let object = serde_json::from_slice(&body).map_err(|_| AskError::NotJson { url: url() })?;
    Ok(AskedDocument { object, max_age })
}

fn max_age(value: &HeaderValue) -> Option<Duration> {
    let mut words = value.to_str().ok()?.split(',').map(str::trim);
    let seconds = words.find_map(|word| {
        let (name, seconds) = word.split_once('=')?;
        name.eq_ignore_ascii_case("max-age").then(|| seconds.trim_matches('"').parse().ok())?
    });
    seconds.map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_asked_over_tls_or_on_this_machine() {
        for (url, is_safe) in [
            ("https://idp.example/x", true),
            ("http://127.0.0.1:1/", true),
            ("http://[::1]:1/", true),
            ("http://localhost/", true),
            ("http://idp.example/", false),
            ("http://localhost.evil.example/", false),
            ("ftp://127.0.0.1/", false),
            ("/path", false),
        ] {
            assert_eq!(is_safe_url(&Uri::from_static(url)), is_safe, "{url}");
        }
    }

    #[test]
    fn documents_say_how_long_they_may_be_kept() {
        for (value, seconds) in [
            ("max-age=60", Some(60)),
            ("public, Max-Age=\"61\", must-revalidate", Some(61)),
            ("no-store", None),
            ("s-maxage=5", None),
        ] {
            let found = max_age(&HeaderValue::from_static(value));
            assert_eq!(found, seconds.map(Duration::from_secs), "{value}");
        }
    }
}
