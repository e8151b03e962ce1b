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
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::{Errand, ToLegacy};
use crate::client::across::{TASKS as EXTENSION, member, take_off};
use crate::client::{CallId, Ticket};
use crate::exchange::{Ask, Down};
use crate::jsonrpc::{Id, Kind, Message};
use crate::method;
use crate::patch;
use crate::project;
use crate::refusal::Refusal;
use early::{Early, related};
use must::Support;
use shape::{declares, flat, full};

mod early;
mod must;
mod shape;
mod told;

/// Tasks that are remembered for their questions and their ends; the oldest goes first.
const MOST_TASKS: usize = 1024;

/// Pages of tools that are looked through for those that may be tasks.
const MOST_PAGES: usize = 32;

/// What is known of the server's tasks.
#[derive(Debug)]
pub(super) struct Tasks<T> {
    /// Which tools may be one; none until they were listed.
    tools: Option<BTreeMap<Box<str>, Support>>,
    listing: Option<BTreeMap<Box<str>, Support>>,
    pages: usize,
    /// Calls that wait for that.
    held: Vec<u64>,
    /// Calls that have failed, and wait for that to know whether they had to be tasks.
    failed: Vec<(u64, Message)>,
    /// By their number, oldest first.
    all: BTreeMap<u64, Task<T>>,
    /// Questions of tasks that are not known yet.
    early: Vec<Early>,
}

#[derive(Debug)]
struct Task<T> {
    id: Box<str>,
    principal: Box<[u8]>,
    /// As a modern client is shown it, without what it came to or asks.
    state: Value,
    /// What it came to.
    end: Option<Message>,
    questions: BTreeMap<String, (Ask, Value)>,
    next_key: u32,
    /// Who asked how it stands when it was over, but its end had not come; and what it was told.
    waiting: Vec<(T, Value)>,
}

impl<T> Task<T> {
    fn open_questions(&self) -> Map<String, Value> {
        let open = self.questions.iter();
        open.map(|(key, (_, question))| (key.clone(), question.clone())).collect()
    }
}

impl<T> Default for Tasks<T> {
    fn default() -> Self {
        let (tools, listing, pages) = (None, None, 0);
        let (held, failed, early) = (Vec::new(), Vec::new(), Vec::new());
        Self { tools, listing, pages, held, failed, all: BTreeMap::new(), early }
    }
}

impl<T: Ticket> ToLegacy<T> {
    /// Whether the server can make tasks of calls; none if it has not been greeted.
    pub(super) fn takes_tasks(&self) -> Option<bool> {
        let path = ["capabilities", "tasks", "requests", "tools", "call"];
        self.inner.welcome().map(|welcome| patch::get(welcome, &path).is_some())
    }

    /// Whether a call must wait until it is known which tools may be tasks.
    pub(super) fn holds_for_tools(&mut self, number: u64, now: Instant) -> bool {
        let Some(call) = self.calls.get(&number) else { return false };
        let may_be = call.request.method() == method::CALL_TOOL && declares(&call.request);
        if !may_be || self.tasks.tools.is_some() || self.takes_tasks() == Some(false) {
            return false;
        }
        self.tasks.held.push(number);
        self.learn_tools(now);
        true
    }

    fn learn_tools(&mut self, now: Instant) {
        if self.tasks.listing.is_none() {
            self.tasks.listing = Some(BTreeMap::new());
            self.tasks.pages = 0;
            self.list_tools(None, now);
        }
    }

    fn list_tools(&mut self, cursor: Option<&[u8]>, now: Instant) {
        self.tasks.pages += 1;
        let params = match cursor {
            Some(cursor) => [b"{\"cursor\":", cursor, b"}"].concat(),
            None => b"{}".to_vec(),
        };
        let request = Message::request(&0.into(), method::LIST_TOOLS, Some(&params));
        self.inner.open(Errand::Tools, &request, now);
    }

    /// A page of tools: which of them may be tasks?
    pub(super) fn handle_tools(&mut self, answer: &Message, now: Instant) {
        let result = answer.payload().filter(|_| answer.kind() == Kind::Result);
        let result = result.unwrap_or_default();
        let Some(mut listing) = self.tasks.listing.take() else { return };
        let tools = member(result, &["tools"]).unwrap_or_default();
        for tool in tools.as_array().into_iter().flatten() {
            listing.insert(tool["name"].as_str().unwrap_or_default().into(), Support::of(tool));
        }
        match patch::get(result, &["nextCursor"]).filter(|it| it.starts_with(b"\"")) {
            Some(cursor) if self.tasks.pages < MOST_PAGES => {
                let cursor = cursor.to_vec();
                self.tasks.listing = Some(listing);
                self.list_tools(Some(&cursor), now);
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

    /// The tools may be others: they are listed again when it matters.
    pub(super) fn forget_tools(&mut self) {
        self.tasks.tools = None;
    }

    /// The server is gone, and its tasks with it. What waits for them fails with the calls.
    pub(super) fn lose_tasks(&mut self) {
        let gone = std::mem::take(&mut self.tasks);
        let why = Refusal::FarSide { text: "the server is gone, and the task with it".to_owned() };
        for (ticket, _) in gone.all.into_values().flat_map(|task| task.waiting) {
            self.refuse(ticket, &why);
        }
    }

    /// The request of a call as it goes to the server.
    pub(super) fn request_of(&mut self, number: u64) -> Option<Message> {
        let takes_tasks = self.takes_tasks() == Some(true);
        let call = self.calls.get_mut(&number)?;
        let request = take_off(&call.request);
        let params = request.payload().unwrap_or(b"{}");
        let name = patch::string(params, &["name"]).unwrap_or_default();
        let tools = self.tasks.tools.as_ref();
        let may_be = tools.and_then(|tools| tools.get(&*name)).is_some_and(|it| it.may_be());
        let is_call = call.request.method() == method::CALL_TOOL;
        if !(takes_tasks && may_be && is_call && declares(&call.request)) {
            return Some(request);
        }
        call.as_task = true;
        let params = patch::put(params, &[], "task", b"{}");
        Some(params.map_or_else(|| request.clone(), |params| request.with_payload(&params)))
    }

    /// The task was made: its client gets it, or is kept until its end.
    pub(super) fn handle_created(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.as_task) else {
            return false;
        };
        let payload = answer.payload().filter(|_| answer.kind() == Kind::Result);
        let Some(task) = payload.and_then(|result| member(result, &["task"])) else { return false };
        let Some(id) = task["taskId"].as_str().map(Box::<str>::from) else { return false };
        let params = json!({ "taskId": id }).to_string();
        let wait = Message::request(&0.into(), method::TASK_RESULT, Some(params.as_bytes()));
        if !declares(&call.request) {
            let errand = Errand::Call { number, ticket: call.ticket.clone() };
            call.inner = self.inner.open(errand, &wait, now);
            call.task = Some(id);
            self.settle_early(now);
            return true;
        }
        let state = flat(&task, "working");
        let mut created = state.clone();
        created["resultType"] = "task".into();
        let principal = call.ticket.principal().into();
        let answer = answer.with_payload(created.to_string().as_bytes());
        let answer = self.newer_answer(&answer, method::CALL_TOOL);
        self.finish(number, answer);
        while self.tasks.all.len() >= MOST_TASKS {
            self.tasks.all.pop_first();
        }
        let (questions, next_key, waiting) = (BTreeMap::new(), 0, Vec::new());
        let task = Task { id, principal, state, end: None, questions, next_key, waiting };
        self.tasks.all.insert(number, task);
        self.inner.open(Errand::TaskEnd(number), &wait, now);
        self.settle_early(now);
        true
    }

    /// A task is over; what it came to.
    pub(super) fn handle_task_end(&mut self, number: u64, answer: &Message) {
        let answer = self.newer_answer(answer, method::TASK_RESULT);
        let Some(task) = self.tasks.all.get_mut(&number) else { return };
        task.end = Some(answer.clone());
        task.questions.clear();
        self.tell_end(number);
        let Some(task) = self.tasks.all.get_mut(&number) else { return };
        for (ticket, state) in std::mem::take(&mut task.waiting) {
            self.tell_task(ticket, state, Some(&answer), None);
        }
    }

    /// A question of a task: it is answered by an update.
    pub(super) fn keep_question(&mut self, ask: Ask, request: &Message) -> bool {
        let Some(id) = related(request) else { return false };
        let params = request.payload().unwrap_or(b"{}");
        let mut all = self.tasks.all.iter_mut();
        let Some((&number, task)) = all.find(|(_, task)| *task.id == *id) else {
            return false;
        };
        task.next_key += 1;
        let params = project::modern_question(params);
        let params: Value = serde_json::from_slice(&params).unwrap_or_default();
        let question = json!({"method": request.method(), "params": params});
        task.questions.insert(format!("q{}", task.next_key), (ask, question));
        task.state["status"] = "input_required".into();
        self.tell_change(number);
        true
    }

    /// The server does not need an answer of a task any more.
    pub(super) fn recall_question(&mut self, ask: Ask) {
        self.tasks.early.retain(|early| early.ask != ask);
        for task in self.tasks.all.values_mut() {
            task.questions.retain(|_, (asked, _)| *asked != ask);
        }
    }

    /// `tasks/get`, `tasks/update` and `tasks/cancel` of a client.
    pub(super) fn task_call(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        if !declares(request) {
            let needed = json!({"extensions": {EXTENSION: {}}});
            return self.refuse(ticket, &Refusal::NeedsMore { needed });
        }
        if self.takes_tasks() == Some(false) {
            let method = request.method().to_owned();
            return self.refuse(ticket, &Refusal::UnknownMethod { method });
        }
        let id = request.payload().and_then(|it| patch::string(it, &["taskId"]));
        if self.is_of_another(&id.unwrap_or_default(), &ticket) {
            let what = "there is no such task".to_owned();
            return self.refuse(ticket, &Refusal::BadParams { what });
        }
        if request.method() == method::UPDATE_TASK {
            return self.update_task(ticket, request, now);
        }
        self.call(ticket, request, now)
    }

    fn find_task(&mut self, request: &Message) -> Option<&mut Task<T>> {
        let id = patch::string(request.payload()?, &["taskId"])?.into_owned();
        self.tasks.all.values_mut().find(|task| *task.id == *id)
    }

    fn update_task(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        let answers = request.payload().and_then(|it| member(it, &["inputResponses"]));
        let answers = answers.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let Some(task) = self.find_task(request) else {
            let what = "there is no such task".to_owned();
            return self.refuse(ticket, &Refusal::BadParams { what });
        };
        task.state["status"] = "working".into();
        let given = answers.iter().filter(|(_, answer)| answer.is_object());
        let given = given.filter_map(|(key, answer)| Some((task.questions.remove(key)?.0, answer)));
        for (ask, answer) in given.collect::<Vec<_>>() {
            let answer = Message::result(&Id::from(0), answer.to_string().as_bytes());
            self.inner.supply(ask, &answer);
        }
        self.acknowledge_task(ticket);
        self.settle(now);
        CallId::DONE
    }

    fn acknowledge_task(&mut self, to: T) {
        let answer = Message::result(&Id::from(0), b"{}");
        let answer = self.newer_answer(&answer, method::UPDATE_TASK);
        self.down.push_back(Down::Finish { to, answer });
    }

    /// The server says how a task stands, or that it is cancelled. False if it is about no task.
    pub(super) fn handle_task_answer(&mut self, number: u64, answer: &Message) -> bool {
        let Some(call) = self.calls.get(&number) else { return false };
        let (ticket, request) = (call.ticket.clone(), call.request.clone());
        let known = self.find_task(&request).is_some();
        match request.method() {
            // A task that is over cannot be cancelled, which is no error to a modern client.
            method::CANCEL_TASK if known || answer.kind() == Kind::Result => {
                self.calls.remove(&number);
                self.acknowledge_task(ticket);
                self.handle_cancelled(&request);
                true
            }
            method::GET_TASK if answer.kind() == Kind::Result => {
                self.calls.remove(&number);
                self.handle_task_state(ticket, &request, answer.payload().unwrap_or_default());
                true
            }
            _ => false,
        }
    }

    fn handle_task_state(&mut self, ticket: T, request: &Message, state: &[u8]) {
        let state: Value = serde_json::from_slice(state).unwrap_or_default();
        let status = state["status"].as_str().unwrap_or("working").to_owned();
        let state = flat(&state, &status);
        let Some(task) = self.find_task(request) else {
            return self.tell_task(ticket, state, None, None);
        };
        task.state = state.clone();
        let questions = task.open_questions();
        let end = task.end.clone();
        if matches!(status.as_str(), "completed" | "failed") && end.is_none() {
            task.waiting.push((ticket, state));
            return;
        }
        self.tell_task(ticket, state, end.as_ref(), Some(questions));
    }

    /// Says how a task stands: with its end, or with what it asks.
    fn tell_task(
        &mut self,
        to: T,
        state: Value,
        end: Option<&Message>,
        questions: Option<Map<String, Value>>,
    ) {
        let state = full(state, end, questions);
        let answer = Message::result(&Id::from(0), state.to_string().as_bytes());
        let answer = self.newer_answer(&answer, method::GET_TASK);
        self.down.push_back(Down::Finish { to, answer });
    }
}
