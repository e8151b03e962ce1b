//! Questions of tasks, and whose they are. Over HTTP a question may be here
//! before the answer that says which task it belongs to.

use std::time::{Duration, Instant};

use crate::client::Ticket;
use crate::client::to_legacy::ToLegacy;
use crate::exchange::{Ask, To};
use crate::jsonrpc::Message;

/// How long a question waits for its task.
const WAIT: Duration = Duration::from_secs(5);

/// Questions that wait.
const MOST: usize = 64;

/// A question that came before its task.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) ask: Ask,
    request: Message,
    until: Instant,
}

impl<T: Ticket> ToLegacy<T> {
    /// The call that waits for the task that a question is about.
    pub(in crate::client::to_legacy) fn waits_for(&self, request: &Message) -> Option<u64> {
        let id = request.related_task()?;
        let mut calls = self.calls.iter();
        calls.find(|(_, call)| call.task.as_deref() == Some(&*id)).map(|(&number, _)| number)
    }

    /// Keeps a question of a task that is about to be known.
    pub(in crate::client::to_legacy) fn keep_early(
        &mut self,
        ask: Ask,
        request: &Message,
        now: Instant,
    ) -> bool {
        let begins = self.calls.values().any(|call| call.as_task && call.task.is_none());
        let is_early = request.related_task().is_some() && self.waits_for(request).is_none();
        if !(begins && is_early) || self.tasks.early.len() >= MOST {
            return false;
        }
        self.tasks.early.push(Early { ask, request: request.clone(), until: now + WAIT });
        true
    }

    /// A task is known: what it asked before that is asked now.
    pub(super) fn settle_early(&mut self, now: Instant) {
        for early in std::mem::take(&mut self.tasks.early) {
            let known = self.waits_for(&early.request).is_some();
            if known {
                self.handle_ask(&To::Session, early.ask, &early.request, now);
            } else if !self.keep_question(early.ask, &early.request, now) {
                self.tasks.early.push(early);
            }
        }
    }

    /// What belongs to no task after all is not answered.
    pub(in crate::client::to_legacy) fn refuse_early(&mut self, now: Instant) {
        let late: Vec<_> = self.tasks.early.extract_if(.., |early| early.until <= now).collect();
        for early in late {
            self.inner.refuse_ask(early.ask, now);
        }
    }

    pub(in crate::client::to_legacy) fn early_due(&self) -> Option<Instant> {
        self.tasks.early.iter().map(|early| early.until).min()
    }
}
