//! What a legacy client waits for.

use super::Legacy;
use crate::exchange::Exchange;

impl Legacy {
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
}
