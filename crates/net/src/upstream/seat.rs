//! Who opens calls at a server, and is told what comes of them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use switchboard_proto::client::{Half, Ticket};
use switchboard_proto::exchange::{Ask, Exchange};
use switchboard_proto::failure::{Failure, Outcome};
use switchboard_proto::jsonrpc::Message;

use super::Upstream;
use crate::face::Face;
use crate::inside::Works;

/// Somebody behind the calls: a client that is served, a client of ours, or who
/// stands before one.
///
/// Told by whoever passes verbs on, so nothing here may wait.
pub trait Recipient: fmt::Debug + Send + Sync {
    /// Tells it from all others.
    fn number(&self) -> u64;
    /// Who stands behind it; empty for nobody in particular. Whoever stands before
    /// another says what that one would.
    fn principal(&self) -> &[u8];
    /// Something on the way, for a call or for the session.
    fn note(&self, exchange: Option<Exchange>, message: &Message);
    /// The server needs input. False if it cannot be had here.
    fn ask(self: Arc<Self>, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool;
    /// The server does not need the input any more.
    fn recall(&self, ask: Ask, message: &Message);
    /// A call is over.
    fn finish(&self, exchange: Exchange, outcome: Outcome);
    /// The server may still answer this call, which its owner has dropped. True if
    /// that answer is to be passed on: then `finish` or `unanswered` follows.
    fn await_dropped(&self, _exchange: Exchange) -> bool {
        false
    }
    /// A dropped call gets no answer.
    fn unanswered(&self, _exchange: Exchange) {}
    /// The server ended the connection of a call on purpose: its answer takes long.
    fn hang_up(&self, _exchange: Exchange) {}
    /// The link to the server is gone; it may come back.
    fn lost(&self, _why: &Failure) {}
    /// Whether it reads slower than it is told.
    fn is_slow(&self) -> bool;
    /// Waits until it has read enough.
    fn room(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    /// It is cut loose.
    fn end(self: Arc<Self>);
}

impl Upstream {
    /// A modern client is back with input for a call, by this request.
    pub(crate) fn again(self: &Arc<Self>, seat: &Seat, request: &Message) -> Works {
        let again = |half: &mut Half<Seat>, now| {
            if let Some(id) = half.find(seat) {
                half.again(id, request, now);
            }
        };
        let works = self.step(again).1;
        self.when_room(works)
    }
}

impl Recipient for Face {
    fn number(&self) -> u64 {
        self.number()
    }

    fn principal(&self) -> &[u8] {
        Self::principal(self)
    }

    fn note(&self, exchange: Option<Exchange>, message: &Message) {
        self.note(exchange, message);
    }

    fn ask(self: Arc<Self>, exchange: Option<Exchange>, ask: Ask, request: &Message) -> bool {
        Self::ask(&self, exchange, ask, request)
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

/// A call's place: whose it is, and what its owner calls it.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) owner: Arc<dyn Recipient>,
    pub(crate) exchange: Exchange,
    /// Its owner speaks the server's own era.
    pub(crate) is_native: bool,
    /// It is a question of ours beside the calls of clients.
    pub(crate) is_aside: bool,
}

impl Seat {
    /// A place for somebody who speaks what the server speaks.
    pub(crate) fn native(owner: Arc<dyn Recipient>, exchange: Exchange) -> Self {
        Self { owner, exchange, is_native: true, is_aside: false }
    }
}

impl PartialEq for Seat {
    fn eq(&self, other: &Self) -> bool {
        self.exchange == other.exchange && self.owner.number() == other.owner.number()
    }
}

impl Ticket for Seat {
    fn owner(&self) -> u64 {
        self.owner.number()
    }

    fn principal(&self) -> &[u8] {
        self.owner.principal()
    }

    fn is_native(&self) -> bool {
        self.is_native
    }

    fn awaits_dropped(&self) -> bool {
        self.owner.await_dropped(self.exchange)
    }

    fn counts(&self) -> bool {
        !self.is_aside
    }
}
