//! What issuers say of people, and not of tokens.

use serde_json::{Map, Value};
use switchboard_net::auth::bounded::{self, AskError};
use switchboard_net::auth::jws::{BadToken, SignedToken};

use super::{Issuers, KEY_WAIT, MAX_DOCUMENT};
use crate::lock;

impl Issuers {
    /// The claims of a JWT that the issuer of this name has signed. They may say anything.
    pub(crate) async fn verify(
        &self,
        name: &str,
        token: &str,
    ) -> Result<Map<String, Value>, IssuerFault> {
        let state = self.state(name)?;
        let token = SignedToken::parse(token)?;
        let mut keys_read = state.keys_read.subscribe();
        let mut verified = state.verifies(&token);
        if verified.is_err() && state.may_read_again() {
            state.read_again();
            _ = tokio::time::timeout(KEY_WAIT, keys_read.changed()).await;
            verified = state.verifies(&token);
        }
        verified.map(|()| token.claims().clone()).map_err(IssuerFault::Form)
    }

    /// What the issuer of this name tells the bearer of one of its tokens about a person.
    pub(crate) async fn userinfo(
        &self,
        name: &str,
        token: &str,
    ) -> Result<Map<String, Value>, IssuerFault> {
        let state = self.state(name)?;
        let known = lock(&state.userinfo).clone();
        let url = match known {
            Some(url) => url,
            None => state.discover("userinfo_endpoint").await?,
        };
        let told = bounded::get_as(&state.fetch, &url, token, MAX_DOCUMENT).await;
        // It may have moved.
        Ok(told.inspect_err(|_| *lock(&state.userinfo) = None)?.object)
    }
}

/// Why an issuer says nothing of a person that counts.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssuerFault {
    #[error("{0}")]
    Ask(#[from] AskError),
    #[error("{0}")]
    Form(#[from] BadToken),
    #[error("the issuer is not in the configuration any more")]
    Gone,
}
