//! Tools that run as tasks only, for clients that know no tasks (GW-59).

use std::time::Instant;

use super::{Errand, ToLegacy};
use crate::client::Ticket;
use crate::client::across::take_off;
use crate::jsonrpc::Message;
use crate::method;
use crate::patch;

impl<T: Ticket> ToLegacy<T> {
    /// A tool that runs as a task only, though its client knows none, is waited for (GW-59).
    pub(super) fn try_as_task(&mut self, number: u64, now: Instant) -> bool {
        let takes_tasks = self.inner.welcome().is_some_and(|welcome| {
            patch::get(welcome, &["capabilities", "tasks", "requests", "tools", "call"]).is_some()
        });
        let Some(call) = self.calls.get_mut(&number).filter(|call| !call.as_task && !call.asked)
        else {
            return false;
        };
        if !takes_tasks || call.request.method() != method::CALL_TOOL {
            return false;
        }
        let request = take_off(&call.request);
        let params = request.payload().unwrap_or(b"{}");
        let Some(params) = patch::put(params, &[], "task", b"{}") else { return false };
        call.as_task = true;
        let errand = Errand::Call { number, ticket: call.ticket.clone() };
        call.inner = self.inner.open(errand, &request.with_payload(&params), now);
        true
    }

    /// The task was made: its result is the answer.
    pub(super) fn await_task(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.as_task) else {
            return false;
        };
        let id = answer.payload().and_then(|result| patch::get(result, &["task", "taskId"]));
        let Some(id) = id else { return false };
        let params = [b"{\"taskId\":", id, b"}"].concat();
        let request = Message::request(&0.into(), method::TASK_RESULT, Some(&params));
        let errand = Errand::Call { number, ticket: call.ticket.clone() };
        call.inner = self.inner.open(errand, &request, now);
        true
    }
}
