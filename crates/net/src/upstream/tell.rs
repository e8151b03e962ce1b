//! The way back: what a server says, to the clients it is meant for.

use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError, Weak};

use bytes::Bytes;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Lane, ServerEvent, To};
use switchboard_proto::jsonrpc::{self, Incoming, Message};

use super::Upstream;
use crate::backend::PendingWork;
use crate::call::{Asker, Call, ReplySink};
use crate::connection::lock;

impl Upstream {
    /// Text arrived on a lane.
    pub(crate) fn handle_text(self: &Arc<Self>, lane: Lane, text: Bytes) -> PendingWork {
        tracing::trace!(server = self.name, lane = lane.0, bytes = text.len(), "from the server");
        self.server.traffic().add_received(text.len());
        let whole = text.clone();
        match jsonrpc::parse(text) {
            Ok(Incoming::One(message)) => self.handle_message(lane, &message),
            Ok(Incoming::Batch(elements)) => {
                let mut works = PendingWork::none();
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

    pub(super) fn handle_message(self: &Arc<Self>, lane: Lane, message: &Message) -> PendingWork {
        self.count_notice(message);
        let other = self.past_loops(message);
        let message = other.as_ref().unwrap_or(message);
        self.step(|half, now| half.handle_message(lane, message, now)).1
    }

    /// Somebody wants to be told what belongs to no call.
    pub(crate) fn attach(&self, client: &Arc<dyn ReplySink>) {
        let mut clients = lock(&self.clients);
        let there = clients.get(&client.number()).is_some_and(|known| known.strong_count() > 0);
        if !there {
            clients.insert(client.number(), Arc::downgrade(client));
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
        lock(&self.clients).values().any(|client| client.strong_count() > 0)
    }

    /// Everybody who is told what belongs to no call.
    pub(crate) fn attached(&self) -> Vec<Arc<dyn ReplySink>> {
        lock(&self.clients).values().filter_map(Weak::upgrade).collect()
    }

    /// Tells the client connections what the half has to tell, in order.
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

    fn next_down(&self) -> Option<ServerEvent<Call>> {
        lock(&self.core).down.pop_front()
    }

    fn tell(self: &Arc<Self>, verb: ServerEvent<Call>) {
        tracing::trace!(server = self.name, verb = verb.name(), "to the client");
        match verb {
            ServerEvent::Note { to: To::Call(call), message } => {
                self.about(&call, |it| it.note(&message));
            }
            ServerEvent::Note { to: To::Session, message } => {
                self.to_all(|listener| listener.note(None, &message));
            }
            ServerEvent::Ask { to, ask, request } => {
                let this: Arc<dyn Asker> = Arc::<Self>::clone(self);
                let asker = Arc::downgrade(&this);
                let mut is_asked = false;
                match to {
                    To::Call(call) => {
                        self.about(&call, |it| is_asked = it.ask(asker, ask, &request));
                    }
                    To::Session => self.to_all(|listener| {
                        let asker = asker.clone();
                        is_asked = is_asked || Arc::clone(listener).ask(None, asker, ask, &request);
                    }),
                }
                if !is_asked {
                    self.step(|half, now| half.refuse_ask(ask, now)).1.detach();
                }
            }
            ServerEvent::Recall { to: To::Call(call), ask, message } => {
                self.about(&call, |it| it.recall(ask, &message));
            }
            ServerEvent::Recall { to: To::Session, ask, message } => {
                self.to_all(|listener| listener.recall(ask, &message));
            }
            ServerEvent::Finish { to, outcome } => self.about(&to, |it| it.finish(outcome)),
            ServerEvent::Unanswered { to } => to.unanswered(),
        }
    }

    /// Tells the client of a call.
    fn about(&self, call: &Call, tell: impl FnOnce(&Call)) {
        tell(call);
        self.watch_slow(call.sink());
    }

    /// Tells everybody who hears what belongs to no call.
    fn to_all(&self, mut tell: impl FnMut(&Arc<dyn ReplySink>)) {
        for listener in &self.attached() {
            tell(listener);
            self.watch_slow(listener);
        }
    }

    fn watch_slow(&self, client: &Arc<dyn ReplySink>) {
        if client.is_slow() {
            let mut slow = lock(&self.slow);
            if !slow.iter().any(|known| Arc::ptr_eq(known, client)) {
                slow.push(Arc::clone(client));
            }
        }
    }

    /// Waits until the clients have read enough. One that shares its server with
    /// others is cut loose instead: a slow reader must harm nobody else.
    pub(super) async fn clients_have_room(&self) {
        let slow = std::mem::take(&mut *lock(&self.slow));
        for client in slow {
            if self.sharing() == Sharing::Alone {
                client.room().await;
            } else if client.is_slow() {
                tracing::warn!(server = self.name, "a client that does not read is disconnected");
                client.end();
            }
        }
    }
}
