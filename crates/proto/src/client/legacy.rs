//! A server of the era with a handshake.
//!
//! ```text
//!            initialize                its result
//!   Fresh ──────────────▶ Greeting ───────────────────▶ Ready
//!                           ▲  │ its error                │ link or session lost
//!         a call: our own   │  ▼                          ▼
//!            initialize     └────────────────────────── Lost
//! ```
//!
//! Rules:
//! - The client's `initialize` passes; it is remembered, so that a server that
//!   was lost can be greeted again without the client's help.
//! - Calls that come while the server is being greeted are held, in order.
//! - When the link is lost every open call fails; none is sent twice. A call
//!   that the server refused for want of a session was not run, and is sent again once.
//! - Where clients share a server, its greeting is shared too, and what cannot
//!   be told whose it is goes to nobody.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::ledger::{Call, Ledger};
use super::{CallId, Sharing, Ticket, Transmit};
use crate::exchange::{Ask, Lane, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Message};
use crate::limits::Limits;
use crate::method;
use crate::refusal::Refusal;
use crate::watch::Watches;
use handshake::watcher;
use recently_cancelled::RecentlyCancelled;
use server_questions::Answered;

mod handshake;
mod recently_cancelled;
mod server_questions;

/// One legacy server.
#[derive(Debug)]
pub struct LegacyClientHalf<T> {
    sharing: Sharing,
    most_calls: usize,
    most_asks: usize,
    phase: Phase,
    /// The client's `initialize`, and what the server answered to it.
    hello: Option<Message>,
    welcome: Option<Message>,
    /// Clients that wait for somebody else's `initialize` to be answered.
    greeters: Vec<T>,
    confirmed: bool,
    /// The call of the last greeting: what was sent before it went to another session.
    greeting: CallId,
    held: VecDeque<Transmit>,
    ledger: Ledger<Owner<T>>,
    next_ask: u64,
    asks: BTreeMap<Ask, Asked<T>>,
    answered: VecDeque<Answered>,
    recently_cancelled: VecDeque<RecentlyCancelled<T>>,
    watches: Watches,
    level: Option<Message>,
    /// The link was ended for nobody used it.
    rested: bool,
    out: VecDeque<Transmit>,
    down: VecDeque<ServerEvent<T>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Fresh,
    Greeting,
    Ready,
    Lost,
}

/// Whose a call is.
#[derive(Debug)]
enum Owner<T> {
    Client(T),
    /// Our own `initialize`, after the server was lost.
    Revival,
    /// Our own renewal of a subscription or a log level: the answer is of no interest.
    Renewal,
}

#[derive(Debug)]
struct Asked<T> {
    id: Id,
    to: To<T>,
    /// The lane it came by, and the call it was asked on.
    lane: Lane,
    on: Option<CallId>,
    /// The calls whose time does not run until it is answered.
    holds: Vec<CallId>,
}

impl<T: Ticket> LegacyClientHalf<T> {
    /// A server that has been told nothing yet.
    pub fn new(sharing: Sharing, limits: &Limits) -> Self {
        Self {
            sharing,
            most_calls: limits.calls,
            most_asks: limits.asks,
            phase: Phase::Fresh,
            hello: None,
            welcome: None,
            greeters: Vec::new(),
            confirmed: false,
            greeting: CallId::DONE,
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
            down: VecDeque::new(),
        }
    }

    /// A server that is not there yet, but can be greeted with `hello` when it is needed.
    #[must_use]
    pub fn greeted_with(mut self, hello: Message) -> Self {
        self.hello = Some(hello);
        self.phase = Phase::Lost;
        self
    }

    /// Gives every call a progress token of our own, even if all are of one client.
    #[must_use]
    pub fn renaming_tokens(mut self, limits: &Limits) -> Self {
        self.ledger = Ledger::new(Sharing::Shared, limits);
        self
    }

    /// Numbers questions from here on, so that several servers' do not collide.
    #[must_use]
    pub fn asking_from(mut self, first: u64) -> Self {
        self.next_ask = first;
        self
    }

    /// A client opens a call.
    pub fn open(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        if self.ledger.len() >= self.most_calls.saturating_mul(4) {
            return self.fail(ticket, &Refusal::TooManyCalls);
        }
        if request.method() == method::INITIALIZE {
            return self.greet(ticket, request, now);
        }
        if let Some(id) = self.answer_watch(&ticket, request) {
            return id;
        }
        if request.method() == method::SET_LEVEL {
            self.level = Some(request.clone());
        }
        if self.phase == Phase::Lost {
            self.revive(now);
        }
        let watcher = watcher(&ticket);
        let (id, message) = self.ledger.begin(Owner::Client(ticket), request, now);
        self.begin_watch(id, watcher, request);
        self.send_in_order(id.lane(), message);
        id
    }

    /// Answers a call without the server.
    fn fail(&mut self, to: T, why: &Refusal) -> CallId {
        self.finish(to, why.clone());
        CallId::DONE
    }

    fn finish(&mut self, to: T, outcome: impl Into<Outcome>) {
        self.down.push_back(ServerEvent::Finish { to, outcome: outcome.into() });
    }

    fn send(&mut self, lane: Lane, message: Message) {
        self.out.push_back(Transmit::Send { lane, message, headers: Vec::new() });
    }

    /// Sends now, or once the server has been greeted.
    fn send_in_order(&mut self, lane: Lane, message: Message) {
        if self.phase == Phase::Greeting {
            self.held.push_back(Transmit::Send { lane, message, headers: Vec::new() });
        } else {
            self.send(lane, message);
        }
    }

    /// A client says something that wants no answer.
    pub fn note(&mut self, message: Message) {
        if message.method() == method::INITIALIZED && std::mem::replace(&mut self.confirmed, true) {
            return;
        }
        // What a server that does not answer was never told is not missed.
        let is_full = self.held.len() >= self.most_calls.saturating_mul(8);
        if self.phase != Phase::Lost && !is_full {
            self.send_in_order(Lane::MAIN, message);
        }
    }

    /// A client gave up on a call; its own words, if it gave any.
    pub fn drop_call(&mut self, id: CallId, words: Option<&Message>, now: Instant) {
        let greets = |call: &&mut Call<_>| call.request.method() == method::INITIALIZE;
        if let Some(call) = self.ledger.get_mut(id).filter(greets) {
            // It cannot be cancelled (UTL-1), and others may wait for it.
            call.owner = Owner::Revival;
        } else if let Some(call) = self.ledger.cancel(id, now) {
            self.end_watch(id, &call, false);
            let is_sent = self.send_cancel(id, words);
            let may_await = |it: &&T| is_sent && words.is_some() && it.awaits_dropped();
            let awaits = client(&call.owner).filter(may_await).cloned();
            if is_sent && awaits.is_none() {
                self.out.push_back(Transmit::Abort { lane: id.lane() });
            }
            self.remember_cancelled(id, &call, awaits, now);
        }
    }

    /// A client is gone for good: its calls are cancelled, its questions refused.
    pub fn forget_owner(&mut self, owner: u64, now: Instant) {
        let is_theirs =
            |o: &Owner<T>| matches!(o, Owner::Client(ticket) if ticket.owner() == owner);
        // Also what was only asked for: the server may have taken it on already.
        let orphans = self.watches.forget(owner);
        for id in self.ledger.ids(is_theirs) {
            self.drop_call(id, None, now);
        }
        self.abandon_cancelled(owner);
        self.greeters.retain(|ticket| ticket.owner() != owner);
        let asked = self.asks.iter();
        let asked =
            asked.filter(|(_, asked)| matches!(&asked.to, To::Call(t) if t.owner() == owner));
        for ask in asked.map(|(&ask, _)| ask).collect::<Vec<_>>() {
            self.refuse_ask(ask, now);
        }
        for uri in orphans {
            self.renew(method::UNSUBSCRIBE, &uri, now);
        }
    }

    /// A message arrived; `lane` is its call's over HTTP, else the main one.
    pub fn handle_message(&mut self, lane: Lane, message: &Message, now: Instant) {
        match message.kind() {
            Kind::Request => self.handle_request(lane, message, now),
            Kind::Notification => self.handle_notification(lane, message, now),
            Kind::Result | Kind::Error => self.handle_answer(message, now),
        }
    }

    fn handle_answer(&mut self, answer: &Message, now: Instant) {
        let Some((id, call)) = self.ledger.answer(answer) else {
            return self.finish_cancelled(answer);
        };
        self.ledger.running.see(&call.request, answer, now);
        self.end_watch(id, &call, answer.kind() == Kind::Result);
        let greets = call.request.method() == method::INITIALIZE;
        match call.owner {
            Owner::Client(to) => {
                if greets {
                    self.handle_welcome(answer);
                }
                self.finish(to, answer.clone());
            }
            Owner::Revival => self.handle_revived(answer, now),
            Owner::Renewal => {}
        }
    }

    fn handle_notification(&mut self, lane: Lane, message: &Message, now: Instant) {
        let alone = self.sharing == Sharing::Alone;
        let of_lane = self.owner_of(lane);
        match message.method() {
            method::PROGRESS => match self.ledger.progress(message, now) {
                Some((id, message)) => {
                    let to = self.client_of(id).map(To::Call);
                    self.down.extend(to.map(|to| ServerEvent::Note { to, message }));
                }
                // A task reports under the token of a call that has been answered.
                None if alone => self.push_note(To::Session, message),
                None => {}
            },
            method::CANCELLED => self.handle_recall(message, now),
            method::LOG => {
                let sole = if alone { self.ledger.sole_asking() } else { self.ledger.sole() };
                match of_lane.or_else(|| self.client_of(sole?)) {
                    Some(ticket) => self.push_note(To::Call(ticket), message),
                    None if alone => self.push_note(To::Session, message),
                    None => {}
                }
            }
            name => match of_lane {
                Some(ticket) => self.push_note(To::Call(ticket), message),
                None if alone || method::is_for_all(name) => self.push_note(To::Session, message),
                None => {}
            },
        }
    }

    fn push_note(&mut self, to: To<T>, message: &Message) {
        self.down.push_back(ServerEvent::Note { to, message: message.clone() });
    }

    fn owner_of(&self, lane: Lane) -> Option<T> {
        self.client_of(CallId(lane.0))
    }

    fn client_of(&self, id: CallId) -> Option<T> {
        client(&self.ledger.get(id)?.owner).cloned()
    }

    /// A call's lane ended without its answer.
    pub fn handle_unanswered(&mut self, lane: Lane, why: &Failure) {
        match self.ledger.end(CallId(lane.0)) {
            Some((id, call)) => self.handle_failure(id, call, why),
            None => self.end_cancelled_lane(lane),
        }
    }

    fn handle_failure(&mut self, id: CallId, call: Call<Owner<T>>, why: &Failure) {
        self.end_watch(id, &call, false);
        match call.owner {
            Owner::Client(to) => {
                self.finish(to, why.clone());
                if call.request.method() == method::INITIALIZE {
                    self.give_up_greeting(&why.clone().into());
                }
            }
            Owner::Revival => self.give_up_greeting(&why.clone().into()),
            Owner::Renewal => {}
        }
    }

    /// Time has reached `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, call)) = self.ledger.expired(now) {
            if call.request.method() != method::INITIALIZE {
                self.withdraw(id);
                self.remember_cancelled(id, &call, None, now);
            }
            let why = call.timed_out(now);
            self.handle_failure(id, call, &why);
        }
        self.expire_cancelled(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ledger.poll_timeout().into_iter().chain(self.next_cancelled_due()).min()
    }

    /// What to put on the wire, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// What to tell the clients, oldest first.
    pub fn poll_down(&mut self) -> Option<ServerEvent<T>> {
        self.down.pop_front()
    }

    /// Whether the server has been greeted and answered.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        self.ledger.len()
    }

    /// The lane of the only open call, if there is just one.
    pub fn only_call(&self) -> Option<Lane> {
        self.ledger.only().map(CallId::lane)
    }

    /// Whether an answer is waited for on `lane`.
    pub fn is_open(&self, lane: Lane) -> bool {
        self.ledger.get(CallId(lane.0)).is_some() || self.is_awaited(lane)
    }

    /// The call that was opened with `ticket`, if it is open.
    pub fn find(&self, ticket: &T) -> Option<CallId> {
        let is_it = |owner: &Owner<T>| matches!(owner, Owner::Client(theirs) if theirs == ticket);
        self.ledger.ids(is_it).first().copied()
    }

    /// Who has calls open.
    pub fn tickets(&self) -> impl Iterator<Item = &T> {
        self.ledger.owners().filter_map(client)
    }

    /// Who has calls open on which the server may ask or log something.
    pub fn asking(&self) -> impl Iterator<Item = &T> {
        self.ledger.asking().filter_map(|id| client(&self.ledger.get(id)?.owner))
    }

    /// Who opened the call that travels on `lane`, if it is open.
    pub fn ticket(&self, lane: Lane) -> Option<&T> {
        client(&self.ledger.get(CallId(lane.0))?.owner)
    }
}

/// The client that a call is of, if it is of one.
fn client<T>(owner: &Owner<T>) -> Option<&T> {
    match owner {
        Owner::Client(ticket) => Some(ticket),
        Owner::Revival | Owner::Renewal => None,
    }
}

#[cfg(test)]
mod tests;
