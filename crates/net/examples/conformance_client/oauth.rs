//! What a scenario about OAuth tells its client beforehand.
//!
//! The suite puts it into `MCP_CONFORMANCE_CONTEXT`, a JSON object with the scenario's `name`. Most scenarios
//! about OAuth need nothing, and then the variable is not set. The table of what each one gives is in
//! `conformance/README.md`.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Request, Uri};
use serde_json::Value;
use switchboard_net::auth::person::SignInPerson;
use switchboard_net::auth::store::MemoryStore;
use switchboard_net::auth::{Account, Authorizer, OauthCredential, SignInOptions};
use switchboard_net::http::fetch::{Fetch, resolve};
use switchboard_net::upstream::Credential;
use switchboard_proto::auth::{GrantType, IdentityProvider, OauthSettings, ProviderToken, Secret};

/// The client metadata document of every scenario. Nobody serves it: the suite only compares the client id.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// What is known before the first request; what is absent has to be found out.
#[derive(Debug)]
pub(crate) struct OauthContext {
    /// An id that the authorization server knows already.
    pub(crate) client_id: Option<String>,
    /// The secret of that id: for Basic, unless the authorization server lists another method.
    pub(crate) client_secret: Option<String>,
    /// The authorization server that `client_id` is registered at; the stable suite does not say it.
    pub(crate) issuer: Option<String>,
    /// The id to use where the authorization server takes client metadata documents.
    pub(crate) client_metadata_url: &'static str,
    /// The key for `private_key_jwt`: PKCS #8, as PEM.
    pub(crate) signing_key: Option<String>,
    /// Where an ID token is exchanged for an ID-JAG.
    pub(crate) idp: Option<ScenarioIdp>,
    /// The platform's JWT, for workload identity. The two bad ones beside it are not used.
    pub(crate) workload_jwt: Option<String>,
    /// Whether no person signs in: the client's own credentials are the grant.
    pub(crate) is_client_credentials: bool,
    /// Whether tokens are to be bound to a key.
    pub(crate) is_dpop: bool,
}

/// The identity provider of an enterprise, at which the person has signed in.
#[derive(Debug)]
pub(crate) struct ScenarioIdp {
    /// Our id there, without a secret.
    pub(crate) client_id: String,
    /// What the sign-in gave.
    pub(crate) id_token: String,
    /// Where the exchange takes place.
    pub(crate) token_endpoint: String,
}

/// Reads the `context` of `scenario`; it is null if the suite gave none.
pub(crate) fn oauth_context(scenario: &str, context: &Value) -> OauthContext {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    OauthContext {
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        issuer: text("issuer"),
        client_metadata_url: CLIENT_METADATA_URL,
        signing_key: text("private_key_pem"),
        idp: idp(&text),
        workload_jwt: text("valid_jwt"),
        is_client_credentials: scenario.starts_with("auth/client-credentials-"),
        is_dpop: scenario.starts_with("auth/dpop"),
    }
}

fn idp(text: &impl Fn(&str) -> Option<String>) -> Option<ScenarioIdp> {
    Some(ScenarioIdp {
        client_id: text("idp_client_id")?,
        id_token: text("idp_id_token")?,
        token_endpoint: text("idp_token_endpoint")?,
    })
}

impl OauthContext {
    /// Signs in at `url` when it asks for that.
    pub(crate) fn credential(self, url: &str, fetch: Fetch) -> Arc<dyn Credential> {
        let grant = if let Some(idp) = self.idp {
            let token = Secret::new(idp.id_token);
            let token = ProviderToken::given(idp.token_endpoint, idp.client_id, None, token);
            GrantType::Enterprise(IdentityProvider::Token(Box::new(token)))
        } else if let Some(jwt) = self.workload_jwt {
            GrantType::Workload { assertion: Secret::new(jwt) }
        } else if self.is_client_credentials {
            GrantType::ClientCredentials
        } else {
            GrantType::Code
        };
        let settings = OauthSettings {
            grant,
            client_id: self.client_id,
            client_secret: self.client_secret.map(Secret::new),
            private_key: self.signing_key.map(Secret::new),
            issuer: self.issuer,
            client_metadata_url: Some(self.client_metadata_url.to_owned()),
            dpop: self.is_dpop,
            ..OauthSettings::default()
        };
        let account = Account { server: url.to_owned(), ..Account::default() };
        let person = Arc::new(Visitor { fetch: fetch.clone() });
        let (store, options) = (Arc::new(MemoryStore::new()), SignInOptions::default());
        let authorizer = Authorizer::new(account, settings, store, fetch, person, options);
        Arc::new(OauthCredential::new(authorizer, HeaderMap::new()))
    }
}

/// Opens each page and goes where it leads: there is nothing to say yes to.
#[derive(Debug)]
struct Visitor {
    fetch: Fetch,
}

impl SignInPerson for Visitor {
    fn show_page(&self, _server: &str, url: &str) {
        let (fetch, url) = (self.fetch.clone(), url.to_owned());
        tokio::spawn(async move {
            let mut next = url.parse::<Uri>().ok();
            while let Some(at) = next.take() {
                let mut request = Request::new(Bytes::new());
                *request.uri_mut() = at.clone();
                let Ok(response) = fetch.send_once(request).await else { return };
                let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
                next = location.and_then(|location| resolve(&at, location));
            }
        });
    }

    fn show_device(&self, _server: &str, _url: &str, _complete: Option<&str>, _code: &str) {}

    fn show_waiting(&self, _server: &str, _url: Option<&str>) {}

    fn pasted<'p>(&'p self) -> Pin<Box<dyn Future<Output = String> + Send + 'p>> {
        Box::pin(std::future::pending())
    }
}
