//! Clients that give up on a call, or are gone.

use std::time::Instant;

use super::ToLegacy;
use crate::client::{CallId, Ticket};
use crate::jsonrpc::Message;

impl<T: Ticket> ToLegacy<T> {
    /// A client gave up on a call; its own words, if it gave any.
    pub fn drop_call(&mut self, id: CallId, words: Option<&Message>, now: Instant) {
        if let Some(native) = id.unmark_native() {
            self.inner.drop_call(native, words, now);
            return self.settle(now);
        }
        if let Some(call) = self.calls.remove(&id.0) {
            self.settle_asks_of(id.0, &call.ticket, now);
            self.inner.drop_call(call.inner, words, now);
            self.leave_task(&call, now);
        }
        self.end_listen(id.0, now);
        self.settle(now);
    }

    /// A client is gone for good.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        let calls = self.calls.iter().map(|(&number, call)| (number, &call.ticket));
        let listens = self.listens.iter().map(|(&number, listen)| (number, &listen.ticket));
        let theirs = calls.chain(listens).filter(|(_, ticket)| ticket.owner() == owner);
        for number in theirs.map(|(number, _)| number).collect::<Vec<_>>() {
            self.drop_call(CallId(number), None, now);
        }
        self.inner.forget_owner(owner, now);
        self.settle(now);
    }
}
