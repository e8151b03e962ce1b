//! TLS with servers: what users say about it, and the connectors that keep to it.

use std::sync::Arc;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};

use super::fetch_error::{Cause, SetupError};
use super::verify::ServerVerifier;
use super::{Fetch, FetchOptions};
use crate::connection::lock;
use crate::http::tls::TlsIdentity;

/// Different settings for TLS that are at hand: more than people write by hand.
const MOST_OTHERS: usize = 64;

/// TLS with one host.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostTls {
    /// The name or address, as URLs have it, without a port.
    pub host: String,
    /// What it is shown of us, if it asks.
    pub identity: Option<TlsIdentity>,
    /// Whether its certificate is not verified. Whoever is on the way can then read and change
    /// everything.
    pub is_insecure: bool,
}

/// What a user says about TLS with one server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ServerTls {
    /// Certificates to trust beside the system's: of authorities, or of the server itself.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// What the server is shown of us, if it asks.
    pub identity: Option<TlsIdentity>,
    /// Whether the certificate of the server is not verified.
    pub is_insecure: bool,
}

impl ServerTls {
    /// Also trusts every certificate in `pem`, the text of a CA bundle.
    pub fn trust_pem(&mut self, pem: &[u8]) -> Result<(), SetupError> {
        let before = self.extra_roots.len();
        for root in CertificateDer::pem_slice_iter(pem) {
            let root = root.map_err(|error| SetupError::BadPem(Cause::of(&error)))?;
            let added = RootCertStore::empty().add(root.clone());
            added.map_err(|error| SetupError::BadRoot(Cause::of(&error)))?;
            self.extra_roots.push(root);
        }
        if self.extra_roots.len() == before { Err(SetupError::NoCertificate) } else { Ok(()) }
    }
}

setters! {
    FetchOptions {
        extra_roots: Vec<CertificateDer<'static>>,
        host_tls: impl Into<Option<HostTls>>,
    }
}

impl FetchOptions {
    /// Also trusts every certificate in `pem`, the text of a CA bundle.
    pub fn trust_pem(&mut self, pem: &[u8]) -> Result<(), SetupError> {
        let mut tls = ServerTls::default();
        tls.trust_pem(pem)?;
        self.extra_roots.append(&mut tls.extra_roots);
        Ok(())
    }
}

impl Fetch {
    /// The same client for the server at `url`, with a pool of its own if TLS with that server
    /// is another. Servers with the same settings share it. Only certificates to trust hold for
    /// other hosts, too.
    pub fn with_tls(&self, url: &Uri, tls: &ServerTls) -> Result<Self, SetupError> {
        let ServerTls { extra_roots, identity, is_insecure } = tls.clone();
        let is_its_own = identity.is_some() || is_insecure;
        if extra_roots.is_empty() && !is_its_own {
            return Ok(self.clone());
        }
        let host = url.host().unwrap_or_default().to_ascii_lowercase();
        let host_tls = is_its_own.then_some(HostTls { host, identity, is_insecure });
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
    /// For the one host with which TLS is another.
    host: Option<(Arc<str>, ClientConfig)>,
}

impl TlsSetup {
    pub(super) fn new(options: &FetchOptions) -> Result<Self, SetupError> {
        let usual = tls_config(&options.extra_roots, None)?;
        let host = options.host_tls.as_ref().map(|host| {
            let config = tls_config(&options.extra_roots, Some(host));
            config.map(|config| (host.host.as_str().into(), config))
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

    /// Makes connections to the one host with which TLS is another.
    pub(super) fn to_host<T>(&self, dial: T) -> Option<(Arc<str>, HttpsConnector<T>)> {
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
        assert!(is_same(&one, &at("https://A:1/y", &insecure)));
        assert!(!is_same(&one, &at("https://b/", &insecure)));
        for n in 0..=MOST_OTHERS {
            at(&format!("https://h{n}/"), &insecure);
        }
        assert_eq!(lock(&plain.others).len(), MOST_OTHERS);
    }
}
