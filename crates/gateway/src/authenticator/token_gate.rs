//! An entrance that accepts access tokens beside keys: a resource server of OAuth.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde_json::json;
use switchboard_net::access::{AuthAnswer, AuthDenial, Authenticate as _, EntryRequest, Who};
use switchboard_net::auth::jws::looks_like_jwt;
use switchboard_proto::auth::Secret;
use switchboard_proto::auth::claims::is_audience;

use super::KeyTable;
use super::entrance::EntranceGate;
use crate::issuer::{KnownToken, TokenCheck, TokenDenial, hash_token};
use crate::policy::Denied;
use crate::proxy::{RequestUrl, base_url};
use crate::token::TokenAccess;

/// Where metadata of protected resources are (RFC 9728).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What `switchboard key new` begins a key with.
const KEY_PREFIX: &str = "sb_";

/// What a request shows of itself.
enum Shown<'h> {
    /// A key, or nothing.
    Key,
    Token(&'h str),
    /// Several, or one that cannot be read.
    Unclear(&'static str),
}

impl<'h> Shown<'h> {
    /// A bearer token is a key if it has our prefix, and else a token, unless it is known as
    /// a key.
    fn read(headers: &'h HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Self::Key };
        if values.next().is_some() {
            return Self::Unclear("there are several Authorization headers");
        }
        let Ok(text) = value.to_str() else {
            return Self::Unclear("the Authorization header cannot be read");
        };
        let (scheme, token) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Self::Key;
        }
        if token.is_empty() || token.bytes().any(|byte| matches!(byte, b' ' | b',')) {
            return Self::Unclear("the Authorization header has no bearer token that can be read");
        }
        if token.starts_with(KEY_PREFIX) { Self::Key } else { Self::Token(token) }
    }
}

/// What the URL of everything here is for.
#[derive(Clone, Copy, Eq, PartialEq)]
enum UrlPurpose {
    /// It is shown to the client of the request.
    Show,
    /// Audiences are compared with it: no client has a say in it.
    Compare,
}

/// The public URL of everything here, as far as it is known (OR-4).
fn base<'t>(
    tokens: &'t TokenAccess,
    request: EntryRequest<'_>,
    purpose: UrlPurpose,
) -> Option<Cow<'t, str>> {
    if let Some(url) = &tokens.public_url {
        return Some(Cow::Borrowed(url));
    }
    let RequestUrl { origin, prefix } = base_url(request, &tokens.trusted_proxies)?;
    Some(Cow::Owned(if purpose == UrlPurpose::Show { origin + &prefix } else { origin }))
}

/// The metadata of the endpoint that a path below the well-known one names. Whether
/// something is there is not told (OR-3).
pub(super) fn metadata(tokens: &TokenAccess, request: EntryRequest<'_>) -> Option<String> {
    let path = request.path().strip_prefix(WELL_KNOWN)?;
    if !path.is_empty() && !path.starts_with('/') {
        return None;
    }
    let base = base(tokens, request, UrlPurpose::Show)?;
    let issuers: Vec<_> = match &tokens.facade {
        Some(_) => vec![&*base],
        None => tokens.issuers.iter().map(|rule| rule.issuer.as_str()).collect(),
    };
    let mut metadata = json!({
        "resource": format!("{base}{}", path.strip_suffix('/').unwrap_or(path)),
        "authorization_servers": issuers,
        "bearer_methods_supported": ["header"],
        "resource_name": "Switchboard",
    });
    let scopes = tokens.basic_scopes();
    if !scopes.is_empty() {
        metadata["scopes_supported"] = scopes.into();
    }
    Some(metadata.to_string())
}

impl EntranceGate {
    pub(super) fn admit_with_tokens(
        &self,
        table: &Arc<KeyTable>,
        tokens: &Arc<TokenAccess>,
        request: EntryRequest<'_>,
    ) -> AuthAnswer {
        let token = match Shown::read(request.headers()) {
            Shown::Token(token) => token,
            Shown::Key => return AuthAnswer::Now(self.admit_key(table, tokens, request)),
            Shown::Unclear(why) => {
                let challenge = self.challenge(tokens, request, Some("invalid_request"), None);
                return AuthAnswer::Now(Err(AuthDenial::unclear(challenge, why)));
            }
        };
        let issuers = &self.authenticator.issuers;
        let hash = hash_token(token);
        // A token that is known costs a hash and a look. A JWT is never tried as a key (OR-19).
        let check = match issuers.remembered(&hash) {
            Some(known) => TokenCheck::Now(known),
            None if !looks_like_jwt(token) && table.access.has_key(token.as_bytes()) => {
                return AuthAnswer::Now(self.admit_key(table, tokens, request));
            }
            None => issuers.check(token, hash),
        };
        let base = base(tokens, request, UrlPurpose::Compare);
        let shown = self.authenticator.subject_to_keep(token);
        match check {
            TokenCheck::Now(Ok(known)) => {
                AuthAnswer::Now(self.admit_token(&known, tokens, base.as_deref(), shown, || {
                    Denials::new(self, tokens, request)
                }))
            }
            TokenCheck::Now(Err(denial)) => {
                AuthAnswer::Now(Err(Denials::new(self, tokens, request).of(denial)))
            }
            TokenCheck::Later(check) => {
                let denials = Denials::new(self, tokens, request);
                let (gate, tokens) = (self.clone(), Arc::clone(tokens));
                let base = base.map(Cow::into_owned);
                AuthAnswer::Later(Box::pin(async move {
                    match check.run().await {
                        Ok(known) => {
                            gate.admit_token(&known, &tokens, base.as_deref(), shown, || denials)
                        }
                        Err(denial) => Err(denials.of(denial)),
                    }
                }))
            }
        }
    }

    fn admit_key(
        &self,
        table: &KeyTable,
        tokens: &TokenAccess,
        request: EntryRequest<'_>,
    ) -> Result<Who, AuthDenial> {
        let shows = table.access.identify(request.headers());
        match shows {
            Ok(_) => self.authenticate(request.headers()),
            Err(denied) => {
                let is_shown = matches!(denied, Denied::UnknownKey);
                let error = is_shown.then_some("invalid_token");
                let challenge = self.challenge(tokens, request, error, None);
                let text = if is_shown {
                    "the key is not known; send an access token or a key"
                } else {
                    "an access token or a key is needed; send it as a bearer token"
                };
                Err(AuthDenial::unknown(challenge, text))
            }
        }
    }

    /// Lets the bearer of a token in that counts, if it was issued for this place.
    fn admit_token(
        &self,
        known: &Arc<KnownToken>,
        tokens: &TokenAccess,
        base: Option<&str>,
        shown: Option<Secret>,
        denials: impl FnOnce() -> Denials,
    ) -> Result<Who, AuthDenial> {
        let facts = &known.facts;
        let rule = tokens.issuer(&facts.issuer);
        let more = rule.map(|rule| &*rule.audiences).unwrap_or_default();
        if !is_audience(&facts.audiences, base, &self.paths, more) {
            let (issuer, subject) = (&facts.issuer, &facts.subject);
            tracing::info!(
                issuer,
                subject,
                "access token refused: it is for another audience (aud)"
            );
            return Err(denials().of(TokenDenial::Invalid));
        }
        let Some(user) = self.authenticator.token_user(known) else {
            return Err(denials().of(TokenDenial::Unclear(5)));
        };
        if !self.lets(&user.principal.grant) {
            // Another scope may let them in.
            let lacking = tokens.lacking(facts, |grant| self.lets(grant));
            let lacking = lacking.filter(|_| self.place.is_some());
            return Err(match lacking {
                Some(scope) => denials().insufficient(&scope),
                None => self.not_for_them(),
            });
        }
        if let Some(shown) = shown {
            self.authenticator.keep_subject(&user.user, known, shown);
        }
        self.authenticator.sweep_token_users();
        Ok(self.authenticator.enter(&user.user, None, Some(Arc::clone(known))))
    }

    pub(super) fn insufficient(
        &self,
        table: &KeyTable,
        request: EntryRequest<'_>,
        scope: &str,
    ) -> AuthDenial {
        match &table.access.tokens {
            Some(tokens) => Denials::new(self, tokens, request).insufficient(scope),
            None => AuthDenial::forbidden("this is not for you"),
        }
    }

    /// Says how to come in (OR-5).
    fn challenge(
        &self,
        tokens: &TokenAccess,
        request: EntryRequest<'_>,
        error: Option<&str>,
        scope: Option<&str>,
    ) -> HeaderValue {
        let denials = Denials::new(self, tokens, request);
        denials.challenge(error, scope)
    }
}

/// What is said to clients that do not come in at an entrance.
struct Denials {
    /// The address of the metadata.
    metadata: Option<String>,
    /// The scopes to begin with.
    basic: String,
}

impl Denials {
    fn new(gate: &EntranceGate, tokens: &TokenAccess, request: EntryRequest<'_>) -> Self {
        let path = request.path();
        let path = path.strip_suffix('/').unwrap_or(path);
        let is_own = gate.paths.iter().any(|own| own == path);
        let path = if is_own { path } else { gate.paths.first().map_or("", String::as_str) };
        let base = base(tokens, request, UrlPurpose::Show);
        let metadata = base.map(|base| format!("{base}{WELL_KNOWN}{path}"));
        Self { metadata, basic: tokens.basic_scopes().join(" ") }
    }

    fn challenge(&self, error: Option<&str>, scope: Option<&str>) -> HeaderValue {
        let scope = scope.unwrap_or(&self.basic);
        let scope = Some(scope).filter(|scope| !scope.is_empty());
        let parts =
            [("resource_metadata", self.metadata.as_deref()), ("scope", scope), ("error", error)];
        let parts =
            parts.into_iter().filter_map(|(name, value)| Some(format!("{name}=\"{}\"", value?)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        let challenge = HeaderValue::try_from(format!("Bearer {parts}").trim_end());
        challenge.unwrap_or(HeaderValue::from_static("Bearer"))
    }

    /// Texts name the rule; the log has the reason (OR-20).
    fn of(&self, denial: TokenDenial) -> AuthDenial {
        match denial {
            TokenDenial::Invalid => AuthDenial::unknown(
                self.challenge(Some("invalid_token"), None),
                "the access token is not valid here; sign in again",
            ),
            TokenDenial::Unclear(retry) => AuthDenial::unavailable(
                retry,
                "the access token cannot be checked at this time; try again",
            ),
        }
    }

    fn insufficient(&self, scope: &str) -> AuthDenial {
        let challenge = self.challenge(Some("insufficient_scope"), Some(scope));
        AuthDenial::insufficient(
            challenge,
            format!("this takes an access token with the scopes {scope}"),
        )
    }
}
