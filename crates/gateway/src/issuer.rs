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
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::{Duration, SystemTime};

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use switchboard_net::OwnedTask;
use switchboard_net::auth::DocumentCache;
use switchboard_net::auth::bounded::{self, AskError};
use switchboard_net::auth::jws::{BadToken, MAX_TOKEN, PublicJwk, SignedToken, looks_like_jwt};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_proto::Table;
use switchboard_proto::auth::claims::{
    BadClaims, LEEWAY, TokenRules, TokenSubject, check_introspected, check_token,
};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::token::{IssuerRule, TokenAccess, TokenFacts};
use crate::{lock, read, write};

mod own;

pub(crate) use own::{OWN_CLAIMS, OWN_GRANT};

/// Tokens whose check is remembered.
const MAX_KNOWN: usize = 8192;
/// How long the check of a JWT is remembered: a signature costs more than all else of a request.
const KNOWN_JWT: Duration = Duration::from_mins(5);
/// How long the answer of an introspection endpoint is.
const KNOWN_ANSWER: Duration = Duration::from_mins(1);
/// How long a "no" of an introspection endpoint is.
const KNOWN_NO: Duration = Duration::from_secs(10);
/// Keys are read again after this time at the earliest, and at the latest.
const SOONEST_KEYS: Duration = Duration::from_mins(5);
const LATEST_KEYS: Duration = Duration::from_hours(24);
/// How long keys count while their issuer cannot be reached.
const OLD_KEYS: Duration = Duration::from_hours(24);
/// Between two reads of keys that tokens ask for, and between attempts that fail.
const PAUSE: Duration = Duration::from_secs(30);
/// How long a request waits for keys to be read.
const KEY_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a set of keys, and of other documents of an issuer.
const MAX_JWKS: usize = 256 << 10;
const MAX_DOCUMENT: usize = 64 << 10;
/// Questions that an introspection endpoint is asked at a time.
const QUESTIONS: usize = 16;
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
}

/// What issuers say of people, and not of tokens.
impl Issuers {
    /// The claims of a JWT that the issuer of this name has signed. They may say anything.
    pub(crate) async fn verify(
        &self,
        name: &str,
        token: &str,
    ) -> Result<Map<String, Value>, IssuerFault> {
        let state = self.state(name)?;
        let token = SignedToken::parse(token)?;
        let mut keys_read = state.keys_read.subscribe();
        let mut verified = state.verifies(&token);
        if verified.is_err() && state.may_read_again() {
            state.read_again();
            _ = tokio::time::timeout(KEY_WAIT, keys_read.changed()).await;
            verified = state.verifies(&token);
        }
        verified.map(|()| token.claims().clone()).map_err(IssuerFault::Form)
    }

    /// What the issuer of this name tells the bearer of one of its tokens about a person.
    pub(crate) async fn userinfo(
        &self,
        name: &str,
        token: &str,
    ) -> Result<Map<String, Value>, IssuerFault> {
        let state = self.state(name)?;
        let known = lock(&state.userinfo).clone();
        let url = match known {
            Some(url) => url,
            None => state.discover("userinfo_endpoint").await?,
        };
        let told = bounded::get_as(&state.fetch, &url, token, MAX_DOCUMENT).await;
        // It may have moved.
        Ok(told.inspect_err(|_| *lock(&state.userinfo) = None)?.object)
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

/// Why an issuer says nothing of a person that counts.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssuerFault {
    #[error("{0}")]
    Ask(#[from] AskError),
    #[error("{0}")]
    Form(#[from] BadToken),
    #[error("the issuer is not in the configuration any more")]
    Gone,
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

/// An issuer, and what it told us.
pub(crate) struct IssuerState {
    rule: IssuerRule,
    fetch: Fetch,
    keys: Mutex<KeySet>,
    /// Counts the reads of keys that are over.
    keys_read: watch::Sender<u64>,
    /// Endpoints that its metadata named last.
    introspection: Mutex<Option<String>>,
    userinfo: Mutex<Option<String>>,
    questions: Semaphore,
    /// The task that reads the keys when they are due.
    reading: OnceLock<OwnedTask>,
    lost: LostKeys,
}

#[derive(Default)]
struct KeySet {
    keys: Arc<[Arc<IssuerKey>]>,
    /// When they were read.
    read: Option<Instant>,
    /// Whether the last attempt failed.
    is_failing: bool,
    /// When a token last had them read.
    asked: Option<Instant>,
    is_asking: bool,
}

impl IssuerState {
    fn start(rule: IssuerRule, fetch: Fetch, lost: &LostKeys) -> Arc<Self> {
        let state = Arc::new(Self {
            rule,
            fetch,
            keys: Mutex::default(),
            keys_read: watch::Sender::new(0),
            introspection: Mutex::default(),
            userinfo: Mutex::default(),
            questions: Semaphore::new(QUESTIONS),
            reading: OnceLock::new(),
            lost: lost.clone(),
        });
        let task = keep_read(Arc::downgrade(&state));
        state.reading.get_or_init(|| OwnedTask::spawn(task));
        state
    }

    /// The keys, unless they are too old or were never read.
    fn usable_keys(&self) -> Option<Arc<[Arc<IssuerKey>]>> {
        let set = lock(&self.keys);
        set.read.filter(|at| at.elapsed() < OLD_KEYS)?;
        Some(Arc::clone(&set.keys))
    }

    fn verifies(&self, token: &SignedToken<'_>) -> Result<(), BadToken> {
        let keys = self.usable_keys().unwrap_or_default();
        token.verify(keys.iter().map(|key| &key.jwk)).map(drop)
    }

    fn is_failing(&self) -> bool {
        lock(&self.keys).is_failing
    }

    /// Whether keys may be read for a token, or are being read.
    fn may_read_again(&self) -> bool {
        let set = lock(&self.keys);
        set.is_asking || set.asked.is_none_or(|at| at.elapsed() >= PAUSE)
    }

    /// Reads the keys because of a token, unless that is done or was done a moment ago. It
    /// goes on if the client of that token hangs up.
    fn read_again(self: &Arc<Self>) {
        let mut set = lock(&self.keys);
        if set.is_asking || set.asked.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        (set.is_asking, set.asked) = (true, Some(Instant::now()));
        drop(set);
        let state = Arc::clone(self);
        tokio::spawn(async move {
            state.read_keys().await;
            lock(&state.keys).is_asking = false;
            state.keys_read.send_modify(|count| *count += 1);
        });
    }

    /// Reads the keys; how long they may be kept, or how long to wait before another attempt.
    async fn read_keys(&self) -> Duration {
        let asked = self.fetch_keys().await;
        let mut set = lock(&self.keys);
        set.is_failing = asked.is_err();
        let (keys, max_age) = match asked {
            Ok(asked) => asked,
            Err(error) => {
                tracing::warn!(issuer = self.rule.name, "its keys cannot be read: {error}");
                return PAUSE;
            }
        };
        // A key that stays is the same, so that what it signed still counts.
        let same = |jwk: &PublicJwk| set.keys.iter().find(|key| key.jwk == *jwk).map(Arc::clone);
        let new = |jwk| Arc::new(IssuerKey { jwk, is_gone: AtomicBool::new(false) });
        let keys: Arc<[_]> =
            keys.into_iter().map(|jwk| same(&jwk).unwrap_or_else(|| new(jwk))).collect();
        for old in set.keys.iter().filter(|old| !keys.iter().any(|key| Arc::ptr_eq(key, old))) {
            old.is_gone.store(true, Ordering::SeqCst);
            self.lost.is_lost.store(true, Ordering::SeqCst);
            self.lost.told.notify_one();
        }
        (set.keys, set.read) = (keys, Some(Instant::now()));
        max_age.unwrap_or(SOONEST_KEYS).clamp(SOONEST_KEYS, LATEST_KEYS)
    }

    async fn fetch_keys(&self) -> Result<(Vec<PublicJwk>, Option<Duration>), AskError> {
        let uri = match &self.rule.jwks_uri {
            Some(uri) => uri.clone(),
            None => self.discover("jwks_uri").await?,
        };
        let set = bounded::get(&self.fetch, &uri, MAX_JWKS).await?;
        let keys = PublicJwk::read_set(&Value::Object(set.object));
        Ok((keys.ok_or(AskError::NotJson { url: uri })?, set.max_age))
    }

    /// An address in the metadata of the issuer (RFC 8414, or `OpenID` discovery).
    async fn discover(&self, member: &str) -> Result<String, AskError> {
        let issuer = &self.rule.issuer;
        let mut failure = AskError::BadUrl { url: issuer.clone() };
        for url in metadata_urls(issuer) {
            match bounded::get(&self.fetch, &url, MAX_DOCUMENT).await {
                Ok(found) if found.object.get("issuer").and_then(Value::as_str) == Some(issuer) => {
                    let text = |name: &str| found.object.get(name)?.as_str().map(str::to_owned);
                    *lock(&self.introspection) = text("introspection_endpoint");
                    *lock(&self.userinfo) = text("userinfo_endpoint");
                    let found = text(member);
                    return found.ok_or(AskError::NotJson { url });
                }
                // It speaks for somebody else (RFC 8414, 3.3).
                Ok(_) => failure = AskError::NotJson { url },
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn known(
        &self,
        subject: TokenSubject,
        claims: &Map<String, Value>,
        key: Option<Arc<IssuerKey>>,
    ) -> Arc<KnownToken> {
        let facts = TokenFacts {
            issuer: self.rule.name.clone(),
            subject: subject.subject,
            expires: subject.expires,
            audiences: subject.audiences,
            scopes: subject.scopes,
            claims: self.rule.pick(claims),
        };
        KnownToken::new(facts, key, None)
    }
}

/// Reads the keys of an issuer whenever they are due, as long as the issuer is there.
async fn keep_read(state: Weak<IssuerState>) {
    loop {
        let Some(there) = state.upgrade() else { return };
        let time = there.read_keys().await;
        there.keys_read.send_modify(|count| *count += 1);
        drop(there);
        tokio::time::sleep(time).await;
    }
}

/// Where the metadata of an issuer may be.
fn metadata_urls(issuer: &str) -> Vec<String> {
    let after = issuer.find("://").map_or(0, |at| at + 3);
    let end = issuer[after..].find('/').map_or(issuer.len(), |at| after + at);
    let (origin, path) = issuer.split_at(end);
    let path = path.trim_end_matches('/');
    let mut urls = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        urls.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    urls
}

/// Asking issuers about tokens (RFC 7662).
impl Issuers {
    async fn introspect(
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

#[cfg(test)]
mod tests;
