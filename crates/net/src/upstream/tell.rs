//! The way back: what a server says, to the clients it is meant for.

use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError, Weak};

use bytes::Bytes;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Down, Exchange, Lane, To};
use switchboard_proto::jsonrpc::{self, Incoming, Message};

use super::{Recipient, Seat, Upstream};
use crate::face::lock;
use crate::inside::Works;

impl Upstream {
    /// Text arrived on a lane.
    pub(crate) fn handle_text(self: &Arc<Self>, lane: Lane, text: Bytes) -> Works {
        tracing::trace!(server = self.name, lane = lane.0, bytes = text.len(), "from the server");
        self.server.traffic().add_received(text.len());
        let whole = text.clone();
        match jsonrpc::parse(text) {
            Ok(Incoming::One(message)) => self.handle_message(lane, &message),
            Ok(Incoming::Batch(elements)) => {
                let mut works = Works::none();
                for message in elements.iter().flatten() {
                    works.append(self.handle_message(lane, message));
                }
                // What cannot be read fails a call that none of the others answered.
                for (element, text) in elements.iter().zip(jsonrpc::elements(&whole)) {
                    if let Err(refused) = element {
                        works.append(self.handle_unreadable(lane, &text, refused));
                    }
                }
                works
            }
            Err(refused) => self.handle_unreadable(lane, &whole, &refused),
        }
    }

    pub(super) fn handle_message(self: &Arc<Self>, lane: Lane, message: &Message) -> Works {
        self.count_notice(message);
        let other = self.past_loops(message);
        let message = other.as_ref().unwrap_or(message);
        self.step(|half, now| half.handle_message(lane, message, now)).1
    }

    /// Somebody wants to be told what belongs to no call.
    pub(crate) fn attach(&self, face: &Arc<dyn Recipient>) {
        let mut faces = lock(&self.faces);
        let there = faces.get(&face.number()).is_some_and(|known| known.strong_count() > 0);
        if !there {
            faces.insert(face.number(), Arc::downgrade(face));
        }
    }

    /// Nobody will ever be told what belongs to no call: it need not be listened for.
    pub(crate) fn go_deaf(&self) {
        self.deaf.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    /// Whether somebody is told what belongs to no call.
    pub(crate) fn is_attached(&self) -> bool {
        lock(&self.faces).values().any(|face| face.strong_count() > 0)
    }

    /// Everybody who is told what belongs to no call.
    pub(crate) fn attached(&self) -> Vec<Arc<dyn Recipient>> {
        lock(&self.faces).values().filter_map(Weak::upgrade).collect()
    }

    /// Tells the faces what the half has to tell, in order.
    pub(super) fn pass_down(self: &Arc<Self>) {
        loop {
            let passing = match self.passing.try_lock() {
                Ok(passing) => passing,
                Err(TryLockError::Poisoned(passing)) => passing.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            while let Some(verb) = self.next_down() {
                self.tell(verb);
            }
            drop(passing);
            // Somebody may have left a verb to us just before we let go.
            if lock(&self.core).down.is_empty() {
                return;
            }
        }
    }

    fn next_down(&self) -> Option<Down<Seat>> {
        lock(&self.core).down.pop_front()
    }

    fn tell(self: &Arc<Self>, verb: Down<Seat>) {
        tracing::trace!(server = self.name, verb = verb.name(), "to the client");
        match verb {
            Down::Note { to, message } => {
                self.each(&to, |face, exchange| face.note(exchange, &message));
            }
            Down::Ask { to, ask, request } => {
                let mut asked = false;
                self.each(&to, |face, exchange| {
                    asked = asked || Arc::clone(face).ask(exchange, ask, &request);
                });
                if !asked {
                    self.step(|half, now| half.refuse_ask(ask, now)).1.detach();
                }
            }
            Down::Recall { to, ask, message } => {
                self.each(&to, |face, _| face.recall(ask, &message));
            }
            Down::Finish { to, outcome } => {
                to.owner.finish(to.exchange, outcome);
                self.watch_slow(&to.owner);
            }
            Down::Unanswered { to } => to.owner.unanswered(to.exchange),
        }
    }

    /// Everybody whom `to` means.
    fn each(&self, to: &To<Seat>, mut tell: impl FnMut(&Arc<dyn Recipient>, Option<Exchange>)) {
        match to {
            To::Call(seat) => {
                tell(&seat.owner, Some(seat.exchange));
                self.watch_slow(&seat.owner);
            }
            To::Session => {
                for face in &self.attached() {
                    tell(face, None);
                    self.watch_slow(face);
                }
            }
        }
    }

    fn watch_slow(&self, face: &Arc<dyn Recipient>) {
        if face.is_slow() {
            let mut slow = lock(&self.slow);
            if !slow.iter().any(|known| Arc::ptr_eq(known, face)) {
                slow.push(Arc::clone(face));
            }
        }
    }

    /// Waits until the clients have read enough. One that shares its server with
    /// others is cut loose instead: a slow reader must harm nobody else.
    pub(super) async fn clients_have_room(&self) {
        let slow = std::mem::take(&mut *lock(&self.slow));
        for face in slow {
            if self.sharing() == Sharing::Alone {
                face.room().await;
            } else if face.is_slow() {
                tracing::warn!(server = self.name, "a client that does not read is disconnected");
                face.end();
            }
        }
    }
}
