//! One conversation with a client: a server half, and a mailbox for each lane.
//!
//! The half is a pure machine behind a short lock, never held across an await.
//! A shell steps it with [`ClientConnection::step`], waits on a lane with
//! [`ClientConnection::next_frame`]; the backend answers through the [`Call`]. Verbs towards the backend leave in
//! order, one caller at a time, and each caller gets the work of its own verbs:
//! a stream that nobody reads must not hold up the call of another lane.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderName};
use switchboard_proto::Table;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Ask, Carrier, ClientEvent, Exchange, Lane};
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::limits::Limits;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::legacy::{LegacyServerHalf, Phase};
use switchboard_proto::server::modern::ModernServerHalf;
use switchboard_proto::server::{Frame, ServerHalf};

use crate::backend::{Backend, PendingWork};
use crate::call::{Asker, Call, ReplySink};
use crate::charge::Charge;
use crate::drive::now;
use crate::parked_calls::Parking;
use crate::who::{Turns, Who};

pub(crate) use unread::PieceWritten;
use unread::ReadProgress;

pub mod unread;

static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// One client, as the backend sees it.
pub struct ClientConnection {
    number: u64,
    era: Era,
    carrier: Carrier,
    backend: Arc<dyn Backend>,
    state: Mutex<ConnectionState>,
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

struct ConnectionState {
    half: ServerHalf,
    boxes: Table<Lane, Mailbox>,
    backlog: usize,
    most: usize,
    /// Tasks that look again when something has changed.
    waiting: Vec<Waker>,
    used: Instant,
    ended: bool,
    next_lane: u64,
    /// Of the calls that are open.
    turns: Turns,
    /// The calls that are open.
    calls: Table<Exchange, Call>,
    /// Who asked the questions that are open, and about which call.
    askers: Table<Ask, (Option<Exchange>, Weak<dyn Asker>)>,
    /// What it holds, as far as others count it.
    reading: ReadProgress,
}

#[derive(Default)]
struct Mailbox {
    frames: VecDeque<Frame>,
    reader: Option<Waker>,
}

impl Mailbox {
    fn push(&mut self, frame: Frame) {
        self.frames.push_back(frame);
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    fn weight(&self) -> usize {
        self.frames.iter().map(Frame::weight).sum()
    }
}

/// Takes a lock. What a panic left behind is still consistent: each step of a
/// machine is one call.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a waker wake this task: mostly it does already.
pub(crate) fn wait(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}

/// A number that nobody else has who is told things by servers.
pub(crate) fn next_number() -> u64 {
    CONNECTIONS.fetch_add(1, Ordering::Relaxed)
}

/// A step that only a modern half has.
fn modern<R: Default>(
    step: impl FnOnce(&mut ModernServerHalf) -> R,
) -> impl FnOnce(&mut ServerHalf) -> R {
    |half| match half {
        ServerHalf::Legacy(_) => R::default(),
        ServerHalf::Modern(half) => step(half),
    }
}

impl ClientConnection {
    /// A client that has said nothing yet. `sharing` says whether others speak to the same server.
    pub fn new(
        era: Era,
        carrier: Carrier,
        backend: Arc<dyn Backend>,
        limits: &Limits,
        sharing: Sharing,
    ) -> Arc<Self> {
        let half = match era {
            Era::Legacy => {
                let half = LegacyServerHalf::new(carrier, limits);
                ServerHalf::Legacy(Box::new(match sharing {
                    Sharing::Alone => half,
                    Sharing::Shared => half.sharing(),
                }))
            }
            Era::Modern => ServerHalf::Modern(Box::new(ModernServerHalf::new(carrier, limits))),
        };
        let mut boxes = Table::default();
        if carrier == Carrier::Pipe {
            boxes.insert(Lane::MAIN, Mailbox::default());
        }
        Arc::new(Self {
            number: next_number(),
            era,
            carrier,
            backend,
            state: Mutex::new(ConnectionState {
                half,
                boxes,
                backlog: 0,
                most: limits.backlog,
                waiting: Vec::new(),
                used: now(),
                ended: false,
                next_lane: 1,
                turns: Turns::default(),
                calls: Table::default(),
                askers: Table::default(),
                reading: ReadProgress::default(),
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
        self.step_in(Turns::default(), None, step)
    }

    /// A step that opens calls which have their turns, and a charge for their text: both
    /// are over when the answer is not owed any more.
    pub(crate) fn step_in<R>(
        self: &Arc<Self>,
        turns: Turns,
        charge: Option<&Arc<Charge>>,
        step: impl FnOnce(&mut ServerHalf) -> R,
    ) -> (R, PendingWork) {
        // Taken before the step, so that verbs arrive in the order of the steps.
        let _passing = lock(&self.passing);
        let mut state = lock(&self.state);
        state.used = now();
        state.turns.take(turns);
        let result = step(&mut state.half);
        self.deliver(&mut state);
        let mut next = state.half.poll_to_server();
        let round = state.half.poll_round();
        drop(state);
        self.gather(round);
        let mut works = PendingWork::none();
        while let Some(verb) = next {
            tracing::trace!(client = self.number, verb = verb.name(), "from the client");
            let dropped = verb.dropped();
            works.append(self.from_client(verb, charge));
            let mut state = lock(&self.state);
            if let Some(exchange) = dropped {
                state.half.acknowledge_cancelled(exchange);
                self.deliver(&mut state);
            }
            next = state.half.poll_to_server();
        }
        (result, works)
    }

    /// What the client wants goes to whoever it concerns: a new call to the backend, all
    /// else to whoever has the call or asked the question.
    fn from_client(
        self: &Arc<Self>,
        verb: ClientEvent,
        charge: Option<&Arc<Charge>>,
    ) -> PendingWork {
        match verb {
            ClientEvent::Open { exchange, request, said } => {
                if let Some(intro) = Intro::of(&request) {
                    // The first word counts.
                    _ = self.intro.set(intro);
                }
                let sink: Arc<Self> = Arc::clone(self);
                let call = Call::of_client(sink, exchange, charge.cloned());
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

    /// A step that wants nothing of the backend: something for the client.
    fn to_client(&self, step: impl FnOnce(&mut ServerHalf)) {
        let mut state = lock(&self.state);
        step(&mut state.half);
        self.deliver(&mut state);
    }

    /// Moves what the half gave out to where it is waited for.
    fn deliver(&self, state: &mut ConnectionState) {
        if !state.turns.is_empty() {
            state.turns.keep(state.half.owed());
        }
        while let Some((lane, frame)) = state.half.poll_transmit() {
            let Some(mailbox) = state.boxes.get_mut(&lane) else { continue };
            state.backlog += frame.weight();
            mailbox.push(frame);
        }
        state.waiting.drain(..).for_each(Waker::wake);
        self.account(state);
    }

    /// The answer on `lane` takes its time: show a stream.
    pub fn begin_stream(&self, lane: Lane) {
        self.to_client(|half| half.begin_stream(lane));
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
        self.deliver(&mut state);
        // On a pipe the end is the end of the one lane.
        if let Some(mailbox) = state.boxes.get_mut(&Lane::MAIN) {
            mailbox.push(Frame::End);
        }
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
            wait(&mut mailbox.reader, cx);
            return Poll::Pending;
        };
        state.release(frame.weight());
        state.reading.moved = Some(now());
        self.account(&mut state);
        Poll::Ready(Some(frame))
    }

    /// Nobody need be woken for what comes on `lane`, until it is polled again.
    pub(crate) fn look_away(&self, lane: Lane) {
        if let Some(mailbox) = lock(&self.state).boxes.get_mut(&lane) {
            mailbox.reader = None;
        }
    }

    /// Closes a lane from outside: the client, or the network, hung up.
    pub fn close_lane(self: &Arc<Self>, lane: Lane) -> PendingWork {
        let mut state = lock(&self.state);
        let Some(mailbox) = state.boxes.remove(&lane) else { return PendingWork::none() };
        state.release(mailbox.weight());
        drop(state);
        self.step(|half| half.handle_closed(lane)).1
    }
}

/// What a client waits for, and what is waited for at it.
impl ClientConnection {
    /// Waits until `look` finds something in the state.
    async fn wait_until<R>(&self, look: impl Fn(&ConnectionState) -> Option<R>) -> R {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if let Some(found) = look(&state) {
                return Poll::Ready(found);
            }
            // Once, however often it is polled until then.
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until the conversation is over.
    pub(crate) async fn over(&self) {
        self.wait_until(|state| state.ended.then_some(())).await;
    }

    /// Waits until a legacy client has confirmed the handshake, or it is over.
    pub async fn ready(&self) -> bool {
        self.wait_until(|state| match state.phase() {
            Some(Phase::Ready) => Some(true),
            Some(Phase::Ended) | None => Some(false),
            Some(_) => None,
        })
        .await
    }

    /// Waits until no answer is owed. Listens do not count: they end when told to.
    pub async fn all_answered(&self) {
        self.wait_until(|state| (state.half.owed() == 0).then_some(())).await;
    }

    /// Waits until this client has read enough of what it was sent, or is over.
    pub async fn wait_for_room(&self) {
        self.wait_until(|state| (state.has_room() || state.ended).then_some(())).await;
    }

    /// How far a legacy conversation has got.
    pub fn phase(&self) -> Option<Phase> {
        lock(&self.state).phase()
    }

    /// How many answers it waits for. Listens are not among them.
    pub fn owed(&self) -> usize {
        lock(&self.state).half.owed()
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        lock(&self.state).half.calls()
    }

    /// Whether the server waits for an answer of this legacy client.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(&lock(&self.state).half, ServerHalf::Legacy(half) if half.is_asked())
    }

    /// How long nothing has come from the client; none while it waits for something.
    pub fn idle_since(&self) -> Option<Instant> {
        let state = lock(&self.state);
        let busy = match &state.half {
            ServerHalf::Legacy(half) => half.is_busy(),
            ServerHalf::Modern(half) => half.calls() > 0,
        };
        (!busy).then_some(state.used)
    }

    /// Waits no longer: each call that is open is answered with `why`, and the
    /// backend drops it. So it does with calls that wait for their client to come
    /// back. Listens go on.
    pub fn give_up(self: &Arc<Self>, why: &Refusal) -> PendingWork {
        let mut works = self.step(ServerHalf::handle_silence).1;
        // Whoever passes a call on at this moment has done so before.
        let _passing = lock(&self.passing);
        let owed = lock(&self.state).half.owed_calls();
        for exchange in owed {
            works.append(self.refuse(exchange, why));
        }
        works
    }

    /// Answers one call that is open with `why`, and has the backend drop it. None if it is not
    /// open any more.
    pub fn give_up_call(
        self: &Arc<Self>,
        exchange: Exchange,
        why: &Refusal,
    ) -> Option<PendingWork> {
        let _passing = lock(&self.passing);
        let is_owed = lock(&self.state).half.owed_calls().contains(&exchange);
        is_owed.then(|| self.refuse(exchange, why))
    }

    fn refuse(self: &Arc<Self>, exchange: Exchange, why: &Refusal) -> PendingWork {
        let call = self.call(exchange);
        self.finish(exchange, why.clone().into());
        let Some(call) = call else { return PendingWork::none() };
        call.close();
        self.backend.cancel(self, &call);
        call.cancel(None)
    }

    /// The backend does not take a call; over HTTP a modern client learns so by the status too (MH-14).
    pub fn turn_away(&self, exchange: Exchange, id: Option<&Id>, why: &Refusal) {
        let call = lock(&self.state).calls.remove(&exchange);
        if let Some(call) = &call {
            // What turns it away has no answer that another could stand for.
            _ = call.observe_end(self, Some(&Message::refusal(id, why)));
        }
        self.to_client(|half| half.turn_away(exchange, id, why));
        if let Some(call) = call {
            call.close();
        }
    }
}

/// Calls of modern clients that are parked until the client comes back with input.
impl ClientConnection {
    /// Lets its calls wait here for input.
    pub(crate) fn park_in(self: &Arc<Self>, parking: &Arc<Parking>) {
        if self.parking.set(Arc::clone(parking)).is_ok() {
            parking.enter(self);
        }
    }

    /// Says who answers, as JSON: for the results that its half makes by itself (MOD-7).
    pub fn introduce(&self, server: &Bytes) {
        self.to_client(modern(|half| half.introduce(server.clone())));
    }

    /// Questions of a modern client's call are put to it together.
    fn gather(self: &Arc<Self>, round: Option<(Exchange, u32)>) {
        if let (Some(round), Some(parking)) = (round, self.parking.get()) {
            parking.gather(self, round);
        }
    }

    /// Answers a modern client's call with its questions.
    pub(crate) fn close_round(&self, round: (Exchange, u32), state: &str, until: Instant) {
        self.to_client(modern(|half| half.close_round(round, state, until)));
    }

    /// How many questions of a modern client's call wait to be put to it together.
    pub(crate) fn questions(&self, round: (Exchange, u32)) -> usize {
        modern(|half| half.questions(round))(&mut lock(&self.state).half)
    }

    /// Gives up on parked calls whose client is late.
    pub(crate) fn give_up_parked(self: &Arc<Self>) {
        self.step(modern(|half| half.handle_timeout(now()))).1.detach();
    }

    /// How many of its calls wait for it.
    pub(crate) fn parked(&self) -> usize {
        modern(|half| half.parked())(&mut lock(&self.state).half)
    }
}

impl ReplySink for ClientConnection {
    fn number(&self) -> u64 {
        self.number
    }

    fn principal(&self) -> &[u8] {
        self.principal()
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        self.to_client(|half| half.note(exchange, message));
    }

    fn ask(
        self: Arc<Self>,
        exchange: Option<Exchange>,
        asker: Weak<dyn Asker>,
        ask: Ask,
        request: &Message,
    ) -> bool {
        let has_room = || self.parking.get().is_some_and(|parking| parking.has_room(&self));
        if self.era == Era::Modern && !has_room() {
            return false;
        }
        let mut state = lock(&self.state);
        let is_asked = state.half.ask(exchange, ask, request);
        if is_asked && asker.strong_count() > 0 {
            state.askers.insert(ask, (exchange, asker));
        }
        self.deliver(&mut state);
        let round = state.half.poll_round();
        drop(state);
        self.gather(round);
        is_asked
    }

    fn recall(&self, ask: Ask, message: &Message) {
        lock(&self.state).askers.remove(&ask);
        self.to_client(|half| half.recall(ask, message));
    }

    /// Here a failure becomes an error. From here on the client has its time to come for it.
    fn finish(&self, exchange: Exchange, outcome: Outcome) {
        let answer = outcome.into_message(self.backend.words());
        let call = lock(&self.state).calls.remove(&exchange);
        let other = call.as_ref().and_then(|call| call.observe_end(self, Some(&answer)));
        let answer = other.as_ref().unwrap_or(&answer);
        let mut state = lock(&self.state);
        state.used = now();
        state.half.finish(exchange, answer);
        state.forget_askers(self.era, exchange);
        self.deliver(&mut state);
    }

    fn await_cancelled(&self, exchange: Exchange) -> bool {
        lock(&self.state).half.await_cancelled(exchange)
    }

    fn end_cancelled(&self, exchange: Exchange) {
        self.to_client(|half| half.end_cancelled(exchange));
    }

    fn hang_up(&self, exchange: Exchange) {
        self.to_client(|half| half.hang_up(exchange));
    }

    fn hears(&self) -> bool {
        self.carrier == Carrier::Pipe || self.streams() > 0
    }

    fn is_slow(&self) -> bool {
        !lock(&self.state).has_room()
    }

    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.wait_for_room().await })
    }

    fn end(self: Arc<Self>) {
        Self::end(&self);
    }
}

/// Characters of a name that are kept: enough for people, whatever a client calls itself.
const MOST: usize = 64;

/// Enough to find a session in a log, far too little to guess its id.
const SHOWN: usize = 6;

/// Bytes of the headers of one client that are kept. They stay as long as
/// anything is remembered of whom it speaks for.
const MOST_CARRIED: usize = 16 << 10;

/// A client in its own words, cut short. They may hold anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Intro {
    /// What it is called; empty if it does not say.
    pub name: Box<str>,
    /// Which version of that it is.
    pub version: Box<str>,
}

impl Intro {
    /// What a greeting or a listen says. Other requests are not looked at: most
    /// clients with a conversation that lasts say it in one of these.
    fn of(request: &Message) -> Option<Self> {
        let member = match request.method() {
            method::INITIALIZE => Member::ClientInfo,
            method::LISTEN => Member::MetaClient,
            _ => return None,
        };
        let words = request.part(member)?;
        let word = |name: &str| {
            let text = words.string(name).unwrap_or_default();
            text.chars().take(MOST).collect::<String>().into()
        };
        Some(Self { name: word("name"), version: word("version") })
    }
}

/// Who a client is: what it says of itself, for whom it speaks, its session, and the
/// headers that it passes on.
impl ClientConnection {
    /// Who it says it is, if it has said so.
    pub fn intro(&self) -> Option<&Intro> {
        self.intro.get()
    }

    /// How long it has been there.
    pub fn age(&self) -> Duration {
        now().saturating_duration_since(self.since)
    }

    /// How long nothing has come from it, and no answer went to it.
    pub fn quiet(&self) -> Duration {
        now().saturating_duration_since(lock(&self.state).used)
    }

    /// The revision it is spoken to in; none before that is settled.
    pub fn revision(&self) -> Option<Revision> {
        match &lock(&self.state).half {
            ServerHalf::Legacy(half) => {
                let is_settled = !matches!(half.phase(), Phase::Fresh | Phase::Greeting);
                is_settled.then(|| half.revision())
            }
            ServerHalf::Modern(_) => Some(Revision::NEWEST_MODERN),
        }
    }

    /// How many streams it is told things on.
    pub fn streams(&self) -> usize {
        match &lock(&self.state).half {
            ServerHalf::Legacy(half) => half.streams(),
            ServerHalf::Modern(half) => half.calls() - half.owed(),
        }
    }

    /// Says under which id a client has its session; the first word counts.
    pub(crate) fn mark(&self, id: &str) {
        _ = self.mark.set(id.get(..SHOWN).unwrap_or_default().into());
    }

    /// The beginning of its session's id, for logs; none if it has no session.
    pub fn session(&self) -> Option<&str> {
        self.mark.get().map(|mark| &**mark)
    }

    /// Keeps those headers of its first request that the backend wants to know.
    pub(crate) fn carry(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(names) = self.backend.carries() else { return Ok(()) };
        let mut carried = HeaderMap::new();
        for name in names.iter().filter(|name| !is_hop_by_hop(headers, name)) {
            for value in headers.get_all(name) {
                carried.append(name, value.clone());
            }
        }
        if size(&carried) > MOST_CARRIED {
            return Err(Refusal::PassedTooLarge { limit: MOST_CARRIED });
        }
        _ = self.carried.set(carried);
        Ok(())
    }

    /// The headers that it began with, of those that [`carries`](Backend::carries) names.
    pub fn carried(&self) -> Option<&HeaderMap> {
        self.carried.get().filter(|headers| !headers.is_empty())
    }

    /// Says on whose behalf it speaks; the first word counts.
    pub(crate) fn speak_for(&self, who: &Who) {
        _ = self.who.set(who.clone());
    }

    /// On whose behalf it speaks: nobody in particular, if it did not say.
    pub fn who(&self) -> &Who {
        static NOBODY: LazyLock<Who> = LazyLock::new(Who::default);
        self.who.get().unwrap_or(&NOBODY)
    }

    /// What tells those whom it speaks for from others; empty for nobody in particular.
    pub fn principal(&self) -> &[u8] {
        self.who().identity()
    }

    /// It has no session, and is gone after its first answer. To be said before anything else.
    pub(crate) fn go_bare(&self) {
        if let ServerHalf::Legacy(half) = &mut lock(&self.state).half {
            half.go_bare();
        }
    }

    /// Whether nobody could ever tell it what belongs to no call.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(&lock(&self.state).half, ServerHalf::Legacy(half) if half.is_bare())
    }
}

/// Whether the client names it in `Connection`: then it is meant for us alone (RFC 9110, 7.6.1).
fn is_hop_by_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    let listed = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    listed
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(name.as_str()))
}

/// Bytes of names and values.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

impl ConnectionState {
    /// A call is over: a modern client answers nothing that it was asked about it.
    fn forget_askers(&mut self, era: Era, exchange: Exchange) {
        if era == Era::Modern {
            self.askers.retain(|_, (of, _)| *of != Some(exchange));
        }
    }

    fn has_room(&self) -> bool {
        self.backlog < self.most
    }

    /// Bytes have left the backlog: those who wait for room look again.
    fn release(&mut self, bytes: usize) {
        self.backlog = self.backlog.saturating_sub(bytes);
        if self.has_room() {
            self.waiting.drain(..).for_each(Waker::wake);
        }
    }

    fn phase(&self) -> Option<Phase> {
        match &self.half {
            ServerHalf::Legacy(half) => Some(half.phase()),
            ServerHalf::Modern(_) => None,
        }
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.account_for_drop();
        if let Some(parking) = self.parking.get() {
            parking.leave(self.number);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_and_its_absence_is_no_fault() {
        let of = |text: &str| {
            let message = switchboard_proto::jsonrpc::parse_one(text.to_owned().into()).unwrap();
            Intro::of(&message).map(|it| (it.name.chars().count(), it.version.into_string()))
        };
        let greeting = |client: &str| {
            let params = format!(r#"{{"protocolVersion":"x","capabilities":{{}}{client}}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#)
        };
        let long = format!(r#","clientInfo":{{"name":"{}","version":"1"}}"#, "é".repeat(1000));
        assert_eq!(of(&greeting(&long)), Some((MOST, "1".to_owned())));
        assert_eq!(of(&greeting(r#","clientInfo":{"name":7}"#)), Some((0, String::new())));
        assert_eq!(of(&greeting("")), None);
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#), None);
    }
}
