//! One account at one server: its tokens, renewed and shared by all processes of the user.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Uri;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_proto::auth::{
    Answer, AuthError, Challenge, Goal, GrantType, KeyAlgorithm, LONGEST_SIGN_IN, OauthSettings,
    PendingSignIn, Redirect, Registration, Secret, SignIn, Step, TokenRecord, Tools,
};
use tokio::sync::watch;

use super::callback::{CallbackListener, CallbackPage, CallbackPlace, port_for};
use super::fetch::{AuthFetch, ReachPolicy};
use super::jws::{Signer, generate_pem};
use super::person::SignInPerson;
use super::store::{Plaintext, RecordId, RecordKind, RecordLock, RecordStore, StoreError};
use crate::connection::{lock, now};
use crate::drive::{Either, OwnedTask, race};
use crate::http::fetch::Fetch;

/// Whose tokens they are, and for which server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// The URL of the server, as the user wrote it.
    pub server: String,
    /// Tells several accounts at one server apart.
    pub account: Option<String>,
    /// The user of a gateway whose account it is.
    pub principal: Option<String>,
}

impl Account {
    /// The account of whoever runs us, at the server with this URL.
    pub fn of(server: &Uri) -> Self {
        let mut server = server.to_string();
        // The type of URLs adds a slash to a bare origin, which none of the rules has.
        if server.matches('/').count() == 3 && server.ends_with('/') {
            server.pop();
        }
        Self { server, ..Self::default() }
    }

    /// The account of a record of this name; none for records that have no account.
    pub fn from_name(name: &str) -> Option<Self> {
        let parts: Vec<_> = name.split('\n').collect();
        let [server, account, principal] = parts[..] else { return None };
        let part = |part: &str| Some(part.to_owned()).filter(|part| !part.is_empty());
        Some(Self { server: server.to_owned(), account: part(account), principal: part(principal) })
    }

    /// The tokens that are kept of it, as they are.
    pub async fn tokens(&self, store: &dyn RecordStore) -> Result<Option<TokenRecord>, AuthError> {
        read(store.read(&self.record(RecordKind::Tokens)).await)
    }

    /// What its record of a kind is called.
    pub fn record(&self, kind: RecordKind) -> RecordId {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let (account, principal) = (part(&self.account), part(&self.principal));
        RecordId { kind, name: format!("{}\n{account}\n{principal}", self.server) }
    }
}

/// How people are asked.
#[derive(Clone, Debug)]
pub struct SignInOptions {
    /// `127.0.0.1` or `localhost`.
    pub callback_host: String,
    /// The port that people come back to; without it one that is always the same for a server.
    pub callback_port: Option<u16>,
    /// The path that they come back to.
    pub callback_path: String,
    /// The page that they see afterwards, if not ours.
    pub success_url: Option<String>,
    /// How long they may take.
    pub wait: Duration,
    /// Whether they are asked at all.
    pub mode: LoginMode,
    /// Which addresses the servers of a sign-in may have.
    pub reach: ReachPolicy,
    /// What people call the server; its URL if this is empty.
    pub name: String,
}

impl Default for SignInOptions {
    fn default() -> Self {
        Self {
            callback_host: "127.0.0.1".to_owned(),
            callback_port: None,
            callback_path: "/callback".to_owned(),
            success_url: None,
            wait: Duration::from_secs(LONGEST_SIGN_IN),
            mode: LoginMode::default(),
            reach: ReachPolicy::default(),
            name: String::new(),
        }
    }
}

/// What happens when somebody has to sign in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LoginMode {
    /// They are asked, and whatever needs it waits.
    #[default]
    Wait,
    /// They are not: it is an error.
    Never,
}

/// Gets and keeps the tokens of one account. Clones are one.
#[derive(Clone, Debug)]
pub struct Authorizer {
    inner: Arc<Inner>,
    /// The sign-in that is on its way. It goes on when nobody waits for it any more:
    /// somebody may be typing a password. It ends with the last of us.
    running: Arc<Mutex<Option<SignInTask>>>,
}

#[derive(Debug)]
struct Inner {
    account: Account,
    settings: OauthSettings,
    store: Arc<dyn RecordStore>,
    fetch: AuthFetch,
    person: Arc<dyn SignInPerson>,
    options: SignInOptions,
    tools: Arc<dyn Tools>,
    /// The page that people come back to, if it is not a port; for one sign-in.
    page: Mutex<Option<CallbackPage>>,
    /// The last renewal that failed for a while, and when.
    paused: Mutex<Option<(Instant, AuthError)>>,
}

/// How long no renewal is tried after one that failed for a while.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);
/// How long all that is read may take until somebody is asked.
const DISCOVERY: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct SignInTask {
    outcome: watch::Receiver<Option<Result<TokenRecord, AuthError>>>,
    #[expect(dead_code, reason = "it is kept, so that the task ends with us")]
    task: OwnedTask,
}

impl Authorizer {
    /// Knows nothing of the account until it is asked.
    pub fn new(
        account: Account,
        settings: OauthSettings,
        store: Arc<dyn RecordStore>,
        fetch: Fetch,
        person: Arc<dyn SignInPerson>,
        options: SignInOptions,
    ) -> Self {
        let server = account.server.parse::<Uri>().unwrap_or_default();
        let mut reach = options.reach.clone();
        reach.allowed.extend(named_hosts(&settings));
        let fetch = AuthFetch::new(fetch, server, reach);
        let tools: Arc<dyn Tools> = Arc::new(SystemTools);
        let (page, paused) = Default::default();
        let inner = Inner { account, settings, store, fetch, person, options, tools, page, paused };
        Self { inner: Arc::new(inner), running: Arc::default() }
    }

    /// Has people come back to this page, in the place of a port. It is for one sign-in.
    #[must_use]
    pub fn coming_back_to(self, page: CallbackPage) -> Self {
        *lock(&self.inner.page) = Some(page);
        self
    }

    /// What the user says about signing in.
    pub fn settings(&self) -> &OauthSettings {
        &self.inner.settings
    }

    /// Whether a sign-in takes a person, and nobody may be asked.
    pub(super) fn asks_nobody(&self) -> bool {
        self.inner.needs_person() && self.inner.options.mode == LoginMode::Never
    }

    /// Chance, the time, and keys.
    pub(super) fn tools(&self) -> &Arc<dyn Tools> {
        &self.inner.tools
    }

    /// The tokens that are kept, as they are.
    pub async fn tokens(&self) -> Result<Option<TokenRecord>, AuthError> {
        self.inner.account.tokens(&*self.inner.store).await
    }

    /// Tokens to send, renewed if it is time. None if somebody has to sign in first.
    pub async fn current(&self) -> Result<Option<TokenRecord>, AuthError> {
        match self.tokens().await? {
            Some(record) if record.is_stale(self.inner.tools.now()) => self.renew(&record).await,
            record => Ok(record),
        }
    }

    /// Other tokens than `old`: those that another process got, or new ones for its refresh
    /// token. None if somebody has to sign in (OC-44, OC-45, OT-6).
    pub async fn renew(&self, old: &TokenRecord) -> Result<Option<TokenRecord>, AuthError> {
        let inner = &*self.inner;
        let id = inner.account.record(RecordKind::Tokens);
        let mut lock = inner.store.lock(&id).await.map_err(local)?;
        let Some(record) = read::<TokenRecord>(lock.read().await)? else { return Ok(None) };
        if record.access_token != old.access_token {
            return Ok(Some(record));
        }
        let is_over = record.is_over(inner.tools.now());
        // What is still good is used while there is nothing better.
        let kept = Some(record.clone()).filter(|_| !is_over);
        let paused = self::lock(&inner.paused).clone();
        if let Some((since, error)) = paused
            && now().saturating_duration_since(since) < RENEWAL_PAUSE
        {
            return kept.map(Some).ok_or(error);
        }
        let run = if record.refresh_token.is_some() {
            SignIn::renew(record.clone(), inner.settings.clone(), Arc::clone(&inner.tools))
        } else if inner.needs_person() {
            return Ok(kept);
        } else {
            SignIn::new(
                inner.goal(None, Some(record.clone()), String::new()),
                Arc::clone(&inner.tools),
            )
        };
        match inner.drive(run, None).await {
            Ok(renewed) => {
                write(&mut *lock, &renewed).await?;
                Ok(Some(renewed))
            }
            Err(error) if error.is_temporary() => {
                *self::lock(&inner.paused) = Some((now(), error.clone()));
                kept.map(Some).ok_or(error)
            }
            Err(error) => {
                tracing::info!(server = inner.name(), "tokens were not renewed: {error}");
                let is_forgotten =
                    matches!(error.code(), Some("invalid_client" | "unauthorized_client"));
                if is_forgotten && record.source.client.is_dynamic {
                    let issuer = record.source.issuer.clone();
                    inner.keep(&Registration { issuer, ..Registration::default() }).await?;
                }
                if is_forgotten || error.code() == Some("invalid_grant") {
                    let left = TokenRecord { refresh_token: None, ..record };
                    write(&mut *lock, &left).await?;
                }
                Ok(kept)
            }
        }
    }

    /// Signs in, whatever is there, and keeps the tokens. `challenge` is what the server
    /// asked for. Whoever calls while it goes on gets the same.
    pub async fn sign_in(&self, challenge: Option<Challenge>) -> Result<TokenRecord, AuthError> {
        self.sign_in_unless(challenge, None).await
    }

    /// Signs in, unless there are other tokens than `refused` by now.
    pub(super) async fn sign_in_unless(
        &self,
        challenge: Option<Challenge>,
        refused: Option<Secret>,
    ) -> Result<TokenRecord, AuthError> {
        let mut outcome = self.begin(challenge, refused);
        let gone = || AuthError::Local("the sign-in was given up".to_owned());
        let ended = outcome.wait_for(Option::is_some).await.map_err(|_| gone())?;
        ended.clone().unwrap_or_else(|| Err(gone()))
    }

    /// The sign-in that is on its way; another one if there is none.
    fn begin(
        &self,
        challenge: Option<Challenge>,
        refused: Option<Secret>,
    ) -> watch::Receiver<Option<Result<TokenRecord, AuthError>>> {
        let mut running = lock(&self.running);
        if let Some(running) = running.as_ref()
            && running.outcome.borrow().is_none()
            && running.outcome.has_changed().is_ok()
        {
            return running.outcome.clone();
        }
        let (done, outcome) = watch::channel(None);
        let inner = Arc::clone(&self.inner);
        let task = OwnedTask::spawn(async move {
            let ended = inner.sign_in(challenge, refused).await;
            done.send_replace(Some(ended));
        });
        *running = Some(SignInTask { outcome: outcome.clone(), task });
        outcome
    }

    /// Has the tokens taken back, and forgets them. False if there were none.
    pub async fn sign_out(&self) -> Result<bool, AuthError> {
        let inner = &*self.inner;
        let id = inner.account.record(RecordKind::Tokens);
        let mut lock = inner.store.lock(&id).await.map_err(local)?;
        let Some(record) = read::<TokenRecord>(lock.read().await)? else { return Ok(false) };
        lock.remove().await.map_err(local)?;
        let run = SignIn::revoke(record, inner.settings.clone(), Arc::clone(&inner.tools));
        inner.drive(run, None).await.map(|_| true)
    }
}

/// A sign-in of which this process is the owner: others wait for its lock.
struct OwnedSignIn {
    lock: Box<dyn RecordLock>,
    callback: Option<CallbackPlace>,
    /// The page is open already.
    is_shown: bool,
    /// A person was asked.
    is_asked: bool,
}

impl Inner {
    fn needs_person(&self) -> bool {
        matches!(self.settings.grant, GrantType::Code | GrantType::Device)
    }

    fn goal(&self, challenge: Option<Challenge>, before: Option<TokenRecord>, uri: String) -> Goal {
        let client_name = "Switchboard".to_owned();
        // A page has a host of its own; ports are on this machine.
        let is_native = self.account.principal.is_none();
        Goal {
            server: self.account.server.clone(),
            challenge,
            settings: self.settings.clone(),
            before,
            redirect: Redirect { uri, is_native, client_name },
        }
    }

    async fn sign_in(
        &self,
        challenge: Option<Challenge>,
        refused: Option<Secret>,
    ) -> Result<TokenRecord, AuthError> {
        if self.needs_person() && self.options.mode == LoginMode::Never {
            return Err(AuthError::NoPerson(format!("run `switchboard login {}`", self.name())));
        }
        let began_at = self.tools.now();
        let id = self.account.record(RecordKind::Pending);
        let free = self.store.try_lock(&id).await.map_err(local)?;
        let waited = free.is_none();
        let lock = if let Some(lock) = free {
            lock
        } else {
            self.person.show_waiting(self.name());
            self.store.lock(&id).await.map_err(local)?
        };
        let tokens = self.account.record(RecordKind::Tokens);
        let before: Option<TokenRecord> = read(self.store.read(&tokens).await)?;
        // Somebody has signed in meanwhile.
        let is_new = |before: &&TokenRecord| match &refused {
            Some(refused) => before.access_token != *refused,
            None => waited && before.issued_at >= began_at,
        };
        let is_good = |before: &&TokenRecord| !before.is_over(self.tools.now());
        if let Some(before) = before.as_ref().filter(is_new).filter(is_good) {
            return Ok(before.clone());
        }
        let pending: Option<PendingSignIn> = read(lock.read().await)?;
        // Who asks for it by hand begins anew.
        let pending = pending.filter(|_| refused.is_some());
        if let Some(error) = pending.as_ref().and_then(|it| it.failure(self.tools.now())) {
            return Err(error);
        }
        let asked = challenge.as_ref().map(Challenge::scopes).unwrap_or_default();
        let pending = pending.filter(|pending| {
            let has_scopes = asked.iter().all(|scope| pending.source.scopes.contains(scope));
            let age = Duration::from_secs(self.tools.now().saturating_sub(pending.began_at));
            has_scopes && pending.failure.is_none() && age < self.options.wait
        });
        let mut owned = OwnedSignIn { lock, callback: None, is_shown: false, is_asked: false };
        let run = match pending {
            Some(pending) if self.settings.grant == GrantType::Code => {
                owned.callback = self.bind_again(&pending).await.map(CallbackPlace::Port);
                owned.is_shown = owned.callback.is_some();
                owned.callback.is_some().then(|| {
                    SignIn::resume(pending, self.settings.clone(), Arc::clone(&self.tools))
                })
            }
            _ => None,
        };
        let run = if let Some(run) = run {
            run
        } else {
            if self.settings.grant == GrantType::Code {
                let page = self::lock(&self.page).take();
                owned.callback = Some(match page {
                    Some(page) => CallbackPlace::Page(page),
                    None => CallbackPlace::Port(self.bind().await?),
                });
            }
            let uri = owned.callback.as_ref().map(|callback| callback.redirect_uri().to_owned());
            let goal = self.goal(challenge, before, uri.unwrap_or_default());
            SignIn::new(goal, Arc::clone(&self.tools))
        };
        let ended = self.drive(run, Some(&mut owned)).await;
        if let Ok(record) = &ended {
            let mut lock = self.store.lock(&tokens).await.map_err(local)?;
            write(&mut *lock, record).await?;
            let (server, issuer) = (self.name(), &record.source.issuer);
            tracing::info!(server, issuer, "signed in");
        }
        self.settle(owned, ended.as_ref().err()).await;
        ended
    }

    /// Nobody comes back to a sign-in that has ended. One that a person refused is remembered,
    /// so that no other process asks them again at once.
    async fn settle(&self, mut owned: OwnedSignIn, error: Option<&AuthError>) {
        let left = match (read::<PendingSignIn>(owned.lock.read().await), error) {
            (Ok(Some(pending)), Some(error)) if owned.is_asked => {
                write(&mut *owned.lock, &pending.failed(error, self.tools.now())).await
            }
            _ => owned.lock.remove().await.map_err(local),
        };
        if let Err(error) = left {
            tracing::warn!(server = self.name(), "a sign-in that ended is still there: {error}");
        }
    }

    /// What to call the server; its URL may have secrets in its query.
    fn name(&self) -> &str {
        let url = self.account.server.split('?').next().unwrap_or_default();
        if self.options.name.is_empty() { url } else { &self.options.name }
    }

    async fn bind(&self) -> Result<CallbackListener, AuthError> {
        let SignInOptions { callback_host: host, callback_path: path, .. } = &self.options;
        let failed = |error: std::io::Error| {
            AuthError::Local(format!("no port to come back to can be opened: {error}"))
        };
        let port = self.options.callback_port;
        let first = port.unwrap_or_else(|| port_for(&self.account.server));
        let bound = match CallbackListener::bind(host, first, path).await {
            // Somebody else has it; another one takes another registration, perhaps.
            Err(_) if port.is_none() => CallbackListener::bind(host, 0, path).await,
            bound => bound,
        };
        let success_url = self.options.success_url.as_deref();
        bound.and_then(|callback| callback.with_success_url(success_url)).map_err(failed)
    }

    /// The port of a sign-in that another process began.
    async fn bind_again(&self, pending: &PendingSignIn) -> Option<CallbackListener> {
        let uri: Uri = pending.redirect_uri.parse().ok()?;
        CallbackListener::bind(uri.host()?, uri.port_u16()?, uri.path()).await.ok()
    }

    /// Does what the machine says, until it ends.
    async fn drive(
        &self,
        mut run: SignIn,
        mut owned: Option<&mut OwnedSignIn>,
    ) -> Result<TokenRecord, AuthError> {
        let (mut answer, mut is_reading) = (None, true);
        let began = now();
        loop {
            answer = Some(match run.step(answer.take()) {
                Step::Done(record) => return Ok(*record),
                Step::Failed(error) => return Err(error),
                Step::Fetch(_) if is_reading && now() > began + DISCOVERY => {
                    let url = self.account.server.clone();
                    let why = format!("reading took more than {} s", DISCOVERY.as_secs());
                    return Err(AuthError::Unreachable { url, why });
                }
                Step::Fetch(request) => Answer::Response(self.fetch.send(request).await),
                Step::FindRegistration { issuer } => {
                    let found = self.store.read(&self.registration(&issuer)).await;
                    Answer::Registration(read::<Registration>(found)?.map(Box::new))
                }
                Step::KeepRegistration(registration) => {
                    self.keep(&registration).await?;
                    Answer::Done
                }
                Step::Wait(time) => {
                    tokio::time::sleep(time).await;
                    Answer::Done
                }
                Step::ShowDevice { url, complete_url, code } => {
                    is_reading = false;
                    self.person.show_device(self.name(), &url, complete_url.as_deref(), &code);
                    Answer::Done
                }
                Step::Authorize(pending) => {
                    is_reading = false;
                    Answer::Code(match &mut owned {
                        Some(owned) => self.ask(owned, &pending).await,
                        None => Err(AuthError::Local("nobody can be asked here".to_owned())),
                    })
                }
            });
        }
    }

    fn registration(&self, issuer: &str) -> RecordId {
        // A client with a page to come back to is another than one with a port.
        let kind = if self.account.principal.is_some() { "\nweb" } else { "" };
        let name = format!("{issuer}\n{}{kind}", self.account.server);
        RecordId { kind: RecordKind::Registration, name }
    }

    async fn keep(&self, registration: &Registration) -> Result<(), AuthError> {
        let id = self.registration(&registration.issuer);
        let mut lock = self.store.lock(&id).await.map_err(local)?;
        if registration.client_id.is_empty() {
            return lock.remove().await.map_err(local);
        }
        write(&mut *lock, registration).await
    }

    /// Has a person open the page, and waits until they come back by our port, or paste
    /// the address that they were sent to.
    async fn ask(
        &self,
        owned: &mut OwnedSignIn,
        pending: &PendingSignIn,
    ) -> Result<Secret, AuthError> {
        // Whoever takes over finds it.
        write(&mut *owned.lock, pending).await?;
        owned.is_asked = true;
        let Some(callback) = &mut owned.callback else {
            return Err(AuthError::Local("there is no port to come back to".to_owned()));
        };
        if owned.is_shown {
            self.person.show_waiting(self.name());
        } else {
            self.person.show_page(self.name(), &pending.url);
        }
        let judge = |query: &str| pending.read_callback(query);
        let coming_back = callback.wait(judge);
        let pasting = async {
            loop {
                let pasted = self.person.pasted().await;
                let query = pasted.trim().split_once('?').map(|(_, query)| query);
                let query = query.and_then(|query| query.split('#').next());
                if let Some(code) = query.and_then(judge) {
                    return code;
                }
                tracing::warn!("this is not the address that the page led to");
            }
        };
        let age = self.tools.now().saturating_sub(pending.began_at);
        let wait = self.options.wait.saturating_sub(Duration::from_secs(age));
        let coming = race(coming_back, pasting);
        match tokio::time::timeout(wait, coming).await {
            Ok(Either::Left(code) | Either::Right(code)) => code,
            Err(_) => Err(AuthError::TimedOut),
        }
    }
}

/// Hosts that the user names, which may be anywhere.
fn named_hosts(settings: &OauthSettings) -> Vec<String> {
    let OauthSettings { issuer, metadata_url, endpoints, grant, .. } = settings;
    let provider = match grant {
        GrantType::Enterprise(provider) => Some(&provider.token_endpoint),
        _ => None,
    };
    let urls = [issuer, metadata_url, &endpoints.authorization, &endpoints.token];
    let urls = urls.into_iter().flatten().chain(provider);
    let hosts = urls.filter_map(|url| Some(url.parse::<Uri>().ok()?.host()?.to_owned()));
    hosts.collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn local(error: StoreError) -> AuthError {
    AuthError::Local(error.to_string())
}

fn read<T: DeserializeOwned>(
    found: Result<Option<Plaintext>, StoreError>,
) -> Result<Option<T>, AuthError> {
    let Some(content) = found.map_err(local)? else { return Ok(None) };
    // A record of another version is as good as none.
    Ok(serde_json::from_slice(&content).ok())
}

async fn write(lock: &mut dyn RecordLock, record: &impl Serialize) -> Result<(), AuthError> {
    let content =
        serde_json::to_vec(record).map_err(|error| AuthError::Local(error.to_string()))?;
    lock.write(&Plaintext::new(content)).await.map_err(local)
}

/// The clock, the chance and the keys of this machine.
#[derive(Debug)]
pub struct SystemTools;

impl Tools for SystemTools {
    fn random(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        // The system's source is there, or nothing here works.
        getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("no random bytes: {error}"));
        bytes
    }

    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn sha256(&self, bytes: &[u8]) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
        hash
    }

    fn new_key(&self) -> Result<Secret, AuthError> {
        generate_pem().map(Secret::new).map_err(bad_key)
    }

    fn public_key(&self, key: &Secret) -> Result<(Value, KeyAlgorithm), AuthError> {
        let signer = Signer::from_pem(key.reveal()).map_err(bad_key)?;
        Ok((signer.public_jwk(), signer.algorithm().name()))
    }

    fn sign(&self, key: &Secret, header: &Value, claims: &Value) -> Result<String, AuthError> {
        let signer = Signer::from_pem(key.reveal()).map_err(bad_key)?;
        signer.sign(header.clone(), claims).map_err(bad_key)
    }
}

fn bad_key(error: super::jws::SignError) -> AuthError {
    AuthError::Settings(format!("the private key cannot be used: {error}"))
}
