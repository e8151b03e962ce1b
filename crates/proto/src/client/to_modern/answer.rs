//! What a modern server says and answers, in the words of a legacy client.

use std::time::Instant;

use bytes::Bytes;

use super::ToModern;
use crate::client::Ticket;
use crate::client::across::{unmarked, without_hop};
use crate::exchange::{Down, To};
use crate::jsonrpc::{Kind, Message};
use crate::method::{self, meta};
use crate::patch;
use crate::project;
use crate::refusal::{Refusal, code};
use crate::revision::Revision;

impl<T: Ticket> ToModern<T> {
    /// Something on the way to an answer.
    pub(super) fn handle_note(&mut self, number: u64, ticket: T, message: Message) {
        if message.method() == method::PROGRESS {
            let Some(call) = self.calls.get_mut(&number) else { return };
            let value = message.payload().and_then(|params| patch::get(params, &["progress"]));
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
        let result = answer.payload().filter(|_| answer.kind() == Kind::Result);
        let kind = result.and_then(|result| patch::string(result, &["resultType"]));
        match kind.as_deref() {
            Some("input_required") if method::may_ask(method) => {
                self.begin_round(number, result.unwrap_or_default(), now);
            }
            Some("task") if call.tasking.declares() => {
                self.handle_created(number, result.unwrap_or_default(), now);
            }
            None if needs_more(answer) => {
                // It was told all that this client declared (GW-29).
                let text = patch::string(answer.payload().unwrap_or_default(), &["message"]);
                let text = text.unwrap_or_default().into_owned();
                self.fail(number, &text);
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
                let text = format!("the server answered with an unknown resultType, {other:?}");
                self.finish(number, Message::refusal(None, &Refusal::FarSide { text }));
            }
        }
    }

    /// A call is over.
    pub(super) fn finish(&mut self, number: u64, answer: Message) {
        if let Some(call) = self.calls.remove(&number) {
            self.recall_round(&call);
            self.down.push_back(Down::Finish { to: call.ticket, answer });
        }
    }

    /// An answer as this client reads it.
    fn older(&self, ticket: &T, answer: &Message, method: &str) -> Message {
        let answer = older_answer(answer, method, self.revision_of(ticket), false);
        let lists = method == method::LIST_TOOLS && self.offers_tasks(ticket);
        match answer.payload().filter(|_| lists && answer.kind() == Kind::Result) {
            Some(result) => answer.with_payload(&super::task::may_be_tasks(result)),
            None => answer,
        }
    }
}

/// Whether the server wants a client that can do more.
fn needs_more(answer: &Message) -> bool {
    let error = answer.payload().filter(|_| answer.kind() == Kind::Error);
    error.and_then(project::code_of) == Some(code::MISSING_CAPABILITY)
}

/// An answer of a modern server in the words of a legacy client (GW-29, GW-70);
/// `wrapped` if that of a tool whose structure its client expects so.
pub(super) fn older_answer(
    answer: &Message,
    method: &str,
    revision: Revision,
    wrapped: bool,
) -> Message {
    let payload = answer.payload().unwrap_or_default();
    if answer.kind() == Kind::Error {
        let other = project::error_for_legacy(payload, method);
        return other.map_or_else(|| answer.clone(), |other| answer.with_payload(&other));
    }
    let own = Bytes::copy_from_slice(payload);
    let own = without_hop(&own, &[meta::SERVER]);
    match project::legacy(own, method, revision, wrapped) {
        Ok(result) => answer.with_payload(&result),
        Err(error) => Message::refusal(None, &Refusal::FarSide { text: error.to_string() }),
    }
}
