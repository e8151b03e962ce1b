//! One conversation with a client: a server half, and a mailbox for each lane.
//!
//! The half is a pure machine behind a short lock, never held across an await.
//! A shell steps it with [`ClientConnection::step`], waits on a lane with
//! [`ClientConnection::next_frame`]; the backend answers through the [`Call`]. Verbs towards the backend leave in
//! order, one caller at a time, and each caller gets the work of its own verbs:
//! a stream that nobody reads must not hold up the call of another lane.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http::HeaderMap;
use switchboard_proto::exchange::{Ask, Carrier, ClientEvent, Exchange, Lane};
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_proto::server::legacy::{LegacyServerHalf, Phase};
use switchboard_proto::server::modern::ModernServerHalf;
use switchboard_proto::server::{Frame, ServerHalf};

use crate::backend::{Backend, PendingWork};
use crate::call::{Asker, Call};
use crate::http::request_body::Charge;
use crate::park::Parking;
use crate::who::{Turns, Who};

pub use identity::Intro;
pub(crate) use identity::size;
use unread::Reading;
pub(crate) use unread::Written;

mod identity;
pub mod unread;
mod waiting;

static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// One client, as the backend sees it.
pub struct ClientConnection {
    number: u64,
    era: Era,
    carrier: Carrier,
    backend: Arc<dyn Backend>,
    state: Mutex<State>,
    /// Held by whoever passes verbs to the backend.
    passing: Mutex<()>,
    /// Where calls of a modern client wait for it to come back.
    parking: OnceLock<Arc<Parking>>,
    /// On whose behalf it speaks, as far as it says.
    who: OnceLock<Who>,
    /// What its session is called in logs.
    mark: OnceLock<Box<str>>,
    /// Who it says it is.
    intro: OnceLock<Intro>,
    since: Instant,
    /// What its first request said to whatever stands behind the backend.
    carried: OnceLock<HeaderMap>,
    /// Where it counts what it does not read.
    counted: OnceLock<unread::Counted>,
}

struct State {
    half: ServerHalf,
    boxes: HashMap<Lane, Mailbox>,
    backlog: usize,
    most: usize,
    waiting_for_room: Vec<Waker>,
    waiting_for_phase: Vec<Waker>,
    used: Instant,
    ended: bool,
    next_lane: u64,
    /// Of the calls that are open.
    turns: Turns,
    /// The calls that are open.
    calls: HashMap<Exchange, Call>,
    /// Who asked the questions that are open, and about which call.
    askers: HashMap<Ask, (Option<Exchange>, Weak<dyn Asker>)>,
    /// What it holds, as far as others count it.
    reading: Reading,
}

#[derive(Default)]
struct Mailbox {
    frames: VecDeque<Frame>,
    reader: Option<Waker>,
}

/// Takes a lock. What a panic left behind is still consistent: each step of a
/// machine is one call.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that nobody else has who is told things by servers.
pub(crate) fn next_number() -> u64 {
    CONNECTIONS.fetch_add(1, Ordering::Relaxed)
}

/// The clock of the shells: tokio's, so that tests can pause it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Has a task woken later; once, however often it is polled until then.
fn wait(waiting: &mut Vec<Waker>, cx: &Context<'_>) {
    if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
        waiting.push(cx.waker().clone());
    }
}

impl ClientConnection {
    /// A client that has said nothing yet. `shared` if others speak to the same server.
    pub fn new(
        era: Era,
        carrier: Carrier,
        backend: Arc<dyn Backend>,
        limits: &Limits,
        shared: bool,
    ) -> Arc<Self> {
        let half = match era {
            Era::Legacy if shared => {
                ServerHalf::Legacy(Box::new(LegacyServerHalf::new(carrier, limits).sharing()))
            }
            Era::Legacy => ServerHalf::Legacy(Box::new(LegacyServerHalf::new(carrier, limits))),
            Era::Modern => ServerHalf::Modern(Box::new(ModernServerHalf::new(carrier, limits))),
        };
        let mut boxes = HashMap::new();
        if carrier == Carrier::Pipe {
            boxes.insert(Lane::MAIN, Mailbox::default());
        }
        Arc::new(Self {
            number: next_number(),
            era,
            carrier,
            backend,
            state: Mutex::new(State {
                half,
                boxes,
                backlog: 0,
                most: limits.backlog,
                waiting_for_room: Vec::new(),
                waiting_for_phase: Vec::new(),
                used: now(),
                ended: false,
                next_lane: 1,
                turns: Turns::default(),
                calls: HashMap::new(),
                askers: HashMap::new(),
                reading: Reading::default(),
            }),
            passing: Mutex::new(()),
            parking: OnceLock::new(),
            who: OnceLock::new(),
            mark: OnceLock::new(),
            intro: OnceLock::new(),
            since: now(),
            carried: OnceLock::new(),
            counted: OnceLock::new(),
        })
    }

    /// Tells this client from all others.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The era it speaks.
    pub fn era(&self) -> Era {
        self.era
    }

    /// How it is connected.
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// Opens a lane: a POST or a GET has arrived.
    pub fn open_lane(&self) -> Lane {
        let mut state = lock(&self.state);
        let lane = Lane(state.next_lane);
        state.next_lane += 1;
        state.boxes.insert(lane, Mailbox::default());
        lane
    }

    /// One step of the half, and whatever the backend must do about it.
    ///
    /// Not to be called from [`Backend::open`].
    pub fn step<R>(self: &Arc<Self>, step: impl FnOnce(&mut ServerHalf) -> R) -> (R, PendingWork) {
        self.pass(None, |state| step(&mut state.half))
    }

    /// A step, and its verbs to the backend. The calls that it opens hold `charge`.
    fn pass<R>(
        self: &Arc<Self>,
        charge: Option<&Arc<Charge>>,
        step: impl FnOnce(&mut State) -> R,
    ) -> (R, PendingWork) {
        // Taken before the step, so that verbs arrive in the order of the steps.
        let _passing = lock(&self.passing);
        let mut state = lock(&self.state);
        state.used = now();
        let result = step(&mut state);
        state.settle();
        self.account(&mut state);
        let mut next = state.half.poll_to_server();
        let round = state.half.poll_round();
        drop(state);
        self.gather(round);
        let mut works = PendingWork::none();
        while let Some(verb) = next {
            tracing::trace!(client = self.number, verb = verb.name(), "from the client");
            self.hear(&verb);
            let dropped = verb.dropped();
            works.append(self.pass_on(verb, charge));
            let mut state = lock(&self.state);
            if let Some(exchange) = dropped {
                state.half.acknowledge_cancelled(exchange);
                state.settle();
            }
            next = state.half.poll_to_server();
        }
        (result, works)
    }

    /// What the client wants goes to whoever it concerns: a new call to the backend, all
    /// else to whoever has the call or asked the question.
    fn pass_on(self: &Arc<Self>, verb: ClientEvent, charge: Option<&Arc<Charge>>) -> PendingWork {
        match verb {
            ClientEvent::Open { exchange, request, said } => {
                let sink: Arc<Self> = Arc::clone(self);
                let call = Call::new(sink, exchange).charged(charge);
                let mut state = lock(&self.state);
                if state.ended {
                    return PendingWork::none();
                }
                state.calls.insert(exchange, call.clone());
                drop(state);
                self.backend.open(self, &call, request, said)
            }
            ClientEvent::Again { exchange, request } => match self.call(exchange) {
                Some(call) => call.retry(&request),
                None => PendingWork::none(),
            },
            ClientEvent::Supply { ask, answer } => {
                let asker = lock(&self.state).askers.remove(&ask).and_then(|(_, it)| it.upgrade());
                match (self.backend.supply(self, ask, answer), asker) {
                    (Some(answer), Some(asker)) => asker.supply(ask, &answer),
                    _ => PendingWork::none(),
                }
            }
            ClientEvent::Note { message } => self.backend.note(self, message),
            ClientEvent::Drop { exchange, message } => {
                let mut state = lock(&self.state);
                state.forget_askers(self.era, exchange);
                let Some(call) = state.calls.remove(&exchange) else {
                    return PendingWork::none();
                };
                drop(state);
                call.observe_end(self, None);
                self.backend.cancel(self, &call);
                call.cancel(message.as_ref())
            }
        }
    }

    fn call(&self, exchange: Exchange) -> Option<Call> {
        lock(&self.state).calls.get(&exchange).cloned()
    }

    /// The calls that are open.
    pub fn open_calls(&self) -> Vec<Call> {
        lock(&self.state).calls.values().cloned().collect()
    }

    fn quietly(&self, step: impl FnOnce(&mut ServerHalf)) {
        let mut state = lock(&self.state);
        step(&mut state.half);
        state.settle();
        self.account(&mut state);
    }

    /// Something on the way, for a call or for the session.
    pub fn note(&self, exchange: Option<Exchange>, message: &Message) {
        self.quietly(|half| half.note(exchange, message));
    }

    /// The server needs input. False if this client cannot be asked. The answer goes to
    /// `asker`, or to the backend if there is none.
    #[must_use]
    pub fn ask(
        self: &Arc<Self>,
        exchange: Option<Exchange>,
        asker: Option<Weak<dyn Asker>>,
        ask: Ask,
        request: &Message,
    ) -> bool {
        let has_room = || self.parking.get().is_some_and(|parking| parking.has_room(self));
        if self.era == Era::Modern && !has_room() {
            return false;
        }
        let mut state = lock(&self.state);
        let is_asked = state.half.ask(exchange, ask, request);
        if let Some(asker) = asker.filter(|_| is_asked) {
            state.askers.insert(ask, (exchange, asker));
        }
        state.settle();
        self.account(&mut state);
        let round = state.half.poll_round();
        drop(state);
        self.gather(round);
        is_asked
    }

    /// The server does not need the input any more.
    pub fn recall(&self, ask: Ask, message: &Message) {
        lock(&self.state).askers.remove(&ask);
        self.quietly(|half| half.recall(ask, message));
    }

    /// The answer to a call, or why there is none: here a failure becomes an error.
    /// From here on the client has its time to come for it.
    pub fn finish(&self, exchange: Exchange, outcome: impl Into<Outcome>) {
        let answer = outcome.into().into_message(self.backend.words());
        let call = lock(&self.state).calls.remove(&exchange);
        let other = call.as_ref().and_then(|call| call.observe_end(self, Some(&answer)));
        let answer = other.as_ref().unwrap_or(&answer);
        let mut state = lock(&self.state);
        state.used = now();
        state.half.finish(exchange, answer);
        state.forget_askers(self.era, exchange);
        state.settle();
        self.account(&mut state);
        drop(state);
        if let Some(call) = call {
            call.close();
        }
    }

    /// The answer on `lane` takes its time: show a stream.
    pub fn begin_stream(&self, lane: Lane) {
        self.quietly(|half| half.begin_stream(lane));
    }

    /// Ends the connection that a call came by, if its client knows how to come back.
    pub fn hang_up(&self, exchange: Exchange) {
        self.quietly(|half| half.hang_up(exchange));
    }

    /// The conversation is over: lanes close, the backend forgets the client.
    pub fn end(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        state.half.end();
        let calls = std::mem::take(&mut state.calls);
        state.askers.clear();
        state.settle();
        state.close_main();
        state.waiting_for_room.drain(..).for_each(Waker::wake);
        self.account(&mut state);
        drop(state);
        self.backend.forget(self);
        for call in calls.into_values() {
            call.abandon(self);
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        lock(&self.state).ended
    }

    /// What to do on `lane` next; none when it is gone.
    pub async fn next_frame(&self, lane: Lane) -> Option<Frame> {
        poll_fn(|cx| self.poll_frame(lane, cx)).await
    }

    /// What is there to do on `lane` at once, if anything.
    pub fn try_frame(&self, lane: Lane) -> Option<Frame> {
        match self.poll_frame(lane, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(frame) => frame,
            Poll::Pending => None,
        }
    }

    /// The same for those who poll.
    pub fn poll_frame(&self, lane: Lane, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let mut state = lock(&self.state);
        let Some(mailbox) = state.boxes.get_mut(&lane) else { return Poll::Ready(None) };
        let Some(frame) = mailbox.frames.pop_front() else {
            match &mut mailbox.reader {
                Some(reader) => reader.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        };
        state.backlog = state.backlog.saturating_sub(frame.weight());
        state.reading.moved = Some(now());
        self.account(&mut state);
        if state.has_room() {
            state.waiting_for_room.drain(..).for_each(Waker::wake);
        }
        Poll::Ready(Some(frame))
    }

    /// Closes a lane from outside: the client, or the network, hung up.
    pub fn close_lane(self: &Arc<Self>, lane: Lane) -> PendingWork {
        self.pass(None, |state| {
            let Some(mailbox) = state.boxes.remove(&lane) else { return };
            let unread: usize = mailbox.frames.iter().map(Frame::weight).sum();
            state.backlog = state.backlog.saturating_sub(unread);
            state.waiting_for_room.drain(..).for_each(Waker::wake);
            state.half.handle_closed(lane);
        })
        .1
    }
}

impl State {
    /// A call is over: a modern client answers nothing that it was asked about it.
    fn forget_askers(&mut self, era: Era, exchange: Exchange) {
        if era == Era::Modern {
            self.askers.retain(|_, (of, _)| *of != Some(exchange));
        }
    }

    /// Moves what the half gave out to where it is waited for.
    fn settle(&mut self) {
        if !self.turns.is_empty() {
            self.turns.keep(self.half.owed());
        }
        while let Some((lane, frame)) = self.half.poll_transmit() {
            let Some(mailbox) = self.boxes.get_mut(&lane) else { continue };
            self.backlog += frame.weight();
            mailbox.frames.push_back(frame);
            if let Some(reader) = mailbox.reader.take() {
                reader.wake();
            }
        }
        if !self.waiting_for_phase.is_empty() {
            self.waiting_for_phase.drain(..).for_each(Waker::wake);
        }
    }

    /// On a pipe the end is the end of the one lane.
    fn close_main(&mut self) {
        if let Some(mailbox) = self.boxes.get_mut(&Lane::MAIN) {
            mailbox.frames.push_back(Frame::End);
            if let Some(reader) = mailbox.reader.take() {
                reader.wake();
            }
        }
    }

    fn has_room(&self) -> bool {
        self.backlog < self.most
    }

    fn phase(&self) -> Option<Phase> {
        match &self.half {
            ServerHalf::Legacy(half) => Some(half.phase()),
            ServerHalf::Modern(_) => None,
        }
    }
}

impl std::fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConnection")
            .field("number", &self.number)
            .field("era", &self.era)
            .finish_non_exhaustive()
    }
}
