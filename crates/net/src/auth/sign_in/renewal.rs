//! Other tokens for the ones that are over: one renewal at a time, for all processes.

use std::sync::Arc;
use std::time::Duration;

use switchboard_proto::auth::{AuthError, Registration, SignIn, TokenRecord};

use super::Authorizer;
use super::drive::{local, read, write};
use crate::auth::store::RecordKind;
use crate::connection::lock;
use crate::drive::now;

/// How long no renewal is tried after one that failed for a while.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

impl Authorizer {
    /// Tokens to send, renewed if it is time. None if somebody has to sign in first.
    pub async fn current(&self) -> Result<Option<TokenRecord>, AuthError> {
        match self.tokens().await? {
            Some(record) if record.is_stale(self.inner.tools.now()) => self.renew(&record).await,
            record => Ok(record),
        }
    }

    /// Other tokens than `old`: those that another process got, or new ones for its refresh
    /// token. None if somebody has to sign in (OC-44, OC-45, OT-6).
    pub async fn renew(&self, old: &TokenRecord) -> Result<Option<TokenRecord>, AuthError> {
        let inner = &*self.inner;
        let id = inner.account.record(RecordKind::Tokens);
        let mut lock = inner.store.lock(&id).await.map_err(local)?;
        let Some(record) = read::<TokenRecord>(lock.read().await)? else { return Ok(None) };
        if record.access_token != old.access_token {
            return Ok(Some(record));
        }
        let is_over = record.is_over(inner.tools.now());
        // What is still good is used while there is nothing better.
        let kept = Some(record.clone()).filter(|_| !is_over);
        let paused = self::lock(&inner.paused).clone();
        if let Some((since, error)) = paused
            && now().saturating_duration_since(since) < RENEWAL_PAUSE
        {
            return kept.map(Some).ok_or(error);
        }
        let mut goal = inner.goal(None, Some(record.clone()), String::new());
        let tools = Arc::clone(&inner.tools);
        let run = if record.refresh_token.is_some() {
            SignIn::renew(record.clone(), goal, tools)
        } else if inner.needs_person() {
            return Ok(kept);
        } else {
            if let Some(provider) = &inner.provider {
                let Some(grant) = provider.provider_token().await? else { return Ok(kept) };
                goal.settings.grant = grant;
            }
            SignIn::new(goal, tools)
        };
        match inner.drive(run, None).await {
            Ok(renewed) => {
                write(&mut *lock, &renewed).await?;
                Ok(Some(renewed))
            }
            Err(error) if error.is_temporary() => {
                *self::lock(&inner.paused) = Some((now(), error.clone()));
                kept.map(Some).ok_or(error)
            }
            Err(error) => {
                tracing::info!(server = inner.name(), "tokens were not renewed: {error}");
                let is_forgotten =
                    matches!(error.code(), Some("invalid_client" | "unauthorized_client"));
                if is_forgotten && record.source.client.is_dynamic {
                    let issuer = record.source.issuer.clone();
                    inner.keep(&Registration { issuer, ..Registration::default() }).await?;
                }
                // Another process may have used it up, whatever its lock was worth.
                let now = read::<TokenRecord>(lock.read().await)?;
                if let Some(now) = now.filter(|now| now.access_token != record.access_token) {
                    return Ok(Some(now));
                }
                if is_forgotten || error.code() == Some("invalid_grant") {
                    let left = TokenRecord { refresh_token: None, ..record };
                    write(&mut *lock, &left).await?;
                }
                Ok(kept)
            }
        }
    }
}
