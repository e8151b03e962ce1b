//! What a client waits for: answers, the handshake, room to read, and calls of modern
//! clients that are parked until the client comes back with input.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use switchboard_proto::exchange::{Ask, Exchange, Lane};
use switchboard_proto::failure::Outcome;
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::server::ServerHalf;
use switchboard_proto::server::legacy::Phase;

use super::{ClientConnection, lock, now, wait};
use crate::backend::PendingWork;
use crate::call::{Asker, ReplySink};
use crate::http::request_body::Charge;
use crate::park::Parking;
use crate::who::Turns;

impl ClientConnection {
    /// Waits until the conversation is over.
    pub(crate) async fn over(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if state.ended {
                return Poll::Ready(());
            }
            wait(&mut state.waiting_for_phase, cx);
            Poll::Pending
        })
        .await;
    }

    /// Waits until a legacy client has confirmed the handshake, or it is over.
    pub async fn ready(&self) -> bool {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            match state.phase() {
                Some(Phase::Ready) => return Poll::Ready(true),
                Some(Phase::Ended) | None => return Poll::Ready(false),
                Some(_) => wait(&mut state.waiting_for_phase, cx),
            }
            Poll::Pending
        })
        .await
    }

    /// How far a legacy conversation has got.
    pub fn phase(&self) -> Option<Phase> {
        lock(&self.state).phase()
    }

    /// Whether no answer is owed. Listens do not count: they end when told to.
    pub fn is_answered(&self) -> bool {
        lock(&self.state).half.owed() == 0
    }

    /// Waits until no answer is owed.
    pub async fn all_answered(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if state.half.owed() == 0 {
                return Poll::Ready(());
            }
            wait(&mut state.waiting_for_phase, cx);
            Poll::Pending
        })
        .await;
    }

    /// Waits no longer: each call that is open is answered with `why`, and the
    /// inside drops it. So it does with calls that wait for their client to come
    /// back. Listens go on.
    pub fn give_up(self: &Arc<Self>, why: &Refusal) -> PendingWork {
        let mut works = self.step(ServerHalf::handle_silence).1;
        // Whoever passes a call on at this moment has done so before.
        let _passing = lock(&self.passing);
        let owed = lock(&self.state).half.owed_calls();
        for exchange in owed {
            let call = self.call(exchange);
            self.finish(exchange, why.clone());
            if let Some(call) = call {
                self.backend.cancel(self, &call);
                works.append(call.cancel(None));
            }
        }
        works
    }

    /// Whether the answer to a call that its client has cancelled is passed on, if
    /// there is one. To be asked while the backend takes the cancel; then
    /// [`finish`](Self::finish) or [`end_cancelled`](Self::end_cancelled) must follow.
    #[must_use]
    pub fn await_cancelled(&self, exchange: Exchange) -> bool {
        lock(&self.state).half.await_cancelled(exchange)
    }

    /// A cancelled call gets no answer: its stream ends.
    pub fn end_cancelled(&self, exchange: Exchange) {
        self.quietly(|half| half.end_cancelled(exchange));
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

    /// Whether the server waits for an answer of this legacy client.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(&lock(&self.state).half, ServerHalf::Legacy(half) if half.is_asked())
    }

    /// How many calls are open.
    pub fn calls(&self) -> usize {
        lock(&self.state).half.calls()
    }
}

impl ClientConnection {
    /// Lets its calls wait here for input.
    pub(crate) fn park_in(self: &Arc<Self>, parking: &Arc<Parking>) {
        if self.parking.set(Arc::clone(parking)).is_ok() {
            parking.enter(self);
        }
    }

    /// Says who answers, as JSON: for the results that its half makes by itself (MOD-7).
    pub fn introduce(&self, server: &Bytes) {
        self.quietly(|half| {
            if let ServerHalf::Modern(half) = half {
                half.introduce(server.clone());
            }
        });
    }

    /// The inside does not take a call; over HTTP a modern client learns so by the status too (MH-14).
    pub fn turn_away(&self, exchange: Exchange, id: Option<&Id>, why: &Refusal) {
        let call = lock(&self.state).calls.remove(&exchange);
        if let Some(call) = &call {
            // What turns it away has no answer that another could stand for.
            _ = call.observe_end(self, Some(&Message::refusal(id, why)));
        }
        self.quietly(|half| half.turn_away(exchange, id, why));
        if let Some(call) = call {
            call.close();
        }
    }

    /// Questions of a modern client's call are put to it together.
    pub(super) fn gather(self: &Arc<Self>, round: Option<(Exchange, u32)>) {
        if let (Some((exchange, round)), Some(parking)) = (round, self.parking.get()) {
            parking.gather(self, exchange, round);
        }
    }

    /// Answers a modern client's call with its questions.
    pub(crate) fn close_round(&self, round: (Exchange, u32), state: &str, until: Instant) {
        self.quietly(|half| {
            if let ServerHalf::Modern(half) = half {
                half.close_round(round, state, until);
            }
        });
    }

    /// How many questions of a modern client's call wait to be put to it together.
    pub(crate) fn questions(&self, round: (Exchange, u32)) -> usize {
        match &lock(&self.state).half {
            ServerHalf::Legacy(_) => 0,
            ServerHalf::Modern(half) => half.questions(round),
        }
    }

    /// A modern client is back with the state of a parked call.
    pub(crate) fn retry(
        self: &Arc<Self>,
        key: (Exchange, u32),
        (turns, charge): (Turns, Option<&Arc<Charge>>),
        lane: Lane,
        request: &Message,
        headers: Option<&HeaderMap>,
    ) -> PendingWork {
        let retry = |half: &mut ServerHalf| {
            if let ServerHalf::Modern(half) = half {
                half.handle_retry(key, lane, request, headers);
            }
        };
        self.step_in(turns, charge, retry).1
    }

    /// Gives up on parked calls whose client is late.
    pub(crate) fn give_up_parked(self: &Arc<Self>) {
        let give_up = |half: &mut ServerHalf| {
            if let ServerHalf::Modern(half) = half {
                half.handle_timeout(now());
            }
        };
        self.step(give_up).1.detach();
    }

    /// How many of its calls wait for it.
    pub(crate) fn parked(&self) -> usize {
        match &lock(&self.state).half {
            ServerHalf::Legacy(_) => 0,
            ServerHalf::Modern(half) => half.parked(),
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

impl ClientConnection {
    /// Waits until this client has read enough of what it was sent, or is over.
    pub async fn wait_for_room(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if state.has_room() || state.ended {
                return Poll::Ready(());
            }
            wait(&mut state.waiting_for_room, cx);
            Poll::Pending
        })
        .await;
    }

    /// The same, for who cannot hold on to it.
    pub fn room_for_more(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.wait_for_room().await })
    }

    /// Whether this client reads slower than it is written to.
    pub fn is_slow(&self) -> bool {
        !lock(&self.state).has_room()
    }
}

impl ReplySink for ClientConnection {
    fn number(&self) -> u64 {
        self.number
    }

    fn principal(&self) -> &[u8] {
        Self::principal(self)
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        self.note(exchange, message);
    }

    fn ask(
        self: Arc<Self>,
        exchange: Option<Exchange>,
        asker: Weak<dyn Asker>,
        ask: Ask,
        request: &Message,
    ) -> bool {
        Self::ask(&self, exchange, Some(asker), ask, request)
    }

    fn recall(&self, ask: Ask, message: &Message) {
        self.recall(ask, message);
    }

    fn finish(&self, exchange: Exchange, outcome: Outcome) {
        self.finish(exchange, outcome);
    }

    fn await_dropped(&self, exchange: Exchange) -> bool {
        self.await_cancelled(exchange)
    }

    fn unanswered(&self, exchange: Exchange) {
        self.end_cancelled(exchange);
    }

    fn hang_up(&self, exchange: Exchange) {
        self.hang_up(exchange);
    }

    fn is_slow(&self) -> bool {
        self.is_slow()
    }

    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.room_for_more()
    }

    fn end(self: Arc<Self>) {
        Self::end(&self);
    }
}
