//! Users connect their own accounts at servers: links, pages, and the sign-in behind them.
//!
//! ```text
//!   a call needs an account ──▶ link(): /connect/ID, for this user and server
//!   GET  /connect/ID   what is connected to what, and a form that asks for the user's key
//!   POST /connect/ID   the right key: the link is used up, the browser goes to sign in
//!   GET  /oauth/callback   the same browser comes back; tokens are kept for this user
//! ```
//!
//! A link says nothing of its user. Only the user that it was made for can use it: otherwise
//! whoever sends it on would get somebody else's account tied to their own key (OU-3).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use percent_encoding::percent_decode;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;
use switchboard_net::OwnedTask;
use switchboard_net::auth::callback::{CallbackDesk, CallbackPage, CallbackVerdict};
use switchboard_net::auth::person::SignInPerson;
use switchboard_net::auth::{Authorizer, LoginMode, SignInOptions};
use switchboard_net::call::ReplySink as _;
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::fetch::Fetch;
use switchboard_net::http::page::{LivePage, PageReply, PageVisit, escape, html, leave_page};
use switchboard_net::http::site::SitePage;
use switchboard_proto::auth::{AuthError, Challenge};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::account::Accounts;
use crate::authenticator::Authenticator;
use crate::fleet::Fleet;
use crate::plan::ServerPlan;
use crate::{lock, read, write};

/// How long a link, and the sign-in that it leads to, may take (OU-2, OC-36).
pub(crate) const LINK_LIFE: Duration = Duration::from_mins(10);
/// Links and sign-ins of all users that are pending (OB-1).
const MOST_PENDING: usize = 1000;
/// Those of one user.
const MOST_OF_ONE: usize = 10;
/// Wrong keys that one link takes.
const MOST_WRONG_KEYS: u8 = 5;
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

/// Connects users with servers.
pub struct Connector {
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
    this: Weak<Self>,
}

#[derive(Default)]
struct ConnectState {
    links: HashMap<String, ConnectLink>,
    flows: Vec<ConnectFlow>,
    /// When wrong keys were shown.
    wrong: VecDeque<Instant>,
}

/// A page that a user was sent to.
struct ConnectLink {
    server: Arc<ServerPlan>,
    principal: String,
    made: Instant,
    wrong_keys: u8,
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
    _task: OwnedTask,
}

/// Where a user is sent.
#[derive(Clone, Debug)]
pub(crate) struct SignInLink {
    pub(crate) id: String,
    pub(crate) url: String,
}

impl Connector {
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
            this: Weak::clone(this),
        })
    }

    /// The accounts that it connects.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// People find us there from here on: a URL without a slash at its end.
    pub fn set_base(&self, url: Option<String>) {
        *write(&self.base) = url;
    }

    pub(crate) fn serve(&self, fleet: &Arc<Fleet>, authenticator: &Arc<Authenticator>) {
        _ = self.fleet.set(Arc::downgrade(fleet));
        _ = self.authenticator.set(Arc::clone(authenticator));
    }

    /// The pages, by path.
    pub fn pages(self: &Arc<Self>) -> Vec<(String, SitePage)> {
        let page = |path: &str, page| (path.to_owned(), SitePage::Live(page));
        let links: Arc<dyn LivePage> = Arc::new(ConnectPage(Arc::clone(self)));
        let callback: Arc<dyn LivePage> = Arc::new(ReturnPage(Arc::clone(self)));
        vec![page(CONNECT_PATH, links), page(CALLBACK_PATH, callback)]
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
        let authorizer = accounts.authorizer(&server, Some(&principal), fetch, person);
        let authorizer = authorizer.ok_or("the server has no account to sign in to")?;
        let authorizer = authorizer.coming_back_to(page);
        let challenge = self.accounts.challenge(&server, &principal);
        let failed: Arc<Mutex<Option<AuthError>>> = Arc::default();
        let run = FlowRun {
            connector: Weak::clone(&self.this),
            server: Arc::clone(&server),
            principal: principal.clone(),
            id: id.to_owned(),
            told,
            failed: Arc::clone(&failed),
        };
        let flow = ConnectFlow {
            server: server.name.clone(),
            principal,
            browser: browser.to_owned(),
            desk,
            began: Instant::now(),
            _task: OwnedTask::spawn(run.sign_in(authorizer, challenge)),
        };
        lock(&self.state).replace_flow(flow);
        match tokio::time::timeout(BEGINNING, shown).await {
            Ok(Ok(url)) => Ok(url),
            _ => Err(match lock(&failed).take() {
                Some(error) => error.to_string(),
                None => "it takes too long to find out where to sign in".to_owned(),
            }),
        }
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

    /// Takes the link if the visitor shows that it is theirs.
    fn take(&self, id: &str, key: &str) -> Result<ConnectLink, Refused> {
        let shown = self.authenticator.get().and_then(|it| it.owner_of_key(key.as_bytes()));
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.forget_old(now);
        let Some(link) = state.links.get_mut(id) else { return Err(Refused::Gone) };
        if shown.as_deref() == Some(&*link.principal) {
            return state.links.remove(id).ok_or(Refused::Gone);
        }
        link.wrong_keys += 1;
        tracing::warn!(server = link.server.name, "a wrong key was shown at a link to sign in");
        if link.wrong_keys >= MOST_WRONG_KEYS {
            state.links.remove(id);
        }
        state.wrong.push_back(now);
        Err(Refused::WrongKey)
    }
}

/// Why a visitor may not begin.
enum Refused {
    Gone,
    WrongKey,
}

impl ConnectState {
    /// Forgets what is over.
    fn forget_old(&mut self, now: Instant) {
        self.links.retain(|_, link| now < link.made + LINK_LIFE);
        self.flows.retain(|flow| now < flow.began + LINK_LIFE);
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
        if self.links.len() + self.flows.len() >= MOST_PENDING {
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
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|sign| sign.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    digits.filter(|digits| digits.len() % 2 == 0)?.chunks(2).map(byte).collect()
}

/// A sign-in on its way.
struct FlowRun {
    connector: Weak<Connector>,
    server: Arc<ServerPlan>,
    principal: String,
    id: String,
    told: Vec<Weak<ClientConnection>>,
    failed: Arc<Mutex<Option<AuthError>>>,
}

impl FlowRun {
    async fn sign_in(self, authorizer: Authorizer, challenge: Option<Challenge>) {
        let ended = authorizer.sign_in(challenge).await;
        let (server, user) = (&*self.server.name, &*self.principal);
        if let Err(error) = ended {
            tracing::info!(server, user, "the user is not connected: {error}");
            *lock(&self.failed) = Some(error);
            return;
        }
        tracing::info!(server, user, "the user is connected");
        let Some(connector) = self.connector.upgrade() else { return };
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

    fn show_waiting(&self, _server: &str) {}

    fn pasted<'p>(&'p self) -> std::pin::Pin<Box<dyn Future<Output = String> + Send + 'p>> {
        Box::pin(std::future::pending())
    }
}

/// The cookie that tells a browser from others.
struct BrowserCookie {
    name: &'static str,
    attributes: &'static str,
}

impl Connector {
    /// A `__Host-` cookie takes https.
    fn cookie(&self) -> BrowserCookie {
        let is_https = read(&self.base).as_ref().is_some_and(|base| base.starts_with("https:"));
        if is_https {
            let attributes = "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=1200";
            BrowserCookie { name: "__Host-switchboard-connect", attributes }
        } else {
            let attributes = "Path=/; HttpOnly; SameSite=Lax; Max-Age=1200";
            BrowserCookie { name: "switchboard-connect", attributes }
        }
    }

    /// The browser of a visit, if it has been here.
    fn browser(&self, headers: &HeaderMap) -> Option<String> {
        let name = self.cookie().name;
        let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = pairs.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
        let mut found = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
        let value = found.next().filter(|_| found.next().is_none())?;
        let is_ours = value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_ours.then(|| value.to_owned())
    }

    async fn visit_link(&self, visit: PageVisit) -> Response<Bytes> {
        let id = visit.path.strip_prefix(CONNECT_PATH).unwrap_or_default().trim_matches('/');
        match visit.method {
            Method::GET | Method::HEAD => self.show_form(&visit, id, None),
            Method::POST => self.take_form(&visit, id).await,
            _ => html(StatusCode::METHOD_NOT_ALLOWED, "This page is to be read", ""),
        }
    }

    /// What is connected with what, and the form.
    fn show_form(&self, visit: &PageVisit, id: &str, wrong: Option<&str>) -> Response<Bytes> {
        let link = {
            let mut state = lock(&self.state);
            state.forget_old(Instant::now());
            let link = state.links.get(id);
            link.map(|link| (Arc::clone(&link.server), link.principal.clone()))
        };
        let Some((server, principal)) = link else { return link_is_over() };
        let browser = self.browser(&visit.headers);
        let is_new = browser.is_none();
        let Some(browser) = browser.or_else(random_id) else { return link_is_over() };
        let issuer = server.oauth.settings.issuer.as_deref().or(server
            .oauth
            .settings
            .endpoints
            .token
            .as_deref());
        let issuer = issuer
            .and_then(|url| url.parse::<http::Uri>().ok())
            .and_then(|url| url.host().map(ToOwned::to_owned));
        let host = match &server.target {
            switchboard_net::upstream::Target::Url { url, .. } => url.host().map(ToOwned::to_owned),
            switchboard_net::upstream::Target::Command(_) => None,
        };
        let challenge = self.accounts.challenge(&server, &principal);
        let scopes = challenge.map(|it| it.scopes()).filter(|scopes| !scopes.is_empty());
        let scopes = scopes.or_else(|| server.oauth.settings.scopes.clone());
        let mut rows = String::new();
        for (label, value) in [
            ("Server", Some(server.name.clone())),
            ("Its address", host),
            (
                "You sign in at",
                issuer.or_else(|| Some("the page that the server names".to_owned())),
            ),
            ("It asks for", scopes.map(|scopes| scopes.join(" "))),
        ] {
            if let Some(value) = value {
                rows.push_str(&format!("<dt>{label}</dt><dd>{}</dd>", escape(&value)));
            }
        }
        let note = wrong.map(|wrong| format!("<p class=\"note\">{}</p>", escape(wrong)));
        let token = self.form_token(&browser, id);
        let main = format!(
            "<p>Your account at this server will be used for calls that you make with your key, \
             and for nobody else's.</p><dl>{rows}</dl>{}\
             <form method=\"post\"><input type=\"hidden\" name=\"token\" value=\"{token}\">\
             <input type=\"password\" name=\"key\" required autocomplete=\"off\" \
             aria-label=\"Your key for this gateway\" placeholder=\"Your key for this gateway\">\
             <button class=\"main\">Continue</button></form>\
             <p>Did somebody send you this link? Then close this page: it is for the one who asked for it.</p>",
            note.unwrap_or_default()
        );
        let status = if wrong.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
        let mut page = html(status, "Connect your account", &main);
        if is_new {
            let BrowserCookie { name, attributes } = self.cookie();
            if let Ok(value) = HeaderValue::try_from(format!("{name}={browser}; {attributes}")) {
                page.headers_mut().insert(SET_COOKIE, value);
            }
        }
        page
    }

    async fn take_form(&self, visit: &PageVisit, id: &str) -> Response<Bytes> {
        let fields = form_fields(&visit.body);
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let Some(browser) = self.browser(&visit.headers) else { return other_browser() };
        let token = unhex(field("token")).unwrap_or_default();
        let signed = format!("{browser} {id}");
        if hmac::verify(&self.secret, signed.as_bytes(), &token).is_err() {
            return other_browser();
        }
        if !self.may_guess() {
            let text = "<p>Too many wrong keys were shown. Wait a minute, and try again.</p>";
            return html(StatusCode::TOO_MANY_REQUESTS, "Not now", text);
        }
        let link = match self.take(id, field("key").trim()) {
            Ok(link) => link,
            Err(Refused::Gone) => return link_is_over(),
            Err(Refused::WrongKey) => {
                return self.show_form(
                    visit,
                    id,
                    Some("This is not the key that the link is for."),
                );
            }
        };
        match self.begin(link, &browser, id).await {
            Ok(url) => leave_page(&url, "Continue to sign in"),
            Err(why) => {
                let text = format!(
                    "<p>{}</p><p>Go back to your program, and call the server again for another link.</p>",
                    escape(&why)
                );
                html(StatusCode::BAD_GATEWAY, "The sign-in cannot begin", &text)
            }
        }
    }

    /// Somebody comes back from the authorization server.
    async fn visit_callback(&self, visit: PageVisit) -> Response<Bytes> {
        if visit.method != Method::GET {
            return html(StatusCode::METHOD_NOT_ALLOWED, "This page is to be read", "");
        }
        let Some(browser) = self.browser(&visit.headers) else { return other_browser() };
        let desks: Vec<_> = {
            let mut state = lock(&self.state);
            state.forget_old(Instant::now());
            let own = state.flows.iter().filter(|flow| flow.browser == browser);
            own.map(|flow| flow.desk.clone()).collect()
        };
        for desk in desks {
            match desk.hand_in(&visit.query).await {
                Some(CallbackVerdict::Accepted) => {
                    let text = "<p>Go back to your program, and call the server again. You can close this page.</p>";
                    return html(StatusCode::OK, "You are signed in", text);
                }
                Some(CallbackVerdict::Refused) => {
                    let text = "<p>Nothing was connected. You can close this page.</p>";
                    return html(StatusCode::OK, "You are not signed in", text);
                }
                Some(CallbackVerdict::Other) | None => {}
            }
        }
        other_browser()
    }
}

fn link_is_over() -> Response<Bytes> {
    let text = "<p>A link can be used once, for ten minutes. Call the server again in your program for another one.</p>";
    html(StatusCode::NOT_FOUND, "This link is over", text)
}

fn other_browser() -> Response<Bytes> {
    let text =
        "<p>Open the link in one browser, and stay in it until the end. It must keep cookies.</p>";
    html(StatusCode::BAD_REQUEST, "This is not the sign-in that was begun", text)
}

/// The fields of a form; of two with one name the last.
fn form_fields(body: &[u8]) -> HashMap<String, String> {
    let decode = |text: &[u8]| {
        let text: Vec<_> =
            text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        percent_decode(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = body.split(|byte| *byte == b'&').take(16).map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (decode(&pair[..at]), decode(pair.get(at + 1..).unwrap_or_default()))
    });
    pairs.collect()
}

struct ConnectPage(Arc<Connector>);

impl LivePage for ConnectPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(self.0.visit_link(visit))
    }
}

struct ReturnPage(Arc<Connector>);

impl LivePage for ReturnPage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(self.0.visit_callback(visit))
    }
}

#[cfg(test)]
mod tests;
