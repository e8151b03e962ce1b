//! Sends spans in batches, until nobody has any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode};
use switchboard_net::http::fetch::Fetch;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Item, Span, SpanOptions, otlp};

/// How often a batch is sent that a collector could not take at once.
const ATTEMPTS: u32 = 3;

/// How long a collector is left alone that could not take a batch, at first.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn run(
    mut items: mpsc::Receiver<Item>,
    options: SpanOptions,
    fetch: Fetch,
    dropped: Arc<AtomicU64>,
) {
    let mut complained = false;
    let mut batch = Vec::new();
    while let Some(first) = items.recv().await {
        let waiting = gather(&mut items, first, &mut batch, &options).await;
        if !batch.is_empty() {
            let count = batch.len() as u64;
            let sent = deliver(&mut batch, &options, &fetch, waiting.is_some()).await;
            if let Err(why) = &sent {
                dropped.fetch_add(count, Ordering::Relaxed);
                // Once for each time that it breaks: a collector may be away for days.
                if !complained {
                    tracing::warn!("traces are not taken: {why}");
                }
            }
            complained = sent.is_err();
        }
        if let Some(waiting) = waiting {
            // Whoever waited may be gone.
            _ = waiting.send(());
        }
    }
}

/// Gathers a batch; who waits for its end, if somebody does.
async fn gather(
    items: &mut mpsc::Receiver<Item>,
    first: Item,
    batch: &mut Vec<Span>,
    options: &SpanOptions,
) -> Option<oneshot::Sender<()>> {
    let until = Instant::now() + options.delay;
    let mut next = Some(first);
    loop {
        match next {
            Some(Item::Span(span)) => batch.push(span),
            Some(Item::Flush(waiting)) => return Some(waiting),
            None => return None,
        }
        if batch.len() >= options.batch {
            return None;
        }
        next = timeout_at(until, items.recv()).await.ok().flatten();
    }
}

/// Sends a batch, and again if it may be taken later; not if somebody waits.
async fn deliver(
    batch: &mut Vec<Span>,
    options: &SpanOptions,
    fetch: &Fetch,
    is_last: bool,
) -> Result<(), String> {
    let body: Bytes = otlp::request(&options.resource, batch).to_string().into();
    batch.clear();
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        let mut request = Request::new(body.clone());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = options.endpoint.clone();
        request.headers_mut().clone_from(&options.headers);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (why, may_pass) = match timeout(options.timeout, fetch.send(request)).await {
            Ok(Ok(response)) if response.status().is_success() => return Ok(()),
            Ok(Ok(response)) => {
                (format!("HTTP {}", response.status()), may_pass(response.status()))
            }
            Ok(Err(error)) => (error.to_string(), true),
            Err(_) => ("the collector takes too long".to_owned(), true),
        };
        if !may_pass || is_last || attempt == ATTEMPTS {
            return Err(why);
        }
        tokio::time::sleep(pause).await;
        attempt += 1;
        pause *= 2;
    }
}

/// The statuses that the specification has for "try again".
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}
