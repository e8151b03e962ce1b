//! What can go wrong with a request, in words that help the person who made it.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::time::Duration;

use http::uri::Scheme;
use http::{StatusCode, Uri};
use hyper_util::client::legacy;
use switchboard_proto::auth::origin_of;
use switchboard_proto::failure::{Failure, FailureSource};

use super::connect::{ThroughProxy, Unresolved};
#[cfg(feature = "tls")]
use super::tls_error;
#[cfg(not(feature = "tls"))]
use super::without_tls::BuiltWithoutTls;

/// No answer came back.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FetchError {
    /// Not a URL that a request can be sent to.
    #[error("not an absolute http:// or https:// URL")]
    BadUrl,
    /// The connection failed after the request may have been sent; whether the
    /// server acted on it is not known.
    #[error("connection to {origin} was lost before the answer")]
    Lost { origin: String, source: Cause },
    /// The proxy did not let us through; look at its URL and credentials.
    #[error("proxy {proxy} opened no way to {origin}")]
    ProxyRefused { proxy: String, origin: String, source: Cause },
    /// A redirect to another origin, or one that would change the method. Use the
    /// new URL if it is trusted.
    #[error("server redirects ({status}) to {origin}, which is not followed")]
    RedirectRefused { status: StatusCode, origin: String },
    /// The host is there, the server is not running.
    #[error("connection refused by {origin}")]
    Refused { origin: String },
    /// No connection within the time allowed for it.
    #[error("no connection to {origin} within {limit:?}")]
    TimedOut { origin: String, limit: Duration },
    /// No secure connection, most often because of an untrusted certificate.
    #[error("no trusted TLS connection to {origin}")]
    Tls { origin: String, source: Cause },
    /// The server redirects in circles.
    #[error("more than {max} redirects")]
    TooManyRedirects { max: usize },
    /// The network has no way to the host.
    #[error("cannot connect to {origin}")]
    Unreachable { origin: String, source: Cause },
    /// The name of the host is not known to DNS.
    #[error("cannot resolve {origin}")]
    Unresolved { origin: String, source: Cause },
}

/// The client cannot be made as asked.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// The text of a CA bundle does not parse.
    #[error("certificate file is damaged")]
    BadPem(#[source] Cause),
    /// The value is not repeated, as it may contain a password.
    #[error("{variable} names no proxy that can be used")]
    BadProxy { variable: &'static str },
    /// An extra root is no certificate.
    #[error("certificate to trust cannot be read")]
    BadRoot(#[source] Cause),
    /// A CA bundle without any certificate.
    #[error("no certificate in the file")]
    NoCertificate,
    /// The TLS library refuses its own defaults.
    #[error("TLS cannot be set up")]
    Tls(#[source] Cause),
}

/// The innermost reason, in the words of whoever found it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        Self(causes(error).last().map(ToString::to_string).unwrap_or_default())
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::Unreachable { source: FailureSource::new(error) }
    }
}

impl FetchError {
    /// Whether the request certainly never reached the server, so that sending it
    /// again can do no harm.
    pub fn is_connect(&self) -> bool {
        !matches!(
            self,
            Self::BadUrl
                | Self::Lost { .. }
                | Self::RedirectRefused { .. }
                | Self::TooManyRedirects { .. }
        )
    }

    pub(super) fn proxy_wants_credentials(proxy: &Uri, target: &Uri) -> Self {
        Self::ProxyRefused {
            proxy: origin_of(proxy),
            origin: origin_of(target),
            source: Cause("proxy authorization required".to_owned()),
        }
    }

    pub(super) fn from_client(
        error: &legacy::Error,
        target: &Uri,
        limit: Duration,
        has_identity: bool,
    ) -> Self {
        // In TLS 1.3 our side of the handshake is over before the server looks at our certificate.
        #[cfg(feature = "tls")]
        let is_refused = causes(error)
            .filter_map(|cause| cause.downcast_ref())
            .any(tls_error::is_about_identity);
        #[cfg(not(feature = "tls"))]
        let is_refused = false;
        if !error.is_connect() && !is_refused {
            return Self::Lost { origin: origin_of(target), source: Cause::of(error) };
        }
        Self::from_connector(error, target, limit, has_identity)
    }

    /// Why there is no connection. `has_identity` is whether we have a certificate to show.
    #[cfg_attr(not(feature = "tls"), allow(unused_variables, reason = "there is none"))]
    pub(super) fn from_connector(
        error: &(dyn Error + 'static),
        target: &Uri,
        limit: Duration,
        has_identity: bool,
    ) -> Self {
        let origin = origin_of(target);
        let source = Cause::of(error);
        for cause in causes(error) {
            if let Some(through) = cause.downcast_ref::<ThroughProxy>() {
                return Self::ProxyRefused { proxy: through.proxy.clone(), origin, source };
            }
            if cause.is::<Unresolved>() {
                return Self::Unresolved { origin, source };
            }
            #[cfg(not(feature = "tls"))]
            if cause.is::<BuiltWithoutTls>() {
                return Self::Tls { origin, source };
            }
            #[cfg(feature = "tls")]
            if let Some(error) = cause.downcast_ref::<rustls::Error>() {
                tracing::debug!(%error, "TLS handshake failed");
                let host = target.host().unwrap_or_default();
                let reason = tls_error::reason(error, host, has_identity);
                return Self::Tls { origin, source: Cause(reason) };
            }
            match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(io::ErrorKind::ConnectionRefused) => return Self::Refused { origin },
                Some(io::ErrorKind::TimedOut) => return Self::TimedOut { origin, limit },
                // A server without TLS hangs up in the middle of the handshake.
                #[cfg(feature = "tls")]
                Some(io::ErrorKind::UnexpectedEof) if target.scheme() == Some(&Scheme::HTTPS) => {
                    return Self::Tls { origin, source: Cause(tls_error::HUNG_UP.to_owned()) };
                }
                _ => {}
            }
        }
        Self::Unreachable { origin, source }
    }
}

/// The chain of reasons. `io::Error::source` skips the error it was made from, so
/// that one is asked for by name.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
    })
}
