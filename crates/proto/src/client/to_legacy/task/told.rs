//! Who may see a task, and who is told when it changes (TASK-7, TASK-8).

use std::time::Instant;

use super::full;
use crate::client::Ticket;
use crate::client::across::task_as_extension;
use crate::client::to_legacy::ToLegacy;
use crate::jsonrpc::{Kind, Message};
use crate::method;

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
        let state = full(task.state.clone(), task.end.as_ref(), Some(task.open_questions()));
        let params = state.to_string();
        let message = Message::notification(method::TASK_CHANGED, Some(params.as_bytes()));
        let is_heard = self.tell_listens(&message);
        if let Some(task) = self.tasks.kept.get_mut(number) {
            task.told |= is_heard && task.ended;
        }
    }
}
