//! What a person has allowed a client: the code that the client gets, and the refresh tokens
//! that follow it. Pure: the time and all secrets are handed in.
//!
//! ```text
//!   code ── once, within 60 s ──▶ refresh token 1 ──▶ refresh token 2 ──▶ …
//!                                    └─ again within 30 s: the same answer
//!                                    └─ later: the grant ends
//! ```
//!
//! A code and a refresh token name their grant, so that one that was used before finds it
//! and ends it. Of both only hashes are kept.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use switchboard_proto::auth::claims::LEEWAY;
use switchboard_proto::auth::{Secret, TokenRecord, is_same};

use super::record::RecordEntry;

/// How long our access tokens count, in seconds.
pub(super) const TOKEN_LIFE: u64 = 600;
/// How long a code works, in seconds.
pub(super) const CODE_LIFE: u64 = 60;
/// How long a refresh token that was replaced gives the same answer, in seconds.
const REFRESH_GRACE: u64 = 30;
/// How long a grant is kept that nobody uses, in seconds.
const GRANT_IDLE: u64 = 30 * 86_400;
/// How long a grant lives if the identity provider cannot be asked about its person, in seconds.
const UNCHECKED: u64 = 86_400;
/// How long what the issuer said of a person counts if it does not say it again, in seconds.
const OLD_CLAIMS: u64 = 86_400;
/// How often the identity provider is asked at most, in seconds.
const CHECK_AGAIN: u64 = 300;

/// What a person has allowed a client.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct StoredGrant {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    /// Of the client's PKCE verifier.
    pub(super) challenge: String,
    /// What its tokens are for.
    pub(super) resource: String,
    pub(super) scopes: Vec<String>,
    /// What the issuer calls the person.
    pub(super) subject: String,
    /// What it says of them.
    pub(super) claims: Map<String, Value>,
    /// What it gave us. It stays with us.
    pub(super) idp: TokenRecord,
    pub(super) created_at: u64,
    pub(super) used_at: u64,
    /// When the issuer last said that the person is still there.
    pub(super) checked_at: u64,
    /// When the issuer last said who they are.
    #[serde(default)]
    pub(super) claimed_at: u64,
    /// The hash of the code.
    pub(super) code: String,
    /// The hash of the refresh token; none before the code was used.
    refresh: Option<String>,
    replaced: Option<ReplacedToken>,
    /// When it was ended; none while it is not.
    #[serde(default)]
    ended_at: Option<u64>,
}

/// A refresh token that was used, and what it got. The answer is kept for a client whose
/// connection broke before it had read it. Only that token opens it.
#[derive(Clone, Deserialize, Serialize)]
struct ReplacedToken {
    hash: String,
    at: u64,
    answer: String,
}

/// What an answer is sealed with: nobody has the key but whoever has the token that got it. Each
/// key seals one answer, so that its nonce may be nothing.
fn answer_key(shown: &str, next: &str) -> Option<(LessSafeKey, Nonce)> {
    let key = digest(&SHA256, format!("answer\n{shown}\n{next}").as_bytes());
    let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).ok()?;
    Some((LessSafeKey::new(key), Nonce::assume_unique_for_key([0; NONCE_LEN])))
}

fn seal(shown: &str, next: &str, answer: &str) -> Option<String> {
    let (key, nonce) = answer_key(shown, next)?;
    let mut sealed = answer.as_bytes().to_vec();
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(sealed))
}

fn unseal(shown: &str, next: &str, sealed: &str) -> Option<Secret> {
    let (key, nonce) = answer_key(shown, next)?;
    let mut sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let answer = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
    Some(Secret::new(str::from_utf8(answer).ok()?))
}

/// What a client that wants tokens for a code says.
pub(super) struct CodeClaim<'r> {
    pub(super) client_id: &'r str,
    pub(super) redirect_uri: Option<&'r str>,
    pub(super) verifier: &'r str,
}

/// What comes of a code or a refresh token.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum GrantVerdict {
    /// The client gets tokens.
    Tokens,
    /// It gets the same answer again.
    Repeat(Secret),
    /// It gets nothing.
    Refused(&'static str),
    /// It gets nothing, and what the grant gave is over.
    Ended(&'static str),
}

impl StoredGrant {
    /// What a code gets (OS-2). The caller calls [`StoredGrant::rotate`] next.
    pub(super) fn use_code(&self, secret: &str, claim: &CodeClaim<'_>, now: u64) -> GrantVerdict {
        if !is_same(&hash(secret), &self.code) {
            return GrantVerdict::Refused("the code is not known");
        }
        if self.refresh.is_some() {
            return GrantVerdict::Ended("the code was used before");
        }
        // Whoever has a code that is not theirs has stolen it.
        if claim.client_id != self.client_id {
            return GrantVerdict::Ended("the code was issued to another client");
        }
        if now > self.created_at.saturating_add(CODE_LIFE) {
            return GrantVerdict::Ended("the code is over");
        }
        if claim.redirect_uri.is_some_and(|uri| uri != self.redirect_uri) {
            return GrantVerdict::Ended("the redirect URI is another one");
        }
        if !is_same(&challenge_of(claim.verifier), &self.challenge) {
            return GrantVerdict::Ended("the code verifier is wrong");
        }
        GrantVerdict::Tokens
    }

    /// What a refresh token gets (OS-8). The caller calls [`StoredGrant::rotate`] next.
    pub(super) fn use_refresh(&self, secret: &str, client_id: &str, now: u64) -> GrantVerdict {
        let shown = hash(secret);
        let is_current = self.refresh.as_ref().is_some_and(|hash| is_same(&shown, hash));
        let replaced = self.replaced.as_ref().filter(|it| is_same(&shown, &it.hash));
        if client_id != self.client_id {
            return GrantVerdict::Ended("the refresh token was issued to another client");
        }
        match replaced {
            Some(replaced) if now <= replaced.at.saturating_add(REFRESH_GRACE) => {
                let next = self.refresh.as_deref().unwrap_or_default();
                let answer = unseal(secret, next, &replaced.answer);
                answer.map_or(GrantVerdict::Refused("sign in again"), GrantVerdict::Repeat)
            }
            _ if is_current && !self.is_over(now) => GrantVerdict::Tokens,
            _ if is_current => GrantVerdict::Ended("the grant is over; sign in again"),
            // The id of a grant is in its own tokens alone: this was one of them.
            _ => GrantVerdict::Ended("the refresh token was used before"),
        }
    }

    /// Whether this is its refresh token, or the one before.
    pub(super) fn has_refresh(&self, secret: &str) -> bool {
        let shown = hash(secret);
        let own = self.refresh.iter().chain(self.replaced.as_ref().map(|it| &it.hash));
        own.into_iter().any(|hash| is_same(&shown, hash))
    }

    /// Another refresh token takes the place of the one that was `shown`; `answer` has it.
    pub(super) fn rotate(&mut self, shown: &str, refresh: &str, answer: &str, now: u64) {
        let next = hash(refresh);
        let answer = seal(shown, &next, answer).unwrap_or_default();
        let old = self.refresh.replace(next);
        self.replaced = old.map(|hash| ReplacedToken { hash, at: now, answer });
        self.used_at = now;
    }

    /// Ends it, and says whether tokens of it may be good, so that the end must be remembered.
    pub(super) fn end(&mut self, now: u64) -> bool {
        (self.ended_at, self.replaced) = (Some(now), None);
        (self.claims, self.idp) = (Map::new(), TokenRecord::default());
        self.refresh.is_some()
    }

    /// What is remembered of it without its record.
    pub(super) fn entry(&self) -> RecordEntry {
        RecordEntry {
            subject: hash(&format!("{}\n{}", self.idp.source.issuer, self.subject)),
            at: self.used_at,
            is_unused: self.refresh.is_none(),
            is_ended: self.ended_at.is_some(),
        }
    }

    /// Whether the issuer should be asked whether its person is still there.
    pub(super) fn needs_check(&self, now: u64) -> bool {
        self.idp.refresh_token.is_some() && now >= self.checked_at.saturating_add(CHECK_AGAIN)
    }

    /// Whether nothing comes of it any more.
    pub(super) fn is_over(&self, now: u64) -> bool {
        if let Some(ended) = self.ended_at {
            return now > ended.saturating_add(TOKEN_LIFE + LEEWAY);
        }
        let is_unredeemed =
            self.refresh.is_none() && now > self.created_at.saturating_add(CODE_LIFE);
        is_unredeemed
            || now > self.used_at.saturating_add(GRANT_IDLE)
            || self.is_unchecked(now) && self.idp.refresh_token.is_none()
    }

    /// Whether the issuer has not said for too long who the person is.
    pub(super) fn has_old_claims(&self, now: u64) -> bool {
        now > self.claimed_at.saturating_add(OLD_CLAIMS)
    }

    /// Whether the issuer has not been asked for too long.
    pub(super) fn is_unchecked(&self, now: u64) -> bool {
        now > self.checked_at.saturating_add(UNCHECKED)
    }
}

/// Of the issuer's tokens, the one is kept that says whether the person is still there. Our own
/// secret is in the configuration alone.
pub(super) fn kept(mut tokens: TokenRecord) -> TokenRecord {
    tokens.source.client.client_secret = None;
    TokenRecord { access_token: Secret::default(), id_token: None, ..tokens }
}

/// What a new grant begins with.
pub(super) struct NewGrant {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scopes: Vec<String>,
}

impl NewGrant {
    /// The grant of a person, with the secret of its code.
    pub(super) fn of(
        self,
        subject: String,
        claims: Map<String, Value>,
        idp: TokenRecord,
        code: &str,
        now: u64,
    ) -> StoredGrant {
        let Self { client_id, redirect_uri, challenge, resource, scopes } = self;
        StoredGrant {
            client_id,
            redirect_uri,
            challenge,
            resource,
            scopes,
            subject,
            claims,
            idp,
            created_at: now,
            used_at: now,
            checked_at: now,
            claimed_at: now,
            code: hash(code),
            refresh: None,
            replaced: None,
            ended_at: None,
        }
    }
}

/// A code or a refresh token: the id of its grant, and its own secret.
pub(super) fn split_token(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_right = |text: &str| {
        (32..=64).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit())
    };
    (is_right(id) && is_right(secret)).then_some((id, secret))
}

/// What access tokens have in the place of the id of their grant, which is secret.
pub(super) fn public_id(grant: &str) -> String {
    hash(grant)[..22].to_owned()
}

/// What is kept of a secret.
pub(super) fn hash(secret: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// The S256 challenge of a verifier (RFC 7636).
pub(super) fn challenge_of(verifier: &str) -> String {
    hash(verifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

    fn grant() -> StoredGrant {
        let new = NewGrant {
            client_id: "c".to_owned(),
            redirect_uri: "https://a.example/cb".to_owned(),
            challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM".to_owned(),
            resource: "https://gw.example/mcp".to_owned(),
            scopes: Vec::new(),
        };
        new.of("ada".to_owned(), Map::new(), TokenRecord::default(), "secret", 1000)
    }

    fn claim() -> CodeClaim<'static> {
        CodeClaim { client_id: "c", redirect_uri: Some("https://a.example/cb"), verifier: VERIFIER }
    }

    // wire: OS-2, OA-20
    #[test]
    fn a_code_works_once_for_its_client_redirect_and_verifier() {
        let mut grant = grant();
        assert_eq!(grant.use_code("secret", &claim(), 1060), GrantVerdict::Tokens);
        assert!(matches!(grant.use_code("other", &claim(), 1000), GrantVerdict::Refused(_)));
        for bad in [
            CodeClaim { client_id: "d", ..claim() },
            CodeClaim { redirect_uri: Some("https://a.example/cb2"), ..claim() },
            CodeClaim { verifier: "other", ..claim() },
            CodeClaim { verifier: "", ..claim() },
        ] {
            assert!(matches!(grant.use_code("secret", &bad, 1000), GrantVerdict::Ended(_)));
        }
        assert!(matches!(grant.use_code("secret", &claim(), 1061), GrantVerdict::Ended(_)));
        grant.rotate("secret", "r1", "first", 1001);
        assert!(matches!(grant.use_code("secret", &claim(), 1002), GrantVerdict::Ended(_)));
    }

    // wire: OS-8, OA-20
    #[test]
    fn a_refresh_token_that_was_replaced_repeats_its_answer_for_half_a_minute() {
        let mut grant = grant();
        assert!(
            matches!(grant.use_refresh("r1", "c", 1000), GrantVerdict::Ended(_)),
            "no token yet"
        );
        grant.rotate("secret", "r1", "first", 1000);
        assert_eq!(grant.use_refresh("r1", "c", 1001), GrantVerdict::Tokens);
        grant.rotate("r1", "r2", "{\"refresh_token\": \"r2\"}", 1001);
        assert!(!serde_json::to_string(&grant).unwrap().contains("r2"), "the answer is sealed");
        assert_eq!(
            grant.use_refresh("r1", "c", 1031),
            GrantVerdict::Repeat(Secret::new("{\"refresh_token\": \"r2\"}"))
        );
        assert!(matches!(grant.use_refresh("r1", "c", 1032), GrantVerdict::Ended(_)));
        assert!(matches!(grant.use_refresh("r2", "other", 1002), GrantVerdict::Ended(_)));
        assert_eq!(grant.use_refresh("r2", "c", 1032), GrantVerdict::Tokens);
        grant.rotate("r2", "r3", "third", 1010);
        assert!(matches!(grant.use_refresh("r1", "c", 1011), GrantVerdict::Ended(_)), "two ago");
        let kept = serde_json::to_string(&grant).unwrap();
        for secret in ["\"r3\"", "\"secret\"", VERIFIER] {
            assert!(!kept.contains(secret), "only hashes are kept");
        }
    }

    // wire: OS-8
    #[test]
    fn a_grant_lives_while_its_person_is_known_to_be_there() {
        let mut grant = grant();
        assert!(!grant.is_over(1060) && grant.is_over(1061), "nobody came with the code");
        grant.rotate("secret", "r1", "", 1000);
        assert!(!grant.is_over(1000 + UNCHECKED) && grant.is_over(1001 + UNCHECKED));
        grant.idp.refresh_token = Some(Secret::new("x"));
        assert!(!grant.needs_check(1299) && grant.needs_check(1300));
        assert!(!grant.is_over(1001 + UNCHECKED), "it is asked first");
        assert!(grant.is_over(1001 + GRANT_IDLE));
    }

    #[test]
    fn tokens_name_their_grant() {
        let (id, secret) = ("0123456789abcdef".repeat(2), "f".repeat(64));
        assert_eq!(split_token(&format!("{id}.{secret}")), Some((&*id, &*secret)));
        for bad in
            ["", ".", "a.b", &id, &format!("{id}.{secret}.x"), &format!("{id}.{}", "é".repeat(16))]
        {
            assert_eq!(split_token(bad), None, "{bad}");
        }
    }
}
