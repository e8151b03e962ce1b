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

use bytes::Bytes;
use serde_json::{Value, json};

use super::legacy::{LegacyClientHalf, likely_call};
use super::tasks::declares_tasks;
use super::tool_headers::ToolHeaders;
use super::{CallId, InternalCall, Sharing, Ticket};
use crate::backoff::Reconnect;
use crate::exchange::{Ask, Carrier, HeaderParams, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::limits::{Limits, MAX_SERVER_INFO};
use crate::method;
use crate::project::{self, CacheHints, TASKS, hello, identity, strip_envelope};
use crate::refusal::{Refusal, code};
use crate::revision::{Era, Revision};
use core_tasks::CoreTasks;
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
    most_calls: usize,
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
    to_client: VecDeque<ServerEvent<T>>,
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
            to_client: VecDeque::new(),
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
        let said = |member| request.get(member).unwrap_or(b"null");
        let call = ModernClientCall {
            ticket,
            client: [said(Member::MetaClient), said(Member::MetaCapabilities)].join(&b' ').into(),
            request: request.clone(),
            inner: CallId::DONE,
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
        CallId(number)
    }

    /// Makes a call at the server.
    fn begin(&mut self, number: u64, now: Instant) {
        if self.holds_for_tools(number, now) {
            return;
        }
        if let Some(request) = self.request_of(number) {
            self.send_for(number, &request, now);
        }
    }

    /// Makes a request at the server for a call.
    fn send_for(&mut self, number: u64, request: &Message, now: Instant) {
        if let Some(call) = self.calls.get_mut(&number) {
            let call_of = InternalCall::Call { number, ticket: call.ticket.clone() };
            call.inner = self.inner.open(call_of, request, now);
        }
    }

    fn next_number(&mut self) -> u64 {
        let number = self.next_call;
        self.next_call += 1;
        number
    }

    fn refuse(&mut self, to: T, why: &Refusal) -> CallId {
        self.to_client.push_back(ServerEvent::Finish { to, outcome: why.clone().into() });
        CallId::DONE
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: &Message, now: Instant) {
        self.inner.note(strip_envelope(message));
        self.translate(now);
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.end_lingering(now);
        self.stop_waiting_to_hear(Some(now), now);
        self.expire_tasks(now);
        if self.due.take_if(|due| *due <= now).is_some() && !self.listens.is_empty() {
            self.inner.meet(InternalCall::Return, now);
        }
        self.translate(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let lingering = self.calls.values().filter_map(|call| Some(call.lingers.as_ref()?.1));
        let deaf = self.listens.values().filter_map(|listen| listen.deaf);
        let due = self.inner.poll_timeout().into_iter().chain(self.due).chain(self.task_due());
        lingering.chain(deaf).chain(due).min()
    }

    /// Turns what the server said into what its clients understand.
    pub(super) fn translate(&mut self, now: Instant) {
        while let Some(down) = self.inner.poll_to_client() {
            match down {
                ServerEvent::Note { to, message } => self.handle_note(to, &message, now),
                ServerEvent::Ask { to, ask, request } => self.handle_ask(&to, ask, &request, now),
                ServerEvent::Recall { to: To::Call(InternalCall::Native(to)), ask, message } => {
                    self.to_client.push_back(ServerEvent::Recall {
                        to: To::Call(to),
                        ask,
                        message,
                    });
                }
                ServerEvent::Recall { ask, message, .. } => self.handle_recall(ask, message),
                ServerEvent::Finish { to, outcome } => self.handle_finish(to, outcome, now),
                ServerEvent::Unanswered { to: InternalCall::Native(to) } => {
                    self.to_client.push_back(ServerEvent::Unanswered { to });
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
            return self.to_client.push_back(ServerEvent::Note { to, message });
        }
        match message.method() {
            method::LOG => return self.handle_log(&to, message),
            method::TASK_STATUS => return self.handle_status(message, now),
            _ => {}
        }
        if let To::Call(InternalCall::Call { ticket, .. }) = to
            && message.method() != method::ELICITED
        {
            let (to, message) = (To::Call(ticket), message.clone());
            self.to_client.push_back(ServerEvent::Note { to, message });
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
                self.to_client.push_back(ServerEvent::Finish { to, outcome });
            }
            (InternalCall::Discover(to) | InternalCall::Native(to), outcome) => {
                self.to_client.push_back(ServerEvent::Finish { to, outcome });
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
        if answer.error_code() == Some(code::VISIT_FIRST) && self.begin_visit(number, answer)
            || self.had_to_be_task(number, answer, now)
            || self.handle_created(number, answer, now)
            || self.handle_task_answer(number, answer, now)
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
            self.to_client
                .push_back(ServerEvent::Finish { to: call.ticket, outcome: outcome.into() });
        }
    }

    /// What to tell the clients, oldest first.
    pub fn poll_to_client(&mut self) -> Option<ServerEvent<T>> {
        self.to_client.pop_front()
    }
}

impl<T: Ticket> ToLegacy<T> {
    /// A client is back with input for a call, by this request, which speaks for itself (META-3).
    pub fn again(&mut self, id: CallId, request: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&id.0) else { return };
        call.level = method::wanted_severity(request);
        if let Some(declared) = request.part(Member::MetaCapabilities) {
            call.request = declaring(&call.request, declared);
        }
        self.set_level(None, now);
        self.translate(now);
    }
}

/// A request of a client that can do this. Whoever stands between counts on a task only
/// if the first request knew tasks.
fn declaring(first: &Message, declared: Part<'_>) -> Message {
    if !first.has(Member::MetaCapabilities) {
        return first.clone();
    }
    let bare = declared.without(&["extensions"], &[TASKS]).filter(|_| !declares_tasks(first));
    let declared = bare.unwrap_or_else(|| declared.text().to_vec().into());
    first.with(Member::MetaCapabilities, declared)
}

// Answers of the server, in the words of a modern client.

impl<T: Ticket> ToLegacy<T> {
    /// Why the headers of a call do not fit its arguments, if they do not (GW-44).
    fn mismatch(&self, request: &Message, said: &HeaderParams) -> Option<Refusal> {
        let mismatch = self.tools.headers(request, Some(said.as_deref()?)).err()?;
        Some(mismatch.into())
    }

    /// An answer of a legacy server in the words of a modern client (GW-44, GW-58).
    fn newer_answer(&self, answer: &Message, method: &str) -> Outcome {
        if answer.kind() == Kind::Error {
            return project::error_for_modern(answer).into();
        }
        let server = self.inner.welcome().and_then(|it| it.get(Member::ServerInfo));
        let server = server.filter(|it| it.len() <= MAX_SERVER_INFO);
        let own = answer.without_meta(&[Member::MetaRelatedTask]);
        let own = project::without_dropped(own.payload_bytes(), method);
        match project::modern(&own, method, server, CacheHints::default()) {
            Ok(result) => answer.with_payload(&result).into(),
            Err(error) => Failure::translation(error.to_string()).into(),
        }
    }

    /// What a legacy server said of itself, as a modern one says it (GW-40).
    fn discovery(&self, welcome: &Message) -> Bytes {
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
        let text = result.to_string();
        let dressed = project::modern(
            text.as_bytes(),
            method::DISCOVER,
            Some(server.as_bytes()),
            CacheHints::default(),
        );
        dressed.unwrap_or_else(|_| text.into())
    }
}

// Log records: the session at the server has one level, each request of a client its own (GW-54).

impl<T: Ticket> ToLegacy<T> {
    /// Has the server log as much as any open call wants, if it logs at all (GW-54).
    /// Whether it does is known from its greeting.
    fn set_level(&mut self, wanted: Option<usize>, now: Instant) {
        let open = self.calls.values().filter_map(|call| call.level);
        let Some(wanted) = wanted.into_iter().chain(open).min() else { return };
        match self.inner.welcome().map(|welcome| welcome.capability(&["logging"]).is_some()) {
            _ if self.level == Some(wanted) => return,
            Some(false) => return,
            Some(true) => {
                self.level = Some(wanted);
                let params = json!({"level": method::LEVELS[wanted]}).to_string();
                let params = Some(params.as_bytes());
                let request = Message::request(&0.into(), method::SET_LEVEL, params);
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
    fn handle_log(&mut self, to: &To<InternalCall<T>>, record: &Message) {
        let mut wanting = self.calls.iter().filter(|(_, call)| call.level.is_some());
        let number = match to {
            To::Call(InternalCall::Call { number, .. }) => Some(*number),
            _ if self.has_native_asking() => None,
            _ => wanting.next().filter(|_| wanting.next().is_none()).map(|(&number, _)| number),
        };
        let call = number.and_then(|number| self.calls.get(&number));
        let wants = |least| method::is_grave(record, least);
        if let Some(call) = call.filter(|call| call.level.is_some_and(wants)) {
            let to = To::Call(call.ticket.clone());
            self.to_client.push_back(ServerEvent::Note { to, message: record.clone() });
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
        let late = |call: &ModernClientCall<T>| {
            call.lingers.as_ref().is_some_and(|(_, until)| *until <= now)
        };
        let due = self.calls.iter().filter(|(_, call)| late(call)).map(|(&number, _)| number);
        for number in due.collect::<Vec<_>>() {
            let answer = self.calls.get_mut(&number).and_then(|call| call.lingers.take());
            if let Some((answer, _)) = answer {
                self.finish(number, answer, now);
            }
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
        self.inner.put_on(ask, call.inner, now);
        let to = To::Call(call.ticket.clone());
        let guess = guessed.then(|| (request.clone(), call.client.clone()));
        self.asks.insert(ask, RoutedQuestion { number, guess });
        self.to_client.push_back(ServerEvent::Ask { to, ask, request });
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
    fn handle_recall(&mut self, ask: Ask, message: Message) {
        self.recall_question(ask);
        let asked = self.asks.remove(&ask);
        if let Some(call) = asked.and_then(|asked| self.calls.get(&asked.number)) {
            let to = To::Call(call.ticket.clone());
            self.to_client.push_back(ServerEvent::Recall { to, ask, message });
        }
    }

    /// A client answers a question.
    pub fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        let asked = self.asks.remove(&ask);
        if !asked.is_some_and(|asked| self.visited(asked.number, ask, answer, now)) {
            self.inner.supply(ask, answer, now);
        }
        self.translate(now);
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
                    let words = Message::notification(method::CANCELLED, None);
                    let to = To::Call(ticket.clone());
                    self.to_client.push_back(ServerEvent::Recall { to, ask, message: words });
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
        let to = To::Call(call.ticket.clone());
        let mut waiting = BTreeSet::new();
        for request in pages {
            let ask = Ask(self.next_ask);
            self.next_ask += 1;
            waiting.insert(ask);
            self.asks.insert(ask, RoutedQuestion { number, guess: None });
            self.to_client.push_back(ServerEvent::Ask { to: to.clone(), ask, request });
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

impl<T> ModernClientCall<T> {
    /// Whether the server has it, has not answered it, and may want to know something for it.
    fn may_ask(&self) -> bool {
        let is_there = self.inner != CallId::DONE && self.visit.is_none();
        is_there && self.lingers.is_none() && method::may_ask(self.request.method())
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
