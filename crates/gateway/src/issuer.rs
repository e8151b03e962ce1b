//! Checks access tokens: by the keys of their issuer, or by asking it.
//!
//! ```text
//!   token ──▶ seen before? ─────────────────────────▶ KnownToken
//!               │ JWT ──▶ keys of the issuer ──┬─▶ signature and claims are right ─▶ KnownToken
//!               │                              └─▶ no such key: the keys are read again, once in a while
//!               └ else ──▶ introspection: the issuer is asked
//! ```
//!
//! What a token grants is said by [`crate::token`]. At which entrance it counts is asked there, by
//! its audience.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, SystemTime};

use ring::digest::{SHA256, digest};
use serde_json::Value;
use switchboard_net::auth::DocumentCache;
use switchboard_net::auth::jws::{BadToken, MAX_TOKEN, PublicJwk, SignedToken, looks_like_jwt};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_proto::Table;
use switchboard_proto::auth::claims::{BadClaims, LEEWAY, TokenRules, check_token};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::token::{IssuerRule, TokenAccess, TokenFacts};
use crate::{read, write};
use keys::IssuerState;

mod introspection;
mod keys;
mod own;
mod person;

pub(crate) use own::{OWN_CLAIMS, OWN_GRANT};
pub(crate) use person::IssuerFault;

/// Tokens whose check is remembered.
const MAX_KNOWN: usize = 8192;
/// How long the check of a JWT is remembered: a signature costs more than all else of a request.
const KNOWN_JWT: Duration = Duration::from_mins(5);
/// How long the answer of an introspection endpoint is.
const KNOWN_ANSWER: Duration = Duration::from_mins(1);
/// How long a "no" of an introspection endpoint is.
const KNOWN_NO: Duration = Duration::from_secs(10);
/// How long a request waits for keys to be read.
const KEY_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a document of an issuer that is no set of keys.
const MAX_DOCUMENT: usize = 64 << 10;
/// When to come back if an issuer cannot be asked, in seconds.
const RETRY: u16 = 5;

/// Seconds of Unix time.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

pub(crate) fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    })
}

/// A hash of a token, which is all that is kept of it.
pub(crate) type TokenHash = [u8; 32];

/// What a token is remembered by.
pub(crate) fn hash_token(token: &str) -> TokenHash {
    let mut hash = TokenHash::default();
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// Why a token does not count.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
enum TokenFault {
    #[error("{0}")]
    Claims(#[from] BadClaims),
    #[error("{0}")]
    Form(#[from] BadToken),
    #[error("its issuer is not in the configuration")]
    OtherIssuer,
    #[error("its issuer says that it is not active")]
    NotActive,
    #[error("it is neither a key nor a JWT, and no issuer is asked about such tokens")]
    Opaque,
}

/// What a client gets for a token that does not let it in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TokenDenial {
    /// It does not count.
    Invalid,
    /// It cannot be told at this time; seconds until it can, perhaps.
    Unclear(u16),
}

/// A key of an issuer, as long as the issuer has it.
#[derive(Debug)]
pub(crate) struct IssuerKey {
    jwk: PublicJwk,
    is_gone: AtomicBool,
}

/// A token that was checked.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(crate) facts: TokenFacts,
    /// The key that signed it; none if its issuer was asked.
    key: Option<Arc<IssuerKey>>,
    /// The grant of the facade that it belongs to; none if the facade has not issued it.
    grant: Option<String>,
    /// Whether that grant was ended.
    is_ended: AtomicBool,
    /// What the gateway made of it last.
    pub(crate) user: Mutex<Option<crate::authenticator::TokenUser>>,
}

impl KnownToken {
    fn new(facts: TokenFacts, key: Option<Arc<IssuerKey>>, grant: Option<String>) -> Arc<Self> {
        let is_ended = AtomicBool::new(false);
        Arc::new(Self { facts, key, grant, is_ended, user: Mutex::default() })
    }

    /// What an issuer has said of a person, who shows no token.
    #[cfg(feature = "console")]
    pub(crate) fn of_person(facts: TokenFacts) -> Arc<Self> {
        Self::new(facts, None, None)
    }

    /// Whether the key that signed it is still one of its issuer, and nobody took it back.
    pub(crate) fn is_signed(&self) -> bool {
        !self.is_ended.load(Ordering::SeqCst)
            && self.key.as_ref().is_none_or(|key| !key.is_gone.load(Ordering::SeqCst))
    }
}

/// A check that is remembered.
#[derive(Clone)]
struct RememberedCheck {
    token: Option<Arc<KnownToken>>,
    until: Instant,
}

/// Whether a token counts.
pub(crate) enum TokenCheck {
    Now(Result<Arc<KnownToken>, TokenDenial>),
    /// Something must be fetched first.
    Later(LaterCheck),
}

/// All issuers whose tokens are accepted.
pub(crate) struct Issuers {
    fetch: Option<Fetch>,
    states: RwLock<Arc<[Arc<IssuerState>]>>,
    known: RwLock<Table<TokenHash, RememberedCheck>>,
    clock: Clock,
    lost: LostKeys,
    /// What the facade issues.
    own: RwLock<own::OwnTokens>,
    /// What was read to sign people in there.
    documents: DocumentCache,
}

/// Says that an issuer has a key no more, with which something may be open.
#[derive(Clone, Default)]
struct LostKeys {
    is_lost: Arc<AtomicBool>,
    told: Arc<Notify>,
}

impl Issuers {
    /// Reads documents by `fetch`, or by one of its own.
    /// It tells `told` when a key is gone.
    pub(crate) fn new(fetch: Option<Fetch>, clock: Clock, told: &Arc<Notify>) -> Arc<Self> {
        let (states, known) = (RwLock::new(Arc::default()), RwLock::default());
        let lost = LostKeys { told: Arc::clone(told), ..LostKeys::default() };
        let (own, documents) = Default::default();
        Arc::new(Self { fetch, states, known, clock, lost, own, documents })
    }

    /// Metadata that clients of identity providers have read.
    pub(crate) fn documents(&self) -> &DocumentCache {
        &self.documents
    }

    /// Whether a key is gone since this was last asked.
    pub(crate) fn take_lost(&self) -> bool {
        self.lost.is_lost.swap(false, Ordering::SeqCst)
    }

    /// Accepts the tokens of these issuers from here on. Keys of an issuer that stays the
    /// same stay too. Must be called within a tokio runtime if there are issuers.
    pub(crate) fn follow(&self, access: Option<&TokenAccess>) {
        let mut states = write(&self.states);
        let rules = access.map(|access| &*access.issuers).unwrap_or_default();
        let next = rules.iter().filter_map(|rule| {
            let same = states.iter().find(|state| state.rule.checks_as(rule));
            same.map(Arc::clone).or_else(|| {
                let fetch =
                    self.fetch.clone().map_or_else(|| Fetch::new(FetchOptions::default()), Ok);
                let failed =
                    |error| tracing::error!(issuer = rule.name, "no tokens are accepted: {error}");
                Some(IssuerState::start(rule.clone(), fetch.map_err(failed).ok()?, &self.lost))
            })
        });
        let next: Arc<[_]> = next.collect();
        let stays = |name: &str| {
            let has = |states: &[Arc<IssuerState>]| {
                states.iter().find(|state| state.rule.name == name).map(Arc::as_ptr)
            };
            has(&next).is_some() && has(&next) == has(&states)
        };
        let issuer = access.and_then(|access| {
            Some((access.public_url.clone()?, access.facade.as_ref()?.issuer.clone()))
        });
        self.follow_own(issuer);
        write(&self.known)
            .retain(|_, it| it.token.as_ref().is_some_and(|it| stays(&it.facts.issuer)));
        *states = next;
    }

    /// Whether tokens that are no JWT may count.
    pub(crate) fn introspects(&self) -> bool {
        read(&self.states).iter().any(|state| state.rule.introspect.is_some())
    }

    /// Whether a token counts that is not [remembered](Self::remembered).
    pub(crate) fn check(self: &Arc<Self>, token: &str, hash: TokenHash) -> TokenCheck {
        let checked = if token.len() > MAX_TOKEN {
            Err(BadToken::TooLong.into())
        } else if looks_like_jwt(token) {
            self.check_jwt(token)
        } else if self.introspects() {
            let token = token.to_owned();
            return TokenCheck::Later(LaterCheck {
                issuers: Arc::clone(self),
                token,
                hash,
                state: None,
            });
        } else {
            Err(TokenFault::Opaque)
        };
        match checked {
            Ok(JwtCheck::Counts(known)) => {
                self.remember(hash, Some(Arc::clone(&known)), KNOWN_JWT);
                let is_ended = known.is_ended.load(Ordering::SeqCst);
                TokenCheck::Now(if is_ended {
                    Err(refuse(&hash, &TokenFault::NotActive))
                } else {
                    Ok(known)
                })
            }
            Ok(JwtCheck::NeedsKeys(state)) if !state.may_read_again() => {
                TokenCheck::Now(Err(TokenDenial::Unclear(RETRY)))
            }
            Ok(JwtCheck::NeedsKeys(state)) => {
                let token = token.to_owned();
                let state = Some((state.keys_read.subscribe(), state));
                TokenCheck::Later(LaterCheck { issuers: Arc::clone(self), token, hash, state })
            }
            Err(fault) => TokenCheck::Now(Err(refuse(&hash, &fault))),
        }
    }

    /// What came of a token that was seen before.
    pub(crate) fn remembered(
        &self,
        hash: &TokenHash,
    ) -> Option<Result<Arc<KnownToken>, TokenDenial>> {
        let known = read(&self.known);
        let RememberedCheck { token, until } = known.get(hash)?;
        let counts = |it: &Arc<KnownToken>| {
            it.is_signed() && (self.clock)() <= it.facts.expires.saturating_add(LEEWAY)
        };
        (Instant::now() < *until && token.as_ref().is_none_or(counts))
            .then(|| token.clone().ok_or(TokenDenial::Invalid))
    }

    fn remember(&self, hash: TokenHash, token: Option<Arc<KnownToken>>, time: Duration) {
        let (now, mut known) = (Instant::now(), write(&self.known));
        if known.len() >= MAX_KNOWN {
            known.retain(|_, it| now < it.until);
        }
        if known.len() >= MAX_KNOWN {
            // Any is as good as another: it is checked again.
            let any = known.keys().next().copied();
            any.map(|any| known.remove(&any));
        }
        known.insert(hash, RememberedCheck { token: token.clone(), until: now + time });
        drop(known);
        // Its grant may have been ended since it was checked, when it was not known yet.
        token.inspect(|token| self.mark_ended(token));
    }

    fn check_jwt(&self, token: &str) -> Result<JwtCheck, TokenFault> {
        let token = SignedToken::parse(token)?;
        if let Some(own) = self.check_own(&token) {
            return own.map(JwtCheck::Counts);
        }
        let issuer = token.claims().get("iss").and_then(Value::as_str).unwrap_or_default();
        let states = read(&self.states).clone();
        let state = states.iter().find(|state| state.rule.issuer == issuer);
        let state = state.ok_or(TokenFault::OtherIssuer)?;
        let rules = TokenRules {
            issuer: &state.rule.issuer,
            is_typed: state.rule.is_typed,
            now: (self.clock)(),
        };
        // Nobody reads keys for a token that would not count.
        let subject = check_token(token.typ(), token.claims(), rules)?;
        let Some(keys) = state.usable_keys() else {
            return Ok(JwtCheck::NeedsKeys(Arc::clone(state)));
        };
        match token.verify(keys.iter().map(|key| &key.jwk)) {
            Ok(at) => {
                let key = Some(Arc::clone(&keys[at]));
                Ok(JwtCheck::Counts(state.known(subject, token.claims(), key)))
            }
            Err(BadToken::UnknownKey | BadToken::WrongSignature) if state.may_read_again() => {
                Ok(JwtCheck::NeedsKeys(Arc::clone(state)))
            }
            Err(bad) => Err(bad.into()),
        }
    }

    /// The rule of the issuer of this name.
    pub(crate) fn rule(&self, name: &str) -> Option<IssuerRule> {
        self.state(name).ok().map(|state| state.rule.clone())
    }

    /// Seconds of Unix time.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    fn state(&self, name: &str) -> Result<Arc<IssuerState>, IssuerFault> {
        let states = read(&self.states);
        let state = states.iter().find(|state| state.rule.name == name);
        state.map(Arc::clone).ok_or(IssuerFault::Gone)
    }
}

enum JwtCheck {
    Counts(Arc<KnownToken>),
    /// After keys were read it may count.
    NeedsKeys(Arc<IssuerState>),
}

/// Tells the administrator why; the client learns less.
fn refuse(hash: &TokenHash, fault: &TokenFault) -> TokenDenial {
    let [a, b, c, d, ..] = hash;
    tracing::info!(
        token = format!("{a:02x}{b:02x}{c:02x}{d:02x}"),
        "access token refused: {fault}"
    );
    TokenDenial::Invalid
}

/// The check of a token that takes a question to its issuer.
pub(crate) struct LaterCheck {
    issuers: Arc<Issuers>,
    token: String,
    hash: TokenHash,
    /// The issuer whose keys must be read; none if issuers are asked about the token itself.
    state: Option<(watch::Receiver<u64>, Arc<IssuerState>)>,
}

impl LaterCheck {
    pub(crate) async fn run(self) -> Result<Arc<KnownToken>, TokenDenial> {
        let Self { issuers, token, hash, state } = self;
        let Some((mut keys_read, state)) = state else {
            return issuers.introspect(&token, hash).await;
        };
        state.read_again();
        // If it takes longer, the keys are there for the next request.
        _ = tokio::time::timeout(KEY_WAIT, keys_read.changed()).await;
        match issuers.check_jwt(&token) {
            Ok(JwtCheck::Counts(known)) => {
                issuers.remember(hash, Some(Arc::clone(&known)), KNOWN_JWT);
                Ok(known)
            }
            Ok(JwtCheck::NeedsKeys(_)) => Err(TokenDenial::Unclear(RETRY)),
            // The issuer may have a new key that it could not be asked for.
            Err(TokenFault::Form(BadToken::UnknownKey)) if state.is_failing() => {
                Err(TokenDenial::Unclear(RETRY))
            }
            Err(fault) => Err(refuse(&hash, &fault)),
        }
    }
}

#[cfg(test)]
mod tests;
