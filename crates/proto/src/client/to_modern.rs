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

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::across::Envelope;
use super::modern::ModernClientHalf;
use super::{CallId, InternalCall, Sharing, Ticket, Transmit};
use crate::exchange::{Ask, Carrier, HeaderParams, Lane, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::Refusal;
use crate::revision::Revision;
use extension_tasks::{ExtensionTasks, Tasking};
use input_rounds::InputRound;
use listen_stream::ListenStream;
use wrapped_tools::WrappedTools;

mod extension_tasks;
mod input_rounds;
mod listen_stream;
mod older_answers;
mod wrapped_tools;

/// One modern server, as its legacy clients see it.
#[derive(Debug)]
pub struct ToModern<T> {
    inner: ModernClientHalf<InternalCall<T>>,
    sharing: Sharing,
    most_calls: usize,
    most_asks: usize,
    patience: Duration,
    next_call: u64,
    calls: BTreeMap<u64, LegacyClientCall<T>>,
    sessions: HashMap<u64, ClientSession>,
    /// For clients that are introduced by somebody else.
    anybody: Option<ClientSession>,
    /// What the server said of itself.
    discovered: Option<Message>,
    greeters: Vec<T>,
    asking: bool,
    next_ask: u64,
    /// The call that each question belongs to.
    asks: BTreeMap<Ask, u64>,
    listening: ListenStream<T>,
    tasks: ExtensionTasks,
    tools: WrappedTools,
    down: VecDeque<ServerEvent<T>>,
}

/// What is known of a client.
#[derive(Clone, Debug)]
struct ClientSession {
    revision: Revision,
    envelope: Envelope,
}

#[derive(Debug)]
struct LegacyClientCall<T> {
    ticket: T,
    /// In its client's words.
    request: Message,
    /// As the server knows it now.
    inner: CallId,
    rounds: u32,
    round: Option<InputRound>,
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
            sharing,
            most_calls: limits.calls,
            most_asks: limits.asks,
            patience: limits.park,
            next_call: 1,
            calls: BTreeMap::new(),
            sessions: HashMap::new(),
            anybody: None,
            discovered: None,
            greeters: Vec::new(),
            asking: false,
            next_ask: 1,
            asks: BTreeMap::new(),
            listening: ListenStream::default(),
            tasks: ExtensionTasks::new(limits.tasks, limits.total),
            tools: WrappedTools::default(),
            down: VecDeque::new(),
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
        self.anybody = Some(ClientSession::greet(hello));
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
        self.listen_after_rest(now);
        if ticket.is_native() {
            let id = self.inner.open(InternalCall::Native(ticket), request, said, now);
            self.translate(now);
            return id.mark_native();
        }
        let id = match request.method() {
            method::INITIALIZE => self.greet(ticket, request, now),
            method::PING => self.answer(ticket, b"{}"),
            method::SET_LEVEL => self.set_level(ticket, request),
            method::SUBSCRIBE => self.subscribe(ticket, request, now),
            method::UNSUBSCRIBE => self.unsubscribe(ticket, request, now),
            name if method::is_about_core_tasks(name) => self.task_call(ticket, request, now),
            name if method::is_modern_only(name) || method::is_legacy_only(name) => {
                let method = name.to_owned();
                self.refuse(ticket, Refusal::UnknownMethod { method })
            }
            _ => {
                let tasking = self.tasking_of(&ticket, request);
                self.call(ticket, request, tasking, now)
            }
        };
        self.translate(now);
        id
    }

    fn call(&mut self, ticket: T, request: &Message, tasking: Tasking, now: Instant) -> CallId {
        if self.calls.len() >= self.most_calls.saturating_mul(4) {
            return self.refuse(ticket, Refusal::TooManyCalls);
        }
        let number = self.next_call;
        self.next_call += 1;
        let (request, inner, first) = (request.clone(), CallId::DONE, tasking.first());
        let (rounds, round, progress, answer) = (0, None, None, None);
        let call =
            LegacyClientCall { ticket, request, inner, rounds, round, progress, tasking, answer };
        self.calls.insert(number, call);
        self.begin(number, first.as_ref(), now);
        CallId(number)
    }

    /// Makes a call at the server, or another in its place.
    fn begin(&mut self, number: u64, instead: Option<&Message>, now: Instant) {
        let Some(call) = self.calls.get(&number) else { return };
        let envelope = self.envelope_of(&call.ticket).taking_tasks(call.tasking.declares());
        let sent = envelope.put_on(instead.unwrap_or(&call.request));
        let errand = InternalCall::Call { number, ticket: call.ticket.clone() };
        let inner = self.inner.open(errand, &sent, &None, now);
        if let Some(call) = self.calls.get_mut(&number) {
            call.inner = inner;
        }
    }

    fn session_of(&self, ticket: &T) -> Option<&ClientSession> {
        self.sessions.get(&ticket.owner()).or(self.anybody.as_ref())
    }

    fn envelope_of(&self, ticket: &T) -> Envelope {
        self.session_of(ticket).map_or_else(Envelope::ours, |session| session.envelope.clone())
    }

    fn revision_of(&self, ticket: &T) -> Revision {
        self.session_of(ticket).map_or(Revision::ASSUMED, |session| session.revision)
    }

    /// Answers a call without the server.
    fn answer(&mut self, to: T, result: &[u8]) -> CallId {
        let outcome = Message::result(&Id::from(0), result).into();
        self.down.push_back(ServerEvent::Finish { to, outcome });
        CallId::DONE
    }

    fn refuse(&mut self, to: T, why: impl Into<Failure>) -> CallId {
        self.down.push_back(ServerEvent::Finish { to, outcome: why.into().into() });
        CallId::DONE
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: Message, now: Instant) {
        match message.method() {
            method::INITIALIZED => {
                self.listening.ready = true;
                self.listen_anew(now);
            }
            // The server asks when it wants to know (GW-24).
            name if method::is_legacy_notice(name) => {}
            _ => self.inner.note(message),
        }
        self.translate(now);
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub fn drop_call(&mut self, id: CallId, words: Option<&Message>, now: Instant) {
        if let Some(native) = id.unmark_native() {
            self.inner.drop_call(native, words, now);
        } else if let Some(call) = self.calls.remove(&id.0) {
            self.recall_round(&call);
            self.inner.drop_call(call.inner, words, now);
            self.leave_task(&call, now);
        }
        self.translate(now);
    }

    /// A client is gone for good.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        self.sessions.remove(&owner);
        self.greeters.retain(|ticket| ticket.owner() != owner);
        let theirs = self.calls.iter().filter(|(_, call)| call.ticket.owner() == owner);
        for number in theirs.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.drop_call(CallId(number), None, now);
        }
        self.inner.forget_owner(owner, now);
        self.forget_watcher(owner, now);
        self.tasks.forget(owner);
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

    /// The link is gone. Every open call fails with `why`.
    pub fn handle_lost(&mut self, why: &Failure, now: Instant) {
        self.inner.handle_lost(why);
        self.translate(now);
        self.tasks.lose();
        // Those whose client is being asked have no call at the server.
        for (_, call) in std::mem::take(&mut self.calls) {
            self.recall_round(&call);
            self.refuse(call.ticket, why.clone());
        }
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        self.translate(now);
        self.end_late_rounds(now);
        self.end_late_listing(now);
        self.poll_tasks(now);
        self.tasks.expire(now);
        self.handle_listen_timeout(now);
        self.translate(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let rounds = self.calls.values().filter_map(|call| Some(call.round.as_ref()?.until));
        let polls = self.calls.values().filter_map(|call| call.tasking.due());
        let ours = polls.chain(self.tasks.due()).chain(self.tools.due());
        rounds.chain(ours).chain(self.inner.poll_timeout()).chain(self.listening.due()).min()
    }

    /// Turns what the server said into what its clients understand.
    fn translate(&mut self, now: Instant) {
        while let Some(down) = self.inner.poll_down() {
            match down {
                ServerEvent::Note {
                    to: To::Call(InternalCall::Call { number, ticket }),
                    message,
                } => {
                    self.handle_note(number, ticket, message);
                }
                ServerEvent::Note { to: To::Call(InternalCall::Listen(number)), message } => {
                    self.handle_heard(number, &message, now);
                }
                ServerEvent::Finish { to: InternalCall::Call { number, .. }, outcome } => {
                    match outcome {
                        Outcome::Answered(answer) => {
                            self.listen_to_who_answers(now);
                            self.handle_answer(number, &answer, now);
                        }
                        failed @ Outcome::Failed(_) => self.finish(number, failed),
                    }
                }
                ServerEvent::Note { to: To::Call(InternalCall::Native(to)), message } => {
                    self.down.push_back(ServerEvent::Note { to: To::Call(to), message });
                }
                ServerEvent::Finish { to: InternalCall::Native(to), outcome } => {
                    self.down.push_back(ServerEvent::Finish { to, outcome });
                }
                ServerEvent::Finish { to: InternalCall::Meet, outcome } => {
                    self.handle_discovered(outcome, now);
                }
                ServerEvent::Finish { to: InternalCall::Tools, outcome } => {
                    self.handle_tools(outcome.result(), now);
                }
                ServerEvent::Finish { to: InternalCall::Listen(number), outcome } => {
                    self.handle_listen_over(number, &outcome, now);
                }
                // A modern server asks nothing and says nothing that belongs to no call.
                ServerEvent::Note { .. }
                | ServerEvent::Ask { .. }
                | ServerEvent::Recall { .. }
                | ServerEvent::Unanswered { .. }
                | ServerEvent::Finish { .. } => {}
            }
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

    /// Whether the server has told of itself, or a client has.
    pub fn is_met(&self) -> bool {
        self.discovered.is_some() || !self.sessions.is_empty()
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        let call = self.calls.iter().find(|(_, call)| call.ticket == *ticket);
        let call = call.map(|(&number, _)| CallId(number));
        let native =
            || self.inner.find(&InternalCall::Native(ticket.clone())).map(CallId::mark_native);
        call.or_else(native)
    }

    /// How many calls of clients are open.
    pub fn calls(&self) -> usize {
        let native = self.inner.tickets().filter_map(InternalCall::native);
        let native = native.filter(|ticket| ticket.counts()).count();
        self.calls.len() + self.greeters.len() + self.listening.waiting() + native
    }
}

#[cfg(test)]
mod tests;
