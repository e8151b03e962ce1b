//! Users connect their own accounts at servers: links, pages, and the sign-in behind them.
//!
//! ```text
//!   a call needs an account ──▶ link(): /connect/ID, for this user and server
//!   GET  /connect/ID   what is connected, and a form that asks for the user's key
//!   POST /connect/ID   the right key: the link is used up, and a page leads to the sign-in
//!   GET  /oauth/callback   the same browser comes back; tokens are kept for this user
//!   GET  /oauth/client.json   who the gateway is, for authorization servers, and its key
//!   GET  /oauth/public-client.json   the same without a key
//! ```
//!
//! A user with an access token signs in at their issuer in place of showing a key.
//!
//! A link says nothing of its user. Only the user that it was made for can use it: otherwise
//! whoever sends it on would get somebody else's account tied to their own key (OU-3).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::Duration;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;
use switchboard_net::OwnedTask;
use switchboard_net::auth::callback::{CallbackDesk, CallbackPage};
use switchboard_net::auth::person::SignInPerson;
use switchboard_net::auth::{Authorizer, LoginMode, SignInOptions};
use switchboard_net::call::ReplySink as _;
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::fetch::Fetch;
use switchboard_net::http::page::{LivePage, PageReply, PageVisit};
use switchboard_net::http::site::SitePage;
use switchboard_proto::auth::{Challenge, GrantType, OauthSettings, Secret};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use tokio::sync::{Notify, OnceCell, oneshot, watch};
use tokio::time::Instant;

use crate::account::Accounts;
use crate::authenticator::{Authenticator, Hearing};
use crate::facade::{self, FacadeError};
use crate::fleet::Fleet;
use crate::idp::{IdpClient, IdpVisit};
use crate::plan::ServerPlan;
use crate::token::{IssuerRule, TokenAccess};
use crate::{lock, read, write};

/// How long a link, and the sign-in that it leads to, may take (OU-2, OC-36).
pub(crate) const LINK_LIFE: Duration = Duration::from_mins(10);
/// Links and sign-ins of all users that are pending (OB-1).
const MOST_PENDING: usize = 1000;
/// Those of one user.
const MOST_OF_ONE: usize = 10;
/// Wrong keys that one link takes.
const MOST_WRONG_KEYS: usize = 5;
/// Wrong keys of all links in a minute.
const MOST_WRONG_A_MINUTE: usize = 60;
/// Clients that are told when the sign-in of one link is done.
const MOST_TOLD: usize = 16;
/// How long it may take until it is known where to sign in.
const BEGINNING: Duration = Duration::from_secs(35);

/// Where links are.
pub const CONNECT_PATH: &str = "/connect";
/// Where people come back to.
pub const CALLBACK_PATH: &str = "/oauth/callback";
/// Where authorization servers read who we are, with our key (OC-21).
pub const DOCUMENT_PATH: &str = "/oauth/client.json";
/// The same without a key, for those that take no signatures.
pub const PUBLIC_DOCUMENT_PATH: &str = "/oauth/public-client.json";

/// Connects users with servers.
pub struct UserConnector {
    accounts: Accounts,
    fetch: Fetch,
    /// Where people find us.
    base: RwLock<Option<String>>,
    authenticator: OnceLock<Arc<Authenticator>>,
    fleet: OnceLock<Weak<Fleet>>,
    state: Mutex<ConnectState>,
    /// Counts the sign-ins that are done.
    done: watch::Sender<u64>,
    /// Signs the forms.
    secret: hmac::Key,
    /// Made when it is first needed, for the store may ask for a key of its own.
    client_key: OnceCell<Secret>,
    /// Whether users had accounts to look at.
    has_looked: AtomicBool,
    /// Users or servers may be others.
    changed: Arc<Notify>,
    /// Deletes the accounts of users who are gone.
    watching: OnceLock<(Hearing, OwnedTask)>,
    this: Weak<Self>,
}

#[derive(Default)]
struct ConnectState {
    links: HashMap<String, ConnectLink>,
    /// Visitors who show at their issuer who they are.
    visitors: Vec<IssuerVisitor>,
    flows: Vec<ConnectFlow>,
    /// When wrong keys were shown.
    wrong: VecDeque<Instant>,
}

/// A page that a user was sent to.
struct ConnectLink {
    server: Arc<ServerPlan>,
    principal: String,
    made: Instant,
    wrong_keys: usize,
    told: Vec<Weak<ClientConnection>>,
}

/// A sign-in that was begun.
struct ConnectFlow {
    server: String,
    principal: String,
    /// The browser that it belongs to.
    browser: String,
    desk: CallbackDesk,
    began: Instant,
    /// The link that it began with.
    id: String,
    ended: watch::Receiver<Option<FlowEnd>>,
    _task: OwnedTask,
}

/// What came of a sign-in.
type FlowEnd = Result<(), String>;

/// Somebody who opened the link of a user with an access token.
struct IssuerVisitor {
    id: String,
    browser: String,
    client: Arc<IdpClient>,
    visit: IdpVisit,
    began: Instant,
}

/// Where a user is sent.
#[derive(Clone, Debug)]
pub(crate) struct SignInLink {
    pub(crate) id: String,
    pub(crate) url: String,
}

impl UserConnector {
    /// Connects users with the accounts of this store.
    pub fn new(accounts: Accounts, fetch: Fetch) -> Arc<Self> {
        let secret = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        // Without randomness no link can be made either.
        let secret = secret.unwrap_or_else(|_| hmac::Key::new(hmac::HMAC_SHA256, &[]));
        Arc::new_cyclic(|this| Self {
            accounts,
            fetch,
            base: RwLock::default(),
            authenticator: OnceLock::new(),
            fleet: OnceLock::new(),
            state: Mutex::default(),
            done: watch::Sender::new(0),
            secret,
            client_key: OnceCell::new(),
            has_looked: AtomicBool::new(false),
            changed: Arc::default(),
            watching: OnceLock::new(),
            this: Weak::clone(this),
        })
    }

    /// The accounts that it connects.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// People find us there from here on: a URL without a slash at its end. Called after each
    /// change of the plan, too: accounts of those who are gone are looked for.
    pub fn set_base(&self, url: Option<String>) {
        *write(&self.base) = url;
        self.changed.notify_one();
    }

    pub(crate) fn serve(&self, fleet: &Arc<Fleet>, authenticator: &Arc<Authenticator>) {
        _ = self.fleet.set(Arc::downgrade(fleet));
        _ = self.authenticator.set(Arc::clone(authenticator));
        let users = Arc::downgrade(authenticator);
        self.accounts.subjects.set(move |name| users.upgrade()?.subject_token(name));
        self.watching.get_or_init(|| {
            let changed = Arc::clone(&self.changed);
            let task = gone::watch_gone(Weak::clone(&self.this), Arc::clone(&changed));
            (authenticator.on_replace(move || changed.notify_one()), OwnedTask::spawn(task))
        });
    }

    /// The pages, by path.
    pub fn pages(self: &Arc<Self>) -> Vec<(String, SitePage)> {
        let page = |path: &str, page| (path.to_owned(), SitePage::Live(page));
        let links: Arc<dyn LivePage> = Arc::new(ConnectPage(Arc::clone(self)));
        let callback: Arc<dyn LivePage> = Arc::new(ReturnPage(Arc::clone(self)));
        let document: Arc<dyn LivePage> = Arc::new(DocumentPage(Arc::clone(self)));
        vec![
            page(CONNECT_PATH, links),
            page(CALLBACK_PATH, callback),
            page(DOCUMENT_PATH, Arc::clone(&document)),
            page(PUBLIC_DOCUMENT_PATH, document),
        ]
    }

    /// A link for a user, to connect a server; why there is none. The user's link to the same
    /// server is given again while it is new. `client` is told when the sign-in is done.
    pub(crate) fn link(
        &self,
        server: &Arc<ServerPlan>,
        principal: &str,
        client: Option<&Arc<ClientConnection>>,
    ) -> Result<SignInLink, String> {
        if principal.is_empty() {
            return Err("a client without a key cannot sign in; send a key of your own".to_owned());
        }
        let Some(base) = read(&self.base).clone() else {
            return Err("the gateway does not know where people find it; its owner sets \
                        \"publicUrl\" in the section \"switchboard\""
                .to_owned());
        };
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.forget_old(now);
        // What the server was before a reload is nothing to sign in to.
        let is_old = |it: &ConnectLink| it.server.name == server.name && it.server != *server;
        state.links.retain(|_, it| !is_old(it));
        let is_same = |it: &ConnectLink| {
            it.principal == principal && it.server == *server && now < it.made + LINK_LIFE / 2
        };
        let known = state.links.iter().find(|(_, it)| is_same(it)).map(|(id, _)| id.clone());
        let id = match known {
            Some(id) => id,
            None => state.make_link(server, principal, now)?,
        };
        if let (Some(link), Some(client)) = (state.links.get_mut(&id), client) {
            link.told.retain(|it| it.strong_count() > 0);
            let is_new = !link.told.iter().any(|it| it.as_ptr() == Arc::as_ptr(client));
            if is_new && link.told.len() < MOST_TOLD {
                link.told.push(Arc::downgrade(client));
            }
        }
        let url = format!("{base}{CONNECT_PATH}/{id}");
        Ok(SignInLink { id, url })
    }

    /// Waits until a user has signed in to a server, for so long.
    pub(crate) async fn connected(
        &self,
        server: &ServerPlan,
        principal: &str,
        patience: Duration,
    ) -> bool {
        let mut done = self.done.subscribe();
        let waiting = async {
            while !self.accounts.is_connected(server, principal).await {
                done.borrow_and_update();
                // Asked again: it may have been done just before.
                if self.accounts.is_connected(server, principal).await {
                    break;
                }
                if done.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(patience, waiting).await.is_ok()
    }

    /// Where the documents are that say who we are, if that has https.
    fn document_base(&self) -> Option<String> {
        read(&self.base).clone().filter(|base| base.starts_with("https://"))
    }

    /// What we show who we are by, at authorization servers that take signatures.
    async fn client_key(&self) -> Result<&Secret, FacadeError> {
        self.client_key.get_or_try_init(|| facade::client_key(&*self.accounts.store)).await
    }

    /// The server, to sign in to: our documents say who we are there, unless the file says
    /// something else.
    async fn described(&self, server: &ServerPlan) -> Result<ServerPlan, FacadeError> {
        let mut server = server.clone();
        let settings = &mut server.oauth.settings;
        let is_ours = settings.grant == GrantType::Code
            && settings.client_id.is_none()
            && settings.private_key.is_none()
            && settings.client_metadata_url.is_none();
        if let Some(base) = self.document_base().filter(|_| is_ours) {
            settings.private_key = Some(self.client_key().await?.clone());
            settings.client_metadata_url = Some(format!("{base}{DOCUMENT_PATH}"));
            settings.public_metadata_url = Some(format!("{base}{PUBLIC_DOCUMENT_PATH}"));
        }
        Ok(server)
    }

    /// Begins the sign-in of a link that its own user has opened: where the browser goes.
    async fn begin(&self, link: ConnectLink, browser: &str, id: &str) -> Result<String, String> {
        let base = read(&self.base).clone().unwrap_or_default();
        let (page, desk) = CallbackPage::new(format!("{base}{CALLBACK_PATH}"));
        let (show, shown) = oneshot::channel();
        let person = Arc::new(BrowserVisitor(Mutex::new(Some(show))));
        let options = SignInOptions {
            mode: LoginMode::Wait,
            wait: LINK_LIFE,
            ..self.accounts.options.clone()
        };
        let accounts = Accounts { options, ..self.accounts.clone() };
        let ConnectLink { server, principal, told, .. } = link;
        let fetch = self.fetch.clone();
        let described = self.described(&server).await.map_err(|failed| failed.to_string())?;
        let authorizer = accounts.authorizer(&described, Some(&principal), fetch, person);
        let authorizer = authorizer.ok_or("the server has no account to sign in to")?;
        let authorizer = authorizer.coming_back_to(page);
        let challenge = self.accounts.challenge(&server, &principal);
        let (end, ended) = watch::channel(None);
        let run = FlowRun {
            connector: Weak::clone(&self.this),
            server: Arc::clone(&server),
            principal: principal.clone(),
            id: id.to_owned(),
            told,
            end,
        };
        let flow = ConnectFlow {
            server: server.name.clone(),
            principal,
            browser: browser.to_owned(),
            desk,
            began: Instant::now(),
            id: id.to_owned(),
            ended: ended.clone(),
            _task: OwnedTask::spawn(run.sign_in(authorizer, challenge)),
        };
        lock(&self.state).replace_flow(flow);
        if let Ok(Ok(url)) = tokio::time::timeout(BEGINNING, shown).await {
            return Ok(url);
        }
        lock(&self.state).flows.retain(|flow| flow.id != id);
        let why = ended.borrow().clone().and_then(Result::err);
        Err(why.unwrap_or_else(|| "it takes too long to find out where to sign in".to_owned()))
    }

    /// The issuer that a user with an access token shows who they are at; none for users
    /// with a key.
    fn issuer_of(&self, principal: &str) -> Option<IssuerRule> {
        let (name, _) = principal.split_once('/')?;
        // The names of keys do not begin like that.
        self.authenticator.get()?.issuers().rule(name)
    }

    /// A client of the issuer of a user, which learns who a visitor is (OU-3).
    fn idp_client(&self, rule: &IssuerRule) -> Result<IdpClient, String> {
        let missing = || {
            format!(
                "The gateway has no client id at {}. Its owner sets \"clientId\" of the issuer {:?}.",
                rule.issuer, rule.name
            )
        };
        let authenticator = self.authenticator.get().ok_or_else(missing)?;
        let settings = idp_settings(rule, authenticator.tokens().as_deref()).ok_or_else(missing)?;
        let fetch = self.fetch.clone();
        IdpClient::new(authenticator, &rule.name, settings, fetch).ok_or_else(missing)
    }

    /// What the form of a link has, for this browser.
    fn form_token(&self, browser: &str, id: &str) -> String {
        hex(hmac::sign(&self.secret, format!("{browser} {id}").as_bytes()).as_ref())
    }

    /// Whether one more wrong key may be shown.
    fn may_guess(&self) -> bool {
        let mut state = lock(&self.state);
        let now = Instant::now();
        while state.wrong.front().is_some_and(|at| *at + Duration::from_mins(1) <= now) {
            state.wrong.pop_front();
        }
        state.wrong.len() < MOST_WRONG_A_MINUTE
    }

    /// Takes the link if the visitor is the user that it is for.
    fn take(&self, id: &str, shown: Option<&str>) -> Result<ConnectLink, Refused> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.forget_old(now);
        let Some(link) = state.links.get_mut(id) else { return Err(Refused::Gone) };
        if shown == Some(&*link.principal) {
            return state.links.remove(id).ok_or(Refused::Gone);
        }
        link.wrong_keys += 1;
        tracing::warn!(
            server = link.server.name,
            "a link to sign in was opened by somebody else than its user"
        );
        if link.wrong_keys >= MOST_WRONG_KEYS {
            state.links.remove(id);
        }
        state.wrong.push_back(now);
        Err(Refused::Other)
    }
}

/// Who we are at an issuer: what its block says, else what the facade before it has.
fn idp_settings(rule: &IssuerRule, tokens: Option<&TokenAccess>) -> Option<OauthSettings> {
    let facade = tokens.and_then(|it| it.facade.as_ref()).filter(|it| it.issuer == rule.name);
    let (client_id, client_secret) = match (&rule.client_id, facade) {
        (Some(id), _) => (id.clone(), rule.client_secret.clone()),
        (None, Some(it)) => (it.client_id.clone(), it.client_secret.clone().map(Secret::new)),
        (None, None) => return None,
    };
    let (client_id, is_brief) = (Some(client_id), true);
    Some(OauthSettings { client_id, client_secret, is_brief, ..OauthSettings::default() })
}

/// Why a visitor may not begin.
enum Refused {
    /// There is no such link any more.
    Gone,
    /// It is for another user.
    Other,
}

impl ConnectState {
    /// Forgets what is over.
    fn forget_old(&mut self, now: Instant) {
        self.links.retain(|_, link| now < link.made + LINK_LIFE);
        self.flows.retain(|flow| now < flow.began + LINK_LIFE);
        self.visitors.retain(|visitor| now < visitor.began + LINK_LIFE);
    }

    /// Two sign-ins for one account would wait for each other: the last one counts.
    fn replace_flow(&mut self, flow: ConnectFlow) {
        let is_other =
            |it: &ConnectFlow| it.server != flow.server || it.principal != flow.principal;
        self.flows.retain(is_other);
        self.flows.push(flow);
    }

    fn make_link(
        &mut self,
        server: &Arc<ServerPlan>,
        principal: &str,
        now: Instant,
    ) -> Result<String, String> {
        let own = self.links.iter().filter(|(_, it)| it.principal == principal);
        let oldest = own.clone().min_by_key(|(_, it)| it.made).map(|(id, _)| id.clone());
        if own.count() >= MOST_OF_ONE {
            self.links.remove(&oldest.unwrap_or_default());
        }
        if self.links.len() + self.flows.len() + self.visitors.len() >= MOST_PENDING {
            return Err("too many users sign in at once; try again in some minutes".to_owned());
        }
        let id = random_id().ok_or("the system has no random numbers")?;
        let (server, principal) = (Arc::clone(server), principal.to_owned());
        let told = Vec::new();
        let link = ConnectLink { server, principal, made: now, wrong_keys: 0, told };
        self.links.insert(id.clone(), link);
        Ok(id)
    }
}

/// 128 random bits.
fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|sign| sign.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    digits.filter(|digits| digits.len() % 2 == 0)?.chunks(2).map(byte).collect()
}

/// A sign-in on its way.
struct FlowRun {
    connector: Weak<UserConnector>,
    server: Arc<ServerPlan>,
    principal: String,
    id: String,
    told: Vec<Weak<ClientConnection>>,
    end: watch::Sender<Option<FlowEnd>>,
}

impl FlowRun {
    async fn sign_in(self, authorizer: Authorizer, challenge: Option<Challenge>) {
        let ended = authorizer.sign_in(challenge).await;
        let (server, user) = (&*self.server.name, &*self.principal);
        let Some(connector) = self.connector.upgrade() else { return };
        match &ended {
            Err(error) => tracing::info!(server, user, "the user is not connected: {error}"),
            Ok(_) => self.tell(&connector),
        }
        self.end.send_replace(Some(ended.map(drop).map_err(|error| error.to_string())));
        // It waits for nothing any more, and takes no place from others.
        lock(&connector.state).flows.retain(|flow| flow.id != self.id);
    }

    /// Everybody hears that the user is connected.
    fn tell(&self, connector: &UserConnector) {
        let (server, user) = (&*self.server.name, &*self.principal);
        tracing::info!(server, user, "the user is connected");
        connector.accounts.forget_challenge(&self.server, user);
        connector.done.send_modify(|done| *done += 1);
        if let Some(fleet) = connector.fleet.get().and_then(Weak::upgrade) {
            fleet.handle_connected(server, user);
        }
        let params = json!({"elicitationId": self.id}).to_string();
        let message = Message::notification(method::ELICITED, Some(params.as_bytes()));
        for client in self.told.iter().filter_map(Weak::upgrade) {
            client.note(None, &message);
        }
    }
}

/// Whoever opened a link: their browser is sent to the page.
#[derive(Debug)]
struct BrowserVisitor(Mutex<Option<oneshot::Sender<String>>>);

impl SignInPerson for BrowserVisitor {
    fn show_page(&self, _server: &str, url: &str) {
        if let Some(show) = lock(&self.0).take() {
            // Somebody who is gone needs no page.
            _ = show.send(url.to_owned());
        }
    }

    fn show_device(&self, _server: &str, url: &str, complete_url: Option<&str>, _code: &str) {
        self.show_page("", complete_url.unwrap_or(url));
    }

    fn show_waiting(&self, _server: &str, _url: Option<&str>) {}

    fn pasted<'p>(&'p self) -> std::pin::Pin<Box<dyn Future<Output = String> + Send + 'p>> {
        Box::pin(std::future::pending())
    }
}

struct ConnectPage(Arc<UserConnector>);

impl LivePage for ConnectPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(self.0.visit_link(visit))
    }
}

struct ReturnPage(Arc<UserConnector>);

impl LivePage for ReturnPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(self.0.visit_callback(visit))
    }
}

struct DocumentPage(Arc<UserConnector>);

impl LivePage for DocumentPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(async move { self.0.visit_document(&visit).await })
    }
}

mod gone;
mod pages;
#[cfg(test)]
mod tests;
