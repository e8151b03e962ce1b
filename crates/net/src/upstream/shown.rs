//! What we show a server about ourselves: found out when a connection is made,
//! and once more when the server does not let us in.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switchboard_proto::failure::Failure;

use http::{HeaderMap, HeaderName};
use tokio::sync::Mutex;

use super::target::tidy;
use super::{Target, Upstream};
use crate::face::now;

/// The headers of a connection, where they are not known before it is made.
pub trait Credential: Send + Sync {
    /// Headers of clients that are passed on.
    fn passes(&self) -> &[HeaderName];
    /// All headers, for a client with these. Those that are the protocol's to
    /// set are left out of them.
    fn headers(&self, client: &HeaderMap) -> Fetching<'_>;
}

/// Headers on their way.
pub type Fetching<'c> = Pin<Box<dyn Future<Output = Result<HeaderMap, NoCredential>> + Send + 'c>>;

/// Why there are none, for the log. It may name files, so clients do not see it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoCredential(pub String);

/// What a connection shows.
#[derive(Default)]
pub(super) struct Shown {
    /// Held while they are read, so that they are read once for all who wait.
    headers: Mutex<Option<(Arc<HeaderMap>, Instant)>>,
}

/// A connection that is made so soon after another is a part of the same attempt.
const SAME_ATTEMPT: Duration = Duration::from_secs(5);

impl Upstream {
    /// The headers to send, other ones than `stale` if those were no good.
    pub(super) async fn shown(
        &self,
        stale: Option<&Arc<HeaderMap>>,
    ) -> Result<Arc<HeaderMap>, Failure> {
        let mut headers = self.shown.headers.lock().await;
        if let Some((known, _)) = &*headers
            && stale.is_none_or(|stale| !Arc::ptr_eq(stale, known))
        {
            return Ok(Arc::clone(known));
        }
        let none = HeaderMap::new();
        let found = match (self.server.credential(), self.server.target()) {
            (Some(credential), _) => {
                let found = credential.headers(self.server.passed().unwrap_or(&none)).await;
                let mut found = found.map_err(|why| {
                    tracing::warn!(server = self.name, "{why}");
                    Failure::NoCredential
                })?;
                tidy(&mut found);
                found
            }
            (None, Target::Url { headers, .. }) => headers.clone(),
            (None, Target::Command(_)) => none,
        };
        let found = Arc::new(found);
        *headers = Some((Arc::clone(&found), now()));
        Ok(found)
    }

    /// A connection is made: what was read for an earlier one is not shown any more.
    pub(super) async fn show_anew(&self) {
        let mut headers = self.shown.headers.lock().await;
        headers.take_if(|(_, read)| now().saturating_duration_since(*read) >= SAME_ATTEMPT);
    }

    /// Whether it is worth asking for other headers.
    pub(super) fn may_show_others(&self) -> bool {
        self.server.credential().is_some()
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}
