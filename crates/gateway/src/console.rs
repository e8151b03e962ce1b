//! The console: what people see of a gateway in a browser, at `/console/`.
//!
//! ```text
//!   GET /console/             the page: files of `console/web`, embedded
//!   /console/api/…            JSON for the page, made for the grant of whoever looks
//!   GET /console/feed         what changes, while somebody looks
//!   /console/mcp              MCP as at /mcp, for whoever is signed in
//! ```
//!
//! `docs/console-api.md` has each request and answer. Everybody signs in: with the link that
//! `serve` prints, or with a key. The cookie opens nothing but these paths, and what changes
//! something must come from our own page. The page calls tools over MCP, so that there is no
//! second way to run anything.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    LOCATION, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};
use switchboard_net::OwnedTask;
use switchboard_net::access::Authenticate;
use switchboard_net::http::page::{LivePage, MAX_VISIT_BODY, PageReply, PageStream, PageVisit};
use switchboard_net::http::site::{Site, SitePage, Sites};
use switchboard_net::private_folder::PrivateFolder;
use switchboard_proto::jsonrpc::Part;
use tokio::sync::{Semaphore, watch};

use crate::config::ConsoleMode;
use crate::connect::random_id;
use crate::gateway::{Gateway, Place};
use crate::lock;
use charts::Charts;
use config_file::ConfigFile;
use doctor::ServerDoctor;
use files::WebFiles;
use sign_in::{ConsoleGate, SignIns};
use state_history::StateHistory;

pub use doctor::{DoctorStep, DoctorVisit};

mod accounts;
mod actions;
mod api;
mod calls;
mod capture;
mod charts;
mod config_file;
mod cookie_key;
mod doctor;
mod feed;
mod files;
mod issuer_sign_in;
mod keys;
mod masked_text;
mod open_calls;
mod safety;
mod servers;
mod sign_in;
mod snippets;
mod state_history;
mod trial;

/// Where the console is.
pub const CONSOLE_PATH: &str = "/console";

/// Feeds at once: more than people have tabs.
const MAX_FEEDS: usize = 64;

/// What people see of a gateway.
pub struct Console {
    gateway: Arc<Gateway>,
    sign_ins: Arc<SignIns>,
    files: WebFiles,
    /// What is served at each port, until the end: it leads back here.
    sites: Mutex<Vec<Sites>>,
    history: Arc<StateHistory>,
    charts: Arc<Charts>,
    feeds: Arc<Semaphore>,
    trials: Semaphore,
    /// Whether the gateway ends.
    closing: watch::Sender<bool>,
    config: ConfigNews,
    config_file: OnceLock<Arc<ConfigFile>>,
    doctor: OnceLock<Arc<ServerDoctor>>,
    wants_keys: AtomicBool,
    /// Tells the events of this process from those of an earlier one.
    boot: String,
    tasks: Mutex<Vec<OwnedTask>>,
    this: Weak<Self>,
}

/// What the console is told of the configuration files.
#[derive(Default)]
struct ConfigNews {
    /// Counts what was told.
    edition: AtomicUsize,
    problems: AtomicUsize,
    is_behind: AtomicBool,
}

impl Console {
    /// A console for a gateway; calls are remembered from here on. Must be called within a
    /// tokio runtime. None if the system has no random numbers.
    ///
    /// Cookies outlive a restart if there is a folder to remember their key in. Blocks.
    pub fn start(gateway: &Arc<Gateway>, folder: Option<PrivateFolder>) -> Option<Arc<Self>> {
        let sign_ins = Arc::new(SignIns::new(gateway.authenticator(), folder)?);
        let boot = random_id()?;
        if let Some(connector) = gateway.fleet().connector() {
            let door = Arc::downgrade(&sign_ins);
            connector.open_console(move |who| {
                let gone = || "There is no console any more.".to_owned();
                door.upgrade().ok_or_else(gone)?.arrive(who)
            });
        }
        gateway.fleet().monitor().keep_calls();
        let (history, follow) = StateHistory::start(gateway.fleet());
        let (charts, sample) = Charts::start(gateway.fleet());
        Some(Arc::new_cyclic(|this| Self {
            gateway: Arc::clone(gateway),
            sign_ins,
            files: WebFiles::new(),
            sites: Mutex::default(),
            history,
            charts,
            feeds: Arc::new(Semaphore::new(MAX_FEEDS)),
            trials: Semaphore::new(trial::MAX_TRIALS),
            closing: watch::Sender::default(),
            config: ConfigNews::default(),
            config_file: OnceLock::new(),
            doctor: OnceLock::new(),
            wants_keys: AtomicBool::default(),
            boot,
            tasks: Mutex::new(vec![follow, sample]),
            this: Weak::clone(this),
        }))
    }

    /// The pages, by path.
    pub fn pages(self: &Arc<Self>) -> Vec<(String, SitePage)> {
        let page: Arc<dyn LivePage> = Arc::new(ConsolePage(Arc::clone(self)));
        vec![
            ("/".to_owned(), SitePage::Redirect("/console/")),
            (CONSOLE_PATH.to_owned(), SitePage::Live(page)),
        ]
    }

    /// The console is found at `base` from here on, and the gateway at `gateway`: URLs without a
    /// slash at their end. `port` tells its cookie from those of other gateways of this machine.
    /// Clients are those of `sites`.
    pub fn found_at(&self, base: &str, gateway: &str, port: u16, sites: &[Sites]) {
        self.sign_ins.found_at(base, gateway, port);
        *lock(&self.sites) = sites.to_vec();
        self.charts.count_sessions_of(sites);
    }

    /// Who lets the page in to the MCP endpoint of a place.
    pub fn gate(&self, place: Place) -> Arc<dyn Authenticate> {
        let (console, sign_ins) = (Weak::clone(&self.this), Arc::clone(&self.sign_ins));
        Arc::new(ConsoleGate { console, sign_ins, place })
    }

    /// What every answer below [`CONSOLE_PATH`] has.
    pub fn headers() -> HeaderMap {
        let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        headers.into_iter().collect()
    }

    /// A link that signs in whoever runs the gateway, once; the next one when it was used.
    pub fn link(&self) -> String {
        self.sign_ins.link()
    }

    /// Waits until a link was used.
    pub async fn link_used(&self) {
        self.sign_ins.used.notified().await;
    }

    /// The configuration files were read: how many mistakes they have, and whether what they
    /// say is in force.
    pub fn tell_config(&self, problems: usize, is_current: bool) {
        self.config.problems.store(problems, Ordering::Relaxed);
        self.config.is_behind.store(!is_current, Ordering::Relaxed);
        self.config.edition.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends what goes on for people who look.
    pub fn close(&self) {
        self.closing.send_replace(true);
        lock(&self.tasks).clear();
        lock(&self.sites).clear();
        self.charts.close();
    }

    fn sites(&self) -> Vec<Site> {
        lock(&self.sites).iter().flat_map(|sites| sites.each().to_vec()).collect()
    }

    /// From here on there is no console while clients need no key: other machines reach it.
    pub fn require_keys(&self) {
        self.wants_keys.store(true, Ordering::Relaxed);
    }

    fn mode(&self) -> ConsoleMode {
        let plan = self.gateway.plan();
        let is_exposed = self.wants_keys.load(Ordering::Relaxed) && plan.access.is_open();
        if is_exposed { ConsoleMode::Off } else { plan.console }
    }

    async fn answer(&self, visit: PageVisit) -> Response<Bytes> {
        if self.mode() == ConsoleMode::Off {
            return ApiError::not_found("there is no console here").response();
        }
        let path = visit.path.strip_prefix(CONSOLE_PATH).unwrap_or_default();
        let is_read = matches!(visit.method, Method::GET | Method::HEAD);
        match path {
            "" => redirect("/console/"),
            "/" if is_read => self.files.index(visit.headers.get(IF_NONE_MATCH)),
            "/feed" => match self.open_feed(&visit) {
                Ok(_) => ApiError::not_found("the feed is a stream").response(),
                Err(error) => error.response(),
            },
            _ => match (path.strip_prefix("/web/"), path.strip_prefix("/api/")) {
                (Some(file), _) if is_read => self.files.file(file),
                (_, Some(what)) => {
                    let answer = self.answer_api(what, &visit).await;
                    answer.unwrap_or_else(ApiError::response)
                }
                _ => ApiError::not_found("there is nothing here").response(),
            },
        }
    }
}

/// The console as a page of the sites.
struct ConsolePage(Arc<Console>);

impl LivePage for ConsolePage {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        Box::pin(async move {
            let mut response = self.0.answer(visit).await;
            response.headers_mut().extend(Console::headers());
            response
        })
    }

    fn stream(&self, visit: &PageVisit) -> Option<Response<PageStream>> {
        if visit.path != "/console/feed" || self.0.mode() == ConsoleMode::Off {
            return None;
        }
        let mut response = self.0.open_feed(visit).ok()?;
        response.headers_mut().extend(Console::headers());
        Some(response)
    }

    /// Whoever is signed in may send the text of a file.
    fn max_body(&self, parts: &Parts) -> usize {
        let is_text = parts.uri.path().starts_with("/console/api/config/");
        if is_text && self.0.sign_ins.viewer(&parts.headers).is_some() {
            // As JSON, where each sign may be escaped.
            return 2 * config_file::MAX_TEXT;
        }
        MAX_VISIT_BODY
    }
}

/// The page runs nothing but its own files, is in no frame, and tells nobody where it is (C-34).
const HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data: blob:; media-src blob:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn redirect(path: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(path));
    response
}

/// Why the page does not get what it asks for.
#[derive(Debug)]
struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<&'static str>,
    /// Seconds after which it may be otherwise.
    retry: Option<u32>,
}

type ApiResult<T = Value> = Result<T, ApiError>;

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, retry: None }
    }

    fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    fn not_granted() -> Self {
        let message = "this is for keys that may use every server";
        Self::new(StatusCode::FORBIDDEN, "not_granted", message)
    }

    fn too_many(message: &str, retry: u32) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message);
        Self { retry: Some(retry), ..error }
    }

    fn response(self) -> Response<Bytes> {
        let Self { code, message, hint, .. } = &self;
        let mut error = json!({"code": code, "message": message});
        if let Some(hint) = hint {
            error["hint"] = (*hint).into();
        }
        let mut response = json_response(&json!({"error": error}));
        *response.status_mut() = self.status;
        if let Some(seconds) = self.retry {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// What the page sends.
fn read_body(body: &[u8]) -> ApiResult {
    Part::new(body).value().ok_or_else(|| ApiError::bad_request("the body is not JSON"))
}

/// JSON that nobody keeps.
fn json_response(value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The same with an `ETag`; 304 if the page has it already.
fn tagged_json(value: &Value, known: Option<&HeaderValue>) -> Response<Bytes> {
    let mut response = json_response(value);
    let tag = format!("\"{}\"", files::digest_of(&[response.body()]));
    let Ok(tag) = HeaderValue::try_from(tag) else { return response };
    if known == Some(&tag) {
        (*response.status_mut(), *response.body_mut()) = (StatusCode::NOT_MODIFIED, Bytes::new());
    }
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(ETAG, tag);
    response
}

/// Numbers of people are written without noise.
fn millis(time: std::time::Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
