//! Through proxies of our own: each leads everything to one server, whatever the
//! name, so that a name that only the proxy knows proves who was asked.

use std::net::SocketAddr;

use switchboard_net::http::fetch::{Fetch, FetchError, FetchOptions, ProxySettings, Reach};
use switchboard_net::http::listen::ListenOptions;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::tls::Authority;
use super::{echo, get};
use crate::peer::{read, start};
use switchboard_testkit::within;

/// `user:pa ss`, as a proxy gets to see it.
const AUTHORIZATION: &str = "proxy-authorization: Basic dXNlcjpwYSBzcw==";

#[tokio::test]
async fn plain_http_sends_the_whole_url_and_the_credentials_to_the_proxy() {
    let server = start(ListenOptions::default(), echo).await;
    let mut proxy = Proxy::start(Kind::Reading, server.address).await;
    let fetch = proxied(&[("HTTP_PROXY", proxy.url("http"))]);
    let answer = within(fetch.send(get("http://server.test/path?q"))).await.unwrap();
    let said = read(answer.into_body()).await;
    assert_eq!(said, "GET http://server.test/path?q host=server.test x= body=");
    let head = proxy.head().await;
    assert!(head.starts_with("get http://server.test/path?q http/1.1\r\n"), "{head}");
    assert!(head.contains(&AUTHORIZATION.to_ascii_lowercase()), "{head}");
    drop(fetch);
    server.stopped().await;
}

#[tokio::test]
async fn https_is_tunnelled_with_the_credentials_outside() {
    let authority = Authority::new();
    let server = authority.serve("server.test", &["h2"], echo).await;
    let mut proxy = Proxy::start(Kind::Connect, server.address).await;
    let options = authority.trusted().proxy(settings(&[("https_proxy", proxy.url("http"))]));
    let fetch = Fetch::new(options).unwrap();
    let answer = within(fetch.send(get("https://server.test/path"))).await.unwrap();
    let said = read(answer.into_body()).await;
    assert!(said.contains("/path"), "{said}");
    let head = proxy.head().await;
    assert!(head.starts_with("connect server.test:443 http/1.1\r\n"), "{head}");
    assert!(head.contains(&AUTHORIZATION.to_ascii_lowercase()), "{head}");
    server.task.abort();
}

#[tokio::test]
async fn proxy_may_speak_tls_itself() {
    let authority = Authority::new();
    let server = authority.serve("server.test", &[], echo).await;
    let acceptor = authority.acceptor("localhost", &[]);
    let mut proxy = Proxy::start(Kind::Secure(acceptor), server.address).await;
    let options = authority
        .trusted()
        .proxy(settings(&[("ALL_PROXY", proxy.url("https").replace("127.0.0.1", "localhost"))]));
    let fetch = Fetch::new(options).unwrap();
    let answer = within(fetch.send(get("https://server.test/path"))).await.unwrap();
    read(answer.into_body()).await;
    assert!(proxy.head().await.starts_with("connect server.test:443"));
    server.task.abort();
}

#[tokio::test]
async fn socks_proxy_is_asked_for_the_name() {
    let server = start(ListenOptions::default(), echo).await;
    let mut proxy = Proxy::start(Kind::Socks, server.address).await;
    let fetch = proxied(&[("ALL_PROXY", proxy.url("socks5h"))]);
    let answer = within(fetch.send(get("http://server.test/path"))).await.unwrap();
    assert_eq!(read(answer.into_body()).await, "GET /path host=server.test x= body=");
    assert_eq!(proxy.head().await, "user:pa ss server.test:80");
    drop(fetch);
    server.stopped().await;
}

#[tokio::test]
async fn no_proxy_and_loopback_go_straight_to_the_server() {
    let server = start(ListenOptions::default(), echo).await;
    let mut proxy = Proxy::start(Kind::Reading, server.address).await;
    let all = ("ALL_PROXY", proxy.url("http"));
    let exempt = settings(&[all.clone(), ("NO_PROXY", "127.0.0.0/8".to_owned())]);
    for (settings, is_proxied) in [
        (settings(std::slice::from_ref(&all)), false),
        (exempt.including_loopback(), false),
        (settings(&[all]).including_loopback(), true),
    ] {
        let fetch = Fetch::new(FetchOptions::default().proxy(settings)).unwrap();
        let answer = within(fetch.send(get(&server.url("/")))).await.unwrap();
        read(answer.into_body()).await;
        assert_eq!(proxy.heads.try_recv().is_ok(), is_proxied);
    }
    server.stopped().await;
}

#[tokio::test]
async fn proxy_that_refuses_is_named_without_its_credentials() {
    let proxy = Proxy::start(Kind::Refusing, "127.0.0.1:1".parse().unwrap()).await;
    let fetch = proxied(&[("ALL_PROXY", proxy.url("http"))]);
    for target in ["http://server.test", "https://server.test"] {
        let failed = within(fetch.send(get(target))).await.unwrap_err();
        let at = proxy.address;
        assert_eq!(failed.to_string(), format!("proxy http://{at} opened no way to {target}"));
        let FetchError::ProxyRefused { source, .. } = &failed else { panic!("{failed:?}") };
        assert!(source.to_string().ends_with("proxy authorization required"), "{source}");
        assert!(failed.is_connect());
        let shown = format!("{failed} {failed:?} {fetch:?}");
        assert!(!shown.contains("pa ss") && !shown.contains("pa%20ss"), "{shown}");
        assert!(!shown.contains("dXNlc"), "{shown}");
    }
}

#[tokio::test]
async fn absent_proxy_is_blamed_rather_than_the_server() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let fetch = proxied(&[("ALL_PROXY", format!("http://{gone}"))]);
    for target in ["http://server.test", "https://server.test"] {
        let failed = within(fetch.send(get(target))).await.unwrap_err();
        assert_eq!(failed.to_string(), format!("proxy http://{gone} opened no way to {target}"));
    }
}

// wire: OB-3, OB-4, OA-6
#[tokio::test]
async fn a_proxy_is_not_asked_for_an_address_inside_in_any_spelling() {
    let server = start(ListenOptions::default(), echo).await;
    let mut proxy = Proxy::start(Kind::Reading, server.address).await;
    let fetch = proxied(&[("HTTP_PROXY", proxy.url("http"))]).within(Reach::public()).unwrap();
    for host in ["10.1", "0x0a000001", "0251.0376.169.254", "2852039166", "[::ffff:10.0.0.1]"] {
        within(fetch.send_once(get(&format!("http://{host}/")))).await.unwrap_err();
    }
    let answer = within(fetch.send_once(get("http://server.test/"))).await.unwrap();
    read(answer.into_body()).await;
    let head = proxy.head().await;
    assert!(head.starts_with("get http://server.test/"), "it is the first: {head}");
    drop(fetch);
    server.stopped().await;
}

fn proxied(vars: &[(&str, String)]) -> Fetch {
    Fetch::new(FetchOptions::default().proxy(settings(vars))).unwrap()
}

fn settings(vars: &[(&str, String)]) -> ProxySettings {
    ProxySettings::from_vars(vars.iter().map(|(name, value)| ((*name).to_owned(), value.clone())))
}

#[derive(Clone)]
enum Kind {
    Connect,
    Reading,
    Refusing,
    Secure(tokio_rustls::TlsAcceptor),
    Socks,
}

struct Proxy {
    address: SocketAddr,
    heads: mpsc::Receiver<String>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn start(kind: Kind, server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, heads) = mpsc::channel(8);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (kind, seen) = (kind.clone(), seen.clone());
                tokio::spawn(async move {
                    match kind {
                        Kind::Connect => connect(stream, server, seen).await,
                        Kind::Reading => pass_on(stream, server, seen).await,
                        Kind::Refusing => refuse(stream).await,
                        Kind::Secure(acceptor) => {
                            connect(acceptor.accept(stream).await.unwrap(), server, seen).await;
                        }
                        Kind::Socks => socks(stream, server, seen).await,
                    }
                });
            }
        });
        Self { address, heads, task }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://user:pa%20ss@{}", self.address)
    }

    async fn head(&mut self) -> String {
        within(self.heads.recv()).await.unwrap()
    }
}

async fn connect<T: AsyncRead + AsyncWrite + Unpin>(
    mut client: T,
    server: SocketAddr,
    seen: mpsc::Sender<String>,
) {
    seen.send(read_head(&mut client).await.to_ascii_lowercase()).await.unwrap();
    let mut server = TcpStream::connect(server).await.unwrap();
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    _ = copy_bidirectional(&mut client, &mut server).await;
}

async fn pass_on(mut client: TcpStream, server: SocketAddr, seen: mpsc::Sender<String>) {
    let head = read_head(&mut client).await;
    seen.send(head.to_ascii_lowercase()).await.unwrap();
    let mut server = TcpStream::connect(server).await.unwrap();
    server.write_all(head.as_bytes()).await.unwrap();
    _ = copy_bidirectional(&mut client, &mut server).await;
}

async fn refuse(mut client: TcpStream) {
    read_head(&mut client).await;
    let answer = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
    client.write_all(answer).await.unwrap();
}

/// SOCKS 5 as in RFC 1928 and 1929, with credentials and a name.
async fn socks(mut client: TcpStream, server: SocketAddr, seen: mpsc::Sender<String>) {
    let methods = take(&mut client, 2).await[1];
    take(&mut client, methods).await;
    client.write_all(&[5, 2]).await.unwrap();
    let length = take(&mut client, 2).await[1];
    let user = take(&mut client, length).await;
    let length = take(&mut client, 1).await[0];
    let password = take(&mut client, length).await;
    client.write_all(&[1, 0]).await.unwrap();
    let request = take(&mut client, 5).await;
    assert_eq!(request[..4], [5, 1, 0, 3], "wants a connection to a name");
    let name = take(&mut client, request[4]).await;
    let port = client.read_u16().await.unwrap();
    let [user, password, name] =
        [user, password, name].map(|text| String::from_utf8(text).unwrap());
    seen.send(format!("{user}:{password} {name}:{port}")).await.unwrap();
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    let mut server = TcpStream::connect(server).await.unwrap();
    _ = copy_bidirectional(&mut client, &mut server).await;
}

async fn take(stream: &mut TcpStream, length: u8) -> Vec<u8> {
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

async fn read_head<T: AsyncRead + Unpin>(stream: &mut T) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
