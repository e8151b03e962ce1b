//! Every bound of the core, its default and its reason.
//!
//! A bound that a user may want to move is a field of [`Limits`]; one that only
//! protects us from absurd input is a constant.

use std::time::Duration;

/// Nesting of JSON: real schemas stay below 30, and parsers of other SDKs give up at 128.
pub const MAX_DEPTH: u32 = 120;

/// Messages in one batch; the TypeScript SDK has the same cap (wire: MSG-8).
pub const MAX_BATCH: usize = 100;

/// Length of an id as text. An id is kept for as long as its call is open.
pub const MAX_ID: usize = 1024;

/// Bytes of what a server says of itself when it is greeted. It is kept for as long as
/// the connection lives; honest servers say some kilobytes.
pub const MAX_WELCOME: usize = 1 << 20;

/// Bytes of a server's name and version that are repeated in its results.
pub const MAX_SERVER_INFO: usize = 4 << 10;

/// What a user may want to move.
#[derive(Clone, Debug)]
pub struct Limits {
    /// One message, however it travels. The SDKs take 4 to 16 MiB; results with
    /// images are what makes it large.
    pub message: usize,
    /// Calls one client may have open at once. Beyond it a call is refused, not queued.
    pub calls: usize,
    /// Questions a server may have open towards one client.
    pub asks: usize,
    /// Bytes kept for a client that reads too slowly, over all its streams.
    pub backlog: usize,
    /// Bytes of events kept for resuming, for each session.
    pub history: usize,
    /// How many of them.
    pub events: usize,
    /// Streams that one session may hold open at once.
    pub streams: usize,
    /// How long a POST waits for its answer before it becomes a stream that can
    /// be kept alive and resumed.
    pub stream_after: Duration,
    /// How long a client is told to wait before it reconnects.
    pub retry: Duration,
    /// Calls that wait for modern clients to come back with input, over all of them.
    pub parked: usize,
    /// How long each of them waits: a person has to read and answer.
    pub park: Duration,
    /// Tasks that are remembered for clients of the other era than their server's;
    /// with none, calls are waited for instead.
    pub tasks: usize,
    /// How long the answer to a call may keep us waiting without a sign of life. It
    /// does not run while the client of the call is asked something.
    pub quiet: Duration,
    /// How long a call may take in all; a task keeps its session no longer either.
    pub total: Duration,
    /// How long a server may take over its greeting, if not as long as over other
    /// calls: it may have to be fetched first.
    pub greeting: Option<Duration>,
    /// How often a legacy server at a URL is sent a ping while nobody calls it; zero for never.
    pub ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 32 << 20,
            calls: 1024,
            asks: 256,
            backlog: 64 << 20,
            history: 4 << 20,
            events: 4096,
            streams: 32,
            stream_after: Duration::from_secs(2),
            retry: Duration::from_secs(1),
            parked: 1024,
            park: Duration::from_mins(10),
            tasks: 1024,
            quiet: Duration::from_hours(1),
            total: Duration::from_hours(24),
            greeting: None,
            ping: Duration::ZERO,
        }
    }
}
