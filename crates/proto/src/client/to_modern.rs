//! A server of the era without a handshake, for clients of the era with one.
//!
//! ```text
//!   initialize ──▶ server/discover ──▶ answered from what that says          (GW-10)
//!   a call ─────▶ the call in an envelope ──▶ its result, in older words     (GW-12, GW-70)
//!                     ▲         │ input_required
//!                     └─ again ─┴─▶ ServerEvent::Ask for each entry, ClientEvent::Supply     (GW-14)
//!   subscribe ──▶ one listen for all that is watched ──▶ notes               (GW-22, GW-23)
//!   tasks ──────▶ those of the extension, in older words                     (GW-27)
//!   ping, setLevel, initialized: answered or kept here                       (GW-20, GW-21)
//! ```
//!
//! A layer on [`ModernClientHalf`]: that one knows the server, this one knows what its
//! clients expect of a server. It opens calls of its own there, and turns what
//! comes of them into the six verbs of a legacy conversation.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::modern::ModernClientHalf;
use super::tasks::task_request;
use super::{EventQueue, InternalCall, Sharing, Ticket};
use crate::Table;
use crate::exchange::{Ask, Carrier, HeaderParams, ServerEvent, To, take_number};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Member, Message, Part, quoted};
use crate::limits::Limits;
use crate::method::{self, meta};
use crate::project::{self, Envelope, identity, modern_capabilities, unmarked};
use crate::refusal::{Refusal, code};
use crate::revision::{Era, Revision};
use extension_tasks::{ExtensionTasks, Tasking};
use listen_stream::{ListenStream, Pause};
use wrapped_tools::WrappedTools;

mod extension_tasks;
mod listen_stream;
mod wrapped_tools;

/// One modern server, as its legacy clients see it.
#[derive(Debug)]
pub struct ToModern<T> {
    pub(super) inner: ModernClientHalf<InternalCall<T>>,
    next_call: u64,
    calls: BTreeMap<u64, LegacyClientCall<T>>,
    sessions: Table<u64, LegacyClient>,
    /// For clients that are introduced by somebody else.
    anybody: Option<LegacyClient>,
    /// What the server said of itself.
    discovered: Option<Message>,
    greeters: Vec<T>,
    next_ask: u64,
    listening: ListenStream<T>,
    tasks: ExtensionTasks,
    tools: WrappedTools,
    pub(super) to_client: EventQueue<T>,
}

/// What is known of a client.
#[derive(Clone, Debug)]
struct LegacyClient {
    revision: Revision,
    envelope: Envelope,
}

#[derive(Debug)]
struct LegacyClientCall<T> {
    ticket: T,
    /// In its client's words.
    request: Message,
    rounds: u32,
    round: Option<InputRound>,
    /// What its client is being asked: by that round, or by the task that it waits for.
    asked: BTreeMap<Ask, InputEntry>,
    /// How far it has got, for progress only grows (GW-19).
    progress: Option<f64>,
    tasking: Tasking,
    /// What it came to, while it is found out in which shape its client expects that.
    answer: Option<Message>,
}

impl<T: Ticket> ToModern<T> {
    /// A server that has been asked nothing yet.
    pub fn new(carrier: Carrier, sharing: Sharing, limits: &Limits) -> Self {
        Self {
            inner: ModernClientHalf::new(carrier, sharing, limits),
            next_call: 1,
            calls: BTreeMap::new(),
            sessions: Table::default(),
            anybody: None,
            discovered: None,
            greeters: Vec::new(),
            next_ask: 1,
            listening: ListenStream::default(),
            tasks: ExtensionTasks::default(),
            tools: WrappedTools::default(),
            to_client: EventQueue(VecDeque::new()),
        }
    }

    /// Numbers questions from here on, so that several servers' do not collide.
    #[must_use]
    pub fn asking_from(mut self, first: u64) -> Self {
        self.next_ask = first;
        self
    }

    /// Takes every client for the one that said this `initialize`.
    #[must_use]
    pub fn greeted_with(mut self, hello: &Message) -> Self {
        self.anybody = Some(LegacyClient::greet(hello));
        self
    }

    /// What the user allows.
    fn limits(&self) -> &Limits {
        &self.inner.ledger.limits
    }

    /// A client opens a call.
    pub(super) fn open(&mut self, ticket: T, request: &Message, said: &HeaderParams, now: Instant) {
        self.listen_after(Pause::Rest, now);
        if ticket.is_native() {
            return self.inner.open(InternalCall::Native(ticket), request, said, now);
        }
        match request.method() {
            method::INITIALIZE => self.greet(ticket, request, now),
            method::PING => self.answer(ticket, b"{}"),
            method::SET_LEVEL => self.set_level(ticket, request),
            method::SUBSCRIBE => self.subscribe(ticket, request, now),
            method::UNSUBSCRIBE => self.unsubscribe(ticket, request, now),
            name if method::is_about_core_tasks(name) => self.task_call(ticket, request, now),
            name if method::is_modern_only(name) || method::is_legacy_only(name) => {
                self.to_client.finish(ticket, Refusal::unknown_method(name));
            }
            name => {
                let names_task = request.part(Member::Task).is_some_and(Part::is_object);
                let may_be_task = names_task && name == method::CALL_TOOL;
                let is_wanted = may_be_task && self.offers_tasks(&ticket);
                let tasking = if is_wanted { Tasking::Wanted } else { Tasking::Nothing };
                self.call(ticket, request, tasking, now);
            }
        }
    }

    fn call(&mut self, ticket: T, request: &Message, tasking: Tasking, now: Instant) {
        if self.calls.len() >= self.limits().calls.saturating_mul(4) {
            return self.to_client.finish(ticket, Refusal::TooManyCalls);
        }
        let number = take_number(&mut self.next_call);
        let call = LegacyClientCall {
            ticket,
            request: request.clone(),
            rounds: 0,
            round: None,
            asked: BTreeMap::new(),
            progress: None,
            tasking,
            answer: None,
        };
        self.calls.insert(number, call);
        self.begin(number, None, now);
    }

    /// Makes a call at the server, or another in its place.
    fn begin(&mut self, number: u64, instead: Option<&Message>, now: Instant) {
        let Some(call) = self.calls.get(&number) else { return };
        let request = match (instead, &call.tasking) {
            (Some(instead), _) => instead.clone(),
            (None, Tasking::Wait(wait)) => task_request(method::GET_TASK, &wait.id),
            (None, _) => call.request.clone(),
        };
        let envelope = self.envelope_of(&call.ticket).taking_tasks(call.tasking.declares());
        let call = InternalCall::Call { number, ticket: call.ticket.clone() };
        self.inner.open(call, &envelope.put_on(&request), &None, now);
    }

    fn session_of(&self, ticket: &T) -> Option<&LegacyClient> {
        self.sessions.get(&ticket.owner()).or(self.anybody.as_ref())
    }

    fn envelope_of(&self, ticket: &T) -> Envelope {
        self.session_of(ticket).map_or_else(Envelope::ours, |session| session.envelope.clone())
    }

    fn revision_of(&self, ticket: &T) -> Revision {
        self.session_of(ticket).map_or(Revision::ASSUMED, |session| session.revision)
    }

    /// Answers a call without the server.
    fn answer(&mut self, to: T, result: &[u8]) {
        self.to_client.finish(to, Message::result(&Id::from(0), result));
    }

    /// A client says something that wants no answer.
    pub(super) fn note(&mut self, message: Message, now: Instant) {
        match message.method() {
            method::INITIALIZED => {
                self.listening.ready = true;
                self.listen_anew(now);
            }
            // The server asks when it wants to know (GW-24).
            name if method::is_legacy_notice(name) => {}
            _ => self.inner.note(message, now),
        }
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub(super) fn drop_call(&mut self, ticket: &T, words: Option<&Message>, now: Instant) {
        if ticket.is_native() {
            return self.inner.drop_call(&InternalCall::Native(ticket.clone()), words, now);
        }
        self.drop_calls(|theirs| theirs == ticket, words, now);
    }

    fn drop_calls(&mut self, is_meant: impl Fn(&T) -> bool, words: Option<&Message>, now: Instant) {
        let meant = self.calls.extract_if(.., |_, call| is_meant(&call.ticket));
        for (number, call) in meant.collect::<Vec<_>>() {
            self.recall_round(&call);
            let inner = InternalCall::Call { number, ticket: call.ticket.clone() };
            self.inner.drop_call(&inner, words, now);
            self.leave_task(&call, now);
        }
    }

    /// A client is gone for good.
    pub(super) fn forget_owner(&mut self, owner: u64, now: Instant) {
        self.sessions.remove(&owner);
        self.greeters.retain(|ticket| ticket.owner() != owner);
        self.drop_calls(|ticket| ticket.owner() == owner, None, now);
        self.inner.forget_owner(owner, now);
        self.forget_watcher(owner, now);
        self.tasks.forget(owner);
    }

    /// The link is gone. Every open call fails with `why`.
    pub(super) fn handle_lost(&mut self, why: &Failure, now: Instant) {
        self.inner.handle_lost(why, now);
        self.translate(now);
        self.tasks.lose();
        // Those whose client is being asked have no call at the server.
        for (_, call) in std::mem::take(&mut self.calls) {
            self.recall_round(&call);
            self.to_client.finish(call.ticket, why.clone());
        }
    }

    /// Time has reached `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.translate(now);
        self.end_late_rounds(now);
        if self.tools.due().is_some_and(|until| until <= now) {
            self.finish_waiting(now);
        }
        self.poll_tasks(now);
        self.tasks.expire(now);
        self.handle_listen_timeout(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let rounds = self.calls.values().filter_map(|call| Some(call.round.as_ref()?.until));
        let polls = self.calls.values().filter_map(|call| call.tasking.due());
        let ours = polls.chain(self.tasks.due()).chain(self.tools.due());
        rounds.chain(ours).chain(self.inner.poll_timeout()).chain(self.listening.due()).min()
    }

    /// Turns what the server said into what its clients understand.
    pub(super) fn translate(&mut self, now: Instant) {
        while let Some(down) = self.inner.to_client.0.pop_front() {
            match down {
                ServerEvent::Note { to: To::Call(to), message } => match to {
                    InternalCall::Call { number, ticket } => {
                        self.handle_note(number, ticket, message);
                    }
                    InternalCall::Listen(number) => self.handle_heard(number, &message, now),
                    InternalCall::Native(to) => self.to_client.note(To::Call(to), message),
                    _ => {}
                },
                ServerEvent::Finish { to, outcome } => self.handle_finish(to, outcome, now),
                // A modern server asks nothing and says nothing that belongs to no call.
                _ => {}
            }
        }
    }

    fn handle_finish(&mut self, to: InternalCall<T>, outcome: Outcome, now: Instant) {
        match (to, outcome) {
            (InternalCall::Call { number, .. }, Outcome::Answered(answer)) => {
                self.listen_after(Pause::Away, now);
                self.handle_answer(number, &answer, now);
            }
            (InternalCall::Call { number, .. }, failed) => self.finish(number, failed),
            (InternalCall::Native(to), outcome) => self.to_client.finish(to, outcome),
            (InternalCall::Meet, outcome) => self.handle_discovered(outcome, now),
            (InternalCall::Tools, outcome) => self.handle_tools(outcome.result(), now),
            (InternalCall::Listen(number), outcome) => {
                self.handle_listen_over(number, &outcome, now);
            }
            _ => {}
        }
    }

    /// Whether the server has told of itself, or a client has.
    pub(super) fn is_met(&self) -> bool {
        self.discovered.is_some() || !self.sessions.is_empty()
    }

    /// How many calls of clients are open.
    pub(super) fn calls(&self) -> usize {
        let open = self.inner.ledger.open.values();
        let native = open.filter_map(|call| call.owner.ticket.native());
        let native = native.filter(|ticket| ticket.counts()).count();
        let waiting = self.greeters.len() + self.listening.subscribers.len();
        self.calls.len() + waiting + native
    }

    /// How many of them only wait to hear of changes.
    pub(super) fn listeners(&self) -> usize {
        self.listening.subscribers.len()
    }
}

// Answers of the server in the words of a legacy client.

impl<T: Ticket> ToModern<T> {
    /// Something on the way to an answer.
    fn handle_note(&mut self, number: u64, ticket: T, message: Message) {
        if message.method() == method::PROGRESS {
            let Some(call) = self.calls.get_mut(&number) else { return };
            let value = message.get(Member::Progress);
            let value = value.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            if value.is_some_and(|value: f64| call.progress.is_some_and(|last| value <= last)) {
                return;
            }
            call.progress = value.or(call.progress);
        }
        let message =
            if method::is_for_all(message.method()) { unmarked(&message) } else { message };
        self.to_client.note(To::Call(ticket), message);
    }

    /// The server answered a call.
    fn handle_answer(&mut self, number: u64, answer: &Message, now: Instant) {
        if self.handle_standing(number, answer, now) || self.try_as_task(number, answer, now) {
            return;
        }
        let Some(call) = self.calls.get(&number) else { return };
        let method = call.request.method();
        match answer.result_type().as_deref() {
            Some("input_required") if method::may_ask(method) => {
                self.begin_round(number, answer, now);
            }
            Some("task") if call.tasking.declares() => self.handle_created(number, answer, now),
            None if answer.error_code() == Some(code::MISSING_CAPABILITY) => {
                // It was told all that this client declared (GW-29).
                self.fail(number, &answer.error_message());
            }
            None | Some("complete") if method == method::CALL_TOOL => {
                self.finish_tool(number, answer, now);
            }
            None | Some("complete") => {
                let older = self.older(&call.ticket, answer, method);
                if method == method::LIST_TOOLS {
                    self.tools.learn(answer);
                }
                self.finish(number, older);
            }
            Some(other) => {
                let what = format!("the server answered with an unknown resultType, {other:?}");
                self.finish(number, Failure::translation(what));
            }
        }
    }

    /// A call is over.
    fn finish(&mut self, number: u64, outcome: impl Into<Outcome>) {
        if let Some(call) = self.calls.remove(&number) {
            self.recall_round(&call);
            self.to_client.finish(call.ticket, outcome);
        }
    }

    /// An answer as this client reads it.
    fn older(&self, ticket: &T, answer: &Message, method: &str) -> Outcome {
        let outcome = older_answer(answer, method, self.revision_of(ticket), false);
        let lists = method == method::LIST_TOOLS && self.offers_tasks(ticket);
        match outcome.result().filter(|_| lists) {
            Some(list) => extension_tasks::may_be_tasks(list).into(),
            None => outcome,
        }
    }
}

/// An answer of a modern server in the words of a legacy client (GW-29, GW-70);
/// `wrapped` if that of a tool whose structure its client expects so.
fn older_answer(answer: &Message, method: &str, revision: Revision, wrapped: bool) -> Outcome {
    if answer.kind() == Kind::Error {
        return project::error_for_legacy(answer, method).into();
    }
    let own = answer.without_meta(&[Member::MetaServer]);
    let result = project::legacy(own.payload_bytes(), method, revision, || wrapped);
    result.map(|result| answer.with_payload(&result)).into()
}

// The handshake with a server that has none.

impl LegacyClient {
    fn greet(hello: &Message) -> Self {
        let asked = hello.string(Member::ProtocolVersion).unwrap_or_default();
        // Never a modern one (NEG-11).
        let known = Revision::parse(&asked).filter(|revision| revision.era() == Era::Legacy);
        let revision = known.unwrap_or(Revision::NEWEST_LEGACY);
        let client = hello.part(Member::ClientInfo).filter(|it| it.is_object());
        let envelope = Envelope {
            capabilities: modern_capabilities(hello, revision),
            client: client.map(|it| Bytes::copy_from_slice(it.text())),
            level: None,
        };
        Self { revision, envelope }
    }
}

impl<T: Ticket> ToModern<T> {
    /// A client says hello: we know the answer, or ask the server about itself.
    fn greet(&mut self, ticket: T, request: &Message, now: Instant) {
        if self.greeters.len() >= self.limits().calls.saturating_mul(4) {
            return self.to_client.finish(ticket, Refusal::TooManyCalls);
        }
        self.sessions.insert(ticket.owner(), LegacyClient::greet(request));
        if let Some(discovered) = self.discovered.clone() {
            return self.welcome(ticket, &discovered);
        }
        self.greeters.push(ticket);
        let mut open = self.inner.ledger.open.values();
        if !open.any(|call| call.owner.ticket == InternalCall::Meet) {
            let question = Message::request(&0.into(), method::DISCOVER, Some(b"{}"));
            let question = Envelope::ours().put_on(&question);
            self.inner.open(InternalCall::Meet, &question, &None, now);
        }
    }

    fn handle_discovered(&mut self, outcome: Outcome, now: Instant) {
        let outcome = outcome.and_then(|it| project::welcome_within_bounds(it).cloned().into());
        let greeters = std::mem::take(&mut self.greeters);
        let Some(answer) = outcome.result() else {
            let older = |it: &Message| older_answer(it, method::DISCOVER, Revision::ASSUMED, false);
            let outcome = outcome.and_then(older);
            for to in greeters {
                self.sessions.remove(&to.owner());
                self.to_client.finish(to, outcome.clone());
            }
            return;
        };
        self.discovered = Some(answer.clone());
        for ticket in greeters {
            self.welcome(ticket, answer);
        }
        if self.listening.ready {
            self.listen_anew(now);
        }
    }

    /// The answer to `initialize`, from what the server says of itself (GW-10).
    fn welcome(&mut self, ticket: T, discovered: &Message) {
        let mut capabilities = discovered.value(Member::Capabilities).unwrap_or_else(|| json!({}));
        if let Some(all) = capabilities.as_object_mut() {
            all.retain(|name, _| !matches!(name.as_str(), "extensions" | "tasks"));
            if self.offers_tasks(&ticket) {
                let requests = json!({"tools": {"call": {}}});
                let tasks = json!({"cancel": {}, "list": {}, "requests": requests});
                all.insert("tasks".to_owned(), tasks);
            }
        }
        let mut about: Map<String, Value> = discovered.read(Member::Meta).unwrap_or_default();
        let server = about.remove(meta::SERVER).filter(Value::is_object);
        let mut result = json!({
            "protocolVersion": self.revision_of(&ticket).as_str(),
            "capabilities": capabilities,
            "serverInfo": server.unwrap_or_else(identity),
        });
        if !about.is_empty() {
            result["_meta"] = about.into();
        }
        if let Some(instructions) = discovered.value(Member::Instructions) {
            result["instructions"] = instructions;
        }
        self.answer(ticket, result.to_string().as_bytes());
    }

    /// Which log records a client wants, from its next call on (GW-20).
    fn set_level(&mut self, ticket: T, request: &Message) {
        let level = request.string(Member::Level).unwrap_or_default();
        if method::severity(&level).is_none() {
            let why = Refusal::bad_params("params.level must be the name of a level");
            return self.to_client.finish(ticket, why);
        }
        if self.discovered.as_ref().is_some_and(|it| it.capability(&["logging"]).is_none()) {
            let why = Refusal::unknown_method(method::SET_LEVEL);
            return self.to_client.finish(ticket, why);
        }
        if let Some(session) = self.sessions.get_mut(&ticket.owner()) {
            session.envelope.level = Some(level.into());
        }
        self.answer(ticket, b"{}");
    }
}

// Rounds of questions: a server that answers "input required", and a client
// that takes requests (GW-14).
//
// ```text
//   input_required ──▶ every entry can be asked? ──no──▶ the call fails         (GW-16)
//                          │ yes: a request for each
//                          ▼
//                       waiting ──all answered──▶ the call again, with state    (MRTR-5)
//                          │ an error: elicitation counts as cancelled,
//                          └ sampling and roots fail the call: no slot for it   (MRTR-10)
// ```

/// Rounds that one call may take: the SDKs stop at eight or ten.
const MOST_ROUNDS: u32 = 10;

/// Questions of one round.
const MOST_ENTRIES: usize = 64;

/// How long a server that only wants to be asked again is left in peace (MRTR-6).
const PACE: Duration = Duration::from_millis(250);

/// What a call waits for.
#[derive(Debug)]
struct InputRound {
    /// To be brought back byte for byte.
    state: Option<Bytes>,
    /// Members of `inputResponses`.
    answers: Vec<Vec<u8>>,
    /// When the wait is over, one way or the other.
    until: Instant,
}

/// One thing that the server wants to know.
#[derive(Debug)]
struct InputEntry {
    key: String,
    method: String,
    params: Bytes,
}

impl InputEntry {
    /// What its client answers, as a member of `inputResponses`; why the call fails, if there
    /// is no slot for it.
    fn answer(&self, answer: &Message) -> Result<Vec<u8>, String> {
        let answer = match (answer.kind(), self.method.as_str()) {
            (Kind::Result, _) => answer.payload_bytes(),
            (_, method::ELICIT) => Bytes::from_static(br#"{"action":"cancel"}"#),
            (_, kind) => {
                let why = answer.error_message();
                return Err(format!("the client did not answer {kind}: {why}"));
            }
        };
        Ok([quoted(&self.key).as_bytes(), b":", &answer].concat())
    }
}

impl<T: Ticket> ToModern<T> {
    /// The server wants to know something first.
    fn begin_round(&mut self, number: u64, answer: &Message, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.rounds += 1;
        let entries = entries(answer);
        if call.rounds > MOST_ROUNDS || entries.len() > MOST_ENTRIES {
            return self.fail(number, "the server has asked too often");
        }
        let requests = match self.in_older_words(number, &entries) {
            Ok(requests) => requests,
            Err(needed) => return self.fail(number, &format!("the server needs {needed}")),
        };
        if !self.may_ask(entries.len()) {
            return self.fail(number, "too many questions are open");
        }
        let until = now + if entries.is_empty() { PACE } else { self.limits().park };
        let state = answer.get(Member::RequestState).map(Bytes::copy_from_slice);
        let round = InputRound { state, answers: Vec::new(), until };
        self.calls.entry(number).and_modify(|call| call.round = Some(round));
        self.ask_entries(number, entries, requests);
    }

    /// Whether so many questions may be asked besides those that are open.
    fn may_ask(&self, more: usize) -> bool {
        let open: usize = self.calls.values().map(|call| call.asked.len()).sum();
        open + more <= self.limits().asks
    }

    /// What the client is asked for each entry; what is needed, if one of them cannot be asked.
    fn in_older_words(&self, number: u64, entries: &[InputEntry]) -> Result<Vec<Message>, String> {
        let call = self.calls.get(&number);
        let session = call.and_then(|call| self.session_of(&call.ticket));
        let asked = entries.iter().zip(self.next_ask..).map(|(entry, ask)| {
            let InputEntry { key, method, params } = entry;
            let session = session?;
            project::permits(&session.envelope.capabilities, method, params).then_some(())?;
            let id = format!("switchboard-{ask}");
            let params = project::legacy_question(method, params, session.revision, &id)?;
            Some(Message::request(&Id::Text(key.as_str().into()), method, Some(&params)))
        });
        asked.collect::<Option<_>>().ok_or_else(|| {
            let kinds: Vec<_> = entries.iter().map(|entry| entry.method.as_str()).collect();
            format!("{}, which this client cannot answer", kinds.join(", "))
        })
    }

    /// Asks the client of a call for these entries.
    fn ask_entries(&mut self, number: u64, entries: Vec<InputEntry>, requests: Vec<Message>) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        for (entry, request) in entries.into_iter().zip(requests) {
            let ask = Ask(take_number(&mut self.next_ask));
            self.to_client.ask(To::Call(call.ticket.clone()), ask, request);
            call.asked.insert(ask, entry);
        }
    }

    /// A client answers a question.
    pub(super) fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        let mut calls = self.calls.iter_mut();
        let asked = calls.find_map(|(&number, it)| Some((number, it.asked.remove(&ask)?, it)));
        let Some((number, entry, call)) = asked else { return };
        let answer = match entry.answer(answer) {
            Ok(answer) => answer,
            Err(what) => return self.fail(number, &what),
        };
        if let Tasking::Wait(wait) = &mut call.tasking {
            wait.due = Some(now);
            let update = task_request(method::UPDATE_TASK, &wait.id);
            let update = update.with(Member::InputResponses, object_of(&[answer]));
            let to = call.ticket.clone();
            self.tell_aside(&to, &update, now);
        } else if let Some(round) = &mut call.round {
            round.answers.push(answer);
            if call.asked.is_empty() {
                self.go_on(number, now);
            }
        }
    }

    /// The call again, under another id, with what the server asked for (MRTR-5).
    fn go_on(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let Some(round) = call.round.take() else { return };
        let mut request = call.request.clone();
        if let Some(state) = round.state {
            request = request.with(Member::RequestState, state);
        }
        if !round.answers.is_empty() {
            request = request.with(Member::InputResponses, object_of(&round.answers));
        }
        self.begin(number, Some(&request), now);
    }

    /// Goes on with calls whose server wants to be asked again, and gives up on
    /// clients that do not answer.
    fn end_late_rounds(&mut self, now: Instant) {
        let is_late =
            |call: &LegacyClientCall<T>| call.round.as_ref().is_some_and(|it| it.until <= now);
        let late = self.calls.iter().filter(|(_, call)| is_late(call));
        let late = late.map(|(&number, call)| (number, call.asked.is_empty()));
        for (number, may_go_on) in late.collect::<Vec<_>>() {
            if may_go_on {
                self.go_on(number, now);
            } else {
                self.fail(number, "the client did not answer in time");
            }
        }
    }

    /// What was asked is not wanted any more.
    fn recall_round(&mut self, call: &LegacyClientCall<T>) {
        for &ask in call.asked.keys() {
            self.to_client.recall(To::Call(call.ticket.clone()), ask);
        }
    }

    /// The call cannot go on: models read a failed result, others an error (GW-16).
    fn fail(&mut self, number: u64, what: &str) {
        let Some(call) = self.calls.get(&number) else { return };
        let outcome: Outcome = if call.request.method() == method::CALL_TOOL {
            let content = json!([{"type": "text", "text": what}]);
            let result = json!({"content": content, "isError": true}).to_string();
            Message::result(&Id::from(0), result.as_bytes()).into()
        } else {
            Failure::translation(what).into()
        };
        self.finish(number, outcome);
    }
}

/// An object of these members.
fn object_of(members: &[Vec<u8>]) -> Vec<u8> {
    [b"{", members.join(&b","[..]).as_slice(), b"}"].concat()
}

/// What a result, or the state of a task, asks for.
fn entries(answer: &Message) -> Vec<InputEntry> {
    let requests = answer.part(Member::InputRequests).into_iter().flat_map(Part::members);
    let entry = |(key, request): (String, Part<'_>)| InputEntry {
        key,
        method: request.string("method").unwrap_or_default().into_owned(),
        params: Bytes::copy_from_slice(request.get(&["params"]).map_or(b"{}", Part::text)),
    };
    requests.map(entry).collect()
}

#[cfg(test)]
mod tests;
