//! Where each message towards a legacy client leaves: lanes, event ids, history.
//!
//! On a pipe everything leaves by the one lane. On HTTP each POST opens a
//! stream of its own, and each GET listens on the stream that belongs to no call:
//!
//! ```text
//!            POST                       note, ask            answer owed no more
//!   (none) ────────▶ quiet ─────────────────────▶ streaming ─────────────▶ gone
//!                      │   the answer: one Frame::Answer            (history keeps
//!                      └──────────────────────────────────────────▶  the answer)
//! ```
//!
//! A lane that closes takes nothing with it: its stream goes on into the
//! history, and a GET with the last event id takes it up again (HTTP-9, HTTP-18).
//! A stream that never showed an event id cannot be taken up, so nothing of it is kept.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::{Frame, Prime};
use crate::exchange::{Carrier, Lane};
use crate::jsonrpc::{Kind, Message};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::replay::{EventId, Replay};

/// Messages kept for a client that has no stream open to hear them on, in as
/// many bytes as the history. A longer absence costs the oldest ones, which a
/// client that lists again does not miss.
const UNHEARD: usize = 256;

/// The streams of one client.
#[derive(Debug)]
pub(super) struct Streams {
    carrier: Carrier,
    /// Whether a client may come back to a stream.
    resumable: bool,
    priming: bool,
    retry_ms: u64,
    most: usize,
    /// By number; a POST's stream has the number of the lane that opened it.
    open: HashMap<u64, Stream>,
    /// Lanes listening on the main stream, newest last: that one is spoken to.
    listeners: Vec<Lane>,
    main_seq: u64,
    unheard: VecDeque<(EventId, Bytes)>,
    unheard_bytes: usize,
    most_bytes: usize,
    history: Replay,
    out: VecDeque<(Lane, Frame)>,
}

/// The answer stream of one POST.
#[derive(Debug)]
struct Stream {
    lane: Option<Lane>,
    owed: usize,
    streaming: bool,
    seq: u64,
}

const MAIN: u64 = Lane::MAIN.0;

impl Streams {
    pub(super) fn new(carrier: Carrier, limits: &Limits) -> Self {
        Self {
            carrier,
            resumable: true,
            priming: false,
            retry_ms: u64::try_from(limits.retry.as_millis()).unwrap_or(u64::MAX),
            most: limits.streams,
            open: HashMap::new(),
            listeners: Vec::new(),
            main_seq: 0,
            unheard: VecDeque::new(),
            unheard_bytes: 0,
            most_bytes: limits.history,
            history: Replay::new(limits.history, limits.events),
            out: VecDeque::new(),
        }
    }

    /// From here on streams begin with a priming event.
    pub(super) fn set_priming(&mut self, priming: bool) {
        self.priming = priming && self.resumable;
    }

    /// Nobody comes back to a stream: nothing of one is kept, and no event has an id.
    pub(super) fn forget_all(&mut self) {
        self.resumable = false;
    }

    /// Bytes kept for a client that comes back to a stream, or opens one.
    pub(super) fn history_bytes(&self) -> usize {
        self.history.bytes() + self.unheard_bytes
    }

    /// Keeps none of them; returns how many there were.
    pub(super) fn forget_history(&mut self) -> usize {
        let bytes = self.history_bytes();
        self.history.clear();
        self.unheard.clear();
        self.unheard_bytes = 0;
        bytes
    }

    pub(super) fn poll(&mut self) -> Option<(Lane, Frame)> {
        self.out.pop_front()
    }

    /// A POST that brought `owed` requests. None owed: there is nothing to wait for.
    pub(super) fn expect(&mut self, lane: Lane, owed: usize) {
        if self.carrier == Carrier::Pipe {
            return;
        }
        if owed == 0 {
            self.out.push_back((lane, Frame::Accepted));
            return;
        }
        // Several answers do not fit one Frame::Answer.
        let stream = Stream { lane: Some(lane), owed, streaming: false, seq: 0 };
        self.open.insert(lane.0, stream);
        if owed > 1 {
            self.begin(lane);
        }
    }

    /// The same for a single message.
    pub(super) fn expect_for(&mut self, lane: Lane, message: &Message) {
        self.expect(lane, usize::from(message.kind() == Kind::Request));
    }

    /// A request that was expected, and is refused after all.
    pub(super) fn turn_away(&mut self, lane: Lane, status: u16, text: Bytes) {
        match self.open.get(&lane.0) {
            Some(stream) if !stream.streaming => {
                self.open.remove(&lane.0);
                self.refuse(lane, status, text);
            }
            _ => self.answer(lane, text),
        }
    }

    /// A request that was taken, and will get no answer. On a pipe the end of
    /// the pipe says as much.
    pub(super) fn abandon(&mut self, lane: Lane, status: u16, text: Bytes) {
        if self.carrier == Carrier::Http {
            self.turn_away(lane, status, text);
        }
    }

    /// A POST, or a line, that was turned away.
    pub(super) fn refuse(&mut self, lane: Lane, status: u16, text: Bytes) {
        self.out.push_back(match self.carrier {
            Carrier::Pipe => (Lane::MAIN, Frame::Message { event: None, text }),
            Carrier::Http => (lane, Frame::Answer { status, text }),
        });
    }

    /// The answer takes its time: make it a stream that can be kept alive and resumed.
    pub(super) fn begin(&mut self, lane: Lane) {
        let priming = self.priming.then_some(self.retry_ms);
        if let Some(stream) = self.open.get_mut(&lane.0).filter(|stream| !stream.streaming) {
            stream.streaming = true;
            if let Some(lane) = stream.lane {
                self.out.push_back((lane, begin_frame(lane.0, priming)));
            }
        }
    }

    /// Ends the connection of a POST before its answer, which its client comes
    /// back for. Not done to those that were not told how (HTTP-10, HTTP-11).
    pub(super) fn hang_up(&mut self, lane: Lane) {
        if !self.priming {
            return;
        }
        self.begin(lane);
        let left = self.open.get_mut(&lane.0).and_then(|stream| stream.lane.take());
        self.out.extend(left.map(|lane| (lane, Frame::End)));
    }

    /// The same for the call that is at present shown on `lane`, which a GET
    /// that took it up again may have opened.
    pub(super) fn let_go(&mut self, lane: Lane) {
        let shown = self.open.iter().find(|(_, stream)| stream.lane == Some(lane));
        if let Some(number) = shown.map(|(&number, _)| number) {
            self.hang_up(Lane(number));
        }
    }

    /// Says something on the stream of a POST; on the main one if that is gone.
    pub(super) fn send(&mut self, on: Option<Lane>, text: Bytes) {
        match on {
            Some(lane) if self.open.contains_key(&lane.0) => {
                self.begin(lane);
                self.push(lane.0, text, false);
            }
            _ => self.send_main(text),
        }
    }

    fn send_main(&mut self, text: Bytes) {
        if self.carrier == Carrier::Pipe {
            self.out.push_back((Lane::MAIN, Frame::Message { event: None, text }));
            return;
        }
        self.main_seq += 1;
        let event = EventId { stream: MAIN, seq: self.main_seq };
        self.history.push(event, &text, false);
        if let Some(&lane) = self.listeners.last() {
            self.out.push_back((lane, Frame::Message { event: Some(event), text }));
            return;
        }
        self.unheard_bytes += text.len();
        self.unheard.push_back((event, text));
        while self.unheard.len() > UNHEARD || self.unheard_bytes > self.most_bytes {
            let Some((_, oldest)) = self.unheard.pop_front() else { return };
            self.unheard_bytes -= oldest.len();
        }
    }

    /// Gives one of the answers that a POST is owed.
    pub(super) fn answer(&mut self, lane: Lane, text: Bytes) {
        if self.carrier == Carrier::Pipe {
            self.out.push_back((Lane::MAIN, Frame::Message { event: None, text }));
            return;
        }
        let Some(stream) = self.open.get(&lane.0) else { return };
        if stream.streaming {
            self.push(lane.0, text, true);
            self.count_answer(lane);
        } else if let Some(stream) = self.open.remove(&lane.0) {
            let answer = Frame::Answer { status: 200, text };
            self.out.extend(stream.lane.map(|lane| (lane, answer)));
        }
    }

    /// One of the answers that a POST was owed will not come, or has been given.
    pub(super) fn count_answer(&mut self, lane: Lane) {
        let Some(stream) = self.open.get_mut(&lane.0) else { return };
        stream.owed = stream.owed.saturating_sub(1);
        if stream.owed == 0 {
            let gone = self.open.remove(&lane.0).and_then(|stream| stream.lane);
            self.out.extend(gone.map(|lane| (lane, Frame::End)));
        }
    }

    /// An event on a stream that has begun: to its lane, and into the history.
    fn push(&mut self, number: u64, text: Bytes, last: bool) {
        let Some(stream) = self.open.get_mut(&number) else { return };
        stream.seq += 1;
        let event = EventId { stream: number, seq: stream.seq };
        let event = self.resumable.then_some(event);
        if let Some(event) = event {
            self.history.push(event, &text, last);
        }
        let frame = Frame::Message { event, text };
        self.out.extend(stream.lane.map(|lane| (lane, frame)));
    }

    /// A GET that wants to hear what belongs to no call.
    pub(super) fn listen(&mut self, lane: Lane) -> Result<(), Refusal> {
        self.room_for_listener()?;
        let prime = self.priming.then_some(self.retry_ms);
        // Before what follows at once: a lane that breaks here must not skip it.
        let seq = self.unheard.front().map_or(self.main_seq, |(event, _)| event.seq - 1);
        let event = EventId { stream: MAIN, seq };
        let prime = prime.map(|retry_ms| Prime { event, retry_ms });
        self.out.push_back((lane, Frame::Begin { prime }));
        self.unheard_bytes = 0;
        for (event, text) in self.unheard.drain(..) {
            self.out.push_back((lane, Frame::Message { event: Some(event), text }));
        }
        self.listeners.push(lane);
        Ok(())
    }

    /// A GET that takes a stream up again after `last`.
    pub(super) fn resume(&mut self, lane: Lane, last: &str) -> Result<(), Refusal> {
        let unknown = || Refusal::UnknownEvent { id: last.to_owned() };
        let last: EventId = last.parse().map_err(|_| unknown())?;
        if last.stream == MAIN {
            self.room_for_listener()?;
        }
        let missed: Vec<_> = match self.history.after(last) {
            Ok(events) => events.map(|(event, text)| (event, text.clone())).collect(),
            Err(_) if self.is_before_first_event(last) => Vec::new(),
            Err(_) => return Err(unknown()),
        };
        self.out.push_back((lane, Frame::Begin { prime: None }));
        if last.stream == MAIN {
            self.unheard.clear();
            self.unheard_bytes = 0;
        }
        for (event, text) in missed {
            self.out.push_back((lane, Frame::Message { event: Some(event), text }));
        }
        if last.stream == MAIN {
            self.listeners.push(lane);
        } else if let Some(stream) = self.open.get_mut(&last.stream) {
            // The lane that broke may not have been noticed yet.
            let broken = stream.lane.replace(lane);
            self.out.extend(broken.map(|lane| (lane, Frame::End)));
        } else {
            self.out.push_back((lane, Frame::End));
        }
        Ok(())
    }

    /// Primed, and nothing has been said since: the history does not know the stream yet.
    fn is_before_first_event(&self, last: EventId) -> bool {
        let said = match self.open.get(&last.stream) {
            Some(stream) if !stream.streaming => return false,
            Some(stream) => stream.seq,
            None if last.stream == MAIN => self.main_seq,
            None => return false,
        };
        last.seq == said
    }

    /// The streams of calls are bounded by the calls, so only listeners are counted.
    fn room_for_listener(&self) -> Result<(), Refusal> {
        if self.listeners.len() < self.most { Ok(()) } else { Err(Refusal::TooManyStreams) }
    }

    /// The client, or the network, closed a lane.
    pub(super) fn closed(&mut self, lane: Lane) {
        self.listeners.retain(|&listener| listener != lane);
        let mut unreachable = None;
        for (&number, stream) in &mut self.open {
            if stream.lane == Some(lane) {
                stream.lane = None;
                unreachable = (!stream.streaming).then_some(number);
            }
        }
        if let Some(number) = unreachable {
            self.open.remove(&number);
        }
    }

    /// Whether anybody is there to hear what belongs to no call.
    pub(super) fn is_heard(&self) -> bool {
        self.carrier == Carrier::Pipe || !self.listeners.is_empty()
    }

    /// Whether the client has any lane open.
    pub(super) fn is_attached(&self) -> bool {
        self.is_heard() || self.open.values().any(|stream| stream.lane.is_some())
    }

    /// How many streams somebody reads; a pipe is one.
    pub(super) fn count(&self) -> usize {
        let is_read = |stream: &&Stream| stream.streaming && stream.lane.is_some();
        match self.carrier {
            Carrier::Pipe => 1,
            Carrier::Http => self.listeners.len() + self.open.values().filter(is_read).count(),
        }
    }

    /// Closes every lane.
    pub(super) fn end(&mut self) {
        let lanes = self.open.drain().filter_map(|(_, stream)| stream.lane);
        let lanes: Vec<_> = lanes.chain(self.listeners.drain(..)).collect();
        self.out.extend(lanes.into_iter().map(|lane| (lane, Frame::End)));
    }
}

fn begin_frame(stream: u64, priming: Option<u64>) -> Frame {
    let event = EventId { stream, seq: 0 };
    Frame::Begin { prime: priming.map(|retry_ms| Prime { event, retry_ms }) }
}
