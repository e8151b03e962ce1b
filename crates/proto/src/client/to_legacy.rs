//! A server of the era with a handshake, for clients of the era without one.
//!
//! ```text
//!   anything first ─▶ our own initialize, in the name of the first client   (GW-41)
//!   discover ──────▶ answered from its welcome                              (GW-40)
//!   a call ────────▶ the call without its envelope ─▶ its result, dressed   (GW-43, GW-44)
//!                        │ the server asks: ServerEvent::Ask on that call          (GW-45, GW-47)
//!                        └ "visit a page first": the same, then once more   (GW-49)
//!   listen ────────▶ subscribe for each resource ─▶ acknowledged, notes     (GW-51)
//! ```
//!
//! A layer on [`LegacyClientHalf`]: that one knows the server, this one knows what its
//! clients expect of a server. Clients of the server's own era pass by it, where both
//! go by one connection. Questions are put to a modern client by the half
//! that faces it, which parks the call meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde_json::Value;

use super::across::{hello, strip_envelope};
use super::legacy::LegacyClientHalf;
use super::tool_headers::ToolHeaders;
use super::{CallId, Sharing, Ticket, Transmit};
use crate::backoff::Reconnect;
use crate::exchange::{Ask, Carrier, HeaderParams, Lane, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Member, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::{Refusal, code};
use core_tasks::CoreTasks;
use listen_requests::Listen;
use question_routing::{Asked, Visit};

mod core_tasks;
mod lifecycle;
mod listen_requests;
mod newer_answers;
mod question_routing;

/// One legacy server, as its modern clients see it.
#[derive(Debug)]
pub struct ToLegacy<T> {
    carrier: Carrier,
    inner: LegacyClientHalf<InternalCall<T>>,
    /// Which arguments its tools want repeated as headers.
    tools: ToolHeaders,
    sharing: Sharing,
    most_calls: usize,
    next_call: u64,
    calls: BTreeMap<u64, Call<T>>,
    listens: BTreeMap<u64, Listen<T>>,
    /// Whether the server can say what belongs to no call; none until it is known.
    hears: Option<bool>,
    asks: BTreeMap<Ask, Asked>,
    tasks: CoreTasks,
    next_ask: u64,
    /// What the server was last told to log, and the calls that wait until it has heard.
    level: Option<usize>,
    leveling: usize,
    held: Vec<u64>,
    reconnect: Reconnect,
    due: Option<Instant>,
    /// A client of the server's own era was here, and hears what is for all.
    has_natives: bool,
    down: VecDeque<ServerEvent<T>>,
}

/// Attempts in a row to reach a server that is gone while somebody listens.
const ATTEMPTS: u32 = 20;

#[derive(Debug)]
struct Call<T> {
    ticket: T,
    /// What its client says of itself: who it is, and what it can do.
    client: Box<[u8]>,
    /// In its client's words.
    request: Message,
    inner: CallId,
    /// Which log records it wants (GW-54).
    level: Option<usize>,
    visit: Option<Visit>,
    visits: u32,
    as_task: bool,
    /// The task that it waits for, if its client knows of none.
    task: Option<Box<str>>,
    /// How the task stands that it asks about: what that came to is being asked.
    shown: Option<Value>,
    /// The server has asked something on its behalf.
    asked: bool,
    /// Its answer, and how long log records may still come.
    lingers: Option<(Outcome, Instant)>,
}

impl<T: Ticket> ToLegacy<T> {
    /// A server that has been told nothing yet.
    pub fn new(carrier: Carrier, sharing: Sharing, limits: &Limits) -> Self {
        Self {
            carrier,
            // A token may be used again while its call is parked. Whose an
            // unclear question is, is ours to say.
            inner: LegacyClientHalf::new(Sharing::Alone, limits).renaming_tokens(limits),
            tools: ToolHeaders::default(),
            sharing,
            most_calls: limits.calls,
            next_call: 1,
            calls: BTreeMap::new(),
            listens: BTreeMap::new(),
            hears: (carrier == Carrier::Pipe).then_some(true),
            asks: BTreeMap::new(),
            tasks: CoreTasks::new(limits.tasks, limits.total),
            next_ask: 1 << 31,
            level: None,
            leveling: 0,
            held: Vec::new(),
            reconnect: Reconnect::new(ATTEMPTS),
            due: None,
            has_natives: false,
            down: VecDeque::new(),
        }
    }

    /// Numbers questions from here on, so that several servers' do not collide.
    #[must_use]
    pub fn asking_from(mut self, first: u64) -> Self {
        self.inner = self.inner.asking_from(first);
        self.next_ask = first | 1 << 31;
        self
    }

    /// A client opens a call.
    pub fn open(
        &mut self,
        ticket: T,
        request: &Message,
        said: &HeaderParams,
        now: Instant,
    ) -> CallId {
        if ticket.is_native() {
            let id = self.pass(ticket, request, now);
            self.translate(now);
            return id;
        }
        self.inner.introduce(hello(request));
        let id = match request.method() {
            method::DISCOVER => {
                self.inner.meet(InternalCall::Discover(ticket), now);
                CallId::DONE
            }
            method::LISTEN => self.listen(ticket, request, now),
            name if method::is_modern_only(name) => self.task_call(ticket, request, now),
            _ => match self.mismatch(request, said) {
                Some(why) => self.refuse(ticket, &why),
                None => self.call(ticket, request, now),
            },
        };
        self.translate(now);
        id
    }

    fn call(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        if request.has(Member::RequestState) {
            // One of ours has found its call before it got here.
            return self.refuse(ticket, &Refusal::BadState);
        }
        if self.calls.len() >= self.most_calls.saturating_mul(4) {
            return self.refuse(ticket, &Refusal::TooManyCalls);
        }
        let level = method::wanted_severity(request);
        self.set_level(level, now);
        let number = self.next_number();
        let client = client_of(request);
        let (request, inner) = (request.clone(), CallId::DONE);
        let (visit, visits, as_task, task) = (None, 0, false, None);
        let (shown, asked, lingers) = (None, false, None);
        self.calls.insert(
            number,
            Call {
                ticket,
                client,
                request,
                inner,
                level,
                visit,
                visits,
                as_task,
                task,
                shown,
                asked,
                lingers,
            },
        );
        if level.is_some() && self.leveling > 0 {
            self.held.push(number);
        } else {
            self.begin(number, now);
        }
        CallId(number)
    }

    /// Makes a call at the server.
    fn begin(&mut self, number: u64, now: Instant) {
        if self.holds_for_tools(number, now) {
            return;
        }
        let Some(request) = self.request_of(number) else { return };
        if let Some(call) = self.calls.get_mut(&number) {
            let errand = InternalCall::Call { number, ticket: call.ticket.clone() };
            call.inner = self.inner.open(errand, &request, now);
        }
    }

    fn next_number(&mut self) -> u64 {
        let number = self.next_call;
        self.next_call += 1;
        number
    }

    fn refuse(&mut self, to: T, why: &Refusal) -> CallId {
        self.down.push_back(ServerEvent::Finish { to, outcome: why.clone().into() });
        CallId::DONE
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: &Message, now: Instant) {
        self.inner.note(strip_envelope(message));
        self.translate(now);
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        self.inner.handle_message(lane, message, now);
        self.translate(now);
    }

    /// A call's lane ended without its answer.
    pub fn handle_unanswered(&mut self, lane: Lane, why: &Failure, now: Instant) {
        self.inner.handle_unanswered(lane, why);
        self.translate(now);
    }

    /// The server knows our session no more, and so did not run this call.
    pub fn handle_session_over(&mut self, lane: Lane, now: Instant) {
        self.inner.handle_session_over(lane, now);
        self.translate(now);
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.end_lingering(now);
        self.stop_waiting_to_hear(now);
        self.refuse_early(now);
        self.expire_tasks(now);
        if self.due.take_if(|due| *due <= now).is_some() && !self.listens.is_empty() {
            self.inner.meet(InternalCall::Return, now);
        }
        self.translate(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let lingering = self.calls.values().filter_map(|call| Some(call.lingers.as_ref()?.1));
        let deaf = self.listens.values().filter_map(Listen::due);
        let tasks = self.early_due().into_iter().chain(self.task_due());
        let due = self.inner.poll_timeout().into_iter().chain(self.due).chain(tasks);
        lingering.chain(deaf).chain(due).min()
    }

    /// Turns what the server said into what its clients understand.
    fn translate(&mut self, now: Instant) {
        while let Some(down) = self.inner.poll_down() {
            match down {
                ServerEvent::Note { to, message } => self.handle_note(to, &message, now),
                ServerEvent::Ask { to, ask, request } => self.handle_ask(&to, ask, &request, now),
                ServerEvent::Recall { to: To::Call(InternalCall::Native(to)), ask, message } => {
                    self.down.push_back(ServerEvent::Recall { to: To::Call(to), ask, message });
                }
                ServerEvent::Recall { ask, message, .. } => self.handle_recall(ask, message),
                ServerEvent::Finish { to, outcome } => self.handle_finish(to, outcome, now),
                ServerEvent::Unanswered { to: InternalCall::Native(to) } => {
                    self.down.push_back(ServerEvent::Unanswered { to });
                }
                ServerEvent::Unanswered { .. } => {}
            }
        }
    }

    fn handle_note(&mut self, to: To<InternalCall<T>>, message: &Message, now: Instant) {
        if method::is_for_all(message.method()) {
            self.forget_tools();
            self.tell_listens(message);
            return self.tell_natives(message);
        }
        if let To::Call(InternalCall::Native(to)) = to {
            let (to, message) = (To::Call(to), message.clone());
            return self.down.push_back(ServerEvent::Note { to, message });
        }
        match message.method() {
            method::LOG => return self.handle_log(&to, message),
            method::TASK_STATUS => return self.handle_status(message, now),
            _ => {}
        }
        let To::Call(InternalCall::Call { ticket, .. }) = to else { return };
        if message.method() != method::ELICITED {
            self.down
                .push_back(ServerEvent::Note { to: To::Call(ticket), message: message.clone() });
        }
    }

    fn handle_finish(&mut self, to: InternalCall<T>, outcome: Outcome, now: Instant) {
        match (to, outcome) {
            (InternalCall::Call { number, .. }, Outcome::Answered(answer)) => {
                self.handle_answer(number, &answer, now);
            }
            (InternalCall::Call { number, .. }, failed) => {
                self.finish_with_logs(number, failed, now);
            }
            (InternalCall::Discover(to), Outcome::Answered(answer)) => {
                let outcome = match answer.kind() {
                    Kind::Error => self.newer_answer(&answer, method::DISCOVER),
                    _ => Message::result(&Id::from(0), &self.discovery(&answer)).into(),
                };
                self.down.push_back(ServerEvent::Finish { to, outcome });
            }
            (InternalCall::Discover(to) | InternalCall::Native(to), outcome) => {
                self.down.push_back(ServerEvent::Finish { to, outcome });
            }
            (InternalCall::Listen(number), outcome) => self.handle_met(number, outcome, now),
            (InternalCall::Watch { listen, uri, .. }, outcome) => {
                self.handle_watched(listen, &uri, outcome, now);
            }
            (InternalCall::Return, outcome) => match outcome.result() {
                Some(_) => self.reconnect.handle_success(),
                None => self.return_later(now),
            },
            (InternalCall::Meet, outcome) => self.handle_met_for_level(&outcome, now),
            (InternalCall::Level, _) => self.handle_leveled(now),
            (InternalCall::Tools, outcome) => self.handle_tools(outcome.result(), now),
            (InternalCall::TaskEnd(number), outcome) => self.handle_task_end(number, outcome, now),
            (InternalCall::Unwatch { .. } | InternalCall::Aside, _) => {}
        }
    }

    fn handle_answer(&mut self, number: u64, answer: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let method = call.request.method().to_owned();
        if answer.error_code() == Some(code::VISIT_FIRST) && self.begin_visit(number, answer) {
            return;
        }
        if self.had_to_be_task(number, answer, now) {
            return;
        }
        if self.handle_created(number, answer, now) || self.handle_task_answer(number, answer, now)
        {
            return;
        }
        if method == method::LIST_TOOLS && answer.kind() == Kind::Result {
            // The server does not look at headers; what its tools ask for holds all the same.
            _ = self.tools.learn(answer);
        }
        let outcome = self.newer_answer(answer, &method);
        self.finish_with_logs(number, outcome, now);
    }

    fn finish(&mut self, number: u64, outcome: impl Into<Outcome>, now: Instant) {
        if let Some(call) = self.calls.remove(&number) {
            self.end_questions_of(number, &call.ticket, now);
            self.down.push_back(ServerEvent::Finish { to: call.ticket, outcome: outcome.into() });
        }
    }

    /// What to put on the wire, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.inner.poll_transmit()
    }

    /// What to tell the clients, oldest first.
    pub fn poll_down(&mut self) -> Option<ServerEvent<T>> {
        self.down.pop_front()
    }

    /// The lane of the only open call, if there is just one.
    pub fn only_call(&self) -> Option<Lane> {
        self.inner.only_call()
    }

    /// Whether the call that travels on `lane` still waits for its answer.
    pub fn is_open(&self, lane: Lane) -> bool {
        self.inner.is_open(lane)
    }

    /// Whether the server has been greeted and answered.
    pub fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }
}

/// What a request says of its client.
fn client_of(request: &Message) -> Box<[u8]> {
    let said = |member| request.get(member).unwrap_or(b"null");
    [said(Member::MetaClient), said(Member::MetaCapabilities)].join(&b' ').into()
}

/// What we open a call at the server for.
#[derive(Clone, Debug, PartialEq)]
enum InternalCall<T> {
    Call {
        number: u64,
        ticket: T,
    },
    Discover(T),
    /// Of a client that speaks the server's own era.
    Native(T),
    /// To have been greeted before a listen is acknowledged.
    Listen(u64),
    Watch {
        listen: u64,
        uri: Box<str>,
        /// The client that listens.
        ticket: T,
    },
    Unwatch {
        listen: u64,
    },
    /// To know which tools may be tasks.
    Tools,
    /// To know what a task comes to.
    TaskEnd(u64),
    /// To be there again for who listens.
    Return,
    /// To know whether it logs, which its greeting says.
    Meet,
    Level,
    /// To tell it something; nobody waits for the answer.
    Aside,
}

impl<T: Ticket> Ticket for InternalCall<T> {
    fn owner(&self) -> u64 {
        match self {
            Self::Call { ticket, .. } | Self::Discover(ticket) | Self::Native(ticket) => {
                ticket.owner()
            }
            // Each listen watches for itself.
            Self::Listen(number)
            | Self::Watch { listen: number, .. }
            | Self::Unwatch { listen: number } => owner(*number),
            _ => u64::MAX,
        }
    }

    fn awaits_dropped(&self) -> bool {
        matches!(self, Self::Native(ticket) if ticket.awaits_dropped())
    }

    fn principal(&self) -> &[u8] {
        match self {
            Self::Call { ticket, .. }
            | Self::Watch { ticket, .. }
            | Self::Discover(ticket)
            | Self::Native(ticket) => ticket.principal(),
            _ => b"",
        }
    }
}

/// Who watches for a listen.
fn owner(listen: u64) -> u64 {
    listen | OURS
}

/// Apart from the numbers of clients.
const OURS: u64 = 1 << 63;

#[cfg(test)]
mod tests;
