//! What a server says on a call after a question of it: told after that question,
//! to the retry that brings the answer.
//!
//! Told before, it would arrive together with the question, in an answer that
//! clients take for the end of all they are told; told while the client is away
//! it would be lost.

use std::collections::VecDeque;

use super::{Call, Frame, Modern, stamp};
use crate::exchange::Exchange;
use crate::jsonrpc::Message;
use crate::method;

/// Bytes that are kept for one call; the oldest go first, as the newest tell how
/// far it got.
const MOST: usize = 64 << 10;

/// Counted for each besides its text, so that short ones have a bound as well.
const EACH: usize = 128;

/// Notifications that wait for their client, oldest first.
#[derive(Debug, Default)]
pub(super) struct Held {
    notes: VecDeque<Message>,
    bytes: usize,
}

impl Held {
    fn push(&mut self, note: Message) {
        self.bytes += weight(&note);
        self.notes.push_back(note);
        while self.bytes > MOST
            && let Some(oldest) = self.notes.pop_front()
        {
            self.bytes -= weight(&oldest);
        }
    }
}

fn weight(note: &Message) -> usize {
    note.text().len() + EACH
}

impl Modern {
    /// Something on the way, for a call. What belongs to none is not said.
    pub fn note(&mut self, exchange: Option<Exchange>, message: &Message) {
        let Some(exchange) = exchange else { return };
        let is_open = self.calls.contains_key(&exchange);
        let parked = self.parked.get_mut(&exchange).map(|parked| &mut parked.call);
        let Some(call) = parked.or_else(|| self.calls.get_mut(&exchange)) else { return };
        if is_open && !call.round.is_asking() {
            self.tell(exchange, message);
        } else {
            call.held.push(message.clone());
        }
    }

    /// Tells the client of an open call what was held back for it.
    pub(super) fn tell_held(&mut self, exchange: Exchange) {
        let held = self.calls.get_mut(&exchange).map(|call| std::mem::take(&mut call.held));
        for note in held.into_iter().flat_map(|held| held.notes) {
            self.tell(exchange, &note);
        }
    }

    /// The same for all calls that have no question any more.
    pub(super) fn tell_who_is_not_asked(&mut self) {
        let is_due = |call: &Call| !call.held.notes.is_empty() && !call.round.is_asking();
        let due = self.calls.iter().filter(|(_, call)| is_due(call));
        for exchange in due.map(|(&exchange, _)| exchange).collect::<Vec<_>>() {
            self.tell_held(exchange);
        }
    }

    fn tell(&mut self, exchange: Exchange, message: &Message) {
        let Some(call) = self.calls.get(&exchange) else { return };
        if call.listens && matches!(message.method(), method::PROGRESS | method::LOG) {
            return;
        }
        let Some(message) = call.in_its_words(message) else { return };
        let (lane, text) = (call.lane, stamp(&message, &call.id).text().clone());
        self.begin_stream(lane);
        self.out.push_back((lane, Frame::Message { event: None, text }));
    }
}
