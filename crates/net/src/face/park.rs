//! What modern clients need of a face: calls that wait for them to come back, a
//! server with a name, refusals with a status.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use switchboard_proto::exchange::{Exchange, Lane};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::server::Half;

use super::{Face, lock, now};
use crate::http::request_body::Charge;
use crate::inside::Works;
use crate::park::Parking;
use crate::who::Turns;

impl Face {
    /// Lets its calls wait here for input.
    pub(crate) fn park_in(self: &Arc<Self>, parking: &Arc<Parking>) {
        if self.parking.set(Arc::clone(parking)).is_ok() {
            parking.enter(self);
        }
    }

    /// Says who answers, as JSON: for the results that its half makes by itself (MOD-7).
    pub fn introduce(&self, server: &Bytes) {
        self.quietly(|half| {
            if let Half::Modern(half) = half {
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
            if let Half::Modern(half) = half {
                half.close_round(round, state, until);
            }
        });
    }

    /// How many questions of a modern client's call wait to be put to it together.
    pub(crate) fn questions(&self, round: (Exchange, u32)) -> usize {
        match &lock(&self.state).half {
            Half::Legacy(_) => 0,
            Half::Modern(half) => half.questions(round),
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
    ) -> Works {
        let retry = |half: &mut Half| {
            if let Half::Modern(half) = half {
                half.handle_retry(key, lane, request, headers);
            }
        };
        self.step_in(turns, charge, retry).1
    }

    /// Gives up on parked calls whose client is late.
    pub(crate) fn give_up_parked(self: &Arc<Self>) {
        let give_up = |half: &mut Half| {
            if let Half::Modern(half) = half {
                half.handle_timeout(now());
            }
        };
        self.step(give_up).1.detach();
    }

    /// How many of its calls wait for it.
    pub(crate) fn parked(&self) -> usize {
        match &lock(&self.state).half {
            Half::Legacy(_) => 0,
            Half::Modern(half) => half.parked(),
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        self.account_for_drop();
        if let Some(parking) = self.parking.get() {
            parking.leave(self.number);
        }
    }
}
