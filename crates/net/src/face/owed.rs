//! What a client still waits for, and how far its conversation has got.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use switchboard_proto::exchange::Exchange;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::server::ServerHalf;
use switchboard_proto::server::legacy::Phase;

use super::{Face, lock, wait};
use crate::inside::Works;

impl Face {
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
    pub fn give_up(self: &Arc<Self>, why: &Refusal) -> Works {
        let owed = lock(&self.state).half.owed_calls();
        let mut dropped = Vec::new();
        for exchange in owed {
            dropped.extend(self.call(exchange));
            self.finish(exchange, why.clone());
        }
        let mut works = self.step(ServerHalf::handle_silence).1;
        let _passing = lock(&self.passing);
        for call in dropped {
            self.inside.cancel(self, &call);
            works.append(call.cancel(None));
        }
        works
    }

    /// Whether the answer to a call that its client has cancelled is passed on, if
    /// there is one. To be asked while the inside takes the cancel; then
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
