//! Whether the claims of an access token let its bearer in, and where.
//!
//! The claims are those of a JWT whose signature was checked (RFC 9068), or the answer of
//! an introspection endpoint (RFC 7662). The caller hands in the time.

use serde_json::{Map, Value};

/// How far the clocks of an issuer and of this machine may differ, in seconds.
pub const LEEWAY: u64 = 60;

/// What the claims of an access token must say.
#[derive(Clone, Copy, Debug)]
pub struct TokenRules<'r> {
    /// Who must have issued it: the same string, byte for byte.
    pub issuer: &'r str,
    /// Whether its header must say `at+jwt`, as RFC 9068 has it.
    pub is_typed: bool,
    /// Seconds of Unix time.
    pub now: u64,
}

/// Whom a token stands for, and until when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenSubject {
    /// The subject, as its issuer calls it.
    pub subject: String,
    /// When it expires, in seconds of Unix time.
    pub expires: u64,
    /// For which resources it was issued.
    pub audiences: Vec<String>,
    /// The scopes that it has.
    pub scopes: Vec<String>,
}

/// Why claims let nobody in.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadClaims {
    /// `azp` or `aud` is another client.
    #[error("the token was issued to another client (aud, azp)")]
    OtherClient,
    /// `nonce` is not the one that was sent.
    #[error("the token belongs to another sign-in (nonce)")]
    OtherNonce,
    /// It was made for a client that proves a key with each request.
    #[error("the token is bound to a key (cnf), and no proof of it is asked for here")]
    Bound,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// It tells a client who signed in; it opens nothing.
    #[error("this is an ID token, not an access token")]
    IdToken,
    /// `iat` is in the future.
    #[error("the token was issued in the future; check the clocks")]
    IssuedLater,
    /// No `aud`.
    #[error("the token has no audience (aud)")]
    NoAudience,
    /// No `exp`, or one that is no time.
    #[error("the token has no time at which it expires (exp)")]
    NoExpiry,
    /// No `sub`.
    #[error("the token has no subject (sub)")]
    NoSubject,
    /// `nbf` is in the future.
    #[error("the token is not valid yet (nbf); check the clocks")]
    NotYet,
    /// `iss` is not the issuer.
    #[error("the token is of another issuer (iss)")]
    OtherIssuer,
    /// `typ` is that of something else.
    #[error("the type of the token (typ) is not that of an access token")]
    OtherType,
}

/// Checks the claims of a JWT with this `typ` in its header.
pub fn check_token(
    typ: Option<&str>,
    claims: &Map<String, Value>,
    rules: TokenRules<'_>,
) -> Result<TokenSubject, BadClaims> {
    check_type(typ, claims, rules.is_typed)?;
    check_claims(claims, rules)
}

/// Checks the claims of an ID token that was issued to `client`; gives the subject. `nonce` is
/// what the request had, if there was one: a renewed ID token need not repeat it.
pub fn check_id_token(
    claims: &Map<String, Value>,
    rules: TokenRules<'_>,
    client: &str,
    nonce: Option<&str>,
) -> Result<String, BadClaims> {
    let TokenSubject { subject, audiences, .. } = check_claims(claims, rules)?;
    let party = claims.get("azp").map(|party| party.as_str() == Some(client));
    let is_named = audiences.iter().any(|audience| audience == client);
    if !is_named || !party.unwrap_or(audiences.len() == 1) {
        return Err(BadClaims::OtherClient);
    }
    let found = claims.get("nonce").and_then(Value::as_str);
    if nonce.is_some_and(|nonce| found.is_none_or(|found| !super::is_same(found, nonce))) {
        return Err(BadClaims::OtherNonce);
    }
    Ok(subject)
}

/// Checks the answer of an introspection endpoint, which need not repeat the issuer.
pub fn check_introspected(
    claims: &Map<String, Value>,
    rules: TokenRules<'_>,
) -> Result<TokenSubject, BadClaims> {
    if claims.contains_key("iss") {
        return check_claims(claims, rules);
    }
    let mut claims = claims.clone();
    claims.insert("iss".to_owned(), rules.issuer.into());
    check_claims(&claims, rules)
}

fn check_type(
    typ: Option<&str>,
    claims: &Map<String, Value>,
    is_typed: bool,
) -> Result<(), BadClaims> {
    let typ = typ.unwrap_or("JWT").to_ascii_lowercase();
    match typ.strip_prefix("application/").unwrap_or(&typ) {
        "at+jwt" => Ok(()),
        "jwt" if is_typed => Err(BadClaims::OtherType),
        "jwt" => {
            let is_of_id = |name: &&str| claims.contains_key(*name);
            let found = ["nonce", "at_hash", "c_hash"].iter().find(|name| is_of_id(name));
            found.map_or(Ok(()), |_| Err(BadClaims::IdToken))
        }
        _ => Err(BadClaims::OtherType),
    }
}

/// Checks issuer, times and subject of a signed statement that is no token; gives its
/// subject, and when it expires.
pub fn check_bare(
    claims: &Map<String, Value>,
    TokenRules { issuer, now, .. }: TokenRules<'_>,
) -> Result<(String, u64), BadClaims> {
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err(BadClaims::OtherIssuer);
    }
    if claims.contains_key("cnf") {
        return Err(BadClaims::Bound);
    }
    let expires = claims.get("exp").and_then(time).ok_or(BadClaims::NoExpiry)?;
    if now > expires.saturating_add(LEEWAY) {
        return Err(BadClaims::Expired);
    }
    let is_later = |name| claims.get(name).is_some_and(|at| !has_come(at, now));
    if is_later("nbf") {
        return Err(BadClaims::NotYet);
    }
    if is_later("iat") {
        return Err(BadClaims::IssuedLater);
    }
    let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
    Ok((subject.ok_or(BadClaims::NoSubject)?.to_owned(), expires))
}

fn check_claims(
    claims: &Map<String, Value>,
    rules: TokenRules<'_>,
) -> Result<TokenSubject, BadClaims> {
    let (subject, expires) = check_bare(claims, rules)?;
    let audiences = claims.get("aud").map(texts).unwrap_or_default();
    if audiences.is_empty() {
        return Err(BadClaims::NoAudience);
    }
    // `scp` is what Entra and Okta call it.
    let scopes = claims.get("scope").or_else(|| claims.get("scp")).map(texts).unwrap_or_default();
    let scopes = scopes.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned);
    Ok(TokenSubject { subject, expires, audiences, scopes: scopes.collect() })
}

/// A time that makes no sense has not come.
fn has_come(at: &Value, now: u64) -> bool {
    time(at).is_some_and(|at| at <= now.saturating_add(LEEWAY))
}

/// A `NumericDate`: seconds, perhaps with a fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is neither negative nor endless, and the cast saturates"
)]
fn time(value: &Value) -> Option<u64> {
    let rounded = || value.as_f64().filter(|at| at.is_finite() && *at >= 0.0).map(|at| at as u64);
    value.as_u64().or_else(rounded)
}

/// A text, or the texts of a list.
fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        other => text(other).into_iter().collect(),
    }
}

/// Whether a token for these audiences opens a door: `base` is the public URL of all doors,
/// if it is known, `paths` are those of this door, and `more` is what an administrator
/// accepts besides. A slash at the end is no difference.
pub fn is_audience(
    audiences: &[String],
    base: Option<&str>,
    paths: &[String],
    more: &[String],
) -> bool {
    let is_own = |audience: &str| {
        let rest = base.and_then(|base| audience.strip_prefix(base));
        let same = |path: &String| rest.map(bare) == Some(bare(path));
        rest.is_some_and(|rest| bare(rest).is_empty()) || paths.iter().any(same)
    };
    audiences.iter().any(|audience| more.contains(audience) || is_own(audience))
}

fn bare(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_000_000;

    #[expect(clippy::needless_pass_by_value, reason = "the tables of the tests are easier to read")]
    fn check(typ: Option<&str>, change: Value) -> Result<TokenSubject, BadClaims> {
        let claims = json!({
            "iss": "https://a.example", "sub": "ada", "aud": "https://gw.example/mcp",
            "exp": NOW + 600, "iat": NOW, "scope": "mcp:read mcp:write",
        });
        let Value::Object(mut claims) = claims else { panic!("an object") };
        for (name, value) in change.as_object().unwrap() {
            if value.is_null() {
                claims.remove(name)
            } else {
                claims.insert(name.clone(), value.clone())
            };
        }
        let rules = TokenRules { issuer: "https://a.example", is_typed: false, now: NOW };
        check_token(typ, &claims, rules)
    }

    // wire: OR-10, OA-13
    #[test]
    fn only_an_access_token_of_the_issuer_and_the_hour_passes() {
        let found = check(None, json!({})).unwrap();
        assert_eq!((&*found.subject, found.expires), ("ada", NOW + 600));
        assert_eq!(found.scopes, ["mcp:read", "mcp:write"]);
        for (change, why) in [
            (json!({"iss": "https://a.example/"}), BadClaims::OtherIssuer),
            (json!({"iss": null}), BadClaims::OtherIssuer),
            (json!({"exp": NOW - 61}), BadClaims::Expired),
            (json!({"exp": null}), BadClaims::NoExpiry),
            (json!({"exp": "soon"}), BadClaims::NoExpiry),
            (json!({"exp": -1}), BadClaims::NoExpiry),
            (json!({"nbf": NOW + 61}), BadClaims::NotYet),
            (json!({"nbf": "later"}), BadClaims::NotYet),
            (json!({"iat": NOW + 61}), BadClaims::IssuedLater),
            (json!({"sub": null}), BadClaims::NoSubject),
            (json!({"sub": ""}), BadClaims::NoSubject),
            (json!({"aud": null}), BadClaims::NoAudience),
            (json!({"aud": []}), BadClaims::NoAudience),
            (json!({"nonce": "n"}), BadClaims::IdToken),
            (json!({"at_hash": "h"}), BadClaims::IdToken),
            (json!({"cnf": {"jkt": "x"}}), BadClaims::Bound),
        ] {
            assert_eq!(check(Some("JWT"), change.clone()), Err(why), "{change}");
        }
        for change in [
            json!({"exp": NOW - 59}),
            json!({"nbf": NOW + 59}),
            json!({"iat": NOW + 59}),
            json!({"exp": 1_000_000.5}),
            json!({"aud": ["x", "y"]}),
            json!({"scope": null}),
            json!({"scope": null, "scp": ["mcp:read"]}),
        ] {
            assert!(check(None, change.clone()).is_ok(), "{change}");
        }
    }

    // wire: OS-6
    #[test]
    fn an_id_token_is_for_one_client_and_one_sign_in() {
        let rules = TokenRules { issuer: "https://a.example", is_typed: false, now: NOW };
        let check = |change: Value, nonce| {
            let claims = json!({
                "iss": "https://a.example", "sub": "ada", "aud": "gw", "exp": NOW + 60, "nonce": "n",
            });
            let Value::Object(mut claims) = claims else { panic!("an object") };
            claims.extend(change.as_object().unwrap().clone());
            check_id_token(&claims, rules, "gw", nonce)
        };
        assert_eq!(check(json!({}), Some("n")), Ok("ada".to_owned()));
        assert_eq!(check(json!({}), None), Ok("ada".to_owned()));
        let two = json!(["gw", "other"]);
        assert!(check(json!({"aud": two, "azp": "gw"}), Some("n")).is_ok());
        for (change, why) in [
            (json!({"nonce": "m"}), BadClaims::OtherNonce),
            (json!({"nonce": null}), BadClaims::OtherNonce),
            (json!({"aud": "other"}), BadClaims::OtherClient),
            (json!({"aud": two}), BadClaims::OtherClient),
            (json!({"azp": "other"}), BadClaims::OtherClient),
            (json!({"iss": "https://b.example"}), BadClaims::OtherIssuer),
            (json!({"exp": NOW - 61}), BadClaims::Expired),
            (json!({"sub": ""}), BadClaims::NoSubject),
        ] {
            assert_eq!(check(change.clone(), Some("n")), Err(why), "{change}");
        }
    }

    // wire: OR-10
    #[test]
    fn the_type_of_a_token_is_that_of_an_access_token() {
        for typ in ["at+jwt", "application/at+jwt", "AT+JWT"] {
            assert!(check(Some(typ), json!({"nonce": "n"})).is_ok(), "{typ}");
        }
        for typ in ["dpop+jwt", "logout+jwt", "oauth-id-jag+jwt", ""] {
            assert_eq!(check(Some(typ), json!({})), Err(BadClaims::OtherType), "{typ}");
        }
        let typed = TokenRules { issuer: "https://a.example", is_typed: true, now: NOW };
        let claims = Map::new();
        assert_eq!(check_token(Some("JWT"), &claims, typed), Err(BadClaims::OtherType));
        assert_eq!(check_token(Some("at+jwt"), &claims, typed), Err(BadClaims::OtherIssuer));
    }

    // wire: OR-11, OA-13
    #[test]
    fn a_token_for_one_door_does_not_open_another() {
        let paths = ["/servers/a/mcp".to_owned(), "/servers/a/sse".to_owned()];
        let more = ["api://gw".to_owned()];
        let opens = |audience: &str, base| is_audience(&[audience.to_owned()], base, &paths, &more);
        let base = Some("https://gw.example");
        for audience in [
            "https://gw.example/servers/a/mcp",
            "https://gw.example/servers/a/sse/",
            "https://gw.example",
            "https://gw.example/",
            "api://gw",
        ] {
            assert!(opens(audience, base), "{audience}");
        }
        for audience in [
            "https://gw.example/servers/b/mcp",
            "https://gw.example/mcp",
            "https://gw.example.evil",
            "https://gw.example:444",
            "http://gw.example/servers/a/mcp",
            "api://gw/",
            "",
            "https://gw.example//",
            "https://gw.example/servers/a/mcp/x",
        ] {
            assert!(!opens(audience, base), "{audience}");
        }
        assert!(!opens("https://gw.example", None) && opens("api://gw", None));
    }
}
