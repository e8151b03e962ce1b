//! What happens in a gateway: each call from its beginning to its end.
//!
//! ```text
//!   face ──▶ Tapped ──▶ Front or Bridge ──▶ …          a call is opened; the front says whose it is
//!     └────▶ Tapped::answered ◀── whoever answers      it is over:  counts, a log line, a trace, spans
//! ```
//!
//! A tap knows no arguments and no results: they may hold secrets, and nobody
//! promised to keep them. What it keeps is bounded.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use switchboard_net::face::Face;
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::trace::{self, Parent};

use crate::span::{Sampler, Spans};
pub use count::{BUCKETS, Counts, OTHER, Series};
pub(crate) use id::Ids;
pub use inside::Tapped;
use recent::Recent;
pub use target::Peer;
pub(crate) use tool::WHOLE;

mod count;
mod finish;
mod id;
mod inside;
mod recent;
mod target;
mod tool;

/// Calls that are watched at once. The halves bound the calls of one client;
/// what is beyond this is served all the same, and not seen.
const MOST: usize = 1 << 16;

/// Locks that the open calls are spread over.
const SHARDS: usize = 16;

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
    fn of(method: &str, answer: &Message) -> Self {
        match answer.kind() {
            Kind::Error => Self::Error,
            _ if method == method::CALL_TOOL && answer.is_tool_error() => Self::ToolError,
            _ => Self::Ok,
        }
    }
}

/// Sees the calls of all clients of a gateway.
pub struct Tap {
    open: [Mutex<HashMap<Key, Call>>; SHARDS],
    counts: Counts,
    recent: Recent,
    ids: Ids,
    spans: OnceLock<(Spans, Sampler)>,
    peers: target::Peers,
    /// Whether a server has a tool, as far as is known.
    is_there: OnceLock<IsThere>,
    began: Instant,
}

type Key = (u64, Exchange);
type IsThere = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// A call that is not answered yet.
#[derive(Clone, Debug)]
struct Call {
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
    /// The span of whoever called, if they said so.
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

impl Default for Tap {
    fn default() -> Self {
        Self {
            open: std::array::from_fn(|_| Mutex::default()),
            counts: Counts::default(),
            recent: Recent::default(),
            ids: Ids::new(),
            spans: OnceLock::new(),
            peers: target::Peers::default(),
            is_there: OnceLock::new(),
            began: Instant::now(),
        }
    }
}

impl Tap {
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
        self.open.iter().map(|shard| lock(shard).len()).sum()
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

    fn shard(&self, face: u64) -> MutexGuard<'_, HashMap<Key, Call>> {
        lock(&self.open[usize::try_from(face % SHARDS as u64).unwrap_or_default()])
    }

    /// A call begins.
    fn open(&self, face: &Face, exchange: Exchange, request: &Message, transport: &'static str) {
        let parent = Parent::of(request);
        let spans = self.spans.get();
        let is_sampled = spans.is_some_and(|(_, sampler)| sampler.takes(parent, &self.ids));
        let state = parent.filter(|_| is_sampled).and_then(|_| {
            let members = trace::members(request);
            members.into_iter().find(|(key, _)| *key == trace::STATE).map(|(_, text)| text.into())
        });
        let call = Call {
            method: target::short(request.method()).into(),
            offered: target::of(request).map(Into::into),
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
        };
        let mut shard = self.shard(face.number());
        if shard.len() < MOST / SHARDS {
            shard.insert((face.number(), exchange), call);
        }
    }

    /// A call goes on to a server, as `request`; what that server is to get.
    pub(crate) fn forward(
        &self,
        face: &Face,
        exchange: Exchange,
        server: &Arc<str>,
        request: Message,
    ) -> Message {
        let mut shard = self.shard(face.number());
        let Some(call) = shard.get_mut(&(face.number(), exchange)) else { return request };
        call.server = Some(Arc::clone(server));
        call.target = target::of(&request).map(Into::into);
        if self.spans.get().is_none() {
            return request;
        }
        let span = self.ids.span();
        call.onward = Some((span, SystemTime::now()));
        let parent = Parent { trace: call.trace, span, flags: u8::from(call.is_sampled) };
        drop(shard);
        trace::with(&request, &[(trace::PARENT, parent.to_string())])
    }

    /// The servers that have open calls of a client.
    pub(crate) fn servers_of(&self, face: &Face) -> Vec<Arc<str>> {
        let shard = self.shard(face.number());
        let own = shard.iter().filter(|((number, _), _)| *number == face.number());
        own.filter_map(|(_, call)| call.server.clone()).collect()
    }

    fn take(&self, face: &Face, exchange: Exchange) -> Option<Call> {
        self.shard(face.number()).remove(&(face.number(), exchange))
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("open", &self.open_calls()).finish_non_exhaustive()
    }
}
