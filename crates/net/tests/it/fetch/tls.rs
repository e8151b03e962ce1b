//! HTTPS against a server with a certificate of our own making.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use switchboard_net::http::fetch::{
    CertificateDer, Fetch, FetchError, FetchOptions, HostTls, ServerTls, SetupError,
};
use switchboard_net::http::tls::TlsIdentity;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::{echo, get};
use crate::peer::{Answer, App, read, stuck, text};
use switchboard_testkit::within;

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
    let options = FetchOptions::default();
    let options = options.trust_pem(authority.issuer.pem().as_bytes()).unwrap();
    let url = format!("https://localhost:{}/", server.address.port());
    let answer = within(Fetch::new(options).unwrap().send(get(&url))).await.unwrap();
    read(answer.into_body()).await;
    server.task.abort();

    let empty = FetchOptions::default().trust_pem(b"nothing here").unwrap_err();
    assert_eq!(empty, SetupError::NoCertificate);
    let extra_roots = vec![CertificateDer::from(b"no certificate".to_vec())];
    let broken = Fetch::new(FetchOptions::default().extra_roots(extra_roots)).unwrap_err();
    assert!(matches!(broken, SetupError::BadRoot(_)), "{broken:?}");
}

#[tokio::test]
async fn a_trusted_certificate_that_may_issue_none_makes_nobody_else_trusted() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["lab".to_owned()]).unwrap();
    params.is_ca = IsCa::NoCa;
    let lab = CertifiedIssuer::self_signed(params, key).unwrap();
    let key = KeyPair::generate().unwrap();
    let forged = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let forged = forged.signed_by(&key, &lab).unwrap();
    let server = serve(acceptor(vec![forged.der().clone()], key.into(), None, &[]), echo).await;
    let options = FetchOptions::default().extra_roots(vec![lab.der().clone()]);
    let reason = why_not(&server, "localhost", options).await.expect("it is refused");
    assert!(reason.contains("--ca-file"), "{reason}");
    server.task.abort();
}

#[tokio::test]
async fn unknown_authority_and_wrong_name_are_refused_with_the_reason() {
    let (authority, stranger) = (Authority::new(), Authority::named("a stranger"));
    let server = authority.serve("localhost", &[], echo).await;
    let port = server.address.port();
    for (trusted, host, reason) in [
        (&stranger, "localhost", "--ca-file"),
        (&authority, "127.0.0.1", "is for localhost, not for"),
    ] {
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

/// A self-signed certificate for `localhost` that could also sign others, as `openssl req -x509`
/// makes it, valid until the end of a year.
fn self_signed(last_year: i32) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(last_year, 12, 31);
    (params.self_signed(&key).unwrap(), key)
}

/// Why a request to this host of the server fails, if it does.
async fn why_not(server: &Secure, host: &str, options: FetchOptions) -> Option<String> {
    let url = format!("https://{host}:{}/", server.address.port());
    let fetch = Fetch::new(options).unwrap();
    match within(fetch.send(get(&url))).await {
        Ok(answer) => {
            read(answer.into_body()).await;
            None
        }
        Err(FetchError::Tls { source, .. }) => Some(source.to_string()),
        Err(other) => panic!("{other:?}"),
    }
}

fn trusting(certificate: &Certificate) -> FetchOptions {
    FetchOptions::default().extra_roots(vec![certificate.der().clone()])
}

#[tokio::test]
async fn a_certificate_that_the_user_trusts_itself_is_accepted_for_its_names_and_dates() {
    let (certificate, key) = self_signed(2999);
    let chain = vec![certificate.der().clone()];
    let server = serve(acceptor(chain, key.into(), None, &[]), echo).await;
    assert_eq!(why_not(&server, "localhost", trusting(&certificate)).await, None);
    let reason = why_not(&server, "127.0.0.1", trusting(&certificate)).await.unwrap();
    assert!(reason.contains("is for localhost, not for 127.0.0.1"), "{reason}");
    for untrusting in [FetchOptions::default(), trusting(&self_signed(2999).0)] {
        let reason = why_not(&server, "localhost", untrusting).await.unwrap();
        assert!(reason.contains("--ca-file") && !reason.contains("CaUsed"), "{reason}");
    }
    server.task.abort();

    let (old, key) = self_signed(2020);
    let server = serve(acceptor(vec![old.der().clone()], key.into(), None, &[]), echo).await;
    let reason = why_not(&server, "localhost", trusting(&old)).await.unwrap();
    assert!(reason.contains("expired on 2020-12-31"), "{reason}");
    server.task.abort();
}

#[tokio::test]
async fn a_certificate_that_is_no_authority_is_accepted_if_the_user_trusts_it_itself() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::ExplicitNoCa;
    let alone = params.self_signed(&key).unwrap();
    // Nor does it matter who issued it.
    let (issued, issued_key) = Authority::new().issue("localhost");
    for (leaf, key) in [(alone, key), (issued, issued_key)] {
        let server = serve(acceptor(vec![leaf.der().clone()], key.into(), None, &[]), echo).await;
        assert_eq!(why_not(&server, "localhost", trusting(&leaf)).await, None);
        let reason = why_not(&server, "127.0.0.1", trusting(&leaf)).await.unwrap();
        assert!(reason.contains("is for localhost, not for 127.0.0.1"), "{reason}");
        server.task.abort();
    }
}

#[tokio::test]
async fn a_trusted_certificate_is_of_no_use_without_its_key() {
    let (certificate, _) = self_signed(2999);
    let provider = default_provider();
    let another = KeyPair::generate().unwrap().into();
    let another = provider.key_provider.load_private_key(another).unwrap();
    let stolen = CertifiedKey::new(vec![certificate.der().clone()], another);
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(stolen)));
    let server = serve(TlsAcceptor::from(Arc::new(config)), echo).await;
    let url = format!("https://localhost:{}/", server.address.port()).parse().unwrap();
    let insecure = FetchOptions::default().host_tls(HostTls::new(&url).insecure());
    for options in [trusting(&certificate), insecure] {
        assert!(why_not(&server, "localhost", options).await.is_some());
    }
    server.task.abort();
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_its_host_alone() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("ada");
    let identity =
        TlsIdentity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes());
    let identity = identity.unwrap();
    let (own, own_key) = self_signed(2999);
    let chain = vec![own.der().clone()];
    let server = serve(acceptor(chain, own_key.into(), Some(&authority), &[]), echo).await;
    let url = format!("https://localhost:{}/", server.address.port()).parse().unwrap();
    let plain = Fetch::new(trusting(&own)).unwrap();
    let tls = ServerTls::default().identity(identity);
    let shown = plain.with_tls(&url, &tls).unwrap();
    let answer = within(shown.send(get(&url.to_string()))).await.unwrap();
    read(answer.into_body()).await;
    let elsewhere = plain.with_tls(&"https://other.example/".parse().unwrap(), &tls).unwrap();
    // The certificate is for another port of the host.
    let beside = plain.with_tls(&"https://localhost/".parse().unwrap(), &tls).unwrap();
    for fetch in [plain, elsewhere, beside] {
        let failed = within(fetch.send(get(&url.to_string()))).await.unwrap_err();
        let FetchError::Tls { source, .. } = &failed else { panic!("{failed:?}") };
        assert!(source.to_string().contains("--client-cert"), "{source}");
    }
    server.task.abort();
}

#[tokio::test]
async fn a_server_that_need_not_be_verified_is_the_only_one() {
    let authority = Authority::new();
    let server = authority.serve("elsewhere.example", &[], echo).await;
    let port = server.address.port();
    let url = format!("https://localhost:{port}/");
    let tls = ServerTls::default().insecure();
    let plain = Fetch::new(FetchOptions::default()).unwrap();
    let insecure = plain.with_tls(&url.parse().unwrap(), &tls).unwrap();
    assert_eq!(insecure.insecure_host(), Some("localhost"));
    let answer = within(insecure.send(get(&url))).await.unwrap();
    read(answer.into_body()).await;
    let other = format!("https://127.0.0.1:{port}/");
    // Another server of the same host is verified.
    let beside = plain.with_tls(&"https://localhost/".parse().unwrap(), &tls).unwrap();
    for (fetch, url) in [(&plain, &url), (&insecure, &other), (&beside, &url)] {
        let failed = within(fetch.send(get(url))).await.unwrap_err();
        assert!(matches!(failed, FetchError::Tls { .. }), "{failed:?}");
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
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

pub(super) struct Secure {
    pub(super) address: SocketAddr,
    pub(super) task: JoinHandle<()>,
}

impl Authority {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn trusted(&self) -> FetchOptions {
        FetchOptions::default().extra_roots(vec![self.issuer.der().clone()])
    }

    pub(crate) fn issue(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    pub(super) fn acceptor(&self, name: &str, alpn: &[&str]) -> TlsAcceptor {
        let (certificate, key) = self.issue(name);
        acceptor(vec![certificate.der().clone()], key.into(), None, alpn)
    }

    pub(super) async fn serve<F, A>(&self, name: &str, alpn: &[&str], app: F) -> Secure
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        serve(self.acceptor(name, alpn), app).await
    }
}

/// Shows this certificate; `clients` issues the certificates that clients must have.
fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clients: Option<&Authority>,
    alpn: &[&str],
) -> TlsAcceptor {
    let provider = Arc::new(default_provider());
    let clients = clients.map(|authority| {
        let mut roots = RootCertStore::empty();
        roots.add(authority.issuer.der().clone()).unwrap();
        let provider = Arc::clone(&provider);
        WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap()
    });
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.unwrap_or_else(WebPkiClientVerifier::no_client_auth));
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve<F, A>(acceptor: TlsAcceptor, app: F) -> Secure
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
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
