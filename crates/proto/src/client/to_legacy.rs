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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::legacy::{LegacyClientHalf, likely_call};
use super::tasks::{declares_tasks, request_about};
use super::tool_headers::ToolHeaders;
use super::{EventQueue, InternalCall, Sharing, Ticket, sole};
use crate::backoff::Reconnect;
use crate::exchange::{Ask, Carrier, HeaderParams, ServerEvent, To, take_number};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::limits::{Limits, MAX_SERVER_INFO};
use crate::method;
use crate::project::{self, CacheHints, TASKS, hello, identity, strip_envelope};
use crate::refusal::{Refusal, code};
use crate::revision::{Era, Revision};
use core_tasks::{CoreTasks, Support};
use listen_requests::ListenRequest;

mod core_tasks;
mod lifecycle;
mod listen_requests;

/// One legacy server, as its modern clients see it.
#[derive(Debug)]
pub struct ToLegacy<T> {
    carrier: Carrier,
    pub(super) inner: LegacyClientHalf<InternalCall<T>>,
    /// Which arguments its tools want repeated as headers.
    tools: ToolHeaders,
    sharing: Sharing,
    next_call: u64,
    calls: BTreeMap<u64, ModernClientCall<T>>,
    listens: BTreeMap<u64, ListenRequest<T>>,
    /// Whether the server can say what belongs to no call; none until it is known.
    hears: Option<bool>,
    asks: BTreeMap<Ask, RoutedQuestion>,
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
    pub(super) to_client: EventQueue<T>,
}

/// Attempts in a row to reach a server that is gone while somebody listens.
const ATTEMPTS: u32 = 20;

#[derive(Debug)]
struct ModernClientCall<T> {
    ticket: T,
    /// What its client says of itself: who it is, and what it can do.
    client: Box<[u8]>,
    /// In its client's words.
    request: Message,
    /// The server has it, or had it.
    begun: bool,
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
        // Whose an unclear question is, is ours to say.
        let mut inner = LegacyClientHalf::new(Sharing::Alone, limits);
        // A token may be used again while its call is parked.
        inner.ledger.sharing = Sharing::Shared;
        Self {
            carrier,
            inner,
            tools: ToolHeaders::default(),
            sharing,
            next_call: 1,
            calls: BTreeMap::new(),
            listens: BTreeMap::new(),
            hears: (carrier == Carrier::Pipe).then_some(true),
            asks: BTreeMap::new(),
            tasks: CoreTasks::default(),
            next_ask: 1 << 31,
            level: None,
            leveling: 0,
            held: Vec::new(),
            reconnect: Reconnect::new(ATTEMPTS),
            due: None,
            has_natives: false,
            to_client: EventQueue(VecDeque::new()),
        }
    }

    /// Numbers questions from here on, so that several servers' do not collide.
    #[must_use]
    pub fn asking_from(mut self, first: u64) -> Self {
        self.inner.next_ask = first;
        self.next_ask = first | 1 << 31;
        self
    }

    /// What the user allows.
    fn limits(&self) -> &Limits {
        &self.inner.ledger.limits
    }

    /// A client opens a call.
    pub(super) fn open(&mut self, ticket: T, request: &Message, said: &HeaderParams, now: Instant) {
        if ticket.is_native() {
            return self.pass(ticket, request, now);
        }
        self.inner.introduce(hello(request));
        match request.method() {
            method::DISCOVER => self.inner.meet(InternalCall::Discover(ticket), now),
            method::LISTEN => self.listen(ticket, request, now),
            name if method::is_modern_only(name) => self.task_call(ticket, request, now),
            // The headers of a call fit its arguments, if it has any (GW-44).
            _ => match said.as_ref().map(|_| self.tools.headers(request, said)) {
                Some(Err(mismatch)) => self.to_client.finish(ticket, Refusal::from(mismatch)),
                _ => self.call(ticket, request, now),
            },
        }
    }

    fn call(&mut self, ticket: T, request: &Message, now: Instant) {
        if request.has(Member::RequestState) {
            // One of ours has found its call before it got here.
            return self.to_client.finish(ticket, Refusal::BadState);
        }
        if self.calls.len() >= self.limits().calls.saturating_mul(4) {
            return self.to_client.finish(ticket, Refusal::TooManyCalls);
        }
        let level = method::wanted_severity(request);
        self.set_level(level, now);
        let number = take_number(&mut self.next_call);
        let said = |member| request.get(member).unwrap_or(b"null");
        let call = ModernClientCall {
            ticket,
            client: [said(Member::MetaClient), said(Member::MetaCapabilities)].join(&b' ').into(),
            request: request.clone(),
            begun: false,
            level,
            visit: None,
            visits: 0,
            as_task: false,
            task: None,
            shown: None,
            asked: false,
            lingers: None,
        };
        self.calls.insert(number, call);
        if level.is_some() && self.leveling > 0 {
            self.held.push(number);
        } else {
            self.begin(number, now);
        }
    }

    /// Makes a call at the server, as a task if its client and its tool know tasks.
    fn begin(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get(&number) else { return };
        let may_have = call.request.method() == method::CALL_TOOL && self.may_have(&call.request);
        let may_be_task = may_have && self.takes_tasks() != Some(false);
        if may_be_task && self.tasks.tools.is_none() {
            self.tasks.held.push(number);
            return self.learn_tools(now);
        }
        let support = self.support(&call.request);
        let as_task = may_be_task && matches!(support, Some(Support::May | Support::Must));
        let request = strip_envelope(&call.request);
        let request = if as_task { request.with(Member::Task, "{}") } else { request };
        self.calls.entry(number).and_modify(|call| call.as_task = as_task);
        self.send_for(number, &request, now);
    }

    /// Makes a request at the server for a call.
    fn send_for(&mut self, number: u64, request: &Message, now: Instant) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.begun = true;
            self.inner.open(call.at_server(number), request, now);
        }
    }

    /// A client says something that wants no answer.
    pub(super) fn note(&mut self, mut message: Message, now: Instant) {
        message = strip_envelope(&message);
        self.inner.note(message, now);
    }

    /// Time has reached `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.end_lingering(now);
        self.stop_waiting_to_hear(Some(now), now);
        self.expire_tasks(now);
        if self.due.take_if(|due| *due <= now).is_some() && !self.listens.is_empty() {
            self.inner.meet(InternalCall::Return, now);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let lingering = self.calls.values().filter_map(|call| Some(call.lingers.as_ref()?.1));
        let deaf = self.listens.values().filter_map(|listen| listen.deaf);
        let due = self.inner.poll_timeout().into_iter().chain(self.due).chain(self.task_due());
        lingering.chain(deaf).chain(due).min()
    }

    /// Turns what the server said into what its clients understand.
    pub(super) fn translate(&mut self, now: Instant) {
        while let Some(down) = self.inner.to_client.0.pop_front() {
            match down {
                ServerEvent::Note { to, message } => self.handle_note(to, message, now),
                ServerEvent::Ask { to, ask, request } => self.handle_ask(&to, ask, &request, now),
                ServerEvent::Recall { to, ask, message } => self.handle_recall(to, ask, message),
                ServerEvent::Finish { to, outcome } => match (to, outcome) {
                    (InternalCall::Call { number, .. }, Outcome::Answered(answer)) => {
                        self.handle_answer(number, &answer, now);
                    }
                    (InternalCall::Call { number, .. }, failed) => {
                        self.finish_with_logs(number, failed, now);
                    }
                    (InternalCall::Discover(to), outcome) => {
                        let outcome = outcome.and_then(|welcome| self.discovery(welcome));
                        self.to_client.finish(to, outcome);
                    }
                    (InternalCall::Native(to), outcome) => self.to_client.finish(to, outcome),
                    (InternalCall::Listen(number), outcome) => {
                        self.handle_met(number, outcome, now);
                    }
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
                    (InternalCall::TaskEnd(id), outcome) => self.handle_task_end(&id, outcome, now),
                    (InternalCall::Aside, _) => {}
                },
                ServerEvent::Unanswered { to: InternalCall::Native(to) } => {
                    self.to_client.0.push_back(ServerEvent::Unanswered { to });
                }
                ServerEvent::Unanswered { .. } => {}
            }
        }
    }

    fn handle_note(&mut self, to: To<InternalCall<T>>, message: Message, now: Instant) {
        match (message.method(), to) {
            (name, _) if method::is_for_all(name) => {
                // The tools may be others: they are listed again when it matters.
                self.tasks.tools = None;
                self.tell_listens(&message);
                // What is for everybody is for clients of the server's own era too.
                if self.has_natives {
                    self.to_client.note(To::Session, message);
                }
            }
            (_, To::Call(InternalCall::Native(to))) => self.to_client.note(To::Call(to), message),
            (method::LOG, to) => self.handle_log(&to, message),
            (method::TASK_STATUS, _) => self.handle_status(&message, now),
            (method::ELICITED, _) => {}
            (_, To::Call(InternalCall::Call { ticket, .. })) => {
                self.to_client.note(To::Call(ticket), message);
            }
            _ => {}
        }
    }

    fn handle_answer(&mut self, number: u64, answer: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let method = call.request.method().to_owned();
        if answer.error_code() == Some(code::VISIT_FIRST) && self.begin_visit(number, answer)
            || self.had_to_be_task(number, answer, now)
            || self.handle_created(number, answer, now)
            || self.handle_standing(number, answer, now)
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
            self.to_client.finish(call.ticket, outcome);
        }
    }

    /// A client is back with input for a call, by this request, which speaks for itself (META-3).
    pub(super) fn again(&mut self, ticket: &T, request: &Message, now: Instant) {
        let call = self.calls.values_mut().find(|call| call.ticket == *ticket);
        let Some(call) = call else { return };
        call.level = method::wanted_severity(request);
        if call.request.has(Member::MetaCapabilities)
            && let Some(declared) = request.part(Member::MetaCapabilities)
        {
            // Whoever stands between counts on a task only if the first request knew tasks.
            let bare = declared.without(&["extensions"], &[TASKS]);
            let bare = bare.filter(|_| !declares_tasks(&call.request));
            let declared = bare.unwrap_or_else(|| declared.text().to_vec().into());
            call.request = call.request.with(Member::MetaCapabilities, declared);
        }
        self.set_level(None, now);
    }
}

// Answers of the server, in the words of a modern client.

impl<T: Ticket> ToLegacy<T> {
    /// An answer of a legacy server in the words of a modern client (GW-44, GW-58).
    fn newer_answer(&self, answer: &Message, method: &str) -> Outcome {
        if answer.kind() == Kind::Error {
            return project::error_for_modern(answer).into();
        }
        let server = self.inner.welcome.as_ref().and_then(|it| it.get(Member::ServerInfo));
        let server = server.filter(|it| it.len() <= MAX_SERVER_INFO);
        let own = answer.without_meta(&[Member::MetaRelatedTask]);
        let own = project::without_dropped(own.payload_bytes(), method);
        let result = project::modern(&own, method, server, CacheHints::default());
        result.map(|result| answer.with_payload(&result)).into()
    }

    /// What a legacy server said of itself, as a modern one says it (GW-40).
    fn discovery(&self, welcome: &Message) -> Outcome {
        if welcome.kind() == Kind::Error {
            return self.newer_answer(welcome, method::DISCOVER);
        }
        let mut capabilities = welcome.value(Member::Capabilities).unwrap_or_else(|| json!({}));
        if let Some(all) = capabilities.as_object_mut() {
            let takes_tasks =
                all.remove("tasks").is_some_and(|it| !it["requests"]["tools"]["call"].is_null());
            if takes_tasks && self.offers_tasks() {
                all.insert("extensions".to_owned(), json!({TASKS: {}}));
            }
        }
        let mut result = json!({
            "supportedVersions": Revision::names(Era::Modern),
            "capabilities": capabilities,
        });
        for member in [Member::Instructions, Member::Meta] {
            if let Some(value) = welcome.value(member).filter(|value| !value.is_null()) {
                result[member.key()] = value;
            }
        }
        let server = welcome.value(Member::ServerInfo).filter(Value::is_object);
        let server = server.unwrap_or_else(identity).to_string();
        let (text, server) = (result.to_string(), Some(server.as_bytes()));
        let dressed =
            project::modern(text.as_bytes(), method::DISCOVER, server, CacheHints::default());
        Message::result(&Id::from(0), &dressed.unwrap_or_else(|_| text.into())).into()
    }
}

// Log records: the session at the server has one level, each request of a client its own (GW-54).

impl<T: Ticket> ToLegacy<T> {
    /// Has the server log as much as any open call wants, if it logs at all (GW-54).
    /// Whether it does is known from its greeting.
    fn set_level(&mut self, wanted: Option<usize>, now: Instant) {
        let open = self.calls.values().filter_map(|call| call.level);
        let Some(wanted) = wanted.into_iter().chain(open).min() else { return };
        let welcome = self.inner.welcome.as_ref();
        match welcome.map(|welcome| welcome.capability(&["logging"]).is_some()) {
            _ if self.level == Some(wanted) => return,
            Some(false) => return,
            Some(true) => {
                self.level = Some(wanted);
                let request = request_about(method::SET_LEVEL, "level", method::LEVELS[wanted]);
                self.inner.open(InternalCall::Level, &request, now);
            }
            // It is being greeted already, and the level of every open call is looked at then.
            None if self.leveling > 0 => return,
            None => self.inner.meet(InternalCall::Meet, now),
        }
        self.leveling += 1;
    }

    /// The server has been greeted, so that it can be told what to log; or it has not, and
    /// the calls that waited for that fail.
    fn handle_met_for_level(&mut self, outcome: &Outcome, now: Instant) {
        if outcome.result().is_some() {
            self.set_level(None, now);
        } else {
            for number in std::mem::take(&mut self.held) {
                let why = outcome.clone().and_then(|it| self.newer_answer(it, method::INITIALIZE));
                self.finish(number, why, now);
            }
        }
        self.handle_leveled(now);
    }

    /// The server has heard what to log: the calls that want it may begin.
    fn handle_leveled(&mut self, now: Instant) {
        self.leveling = self.leveling.saturating_sub(1);
        if self.leveling == 0 {
            for number in std::mem::take(&mut self.held) {
                self.begin(number, now);
            }
        }
    }

    /// A record goes to its call; to the only one that wants any, if it does not say.
    fn handle_log(&mut self, to: &To<InternalCall<T>>, record: Message) {
        let call = match to {
            To::Call(InternalCall::Call { number, .. }) => self.calls.get(number),
            _ if self.has_native_asking() => None,
            _ => sole(self.calls.values().filter(|call| call.level.is_some())),
        };
        let wants = |least| method::is_grave(&record, least);
        if let Some(call) = call.filter(|call| call.level.is_some_and(wants)) {
            self.to_client.note(To::Call(call.ticket.clone()), record);
        }
    }

    /// Over HTTP some servers log on the stream that belongs to no call, and that
    /// may be slower than the answer. After it nothing more can be said.
    fn finish_with_logs(&mut self, number: u64, outcome: Outcome, now: Instant) {
        let is_http = self.carrier == Carrier::Http;
        match self.calls.get_mut(&number).filter(|call| call.level.is_some() && is_http) {
            Some(call) => call.lingers = Some((outcome, now + LINGER)),
            None => self.finish(number, outcome, now),
        }
    }

    /// Gives the answers that were held back long enough.
    fn end_lingering(&mut self, now: Instant) {
        let is_late = |(_, until): &mut (_, Instant)| *until <= now;
        let calls = self.calls.iter_mut();
        let due = calls.filter_map(|(&number, it)| Some((number, it.lingers.take_if(is_late)?.0)));
        for (number, answer) in due.collect::<Vec<_>>() {
            self.finish(number, answer, now);
        }
    }
}

/// How long an answer waits for log records that may have been sent before it.
const LINGER: Duration = Duration::from_millis(50);

// Questions of the server, and the calls they belong to.

/// How often one call may be told to visit a page first.
const MOST_VISITS: u32 = 10;

/// Pages that a call may want visited at once. Who wants more has failed.
const MOST_PAGES: usize = 64;

/// The call that a question was put to.
#[derive(Debug)]
struct RoutedQuestion {
    number: u64,
    /// The question and whose it is, if it is a guess that it was about that call.
    guess: Option<(Message, Box<[u8]>)>,
}

/// Pages to visit before a call can be made.
#[derive(Debug)]
struct Visit {
    waiting: BTreeSet<Ask>,
    /// What the server said, for who does not go there.
    error: Message,
    declined: bool,
}

impl<T: Ticket> ToLegacy<T> {
    /// The server asks something: the client is asked on the call that it is about (GW-47).
    fn handle_ask(&mut self, to: &To<InternalCall<T>>, ask: Ask, request: &Message, now: Instant) {
        if self.keep_question(ask, request, now) || self.keep_early(ask, request, now) {
            return;
        }
        let waits = self.waits_for(request);
        if waits.is_none() && self.ask_native(to, ask, request, now) {
            return;
        }
        let params = project::modern_question(request.payload().unwrap_or(b"{}"));
        let request = request.with_payload(&params);
        // A task's question may come by any call's lane.
        let (number, guessed) = match to {
            _ if waits.is_some() => (waits, false),
            &To::Call(InternalCall::Call { number, .. }) => (Some(number), false),
            To::Session => (self.likely(None), true),
            To::Call(_) => (None, false),
        };
        match number {
            Some(number) => self.put_to(number, ask, request, guessed, now),
            None => self.inner.refuse_ask(ask, now),
        }
    }

    fn put_to(&mut self, number: u64, ask: Ask, request: Message, guessed: bool, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else {
            return self.inner.refuse_ask(ask, now);
        };
        call.asked = true;
        self.inner.put_on(ask, &call.at_server(number), now);
        let guess = guessed.then(|| (request.clone(), call.client.clone()));
        self.asks.insert(ask, RoutedQuestion { number, guess });
        self.to_client.ask(To::Call(call.ticket.clone()), ask, request);
    }

    /// The call that a question is likely to be about, where nothing says it. A
    /// guess harms nobody while all are of one client: whichever of its calls is
    /// told, the answer goes to the question. Among those of several there is no
    /// guessing: nobody is shown what another client is asked. `whose` it is, if
    /// that is known.
    fn likely(&self, whose: Option<(&[u8], &[u8])>) -> Option<u64> {
        if self.has_native_asking() {
            return None;
        }
        let asking = || self.calls.iter().filter(|(_, call)| call.may_ask());
        let mut clients = asking().map(|(_, call)| (call.ticket.principal(), &*call.client));
        let first = whose.or_else(|| clients.next())?;
        if self.sharing == Sharing::Shared && clients.any(|other| other != first) {
            return None;
        }
        let open = asking().map(|(&number, _)| number);
        likely_call(open, self.asks.values().map(|asked| asked.number))
    }

    /// The server does not need an answer any more (GW-50).
    fn handle_recall(&mut self, to: To<InternalCall<T>>, ask: Ask, message: Message) {
        self.recall_question(ask);
        let asked = self.asks.remove(&ask).and_then(|asked| self.calls.get(&asked.number));
        let to = match to {
            To::Call(InternalCall::Native(to)) => Some(to),
            _ => asked.map(|call| call.ticket.clone()),
        };
        if let Some(to) = to {
            self.to_client.0.push_back(ServerEvent::Recall { to: To::Call(to), ask, message });
        }
    }

    /// A client answers a question.
    pub(super) fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        let asked = self.asks.remove(&ask);
        if !asked.is_some_and(|asked| self.visited(asked.number, ask, answer, now)) {
            self.inner.supply(ask, answer, now);
        }
    }

    /// A call is over: what it was asked will not be answered (GW-46). If it
    /// was a guess that it was about this call, then it is about another.
    fn end_questions_of(&mut self, number: u64, ticket: &T, now: Instant) {
        let theirs = self.asks.iter().filter(|(_, asked)| asked.number == number);
        for ask in theirs.map(|(&ask, _)| ask).collect::<Vec<_>>() {
            let guess = self.asks.remove(&ask).and_then(|asked| asked.guess);
            let other = guess.and_then(|(request, client)| {
                Some((self.likely(Some((ticket.principal(), &client)))?, request))
            });
            match other {
                Some((other, request)) => {
                    self.to_client.recall(To::Call(ticket.clone()), ask);
                    self.put_to(other, ask, request, true, now);
                }
                None => self.inner.refuse_ask(ask, now),
            }
        }
    }

    /// The server wants a page to be visited before it takes the call (GW-49).
    fn begin_visit(&mut self, number: u64, error: &Message) -> bool {
        let pages = pages(error);
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let is_sane = (1..=MOST_PAGES).contains(&pages.len()) && call.visits < MOST_VISITS;
        if !is_sane || !method::may_ask(call.request.method()) {
            return false;
        }
        call.visits += 1;
        let mut waiting = BTreeSet::new();
        for request in pages {
            let ask = Ask(take_number(&mut self.next_ask));
            waiting.insert(ask);
            self.asks.insert(ask, RoutedQuestion { number, guess: None });
            self.to_client.ask(To::Call(call.ticket.clone()), ask, request);
        }
        call.visit = Some(Visit { waiting, error: error.clone(), declined: false });
        true
    }

    /// A client says whether it goes to a page. True if that is what was asked.
    fn visited(&mut self, number: u64, ask: Ask, answer: &Message, now: Instant) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let Some(visit) = call.visit.as_mut() else { return false };
        if !visit.waiting.remove(&ask) {
            return false;
        }
        let could_not_ask = answer.kind() == Kind::Error;
        let action = answer.string(Member::Action).filter(|_| !could_not_ask);
        visit.declined |= action.as_deref() != Some("accept");
        if !visit.waiting.is_empty() && !could_not_ask {
            return true;
        }
        let Some(visit) = call.visit.take() else { return true };
        if could_not_ask {
            let needed = json!({"elicitation": {"url": {}}});
            self.finish(number, Refusal::NeedsMore { needed }, now);
        } else if visit.declined {
            self.finish(number, Failure::translation(visit.error.error_message()), now);
        } else {
            self.begin(number, now);
        }
        true
    }
}

impl<T: Ticket> ModernClientCall<T> {
    /// The call that is made for it at the server.
    fn at_server(&self, number: u64) -> InternalCall<T> {
        InternalCall::Call { number, ticket: self.ticket.clone() }
    }

    /// Whether the server has it, has not answered it, and may want to know something for it.
    fn may_ask(&self) -> bool {
        let is_there = self.begun && self.visit.is_none() && self.lingers.is_none();
        is_there && method::may_ask(self.request.method())
    }
}

/// The pages that an error names, as questions.
fn pages(error: &Message) -> Vec<Message> {
    let all = error.inside(Member::Data, &["elicitations"]).into_iter().flat_map(Part::items);
    let page = |page: Part<'_>| {
        let params = project::modern_question(page.text());
        let params = Part::new(&params).with("mode", b"\"url\"")?;
        Some(Message::request(&Id::from(0), method::ELICIT, Some(&params)))
    };
    all.filter_map(page).collect()
}

#[cfg(test)]
mod tests;
