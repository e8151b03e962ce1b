//! The state of a connection: the half, its road, what waits on it, and when it rests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::{Lane, ServerEvent};
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Kind, Message};
use tokio::sync::Notify;

use super::Upstream;
use crate::call::Call;
use crate::connection::{lock, now};
use crate::drive::{Stop, race};

/// What is behind the lock of an upstream.
pub(super) struct Core {
    pub(super) half: ClientHalf<Call>,
    /// What the half has to tell and nobody has passed on yet.
    pub(super) down: VecDeque<ServerEvent<Call>>,
    pub(super) transport: Transport,
    pub(super) outbound: VecDeque<Message>,
    pub(super) outbound_bytes: usize,
    /// Those of them that answer what the server asked.
    pub(super) answer_bytes: usize,
    /// How to end a lane early.
    pub(super) lanes: HashMap<Lane, Arc<Notify>>,
    /// Over HTTP: the end of the handshake, while it is on its way.
    pub(super) confirming: Option<Arc<Stop>>,
    /// Over HTTP: the last progress of a client on a question, while it is on its way.
    pub(super) progressing: Option<Arc<Stop>>,
    pub(super) trial: Fallback,
    /// The deadlines are watched.
    pub(super) watched: bool,
    /// When they are looked at next.
    pub(super) next_look: Option<Instant>,
    /// The pipe is made whenever it is needed.
    pub(super) piped: bool,
    /// More of ours than the bound allows is left unread.
    pub(super) choked: bool,
    /// When a client last opened a call.
    pub(super) used: Instant,
    pub(super) stay: PipeState,
    /// Messages that were taken to be written to a pipe, and are not known to be.
    pub(super) unwritten: usize,
}

/// Whether there is a pipe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PipeState {
    Away,
    /// It is wanted before there is anything to write.
    Ahead,
    Here,
    /// It is to end: nobody uses it.
    Leaving,
}

/// How messages leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Transport {
    Pipe,
    Http,
}

/// Whether the road is the right one.
pub(super) enum Fallback {
    /// Not known yet.
    First,
    /// The other road was no good; why.
    Second(Failure),
    /// The server has answered by it.
    Settled,
}

/// The deadlines are not looked at more often than this.
const LEAST_LOOK: Duration = Duration::from_millis(10);

/// What a message in a queue takes besides its text, its allocations included.
const OVERHEAD: usize = size_of::<Message>() + 64;

/// The bytes that a message in a queue counts for.
pub(super) fn cost(message: &Message) -> usize {
    message.text().len() + OVERHEAD
}

/// When to look at deadlines of which the next is `due`.
pub(super) fn look_at(due: Option<Instant>, now: Instant, at_most: Duration) -> Instant {
    let latest = now + at_most;
    due.unwrap_or(latest).min(latest).max(now + LEAST_LOOK)
}

/// Whether something is due before `look`, and the watcher would look sooner
/// for it. It must not be woken by its own steps.
fn is_sooner(due: Instant, now: Instant, look: Instant) -> bool {
    due.max(now + LEAST_LOOK) < look
}

impl Core {
    pub(super) fn new(half: ClientHalf<Call>, transport: Transport) -> Self {
        Self {
            half,
            down: VecDeque::new(),
            transport,
            outbound: VecDeque::new(),
            outbound_bytes: 0,
            answer_bytes: 0,
            lanes: HashMap::new(),
            confirming: None,
            progressing: None,
            trial: Fallback::First,
            watched: false,
            next_look: None,
            piped: false,
            choked: false,
            used: now(),
            stay: PipeState::Away,
            unwritten: 0,
        }
    }

    /// Whether something is due before the deadlines are looked at again.
    pub(super) fn is_due_sooner(&self) -> bool {
        match (self.half.poll_timeout(), self.next_look) {
            (Some(due), Some(look)) => is_sooner(due, now(), look),
            _ => false,
        }
    }

    /// Whether somebody counts on the link.
    pub(super) fn is_used(&self) -> bool {
        self.half.calls() > 0 || self.half.is_needed(now()) || !self.outbound.is_empty()
    }

    /// Adds a message to what is to be written.
    pub(super) fn push_outbound(&mut self, message: Message) {
        let cost = cost(&message);
        self.outbound_bytes += cost;
        if message.is_response() {
            self.answer_bytes += cost;
        }
        self.outbound.push_back(message);
    }

    /// The next message to write, and what it counted for.
    pub(super) fn pop_outbound(&mut self) -> Option<(Message, usize)> {
        let message = self.outbound.pop_front()?;
        let cost = cost(&message);
        self.outbound_bytes = self.outbound_bytes.saturating_sub(cost);
        if message.is_response() {
            self.answer_bytes = self.answer_bytes.saturating_sub(cost);
        }
        Some((message, cost))
    }

    /// All that was to be written.
    pub(super) fn take_outbound(&mut self) -> VecDeque<Message> {
        (self.outbound_bytes, self.answer_bytes) = (0, 0);
        std::mem::take(&mut self.outbound)
    }

    /// Moves what the half has to tell to where it is passed on from.
    pub(super) fn settle(&mut self) {
        while let Some(verb) = self.half.poll_to_client() {
            self.down.push_back(verb);
        }
    }
}

impl Upstream {
    /// Starts the child before anybody needs it.
    pub(crate) fn warm(self: &Arc<Self>) {
        let mut core = lock(&self.core);
        core.stay = PipeState::Ahead;
        self.start(&mut core);
        drop(core);
        self.written.notify_one();
    }

    /// Headers of the client that it was made for.
    pub(crate) fn passed(&self) -> Option<&HeaderMap> {
        self.server.passed()
    }

    /// Whether there is a child, or a stream; by POSTs nobody can tell.
    pub(crate) fn is_linked(&self) -> bool {
        let core = lock(&self.core);
        core.transport == Transport::Http || matches!(core.stay, PipeState::Ahead | PipeState::Here)
    }

    /// Whether the server has ever told of itself here.
    pub(crate) fn is_met(&self) -> bool {
        lock(&self.core).half.is_met()
    }

    /// Whether a call is open, a client waits to hear of something, or a task goes on.
    pub(crate) fn is_used(&self) -> bool {
        lock(&self.core).is_used()
    }

    /// Whether somebody began this task by this connection.
    pub(crate) fn has_task(&self, id: &str, principal: &[u8]) -> bool {
        lock(&self.core).half.has_task(id, principal)
    }

    /// Ends the link until the next call. False if somebody uses it.
    pub(crate) fn rest(self: &Arc<Self>) -> bool {
        let mut core = lock(&self.core);
        if core.is_used() {
            return false;
        }
        core.half.rest(&Failure::CLOSED, now());
        core.settle();
        // Whoever calls from here on begins anew, and waits for the old link to end.
        if core.stay == PipeState::Here {
            core.stay = PipeState::Leaving;
        }
        let by_http = core.transport == Transport::Http;
        drop(core);
        self.rested.notify_waiters();
        if by_http {
            let this = Arc::clone(self);
            self.spawn(async move {
                if let Some(link) = this.http.get() {
                    link.delete_session().await;
                }
            });
        }
        self.pass_down();
        true
    }

    /// Waits until that is so, or the connection was ended.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let stirred = race(self.told.notified(), self.drained.notified());
            if is_so(self) || self.stop.until(stirred).await.is_none() {
                return;
            }
        }
    }

    /// Waits until the link is to end.
    pub(super) async fn until_rest(&self) {
        loop {
            let rested = self.rested.notified();
            if lock(&self.core).stay == PipeState::Leaving {
                return;
            }
            rested.await;
        }
    }
}

/// POSTs of one server in flight that carry no request, before its streams are
/// read no further: each takes a connection.
const MOST: usize = 32;

/// One POST that carries no request, until it is dropped.
pub(super) struct InFlight(Arc<Upstream>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|count| *count -= 1);
    }
}

impl Upstream {
    /// Counts the POST of `message` while the value lives, unless it is a request.
    pub(super) fn count_in_flight(self: &Arc<Self>, message: &Message) -> Option<InFlight> {
        if message.kind() == Kind::Request {
            return None;
        }
        self.in_flight.send_modify(|count| *count += 1);
        Some(InFlight(Arc::clone(self)))
    }

    /// Waits until the server has taken enough of what it was sent.
    pub(super) async fn answers_are_taken(&self) {
        if *self.in_flight.borrow() < MOST {
            return;
        }
        // The sender is ours, so waiting cannot fail.
        _ = self.in_flight.subscribe().wait_for(|&count| count < MOST).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_look_at_a_deadline_is_not_too_late_for_it() {
        let start = now();
        let at_most = Duration::from_secs(20);
        for after in [0, 1, 10, 11, 1_000, 20_000, 40_000] {
            let due = start + Duration::from_millis(after);
            let look = look_at(Some(due), start, at_most);
            // The watcher's own step comes a moment later, and finds the same deadline.
            for later in [0, 1, 100] {
                let step = start + Duration::from_micros(later);
                assert!(!is_sooner(due, step, look), "due after {after} ms");
            }
        }
    }

    #[test]
    fn a_sooner_deadline_is_noticed() {
        let start = now();
        let look = look_at(None, start, Duration::from_secs(20));
        assert!(is_sooner(start + Duration::from_secs(1), start, look));
    }
}
