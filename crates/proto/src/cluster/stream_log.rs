//! What a client may come back for, written to the store before it is shown.
//!
//! The owner pushes what it says on streams that can be resumed. The beginning of a stream
//! and its answer wait until the store has them; what is in between goes out at once. So a
//! client that knows an event id finds exactly one answer, at whichever replica.

use std::collections::{BTreeSet, VecDeque};

use bytes::{BufMut, Bytes, BytesMut};

use super::Epoch;
use super::command::LogEntry;

/// What an entry says about a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StreamEvent {
    /// A request has become a stream.
    Begin {
        /// The number of the stream.
        stream: u64,
        /// The id of the request, as JSON.
        request: Bytes,
    },
    /// Something on the way.
    Note {
        /// The number of the stream.
        stream: u64,
        /// The message.
        text: Bytes,
    },
    /// The answer, which ends the stream.
    Answer {
        /// The number of the stream.
        stream: u64,
        /// The message.
        text: Bytes,
    },
}

impl StreamEvent {
    /// The stream that it is about.
    pub fn stream(&self) -> u64 {
        let (Self::Begin { stream, .. } | Self::Note { stream, .. } | Self::Answer { stream, .. }) =
            self;
        *stream
    }

    /// Whether the store must have it before a client sees it.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Note { .. })
    }

    /// As bytes of an entry.
    pub fn encode(&self) -> Bytes {
        let (kind, text) = match self {
            Self::Begin { request, .. } => (b'b', request),
            Self::Note { text, .. } => (b'n', text),
            Self::Answer { text, .. } => (b'a', text),
        };
        let mut bytes = BytesMut::with_capacity(9 + text.len());
        bytes.put_u8(kind);
        bytes.put_u64(self.stream());
        bytes.put_slice(text);
        bytes.freeze()
    }

    /// Reads what `encode` made. None if another version of us made it.
    pub fn decode(payload: &Bytes) -> Option<Self> {
        let (head, _) = payload.split_at_checked(9)?;
        let stream = u64::from_be_bytes(head[1..].try_into().ok()?);
        let text = payload.slice(9..);
        match head[0] {
            b'b' => Some(Self::Begin { stream, request: text }),
            b'n' => Some(Self::Note { stream, text }),
            b'a' => Some(Self::Answer { stream, text }),
            _ => None,
        }
    }
}

/// The streams of a log that began and have no answer: number, and id of the request.
pub fn unanswered(log: &[LogEntry]) -> Vec<(u64, Bytes)> {
    let events = || log.iter().filter_map(|entry| StreamEvent::decode(&entry.payload));
    let answered = events().filter(|event| matches!(event, StreamEvent::Answer { .. }));
    let answered: BTreeSet<u64> = answered.map(|event| event.stream()).collect();
    let open = events().filter_map(|event| match event {
        StreamEvent::Begin { stream, request } => Some((stream, request)),
        _ => None,
    });
    open.filter(|(stream, _)| !answered.contains(stream)).collect()
}

/// The entries of one owner, in one epoch.
#[derive(Debug)]
pub struct StreamLog {
    newest: u64,
    written: u64,
    unwritten: VecDeque<LogEntry>,
    /// How many of the unwritten are on their way to the store.
    in_flight: usize,
}

impl StreamLog {
    /// A log that begins in `epoch`.
    pub fn new(epoch: Epoch) -> Self {
        let newest = epoch.first_position();
        Self { newest, written: newest, unwritten: VecDeque::new(), in_flight: 0 }
    }

    /// Adds an event, and says its position.
    pub fn push(&mut self, event: &StreamEvent) -> u64 {
        self.newest += 1;
        let (position, is_lasting) = (self.newest, event.is_lasting());
        self.unwritten.push_back(LogEntry { position, is_lasting, payload: event.encode() });
        position
    }

    /// What is to be written next, one batch at a time.
    pub fn poll_write(&mut self) -> Option<Vec<LogEntry>> {
        if self.in_flight > 0 || self.unwritten.is_empty() {
            return None;
        }
        self.in_flight = self.unwritten.len();
        Some(self.unwritten.iter().cloned().collect())
    }

    /// The store has what was on its way.
    pub fn handle_written(&mut self) {
        for entry in self.unwritten.drain(..std::mem::take(&mut self.in_flight)) {
            self.written = entry.position;
        }
    }

    /// It is not known whether the store has it: it is written again. Entries have positions,
    /// so none is added twice.
    pub fn handle_away(&mut self) {
        self.in_flight = 0;
    }

    /// Whether the store has the entry of this position.
    pub fn is_written(&self, position: u64) -> bool {
        position <= self.written
    }
}
