//! Calls that go on by another request of their client, which speaks for itself (META-3).

use std::time::Instant;

use super::ToLegacy;
use crate::client::across::{TASKS, declares_tasks};
use crate::client::{CallId, Ticket};
use crate::jsonrpc::{Member, Message, Part};
use crate::method;

impl<T: Ticket> ToLegacy<T> {
    /// A client is back with input for a call, by this request.
    pub fn again(&mut self, id: CallId, request: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&id.0) else { return };
        call.level = method::wanted_severity(request);
        if let Some(declared) = request.part(Member::MetaCapabilities) {
            call.request = declaring(&call.request, declared);
        }
        self.set_level(None, now);
        self.settle(now);
    }
}

/// A request of a client that can do this. Whoever stands between counts on a task only
/// if the first request knew tasks.
fn declaring(first: &Message, declared: Part<'_>) -> Message {
    if !first.has(Member::MetaCapabilities) {
        return first.clone();
    }
    let bare = declared.without(&["extensions"], &[TASKS]).filter(|_| !declares_tasks(first));
    let declared = bare.unwrap_or_else(|| declared.text().to_vec().into());
    first.with(Member::MetaCapabilities, declared)
}
