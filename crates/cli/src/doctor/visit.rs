//! A visit: finds the server, greets it, looks at all it has, and leaves.
//!
//! Judges nothing and stops at nothing but silence: what is odd is written down.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Target};
use switchboard_proto::client::probe::{self, Verdict};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::jsonrpc::Id;
use switchboard_proto::method;
use switchboard_proto::revision::{Era, Revision};

use super::evidence::{End, Evidence, ExchangeResult, List, Transport, Unreached};
use super::wire::{ChildPipe, Wire};
use crate::target::{Found, environment};

mod endpoint;

/// How to visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisitOptions {
    /// The era to speak; none asks the server.
    pub(crate) era: Option<Era>,
    /// How long one answer may take.
    pub(crate) patience: Duration,
}

/// How long a server may think about its era: a legacy one may never answer (NEG-8).
const PROBE: Duration = Duration::from_secs(5);

/// Visits a server.
pub(crate) async fn visit(found: Found, plan: VisitOptions) -> Evidence {
    let mut evidence = Evidence::default();
    match (found.target, found.fetch) {
        (Target::Command(command), _) => {
            evidence.target = command.name.clone();
            command_line(&command, plan, &mut evidence).await;
        }
        (Target::Url { url, strategy, headers }, Some(fetch)) => {
            // The name leaves out what may be secret in a URL, the wire needs it.
            let server = ServerTarget::url(url.clone(), strategy, headers, fetch.clone());
            evidence.target = server.name();
            if let Target::Url { headers, .. } = server.target() {
                let door = endpoint::Door { url, headers: headers.clone(), fetch };
                endpoint::visit(door, strategy, plan, &mut evidence).await;
            }
        }
        (Target::Url { .. }, None) => {}
    }
    evidence
}

/// A conversation, and where it is written down.
struct Talk<'e> {
    wire: Wire,
    evidence: &'e mut Evidence,
    plan: VisitOptions,
    next_id: u64,
    /// The envelope of modern requests.
    envelope: Option<Value>,
    /// Nothing more is asked of a server that does not answer.
    is_over: bool,
}

impl<'e> Talk<'e> {
    fn new(wire: Wire, evidence: &'e mut Evidence, plan: VisitOptions) -> Self {
        Self { wire, evidence, plan, next_id: 1, envelope: None, is_over: false }
    }

    /// Sends a request, and writes down what comes of it.
    async fn ask(&mut self, method: &str, params: Value) -> ExchangeResult {
        let id = json!(self.next_id);
        self.ask_as(id, method, params, self.plan.patience).await
    }

    async fn ask_as(
        &mut self,
        id: Value,
        method: &str,
        mut params: Value,
        patience: Duration,
    ) -> ExchangeResult {
        self.next_id += 1;
        if let Some(envelope) = &self.envelope {
            params["_meta"] = envelope.clone();
        }
        let exchange = self.wire.ask(id, method, params, patience).await;
        let outcome = exchange.outcome.clone();
        self.is_over = matches!(outcome, ExchangeResult::Silence | ExchangeResult::Gone { .. });
        self.evidence.exchanges.push(exchange);
        outcome
    }

    /// Asks which era the server speaks.
    async fn probe(&mut self) -> (ExchangeResult, Verdict) {
        let question = probe::question(&Id::from(1), &whoami());
        let params = question.payload_value().unwrap_or_default();
        let carrier = if let Wire::Http(http) = &mut self.wire {
            http.era = Era::Modern;
            http.revision = Some(Revision::NEWEST_MODERN.to_string());
            Carrier::Http
        } else {
            Carrier::Pipe
        };
        let patience = self.plan.patience.min(PROBE);
        let started = Instant::now();
        let id = json!(self.next_id);
        let outcome = self.ask_as(id, method::DISCOVER, params, patience).await;
        self.evidence.step(method::DISCOVER, started.elapsed());
        let verdict = probe::verdict(carrier, &reply_of(&outcome));
        (outcome, verdict)
    }

    /// The server is modern: what it said of itself is all there is to know.
    fn meet_modern(&mut self, revision: Revision, outcome: &ExchangeResult) {
        self.envelope = Some(json!({
            method::meta::VERSION: revision.as_str(),
            method::meta::CLIENT: whoami(),
            method::meta::CAPABILITIES: {},
        }));
        if let Wire::Http(http) = &mut self.wire {
            http.revision = Some(revision.to_string());
        }
        self.evidence.era = Some(Era::Modern);
        self.evidence.revision = Some(revision.to_string());
        self.evidence.welcome = outcome.result().cloned().unwrap_or_default();
    }

    /// Greets a legacy server; whether it could be done.
    async fn greet(&mut self) -> bool {
        self.envelope = None;
        if let Wire::Http(http) = &mut self.wire {
            http.era = Era::Legacy;
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
        let session = outcome.facts().and_then(|facts| facts.session.clone());
        self.confirm(session).await;
        self.evidence.was_greeted()
    }

    /// The end of the handshake.
    async fn confirm(&mut self, session: Option<String>) {
        let ready = json!({"jsonrpc": "2.0", "method": method::INITIALIZED});
        match &mut self.wire {
            Wire::Child(pipe) => _ = pipe.write(&ready).await,
            Wire::Sse(old) => _ = old.write(&ready).await,
            Wire::Http(http) => {
                http.session = session;
                http.revision.clone_from(&self.evidence.revision);
                endpoint::confirm(http, self.evidence, &ready.to_string()).await;
            }
        }
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

fn reply_of(outcome: &ExchangeResult) -> probe::ProbeReply {
    match outcome {
        ExchangeResult::Answer { message, http } => probe::ProbeReply::Answer {
            status: http.as_ref().map(|facts| facts.status),
            message: Box::new(message.clone()),
        },
        ExchangeResult::Http(facts) => probe::ProbeReply::Http { status: facts.status },
        ExchangeResult::Silence => probe::ProbeReply::Silence,
        ExchangeResult::Gone { .. } | ExchangeResult::Lost(_) => probe::ProbeReply::Broken,
    }
}

async fn command_line(command: &Command, plan: VisitOptions, evidence: &mut Evidence) {
    evidence.transport = Some(Transport::Stdio);
    let started = Instant::now();
    let Some(pipe) = start(command, evidence) else { return };
    evidence.step("start", started.elapsed());
    let mut talk = Talk::new(Wire::Child(Box::new(pipe)), evidence, plan);
    let mut is_fresh = true;
    let mut may_be_legacy = plan.era != Some(Era::Modern);
    if plan.era != Some(Era::Legacy) {
        let (outcome, verdict) = talk.probe().await;
        is_fresh = false;
        match verdict {
            Verdict::Modern(revision) => talk.meet_modern(revision, &outcome),
            Verdict::Unusable => may_be_legacy = false,
            Verdict::Legacy | Verdict::Undecided
                if !may_be_legacy || outcome.message().is_some() => {}
            Verdict::Legacy | Verdict::Undecided => {
                talk.evidence.upset_by_probe = Some(outcome);
                is_fresh = talk.restart(command).await;
            }
        }
    }
    let is_legacy = !talk.evidence.was_greeted() && may_be_legacy;
    // Some take the question for the era as the beginning of a conversation.
    if is_legacy && !talk.greet().await && !is_fresh && talk.restart(command).await {
        talk.greet().await;
    }
    if talk.evidence.was_greeted() {
        talk.survey().await;
    }
    let Talk { wire, evidence, .. } = talk;
    let Wire::Child(pipe) = wire else { return };
    let (went, heard) = pipe.close().await;
    evidence.heard = heard;
    evidence.outstayed = !went;
}

fn start(command: &Command, evidence: &mut Evidence) -> Option<ChildPipe> {
    let heard = std::mem::take(&mut evidence.heard);
    match ChildPipe::start(command, &environment(), heard) {
        Ok(pipe) => Some(pipe),
        Err(error) => {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            evidence.unreached = Some(Unreached::Spawn { text: format!("{error}{cause}") });
            None
        }
    }
}

impl Talk<'_> {
    /// A new process in place of the old one.
    async fn restart(&mut self, command: &Command) -> bool {
        let Some(pipe) = start(command, self.evidence) else { return false };
        let old = std::mem::replace(&mut self.wire, Wire::Child(Box::new(pipe)));
        let Wire::Child(old) = old else { return true };
        let (_, heard) = old.close().await;
        if let Wire::Child(pipe) = &mut self.wire {
            pipe.heard = heard;
        }
        true
    }
}

/// Pages of one list; more than anybody should have to fetch.
const PAGES: usize = 100;

/// Method, member, capability.
const LISTS: [(&str, &str, &str); 4] = [
    (method::LIST_TOOLS, "tools", "tools"),
    (method::LIST_PROMPTS, "prompts", "prompts"),
    (method::LIST_RESOURCES, "resources", "resources"),
    (method::LIST_TEMPLATES, "resourceTemplates", "resources"),
];

/// A method that no server has.
pub(crate) const NO_METHOD: &str = "switchboard/no-such-method";

impl Talk<'_> {
    async fn survey(&mut self) {
        if self.evidence.era == Some(Era::Legacy) {
            let started = Instant::now();
            self.ask(method::PING, json!({})).await;
            self.evidence.step(method::PING, started.elapsed());
        }
        for (method, member, capability) in LISTS {
            if self.is_over {
                return;
            }
            let announced = self.evidence.welcome["capabilities"].get(capability).is_some();
            let list =
                List { method, member, capability, announced, pages: vec![], end: End::Whole };
            self.list(list).await;
        }
        // With an id of the other kind, to see whether it comes back as it went.
        if !self.is_over {
            let id = json!(format!("doctor-{}", self.next_id));
            self.ask_as(id, NO_METHOD, json!({}), self.plan.patience).await;
        }
    }

    async fn list(&mut self, mut list: List) {
        let started = Instant::now();
        let mut seen = HashSet::new();
        let mut params = json!({});
        loop {
            let page = self.ask(list.method, params.clone()).await;
            let next = page.result().and_then(|result| result.get("nextCursor")).cloned();
            let is_page = page.result().is_some_and(|result| result[list.member].is_array());
            list.pages.push(page);
            list.end = match &next {
                _ if !is_page => End::Broken,
                None | Some(Value::Null) => End::Whole,
                Some(_) if !list.announced => End::Whole,
                Some(cursor) if !seen.insert(cursor.to_string()) => End::Loop,
                Some(_) if list.pages.len() >= PAGES => End::Endless,
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
            self.evidence.step(format!("{}{pages}", list.method), started.elapsed());
        }
        if matches!(list.pages.last(), Some(ExchangeResult::Lost(_))) {
            self.is_over = true;
        }
        self.evidence.lists.push(list);
    }
}
