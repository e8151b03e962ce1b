//! Why there is no TLS connection, in words that say what to do about it.

use std::time::{Duration, UNIX_EPOCH};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};
use switchboard_proto::moment;

use super::verify::is_about_issuing;

/// What to do about a certificate that nobody vouches for.
const UNTRUSTED: &str = "its certificate is not signed by an authority that is trusted here; \
    trust the authority, or this certificate alone: --ca-file PEM, or \"caFile\" in a \
    configuration file";

const WANTS_IDENTITY: &str = "the server wants a client certificate; give one with --client-cert \
    and --client-key, or \"clientCert\" and \"clientKey\" in a configuration file";

const IDENTITY_REFUSED: &str = "the server does not accept our client certificate; check its \
    dates, and that the server trusts its authority";

/// A server without TLS, or none that answers.
pub(super) const HUNG_UP: &str =
    "the server hung up in the TLS handshake; does it speak plain http://?";

/// Names of a certificate that are told.
const MOST_NAMES: usize = 6;

/// The reason for people, of a connection to `host`, which was shown a certificate of ours if
/// we have one.
pub(super) fn reason(error: &rustls::Error, host: &str, has_identity: bool) -> String {
    match error {
        error if is_about_issuing(error) => UNTRUSTED.to_owned(),
        rustls::Error::InvalidCertificate(why) => certificate(why, host),
        rustls::Error::AlertReceived(alert) => refusal(*alert, host, has_identity),
        rustls::Error::InvalidMessage(_) => {
            "what answers there does not speak TLS; is it plain http://?".to_owned()
        }
        rustls::Error::PeerIncompatible(_) => {
            "the server speaks no TLS version or cipher that is safe; update the server".to_owned()
        }
        rustls::Error::General(text) => {
            format!(
                "the certificates that the system trusts cannot be used ({text}); install ca-certificates, or name a file of authorities: --ca-file, \"caFile\" in a file"
            )
        }
        _ => "the TLS handshake failed; look into the log of the server".to_owned(),
    }
}

/// Whether a server ended a connection because of our client certificate, or for want of one:
/// then it has not looked at the request.
pub(super) fn is_about_identity(error: &rustls::Error) -> bool {
    use AlertDescription as Alert;
    let rustls::Error::AlertReceived(alert) = error else { return false };
    matches!(
        alert,
        Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate
    )
}

fn certificate(why: &CertificateError, host: &str) -> String {
    match why {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate expired on {}; renew it on the server", date(*not_after))
        }
        CertificateError::Expired => {
            "its certificate has expired; renew it on the server".to_owned()
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            let from = date(*not_before);
            format!("its certificate is valid from {from} on; check the clocks of both machines")
        }
        CertificateError::NotValidYet => {
            "its certificate is not valid yet; check the clocks of both machines".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(presented, host),
        CertificateError::NotValidForName => wrong_name(&[], host),
        CertificateError::Revoked => {
            "its certificate is revoked; renew it on the server".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not one for servers; have one issued that is".to_owned()
        }
        CertificateError::BadSignature => {
            "its certificate is not signed by the authority that it names; trust the right one: \
             --ca-file PEM, or \"caFile\" in a configuration file"
                .to_owned()
        }
        _ => "its certificate cannot be used; have another one issued for the server".to_owned(),
    }
}

fn wrong_name(presented: &[String], host: &str) -> String {
    let mut names: Vec<_> = presented.iter().filter_map(|name| plain_name(name)).collect();
    if names.is_empty() {
        return format!(
            "its certificate names no host; have one issued with the subject alternative name {host}"
        );
    }
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names.join(", ");
    format!(
        "its certificate is for {names}{more}, not for {host}; use one of these names in the URL, \
         or have a certificate issued for {host}"
    )
}

/// A name as people write it: rustls tells `DnsName("a.example")` and `IpAddress(127.0.0.1)`.
fn plain_name(name: &str) -> Option<&str> {
    let (kind, rest) = name.split_once('(')?;
    let is_host = matches!(kind, "DnsName" | "IpAddress");
    is_host.then(|| rest.trim_end_matches(')').trim_matches('"'))
}

fn refusal(alert: AlertDescription, host: &str, has_identity: bool) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired => WANTS_IDENTITY.to_owned(),
        Alert::HandshakeFailure | Alert::InsufficientSecurity | Alert::ProtocolVersion => {
            format!(
                "server and client have no TLS version or cipher in common; or {WANTS_IDENTITY}"
            )
        }
        Alert::UnrecognisedName => {
            format!("the server has no certificate for {host}; check the name in the URL")
        }
        alert if is_about_identity(&rustls::Error::AlertReceived(alert)) => {
            let reason = if has_identity { IDENTITY_REFUSED } else { WANTS_IDENTITY };
            reason.to_owned()
        }
        _ => "the server ended the TLS handshake; look into its log".to_owned(),
    }
}

/// A day, as `2026-01-31`.
pub(super) fn date(time: UnixTime) -> String {
    let text = moment::text(UNIX_EPOCH + Duration::from_secs(time.as_secs()));
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use rustls::OtherError;

    use super::*;

    #[test]
    fn reasons_say_what_to_do_and_name_nothing_of_the_library() {
        let invalid = |why| rustls::Error::InvalidCertificate(why);
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let names = ["DnsName(\"a.example\")", "IpAddress(10.0.0.1)", "DirectoryName"];
        let presented = names.map(ToOwned::to_owned).to_vec();
        let expected = "b.example".try_into().unwrap();
        let other = OtherError(std::sync::Arc::new(webpki::Error::CaUsedAsEndEntity));
        for (error, says) in [
            (invalid(CertificateError::UnknownIssuer), "--ca-file"),
            (invalid(CertificateError::Other(other)), "--ca-file"),
            (
                invalid(CertificateError::ExpiredContext {
                    time: at(9),
                    not_after: at(86_400 * 365),
                }),
                "expired on 1971-01-01",
            ),
            (
                invalid(CertificateError::NotValidForNameContext { expected, presented }),
                "is for a.example, 10.0.0.1, not for b.example",
            ),
            (rustls::Error::AlertReceived(AlertDescription::CertificateRequired), "--client-cert"),
            (rustls::Error::AlertReceived(AlertDescription::UnknownCA), "--client-cert"),
            (invalid(CertificateError::BadEncoding), "have another one issued"),
            (rustls::Error::DecryptError, "failed"),
        ] {
            let reason = reason(&error, "b.example", false);
            assert!(reason.contains(says), "{reason}");
            let is_inner = ["Error", "Context", "::", "InvalidCert", "Dns"];
            assert!(!is_inner.iter().any(|word| reason.contains(word)), "{reason}");
        }
        let refused = rustls::Error::AlertReceived(AlertDescription::UnknownCA);
        let reason = reason(&refused, "b.example", true);
        assert!(reason.contains("does not accept our client certificate"), "{reason}");
        let many: Vec<_> = (0..9).map(|n| format!("DnsName(\"h{n}\")")).collect();
        assert!(wrong_name(&many, "x").contains("h5 and 3 more, not for x"));
        assert!(wrong_name(&[], "x").contains("alternative name x"));
    }
}
