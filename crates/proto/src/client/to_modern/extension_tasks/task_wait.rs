//! Waiting for a task, and asking its client what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Tasking, related};
use crate::client::across::quoted;
use crate::client::across::{task_as_core, task_request};
use crate::client::to_modern::input_rounds::entries;
use crate::client::to_modern::{LegacyClientCall, ToModern};
use crate::client::{InternalCall, Ticket};
use crate::exchange::{Ask, ServerEvent, To};
use crate::failure::Failure;
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::method;
use crate::refusal::Refusal;

/// How often a server is asked how a task stands, if it says nothing or too much.
const POLL: Duration = Duration::from_millis(500);
const POLLS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Waiting for a task.
#[derive(Debug)]
pub(in crate::client::to_modern) struct Wait {
    pub(super) id: Box<str>,
    /// When to ask how it stands; none while that is being asked.
    pub(super) due: Option<Instant>,
    /// What the client is being asked on its behalf: the key and the kind.
    pub(super) asked: BTreeMap<Ask, (String, String)>,
    /// Keys that have been asked about: each is asked once (TASK-5).
    seen: BTreeSet<String>,
    /// Its client does not know that it is a task.
    hidden: bool,
}

impl Wait {
    pub(super) fn new(id: &str, hidden: bool) -> Self {
        let (asked, seen) = (BTreeMap::new(), BTreeSet::new());
        Self { id: id.into(), due: None, asked, seen, hidden }
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
                let what = "the task was cancelled".to_owned();
                return self.finish(number, Refusal::BadParams { what });
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
        if self.asks.len() + entries.len() > self.most_asks {
            return;
        }
        let Some(params) = self.in_older_words(number, &entries) else {
            let kinds: Vec<_> = entries.iter().map(|entry| entry.method.as_str()).collect();
            let kinds = kinds.join(", ");
            let what = format!("the task needs {kinds}, which this client cannot answer");
            if wait.hidden {
                let (to, id) = (call.ticket.clone(), wait.id.clone());
                self.tell_aside(&to, &task_request(method::CANCEL_TASK, &id), now);
            }
            return self.fail(number, &what);
        };
        let Some(call) = self.calls.get_mut(&number) else { return };
        let Tasking::Wait(wait) = &mut call.tasking else { return };
        for (entry, params) in entries.into_iter().zip(params) {
            let ask = Ask(self.next_ask);
            self.next_ask += 1;
            self.asks.insert(ask, number);
            let id = Id::Text(entry.key.as_str().into());
            let request = wait.shown(Message::request(&id, &entry.method, Some(&params)));
            wait.seen.insert(entry.key.clone());
            wait.asked.insert(ask, (entry.key, entry.method));
            let to = To::Call(call.ticket.clone());
            self.down.push_back(ServerEvent::Ask { to, ask, request });
        }
    }

    /// A client answers what a task asked. False if it was no task that asked.
    pub(in crate::client::to_modern) fn update_task(
        &mut self,
        number: u64,
        ask: Ask,
        answer: &Message,
        now: Instant,
    ) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let Tasking::Wait(wait) = &mut call.tasking else { return false };
        let Some((key, kind)) = wait.asked.remove(&ask) else { return false };
        let payload = answer.payload().unwrap_or(b"{}");
        let answer = match (answer.kind(), kind.as_str()) {
            (Kind::Result, _) => payload,
            (_, method::ELICIT) => br#"{"action":"cancel"}"#,
            _ => {
                let why = answer.error_message();
                let what = format!("the client did not answer {kind}: {why}");
                self.fail(number, &what);
                return true;
            }
        };
        wait.due = Some(now);
        let (to, id) = (call.ticket.clone(), wait.id.clone());
        let answers = [b"{", quoted(&key).as_bytes(), b":", answer, b"}"].concat();
        let update = task_request(method::UPDATE_TASK, &id).with(Member::InputResponses, answers);
        self.tell_aside(&to, &update, now);
        true
    }

    /// Says something about the task of a call; nobody waits for the answer.
    fn tell_aside(&mut self, of: &T, request: &Message, now: Instant) {
        let request = self.envelope_of(of).taking_tasks(true).put_on(request);
        self.inner.open(InternalCall::Aside, &request, &None, now);
    }

    /// Nobody waits for a call any more: its task is not wanted, if its client knows of none.
    pub(in crate::client::to_modern) fn leave_task(
        &mut self,
        call: &LegacyClientCall<T>,
        now: Instant,
    ) {
        if let Tasking::Wait(Wait { hidden: true, id, .. }) = &call.tasking {
            self.tell_aside(&call.ticket, &task_request(method::CANCEL_TASK, id), now);
        }
    }

    /// Asks how the tasks stand that somebody waits for.
    pub(in crate::client::to_modern) fn poll_tasks(&mut self, now: Instant) {
        let due =
            self.calls.iter().filter(|(_, call)| call.tasking.due().is_some_and(|it| it <= now));
        for number in due.map(|(&number, _)| number).collect::<Vec<_>>() {
            let Some(call) = self.calls.get_mut(&number) else { continue };
            let Tasking::Wait(wait) = &mut call.tasking else { continue };
            wait.due = None;
            let ask = task_request(method::GET_TASK, &wait.id);
            self.begin(number, Some(&ask), now);
        }
    }
}

/// How long to wait before asking again.
pub(super) fn pace(state: &Value) -> Duration {
    let asked = state["pollIntervalMs"].as_u64().map(Duration::from_millis);
    asked.unwrap_or(POLL).clamp(POLLS.0, POLLS.1)
}
