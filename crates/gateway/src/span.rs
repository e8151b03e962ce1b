//! Spans: what OpenTelemetry's collectors are told about each call.
//!
//! A [`Span`] is a value. [`Spans`] takes them without waiting and sends them in
//! batches, in the background, by OTLP over HTTP as JSON; when its queue is full,
//! spans are dropped and counted. Why it is ours is in decision 9.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Uri};
use serde_json::Value;
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::trace::Parent;
use tokio::sync::{mpsc, oneshot};

use crate::tap::Ids;

mod otlp;
mod send;

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace that it is part of.
    pub trace: u128,
    /// Its own id.
    pub id: u64,
    /// The span that it is part of.
    pub parent: Option<u64>,
    /// What others on the way said about the trace.
    pub state: Option<Box<str>>,
    /// Which side of a call it is.
    pub kind: Kind,
    /// What it is called; one of few.
    pub name: String,
    /// When it began.
    pub from: SystemTime,
    /// When it ended.
    pub until: SystemTime,
    /// What there is to say, by the names of the conventions.
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether it failed.
    pub is_error: bool,
}

/// Which side of a call a span is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Ours for a client.
    Server,
    /// Ours towards a server.
    Client,
}

/// Where spans are sent, and how.
#[derive(Clone, Debug)]
pub struct SpanOptions {
    /// The collector's URL for traces.
    pub endpoint: Uri,
    /// Headers to send along; keys, mostly.
    pub headers: HeaderMap,
    /// What is said about us: `service.name` and the like.
    pub resource: Vec<(String, String)>,
    /// How long a collector may take.
    pub timeout: Duration,
    /// How long spans wait for others.
    pub delay: Duration,
    /// Spans that may wait.
    pub queue: usize,
    /// Spans in one batch.
    pub batch: usize,
}

impl SpanOptions {
    /// The defaults of the specification.
    pub fn to(endpoint: Uri) -> Self {
        Self {
            endpoint,
            headers: HeaderMap::new(),
            resource: vec![("service.name".to_owned(), "switchboard".to_owned())],
            timeout: Duration::from_secs(10),
            delay: Duration::from_secs(5),
            queue: 2048,
            batch: 512,
        }
    }
}

/// Takes spans and sends them.
#[derive(Clone, Debug)]
pub struct Spans {
    queue: mpsc::Sender<Item>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Item {
    Span(Span),
    /// Tell this one when all before it are sent.
    Flush(oneshot::Sender<()>),
}

/// How long an end waits for the last spans.
const LAST: Duration = Duration::from_secs(3);

impl Spans {
    /// Begins to send. Must be called within a tokio runtime.
    pub fn start(options: SpanOptions, fetch: Fetch) -> Self {
        let (queue, items) = mpsc::channel(options.queue.max(1));
        let dropped = Arc::new(AtomicU64::new(0));
        tokio::spawn(send::run(items, options, fetch, Arc::clone(&dropped)));
        Self { queue, dropped }
    }

    /// Takes a span, if there is room for it.
    pub fn send(&self, span: Span) {
        if self.queue.try_send(Item::Span(span)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Spans that were dropped: there was no room, or nobody took them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was taken is sent, for a moment at most.
    pub async fn flush(&self) {
        let (told, sent) = oneshot::channel();
        let flushing = async {
            if self.queue.send(Item::Flush(told)).await.is_ok() {
                _ = sent.await;
            }
        };
        _ = tokio::time::timeout(LAST, flushing).await;
    }
}

/// Which calls are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Whether who calls decides for those that are part of a trace.
    pub heeds_parent: bool,
    /// The part of the others that is traced, from 0 to 1.
    pub ratio: f64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { heeds_parent: true, ratio: 1.0 }
    }
}

impl Sampler {
    /// The sampler of this name and argument, as `OTEL_TRACES_SAMPLER` has them.
    pub fn parse(name: &str, argument: Option<&str>) -> Option<Self> {
        let (heeds_parent, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => argument.map_or(Some(1.0), |text| text.trim().parse().ok())?,
            _ => return None,
        };
        (0.0..=1.0).contains(&ratio).then_some(Self { heeds_parent, ratio })
    }

    pub(crate) fn takes(self, parent: Option<Parent>, ids: &Ids) -> bool {
        match parent {
            Some(parent) if self.heeds_parent => parent.is_sampled(),
            _ if self.ratio >= 1.0 => true,
            // The lower half, as the specification has it.
            Some(parent) => self.hits(u64::try_from(parent.trace << 64 >> 64).unwrap_or_default()),
            None => self.hits(ids.span()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a part of many need not be exact")]
    fn hits(self, number: u64) -> bool {
        ((number >> 11) as f64) < self.ratio * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samplers_are_those_of_the_specification() {
        let parse = |name, argument| Sampler::parse(name, argument);
        let usual = Sampler::default();
        assert_eq!(parse("parentbased_always_on", None), Some(usual));
        assert_eq!(parse("always_off", None).unwrap().ratio.to_bits(), 0);
        let some = parse("traceidratio", Some("0.25")).unwrap();
        assert_eq!(some, Sampler { heeds_parent: false, ratio: 0.25 });
        assert_eq!(parse("traceidratio", Some("2")), None);
        assert_eq!(parse("jaeger_remote", None), None);
        let ids = Ids::new();
        let taken = (0..4000).filter(|_| some.takes(None, &ids)).count();
        assert!((700..1300).contains(&taken), "{taken}");
        let parent = |flags| Some(Parent { trace: 1, span: 1, flags });
        assert!(usual.takes(parent(1), &ids) && !usual.takes(parent(0), &ids));
        let never = parse("parentbased_always_off", None).unwrap();
        assert!(never.takes(parent(1), &ids) && !never.takes(None, &ids));
    }
}
