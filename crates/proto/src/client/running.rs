//! Tasks that go on at a server, as seen in passing: who speaks its era knows of
//! them without our help, but nobody else must take the server for unused.
//!
//! In the core of an era a task is over when its result was fetched, for its
//! server must keep it until then; as an extension, when it is said to be over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::across::task::Term;
use crate::jsonrpc::{Kind, Member, Message};
use crate::limits::{Limits, MAX_ID};
use crate::method;

#[derive(Debug)]
pub(super) struct Running {
    tasks: BTreeMap<Box<str>, Term>,
    most: usize,
    longest: Duration,
}

impl Running {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { tasks: BTreeMap::new(), most: limits.tasks, longest: limits.total }
    }

    /// Whether one goes on.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.tasks.values().any(|term| term.holds(now, self.longest))
    }

    /// The server is another from here on.
    pub(super) fn lose(&mut self) {
        self.tasks.clear();
    }

    /// The server answers a request.
    pub(super) fn see(&mut self, request: &Message, answer: &Message, now: Instant) {
        let is_result = answer.kind() == Kind::Result;
        let subject = || request.task_id().unwrap_or_default();
        match request.method() {
            method::CALL_TOOL if is_result => self.begin(answer, now),
            method::GET_TASK if is_result => self.renew(&subject(), answer),
            method::CANCEL_TASK if !is_result => {}
            method::GET_TASK | method::TASK_RESULT | method::CANCEL_TASK => {
                self.tasks.remove(&*subject());
            }
            _ => {}
        }
    }

    /// A task may have begun.
    fn begin(&mut self, answer: &Message, now: Instant) {
        let is_flat = answer.result_type().is_some_and(|kind| kind == "task");
        let id = answer.string(if is_flat { Member::TaskId } else { Member::NewTaskId });
        let Some(id) = id.filter(|id| id.len() <= MAX_ID) else { return };
        let state = if is_flat { answer.payload_value() } else { answer.value(Member::Task) };
        if self.tasks.len() >= self.most {
            self.tasks.retain(|_, term| term.holds(now, self.longest));
        }
        if self.tasks.len() < self.most {
            self.tasks.insert(id.into(), Term::of(&state.unwrap_or_default(), now));
        }
    }

    fn renew(&mut self, id: &str, answer: &Message) {
        let has_end = answer.has(Member::EndResult) || answer.has(Member::EndError);
        if has_end || answer.string(Member::Status).is_some_and(|status| status == "cancelled") {
            self.tasks.remove(id);
        } else if let Some(term) = self.tasks.get_mut(id) {
            term.renew(&answer.payload_value().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::shorthand::message;

    fn running() -> Running {
        let total = Duration::from_secs(100);
        Running::new(&Limits { tasks: 2, total, ..Limits::default() })
    }

    #[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
    fn start() -> Instant {
        Instant::now()
    }

    fn see(running: &mut Running, request: &str, answer: &str, now: Instant) {
        running.see(&message(request), &message(answer), now);
    }

    /// wire: TASK-2, TASK-4
    #[test]
    fn a_task_of_the_extension_goes_on_until_its_end_is_told() {
        let (mut running, now) = (running(), start());
        see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"complete","taskId":"no"}"#, now);
        assert!(!running.holds(now));
        see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"task","taskId":"a"}"#, now);
        let get = r#"2 tasks/get {"taskId":"a"}"#;
        see(&mut running, get, r#"2 = {"taskId":"a","status":"working"}"#, now);
        assert!(running.holds(now));
        see(&mut running, get, r#"2 = {"taskId":"a","status":"completed","result":{}}"#, now);
        assert!(!running.holds(now));
    }

    #[test]
    fn a_task_of_the_core_goes_on_until_its_result_is_fetched() {
        let (mut running, now) = (running(), start());
        let begun = r#"1 = {"task":{"taskId":"a","status":"working","ttl":5000}}"#;
        see(&mut running, "1 tools/call {}", begun, now);
        let cancel = r#"2 tasks/cancel {"taskId":"a"}"#;
        see(&mut running, cancel, "2 ! -32602 it is over", now);
        let get = r#"3 tasks/get {"taskId":"a"}"#;
        see(&mut running, get, r#"3 = {"taskId":"a","status":"completed","ttl":9000}"#, now);
        assert!(running.holds(now + Duration::from_secs(8)));
        assert!(!running.holds(now + Duration::from_secs(9)), "its server has forgotten it");
        see(&mut running, r#"4 tasks/result {"taskId":"a"}"#, r#"4 = {"content":[]}"#, now);
        assert!(!running.holds(now));
    }

    #[test]
    fn a_task_that_is_cancelled_or_unknown_is_over() {
        let (mut running, now) = (running(), start());
        for end in [
            (r#"2 tasks/cancel {"taskId":"a"}"#, "2 = {}"),
            (r#"2 tasks/get {"taskId":"a"}"#, r#"2 = {"status":"cancelled"}"#),
            (r#"2 tasks/get {"taskId":"a"}"#, "2 ! -32602 no such task"),
        ] {
            see(&mut running, "1 tools/call {}", r#"1 = {"resultType":"task","taskId":"a"}"#, now);
            assert!(running.holds(now));
            see(&mut running, end.0, end.1, now);
            assert!(!running.holds(now), "{end:?}");
        }
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for_and_none_for_ever() {
        let (mut running, now) = (running(), start());
        for id in 0..3 {
            let begun = format!(r#"1 = {{"task":{{"taskId":"{id}"}}}}"#);
            see(&mut running, "1 tools/call {}", &begun, now);
        }
        assert_eq!(running.tasks.len(), 2);
        let later = now + Duration::from_secs(100);
        assert!(!running.holds(later));
        see(&mut running, "1 tools/call {}", r#"1 = {"task":{"taskId":"b"}}"#, later);
        assert!(running.holds(later));
    }
}
