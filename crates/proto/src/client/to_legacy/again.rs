//! Calls that go on by another request of their client, which speaks for itself (META-3).

use std::time::Instant;

use bytes::Bytes;

use super::ToLegacy;
use crate::client::across::{TASKS, task::declares};
use crate::client::{CallId, Ticket};
use crate::jsonrpc::Message;
use crate::method::{self, meta};
use crate::patch;

impl<T: Ticket> ToLegacy<T> {
    /// A client is back with input for a call, by this request.
    pub fn again(&mut self, id: CallId, request: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&id.0) else { return };
        let params = request.payload().unwrap_or_default();
        call.level = method::wanted_severity(params);
        if let Some(declared) = patch::get(params, &["_meta", meta::CAPABILITIES]) {
            call.request = declaring(&call.request, declared);
        }
        self.set_level(None, now);
        self.settle(now);
    }
}

/// A request of a client that can do this. Whoever stands between counts on a task only
/// if the first request knew tasks.
fn declaring(first: &Message, declared: &[u8]) -> Message {
    let params = first.payload().unwrap_or_default();
    let bare = patch::without(declared, &["extensions"], &[TASKS]).filter(|_| !declares(first));
    let declared = bare.unwrap_or_else(|| Bytes::copy_from_slice(declared));
    let params = patch::replace(params, &["_meta", meta::CAPABILITIES], &declared);
    params.map_or_else(|| first.clone(), |params| first.with_payload(&params))
}
