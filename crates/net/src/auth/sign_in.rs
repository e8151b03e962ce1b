//! One account at one server: its tokens, renewed and shared by all processes of the user.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Uri;
use switchboard_proto::auth::{
    AuthError, Challenge, Goal, GrantType, IdentityProvider, LONGEST_SIGN_IN, OauthSettings,
    Redirect, Secret, SignIn, TokenRecord, Tools,
};
use tokio::sync::watch;

use super::callback::CallbackPage;
use super::fetch::{AuthFetch, DocumentCache, ReachPolicy};
use super::person::SignInPerson;
use super::store::{RecordKind, RecordStore};
use super::tools::SystemTools;
use crate::connection::lock;
use crate::drive::OwnedTask;
use crate::http::fetch::Fetch;
use crate::secret::IdentityDigest;
use crate::upstream::PersonAsked;
use drive::{local, read};
use provider::provider_account;

mod account;
mod conduct;
mod discovery;
mod drive;
mod provider;
mod renewal;

pub use account::Account;
pub use discovery::{Discovery, MetadataRead};

/// How people are asked.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
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

setters! {
    SignInOptions {
        callback_host: impl Into<String>,
        callback_port: impl Into<Option<u16>>,
        callback_path: impl Into<String>,
        success_url: impl Into<Option<String>>,
        wait: Duration,
        mode: LoginMode,
        reach: ReachPolicy,
        name: impl Into<String>,
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

    /// Adds what decides whose tokens they are, and how they are got.
    pub fn digest(&self, digest: &mut IdentityDigest) {
        digest.add(self.inner.account.record(RecordKind::Tokens).name);
        // Secrets are not printed; the id that they belong to is.
        digest.add(format!("{:?}", self.inner.settings));
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
}

/// What to call the server; its URL may have secrets in its query.
fn shown_name<'s>(server: &'s str, options: &'s SignInOptions) -> &'s str {
    let url = server.split('?').next().unwrap_or_default();
    if options.name.is_empty() { url } else { &options.name }
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
