//! Access tokens of the facade: what they say, signed.

use serde_json::{Map, Value, json};

use super::grant::{StoredGrant, TOKEN_LIFE, public_id};
use super::state::FacadeError;
use super::{Current, Facade, random_hex};
use crate::issuer::{OWN_CLAIMS, OWN_GRANT};

impl Facade {
    /// An access token.
    pub(super) fn sign(
        &self,
        current: &Current,
        id: &str,
        grant: &StoredGrant,
        scopes: &[String],
    ) -> Result<Value, FacadeError> {
        let rule = current.tokens.issuer(&current.rule.issuer);
        let claims = access_claims(current, id, grant, scopes, |said| {
            rule.map(|rule| rule.pick(said)).unwrap_or_default()
        });
        let keys = self.keys();
        let header = json!({"typ": "at+jwt", "kid": keys.published[0]["kid"]});
        let mut given = json!({
            "access_token": keys.signer.sign(header, &claims)?,
            "token_type": "Bearer",
            "expires_in": TOKEN_LIFE,
        });
        if !scopes.is_empty() {
            given["scope"] = scopes.join(" ").into();
        }
        Ok(given)
    }
}

/// What an access token says (RFC 9068). `pick` has the claims that grant something.
fn access_claims(
    current: &Current,
    id: &str,
    grant: &StoredGrant,
    scopes: &[String],
    pick: impl Fn(&Map<String, Value>) -> Vec<(String, String)>,
) -> Value {
    let mut said = Map::new();
    for (name, value) in pick(&grant.claims) {
        if let Some(values) = said.entry(name).or_insert_with(|| json!([])).as_array_mut() {
            values.push(value.into());
        }
    }
    let mut claims = json!({
        "iss": current.base,
        "sub": grant.subject,
        "aud": grant.resource,
        "client_id": grant.client_id,
        "iat": current.now,
        "exp": current.now + TOKEN_LIFE,
        "jti": random_hex(16),
        OWN_GRANT: public_id(id),
    });
    if !scopes.is_empty() {
        claims["scope"] = scopes.join(" ").into();
    }
    if !said.is_empty() {
        claims[OWN_CLAIMS] = said.into();
    }
    claims
}
