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
use switchboard_net::OwnedTask;
use switchboard_net::auth::callback::CallbackDesk;
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::fetch::Fetch;
use switchboard_net::http::page::LivePage;
use switchboard_net::http::site::SitePage;
use switchboard_proto::auth::Secret;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;

use crate::account::Accounts;
use crate::authenticator::{Authenticator, Hearing};
use crate::fleet::Fleet;
use crate::idp::{Identity, IdpClient, IdpVisit};
use crate::plan::ServerPlan;
use crate::{lock, read, write};
use pages::{ConnectPage, DocumentPage, ReturnPage};

#[cfg(feature = "console")]
pub(crate) use pages::form_fields;

mod client_document;
mod connect_flow;
mod gone;
mod pages;
#[cfg(test)]
mod tests;
mod visitor;

/// How long a link, and the sign-in that it leads to, may take (OU-2, OC-36).
pub(crate) const LINK_LIFE: Duration = Duration::from_mins(10);
/// Links and sign-ins of all users that are pending (OB-1).
const MOST_PENDING: usize = 1000;
/// Those of one user.
const MOST_OF_ONE: usize = 10;
/// Clients that are told when the sign-in of one link is done.
const MOST_TOLD: usize = 16;

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
    /// Lets people in to the console, if there is one.
    console: OnceLock<Box<ConsoleDoor>>,
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
    purpose: VisitPurpose,
    browser: String,
    client: Arc<IdpClient>,
    visit: IdpVisit,
    began: Instant,
}

/// Why somebody shows at an issuer who they are.
#[derive(Eq, PartialEq)]
enum VisitPurpose {
    /// They are to be the user of this link.
    Link(String),
    /// They look at the console.
    Console,
}

/// Says where people go on who want to look at the console, or why they do not.
type ConsoleDoor = dyn Fn(&Identity) -> Result<String, String> + Send + Sync;

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
            console: OnceLock::new(),
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

    /// Deletes the account of a user at a server, and has its issuer revoke it.
    #[cfg(feature = "console")]
    pub(crate) async fn disconnect(
        &self,
        server: &ServerPlan,
        principal: &str,
    ) -> Result<(), String> {
        let person = Arc::new(switchboard_net::auth::person::Nobody);
        let fetch = self.fetch.clone();
        let authorizer = self.accounts.authorizer(server, Some(principal), fetch, person);
        let authorizer = authorizer.ok_or("the server has no accounts")?;
        authorizer.sign_out().await.map(drop).map_err(|why| why.to_string())
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
pub(crate) fn random_id() -> Option<String> {
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
