//! How a conversation stands, for whoever looks.

use super::{Legacy, Phase};
use crate::exchange::Exchange;
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
