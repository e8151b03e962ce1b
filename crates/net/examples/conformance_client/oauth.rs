//! What a scenario about OAuth tells its client beforehand.
//!
//! The suite puts it into `MCP_CONFORMANCE_CONTEXT`, a JSON object with the scenario's `name`. Most scenarios
//! about OAuth need nothing, and then the variable is not set. The table of what each one gives is in
//! `conformance/README.md`.

use serde_json::Value;

/// The client metadata document of every scenario. Nobody serves it: the suite only compares the client id.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// What is known before the first request; what is absent has to be found out.
#[expect(dead_code, reason = "the client cannot sign in yet")]
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
    /// The key for `private_key_jwt`.
    pub(crate) signing_key: Option<ScenarioKey>,
    /// Where an ID token is exchanged for an ID-JAG.
    pub(crate) idp: Option<ScenarioIdp>,
    /// The platform's JWT, for workload identity. The two bad ones beside it are not used.
    pub(crate) workload_jwt: Option<String>,
    /// Whether no person signs in: the client's own credentials are the grant.
    pub(crate) is_client_credentials: bool,
    /// Whether tokens are to be bound to a key.
    pub(crate) is_dpop: bool,
}

/// A private key, and the algorithm to sign with.
#[expect(dead_code, reason = "the client cannot sign in yet")]
#[derive(Debug)]
pub(crate) struct ScenarioKey {
    /// PKCS #8, as PEM.
    pub(crate) pem: String,
    /// `ES256`.
    pub(crate) algorithm: String,
}

/// The identity provider of an enterprise, at which the person has signed in.
#[expect(dead_code, reason = "the client cannot sign in yet")]
#[derive(Debug)]
pub(crate) struct ScenarioIdp {
    /// Our id there, without a secret.
    pub(crate) client_id: String,
    /// What the sign-in gave.
    pub(crate) id_token: String,
    /// Its issuer.
    pub(crate) issuer: String,
    /// Where the exchange takes place.
    pub(crate) token_endpoint: String,
}

/// Reads the `context` of `scenario`; it is null if the suite gave none.
pub(crate) fn oauth_context(scenario: &str, context: &Value) -> OauthContext {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let signing_key = text("private_key_pem").zip(text("signing_algorithm"));
    OauthContext {
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        issuer: text("issuer"),
        client_metadata_url: CLIENT_METADATA_URL,
        signing_key: signing_key.map(|(pem, algorithm)| ScenarioKey { pem, algorithm }),
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
        issuer: text("idp_issuer")?,
        token_endpoint: text("idp_token_endpoint")?,
    })
}
