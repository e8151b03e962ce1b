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

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::ToLegacy;
use crate::client::tasks::{
    MOST_PAGES, declares_tasks, new_task_id, page_of_tools, task_as_extension, task_request,
};
use crate::client::{InternalCall, Ticket};
use crate::exchange::{Ask, To};
use crate::failure::{Outcome, Words};
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::limits::MAX_ID;
use crate::method;
use crate::project::{self, TASKS, strip_envelope};
use crate::refusal::{Refusal, code};
use task_store::{CoreTask, TaskStore};

mod task_store;

/// What is known of the server's tasks.
#[derive(Debug, Default)]
pub(super) struct CoreTasks {
    /// Which tools may be one; none until they were listed.
    pub(super) tools: Option<BTreeMap<Box<str>, Support>>,
    /// The pages of them that were asked for, and what they say so far.
    listing: Option<(usize, BTreeMap<Box<str>, Support>)>,
    /// Calls that wait for that.
    pub(super) held: Vec<u64>,
    /// Calls that have failed, and wait for that to know whether they had to be tasks.
    failed: Vec<(u64, Message)>,
    kept: TaskStore,
    /// Questions of tasks that are not known yet.
    early: Vec<EarlyQuestion>,
}

impl<T: Ticket> ToLegacy<T> {
    /// Whether the server can make tasks of calls; none if it has not been greeted.
    pub(super) fn takes_tasks(&self) -> Option<bool> {
        let path = ["tasks", "requests", "tools", "call"];
        self.inner.welcome.as_ref().map(|welcome| welcome.capability(&path).is_some())
    }

    /// Whether clients may have tasks, if the server makes any.
    pub(super) fn offers_tasks(&self) -> bool {
        self.limits().tasks > 0
    }

    /// Whether a call may become a task: its client knows them.
    pub(super) fn may_have(&self, request: &Message) -> bool {
        self.offers_tasks() && declares_tasks(request)
    }

    /// Whether a client counts on the session though it has no call open.
    pub(in crate::client) fn is_needed(&self, now: Instant) -> bool {
        self.inner.is_needed(now) || self.tasks.kept.holds(now, self.limits().total)
    }

    /// Forgets the tasks that are too old. Questions that belong to no task after all are refused.
    pub(super) fn expire_tasks(&mut self, now: Instant) {
        let late: Vec<_> = self.tasks.early.extract_if(.., |early| early.until <= now).collect();
        for early in late {
            self.inner.refuse_ask(early.ask, now);
        }
        for task in self.tasks.kept.expire(now) {
            self.let_go(task, now);
        }
    }

    pub(super) fn task_due(&self) -> Option<Instant> {
        self.tasks.early.iter().map(|early| early.until).chain(self.tasks.kept.due()).min()
    }

    /// A task is remembered no longer: nobody waits for it, or answers what it asks.
    fn let_go(&mut self, task: CoreTask, now: Instant) {
        for question in task.questions.into_values() {
            self.inner.refuse_ask(question.ask, now);
        }
        let why = Refusal::bad_params("the task is not remembered any more");
        for (call, _) in self.take_waiting(&task.id) {
            self.finish(call, why.clone(), now);
        }
        self.inner.drop_call(&InternalCall::TaskEnd(task.id), None, now);
    }

    /// Whether the tool of a call runs as a task, if that is known.
    pub(super) fn support(&self, request: &Message) -> Option<Support> {
        self.tasks.tools.as_ref()?.get(&*request.name().unwrap_or_default()).copied()
    }

    /// The task was made: its client gets it, or is kept until its end.
    pub(super) fn handle_created(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
        let may_have = self.calls.get(&number).is_some_and(|call| self.may_have(&call.request));
        let call = self.calls.get_mut(&number).filter(|call| call.as_task);
        let Some(call) = call else { return false };
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
            let wait = task_request(method::TASK_RESULT, &id);
            call.task = Some(id);
            self.send_for(number, &wait, now);
            self.ask_early_questions(now);
            return true;
        }
        let state = task_as_extension(&task, "working");
        let mut created = state.clone();
        created["resultType"] = "task".into();
        let capabilities = call.request.get(Member::MetaCapabilities).unwrap_or_default();
        let capabilities = Bytes::copy_from_slice(capabilities);
        let task = CoreTask::new(id.clone(), call.ticket.principal(), capabilities, state, now);
        let answer = answer.with_payload(created.to_string().as_bytes());
        let answer = self.newer_answer(&answer, method::CALL_TOOL);
        self.finish(number, answer, now);
        if let Some(gone) = self.tasks.kept.add(task, self.limits().tasks) {
            self.let_go(gone, now);
        }
        self.wait_for_end(&id, now);
        self.ask_early_questions(now);
        true
    }

    /// Has the server say what a task comes to; on the way it asks what the task needs.
    fn wait_for_end(&mut self, id: &str, now: Instant) {
        let Some(task) = self.tasks.kept.find(id) else { return };
        task.waited = true;
        let wait = InternalCall::TaskEnd(id.into());
        self.inner.open(wait.clone(), &task_request(method::TASK_RESULT, id), now);
        for question in task.questions.values() {
            self.inner.put_on(question.ask, &wait, now);
        }
    }

    /// Our own question what a task comes to is answered, or has failed.
    pub(super) fn handle_task_end(&mut self, id: &str, outcome: Outcome, now: Instant) {
        if let Some(task) = self.tasks.kept.find(id) {
            task.waited = false;
        }
        // What broke on the way says nothing of the task: it is asked again
        // when there is word of it.
        let end = match outcome {
            Outcome::Answered(end) => Ok(self.newer_end(&end)),
            Outcome::Failed(why) => Err(why),
        };
        if let Ok(end) = &end {
            self.keep_end(id, end, now);
        }
        for (call, state) in self.take_waiting(id) {
            match &end {
                Ok(end) => self.tell_task(call, state, Some(end), now),
                Err(why) => self.finish(call, why.clone(), now),
            }
        }
    }

    /// What a task came to, which is kept and shown as a message.
    fn newer_end(&self, end: &Message) -> Message {
        self.newer_answer(end, method::TASK_RESULT).into_message(Words::Full)
    }

    /// A task is over; what it came to.
    fn keep_end(&mut self, id: &str, end: &Message, now: Instant) {
        let Some(task) = self.tasks.kept.find(id).filter(|task| !task.ended) else { return };
        for ask in task.end_with(end) {
            self.inner.refuse_ask(ask, now);
        }
        let failed = end.kind() == Kind::Error;
        if !(failed && task.state["status"] == "cancelled") {
            task.state["status"] = if failed { "failed" } else { "completed" }.into();
            self.tell_change(id);
        }
        self.tasks.kept.trim();
    }

    /// A question of a task: it is answered by an update, if its client can (MRTR-4).
    pub(super) fn keep_question(&mut self, ask: Ask, request: &Message, now: Instant) -> bool {
        let Some(id) = request.string(Member::RelatedTaskId) else { return false };
        let params = project::modern_question(request.payload().unwrap_or(b"{}"));
        let has_room = self.tasks.kept.has_room(params.len());
        let Some(task) = self.tasks.kept.find(&id) else { return false };
        let may_ask = has_room && project::permits(&task.capabilities, request.method(), &params);
        if may_ask && task.ask(ask, request.method(), &params) {
            // The server waits with what it comes to.
            self.inner.put_on(ask, &InternalCall::TaskEnd(task.id.clone()), now);
            self.tell_change(&id);
        } else {
            self.inner.refuse_ask(ask, now);
        }
        true
    }

    /// The server does not need an answer of a task any more.
    pub(super) fn recall_question(&mut self, ask: Ask) {
        self.tasks.early.retain(|early| early.ask != ask);
        for task in &mut self.tasks.kept.all {
            task.questions.retain(|_, question| question.ask != ask);
        }
    }

    /// `tasks/get`, `tasks/update` and `tasks/cancel` of a client.
    pub(super) fn task_call(&mut self, ticket: T, request: &Message, now: Instant) {
        let updates = request.method() == method::UPDATE_TASK;
        let id = request.task_id().unwrap_or_default();
        let is_known = self.tasks.kept.find(&id).is_some();
        let is_theirs = self.has_task(&id, ticket.principal());
        if !declares_tasks(request) {
            let needed = json!({"extensions": {TASKS: {}}});
            self.to_client.finish(ticket, Refusal::NeedsMore { needed });
        } else if self.takes_tasks() == Some(false) || !self.offers_tasks() {
            self.to_client.finish(ticket, Refusal::unknown_method(request.method()));
        } else if is_known && !is_theirs || updates && !is_known {
            self.to_client.finish(ticket, Refusal::bad_params("there is no such task"));
        } else if updates {
            self.update_task(ticket, request, now);
        } else {
            self.call(ticket, request, now);
        }
    }

    fn update_task(&mut self, ticket: T, request: &Message, now: Instant) {
        let answers: Map<String, Value> = request.read(Member::InputResponses).unwrap_or_default();
        let id = request.task_id().unwrap_or_default();
        let Some(task) = self.tasks.kept.find(&id) else { return };
        for (key, answer) in answers.iter().filter(|(_, answer)| answer.is_object()) {
            if let Some(question) = task.questions.remove(key) {
                let answer = Message::result(&Id::from(0), answer.to_string().as_bytes());
                self.inner.supply(question.ask, &answer, now);
            }
        }
        if task.questions.is_empty() && task.state["status"] == "input_required" {
            task.state["status"] = "working".into();
        }
        let answer = Message::result(&Id::from(0), b"{}");
        self.to_client.finish(ticket, self.newer_answer(&answer, method::UPDATE_TASK));
    }
}

// Questions of tasks. Over HTTP a question may arrive before the answer that says which task
// it belongs to.

/// How long a question waits for its task.
const EARLY_WAIT: Duration = Duration::from_secs(5);

/// Questions that wait.
const MOST_EARLY: usize = 64;

/// A question that came before its task.
#[derive(Debug)]
struct EarlyQuestion {
    ask: Ask,
    request: Message,
    until: Instant,
}

impl<T: Ticket> ToLegacy<T> {
    /// The call that waits for the task that a question is about.
    pub(super) fn waits_for(&self, request: &Message) -> Option<u64> {
        let id = request.string(Member::RelatedTaskId)?;
        let mut calls = self.calls.iter();
        calls.find(|(_, call)| call.task.as_deref() == Some(&*id)).map(|(&number, _)| number)
    }

    /// Keeps a question of a task that is about to be known.
    pub(super) fn keep_early(&mut self, ask: Ask, request: &Message, now: Instant) -> bool {
        let begins = self.calls.values().any(|call| call.as_task && call.task.is_none());
        let is_early =
            request.string(Member::RelatedTaskId).is_some() && self.waits_for(request).is_none();
        if !(begins && is_early) || self.tasks.early.len() >= MOST_EARLY {
            return false;
        }
        let (request, until) = (request.clone(), now + EARLY_WAIT);
        self.tasks.early.push(EarlyQuestion { ask, request, until });
        true
    }

    /// A task is known: what it asked before that is asked now.
    pub(super) fn ask_early_questions(&mut self, now: Instant) {
        for early in std::mem::take(&mut self.tasks.early) {
            if self.waits_for(&early.request).is_some() {
                self.handle_ask(&To::Session, early.ask, &early.request, now);
            } else if !self.keep_question(early.ask, &early.request, now) {
                self.tasks.early.push(early);
            }
        }
    }
}

// Which tools may be tasks, and those that run as tasks only, called by clients that know no
// tasks (GW-59).

/// Whether a tool runs as a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Support {
    Never,
    May,
    Must,
}

impl Support {
    /// What the definition of a tool says.
    fn read(tool: Part<'_>) -> Self {
        let execution = tool.get(&["execution"]);
        match execution.and_then(|it| it.string("taskSupport")).as_deref() {
            Some("optional") => Self::May,
            Some("required") => Self::Must,
            _ => Self::Never,
        }
    }
}

impl<T: Ticket> ToLegacy<T> {
    /// Asks which tools may be tasks.
    pub(super) fn learn_tools(&mut self, now: Instant) {
        if self.tasks.listing.is_none() {
            self.tasks.listing = Some((1, BTreeMap::new()));
            self.inner.open(InternalCall::Tools, &page_of_tools(None), now);
        }
    }

    /// A page of tools: which of them may be tasks?
    pub(super) fn handle_tools(&mut self, page: Option<&Message>, now: Instant) {
        let Some((pages, mut listing)) = self.tasks.listing.take() else { return };
        for tool in page.into_iter().flat_map(|page| page.items(Member::Tools)) {
            let name = tool.string("name").unwrap_or_default();
            if name.len() <= MAX_ID {
                listing.insert(name.into(), Support::read(tool));
            }
        }
        match page.and_then(Message::next_cursor) {
            Some(cursor) if pages < MOST_PAGES => {
                self.tasks.listing = Some((pages + 1, listing));
                self.inner.open(InternalCall::Tools, &page_of_tools(Some(cursor)), now);
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

    /// A call that has failed because it was no task: it did not run, and is made again as one.
    pub(super) fn had_to_be_task(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
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
        if self.tasks.tools.is_some() {
            return self.support(&call.request) == Some(Support::Must)
                && self.try_as_task(number, now);
        }
        self.tasks.failed.push((number, answer.clone()));
        self.learn_tools(now);
        true
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
        self.send_for(number, &request, now);
        true
    }
}

// What clients are told when they ask how a task stands: what it came to is part of it, and
// with a legacy server another question.

impl<T: Ticket> ToLegacy<T> {
    /// The server says how a task stands, what it came to, or that it is
    /// cancelled. False if it is about no task.
    pub(super) fn handle_standing(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let id = call.request.task_id().unwrap_or_default().into_owned();
        let shown = call.shown.take();
        match (call.request.method(), shown) {
            // A task that is over cannot be cancelled, which is no error to a modern client.
            (method::CANCEL_TASK, _) => {
                match self.tasks.kept.find(&id) {
                    Some(task) if !task.ended => task.state["status"] = "cancelled".into(),
                    None if answer.kind() == Kind::Error => return false,
                    _ => {}
                }
                let answer = Message::result(&Id::from(0), b"{}");
                self.finish(number, self.newer_answer(&answer, method::UPDATE_TASK), now);
            }
            (method::GET_TASK, Some(state)) => {
                let end = self.newer_end(answer);
                self.tell_task(number, state, Some(&end), now);
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
        let Some(task) = self.tasks.kept.find(id) else {
            return match self.calls.get_mut(&number).filter(|_| is_over) {
                // It is not remembered here.
                Some(call) => {
                    call.shown = Some(state);
                    self.send_for(number, &task_request(method::TASK_RESULT, id), now);
                }
                None => self.tell_task(number, state, None, now),
            };
        };
        task.show(state);
        let state = task.state.clone();
        let end = task.end.clone();
        let waits = is_over && end.is_none();
        if !task.waited && (waits || task.is_unwatched()) {
            self.wait_for_end(id, now);
        }
        match self.calls.get_mut(&number).filter(|_| waits) {
            Some(call) => call.shown = Some(state),
            None => self.tell_task(number, state, end.as_ref(), now),
        }
    }

    /// Says how a task stands: with its end, or with what it asks.
    fn tell_task(&mut self, number: u64, state: Value, end: Option<&Message>, now: Instant) {
        let id = state["taskId"].as_str().unwrap_or_default();
        let asks = self.tasks.kept.find(id).map(|task| {
            task.told |= end.is_some();
            task.open_questions()
        });
        let state = describe_task(state, end, asks.unwrap_or_default());
        let answer = Message::result(&Id::from(0), state.to_string().as_bytes());
        self.finish(number, self.newer_answer(&answer, method::GET_TASK), now);
    }

    /// Calls that wait for what a task came to, and how it stands.
    fn take_waiting(&mut self, id: &str) -> Vec<(u64, Value)> {
        let is_it = |about: Option<Cow<'_, str>>| about.unwrap_or_default() == id;
        let about = self.calls.iter_mut().filter(|(_, call)| is_it(call.request.task_id()));
        about.filter_map(|(&number, call)| Some((number, call.shown.take()?))).collect()
    }
}

// Who may see a task, and who is told when it changes (TASK-7, TASK-8).

impl<T: Ticket> ToLegacy<T> {
    /// Whether somebody began this task by this connection, and it is remembered.
    pub(in crate::client) fn has_task(&self, id: &str, principal: &[u8]) -> bool {
        let mut kept = self.tasks.kept.all.iter();
        kept.any(|task| *task.id == *id && *task.principal == *principal)
    }

    /// The server says how a task stands, unasked. What it comes to and what it
    /// asks is known a moment later, and told then.
    pub(super) fn handle_status(&mut self, message: &Message, now: Instant) {
        let state = message.payload_value().unwrap_or_default();
        let id = state["taskId"].as_str().unwrap_or_default();
        let Some(task) = self.tasks.kept.find(id) else { return };
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
            self.tell_change(id);
        }
        if is_unwatched {
            self.wait_for_end(id, now);
        }
    }

    /// Tells who listens how a task stands.
    fn tell_change(&mut self, id: &str) {
        let Some(task) = self.tasks.kept.find(id) else { return };
        let asks = task.open_questions();
        let params = describe_task(task.state.clone(), task.end.as_ref(), asks).to_string();
        let message = Message::notification(method::TASK_CHANGED, Some(params.as_bytes()));
        let is_heard = self.tell_listens(&message);
        if let Some(task) = self.tasks.kept.find(id) {
            task.told |= is_heard && task.ended;
        }
    }
}

/// How a task stands, with its end, or with what it asks.
fn describe_task(mut state: Value, end: Option<&Message>, asks: Map<String, Value>) -> Value {
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
        ("input_required", ..) => state["inputRequests"] = asks.into(),
        _ => {}
    }
    state
}
