//! How a conversation stands, for whoever looks.

use super::{Legacy, Phase};
use crate::exchange::Exchange;
use crate::jsonrpc::Message;
use crate::revision::Revision;

impl Legacy {
    /// How far the conversation has got.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The revision that was settled on.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether ending it now would take something away from somebody.
    pub fn is_busy(&self) -> bool {
        !self.calls.is_empty() || self.streams.is_attached()
    }

    /// Bytes kept for a client that comes back to a stream, or opens one.
    pub fn history_bytes(&self) -> usize {
        self.streams.history_bytes()
    }

    /// Keeps none of them; returns how many there were.
    pub fn forget_history(&mut self) -> usize {
        self.streams.forget_history()
    }

    /// Whether the server waits for an answer of the client.
    pub fn is_asked(&self) -> bool {
        !self.asks.is_empty()
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// The calls that are open, oldest first.
    pub fn owed_calls(&self) -> Vec<Exchange> {
        self.calls.keys().copied().collect()
    }

    /// How many streams it is told things on.
    pub fn streams(&self) -> usize {
        self.streams.count()
    }
}

/// The revision that a greeting asks for, or that its answer settles on.
pub(super) fn revision_in(message: &Message) -> Revision {
    message.protocol_version().map_or(Revision::ASSUMED, |name| Revision::legacy_at_most(&name))
}
