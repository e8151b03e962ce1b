//! Spans: what OpenTelemetry's collectors are told about each call.
//!
//! A [`Span`] is a value. [`Spans`] takes them without waiting and sends them in
//! batches, in the background, by OTLP over HTTP as JSON; when its queue is full,
//! spans are dropped and counted. Why it is ours is in decision 9.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use serde_json::{Value, json};
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::trace::Parent;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

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
    /// Which side of a call it is: [`SERVER`] or [`CLIENT`].
    pub kind: u8,
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

/// The kind of a span of ours for a client, by the number that OTLP has for it.
pub const SERVER: u8 = 2;
/// The same of one towards a server.
pub const CLIENT: u8 = 3;

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
    queue: mpsc::Sender<QueuedSpan>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum QueuedSpan {
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
        let mut batches = SpanBatches { items, batch: Vec::new(), options, fetch };
        let counter = Arc::clone(&dropped);
        tokio::spawn(async move { batches.send_all(&counter).await });
        Self { queue, dropped }
    }

    /// Takes a span, if there is room for it.
    pub fn send(&self, span: Span) {
        if self.queue.try_send(QueuedSpan::Span(span)).is_err() {
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
            if self.queue.send(QueuedSpan::Flush(told)).await.is_ok() {
                _ = sent.await;
            }
        };
        _ = timeout(LAST, flushing).await;
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

/// One request to a collector.
fn otlp_request(resource: &[(String, String)], spans: &[Span]) -> Value {
    let resource: Vec<_> =
        resource.iter().map(|(key, text)| otlp_attribute(key, &text[..].into())).collect();
    let spans: Vec<_> = spans.iter().map(otlp_span).collect();
    let scope = json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")});
    json!({
        "resourceSpans": [{
            "resource": {"attributes": resource},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }],
    })
}

fn otlp_span(span: &Span) -> Value {
    let attributes: Vec<_> =
        span.attributes.iter().map(|(key, value)| otlp_attribute(key, value)).collect();
    let mut json = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": nanos(span.from),
        "endTimeUnixNano": nanos(span.until),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(state) = &span.state {
        json["traceState"] = (&**state).into();
    }
    if span.is_error {
        json["status"] = json!({"code": 2});
    }
    json
}

fn otlp_attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::String(text) => json!({"stringValue": text}),
        // Numbers of 64 bits are text in JSON.
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": key, "value": value})
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

/// How often a batch is sent that a collector could not take at once.
const SEND_ATTEMPTS: u32 = 3;

/// How long a collector is left alone that could not take a batch, at first.
const SEND_PAUSE: Duration = Duration::from_secs(1);

/// The queue of spans, and the batch that is gathered.
struct SpanBatches {
    items: mpsc::Receiver<QueuedSpan>,
    batch: Vec<Span>,
    options: SpanOptions,
    fetch: Fetch,
}

impl SpanBatches {
    async fn send_all(&mut self, dropped: &AtomicU64) {
        let mut complained = false;
        while let Some(first) = self.items.recv().await {
            let waiting = self.gather(first).await;
            if !self.batch.is_empty() {
                let count = self.batch.len() as u64;
                let sent = self.deliver(waiting.is_some()).await;
                if let Err(why) = &sent {
                    dropped.fetch_add(count, Ordering::Relaxed);
                    // Once for each time that it breaks: a collector may be away for days.
                    if !complained {
                        tracing::warn!("traces are not taken: {why}");
                    }
                }
                complained = sent.is_err();
            }
            // The waiting task may be gone.
            _ = waiting.map(|waiting| waiting.send(()));
        }
    }

    /// Gathers a batch; who waits for its end, if somebody does.
    async fn gather(&mut self, first: QueuedSpan) -> Option<oneshot::Sender<()>> {
        let until = Instant::now() + self.options.delay;
        let mut next = first;
        loop {
            match next {
                QueuedSpan::Span(span) => self.batch.push(span),
                QueuedSpan::Flush(waiting) => return Some(waiting),
            }
            if self.batch.len() >= self.options.batch {
                return None;
            }
            next = timeout_at(until, self.items.recv()).await.ok()??;
        }
    }

    /// Sends the batch, and again if it may be taken later; not if somebody waits.
    async fn deliver(&mut self, is_last: bool) -> Result<(), String> {
        let Self { batch, options, fetch, .. } = self;
        let body: Bytes = otlp_request(&options.resource, batch).to_string().into();
        batch.clear();
        let mut pause = SEND_PAUSE;
        for attempt in 1.. {
            let mut request = Request::new(body.clone());
            *request.method_mut() = Method::POST;
            *request.uri_mut() = options.endpoint.clone();
            request.headers_mut().clone_from(&options.headers);
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
            let (why, may_pass) = match timeout(options.timeout, fetch.send(request)).await {
                Ok(Ok(response)) if response.status().is_success() => break,
                Ok(Ok(response)) => {
                    // The statuses that the specification has for "try again".
                    let may_pass = matches!(response.status().as_u16(), 429 | 502 | 503 | 504);
                    (format!("HTTP {}", response.status()), may_pass)
                }
                Ok(Err(error)) => (error.to_string(), true),
                Err(_) => ("the collector takes too long".to_owned(), true),
            };
            if !may_pass || is_last || attempt == SEND_ATTEMPTS {
                return Err(why);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Ok(())
    }
}

/// Makes ids, each another, from a beginning that nobody else has.
#[derive(Debug)]
pub(crate) struct Ids {
    next: AtomicU64,
}

/// The step of splitmix64: each number comes once before any comes again.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for Ids {
    fn default() -> Self {
        Self { next: AtomicU64::new(RandomState::new().hash_one(std::process::id())) }
    }
}

impl Ids {
    /// A number that is never zero.
    pub(crate) fn span(&self) -> u64 {
        let number = self.next.fetch_add(STEP, Ordering::Relaxed);
        // Splitmix64's way to spread what is near over all numbers.
        let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1)
    }

    pub(crate) fn trace(&self) -> u128 {
        u128::from(self.span()) << 64 | u128::from(self.span())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
        let ids = Ids::default();
        let taken = (0..4000).filter(|_| some.takes(None, &ids)).count();
        assert!((700..1300).contains(&taken), "{taken}");
        let parent = |flags| Some(Parent { trace: 1, span: 1, flags });
        assert!(usual.takes(parent(1), &ids) && !usual.takes(parent(0), &ids));
        let never = parse("parentbased_always_off", None).unwrap();
        assert!(never.takes(parent(1), &ids) && !never.takes(None, &ids));
    }

    #[test]
    fn ids_differ_within_a_run_and_between_runs() {
        let (one, other) = (Ids::default(), Ids::default());
        let ids: HashSet<_> = (0..1000).flat_map(|_| [one.span(), other.span()]).collect();
        assert_eq!(ids.len(), 2000);
        assert_ne!(one.trace(), other.trace());
    }
}
