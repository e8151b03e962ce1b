//! The accept loop with TLS: what is agreed in the handshake, its bounds, and another certificate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use switchboard_net::http::fetch::{Fetch, FetchError, FetchOptions};
use switchboard_net::http::listen::ListenOptions;
use switchboard_net::http::tls::{IdentityError, ListenTls, TlsIdentity};
use switchboard_testkit::within;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fetch::tls::Authority;
use crate::peer::{Running, read, start, start_on, stuck, text};

/// A certificate of this authority for `localhost`.
fn identity(authority: &Authority) -> TlsIdentity {
    let (certificate, key) = authority.issue("localhost");
    TlsIdentity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

fn secure(authority: &Authority) -> (ListenOptions, ListenTls) {
    let tls = ListenTls::new(identity(authority));
    (ListenOptions::default().tls(tls.clone()), tls)
}

fn url(server: &Running) -> String {
    format!("https://localhost:{}/", server.address.port())
}

/// A connection that a request can be written to.
async fn connect(server: &Running, authority: &Authority, alpn: &str) -> TlsStream<TcpStream> {
    handshake(TcpStream::connect(server.address).await.unwrap(), authority, alpn).await
}

/// The same on a connection that is there.
async fn handshake<S>(stream: S, authority: &Authority, alpn: &str) -> TlsStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut roots = RootCertStore::empty();
    roots.add(authority.trusted().extra_roots.remove(0)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn ask<S>(peer: &mut TlsStream<S>, body: &str)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    peer.write_all(GET).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(body.as_bytes()) {
        assert_ne!(within(peer.read_buf(&mut said)).await.unwrap(), 0, "it ended early");
    }
}

#[tokio::test]
async fn both_versions_of_http_are_agreed_in_the_handshake() {
    let authority = Authority::new();
    let (options, _) = secure(&authority);
    let server =
        start(
            options,
            |request: Request<_>| async move { text(format!("{:?}", request.version())) },
        )
        .await;
    let fetch = Fetch::new(authority.trusted()).unwrap();
    let request = Request::get(url(&server)).body(Bytes::new()).unwrap();
    let answer = within(fetch.send(request)).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    assert_eq!(read(answer.into_body()).await, "HTTP/2.0");
    ask(&mut connect(&server, &authority, "http/1.1").await, "HTTP/1.1").await;
    drop(fetch);
    server.stopped().await;
}

#[tokio::test]
async fn another_certificate_is_shown_from_the_next_handshake_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let (options, tls) = secure(&old);
    let server = start(options, |_| async { text("hello") }).await;
    let mut open = connect(&server, &old, "http/1.1").await;
    ask(&mut open, "hello").await;
    tls.replace(identity(&new));
    ask(&mut open, "hello").await;
    ask(&mut connect(&server, &new, "http/1.1").await, "hello").await;
    let untrusting = Fetch::new(old.trusted()).unwrap();
    let request = Request::get(url(&server)).body(Bytes::new()).unwrap();
    let failed = within(untrusting.send(request)).await.unwrap_err();
    assert!(matches!(failed, FetchError::Tls { .. }), "{failed:?}");
    drop(open);
    server.stopped().await;
}

#[tokio::test]
async fn handshakes_that_do_not_end_are_cut_and_free_their_place() {
    let authority = Authority::new();
    let (options, _) = secure(&authority);
    let head_timeout = Duration::from_millis(50);
    let options = options.head_timeout(head_timeout).max_connections(1);
    let server = start(options, |_| async { text("hello") }).await;
    for start in [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x7f\xff"] {
        let mut peer = TcpStream::connect(server.address).await.unwrap();
        peer.write_all(start).await.unwrap();
        let mut rest = Vec::new();
        // Cut in the middle of something it may be reset.
        _ = within(peer.read_to_end(&mut rest)).await;
    }
    ask(&mut connect(&server, &authority, "http/1.1").await, "hello").await;
    server.stopped().await;
}

#[tokio::test]
async fn a_slow_handshake_delays_nobody_else() {
    let authority = Authority::new();
    let (options, _) = secure(&authority);
    let server = start(options, |_| async { text("hello") }).await;
    let mut wire = TcpStream::connect(server.address).await.unwrap();
    let (client, mut far) = tokio::io::duplex(64 << 10);
    let slow = async { ask(&mut handshake(client, &authority, "http/1.1").await, "hello").await };
    let meanwhile = async {
        let mut first = vec![0; 3];
        within(far.read_exact(&mut first)).await.unwrap();
        wire.write_all(&first).await.unwrap();
        for _ in 0..2 {
            ask(&mut connect(&server, &authority, "http/1.1").await, "hello").await;
        }
        // The client leaves when it has its answer.
        _ = within(tokio::io::copy_bidirectional(&mut far, &mut wire)).await;
    };
    tokio::join!(slow, meanwhile);
    drop(wire);
    server.stopped().await;
}

/// TLS takes the end of an answer before the socket does. Until the client reads, that is no
/// silence of the client.
#[tokio::test]
async fn slow_readers_over_tls_are_not_cut_with_the_slow_heads() {
    // More than the sockets take, and less than TLS takes besides.
    const SIZE: usize = 48 << 10;
    const SOCKET: u32 = 4 << 10;
    let authority = Authority::new();
    let (options, _) = secure(&authority);
    let options = options.head_timeout(Duration::from_millis(50));
    let port = TcpSocket::new_v4().unwrap();
    // The sockets of its connections have it from the port.
    port.set_send_buffer_size(SOCKET).unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = port.listen(16).unwrap();
    let server = start_on(listener, options, |_| async { text("x".repeat(SIZE)) });
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(SOCKET).unwrap();
    let wire = socket.connect(server.address).await.unwrap();
    let mut slow = handshake(wire, &authority, "http/1.1").await;
    slow.write_all(GET).await.unwrap();
    slow.get_ref().0.readable().await.unwrap();
    // So long as others that say nothing are waited for, twice.
    for _ in 0..2 {
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        within(silent.read_to_end(&mut Vec::new())).await.unwrap();
    }
    let mut said = Vec::new();
    while said.iter().map(|byte| usize::from(*byte == b'x')).sum::<usize>() < SIZE {
        assert_ne!(within(slow.read_buf(&mut said)).await.unwrap(), 0, "it ended early");
    }
    drop(slow);
    server.stopped().await;
}

#[tokio::test]
async fn a_client_of_plain_http_is_told_to_use_https() {
    let (options, _) = secure(&Authority::new());
    let server = start(options, |_| async { text("hello") }).await;
    let fetch = Fetch::new(FetchOptions::default()).unwrap();
    let request = Request::get(server.url("/")).body(Bytes::new()).unwrap();
    let answer = within(fetch.send(request)).await.unwrap();
    assert_eq!(answer.status(), 400);
    assert!(read(answer.into_body()).await.contains("write https://"));
    drop(fetch);
    server.stopped().await;
}

#[tokio::test]
async fn peer_that_leaves_over_tls_drops_the_work_for_it() {
    let authority = Authority::new();
    let (options, _) = secure(&authority);
    let (working, mut works) = mpsc::channel::<oneshot::Receiver<()>>(1);
    let server = start(options, move |_| {
        let working = working.clone();
        async move {
            let (held, dropped) = oneshot::channel();
            working.send(dropped).await.unwrap();
            stuck(Some(held))
        }
    })
    .await;
    let mut peer = connect(&server, &authority, "http/1.1").await;
    peer.write_all(GET).await.unwrap();
    let dropped = within(works.recv()).await.unwrap();
    drop(peer);
    assert!(within(dropped).await.is_err());
    server.stopped().await;
}

#[test]
fn what_is_wrong_with_a_certificate_and_its_key_is_told() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost");
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let other = authority.issue("localhost").1.serialize_pem();
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let both = format!("{certificate}{key}");
    for (certificate, key, expected) in [
        (&*certificate, &*key, None),
        (&both, &both, None),
        ("", &key, Some(IdentityError::NoCertificate)),
        (&certificate, "", Some(IdentityError::NoKey)),
        (&certificate, &encrypted, Some(IdentityError::EncryptedKey)),
        (&certificate, &other, Some(IdentityError::Mismatch)),
    ] {
        let made = TlsIdentity::from_pem(certificate.as_bytes(), key.as_bytes());
        assert_eq!(made.as_ref().err(), expected.as_ref());
        assert!(!format!("{made:?}").contains("PRIVATE"));
    }
}
