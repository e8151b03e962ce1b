//! Clients that give up on a call, leave, or speak the server's own era; and a server
//! that is lost, which the layer returns to for clients that listen.

use std::time::{Duration, Instant};

use super::{InternalCall, ToLegacy};
use crate::client::{CallId, Ticket};
use crate::exchange::{Ask, Lane, ServerEvent, To};
use crate::failure::Failure;
use crate::jsonrpc::Message;
use crate::method;

impl<T: Ticket> ToLegacy<T> {
    /// A client gave up on a call; its own words, if it gave any.
    pub fn drop_call(&mut self, id: CallId, words: Option<&Message>, now: Instant) {
        if let Some(native) = id.unmark_native() {
            self.inner.drop_call(native, words, now);
            return self.translate(now);
        }
        if let Some(call) = self.calls.remove(&id.0) {
            self.end_questions_of(id.0, &call.ticket, now);
            self.inner.drop_call(call.inner, words, now);
            self.leave_task(&call, now);
        }
        self.end_listen(id.0, now);
        self.translate(now);
    }

    /// Calls and listens of clients by their numbers.
    fn tickets(&self) -> impl Iterator<Item = (u64, &T)> {
        let calls = self.calls.iter().map(|(&number, call)| (number, &call.ticket));
        calls.chain(self.listens.iter().map(|(&number, listen)| (number, &listen.ticket)))
    }

    /// A client is gone for good.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        let theirs = self.tickets().filter(|(_, ticket)| ticket.owner() == owner);
        for number in theirs.map(|(number, _)| number).collect::<Vec<_>>() {
            self.drop_call(CallId(number), None, now);
        }
        self.inner.forget_owner(owner, now);
        self.translate(now);
    }

    /// The link is gone. Every open call fails with `why`.
    pub fn handle_lost(&mut self, why: &Failure, now: Instant) {
        self.held.clear();
        self.lose_tasks();
        self.inner.handle_lost(why);
        self.translate(now);
        // Those whose client visits a page have no call at the server.
        for (number, call) in std::mem::take(&mut self.calls) {
            self.end_questions_of(number, &call.ticket, now);
            let outcome = call.lingers.map_or_else(|| why.clone().into(), |(outcome, _)| outcome);
            self.to_client.push_back(ServerEvent::Finish { to: call.ticket, outcome });
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
            self.end_listens(now);
        }
    }
}

// Legacy clients of a legacy server, where modern ones go by the same connection. Their calls
// pass by the layer, and all clients share the server's greeting.

impl<T: Ticket> ToLegacy<T> {
    /// A client of the server's own era opens a call.
    pub(super) fn pass(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        self.has_natives = true;
        match request.method() {
            method::INITIALIZE => {
                // Whoever comes first greets for all.
                self.inner.introduce(request.clone());
                self.inner.meet(InternalCall::Native(ticket), now);
                return CallId::DONE;
            }
            method::SET_LEVEL => {
                self.level =
                    request.log_level().and_then(|level| method::severity(&level)).or(self.level);
            }
            _ => {}
        }
        self.inner.open(InternalCall::Native(ticket), request, now).mark_native()
    }

    /// What is for everybody is for them too.
    pub(super) fn tell_natives(&mut self, message: &Message) {
        if self.has_natives {
            self.to_client
                .push_back(ServerEvent::Note { to: To::Session, message: message.clone() });
        }
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
        let (to, request) = (To::Call(to), request.clone());
        self.to_client.push_back(ServerEvent::Ask { to, ask, request });
        true
    }

    /// Whether one of them has a call open that the server may ask or log about.
    pub(super) fn has_native_asking(&self) -> bool {
        self.inner.asking().any(|call| call.native().is_some())
    }

    /// The link is ended because nobody uses it.
    pub fn rest(&mut self, why: &Failure, now: Instant) {
        self.handle_lost(why, now);
        self.inner.rest(why);
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        let ours = self.tickets().find(|(_, theirs)| *theirs == ticket);
        let ours = ours.map(|(number, _)| CallId(number));
        let native =
            || self.inner.find(&InternalCall::Native(ticket.clone())).map(CallId::mark_native);
        ours.or_else(native)
    }

    /// Who opened the call that travels on `lane`, if it passes by the layer.
    pub fn ticket(&self, lane: Lane) -> Option<&T> {
        self.inner.ticket(lane)?.native()
    }

    /// How many calls of clients are open.
    pub fn calls(&self) -> usize {
        let waits = |call: &&InternalCall<T>| match call {
            InternalCall::Discover(ticket) | InternalCall::Native(ticket) => ticket.counts(),
            _ => false,
        };
        let greeters = self.inner.greeters().filter(waits).count();
        let native = self.inner.tickets().filter_map(InternalCall::native);
        let native = native.filter(|ticket| ticket.counts()).count();
        self.calls.len() + self.listens.len() + greeters + native
    }
}
