//! What happens in a gateway: each call from its beginning to its end.
//!
//! ```text
//!   client ──▶ Views: the call gets an observer ──▶ Front ──▶ …    the front says whose it is
//!     call is over ──▶ the observer: counts, a log line, a trace, spans
//! ```
//!
//! An observer knows no arguments and no results: they may hold secrets, and nobody
//! promised to keep them. Only while a person has switched a capture on, it keeps both for
//! a while. What it keeps is bounded.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use switchboard_net::bridge::Bridge;
use switchboard_net::call::{Call, CallDescription, CallObserver, CallPoint};
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::Target;
use switchboard_proto::Table;
use switchboard_proto::jsonrpc::{Id, Kind, Member, Message};
use switchboard_proto::method;
use switchboard_proto::trace::{PARENT, Parent, STATE, members, with};

use crate::fleet::Fleet;
use crate::policy;
use crate::span::{self, Sampler, Span, SpanValue, Spans};
use crate::{read, write};

use capture::CapturedBody;

pub(crate) use crate::span::Ids;
pub use call_log::{CallLog, CallPoints, LoggedCall};
pub use capture::{
    CaptureRule, Captures, MAX_RULES as MAX_CAPTURE_RULES, MAX_TIME as MAX_CAPTURE_TIME,
};
pub(crate) use own_tools::{OwnTool, WHOLE, list_request, trace};

mod call_log;
mod capture;
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
#[derive(Default)]
pub struct CallMonitor {
    open: AtomicUsize,
    counts: Counts,
    calls: CallLog,
    captures: Captures,
    ids: Ids,
    spans: OnceLock<(Spans, Sampler)>,
    /// Knows where each server is, and what it has.
    fleet: OnceLock<Weak<Fleet>>,
}

/// What is seen of a call that is not answered yet.
struct ObservedCall {
    monitor: Arc<CallMonitor>,
    /// The gateway's own tools are among those of its list.
    has_tools: bool,
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
    /// What it has reached, if the last calls are remembered.
    points: CallPoints,
    /// What a client without a session calls itself, if they are.
    client: Option<Box<str>>,
    /// The request, while a person wants some to be kept.
    request: Option<Box<CapturedBody>>,
}

impl CallMonitor {
    /// Sends a span for each call, and for each call onward. Once only.
    pub fn trace_to(&self, spans: Spans, sampler: Sampler) {
        _ = self.spans.set((spans, sampler));
    }

    /// Asks this fleet where servers are, and whether they have a tool. Once only.
    pub(crate) fn know(&self, fleet: &Arc<Fleet>) {
        _ = self.fleet.set(Arc::downgrade(fleet));
    }

    fn fleet(&self) -> Option<Arc<Fleet>> {
        self.fleet.get().and_then(Weak::upgrade)
    }

    /// Whether fronts have tools of ours: `get_tool_manifest` and `get_trace_by_id`.
    pub fn offer_tools(&self, are_offered: bool) {
        self.calls.offer_tools(are_offered);
    }

    /// Remembers the last calls, for people who look at them.
    pub fn keep_calls(&self) {
        self.calls.keep_for_people();
    }

    /// The last calls.
    pub fn calls(&self) -> &CallLog {
        &self.calls
    }

    /// Requests and answers that people want to be kept.
    pub fn captures(&self) -> &Captures {
        &self.captures
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

    /// Waits until what was seen is sent, for a moment at most.
    pub async fn flush(&self) {
        if let Some((spans, _)) = self.spans.get() {
            spans.flush().await;
        }
    }

    /// Whether a front has tools of ours. One server alone is as it is.
    pub(crate) fn has_tools(&self, only: Option<&Arc<str>>) -> bool {
        only.is_none() && self.calls.has_tools()
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
            let is_kept = |(key, text): &(&str, String)| *key == STATE && text.len() <= MAX_STATE;
            members(request).into_iter().find(is_kept).map(|(_, text)| text.into())
        });
        call.set_observer(Box::new(ObservedCall {
            monitor: Arc::clone(self),
            has_tools: self.has_tools(only),
            method: short_name(request.method()).into(),
            offered: call_subject(request).map(Into::into),
            target: None,
            server: only.cloned(),
            id: request.id().cloned(),
            since: switchboard_net::now(),
            at: SystemTime::now(),
            trace: parent.map_or_else(|| self.ids.trace(), |parent| parent.trace),
            parent: parent.map(|parent| parent.span),
            state,
            span: self.ids.span(),
            onward: None,
            is_sampled,
            transport,
            points: CallPoints::default(),
            client: self.calls.is_wanted().then(|| client_name(request)).flatten(),
            request: self.captures.begin(request.text()),
        }));
    }
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        self.monitor.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallObserver for ObservedCall {
    fn describe(&self) -> Option<CallDescription> {
        Some(CallDescription {
            method: self.method.clone(),
            offered: self.offered.clone(),
            server: self.server.clone(),
            at: self.at,
            age: self.age(),
            trace: self.trace,
            client: self.client.clone(),
        })
    }

    fn forward(&mut self, server: &Arc<str>, request: Message) -> Message {
        self.server = Some(Arc::clone(server));
        self.target = call_subject(&request).map(Into::into);
        if self.monitor.calls.is_wanted() {
            self.points.routed = call_log::micros(self.age());
        }
        if self.monitor.spans.get().is_none() {
            return request;
        }
        let span = self.monitor.ids.span();
        self.onward = Some((span, SystemTime::now()));
        let parent = Parent { trace: self.trace, span, flags: u8::from(self.is_sampled) };
        with(&request, &[(PARENT, parent.to_string())])
    }

    fn reach(&mut self, point: CallPoint) {
        if self.monitor.calls.is_wanted() {
            let age = self.age();
            self.points.reach(point, age);
        }
    }

    fn finish(
        mut self: Box<Self>,
        client: &ClientConnection,
        answer: Option<&Message>,
    ) -> Option<Message> {
        let is_tool = &*self.method == method::CALL_TOOL;
        let outcome = match answer {
            None => CallResult::Cancelled,
            Some(answer) if answer.kind() == Kind::Error => CallResult::Error,
            Some(answer) if is_tool && answer.is_tool_error() => CallResult::ToolError,
            Some(_) => CallResult::Ok,
        };
        let (code, took) = (answer.and_then(Message::error_code), self.age());
        let end = CallEnd { outcome, code, took };
        let request = self.request.take();
        let CallMonitor { counts, calls, captures, .. } = &*self.monitor;
        counts.request(&self.method, outcome, took);
        if let (Some(server), Some(tool), true) = (&self.server, &self.target, is_tool) {
            // That a call went well proves nothing: some servers answer to any name.
            let is_there = || self.monitor.fleet().is_some_and(|it| it.has_tool(server, tool));
            counts.tool(server, tool, (outcome, took), is_there);
        }
        log(client, &self, &end);
        let number = calls.add(client, &self, &end);
        if let (Some(number), Some(request)) = (number, request) {
            let whose = (self.server.as_deref(), policy::who(client));
            let whose = (whose.0, whose.1.as_deref());
            let answer = answer.map(|answer| &**answer.text());
            captures.end((number, request), whose, answer);
        }
        if self.is_sampled {
            self.send_spans(client, &end);
        }
        let answer = answer.filter(|it| self.has_tools && it.kind() == Kind::Result)?;
        match (&*self.method, self.offered.as_deref().and_then(OwnTool::named)) {
            (method::LIST_TOOLS, _) => own_tools::listed(answer),
            (method::CALL_TOOL, Some(OwnTool::Manifest)) => {
                Some(own_tools::manifest(answer, client.era()))
            }
            (method::CALL_TOOL, _) => own_tools::told(answer, self.trace),
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

impl ObservedCall {
    /// How long ago it came.
    fn age(&self) -> Duration {
        switchboard_net::now().saturating_duration_since(self.since)
    }

    /// Our span for the client, and the one towards the server.
    fn send_spans(&self, client: &ClientConnection, end: &CallEnd) {
        let Some((spans, _)) = self.monitor.spans.get() else { return };
        let until = self.at + end.took;
        let send = |id, parent, kind, subject: Option<&str>, from, attributes: &[_]| {
            spans.send(&Span {
                trace: self.trace,
                id,
                parent,
                state: self.state.as_deref(),
                kind,
                name: &name(self, subject),
                from,
                until,
                attributes,
                is_error: end.is_error(),
            });
        };
        let offered = self.offered.as_deref();
        let mut attributes = said_of(self, offered, end);
        attributes.push(("network.transport", self.transport.into()));
        attributes.extend(self.id.iter().map(|id| ("jsonrpc.request.id", shown(id).into())));
        attributes.extend(client.session().map(|session| ("mcp.session.id", session.into())));
        send(self.span, self.parent, span::SERVER, offered, self.at, &attributes);
        if let (Some((id, from)), Some(server)) = (self.onward, &self.server) {
            let target = self.target.as_deref();
            let bridge = self.bridge_of(server);
            let mut attributes = said_of(self, target, end);
            attributes.push(("switchboard.server", (&**server).into()));
            if let Some(bridge) = &bridge {
                tell_place(bridge.server().target(), &mut attributes);
            }
            send(id, Some(self.span), span::CLIENT, target, from, &attributes);
        }
    }

    fn bridge_of(&self, server: &str) -> Option<Arc<Bridge>> {
        let fleet = self.monitor.fleet()?;
        let running = fleet.running(server).map(|running| Arc::clone(&running.bridge));
        running.or_else(|| fleet.bridges(|name| name == server).pop())
    }
}

/// Says where a server is.
fn tell_place<'a>(target: &'a Target, said: &mut Attributes<'a>) {
    let Target::Url { url, .. } = target else {
        said.push(("network.transport", "pipe".into()));
        return;
    };
    said.push(("network.transport", "tcp".into()));
    if let Some(host) = url.host() {
        let usual = if url.scheme_str() == Some("http") { 80 } else { 443 };
        said.push(("server.address", host.into()));
        let port = url.port_u16().unwrap_or(usual);
        said.push(("server.port", SpanValue::Number(port.into())));
    }
}

impl CallEnd {
    fn is_error(&self) -> bool {
        matches!(self.outcome, CallResult::Error | CallResult::ToolError)
    }
}

/// `tools/call echo`; what has many names goes by its method alone.
fn name<'a>(call: &'a ObservedCall, target: Option<&str>) -> Cow<'a, str> {
    match (&*call.method, target) {
        (method::CALL_TOOL | method::GET_PROMPT, Some(target)) => {
            format!("{} {target}", call.method).into()
        }
        _ => (&*call.method).into(),
    }
}

type Attributes<'a> = Vec<(&'static str, SpanValue<'a>)>;

/// What OpenTelemetry's conventions want said of a call. The words of an error
/// are a server's, and may hold anything: they stay out.
fn said_of<'a>(call: &'a ObservedCall, target: Option<&'a str>, end: &CallEnd) -> Attributes<'a> {
    // Room for all that is said of a call that went well.
    let mut said: Attributes<'_> = Vec::with_capacity(8);
    said.push(("mcp.method.name", (&*call.method).into()));
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

/// Bytes of what others said about a trace that spans repeat; W3C wants 512 at least.
const MAX_STATE: usize = 1024;

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

/// What a modern client calls itself.
fn client_name(request: &Message) -> Option<Box<str>> {
    let name = request.part(Member::MetaClient)?.string("name")?;
    (!name.is_empty()).then(|| short_name(&name).into())
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

    fn is_empty(&self) -> bool {
        CallResult::ALL.iter().all(|outcome| self.of(*outcome) == 0)
    }

    /// How long they took together.
    pub fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64()
    }
}

/// The calls of tools of one server.
#[derive(Debug, Default)]
struct ToolCounts {
    by_name: SeriesTable<Series>,
    other: Series,
}

type SeriesTable<V> = RwLock<Table<Arc<str>, Arc<V>>>;

/// All that is counted.
#[derive(Debug, Default)]
pub struct Counts {
    methods: [Series; METHODS.len()],
    servers: SeriesTable<ToolCounts>,
    others: Arc<ToolCounts>,
}

/// The row of a name. One that is not there is added if there is room, and `may_add` says so.
fn row<V: Default>(
    table: &SeriesTable<V>,
    name: &str,
    most: usize,
    may_add: impl FnOnce() -> bool,
) -> Option<Arc<V>> {
    let there = read(table).get(name).cloned();
    if there.is_some() || !may_add() {
        return there;
    }
    let mut table = write(table);
    let has_room = table.len() < most || table.contains_key(name);
    has_room.then(|| Arc::clone(table.entry(name.into()).or_default()))
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
        server: &str,
        tool: &str,
        (outcome, elapsed): (CallResult, Duration),
        is_there: impl FnOnce() -> bool,
    ) {
        let tools = row(&self.servers, server, SERVERS, || true);
        let tools = tools.unwrap_or_else(|| Arc::clone(&self.others));
        let series = row(&tools.by_name, tool, TOOLS, is_there);
        series.as_deref().unwrap_or(&tools.other).add(outcome, elapsed);
    }

    /// Shows what was counted of each method that was called.
    pub fn each_method(&self, mut show: impl FnMut(&'static str, &Series)) {
        let all = METHODS.iter().zip(&self.methods);
        all.filter(|(_, series)| !series.is_empty()).for_each(|(name, series)| show(name, series));
    }

    /// Shows what was counted of each tool, with its labels: server and name.
    pub fn each_tool(&self, mut show: impl FnMut(&[(&str, &str)], &Series)) {
        let mut servers: Vec<_> = {
            let table = read(&self.servers);
            table.iter().map(|(name, tools)| (Arc::clone(name), Arc::clone(tools))).collect()
        };
        servers.sort_by(|one, other| one.0.cmp(&other.0));
        if !(read(&self.others.by_name).is_empty() && self.others.other.is_empty()) {
            servers.push((OTHER.into(), Arc::clone(&self.others)));
        }
        for (server, tools) in &servers {
            let table = read(&tools.by_name);
            let mut rows: Vec<_> = table.iter().collect();
            rows.sort_by_key(|(name, _)| *name);
            for (name, series) in rows {
                show(&[("server", server), ("tool", name)], series);
            }
            if !tools.other.is_empty() {
                show(&[("server", server), ("tool", OTHER)], &tools.other);
            }
        }
    }
}

#[cfg(test)]
mod tests;
