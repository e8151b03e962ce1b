//! Signing in to servers that want an access token (OAuth 2.1).
//!
//! [`SignIn`] is the whole conversation with resource and authorization server as a machine
//! without I/O, clock or chance. It says what is to be done next, and is told what came of it:
//!
//! ```text
//!   401 with a challenge ──▶ metadata of the resource ──▶ metadata of the authorization server
//!     ──▶ who we are there: configured, a document of ours, or registered
//!     ──▶ a person says yes in a browser, or nobody has to ──▶ tokens
//! ```
//!
//! [`Challenge`] reads what servers ask for, [`TokenRecord`] is what is kept,
//! and [`PendingSignIn::read_callback`] judges what a person comes back with.
//! The numbers of the rules (OC-1 …) are those of `docs/wire-rules.txt`.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

mod challenge;
pub mod claims;
mod flow;
mod machine;
mod metadata;
mod record;
mod settings;
mod token;
mod token_answer;

#[cfg(test)]
mod tests;

pub use challenge::Challenge;
pub use flow::{Goal, Redirect};
pub use machine::{Answer, AuthBody, AuthRequest, AuthResponse, KeyAlgorithm, SignIn, Step, Tools};
pub use metadata::{ResourceMetadata, ServerMetadata, is_loopback, origin_of};
pub use record::{
    AuthMethod, FailedSignIn, LONGEST_SIGN_IN, PendingSignIn, Registration, Secret, TokenRecord,
    TokenSource, is_same,
};
pub use settings::{
    Endpoints, GrantType, IdentityProvider, OauthSettings, ProviderToken, ResourceParameter,
};
pub use token::{basic_authorization, dpop_proof};

/// Why there are no tokens.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AuthError {
    /// The URL of the server cannot be read.
    #[error("{url} is no URL to sign in at")]
    BadUrl { url: String },
    /// An authorization server cannot be what it is called.
    #[error(
        "{issuer} cannot be an authorization server: it must be an https URL without query and fragment"
    )]
    BadIssuer { issuer: String },
    /// Nothing may be sent to an endpoint.
    #[error("the authorization server names {endpoint}, which is not an https URL")]
    BadEndpoint { endpoint: String },
    /// The metadata is that of another resource.
    #[error("the server {server} says that its tokens are for {resource}, which is another server")]
    OtherResource { resource: String, server: String },
    /// The metadata names no authorization server.
    #[error("the server does not say who issues its tokens")]
    NoIssuer,
    /// The metadata is that of another authorization server.
    #[error(
        "the metadata of {asked} says that it is {found:?}; if you know both to be the same, set oauth.trustedIssuer to what it says"
    )]
    OtherIssuer { asked: String, found: String },
    /// The configured client id belongs elsewhere.
    #[error("the client id is for {configured}, but the server's tokens come from {found}")]
    OtherClientIssuer { configured: String, found: String },
    /// No metadata can be had.
    #[error("{url} {problem}")]
    BadAnswer { url: String, problem: String },
    /// An endpoint cannot be reached.
    #[error("{url} cannot be reached: {why}")]
    Unreachable { url: String, why: String },
    /// The server says neither how to sign in nor that one can.
    #[error(
        "the server wants to know who you are and does not say how; if you have a token, send it in a header"
    )]
    NoOauth,
    /// PKCE is not announced.
    #[error(
        "{issuer} does not say that it supports PKCE with S256; if you know that it does, set oauth.assumePkce"
    )]
    NoPkce { issuer: String },
    /// An endpoint that is needed is not there.
    #[error("{issuer} has no {what}")]
    NoEndpoint { issuer: String, what: &'static str },
    /// Nobody knows us there, and nobody can be told.
    #[error(
        "{issuer} registers no clients by itself: register one there with the redirect URI {redirect}, and set oauth.clientId"
    )]
    NotRegistered { issuer: String, redirect: String },
    /// The registration was refused.
    #[error("{issuer} refused to register this client: {why}")]
    RegistrationRefused { issuer: String, why: String },
    /// What came back is from another authorization server than the one that was asked.
    #[error("the answer of the browser is not from the authorization server that was asked")]
    WrongIssuer,
    /// The authorization server, or the person, said no.
    #[error("{}", refused(error, description.as_deref()))]
    Refused { error: String, description: Option<String> },
    /// The person came back without anything.
    #[error("the authorization server sent no code")]
    NoCode,
    /// The person took too long.
    #[error("nobody signed in within {} minutes", LONGEST_SIGN_IN / 60)]
    TimedOut,
    /// A token of a kind that we do not know.
    #[error("the authorization server issued a token of the type {found:?}")]
    OddToken { found: String },
    /// More scopes were asked for again and again.
    #[error("the server asks for more scopes than it was ever granted")]
    ScopesRefused,
    /// What the settings name is not there, or cannot be used.
    #[error("{0}")]
    Settings(String),
    /// Nobody can be asked.
    #[error("{0}")]
    NoPerson(String),
    /// A server of a gateway with users does not say whose account it is shown.
    #[error(
        "the server wants a sign-in, and the configuration does not say whose: write \"oauth\": true \
         for each user's own account, or \"oauth\": {{\"account\": \"shared\"}} for one account for all"
    )]
    NoAccount,
    /// A user of a gateway has to sign in.
    #[error("each user signs in to this server, and {}", named(principal))]
    UserSignIn { principal: String },
    /// A user of a gateway has no access token that could be exchanged.
    #[error(
        "the gateway exchanges the access token of each user for one of this server, and {} has \
         none that is valid: connect to the gateway with an access token, not with a key",
        if principal.is_empty() { "this client" } else { principal }
    )]
    NoSubjectToken { principal: String },
    /// The authorization server did not exchange a token.
    #[error(
        "{issuer} did not exchange the user's access token, {}; allow the client {client:?} there to \
         exchange tokens for this server, or correct \"oauth\" of the server",
        refused(error, description.as_deref())
    )]
    ExchangeRefused { issuer: String, client: String, error: String, description: Option<String> },
    /// The store or the machine itself failed.
    #[error("{0}")]
    Local(String),
}

fn named(principal: &str) -> String {
    if principal.is_empty() {
        "a client without a key cannot".to_owned()
    } else {
        format!("{principal} has not")
    }
}

fn refused(error: &str, description: Option<&str>) -> String {
    let tame = |text: &str| -> String {
        text.chars().filter(|sign| !sign.is_control()).take(300).collect()
    };
    match description {
        Some(description) => {
            format!("sign-in was refused: {} ({})", tame(description), tame(error))
        }
        None => format!("sign-in was refused: {}", tame(error)),
    }
}

impl AuthError {
    /// The error code of the authorization server, if it said one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether it may go away by itself: nothing is to be thrown away for it (OC-45).
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::BadAnswer { .. } => true,
            Self::Refused { error, .. } => {
                matches!(error.as_str(), "temporarily_unavailable" | "server_error" | "slow_down")
            }
            _ => false,
        }
    }
}

/// What stays as it is in a form: RFC 3986's unreserved signs.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value as forms and queries have it.
pub fn encode(value: &str) -> Cow<'_, str> {
    utf8_percent_encode(value, FORM).into()
}

/// A form, or a query.
pub fn form<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let pairs =
        pairs.into_iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The pairs of a query or a form, 64 at most. What is not text is no pair.
pub fn query_pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(Cow::into_owned)
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(64);
    let pairs = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(name)?, decode(value)?))
    });
    pairs.collect()
}
