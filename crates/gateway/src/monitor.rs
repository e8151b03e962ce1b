//! What happens in a gateway: each call from its beginning to its end.
//!
//! ```text
//!   client ──▶ Monitored: the call gets an observer ──▶ Front ──▶ …    the front says whose it is
//!     call is over ──▶ the observer: counts, a log line, a trace, spans
//! ```
//!
//! A tap knows no arguments and no results: they may hold secrets, and nobody
//! promised to keep them. What it keeps is bounded.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http::HeaderName;
use switchboard_net::access::Who;
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::{Call, CallObserver};
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::Through;
use switchboard_proto::exchange::{Ask, HeaderParams};
use switchboard_proto::failure::Words;
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::trace::{self, Parent};

use crate::span::{Sampler, Spans};
use own_tools::Recent;

pub(crate) use crate::span::Ids;
pub use count::{BUCKETS, Counts, OTHER, Series};
pub use finish::Peer;
pub(crate) use own_tools::WHOLE;

mod count;
mod finish;
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

    /// What an answer says.
    fn judge(method: &str, answer: &Message) -> Self {
        match answer.kind() {
            Kind::Error => Self::Error,
            _ if method == method::CALL_TOOL && answer.is_tool_error() => Self::ToolError,
            _ => Self::Ok,
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
    peers: finish::Peers,
    /// Whether a server has a tool, as far as is known.
    is_there: OnceLock<IsThere>,
    began: Instant,
}

type IsThere = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// What is seen of a call that is not answered yet.
#[derive(Clone, Debug)]
struct Seen {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for CallMonitor {
    fn default() -> Self {
        Self {
            open: AtomicUsize::new(0),
            counts: Counts::default(),
            recent: Recent::default(),
            ids: Ids::new(),
            spans: OnceLock::new(),
            peers: finish::Peers::default(),
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
        self.peers.set(server, peer);
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

    /// A call begins.
    fn see(&self, request: &Message, transport: &'static str) -> Seen {
        self.open.fetch_add(1, Ordering::Relaxed);
        let parent = Parent::of(request);
        let spans = self.spans.get();
        let is_sampled = spans.is_some_and(|(_, sampler)| sampler.takes(parent, &self.ids));
        let state = parent.filter(|_| is_sampled).and_then(|_| {
            let members = trace::members(request);
            members.into_iter().find(|(key, _)| *key == trace::STATE).map(|(_, text)| text.into())
        });
        Seen {
            method: finish::short_name(request.method()).into(),
            offered: finish::call_subject(request).map(Into::into),
            target: None,
            server: None,
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
        }
    }

    /// A call goes on to a server, as `request`; what that server is to get.
    fn forward(&self, call: &mut Seen, server: &Arc<str>, request: Message) -> Message {
        call.server = Some(Arc::clone(server));
        call.target = finish::call_subject(&request).map(Into::into);
        if self.spans.get().is_none() {
            return request;
        }
        let span = self.ids.span();
        call.onward = Some((span, SystemTime::now()));
        let parent = Parent { trace: call.trace, span, flags: u8::from(call.is_sampled) };
        trace::with(&request, &[(trace::PARENT, parent.to_string())])
    }
}

impl fmt::Debug for CallMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallMonitor").field("open", &self.open_calls()).finish_non_exhaustive()
    }
}

/// An inside whose calls are seen.
pub struct Monitored {
    tap: Arc<CallMonitor>,
    backend: Arc<dyn Backend>,
    /// Whose calls they are, if they are all of one server.
    server: Option<Arc<str>>,
    transport: &'static str,
}

impl Monitored {
    /// What is behind a path of many servers: whose a call is, the front says.
    pub fn many(tap: &Arc<CallMonitor>, backend: Arc<dyn Backend>) -> Self {
        Self { tap: Arc::clone(tap), backend, server: None, transport: "tcp" }
    }

    /// What is behind the path of one server.
    pub fn one(tap: &Arc<CallMonitor>, server: &Arc<str>, backend: Arc<dyn Backend>) -> Self {
        Self { server: Some(Arc::clone(server)), ..Self::many(tap, backend) }
    }

    /// The same, for a client that started us.
    #[must_use]
    pub fn on_stdio(self) -> Self {
        Self { transport: "pipe", ..self }
    }

    /// Whether it has tools of ours. One server alone is as it is.
    fn has_tools(&self) -> bool {
        self.server.is_none() && self.tap.recent.is_wanted()
    }
}

/// Sees one call.
struct Observer {
    tap: Arc<CallMonitor>,
    call: Seen,
    /// The gateway's own tools are among those of its list.
    has_tools: bool,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tap.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallObserver for Observer {
    fn forward(&mut self, server: &Arc<str>, request: Message) -> Message {
        self.tap.forward(&mut self.call, server, request)
    }

    fn finish(
        self: Box<Self>,
        client: &ClientConnection,
        answer: Option<&Message>,
    ) -> Option<Message> {
        let call = &self.call;
        self.tap.close(client, call, answer);
        let answer = answer.filter(|it| self.has_tools && it.kind() == Kind::Result)?;
        let ours = call.offered.as_deref().and_then(own_tools::ours);
        match (&*call.method, ours) {
            (method::LIST_TOOLS, _) => own_tools::listed(answer),
            (method::CALL_TOOL, Some(own_tools::MANIFEST)) => {
                Some(own_tools::manifest(answer, client.era()))
            }
            (method::CALL_TOOL, _) => own_tools::told(answer, call.trace),
            _ => None,
        }
    }
}

impl Backend for Monitored {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
        let (tap, has_tools) = (Arc::clone(&self.tap), self.has_tools());
        let mut seen = self.tap.see(&request, self.transport);
        seen.server.clone_from(&self.server);
        call.set_observer(Box::new(Observer { tap, call: seen, has_tools }));
        match own_tools::asked(&request).filter(|_| has_tools) {
            None => self.backend.open(client, call, request, said),
            Some(own_tools::TRACE) => {
                call.finish(own_tools::trace(&self.tap, client, &request));
                PendingWork::none()
            }
            // What this client may see, and nothing else, is what it gets to list.
            Some(_) => self.backend.open(client, call, own_tools::list(&request), None),
        }
    }

    fn note(&self, client: &Arc<ClientConnection>, message: Message) -> PendingWork {
        self.backend.note(client, message)
    }

    fn cancel(&self, client: &Arc<ClientConnection>, call: &Call) {
        self.backend.cancel(client, call);
    }

    fn supply(&self, client: &Arc<ClientConnection>, ask: Ask, answer: Message) -> Option<Message> {
        self.backend.supply(client, ask, answer)
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        self.backend.forget(client);
    }

    fn carries(&self) -> Option<Arc<[HeaderName]>> {
        self.backend.carries()
    }

    fn keeps(&self, client: &ClientConnection) -> bool {
        self.backend.keeps(client)
    }

    fn leads_back(&self, who: &Who, through: &Through) -> bool {
        self.backend.leads_back(who, through)
    }

    /// Clients of a gateway need not own its servers.
    fn words(&self) -> Words {
        Words::Brief
    }
}

impl fmt::Debug for Monitored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitored").field("server", &self.server).finish_non_exhaustive()
    }
}
