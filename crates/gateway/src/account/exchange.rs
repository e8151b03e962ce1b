//! Shows a server a token that the user's own access token was exchanged for (RFC 8693, OX-6).
//!
//! ```text
//!   client ──its token──▶ Authenticator (checked, the newest of each user is kept)
//!                           │ SubjectTokens
//!   server ◀─new token── ExchangeCredential ──user's token──▶ the token endpoint of the file
//! ```

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderName, StatusCode};
use switchboard_net::auth::{Authorizer, shown_token};
use switchboard_net::upstream::{
    Credential, CredentialRefusal, CredentialUser, Fetching, IdentityDigest,
};
use switchboard_proto::auth::{AuthError, TokenRecord};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{UserTable, unix_time};
use crate::authenticator::SubjectToken;

/// How long no exchange is tried for a user after one that failed.
const EXCHANGE_PAUSE: Duration = Duration::from_secs(10);

/// Where the access tokens of users are found, once the gateway has an authenticator.
#[derive(Clone, Default)]
pub(crate) struct SubjectTokens(Arc<OnceLock<Box<FindSubject>>>);

type FindSubject = dyn Fn(&str) -> Option<SubjectToken> + Send + Sync;

impl SubjectTokens {
    /// Has them found by this, from here on.
    pub(crate) fn set(&self, find: impl Fn(&str) -> Option<SubjectToken> + Send + Sync + 'static) {
        _ = self.0.set(Box::new(find));
    }

    fn find(&self, principal: &str) -> Option<SubjectToken> {
        self.0.get()?(principal)
    }
}

impl fmt::Debug for SubjectTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectTokens")
    }
}

/// Shows a server a token of the user that a connection is for. It was exchanged for the
/// access token that the user showed the gateway, which the server never sees (OR-17).
pub(super) struct ExchangeCredential {
    server: String,
    authorizer: Authorizer,
    others: Arc<dyn Credential>,
    subjects: SubjectTokens,
    /// The lock of a user is held while their token is exchanged: once for all that wait.
    users: UserTable<Mutex<ExchangedToken>>,
}

#[derive(Default)]
struct ExchangedToken {
    /// The token, and the identity of the user whom it was issued for.
    record: Option<(TokenRecord, Option<Arc<str>>)>,
    /// The last exchange, if it failed, and when.
    failed: Option<(Instant, AuthError)>,
}

impl ExchangeCredential {
    pub(super) fn new(
        server: String,
        authorizer: Authorizer,
        others: Arc<dyn Credential>,
        subjects: SubjectTokens,
    ) -> Self {
        Self { server, authorizer, others, subjects, users: UserTable::default() }
    }

    /// The token of a user; none if the server refuses it for good.
    async fn token(
        &self,
        principal: &str,
        refusal: Option<&CredentialRefusal>,
    ) -> Result<Option<TokenRecord>, AuthError> {
        let missing = || AuthError::NoSubjectToken { principal: principal.to_owned() };
        // A user who is not let in any more has no token of the server either.
        let subject = self.subjects.find(principal).ok_or_else(missing)?;
        let user = self.users.find(principal, || Some(Mutex::default())).ok_or_else(missing)?;
        let mut user = user.lock().await;
        let now = unix_time();
        user.record.take_if(|(it, whose)| it.is_over(now) || *whose != subject.identity);
        let refused = refusal.and_then(|it| shown_token(&it.shown));
        let is_refused = |it: &TokenRecord| refused.as_deref() == Some(it.access_token.reveal());
        let kept = user.record.as_ref().map(|(it, _)| it).filter(|it| !is_refused(it)).cloned();
        if let Some(kept) = kept.as_ref().filter(|it| !it.is_stale(now)) {
            return Ok(Some(kept.clone()));
        }
        // Another token of the same kind would be refused alike.
        let is_final =
            |it: &CredentialRefusal| it.status != StatusCode::UNAUTHORIZED || it.attempt > 0;
        if refusal.is_some_and(is_final) {
            return Ok(kept);
        }
        if let Some((since, why)) = &user.failed
            && since.elapsed() < EXCHANGE_PAUSE
        {
            return kept.map(Some).ok_or_else(|| why.clone());
        }
        match self.authorizer.exchange(subject.token).await {
            Ok(mut record) => {
                // One that does not say when it ends is not used for longer than the other.
                record.expires_at = record.expires_at.or(Some(subject.expires));
                user.failed = None;
                user.record = Some((record.clone(), subject.identity));
                tracing::info!(server = self.server, user = principal, "a token was exchanged");
                Ok(Some(record))
            }
            Err(why) => {
                user.failed = Some((Instant::now(), why.clone()));
                kept.map(Some).ok_or(why)
            }
        }
    }
}

impl Credential for ExchangeCredential {
    fn passes(&self) -> &[HeaderName] {
        self.others.passes()
    }

    fn has_accounts(&self) -> bool {
        true
    }

    fn digest(&self, user: CredentialUser<'_>, digest: &mut IdentityDigest) {
        self.authorizer.digest(digest);
        digest.add(user.principal);
        self.others.digest(user, digest);
    }

    fn headers<'c>(
        &'c self,
        user: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        Box::pin(async move {
            let Some(token) = self.token(user.principal, refusal).await? else { return Ok(None) };
            let mut found = self.others.headers(user, None).await?.unwrap_or_default();
            found.show_bearer(&token, unix_time())?;
            Ok(Some(found))
        })
    }
}
