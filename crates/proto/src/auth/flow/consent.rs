//! Asking a person: which scopes, the page to open, and what its answer is judged by.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Discovered, Flow};
use crate::auth::machine::Step;
use crate::auth::record::{
    PendingSignIn, Registration, Secret, TokenRecord, TokenSource, join_scopes, union,
};
use crate::auth::settings::GrantType;
use crate::auth::token::TokenEndpoint;
use crate::auth::{AuthError, form};

impl Flow {
    /// What to ask for: what the user says, else what the server's challenge names, else what
    /// its metadata lists, else nothing in particular (OC-32). More scope comes on top of what
    /// was asked for before (OC-50).
    pub(super) fn choose_scopes(&self, found: &Discovered) -> Vec<String> {
        let challenge = self.goal.challenge.clone().unwrap_or_default();
        let before = self.goal.before.as_ref().filter(|_| challenge.asks_for_more_scope());
        let named = challenge.scopes();
        let own = self.goal.settings.scopes.clone();
        let scopes = match (own, before) {
            (Some(own), None) => own,
            (own, Some(before)) => {
                union(&union(&own.unwrap_or_default(), &before.source.scopes), &named)
            }
            (None, None) if !named.is_empty() => named,
            (None, None) => found.scopes.clone().unwrap_or_default(),
        };
        let offline = "offline_access".to_owned();
        let has_offline = found.metadata.scopes_supported.contains(&offline);
        let is_persons = matches!(self.goal.settings.grant, GrantType::Code | GrantType::Device);
        let is_wanted = is_persons && !self.goal.settings.is_brief;
        if has_offline && is_wanted { union(&scopes, &[offline]) } else { scopes }
    }

    pub(super) async fn ask_person(
        &self,
        found: &Discovered,
        source: TokenSource,
    ) -> Result<TokenRecord, AuthError> {
        let pending = self.prepare(found, source).await?;
        let client = &pending.source.client;
        let doubted = |is_in_doubt| {
            Step::KeepRegistration(Box::new(Registration { is_in_doubt, ..client.clone() }))
        };
        // A server that does not know us may tell the person alone, who then never comes back.
        if client.is_dynamic {
            self.desk.act(doubted(true)).await?;
        }
        let code = self.desk.authorize(&pending).await;
        if client.is_dynamic && !matches!(code, Err(AuthError::TimedOut)) {
            self.desk.act(doubted(false)).await?;
        }
        let settings = &self.goal.settings;
        let endpoint = TokenEndpoint::new(&self.desk, &*self.tools, settings, &pending.source);
        endpoint.redeem(&pending, &code?).await
    }

    /// The page to open, and what its answer is judged by.
    async fn prepare(
        &self,
        found: &Discovered,
        source: TokenSource,
    ) -> Result<PendingSignIn, AuthError> {
        let (settings, metadata) = (&self.goal.settings, &found.metadata);
        let missing = |what| AuthError::NoEndpoint { issuer: metadata.issuer.clone(), what };
        let page = metadata.authorization_endpoint.clone();
        let page = page.ok_or_else(|| missing("page to sign in at"))?;
        let has_pkce = metadata.code_challenge_methods_supported.iter().any(|name| name == "S256");
        if !has_pkce && !settings.assume_pkce && !settings.names_all_endpoints() {
            return Err(AuthError::NoPkce { issuer: metadata.issuer.clone() });
        }
        let random = || URL_SAFE_NO_PAD.encode(self.tools.random());
        let (state, verifier) = (random(), random());
        let challenge = URL_SAFE_NO_PAD.encode(self.tools.sha256(verifier.as_bytes()));
        let own = self.goal.redirect.uri.clone();
        let redirect_uri = self.redirect_of(&source.client).unwrap_or(own);
        let scope = join_scopes(&source.scopes);
        let extra = |name: &str| settings.authorize_params.iter().any(|(other, _)| other == name);
        let mut parameters = vec![
            ("response_type", "code"),
            ("client_id", &source.client.client_id),
            ("redirect_uri", &redirect_uri),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", &state),
        ];
        if !scope.is_empty() && !extra("scope") {
            parameters.push(("scope", &scope));
        }
        if let Some(resource) = source.resource.as_deref().filter(|_| !extra("resource")) {
            parameters.push(("resource", resource));
        }
        if source.scopes.iter().any(|scope| scope == "offline_access") && !extra("prompt") {
            parameters.push(("prompt", "consent"));
        }
        for (name, value) in &settings.authorize_params {
            // None of ours can be replaced.
            if !parameters.iter().any(|(ours, _)| ours == name) {
                parameters.push((name, value));
            }
        }
        let endpoint = TokenEndpoint::new(&self.desk, &*self.tools, settings, &source);
        let query = match &metadata.pushed_authorization_request_endpoint {
            Some(push) if metadata.require_pushed_authorization_requests => {
                let request_uri = endpoint.push(push, &parameters).await?;
                form([
                    ("client_id", source.client.client_id.as_str()),
                    ("request_uri", &request_uri),
                ])
            }
            _ => form(parameters),
        };
        let sign = if page.contains('?') { '&' } else { '?' };
        Ok(PendingSignIn {
            url: format!("{page}{sign}{query}"),
            redirect_uri,
            state: Secret::new(state),
            verifier: Secret::new(verifier),
            is_issuer_promised: metadata.authorization_response_iss_parameter_supported,
            began_at: self.tools.now(),
            failure: None,
            source,
        })
    }
}
