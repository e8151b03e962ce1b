//! Greeting a server, losing it, and greeting it again, with the subscriptions that are
//! renewed then.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::json;

use super::{Call, LegacyClientHalf, Owner, Phase, client};
use crate::client::across::welcome_within_bounds;
use crate::client::{CallId, Sharing, Ticket, Transmit};
use crate::exchange::{Lane, ServerEvent, To};
use crate::failure::{Failure, Outcome};
use crate::jsonrpc::{Id, Kind, Message, Part};
use crate::method;
use crate::refusal::Refusal;
use crate::watch::Watcher;

impl<T: Ticket> LegacyClientHalf<T> {
    /// A client says hello: for all of them, if they share the server.
    pub(super) fn greet(&mut self, ticket: T, request: &Message, now: Instant) -> CallId {
        if self.sharing == Sharing::Shared {
            if let Some(answer) = self.welcome.clone() {
                self.finish(ticket, answer);
                return CallId::DONE;
            }
            if self.phase == Phase::Greeting {
                if self.greeters.len() >= self.most_calls.saturating_mul(4) {
                    return self.fail(ticket, &Refusal::TooManyCalls);
                }
                self.greeters.push(ticket);
                return CallId::DONE;
            }
        }
        self.phase = Phase::Greeting;
        self.confirmed = false;
        self.hello = Some(request.clone());
        let (id, message) = self.ledger.begin(Owner::Client(ticket), request, now);
        self.greeting = id;
        self.send(id.lane(), message);
        id
    }

    /// Says how to greet the server when it is needed.
    pub fn introduce(&mut self, hello: Message) {
        if self.hello.is_none() {
            self.hello = Some(hello);
            self.phase = Phase::Lost;
        }
    }

    /// Greets the server if that was not done; its welcome is the answer to `ticket`.
    pub fn meet(&mut self, ticket: T, now: Instant) {
        if let (Some(answer), Phase::Ready) = (self.welcome.clone(), self.phase) {
            self.finish(ticket, answer);
        } else if self.greeters.len() >= self.most_calls.saturating_mul(4) {
            self.fail(ticket, &Refusal::TooManyCalls);
        } else {
            self.greeters.push(ticket);
            if self.phase == Phase::Lost {
                self.revive(now);
            }
        }
    }

    /// Who waits for the server to be greeted.
    pub fn greeters(&self) -> impl Iterator<Item = &T> {
        self.greeters.iter()
    }

    /// What the server said when it was greeted.
    pub fn welcome(&self) -> Option<&Message> {
        self.welcome.as_ref()
    }

    /// The server answered the client's hello.
    pub(super) fn handle_welcome(&mut self, answer: &Message) {
        let answer = match welcome_within_bounds(answer) {
            Ok(answer) if answer.kind() != Kind::Error => answer,
            refused => {
                self.hello = None;
                return self.give_up_greeting(&refused.cloned().into());
            }
        };
        self.welcome = Some(answer.clone());
        self.become_ready();
        self.answer_greeters(&answer.clone().into());
    }

    fn answer_greeters(&mut self, outcome: &Outcome) {
        for to in self.greeters.drain(..) {
            self.down.push_back(ServerEvent::Finish { to, outcome: outcome.clone() });
        }
    }

    fn become_ready(&mut self) {
        self.phase = Phase::Ready;
        self.out.append(&mut self.held);
    }

    /// The server did not take the greeting: whatever waited for it fails.
    pub(super) fn give_up_greeting(&mut self, outcome: &Outcome) {
        self.phase = if self.hello.is_some() { Phase::Lost } else { Phase::Fresh };
        self.answer_greeters(outcome);
        for held in std::mem::take(&mut self.held) {
            let Transmit::Send { message, .. } = held else { continue };
            if let Some((id, call)) = self.ledger.answer(&message) {
                self.end_watch(id, &call, false);
                let to = client(&call.owner).cloned();
                self.down.extend(to.map(|to| ServerEvent::Finish { to, outcome: outcome.clone() }));
            }
        }
    }

    /// The link is gone. Every open call fails with `why`.
    pub fn handle_lost(&mut self, why: &Failure) {
        self.phase = if self.hello.is_some() { Phase::Lost } else { Phase::Fresh };
        self.held.clear();
        self.out.clear();
        self.lose_cancelled();
        self.answer_greeters(&why.clone().into());
        for call in self.ledger.drain() {
            if let Owner::Client(to) = call.owner {
                self.finish(to, why.clone());
            }
        }
        self.watches.end_asking();
        self.recall_all();
    }

    /// The link is ended because nobody uses it.
    pub fn rest(&mut self, why: &Failure) {
        self.handle_lost(why);
        self.rested = true;
    }

    /// Whether a client waits to hear of a resource, or a task goes on.
    pub fn is_needed(&self, now: Instant) -> bool {
        self.watches.uris().next().is_some() || self.ledger.running.holds(now)
    }

    /// Whoever asked is not there any more. The calls that it asked on.
    fn recall_all(&mut self) -> BTreeSet<CallId> {
        let mut calls = BTreeSet::new();
        for (ask, asked) in std::mem::take(&mut self.asks) {
            calls.extend(asked.on);
            self.recall(ask, asked);
        }
        calls
    }

    /// The server knows our session no more, and so did not run this call (HTTP-22).
    pub fn handle_session_over(&mut self, lane: Lane, now: Instant) {
        let id = CallId(lane.0);
        let Some(call) = self.ledger.get(id) else { return self.end_cancelled_lane(lane) };
        let message = call.sent.with_id(&Id::from(id.0));
        let greets = message.method() == method::INITIALIZE;
        if greets || self.hello.is_none() || !self.ledger.repeat(id) {
            return self.handle_unanswered(lane, &Refusal::SessionOver.into());
        }
        if self.phase == Phase::Ready && id < self.greeting {
            // It went to a session before this one, which is sound.
            return self.send(lane, message);
        }
        if self.phase != Phase::Greeting {
            self.begin_session(Some(id), now);
        }
        self.held.push_back(Transmit::Send { lane, message, headers: Vec::new() });
    }

    /// The server knows our session no more, and no call has found out.
    pub fn renew_session(&mut self, now: Instant) {
        if self.phase != Phase::Greeting && self.hello.is_some() {
            self.begin_session(None, now);
        }
    }

    /// Leaves a session that is over for another. What was asked there cannot be
    /// answered any more, so calls that wait for it would wait for ever; `refused`
    /// is none of them.
    fn begin_session(&mut self, refused: Option<CallId>, now: Instant) {
        self.phase = Phase::Lost;
        self.revive(now);
        self.release_all(now);
        self.ledger.running.lose();
        for id in self.recall_all().into_iter().filter(|&id| Some(id) != refused) {
            self.fail_asked(id, "the server has forgotten the session in which it asked something");
            self.out.push_back(Transmit::Abort { lane: id.lane() });
        }
    }

    /// For a while nobody heard what the server says that belongs to no call.
    pub fn handle_gap(&mut self) {
        if let Some(welcome) = self.welcome.clone() {
            self.tell_lists_changed(&welcome);
        }
    }

    /// Greets a lost server with what the client once said.
    pub(super) fn revive(&mut self, now: Instant) {
        let Some(hello) = self.hello.clone() else { return };
        self.phase = Phase::Greeting;
        let (id, message) = self.ledger.begin(Owner::Revival, &hello, now);
        self.greeting = id;
        self.send(id.lane(), message);
    }

    /// A lost server is back: confirm, renew what the client had set up, and go on.
    pub(super) fn handle_revived(&mut self, answer: &Message, now: Instant) {
        let answer = match welcome_within_bounds(answer) {
            Ok(answer) if answer.kind() != Kind::Error => answer,
            refused => {
                if self.welcome.is_none() {
                    // Another client may find better words.
                    self.hello = None;
                }
                return self.give_up_greeting(&refused.cloned().into());
            }
        };
        let was_known = self.welcome.replace(answer.clone()).is_some();
        self.confirmed = true;
        self.send(Lane::MAIN, Message::notification(method::INITIALIZED, None));
        self.phase = Phase::Ready;
        self.renew_watches(now);
        if let Some(level) = self.level.clone() {
            let (id, message) = self.ledger.begin(Owner::Renewal, &level, now);
            self.send(id.lane(), message);
        }
        self.become_ready();
        self.answer_greeters(&answer.clone().into());
        if was_known && !std::mem::take(&mut self.rested) {
            self.tell_lists_changed(answer);
        }
    }

    /// What changed while the server was away cannot be known: all lists may have.
    fn tell_lists_changed(&mut self, welcome: &Message) {
        for capability in ["tools", "prompts", "resources"] {
            if welcome.capability(&[capability, "listChanged"]).is_some_and(Part::is_true)
                && let Some(method) = method::list_changed(capability)
            {
                let message = Message::notification(method, None);
                self.down.push_back(ServerEvent::Note { to: To::Session, message });
            }
        }
    }
}

// Subscriptions of clients at the server:
//
// subscribe ──▶ asked ──its result──▶ watched ──unsubscribe, or its client is gone──▶ not
//                 └──anything else──▶ not
//
// What is watched is renewed at a server that was lost. What the server did not take on is not.

impl<T: Ticket> LegacyClientHalf<T> {
    /// Answers what the server is not asked: a client stops while another goes on,
    /// or wants more than can be watched.
    pub(super) fn answer_watch(&mut self, ticket: &T, request: &Message) -> Option<CallId> {
        match request.method() {
            method::SUBSCRIBE
                if !self.watches.have_room([&*request.uri()?].into_iter(), watcher(ticket)) =>
            {
                Some(self.fail(ticket.clone(), &Refusal::TooManyWatched))
            }
            method::UNSUBSCRIBE if !self.watches.remove(&request.uri()?, ticket.owner()) => {
                let answer = Message::result(&Id::from(0), b"{}");
                self.finish(ticket.clone(), answer);
                Some(CallId::DONE)
            }
            _ => None,
        }
    }

    /// A call goes to the server: does it ask for a resource to be watched?
    pub(super) fn begin_watch(&mut self, id: CallId, watcher: Watcher, request: &Message) {
        if request.method() == method::SUBSCRIBE
            && let Some(uri) = request.uri()
        {
            self.watches.ask(&uri, watcher, id.0);
        }
    }

    /// A call is over: if it asked for a resource, then that is watched now, or not.
    pub(super) fn end_watch(&mut self, id: CallId, call: &Call<Owner<T>>, is_granted: bool) {
        if call.request.method() == method::SUBSCRIBE
            && let Some(ticket) = client(&call.owner)
            && let Some(uri) = call.request.uri()
        {
            self.watches.confirm(&uri, ticket.owner(), id.0, is_granted);
        }
    }

    /// Whether one link can watch all of these besides the rest.
    pub(crate) fn can_watch<'a>(
        &self,
        uris: impl Iterator<Item = &'a str>,
        watcher: Watcher,
    ) -> bool {
        self.watches.have_room(uris, watcher)
    }

    /// Has a resource watched as soon as the server is back, though it was lost
    /// before it said whether it would.
    pub(crate) fn watch_later(&mut self, uri: &str, watcher: Watcher) {
        self.watches.add(uri, watcher);
    }

    /// Asks a server that is back for everything that is watched.
    pub(super) fn renew_watches(&mut self, now: Instant) {
        let watched: Vec<Box<str>> = self.watches.uris().map(Into::into).collect();
        for uri in watched {
            self.renew(method::SUBSCRIBE, &uri, now);
        }
    }

    /// A call of our own about a resource; its answer is of no interest.
    pub(super) fn renew(&mut self, method: &str, uri: &str, now: Instant) {
        if self.phase != Phase::Ready {
            return;
        }
        let params = json!({ "uri": uri }).to_string();
        let request = Message::request(&0.into(), method, Some(params.as_bytes()));
        let (id, message) = self.ledger.begin(Owner::Renewal, &request, now);
        self.send(id.lane(), message);
    }
}

/// Who watches what a call asks for.
pub(super) fn watcher<T: Ticket>(ticket: &T) -> Watcher {
    Watcher::new(ticket.owner(), ticket.principal())
}
