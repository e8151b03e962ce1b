//! TLS: what one side shows of itself, and our side of handshakes with clients.

use std::fmt;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::connection::lock;

/// A certificate with those that vouch for it, and its private key: what a server shows to
/// clients, or a client to servers that ask for it. Cheap to clone.
#[derive(Clone)]
pub struct TlsIdentity(Arc<CertifiedKey>);

/// Why a certificate and a key are no identity.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IdentityError {
    /// The first file has none.
    #[error("the certificate file has no certificate in PEM form")]
    NoCertificate,
    /// The first file breaks off, or is not text.
    #[error("the certificate file is damaged")]
    BadCertificate,
    /// The second file has none.
    #[error("the key file has no private key in PEM form")]
    NoKey,
    /// A passphrase would be needed.
    #[error("the private key is encrypted; write it decrypted: openssl pkey -in KEY -out PLAIN")]
    EncryptedKey,
    /// RSA, ECDSA (P-256, P-384) and Ed25519 are known.
    #[error("the private key is damaged, or of a kind that is not supported")]
    BadKey,
    /// They were issued apart.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
}

impl TlsIdentity {
    /// Reads the texts of a certificate file, with the server's own certificate first, and of a
    /// key file. They may be one.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|_| IdentityError::BadCertificate)?;
        if chain.is_empty() {
            return Err(IdentityError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound if is_encrypted(key) => IdentityError::EncryptedKey,
            pem::Error::NoItemsFound => IdentityError::NoKey,
            _ => IdentityError::BadKey,
        })?;
        let provider = rustls::crypto::ring::default_provider();
        let certified =
            CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    IdentityError::Mismatch
                }
                rustls::Error::InvalidCertificate(_) => IdentityError::BadCertificate,
                _ => IdentityError::BadKey,
            })?;
        Ok(Self(Arc::new(certified)))
    }

    pub(super) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0)
    }
}

fn is_encrypted(key: &[u8]) -> bool {
    String::from_utf8_lossy(key).contains("BEGIN ENCRYPTED PRIVATE KEY")
}

/// The key belongs to the certificate, so the certificates say it all.
impl PartialEq for TlsIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.0.cert == other.0.cert
    }
}

impl Eq for TlsIdentity {}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").field("certificates", &self.0.cert.len()).finish()
    }
}

/// TLS of a listener: 1.2 and 1.3, with HTTP/2 and HTTP/1.1. Clones are one.
#[derive(Clone, Debug)]
pub struct ListenTls {
    shown: Arc<ShownIdentity>,
    config: Arc<ServerConfig>,
}

impl ListenTls {
    /// Shows this identity to every client.
    pub fn new(identity: TlsIdentity) -> Self {
        let shown = Arc::new(ShownIdentity(Mutex::new(identity.0)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring knows the suites of both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::<ShownIdentity>::clone(&shown));
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        Self { shown, config: Arc::new(config) }
    }

    /// Shows another identity from the next handshake on. Connections that are open stay.
    pub fn replace(&self, identity: TlsIdentity) {
        *lock(&self.shown.0) = identity.0;
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

/// HTTP/2 in the handshake.
pub(super) const H2: &[u8] = b"h2";

/// What the next client is shown.
#[derive(Debug)]
struct ShownIdentity(Mutex<Arc<CertifiedKey>>);

impl ResolvesServerCert for ShownIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&lock(&self.0)))
    }
}
