//! The facade: a small authorization server of the gateway's own, in front of an identity
//! provider that MCP clients cannot register with.
//!
//! ```text
//!   client ── register ──▶ /oauth/register, or a metadata document of its own
//!   person ── /oauth/authorize: our page: allow this client? ──▶ the identity provider
//!          ◀── /oauth/signed-in: who are they? ── a code for the client
//!   client ── /oauth/token: a code, a refresh token ──▶ a token of ours
//! ```
//!
//! Its tokens are another issuer's to [`crate::issuer`], and their users are those of the
//! identity provider. What is decided is in the pure parts: `client`, `authorize`, `grant`.

use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    CACHE_CONTROL, CONTENT_TYPE,
};
use http::{HeaderValue, Method, Response, StatusCode};
use ring::hmac;
use serde_json::{Value, json};
use switchboard_net::OwnedTask;
use switchboard_net::auth::SystemTools;
use switchboard_net::auth::jws::SignatureAlgorithm;
use switchboard_net::auth::store::RecordStore;
use switchboard_net::http::fetch::{Fetch, Reach};
use switchboard_net::http::page::{LivePage, PageReply, PageVisit};
use switchboard_net::http::site::SitePage;
use switchboard_proto::auth::{OauthSettings, ResourceParameter, Secret, Tools as _};
use tokio::sync::Semaphore;

use crate::authenticator::Authenticator;
use crate::idp::IdpClient;
use crate::token::{FacadeRule, TokenAccess};
use crate::{read, write};
use signing_keys::SigningKeys;
use state::FacadeState;

mod access_token;
mod assertion;
mod authorize;
mod client;
mod exchange;
mod grant;
mod pending;
mod person_check;
mod record;
mod registration;
mod signing_keys;
mod state;
mod visit;

pub(crate) use signing_keys::client_key;
pub use signing_keys::rotate_keys;
pub use state::FacadeError;

/// Metadata documents that are read at a time.
const READERS: usize = 16;
/// How often what nobody uses any more is forgotten, and the keys are looked at.
const SWEEP: Duration = Duration::from_hours(1);
const LOOK_AT_KEYS: Duration = Duration::from_mins(1);

/// Where the facade answers.
const PATHS: [&str; 9] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    "/oauth/authorize",
    "/oauth/consent",
    "/oauth/jwks.json",
    "/oauth/register",
    "/oauth/revoke",
    "/oauth/signed-in",
    "/oauth/token",
];

/// An authorization server of the gateway's own.
pub struct Facade {
    /// Itself, for work that goes on when a client hangs up.
    me: Weak<Self>,
    authenticator: Arc<Authenticator>,
    fetch: Fetch,
    /// Reaches what clients name.
    careful: Fetch,
    state: FacadeState,
    keys: RwLock<Arc<SigningKeys>>,
    /// Those who read a metadata document.
    readers: Semaphore,
    /// Shows that a form of ours was answered in the browser that got it.
    form_key: hmac::Key,
    /// When it was started, in Unix seconds.
    started: u64,
    sweeping: std::sync::OnceLock<OwnedTask>,
}

/// What holds at the time of a request.
struct Current {
    tokens: Arc<TokenAccess>,
    rule: FacadeRule,
    /// Our public URL, which is the issuer of our tokens.
    base: String,
    now: u64,
}

impl Facade {
    /// The facade that the configuration names, with its state in `store`.
    pub async fn start(
        authenticator: &Arc<Authenticator>,
        store: Arc<dyn RecordStore>,
        fetch: Fetch,
    ) -> Result<Arc<Self>, FacadeError> {
        let keys = Arc::new(signing_keys::load_keys(&*store).await?.open()?);
        authenticator.issuers().set_own_keys(keys.public());
        let state = FacadeState::open(store).await?;
        for grant in state.ended_grants() {
            authenticator.issuers().end_grant(grant::public_id(&grant), grant::TOKEN_LIFE);
        }
        let careful = fetch.within(Reach::public())?;
        let form_key = hmac::Key::new(hmac::HMAC_SHA256, &SystemTools.random());
        let facade = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            authenticator: Arc::clone(authenticator),
            fetch,
            careful,
            state,
            keys: RwLock::new(keys),
            readers: Semaphore::new(READERS),
            form_key,
            started: authenticator.issuers().now(),
            sweeping: std::sync::OnceLock::new(),
        });
        let task = sweep(Arc::downgrade(&facade));
        facade.sweeping.get_or_init(|| OwnedTask::spawn(task));
        Ok(facade)
    }

    /// Its pages, for [`Sites`](switchboard_net::http::site::Sites).
    pub fn pages(self: &Arc<Self>) -> Vec<(String, SitePage)> {
        let page = |path: &str| {
            let facade: Arc<Self> = Arc::clone(self);
            (path.to_owned(), SitePage::Live(facade))
        };
        PATHS.into_iter().map(page).collect()
    }

    fn current(&self) -> Option<Current> {
        let tokens = self.authenticator.tokens()?;
        let (rule, base) = (tokens.facade.clone()?, tokens.public_url.clone()?);
        Some(Current { tokens, rule, base, now: self.authenticator.issuers().now() })
    }

    fn keys(&self) -> Arc<SigningKeys> {
        Arc::clone(&read(&self.keys))
    }

    /// Signs with the keys of the store, which an administrator may have changed.
    async fn read_keys(&self) -> Result<(), FacadeError> {
        let found = signing_keys::load_keys(self.state.store()).await?.open()?;
        if found.published != self.keys().published {
            self.authenticator.issuers().set_own_keys(found.public());
            *write(&self.keys) = Arc::new(found);
        }
        Ok(())
    }

    fn idp(&self, current: &Current) -> Option<IdpClient> {
        let rule = &current.rule;
        let resource = if rule.send_resource {
            ResourceParameter::Given(current.base.clone())
        } else {
            ResourceParameter::LeftOut
        };
        let settings = OauthSettings {
            client_id: Some(rule.client_id.clone()),
            client_secret: rule.client_secret.clone().map(Secret::new),
            scopes: Some(rule.scopes.clone()),
            authorize_params: rule.authorize_params.clone(),
            resource,
            ..OauthSettings::default()
        };
        IdpClient::new(&self.authenticator, &rule.issuer, settings, self.fetch.clone())
    }

    async fn answer(&self, visit: PageVisit) -> Response<Bytes> {
        let Some(current) = self.current() else { return nothing() };
        let path = visit.path.trim_end_matches('/').to_owned();
        if let Some(rest) = PATHS[..2].iter().find_map(|known| path.strip_prefix(known)) {
            let url: Option<http::Uri> = current.base.parse().ok();
            let own = url.as_ref().map(|url| url.path().trim_end_matches('/')).unwrap_or_default();
            let is_read = matches!(visit.method, Method::GET | Method::HEAD);
            return match visit.method {
                Method::OPTIONS => preflight(),
                _ if rest != own || !is_read => nothing(),
                _ => with_cors(document(&metadata(&current))),
            };
        }
        let is_api = !matches!(&*path, "/oauth/authorize" | "/oauth/consent" | "/oauth/signed-in");
        if visit.method == Method::OPTIONS && is_api {
            return preflight();
        }
        match (&visit.method, &*path) {
            (&Method::GET | &Method::HEAD, "/oauth/jwks.json") => {
                with_cors(document(&json!({"keys": self.keys().published})))
            }
            (&Method::POST, "/oauth/register") => with_cors(self.register(&current, &visit).await),
            (&Method::POST, "/oauth/token") => with_cors(self.exchange(&current, &visit).await),
            (&Method::POST, "/oauth/revoke") => with_cors(self.revoke(&visit).await),
            (&Method::GET, "/oauth/authorize") => self.authorize(&current, &visit).await,
            (&Method::POST, "/oauth/consent") => self.consent(&current, &visit).await,
            (&Method::GET, "/oauth/signed-in") => self.signed_in(&current, &visit).await,
            _ => nothing(),
        }
    }
}

impl LivePage for Facade {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(self.answer(visit))
    }
}

async fn sweep(facade: Weak<Facade>) {
    let mut since = SWEEP;
    loop {
        let Some(there) = facade.upgrade() else { return };
        let looked = there.read_keys().await;
        let swept = if since >= SWEEP {
            since = Duration::ZERO;
            there.state.sweep(there.authenticator.issuers().now()).await
        } else {
            Ok(())
        };
        if let Err(failed) = looked.and(swept) {
            tracing::warn!("the state of the facade cannot be looked at: {failed}");
        }
        drop(there);
        tokio::time::sleep(LOOK_AT_KEYS).await;
        since += LOOK_AT_KEYS;
    }
}

/// What the facade says of itself (OS-1).
fn metadata(current: &Current) -> Value {
    let base = &current.base;
    let at = |path: &str| format!("{base}/oauth/{path}");
    let algorithms = SignatureAlgorithm::ALL.map(SignatureAlgorithm::name);
    let mut metadata = json!({
        "issuer": base,
        "authorization_endpoint": at("authorize"),
        "token_endpoint": at("token"),
        "revocation_endpoint": at("revoke"),
        "jwks_uri": at("jwks.json"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", assertion::JWT_BEARER],
        "authorization_grant_profiles_supported": [assertion::ID_JAG_PROFILE],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": true,
        // What the rules of OpenID discovery ask for; ID tokens are not issued.
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    if current.rule.registration {
        metadata["registration_endpoint"] = at("register").into();
    }
    if !current.tokens.scopes.is_empty() {
        let scopes: Vec<_> = current.tokens.scopes.keys().collect();
        metadata["scopes_supported"] = json!(scopes);
    }
    metadata
}

fn random_hex(bytes: usize) -> String {
    SystemTools.random()[..bytes].iter().fold(String::new(), |text, it| format!("{text}{it:02x}"))
}

fn json_reply(status: u16, value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What may be kept for a while.
pub(crate) fn document(value: &Value) -> Response<Bytes> {
    let mut response = json_reply(200, value);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    response
}

fn error(status: u16, code: &str, why: &str) -> Response<Bytes> {
    json_reply(status, &json!({"error": code, "error_description": why}))
}

pub(crate) fn unavailable(failed: &FacadeError) -> Response<Bytes> {
    tracing::error!("the facade cannot answer: {failed}");
    error(503, "temporarily_unavailable", "try again later")
}

pub(crate) fn nothing() -> Response<Bytes> {
    json_reply(404, &json!({"error": "not_found"}))
}

/// Web pages may be clients: no cookie is looked at where this is said.
fn with_cors(mut response: Response<Bytes>) -> Response<Bytes> {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    response
}

fn preflight() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    with_cors(response)
}

fn base64(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests;
