//! One issuer, and what it told us: its keys, and its metadata.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_net::OwnedTask;
use switchboard_net::auth::bounded::{self, AskError};
use switchboard_net::auth::jws::{BadToken, PublicJwk, SignedToken};
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::auth::claims::TokenSubject;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::{IssuerKey, KnownToken, LostKeys, MAX_DOCUMENT};
use crate::lock;
use crate::token::{IssuerRule, TokenFacts};

/// Keys are read again after this time at the earliest, and at the latest.
const SOONEST_KEYS: Duration = Duration::from_mins(5);
const LATEST_KEYS: Duration = Duration::from_hours(24);
/// How long keys count while their issuer cannot be reached.
const OLD_KEYS: Duration = Duration::from_hours(24);
/// Between two reads of keys that tokens ask for, and between attempts that fail.
const PAUSE: Duration = Duration::from_secs(30);
/// Bytes of a set of keys.
const MAX_JWKS: usize = 256 << 10;
/// Questions that an introspection endpoint is asked at a time.
const QUESTIONS: usize = 16;

/// An issuer, and what it told us.
pub(super) struct IssuerState {
    pub(super) rule: IssuerRule,
    pub(super) fetch: Fetch,
    pub(super) keys: Mutex<KeySet>,
    /// Counts the reads of keys that are over.
    pub(super) keys_read: watch::Sender<u64>,
    /// Endpoints that its metadata named last.
    pub(super) introspection: Mutex<Option<String>>,
    pub(super) userinfo: Mutex<Option<String>>,
    pub(super) questions: Semaphore,
    /// The task that reads the keys when they are due.
    reading: OnceLock<OwnedTask>,
    lost: LostKeys,
}

#[derive(Default)]
pub(super) struct KeySet {
    keys: Arc<[Arc<IssuerKey>]>,
    /// When they were read.
    pub(super) read: Option<Instant>,
    /// Whether the last attempt failed.
    is_failing: bool,
    /// When a token last had them read.
    pub(super) asked: Option<Instant>,
    is_asking: bool,
}

impl IssuerState {
    pub(super) fn start(rule: IssuerRule, fetch: Fetch, lost: &LostKeys) -> Arc<Self> {
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
    pub(super) fn usable_keys(&self) -> Option<Arc<[Arc<IssuerKey>]>> {
        let set = lock(&self.keys);
        set.read.filter(|at| at.elapsed() < OLD_KEYS)?;
        Some(Arc::clone(&set.keys))
    }

    pub(super) fn verifies(&self, token: &SignedToken<'_>) -> Result<(), BadToken> {
        let keys = self.usable_keys().unwrap_or_default();
        token.verify(keys.iter().map(|key| &key.jwk)).map(drop)
    }

    pub(super) fn is_failing(&self) -> bool {
        lock(&self.keys).is_failing
    }

    /// Whether keys may be read for a token, or are being read.
    pub(super) fn may_read_again(&self) -> bool {
        let set = lock(&self.keys);
        set.is_asking || set.asked.is_none_or(|at| at.elapsed() >= PAUSE)
    }

    /// Reads the keys because of a token, unless that is done or was done a moment ago. It
    /// goes on if the client of that token hangs up.
    pub(super) fn read_again(self: &Arc<Self>) {
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

    pub(super) async fn fetch_keys(&self) -> Result<(Vec<PublicJwk>, Option<Duration>), AskError> {
        let uri = match &self.rule.jwks_uri {
            Some(uri) => uri.clone(),
            None => self.discover("jwks_uri").await?,
        };
        let set = bounded::get(&self.fetch, &uri, MAX_JWKS).await?;
        let keys = PublicJwk::read_set(&Value::Object(set.object));
        Ok((keys.ok_or(AskError::NotJson { url: uri })?, set.max_age))
    }

    /// An address in the metadata of the issuer (RFC 8414, or `OpenID` discovery).
    pub(super) async fn discover(&self, member: &str) -> Result<String, AskError> {
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

    pub(super) fn known(
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
pub(super) fn metadata_urls(issuer: &str) -> Vec<String> {
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
