//! People sign in to the console at an issuer whose access tokens the gateway takes.
//!
//! ```text
//!   POST sign-in {"issuer": …} ──▶ the page of the issuer ──▶ /oauth/callback (connect/)
//!   who they are ──▶ /console/#link=…, good for a minute, once ──▶ cookie
//! ```
//!
//! They may use what an access token of theirs would let them use.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use switchboard_net::http::page::PageVisit;

use super::sign_in::SignIns;
use super::{ApiError, ApiResult, CONSOLE_PATH, Console, json_response};
use crate::idp::Identity;
use crate::lock;
use crate::policy::KeyHash;
use crate::token::TokenFacts;

/// Seconds that such a sign-in lasts: the issuer may have said otherwise by then.
pub(super) const ISSUER_LIFE: u64 = 60 * 60;
/// How long somebody may take from the issuer's answer to our page.
const ARRIVAL: Duration = Duration::from_mins(1);
/// Those who are on this way at once; the oldest goes.
const MAX_ARRIVALS: usize = 64;
/// Bytes of what a cookie says of a person: browsers keep 4,096 of a cookie.
const MAX_SAID: usize = 2400;

/// Somebody who comes back from an issuer.
pub(super) struct Arrival {
    token: KeyHash,
    said: Value,
    at: Instant,
}

impl SignIns {
    /// An issuer has said who somebody is: where they go on.
    pub(super) fn arrive(&self, who: &Identity) -> Result<String, String> {
        let gone = || "The issuer is not in the configuration any more.".to_owned();
        let tokens = self.authenticator.tokens().ok_or_else(gone)?;
        let rule = tokens.issuer(&who.issuer).ok_or_else(gone)?;
        // At a facade people say yes to any scope that its clients ask for.
        let has_facade = tokens.facade.as_ref().is_some_and(|it| it.issuer == rule.name);
        let is_granted = |scope: &&String| has_facade || who.tokens.granted.contains(*scope);
        let scopes: Vec<_> = tokens.scopes.keys().filter(is_granted).collect();
        let said = json!({
            "issuer": rule.name,
            "url": rule.issuer,
            "subject": who.subject,
            "scopes": scopes,
            "claims": rule.pick(&who.claims),
        });
        if said.to_string().len() > MAX_SAID {
            return Err("The issuer says too much of you to be kept in a cookie.".to_owned());
        }
        let random = || "The system has no random numbers.".to_owned();
        let link = crate::connect::random_id().ok_or_else(random)?;
        let mut arrivals = lock(&self.arrivals);
        if arrivals.len() >= MAX_ARRIVALS {
            arrivals.pop_front();
        }
        let token = KeyHash::compute(link.as_bytes());
        arrivals.push_back(Arrival { token, said, at: Instant::now() });
        Ok(format!("{}{CONSOLE_PATH}/#link={link}", self.base()))
    }

    /// What is known of the one who arrives with this.
    pub(super) fn take_arrival(&self, link: &str) -> Option<Value> {
        let shown = KeyHash::compute(link.as_bytes());
        let mut arrivals = lock(&self.arrivals);
        arrivals.retain(|it| it.at.elapsed() < ARRIVAL);
        let at = arrivals.iter().position(|it| it.token.matches(&shown))?;
        arrivals.remove(at).map(|it| it.said)
    }

    /// What a cookie says of a person, as a token of theirs would; none if it is not the same
    /// issuer any more.
    pub(super) fn facts(&self, said: &Value, expires: u64) -> Option<TokenFacts> {
        let (issuer, subject) = (said["issuer"].as_str()?, said["subject"].as_str()?);
        let tokens = self.authenticator.tokens()?;
        let rule = tokens.issuer(issuer)?;
        if said["url"].as_str() != Some(&rule.issuer) {
            return None;
        }
        Some(TokenFacts {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            expires,
            audiences: Vec::new(),
            scopes: serde_json::from_value(said["scopes"].clone()).ok()?,
            claims: serde_json::from_value(said["claims"].clone()).ok()?,
        })
    }
}

impl Console {
    /// The issuers where people can sign in.
    pub(super) fn issuers(&self) -> Value {
        let connector = self.gateway.fleet().connector();
        let rules = connector.map(|connector| connector.issuers_of_people()).unwrap_or_default();
        let row = |rule: &crate::token::IssuerRule| {
            let host = rule.issuer.split('/').nth(2).unwrap_or(&rule.issuer);
            json!({"name": rule.name, "host": host})
        };
        json!({"issuers": rules.iter().map(row).collect::<Vec<_>>()})
    }

    /// Sends somebody to an issuer.
    pub(super) async fn begin_at_issuer(
        &self,
        visit: &PageVisit,
        name: &str,
    ) -> ApiResult<Response<Bytes>> {
        let unknown = || ApiError::not_found(format!("nobody signs in at an issuer {name:?}"));
        let connector = self.gateway.fleet().connector().ok_or_else(unknown)?;
        let rules = connector.issuers_of_people();
        let rule = rules.iter().find(|rule| rule.name == name).ok_or_else(unknown)?;
        self.sign_ins.may_begin(visit.address)?;
        let begun = connector.send_to_console(rule, &visit.headers).await;
        let (url, cookie) = begun.map_err(|why| {
            tracing::warn!(issuer = name, "nobody can sign in to the console there: {why}");
            let message = format!("the sign-in cannot begin: {why}");
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        })?;
        let mut response = json_response(&json!({"url": url}));
        if let Some(cookie) = cookie {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(response)
    }
}
