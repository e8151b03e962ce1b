//! Tools that run as tasks only, called by clients that know no tasks (GW-59).

use std::time::Instant;

use serde_json::Value;

use super::super::{Errand, ToLegacy};
use super::declares;
use crate::client::Ticket;
use crate::client::across::take_off;
use crate::jsonrpc::{Kind, Message};
use crate::patch;
use crate::refusal::code;
use crate::{method, project};

/// Whether a tool runs as a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Support {
    Never,
    May,
    Must,
}

impl Support {
    /// What the definition of a tool says.
    pub(super) fn of(tool: &Value) -> Self {
        match tool["execution"]["taskSupport"].as_str() {
            Some("optional") => Self::May,
            Some("required") => Self::Must,
            _ => Self::Never,
        }
    }

    pub(super) fn may_be(self) -> bool {
        self != Self::Never
    }
}

impl<T: Ticket> ToLegacy<T> {
    /// A call that has failed because it was no task: it did not run, and is made again as one.
    pub(in super::super) fn had_to_be_task(
        &mut self,
        number: u64,
        answer: &Message,
        now: Instant,
    ) -> bool {
        let payload = answer.payload().unwrap_or_default();
        if answer.kind() == Kind::Error {
            let is_refused = project::code_of(payload) == Some(code::METHOD_NOT_FOUND);
            return is_refused && self.try_as_task(number, now);
        }
        // The TypeScript SDK refuses in a failed result, as any tool may fail:
        // only the list of tools says what this one is.
        let Some(call) = self.calls.get(&number) else { return false };
        let is_failed = patch::get(payload, &["isError"]) == Some(b"true".as_slice());
        let is_new = !call.as_task && !call.asked && !declares(&call.request);
        if !(is_failed && is_new && self.takes_tasks() == Some(true)) {
            return false;
        }
        let params = call.request.payload().unwrap_or_default();
        let name = patch::string(params, &["name"]).unwrap_or_default();
        match &self.tasks.tools {
            Some(tools) if tools.get(&*name) == Some(&Support::Must) => {
                self.try_as_task(number, now)
            }
            Some(_) => false,
            None => {
                self.tasks.failed.push((number, answer.clone()));
                self.learn_tools(now);
                true
            }
        }
    }

    /// A tool that runs as a task only, though its client knows none.
    fn try_as_task(&mut self, number: u64, now: Instant) -> bool {
        let takes_tasks = self.takes_tasks() == Some(true);
        let call = self.calls.get_mut(&number).filter(|call| !call.as_task && !call.asked);
        let Some(call) = call else { return false };
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
}
