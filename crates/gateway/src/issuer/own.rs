//! The tokens of our own authorization server: another issuer, whose keys need no fetching and
//! whose users are those of the identity provider behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use switchboard_net::auth::jws::{PublicJwk, SignedToken};
use switchboard_proto::Table;
use switchboard_proto::auth::claims::{LEEWAY, TokenRules, check_token};

use super::{IssuerKey, Issuers, KnownToken, TokenFault};
use crate::token::TokenFacts;
use crate::{read, write};

/// The tokens of our own authorization server.
#[derive(Default)]
pub(super) struct OwnTokens {
    /// Our public URL, and the name of the issuer whose users they are for; none if there is
    /// no facade.
    issuer: Option<(String, String)>,
    keys: Arc<[Arc<IssuerKey>]>,
    /// Grants that were ended while tokens of theirs may still be good, with the time of the end.
    ended: Table<String, u64>,
}

/// Grants that are remembered as ended. Their tokens are over after minutes.
const MAX_ENDED: usize = 10_000;

/// The claim of our own tokens with what the issuer says of the person.
pub(crate) const OWN_CLAIMS: &str = "switchboard_claims";
/// The claim of our own tokens that names their grant.
pub(crate) const OWN_GRANT: &str = "sid";

impl Issuers {
    /// Accepts tokens of the facade that these keys have signed, from here on.
    pub(crate) fn set_own_keys(&self, keys: Vec<PublicJwk>) {
        let new = |jwk| Arc::new(IssuerKey { jwk, is_gone: AtomicBool::new(false) });
        write(&self.own).keys = keys.into_iter().map(new).collect();
        self.forget_own();
    }

    /// Accepts tokens of this issuer from here on, for users of the one of this name.
    pub(super) fn follow_own(&self, issuer: Option<(String, String)>) {
        let mut own = write(&self.own);
        let is_other = own.issuer != issuer;
        own.issuer = issuer;
        drop(own);
        if is_other {
            self.forget_own();
        }
    }

    fn forget_own(&self) {
        write(&self.known).retain(|_, it| it.token.as_ref().is_none_or(|it| it.grant.is_none()));
    }

    /// Tokens of this grant do not count any more.
    pub(crate) fn end_grant(&self, grant: String, life: u64) {
        let now = (self.clock)();
        let mut own = write(&self.own);
        if own.ended.len() >= MAX_ENDED {
            own.ended.retain(|_, at| now <= at.saturating_add(life + LEEWAY));
        }
        for it in read(&self.known).values().filter_map(|it| it.token.as_ref()) {
            let is_of_it = it.grant.as_ref() == Some(&grant);
            it.is_ended.fetch_or(is_of_it, Ordering::SeqCst);
        }
        if own.ended.len() < MAX_ENDED {
            own.ended.insert(grant, now);
        }
        self.lost.is_lost.store(true, Ordering::SeqCst);
        self.lost.told.notify_one();
    }

    /// Looks again whether the grant of a token was ended.
    pub(super) fn mark_ended(&self, token: &KnownToken) {
        let is_ended = |grant: &String| read(&self.own).ended.contains_key(grant);
        if token.grant.as_ref().is_some_and(is_ended) {
            token.is_ended.store(true, Ordering::SeqCst);
        }
    }

    /// Whether a token of the facade counts; none if it is not of the facade.
    pub(super) fn check_own(
        &self,
        token: &SignedToken<'_>,
    ) -> Option<Result<Arc<KnownToken>, TokenFault>> {
        // No two locks at once: `follow` takes them the other way round.
        let (issuer, name, keys) = {
            let own = read(&self.own);
            let (issuer, name) = own.issuer.clone()?;
            (issuer, name, Arc::clone(&own.keys))
        };
        if token.claims().get("iss").and_then(Value::as_str) != Some(&issuer) {
            return None;
        }
        let rule = self.rule(&name);
        let rules = TokenRules { issuer: &issuer, is_typed: true, now: (self.clock)() };
        let checked = || {
            let subject = check_token(token.typ(), token.claims(), rules)?;
            let at = token.verify(keys.iter().map(|key| &key.jwk))?;
            let grant = token.claims().get(OWN_GRANT).and_then(Value::as_str).unwrap_or_default();
            if read(&self.own).ended.contains_key(grant) {
                return Err(TokenFault::NotActive);
            }
            let said = token.claims().get(OWN_CLAIMS).and_then(Value::as_object);
            let rule = rule.ok_or(TokenFault::OtherIssuer)?;
            let facts = TokenFacts {
                issuer: name.clone(),
                subject: subject.subject,
                expires: subject.expires,
                audiences: subject.audiences,
                scopes: subject.scopes,
                claims: said.map(|said| rule.pick(said)).unwrap_or_default(),
            };
            let (key, grant) = (Some(Arc::clone(&keys[at])), Some(grant.to_owned()));
            Ok(KnownToken::new(facts, key, grant))
        };
        Some(checked())
    }
}
