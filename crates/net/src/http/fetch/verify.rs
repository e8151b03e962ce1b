//! Which servers are trusted in TLS: those that the system trusts, those whose authority or own
//! certificate the user adds, and, if the user insists, any.
//!
//! Whatever the certificate, the server must prove in the handshake that it has the key to it.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Verifies the certificates of servers.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    provider: Arc<CryptoProvider>,
    /// Authorities and single certificates that the user trusts beside the system's.
    extra: Vec<CertificateDer<'static>>,
    /// Whether any certificate will do.
    is_insecure: bool,
    /// The system's verifier. It is loaded on the first TLS handshake: reading a hundred
    /// certificates takes longer than most requests, and whoever only speaks plain HTTP,
    /// perhaps on a system without any, needs none.
    system: OnceLock<Result<Verifier, rustls::Error>>,
}

impl ServerVerifier {
    pub(super) fn new(
        provider: &Arc<CryptoProvider>,
        extra: Vec<CertificateDer<'static>>,
        is_insecure: bool,
    ) -> Self {
        let (provider, system) = (Arc::clone(provider), OnceLock::new());
        Self { provider, extra, is_insecure, system }
    }

    fn system(&self) -> Result<&Verifier, rustls::Error> {
        let load = || {
            // Others are trusted as they are, and for nobody else.
            let extra = self.extra.iter().filter(|it| self.may_issue(it)).cloned();
            Verifier::new_with_extra_roots(extra, Arc::clone(&self.provider))
        };
        self.system.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// Whether a certificate says that its owner may issue others; one of the first version of
    /// X.509, which cannot be parsed here, has no words for it.
    fn may_issue(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return true };
        let algorithms = self.provider.signature_verification_algorithms.all;
        let (nobody, now) = (RootCertStore::empty(), UnixTime::now());
        let signed =
            verify_server_cert_signed_by_trust_anchor(&certificate, &nobody, &[], now, algorithms);
        signed.is_err_and(|error| is_authority(&error))
    }

    /// Verifies a certificate that the user trusts as it is, for example a self-signed one: its
    /// dates and its names. Who issued it, and whether it could issue others, does not matter.
    fn verify_pinned(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let nobody = RootCertStore::empty();
        // Dates are looked at before issuers.
        let signed =
            verify_server_cert_signed_by_trust_anchor(&certificate, &nobody, &[], now, algorithms);
        signed.or_else(|error| if is_about_issuing(&error) { Ok(()) } else { Err(error) })?;
        verify_server_name(&certificate, name)?;
        Ok(ServerCertVerified::assertion())
    }
}

/// Whether a certificate is refused for who issued it, or because it may issue others.
pub(super) fn is_about_issuing(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        _ => is_authority(error),
    }
}

/// Whether a certificate is refused because it may issue others.
fn is_authority(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => {
            matches!(why.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.is_insecure {
            return Ok(ServerCertVerified::assertion());
        }
        if self.extra.iter().any(|pinned| pinned == certificate) {
            return self.verify_pinned(certificate, name, now);
        }
        self.system()?.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
