//! A server of the era with a handshake.
//!
//! ```text
//!           initialize                 its result
//!   Away ──────────────▶ Greeting ───────────────────▶ Ready
//!    ▲                       │ its error                │
//!    └───────────────────────┴── link or session lost ──┘
//! ```
//!
//! Rules:
//! - The client's `initialize` passes; it is remembered, so that a server that
//!   was lost is greeted again by the next call, without the client's help.
//! - Calls that come while the server is being greeted are held, in order.
//! - When the link is lost every open call fails; none is sent twice. A call
//!   that the server refused for want of a session was not run, and is sent again once.
//! - Where the session belongs to one client, the ids of its requests pass, if they are numbers
//!   that go up. Ours are far above them from the first of them on. No id is used twice.
//! - Where clients share a server, its greeting is shared too, and what cannot
//!   be told whose it is goes to nobody.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use super::tasks::LISTS;
use super::{EventQueue, Ledger, OutstandingCall, Sharing, Ticket, Transmit, sole};
use crate::exchange::{Ask, Lane, ServerEvent, To, take_number};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Member, Message, Part};
use crate::limits::Limits;
use crate::method;
use crate::project::welcome_within_bounds;
use crate::refusal::Refusal;
use crate::watch::Watches;
use after_calls::{RecentlyCancelled, watcher};

pub(super) use after_calls::likely_call;

mod after_calls;

/// One legacy server.
#[derive(Debug)]
pub struct LegacyClientHalf<T> {
    sharing: Sharing,
    phase: GreetingPhase,
    /// The client's `initialize`, and what the server answered to it.
    pub(super) hello: Option<Message>,
    pub(super) welcome: Option<Message>,
    /// Clients that wait for somebody else's `initialize` to be answered.
    pub(super) greeters: Vec<T>,
    confirmed: bool,
    /// The call of the last greeting: what was sent before it went to another session.
    greeting: Lane,
    held: VecDeque<Transmit>,
    /// Calls of our own have no owner: greetings after the server was lost, and renewals of
    /// subscriptions and log levels.
    pub(super) ledger: Ledger<Option<T>>,
    pub(super) next_ask: u64,
    asks: BTreeMap<Ask, ServerQuestion<T>>,
    /// Without whose they were: those may be gone.
    answered: VecDeque<QuestionOrigin>,
    recently_cancelled: VecDeque<RecentlyCancelled<T>>,
    pub(super) watches: Watches,
    level: Option<Message>,
    /// The link was ended for nobody used it.
    pub(super) rested: bool,
    pub(super) out: VecDeque<Transmit>,
    pub(super) to_client: EventQueue<T>,
}

type CallToLegacy<T> = OutstandingCall<Option<T>>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum GreetingPhase {
    /// Not greeted, or lost.
    Away,
    Greeting,
    Ready,
}

#[derive(Debug)]
struct ServerQuestion<T> {
    origin: QuestionOrigin,
    to: To<T>,
    /// The calls whose time does not run until it is answered.
    holds: Vec<Lane>,
}

impl<T: Ticket> LegacyClientHalf<T> {
    /// A server that has been told nothing yet.
    pub fn new(sharing: Sharing, limits: &Limits) -> Self {
        Self {
            sharing,
            phase: GreetingPhase::Away,
            hello: None,
            welcome: None,
            greeters: Vec::new(),
            confirmed: false,
            greeting: Lane::MAIN,
            held: VecDeque::new(),
            ledger: Ledger::new(sharing, limits),
            next_ask: 1,
            asks: BTreeMap::new(),
            answered: VecDeque::new(),
            recently_cancelled: VecDeque::new(),
            watches: Watches::default(),
            level: None,
            rested: false,
            out: VecDeque::new(),
            to_client: EventQueue(VecDeque::new()),
        }
    }

    /// A server that is not there yet, but can be greeted with `hello` when it is needed.
    #[must_use]
    pub fn greeted_with(mut self, hello: Message) -> Self {
        self.hello = Some(hello);
        self
    }

    /// Numbers questions from here on, so that several servers' do not collide.
    #[must_use]
    pub fn asking_from(mut self, first: u64) -> Self {
        self.next_ask = first;
        self
    }

    /// A client opens a call.
    pub(super) fn open(&mut self, ticket: T, request: &Message, now: Instant) {
        if self.ledger.is_full() {
            return self.to_client.finish(ticket, Refusal::TooManyCalls);
        }
        if request.method() == method::INITIALIZE {
            return self.greet(ticket, request, now);
        }
        if self.answer_watch(&ticket, request) {
            return;
        }
        if request.method() == method::SET_LEVEL {
            self.level = Some(request.clone());
        }
        self.ensure_greeting(now);
        let watcher = watcher(&ticket);
        let (id, message) = self.begin(ticket, request, now);
        if request.method() == method::SUBSCRIBE
            && let Some(uri) = request.uri()
        {
            self.watches.ask(&uri, watcher, id.0);
        }
        self.send_in_order(id, message);
    }

    /// Starts a call of a client.
    fn begin(&mut self, ticket: T, request: &Message, now: Instant) -> (Lane, Message) {
        let own_id = request.id().filter(|_| ticket.has_own_id());
        self.ledger.begin_in_session(Some(ticket), request, own_id, now)
    }

    fn send(&mut self, lane: Lane, message: Message) {
        self.out.push_back(Transmit::Send { lane, message, headers: Vec::new() });
    }

    /// Sends now, or once the server has been greeted.
    fn send_in_order(&mut self, lane: Lane, message: Message) {
        let is_greeting = self.phase == GreetingPhase::Greeting;
        let queue = if is_greeting { &mut self.held } else { &mut self.out };
        queue.push_back(Transmit::Send { lane, message, headers: Vec::new() });
    }

    /// A client says something that wants no answer.
    pub(super) fn note(&mut self, message: Message, _now: Instant) {
        if message.method() == method::INITIALIZED && std::mem::replace(&mut self.confirmed, true) {
            return;
        }
        // What a server that does not answer was never told is not missed.
        let is_lost = self.phase == GreetingPhase::Away && self.hello.is_some();
        let is_full = self.held.len() >= self.ledger.limits.calls.saturating_mul(8);
        if !is_lost && !is_full {
            self.send_in_order(Lane::MAIN, message);
        }
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub(super) fn drop_call(&mut self, ticket: &T, words: Option<&Message>, now: Instant) {
        if let Some(id) = self.find(ticket) {
            self.cancel(id, words, now);
        }
    }

    fn cancel(&mut self, id: Lane, words: Option<&Message>, now: Instant) {
        let greets = |call: &&mut OutstandingCall<_>| call.request.method() == method::INITIALIZE;
        if let Some(call) = self.ledger.open.get_mut(&id).filter(greets) {
            // It cannot be cancelled (UTL-1), and others may wait for it.
            call.owner = None;
        } else if let Some(call) = self.ledger.end(id) {
            self.end_watch(id, &call, false);
            let is_sent = self.send_cancel(id, &call.wire_id, words);
            let may_await = |it: &&T| is_sent && words.is_some() && it.awaits_dropped();
            let awaits = call.owner.as_ref().filter(may_await).cloned();
            if is_sent && awaits.is_none() {
                self.out.push_back(Transmit::Abort { lane: id });
            }
            self.remember_cancelled(id, &call, awaits, now);
        }
    }

    /// A client is gone for good: its calls are cancelled, its questions refused.
    pub(super) fn forget_owner(&mut self, owner: u64, now: Instant) {
        let is_theirs = |ticket: &T| ticket.owner() == owner;
        // Also what was only asked for: the server may have taken it on already.
        let orphans = self.watches.forget(owner);
        let calls = self.ledger.select(|call| call.owner.as_ref().is_some_and(is_theirs));
        for id in calls.collect::<Vec<_>>() {
            self.cancel(id, None, now);
        }
        self.abandon_cancelled(owner);
        self.greeters.retain(|ticket| !is_theirs(ticket));
        let asked =
            self.asks.iter().filter(|(_, it)| matches!(&it.to, To::Call(to) if is_theirs(to)));
        for ask in asked.map(|(&ask, _)| ask).collect::<Vec<_>>() {
            self.refuse_ask(ask, now);
        }
        for uri in orphans {
            self.renew(method::UNSUBSCRIBE, &uri, now);
        }
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub(super) fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        match message.kind() {
            Kind::Request => self.handle_request(lane, message, now),
            Kind::Notification => self.handle_notification(lane, message, now),
            Kind::Result | Kind::Error => self.handle_answer(message, now),
        }
    }

    fn handle_answer(&mut self, answer: &Message, now: Instant) {
        let Some((id, call)) = self.ledger.answer(answer, now) else {
            return self.finish_cancelled(answer);
        };
        self.end_watch(id, &call, answer.kind() == Kind::Result);
        if call.request.method() == method::INITIALIZE {
            self.handle_welcome(answer, call.owner.is_none(), now);
        }
        if let Some(to) = call.owner {
            self.to_client.finish(to, answer.clone());
        }
    }

    fn handle_notification(&mut self, lane: Lane, message: &Message, now: Instant) {
        let alone = self.sharing == Sharing::Alone;
        let mut message = message.clone();
        let (call, is_for_all) = match message.method() {
            method::CANCELLED => return self.handle_recall(message, now),
            // A task reports under the token of a call that has been answered.
            method::PROGRESS => match self.ledger.progress(&message, now) {
                Some((id, renamed)) => {
                    message = renamed;
                    (self.ticket(id), false)
                }
                None => (None, alone),
            },
            method::LOG => {
                let sole = if alone { sole(self.ledger.asking()) } else { self.ledger.only() };
                (self.ticket(lane).or_else(|| self.ticket(sole?)), alone)
            }
            name => (self.ticket(lane), alone || method::is_for_all(name)),
        };
        match call.cloned() {
            Some(ticket) => self.to_client.note(To::Call(ticket), message),
            None if is_for_all => self.to_client.note(To::Session, message),
            None => {}
        }
    }

    /// A call's lane ended without its answer.
    pub(super) fn handle_unanswered(&mut self, lane: Lane, why: &Failure) {
        match self.ledger.end(lane) {
            Some(call) => self.handle_failure(lane, call, &why.clone().into()),
            None => self.end_cancelled_lane(lane),
        }
    }

    fn handle_failure(&mut self, id: Lane, call: CallToLegacy<T>, why: &Outcome) {
        self.end_watch(id, &call, false);
        if let Some(to) = call.owner {
            self.to_client.finish(to, why.clone());
        }
        if call.request.method() == method::INITIALIZE {
            self.give_up_greeting(why);
        }
    }

    /// Time has reached `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, call)) = self.ledger.expired(now) {
            if call.request.method() != method::INITIALIZE {
                self.withdraw(id, &call.wire_id);
                self.remember_cancelled(id, &call, None, now);
            }
            let why = call.timed_out(now).into();
            self.handle_failure(id, call, &why);
        }
        self.expire_cancelled(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.ledger.poll_timeout().into_iter().chain(self.next_cancelled_due()).min()
    }

    /// Whether the server has been greeted and answered.
    pub(super) fn is_ready(&self) -> bool {
        self.phase == GreetingPhase::Ready
    }

    /// Whether an answer is waited for on `lane`.
    pub(super) fn is_open(&self, lane: Lane) -> bool {
        self.ledger.open.contains_key(&lane) || self.is_awaited(lane)
    }

    /// The lane of the call that the server knows by this id: open, or just cancelled.
    pub(super) fn lane_of(&self, wire_id: &Id) -> Option<Lane> {
        self.ledger.lane_of(wire_id).or_else(|| self.cancelled_lane(wire_id))
    }

    /// The call that was opened with `ticket`, if it is open.
    fn find(&self, ticket: &T) -> Option<Lane> {
        self.ledger.select(|call| call.owner.as_ref() == Some(ticket)).next()
    }

    /// Who has calls open on which the server may ask or log something.
    pub(super) fn asking(&self) -> impl Iterator<Item = &T> {
        self.ledger.asking().filter_map(|id| self.ticket(id))
    }

    /// Who opened the call that travels on `lane`, if it is open.
    pub(super) fn ticket(&self, lane: Lane) -> Option<&T> {
        self.ledger.open.get(&lane)?.owner.as_ref()
    }
}

// Greeting the server, losing it, and greeting it again.

impl<T: Ticket> LegacyClientHalf<T> {
    /// A client says hello: for all of them, if they share the server.
    fn greet(&mut self, ticket: T, request: &Message, now: Instant) {
        if self.sharing == Sharing::Shared {
            if let Some(answer) = self.welcome.clone() {
                return self.to_client.finish(ticket, answer);
            }
            if self.phase == GreetingPhase::Greeting {
                return self.wait_for_greeting(ticket);
            }
        }
        self.phase = GreetingPhase::Greeting;
        self.confirmed = false;
        self.hello = Some(request.clone());
        let (id, message) = self.begin(ticket, request, now);
        self.greeting = id;
        self.send(id, message);
    }

    fn wait_for_greeting(&mut self, ticket: T) {
        if self.greeters.len() >= self.ledger.limits.calls.saturating_mul(4) {
            return self.to_client.finish(ticket, Refusal::TooManyCalls);
        }
        self.greeters.push(ticket);
    }

    /// Says how to greet the server when it is needed.
    pub(super) fn introduce(&mut self, hello: Message) {
        self.hello.get_or_insert(hello);
    }

    /// Greets the server if that was not done; its welcome is the answer to `ticket`.
    pub(super) fn meet(&mut self, ticket: T, now: Instant) {
        if let (Some(answer), GreetingPhase::Ready) = (self.welcome.clone(), self.phase) {
            return self.to_client.finish(ticket, answer);
        }
        self.wait_for_greeting(ticket);
        self.ensure_greeting(now);
    }

    /// Greets a server that is away with what a client once said, if one has.
    fn ensure_greeting(&mut self, now: Instant) {
        if self.phase == GreetingPhase::Away
            && let Some(hello) = self.hello.clone()
        {
            self.phase = GreetingPhase::Greeting;
            self.greeting = self.send_own(&hello, now);
        }
    }

    /// The server answered a greeting: a client's, or one that `is_ours`. A lost server is
    /// back then: it gets what the clients had set up, and they learn that lists may differ.
    fn handle_welcome(&mut self, answer: &Message, is_ours: bool, now: Instant) {
        let answer = match welcome_within_bounds(answer) {
            Ok(answer) if answer.kind() != Kind::Error => answer,
            refused => {
                if !is_ours || self.welcome.is_none() {
                    // Another client may find better words.
                    self.hello = None;
                }
                return self.give_up_greeting(&refused.cloned().into());
            }
        };
        let was_known = self.welcome.replace(answer.clone()).is_some();
        self.phase = GreetingPhase::Ready;
        if is_ours {
            self.confirmed = true;
            self.send(Lane::MAIN, Message::notification(method::INITIALIZED, None));
            for uri in self.watches.uris().map(Into::into).collect::<Vec<Box<str>>>() {
                self.renew(method::SUBSCRIBE, &uri, now);
            }
            if let Some(level) = self.level.clone() {
                self.send_own(&level, now);
            }
        }
        self.out.append(&mut self.held);
        self.answer_greeters(&answer.clone().into());
        if is_ours && was_known && !std::mem::take(&mut self.rested) {
            self.handle_gap();
        }
    }

    fn answer_greeters(&mut self, outcome: &Outcome) {
        for to in self.greeters.drain(..) {
            self.to_client.finish(to, outcome.clone());
        }
    }

    /// The server did not take the greeting: whatever waited for it fails.
    fn give_up_greeting(&mut self, outcome: &Outcome) {
        self.phase = GreetingPhase::Away;
        self.answer_greeters(outcome);
        for held in std::mem::take(&mut self.held) {
            let Transmit::Send { lane, .. } = held else { continue };
            if let Some(call) = self.ledger.end(lane) {
                self.handle_failure(lane, call, outcome);
            }
        }
    }

    /// The link is gone. Every open call fails with `why`.
    pub(super) fn handle_lost(&mut self, why: &Failure, _now: Instant) {
        self.phase = GreetingPhase::Away;
        self.held.clear();
        self.out.clear();
        self.lose_cancelled();
        self.answer_greeters(&why.clone().into());
        for to in self.ledger.drain().filter_map(|call| call.owner) {
            self.to_client.finish(to, why.clone());
        }
        self.watches.end_asking();
        self.recall_all();
    }

    /// Whether a client waits to hear of a resource, or a task goes on.
    pub(super) fn is_needed(&self, now: Instant) -> bool {
        self.watches.uris().next().is_some() || self.ledger.running.holds(now)
    }

    /// Whoever asked is not there any more. The calls that it asked on.
    fn recall_all(&mut self) -> BTreeSet<Lane> {
        let mut calls = BTreeSet::new();
        for (ask, asked) in std::mem::take(&mut self.asks) {
            calls.extend(asked.origin.on);
            self.to_client.recall(asked.to, ask);
        }
        calls
    }

    /// The server knows our session no more, and so did not run this call (HTTP-22).
    pub(super) fn handle_session_over(&mut self, lane: Lane, now: Instant) {
        let Some(call) = self.ledger.open.get_mut(&lane) else {
            return self.end_cancelled_lane(lane);
        };
        let message = call.sent.with_id(&call.wire_id);
        let greets = message.method() == method::INITIALIZE;
        if greets || self.hello.is_none() || std::mem::replace(&mut call.repeated, true) {
            return self.handle_unanswered(lane, &Refusal::SessionOver.into());
        }
        // What went to a session before this one is sent to this one, which is sound.
        let is_sound = self.phase == GreetingPhase::Ready && lane < self.greeting;
        if !is_sound && self.phase != GreetingPhase::Greeting {
            self.begin_session(Some(lane), now);
        }
        self.send_in_order(lane, message);
    }

    /// The server knows our session no more, and no call has found out.
    pub(super) fn renew_session(&mut self, now: Instant) {
        if self.phase != GreetingPhase::Greeting && self.hello.is_some() {
            self.begin_session(None, now);
        }
    }

    /// Leaves a session that is over for another. What was asked there cannot be
    /// answered any more, so calls that wait for it would wait for ever; `refused`
    /// is none of them.
    fn begin_session(&mut self, refused: Option<Lane>, now: Instant) {
        self.phase = GreetingPhase::Away;
        self.ensure_greeting(now);
        for &id in self.asks.values().flat_map(|asked| &asked.holds) {
            self.ledger.release(id, now);
        }
        self.ledger.running.lose();
        for id in self.recall_all().into_iter().filter(|&id| Some(id) != refused) {
            self.fail_asked(id, "the server has forgotten the session in which it asked something");
            self.out.push_back(Transmit::Abort { lane: id });
        }
    }

    /// Makes a call that is no client's.
    fn send_own(&mut self, request: &Message, now: Instant) -> Lane {
        let (id, message) = self.ledger.begin_in_session(None, request, None, now);
        self.send(id, message);
        id
    }

    /// For a while nobody heard what the server says that belongs to no call. What changed
    /// meanwhile cannot be known: all lists may have.
    pub(super) fn handle_gap(&mut self) {
        let Some(welcome) = &self.welcome else { return };
        for (_, list) in LISTS {
            if welcome.capability(&[list, "listChanged"]).is_some_and(Part::is_true)
                && let Some(method) = method::list_changed(list)
            {
                self.to_client.note(To::Session, Message::notification(method, None));
            }
        }
    }
}

// Questions of the server, and where their answers go.

/// Answered questions that are known when they come again: a server that is
/// resumed repeats the last few things that it said, if any.
const MOST_ANSWERED: usize = 64;

/// Where a question came from.
#[derive(Debug)]
pub(super) struct QuestionOrigin {
    id: Id,
    /// The lane it came by, and the call it was asked on.
    lane: Lane,
    on: Option<Lane>,
}

impl<T: Ticket> LegacyClientHalf<T> {
    /// A client answers a question.
    pub(super) fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        if let Some(asked) = self.take_ask(ask, now) {
            self.send(Lane::MAIN, answer.with_id(&asked.origin.id));
            if self.answered.len() >= MOST_ANSWERED {
                self.answered.pop_front();
            }
            self.answered.push_back(asked.origin);
        }
    }

    /// Nobody is there to answer a question.
    pub(super) fn refuse_ask(&mut self, ask: Ask, now: Instant) {
        self.supply(ask, &Message::refusal(None, &Refusal::NobodyToAsk), now);
    }

    /// A question is not open any more.
    fn take_ask(&mut self, ask: Ask, now: Instant) -> Option<ServerQuestion<T>> {
        let asked = self.asks.remove(&ask)?;
        for &id in &asked.holds {
            self.ledger.release(id, now);
        }
        Some(asked)
    }

    /// The calls that may wait for the answer to a question.
    fn waiting_for(&self, request: &Message, on: Option<Lane>) -> Vec<Lane> {
        let mut waiting: Vec<_> = match on {
            Some(on) => vec![on],
            None => self.ledger.asking().collect(),
        };
        if let Some(task) = task_of(request) {
            waiting.extend(self.ledger.select(|call| {
                call.request.method() == method::TASK_RESULT
                    && call.request.task_id().unwrap_or_default() == *task
            }));
        }
        waiting
    }

    /// A question turns out to be about the call of `ticket`.
    pub(super) fn put_on(&mut self, ask: Ask, ticket: &T, now: Instant) {
        if let Some(on) = self.find(ticket)
            && let Some(asked) = self.asks.get_mut(&ask)
        {
            asked.origin.on = Some(on);
            self.ledger.hold(on, now);
            for id in std::mem::replace(&mut asked.holds, vec![on]) {
                self.ledger.release(id, now);
            }
        }
    }

    /// The server did not take an answer, so the call that it asked on would wait
    /// for ever. If several questions had this id it is the one that was answered last.
    pub(super) fn handle_unsupplied(&mut self, answer: &Message) {
        let of_answer = |it: &QuestionOrigin| Some(&it.id) == answer.id();
        let at = self.answered.iter().rposition(of_answer);
        let on = at.and_then(|at| self.answered.remove(at)).and_then(|it| it.on);
        let wire_id = |on| self.ledger.open.get(&on).map(|call| (on, call.wire_id.clone()));
        if let Some((on, wire_id)) = on.and_then(wire_id) {
            self.fail_asked(on, "the server did not take the answer to what it asked");
            // It may be there all the same, and at work.
            self.withdraw(on, &wire_id);
        }
    }

    /// A call that cannot get what the server asked for.
    fn fail_asked(&mut self, id: Lane, why: &'static str) {
        if let Some(call) = self.ledger.end(id) {
            self.handle_failure(id, call, &Failure::AnswerLost { why }.into());
        }
    }

    fn handle_request(&mut self, lane: Lane, request: &Message, now: Instant) {
        let Some(id) = request.id().cloned() else { return };
        if request.method() == method::PING {
            return self.send(Lane::MAIN, Message::result(&id, b"{}"));
        }
        // An event that was replayed. Some servers count anew on each stream.
        let is_it = |it: &QuestionOrigin| it.lane == lane && it.id == id;
        let is_open = self.asks.values().any(|asked| is_it(&asked.origin));
        // Only the stream of a call is resumed as what it was.
        if is_open || lane != Lane::MAIN && self.answered.iter().any(is_it) {
            return;
        }
        let of_lane = Some(lane).filter(|&on| self.ticket(on).is_some());
        // It came by the stream of a call that nobody waits for: it is nobody else's.
        let is_over = lane != Lane::MAIN && of_lane.is_none();
        let is_shared = self.sharing == Sharing::Shared;
        let likely = || self.likely().filter(|_| is_shared);
        let on = of_lane.or_else(|| sole(self.ledger.asking())).or_else(likely);
        let to = on.and_then(|on| self.ticket(on)).cloned();
        let is_doubtful =
            of_lane.is_none() && task_of(request).is_none() && self.may_be_about_cancelled(now);
        let unclear = to.is_none() && is_shared || is_over || is_doubtful;
        if unclear || !self.make_room_for_ask(now) {
            let answer = Message::refusal(Some(&id), &Refusal::NobodyToAsk);
            return self.send(Lane::MAIN, answer);
        }
        let to = to.map_or(To::Session, To::Call);
        let ask = Ask(take_number(&mut self.next_ask));
        let holds = self.waiting_for(request, on);
        for &id in &holds {
            self.ledger.hold(id, now);
        }
        let origin = QuestionOrigin { id, lane, on };
        self.asks.insert(ask, ServerQuestion { origin, to: to.clone(), holds });
        self.to_client.ask(to, ask, request.clone());
    }

    /// The call that a question is put to where clients share a server and only
    /// one of them has calls.
    fn likely(&self) -> Option<Lane> {
        let asking = || self.ledger.asking();
        let mut owners = asking().map(|id| Some(self.ticket(id)?.owner()));
        let first = owners.next()??;
        if owners.any(|other| other != Some(first)) {
            return None;
        }
        likely_call(asking(), self.asks.values().filter_map(|asked| asked.origin.on))
    }

    /// Puts a question that belongs to no call to one, if only one client has calls.
    pub(super) fn place(&mut self, ask: Ask, now: Instant) -> Option<T> {
        let ticket = self.ticket(self.likely()?)?.clone();
        self.asks.get_mut(&ask)?.to = To::Call(ticket.clone());
        self.put_on(ask, &ticket, now);
        Some(ticket)
    }

    /// A question may outlive its call, and some are never answered: the
    /// oldest of those goes first.
    fn make_room_for_ask(&mut self, now: Instant) -> bool {
        if self.asks.len() < self.ledger.limits.asks {
            return true;
        }
        let is_over = |asked: &ServerQuestion<T>| {
            asked.origin.on.is_some_and(|on| !self.ledger.open.contains_key(&on))
        };
        let oldest = self.asks.iter().find(|(_, asked)| is_over(asked)).map(|(&ask, _)| ask);
        let Some(ask) = oldest else { return false };
        let Some(asked) = self.take_ask(ask, now) else { return false };
        self.send(Lane::MAIN, Message::refusal(Some(&asked.origin.id), &Refusal::NobodyToAsk));
        self.to_client.recall(asked.to, ask);
        true
    }

    /// The server does not need an answer any more.
    fn handle_recall(&mut self, message: Message, now: Instant) {
        let Some(id) = message.id_in(Member::RequestId) else { return };
        let ask = self.asks.iter().find(|(_, asked)| asked.origin.id == id).map(|(&ask, _)| ask);
        if let Some(ask) = ask
            && let Some(ServerQuestion { to, .. }) = self.take_ask(ask, now)
        {
            self.to_client.0.push_back(ServerEvent::Recall { to, ask, message });
        }
    }
}

/// The task that it is about, if it says so.
fn task_of(request: &Message) -> Option<Box<str>> {
    let is_said = request.has(Member::MetaRelatedTask);
    is_said.then(|| request.string(Member::RelatedTaskId).unwrap_or_default().into())
}

#[cfg(test)]
mod tests;
