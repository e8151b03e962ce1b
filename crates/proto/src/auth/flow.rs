//! From a refused request to tokens: find out who issues them, be somebody there, ask.

use std::sync::Arc;

use http::Uri;

use super::AuthError;
use super::challenge::Challenge;
use super::machine::{Desk, SignIn, Step, Tools};
use super::metadata::{ServerMetadata, resource_of};
use super::record::{PendingSignIn, Registration, TokenRecord, TokenSource};
use super::settings::{GrantType, IdentityProvider, OauthSettings};
use super::token::TokenEndpoint;

mod consent;
mod discover;
mod registration;

/// What a sign-in is for.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The URL of the server, as the user wrote it.
    pub server: String,
    /// What the server asked for.
    pub challenge: Option<Challenge>,
    /// What the user says.
    pub settings: OauthSettings,
    /// The tokens that were there before.
    pub before: Option<TokenRecord>,
    /// Where people come back to.
    pub redirect: Redirect,
}

/// Where people come back to from the authorization server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Redirect {
    /// The URL.
    pub uri: String,
    /// Whether it is a port of this machine, and not a web page.
    pub is_native: bool,
    /// What we are called when we register.
    pub client_name: String,
}

impl SignIn {
    /// Signs in, from the beginning.
    pub fn new(goal: Goal, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move { Flow { desk, goal, tools }.sign_in().await })
    }

    /// Goes on with a sign-in that another process began: its page is open already.
    pub fn resume(pending: PendingSignIn, settings: OauthSettings, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move {
            let code = desk.authorize(&pending).await?;
            let endpoint = TokenEndpoint::new(&desk, &*tools, &settings, &pending.source);
            endpoint.redeem(&pending, &code).await
        })
    }

    /// Gets another access token for the refresh token of `record`. Where that goes is found
    /// out first if the record does not say it.
    pub fn renew(record: TokenRecord, goal: Goal, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move {
            let flow = Flow { desk, goal, tools };
            let record = flow.complete(record).await?;
            let Flow { desk, goal, tools } = &flow;
            let endpoint = TokenEndpoint::new(desk, &**tools, &goal.settings, &record.source);
            endpoint.refresh(&record).await
        })
    }

    /// Has the tokens of `record` taken back, where that can be done (OC-49).
    pub fn revoke(record: TokenRecord, settings: OauthSettings, tools: Arc<dyn Tools>) -> Self {
        Self::run(|desk| async move {
            TokenEndpoint::new(&desk, &*tools, &settings, &record.source).revoke(&record).await?;
            Ok(record)
        })
    }
}

/// What was found out about a server.
struct Discovered {
    metadata: ServerMetadata,
    /// The `resource` of requests; none if it is not to be said.
    resource: Option<String>,
    /// The scopes of the resource's own metadata.
    scopes: Option<Vec<String>>,
    wants_dpop: bool,
    /// Nobody said that there is OAuth at all.
    is_guess: bool,
}

struct Flow {
    desk: Desk,
    goal: Goal,
    tools: Arc<dyn Tools>,
}

impl Flow {
    async fn sign_in(&self) -> Result<TokenRecord, AuthError> {
        let found = self.discover().await?;
        let first = self.get_tokens(&found).await;
        match first {
            // The server has forgotten us. It is told once more who we are (OC-26).
            Err((error, client))
                if client.as_ref().is_some_and(|client| client.is_dynamic)
                    && matches!(error.code(), Some("invalid_client" | "unauthorized_client")) =>
            {
                let issuer = found.metadata.issuer.clone();
                let none = Registration { issuer, ..Registration::default() };
                self.desk.act(Step::KeepRegistration(Box::new(none))).await?;
                self.get_tokens(&found).await.map_err(|(error, _)| error)
            }
            other => other.map_err(|(error, _)| error),
        }
    }

    /// Tokens, or why there are none, and who we were.
    async fn get_tokens(
        &self,
        found: &Discovered,
    ) -> Result<TokenRecord, (AuthError, Option<Registration>)> {
        let client = self.identify(found).await.map_err(|error| (error, None))?;
        let known = Some(client.clone());
        self.use_grant(found, client).await.map_err(|error| (error, known))
    }

    async fn use_grant(
        &self,
        found: &Discovered,
        client: Registration,
    ) -> Result<TokenRecord, AuthError> {
        let settings = &self.goal.settings;
        let metadata = &found.metadata;
        let missing = |what| AuthError::NoEndpoint { issuer: metadata.issuer.clone(), what };
        let token_endpoint = metadata.token_endpoint.clone();
        let wants_dpop = settings.dpop || found.wants_dpop;
        let can_dpop =
            metadata.dpop_signing_alg_values_supported.iter().any(|name| name == "ES256");
        let dpop_key = if wants_dpop && can_dpop { Some(self.tools.new_key()?) } else { None };
        let source = TokenSource {
            issuer: metadata.issuer.clone(),
            token_endpoint: token_endpoint.ok_or_else(|| missing("token endpoint"))?,
            revocation_endpoint: metadata.revocation_endpoint.clone(),
            client,
            resource: found.resource.clone(),
            scopes: self.choose_scopes(found),
            dpop_key,
        };
        let endpoint = TokenEndpoint::new(&self.desk, &*self.tools, settings, &source);
        match &settings.grant {
            GrantType::Code => self.ask_person(found, source).await,
            GrantType::Device => {
                let url = metadata.device_authorization_endpoint.as_deref();
                endpoint.ask_device(url.ok_or_else(|| missing("endpoint for devices"))?).await
            }
            GrantType::ClientCredentials => endpoint.use_own_credentials().await,
            GrantType::Enterprise(IdentityProvider::SignIn { issuer, .. }) => {
                let text = format!("nobody has signed in at {issuer}");
                Err(AuthError::NoPerson(text))
            }
            GrantType::Enterprise(IdentityProvider::Token(provider)) => {
                let server = resource_of(&self.server()?, &self.goal.server);
                endpoint.exchange(provider, source.resource.as_deref().unwrap_or(&server)).await
            }
            GrantType::Workload { assertion } => endpoint.use_assertion(assertion).await,
            GrantType::Exchange { subject: Some(subject) } => {
                endpoint.exchange_access_token(subject).await
            }
            GrantType::Exchange { subject: None } => {
                let text = "tokens are exchanged for the users of `switchboard serve` alone";
                Err(AuthError::Settings(text.to_owned()))
            }
        }
    }

    /// The record with where its tokens come from. One that another program wrote may lack it.
    async fn complete(&self, mut record: TokenRecord) -> Result<TokenRecord, AuthError> {
        let source = &mut record.source;
        if !source.token_endpoint.is_empty() {
            return Ok(record);
        }
        let Discovered { metadata, resource, .. } = self.discover().await?;
        // A refresh token is shown to nobody but the one who issued it (OC-24).
        if !source.issuer.is_empty() && source.issuer != metadata.issuer {
            let (configured, found) = (source.issuer.clone(), metadata.issuer);
            return Err(AuthError::OtherClientIssuer { configured, found });
        }
        let missing =
            || AuthError::NoEndpoint { issuer: metadata.issuer.clone(), what: "token endpoint" };
        source.token_endpoint = metadata.token_endpoint.clone().ok_or_else(missing)?;
        let has_secret = source.client.client_secret.is_some();
        let method = source.client.auth_method;
        let method = method.unwrap_or_else(|| self.own_method(&metadata, has_secret));
        source.client.auth_method = Some(method);
        source.issuer.clone_from(&metadata.issuer);
        source.client.issuer = metadata.issuer;
        source.revocation_endpoint = metadata.revocation_endpoint;
        source.resource = resource;
        Ok(record)
    }

    fn server(&self) -> Result<Uri, AuthError> {
        let bad = || AuthError::BadUrl { url: self.goal.server.clone() };
        let server: Uri = self.goal.server.parse().map_err(|_| bad())?;
        if server.host().is_none() { Err(bad()) } else { Ok(server) }
    }
}
