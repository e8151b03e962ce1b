//! Spans: what OpenTelemetry's collectors are told about each call.
//!
//! A [`Span`] is a value. [`Spans`] takes them without waiting and sends them in
//! batches, in the background, by OTLP over HTTP as JSON; when its queue is full,
//! spans are dropped and counted. Why it is ours is in decision 9.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use switchboard_net::OwnedTask;
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::json;
use switchboard_proto::trace::Parent;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::lock;

/// Something that took time.
#[derive(Debug)]
pub struct Span<'a> {
    /// The trace that it is part of.
    pub trace: u128,
    /// Its own id.
    pub id: u64,
    /// The span that it is part of.
    pub parent: Option<u64>,
    /// What others on the way said about the trace.
    pub state: Option<&'a str>,
    /// Which side of a call it is: [`SERVER`] or [`CLIENT`].
    pub kind: u8,
    /// What it is called; one of few.
    pub name: &'a str,
    /// When it began.
    pub from: SystemTime,
    /// When it ended.
    pub until: SystemTime,
    /// What there is to say, by the names of the conventions.
    pub attributes: &'a [(&'static str, SpanValue<'a>)],
    /// Whether it failed.
    pub is_error: bool,
}

/// What an attribute of a span says.
#[derive(Debug)]
pub enum SpanValue<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A number.
    Number(u64),
}

impl<'a, T: Into<Cow<'a, str>>> From<T> for SpanValue<'a> {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
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

/// Takes spans and sends them, as long as it lives.
#[derive(Debug)]
pub struct Spans {
    queue: Arc<SpanQueue>,
    _task: OwnedTask,
}

/// How long an end waits for the last spans.
const LAST: Duration = Duration::from_secs(3);

impl Spans {
    /// Begins to send. Must be called within a tokio runtime.
    pub fn start(options: SpanOptions, fetch: Fetch) -> Self {
        let queue = Arc::new(SpanQueue {
            open: otlp_opening(&options.resource),
            most: options.queue.max(1),
            // A batch that the queue cannot hold would never be full.
            batch: options.batch.clamp(1, options.queue.max(1)),
            waiting: Mutex::default(),
            wake: Notify::new(),
            dropped: AtomicU64::new(0),
        });
        let sending = send_all(Arc::clone(&queue), options, fetch);
        Self { queue, _task: OwnedTask::spawn(sending) }
    }

    /// Takes a span, if there is room for it.
    pub fn send(&self, span: &Span<'_>) {
        self.queue.push(span);
    }

    /// Spans that were dropped: there was no room, or nobody took them.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was taken is sent, for a moment at most.
    pub async fn flush(&self) {
        let (told, sent) = oneshot::channel();
        lock(&self.queue.waiting).flush = Some(told);
        self.queue.wake.notify_one();
        _ = timeout(LAST, sent).await;
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

/// How a request to a collector begins; its spans and [`OTLP_CLOSING`] follow.
fn otlp_opening(resource: &[(String, String)]) -> Vec<u8> {
    let mut out = br#"{"resourceSpans":[{"resource":{"attributes":["#.to_vec();
    for (at, (key, text)) in resource.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { b"," });
        write_attribute(&mut out, key, &text.as_str().into());
    }
    let scope = concat!(
        r#"]},"scopeSpans":[{"scope":{"name":"switchboard","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""},"spans":["#,
    );
    out.extend_from_slice(scope.as_bytes());
    out
}

const OTLP_CLOSING: &[u8] = b"]}]}]}";

// Writing to memory does not fail.

fn write_span(out: &mut Vec<u8>, span: &Span<'_>) {
    _ = write!(out, r#"{{"traceId":"{:032x}","spanId":"{:016x}","name":"#, span.trace, span.id);
    json::write_string(span.name, out);
    let (from, until) = (nanos(span.from), nanos(span.until));
    _ = write!(
        out,
        r#","kind":{},"startTimeUnixNano":"{from}","endTimeUnixNano":"{until}","attributes":["#,
        span.kind
    );
    for (at, (key, value)) in span.attributes.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { b"," });
        write_attribute(out, key, value);
    }
    out.push(b']');
    if let Some(parent) = span.parent {
        _ = write!(out, r#","parentSpanId":"{parent:016x}""#);
    }
    if let Some(state) = span.state {
        out.extend_from_slice(br#","traceState":"#);
        json::write_string(state, out);
    }
    out.extend_from_slice(if span.is_error { br#","status":{"code":2}}"# } else { b"}" });
}

fn write_attribute(out: &mut Vec<u8>, key: &str, value: &SpanValue<'_>) {
    out.extend_from_slice(br#"{"key":"#);
    json::write_string(key, out);
    match value {
        SpanValue::Text(text) => {
            out.extend_from_slice(br#","value":{"stringValue":"#);
            json::write_string(text, out);
        }
        // Numbers of 64 bits are text in JSON.
        SpanValue::Number(number) => _ = write!(out, r#","value":{{"intValue":"{number}""#),
    }
    out.extend_from_slice(b"}}");
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// How often a batch is sent that a collector could not take at once.
const SEND_ATTEMPTS: u32 = 3;

/// How long a collector is left alone that could not take a batch, at first.
const SEND_PAUSE: Duration = Duration::from_secs(1);

/// Spans that wait, written already: a span is told in one place and sent in another,
/// and its text needs nothing that the call still has.
#[derive(Debug)]
struct SpanQueue {
    /// How each batch begins.
    open: Vec<u8>,
    /// Spans that may wait.
    most: usize,
    /// Spans in one batch.
    batch: usize,
    waiting: Mutex<WaitingSpans>,
    /// A first span came, a batch is full, or somebody waits for the end.
    wake: Notify,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct WaitingSpans {
    batches: VecDeque<SpanBatch>,
    count: usize,
    /// Who waits until all are sent.
    flush: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct SpanBatch {
    text: Vec<u8>,
    count: usize,
}

impl SpanQueue {
    fn push(&self, span: &Span<'_>) {
        let mut waiting = lock(&self.waiting);
        if waiting.count >= self.most {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.count += 1;
        let is_first = waiting.count == 1;
        let batch = match waiting.batches.pop_back() {
            Some(batch) if batch.count < self.batch => batch,
            full => {
                waiting.batches.extend(full);
                SpanBatch { text: self.open.clone(), count: 0 }
            }
        };
        let batch = waiting.batches.push_back_mut(batch);
        batch.text.extend_from_slice(if batch.count == 0 { b"" } else { b"," });
        write_span(&mut batch.text, span);
        batch.count += 1;
        let is_full = batch.count == self.batch;
        drop(waiting);
        if is_first || is_full {
            self.wake.notify_one();
        }
    }

    /// The next batch: a full one, or what there is after `delay` or when somebody waits.
    /// None if somebody waits and there is nothing.
    async fn next(&self, delay: Duration) -> Option<SpanBatch> {
        let mut until = None;
        loop {
            let is_due = until.is_some_and(|until| until <= Instant::now());
            {
                let mut waiting = lock(&self.waiting);
                let first = waiting.batches.front();
                let is_full = first.is_some_and(|batch| batch.count >= self.batch);
                if is_full || is_due || waiting.flush.is_some() {
                    let batch = waiting.batches.pop_front();
                    waiting.count -= batch.as_ref().map_or(0, |batch| batch.count);
                    return batch;
                }
                if first.is_some() && until.is_none() {
                    until = Some(Instant::now() + delay);
                }
            }
            match until {
                Some(until) => _ = timeout_at(until, self.wake.notified()).await,
                None => self.wake.notified().await,
            }
        }
    }
}

async fn send_all(queue: Arc<SpanQueue>, options: SpanOptions, fetch: Fetch) {
    let mut complained = false;
    loop {
        let Some(batch) = queue.next(options.delay).await else {
            let told = lock(&queue.waiting).flush.take();
            // The waiting task may be gone.
            _ = told.map(|told| told.send(()));
            continue;
        };
        let count = batch.count as u64;
        let is_last = lock(&queue.waiting).flush.is_some();
        let sent = deliver(batch, &options, &fetch, is_last).await;
        if let Err(why) = &sent {
            queue.dropped.fetch_add(count, Ordering::Relaxed);
            // Once for each time that it breaks: a collector may be away for days.
            if !complained {
                tracing::warn!("traces are not taken: {why}");
            }
        }
        complained = sent.is_err();
    }
}

/// Sends the batch, and again if it may be taken later; not if somebody waits.
async fn deliver(
    batch: SpanBatch,
    options: &SpanOptions,
    fetch: &Fetch,
    is_last: bool,
) -> Result<(), String> {
    let SpanBatch { text: mut body, .. } = batch;
    body.extend_from_slice(OTLP_CLOSING);
    let body = Bytes::from(body);
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

    use switchboard_net::http::fetch::FetchOptions;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn spans_wait_as_text_in_batches_and_there_is_a_bound() {
        let resource = [("service.name".to_owned(), "a \"gate\"".to_owned())];
        let queue = SpanQueue {
            open: otlp_opening(&resource),
            most: 3,
            batch: 2,
            waiting: Mutex::default(),
            wake: Notify::new(),
            dropped: AtomicU64::new(0),
        };
        let attributes = [("said", "line\n".into()), ("port", SpanValue::Number(80))];
        let span = |id| Span {
            trace: 1,
            id,
            parent: Some(2),
            state: Some("a=b"),
            kind: SERVER,
            name: "tools/call \"it\"",
            from: UNIX_EPOCH,
            until: UNIX_EPOCH + Duration::from_nanos(7),
            attributes: &attributes,
            is_error: true,
        };
        (1..=4).for_each(|id| queue.push(&span(id)));
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 1);
        let mut sizes = Vec::new();
        for _ in 0..2 {
            let mut batch = queue.next(Duration::from_secs(5)).await.unwrap();
            batch.text.extend_from_slice(OTLP_CLOSING);
            let told: serde_json::Value = serde_json::from_slice(&batch.text).unwrap();
            let told = &told["resourceSpans"][0];
            let named = &told["resource"]["attributes"][0]["value"]["stringValue"];
            assert_eq!(named, "a \"gate\"");
            let spans = told["scopeSpans"][0]["spans"].as_array().unwrap();
            assert_eq!(spans[0]["traceId"], "00000000000000000000000000000001");
            assert_eq!(spans[0]["parentSpanId"], "0000000000000002");
            assert_eq!(spans[0]["name"], "tools/call \"it\"");
            assert_eq!(spans[0]["endTimeUnixNano"], "7");
            assert_eq!(spans[0]["attributes"][0]["value"]["stringValue"], "line\n");
            assert_eq!(spans[0]["attributes"][1]["value"]["intValue"], "80");
            assert_eq!(spans[0]["traceState"], "a=b");
            assert_eq!(spans[0]["status"]["code"], 2);
            assert_eq!(spans.len(), batch.count);
            sizes.push(batch.count);
        }
        assert_eq!(sizes, [2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_never_larger_than_the_queue() {
        let url = "http://127.0.0.1:9/v1/traces".parse().unwrap();
        let options = SpanOptions { queue: 3, ..SpanOptions::to(url) };
        let spans = Spans::start(options, Fetch::new(FetchOptions::default()).unwrap());
        assert_eq!(spans.queue.batch, 3);
    }

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
