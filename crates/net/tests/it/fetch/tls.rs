//! HTTPS against a server with a certificate of our own making.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use switchboard_net::http::fetch::{CertificateDer, Fetch, FetchError, FetchOptions, SetupError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::{echo, get};
use crate::peer::{Answer, App, read, stuck, text, within};

#[tokio::test]
async fn extra_root_is_trusted_and_both_http_versions_are_negotiated() {
    let authority = Authority::new();
    for (alpn, expected) in [("h2", Version::HTTP_2), ("http/1.1", Version::HTTP_11)] {
        let server = authority.serve("localhost", &[alpn], echo).await;
        let fetch = Fetch::new(authority.trusted()).unwrap();
        let url = format!("https://localhost:{}/path", server.address.port());
        let answer = within(fetch.send(get(&url))).await.unwrap();
        assert_eq!(answer.version(), expected);
        let said = read(answer.into_body()).await;
        assert!(said.starts_with("GET ") && said.contains("/path"), "{said}");
        server.task.abort();
    }
}

#[tokio::test]
async fn roots_can_be_given_as_pem() {
    let authority = Authority::new();
    let server = authority.serve("localhost", &[], echo).await;
    let mut options = FetchOptions::default();
    options.trust_pem(authority.issuer.pem().as_bytes()).unwrap();
    let url = format!("https://localhost:{}/", server.address.port());
    let answer = within(Fetch::new(options).unwrap().send(get(&url))).await.unwrap();
    read(answer.into_body()).await;
    server.task.abort();

    let empty = FetchOptions::default().trust_pem(b"nothing here").unwrap_err();
    assert_eq!(empty, SetupError::NoCertificate);
    let extra_roots = vec![CertificateDer::from(b"no certificate".to_vec())];
    let broken = Fetch::new(FetchOptions { extra_roots, ..Default::default() }).unwrap_err();
    assert!(matches!(broken, SetupError::BadRoot(_)), "{broken:?}");
}

#[tokio::test]
async fn unknown_authority_and_wrong_name_are_refused_with_the_reason() {
    let (authority, stranger) = (Authority::new(), Authority::named("a stranger"));
    let server = authority.serve("localhost", &[], echo).await;
    let port = server.address.port();
    for (trusted, host, reason) in
        [(&stranger, "localhost", "UnknownIssuer"), (&authority, "127.0.0.1", "not valid for name")]
    {
        let fetch = Fetch::new(trusted.trusted()).unwrap();
        let url = format!("https://{host}:{port}/");
        let failed = within(fetch.send(get(&url))).await.unwrap_err();
        assert_eq!(
            failed.to_string(),
            format!("no trusted TLS connection to https://{host}:{port}")
        );
        let FetchError::Tls { source, .. } = &failed else { panic!("{failed:?}") };
        assert!(source.to_string().contains(reason), "{source}");
        assert!(failed.is_connect());
    }
    server.task.abort();
}

#[tokio::test]
async fn dropping_a_body_resets_its_http2_stream_and_keeps_the_connection() {
    // wire: CAN-1
    let authority = Authority::new();
    let (streaming, mut streams) = mpsc::channel::<oneshot::Receiver<()>>(1);
    let app = move |request: Request<Incoming>| {
        let streaming = streaming.clone();
        async move {
            if request.uri().path() == "/plain" {
                return text("plain");
            }
            let (held, dropped) = oneshot::channel();
            streaming.send(dropped).await.unwrap();
            stuck(Some(held))
        }
    };
    let server = authority.serve("localhost", &["h2"], app).await;
    let fetch = Fetch::new(authority.trusted()).unwrap();
    let url = |path| format!("https://localhost:{}{path}", server.address.port());
    let mut answer = within(fetch.send(get(&url("/stream")))).await.unwrap();
    within(answer.frame()).await.unwrap().unwrap();
    drop(answer);
    let dropped = within(streams.recv()).await.unwrap();
    assert!(within(dropped).await.is_err());
    let answer = within(fetch.send(get(&url("/plain")))).await.unwrap();
    assert_eq!(read(answer.into_body()).await, "plain");
    server.task.abort();
}

/// A certificate authority that lives as long as its test.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

pub(super) struct Secure {
    pub(super) address: SocketAddr,
    pub(super) task: JoinHandle<()>,
}

impl Authority {
    pub(super) fn new() -> Self {
        Self::named("our authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Options of a client that trusts this authority.
    pub(super) fn trusted(&self) -> FetchOptions {
        FetchOptions { extra_roots: vec![self.issuer.der().clone()], ..Default::default() }
    }

    pub(super) fn acceptor(&self, name: &str, alpn: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    pub(super) async fn serve<F, A>(&self, name: &str, alpn: &[&str], app: F) -> Secure
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let acceptor = self.acceptor(name, alpn);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust us ends the handshake.
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                tokio::spawn(serve_stream(stream, app.clone()));
            }
        });
        Secure { address, task }
    }
}

pub(super) async fn serve_stream<T, F, A>(stream: T, app: F)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let service = TowerToHyperService::new(App(app));
    let http = Builder::new(TokioExecutor::new());
    _ = http.serve_connection(TokioIo::new(stream), service).await;
}
