//! Calls that were dropped, and that the server may not have heard of yet.
//!
//! On a pipe a question does not say which call it is about. One that comes now
//! may be about a call that its client has just dropped, and is then for nobody
//! else: least of all for another person.

use std::time::{Duration, Instant};

use super::{Call, Legacy, Owner, client};
use crate::client::{CallId, Sharing, Ticket};
use crate::jsonrpc::{Id, Message};
use crate::method;

/// How long a server may take to hear of it, if it never answers the call.
const LINGER: Duration = Duration::from_secs(5);

/// As many as there are; the oldest goes first.
const MOST: usize = 256;

/// No ticket: it would keep the client.
#[derive(Debug)]
pub(super) struct Ghost {
    id: CallId,
    owner: u64,
    principal: Box<[u8]>,
    until: Instant,
}

impl<T: Ticket> Legacy<T> {
    /// A call on which the server may ask was dropped.
    pub(super) fn linger(&mut self, id: CallId, call: &Call<Owner<T>>, now: Instant) {
        if !method::may_ask(call.request.method()) {
            return;
        }
        let Some(ticket) = client(&call.owner) else { return };
        if self.ghosts.len() >= MOST {
            self.ghosts.pop_front();
        }
        let (owner, principal) = (ticket.owner(), ticket.principal().into());
        self.ghosts.push_back(Ghost { id, owner, principal, until: now + LINGER });
    }

    /// The server has answered a call that nobody waits for: it asks no more about it.
    pub(super) fn lay(&mut self, answer: &Message) {
        self.ghosts.retain(|ghost| answer.id() != Some(&Id::from(ghost.id.0)));
    }

    /// Whether a question may be about a dropped call of another than those who have calls open.
    pub(super) fn is_haunted(&mut self, now: Instant) -> bool {
        self.ghosts.retain(|ghost| ghost.until > now);
        let differs = |ghost: &Ghost, open: &T| match self.sharing {
            Sharing::Shared => ghost.owner != open.owner(),
            // A layer has clients that are another with each request.
            Sharing::Alone => *ghost.principal != *open.principal(),
        };
        self.ghosts.iter().any(|ghost| self.asking().any(|open| differs(ghost, open)))
    }
}
