//! Calls that were cancelled, for a short while.
//!
//! - A server may answer a cancelled call all the same. Within an era the client
//!   gets what the server says, and its stream ends when the server's does.
//! - On a pipe a question does not say which call it is about. One that comes now
//!   may be about a call that its client has just dropped, and is then for nobody
//!   else: least of all for another person.

use std::time::{Duration, Instant};

use super::{Call, Legacy, Owner, client};
use crate::client::ledger::cancel_notice;
use crate::client::{CallId, Sharing, Ticket, Transmit};
use crate::exchange::{Down, Lane};
use crate::jsonrpc::{Id, Message};
use crate::method;

/// How long a server may take to hear of it, and to answer all the same.
const LINGER: Duration = Duration::from_secs(5);

/// As many as there are; the oldest goes first.
const MOST: usize = 256;

/// One that was cancelled.
#[derive(Debug)]
pub(super) struct Ghost<T> {
    id: CallId,
    owner: u64,
    principal: Box<[u8]>,
    until: Instant,
    /// The server may ask about it.
    may_ask: bool,
    /// Who still gets its answer. Else no ticket: it would keep the client.
    awaits: Option<T>,
}

impl<T: Ticket> Legacy<T> {
    /// Takes back a call that is not wanted, and whose answer nobody gets.
    pub(super) fn withdraw(&mut self, id: CallId) {
        if self.send_cancel(id, None) {
            // The notice cancels; over HTTP some servers then leave the stream open for ever.
            self.out.push_back(Transmit::Abort { lane: id.lane() });
        }
    }

    /// Tells the server that a call is cancelled. One that was not sent yet is not
    /// sent at all: false.
    pub(super) fn send_cancel(&mut self, id: CallId, words: Option<&Message>) -> bool {
        let before = self.held.len();
        self.held.retain(|held| !matches!(held, Transmit::Send { lane, .. } if *lane == id.lane()));
        let is_sent = self.held.len() == before;
        if is_sent {
            self.send(Lane::MAIN, cancel_notice(id, words));
        }
        is_sent
    }

    /// A call was dropped. `awaits` if its answer is passed on all the same.
    pub(super) fn linger(
        &mut self,
        id: CallId,
        call: &Call<Owner<T>>,
        awaits: Option<T>,
        now: Instant,
    ) {
        let may_ask = method::may_ask(call.request.method());
        let Some(ticket) = client(&call.owner).filter(|_| may_ask || awaits.is_some()) else {
            return;
        };
        let (owner, principal) = (ticket.owner(), ticket.principal().into());
        let until = now + LINGER;
        self.ghosts.push_back(Ghost { id, owner, principal, until, may_ask, awaits });
        if self.ghosts.len() > MOST
            && let Some(oldest) = self.ghosts.pop_front()
        {
            self.end_ghost(oldest);
        }
    }

    /// The server has answered a call that was dropped: it asks no more about it.
    pub(super) fn lay(&mut self, answer: &Message) {
        let to = answer.id().and_then(|id| self.take_ghost(id)).and_then(|ghost| ghost.awaits);
        self.down.extend(to.map(|to| Down::Finish { to, outcome: answer.clone().into() }));
    }

    /// The lane of a call that was dropped is over without an answer.
    pub(super) fn lay_unanswered(&mut self, lane: Lane) {
        let to = self.take_ghost(&Id::from(lane.0)).and_then(|ghost| ghost.awaits);
        self.down.extend(to.map(|to| Down::Unanswered { to }));
    }

    fn take_ghost(&mut self, id: &Id) -> Option<Ghost<T>> {
        let place = self.ghosts.iter().position(|ghost| *id == Id::from(ghost.id.0))?;
        self.ghosts.remove(place)
    }

    /// Its time is over, or there are too many.
    fn end_ghost(&mut self, ghost: Ghost<T>) {
        if let Some(to) = ghost.awaits {
            // Over HTTP some servers leave the stream open for ever.
            self.out.push_back(Transmit::Abort { lane: ghost.id.lane() });
            self.down.push_back(Down::Unanswered { to });
        }
    }

    /// Forgets those whose time is over.
    pub(super) fn end_ghosts(&mut self, now: Instant) {
        while let Some(ghost) = self.ghosts.pop_front_if(|ghost| ghost.until <= now) {
            self.end_ghost(ghost);
        }
    }

    /// The link is gone: no server answers them.
    pub(super) fn lose_ghosts(&mut self) {
        let awaits = self.ghosts.drain(..).filter_map(|ghost| ghost.awaits);
        self.down.extend(awaits.map(|to| Down::Unanswered { to }));
    }

    /// A client is gone: it gets no answers.
    pub(super) fn leave_ghosts(&mut self, owner: u64) {
        for ghost in self.ghosts.iter_mut().filter(|ghost| ghost.owner == owner) {
            if ghost.awaits.take().is_some() {
                self.out.push_back(Transmit::Abort { lane: ghost.id.lane() });
            }
        }
    }

    /// When the next one that is awaited is over.
    pub(super) fn next_ghost(&self) -> Option<Instant> {
        self.ghosts.iter().find(|ghost| ghost.awaits.is_some()).map(|ghost| ghost.until)
    }

    /// Whether an answer on `lane` would still be passed on.
    pub(super) fn is_awaited(&self, lane: Lane) -> bool {
        self.ghosts.iter().any(|ghost| ghost.awaits.is_some() && ghost.id.lane() == lane)
    }

    /// Whether a question may be about a dropped call of another than those who have calls open.
    pub(super) fn is_haunted(&mut self, now: Instant) -> bool {
        self.end_ghosts(now);
        let differs = |ghost: &Ghost<T>, open: &T| match self.sharing {
            Sharing::Shared => ghost.owner != open.owner(),
            // A layer has clients that are another with each request.
            Sharing::Alone => *ghost.principal != *open.principal(),
        };
        let mut asking = self.ghosts.iter().filter(|ghost| ghost.may_ask);
        asking.any(|ghost| self.asking().any(|open| differs(ghost, open)))
    }
}
