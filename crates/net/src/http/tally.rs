//! What a site counts: bytes, streams, and whom it turned away.
//!
//! Counters that nobody waits for. Several sites may share one [`Tally`];
//! whoever shows it reads it when it likes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http::{Response, StatusCode};

use super::body::Body;
use crate::face::lock;

/// Counters of one site or of several.
#[derive(Debug, Default)]
pub struct Tally {
    received: AtomicU64,
    sent: AtomicU64,
    streams: AtomicU64,
    resumed: AtomicU64,
    /// As many as there are reasons.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tally {
    /// Bytes of bodies that clients have sent.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes of bodies that clients were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Event streams that are open.
    pub fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }

    /// How often a client came back for the rest of a stream.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// How many requests were turned away, by reason.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.refused).clone()
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_resumed(&self) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response, and its body as it is written.
    pub(super) fn count(self: &Arc<Self>, response: Response<Body>) -> Response<Body> {
        if let Some(reason) = reason(&response) {
            *lock(&self.refused).entry(reason).or_default() += 1;
        }
        response.map(|body| body.counted(self))
    }
}

/// Why a request was turned away, for whoever counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reason(pub(super) &'static str);

fn reason(response: &Response<Body>) -> Option<&'static str> {
    if let Some(Reason(name)) = response.extensions().get() {
        return Some(name);
    }
    match response.status() {
        StatusCode::UNAUTHORIZED => Some("unauthorized"),
        StatusCode::FORBIDDEN => Some("forbidden"),
        StatusCode::TOO_MANY_REQUESTS => Some("too_many_requests"),
        status if status.is_server_error() => Some("unavailable"),
        // A half said why, in the body.
        status if status.is_client_error() => Some("message"),
        _ => None,
    }
}

/// The bytes of one body, and that it is a stream.
#[derive(Debug)]
pub(super) struct Counted {
    tally: Arc<Tally>,
    is_stream: bool,
}

impl Counted {
    pub(super) fn new(tally: &Arc<Tally>, is_stream: bool) -> Self {
        if is_stream {
            tally.streams.fetch_add(1, Ordering::Relaxed);
        }
        Self { tally: Arc::clone(tally), is_stream }
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.tally.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_stream {
            self.tally.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
