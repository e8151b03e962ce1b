//! What is kept: registrations, tokens, and sign-ins that wait for a person.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::challenge::split_scopes;
use super::{AuthError, query_pairs};

/// A text that is never printed.
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(secret)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// What an authorization server knows us by.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Registration {
    /// The authorization server.
    pub issuer: String,
    /// Our id there.
    pub client_id: String,
    /// The secret that shows that it is us.
    pub client_secret: Option<Secret>,
    /// The key that shows the same, where the settings have none.
    #[serde(default)]
    pub private_key: Option<Secret>,
    /// When the secret is over, in Unix seconds.
    pub secret_expires_at: Option<u64>,
    /// How we show who we are at the token endpoint.
    pub auth_method: Option<AuthMethod>,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// Whether the server made it for us, and can make another.
    pub is_dynamic: bool,
    /// A person was sent there with it and never came back.
    #[serde(default)]
    pub is_in_doubt: bool,
}

/// How a client shows who it is at the token endpoint.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// It does not: its id is all.
    #[default]
    None,
    /// By its secret, in a header.
    ClientSecretBasic,
    /// By its secret, in the form.
    ClientSecretPost,
    /// By a signature.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// The name that metadata has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// The method of this name, if we have it.
    pub fn from_name(name: &str) -> Option<Self> {
        let all =
            [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt];
        all.into_iter().find(|method| method.name() == name)
    }
}

/// Where tokens come from, and what they are for: all that a renewal takes (OC-10).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct TokenSource {
    /// The authorization server.
    pub issuer: String,
    /// Where it issues tokens.
    pub token_endpoint: String,
    /// Where it takes them back.
    pub revocation_endpoint: Option<String>,
    /// Who we are there.
    pub client: Registration,
    /// What the tokens are for; none if that is not to be said.
    pub resource: Option<String>,
    /// The scopes that were asked for.
    pub scopes: Vec<String>,
    /// The key that tokens are bound to.
    pub dpop_key: Option<Secret>,
}

/// Tokens for one server.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct TokenRecord {
    /// Where they come from.
    pub source: TokenSource,
    /// What is shown to the server.
    pub access_token: Secret,
    /// What gets another one.
    pub refresh_token: Option<Secret>,
    /// Who the user is, in the words of the authorization server.
    pub id_token: Option<Secret>,
    /// The scopes that were granted.
    pub granted: Vec<String>,
    /// When the access token was issued, in Unix seconds.
    pub issued_at: u64,
    /// When it is over, if that was said.
    pub expires_at: Option<u64>,
}

impl TokenRecord {
    /// The claims of the ID token. They are not checked: it came from the authorization
    /// server itself.
    pub fn id_claims(&self) -> Option<Value> {
        let token = self.id_token.as_ref()?.reveal();
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// Whether the token should be renewed before it is sent: less than a minute or a
    /// tenth of its life is left (OC-44).
    pub fn is_stale(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| {
            let life = end.saturating_sub(self.issued_at);
            now >= end.saturating_sub((life / 10).min(60))
        })
    }

    /// Whether the token is over.
    pub fn is_over(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}

/// A sign-in that waits for a person (OC-36): whoever has it can end it.
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PendingSignIn {
    /// The page that the person opens.
    pub url: String,
    /// Where they are sent back to.
    pub redirect_uri: String,
    /// Where the tokens will come from.
    pub source: TokenSource,
    /// Names this sign-in in the address they come back to.
    pub state: Secret,
    /// Shows that the code is ours.
    pub verifier: Secret,
    /// Whether the server says who it is when they come back.
    pub is_issuer_promised: bool,
    /// When it began, in Unix seconds.
    pub began_at: u64,
    /// Why it failed, and when: then it only keeps others from asking the same person again.
    #[serde(default)]
    pub failure: Option<FailedSignIn>,
}

impl fmt::Debug for PendingSignIn {
    /// The URL has `state` in it: only where it leads is said.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.url.split('?').next().unwrap_or_default();
        let mut shown = out.debug_struct("PendingSignIn");
        shown.field("page", &page).field("source", &self.source);
        shown.field("began_at", &self.began_at).field("failure", &self.failure);
        shown.finish_non_exhaustive()
    }
}

/// A sign-in that failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FailedSignIn {
    /// When, in Unix seconds.
    pub at: u64,
    /// The error of the authorization server, or a word of ours.
    pub error: String,
    /// The same for people.
    pub description: Option<String>,
}

/// How long nobody is asked again after a sign-in failed, in seconds.
const REFUSED_SIGN_IN: u64 = 600;

/// How long a person may take, in seconds.
pub const LONGEST_SIGN_IN: u64 = 600;

impl PendingSignIn {
    /// The same after it failed.
    #[must_use]
    pub fn failed(self, error: &AuthError, at: u64) -> Self {
        let (error, description) = match error {
            AuthError::Refused { error, description } => (error.clone(), description.clone()),
            other => ("no answer".to_owned(), Some(other.to_string())),
        };
        Self { failure: Some(FailedSignIn { at, error, description }), ..self }
    }

    /// Why it failed, if that was a short while ago.
    pub fn failure(&self, now: u64) -> Option<AuthError> {
        let failed = self.failure.as_ref()?;
        let FailedSignIn { at, error, description } = failed.clone();
        let is_recent = now.saturating_sub(at) < REFUSED_SIGN_IN;
        is_recent.then_some(AuthError::Refused { error, description })
    }

    /// Whether it has waited too long.
    pub fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.began_at) > LONGEST_SIGN_IN
    }

    /// Reads what a person came back with: the query of the address. None if it is not
    /// about this sign-in, which then goes on waiting. Nothing that it says is believed or
    /// repeated before it is known from whom it is (OC-34, OC-35).
    pub fn read_callback(&self, query: &str) -> Option<Result<Secret, AuthError>> {
        let pairs = query_pairs(query);
        let mut found = [const { None }; 5];
        for (name, value) in pairs {
            let names = ["state", "iss", "error", "error_description", "code"];
            let Some(at) = names.iter().position(|known| *known == name) else { continue };
            if found[at].replace(value).is_some() {
                return None;
            }
        }
        let [state, iss, error, description, code] = found;
        if !is_same(state.as_deref()?, self.state.reveal()) {
            return None;
        }
        match iss {
            Some(iss) if iss != self.source.issuer => return Some(Err(AuthError::WrongIssuer)),
            None if self.is_issuer_promised => return Some(Err(AuthError::WrongIssuer)),
            _ => {}
        }
        if let Some(error) = error {
            return Some(Err(AuthError::Refused { error, description }));
        }
        let code = code.filter(|code| !code.is_empty());
        Some(code.map(Secret::new).ok_or(AuthError::NoCode))
    }
}

/// Whether both are the same. Takes the same time wherever they differ.
pub fn is_same(one: &str, two: &str) -> bool {
    let pairs = one.bytes().zip(two.bytes());
    let difference = pairs.fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    one.len() == two.len() && difference == 0
}

/// Scopes as requests have them.
pub(super) fn join_scopes(scopes: &[String]) -> String {
    scopes.join(" ")
}

/// Both, each scope once.
pub(super) fn union(one: &[String], two: &[String]) -> Vec<String> {
    split_scopes(&format!("{} {}", join_scopes(one), join_scopes(two)))
}
