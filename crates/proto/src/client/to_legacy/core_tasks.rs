//! Tasks: the extension of the modern era, at a server that has them in its core (9.4).
//!
//! ```text
//!   tools/call, extension declared, tool may be a task ─▶ the call with `task` ─▶ its task, flat
//!                                                            └▶ tasks/result, which waits for its end
//!   tasks/get ────▶ the task; once it is over, with what it came to; else with what it asks
//!   tasks/update ─▶ answers to what it asks        tasks/cancel ─▶ the same, without its answer
//! ```
//!
//! A tool that runs as a task only is waited for, if its client knows no tasks (GW-59).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Call, InternalCall, ToLegacy};
use crate::client::across::{TASKS as EXTENSION, strip_envelope};
use crate::client::across::{declares_tasks, new_task_id, task_as_extension, task_request};
use crate::client::{CallId, Ticket};
use crate::exchange::{Ask, ServerEvent};
use crate::failure::{Outcome, Words};
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::method;
use crate::project;
use crate::refusal::Refusal;
use task_store::{CoreTask, EarlyQuestion, TaskStore};
use task_tools::Support;

mod task_status;
mod task_store;
mod task_tools;

/// What is known of the server's tasks.
#[derive(Debug)]
pub(super) struct CoreTasks {
    /// Which tools may be one; none until they were listed.
    tools: Option<BTreeMap<Box<str>, Support>>,
    listing: Option<BTreeMap<Box<str>, Support>>,
    pages: usize,
    /// Calls that wait for that.
    held: Vec<u64>,
    /// Calls that have failed, and wait for that to know whether they had to be tasks.
    failed: Vec<(u64, Message)>,
    kept: TaskStore,
    /// Questions of tasks that are not known yet.
    early: Vec<EarlyQuestion>,
    most: usize,
    longest: Duration,
}

impl CoreTasks {
    /// None yet; so many at most, of which each may keep the session for so long.
    pub(super) fn new(most: usize, longest: Duration) -> Self {
        let (tools, listing, pages) = (None, None, 0);
        let (held, failed, early) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            tools,
            listing,
            pages,
            held,
            failed,
            kept: TaskStore::default(),
            early,
            most,
            longest,
        }
    }
}

impl<T: Ticket> ToLegacy<T> {
    /// Whether the server can make tasks of calls; none if it has not been greeted.
    pub(super) fn takes_tasks(&self) -> Option<bool> {
        let path = ["tasks", "requests", "tools", "call"];
        self.inner.welcome().map(|welcome| welcome.capability(&path).is_some())
    }

    /// Whether clients may have tasks, if the server makes any.
    pub(super) fn offers_tasks(&self) -> bool {
        self.tasks.most > 0
    }

    /// Whether a call may become a task: its client knows them.
    fn may_have(&self, request: &Message) -> bool {
        self.offers_tasks() && declares_tasks(request)
    }

    /// Whether a client counts on the session though it has no call open.
    pub fn is_needed(&self, now: Instant) -> bool {
        self.inner.is_needed(now) || self.tasks.kept.holds(now, self.tasks.longest)
    }

    /// The server is gone, and its tasks with it. What waits for them fails with the calls.
    pub(super) fn lose_tasks(&mut self) {
        self.tasks = CoreTasks::new(self.tasks.most, self.tasks.longest);
    }

    /// Forgets the tasks that are too old.
    pub(super) fn expire_tasks(&mut self, now: Instant) {
        for task in self.tasks.kept.expire(now) {
            self.let_go(task, now);
        }
    }

    pub(super) fn task_due(&self) -> Option<Instant> {
        self.tasks.kept.due()
    }

    /// Nobody waits for a call any more: its task is not wanted, if its client knows of none.
    pub(super) fn leave_task(&mut self, call: &Call<T>, now: Instant) {
        if let Some(id) = &call.task {
            self.inner.open(InternalCall::Aside, &task_request(method::CANCEL_TASK, id), now);
        }
    }

    /// A task is remembered no longer: nobody waits for it, or answers what it asks.
    fn let_go(&mut self, task: CoreTask, now: Instant) {
        for question in task.questions.into_values() {
            self.inner.refuse_ask(question.ask, now);
        }
        let what = "the task is not remembered any more".to_owned();
        for (call, _) in self.take_waiting(&task.id) {
            let why = Refusal::BadParams { what: what.clone() };
            self.finish(call, why, now);
        }
        if let Some(wait) = task.wait {
            self.inner.drop_call(wait, None, now);
        }
    }

    /// The request of a call as it goes to the server.
    pub(super) fn request_of(&mut self, number: u64) -> Option<Message> {
        let takes_tasks = self.takes_tasks() == Some(true);
        let may_have = self.calls.get(&number).is_some_and(|call| self.may_have(&call.request));
        let call = self.calls.get_mut(&number)?;
        let request = strip_envelope(&call.request);
        let name = call.request.name().unwrap_or_default();
        let tools = self.tasks.tools.as_ref();
        let may_be = tools.and_then(|tools| tools.get(&*name)).is_some_and(|it| it.may_be());
        let is_call = call.request.method() == method::CALL_TOOL;
        call.as_task = takes_tasks && may_be && is_call && may_have;
        Some(if call.as_task { request.with(Member::Task, "{}") } else { request })
    }

    /// The task was made: its client gets it, or is kept until its end.
    pub(super) fn handle_created(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
        let may_have = self.calls.get(&number).is_some_and(|call| self.may_have(&call.request));
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.as_task) else {
            return false;
        };
        let task = answer.value(Member::Task).filter(|_| answer.kind() == Kind::Result);
        let Some(task) = task.filter(|task| task["taskId"].is_string()) else { return false };
        let id: Box<str> = match new_task_id(&task) {
            Ok(id) => id.into(),
            Err(why) => {
                self.finish(number, why, now);
                return true;
            }
        };
        if !may_have {
            let errand = InternalCall::Call { number, ticket: call.ticket.clone() };
            call.inner = self.inner.open(errand, &task_request(method::TASK_RESULT, &id), now);
            call.task = Some(id);
            self.ask_early_questions(now);
            return true;
        }
        let state = task_as_extension(&task, "working");
        let mut created = state.clone();
        created["resultType"] = "task".into();
        let capabilities = Bytes::copy_from_slice(call.request.declared_capabilities());
        let task = CoreTask::new(id, call.ticket.principal(), capabilities, state, now);
        let answer = answer.with_payload(created.to_string().as_bytes());
        let answer = self.newer_answer(&answer, method::CALL_TOOL);
        self.finish(number, answer, now);
        if let Some(gone) = self.tasks.kept.add(number, task, self.tasks.most) {
            self.let_go(gone, now);
        }
        self.wait_for_end(number, now);
        self.ask_early_questions(now);
        true
    }

    /// Has the server say what a task comes to; on the way it asks what the task needs.
    fn wait_for_end(&mut self, number: u64, now: Instant) {
        let Some(task) = self.tasks.kept.get_mut(number) else { return };
        let ask = task_request(method::TASK_RESULT, &task.id);
        let wait = self.inner.open(InternalCall::TaskEnd(number), &ask, now);
        task.wait = Some(wait);
        for question in task.questions.values() {
            self.inner.put_on(question.ask, wait, now);
        }
    }

    /// Our own question what a task comes to is answered, or has failed.
    pub(super) fn handle_task_end(&mut self, number: u64, outcome: Outcome, now: Instant) {
        if let Some(task) = self.tasks.kept.get_mut(number) {
            task.wait = None;
        }
        // What broke on the way says nothing of the task: it is asked again
        // when there is word of it.
        let end = match outcome {
            Outcome::Answered(end) => Ok(self.newer_end(&end)),
            Outcome::Failed(why) => Err(why),
        };
        if let Ok(end) = &end {
            self.keep_end(number, end, now);
        }
        let id = self.tasks.kept.get(number).map(|task| task.id.clone()).unwrap_or_default();
        for (call, state) in self.take_waiting(&id) {
            match &end {
                Ok(end) => self.tell_task(call, state, Some(end), None, now),
                Err(why) => self.finish(call, why.clone(), now),
            }
        }
    }

    /// What a task came to, which is kept and shown as a message.
    fn newer_end(&self, end: &Message) -> Message {
        self.newer_answer(end, method::TASK_RESULT).into_message(Words::Full)
    }

    /// A task is over; what it came to.
    fn keep_end(&mut self, number: u64, end: &Message, now: Instant) {
        let Some(asked) = self.tasks.kept.end(number, end) else { return };
        for ask in asked {
            self.inner.refuse_ask(ask, now);
        }
        self.tell_end(number);
        self.tasks.kept.trim();
    }

    /// A question of a task: it is answered by an update, if its client can (MRTR-4).
    pub(super) fn keep_question(&mut self, ask: Ask, request: &Message, now: Instant) -> bool {
        let Some(id) = request.related_task() else { return false };
        let params = project::modern_question(request.payload().unwrap_or(b"{}"));
        let has_room = self.tasks.kept.has_room(params.len());
        let Some((number, task)) = self.tasks.kept.find(&id) else { return false };
        let may_ask = has_room && project::permits(&task.capabilities, request.method(), &params);
        if may_ask && task.ask(ask, request.method(), &params) {
            // The server waits with what it comes to.
            if let Some(wait) = task.wait {
                self.inner.put_on(ask, wait, now);
            }
            self.tell_change(number);
        } else {
            self.inner.refuse_ask(ask, now);
        }
        true
    }

    /// The server does not need an answer of a task any more.
    pub(super) fn recall_question(&mut self, ask: Ask) {
        self.tasks.early.retain(|early| early.ask != ask);
        for task in self.tasks.kept.iter_mut() {
            task.questions.retain(|_, question| question.ask != ask);
        }
    }

    /// `tasks/get`, `tasks/update` and `tasks/cancel` of a client.
    pub(super) fn task_call(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        if !declares_tasks(request) {
            let needed = json!({"extensions": {EXTENSION: {}}});
            return self.refuse(ticket, &Refusal::NeedsMore { needed });
        }
        if self.takes_tasks() == Some(false) || !self.offers_tasks() {
            let method = request.method().to_owned();
            return self.refuse(ticket, &Refusal::UnknownMethod { method });
        }
        if self.is_of_another(&request.task_id().unwrap_or_default(), &ticket) {
            let what = "there is no such task".to_owned();
            return self.refuse(ticket, &Refusal::BadParams { what });
        }
        if request.method() == method::UPDATE_TASK {
            return self.update_task(ticket, request, now);
        }
        self.call(ticket, request, now)
    }

    fn update_task(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        let answers = request.value(Member::InputResponses);
        let answers = answers.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let Some((_, task)) = self.tasks.kept.find(&request.task_id().unwrap_or_default()) else {
            let what = "there is no such task".to_owned();
            return self.refuse(ticket, &Refusal::BadParams { what });
        };
        let given = answers.iter().filter(|(_, answer)| answer.is_object());
        let given =
            given.filter_map(|(key, answer)| Some((task.questions.remove(key)?.ask, answer)));
        let given: Vec<_> = given.collect();
        if task.questions.is_empty() && task.state["status"] == "input_required" {
            task.state["status"] = "working".into();
        }
        for (ask, answer) in given {
            let answer = Message::result(&Id::from(0), answer.to_string().as_bytes());
            self.inner.supply(ask, &answer, now);
        }
        let answer = Message::result(&Id::from(0), b"{}");
        let answer = self.newer_answer(&answer, method::UPDATE_TASK);
        self.down.push_back(ServerEvent::Finish { to: ticket, outcome: answer });
        self.translate(now);
        CallId::DONE
    }
}
