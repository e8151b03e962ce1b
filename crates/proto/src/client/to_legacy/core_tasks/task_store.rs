//! The tasks that are remembered: how many, for how long, and how much of what
//! they came to. What is forgotten can be asked of the server again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::client::tasks::{TaskTerm, task_goes_on};
use crate::exchange::Ask;
use crate::jsonrpc::{Message, Part};

/// What the ends that are kept may take; the oldest goes first. What tasks ask may take
/// as much again: beyond it a question is refused.
const MOST_BYTES: usize = 16 << 20;

/// Questions that one task may have open.
const MOST_QUESTIONS: usize = 64;

/// A task of a client that knows tasks.
#[derive(Debug)]
pub(super) struct CoreTask {
    pub(super) id: Box<str>,
    pub(super) principal: Box<[u8]>,
    /// What its client declared: what it may be asked.
    pub(super) capabilities: Bytes,
    /// As a modern client is shown it, without what it came to or asks.
    pub(super) state: Value,
    /// What it came to, while there is room for it.
    pub(super) end: Option<Message>,
    /// The server has said what it came to.
    pub(super) ended: bool,
    /// Its client has seen that.
    pub(super) told: bool,
    pub(super) questions: BTreeMap<String, TaskQuestion>,
    next_key: u32,
    /// Our own `tasks/result` is open.
    pub(super) waited: bool,
    term: TaskTerm,
}

/// What a task asks its client.
#[derive(Debug)]
pub(super) struct TaskQuestion {
    pub(super) ask: Ask,
    /// As a modern client is asked.
    shown: Value,
    /// The bytes that it came in.
    size: usize,
}

impl CoreTask {
    pub(super) fn new(
        id: Box<str>,
        principal: &[u8],
        capabilities: Bytes,
        state: Value,
        now: Instant,
    ) -> Self {
        Self {
            id,
            principal: principal.into(),
            capabilities,
            term: TaskTerm::begin(&state, now),
            state,
            end: None,
            ended: false,
            told: false,
            questions: BTreeMap::new(),
            next_key: 0,
            waited: false,
        }
    }

    /// The server says how it stands.
    pub(super) fn show(&mut self, state: Value) {
        self.term.renew(&state);
        self.state = state;
        self.show_questions();
    }

    /// Whatever the server calls it: what it asks must be answered (TASK-4).
    fn show_questions(&mut self) {
        if !self.questions.is_empty() && task_goes_on(&self.state) {
            self.state["status"] = "input_required".into();
        }
    }

    /// The server asks something on its behalf. False if it asks too much.
    pub(super) fn ask(&mut self, ask: Ask, method: &str, params: &[u8]) -> bool {
        if self.questions.len() >= MOST_QUESTIONS {
            return false;
        }
        self.next_key += 1;
        let said = Part::new(params).value().unwrap_or_default();
        let shown = json!({"method": method, "params": said});
        let question = TaskQuestion { ask, shown, size: params.len() };
        self.questions.insert(format!("q{}", self.next_key), question);
        self.show_questions();
        true
    }

    pub(super) fn open_questions(&self) -> Map<String, Value> {
        let open = self.questions.iter();
        open.map(|(key, question)| (key.clone(), question.shown.clone())).collect()
    }

    /// Whether nobody waits for its end, and somebody should.
    pub(super) fn is_unwatched(&self) -> bool {
        !self.ended && !self.waited && self.state["status"] != "cancelled"
    }

    /// The server has said what it came to. What it had asked, which nobody needs any more.
    pub(super) fn end_with(&mut self, end: &Message) -> impl Iterator<Item = Ask> + use<> {
        (self.ended, self.end) = (true, Some(end.clone()));
        std::mem::take(&mut self.questions).into_values().map(|question| question.ask)
    }

    fn size(&self) -> usize {
        self.end.as_ref().map_or(0, |end| end.text().len())
    }
}

/// All tasks, oldest first.
#[derive(Debug, Default)]
pub(super) struct TaskStore {
    pub(super) all: Vec<CoreTask>,
}

impl TaskStore {
    /// Remembers one more; with `most` already, the one that goes for it: the
    /// oldest that is over, if there is any.
    pub(super) fn add(&mut self, task: CoreTask, most: usize) -> Option<CoreTask> {
        let over = self.all.iter().position(|task| task.ended).unwrap_or(0);
        let gone = (self.all.len() >= most.max(1)).then(|| self.all.remove(over));
        self.all.push(task);
        gone
    }

    pub(super) fn find(&mut self, id: &str) -> Option<&mut CoreTask> {
        self.all.iter_mut().find(|task| *task.id == *id)
    }

    /// Whether a question of so many bytes fits beside those that are open.
    pub(super) fn has_room(&self, more: usize) -> bool {
        let open = self.all.iter().flat_map(|task| task.questions.values());
        open.map(|question| question.size).sum::<usize>() + more <= MOST_BYTES
    }

    /// Forgets what tasks came to, the oldest first, until the rest fits.
    pub(super) fn trim(&mut self) {
        let mut bytes: usize = self.all.iter().map(CoreTask::size).sum();
        for task in &mut self.all {
            if bytes <= MOST_BYTES {
                return;
            }
            bytes -= task.size();
            task.end = None;
        }
    }

    /// Forgets those that the server does not remember any longer either.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<CoreTask> {
        let is_late = |task: &mut CoreTask| task.term.over.is_some_and(|over| over <= now);
        self.all.extract_if(.., is_late).collect()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.all.iter().filter_map(|task| task.term.over).min()
    }

    /// Whether the session must live on for a task: it goes on, or its client
    /// has not seen its end. `most` is how long one may have that.
    pub(super) fn holds(&self, now: Instant, most: Duration) -> bool {
        let holds = |task: &CoreTask| {
            let is_open = task_goes_on(&task.state) || !task.told;
            is_open && task.state["status"] != "cancelled" && task.term.holds(now, most)
        };
        self.all.iter().any(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tasks_ask_has_a_bound_over_all_of_them() {
        #[expect(clippy::disallowed_methods, reason = "any start will do")]
        let now = Instant::now();
        let mut kept = TaskStore::default();
        let half = format!("\"{}\"", "x".repeat(MOST_BYTES / 2));
        for number in 0..3 {
            let id = format!("t{number}").into();
            kept.add(CoreTask::new(id, b"", Bytes::new(), Value::Null, now), 4);
            assert_eq!(kept.has_room(half.len()), number == 0);
            let few = usize::try_from(number).unwrap();
            kept.all[few].ask(Ask(number), "m", &half.as_bytes()[..few]);
            if number == 0 {
                kept.all[0].ask(Ask(9), "m", half.as_bytes());
            }
        }
        let asked: Vec<_> = kept.all[0].end_with(&Message::result(&1.into(), b"{}")).collect();
        assert_eq!(asked, [Ask(0), Ask(9)]);
        assert!(kept.has_room(half.len()), "an end takes its questions along");
    }

    #[test]
    fn what_tasks_came_to_is_forgotten_where_it_takes_too_much_and_the_tasks_are_not() {
        #[expect(clippy::disallowed_methods, reason = "any start will do")]
        let now = Instant::now();
        let mut kept = TaskStore::default();
        let large = format!("{{\"text\":\"{}\"}}", "x".repeat(MOST_BYTES / 3));
        for number in 0..4 {
            let id = format!("t{number}").into();
            kept.add(CoreTask::new(id, b"", Bytes::new(), Value::Null, now), 4);
            _ = kept.all[number].end_with(&Message::result(&1.into(), large.as_bytes()));
            kept.trim();
        }
        let left: Vec<_> = kept.all.iter().map(|task| (task.ended, task.end.is_some())).collect();
        assert_eq!(left, [(true, false), (true, false), (true, true), (true, true)]);
        // One more takes the place of the first.
        let fifth = CoreTask::new("t4".into(), b"", Bytes::new(), Value::Null, now);
        assert_eq!(kept.add(fifth, 4).map(|gone| gone.id), Some("t0".into()));
    }
}
