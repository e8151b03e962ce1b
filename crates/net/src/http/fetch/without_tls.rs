//! Stands where TLS would be, in a program that is built without it: https is refused.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::Scheme;
use tower_service::Service;

use super::Fetch;
use super::connect::{BoxError, Connecting};
use crate::secret::IdentityDigest;

/// An https URL, and no TLS.
#[derive(Debug, thiserror::Error)]
#[error("this program is built without TLS; build it with the feature \"tls\" of switchboard-net")]
pub(super) struct BuiltWithoutTls;

/// What a connector without TLS connects to.
pub(super) type BareStream<T> = T;

/// Makes connections for plain HTTP.
#[derive(Clone)]
pub(super) struct PlainConnector<T>(T);

impl<T> fmt::Debug for PlainConnector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainConnector").finish_non_exhaustive()
    }
}

impl<T> Service<Uri> for PlainConnector<T>
where
    T: Service<Uri, Error: Into<BoxError>, Future: Send + 'static> + 'static,
{
    type Response = BareStream<T::Response>;
    type Error = BoxError;
    type Future = Connecting<T::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        if target.scheme() == Some(&Scheme::HTTPS) {
            return Box::pin(async { Err(BuiltWithoutTls.into()) });
        }
        let connecting = self.0.call(target);
        Box::pin(async { connecting.await.map_err(Into::into) })
    }
}

/// Stands where the one server would be with which TLS is another: there is none.
#[derive(Debug)]
pub(super) enum NoHost {}

impl NoHost {
    pub(super) fn is_at(&self, _: &Uri) -> bool {
        match *self {}
    }
}

impl Fetch {
    #[allow(clippy::unused_self, reason = "without TLS nobody is verified")]
    pub(crate) fn digest_trust(&self, _: &Uri, _: &mut IdentityDigest) {}

    #[allow(clippy::unused_self, reason = "without TLS nothing is shown")]
    pub(crate) fn digest_shown(&self, _: &Uri, _: &mut IdentityDigest) {}

    #[allow(clippy::unused_self, reason = "without TLS nothing is shown")]
    pub(super) fn shows_identity(&self, _: &Uri) -> bool {
        false
    }
}

/// Stands where settings for TLS would be.
pub(super) struct NoTlsSetup;

#[allow(clippy::unused_self, reason = "stands in for settings")]
impl NoTlsSetup {
    pub(super) fn to_proxies<T>(&self, tcp: T) -> PlainConnector<T> {
        PlainConnector(tcp)
    }

    pub(super) fn to_servers<T>(&self, dial: T) -> PlainConnector<T> {
        PlainConnector(dial)
    }

    pub(super) fn to_host<T>(&self, _: T) -> Option<(Arc<NoHost>, PlainConnector<T>)> {
        None
    }
}
