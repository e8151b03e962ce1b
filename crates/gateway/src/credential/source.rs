//! Credentials as connections ask for them.

use std::error::Error as _;
use std::ffi::OsString;
use std::fmt;

use http::{HeaderMap, HeaderName};
use switchboard_net::upstream::{Credential, Fetching, NoCredential};

use super::{Credentials, may_pass};

/// What one server is shown: files and commands are read whenever it is asked for.
pub struct Source {
    credentials: Credentials,
    passes: Vec<HeaderName>,
    /// What the file spells out.
    configured: HeaderMap,
    /// What the command sees.
    environment: Vec<(OsString, OsString)>,
}

impl Source {
    /// For a server with these credentials, and headers that its file spells out.
    pub fn new(
        credentials: Credentials,
        configured: HeaderMap,
        environment: Vec<(OsString, OsString)>,
    ) -> Self {
        let passes = credentials.pass.iter().filter(|name| may_pass(name)).cloned().collect();
        Self { credentials, passes, configured, environment }
    }
}

impl Credential for Source {
    fn passes(&self) -> &[HeaderName] {
        &self.passes
    }

    fn headers(&self, client: &HeaderMap) -> Fetching<'_> {
        let client = client.clone();
        Box::pin(async move {
            let fetched = self.credentials.fetch(&self.environment).await.map_err(|error| {
                let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
                NoCredential(format!("{error}{why}"))
            })?;
            Ok(self.credentials.merge(&client, &self.configured, &fetched))
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("credentials", &self.credentials).finish_non_exhaustive()
    }
}
