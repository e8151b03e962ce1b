//! Asking issuers about tokens (RFC 7662).

use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_net::auth::bounded;
use switchboard_proto::auth::claims::{TokenRules, check_introspected};

use super::keys::IssuerState;
use super::{
    Issuers, KNOWN_ANSWER, KNOWN_NO, KnownToken, MAX_DOCUMENT, RETRY, TokenDenial, TokenFault,
    TokenHash, refuse,
};
use crate::{lock, read};

impl Issuers {
    pub(super) async fn introspect(
        &self,
        token: &str,
        hash: TokenHash,
    ) -> Result<Arc<KnownToken>, TokenDenial> {
        let states = read(&self.states).clone();
        let mut fault = TokenFault::NotActive;
        for state in states.iter() {
            let Some(introspect) = &state.rule.introspect else { continue };
            let credentials = (&*introspect.client_id, &*introspect.client_secret);
            let claims = match state.ask_about(token, credentials).await {
                Ok(claims) => claims,
                Err(why) => {
                    let what = "an issuer cannot be asked about a token";
                    tracing::warn!(issuer = state.rule.name, "{what}: {why}");
                    return Err(TokenDenial::Unclear(RETRY));
                }
            };
            if claims.get("active") != Some(&Value::Bool(true)) {
                continue;
            }
            let now = (self.clock)();
            let rules = TokenRules { issuer: &state.rule.issuer, is_typed: false, now };
            match check_introspected(&claims, rules) {
                Ok(subject) => {
                    let known = state.known(subject, &claims, None);
                    self.remember(hash, Some(Arc::clone(&known)), KNOWN_ANSWER);
                    return Ok(known);
                }
                Err(bad) => fault = bad.into(),
            }
        }
        self.remember(hash, None, KNOWN_NO);
        Err(refuse(&hash, &fault))
    }
}

impl IssuerState {
    async fn ask_about(
        &self,
        token: &str,
        credentials: (&str, &str),
    ) -> Result<Map<String, Value>, String> {
        let busy = "too many questions are open";
        let _question = self.questions.try_acquire().map_err(|_| busy.to_owned())?;
        let known = lock(&self.introspection).clone();
        let url = match known {
            Some(url) => url,
            None => self.discover("introspection_endpoint").await.map_err(|it| it.to_string())?,
        };
        let form = [("token", token), ("token_type_hint", "access_token")];
        let asked = bounded::post_form(&self.fetch, &url, credentials, &form, MAX_DOCUMENT).await;
        asked.map(|asked| asked.object).map_err(|error| error.to_string())
    }
}
