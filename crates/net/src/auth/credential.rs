//! What a server is shown that wants an access token.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use switchboard_proto::auth::{AuthError, Challenge, Secret, TokenRecord, dpop_proof, origin_of};

use super::fetch::DPOP_NONCE;
use super::sign_in::{Authorizer, LoginMode};
use crate::connection::lock;
use crate::drive::now;
use crate::secret::IdentityDigest;
use crate::upstream::{
    Credential, CredentialRefusal, CredentialUser, FetchedHeaders, Fetching, NoCredential,
    PersonAsked,
};

/// How often a server may ask for more scope in one request (OC-51).
const MOST_STEP_UPS: usize = 2;
/// How long scopes that were asked for in vain are not asked for again.
const REFUSED_FOR: Duration = Duration::from_mins(10);
/// Sets of scopes that are remembered.
const MOST_REFUSED: usize = 3;

/// Tokens whose keys are remembered: one is renewed before many connections show the last.
const MOST_BOUND: usize = 4;
/// Origins whose nonces are remembered; a server has one or two.
const MOST_NONCES: usize = 8;

/// Shows a server the token of one account, beside what it is shown anyway. A server that
/// refuses it is asked again with a renewed one, and then somebody has to sign in.
pub struct OauthCredential {
    authorizer: Authorizer,
    others: HeaderSource,
    /// An `Authorization` of the others is shown in the place of ours.
    yields: bool,
    /// The tokens that were shown last and are bound to keys. Connections that began earlier
    /// may show an earlier one.
    bound: Mutex<VecDeque<BoundToken>>,
    /// What each origin wants to find in the next proof.
    nonces: Mutex<HashMap<String, String>>,
    /// Scopes that were asked for in vain, and when.
    refused: Mutex<HashMap<Vec<String>, Instant>>,
}

/// Where the other headers come from.
enum HeaderSource {
    Fixed(HeaderMap),
    Credential(Arc<dyn Credential>),
}

struct BoundToken {
    key: Secret,
    token: Secret,
}

impl fmt::Debug for OauthCredential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OauthCredential").finish_non_exhaustive()
    }
}

impl OauthCredential {
    /// Shows the token, and these headers.
    pub fn new(authorizer: Authorizer, headers: HeaderMap) -> Self {
        Self::of(authorizer, HeaderSource::Fixed(headers))
    }

    /// Shows the token beside what `others` says.
    pub fn beside(authorizer: Authorizer, others: Arc<dyn Credential>) -> Self {
        Self::of(authorizer, HeaderSource::Credential(others))
    }

    /// Nobody signs in where the others have an `Authorization` of their own.
    #[must_use]
    pub fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }

    fn of(authorizer: Authorizer, others: HeaderSource) -> Self {
        let (bound, nonces, refused) = Default::default();
        Self { authorizer, others, yields: false, bound, nonces, refused }
    }

    /// The token after a refusal; none if the refusal is final.
    async fn next(
        &self,
        refusal: &CredentialRefusal,
    ) -> Result<Option<(TokenRecord, bool)>, AuthError> {
        let values = refusal.answer.get_all(WWW_AUTHENTICATE);
        let challenge = Challenge::find(values.iter().filter_map(|value| value.to_str().ok()));
        let stored = self.authorizer.tokens().await?;
        let shown = shown_token(&refusal.shown);
        let fresh_nonce = refusal.answer.get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
        if let Some(nonce) = fresh_nonce
            && self.is_new_nonce(&refusal.url, nonce)
            && stored.as_ref().is_some_and(|stored| stored.source.dpop_key.is_some())
        {
            return Ok(stored.map(|stored| (stored, false)));
        }
        let stored = match stored {
            // Another process has renewed it, or somebody has signed in elsewhere.
            Some(stored)
                if shown.as_deref() != Some(self.word(&stored))
                    && !stored.is_over(self.authorizer.tools().now()) =>
            {
                return Ok(Some((stored, false)));
            }
            stored => stored,
        };
        if refusal.status == StatusCode::FORBIDDEN {
            let challenge = challenge.filter(Challenge::asks_for_more_scope);
            return match challenge {
                Some(challenge) if !refusal.is_background => {
                    self.step_up(challenge, stored, refusal.attempt).await
                }
                _ => Ok(None),
            };
        }
        if refusal.attempt == 0
            && let Some(stored) = &stored
            && let Some(renewed) = self.authorizer.renew(stored).await?
            && renewed.access_token != stored.access_token
        {
            return Ok(Some((renewed, false)));
        }
        // A token that somebody signed in for is refused like the one before it (OC-47).
        if refusal.is_new_login || refusal.is_background {
            return Ok(None);
        }
        // A server that does not speak of OAuth may want something else.
        let is_oauth = challenge.as_ref().is_some_and(|it| it.resource_metadata.is_some());
        if !is_oauth && self.authorizer.asks_nobody() {
            return Ok(None);
        }
        let refused = stored.map(|stored| stored.access_token).unwrap_or_default();
        match self.authorizer.sign_in_unless(challenge, Some(refused)).await {
            Ok(record) => Ok(Some((record, true))),
            // The server's own words say more.
            Err(AuthError::NoOauth) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for the scopes that the server wants beside those that were asked for before.
    async fn step_up(
        &self,
        challenge: Challenge,
        stored: Option<TokenRecord>,
        attempt: usize,
    ) -> Result<Option<(TokenRecord, bool)>, AuthError> {
        let scopes = challenge.scopes();
        let granted = stored.as_ref().map(|stored| &*stored.granted).unwrap_or_default();
        let has_all = !scopes.is_empty() && scopes.iter().all(|scope| granted.contains(scope));
        let refused = stored.map(|stored| stored.access_token).unwrap_or_default();
        if has_all || attempt > MOST_STEP_UPS || !self.may_ask_for(&scopes) {
            return Ok(None);
        }
        let record = self.authorizer.sign_in_unless(Some(challenge), Some(refused)).await?;
        if scopes.iter().all(|scope| record.source.scopes.contains(scope)) {
            lock(&self.refused).insert(scopes, now());
        }
        Ok(Some((record, true)))
    }

    /// Whether these scopes were not asked for a short while ago, nor too many others.
    fn may_ask_for(&self, scopes: &[String]) -> bool {
        let mut refused = lock(&self.refused);
        refused.retain(|_, since| now().saturating_duration_since(*since) < REFUSED_FOR);
        !refused.contains_key(scopes) && refused.len() < MOST_REFUSED
    }

    /// What of a record is sent.
    fn word<'r>(&self, record: &'r TokenRecord) -> &'r str {
        let id_token = record.id_token.as_ref().filter(|_| self.authorizer.settings().use_id_token);
        id_token.unwrap_or(&record.access_token).reveal()
    }

    /// Remembers a nonce; false if it was known.
    fn is_new_nonce(&self, url: &Uri, nonce: &str) -> bool {
        let (mut nonces, origin) = (lock(&self.nonces), origin_of(url));
        if nonces.len() >= MOST_NONCES && !nonces.contains_key(&origin) {
            nonces.clear();
        }
        nonces.insert(origin, nonce.to_owned()).as_deref() != Some(nonce)
    }

    /// Remembers the key of a token.
    fn bind(&self, new: BoundToken) {
        let mut bound = lock(&self.bound);
        bound.retain(|old| old.token != new.token);
        bound.truncate(MOST_BOUND - 1);
        bound.push_front(new);
    }

    fn add(&self, to: &mut FetchedHeaders, record: &TokenRecord) -> Result<(), AuthError> {
        let key = record.source.dpop_key.clone();
        let scheme = if key.is_some() { "DPoP" } else { "Bearer" };
        show_token(to, &format!("{scheme} {}", self.word(record)))?;
        if let Some(key) = key {
            self.bind(BoundToken { key, token: record.access_token.clone() });
        }
        limit_life(to, record, self.authorizer.tools().now());
        Ok(())
    }
}

fn show_token(to: &mut FetchedHeaders, authorization: &str) -> Result<(), AuthError> {
    let mut value = HeaderValue::from_str(authorization)
        .map_err(|_| AuthError::OddToken { found: "unusable".to_owned() })?;
    value.set_sensitive(true);
    to.headers.insert(AUTHORIZATION, value);
    Ok(())
}

/// Headers with this token are to be fetched again shortly before it is over.
fn limit_life(to: &mut FetchedHeaders, record: &TokenRecord, unix_now: u64) {
    if let Some(end) = record.expires_at {
        let life = end.saturating_sub(record.issued_at);
        let left = end.saturating_sub(unix_now);
        let left = Duration::from_secs(left.saturating_sub((life / 10).min(60)).max(1));
        let until = now().checked_add(left);
        to.until = to.until.into_iter().chain(until).min();
    }
}

impl FetchedHeaders {
    /// Adds a bearer token; they are to be fetched again shortly before it is over.
    pub fn show_bearer(&mut self, record: &TokenRecord, unix_now: u64) -> Result<(), AuthError> {
        show_token(self, &format!("Bearer {}", record.access_token.reveal()))?;
        limit_life(self, record, unix_now);
        Ok(())
    }
}

/// The token in the headers that a server was shown.
pub fn shown_token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    value.split_once(' ').map(|(_, token)| token.to_owned())
}

impl Credential for OauthCredential {
    fn passes(&self) -> &[HeaderName] {
        match &self.others {
            HeaderSource::Fixed(_) => &[],
            HeaderSource::Credential(others) => others.passes(),
        }
    }

    fn digest(&self, user: CredentialUser<'_>, digest: &mut IdentityDigest) {
        self.authorizer.digest(digest);
        match &self.others {
            HeaderSource::Fixed(headers) => digest.add_headers(headers),
            HeaderSource::Credential(others) => others.digest(user, digest),
        }
    }

    fn headers<'c>(
        &'c self,
        user: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        Box::pin(async move {
            let mut found = match &self.others {
                HeaderSource::Fixed(headers) => headers.clone().into(),
                HeaderSource::Credential(others) => {
                    let found = others.headers(user, None).await?.unwrap_or_default();
                    if self.yields && found.headers.contains_key(AUTHORIZATION) {
                        return match refusal {
                            None => Ok(Some(found)),
                            Some(_) => others.headers(user, refusal).await,
                        };
                    }
                    found
                }
            };
            let record = match refusal {
                // Whether a token is wanted at all is for the server to say.
                None => self.authorizer.current().await.unwrap_or_else(|error| {
                    tracing::debug!("no token: {error}");
                    None
                }),
                Some(refusal) => match self.next(refusal).await? {
                    Some((record, is_new_login)) => {
                        found.is_new_login = is_new_login;
                        Some(record)
                    }
                    None => return Ok(None),
                },
            };
            if let Some(record) = record {
                self.authorizer.note_tokens();
                self.add(&mut found, &record).map_err(NoCredential::from)?;
            }
            Ok(Some(found))
        })
    }

    fn person_asked(&self) -> Option<PersonAsked> {
        Some(self.authorizer.person_asked())
    }

    fn extension(&self) -> Option<&'static str> {
        self.authorizer.settings().grant.extension()
    }

    fn ask_anew(&self) {
        self.authorizer.ask_anew();
    }

    fn defers(&self) -> bool {
        self.authorizer.mode() == LoginMode::Defer
    }

    fn sign(&self, _: CredentialUser<'_>, request: &mut Request<Bytes>) {
        let Some(shown) = shown_token(request.headers()) else { return };
        let bound = lock(&self.bound);
        let found = bound.iter().find(|bound| bound.token.reveal() == shown);
        let Some(BoundToken { key, token }) = found else { return };
        let (method, url) = (request.method().as_str(), request.uri().to_string());
        let nonce = lock(&self.nonces).get(&origin_of(request.uri())).cloned();
        let tools = &**self.authorizer.tools();
        match dpop_proof(tools, key, method, &url, nonce.as_deref(), Some(token)) {
            Ok(proof) => {
                if let Ok(proof) = HeaderValue::from_str(&proof) {
                    request.headers_mut().insert("dpop", proof);
                }
            }
            Err(error) => tracing::warn!("no proof for a request: {error}"),
        }
    }
}
