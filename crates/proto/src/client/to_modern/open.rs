//! Which calls are open, those of modern clients too: they pass by the layer.

use super::{Errand, ToModern};
use crate::client::{CallId, Ticket};

impl<T: Ticket> ToModern<T> {
    /// Whether the server has told of itself, or a client has.
    pub fn is_met(&self) -> bool {
        self.discovered.is_some() || !self.sessions.is_empty()
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        let call = self.calls.iter().find(|(_, call)| call.ticket == *ticket);
        let call = call.map(|(&number, _)| CallId(number));
        let native = || self.inner.find(&Errand::Native(ticket.clone())).map(CallId::mark_native);
        call.or_else(native)
    }

    /// How many calls of clients are open.
    pub fn calls(&self) -> usize {
        let native = |errand: &&Errand<T>| matches!(errand, Errand::Native(it) if it.counts());
        let native = self.inner.tickets().filter(native).count();
        self.calls.len() + self.greeters.len() + self.ear.waiting() + native
    }
}
