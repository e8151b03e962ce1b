//! What clients are told when they ask how a task stands: what it came to is
//! part of it, and with a legacy server another question.

use std::time::Instant;

use serde_json::{Map, Value};

use crate::client::Ticket;
use crate::client::across::{task_as_extension, task_request};
use crate::client::to_legacy::{Call, InternalCall, ToLegacy};
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
        let errand = InternalCall::Call { number, ticket: call.ticket.clone() };
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
        let state = describe_task(state, end, questions);
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

// Who may see a task, and who is told when it changes (TASK-7, TASK-8).

impl<T: Ticket> ToLegacy<T> {
    /// Whether this client may hear of a task.
    pub(in crate::client::to_legacy) fn knows_task(&self, id: &str, ticket: &T) -> bool {
        self.has_task(id, ticket.principal())
    }

    /// Whether somebody began this task by this connection, and it is remembered.
    pub(in crate::client) fn has_task(&self, id: &str, principal: &[u8]) -> bool {
        self.tasks.kept.iter().any(|task| *task.id == *id && *task.principal == *principal)
    }

    /// Whether a task was begun by somebody else.
    pub(super) fn is_of_another(&self, id: &str, ticket: &T) -> bool {
        self.tasks.kept.iter().any(|task| *task.id == *id) && !self.knows_task(id, ticket)
    }

    /// The server says how a task stands, unasked. What it comes to and what it
    /// asks is known a moment later, and told then.
    pub(in crate::client::to_legacy) fn handle_status(&mut self, message: &Message, now: Instant) {
        let state = message.payload_value().unwrap_or_default();
        let id = state["taskId"].as_str().unwrap_or_default();
        let Some((number, task)) = self.tasks.kept.find(id) else { return };
        let status = state["status"].as_str().unwrap_or("working");
        task.show(task_as_extension(&state, status));
        let is_unwatched = task.is_unwatched();
        let is_whole = match status {
            // It has been told, or will be.
            "completed" | "failed" => false,
            "input_required" => !task.questions.is_empty(),
            _ => true,
        };
        if is_whole {
            self.tell_change(number);
        }
        if is_unwatched {
            self.wait_for_end(number, now);
        }
    }

    /// A task is over.
    pub(super) fn tell_end(&mut self, number: u64) {
        let Some(task) = self.tasks.kept.get_mut(number) else { return };
        let failed = task.end.as_ref().is_some_and(|end| end.kind() == Kind::Error);
        if task.state["status"] == "cancelled" && failed {
            return;
        }
        task.state["status"] = if failed { "failed" } else { "completed" }.into();
        self.tell_change(number);
    }

    /// A client has cancelled a task.
    pub(super) fn handle_cancelled(&mut self, id: &str) {
        if let Some((_, task)) = self.tasks.kept.find(id).filter(|(_, task)| !task.ended) {
            task.state["status"] = "cancelled".into();
        }
    }

    /// Tells who listens how a task stands.
    pub(super) fn tell_change(&mut self, number: u64) {
        let Some(task) = self.tasks.kept.get(number) else { return };
        let state =
            describe_task(task.state.clone(), task.end.as_ref(), Some(task.open_questions()));
        let params = state.to_string();
        let message = Message::notification(method::TASK_CHANGED, Some(params.as_bytes()));
        let is_heard = self.tell_listens(&message);
        if let Some(task) = self.tasks.kept.get_mut(number) {
            task.told |= is_heard && task.ended;
        }
    }
}

/// How a task stands, with its end, or with what it asks.
pub(super) fn describe_task(
    mut state: Value,
    end: Option<&Message>,
    asks: Option<Map<String, Value>>,
) -> Value {
    let status = state["status"].as_str().unwrap_or_default().to_owned();
    let payload = end.and_then(Message::payload_value);
    match (status.as_str(), end.map(Message::kind), payload) {
        // A tool that failed has completed; only a call that failed has not (TASK-3).
        ("completed" | "failed", Some(Kind::Result), Some(result)) => {
            state["status"] = "completed".into();
            state["result"] = result;
        }
        ("completed" | "failed", Some(_), Some(error)) => {
            state["status"] = "failed".into();
            state["error"] = error;
        }
        ("input_required", ..) => state["inputRequests"] = asks.unwrap_or_default().into(),
        _ => {}
    }
    state
}
