//! What a legacy server may still do for a call that is over: watch a resource that the
//! call subscribed to, and answer or ask about a call that was cancelled. Also which call
//! an unclear question is likely to be about.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{CallToLegacy, GreetingPhase, LegacyClientHalf};
use crate::client::tasks::request_about;
use crate::client::{Sharing, Ticket, Transmit, cancel_notice};
use crate::exchange::{Lane, ServerEvent};
use crate::jsonrpc::{Id, Message};
use crate::method;
use crate::refusal::Refusal;
use crate::watch::Watcher;

// Subscriptions of clients at the server:
//
// subscribe ──▶ asked ──its result──▶ watched ──unsubscribe, or its client is gone──▶ not
//                 └──anything else──▶ not
//
// What is watched is renewed at a server that was lost. What the server did not take on is not.

impl<T: Ticket> LegacyClientHalf<T> {
    /// Answers what the server is not asked: a client stops while another goes on,
    /// or wants more than can be watched. False if it is asked.
    pub(super) fn answer_watch(&mut self, ticket: &T, request: &Message) -> bool {
        let Some(uri) = request.uri() else { return false };
        match request.method() {
            method::SUBSCRIBE if !self.watches.have_room([&*uri].into_iter(), watcher(ticket)) => {
                self.to_client.finish(ticket.clone(), Refusal::TooManyWatched);
            }
            method::UNSUBSCRIBE if !self.watches.remove(&uri, ticket.owner()) => {
                self.to_client.finish(ticket.clone(), Message::result(&Id::from(0), b"{}"));
            }
            _ => return false,
        }
        true
    }

    /// A call is over: if it asked for a resource, then that is watched now, or not.
    pub(super) fn end_watch(&mut self, id: Lane, call: &CallToLegacy<T>, is_granted: bool) {
        if call.request.method() == method::SUBSCRIBE
            && let Some(ticket) = call.owner.as_ref()
            && let Some(uri) = call.request.uri()
        {
            self.watches.confirm(&uri, ticket.owner(), id.0, is_granted);
        }
    }

    /// A call of our own about a resource; its answer is of no interest.
    pub(super) fn renew(&mut self, method: &str, uri: &str, now: Instant) {
        if self.phase == GreetingPhase::Ready {
            self.send_own(&request_about(method, "uri", uri), now);
        }
    }
}

/// Who watches what a call asks for.
pub(super) fn watcher<T: Ticket>(ticket: &T) -> Watcher {
    Watcher::new(ticket.owner(), ticket.principal())
}

// Calls that were cancelled, for a short while.
//
// - A server may answer a cancelled call all the same. Within an era the client
//   gets what the server says, and its stream ends when the server's does.
// - On a pipe a question does not say which call it is about. One that comes now
//   may be about a call that its client has just dropped, and is then for nobody
//   else: least of all for another person.

/// How long a server may take to hear of it, and to answer all the same.
const CANCELLED_LINGER: Duration = Duration::from_secs(5);

/// As many as there are; the oldest goes first.
const MOST_CANCELLED: usize = 256;

/// One that was cancelled.
#[derive(Debug)]
pub(super) struct RecentlyCancelled<T> {
    lane: Lane,
    wire_id: Id,
    owner: u64,
    principal: Box<[u8]>,
    until: Instant,
    /// The server may ask about it.
    may_ask: bool,
    /// Who still gets its answer. Else no ticket: it would keep the client.
    awaits: Option<T>,
}

impl<T: Ticket> LegacyClientHalf<T> {
    /// Takes back a call that is not wanted, and whose answer nobody gets.
    pub(super) fn withdraw(&mut self, id: Lane, wire_id: &Id) {
        if self.send_cancel(id, wire_id, None) {
            // The notice cancels; over HTTP some servers then leave the stream open for ever.
            self.out.push_back(Transmit::Abort { lane: id });
        }
    }

    /// Tells the server that a call is cancelled. One that was not sent yet is not
    /// sent at all: false.
    pub(super) fn send_cancel(&mut self, id: Lane, wire_id: &Id, words: Option<&Message>) -> bool {
        let before = self.held.len();
        self.held.retain(|held| !matches!(held, Transmit::Send { lane, .. } if *lane == id));
        let is_sent = self.held.len() == before;
        if is_sent {
            self.send(Lane::MAIN, cancel_notice(wire_id, words));
        }
        is_sent
    }

    /// A call was dropped. `awaits` if its answer is passed on all the same.
    pub(super) fn remember_cancelled(
        &mut self,
        id: Lane,
        call: &CallToLegacy<T>,
        awaits: Option<T>,
        now: Instant,
    ) {
        let may_ask = method::may_ask(call.request.method());
        let Some(ticket) = call.owner.as_ref().filter(|_| may_ask || awaits.is_some()) else {
            return;
        };
        self.recently_cancelled.push_back(RecentlyCancelled {
            lane: id,
            wire_id: call.wire_id.clone(),
            owner: ticket.owner(),
            principal: ticket.principal().into(),
            until: now + CANCELLED_LINGER,
            may_ask,
            awaits,
        });
        if self.recently_cancelled.len() > MOST_CANCELLED
            && let Some(oldest) = self.recently_cancelled.pop_front()
        {
            self.drop_cancelled(oldest);
        }
    }

    /// The server has answered a call that was dropped: it asks no more about it.
    pub(super) fn finish_cancelled(&mut self, answer: &Message) {
        let lane = answer.id().and_then(|id| self.cancelled_lane(id));
        if let Some(to) = lane.and_then(|lane| self.take_cancelled(lane)) {
            self.to_client.finish(to, answer.clone());
        }
    }

    /// The lane of a call that was dropped is over without an answer.
    pub(super) fn end_cancelled_lane(&mut self, lane: Lane) {
        let to = self.take_cancelled(lane);
        self.to_client.0.extend(to.map(|to| ServerEvent::Unanswered { to }));
    }

    /// Forgets a call that was dropped; who still gets its answer.
    fn take_cancelled(&mut self, lane: Lane) -> Option<T> {
        let place = self.recently_cancelled.iter().position(|it| it.lane == lane)?;
        self.recently_cancelled.remove(place)?.awaits
    }

    /// The lane of a call that was dropped, and that the server knows by this id.
    pub(super) fn cancelled_lane(&self, wire_id: &Id) -> Option<Lane> {
        let known = self.recently_cancelled.iter().find(|it| it.wire_id == *wire_id);
        known.map(|it| it.lane)
    }

    /// Its time is over, or there are too many.
    fn drop_cancelled(&mut self, cancelled: RecentlyCancelled<T>) {
        if let Some(to) = cancelled.awaits {
            // Over HTTP some servers leave the stream open for ever.
            self.out.push_back(Transmit::Abort { lane: cancelled.lane });
            self.to_client.0.push_back(ServerEvent::Unanswered { to });
        }
    }

    /// Forgets those whose time is over.
    pub(super) fn expire_cancelled(&mut self, now: Instant) {
        while let Some(cancelled) =
            self.recently_cancelled.pop_front_if(|cancelled| cancelled.until <= now)
        {
            self.drop_cancelled(cancelled);
        }
    }

    /// The link is gone: no server answers them.
    pub(super) fn lose_cancelled(&mut self) {
        let awaits = self.recently_cancelled.drain(..).filter_map(|cancelled| cancelled.awaits);
        self.to_client.0.extend(awaits.map(|to| ServerEvent::Unanswered { to }));
    }

    /// A client is gone: it gets no answers.
    pub(super) fn abandon_cancelled(&mut self, owner: u64) {
        for cancelled in self.recently_cancelled.iter_mut().filter(|it| it.owner == owner) {
            if cancelled.awaits.take().is_some() {
                self.out.push_back(Transmit::Abort { lane: cancelled.lane });
            }
        }
    }

    /// When the next one that is awaited is over.
    pub(super) fn next_cancelled_due(&self) -> Option<Instant> {
        let mut all = self.recently_cancelled.iter();
        all.find(|cancelled| cancelled.awaits.is_some()).map(|cancelled| cancelled.until)
    }

    /// Whether an answer on `lane` would still be passed on.
    pub(super) fn is_awaited(&self, lane: Lane) -> bool {
        self.recently_cancelled.iter().any(|it| it.awaits.is_some() && it.lane == lane)
    }

    /// Whether a question may be about a dropped call of another than those who have calls open.
    pub(super) fn may_be_about_cancelled(&mut self, now: Instant) -> bool {
        self.expire_cancelled(now);
        let differs = |cancelled: &RecentlyCancelled<T>, open: &T| match self.sharing {
            Sharing::Shared => cancelled.owner != open.owner(),
            // A layer has clients that are another with each request.
            Sharing::Alone => *cancelled.principal != *open.principal(),
        };
        let mut asking = self.recently_cancelled.iter().filter(|cancelled| cancelled.may_ask);
        asking.any(|cancelled| self.asking().any(|open| differs(cancelled, open)))
    }
}

// Which call a question is about that does not say so.

/// Questions of one call before others are thought to be about another.
const MOST_OF_ONE: usize = 8;

/// The oldest of the `open` calls that is not asked yet. Where all are, it is most
/// likely one more of the last that was: others may be parked, and their clients
/// gone. `asked` names a call for each question, the oldest question first.
pub(in crate::client) fn likely_call<K: Ord + Copy>(
    open: impl Iterator<Item = K>,
    asked: impl Iterator<Item = K>,
) -> Option<K> {
    let mut questions: BTreeMap<K, usize> = open.map(|call| (call, 0)).collect();
    let mut last = None;
    for call in asked {
        if let Some(count) = questions.get_mut(&call) {
            *count += 1;
        }
        last = Some(call);
    }
    let (&idlest, &fewest) = questions.iter().min_by_key(|&(call, count)| (*count, *call))?;
    let again = last.filter(|call| questions.get(call).is_some_and(|&count| count < MOST_OF_ONE));
    again.filter(|_| fewest > 0).or(Some(idlest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_not_asked_then_the_one_that_was_asked_last() {
        let guess =
            |open: &[u8], asked: &[u8]| likely_call(open.iter().copied(), asked.iter().copied());
        assert_eq!(guess(&[], &[1]), None);
        assert_eq!(guess(&[2, 1], &[]), Some(1));
        assert_eq!(guess(&[1, 2, 3], &[1, 3]), Some(2));
        assert_eq!(guess(&[1, 2], &[2, 1]), Some(1));
        assert_eq!(guess(&[1, 2], &[1, 2]), Some(2));
        assert_eq!(guess(&[1, 2], &[1, 2, 9]), Some(1), "the last is not open any more");
        assert_eq!(guess(&[1, 2], &[1, 2, 2, 2, 2, 2, 2, 2, 2]), Some(1), "so many of one call");
    }
}
