//! TLS with servers: what users say about it, and the connectors that keep to it.

use std::sync::Arc;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};

use super::fetch_error::{Cause, SetupError};
use super::verify::{ServerVerifier, why_useless};
use super::{Fetch, FetchOptions};
use crate::connection::lock;
use crate::http::tls::TlsIdentity;
use crate::secret::IdentityDigest;

/// Different settings for TLS that are at hand: more than people write by hand.
const MOST_OTHERS: usize = 64;

/// TLS with the server at one host and port.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct HostTls {
    /// The name or address, as URLs have it, without a port.
    pub host: String,
    /// The port. What listens at another port of the host may be somebody else's.
    pub port: u16,
    /// What it is shown of us, if it asks.
    pub identity: Option<TlsIdentity>,
    /// Whether its certificate is not verified. Whoever is on the way can then read and change
    /// everything.
    pub is_insecure: bool,
}

impl HostTls {
    /// The server that a URL leads to, with nothing else about TLS yet.
    pub fn new(url: &Uri) -> Self {
        let host = url.host().unwrap_or_default().to_ascii_lowercase();
        Self { host, port: port_of(url), identity: None, is_insecure: false }
    }

    /// Does not verify the certificate of the server.
    pub fn insecure(mut self) -> Self {
        self.is_insecure = true;
        self
    }

    /// Whether a URL leads to it.
    pub(super) fn is_at(&self, url: &Uri) -> bool {
        url.host().is_some_and(|it| it.eq_ignore_ascii_case(&self.host))
            && port_of(url) == self.port
    }
}

/// TLS is spoken there, whatever the URL begins with.
fn port_of(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(443)
}

/// What a user says about TLS with one server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct ServerTls {
    /// Certificates to trust beside the system's: of authorities, or of the server itself.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// What the server is shown of us, if it asks.
    pub identity: Option<TlsIdentity>,
    /// Whether the certificate of the server is not verified.
    pub is_insecure: bool,
}

impl ServerTls {
    /// Also trusts every certificate in `pem`, the text of a CA bundle. One whose dates do not
    /// allow it is of no use: the log says which.
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self, SetupError> {
        let before = self.extra_roots.len();
        for root in CertificateDer::pem_slice_iter(pem) {
            let root = root.map_err(|error| SetupError::BadPem(Cause::of(&error)))?;
            let added = RootCertStore::empty().add(root.clone());
            added.map_err(|error| SetupError::BadRoot(Cause::of(&error)))?;
            if let Some(why) = why_useless(&root) {
                let number = self.extra_roots.len() - before + 1;
                tracing::warn!("certificate {number} of the file to trust is not used: it {why}");
            }
            self.extra_roots.push(root);
        }
        if self.extra_roots.len() == before { Err(SetupError::NoCertificate) } else { Ok(self) }
    }

    /// Does not verify the certificate of the server.
    pub fn insecure(mut self) -> Self {
        self.is_insecure = true;
        self
    }
}

setters! {
    HostTls {
        identity: impl Into<Option<TlsIdentity>>,
    }
}

setters! {
    ServerTls {
        extra_roots: Vec<CertificateDer<'static>>,
        identity: impl Into<Option<TlsIdentity>>,
    }
}

setters! {
    FetchOptions {
        extra_roots: Vec<CertificateDer<'static>>,
        host_tls: impl Into<Option<HostTls>>,
    }
}

impl FetchOptions {
    /// Also trusts every certificate in `pem`, the text of a CA bundle. One whose dates do not
    /// allow it is of no use: the log says which.
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self, SetupError> {
        self.extra_roots.extend(ServerTls::default().trust_pem(pem)?.extra_roots);
        Ok(self)
    }

    /// What else holds for TLS with the server at this URL.
    fn host_tls_at(&self, url: &Uri) -> Option<&HostTls> {
        self.host_tls.as_ref().filter(|host| host.is_at(url))
    }
}

impl Fetch {
    /// Adds which certificates the server at `url` may have.
    pub(crate) fn digest_trust(&self, url: &Uri, digest: &mut IdentityDigest) {
        let is_insecure = self.options.host_tls_at(url).is_some_and(|host| host.is_insecure);
        digest.add([u8::from(is_insecure)]);
        for root in &self.options.extra_roots {
            digest.add(root);
        }
    }

    /// Adds the certificate that the server at `url` is shown.
    pub(crate) fn digest_shown(&self, url: &Uri, digest: &mut IdentityDigest) {
        let shown = self.options.host_tls_at(url).and_then(|host| host.identity.as_ref());
        for certificate in shown.map(TlsIdentity::certified).iter().flat_map(|it| &it.cert) {
            digest.add(certificate);
        }
    }

    /// Whether the server at `url` is shown a certificate of ours, if it asks.
    pub(super) fn shows_identity(&self, url: &Uri) -> bool {
        self.options.host_tls_at(url).is_some_and(|host| host.identity.is_some())
    }

    /// The same client for the server at `url`, with a pool of its own if TLS with that server
    /// is another. Servers with the same settings share it. Only certificates to trust hold for
    /// other hosts and ports, too.
    pub fn with_tls(&self, url: &Uri, tls: &ServerTls) -> Result<Self, SetupError> {
        let ServerTls { extra_roots, identity, is_insecure } = tls.clone();
        let is_its_own = identity.is_some() || is_insecure;
        if extra_roots.is_empty() && !is_its_own {
            return Ok(self.clone());
        }
        let host_tls = is_its_own.then(|| HostTls { identity, is_insecure, ..HostTls::new(url) });
        let mut options = FetchOptions { host_tls, ..FetchOptions::clone(&self.options) };
        options.extra_roots.extend(extra_roots);
        let mut others = lock(&self.others);
        let is_same = |other: &&Self| {
            other.options.host_tls == options.host_tls
                && other.options.extra_roots == options.extra_roots
        };
        if let Some(found) = others.iter().find(is_same) {
            return Ok(found.clone());
        }
        let made = Self::new(options)?;
        if others.len() >= MOST_OTHERS {
            // Servers that use it keep it.
            others.remove(0);
        }
        others.push(made.clone());
        Ok(made)
    }

    /// The host whose certificate is not verified, if there is one.
    pub fn insecure_host(&self) -> Option<&str> {
        let host = self.options.host_tls.as_ref().filter(|host| host.is_insecure)?;
        Some(&host.host)
    }
}

/// How the connections of a client speak TLS.
pub(super) struct TlsSetup {
    usual: ClientConfig,
    /// For the one server with which TLS is another.
    host: Option<(Arc<HostTls>, ClientConfig)>,
}

impl TlsSetup {
    pub(super) fn new(options: &FetchOptions) -> Result<Self, SetupError> {
        let usual = tls_config(&options.extra_roots, None)?;
        let host = options.host_tls.as_ref().map(|host| {
            let config = tls_config(&options.extra_roots, Some(host));
            config.map(|config| (Arc::new(host.clone()), config))
        });
        Ok(Self { usual, host: host.transpose()? })
    }

    /// Makes connections to proxies, which read HTTP/1.1.
    pub(super) fn to_proxies<T>(&self, tcp: T) -> HttpsConnector<T> {
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.usual.clone());
        builder.https_or_http().enable_http1().wrap_connector(tcp)
    }

    /// Makes connections to servers.
    pub(super) fn to_servers<T>(&self, dial: T) -> HttpsConnector<T> {
        connector(&self.usual, dial)
    }

    /// Makes connections to the one server with which TLS is another.
    pub(super) fn to_host<T>(&self, dial: T) -> Option<(Arc<HostTls>, HttpsConnector<T>)> {
        let (host, config) = self.host.as_ref()?;
        Some((Arc::clone(host), connector(config, dial)))
    }
}

fn connector<T>(config: &ClientConfig, dial: T) -> HttpsConnector<T> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(config.clone()).https_or_http();
    builder.enable_all_versions().wrap_connector(dial)
}

/// TLS 1.2 and 1.3. `host` is what else holds for one host, of which the connection is.
fn tls_config(
    extra: &[CertificateDer<'static>],
    host: Option<&HostTls>,
) -> Result<ClientConfig, SetupError> {
    for root in extra {
        let added = RootCertStore::empty().add(root.clone());
        added.map_err(|error| SetupError::BadRoot(Cause::of(&error)))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let is_insecure = host.is_some_and(|host| host.is_insecure);
    let verifier = ServerVerifier::new(&provider, extra.to_vec(), is_insecure);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::Tls(Cause::of(&error)))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(match host.and_then(|host| host.identity.as_ref()) {
        Some(identity) => {
            let shown = SingleCertAndKey::from(identity.certified());
            config.with_client_cert_resolver(Arc::new(shown))
        }
        None => config.with_no_client_auth(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_the_same_settings_for_tls_share_a_client() {
        let plain = Fetch::new(FetchOptions::default()).unwrap();
        let insecure = ServerTls { is_insecure: true, ..ServerTls::default() };
        let at = |url: &str, tls: &ServerTls| plain.with_tls(&url.parse().unwrap(), tls).unwrap();
        let is_same = |one: &Fetch, two: &Fetch| Arc::ptr_eq(&one.options, &two.options);
        assert!(is_same(&plain, &at("https://a/", &ServerTls::default())));
        let one = at("https://a/x", &insecure);
        assert!(is_same(&one, &at("https://A:443/y", &insecure)));
        assert!(!is_same(&one, &at("https://b/", &insecure)));
        assert!(!is_same(&one, &at("https://a:1/x", &insecure)), "another port");
        for n in 0..=MOST_OTHERS {
            at(&format!("https://h{n}/"), &insecure);
        }
        assert_eq!(lock(&plain.others).len(), MOST_OTHERS);
    }
}
