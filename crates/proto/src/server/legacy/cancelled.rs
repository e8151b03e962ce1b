//! Calls that the client has cancelled. A server may answer them all the same, and
//! the client's stream ends as the server's does.

use super::Legacy;
use crate::exchange::Exchange;
use crate::jsonrpc::Id;

impl Legacy {
    /// The inside may still answer a call that was cancelled: `finish` or
    /// [`end_cancelled`](Self::end_cancelled) follows. False if there is no such call.
    #[must_use]
    pub fn await_cancelled(&mut self, exchange: Exchange) -> bool {
        let Some((_, is_awaited)) = self.cancelled.get_mut(&exchange) else { return false };
        *is_awaited = true;
        let awaited = || self.cancelled.iter().filter(|(_, (_, is_awaited))| *is_awaited);
        if awaited().count() > self.most_calls
            && let Some(oldest) = awaited().next().map(|(&oldest, _)| oldest)
        {
            self.end_cancelled(oldest);
        }
        true
    }

    /// No answer will come: the stream of a cancelled call ends.
    pub fn end_cancelled(&mut self, exchange: Exchange) {
        if let Some((call, _)) = self.cancelled.remove(&exchange) {
            self.streams.settle(call.lane);
        }
    }

    /// The inside has heard that a call was cancelled.
    pub fn settle_cancelled(&mut self, exchange: Exchange) {
        if self.cancelled.get(&exchange).is_some_and(|(_, is_awaited)| !is_awaited) {
            self.end_cancelled(exchange);
        }
    }

    /// The client uses an id again: a late answer would be taken for another.
    pub(super) fn end_cancelled_under(&mut self, id: &Id) {
        let same = self.cancelled.iter().find(|(_, (call, _))| call.id == *id);
        if let Some(exchange) = same.map(|(&exchange, _)| exchange) {
            self.end_cancelled(exchange);
        }
    }
}
