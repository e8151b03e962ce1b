//! What happens in a gateway: each call from its beginning to its end.
//!
//! ```text
//!   client ──▶ Views: the call gets an observer ──▶ Front ──▶ …    the front says whose it is
//!     call is over ──▶ the observer: counts, a log line, a trace, spans
//! ```
//!
//! An observer knows no arguments and no results: they may hold secrets, and nobody
//! promised to keep them. What it keeps is bounded.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use switchboard_net::call::{Call, CallObserver};
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::{ServerTarget, Target};
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::trace::{PARENT, Parent, STATE, members, with};

use crate::policy;
use crate::span::{Sampler, Span, SpanKind, Spans};
use crate::{read, write};
use own_tools::{Recent, Trace};

pub(crate) use crate::span::Ids;
pub(crate) use own_tools::{OwnTool, WHOLE, list_request, trace};

mod own_tools;

/// How a call ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallResult {
    /// With a result.
    Ok,
    /// With a result that says that the tool failed.
    ToolError,
    /// With an error.
    Error,
    /// Its client did not want it any more.
    Cancelled,
}

impl CallResult {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Ok, Self::ToolError, Self::Error, Self::Cancelled];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Sees the calls of all clients of a gateway.
pub struct CallMonitor {
    open: AtomicUsize,
    counts: Counts,
    recent: Recent,
    ids: Ids,
    spans: OnceLock<(Spans, Sampler)>,
    /// Where each server is.
    peers: RwLock<HashMap<Box<str>, Peer>>,
    /// Whether a server has a tool, as far as is known.
    is_there: OnceLock<IsThere>,
    began: Instant,
}

type IsThere = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// What is seen of a call that is not answered yet.
#[derive(Clone, Debug)]
struct ObservedCall {
    method: Box<str>,
    /// The tool, prompt or resource, as the client calls it.
    offered: Option<Box<str>>,
    /// The same as its server calls it.
    target: Option<Box<str>>,
    server: Option<Arc<str>>,
    id: Option<Id>,
    since: Instant,
    at: SystemTime,
    /// The trace that it is part of.
    trace: u128,
    /// The span of the caller, if the request names one.
    parent: Option<u64>,
    state: Option<Box<str>>,
    /// Our span for the client, and ours towards the server with its beginning.
    span: u64,
    onward: Option<(u64, SystemTime)>,
    is_sampled: bool,
    /// How we are connected with the client.
    transport: &'static str,
}

impl Default for CallMonitor {
    fn default() -> Self {
        Self {
            open: AtomicUsize::new(0),
            counts: Counts::default(),
            recent: Recent::default(),
            ids: Ids::new(),
            spans: OnceLock::new(),
            peers: RwLock::default(),
            is_there: OnceLock::new(),
            began: Instant::now(),
        }
    }
}

impl CallMonitor {
    /// Sends a span for each call, and for each call onward. Once only.
    pub fn trace_to(&self, spans: Spans, sampler: Sampler) {
        _ = self.spans.set((spans, sampler));
    }

    /// Asks this whether a server has a tool, of those that it did not count yet. Once only.
    pub fn ask(&self, is_there: impl Fn(&str, &str) -> bool + Send + Sync + 'static) {
        _ = self.is_there.set(Box::new(is_there));
    }

    /// Says where a server is.
    pub fn meet(&self, server: &str, peer: Peer) {
        let mut peers = write(&self.peers);
        if peers.len() < MAX_PEERS || peers.contains_key(server) {
            peers.insert(server.into(), peer);
        }
    }

    /// Whether fronts have tools of ours: `get_tool_manifest` and `get_trace_by_id`.
    pub fn offer_tools(&self, are_offered: bool) {
        self.recent.want(are_offered);
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Calls that are not answered yet.
    pub fn open_calls(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Spans that were not sent because there were too many.
    pub fn dropped_spans(&self) -> u64 {
        self.spans.get().map_or(0, |(spans, _)| spans.dropped())
    }

    /// How long it has been there.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until what was seen is sent, for a moment at most.
    pub async fn flush(&self) {
        if let Some((spans, _)) = self.spans.get() {
            spans.flush().await;
        }
    }

    /// Whether a front has tools of ours. One server alone is as it is.
    pub(crate) fn has_tools(&self, only: Option<&Arc<str>>) -> bool {
        only.is_none() && self.recent.is_wanted()
    }

    /// A call begins: the record gets what observes it. `only` is the server if all
    /// calls of its path are that server's; elsewhere the front says whose a call is.
    pub(crate) fn observe(
        self: &Arc<Self>,
        call: &Call,
        request: &Message,
        only: Option<&Arc<str>>,
        transport: &'static str,
    ) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let parent = Parent::of(request);
        let spans = self.spans.get();
        let is_sampled = spans.is_some_and(|(_, sampler)| sampler.takes(parent, &self.ids));
        let state = parent.filter(|_| is_sampled).and_then(|_| {
            let members = members(request);
            members.into_iter().find(|(key, _)| *key == STATE).map(|(_, text)| text.into())
        });
        let seen = ObservedCall {
            method: short_name(request.method()).into(),
            offered: call_subject(request).map(Into::into),
            target: None,
            server: only.cloned(),
            id: request.id().cloned(),
            since: Instant::now(),
            at: SystemTime::now(),
            trace: parent.map_or_else(|| self.ids.trace(), |parent| parent.trace),
            parent: parent.map(|parent| parent.span),
            state,
            span: self.ids.span(),
            onward: None,
            is_sampled,
            transport,
        };
        let (monitor, has_tools) = (Arc::clone(self), self.has_tools(only));
        call.set_observer(Box::new(Observer { monitor, call: seen, has_tools }));
    }
}

impl fmt::Debug for CallMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMonitor").field("open", &self.open_calls()).finish_non_exhaustive()
    }
}

/// Sees one call.
struct Observer {
    monitor: Arc<CallMonitor>,
    call: ObservedCall,
    /// The gateway's own tools are among those of its list.
    has_tools: bool,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.monitor.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallObserver for Observer {
    fn forward(&mut self, server: &Arc<str>, request: Message) -> Message {
        let (call, monitor) = (&mut self.call, &self.monitor);
        call.server = Some(Arc::clone(server));
        call.target = call_subject(&request).map(Into::into);
        if monitor.spans.get().is_none() {
            return request;
        }
        let span = monitor.ids.span();
        call.onward = Some((span, SystemTime::now()));
        let parent = Parent { trace: call.trace, span, flags: u8::from(call.is_sampled) };
        with(&request, &[(PARENT, parent.to_string())])
    }

    fn finish(
        self: Box<Self>,
        client: &ClientConnection,
        answer: Option<&Message>,
    ) -> Option<Message> {
        let call = &self.call;
        self.monitor.close(client, call, answer);
        let answer = answer.filter(|it| self.has_tools && it.kind() == Kind::Result)?;
        let ours = call.offered.as_deref().and_then(OwnTool::named);
        match (&*call.method, ours) {
            (method::LIST_TOOLS, _) => own_tools::listed(answer),
            (method::CALL_TOOL, Some(OwnTool::Manifest)) => {
                Some(own_tools::manifest(answer, client.era()))
            }
            (method::CALL_TOOL, _) => own_tools::told(answer, call.trace),
            _ => None,
        }
    }
}

/// How a call ended.
struct CallEnd {
    outcome: CallResult,
    /// The code of an error.
    code: Option<i64>,
    took: Duration,
}

impl CallMonitor {
    /// A call was answered, or given up if there is no answer.
    fn close(&self, client: &ClientConnection, call: &ObservedCall, answer: Option<&Message>) {
        let is_tool = &*call.method == method::CALL_TOOL;
        let outcome = match answer {
            None => CallResult::Cancelled,
            Some(answer) if answer.kind() == Kind::Error => CallResult::Error,
            Some(answer) if is_tool && answer.is_tool_error() => CallResult::ToolError,
            Some(_) => CallResult::Ok,
        };
        let code = answer.and_then(Message::error_code);
        let end = CallEnd { outcome, code, took: call.since.elapsed() };
        self.counts.request(&call.method, outcome, end.took);
        if let (Some(server), Some(tool), true) = (&call.server, &call.target, is_tool) {
            // That a call went well proves nothing: some servers answer to any name.
            let is_there = || self.is_there.get().is_some_and(|is_there| is_there(server, tool));
            self.counts.tool(server, tool, (outcome, end.took), is_there);
        }
        log(client, call, &end);
        if is_tool {
            self.recent.add(client, || Trace::new(call, outcome, code, end.took));
        }
        if call.is_sampled {
            self.send_spans(client, call, &end);
        }
    }

    /// Our span for the client, and the one towards the server.
    fn send_spans(&self, client: &ClientConnection, call: &ObservedCall, end: &CallEnd) {
        let Some((spans, _)) = self.spans.get() else { return };
        let until = call.at + end.took;
        let mut attributes = said_of(call, call.offered.as_deref(), end);
        attributes.push(("network.transport", call.transport.into()));
        if let Some(id) = &call.id {
            attributes.push(("jsonrpc.request.id", shown(id).into()));
        }
        if let Some(session) = client.session() {
            attributes.push(("mcp.session.id", session.into()));
        }
        let whole = |id, parent, kind, offered: Option<&str>, from, attributes| Span {
            trace: call.trace,
            id,
            parent,
            state: call.state.clone(),
            kind,
            name: name(call, offered),
            from,
            until,
            attributes,
            is_error: end.is_error(),
        };
        let offered = call.offered.as_deref();
        spans.send(whole(call.span, call.parent, SpanKind::Server, offered, call.at, attributes));
        if let (Some((id, from)), Some(server)) = (call.onward, &call.server) {
            let mut attributes = said_of(call, call.target.as_deref(), end);
            attributes.push(("switchboard.server", (&**server).into()));
            attributes.extend(self.place_of(server));
            let (parent, target) = (Some(call.span), call.target.as_deref());
            spans.send(whole(id, parent, SpanKind::Client, target, from, attributes));
        }
    }

    fn place_of(&self, server: &str) -> Vec<(&'static str, Value)> {
        let peers = read(&self.peers);
        let Some(peer) = peers.get(server) else { return Vec::new() };
        let mut attributes = vec![("network.transport", peer.transport.into())];
        if let Some(host) = &peer.host {
            attributes.push(("server.address", (&**host).into()));
            attributes.extend(peer.port.map(|port| ("server.port", port.into())));
        }
        attributes
    }
}

impl CallEnd {
    fn is_error(&self) -> bool {
        matches!(self.outcome, CallResult::Error | CallResult::ToolError)
    }
}

/// `tools/call echo`; what has many names goes by its method alone.
fn name(call: &ObservedCall, target: Option<&str>) -> String {
    match (&*call.method, target) {
        (method::CALL_TOOL | method::GET_PROMPT, Some(target)) => {
            format!("{} {target}", call.method)
        }
        _ => call.method.to_string(),
    }
}

/// What OpenTelemetry's conventions want said of a call. The words of an error
/// are a server's, and may hold anything: they stay out.
fn said_of(call: &ObservedCall, target: Option<&str>, end: &CallEnd) -> Vec<(&'static str, Value)> {
    let mut said: Vec<(&'static str, Value)> = vec![("mcp.method.name", (&*call.method).into())];
    let key = match &*call.method {
        method::CALL_TOOL => "gen_ai.tool.name",
        method::GET_PROMPT => "gen_ai.prompt.name",
        _ => "mcp.resource.uri",
    };
    said.extend(target.map(|target| (key, target.into())));
    if &*call.method == method::CALL_TOOL {
        said.push(("gen_ai.operation.name", "execute_tool".into()));
    }
    let code = end.code.map(|code| code.to_string());
    let class = match end.outcome {
        CallResult::Ok => None,
        CallResult::ToolError => Some("tool_error".to_owned()),
        CallResult::Cancelled => Some("cancelled".to_owned()),
        CallResult::Error => Some(code.clone().unwrap_or_else(|| "_OTHER".to_owned())),
    };
    said.extend(class.map(|class| ("error.type", class.into())));
    said.extend(code.map(|code| ("rpc.response.status_code", code.into())));
    said
}

/// Characters of a client's id that are shown.
const SHOWN: usize = 64;

fn shown(id: &Id) -> String {
    match id {
        Id::Text(text) => text.chars().take(SHOWN).collect(),
        other => other.to_string(),
    }
}

/// One line for each call: at `info` if it failed, else at `debug`.
fn log(client: &ClientConnection, call: &ObservedCall, end: &CallEnd) {
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                server = call.server.as_deref(),
                method = &*call.method,
                tool = call.offered.as_deref().filter(|_| &*call.method == method::CALL_TOOL),
                request = call.id.as_ref().map(shown),
                session = client.session(),
                client = client.number(),
                principal = policy::who(client).as_deref(),
                ms = (end.took.as_secs_f64() * 1e6).round() / 1e3,
                outcome = end.outcome.name(),
                code = end.code,
                trace = format_args!("{:032x}", call.trace),
                "call"
            )
        };
    }
    if end.is_error() { line!(info) } else { line!(debug) }
}

/// Bytes of a name that are kept of a call: no tool has a longer name.
const MAX_NAME: usize = 256;

/// The tool, prompt or resource that a call is about.
fn call_subject(request: &Message) -> Option<Cow<'_, str>> {
    let text = match request.method() {
        method::CALL_TOOL | method::GET_PROMPT => request.name()?,
        method::READ_RESOURCE | method::SUBSCRIBE | method::UNSUBSCRIBE => {
            plain_uri(&request.uri()?).to_owned().into()
        }
        _ => return None,
    };
    let short = short_name(&text).len();
    Some(if short < text.len() { Cow::Owned(text[..short].to_owned()) } else { text })
}

/// As much of a name as is kept.
fn short_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
}

/// A URI without what may be secret in it: who asks, and what for. One with a
/// name and a password is told by its scheme alone.
fn plain_uri(uri: &str) -> &str {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let place = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
    if place.contains('@') { scheme } else { uri }
}

/// Where a server is, as spans tell it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// `pipe` or `tcp`.
    pub transport: &'static str,
    /// Its host, if it has one.
    pub host: Option<Box<str>>,
    /// The port there.
    pub port: Option<u16>,
}

impl Peer {
    /// Where this server is.
    pub fn new(server: &ServerTarget) -> Self {
        let Target::Url { url, .. } = server.target() else {
            return Self { transport: "pipe", host: None, port: None };
        };
        let usual = if url.scheme_str() == Some("http") { 80 } else { 443 };
        let port = url.port_u16().unwrap_or(usual);
        Self { transport: "tcp", host: url.host().map(Into::into), port: Some(port) }
    }
}

/// Servers whose places are known. Those that are beyond have none.
const MAX_PEERS: usize = 1024;

/// What stands for names that are none of ours.
pub const OTHER: &str = "other";

/// Tools of one server that are counted by name: more than people have, few
/// enough to be read at each scrape.
const TOOLS: usize = 256;

/// Servers that are counted by name, over all reloads.
const SERVERS: usize = 1024;

/// The upper ends of the buckets, in seconds: those of OpenTelemetry's
/// conventions for MCP, and a few below for what a gateway adds.
pub const BUCKETS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Methods that are counted by name.
const METHODS: [&str; 20] = [
    method::CALL_TOOL,
    method::CANCEL_TASK,
    method::COMPLETE,
    method::DISCOVER,
    method::GET_PROMPT,
    method::GET_TASK,
    method::INITIALIZE,
    method::LIST_PROMPTS,
    method::LIST_RESOURCES,
    method::LIST_TEMPLATES,
    method::LIST_TOOLS,
    method::LISTEN,
    method::PING,
    method::READ_RESOURCE,
    method::SET_LEVEL,
    method::SUBSCRIBE,
    method::TASK_RESULT,
    method::UNSUBSCRIBE,
    method::UPDATE_TASK,
    OTHER,
];

/// Calls that are counted together.
#[derive(Debug, Default)]
pub struct Series {
    outcomes: [AtomicU64; CallResult::ALL.len()],
    /// One for each of [`BUCKETS`], and one for what took longer.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

impl Series {
    fn add(&self, outcome: CallResult, took: Duration) {
        let one = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        one(&self.outcomes[outcome as usize]);
        let seconds = took.as_secs_f64();
        one(&self.buckets[BUCKETS.partition_point(|end| *end < seconds)]);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// How many went so.
    pub fn of(&self, outcome: CallResult) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// How many took no longer than each end, and how many there are in all.
    pub fn cumulated(&self) -> [u64; BUCKETS.len() + 1] {
        let mut sum = 0;
        self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        })
    }

    /// How long they took together.
    pub fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64()
    }
}

/// The calls of tools of one server.
#[derive(Debug, Default)]
struct ToolCounts {
    by_name: SeriesTable<Box<str>, Series>,
    other: Series,
}

type SeriesTable<K, V> = RwLock<HashMap<K, Arc<V>>>;

/// All that is counted.
#[derive(Debug)]
pub struct Counts {
    methods: [Series; METHODS.len()],
    servers: SeriesTable<Arc<str>, ToolCounts>,
    others: Arc<ToolCounts>,
}

impl Default for Counts {
    fn default() -> Self {
        let methods = std::array::from_fn(|_| Series::default());
        Self { methods, servers: RwLock::default(), others: Arc::default() }
    }
}

fn find<K: Eq + Hash + std::borrow::Borrow<str>, V>(
    table: &SeriesTable<K, V>,
    name: &str,
) -> Option<Arc<V>> {
    read(table).get(name).cloned()
}

/// Adds a row, if there is room for it.
fn add<K: Eq + Hash, V: Default>(
    table: &SeriesTable<K, V>,
    name: K,
    most: usize,
) -> Option<Arc<V>> {
    let mut table = write(table);
    let has_room = table.len() < most || table.contains_key(&name);
    has_room.then(|| Arc::clone(table.entry(name).or_default()))
}

impl Counts {
    /// Counts a request of any method.
    fn request(&self, method: &str, outcome: CallResult, took: Duration) {
        let at = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        self.methods[at].add(outcome, took);
    }

    /// Counts a call of a tool; `is_there` says whether the server has it, and
    /// is asked only about names that were not counted yet.
    fn tool(
        &self,
        server: &Arc<str>,
        tool: &str,
        (outcome, elapsed): (CallResult, Duration),
        is_there: impl FnOnce() -> bool,
    ) {
        let tools = find(&self.servers, server);
        let tools = tools.or_else(|| add(&self.servers, Arc::clone(server), SERVERS));
        let tools = tools.unwrap_or_else(|| Arc::clone(&self.others));
        if let Some(series) = find(&tools.by_name, tool) {
            return series.add(outcome, elapsed);
        }
        let series = is_there().then(|| add(&tools.by_name, tool.into(), TOOLS)).flatten();
        series.as_deref().unwrap_or(&tools.other).add(outcome, elapsed);
    }

    /// Shows what was counted of each method.
    pub fn each_method(&self, mut show: impl FnMut(&'static str, &Series)) {
        for (name, series) in METHODS.iter().zip(&self.methods) {
            show(name, series);
        }
    }

    /// Shows what was counted of each tool, by server and name.
    pub fn each_tool(&self, mut show: impl FnMut(&str, &str, &Series)) {
        let mut servers: Vec<_> = {
            let table = read(&self.servers);
            table.iter().map(|(name, tools)| (Arc::clone(name), Arc::clone(tools))).collect()
        };
        servers.sort_by(|one, other| one.0.cmp(&other.0));
        if !self.others.is_empty() {
            servers.push((OTHER.into(), Arc::clone(&self.others)));
        }
        for (server, tools) in &servers {
            let table = read(&tools.by_name);
            let mut rows: Vec<_> = table.iter().collect();
            rows.sort_by_key(|(name, _)| *name);
            for (name, series) in rows {
                show(server, name, series);
            }
            if !tools.other.is_empty() {
                show(server, OTHER, &tools.other);
            }
        }
    }
}

impl ToolCounts {
    fn is_empty(&self) -> bool {
        let named = read(&self.by_name);
        named.is_empty() && self.other.is_empty()
    }
}

impl Series {
    fn is_empty(&self) -> bool {
        CallResult::ALL.iter().all(|outcome| self.of(*outcome) == 0)
    }
}

#[cfg(test)]
mod tests;
