//! Who looks at the console: the link, the key, the cookie, and where requests come from.
//!
//! ```text
//!   POST /console/api/sign-in {"link": …} or {"key": …} ──▶ cookie, sealed, for 8 hours
//!   cookie ──▶ opened, not too old, and the key is still that user's ──▶ Viewer
//! ```
//!
//! A cookie says the name of its user and the hash of their key. A key that is removed from the
//! file ends the sign-ins that were made with it. The link is for whoever runs the gateway: it
//! works once, and there is another one afterwards.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::json;
use switchboard_net::access::{AuthDenial, Authenticate, Who};
use switchboard_net::http::page::{PageVisit, cookie};
use switchboard_net::parked_calls::Sealer;
use switchboard_net::private_folder::PrivateFolder;
use switchboard_proto::auth::Secret;
use switchboard_proto::jsonrpc::Part;
use tokio::sync::Notify;

use super::cookie_key::{self, EndedCookie, MAX_ENDED};
use super::issuer_sign_in::{Arrival, ISSUER_LIFE};
use super::{ApiError, ApiResult, CONSOLE_PATH, Console, read_body};
use crate::authenticator::Authenticator;
use crate::config::ConsoleMode;
use crate::gateway::Place;
use crate::issuer::{Clock, system_clock};
use crate::monitor::LoggedCall;
use crate::policy::{KeyHash, Principal};
use crate::{lock, read, write};

/// How long a sign-in lasts (C-32).
const SIGN_IN_LIFE: u64 = 8 * 60 * 60;

/// Wrong tries of one address in a minute (C-32).
const MAX_TRIES: usize = 5;
/// Wrong tries of all addresses in a minute.
const MAX_TRIES_OF_ALL: usize = 60;
const TRIES_TIME: Duration = Duration::from_mins(1);

/// What our page sends with whatever changes something, and no form can (C-33).
const MARK: HeaderName = HeaderName::from_static("x-switchboard");
/// Where a browser says whose page sends a request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who is signed in.
pub(super) struct SignIns {
    pub(super) authenticator: Arc<Authenticator>,
    sealer: Sealer,
    clock: Clock,
    link: Mutex<Secret>,
    /// A link was used.
    pub(super) used: Notify,
    wrong: Mutex<VecDeque<(Instant, Option<IpAddr>)>>,
    /// Sign-ins at issuers that were begun.
    begun: Mutex<VecDeque<(Instant, Option<IpAddr>)>>,
    /// Those who come back from an issuer.
    pub(super) arrivals: Mutex<VecDeque<Arrival>>,
    /// The cookies of those who have signed out; the oldest goes.
    ended: Mutex<VecDeque<EndedCookie>>,
    /// Where they are remembered.
    folder: Option<PrivateFolder>,
    place: RwLock<ConsolePlace>,
}

/// Where the console is found, and what its cookie is called.
#[derive(Clone, Default)]
struct ConsolePlace {
    base: String,
    gateway: String,
    cookie: String,
}

/// How somebody has signed in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SignedInBy {
    Link,
    Key,
    Issuer,
}

impl SignedInBy {
    /// Seconds that such a sign-in lasts.
    fn life(self) -> u64 {
        if self == Self::Issuer { ISSUER_LIFE } else { SIGN_IN_LIFE }
    }
}

/// Somebody who is signed in, with what they may use at present.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    pub(super) who: Who,
    pub(super) principal: Arc<Principal>,
    pub(super) by: SignedInBy,
    /// When they signed in, in seconds of Unix time.
    pub(super) since: u64,
}

impl Viewer {
    /// Whether nothing is kept from them.
    pub(super) fn is_whole(&self) -> bool {
        self.principal.grant.is_open()
    }

    /// Whether they may use a server.
    pub(super) fn has_server(&self, name: &str) -> bool {
        self.principal.grant.has_server(name)
    }

    /// Whether they may use what is at a place.
    pub(super) fn has_place(&self, place: &Place) -> bool {
        lets(&self.principal, place)
    }

    /// Whether something belongs to them that belongs to this identity.
    pub(super) fn is_own(&self, identity: &[u8]) -> bool {
        self.who.identity() == identity
    }

    /// Whether they may know of a call: their own, or all if nothing is kept from them.
    pub(super) fn sees(&self, call: &LoggedCall) -> bool {
        self.is_whole() || self.is_own(call.identity.as_bytes())
    }

    /// When the sign-in ends.
    pub(super) fn until(&self) -> u64 {
        self.since + self.by.life()
    }
}

/// Seconds of Unix time as a moment.
pub(super) fn moment_at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

impl SignIns {
    /// Blocks.
    pub(super) fn new(
        authenticator: &Arc<Authenticator>,
        folder: Option<PrivateFolder>,
    ) -> Option<Self> {
        Self::with_clock(authenticator, folder, system_clock())
    }

    fn with_clock(
        authenticator: &Arc<Authenticator>,
        folder: Option<PrivateFolder>,
        clock: Clock,
    ) -> Option<Self> {
        let (sealer, ended) = cookie_key::load(folder.as_ref())?;
        Some(Self {
            authenticator: Arc::clone(authenticator),
            sealer,
            clock,
            link: Mutex::new(random_token()?),
            used: Notify::new(),
            wrong: Mutex::default(),
            begun: Mutex::default(),
            arrivals: Mutex::default(),
            ended: Mutex::new(ended),
            folder,
            place: RwLock::default(),
        })
    }

    pub(super) fn found_at(&self, base: &str, gateway: &str, port: u16) {
        // Browsers do not tell the ports of a host apart when they send cookies.
        let cookie = format!("switchboard-console-{port}");
        let (base, gateway) = (base.to_owned(), gateway.to_owned());
        *write(&self.place) = ConsolePlace { base, gateway, cookie };
    }

    /// Where people find the console, without its path.
    pub(super) fn base(&self) -> String {
        read(&self.place).base.clone()
    }

    /// Where clients find the gateway, without a path.
    pub(super) fn gateway(&self) -> String {
        read(&self.place).gateway.clone()
    }

    pub(super) fn link(&self) -> String {
        let base = self.base();
        format!("{base}{CONSOLE_PATH}/#link={}", lock(&self.link).reveal())
    }

    /// The cookie of a request opens nothing any more, after a restart neither.
    pub(super) async fn end(&self, headers: &HeaderMap) {
        let name = read(&self.place).cookie.clone();
        let Some(sealed) = cookie(headers, &name) else { return };
        let now = (self.clock)();
        let all: Vec<_> = {
            let mut ended = lock(&self.ended);
            ended.retain(|(_, until)| now < *until);
            if ended.len() >= MAX_ENDED {
                ended.pop_front();
            }
            ended.push_back((KeyHash::compute(sealed.as_bytes()), now + SIGN_IN_LIFE));
            ended.iter().copied().collect()
        };
        let Some(folder) = self.folder.clone() else { return };
        let saving = tokio::task::spawn_blocking(move || cookie_key::save_ended(&folder, &all));
        if let Ok(Err(error)) = saving.await {
            tracing::warn!("that somebody signed out of the console is not remembered: {error}");
        }
    }

    /// Whoever sends a request with these headers.
    pub(super) fn viewer(&self, headers: &HeaderMap) -> Option<Viewer> {
        let name = read(&self.place).cookie.clone();
        let sealed = cookie(headers, &name)?;
        let hash = KeyHash::compute(sealed.as_bytes());
        if lock(&self.ended).iter().any(|(ended, _)| *ended == hash) {
            return None;
        }
        // A gateway at another port may have the same key.
        let text = self.sealer.open_bytes(sealed, name.as_bytes())?;
        let said = Part::new(&text).value()?;
        let since = said["since"].as_u64()?;
        let now = (self.clock)();
        let by = match (said["key"].is_string(), said["issuer"].is_string()) {
            (true, _) => SignedInBy::Key,
            (false, true) => SignedInBy::Issuer,
            (false, false) => SignedInBy::Link,
        };
        if now >= since + by.life() || now + 60 < since {
            return None;
        }
        let who = match by {
            SignedInBy::Key => {
                let key: KeyHash = said["key"].as_str()?.parse().ok()?;
                self.authenticator.enter_by_key(said["name"].as_str()?, &key)?
            }
            SignedInBy::Issuer => {
                self.authenticator.enter_by_issuer(self.facts(&said, since + by.life())?)?
            }
            SignedInBy::Link => self.authenticator.enter_as_operator(),
        };
        let principal = self.authenticator.principal_of(&who)?;
        Some(Viewer { who, principal, by, since })
    }

    /// The same who looked earlier, with what they may use by now; none if they may not look
    /// any more.
    pub(super) fn renewed(&self, viewer: &Viewer) -> Option<Viewer> {
        let is_current = viewer.who.is_current() && (self.clock)() < viewer.until();
        let principal = self.authenticator.principal_of(&viewer.who).filter(|_| is_current)?;
        Some(Viewer { principal, ..viewer.clone() })
    }

    /// Whether somebody has signed in within so many seconds.
    pub(super) fn is_fresh(&self, viewer: &Viewer, seconds: u64) -> bool {
        (self.clock)() < viewer.since + seconds
    }

    /// Signs somebody in; who they are, and the cookie.
    pub(super) fn sign_in(&self, visit: &PageVisit) -> ApiResult<(Viewer, HeaderValue)> {
        let body = read_body(&visit.body)?;
        self.may_try(visit.address)?;
        let sealed = match (body["link"].as_str(), body["key"].as_str()) {
            (Some(link), None) if self.use_link(link) => Some(json!({})),
            (Some(link), None) => self.take_arrival(link),
            (None, Some(key)) => {
                let key = key.trim().as_bytes();
                let name = self.authenticator.owner_of_key(key);
                let hash = KeyHash::compute(key).to_string();
                // Clients without a key have the empty name.
                name.filter(|it| !it.is_empty()).map(|name| json!({"name": name, "key": hash}))
            }
            _ => return Err(ApiError::bad_request("send either \"link\" or \"key\"")),
        };
        let Some(mut sealed) = sealed else {
            lock(&self.wrong).push_back((Instant::now(), visit.address));
            tracing::warn!("a sign-in to the console was refused");
            let wrong = if body["link"].is_string() {
                "the link was used or is too old"
            } else {
                "the key is not known"
            };
            let error = ApiError::new(StatusCode::UNAUTHORIZED, "wrong", wrong);
            return Err(error.hint("serve prints a new link after one was used; a key works too"));
        };
        sealed["since"] = (self.clock)().into();
        let failed = || {
            let message = "the system has no random numbers";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        };
        let name = read(&self.place).cookie.clone();
        let text = self.sealer.seal_bytes(sealed.to_string().as_bytes(), name.as_bytes());
        let cookie = self.cookie(&text.ok_or_else(failed)?, SIGN_IN_LIFE);
        let mut headers = HeaderMap::new();
        headers.insert(http::header::COOKIE, cookie.clone());
        let viewer = self.viewer(&headers).ok_or_else(failed)?;
        tracing::info!(principal = viewer.who.name(), "signed in to the console");
        Ok((viewer, cookie))
    }

    /// A cookie of this value for so long.
    pub(super) fn cookie(&self, value: &str, seconds: u64) -> HeaderValue {
        let place = read(&self.place);
        let secure = if place.base.starts_with("https:") { "; Secure" } else { "" };
        let cookie = format!(
            "{}={value}; Path={CONSOLE_PATH}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}",
            place.cookie
        );
        HeaderValue::try_from(cookie).unwrap_or(HeaderValue::from_static(""))
    }

    /// Whether one more may try.
    fn may_try(&self, address: Option<IpAddr>) -> ApiResult<()> {
        if has_room(&mut lock(&self.wrong), address) {
            return Ok(());
        }
        Err(ApiError::too_many("too many wrong tries; wait a minute", 60))
    }

    /// Whether one more sign-in may begin at an issuer: each asks it something.
    pub(super) fn may_begin(&self, address: Option<IpAddr>) -> ApiResult<()> {
        let mut begun = lock(&self.begun);
        if has_room(&mut begun, address) {
            begun.push_back((Instant::now(), address));
            return Ok(());
        }
        Err(ApiError::too_many("too many sign-ins have begun; wait a minute", 60))
    }

    /// Whether this is the link; it is used up, and the next one takes its place.
    fn use_link(&self, shown: &str) -> bool {
        let mut link = lock(&self.link);
        let shown = KeyHash::compute(shown.as_bytes());
        if !KeyHash::compute(link.reveal().as_bytes()).matches(&shown) {
            return false;
        }
        let Some(next) = random_token() else { return false };
        *link = next;
        self.used.notify_one();
        true
    }
}

/// Whether an address, and all together, have done less than they may in a minute.
fn has_room(done: &mut VecDeque<(Instant, Option<IpAddr>)>, address: Option<IpAddr>) -> bool {
    let now = Instant::now();
    while done.front().is_some_and(|(at, _)| *at + TRIES_TIME <= now) {
        done.pop_front();
    }
    let own = done.iter().filter(|(_, from)| *from == address).count();
    own < MAX_TRIES && done.len() < MAX_TRIES_OF_ALL
}

/// 128 random bits.
fn random_token() -> Option<Secret> {
    crate::connect::random_id().map(Secret::new)
}

/// Refuses a request that no page of ours can have sent. Programs send no `Sec-Fetch-Site`;
/// neither do browsers to hosts without TLS, but they send an origin with all that changes
/// something.
pub(super) fn check_origin(headers: &HeaderMap, changes: bool) -> ApiResult<()> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(&ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let is_own = match (text(&FETCH_SITE), headers.contains_key(ORIGIN)) {
        (Some("same-origin"), _) => true,
        (Some("none"), _) | (None, false) => !changes,
        (Some(_), _) => false,
        (None, true) => origin.is_some() && origin == text(&HOST),
    };
    let is_marked = !changes || text(&MARK) == Some("console");
    if is_own && is_marked {
        return Ok(());
    }
    let message = if is_own {
        "the header X-Switchboard: console is missing"
    } else {
        "the request is from a page of another origin"
    };
    Err(ApiError::new(StatusCode::FORBIDDEN, "foreign", message))
}

/// Lets the page in to the MCP endpoint of a place.
pub(super) struct ConsoleGate {
    pub(super) console: Weak<Console>,
    pub(super) sign_ins: Arc<SignIns>,
    pub(super) place: Place,
}

/// Whether somebody may use what is at a place.
fn lets(principal: &Principal, place: &Place) -> bool {
    match place {
        Place::All => true,
        Place::Group(name) => principal.grant.has_group(name),
        Place::Server(name) => principal.grant.has_server(name),
    }
}

impl ConsoleGate {
    /// Whether there is a console: the file may have switched it off.
    fn is_on(&self) -> bool {
        self.console.upgrade().is_some_and(|console| console.mode() != ConsoleMode::Off)
    }
}

impl Authenticate for ConsoleGate {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        if !self.is_on() {
            return Err(AuthDenial::nothing_here("/mcp"));
        }
        check_origin(headers, true).map_err(|error| AuthDenial::forbidden(error.message))?;
        let viewer = self.sign_ins.viewer(headers).ok_or_else(|| {
            let challenge = HeaderValue::from_static("Cookie");
            AuthDenial::unknown(challenge, "sign in to the console")
        })?;
        if !lets(&viewer.principal, &self.place) {
            return Err(AuthDenial::nothing_here("/console/mcp"));
        }
        Ok(viewer.who)
    }

    fn keeps(&self, who: &Who) -> bool {
        let principal = self.sign_ins.authenticator.principal_of(who);
        self.is_on() && principal.is_some_and(|principal| lets(&principal, &self.place))
    }
}

impl fmt::Debug for ConsoleGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleGate").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use bytes::Bytes;
    use http::Method;
    use serde_json::Value;

    use super::*;
    use crate::policy::Access;

    const ADA: &str = "key-of-ada-0123456789abcdef";

    fn sign_ins() -> (Arc<SignIns>, Arc<AtomicU64>) {
        let access = Access::default().with_key("ada", ADA.as_bytes());
        let now = Arc::new(AtomicU64::new(1_000_000));
        let clock = Arc::clone(&now);
        let clock: Clock = Arc::new(move || clock.load(Ordering::Relaxed));
        let sign_ins = SignIns::with_clock(&Authenticator::new(access, 10), None, clock);
        let sign_ins = sign_ins.expect("random numbers");
        sign_ins.found_at("http://127.0.0.1:3001", "http://127.0.0.1:3001", 3001);
        (Arc::new(sign_ins), now)
    }

    fn visit(body: &Value) -> PageVisit {
        PageVisit {
            method: Method::POST,
            path: "/console/api/sign-in".to_owned(),
            query: String::new(),
            headers: HeaderMap::new(),
            address: None,
            body: Bytes::from(body.to_string()),
        }
    }

    /// The headers of a browser that was given this cookie.
    fn with_cookie(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(http::header::COOKIE, pair.parse().unwrap())])
    }

    #[test]
    fn a_link_works_once_and_the_next_one_after_it() {
        // C-32
        let (sign_ins, _) = sign_ins();
        let first = sign_ins.link();
        let token = first.split_once("/console/#link=").unwrap().1.to_owned();
        let (viewer, cookie) = sign_ins.sign_in(&visit(&json!({"link": token}))).unwrap();
        assert!(viewer.is_whole() && viewer.by == SignedInBy::Link);
        let text = cookie.to_str().unwrap();
        assert!(text.ends_with("; Path=/console; HttpOnly; SameSite=Strict; Max-Age=28800"));
        assert!(sign_ins.viewer(&with_cookie(&cookie)).is_some());
        let again = sign_ins.sign_in(&visit(&json!({"link": token}))).unwrap_err();
        assert_eq!((again.status, again.code), (StatusCode::UNAUTHORIZED, "wrong"));
        assert_ne!(sign_ins.link(), first);
    }

    #[test]
    fn a_sign_in_ends_after_eight_hours_or_with_its_key() {
        // C-32
        let (sign_ins, now) = sign_ins();
        let (viewer, cookie) = sign_ins.sign_in(&visit(&json!({"key": ADA}))).unwrap();
        assert_eq!(viewer.principal.name, "ada");
        assert!(!cookie.to_str().unwrap().contains("ada"), "it is sealed");
        let headers = with_cookie(&cookie);
        now.fetch_add(SIGN_IN_LIFE - 1, Ordering::Relaxed);
        assert!(sign_ins.viewer(&headers).is_some() && sign_ins.renewed(&viewer).is_some());
        now.fetch_add(1, Ordering::Relaxed);
        assert!(sign_ins.viewer(&headers).is_none() && sign_ins.renewed(&viewer).is_none());
        let (viewer, cookie) = sign_ins.sign_in(&visit(&json!({"key": ADA}))).unwrap();
        let other = Access::default().with_key("ada", b"another-key-0123456789");
        sign_ins.authenticator.replace(other);
        assert!(sign_ins.viewer(&with_cookie(&cookie)).is_none());
        assert!(sign_ins.renewed(&viewer).is_none());
    }

    #[test]
    fn five_wrong_tries_are_all_that_a_minute_has() {
        // C-32
        let (sign_ins, _) = sign_ins();
        let wrong = json!({"key": "guessed"});
        for _ in 0..MAX_TRIES {
            assert_eq!(sign_ins.sign_in(&visit(&wrong)).err().unwrap().code, "wrong");
        }
        let refused = sign_ins.sign_in(&visit(&json!({"key": ADA}))).err().unwrap();
        assert_eq!((refused.code, refused.retry), ("too_many", Some(60)));
        let address = Some([10, 0, 0, 1].into());
        let other = PageVisit { address, ..visit(&json!({"key": ADA})) };
        assert!(sign_ins.sign_in(&other).is_ok(), "another address is not kept out");
    }

    #[test]
    fn a_cookie_that_was_changed_or_is_anothers_opens_nothing() {
        let (ours, _) = sign_ins();
        let (theirs, _) = sign_ins();
        let (_, cookie) = theirs.sign_in(&visit(&json!({"key": ADA}))).unwrap();
        assert!(ours.viewer(&with_cookie(&cookie)).is_none());
        let (_, cookie) = ours.sign_in(&visit(&json!({"key": ADA}))).unwrap();
        let mut text = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        let last = text.pop().unwrap();
        text.push(if last == 'A' { 'B' } else { 'A' });
        let changed = HeaderMap::from_iter([(http::header::COOKIE, text.parse().unwrap())]);
        assert!(ours.viewer(&changed).is_none());
    }

    #[test]
    fn what_changes_something_comes_from_our_own_page() {
        // C-33, B-9
        let headers = |pairs: &[(&'static str, &str)]| -> HeaderMap {
            let pair = |(name, value): &(&'static str, &str)| {
                (HeaderName::from_static(name), value.parse().unwrap())
            };
            pairs.iter().map(pair).collect()
        };
        let (mark, host) = (("x-switchboard", "console"), ("host", "127.0.0.1:3001"));
        let own = ("origin", "http://127.0.0.1:3001");
        for (pairs, reads, changes) in [
            (vec![host, mark, ("sec-fetch-site", "same-origin")], true, true),
            (vec![host, ("sec-fetch-site", "same-origin")], true, false),
            (vec![host, mark, ("sec-fetch-site", "same-site")], false, false),
            (vec![host, mark, ("sec-fetch-site", "cross-site"), own], false, false),
            (vec![host, mark, ("sec-fetch-site", "none")], true, false),
            (vec![host, mark, own], true, true),
            (vec![host, own], true, false),
            (vec![host, mark, ("origin", "http://127.0.0.1:5000")], false, false),
            (vec![host, mark, ("origin", "null")], false, false),
            (vec![host, mark], true, false),
        ] {
            let headers = headers(&pairs);
            assert_eq!(check_origin(&headers, false).is_ok(), reads, "{pairs:?}");
            assert_eq!(check_origin(&headers, true).is_ok(), changes, "{pairs:?}");
        }
    }
}
