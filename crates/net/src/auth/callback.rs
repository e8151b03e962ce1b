//! Where people come back to after they signed in: a port of this machine.
//!
//! ```text
//!   browser ── GET /oauth/callback?code=…&state=… ──▶ CallbackListener ── query ──▶ judge
//!      ◀── a page: signed in, refused, or not this sign-in ──┘◀── what it is ──┘
//! ```
//!
//! Any page in the user's browser can send requests here, and so can any program on this
//! machine. The judge alone says whether a visitor brings the answer. The pages repeat
//! nothing of the request, and run no script.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{CONNECTION, HOST, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::Full;
use ring::digest::{SHA256, digest};
use switchboard_proto::auth::AuthError;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tower_service::Service;

use crate::drive::{Either, Stop, race};
use crate::http::listen::{ListenOptions, serve};
use crate::http::page::html;

/// Browsers open a few connections ahead; others may hold some of them.
const MOST_CONNECTIONS: usize = 32;

/// Codes and states are long at some authorization servers.
const MOST_HEAD: usize = 32 << 10;

/// A browser sends its request at once.
const LONGEST_HEAD: Duration = Duration::from_secs(5);

/// For the last page to be read once the sign-in is over.
const LAST_PAGE: Duration = Duration::from_secs(1);

/// Ports that are tried if any will do.
const MOST_PORTS: usize = 16;

/// A port of this machine that people are sent back to (OC-33). It listens on IPv4 and IPv6,
/// where the machine has both.
#[derive(Debug)]
pub struct CallbackListener {
    listeners: Vec<StdListener>,
    redirect_uri: String,
    path: String,
    /// What a `Host` header may say.
    hosts: [String; 4],
    success_url: Option<HeaderValue>,
}

impl CallbackListener {
    /// Listens on `port`, or on any if that is 0. `host` is how the authorization server is
    /// told to call this machine: `127.0.0.1`, or `localhost`.
    pub async fn bind(host: &str, port: u16, path: &str) -> io::Result<Self> {
        let listeners = bind_both(port).await?;
        let port = listeners[0].local_addr()?.port();
        let path = format!("/{}", path.trim_start_matches('/'));
        let redirect_uri = format!("http://{host}:{port}{path}");
        let own = redirect_uri.parse::<Uri>().ok();
        let own = own.filter(|own| own.host() == Some(host) && own.path() == path);
        if own.is_none_or(|own| own.query().is_some()) {
            let what = format!("{redirect_uri} is no address to come back to");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let hosts = [host, "127.0.0.1", "[::1]", "localhost"].map(|it| format!("{it}:{port}"));
        Ok(Self { listeners, redirect_uri, path, hosts, success_url: None })
    }

    /// Sends people who signed in to a page of yours, in the place of ours.
    pub fn with_success_url(self, url: Option<&str>) -> io::Result<Self> {
        let is_page = |url: &&str| {
            let url = url.parse::<Uri>().ok();
            url.is_some_and(|url| matches!(url.scheme_str(), Some("http" | "https")))
        };
        let value = |url: &str| HeaderValue::from_str(url).ok().filter(|_| is_page(&url));
        let bad = |url| io::Error::new(io::ErrorKind::InvalidInput, format!("{url} is no page"));
        let success_url = url.map(|url| value(url).ok_or_else(|| bad(url))).transpose()?;
        Ok(Self { success_url, ..self })
    }

    /// The address of it.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Waits until `judge` ends the sign-in. It is given the query of each visit. If it says
    /// nothing, the visitor brought no answer to this sign-in, and the wait goes on.
    pub async fn wait<T>(
        &self,
        mut judge: impl FnMut(&str) -> Option<Result<T, AuthError>>,
    ) -> Result<T, AuthError> {
        let local = |error: io::Error| AuthError::Local(format!("nobody can come back: {error}"));
        let (visits, mut arriving) = mpsc::channel::<CallbackVisit>(MOST_CONNECTIONS);
        let stop = Stop::new();
        let mut serving = self.serve(visits, &stop).map_err(local)?;
        let judging = async {
            while let Some(visit) = arriving.recv().await {
                let verdict = judge(&visit.query);
                // A visitor who is gone needs no page.
                _ = visit.reply.send(self.page_for(verdict.as_ref()));
                if let Some(result) = verdict {
                    return Some(result);
                }
            }
            None
        };
        let Either::Left(Some(result)) = race(judging, serving.as_mut()).await else {
            return Err(local(io::ErrorKind::NotConnected.into()));
        };
        stop.say();
        serving.await;
        result
    }

    /// Serves whoever comes back. It knows nothing of the verdict, so the server is compiled
    /// once and not for each type of it.
    fn serve<'a>(
        &self,
        visits: mpsc::Sender<CallbackVisit>,
        stop: &'a Stop,
    ) -> io::Result<Pin<Box<dyn Future<Output = ()> + Send + 'a>>> {
        let reception = Reception { path: self.path.clone(), hosts: self.hosts.clone(), visits };
        let options = ListenOptions {
            max_connections: MOST_CONNECTIONS,
            max_per_address: Some(MOST_CONNECTIONS),
            reserve: 0,
            max_head: MOST_HEAD,
            head_timeout: LONGEST_HEAD,
            grace: LAST_PAGE,
            ..ListenOptions::default()
        };
        let mut serving = Vec::new();
        for listener in &self.listeners {
            let listener = TcpListener::from_std(listener.try_clone()?)?;
            serving.push(serve(listener, reception.clone(), options.clone(), stop.said()));
        }
        Ok(Box::pin(async move { _ = join_all(serving).await }))
    }

    fn page_for<T>(&self, verdict: Option<&Result<T, AuthError>>) -> Response<Full<Bytes>> {
        match (verdict, &self.success_url) {
            (None, _) => page(
                StatusCode::BAD_REQUEST,
                "This is not the sign-in that was begun",
                "Go back to the page that was opened for you, or start again.",
            ),
            (Some(Err(_)), _) => page(
                StatusCode::OK,
                "You are not signed in",
                "The program that opened this page says why. You can close this page.",
            ),
            (Some(Ok(_)), Some(url)) => {
                let mut response = page(StatusCode::SEE_OTHER, "You are signed in", "");
                response.headers_mut().insert(LOCATION, url.clone());
                response
            }
            (Some(Ok(_)), None) => page(
                StatusCode::OK,
                "You are signed in",
                "Go back to the program that opened this page. You can close this page.",
            ),
        }
    }
}

/// What became of a visit to the place that people come back to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallbackVerdict {
    /// The visitor brought no answer to this sign-in, which goes on.
    Other,
    /// The sign-in ended without a code.
    Refused,
    /// The visitor brought a code.
    Accepted,
}

/// A page of somebody's own that people are sent back to, in the place of a port.
#[derive(Debug)]
pub struct CallbackPage {
    redirect_uri: String,
    arriving: mpsc::Receiver<(String, oneshot::Sender<CallbackVerdict>)>,
}

/// Hands visitors of a [`CallbackPage`] to the sign-in that waits for them.
#[derive(Clone, Debug)]
pub struct CallbackDesk(mpsc::Sender<(String, oneshot::Sender<CallbackVerdict>)>);

impl CallbackPage {
    /// The page at this address, and where its visitors are handed in.
    pub fn new(redirect_uri: impl Into<String>) -> (Self, CallbackDesk) {
        let (visits, arriving) = mpsc::channel(1);
        (Self { redirect_uri: redirect_uri.into(), arriving }, CallbackDesk(visits))
    }

    async fn wait<T>(
        &mut self,
        judge: impl Fn(&str) -> Option<Result<T, AuthError>>,
    ) -> Result<T, AuthError> {
        while let Some((query, reply)) = self.arriving.recv().await {
            let verdict = judge(&query);
            // A visitor who is gone needs no page.
            _ = reply.send(match &verdict {
                None => CallbackVerdict::Other,
                Some(Err(_)) => CallbackVerdict::Refused,
                Some(Ok(_)) => CallbackVerdict::Accepted,
            });
            if let Some(result) = verdict {
                return result;
            }
        }
        Err(AuthError::Local("the page to come back to is gone".to_owned()))
    }
}

impl CallbackDesk {
    /// Somebody came back with this query; none if nobody waits for them any more.
    pub async fn hand_in(&self, query: &str) -> Option<CallbackVerdict> {
        let (reply, verdict) = oneshot::channel();
        self.0.send((query.to_owned(), reply)).await.ok()?;
        verdict.await.ok()
    }
}

/// Where people come back to.
#[derive(Debug)]
pub(super) enum CallbackPlace {
    Port(CallbackListener),
    Page(CallbackPage),
}

impl CallbackPlace {
    pub(super) fn redirect_uri(&self) -> &str {
        match self {
            Self::Port(port) => &port.redirect_uri,
            Self::Page(page) => &page.redirect_uri,
        }
    }

    /// Waits until `judge` ends the sign-in.
    pub(super) async fn wait<T>(
        &mut self,
        judge: impl Fn(&str) -> Option<Result<T, AuthError>>,
    ) -> Result<T, AuthError> {
        match self {
            Self::Port(port) => port.wait(judge).await,
            Self::Page(page) => page.wait(judge).await,
        }
    }
}

/// The ports that [`port_for`] chooses from: not registered, and below those that systems
/// give out by themselves.
const FIRST_PORT: u16 = 28_200;
const PORTS: u16 = 1_000;

/// A port that is always the same for a server: many authorization servers compare the port
/// with the one that was registered.
pub fn port_for(server_url: &str) -> u16 {
    let digest = digest(&SHA256, server_url.trim_end_matches('/').as_bytes());
    let number = digest.as_ref().iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    let offset = u16::try_from(number % u32::from(PORTS)).unwrap_or_default();
    FIRST_PORT + offset
}

/// Listens on one port of both loopback addresses. A family that the machine does not have
/// is left out. A port that is taken in one family is taken: its owner would get our visitors.
async fn bind_both(port: u16) -> io::Result<Vec<StdListener>> {
    let mut tries = if port == 0 { MOST_PORTS } else { 1 };
    loop {
        tries -= 1;
        let found = bind_one(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await;
        let chosen = match &found {
            Ok(four) => four.local_addr()?.port(),
            Err(_) => port,
        };
        let six = bind_one(SocketAddr::from((Ipv6Addr::LOCALHOST, chosen))).await;
        let is_taken = |it: &io::Result<_>| {
            it.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
        };
        if (is_taken(&found) || is_taken(&six)) && tries > 0 {
            continue;
        }
        return match (found, six) {
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(error)
            }
            (Err(error), Err(_)) => Err(error),
            (four, six) => Ok(four.into_iter().chain(six).collect()),
        };
    }
}

async fn bind_one(address: SocketAddr) -> io::Result<StdListener> {
    TcpListener::bind(address).await?.into_std()
}

/// Somebody came to our path.
#[derive(Debug)]
struct CallbackVisit {
    query: String,
    reply: oneshot::Sender<Response<Full<Bytes>>>,
}

/// Answers every request: visits as the judge says, all else with 404.
#[derive(Clone, Debug)]
struct Reception {
    path: String,
    hosts: [String; 4],
    visits: mpsc::Sender<CallbackVisit>,
}

impl Reception {
    /// Whether a request is for us: a GET of exactly our path, at our address.
    fn expects<B>(&self, request: &Request<B>) -> bool {
        let mut named = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
        // HTTP/2 has no `Host` of necessity, and HTTP/1 has no authority.
        let authority = request.uri().authority().map(|it| it.as_str().as_bytes());
        let host = named.next().or(authority).unwrap_or_default();
        let is_ours = self.hosts.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(host));
        let is_single = named.next().is_none();
        request.method() == Method::GET && request.uri().path() == self.path && is_ours && is_single
    }
}

type CallbackAnswer =
    Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, io::Error>> + Send>>;

impl<B> Service<Request<B>> for Reception {
    type Response = Response<Full<Bytes>>;
    type Error = io::Error;
    type Future = CallbackAnswer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_expected = self.expects(&request);
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (visits, is_http1) = (self.visits.clone(), request.version() <= Version::HTTP_11);
        Box::pin(async move {
            let (reply, verdict) = oneshot::channel();
            let is_sent = is_expected && visits.send(CallbackVisit { query, reply }).await.is_ok();
            let verdict = if is_sent { verdict.await.ok() } else { None };
            let mut response = verdict.unwrap_or_else(|| {
                page(StatusCode::NOT_FOUND, "There is nothing here", "You can close this page.")
            });
            if is_http1 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

fn page(status: StatusCode, title: &str, text: &str) -> Response<Full<Bytes>> {
    html(status, title, &format!("<p>{text}</p>")).map(Full::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_port_of_its_own() {
        // wire: OC-33
        let port = port_for("https://mcp.example.com/mcp");
        assert_eq!(port, port_for("https://mcp.example.com/mcp/"));
        assert_ne!(port, port_for("https://mcp.example.org/mcp"));
        for number in 0..1000 {
            let port = port_for(&format!("https://h/{number}"));
            assert!((FIRST_PORT..FIRST_PORT + PORTS).contains(&port), "{port}");
        }
    }
}
