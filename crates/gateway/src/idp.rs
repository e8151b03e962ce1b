//! The gateway as a client of an identity provider: learns who a visitor is.
//!
//! ```text
//!   begin ──▶ IdpVisit: the page to open, and what to remember ──▶ the visitor signs in there
//!   finish ◀── the query that they come back with ──▶ Identity: who they are, by a signed token
//! ```
//!
//! The conversation is [`SignIn`] of `proto`, with PKCE, `state` and `iss`. Here are the nonce,
//! the check of the ID token, and the question to the `userinfo` endpoint.

use std::sync::Arc;

use http::{StatusCode, Uri};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use switchboard_net::auth::bounded::AskError;
use switchboard_net::auth::{AuthFetch, ReachPolicy, SystemTools};
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::auth::claims::{BadClaims, TokenRules, check_id_token};
use switchboard_proto::auth::{
    Answer, AuthError, Goal, OauthSettings, PendingSignIn, Redirect, Registration,
    ResourceParameter, Secret, SignIn, Step, TokenRecord, Tools,
};

use crate::authenticator::Authenticator;
use crate::issuer::{IssuerFault, Issuers};

/// Why it is not known who a visitor is.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum IdpError {
    /// The conversation failed.
    #[error("{0}")]
    Auth(#[from] AuthError),
    /// The ID token is not for us, or not for this visit.
    #[error("the ID token does not count: {0}")]
    IdToken(#[from] BadClaims),
    /// The issuer has not signed it, or cannot be asked.
    #[error("the identity provider does not say who this is: {0}")]
    Issuer(String),
    /// The issuer says nothing of people, or not of this one.
    #[error("the identity provider refuses to say who this is: {0}")]
    NotSaid(String),
    /// What came back is not about this visit.
    #[error("this is not the sign-in that was begun")]
    OtherVisit,
    /// The ID token and the user info are about two people.
    #[error("the identity provider names two people")]
    TwoSubjects,
}

impl From<IssuerFault> for IdpError {
    fn from(fault: IssuerFault) -> Self {
        let is_no = match &fault {
            IssuerFault::Ask(AskError::Status { status, .. }) => {
                status.is_client_error() && *status != StatusCode::TOO_MANY_REQUESTS
            }
            IssuerFault::Ask(AskError::NotJson { .. }) => true,
            _ => false,
        };
        if is_no { Self::NotSaid(fault.to_string()) } else { Self::Issuer(fault.to_string()) }
    }
}

impl IdpError {
    /// Whether the provider says that what it gave for this person is over.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Auth(error) if error.code() == Some("invalid_grant"))
    }

    /// Whether it may go away by itself.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Auth(error) => error.is_temporary(),
            Self::Issuer(_) => true,
            _ => false,
        }
    }
}

/// A visitor who was sent to the identity provider: what to remember until they come back.
#[derive(Clone, Deserialize, Serialize)]
pub struct IdpVisit {
    pending: PendingSignIn,
    nonce: Secret,
}

impl std::fmt::Debug for IdpVisit {
    /// The URL has state and nonce in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdpVisit")
    }
}

impl IdpVisit {
    /// The page that the visitor is sent to.
    pub fn url(&self) -> &str {
        &self.pending.url
    }

    /// What comes back with them, and names this visit.
    pub fn state(&self) -> &Secret {
        &self.pending.state
    }
}

/// Who somebody is.
#[derive(Clone)]
pub struct Identity {
    /// The name that the configuration has for the issuer.
    pub issuer: String,
    /// What the issuer calls them.
    pub subject: String,
    /// All that it says of them.
    pub claims: Map<String, Value>,
    /// The tokens that came with it.
    pub tokens: TokenRecord,
}

impl std::fmt::Debug for Identity {
    /// What is said of people is for no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({}/{})", self.issuer, self.subject)
    }
}

/// What a provider gives for a refresh token.
#[derive(Debug)]
pub struct Renewal {
    /// The tokens. Those before may be over, so that these must be kept in any case.
    pub tokens: TokenRecord,
    /// Who their person is by now.
    pub who: Result<Identity, IdpError>,
}

/// A client of one identity provider.
#[derive(Debug)]
pub struct IdpClient {
    /// The name of the issuer in the configuration.
    name: String,
    issuer: String,
    settings: OauthSettings,
    fetch: AuthFetch,
    issuers: Arc<Issuers>,
    tools: Arc<dyn Tools>,
}

impl std::fmt::Debug for Issuers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Issuers")
    }
}

impl IdpClient {
    /// A client of the issuer that the configuration calls `name`. Of the settings count client
    /// id and secret, scopes (`openid` is added), the resource (left out unless it is given),
    /// more parameters, and whether a refresh token is wanted.
    pub fn new(
        authenticator: &Authenticator,
        name: &str,
        settings: OauthSettings,
        fetch: Fetch,
    ) -> Option<Self> {
        let issuers = Arc::clone(authenticator.issuers());
        let issuer = issuers.rule(name)?.issuer;
        let mut scopes = settings.scopes.unwrap_or_default();
        if !scopes.iter().any(|scope| scope == "openid") {
            scopes.insert(0, "openid".to_owned());
        }
        let resource = match settings.resource {
            ResourceParameter::OfServer => ResourceParameter::LeftOut,
            other => other,
        };
        let settings = OauthSettings {
            issuer: Some(issuer.clone()),
            scopes: Some(scopes),
            resource,
            // It is sent in any case, and the nonce ties the answer to the request as well.
            assume_pkce: true,
            is_local: true,
            ..settings
        };
        // An identity provider inside a network may name what is inside.
        let server: Uri = issuer.parse().ok()?;
        let fetch = AuthFetch::new(fetch, server, ReachPolicy::default());
        let fetch = fetch.remembering(issuers.documents().clone());
        let tools = Arc::new(SystemTools);
        Some(Self { name: name.to_owned(), issuer, settings, fetch, issuers, tools })
    }

    /// A visit that ends at `redirect_uri`.
    pub async fn begin(&self, redirect_uri: &str) -> Result<IdpVisit, IdpError> {
        let nonce = hex(&self.tools.random());
        let mut settings = self.settings.clone();
        settings.authorize_params.retain(|(name, _)| name != "nonce");
        settings.authorize_params.push(("nonce".to_owned(), nonce.clone()));
        let mut run = SignIn::new(self.goal(settings, redirect_uri), Arc::clone(&self.tools));
        match self.drive(&mut run, None).await? {
            Driven::Page(pending) => Ok(IdpVisit { pending: *pending, nonce: Secret::new(nonce) }),
            Driven::Tokens(_) => Err(AuthError::NoCode.into()),
        }
    }

    fn goal(&self, settings: OauthSettings, redirect_uri: &str) -> Goal {
        let redirect = Redirect { uri: redirect_uri.to_owned(), ..Redirect::default() };
        let server = self.issuer.clone();
        Goal { server, challenge: None, settings, before: None, redirect }
    }

    /// Who came back with this query. Nothing of it counts before `state` and `iss` are right.
    pub async fn finish(&self, visit: IdpVisit, query: &str) -> Result<Identity, IdpError> {
        let IdpVisit { pending, nonce } = visit;
        let code = pending.read_callback(query).ok_or(IdpError::OtherVisit)??;
        let tools = Arc::clone(&self.tools);
        let mut run = SignIn::resume(pending, self.settings.clone(), tools);
        match self.drive(&mut run, Some(code)).await? {
            Driven::Tokens(tokens) => self.identify(*tokens, Some(nonce.reveal())).await,
            Driven::Page(_) => Err(AuthError::NoCode.into()),
        }
    }

    /// Other tokens for these, if their person is still somebody there; and who they are by now.
    pub async fn renew(&self, tokens: TokenRecord) -> Result<Renewal, IdpError> {
        // The old ID token may be over, and says nothing new.
        let mut tokens = TokenRecord { id_token: None, ..tokens };
        // Who we are is what the configuration says now, and not what it said at the sign-in.
        // Without an endpoint the provider is asked how we show it.
        let source = &mut tokens.source;
        source.token_endpoint.clear();
        source.client = Registration {
            client_id: self.settings.client_id.clone().unwrap_or_default(),
            client_secret: self.settings.client_secret.clone(),
            ..Registration::default()
        };
        let goal = self.goal(self.settings.clone(), "");
        let mut run = SignIn::renew(tokens, goal, Arc::clone(&self.tools));
        match self.drive(&mut run, None).await? {
            Driven::Tokens(tokens) => {
                let who = self.identify((*tokens).clone(), None).await;
                Ok(Renewal { tokens: *tokens, who })
            }
            Driven::Page(_) => Err(AuthError::NoCode.into()),
        }
    }

    async fn drive(&self, run: &mut SignIn, mut code: Option<Secret>) -> Result<Driven, IdpError> {
        let mut answer = None;
        loop {
            answer = Some(match run.step(answer.take()) {
                Step::Fetch(request) => Answer::Response(self.fetch.send(request).await),
                Step::Authorize(pending) => match code.take() {
                    Some(code) => Answer::Code(Ok(code)),
                    None => return Ok(Driven::Page(pending)),
                },
                Step::FindRegistration { .. } => Answer::Registration(None),
                Step::Done(record) => return Ok(Driven::Tokens(record)),
                Step::Failed(error) => {
                    self.issuers.documents().clear();
                    return Err(error.into());
                }
                _ => Answer::Done,
            });
        }
    }

    async fn identify(
        &self,
        tokens: TokenRecord,
        nonce: Option<&str>,
    ) -> Result<Identity, IdpError> {
        let mut claims = Map::new();
        let mut subject = None;
        if let Some(id_token) = &tokens.id_token {
            claims = self.issuers.verify(&self.name, id_token.reveal()).await?;
            let client = self.settings.client_id.as_deref().unwrap_or_default();
            let now = self.issuers.now();
            let rules = TokenRules { issuer: &self.issuer, is_typed: false, now };
            subject = Some(check_id_token(&claims, rules, client, nonce)?);
        }
        let rule = self.issuers.rule(&self.name).ok_or(IssuerFault::Gone)?;
        if subject.is_none() || !rule.has_all_claims(&claims) {
            let asked = self.issuers.userinfo(&self.name, tokens.access_token.reveal()).await;
            match (asked, &subject) {
                (Ok(more), _) => {
                    let named = more.get("sub").and_then(Value::as_str).map(str::to_owned);
                    if subject.is_some() && subject != named {
                        return Err(IdpError::TwoSubjects);
                    }
                    subject = named;
                    for (name, value) in more {
                        claims.entry(name).or_insert(value);
                    }
                }
                (Err(fault), known) => {
                    // A claim that is nowhere grants nothing. At a renewal, what was said before
                    // counts until the provider can be asked.
                    let fault = IdpError::from(fault);
                    if known.is_none() || nonce.is_none() && fault.is_temporary() {
                        return Err(fault);
                    }
                }
            }
        }
        let subject = subject.filter(|subject| !subject.is_empty()).ok_or(BadClaims::NoSubject)?;
        Ok(Identity { issuer: self.name.clone(), subject, claims, tokens })
    }
}

enum Driven {
    /// A person has to open a page.
    Page(Box<PendingSignIn>),
    Tokens(Box<TokenRecord>),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests;
