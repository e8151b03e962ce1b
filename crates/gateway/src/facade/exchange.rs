//! The token endpoint: a code or a refresh token becomes an access token of ours.

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderValue, Response};
use serde_json::json;
use switchboard_net::auth::jws::{PublicJwk, SignedToken};
use switchboard_net::http::page::PageVisit;
use switchboard_proto::auth::{TokenRecord, query_pairs};

use super::assertion::{self, AssertionRules, CLIENT_ASSERTION, JWT_BEARER};
use super::authorize::single;
use super::client::FacadeClient;
use super::grant::{
    CodeClaim, GrantVerdict, NewGrant, StoredGrant, TOKEN_LIFE, public_id, split_token,
};
use super::person_check::PersonCheck;
use super::state::LockedGrant;
use super::{Current, Facade, error, json_reply, random_hex, unavailable};

/// An answer that is no tokens.
type DeniedAnswer = Response<Bytes>;

fn invalid_grant(why: &str) -> DeniedAnswer {
    error(400, "invalid_grant", why)
}

/// A client that we do not know is to register again (OS-9).
fn invalid_client() -> DeniedAnswer {
    let mut denied = error(401, "invalid_client", "the client is not known; register again");
    let challenge = HeaderValue::from_static("Basic realm=\"oauth\"");
    denied.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    denied
}

/// Declares what of a form is read, by the names that its parameters have.
macro_rules! token_form {
    ($($field:ident = $name:literal,)*) => {
        /// What a token request says. All of it once.
        struct TokenForm<'f> { $($field: Option<&'f str>,)* }

        fn read_form(pairs: &[(String, String)]) -> Option<TokenForm<'_>> {
            let [$($field,)*] = single(pairs, [$($name,)*])?;
            Some(TokenForm { $($field,)* })
        }
    };
}

token_form! {
    assertion = "assertion",
    client_assertion = "client_assertion",
    client_assertion_type = "client_assertion_type",
    client_id = "client_id",
    code = "code",
    grant_type = "grant_type",
    redirect_uri = "redirect_uri",
    refresh_token = "refresh_token",
    resource = "resource",
    scope = "scope",
    verifier = "code_verifier",
}

/// The scopes of a token: those that were granted, or fewer of them.
fn narrowed(grant: &StoredGrant, asked: Option<&str>) -> Option<Vec<String>> {
    let Some(asked) = asked else { return Some(grant.scopes.clone()) };
    let asked: Vec<_> = asked.split_ascii_whitespace().map(str::to_owned).collect();
    asked.iter().all(|scope| grant.scopes.contains(scope)).then_some(asked)
}

impl Facade {
    /// Answers a token request.
    pub(super) async fn exchange(&self, current: &Current, visit: &PageVisit) -> Response<Bytes> {
        let body = String::from_utf8_lossy(&visit.body).into_owned();
        let pairs = query_pairs(&body);
        let Some(form) = read_form(&pairs) else {
            return error(400, "invalid_request", "a parameter is there twice");
        };
        let client = match self.authenticate(current, visit, &form).await {
            Ok(client) => client,
            Err(denied) => return denied,
        };
        match form.grant_type {
            Some("authorization_code") => self.redeem(current, &client, &form).await,
            Some("refresh_token") => {
                // What the issuer gave must be kept, also if the client hangs up meanwhile.
                let (Some(me), pairs) = (self.me.upgrade(), pairs.clone()) else {
                    return invalid_client();
                };
                let task = tokio::spawn(async move {
                    let (Some(current), Some(form)) = (me.current(), read_form(&pairs)) else {
                        return invalid_client();
                    };
                    me.refresh(&current, &client, &form).await
                });
                task.await.unwrap_or_else(|_| error(500, "server_error", "try again"))
            }
            Some(JWT_BEARER) => self.use_id_jag(current, &client, &form).await,
            _ => {
                error(400, "unsupported_grant_type", "ask for authorization_code or refresh_token")
            }
        }
    }

    /// The client that sends a request.
    async fn authenticate(
        &self,
        current: &Current,
        visit: &PageVisit,
        form: &TokenForm<'_>,
    ) -> Result<FacadeClient, DeniedAnswer> {
        // Nobody here has a secret.
        if visit.headers.contains_key(AUTHORIZATION) {
            return Err(invalid_client());
        }
        let Some(id) = form.client_id else { return Err(invalid_client()) };
        let client = match self.find_client(current, id, visit.address).await {
            Ok(Some(client)) => client,
            Ok(None) => return Err(invalid_client()),
            Err(failed) => return Err(unavailable(&failed)),
        };
        let Some(jwks) = &client.jwks else {
            return if form.client_assertion.is_none() {
                Ok(client)
            } else {
                Err(invalid_client())
            };
        };
        let is_signed = form.client_assertion_type == Some(CLIENT_ASSERTION);
        let shown = form.client_assertion.filter(|_| is_signed).unwrap_or_default();
        let checked = SignedToken::parse(shown).map_err(|bad| bad.to_string()).and_then(|token| {
            let keys = PublicJwk::read_set(jwks).unwrap_or_default();
            token.verify(keys.iter()).map_err(|bad| bad.to_string())?;
            let rules = self.rules(current, &client.id, &client.id);
            assertion::check_client(token.claims(), rules).map_err(|bad| bad.to_string())
        });
        match checked {
            Ok(once) => match self.state.client_assertions.use_once(&client.id, &once, current.now)
            {
                Ok(true) => Ok(client),
                Ok(false) => Err(invalid_client()),
                Err(full) => Err(unavailable(&full)),
            },
            Err(why) => {
                tracing::info!(client = client.id, "a client is not who it says: {why}");
                Err(invalid_client())
            }
        }
    }

    fn rules<'r>(
        &self,
        current: &'r Current,
        issuer: &'r str,
        client_id: &'r str,
    ) -> AssertionRules<'r> {
        let (base, now) = (&*current.base, current.now);
        AssertionRules { issuer, base, client_id, now, started: self.started }
    }

    /// A token for what the identity provider says of a person (OS-15). Another one takes
    /// another ID-JAG: there is no refresh token.
    async fn use_id_jag(
        &self,
        current: &Current,
        client: &FacadeClient,
        form: &TokenForm<'_>,
    ) -> Response<Bytes> {
        let Some(assertion) = form.assertion else {
            return error(400, "invalid_request", "assertion is required");
        };
        // An ID-JAG is for a client that shows who it is.
        if client.jwks.is_none() {
            return error(
                400,
                "unauthorized_client",
                "register with private_key_jwt for this grant",
            );
        }
        let (name, issuers) = (&current.rule.issuer, self.authenticator.issuers());
        let issuer = current.tokens.issuer(name).map(|rule| rule.issuer.clone());
        let claims = match issuers.verify(name, assertion).await {
            Ok(claims) => claims,
            Err(bad) => {
                tracing::info!(client = client.id, "an ID-JAG is refused: {bad}");
                return invalid_grant("the assertion is not signed by the identity provider");
            }
        };
        let rules = self.rules(current, issuer.as_deref().unwrap_or_default(), &client.id);
        let token = SignedToken::parse(assertion);
        let typ = token.as_ref().ok().and_then(SignedToken::typ);
        let jag = match assertion::check_id_jag(typ, &claims, rules) {
            Ok(jag) => match self.state.id_jags.use_once(&client.id, &jag.once, current.now) {
                Ok(true) => jag,
                Ok(false) => return invalid_grant("the assertion was used before"),
                Err(full) => return unavailable(&full),
            },
            Err(bad) => return invalid_grant(&bad.to_string()),
        };
        let known = |scope: &&str| current.tokens.scopes.contains_key(*scope);
        let scopes = jag.scope.split_ascii_whitespace().filter(known).map(str::to_owned);
        let new = NewGrant {
            client_id: client.id.clone(),
            redirect_uri: String::new(),
            challenge: String::new(),
            resource: jag.resource,
            scopes: scopes.collect(),
        };
        let grant = new.of(jag.subject, claims, TokenRecord::default(), "", current.now);
        match self.sign(current, &random_hex(16), &grant, &grant.scopes) {
            Ok(given) => json_reply(200, &given),
            Err(failed) => unavailable(&failed),
        }
    }

    async fn find_grant(&self, id: &str) -> Result<LockedGrant, DeniedAnswer> {
        match self.state.grant(id).await {
            Ok(Some(grant)) => Ok(grant),
            Ok(None) => Err(invalid_grant("it is not known, or it is over; sign in again")),
            Err(failed) => Err(unavailable(&failed)),
        }
    }

    /// Ends a grant, and all tokens that it gave.
    pub(super) async fn end(&self, id: &str, grant: LockedGrant, why: &str) -> DeniedAnswer {
        let (client, subject) = (&grant.grant.client_id, &grant.grant.subject);
        tracing::warn!(client, subject, "a grant is ended: {why}");
        self.authenticator.issuers().end_grant(public_id(id), TOKEN_LIFE);
        match self.state.end(id, grant, self.authenticator.issuers().now()).await {
            Ok(()) => invalid_grant(why),
            Err(failed) => unavailable(&failed),
        }
    }

    async fn redeem(
        &self,
        current: &Current,
        client: &FacadeClient,
        form: &TokenForm<'_>,
    ) -> Response<Bytes> {
        let (Some(code), Some(verifier)) = (form.code, form.verifier) else {
            return error(400, "invalid_request", "code and code_verifier are required");
        };
        let Some((id, secret)) = split_token(code) else {
            return invalid_grant("the code is not known");
        };
        let mut grant = match self.find_grant(id).await {
            Ok(grant) => grant,
            Err(denied) => return denied,
        };
        let claim = CodeClaim { client_id: &client.id, redirect_uri: form.redirect_uri, verifier };
        match grant.grant.use_code(secret, &claim, current.now) {
            GrantVerdict::Tokens => {}
            GrantVerdict::Refused(why) => return invalid_grant(why),
            GrantVerdict::Ended(why) => return self.end(id, grant, why).await,
            GrantVerdict::Repeat(_) => return invalid_grant("the code was used before"),
        }
        if form.resource.is_some_and(|resource| resource != grant.grant.resource) {
            return error(400, "invalid_target", "resource is not the one that was asked for");
        }
        self.give(current, (id, secret), &mut grant, client, None).await
    }

    async fn refresh(
        &self,
        current: &Current,
        client: &FacadeClient,
        form: &TokenForm<'_>,
    ) -> Response<Bytes> {
        let Some((id, secret)) = form.refresh_token.and_then(split_token) else {
            return invalid_grant("the refresh token is not known; sign in again");
        };
        let mut grant = match self.find_grant(id).await {
            Ok(grant) => grant,
            Err(denied) => return denied,
        };
        match grant.grant.use_refresh(secret, &client.id, current.now) {
            GrantVerdict::Tokens => {}
            GrantVerdict::Repeat(answer) => {
                let answer = serde_json::from_str(answer.reveal()).unwrap_or_default();
                return json_reply(200, &answer);
            }
            GrantVerdict::Refused(why) => return invalid_grant(why),
            GrantVerdict::Ended(why) => return self.end(id, grant, why).await,
        }
        // A grant is of the issuer that it came from, whoever is configured by now.
        let issuer = current.tokens.issuer(&current.rule.issuer);
        if issuer.is_none_or(|rule| rule.issuer != grant.grant.idp.source.issuer) {
            return self.end(id, grant, "the identity provider is another one").await;
        }
        if form.resource.is_some_and(|resource| resource != grant.grant.resource) {
            return error(400, "invalid_target", "resource is not the one that was asked for");
        }
        let Some(scopes) = narrowed(&grant.grant, form.scope) else {
            return error(400, "invalid_scope", "a scope was not granted; sign in again");
        };
        match self.check_standing(current, &mut grant).await {
            PersonCheck::There => {}
            PersonCheck::Unclear => {
                return error(
                    503,
                    "temporarily_unavailable",
                    "the identity provider does not answer",
                );
            }
            PersonCheck::Gone(why) => return self.end(id, grant, why).await,
        }
        self.give(current, (id, secret), &mut grant, client, Some(scopes)).await
    }

    /// Makes tokens, and remembers the refresh token by its hash before anybody gets it.
    async fn give(
        &self,
        current: &Current,
        (id, shown): (&str, &str),
        grant: &mut LockedGrant,
        client: &FacadeClient,
        scopes: Option<Vec<String>>,
    ) -> Response<Bytes> {
        let scopes = scopes.unwrap_or_else(|| grant.grant.scopes.clone());
        let secret = random_hex(32);
        let mut given = match self.sign(current, id, &grant.grant, &scopes) {
            Ok(given) => given,
            Err(failed) => return unavailable(&failed),
        };
        given["refresh_token"] = format!("{id}.{secret}").into();
        grant.grant.rotate(shown, &secret, &given.to_string(), current.now);
        if let Err(failed) = grant.save().await {
            return unavailable(&failed);
        }
        self.state.note_use(client, current.now).await;
        json_reply(200, &given)
    }

    /// Takes tokens back (RFC 7009). What is not known is gone already.
    pub(super) async fn revoke(&self, visit: &PageVisit) -> Response<Bytes> {
        let body = String::from_utf8_lossy(&visit.body);
        let pairs = query_pairs(&body);
        let Some([Some(token), Some(client_id)]) = single(&pairs, ["token", "client_id"]) else {
            return error(400, "invalid_request", "token and client_id are required");
        };
        // Access tokens are over soon.
        let Some((id, secret)) = split_token(token) else { return json_reply(200, &json!({})) };
        match self.find_grant(id).await {
            Ok(grant) => {
                if grant.grant.client_id != client_id || !grant.grant.has_refresh(secret) {
                    return json_reply(200, &json!({}));
                }
                let denied = self.end(id, grant, "it was revoked").await;
                if denied.status().is_server_error() { denied } else { json_reply(200, &json!({})) }
            }
            Err(denied) if denied.status().is_server_error() => denied,
            Err(_) => json_reply(200, &json!({})),
        }
    }
}
