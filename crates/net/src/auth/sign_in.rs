//! One account at one server: its tokens, renewed and shared by all processes of the user.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Uri;
use serde::Serialize;
use serde::de::DeserializeOwned;
use switchboard_proto::auth::{
    Answer, AuthError, Challenge, Goal, GrantType, IdentityProvider, LONGEST_SIGN_IN,
    OauthSettings, ProviderToken, Redirect, Registration, ResourceParameter, Secret, SignIn, Step,
    TokenRecord, Tools,
};
use tokio::sync::watch;

use super::callback::CallbackPage;
use super::fetch::{AuthFetch, DocumentCache, ReachPolicy};
use super::person::SignInPerson;
use super::store::{Plaintext, RecordId, RecordKind, RecordLock, RecordStore, StoreError};
use super::tools::SystemTools;
use crate::connection::lock;
use crate::drive::{OwnedTask, now};
use crate::http::fetch::Fetch;
use crate::upstream::PersonAsked;
use conduct::OwnedSignIn;

mod conduct;

pub use discovery::{Discovery, MetadataRead};

mod discovery;

/// Whose tokens they are, and for which server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// The URL of the server, as the user wrote it.
    pub server: String,
    /// Tells several accounts at one server apart.
    pub account: Option<String>,
    /// The user of a gateway whose account it is.
    pub principal: Option<String>,
    /// Who is signed in, where it is not a person who says yes to us.
    pub grant: Option<String>,
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
        let ([server, account, principal], rest) = parts.split_first_chunk()?;
        let part = |part: &str| Some(part.to_owned()).filter(|part| !part.is_empty());
        let grant = match rest {
            [] => None,
            [grant] => part(grant),
            _ => return None,
        };
        let (account, principal) = (part(account), part(principal));
        Some(Self { server: (*server).to_owned(), account, principal, grant })
    }

    /// The account that these settings lead to. A client that is known by itself is not the
    /// person who signs in at the same server, nor another client.
    #[must_use]
    pub fn signing_in_by(self, settings: &OauthSettings) -> Self {
        let client = settings.client_id.as_deref().unwrap_or_default();
        let grant = match &settings.grant {
            GrantType::Code | GrantType::Device => None,
            GrantType::ClientCredentials => Some(format!("client-credentials {client}")),
            GrantType::Workload { .. } => Some(format!("workload {client}")),
            GrantType::Exchange { .. } => Some(format!("exchange {client}")),
            GrantType::Enterprise(provider) => {
                let issuer = match provider {
                    IdentityProvider::SignIn { issuer, .. } => issuer,
                    IdentityProvider::Token(token) => &token.source.issuer,
                };
                Some(format!("enterprise {client} {issuer}"))
            }
        };
        Self { grant, ..self }
    }

    /// The tokens that are kept of it, as they are.
    pub async fn tokens(&self, store: &dyn RecordStore) -> Result<Option<TokenRecord>, AuthError> {
        read(store.read(&self.record(RecordKind::Tokens)).await)
    }

    /// What its record of a kind is called.
    pub fn record(&self, kind: RecordKind) -> RecordId {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let (account, principal) = (part(&self.account), part(&self.principal));
        let grant = self.grant.as_ref().map(|grant| format!("\n{grant}")).unwrap_or_default();
        RecordId { kind, name: format!("{}\n{account}\n{principal}{grant}", self.server) }
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
    /// They are asked, and a bridge answers its clients meanwhile: hosts wait for less long.
    Defer,
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
    /// What was read for exchanges.
    documents: DocumentCache,
    person: Arc<dyn SignInPerson>,
    options: SignInOptions,
    tools: Arc<dyn Tools>,
    /// The page that people come back to, if it is not a port; for one sign-in.
    page: Mutex<Option<CallbackPage>>,
    /// The last renewal that failed for a while, and when.
    paused: Mutex<Option<(Instant, AuthError)>>,
    /// What a person was told who is being asked.
    asked: watch::Sender<Option<Arc<str>>>,
    /// A person would have had to be asked, and nobody may be.
    lacks_person: AtomicBool,
    /// The next sign-in is one that a person wants, whatever came of the last.
    asks_anew: AtomicBool,
    /// The account at the identity provider of the company, where the user signs in once for
    /// all servers (OX-2).
    provider: Option<Authorizer>,
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
    /// Knows nothing of the account until it is asked: that which the settings
    /// [lead to](Account::signing_in_by), or another whose tokens are kept.
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
        let server_url = account.server.clone();
        let provider = provider_account(&account, &settings).map(|(account, settings)| {
            let (store, person) = (Arc::clone(&store), Arc::clone(&person));
            // People know the server that they want to use.
            let name = shown_name(&server_url, &options).to_owned();
            let options = SignInOptions { name, ..options.clone() };
            Self::new(account, settings, store, fetch.clone(), person, options)
        });
        // A person who is asked there is asked for this, and others wait for them here.
        let asked = provider.as_ref().map(|provider: &Self| provider.inner.asked.clone());
        let fetch = AuthFetch::new(fetch, server, reach);
        let documents = DocumentCache::default();
        // The user named where tokens are exchanged, which is done for each user of a gateway.
        let fetch = match &settings.grant {
            GrantType::Exchange { .. } => fetch.remembering(documents.clone()),
            _ => fetch,
        };
        let inner = Inner {
            account,
            settings,
            store,
            fetch,
            documents,
            person,
            options,
            tools: Arc::new(SystemTools),
            page: Mutex::default(),
            paused: Mutex::default(),
            asked: asked.unwrap_or_default(),
            lacks_person: AtomicBool::new(false),
            asks_anew: AtomicBool::new(false),
            provider,
        };
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
        let takes_person = self.inner.needs_person() || self.inner.provider.is_some();
        takes_person && self.inner.options.mode == LoginMode::Never
    }

    /// Tells whether a person is being asked.
    pub fn person_asked(&self) -> PersonAsked {
        self.inner.asked.subscribe()
    }

    /// Whether a sign-in failed because nobody may be asked.
    pub fn lacks_person(&self) -> bool {
        let provider = self.inner.provider.as_ref();
        self.inner.lacks_person.load(Ordering::Relaxed) || provider.is_some_and(Self::lacks_person)
    }

    /// There are tokens to show: whoever was lacking has signed in meanwhile.
    pub(super) fn note_tokens(&self) {
        self.inner.lacks_person.store(false, Ordering::Relaxed);
        if let Some(provider) = &self.inner.provider {
            provider.note_tokens();
        }
    }

    /// A person wants to sign in: that one has failed a short while ago does not matter.
    pub(super) fn ask_anew(&self) {
        self.inner.asks_anew.store(true, Ordering::Relaxed);
        if let Some(provider) = &self.inner.provider {
            provider.ask_anew();
        }
    }

    /// What happens when somebody has to sign in.
    pub(super) fn mode(&self) -> LoginMode {
        self.inner.options.mode
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
        let mut goal = inner.goal(None, Some(record.clone()), String::new());
        let tools = Arc::clone(&inner.tools);
        let run = if record.refresh_token.is_some() {
            SignIn::renew(record.clone(), goal, tools)
        } else if inner.needs_person() {
            return Ok(kept);
        } else {
            if let Some(provider) = &inner.provider {
                let Some(grant) = provider.provider_token().await? else { return Ok(kept) };
                goal.settings.grant = grant;
            }
            SignIn::new(goal, tools)
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
                // Another process may have used it up, whatever its lock was worth.
                let now = read::<TokenRecord>(lock.read().await)?;
                if let Some(now) = now.filter(|now| now.access_token != record.access_token) {
                    return Ok(Some(now));
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

    /// The same for a person who asks for it: at the identity provider, too, whatever is known
    /// from there.
    pub async fn sign_in_by_hand(
        &self,
        challenge: Option<Challenge>,
    ) -> Result<TokenRecord, AuthError> {
        if let Some(provider) = &self.inner.provider {
            provider.ask_anew();
            provider.sign_in_as_provider().await?;
        }
        self.sign_in(challenge).await
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
            inner.asked.send_replace(None);
            done.send_replace(Some(ended));
        });
        *running = Some(SignInTask { outcome: outcome.clone(), task });
        outcome
    }

    /// What shows an authorization server who the user is, if they are signed in here (OX-2).
    fn provider_token<'a>(
        &'a self,
    ) -> Pin<Box<dyn Future<Output = Result<Option<GrantType>, AuthError>> + Send + 'a>> {
        Box::pin(async move {
            let Some(mut record) = self.current().await? else { return Ok(None) };
            if self.is_id_over(&record) {
                record = self.renew(&record).await?.unwrap_or(record);
            }
            Ok(self.as_grant(&record))
        })
    }

    /// The same after a person has signed in here.
    async fn sign_in_as_provider(&self) -> Result<GrantType, AuthError> {
        let refused = self.tokens().await?.map(|record| record.access_token).unwrap_or_default();
        let record = self.sign_in_unless(None, Some(refused)).await?;
        let issuer = &self.inner.account.server;
        let missing = || AuthError::Settings(format!("{issuer} says nothing of its user"));
        self.as_grant(&record).ok_or_else(missing)
    }

    /// Whether the last sign-in here was too long ago for a refusal to be about anything else:
    /// people are not asked again and again.
    async fn is_token_old(&self) -> Result<bool, AuthError> {
        let since = self.tokens().await?.map(|record| record.issued_at);
        let now = self.inner.tools.now();
        Ok(since.is_some_and(|since| now.saturating_sub(since) >= LONGEST_SIGN_IN))
    }

    fn is_id_over(&self, record: &TokenRecord) -> bool {
        let end = record.id_claims().and_then(|claims| claims["exp"].as_u64());
        end.is_none_or(|end| end <= self.inner.tools.now())
    }

    /// The ID token, or the refresh token if that is over.
    fn as_grant(&self, record: &TokenRecord) -> Option<GrantType> {
        let id_token = record.id_token.clone().filter(|_| !self.is_id_over(record));
        let is_refresh_token = id_token.is_none();
        let token = id_token.or_else(|| record.refresh_token.clone())?;
        let token = ProviderToken { source: record.source.clone(), token, is_refresh_token };
        Some(GrantType::Enterprise(IdentityProvider::Token(Box::new(token))))
    }

    /// A token for the user whose access token `subject` is. It is not kept (OX-6).
    pub async fn exchange(&self, subject: Secret) -> Result<TokenRecord, AuthError> {
        let mut goal = self.inner.goal(None, None, String::new());
        goal.settings.grant = GrantType::Exchange { subject: Some(subject) };
        let run = SignIn::new(goal, Arc::clone(&self.inner.tools));
        self.inner.drive(run, None).await.inspect_err(|_| self.inner.documents.clear())
    }

    /// Has the tokens taken back, and forgets them in any case. False if there were none.
    pub async fn sign_out(&self) -> Result<bool, AuthError> {
        let inner = &*self.inner;
        let id = inner.account.record(RecordKind::Tokens);
        let mut lock = inner.store.lock(&id).await.map_err(local)?;
        let Some(record) = read::<TokenRecord>(lock.read().await)? else { return Ok(false) };
        let run = SignIn::revoke(record, inner.settings.clone(), Arc::clone(&inner.tools));
        let revoked = inner.drive(run, None).await;
        lock.remove().await.map_err(local)?;
        let forgotten = "forgotten here; the authorization server could not be told";
        revoked.map(|_| true).map_err(|error| AuthError::Local(format!("{forgotten} ({error})")))
    }
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

    /// Another process has the page open.
    fn show_waiting(&self) {
        self.person.show_waiting(self.name(), None);
        let server = self.name();
        self.note_asked(format!("Sign in to {server} in the page that another process opened."));
    }

    fn note_asked(&self, text: String) {
        self.asked.send_replace(Some(text.into()));
    }

    fn name(&self) -> &str {
        shown_name(&self.account.server, &self.options)
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
                    self.note_asked(format!("Open {url} in a browser and type the code {code}."));
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
}

/// What to call the server; its URL may have secrets in its query.
fn shown_name<'s>(server: &'s str, options: &'s SignInOptions) -> &'s str {
    let url = server.split('?').next().unwrap_or_default();
    if options.name.is_empty() { url } else { &options.name }
}

/// The account at the identity provider that a server's settings name, and how people sign in
/// there: for all servers of the same user alike.
fn provider_account(
    account: &Account,
    settings: &OauthSettings,
) -> Option<(Account, OauthSettings)> {
    let GrantType::Enterprise(IdentityProvider::SignIn { issuer, client_id, client_secret }) =
        &settings.grant
    else {
        return None;
    };
    let settings = OauthSettings {
        client_id: Some(client_id.clone()),
        client_secret: client_secret.clone(),
        issuer: Some(issuer.clone()),
        scopes: Some(vec!["openid".to_owned()]),
        resource: ResourceParameter::LeftOut,
        is_local: true,
        ..OauthSettings::default()
    };
    Some((Account { server: issuer.clone(), grant: None, ..account.clone() }, settings))
}

/// Hosts that the user names, which may be anywhere.
fn named_hosts(settings: &OauthSettings) -> Vec<String> {
    let OauthSettings { issuer, metadata_url, endpoints, grant, .. } = settings;
    let provider = match grant {
        GrantType::Enterprise(IdentityProvider::Token(token)) => Some(&token.source.token_endpoint),
        GrantType::Enterprise(IdentityProvider::SignIn { issuer, .. }) => Some(issuer),
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
