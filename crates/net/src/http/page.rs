//! Pages beside the sites: words and numbers to read ([`SitePage`]), and pages that answer for
//! themselves with forms, redirects and small documents, below a path.
//!
//! A [`LivePage`] is for everybody who names a host of ours: it needs no key, and does its own
//! checks. What it gets is bounded. [`html`] makes all that people see: no script, nothing from
//! elsewhere, in no frame, kept by nobody, and every text goes through [`escape`].

use std::fmt;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use ring::digest::{SHA256, digest};
use tokio::sync::mpsc;

use super::body::{Body, RequestBody};
use super::endpoint;
use super::listen::{ClientPeer, network};
use super::site::{Sites, plain, same_path};
use crate::access::Guard;
use crate::drive::OwnedTask;

/// Bytes of the body of a request, unless the page takes more: a form, or a small JSON document.
pub const MAX_VISIT_BODY: usize = 64 << 10;

/// Bodies of such requests that are read at a time, in all.
pub(super) const MAX_VISITS: usize = 256;

/// How long one of them may take to come.
const BODY_TIME: Duration = Duration::from_secs(10);

/// What a page says.
#[non_exhaustive]
pub enum SitePage {
    /// Always the same words.
    Text(String),
    /// JSON, made when it is asked for.
    Json(Box<dyn Fn(&Sites) -> String + Send + Sync>),
    /// Answers requests for its path and all below it, and does its own checks.
    Live(Arc<dyn LivePage>),
    /// Leads browsers to another path.
    Redirect(&'static str),
    /// Whether something is so: `ok`, or the status 503.
    Check(Box<dyn Fn() -> bool + Send + Sync>),
    /// Metrics in the text format of Prometheus, made when they are asked for.
    Metrics(Box<dyn Fn(&Sites) -> String + Send + Sync>),
}

impl SitePage {
    /// Whether it only says that we are well: it needs no key.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Check(_) | Self::Redirect(_))
    }

    pub(super) fn is_at(&self, place: &str, path: &str) -> bool {
        match self {
            Self::Live(_) => covers(place, path),
            _ => same_path(place, path),
        }
    }

    pub(super) fn read(&self, sites: &Sites, method: &Method) -> Response<Body> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "read it\n".to_owned());
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match self {
            Self::Text(text) => plain(StatusCode::OK, text.clone()),
            Self::Json(text) => endpoint::json(200, text(sites).into()),
            Self::Metrics(text) => {
                let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                let mut response = plain(StatusCode::OK, text(sites));
                response.headers_mut().insert(CONTENT_TYPE, media);
                response
            }
            Self::Redirect(path) => {
                let mut response = endpoint::empty(StatusCode::FOUND);
                response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(path));
                response
            }
            // It is asked before.
            Self::Live(_) => endpoint::empty(StatusCode::NOT_FOUND),
            Self::Check(is_so) if is_so() => plain(StatusCode::OK, "ok".to_owned()),
            Self::Check(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "not yet".to_owned()),
        }
    }
}

/// A page of an authenticator, which every program and web page may read (OR-1).
pub(super) fn show_to_all(guard: &Guard, page: String, parts: &Parts) -> Response<Body> {
    if let Err(refused) = guard.check_host(parts) {
        return plain(refused.status(), format!("{refused}\n"));
    }
    let mut response = match parts.method {
        Method::GET | Method::HEAD => endpoint::json(200, page.into()),
        Method::OPTIONS => endpoint::empty(StatusCode::NO_CONTENT),
        _ => endpoint::empty(StatusCode::METHOD_NOT_ALLOWED),
    };
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    // Clients send their protocol version along.
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    response
}

/// A request to a page.
#[derive(Clone)]
pub struct PageVisit {
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// What follows `?`; empty if nothing does.
    pub query: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Where it comes from, if that is known. Of IPv6 it is the network.
    pub address: Option<IpAddr>,
    /// Its body, of at most [`LivePage::max_body`] bytes.
    pub body: Bytes,
}

impl fmt::Debug for PageVisit {
    /// Queries, headers and bodies have codes and secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageVisit({} {})", self.method, self.path)
    }
}

/// What a page answers, now or later.
pub type PageReply<'p> = Pin<Box<dyn Future<Output = Response<Bytes>> + Send + 'p>>;

/// A page that answers requests for its path and for all paths below it.
pub trait LivePage: Send + Sync + 'static {
    /// Answers a request, of whatever method.
    fn visit(&self, visit: PageVisit) -> PageReply<'_>;

    /// Answers with a stream, if the request asks for one. Asked before [`LivePage::visit`].
    fn stream(&self, _visit: &PageVisit) -> Option<Response<PageStream>> {
        None
    }

    /// Bytes that the body of a request may have.
    fn max_body(&self, _parts: &Parts) -> usize {
        MAX_VISIT_BODY
    }
}

/// The body of a response that goes on: pieces as they come, from a task that ends when the
/// reader is gone.
#[derive(Debug)]
pub struct PageStream {
    /// The pieces. The sender waits while the reader is slow.
    pub pieces: mpsc::Receiver<Bytes>,
    /// Who sends them.
    pub task: OwnedTask,
}

/// The value of a cookie; none if the request has it twice.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = pairs.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
    let mut found = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    found.next().filter(|_| found.next().is_none())
}

/// Whether a page at `place` answers for `path`: both are the same, or the path is below.
pub(super) fn covers(place: &str, path: &str) -> bool {
    let rest = path.strip_prefix(place.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The whole of a request; why not, if it is too long or too slow.
pub(super) async fn receive(
    parts: Parts,
    body: impl RequestBody,
    most: usize,
) -> Result<PageVisit, (StatusCode, &'static str)> {
    let reading = tokio::time::timeout(BODY_TIME, read_body(body, most));
    let late = |_| (StatusCode::REQUEST_TIMEOUT, "the request took too long\n");
    let body = reading.await.map_err(late)??;
    let address = parts.extensions.get::<ClientPeer>().and_then(ClientPeer::address).map(network);
    let Parts { method, uri, headers, .. } = parts;
    let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
    Ok(PageVisit { method, path, query, headers, address, body })
}

async fn read_body(
    body: impl RequestBody,
    most: usize,
) -> Result<Bytes, (StatusCode, &'static str)> {
    let mut body = pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| (StatusCode::BAD_REQUEST, "the request breaks off\n");
        let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
        if read.len() + piece.len() > most {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "the request is too long\n"));
        }
        read.extend_from_slice(&piece);
    }
    Ok(read.freeze())
}

/// A text as HTML has it, in elements and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // What turns the direction of the text around makes names look like others.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            sign if sign.is_control() && sign != '\n' => escaped.push('\u{fffd}'),
            sign => escaped.push(sign),
        }
    }
    escaped
}

/// How our pages look, by day and by night, on a telephone too.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1.05em/1.5 system-ui,sans-serif;max-width:34em;margin:6vh auto;padding:0 1em;overflow-wrap:anywhere}\
h1{font-size:1.4em;line-height:1.25}\
dl{margin:1.2em 0}dt{opacity:.75;font-size:.9em}dd{margin:0 0 .8em}\
code{font-size:1em}\
.note{border-left:.25em solid #c60;padding:.1em .8em;margin:1.2em 0}\
form{display:flex;flex-wrap:wrap;gap:.8em;margin:1.5em 0}\
input:not([type=hidden]){font:inherit;padding:.5em;flex:1 1 100%;box-sizing:border-box;min-width:0}\
button{font:inherit;padding:.6em 1.4em;border:1px solid;border-radius:.4em;cursor:pointer;background:transparent;color:inherit}\
button.main{background:#0b57d0;border-color:#0b57d0;color:#fff}";

/// A page for people. `main` is HTML: all texts in it went through [`escape`]. Its forms
/// go to us alone. A browser follows no redirect to elsewhere from a form of such a page:
/// answer it with [`leave_page`].
pub fn html(status: StatusCode, title: &str, main: &str) -> Response<Bytes> {
    whole_page(status, title, "", main)
}

/// A page that leads elsewhere at once, by itself and by a link. Answers to forms do so:
/// the policy of the page with the form would stop a redirect.
pub fn leave_page(url: &str, title: &str) -> Response<Bytes> {
    let url = escape(url);
    let refresh = format!("<meta http-equiv=\"refresh\" content=\"0;url={url}\">");
    let main = format!("<p><a href=\"{url}\">Continue</a>, if nothing happens.</p>");
    whole_page(StatusCode::OK, title, &refresh, &main)
}

fn whole_page(status: StatusCode, title: &str, head: &str, main: &str) -> Response<Bytes> {
    static POLICY: OnceLock<HeaderValue> = OnceLock::new();
    let title = escape(title);
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">{head}\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>{main}</main></body></html>"
    );
    let policy = POLICY.get_or_init(|| {
        let style = BASE64_STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; \
             frame-ancestors 'none'; base-uri 'none'"
        );
        HeaderValue::try_from(policy).expect("signs of base64 and our own words")
    });
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // For browsers that do not know `frame-ancestors`.
        (X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    // wire: OS-4
    #[test]
    fn no_text_becomes_markup() {
        let text = "<b a='\"'>&\u{202e}\u{7}";
        assert_eq!(escape(text), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}\u{fffd}");
        let page = html(StatusCode::OK, text, "<p>x</p>");
        let shown = std::str::from_utf8(page.body()).unwrap();
        assert!(!shown.contains("<b ") && shown.contains("<p>x</p>"), "{shown}");
        let page = leave_page("https://a.example/?x=\"><script>", "On");
        let shown = std::str::from_utf8(page.body()).unwrap();
        assert!(!shown.contains("<script"), "{shown}");
    }

    // wire: OS-4, OA-18
    #[test]
    fn pages_run_nothing_and_are_in_no_frame() {
        let page = html(StatusCode::OK, "A", "");
        let header = |name| page.headers()[name].to_str().unwrap();
        let policy = header(CONTENT_SECURITY_POLICY);
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        for part in ["form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(header(CACHE_CONTROL), "no-store");
        assert_eq!(header(REFERRER_POLICY), "no-referrer");
    }

    #[test]
    fn a_page_answers_for_its_path_and_below() {
        for (place, path, is_so) in [
            ("/oauth/", "/oauth/token", true),
            ("/oauth", "/oauth", true),
            ("/oauth", "/oauth/a/b", true),
            ("/oauth", "/oauthx", false),
            ("/oauth", "/", false),
            ("/.well-known/x", "/.well-known/x/t", true),
        ] {
            assert_eq!(covers(place, path), is_so, "{place} {path}");
        }
    }
}
