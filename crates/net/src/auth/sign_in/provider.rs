//! The identity provider of a company, where a user signs in once for all servers (OX-2).

use std::pin::Pin;

use switchboard_proto::auth::{
    AuthError, GrantType, IdentityProvider, LONGEST_SIGN_IN, OauthSettings, ProviderToken,
    ResourceParameter, TokenRecord,
};

use super::{Account, Authorizer};

impl Authorizer {
    /// What shows an authorization server who the user is, if they are signed in here (OX-2).
    pub(super) fn provider_token<'a>(
        &'a self,
    ) -> Pin<Box<dyn Future<Output = Result<Option<GrantType>, AuthError>> + Send + 'a>> {
        Box::pin(async move {
            let Some(mut record) = self.current().await? else { return Ok(None) };
            if self.is_id_over(&record) {
                record = self.renew(&record).await?.unwrap_or(record);
            }
            Ok(self.as_grant(&record))
        })
    }

    /// The same after a person has signed in here.
    pub(super) async fn sign_in_as_provider(&self) -> Result<GrantType, AuthError> {
        let refused = self.tokens().await?.map(|record| record.access_token).unwrap_or_default();
        let record = self.sign_in_unless(None, Some(refused)).await?;
        let issuer = &self.inner.account.server;
        let missing = || AuthError::Settings(format!("{issuer} says nothing of its user"));
        self.as_grant(&record).ok_or_else(missing)
    }

    /// Whether the last sign-in here was too long ago for a refusal to be about anything else:
    /// people are not asked again and again.
    pub(super) async fn is_token_old(&self) -> Result<bool, AuthError> {
        let since = self.tokens().await?.map(|record| record.issued_at);
        let now = self.inner.tools.now();
        Ok(since.is_some_and(|since| now.saturating_sub(since) >= LONGEST_SIGN_IN))
    }

    fn is_id_over(&self, record: &TokenRecord) -> bool {
        let end = record.id_claims().and_then(|claims| claims["exp"].as_u64());
        end.is_none_or(|end| end <= self.inner.tools.now())
    }

    /// The ID token, or the refresh token if that is over.
    fn as_grant(&self, record: &TokenRecord) -> Option<GrantType> {
        let id_token = record.id_token.clone().filter(|_| !self.is_id_over(record));
        let is_refresh_token = id_token.is_none();
        let token = id_token.or_else(|| record.refresh_token.clone())?;
        let token = ProviderToken { source: record.source.clone(), token, is_refresh_token };
        Some(GrantType::Enterprise(IdentityProvider::Token(Box::new(token))))
    }
}

/// The account at the identity provider that a server's settings name, and how people sign in
/// there: for all servers of the same user alike.
pub(super) fn provider_account(
    account: &Account,
    settings: &OauthSettings,
) -> Option<(Account, OauthSettings)> {
    let GrantType::Enterprise(IdentityProvider::SignIn { issuer, client_id, client_secret }) =
        &settings.grant
    else {
        return None;
    };
    let settings = OauthSettings {
        client_id: Some(client_id.clone()),
        client_secret: client_secret.clone(),
        issuer: Some(issuer.clone()),
        scopes: Some(vec!["openid".to_owned()]),
        resource: ResourceParameter::LeftOut,
        is_local: true,
        ..OauthSettings::default()
    };
    Some((Account { server: issuer.clone(), grant: None, ..account.clone() }, settings))
}
