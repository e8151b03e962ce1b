//! Tasks: the core of one legacy revision, at a server that has them as an extension (9.4).
//!
//! ```text
//!   tools/call with `task` ─▶ the call, extension declared ─▶ a task, in its client's words
//!                                  └▶ its result at once: a task that is over, kept here
//!   tasks/get, tasks/cancel ─▶ asked of the server
//!   tasks/result ─▶ tasks/get until it is over; what it asks is asked of the client
//!   tasks/list ───▶ what this client has begun
//! ```
//!
//! A tool that runs as a task only is waited for, if its client wants no task.
//! A task is seen by the client that began it, and by no other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{LegacyClientCall, ToModern, entries};
use crate::client::tasks::{TaskTerm, new_task_id, task_as_core, task_goes_on, task_request};
use crate::client::{InternalCall, Sharing, Ticket};
use crate::exchange::To;
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, ItemAction, Kind, Member, Message};
use crate::method;
use crate::moment;
use crate::project::TASKS;
use crate::refusal::{Refusal, code};

/// What the results that are kept here may take; the oldest goes first.
const MOST_BYTES: usize = 16 << 20;

/// The tasks of the clients.
#[derive(Debug, Default)]
pub(super) struct ExtensionTasks {
    /// Oldest first.
    all: Vec<ExtensionTask>,
    clock: Option<(Instant, SystemTime)>,
}

#[derive(Debug)]
pub(super) struct ExtensionTask {
    owner: u64,
    id: Box<str>,
    /// What it is a call of.
    pub(super) tool: Box<str>,
    /// As its client is shown it.
    shown: Value,
    /// What it came to, if the server made no task of it.
    end: Option<Bytes>,
    term: TaskTerm,
}

impl ExtensionTask {
    /// That which a call has become.
    fn begin<T: Ticket>(call: &LegacyClientCall<T>, id: &str, shown: Value, now: Instant) -> Self {
        let tool = call.request.name().unwrap_or_default().into();
        let (owner, term) = (call.ticket.owner(), TaskTerm::begin(&shown, now));
        Self { owner, id: id.into(), tool, shown, end: None, term }
    }

    /// The server says how it stands.
    fn show(&mut self, shown: Value) {
        self.term.renew(&shown);
        self.shown = shown;
    }
}

/// What a call has to do with tasks.
#[derive(Debug)]
pub(super) enum Tasking {
    Nothing,
    /// Its client wants one.
    Wanted,
    /// Its client wants none, but the server makes one or nothing.
    Needed,
    /// The answer shows one.
    Show,
    /// The same, after it was cancelled.
    Cancel,
    /// It lasts as long as a task.
    Wait(TaskWait),
}

impl Tasking {
    /// Whether the server is told that a task will do.
    pub(super) fn declares(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        if let Self::Wait(wait) = self { wait.due } else { None }
    }
}

impl ExtensionTasks {
    pub(super) fn find(&mut self, owner: u64, id: &str) -> Option<&mut ExtensionTask> {
        self.all.iter_mut().find(|task| task.owner == owner && *task.id == *id)
    }

    fn add(&mut self, task: ExtensionTask, most: usize) {
        self.all.push(task);
        let bytes = |tasks: &[ExtensionTask]| -> usize {
            tasks.iter().filter_map(|task| task.end.as_ref()).map(Bytes::len).sum()
        };
        while self.all.len() > most || bytes(&self.all) > MOST_BYTES && self.all.len() > 1 {
            self.all.remove(0);
        }
    }

    /// A client is gone, and with it the only one who could ask for its tasks.
    pub(super) fn forget(&mut self, owner: u64) {
        self.all.retain(|task| task.owner != owner);
    }

    /// The server is gone, and its tasks with it.
    pub(super) fn lose(&mut self) {
        self.all.retain(|task| task.end.is_some());
    }

    /// Forgets those that the server does not remember any longer either.
    pub(super) fn expire(&mut self, now: Instant) {
        self.all.retain(|task| task.term.over.is_none_or(|over| now < over));
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.all.iter().filter_map(|task| task.term.over).min()
    }

    /// Whether the connection must live on for a task that goes on at the server.
    pub(super) fn holds(&self, now: Instant, most: Duration) -> bool {
        let holds = |task: &ExtensionTask| task_goes_on(&task.shown) && task.term.holds(now, most);
        self.all.iter().any(holds)
    }

    fn date(&self, now: Instant) -> String {
        let date = self.clock.map(|(then, date)| date + now.saturating_duration_since(then));
        moment::text(date.unwrap_or(UNIX_EPOCH))
    }
}

impl<T: Ticket> ToModern<T> {
    /// Says what time it is, for tasks have dates.
    #[must_use]
    pub fn knowing_time(mut self, now: Instant, date: SystemTime) -> Self {
        self.tasks.clock = Some((now, date));
        self
    }

    /// Whether this client knows tasks, and the server has them.
    pub(super) fn offers_tasks(&self, ticket: &T) -> bool {
        let path = ["extensions", TASKS];
        let declared = self.discovered.as_ref().and_then(|it| it.capability(&path));
        declared.is_some() && self.limits().tasks > 0 && self.revision_of(ticket).rules().core_tasks
    }

    /// A client asks about a task.
    pub(super) fn task_call(&mut self, ticket: T, request: &Message, now: Instant) {
        if !self.offers_tasks(&ticket) {
            return self.to_client.finish(ticket, Refusal::unknown_method(request.method()));
        }
        let owner = ticket.owner();
        if request.method() == method::LIST_TASKS {
            let theirs = self.tasks.all.iter().filter(|task| task.owner == owner);
            let theirs: Vec<&Value> = theirs.map(|task| &task.shown).collect();
            let result = json!({ "tasks": theirs }).to_string();
            return self.answer(ticket, result.as_bytes());
        }
        let id = request.task_id().unwrap_or_default();
        let Some(task) = self.tasks.find(owner, &id) else {
            let why = Refusal::bad_params(format!("Task not found: {id}"));
            return self.to_client.finish(ticket, why);
        };
        if let Some(end) = task.end.clone() {
            let shown = task.shown.to_string();
            return match request.method() {
                method::GET_TASK => self.answer(ticket, shown.as_bytes()),
                method::TASK_RESULT => self.answer(ticket, &end),
                _ => self.to_client.finish(ticket, over()),
            };
        }
        let tasking = match request.method() {
            method::GET_TASK => Tasking::Show,
            method::CANCEL_TASK => Tasking::Cancel,
            _ => Tasking::Wait(TaskWait::new(&id, false, None)),
        };
        self.call(ticket, request, tasking, now);
    }

    /// The tool runs as a task only, and its client asked for none (GW-27).
    pub(super) fn try_as_task(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
        let path = ["requiredCapabilities", "extensions", TASKS];
        let needs = answer.error_code() == Some(code::MISSING_CAPABILITY)
            && answer.inside(Member::Data, &path).is_some();
        let call = self.calls.get_mut(&number).filter(|call| !call.tasking.declares());
        let Some(call) = call.filter(|call| needs && call.request.method() == method::CALL_TOOL)
        else {
            return false;
        };
        call.tasking = Tasking::Needed;
        self.begin(number, None, now);
        true
    }

    /// The server made a task of a call: its client gets it, or is kept until its end.
    pub(super) fn handle_created(&mut self, number: u64, answer: &Message, now: Instant) {
        let state = answer.payload_value().unwrap_or_default();
        let Some(call) = self.calls.get_mut(&number) else { return };
        let id = match new_task_id(&state) {
            Ok(id) => id,
            Err(why) => return self.finish(number, why),
        };
        if !matches!(call.tasking, Tasking::Wanted) {
            call.tasking = Tasking::Wait(TaskWait::new(id, true, Some(now + pace(&state))));
            return;
        }
        let shown = task_as_core(&state);
        let result = json!({"task": shown}).to_string();
        let task = ExtensionTask::begin(call, id, shown, now);
        self.tasks.add(task, self.limits().tasks);
        self.finish(number, Message::result(&Id::from(0), result.as_bytes()));
        self.listen_anew(now);
    }

    /// What was to be a task is over at once: it is kept until its client asks for it.
    pub(super) fn keep_end(&mut self, number: u64, answer: &Message, now: Instant) {
        let Some(call) = self.calls.get(&number) else { return };
        let ttl = call.request.value(Member::TaskTtl);
        let (id, date) = (format!("switchboard-{number}"), self.tasks.date(now));
        let shown = json!({
            "taskId": id,
            "status": if answer.is_tool_error() { "failed" } else { "completed" },
            "createdAt": date,
            "lastUpdatedAt": date,
            "ttl": ttl.filter(Value::is_u64).unwrap_or_default(),
        });
        let end = Some(related(answer, &id).payload_bytes());
        let created = json!({"task": shown}).to_string();
        let task = ExtensionTask { end, ..ExtensionTask::begin(call, &id, shown, now) };
        self.tasks.add(task, self.limits().tasks);
        self.finish(number, Message::result(&Id::from(0), created.as_bytes()));
    }

    /// The server says how a task stands. False if that is not what the call is about.
    pub(super) fn handle_standing(&mut self, number: u64, answer: &Message, now: Instant) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let failed = answer.kind() == Kind::Error;
        let id = call.request.task_id().unwrap_or_default().into_owned();
        match &call.tasking {
            Tasking::Show | Tasking::Cancel | Tasking::Wait(_) if failed => return false,
            Tasking::Show => self.show(number, &id, answer),
            Tasking::Cancel => {
                call.tasking = Tasking::Show;
                self.begin(number, Some(&task_request(method::GET_TASK, &id)), now);
            }
            Tasking::Wait(_) => self.handle_polled(number, answer, now),
            Tasking::Nothing | Tasking::Wanted | Tasking::Needed => return false,
        }
        true
    }

    fn show(&mut self, number: u64, id: &str, state: &Message) {
        let Some(call) = self.calls.get(&number) else { return };
        let shown = task_as_core(&state.payload_value().unwrap_or_default());
        let ended = matches!(shown["status"].as_str(), Some("completed" | "failed"));
        let cancels = call.request.method() == method::CANCEL_TASK;
        let outcome: Outcome = if cancels && ended {
            over().into()
        } else {
            Message::result(&Id::from(0), shown.to_string().as_bytes()).into()
        };
        if let Some(task) = self.tasks.find(call.ticket.owner(), id) {
            task.show(shown);
        }
        self.finish(number, outcome);
    }

    /// The tasks that a client may be told about: what belongs to no call is
    /// told to all who share a connection.
    pub(super) fn tasks_to_hear_of(&self) -> Vec<&str> {
        let alone = self.inner.ledger.sharing == Sharing::Alone;
        let theirs = self.tasks.all.iter().filter(|task| alone && task_goes_on(&task.shown));
        theirs.map(|task| &*task.id).collect()
    }

    /// A task has changed.
    pub(super) fn handle_task_note(&mut self, message: &Message, now: Instant) {
        let state = message.payload_value().unwrap_or_default();
        let id = state["taskId"].as_str().unwrap_or_default();
        let shown = task_as_core(&state);
        let Some(task) = self.tasks.all.iter_mut().find(|task| *task.id == *id) else { return };
        task.show(shown.clone());
        let params = shown.to_string();
        let message = Message::notification(method::TASK_STATUS, Some(params.as_bytes()));
        self.to_client.note(To::Session, message);
        for call in self.calls.values_mut() {
            if let Tasking::Wait(wait) = &mut call.tasking
                && *wait.id == *id
            {
                wait.due = wait.due.map(|due| due.min(now));
            }
        }
        self.poll_tasks(now);
    }
}

fn over() -> Refusal {
    Refusal::bad_params("the task is over")
}

/// The message, saying which task it is about (UTL-9).
fn related(message: &Message, id: &str) -> Message {
    message.with(Member::MetaRelatedTask, json!({ "taskId": id }).to_string())
}

/// A list of tools, each of which may be called as a task.
pub(super) fn may_be_tasks(answer: &Message) -> Message {
    answer.with_list(Member::Tools, |tool| match tool.get(&["execution"]) {
        Some(_) => ItemAction::Keep,
        None => tool.with("execution", br#"{"taskSupport":"optional"}"#).into(),
    })
}

// Waiting for a task, and asking its client what it needs.

/// How often a server is asked how a task stands, if it says nothing or too much.
const POLL: Duration = Duration::from_millis(500);
const POLLS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Waiting for a task.
#[derive(Debug)]
pub(super) struct TaskWait {
    pub(super) id: Box<str>,
    /// When to ask how it stands; none while that is being asked.
    pub(super) due: Option<Instant>,
    /// Keys that have been asked about: each is asked once (TASK-5).
    seen: BTreeSet<String>,
    /// Its client does not know that it is a task.
    hidden: bool,
}

impl TaskWait {
    fn new(id: &str, hidden: bool, due: Option<Instant>) -> Self {
        Self { id: id.into(), due, seen: BTreeSet::new(), hidden }
    }

    /// A message as its client gets it: who knows of the task is told that it is about that.
    fn shown(&self, message: Message) -> Message {
        if self.hidden { message } else { related(&message, &self.id) }
    }
}

impl<T: Ticket> ToModern<T> {
    /// The server says how a task stands that somebody waits for.
    pub(super) fn handle_polled(&mut self, number: u64, state: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let Tasking::Wait(wait) = &mut call.tasking else { return };
        let said = || state.payload_value().unwrap_or_default();
        if let Some(task) = self.tasks.find(call.ticket.owner(), &wait.id) {
            task.show(task_as_core(&said()));
        }
        let status = state.string(Member::Status).unwrap_or_default();
        let answer = match &*status {
            "completed" => {
                let result = state.get(Member::EndResult).unwrap_or(b"{}");
                wait.shown(Message::result(&Id::from(0), result))
            }
            "failed" => match state.value(Member::EndError).filter(Value::is_object) {
                Some(error) => Message::error(None, &error),
                None => return self.finish(number, Failure::TaskFailed),
            },
            "cancelled" => {
                return self.finish(number, Refusal::bad_params("the task was cancelled"));
            }
            _ => {
                wait.due = Some(now + pace(&said()));
                return self.ask_for_task(number, state, now);
            }
        };
        self.finish_tool(number, &answer, now);
    }

    /// What a task asks that its client has not been asked yet.
    fn ask_for_task(&mut self, number: u64, state: &Message, now: Instant) {
        let Some(call) = self.calls.get(&number) else { return };
        let Tasking::Wait(wait) = &call.tasking else { return };
        let mut entries = entries(state);
        entries.retain(|entry| !wait.seen.contains(&entry.key));
        if !self.may_ask(entries.len()) {
            return;
        }
        let requests = match self.in_older_words(number, &entries) {
            Ok(requests) => requests.into_iter().map(|request| wait.shown(request)).collect(),
            Err(needed) => {
                if wait.hidden {
                    let (to, id) = (call.ticket.clone(), wait.id.clone());
                    self.tell_aside(&to, &task_request(method::CANCEL_TASK, &id), now);
                }
                return self.fail(number, &format!("the task needs {needed}"));
            }
        };
        if let Some(Tasking::Wait(wait)) = self.calls.get_mut(&number).map(|it| &mut it.tasking) {
            wait.seen.extend(entries.iter().map(|entry| entry.key.clone()));
        }
        self.ask_entries(number, entries, requests);
    }

    /// Says something about the task of a call; nobody waits for the answer.
    pub(super) fn tell_aside(&mut self, of: &T, request: &Message, now: Instant) {
        let request = self.envelope_of(of).taking_tasks(true).put_on(request);
        self.inner.open(InternalCall::Aside, &request, &None, now);
    }

    /// Nobody waits for a call any more: its task is not wanted, if its client knows of none.
    pub(super) fn leave_task(&mut self, call: &LegacyClientCall<T>, now: Instant) {
        if let Tasking::Wait(TaskWait { hidden: true, id, .. }) = &call.tasking {
            self.tell_aside(&call.ticket, &task_request(method::CANCEL_TASK, id), now);
        }
    }

    /// Asks how the tasks stand that somebody waits for.
    pub(super) fn poll_tasks(&mut self, now: Instant) {
        let due =
            self.calls.iter().filter(|(_, call)| call.tasking.due().is_some_and(|it| it <= now));
        for number in due.map(|(&number, _)| number).collect::<Vec<_>>() {
            let Some(call) = self.calls.get_mut(&number) else { continue };
            let Tasking::Wait(wait) = &mut call.tasking else { continue };
            wait.due = None;
            self.begin(number, None, now);
        }
    }
}

/// How long to wait before asking again.
pub(super) fn pace(state: &Value) -> Duration {
    let asked = state["pollIntervalMs"].as_u64().map(Duration::from_millis);
    asked.unwrap_or(POLL).clamp(POLLS.0, POLLS.1)
}
