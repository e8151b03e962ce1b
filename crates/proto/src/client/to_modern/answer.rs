//! What a modern server says and answers, in the words of a legacy client.

use std::time::Instant;

use super::ToModern;
use crate::client::Ticket;
use crate::client::across::unmarked;
use crate::exchange::{Down, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Kind, Member, Message};
use crate::method;
use crate::project;
use crate::refusal::code;
use crate::revision::Revision;

impl<T: Ticket> ToModern<T> {
    /// Something on the way to an answer.
    pub(super) fn handle_note(&mut self, number: u64, ticket: T, message: Message) {
        if message.method() == method::PROGRESS {
            let Some(call) = self.calls.get_mut(&number) else { return };
            let value = message.get(Member::Progress);
            let value = value.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            if value.is_some_and(|value: f64| call.progress.is_some_and(|last| value <= last)) {
                return;
            }
            call.progress = value.or(call.progress);
        }
        let message =
            if method::is_for_all(message.method()) { unmarked(&message) } else { message };
        self.down.push_back(Down::Note { to: To::Call(ticket), message });
    }

    /// The server answered a call.
    pub(super) fn handle_answer(&mut self, number: u64, answer: &Message, now: Instant) {
        if self.handle_task_answer(number, answer, now) || self.try_as_task(number, answer, now) {
            return;
        }
        let Some(call) = self.calls.get(&number) else { return };
        let method = call.request.method();
        match answer.result_type().as_deref() {
            Some("input_required") if method::may_ask(method) => {
                self.begin_round(number, answer, now);
            }
            Some("task") if call.tasking.declares() => self.handle_created(number, answer, now),
            None if answer.error_code() == Some(code::MISSING_CAPABILITY) => {
                // It was told all that this client declared (GW-29).
                self.fail(number, &answer.error_message());
            }
            None | Some("complete") if method == method::CALL_TOOL => {
                self.finish_tool(number, answer, now);
            }
            None | Some("complete") => {
                let older = self.older(&call.ticket, answer, method);
                let method = method.to_owned();
                self.learn_tools(&method, answer);
                self.finish(number, older);
            }
            Some(other) => {
                let what = format!("the server answered with an unknown resultType, {other:?}");
                self.finish(number, Failure::translation(what));
            }
        }
    }

    /// A call is over.
    pub(super) fn finish(&mut self, number: u64, outcome: impl Into<Outcome>) {
        if let Some(call) = self.calls.remove(&number) {
            self.recall_round(&call);
            self.down.push_back(Down::Finish { to: call.ticket, outcome: outcome.into() });
        }
    }

    /// An answer as this client reads it.
    fn older(&self, ticket: &T, answer: &Message, method: &str) -> Outcome {
        let outcome = older_answer(answer, method, self.revision_of(ticket), false);
        let lists = method == method::LIST_TOOLS && self.offers_tasks(ticket);
        match outcome.result().filter(|_| lists) {
            Some(list) => super::task::may_be_tasks(list).into(),
            None => outcome,
        }
    }
}

/// An answer of a modern server in the words of a legacy client (GW-29, GW-70);
/// `wrapped` if that of a tool whose structure its client expects so.
pub(super) fn older_answer(
    answer: &Message,
    method: &str,
    revision: Revision,
    wrapped: bool,
) -> Outcome {
    if answer.kind() == Kind::Error {
        return project::error_for_legacy(answer, method).into();
    }
    let own = answer.without_meta(&[Member::MetaServer]);
    match project::legacy(own.payload_bytes(), method, revision, wrapped) {
        Ok(result) => answer.with_payload(&result).into(),
        Err(error) => Failure::translation(error.to_string()).into(),
    }
}
