//! POSTs in flight that carry no request of a client: answers and notifications.
//!
//! A server that asks and never takes our answers would hold a connection for
//! each of them. So while there are too many, its streams are not read: the
//! server waits for itself, and other servers are not affected. Each such POST
//! ends by its own timeout, and so does the waiting.

use std::sync::Arc;

use switchboard_proto::jsonrpc::{Kind, Message};

use super::Upstream;

/// POSTs of one server in flight that carry no request, before its streams are
/// read no further: each takes a connection.
const MOST: usize = 32;

/// One POST that carries no request, until it is dropped.
pub(super) struct InFlight(Arc<Upstream>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|count| *count -= 1);
    }
}

impl Upstream {
    /// Counts the POST of `message` while the value lives, unless it is a request.
    pub(super) fn count_in_flight(self: &Arc<Self>, message: &Message) -> Option<InFlight> {
        if message.kind() == Kind::Request {
            return None;
        }
        self.in_flight.send_modify(|count| *count += 1);
        Some(InFlight(Arc::clone(self)))
    }

    /// Waits until the server has taken enough of what it was sent.
    pub(super) async fn answers_are_taken(&self) {
        if *self.in_flight.borrow() < MOST {
            return;
        }
        // The sender is ours, so waiting cannot fail.
        _ = self.in_flight.subscribe().wait_for(|&count| count < MOST).await;
    }
}
