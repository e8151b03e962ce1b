//! Where a server is, how it is reached, and what it is shown of us.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode, Uri, header};
use serde::Deserialize;
use switchboard_proto::auth::AuthError;
use switchboard_proto::failure::Failure;
use switchboard_proto::revision::Era;
use tokio::sync::{Mutex, watch};

use super::client_identity::ViaBridge;
use super::era::KnownEras;
use super::inject::TokenInjection;
use super::usage::Traffic;
use super::via::Via;
use super::{Transport, Upstream};
use crate::drive::now;
use crate::http::fetch::Fetch;
use crate::secret::IdentityDigest;
use crate::stdio::child::{Command, StderrListener};
use crate::who::Who;

/// A server and all that is needed to reach it: for a [`Client`](crate::client::Client), or a
/// [`Bridge`](crate::bridge::Bridge). Cheap to clone.
#[derive(Clone)]
pub struct ServerTarget {
    pub(super) details: Arc<TargetDetails>,
    /// Headers of the client that it is reached for.
    passed: Option<Arc<HeaderMap>>,
    /// The user that it is reached for, if it is shown an account of theirs.
    principal: Option<Arc<str>>,
    /// The bridge that it is reached through, if it is.
    pub(super) behind: Option<ViaBridge>,
}

#[derive(Clone)]
pub(super) struct TargetDetails {
    pub(super) target: Target,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) fetch: Option<Fetch>,
    pub(super) credential: Option<Arc<dyn Credential>>,
    /// How a command is given its token.
    pub(super) inject: Option<TokenInjection>,
    /// How many pipes to it there are, if the roster counts them.
    pipes: Option<watch::Sender<usize>>,
    pub(super) known_eras: Arc<KnownEras>,
    traffic: Arc<Traffic>,
    /// Callers do not hear in its own words why it is in trouble.
    pub(super) is_discreet: bool,
    /// Its supervisor logs why it is in trouble.
    pub(super) is_supervised: bool,
    /// Its place in chains of gateways, where loops are looked for.
    pub(super) via: Option<Arc<Via>>,
}

/// A pipe that counts.
pub(super) struct Piped(watch::Sender<usize>);

impl Drop for Piped {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// What is at the other end.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the field names say it")]
pub enum Target {
    /// A command that speaks on its stdin and stdout.
    Command(Command),
    /// A URL, the transports to try there, and headers to send.
    Url { url: Uri, strategy: Strategy, headers: HeaderMap },
}

/// Which HTTP transport to use, and which to fall back to.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Streamable HTTP.
    HttpOnly,
    /// HTTP+SSE of the first revision.
    SseOnly,
    /// Streamable HTTP, and HTTP+SSE if the server has no such endpoint.
    #[default]
    HttpFirst,
    /// The other way round.
    SseFirst,
}

/// Not the name of a strategy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown strategy {0:?}; use http-only, sse-only, http-first or sse-first")]
pub struct UnknownStrategy(String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        serde_json::from_value(name.into()).map_err(|_| UnknownStrategy(name.to_owned()))
    }
}

impl ServerTarget {
    /// A command; `environment` is ours, of which it gets what it may have.
    pub fn command(command: Command, environment: Vec<(OsString, OsString)>) -> Self {
        Self::at(Target::Command(command), environment, None)
    }

    /// A URL. Headers that are for us to set are left out of `headers` (HDR-15).
    pub fn url(url: Uri, strategy: Strategy, mut headers: HeaderMap, fetch: Fetch) -> Self {
        tidy(&mut headers);
        Self::at(Target::Url { url, strategy, headers }, Vec::new(), Some(fetch))
    }

    fn at(target: Target, environment: Vec<(OsString, OsString)>, fetch: Option<Fetch>) -> Self {
        let details = TargetDetails {
            target,
            environment,
            fetch,
            credential: None,
            inject: None,
            pipes: None,
            known_eras: Arc::default(),
            traffic: Arc::default(),
            is_discreet: false,
            is_supervised: false,
            via: None,
        };
        Self { details: Arc::new(details), passed: None, principal: None, behind: None }
    }

    /// The same server with something different about it. Its eras are not known; what
    /// is counted of both is one.
    pub(super) fn but(&self, change: impl FnOnce(&mut TargetDetails)) -> Self {
        let mut details = TargetDetails::clone(&self.details);
        (details.pipes, details.known_eras) = (None, Arc::default());
        change(&mut details);
        Self { details: Arc::new(details), ..self.clone() }
    }

    /// The same server for callers whose own it is not: when it breaks or cannot be
    /// reached they hear that, and only the log has its last words, files and addresses.
    #[must_use]
    pub fn discreet(&self) -> Self {
        self.but(|details| details.is_discreet = true)
    }

    /// The same server for connections whose end a supervisor hears of: it logs each change of
    /// the server's state once. The connections themselves then log it at `debug`.
    #[must_use]
    pub fn supervised(&self) -> Self {
        self.but(|details| details.is_supervised = true)
    }

    pub(super) fn via(&self) -> Option<&Arc<Via>> {
        self.details.via.as_ref()
    }

    /// The same server, which is shown what `credential` says when a connection
    /// is made. The headers of its URL are for `credential` to add.
    #[must_use]
    pub fn showing(&self, credential: Arc<dyn Credential>) -> Self {
        self.but(|details| details.credential = Some(credential))
    }

    /// The same command, which is given the token that `credential` says when it is started.
    #[must_use]
    pub fn injecting(&self, credential: Arc<dyn Credential>, inject: TokenInjection) -> Self {
        self.but(|details| (details.credential, details.inject) = (Some(credential), Some(inject)))
    }

    /// The same command, of which `listener` hears each line that it says on stderr.
    #[must_use]
    pub fn heard_by(&self, listener: StderrListener) -> Self {
        self.but(|details| {
            if let Target::Command(command) = &mut details.target {
                command.listener = listener;
            }
        })
    }

    /// The same server for a user with these headers.
    pub(crate) fn passing(&self, headers: HeaderMap, who: &Who) -> Self {
        let passed = (!headers.is_empty()).then(|| Arc::new(headers));
        let principal = self.has_accounts().then(|| Arc::from(who.name()));
        Self { passed, principal, ..self.clone() }
    }

    /// Whether it is shown an account of each user's own.
    pub(crate) fn has_accounts(&self) -> bool {
        self.details.credential.as_ref().is_some_and(|credential| credential.has_accounts())
    }

    /// Whether users are let in by headers or accounts of their own.
    pub(crate) fn tells_users_apart(&self) -> bool {
        !self.passes().is_empty() || self.has_accounts()
    }

    /// Whether both are reached for the same user.
    pub(crate) fn is_for_same_user(&self, other: &Self) -> bool {
        self.passed() == other.passed() && self.principal == other.principal
    }

    /// What the credential of a connection must know.
    pub(super) fn user<'c>(&'c self, none: &'c HeaderMap) -> CredentialUser<'c> {
        let headers = self.passed().unwrap_or(none);
        CredentialUser { headers, principal: self.principal.as_deref().unwrap_or_default() }
    }

    /// What of a client's headers is passed on to it.
    pub(crate) fn passed_of(&self, headers: Option<&HeaderMap>) -> HeaderMap {
        let mut passed = HeaderMap::new();
        let (Some(credential), Some(headers)) = (&self.details.credential, headers) else {
            return passed;
        };
        for name in credential.passes() {
            for value in headers.get_all(name) {
                passed.append(name, value.clone());
            }
        }
        passed
    }

    /// Headers of clients that are passed on to it.
    pub(crate) fn passes(&self) -> &[HeaderName] {
        self.details.credential.as_ref().map_or(&[], |credential| credential.passes())
    }

    /// The extension that its tokens are got by; a command is shown none by us.
    pub(super) fn extension(&self) -> Option<&'static str> {
        let credential = self.details.credential.as_ref().filter(|_| self.details.fetch.is_some());
        credential?.extension()
    }

    /// Tells whether a person is asked to sign in to it.
    pub(crate) fn person_asked(&self) -> Option<PersonAsked> {
        self.details.credential.as_ref()?.person_asked()
    }

    /// The same, if its clients are answered meanwhile.
    pub(crate) fn deferred_sign_in(&self) -> Option<PersonAsked> {
        let credential = self.details.credential.as_ref().filter(|credential| credential.defers());
        credential?.person_asked()
    }

    /// A person wants to sign in, even if they did not a short while ago.
    pub(crate) fn ask_anew(&self) {
        if let Some(credential) = &self.details.credential {
            credential.ask_anew();
        }
    }

    /// Headers of the client that it is reached for.
    pub(crate) fn passed(&self) -> Option<&HeaderMap> {
        self.passed.as_deref()
    }

    /// The bridge that it is reached through, if it is.
    pub(crate) fn through(&self) -> Option<&ViaBridge> {
        self.behind.as_ref()
    }

    /// What is at the other end.
    pub fn target(&self) -> &Target {
        &self.details.target
    }

    /// How it is reached, if it is at a URL.
    pub fn fetch(&self) -> Option<&Fetch> {
        self.details.fetch.as_ref()
    }

    /// Adds what decides whom we take for the server: where it is, and in TLS which
    /// certificates it may have.
    pub(crate) fn digest_place(&self, digest: &mut IdentityDigest) {
        match self.target() {
            Target::Command(Command { program, args, env, cwd, .. }) => {
                let env: BTreeSet<_> = env.iter().collect();
                let parts = serde_json::json!({"command": program, "args": args, "env": env});
                digest.add(parts.to_string());
                let cwd = cwd.as_ref().map(|it| it.as_os_str().as_encoded_bytes());
                digest.add(cwd.unwrap_or_default());
            }
            Target::Url { url, .. } => {
                digest.add(url.to_string());
                if let Some(fetch) = self.fetch() {
                    fetch.digest_trust(url, digest);
                }
            }
        }
    }

    /// Adds what decides who we are to it: headers, the client certificate, the account.
    pub(crate) fn digest_identity(&self, digest: &mut IdentityDigest) {
        if let Target::Url { url, headers, .. } = self.target() {
            digest.add_headers(headers);
            if let Some(fetch) = self.fetch() {
                fetch.digest_shown(url, digest);
            }
        }
        if let Some(credential) = &self.details.credential {
            credential.digest(self.user(&HeaderMap::new()), digest);
        }
    }

    /// The same server by the transport of the first revision.
    pub(crate) fn sse_only(&self) -> Self {
        let Target::Url { url, headers, .. } = &self.details.target else { return self.clone() };
        let (url, headers) = (url.clone(), headers.clone());
        let target = Target::Url { url, strategy: Strategy::SseOnly, headers };
        let pipes = self.details.pipes.clone();
        self.but(|details| (details.target, details.pipes) = (target, pipes))
    }

    /// The same server for its supervisor, and how many pipes to it there are: at none, every
    /// process that was started for it has ended.
    pub(crate) fn counted(&self) -> (Self, watch::Receiver<usize>) {
        let (pipes, count) = watch::channel(0);
        let counted = self.but(|details| {
            details.pipes = Some(pipes);
            details.is_supervised = true;
        });
        (counted, count)
    }

    /// There is a pipe to it until this is dropped.
    pub(super) fn piped(&self) -> Option<Piped> {
        let pipes = self.details.pipes.clone()?;
        pipes.send_modify(|count| *count += 1);
        Some(Piped(pipes))
    }

    /// What to call it in logs and errors: never anything secret.
    pub fn name(&self) -> String {
        match &self.details.target {
            Target::Command(command) => command.name.clone(),
            Target::Url { url, .. } => match url.authority() {
                Some(authority) => format!(
                    "{}{}",
                    authority.as_str().rsplit('@').next().unwrap_or_default(),
                    url.path()
                ),
                None => url.path().to_owned(),
            },
        }
    }

    /// What was counted about it, over all connections.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.details.traffic
    }

    pub(super) fn first_transport(&self, era: Era) -> Transport {
        let Target::Url { strategy, .. } = &self.details.target else { return Transport::Pipe };
        match strategy {
            Strategy::HttpOnly | Strategy::HttpFirst => Transport::Http,
            // The older transport has no modern servers.
            Strategy::SseFirst if era == Era::Modern => Transport::Http,
            Strategy::SseFirst | Strategy::SseOnly => Transport::Pipe,
        }
    }
}

/// Headers that say how a message travels, or repeat what it says.
const OURS: [HeaderName; 9] = [
    header::ACCEPT,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Leaves the headers that a user may set. Whatever a user sends along may be a
/// secret, and a target may be printed.
fn tidy(headers: &mut HeaderMap) {
    let is_ours = |name: &HeaderName| {
        OURS.contains(name) || name.as_str().starts_with("mcp-") || name == "last-event-id"
    };
    let ours: Vec<_> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
    for name in ours {
        tracing::warn!(header = name.as_str(), "left out a header that is ours to set");
        headers.remove(name);
    }
    headers.values_mut().for_each(|value| value.set_sensitive(true));
}

impl fmt::Debug for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.name()).finish()
    }
}

/// The headers of a connection, where they are not known before it is made.
pub trait Credential: Send + Sync {
    /// Headers of clients that are passed on.
    fn passes(&self) -> &[HeaderName];
    /// Whether each user has an account of their own: then no two users share a connection.
    fn has_accounts(&self) -> bool {
        false
    }
    /// Adds all that decides whose account this user is shown: two digests that agree are the
    /// same account. What one account was told is kept under it, and no other hears of it.
    fn digest(&self, user: CredentialUser<'_>, digest: &mut IdentityDigest);
    /// All headers, for this user. Those that are the protocol's to set are left
    /// out of them. After a `refusal` they are other ones, or none if there are no others.
    fn headers<'c>(
        &'c self,
        user: CredentialUser<'c>,
        refusal: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c>;
    /// Adds what one request alone may carry.
    fn sign(&self, _user: CredentialUser<'_>, _request: &mut Request<Bytes>) {}
    /// Tells whether a person is asked to sign in; none if nobody ever is.
    fn person_asked(&self) -> Option<PersonAsked> {
        None
    }
    /// The extension of the protocol that its tokens are got by. The server is told of it
    /// with our capabilities (OX-7).
    fn extension(&self) -> Option<&'static str> {
        None
    }
    /// A person wants to sign in by the next refusal, even if they did not a short while ago.
    fn ask_anew(&self) {}
    /// Whether clients are answered while a person signs in, and not kept waiting.
    fn defers(&self) -> bool {
        false
    }
}

/// The user that a connection is for, as far as a credential must know.
#[derive(Clone, Copy, Debug)]
pub struct CredentialUser<'c> {
    /// The headers of the client that are passed on.
    pub headers: &'c HeaderMap,
    /// The name of the user; empty for connections that are for nobody in particular.
    pub principal: &'c str,
}

/// What a person is told who is asked to sign in; none while nobody is asked.
pub type PersonAsked = watch::Receiver<Option<Arc<str>>>;

/// Headers on their way.
pub type Fetching<'c> =
    Pin<Box<dyn Future<Output = Result<Option<FetchedHeaders>, NoCredential>> + Send + 'c>>;

/// Headers that a server is shown.
#[derive(Clone, Debug, Default)]
pub struct FetchedHeaders {
    /// The headers.
    pub headers: HeaderMap,
    /// When they have to be fetched again.
    pub until: Option<Instant>,
    /// Whether somebody signed in for them just now.
    pub is_new_login: bool,
}

impl From<HeaderMap> for FetchedHeaders {
    fn from(headers: HeaderMap) -> Self {
        Self { headers, ..Self::default() }
    }
}

/// What a server said to what it was shown.
#[derive(Clone, Debug)]
pub struct CredentialRefusal {
    /// What was asked for.
    pub url: Uri,
    /// 401, or 403.
    pub status: StatusCode,
    /// The headers of its answer.
    pub answer: HeaderMap,
    /// What it was shown.
    pub shown: Arc<HeaderMap>,
    /// How often it has refused this one request before.
    pub attempt: usize,
    /// Whether somebody has signed in for this request already.
    pub is_new_login: bool,
    /// Nobody waits for the request: it is no reason to ask somebody to sign in.
    pub is_background: bool,
}

/// Why there are none.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoCredential {
    /// For the log: it may name files, so clients do not see it.
    #[error("{0}")]
    Unavailable(String),
    /// Somebody has to sign in.
    #[error("{0}")]
    NotSignedIn(#[from] AuthError),
}

/// The headers that a connection sends, when they were read, and until when they are good.
/// The lock is held while they are read, so that they are read once for all that wait.
pub(super) type CredentialCache = Mutex<Option<(Arc<HeaderMap>, Instant, Option<Instant>)>>;

/// A connection that is made so soon after another is a part of the same attempt.
const SAME_ATTEMPT: Duration = Duration::from_secs(5);

impl Upstream {
    /// The headers to send; after a refusal other ones, or none if there are none. And
    /// whether somebody signed in for them.
    pub(super) async fn credentials(
        &self,
        refusal: Option<&CredentialRefusal>,
    ) -> Result<Option<(Arc<HeaderMap>, bool)>, Failure> {
        let headers = self.credentials.lock().await;
        if let Some((known, _, until)) = &*headers
            && refusal.is_none_or(|refusal| !Arc::ptr_eq(&refusal.shown, known))
            && until.is_none_or(|until| now() < until)
        {
            return Ok(Some((Arc::clone(known), false)));
        }
        // A token that lacks scopes is good for other calls, which do not wait for a person.
        let is_good = refusal.is_some_and(|refusal| refusal.status == StatusCode::FORBIDDEN);
        let held = (!is_good).then_some(headers);
        let none = HeaderMap::new();
        let found = match (&self.server.details.credential, self.server.target()) {
            (Some(credential), _) => {
                let user = self.server.user(&none);
                let found = credential.headers(user, refusal).await.map_err(|why| {
                    tracing::warn!(server = self.name, "{why}");
                    Failure::from(why)
                })?;
                let Some(mut found) = found else { return Ok(None) };
                tidy(&mut found.headers);
                found
            }
            (None, Target::Url { headers, .. }) => headers.clone().into(),
            (None, Target::Command(_)) => none.into(),
        };
        let shown = Arc::new(found.headers);
        let mut headers = match held {
            Some(headers) => headers,
            None => self.credentials.lock().await,
        };
        *headers = Some((Arc::clone(&shown), now(), found.until));
        Ok(Some((shown, found.is_new_login)))
    }

    /// A connection is made: what was read for an earlier one is not sent any more.
    pub(super) async fn renew_credentials(&self) {
        let mut headers = self.credentials.lock().await;
        headers.take_if(|(_, read, _)| now().saturating_duration_since(*read) >= SAME_ATTEMPT);
    }
}

impl From<NoCredential> for Failure {
    fn from(why: NoCredential) -> Self {
        match why {
            NoCredential::Unavailable(_) => Self::NoCredential,
            NoCredential::NotSignedIn(why) => Self::NotSignedIn { why: Arc::new(why) },
        }
    }
}
