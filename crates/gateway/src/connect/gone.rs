//! Users and servers that are gone from the configuration: the accounts are deleted after seven
//! days (OU-9).
//!
//! ```text
//!   the user or the server is gone ──▶ a record beside the tokens says since when
//!           both are back          ──▶ the record is removed, the account stays
//!           seven days go by       ──▶ the tokens are revoked and deleted
//! ```
//!
//! Other gateways may keep accounts in the same store. So only these accounts are looked at:
//! those at servers of this gateway, and those whose users came back to its own page when they
//! signed in.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use switchboard_net::auth::person::Nobody;
use switchboard_net::auth::store::{RecordId, RecordKind, StoreError};
use switchboard_net::auth::{Account, Authorizer};
use switchboard_proto::auth::OauthSettings;
use tokio::sync::Notify;

use super::{CALLBACK_PATH, UserConnector};
use crate::account::account_of;
use crate::plan::ServerPlan;
use crate::read;

/// How long the account of a user who is gone is kept, in seconds.
const KEPT: u64 = 7 * 24 * 60 * 60;
/// How often the accounts are looked at, while the configuration stays as it is.
const LOOK: Duration = Duration::from_hours(24);
/// Accounts that are deleted at one look: each may take a request to revoke its tokens.
const MOST_DELETED: usize = 100;

/// Looks at the accounts at once, each day, and when `changed` says so.
pub(super) async fn watch_gone(connector: Weak<UserConnector>, changed: Arc<Notify>) {
    loop {
        let Some(there) = connector.upgrade() else { return };
        if let Err(failed) = there.forget_gone().await {
            tracing::warn!("the accounts of users who are gone cannot be looked at: {failed}");
        }
        drop(there);
        // Both mean the same: look again.
        _ = tokio::time::timeout(LOOK, changed.notified()).await;
    }
}

impl UserConnector {
    /// Deletes the accounts of users who have been gone for long enough.
    async fn forget_gone(&self) -> Result<(), StoreError> {
        let fleet = || self.fleet.get().and_then(Weak::upgrade);
        let has_broken = fleet().is_some_and(|it| it.has_broken.load(Ordering::Relaxed));
        let servers = self.servers_with_accounts();
        let has_looked = self.has_looked.load(Ordering::Relaxed);
        // Accounts at servers that are gone are known by the page of this gateway.
        if servers.is_empty() && !has_looked && self.document_base().is_none() {
            // Nobody needs the store, which may ask for its key.
            return Ok(());
        }
        self.has_looked.store(true, Ordering::Relaxed);
        let store = &*self.accounts.store;
        let marks = store.list(RecordKind::Gone).await?;
        let mut marks: HashSet<_> = marks.into_iter().collect();
        let mut deleted = 0;
        for name in store.list(RecordKind::Tokens).await? {
            let is_marked = marks.remove(&name);
            let Some(account) = Account::from_name(&name) else { continue };
            let Some(principal) = account.principal.clone() else { continue };
            let of_all = Account { principal: None, ..account.clone() };
            let server = servers.get(&of_all.record(RecordKind::Tokens).name);
            if server.is_none() && !self.is_own(&account).await {
                continue;
            }
            // A server whose entry has mistakes may be the one.
            if (server.is_some() || has_broken) && self.is_user(&principal) {
                if is_marked {
                    store.lock(&account.record(RecordKind::Gone)).await?.remove().await?;
                }
            } else if deleted < MOST_DELETED {
                deleted += usize::from(self.look_at_gone(server, &account, &principal).await?);
            }
        }
        for name in marks {
            // Its account was deleted: if there is another one day, it begins anew.
            store.lock(&RecordId { kind: RecordKind::Gone, name }).await?.remove().await?;
        }
        Ok(())
    }

    /// Whether the user of an account came back to a page of ours at the sign-in.
    async fn is_own(&self, account: &Account) -> bool {
        // Every gateway without a public URL has the same base.
        let Some(base) = self.document_base() else { return false };
        let Ok(Some(kept)) = account.tokens(&*self.accounts.store).await else { return false };
        let page = format!("{base}{CALLBACK_PATH}");
        kept.source.client.redirect_uris.contains(&page)
    }

    /// The servers that users have accounts at, also those that are switched off, by the names of the records without a user.
    pub(super) fn servers_with_accounts(&self) -> HashMap<String, Arc<ServerPlan>> {
        let Some(fleet) = self.fleet.get().and_then(Weak::upgrade) else { return HashMap::new() };
        let mut plans = read(&fleet.disabled).clone();
        plans.extend(fleet.running_servers().values().map(|it| Arc::clone(&it.plan)));
        let with_accounts = plans.into_iter().filter(|plan| plan.has_accounts());
        let named = with_accounts.filter_map(|plan| {
            let account = account_of(&plan.target, &plan.oauth, None)?;
            Some((account.record(RecordKind::Tokens).name, plan))
        });
        named.collect()
    }

    /// Whether the configuration has this user: by a key, or by the issuer of their tokens.
    fn is_user(&self, principal: &str) -> bool {
        let has_key =
            || self.authenticator.get().is_some_and(|it| it.principal(principal).is_some());
        has_key() || self.issuer_of(principal).is_some()
    }

    /// Notes since when a user or a server is gone, or deletes the account. True if it was
    /// deleted.
    async fn look_at_gone(
        &self,
        server: Option<&Arc<ServerPlan>>,
        account: &Account,
        user: &str,
    ) -> Result<bool, StoreError> {
        let name = server.map_or(&account.server, |server| &server.name);
        let now = self.authenticator.get().map_or(0, |it| it.issuers().now());
        let mut mark = self.accounts.store.lock(&account.record(RecordKind::Gone)).await?;
        let since = mark.read().await?;
        let since = since.and_then(|it| str::from_utf8(&it).ok()?.parse::<u64>().ok());
        let Some(since) = since else {
            mark.write(now.to_string().as_bytes()).await?;
            tracing::info!(
                server = name,
                user,
                "the user or the server is gone from the configuration: the account is deleted after 7 days"
            );
            return Ok(false);
        };
        if now.saturating_sub(since) < KEPT {
            return Ok(false);
        }
        let (accounts, person) = (&self.accounts, Arc::new(Nobody));
        let (fetch, options) = (self.fetch.clone(), accounts.options.clone());
        let authorizer = if let Some(server) = server {
            accounts.authorizer(server, Some(user), server.fetch(&fetch), person)
        } else {
            let (account, store) = (account.clone(), Arc::clone(&accounts.store));
            let settings = OauthSettings::default();
            Some(Authorizer::new(account, settings, store, fetch, person, options))
        };
        let Some(authorizer) = authorizer else { return Ok(false) };
        match authorizer.sign_out().await {
            Ok(_) => {
                mark.remove().await?;
                tracing::info!(server = name, user, "the account of a gone user is deleted");
            }
            Err(why) => tracing::warn!(
                server = name,
                user,
                "the account of a gone user was not revoked: {why}"
            ),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
