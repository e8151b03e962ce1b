//! Event ids, and a bounded history for clients that resume a stream.
//!
//! Each event of a session has the id `<stream>-<seq>`, so that an id alone
//! says which stream to continue and after which event. The history forgets
//! the oldest when it is full, answers last: losing a progress note is a
//! nuisance, losing an answer loses the call. Whoever resumes gets everything
//! that followed, or the answer with what is left of the notes before it, or
//! nothing: never a stream with a hole in it and no answer.
//!
//! ```text
//!   push ──▶ notes, oldest first ──▶ evicted first
//!       └──▶ final answers ────────▶ evicted when no note is left
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use bytes::Bytes;

use crate::exchange::take_number;

/// Names one event among all streams of a session.
#[expect(missing_docs, reason = "the field names say it")]
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EventId {
    pub stream: u64,
    /// 0 is the event that opens the stream and carries nothing.
    pub seq: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.seq)
    }
}

impl EventId {
    /// Takes nothing but what `Display` prints, so that an event has one id.
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, seq) = text.split_once('-')?;
        let id = Self { stream: stream.parse().ok()?, seq: seq.parse().ok()? };
        Some(id).filter(|id| id.to_string() == text)
    }
}

/// What has been sent on the streams of one session.
#[derive(Debug, Default)]
pub struct Replay {
    max_bytes: usize,
    max_events: usize,
    bytes: usize,
    streams: BTreeMap<u64, StreamHistory>,
    /// Every stored event, in the order in which they are evicted.
    by_rank: BTreeMap<EvictionRank, EventId>,
    next_age: u64,
}

/// Whether it is a final answer, and its age: notes go first, of both the oldest.
type EvictionRank = (bool, u64);

#[derive(Debug, Default)]
struct StreamHistory {
    events: BTreeMap<u64, Stored>,
    newest: u64,
    /// The newest event that was evicted; 0 if none was.
    lost: u64,
    ended: bool,
}

#[derive(Debug)]
struct Stored {
    payload: Bytes,
    rank: EvictionRank,
}

impl StreamHistory {
    /// Whether nothing is missing after `seq`, or nothing but notes: an answer
    /// that is there is worth more than what was said before it.
    fn can_follow(&self, seq: u64) -> bool {
        let is_whole = self.lost <= seq;
        let has_answer = self.ended && self.events.contains_key(&self.newest);
        seq <= self.newest && (is_whole || has_answer)
    }
}

impl Replay {
    /// An empty history of up to `max_bytes` of payload in up to `max_events`. An
    /// event costs about a hundred bytes besides its payload.
    pub fn new(max_bytes: usize, max_events: usize) -> Self {
        Self { max_bytes, max_events, ..Self::default() }
    }

    /// Remembers an event. `last` says that it is the answer that ends its stream.
    ///
    /// Seq 0 makes the stream known and is not stored. Seqs must grow; one
    /// that does not is ignored, for it has been sent.
    pub fn push(&mut self, id: EventId, payload: &[u8], last: bool) {
        self.make_room_for_stream(id.stream);
        // A stream that was forgotten and goes on has lost what it had.
        let before = id.seq.saturating_sub(1);
        let stream = self.streams.entry(id.stream);
        let stream = stream.or_insert_with(|| StreamHistory { lost: before, ..Default::default() });
        if id.seq <= stream.newest {
            return;
        }
        let rank = (last, take_number(&mut self.next_age));
        self.bytes += payload.len();
        stream.newest = id.seq;
        stream.ended |= last;
        // A slice would keep the whole buffer alive that it was read into.
        let payload = Bytes::copy_from_slice(payload);
        stream.events.insert(id.seq, Stored { payload, rank });
        self.by_rank.insert(rank, id);
        while self.bytes > self.max_bytes || self.by_rank.len() > self.max_events {
            self.evict_oldest();
        }
    }

    /// The events that followed `id` on its stream, oldest first; none if `id` is unknown,
    /// or what followed it is gone.
    pub fn after(&self, id: EventId) -> Option<impl Iterator<Item = (EventId, &Bytes)>> {
        let stream = self.streams.get(&id.stream).filter(|stream| stream.can_follow(id.seq))?;
        let later = stream.events.range((Bound::Excluded(id.seq), Bound::Unbounded));
        Some(later.map(move |(&seq, stored)| (EventId { seq, ..id }, &stored.payload)))
    }

    /// Nobody will resume `stream` any more.
    pub fn forget(&mut self, stream: u64) {
        let Some(stream) = self.streams.remove(&stream) else { return };
        for stored in stream.events.values() {
            self.bytes -= stored.payload.len();
            self.by_rank.remove(&stored.rank);
        }
    }

    /// Bytes of the payloads that are stored.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets every event; streams go on, and what was lost of each is known.
    pub fn clear(&mut self) {
        while !self.by_rank.is_empty() {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        let Some((_, id)) = self.by_rank.pop_first() else { return };
        let stream = self.streams.get_mut(&id.stream).expect("a stored event has its stream");
        let stored = stream.events.remove(&id.seq).expect("each age names a stored event");
        self.bytes -= stored.payload.len();
        stream.lost = stream.lost.max(id.seq);
    }

    /// A stream costs memory even when empty. Ended ones go first, so that the
    /// one that lives as long as the session stays.
    fn make_room_for_stream(&mut self, new: u64) {
        if self.streams.len() < MOST_STREAMS || self.streams.contains_key(&new) {
            return;
        }
        let ended = self.streams.iter().find(|(_, stream)| stream.ended).map(|(&id, _)| id);
        if let Some(oldest) = ended.or_else(|| self.streams.keys().next().copied()) {
            self.forget(oldest);
        }
    }
}

/// More streams than a client has calls in flight.
const MOST_STREAMS: usize = 1024;

#[cfg(test)]
mod tests;
