//! From a URL to a connection: name lookup, proxy, TCP, TLS, within one time limit.
//!
//! ```text
//!   Connector  the time limit
//!     HttpsConnector  TLS with the server, for https; built without TLS, a refusal
//!       Dial  chooses:  straight  |  CONNECT  |  SOCKS 5  |  the proxy itself, for http
//! ```

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
#[cfg(feature = "tls")]
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use switchboard_proto::auth::origin_of;
use tokio::net::TcpStream;
use tower_service::Service;

use super::FetchOptions;
use super::fetch_error::SetupError;
use super::proxy::{Proxies, is_socks};
use super::reach::{Reach, address_of};
#[cfg(feature = "tls")]
use super::server_tls::{HostTls, TlsSetup};
#[cfg(not(feature = "tls"))]
use super::without_tls::{
    BareStream as MaybeHttpsStream, NoHost as HostTls, NoTlsSetup, PlainConnector as HttpsConnector,
};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;
pub(super) type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;
type Tcp = HttpConnector<Resolver>;
type ServerStream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Makes connections for the pool.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    https: HttpsConnector<Dial>,
    /// For the one server with which TLS is another.
    host: Option<(Arc<HostTls>, HttpsConnector<Dial>)>,
    limit: Duration,
}

impl Connector {
    #[cfg_attr(
        not(feature = "tls"),
        allow(clippy::unnecessary_wraps, reason = "only TLS cannot be set up")
    )]
    pub(super) fn new(options: &FetchOptions, proxies: Arc<Proxies>) -> Result<Self, SetupError> {
        #[cfg(feature = "tls")]
        let tls = TlsSetup::new(options)?;
        #[cfg(not(feature = "tls"))]
        let tls = NoTlsSetup;
        let (only_ipv4, reach) = (options.only_ipv4, options.reach.clone());
        let tcp_within = |reach| {
            let resolver = Resolver { system: GaiResolver::new(), only_ipv4, reach };
            let mut tcp = Tcp::new_with_resolver(resolver);
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            // Finds out about a peer that vanished while a stream was silent.
            tcp.set_keepalive(Some(KEEP_ALIVE));
            tcp
        };
        // The user names the proxies, wherever they are.
        let (tcp, proxy_tcp) = (tcp_within(reach.clone()), tcp_within(Reach::Anywhere));
        let to_proxy = tls.to_proxies(proxy_tcp.clone());
        let dial = Dial { tcp, proxy_tcp, to_proxy, proxies, reach };
        let (host, https) = (tls.to_host(dial.clone()), tls.to_servers(dial));
        Ok(Self { https, host, limit: options.connect_timeout })
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<DialledStream>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if let Some((_, https)) = &mut self.host {
            ready!(https.poll_ready(cx))?;
        }
        self.https.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let https = match &mut self.host {
            Some((host, https)) if host.is_at(&target) => https,
            _ => &mut self.https,
        };
        let limited = tokio::time::timeout(self.limit, https.call(target));
        Box::pin(async {
            limited.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        })
    }
}

/// Opens the way that bytes take to the server.
#[derive(Clone)]
pub(super) struct Dial {
    tcp: Tcp,
    proxy_tcp: Tcp,
    to_proxy: HttpsConnector<Tcp>,
    proxies: Arc<Proxies>,
    reach: Reach,
}

impl Service<Uri> for Dial {
    type Response = DialledStream;
    type Error = BoxError;
    type Future = Connecting<DialledStream>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        ready!(self.tcp.poll_ready(cx))?;
        ready!(self.proxy_tcp.poll_ready(cx))?;
        self.to_proxy.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Connecting<DialledStream> {
        let mut dial = self.clone();
        Box::pin(async move {
            // An address is not looked up, and so not checked there.
            if target.host().and_then(address_of).is_some_and(|it| !dial.reach.has(it)) {
                return Err(Unresolved(out_of_reach()).into());
            }
            let Some(proxy) = dial.proxies.towards(&target) else {
                return Ok(DialledStream::opaque(dial.tcp.call(target).await?));
            };
            let dialled = dial.through(&proxy, target).await;
            dialled.map_err(|source| ThroughProxy { proxy: origin_of(proxy.uri()), source }.into())
        })
    }
}

impl Dial {
    async fn through(&mut self, proxy: &Intercept, target: Uri) -> Result<DialledStream, BoxError> {
        let address = proxy.uri().clone();
        let is_https = target.scheme() == Some(&Scheme::HTTPS);
        if is_socks(&address) {
            let mut socks = SocksV5::new(with_port(address, SOCKS_PORT), self.proxy_tcp.clone());
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            let target = with_port(target, if is_https { 443 } else { 80 });
            return Ok(DialledStream::opaque(socks.call(target).await?));
        }
        if is_https {
            let mut tunnel = Tunnel::new(address, self.to_proxy.clone());
            if let Some(auth) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(auth.clone());
            }
            return Ok(DialledStream::opaque(tunnel.call(target).await?));
        }
        Ok(DialledStream { stream: self.to_proxy.call(address).await?, is_read_by_proxy: true })
    }
}

/// The same URL with its port spelt out.
fn with_port(url: Uri, default: u16) -> Uri {
    let Some(host) = url.host().filter(|_| url.port().is_none()) else { return url };
    let authority = format!("{host}:{default}");
    let mut parts = url.clone().into_parts();
    parts.authority = authority.parse().ok();
    Uri::from_parts(parts).unwrap_or(url)
}

/// A way to the server, or to a proxy that reads the requests itself.
pub(super) struct DialledStream {
    stream: ServerStream,
    is_read_by_proxy: bool,
}

impl DialledStream {
    fn opaque(stream: impl Into<ServerStream>) -> Self {
        Self { stream: stream.into(), is_read_by_proxy: false }
    }
}

impl Connection for DialledStream {
    fn connected(&self) -> Connected {
        // Makes the client write the whole URL into the request line.
        self.stream.connected().proxy(self.is_read_by_proxy)
    }
}

impl Read for DialledStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for DialledStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}

/// The system's resolver, with errors that can be told from others.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    system: GaiResolver,
    /// Leaves out what a network may not really carry.
    only_ipv4: bool,
    reach: Reach,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Unresolved;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unresolved>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unresolved>> {
        self.system.poll_ready(cx).map_err(Unresolved)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (resolving, only_ipv4, reach) =
            (self.system.call(name), self.only_ipv4, self.reach.clone());
        Box::pin(async move {
            let addresses = resolving.await.map_err(Unresolved)?;
            let usable =
                |address: &SocketAddr| (!only_ipv4 || address.is_ipv4()) && reach.has(address.ip());
            let addresses: Vec<_> = addresses.filter(usable).collect();
            if addresses.is_empty() {
                return Err(Unresolved(out_of_reach()));
            }
            Ok(addresses.into_iter())
        })
    }
}

fn out_of_reach() -> io::Error {
    io::Error::other("it has no address that may be used")
}

/// DNS does not know the name.
#[derive(Debug, thiserror::Error)]
#[error("name does not resolve")]
pub(super) struct Unresolved(#[source] io::Error);

/// The failure is between us and the proxy, or the proxy's own.
#[derive(Debug, thiserror::Error)]
#[error("proxy {proxy} failed")]
pub(super) struct ThroughProxy {
    pub(super) proxy: String,
    source: BoxError,
}

/// How long a connection may be silent before the kernel asks.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Where SOCKS proxies listen by convention.
const SOCKS_PORT: u16 = 1080;
