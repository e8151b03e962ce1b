//! A visit to a URL.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use serde_json::json;
use switchboard_net::http::fetch::Fetch;
use switchboard_net::upstream::Strategy;
use switchboard_proto::client::probe::Verdict;
use switchboard_proto::header::SESSION_ID;
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use tokio::net::{TcpStream, lookup_host};

use super::{Talk, VisitOptions, greeting};
use crate::doctor::evidence::{
    Evidence, ExchangeResult, Heard, Reply, Transport, Trial, Unreached,
};
use crate::doctor::wire::{Http, SseEndpoint, Wire};

/// Where to knock.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) url: Uri,
    pub(super) headers: HeaderMap,
    pub(super) fetch: Fetch,
}

/// Paths where servers usually are.
const USUAL: [&str; 4] = ["/mcp", "/sse", "/", "/api/mcp"];
/// How long one of them is looked at.
const GLANCE: Duration = Duration::from_secs(5);

pub(super) async fn visit(
    mut door: Door,
    strategy: Strategy,
    plan: VisitOptions,
    evidence: &mut Evidence,
) {
    if !reach(&door, evidence).await {
        return;
    }
    let is_old = matches!(strategy, Strategy::SseOnly | Strategy::SseFirst);
    let done = is_old && old(&door, plan, evidence).await;
    if !done && strategy != Strategy::SseOnly {
        let done = streamable(&mut door, plan, evidence).await;
        let may_be_old = strategy == Strategy::HttpFirst && plan.era != Some(Era::Modern);
        let done =
            done || (may_be_old && is_no_endpoint(evidence) && old(&door, plan, evidence).await);
        if !done {
            evidence.transport = None;
        }
    }
    if !evidence.was_greeted() && may_be_wrong_path(evidence) {
        siblings(&door, evidence).await;
    }
}

/// Name, connection, TLS; each for its time, and the last for whether it works.
async fn reach(door: &Door, evidence: &mut Evidence) -> bool {
    let started = Instant::now();
    let is_secure = door.url.scheme_str() == Some("https");
    let proxy = door.fetch.proxy_for(&door.url);
    let mut before = Duration::ZERO;
    if proxy.is_none() {
        before = direct(door, is_secure, evidence).await;
    }
    let dialling = Instant::now();
    if let Err(error) = door.fetch.dial(&door.url).await {
        evidence.unreached = Some(Unreached::Fetch(error));
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

async fn direct(door: &Door, is_secure: bool, evidence: &mut Evidence) -> Duration {
    let host = door.url.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = door.url.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
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
async fn streamable(door: &mut Door, plan: VisitOptions, evidence: &mut Evidence) -> bool {
    evidence.transport = Some(Transport::Http);
    let mut talk = Talk::new(Wire::Http(Box::new(http(door))), evidence, plan);
    let mut may_be_legacy = plan.era != Some(Era::Modern);
    if plan.era != Some(Era::Legacy) {
        let (mut outcome, mut verdict) = talk.probe().await;
        if let Some(url) = moved(&door.url, &outcome) {
            talk.evidence.moved = Some(url.to_string());
            door.url = url;
            talk.wire = Wire::Http(Box::new(http(door)));
            (outcome, verdict) = talk.probe().await;
        }
        match verdict {
            Verdict::Modern(revision) => talk.meet_modern(revision, &outcome),
            Verdict::Unusable => may_be_legacy = false,
            Verdict::Legacy | Verdict::Undecided => {}
        }
    }
    let status = talk.evidence.exchanges.last().and_then(|last| last.outcome.facts());
    let is_shut = status.is_some_and(|facts| matches!(facts.status, 401 | 403 | 407));
    if !talk.evidence.was_greeted() && may_be_legacy && !is_shut {
        talk.greet().await;
    }
    let greeted = talk.evidence.was_greeted();
    if greeted {
        talk.survey().await;
        if let Wire::Http(http) = &mut talk.wire
            && talk.evidence.era == Some(Era::Legacy)
        {
            trials(http, talk.evidence, plan.patience).await;
        }
    }
    let Talk { wire, evidence, .. } = talk;
    evidence.heard = wire.heard();
    greeted
}

fn http(door: &Door) -> Http {
    Http {
        url: door.url.clone(),
        fetch: door.fetch.clone(),
        headers: door.headers.clone(),
        era: Era::Modern,
        revision: None,
        session: None,
        heard: Heard::default(),
    }
}

/// Where a redirect leads that our client follows too (MH-18).
fn moved(from: &Uri, outcome: &ExchangeResult) -> Option<Uri> {
    let facts = outcome.facts().filter(|facts| matches!(facts.status, 307 | 308))?;
    let location = facts.location.as_deref()?;
    let whole = if location.starts_with('/') {
        format!("{}://{}{location}", from.scheme()?, from.authority()?)
    } else {
        location.to_owned()
    };
    let to: Uri = whole.parse().ok()?;
    (to.scheme() == from.scheme() && to.authority() == from.authority()).then_some(to)
}

/// Whether what was said to the greeting means that there is no such endpoint (OLD-7).
fn is_no_endpoint(evidence: &Evidence) -> bool {
    let last = evidence.exchanges.last().and_then(|last| last.outcome.facts());
    last.is_some_and(|facts| matches!(facts.status, 400 | 404 | 405))
}

/// Whether what was said could come from a place where no server is.
fn may_be_wrong_path(evidence: &Evidence) -> bool {
    match evidence.exchanges.last().map(|last| &last.outcome) {
        Some(ExchangeResult::Http(facts)) => !matches!(facts.status, 401 | 403 | 407 | 429 | 500..),
        Some(_) => false,
        // Only the older transport was asked for.
        None => true,
    }
}

/// The two endpoints of 2024-11-05; whether the server was greeted there.
async fn old(door: &Door, plan: VisitOptions, evidence: &mut Evidence) -> bool {
    let started = Instant::now();
    let opening = SseEndpoint::open(&door.fetch, &door.url, &door.headers);
    let opened = tokio::time::timeout(plan.patience.min(GLANCE), opening).await;
    let opened = match opened.unwrap_or(Err(ExchangeResult::Silence)) {
        Ok(opened) => opened,
        Err(outcome) => {
            evidence.no_stream = Some(outcome);
            return false;
        }
    };
    evidence.step("event stream", started.elapsed());
    evidence.transport = Some(Transport::Sse);
    // What was refused on the way here was no mistake of the server's.
    evidence.exchanges.clear();
    let mut talk = Talk::new(Wire::Sse(Box::new(opened)), evidence, plan);
    if talk.greet().await {
        talk.survey().await;
    }
    let Talk { wire, evidence, .. } = talk;
    evidence.heard = wire.heard();
    true
}

/// The end of the handshake, whose answer has rules of its own.
pub(super) async fn confirm(http: &Http, evidence: &mut Evidence, body: &str) {
    let mut headers = http.common();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let sent = http.head(Method::POST, headers, body.to_owned());
    try_out(evidence, Trial::Initialized, GLANCE, sent).await;
}

async fn try_out(
    evidence: &mut Evidence,
    trial: Trial,
    patience: Duration,
    sent: impl Future<Output = Reply>,
) {
    let reply = tokio::time::timeout(patience, sent).await.unwrap_or(Reply::Silence);
    evidence.trials.push((trial, reply));
}

/// How the server treats what is unusual, and the end of the session.
async fn trials(http: &mut Http, evidence: &mut Evidence, patience: Duration) {
    let patience = patience.min(GLANCE);
    let mut listening = http.common();
    listening.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let sent = http.head(Method::GET, listening, String::new());
    try_out(evidence, Trial::Listen, patience, sent).await;
    if http.session.is_none() {
        return;
    }
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": method::PING}).to_string();
    let mut headers = http.common();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(SESSION_ID);
    let sent = http.head(Method::POST, headers.clone(), ping.clone());
    try_out(evidence, Trial::NoSession, patience, sent).await;
    let nobodys = HeaderValue::from_static("00000000-0000-0000-0000-000000000000");
    headers.insert(SESSION_ID, nobodys);
    let sent = http.head(Method::POST, headers, ping);
    try_out(evidence, Trial::StrangeSession, patience, sent).await;
    let sent = http.head(Method::DELETE, http.common(), String::new());
    try_out(evidence, Trial::Delete, patience, sent).await;
}

/// Other paths of the host where a server answers.
async fn siblings(door: &Door, evidence: &mut Evidence) {
    let below = format!("{}/mcp", door.url.path().trim_end_matches('/'));
    let paths = USUAL.into_iter().chain([below.as_str()]);
    let mut tried = vec![door.url.path().to_owned()];
    for path in paths {
        if tried.iter().any(|other| other == path) {
            continue;
        }
        tried.push(path.to_owned());
        let (Some(scheme), Some(host)) = (door.url.scheme(), door.url.authority()) else { return };
        let Ok(url) = format!("{scheme}://{host}{path}").parse::<Uri>() else { continue };
        let other = Door { url, ..door.clone() };
        if tokio::time::timeout(GLANCE, is_server(&other)).await.unwrap_or(false) {
            evidence.siblings.push(other.url.to_string());
        }
    }
}

async fn is_server(door: &Door) -> bool {
    let mut wire = Wire::Http(Box::new(Http { era: Era::Legacy, ..http(door) }));
    let asked = wire.ask(json!(1), method::INITIALIZE, greeting(), GLANCE).await;
    let is_answer = asked.outcome.result().is_some();
    is_answer || SseEndpoint::open(&door.fetch, &door.url, &door.headers).await.is_ok()
}
