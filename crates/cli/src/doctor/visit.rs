//! A visit: finds the server, greets it, looks at all it has, and leaves.
//!
//! Judges nothing and stops at nothing but silence: what is odd is written down.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use serde_json::{Value, json};
use switchboard_net::http::fetch::{is_same_origin, resolve};
use switchboard_net::roster::ListKind;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{Credential as _, CredentialUser, ServerTarget, Strategy, Target};
use switchboard_proto::auth::Challenge;
use switchboard_proto::client::probe::{self, Verdict};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::header::SESSION_ID;
use switchboard_proto::jsonrpc::Id;
use switchboard_proto::method;
use switchboard_proto::revision::{Era, Revision};
use tokio::net::{TcpStream, lookup_host};

use super::evidence::{
    Evidence, Heard, ListEnd, ListReading, RequestResult, SignInEvidence, Trial, VisitedTransport,
};
use super::wire::{ChildPipe, DoctorConnection, Endpoint, STREAM, SseEndpoint, VisitedEndpoint};
use super::{DoctorAccount, with_cause};
use crate::progress::waiting;
use crate::target::environment;

/// How long a server may think about its era: a legacy one may never answer (NEG-8).
const PROBE: Duration = Duration::from_secs(5);

/// Visits a server.
pub(crate) async fn visit(
    server: &ServerTarget,
    account: Option<&DoctorAccount>,
    wanted_era: Option<Era>,
    patience: Duration,
) -> Evidence {
    // The name leaves out what may be secret in a URL, the wire needs it.
    let target = server.name();
    let mut evidence = Evidence { target, wanted_era, patience, ..Evidence::default() };
    match (server.target().clone(), server.fetch().cloned()) {
        (Target::Command(command), _) => visit_command(&command, &mut evidence).await,
        (Target::Url { url, strategy, headers }, Some(fetch)) => {
            let credential = account.map(|account| Arc::clone(&account.credential));
            let headers = match &credential {
                None => headers,
                Some(credential) => {
                    let none = HeaderMap::new();
                    let nobody = CredentialUser { headers: &none, principal: "" };
                    let shown = credential.headers(nobody, None).await;
                    shown.ok().flatten().map_or(headers, |shown| shown.headers)
                }
            };
            evidence.showed_token = headers.contains_key(header::AUTHORIZATION);
            evidence.is_insecure =
                fetch.insecure_host().is_some() && url.scheme_str() == Some("https");
            let endpoint = Endpoint { url, headers, fetch, credential };
            visit_url(endpoint, strategy, &mut evidence).await;
            if let Some(account) = account {
                evidence.sign_in = ask_how_to_sign_in(&evidence, account).await;
            }
        }
        (Target::Url { .. }, None) => {}
    }
    evidence
}

/// What a sign-in would read, if the server wants one.
async fn ask_how_to_sign_in(
    evidence: &Evidence,
    account: &DoctorAccount,
) -> Option<SignInEvidence> {
    let (refused, facts) = evidence.unauthorized()?;
    let challenges = facts.headers.get_all(header::WWW_AUTHENTICATE).iter();
    let challenges = challenges.filter_map(|it| it.to_str().ok()).map(str::to_owned);
    let (refused, challenges) = (refused.to_owned(), challenges.collect::<Vec<_>>());
    let challenge = Challenge::find(challenges.iter().map(String::as_str));
    let discovery = account.authorizer.explore(challenge.clone()).await;
    Some(SignInEvidence { refused, challenge, challenges, discovery })
}

/// A conversation, and where it is written down.
struct ServerVisit<'e> {
    connection: DoctorConnection,
    evidence: &'e mut Evidence,
    next_id: u64,
    /// The envelope of modern requests.
    envelope: Option<Value>,
    /// Nothing more is asked of a server that does not answer.
    is_over: bool,
}

impl<'e> ServerVisit<'e> {
    fn new(connection: DoctorConnection, evidence: &'e mut Evidence) -> Self {
        Self { connection, evidence, next_id: 1, envelope: None, is_over: false }
    }

    /// Sends a request, and writes down what comes of it.
    async fn ask(&mut self, method: &str, params: Value) -> RequestResult {
        self.ask_as(json!(self.next_id), method, params, self.evidence.patience).await
    }

    async fn ask_as(
        &mut self,
        id: Value,
        method: &str,
        mut params: Value,
        patience: Duration,
    ) -> RequestResult {
        self.next_id += 1;
        if let Some(envelope) = &self.envelope {
            params["_meta"] = envelope.clone();
        }
        let heard = &mut self.evidence.heard;
        let asking = self.connection.ask(id, method, params, patience, heard);
        let what = format!("waiting for the answer to {method}, {} s at most", patience.as_secs());
        let asked = waiting(what, asking).await;
        let outcome = asked.outcome.clone();
        let is_shut = outcome.facts().is_some_and(|facts| facts.status == 401);
        self.is_over =
            is_shut || matches!(outcome, RequestResult::Silence | RequestResult::Gone { .. });
        self.evidence.requests.push(asked);
        outcome
    }

    /// Asks which era the server speaks, and meets a modern server; whether it may be legacy.
    async fn probe(&mut self) -> (RequestResult, bool) {
        let question = probe::question(&Id::from(1), &whoami());
        let params = question.payload_value().unwrap_or_default();
        let mut envelope = params["_meta"].clone();
        let carrier = if let DoctorConnection::Http(http) = &mut self.connection {
            http.revision = Some(Revision::NEWEST_MODERN.to_string());
            Carrier::Http
        } else {
            Carrier::Pipe
        };
        let patience = self.evidence.patience.min(PROBE);
        let started = Instant::now();
        let outcome = self.ask_as(json!(self.next_id), method::DISCOVER, params, patience).await;
        self.evidence.step(method::DISCOVER, started.elapsed());
        let revision = match probe::verdict(carrier, &reply_of(&outcome)) {
            Verdict::Modern(revision) => revision.to_string(),
            Verdict::Unusable => return (outcome, false),
            Verdict::Legacy | Verdict::Undecided => {
                return (outcome, self.evidence.wanted_era != Some(Era::Modern));
            }
        };
        // What a modern server said of itself is all there is to know.
        envelope[method::meta::VERSION] = json!(revision);
        self.envelope = Some(envelope);
        if let DoctorConnection::Http(http) = &mut self.connection {
            http.revision = Some(revision.clone());
        }
        self.evidence.era = Some(Era::Modern);
        self.evidence.revision = Some(revision);
        self.evidence.welcome = outcome.result().cloned().unwrap_or_default();
        (outcome, false)
    }

    /// Greets a legacy server; whether it could be done.
    async fn greet(&mut self) -> bool {
        if let DoctorConnection::Http(http) = &mut self.connection {
            http.revision = None;
        }
        let started = Instant::now();
        let outcome = self.ask(method::INITIALIZE, greeting()).await;
        self.evidence.step(method::INITIALIZE, started.elapsed());
        let Some(result) = outcome.result().filter(|result| result.is_object()) else {
            return false;
        };
        self.evidence.era = Some(Era::Legacy);
        self.evidence.revision = result["protocolVersion"].as_str().map(ToOwned::to_owned);
        self.evidence.welcome = result.clone();
        let ready = json!({"jsonrpc": "2.0", "method": method::INITIALIZED});
        match &mut self.connection {
            DoctorConnection::Child(pipe) => _ = pipe.write(&ready).await,
            DoctorConnection::Sse(sse) => _ = sse.write(&ready).await,
            DoctorConnection::Http(http) => {
                http.session =
                    outcome.facts().and_then(|facts| facts.headers.get(SESSION_ID)).cloned();
                http.revision.clone_from(&self.evidence.revision);
                // The answer to the end of the handshake has rules of its own.
                let (headers, body) = (http.for_post(), ready.to_string());
                let outcome = http.try_out(GLANCE, Method::POST, headers, body).await;
                self.evidence.trials.push((Trial::Initialized, outcome));
            }
        }
        self.evidence.was_greeted()
    }
}

fn whoami() -> Value {
    json!({"name": "switchboard-doctor", "version": env!("CARGO_PKG_VERSION")})
}

fn greeting() -> Value {
    json!({
        "protocolVersion": Revision::NEWEST_LEGACY.as_str(),
        "capabilities": {},
        "clientInfo": whoami(),
    })
}

fn reply_of(outcome: &RequestResult) -> probe::ProbeReply {
    match outcome {
        RequestResult::Answer { message, http } => probe::ProbeReply::Answer {
            status: http.as_ref().map(|facts| facts.status),
            message: Box::new(message.clone()),
        },
        RequestResult::Http(facts) => probe::ProbeReply::Http { status: facts.status },
        RequestResult::Silence => probe::ProbeReply::Silence,
        RequestResult::Gone { .. } | RequestResult::Lost(_) => probe::ProbeReply::Broken,
    }
}

async fn visit_command(command: &Command, evidence: &mut Evidence) {
    evidence.transport = Some(VisitedTransport::Stdio);
    let started = Instant::now();
    let Some(connection) = start(command, evidence) else { return };
    evidence.step("start", started.elapsed());
    let mut visit = ServerVisit::new(connection, evidence);
    let (mut is_fresh, mut may_be_legacy) = (true, true);
    if visit.evidence.wanted_era != Some(Era::Legacy) {
        let outcome;
        (outcome, may_be_legacy) = visit.probe().await;
        let is_upset = may_be_legacy && outcome.message().is_none();
        is_fresh = is_upset && visit.restart(command).await;
    }
    // Some take the question for the era as the beginning of a conversation.
    if may_be_legacy && !visit.greet().await && !is_fresh && visit.restart(command).await {
        visit.greet().await;
    }
    if visit.evidence.was_greeted() {
        visit.survey().await;
    }
    if let DoctorConnection::Child(pipe) = visit.connection {
        visit.evidence.outstayed = !waiting("waiting for the server to end", pipe.close()).await;
    }
}

fn start(command: &Command, evidence: &mut Evidence) -> Option<DoctorConnection> {
    match ChildPipe::start(command, &environment()) {
        Ok(pipe) => Some(DoctorConnection::Child(Box::new(pipe))),
        Err(error) => {
            evidence.unreached = Some(RequestResult::Gone { text: with_cause(&error) });
            None
        }
    }
}

/// Pages of one list; more than anybody should have to fetch.
const PAGES: usize = 100;

/// A method that no server has.
pub(crate) const NO_METHOD: &str = "switchboard/no-such-method";

impl ServerVisit<'_> {
    /// A new process in place of the old one.
    async fn restart(&mut self, command: &Command) -> bool {
        let Some(fresh) = start(command, self.evidence) else { return false };
        if let DoctorConnection::Child(old) = std::mem::replace(&mut self.connection, fresh) {
            waiting("starting the server again", old.close()).await;
        }
        true
    }

    async fn survey(&mut self) {
        if self.evidence.era == Some(Era::Legacy) {
            let started = Instant::now();
            self.ask(method::PING, json!({})).await;
            self.evidence.step(method::PING, started.elapsed());
        }
        for kind in ListKind::ALL {
            if self.is_over {
                return;
            }
            let capabilities = &self.evidence.welcome["capabilities"];
            let announced = capabilities.get(kind.capability()).is_some();
            let (pages, end) = (Vec::new(), ListEnd::Whole);
            self.list(ListReading { kind, announced, pages, end }).await;
        }
        // With an id of the other kind, to see whether it comes back as it went.
        if !self.is_over {
            let id = json!(format!("doctor-{}", self.next_id));
            self.ask_as(id, NO_METHOD, json!({}), self.evidence.patience).await;
        }
    }

    async fn list(&mut self, mut list: ListReading) {
        let started = Instant::now();
        let (method, member) = (list.kind.method(), list.kind.member().key());
        let mut seen = HashSet::new();
        let mut params = json!({});
        loop {
            let page = self.ask(method, params.clone()).await;
            let next = page.result().and_then(|result| result.get("nextCursor")).cloned();
            let is_page = page.result().is_some_and(|result| result[member].is_array());
            list.pages.push(page);
            list.end = match &next {
                _ if !is_page => ListEnd::Broken,
                None | Some(Value::Null) => ListEnd::Whole,
                Some(_) if !list.announced => ListEnd::Whole,
                Some(cursor) if !seen.insert(cursor.to_string()) => ListEnd::Loop,
                Some(_) if list.pages.len() >= PAGES => ListEnd::Endless,
                Some(_) => {
                    params["cursor"] = next.unwrap_or_default();
                    continue;
                }
            };
            break;
        }
        let pages = match list.pages.len() {
            1 => String::new(),
            count => format!(" ({count} pages)"),
        };
        let was_served = list.pages.iter().any(|page| page.result().is_some());
        if list.announced || was_served {
            self.evidence.step(format!("{method}{pages}"), started.elapsed());
        }
        if matches!(list.pages.last(), Some(RequestResult::Lost(_))) {
            self.is_over = true;
        }
        self.evidence.lists.push(list);
    }
}

/// Paths where servers usually are.
const USUAL: [&str; 4] = ["/mcp", "/sse", "/", "/api/mcp"];
/// How long one of them is looked at.
const GLANCE: Duration = Duration::from_secs(5);

async fn visit_url(mut endpoint: Endpoint, strategy: Strategy, evidence: &mut Evidence) {
    if !reach(&endpoint, evidence).await {
        return;
    }
    let is_old = matches!(strategy, Strategy::SseOnly | Strategy::SseFirst);
    let done = is_old && visit_sse(&endpoint, evidence).await;
    if !done && strategy != Strategy::SseOnly {
        let done = visit_http(&mut endpoint, evidence).await;
        let may_be_old =
            strategy == Strategy::HttpFirst && evidence.wanted_era != Some(Era::Modern);
        // These statuses mean that there is no such endpoint (OLD-7).
        let may_be_old = may_be_old && matches!(last_status(evidence), Some(400 | 404 | 405));
        let done = done || (may_be_old && visit_sse(&endpoint, evidence).await);
        if !done {
            evidence.transport = None;
        }
    }
    if !evidence.was_greeted() && may_be_wrong_path(evidence) {
        find_siblings(&endpoint, evidence).await;
    }
}

/// Name, connection, TLS; each for its time, and the last for whether it works.
async fn reach(endpoint: &Endpoint, evidence: &mut Evidence) -> bool {
    let started = Instant::now();
    let Endpoint { url, fetch, .. } = endpoint;
    let is_secure = url.scheme_str() == Some("https");
    let proxy = fetch.proxy_for(url);
    let what = format!("connecting to {}", url.host().unwrap_or_default());
    let mut before = Duration::ZERO;
    if proxy.is_none() {
        before = waiting(&*what, connect_directly(url, is_secure, evidence)).await;
    }
    let dialling = Instant::now();
    if let Err(error) = waiting(what, fetch.dial(url)).await {
        evidence.unreached = Some(RequestResult::Lost(error));
        return false;
    }
    if let Some(proxy) = proxy {
        evidence.step(format!("connect through {proxy}"), started.elapsed());
    } else if is_secure {
        // The second connection repeats what the first one took.
        evidence.step("TLS", dialling.elapsed().saturating_sub(before));
    }
    true
}

async fn connect_directly(url: &Uri, is_secure: bool, evidence: &mut Evidence) -> Duration {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let started = Instant::now();
    let found = lookup_host((host, port)).await;
    let Ok(addresses) = found.map(Iterator::collect::<Vec<_>>) else { return Duration::ZERO };
    evidence.step("resolve", started.elapsed());
    let connecting = Instant::now();
    let connected = TcpStream::connect(addresses.as_slice());
    if let Ok(Ok(_)) = tokio::time::timeout(GLANCE, connected).await {
        evidence.step("connect", connecting.elapsed());
    }
    started.elapsed()
}

/// Streamable HTTP, in the era that the server speaks; whether it was greeted.
async fn visit_http(endpoint: &mut Endpoint, evidence: &mut Evidence) -> bool {
    evidence.transport = Some(VisitedTransport::Http);
    let connect =
        |endpoint: &Endpoint| DoctorConnection::Http(Box::new(VisitedEndpoint::new(endpoint)));
    let mut visit = ServerVisit::new(connect(endpoint), evidence);
    let mut may_be_legacy = true;
    if visit.evidence.wanted_era != Some(Era::Legacy) {
        let outcome;
        (outcome, may_be_legacy) = visit.probe().await;
        if let Some(url) = moved(&endpoint.url, &outcome) {
            visit.evidence.moved = Some(url.to_string());
            visit.evidence.heard = Heard::default();
            endpoint.url = url;
            visit.connection = connect(endpoint);
            (_, may_be_legacy) = visit.probe().await;
        }
    }
    let is_shut = matches!(last_status(visit.evidence), Some(401 | 403 | 407));
    if may_be_legacy && !is_shut {
        visit.greet().await;
    }
    if !visit.evidence.was_greeted() {
        return false;
    }
    visit.survey().await;
    if let DoctorConnection::Http(http) = &visit.connection
        && visit.evidence.era == Some(Era::Legacy)
    {
        try_out_sessions(http, visit.evidence).await;
    }
    true
}

/// Where a redirect leads that our client follows too (MH-18).
fn moved(from: &Uri, outcome: &RequestResult) -> Option<Uri> {
    let facts = outcome.facts().filter(|facts| matches!(facts.status, 307 | 308))?;
    resolve(from, &facts.header(header::LOCATION)?).filter(|to| is_same_origin(from, to))
}

/// The status of the last answer.
fn last_status(evidence: &Evidence) -> Option<u16> {
    Some(evidence.requests.last()?.outcome.facts()?.status)
}

/// Whether what was said could come from a place where no server is.
fn may_be_wrong_path(evidence: &Evidence) -> bool {
    match evidence.requests.last().map(|last| &last.outcome) {
        Some(RequestResult::Http(facts)) => !matches!(facts.status, 401 | 403 | 407 | 429 | 500..),
        Some(_) => false,
        // Only the older transport was asked for.
        None => true,
    }
}

/// The two endpoints of 2024-11-05; whether the server was greeted there.
async fn visit_sse(endpoint: &Endpoint, evidence: &mut Evidence) -> bool {
    let started = Instant::now();
    let opening = SseEndpoint::open(endpoint);
    let opened = tokio::time::timeout(evidence.patience.min(GLANCE), opening).await;
    let opened = match opened.unwrap_or(Err(RequestResult::Silence)) {
        Ok(opened) => opened,
        Err(outcome) => {
            evidence.no_stream = Some(outcome);
            return false;
        }
    };
    evidence.step("event stream", started.elapsed());
    evidence.transport = Some(VisitedTransport::Sse);
    // What was refused on the way here was no mistake of the server's.
    evidence.requests.clear();
    evidence.heard = Heard::default();
    let connection = DoctorConnection::Sse(Box::new(opened));
    let mut visit = ServerVisit::new(connection, evidence);
    if visit.greet().await {
        visit.survey().await;
    }
    true
}

/// How the server treats what is unusual, and the end of the session.
async fn try_out_sessions(http: &VisitedEndpoint, evidence: &mut Evidence) {
    let patience = evidence.patience.min(GLANCE);
    let mut listening = http.common();
    listening.insert(header::ACCEPT, STREAM);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": method::PING}).to_string();
    let mut without = http.for_post();
    without.remove(SESSION_ID);
    let mut strange = without.clone();
    let nobodys = HeaderValue::from_static("00000000-0000-0000-0000-000000000000");
    strange.insert(SESSION_ID, nobodys);
    let trials = [
        (Trial::Listen, Method::GET, listening, String::new()),
        (Trial::NoSession, Method::POST, without, ping.clone()),
        (Trial::StrangeSession, Method::POST, strange, ping),
        (Trial::Delete, Method::DELETE, http.common(), String::new()),
    ];
    let count = if http.session.is_some() { trials.len() } else { 1 };
    for (trial, method, headers, body) in trials.into_iter().take(count) {
        let outcome = http.try_out(patience, method, headers, body).await;
        evidence.trials.push((trial, outcome));
    }
}

/// Other paths of the host where a server answers.
async fn find_siblings(endpoint: &Endpoint, evidence: &mut Evidence) {
    let url = &endpoint.url;
    let below = format!("{}/mcp", url.path().trim_end_matches('/'));
    let below = Some(below.as_str()).filter(|below| !USUAL.contains(below));
    for path in USUAL.into_iter().chain(below).filter(|path| *path != url.path()) {
        let (Some(scheme), Some(host)) = (url.scheme(), url.authority()) else { return };
        let Ok(url) = format!("{scheme}://{host}{path}").parse::<Uri>() else { continue };
        let other = Endpoint { url, ..endpoint.clone() };
        let looking = tokio::time::timeout(GLANCE, is_server(&other));
        let looking = waiting(format!("looking for a server at {path}"), looking);
        if looking.await.unwrap_or(false) {
            evidence.siblings.push(other.url.to_string());
        }
    }
}

async fn is_server(endpoint: &Endpoint) -> bool {
    let mut connection = DoctorConnection::Http(Box::new(VisitedEndpoint::new(endpoint)));
    let heard = &mut Heard::default();
    let asked = connection.ask(json!(1), method::INITIALIZE, greeting(), GLANCE, heard).await;
    asked.outcome.result().is_some() || SseEndpoint::open(endpoint).await.is_ok()
}
