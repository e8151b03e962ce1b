//! The requests of a sign-in: bounded, and sent only where they may go.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use switchboard_proto::auth::{AuthBody, AuthRequest, AuthResponse, is_loopback};
use switchboard_proto::header;
use switchboard_proto::revision::Revision;
use tokio::sync::OnceCell;

use crate::connection::lock;
use crate::drive::now;
use crate::http::fetch::{AddressRange, Fetch, FetchBody, Reach, is_public, resolve};

/// Bytes of an answer (OB-1).
const LONGEST: usize = 64 << 10;
/// How long one request may take, its redirects included.
const WAIT: Duration = Duration::from_secs(10);
/// Documents that are kept, and for how long.
const MOST_DOCUMENTS: usize = 16;
const DOCUMENT_LIFE: Duration = Duration::from_mins(5);
/// Redirects of a document that are followed.
const MOST_REDIRECTS: usize = 3;

const DPOP: HeaderName = HeaderName::from_static("dpop");
pub(super) const DPOP_NONCE: &str = "dpop-nonce";

/// Sends the requests of sign-ins at one server.
#[derive(Debug)]
pub struct AuthFetch {
    /// Reaches what the user named themselves.
    open: Fetch,
    /// Reaches what others may name, once it is known where the server is.
    careful: OnceCell<Fetch>,
    server: Uri,
    policy: ReachPolicy,
    documents: Option<DocumentCache>,
}

/// Metadata of authorization servers that the user named, so that tokens can be renewed and
/// exchanged without reading it each time. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct DocumentCache(Arc<Mutex<HashMap<String, (AuthResponse, Instant)>>>);

impl DocumentCache {
    fn find(&self, url: &str) -> Option<AuthResponse> {
        let documents = lock(&self.0);
        let (found, read) = documents.get(url)?;
        (now().saturating_duration_since(*read) < DOCUMENT_LIFE).then(|| found.clone())
    }

    fn keep(&self, url: String, found: &AuthResponse) {
        let mut documents = lock(&self.0);
        if documents.len() >= MOST_DOCUMENTS && !documents.contains_key(&url) {
            documents.clear();
        }
        documents.insert(url, (found.clone(), now()));
    }

    /// Forgets everything: something may have moved.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Which addresses the URLs of a sign-in may lead to (OB-3).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReachPolicy {
    /// A server that is not on this machine names public addresses alone, even if its own
    /// is not one. For gateways: others than their owner may be behind a request.
    pub is_strict: bool,
    /// Hosts, by name or address as URLs have them, and networks (`10.0.0.0/8`) that may be
    /// inside.
    pub allowed: Vec<String>,
}

impl AuthFetch {
    /// Sends by `open` what the user named, and elsewhere as `policy` has it. `server` is what
    /// all other URLs are named by.
    pub fn new(open: Fetch, server: Uri, policy: ReachPolicy) -> Self {
        Self { open, careful: OnceCell::new(), server, policy, documents: None }
    }

    /// Reads documents once in a while.
    #[must_use]
    pub fn remembering(self, documents: DocumentCache) -> Self {
        Self { documents: Some(documents), ..self }
    }

    /// Sends a request. An error is the reason in words.
    pub async fn send(&self, request: AuthRequest) -> Result<AuthResponse, String> {
        let is_document = request.body.is_none() && request.authorization.is_none();
        let documents = self.documents.as_ref().filter(|_| is_document);
        if let Some(found) = documents.and_then(|it| it.find(&request.url)) {
            return Ok(found);
        }
        let url = request.url.clone();
        let sending = tokio::time::timeout(WAIT, self.send_all(request));
        let late = || Err(format!("no answer within {} s", WAIT.as_secs()));
        let sent = sending.await.unwrap_or_else(|_| late());
        if let (Some(documents), Ok(found)) = (documents, &sent)
            && found.status == 200
        {
            documents.keep(url, found);
        }
        sent
    }

    async fn send_all(&self, request: AuthRequest) -> Result<AuthResponse, String> {
        let mut url: Uri = request.url.parse().map_err(|_| "it is no URL".to_owned())?;
        for _ in 0..=MOST_REDIRECTS {
            let fetch = self.fetch_for(&url).await?;
            let sent = fetch.send_once(build(&request, url.clone())).await;
            let response = sent.map_err(|error| error.to_string())?;
            let next = redirect(&url, &response).filter(|_| request.body.is_none());
            let Some(next) = next else { return read(response).await };
            if url.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
                return Err("it redirects from https to http".to_owned());
            }
            url = next;
        }
        Err(format!("more than {MOST_REDIRECTS} redirects"))
    }

    /// The client for a URL that the server, or what it named, has named.
    async fn fetch_for(&self, url: &Uri) -> Result<&Fetch, String> {
        let host = url.host().unwrap_or_default();
        if self.policy.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
            return Ok(&self.open);
        }
        let careful = async {
            let reach = self.reach().await?;
            self.open.within(reach).map_err(|error| error.to_string())
        };
        self.careful.get_or_try_init(|| careful).await
    }

    /// Where the URLs of the server may lead. A server that is inside a network may name what
    /// is inside, too; what it claims to be by one address among others does not count. Who
    /// answers for its name says where it is, so that opens neither this machine nor what
    /// only its neighbours reach.
    async fn reach(&self) -> Result<Reach, String> {
        let host = self.server.host().unwrap_or_default().trim_matches(['[', ']']);
        // An address is a host of URLs, and opens no name that leads to it.
        let networks = self.policy.allowed.iter().filter(|text| text.contains('/'));
        let ranges = networks.filter_map(|text| text.parse::<AddressRange>().ok());
        if is_loopback(host) {
            let besides = ranges.chain(AddressRange::LOOPBACK).collect();
            let strict = self.policy.is_strict;
            return Ok(if strict { Reach::PublicAnd(besides) } else { Reach::Anywhere });
        }
        // The proxy looks names up; here they may mean nothing, or something else.
        if self.open.proxy_for(&self.server).is_some() || self.policy.is_strict {
            return Ok(Reach::PublicAnd(ranges.collect()));
        }
        let port = self.server.port_u16().unwrap_or(443);
        let found = tokio::net::lookup_host((host, port)).await;
        let found = found.map_err(|error| format!("{host} cannot be looked up: {error}"))?;
        let is_inside = found.map(|address| address.ip()).all(|address| !is_public(address));
        let inside = AddressRange::PRIVATE.into_iter().filter(|_| is_inside);
        Ok(Reach::PublicAnd(ranges.chain(inside).collect()))
    }
}

fn build(from: &AuthRequest, url: Uri) -> Request<Bytes> {
    let (method, media, body) = match &from.body {
        None => (Method::GET, None, Bytes::new()),
        Some(AuthBody::Form(form)) => {
            (Method::POST, Some("application/x-www-form-urlencoded"), Bytes::from(form.clone()))
        }
        Some(AuthBody::Json(json)) => {
            (Method::POST, Some("application/json"), Bytes::from(json.clone()))
        }
    };
    let mut request = Request::new(body);
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if method == Method::GET {
        // Servers of 2025-03-26 may answer by it (OC-9).
        let newest = HeaderValue::from_static(Revision::NEWEST_MODERN.as_str());
        headers.insert(header::PROTOCOL_VERSION, newest);
    }
    if let Some(media) = media {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    }
    let authorization = from.authorization.as_ref().map(switchboard_proto::auth::Secret::reveal);
    if let Some(Ok(mut value)) = authorization.map(HeaderValue::from_str) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    if let Some(Ok(proof)) = from.dpop.as_deref().map(HeaderValue::from_str) {
        headers.insert(DPOP, proof);
    }
    (*request.method_mut(), *request.uri_mut()) = (method, url);
    request
}

fn redirect(from: &Uri, response: &Response<FetchBody>) -> Option<Uri> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(LOCATION).filter(|_| is_redirect)?;
    resolve(from, location.to_str().ok()?)
}

async fn read(response: Response<FetchBody>) -> Result<AuthResponse, String> {
    let status = response.status().as_u16();
    let nonce = response.headers().get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
    let dpop_nonce = nonce.map(str::to_owned);
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body =
        body.map_err(|_| format!("its answer breaks off, or is longer than {LONGEST} bytes"))?;
    Ok(AuthResponse { status, body: body.to_bytes().to_vec(), dpop_nonce })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fetch::{FetchOptions, ProxySettings};

    async fn reach_of(server: &'static str, proxy: ProxySettings) -> Reach {
        let open = Fetch::new(FetchOptions { proxy, ..FetchOptions::default() }).unwrap();
        let policy = ReachPolicy { allowed: vec!["192.0.2.0/24".to_owned()], is_strict: false };
        AuthFetch::new(open, Uri::from_static(server), policy).reach().await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn documents_are_kept_for_a_while_and_within_a_bound() {
        let (cache, answer) =
            (DocumentCache::default(), |status| AuthResponse { status, ..Default::default() });
        cache.keep("https://a.example".to_owned(), &answer(200));
        assert!(cache.clone().find("https://a.example").is_some());
        tokio::time::advance(DOCUMENT_LIFE).await;
        assert!(cache.find("https://a.example").is_none(), "it may have changed");
        for number in 0..=MOST_DOCUMENTS {
            cache.keep(format!("https://{number}.example"), &answer(200));
        }
        assert!(lock(&cache.0).len() <= MOST_DOCUMENTS);
        cache.clear();
        assert!(lock(&cache.0).is_empty());
    }

    // wire: OB-3, OA-6
    #[tokio::test]
    async fn a_server_inside_opens_its_network_and_neither_this_machine_nor_its_neighbours() {
        let direct = ProxySettings::default;
        let has = |reach: &Reach, address: &str| reach.has(address.parse().unwrap());
        for inside in ["http://10.0.0.1/mcp", "http://[fd00::1]/mcp", "http://169.254.1.1/mcp"] {
            let reach = reach_of(inside, direct()).await;
            for open in ["10.9.9.9", "172.31.0.1", "192.168.1.1", "fd12::1", "192.0.2.1"] {
                assert!(has(&reach, open), "{inside} {open}");
            }
            for shut in ["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "0.0.0.0"] {
                assert!(!has(&reach, shut), "{inside} {shut}");
            }
        }
        assert!(has(&reach_of("http://localhost/mcp", direct()).await, "127.0.0.1"));
        assert!(!has(&reach_of("http://8.8.8.8/mcp", direct()).await, "10.0.0.1"));
        // Behind a proxy nothing is looked up here: this name has no address.
        let vars = [("http_proxy".to_owned(), "http://127.0.0.1:9".to_owned())];
        let proxy = ProxySettings::from_vars(vars);
        let reach = reach_of("http://server.invalid/mcp", proxy).await;
        assert!(has(&reach, "192.0.2.1") && !has(&reach, "10.0.0.1"));
    }
}
