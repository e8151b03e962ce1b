//! Clients that give up on a call, leave, or speak the server's own era; and a server
//! that is lost, which the layer returns to for clients that listen.

use std::time::{Duration, Instant};

use super::core_tasks::CoreTasks;
use super::{InternalCall, ToLegacy};
use crate::client::Ticket;
use crate::client::tasks::task_request;
use crate::exchange::{Ask, To};
use crate::failure::Failure;
use crate::jsonrpc::{Member, Message};
use crate::method;

impl<T: Ticket> ToLegacy<T> {
    /// A client gave up on a call; its own words, if it gave any.
    pub(crate) fn drop_call(&mut self, ticket: &T, words: Option<&Message>, now: Instant) {
        if ticket.is_native() {
            return self.inner.drop_call(&InternalCall::Native(ticket.clone()), words, now);
        }
        let number = self.tickets().find(|(_, theirs)| *theirs == ticket).map(|(number, _)| number);
        if let Some(number) = number {
            self.drop_number(number, words, now);
        }
    }

    fn drop_number(&mut self, number: u64, words: Option<&Message>, now: Instant) {
        if let Some(call) = self.calls.remove(&number) {
            self.end_questions_of(number, &call.ticket, now);
            self.inner.drop_call(&call.at_server(number), words, now);
            // The task that it waits for is not wanted: its client knows of none.
            if let Some(id) = &call.task {
                self.inner.open(InternalCall::Aside, &task_request(method::CANCEL_TASK, id), now);
            }
        }
        self.end_listen(number, now);
    }

    /// Calls and listens of clients by their numbers.
    fn tickets(&self) -> impl Iterator<Item = (u64, &T)> {
        let calls = self.calls.iter().map(|(&number, call)| (number, &call.ticket));
        calls.chain(self.listens.iter().map(|(&number, listen)| (number, &listen.ticket)))
    }

    /// A client is gone for good.
    pub(crate) fn forget_owner(&mut self, owner: u64, now: Instant) {
        let theirs = self.tickets().filter(|(_, ticket)| ticket.owner() == owner);
        for number in theirs.map(|(number, _)| number).collect::<Vec<_>>() {
            self.drop_number(number, None, now);
        }
        self.inner.forget_owner(owner, now);
    }

    /// The link is gone. Every open call fails with `why`.
    pub(crate) fn handle_lost(&mut self, why: &Failure, now: Instant) {
        self.held.clear();
        self.tasks = CoreTasks::default();
        self.inner.handle_lost(why, now);
        self.translate(now);
        // Those whose client visits a page have no call at the server.
        for (number, call) in std::mem::take(&mut self.calls) {
            self.end_questions_of(number, &call.ticket, now);
            let outcome = call.lingers.map_or_else(|| why.clone().into(), |(outcome, _)| outcome);
            self.to_client.finish(call.ticket, outcome);
        }
        self.return_later(now);
    }

    /// Who listens wants the server back.
    pub(super) fn return_later(&mut self, now: Instant) {
        if self.listens.is_empty() || self.due.is_some() {
            return;
        }
        self.due = self.reconnect.handle_break(now, Duration::ZERO);
        if self.due.is_none() {
            // The server does not come back: whoever listens gets to know.
            for number in self.listens.keys().copied().collect::<Vec<_>>() {
                self.finish_listen(number, now);
            }
        }
    }
}

// Legacy clients of a legacy server, where modern ones go by the same connection. Their calls
// pass by the layer, and all clients share the server's greeting.

impl<T: Ticket> ToLegacy<T> {
    /// A client of the server's own era opens a call.
    pub(super) fn pass(&mut self, ticket: T, request: &Message, now: Instant) {
        self.has_natives = true;
        match request.method() {
            method::INITIALIZE => {
                // Whoever comes first greets for all.
                self.inner.introduce(request.clone());
                return self.inner.meet(InternalCall::Native(ticket), now);
            }
            method::SET_LEVEL => {
                let level = request.string(Member::Level);
                self.level = level.and_then(|level| method::severity(&level)).or(self.level);
            }
            _ => {}
        }
        self.inner.open(InternalCall::Native(ticket), request, now);
    }

    /// Puts a question to one of them, if it is about a call of theirs, or if
    /// only one of all clients has calls that it may be about.
    pub(super) fn ask_native(
        &mut self,
        to: &To<InternalCall<T>>,
        ask: Ask,
        request: &Message,
        now: Instant,
    ) -> bool {
        let to = match to {
            To::Call(call) => Some(call.clone()),
            To::Session if self.has_native_asking() => self.inner.place(ask, now),
            To::Session => None,
        };
        let Some(InternalCall::Native(to)) = to else { return false };
        self.to_client.ask(To::Call(to), ask, request.clone());
        true
    }

    /// Whether one of them has a call open that the server may ask or log about.
    pub(super) fn has_native_asking(&self) -> bool {
        self.inner.asking().any(|call| call.native().is_some())
    }

    /// How many calls of clients are open.
    pub(crate) fn calls(&self) -> usize {
        let waits = |call: &&InternalCall<T>| match call {
            InternalCall::Discover(ticket) | InternalCall::Native(ticket) => ticket.counts(),
            _ => false,
        };
        let greeters = self.inner.greeters.iter().filter(waits).count();
        let open = self.inner.ledger.open.values().filter_map(|call| call.owner.as_ref());
        let native = open.filter_map(InternalCall::native);
        let native = native.filter(|ticket| ticket.counts()).count();
        self.calls.len() + self.listens.len() + greeters + native
    }

    /// How many of them only wait to hear of changes.
    pub(crate) fn listeners(&self) -> usize {
        self.listens.len()
    }
}
