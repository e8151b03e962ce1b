//! Signed statements that clients bring to the token endpoint: who they are (RFC 7523), and
//! what an identity provider says of a person (ID-JAG). Pure; each is used once.

use serde_json::{Map, Value};
use switchboard_proto::auth::claims::{BadClaims, LEEWAY, TokenRules, check_bare};

use super::authorize::own_resource;

/// What a client authenticates by.
pub(super) const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The grant of an ID-JAG.
pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// What says that it is understood.
pub(super) const ID_JAG_PROFILE: &str = "urn:ietf:params:oauth:grant-profile:id-jag";
const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";

/// How long the statements of clients and of issuers may be good, in seconds: their ids are
/// remembered for as long.
const CLIENT_LIFE: u64 = 300;
const ID_JAG_LIFE: u64 = 3600;

/// Why a statement does not count.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum BadAssertion {
    #[error("{0}")]
    Claims(#[from] BadClaims),
    /// Whether it was used before is not known.
    #[error("the assertion is older than this process; get another one")]
    BeforeStart,
    #[error(
        "the assertion is good for longer than 5 minutes, or an ID-JAG for longer than an hour"
    )]
    LongLived,
    #[error("the assertion has no id (jti) or no time (iat)")]
    NoId,
    #[error("the assertion is for another authorization server (aud)")]
    OtherAudience,
    #[error("the assertion is for another client (client_id)")]
    OtherClient,
    #[error("the assertion is for another resource")]
    OtherResource,
    #[error("the assertion is no ID-JAG (typ)")]
    OtherType,
}

/// A statement that may be used once.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct OneTime {
    /// Its issuer and its id.
    pub(super) id: String,
    pub(super) until: u64,
}

/// What a statement is judged by.
#[derive(Clone, Copy)]
pub(super) struct AssertionRules<'r> {
    /// Who must have made it.
    pub(super) issuer: &'r str,
    /// Our public URL.
    pub(super) base: &'r str,
    pub(super) client_id: &'r str,
    pub(super) now: u64,
    /// When this process began.
    pub(super) started: u64,
}

fn check_once(
    claims: &Map<String, Value>,
    rules: AssertionRules<'_>,
    life: u64,
) -> Result<(String, OneTime), BadAssertion> {
    let AssertionRules { issuer, now, started, .. } = rules;
    let (subject, expires) = check_bare(claims, TokenRules { issuer, is_typed: false, now })?;
    if expires > now.saturating_add(life + LEEWAY) {
        return Err(BadAssertion::LongLived);
    }
    let id = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty());
    let (Some(id), Some(made)) = (id, claims.get("iat").and_then(Value::as_u64)) else {
        return Err(BadAssertion::NoId);
    };
    if made < started {
        return Err(BadAssertion::BeforeStart);
    }
    let until = expires.saturating_add(LEEWAY);
    Ok((subject, OneTime { id: format!("{issuer}\n{id}"), until }))
}

fn is_audience(claims: &Map<String, Value>, accepted: &[&str]) -> bool {
    // One audience, and no list: whoever else is in it could use it here.
    claims.get("aud").and_then(Value::as_str).is_some_and(|it| accepted.contains(&it))
}

/// Checks what a client says of itself.
pub(super) fn check_client(
    claims: &Map<String, Value>,
    rules: AssertionRules<'_>,
) -> Result<OneTime, BadAssertion> {
    let (subject, once) = check_once(claims, rules, CLIENT_LIFE)?;
    if subject != rules.client_id {
        return Err(BadAssertion::OtherClient);
    }
    let endpoint = format!("{}/oauth/token", rules.base);
    if !is_audience(claims, &[rules.base, &endpoint]) {
        return Err(BadAssertion::OtherAudience);
    }
    Ok(once)
}

/// What an identity provider says of a person, for one client here.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct IdJag {
    pub(super) subject: String,
    pub(super) resource: String,
    pub(super) scope: String,
    pub(super) once: OneTime,
}

/// Checks an ID-JAG whose signature is right (OX-3).
pub(super) fn check_id_jag(
    typ: Option<&str>,
    claims: &Map<String, Value>,
    rules: AssertionRules<'_>,
) -> Result<IdJag, BadAssertion> {
    if typ != Some(ID_JAG_TYPE) {
        return Err(BadAssertion::OtherType);
    }
    let (subject, once) = check_once(claims, rules, ID_JAG_LIFE)?;
    if !is_audience(claims, &[rules.base]) {
        return Err(BadAssertion::OtherAudience);
    }
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("client_id") != Some(rules.client_id) {
        return Err(BadAssertion::OtherClient);
    }
    let resource = text("resource").and_then(|it| own_resource(Some(it), rules.base));
    let resource = resource.ok_or(BadAssertion::OtherResource)?;
    Ok(IdJag { subject, resource, scope: text("scope").unwrap_or_default().to_owned(), once })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(issuer: &str) -> AssertionRules<'_> {
        let base = "https://gw.example";
        AssertionRules { issuer, base, client_id: "c", now: 1000, started: 900 }
    }

    fn changed(mut claims: Value, change: &Value) -> Map<String, Value> {
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object().unwrap().clone()
    }

    // wire: OX-3, OS-15
    #[test]
    fn an_id_jag_is_for_this_server_client_and_resource() {
        let right = json!({
            "iss": "https://idp.example", "sub": "ada", "aud": "https://gw.example", "client_id": "c",
            "resource": "https://gw.example/mcp", "jti": "1", "exp": 1300, "iat": 1000, "scope": "a",
        });
        let check = |typ, change: Value| {
            check_id_jag(Some(typ), &changed(right.clone(), &change), rules("https://idp.example"))
        };
        let found = check(ID_JAG_TYPE, json!({})).unwrap();
        assert_eq!((&*found.subject, &*found.scope), ("ada", "a"));
        assert_eq!(check("JWT", json!({})), Err(BadAssertion::OtherType));
        for (change, why) in [
            (json!({"iss": "https://other.example"}), BadAssertion::Claims(BadClaims::OtherIssuer)),
            (json!({"aud": "https://other.example"}), BadAssertion::OtherAudience),
            (json!({"aud": ["https://gw.example", "x"]}), BadAssertion::OtherAudience),
            (json!({"client_id": "d"}), BadAssertion::OtherClient),
            (json!({"client_id": null}), BadAssertion::OtherClient),
            (json!({"resource": "https://other.example/mcp"}), BadAssertion::OtherResource),
            (json!({"resource": null}), BadAssertion::OtherResource),
            (json!({"exp": 900}), BadAssertion::Claims(BadClaims::Expired)),
            (json!({"exp": 9000}), BadAssertion::LongLived),
            (json!({"iat": 1061}), BadAssertion::Claims(BadClaims::IssuedLater)),
            (json!({"iat": 899}), BadAssertion::BeforeStart),
            (json!({"jti": null}), BadAssertion::NoId),
            (json!({"iat": null}), BadAssertion::Claims(BadClaims::IssuedLater)),
            (json!({"sub": ""}), BadAssertion::Claims(BadClaims::NoSubject)),
        ] {
            assert_eq!(check(ID_JAG_TYPE, change.clone()), Err(why), "{change}");
        }
    }

    // wire: OS-1
    #[test]
    fn a_client_speaks_for_itself_to_us_alone() {
        let right = json!({
            "iss": "c", "sub": "c", "aud": "https://gw.example", "jti": "1", "exp": 1060, "iat": 1000,
        });
        let check = |change: Value| check_client(&changed(right.clone(), &change), rules("c"));
        assert!(check(json!({})).is_ok());
        assert!(check(json!({"aud": "https://gw.example/oauth/token"})).is_ok());
        for change in [
            json!({"iss": "d"}),
            json!({"sub": "d"}),
            json!({"aud": "https://other.example"}),
            json!({"exp": 900}),
            json!({"exp": 1361}),
            json!({"jti": ""}),
        ] {
            assert!(check(change.clone()).is_err(), "{change}");
        }
    }
}
