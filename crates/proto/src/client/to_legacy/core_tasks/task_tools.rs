//! Which tools may be tasks, and those that run as tasks only, called by clients
//! that know no tasks (GW-59).

use std::collections::BTreeMap;
use std::time::Instant;

use super::super::{InternalCall, ToLegacy};
use crate::client::Ticket;
use crate::client::across::{MOST_PAGES, page_of_tools, strip_envelope};
use crate::jsonrpc::{Kind, Member, Message, Part};
use crate::limits::MAX_ID;
use crate::method;
use crate::refusal::code;

/// Whether a tool runs as a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Support {
    Never,
    May,
    Must,
}

impl Support {
    /// What the definition of a tool says.
    pub(super) fn read(tool: Part<'_>) -> Self {
        let execution = tool.get(&["execution"]);
        match execution.and_then(|it| it.string("taskSupport")).as_deref() {
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
    /// Whether a call must wait until it is known which tools may be tasks.
    pub(in super::super) fn holds_for_tools(&mut self, number: u64, now: Instant) -> bool {
        let Some(call) = self.calls.get(&number) else { return false };
        let may_be = call.request.method() == method::CALL_TOOL && self.may_have(&call.request);
        if !may_be || self.tasks.tools.is_some() || self.takes_tasks() == Some(false) {
            return false;
        }
        self.tasks.held.push(number);
        self.learn_tools(now);
        true
    }

    fn learn_tools(&mut self, now: Instant) {
        if self.tasks.listing.is_none() {
            self.tasks.listing = Some(BTreeMap::new());
            self.tasks.pages = 0;
            self.list_tools(None, now);
        }
    }

    fn list_tools(&mut self, cursor: Option<&[u8]>, now: Instant) {
        self.tasks.pages += 1;
        self.inner.open(InternalCall::Tools, &page_of_tools(cursor), now);
    }

    /// A page of tools: which of them may be tasks?
    pub(in super::super) fn handle_tools(&mut self, page: Option<&Message>, now: Instant) {
        let Some(mut listing) = self.tasks.listing.take() else { return };
        for tool in page.into_iter().flat_map(|page| page.items(Member::Tools)) {
            let name = tool.string("name").unwrap_or_default();
            if name.len() <= MAX_ID {
                listing.insert(name.into(), Support::read(tool));
            }
        }
        match page.and_then(Message::next_cursor) {
            Some(cursor) if self.tasks.pages < MOST_PAGES => {
                self.tasks.listing = Some(listing);
                self.list_tools(Some(cursor), now);
            }
            _ => {
                self.tasks.tools = Some(listing);
                for number in std::mem::take(&mut self.tasks.held) {
                    self.begin(number, now);
                }
                for (number, answer) in std::mem::take(&mut self.tasks.failed) {
                    self.handle_answer(number, &answer, now);
                }
            }
        }
    }

    /// The tools may be others: they are listed again when it matters.
    pub(in super::super) fn forget_tools(&mut self) {
        self.tasks.tools = None;
    }

    /// A call that has failed because it was no task: it did not run, and is made again as one.
    pub(in super::super) fn had_to_be_task(
        &mut self,
        number: u64,
        answer: &Message,
        now: Instant,
    ) -> bool {
        if answer.kind() == Kind::Error {
            let is_refused = answer.error_code() == Some(code::METHOD_NOT_FOUND);
            return is_refused && self.try_as_task(number, now);
        }
        // The TypeScript SDK refuses in a failed result, as any tool may fail:
        // only the list of tools says what this one is.
        let Some(call) = self.calls.get(&number) else { return false };
        let is_new = !call.as_task && !call.asked && !self.may_have(&call.request);
        if !(answer.is_tool_error() && is_new && self.takes_tasks() == Some(true)) {
            return false;
        }
        let name = call.request.name().unwrap_or_default();
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
        let request = strip_envelope(&call.request).with(Member::Task, "{}");
        if !request.has(Member::Task) {
            return false;
        }
        call.as_task = true;
        let errand = InternalCall::Call { number, ticket: call.ticket.clone() };
        call.inner = self.inner.open(errand, &request, now);
        true
    }
}
