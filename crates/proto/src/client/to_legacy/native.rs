//! Legacy clients of a legacy server, where modern ones go by the same connection:
//! they pass by the layer, and share the server's greeting with all.

use std::time::Instant;

use super::{Errand, ToLegacy};
use crate::client::{CallId, Ticket};
use crate::exchange::{Ask, Down, Lane, To};
use crate::failure::Failure;
use crate::jsonrpc::Message;
use crate::method;

impl<T: Ticket> ToLegacy<T> {
    /// A client of the server's own era opens a call.
    pub(super) fn pass(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        self.has_natives = true;
        match request.method() {
            method::INITIALIZE => {
                // Whoever comes first greets for all.
                self.inner.introduce(request.clone());
                self.inner.meet(Errand::Native(ticket), now);
                return CallId::DONE;
            }
            method::SET_LEVEL => {
                self.level =
                    request.log_level().and_then(|level| method::severity(&level)).or(self.level);
            }
            _ => {}
        }
        self.inner.open(Errand::Native(ticket), request, now).mark_native()
    }

    /// What is for everybody is for them too.
    pub(super) fn tell_natives(&mut self, message: &Message) {
        if self.has_natives {
            self.down.push_back(Down::Note { to: To::Session, message: message.clone() });
        }
    }

    /// Puts a question to one of them, if it is about a call of theirs, or if
    /// only one of all clients has calls that it may be about.
    pub(super) fn ask_native(
        &mut self,
        to: &To<Errand<T>>,
        ask: Ask,
        request: &Message,
        now: Instant,
    ) -> bool {
        let to = match to {
            To::Call(errand) => Some(errand.clone()),
            To::Session if self.has_native_asking() => self.inner.place(ask, now),
            To::Session => None,
        };
        let Some(Errand::Native(to)) = to else { return false };
        let (to, request) = (To::Call(to), request.clone());
        self.down.push_back(Down::Ask { to, ask, request });
        true
    }

    /// Whether one of them has a call open that the server may ask or log about.
    pub(super) fn has_native_asking(&self) -> bool {
        self.inner.asking().any(|errand| matches!(errand, Errand::Native(_)))
    }

    /// The link is ended because nobody uses it.
    pub fn rest(&mut self, why: &Failure, now: Instant) {
        self.handle_lost(why, now);
        self.inner.rest(why);
    }

    /// Whether the server has been greeted at any time.
    pub fn is_met(&self) -> bool {
        self.inner.welcome().is_some()
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        let calls = self.calls.iter().map(|(&number, call)| (number, &call.ticket));
        let listens = self.listens.iter().map(|(&number, listen)| (number, &listen.ticket));
        let mut all = calls.chain(listens);
        let ours = all.find(|(_, theirs)| *theirs == ticket).map(|(number, _)| CallId(number));
        let native = || self.inner.find(&Errand::Native(ticket.clone())).map(CallId::mark_native);
        ours.or_else(native)
    }

    /// Who opened the call that travels on `lane`, if it passes by the layer.
    pub fn ticket(&self, lane: Lane) -> Option<&T> {
        match self.inner.ticket(lane)? {
            Errand::Native(ticket) => Some(ticket),
            _ => None,
        }
    }

    /// How many calls of clients are open.
    pub fn calls(&self) -> usize {
        let waits = |errand: &&Errand<T>| match errand {
            Errand::Discover(ticket) | Errand::Native(ticket) => ticket.counts(),
            _ => false,
        };
        let native = |errand: &&Errand<T>| matches!(errand, Errand::Native(it) if it.counts());
        let greeters = self.inner.greeters().filter(waits).count();
        let native = self.inner.tickets().filter(native).count();
        self.calls.len() + self.listens.len() + greeters + native
    }
}
