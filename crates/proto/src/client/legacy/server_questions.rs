//! Questions that a server asks, and where their answers go.
//!
//! While a question is open the time of its call does not run: it is the client
//! that is waited for.
//!
//! A question outlives the call it was asked on: on a pipe it is a guess which
//! one that was, and the client may be slow. What is never answered makes room
//! for others once its call is over.

use std::time::Instant;

use super::{Asked, LegacyClientHalf};
use crate::client::ledger::likely_call;
use crate::client::{CallId, Sharing, Ticket};
use crate::exchange::{Ask, Lane, ServerEvent, To};
use crate::failure::Failure;
use crate::jsonrpc::{Id, Member, Message};
use crate::method;
use crate::refusal::Refusal;

/// Answered questions that are known when they come again: a server that is
/// resumed repeats the last few things that it said, if any.
const MOST_ANSWERED: usize = 64;

/// A question that was answered, without whose it was: they may be gone.
#[derive(Debug)]
pub(super) struct Answered {
    id: Id,
    lane: Lane,
    on: Option<CallId>,
}

impl<T: Ticket> LegacyClientHalf<T> {
    /// A client answers a question.
    pub fn supply(&mut self, ask: Ask, answer: &Message, now: Instant) {
        if let Some(asked) = self.take_ask(ask, now) {
            self.send(Lane::MAIN, answer.with_id(&asked.id));
            if self.answered.len() >= MOST_ANSWERED {
                self.answered.pop_front();
            }
            let Asked { id, lane, on, .. } = asked;
            self.answered.push_back(Answered { id, lane, on });
        }
    }

    /// Nobody is there to answer a question.
    pub fn refuse_ask(&mut self, ask: Ask, now: Instant) {
        self.supply(ask, &Message::refusal(None, &Refusal::NobodyToAsk), now);
    }

    /// A question is not open any more.
    fn take_ask(&mut self, ask: Ask, now: Instant) -> Option<Asked<T>> {
        let asked = self.asks.remove(&ask)?;
        for &id in &asked.holds {
            self.ledger.release(id, now);
        }
        Some(asked)
    }

    /// None of the questions are.
    pub(super) fn release_all(&mut self, now: Instant) {
        for &id in self.asks.values().flat_map(|asked| &asked.holds) {
            self.ledger.release(id, now);
        }
    }

    /// The calls that may wait for the answer to a question.
    fn waiting_for(&self, request: &Message, on: Option<CallId>) -> Vec<CallId> {
        let mut waiting: Vec<_> = match on {
            Some(on) => vec![on],
            None => self.ledger.asking().collect(),
        };
        if let Some(task) = task_of(request) {
            let results = self.ledger.of_method(method::TASK_RESULT);
            let is_theirs = |it: &Message| it.task_id().unwrap_or_default() == *task;
            let theirs = results.filter(|(_, request)| is_theirs(request));
            waiting.extend(theirs.map(|(id, _)| id));
        }
        waiting
    }

    /// A question turns out to be about a call.
    pub fn put_on(&mut self, ask: Ask, on: CallId, now: Instant) {
        let Some(asked) = self.asks.get_mut(&ask) else { return };
        if self.ledger.get(on).is_none() {
            return;
        }
        asked.on = Some(on);
        self.ledger.hold(on, now);
        for id in std::mem::replace(&mut asked.holds, vec![on]) {
            self.ledger.release(id, now);
        }
    }

    /// The server did not take an answer, so the call that it asked on would wait
    /// for ever. If several questions had this id it is the one that was answered last.
    pub fn handle_unsupplied(&mut self, answer: &Message) {
        let of_answer = |it: &Answered| Some(&it.id) == answer.id();
        let at = self.answered.iter().rposition(of_answer);
        let on = at.and_then(|at| self.answered.remove(at)).and_then(|it| it.on);
        if let Some(on) = on.filter(|&on| self.ledger.get(on).is_some()) {
            self.fail_asked(on, "the server did not take the answer to what it asked");
            // It may be there all the same, and at work.
            self.withdraw(on);
        }
    }

    /// A call that cannot get what the server asked for.
    pub(super) fn fail_asked(&mut self, id: CallId, why: &'static str) {
        if self.ledger.get(id).is_none() {
            return;
        }
        self.handle_unanswered(id.lane(), &Failure::AnswerLost { why });
    }

    pub(super) fn handle_request(&mut self, lane: Lane, request: &Message, now: Instant) {
        let Some(id) = request.id().cloned() else { return };
        if request.method() == method::PING {
            return self.send(Lane::MAIN, Message::result(&id, b"{}"));
        }
        // An event that was replayed. Some servers count anew on each stream.
        let is_open = self.asks.values().any(|asked| asked.id == id && asked.lane == lane);
        // Only the stream of a call is resumed as what it was.
        let is_answered = |it: &Answered| it.lane == lane && it.id == id;
        if is_open || lane != Lane::MAIN && self.answered.iter().any(is_answered) {
            return;
        }
        let of_lane = Some(CallId(lane.0)).filter(|&on| self.client_of(on).is_some());
        // It came by the stream of a call that nobody waits for: it is nobody else's.
        let is_over = lane != Lane::MAIN && of_lane.is_none();
        let is_shared = self.sharing == Sharing::Shared;
        let likely = || self.likely().filter(|_| is_shared);
        let on = of_lane.or_else(|| self.ledger.sole_asking()).or_else(likely);
        let to = on.and_then(|on| self.client_of(on));
        let is_doubtful =
            of_lane.is_none() && task_of(request).is_none() && self.may_be_about_cancelled(now);
        let unclear = to.is_none() && is_shared || is_over || is_doubtful;
        if unclear || !self.make_room_for_ask(now) {
            let answer = Message::refusal(Some(&id), &Refusal::NobodyToAsk);
            return self.send(Lane::MAIN, answer);
        }
        let to = to.map_or(To::Session, To::Call);
        let ask = Ask(self.next_ask);
        self.next_ask += 1;
        let holds = self.waiting_for(request, on);
        for &id in &holds {
            self.ledger.hold(id, now);
        }
        self.asks.insert(ask, Asked { id, to: to.clone(), lane, on, holds });
        self.down.push_back(ServerEvent::Ask { to, ask, request: request.clone() });
    }

    /// The call that a question is put to where clients share a server and only
    /// one of them has calls.
    fn likely(&self) -> Option<CallId> {
        let asking = || self.ledger.asking();
        let mut owners = asking().map(|id| Some(self.client_of(id)?.owner()));
        let first = owners.next()??;
        if owners.any(|other| other != Some(first)) {
            return None;
        }
        likely_call(asking(), self.asks.values().filter_map(|asked| asked.on))
    }

    /// Puts a question that belongs to no call to one, if only one client has calls.
    pub fn place(&mut self, ask: Ask, now: Instant) -> Option<T> {
        let on = self.likely()?;
        let ticket = self.client_of(on)?;
        self.asks.get_mut(&ask)?.to = To::Call(ticket.clone());
        self.put_on(ask, on, now);
        Some(ticket)
    }

    /// A question may outlive its call, and some are never answered: the
    /// oldest of those goes first.
    fn make_room_for_ask(&mut self, now: Instant) -> bool {
        if self.asks.len() < self.most_asks {
            return true;
        }
        let is_over = |asked: &Asked<T>| asked.on.is_some_and(|on| self.ledger.get(on).is_none());
        let oldest = self.asks.iter().find(|(_, asked)| is_over(asked)).map(|(&ask, _)| ask);
        let Some(ask) = oldest else { return false };
        let Some(asked) = self.take_ask(ask, now) else { return false };
        self.send(Lane::MAIN, Message::refusal(Some(&asked.id), &Refusal::NobodyToAsk));
        self.recall(ask, asked);
        true
    }

    /// Takes a question back in the server's name.
    pub(super) fn recall(&mut self, ask: Ask, asked: Asked<T>) {
        let message = Message::notification(method::CANCELLED, Some(b"{\"requestId\":0}"));
        self.down.push_back(ServerEvent::Recall { to: asked.to, ask, message });
    }

    /// The server does not need an answer any more.
    pub(super) fn handle_recall(&mut self, message: &Message, now: Instant) {
        let Some(id) = message.cancelled_id() else { return };
        let ask = self.asks.iter().find(|(_, asked)| asked.id == id).map(|(&ask, _)| ask);
        if let Some(ask) = ask
            && let Some(asked) = self.take_ask(ask, now)
        {
            self.down.push_back(ServerEvent::Recall {
                to: asked.to,
                ask,
                message: message.clone(),
            });
        }
    }
}

/// The task that it is about, if it says so.
fn task_of(request: &Message) -> Option<Box<str>> {
    request.has(Member::MetaRelatedTask).then(|| request.related_task().unwrap_or_default().into())
}
