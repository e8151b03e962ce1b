//! Whom we trust.
//!
//! The system's verifier is loaded on the first TLS handshake: reading a hundred
//! certificates takes longer than most requests, and whoever only speaks plain
//! HTTP, perhaps on a system without any, needs none.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::error::{Cause, SetupError};

/// TLS 1.2 and 1.3, no client certificate.
pub(super) fn config(extra: Vec<CertificateDer<'static>>) -> Result<ClientConfig, SetupError> {
    for root in &extra {
        let added = RootCertStore::empty().add(root.clone());
        added.map_err(|error| SetupError::BadRoot(Cause::of(&error)))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let system = System { provider: Arc::clone(&provider), extra, loaded: OnceLock::new() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::Tls(Cause::of(&error)))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(system))
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct System {
    provider: Arc<CryptoProvider>,
    extra: Vec<CertificateDer<'static>>,
    loaded: OnceLock<Result<Verifier, Error>>,
}

impl System {
    fn verifier(&self) -> Result<&Verifier, Error> {
        let load = || {
            let extra = self.extra.iter().cloned();
            Verifier::new_with_extra_roots(extra, Arc::clone(&self.provider))
        };
        self.loaded.get_or_init(load).as_ref().map_err(Clone::clone)
    }
}

impl ServerCertVerifier for System {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier()?.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
