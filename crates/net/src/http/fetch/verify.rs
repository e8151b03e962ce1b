//! Which servers are trusted in TLS: those that the system trusts, those whose authority or own
//! certificate the user adds, and, if the user insists, any.
//!
//! Whatever the certificate, the server must prove in the handshake that it has the key to it.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::tls_error::date;

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
    system: OnceLock<Verifier>,
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
        self.system_by(|| {
            // Others are trusted as they are, and for nobody else.
            let extra = self.extra.iter().filter(|it| may_issue(it)).cloned();
            Verifier::new_with_extra_roots(extra, Arc::clone(&self.provider))
        })
    }

    /// The system's verifier, from `load` if there is none yet. A system whose certificates
    /// cannot be read now may be mended, so that is not kept.
    fn system_by(
        &self,
        load: impl FnOnce() -> Result<Verifier, rustls::Error>,
    ) -> Result<&Verifier, rustls::Error> {
        if let Some(system) = self.system.get() {
            return Ok(system);
        }
        let loaded = load()?;
        Ok(self.system.get_or_init(|| loaded))
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

/// What there is to say against a certificate if nobody vouches for it: its dates first.
fn complaint(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<rustls::Error> {
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let nobody = RootCertStore::empty();
    verify_server_cert_signed_by_trust_anchor(&certificate, &nobody, &[], now, algorithms).err()
}

/// Whether a certificate says that its owner may issue others; one of the first version of
/// X.509, which cannot be parsed here, has no words for it.
fn may_issue(certificate: &CertificateDer<'_>) -> bool {
    complaint(certificate, UnixTime::now()).is_none_or(|error| is_authority(&error))
}

/// Why a certificate makes nobody trusted at present: its dates.
pub(super) fn why_useless(certificate: &CertificateDer<'_>) -> Option<String> {
    use CertificateError::{ExpiredContext, NotValidYetContext};
    match complaint(certificate, UnixTime::now())? {
        rustls::Error::InvalidCertificate(ExpiredContext { not_after, .. }) => {
            Some(format!("expired on {}", date(not_after)))
        }
        rustls::Error::InvalidCertificate(NotValidYetContext { not_before, .. }) => {
            Some(format!("is valid from {} on", date(not_before)))
        }
        _ => None,
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

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn an_authority_whose_dates_do_not_allow_it_is_named_with_the_reason() {
        let authority = |from: i32, to: i32| {
            let mut params = CertificateParams::new([]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 12, 31);
            let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            why_useless(made.der())
        };
        assert_eq!(authority(2000, 2020).as_deref(), Some("expired on 2020-12-31"));
        assert_eq!(authority(2900, 2999).as_deref(), Some("is valid from 2900-01-01 on"));
        assert_eq!(authority(2000, 2999), None);
    }

    #[test]
    fn certificates_of_the_system_that_could_not_be_read_are_read_again() {
        let provider = Arc::new(ring::default_provider());
        let verifier = ServerVerifier::new(&provider, Vec::new(), false);
        let broken = || Err(rustls::Error::General("no file".to_owned()));
        assert!(verifier.system_by(broken).is_err());
        let own = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let mended =
            || Verifier::new_with_extra_roots([own.cert.der().clone()], Arc::clone(&provider));
        assert!(verifier.system_by(mended).is_ok());
        assert!(verifier.system_by(broken).is_ok(), "it is loaded once");
    }
}
