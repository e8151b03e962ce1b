//! Losing a server, and coming back to it for those who listen.

use std::time::{Duration, Instant};

use super::ToLegacy;
use crate::client::Ticket;
use crate::exchange::Down;
use crate::failure::Failure;
use crate::jsonrpc::Message;

impl<T: Ticket> ToLegacy<T> {
    /// The link is gone. Every open call fails with `why`.
    pub fn handle_lost(&mut self, why: &Failure, now: Instant) {
        self.held.clear();
        self.lose_tasks();
        self.inner.handle_lost(why);
        self.settle(now);
        // Those whose client visits a page have no call at the server.
        for (number, call) in std::mem::take(&mut self.calls) {
            self.settle_asks_of(number, &call.ticket, now);
            let outcome = call.lingers.map_or_else(|| why.clone().into(), |(outcome, _)| outcome);
            self.down.push_back(Down::Finish { to: call.ticket, outcome });
        }
        self.return_later(now);
    }

    /// The server knows our session no more, and no call has found out.
    pub fn renew_session(&mut self, now: Instant) {
        self.inner.renew_session(now);
        self.settle(now);
    }

    /// The server did not take the answer to a question.
    pub fn handle_unsupplied(&mut self, answer: &Message, now: Instant) {
        self.inner.handle_unsupplied(answer);
        self.settle(now);
    }

    /// For a while nobody heard what the server says that belongs to no call.
    pub fn handle_gap(&mut self, now: Instant) {
        self.inner.handle_gap();
        self.settle(now);
    }

    /// Who listens wants the server back.
    pub(super) fn return_later(&mut self, now: Instant) {
        if self.listens.is_empty() || self.due.is_some() {
            return;
        }
        self.due = self.reconnect.handle_break(now, Duration::ZERO);
        if self.due.is_none() {
            self.end_listens(now);
        }
    }
}
