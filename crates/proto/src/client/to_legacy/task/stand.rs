//! What clients are told when they ask how a task stands: what it came to is
//! part of it, and with a legacy server another question.

use std::time::Instant;

use serde_json::{Map, Value};

use super::full;
use crate::client::Ticket;
use crate::client::across::{task_as_extension, task_request};
use crate::client::to_legacy::{Call, Errand, ToLegacy};
use crate::jsonrpc::{Id, Kind, Message};
use crate::method;

impl<T: Ticket> ToLegacy<T> {
    /// The server says how a task stands, what it came to, or that it is
    /// cancelled. False if it is about no task.
    pub(in crate::client::to_legacy) fn handle_task_answer(
        &mut self,
        number: u64,
        answer: &Message,
        now: Instant,
    ) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let id = call.request.task_id().unwrap_or_default().into_owned();
        let shown = call.shown.take();
        match (call.request.method(), shown) {
            // A task that is over cannot be cancelled, which is no error to a modern client.
            (method::CANCEL_TASK, _) => {
                let known = self.tasks.kept.find(&id).is_some();
                let is_told = answer.kind() == Kind::Result || known;
                if !is_told {
                    return false;
                }
                self.handle_cancelled(&id);
                let answer = Message::result(&Id::from(0), b"{}");
                self.finish(number, self.newer_answer(&answer, method::UPDATE_TASK), now);
            }
            (method::GET_TASK, Some(state)) => {
                let end = self.newer_end(answer);
                self.tell_task(number, state, Some(&end), None, now);
            }
            (method::GET_TASK, None) if answer.kind() == Kind::Result => {
                let state = answer.payload_value().unwrap_or_default();
                self.handle_task_state(number, &id, &state, now);
            }
            _ => return false,
        }
        true
    }

    fn handle_task_state(&mut self, number: u64, id: &str, state: &Value, now: Instant) {
        let status = state["status"].as_str().unwrap_or("working").to_owned();
        let state = task_as_extension(state, &status);
        let is_over = matches!(status.as_str(), "completed" | "failed");
        let Some((known, task)) = self.tasks.kept.find(id) else {
            return if is_over {
                self.fetch_end(number, id, state, now);
            } else {
                self.tell_task(number, state, None, None, now);
            };
        };
        task.show(state);
        let state = task.state.clone();
        let (end, questions, unasked) =
            (task.end.clone(), task.open_questions(), task.wait.is_none());
        let waits = is_over && end.is_none();
        if unasked && (waits || task.is_unwatched()) {
            self.wait_for_end(known, now);
        }
        match self.calls.get_mut(&number).filter(|_| waits) {
            Some(call) => call.shown = Some(state),
            None => self.tell_task(number, state, end.as_ref(), Some(questions), now),
        }
    }

    /// Has the server say what a task came to that we do not remember.
    fn fetch_end(&mut self, number: u64, id: &str, state: Value, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let errand = Errand::Call { number, ticket: call.ticket.clone() };
        call.shown = Some(state);
        call.inner = self.inner.open(errand, &task_request(method::TASK_RESULT, id), now);
    }

    /// Says how a task stands: with its end, or with what it asks.
    pub(super) fn tell_task(
        &mut self,
        number: u64,
        state: Value,
        end: Option<&Message>,
        questions: Option<Map<String, Value>>,
        now: Instant,
    ) {
        let id = state["taskId"].as_str().unwrap_or_default();
        if let Some((_, task)) = self.tasks.kept.find(id) {
            task.told |= end.is_some();
        }
        let state = full(state, end, questions);
        let answer = Message::result(&Id::from(0), state.to_string().as_bytes());
        self.finish(number, self.newer_answer(&answer, method::GET_TASK), now);
    }

    /// Calls that wait for what a task came to, and how it stands.
    pub(super) fn take_waiting(&mut self, id: &str) -> Vec<(u64, Value)> {
        let is_about = |call: &Call<T>| call.request.task_id().unwrap_or_default() == id;
        let about = self.calls.iter_mut().filter(|(_, call)| is_about(call));
        about.filter_map(|(&number, call)| Some((number, call.shown.take()?))).collect()
    }
}
