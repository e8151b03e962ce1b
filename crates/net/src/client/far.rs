//! The other end of a line: a connection of its own, or one behind a bridge.

use std::sync::{Arc, Weak};

use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Ask, Exchange, Up};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;

use super::desk::Desk;
use crate::bridge::Bridge;
use crate::face::Face;
use crate::inside::{Inside as _, Works};
use crate::upstream::{Recipient, Seat, Server, Upstream};

/// Where calls go.
#[derive(Clone)]
pub(super) enum Far {
    /// A connection that nobody else uses.
    Own(Arc<Upstream>),
    /// A bridge, to which we are one client of many.
    Behind(Arc<Bridge>, Arc<Face>),
}

impl Far {
    pub(super) fn new(server: &Server, era: Era, limits: Arc<Limits>) -> Self {
        match server.through() {
            Some(behind) => Self::Behind(Arc::clone(&behind.bridge), behind.face(era)),
            None => Self::Own(Upstream::new(server.clone(), era, Sharing::Alone, None, limits)),
        }
    }

    /// What tells us from others there, if somebody else gave it.
    pub(super) fn face(&self) -> Option<&Arc<Face>> {
        match self {
            Self::Own(_) => None,
            Self::Behind(_, face) => Some(face),
        }
    }

    pub(super) fn open(&self, desk: &Arc<Desk>, exchange: Exchange, request: &Message) -> Works {
        let owner = Arc::<Desk>::clone(desk);
        match self {
            Self::Own(upstream) => upstream.open(Seat::native(owner, exchange), request, &None),
            Self::Behind(bridge, face) => {
                let request = request.clone();
                bridge.take_aside(face, owner, Up::Open { exchange, request, said: None })
            }
        }
    }

    pub(super) fn drop_call(&self, desk: &Arc<Desk>, exchange: Exchange, words: Message) -> Works {
        match self {
            Self::Own(upstream) => {
                let seat = Seat::native(Arc::<Desk>::clone(desk), exchange);
                upstream.drop_call(&seat, Some(&words))
            }
            Self::Behind(bridge, face) => {
                bridge.take(face, Up::Drop { exchange, message: Some(words) })
            }
        }
    }

    pub(super) fn note(&self, message: Message) -> Works {
        match self {
            Self::Own(upstream) => upstream.note(message),
            Self::Behind(bridge, face) => bridge.take(face, Up::Note { message }),
        }
    }

    /// The server does not speak what it was asked for first.
    pub(super) fn turn_legacy(&self) {
        if let Self::Own(upstream) = self {
            upstream.turn_legacy();
        }
    }

    /// Says whether it is asked for its era only.
    pub(super) fn scout(&self, scouts: bool) {
        if let Self::Own(upstream) = self {
            upstream.scout(scouts);
        }
    }

    /// Has it tell the desk what belongs to no call.
    pub(super) fn attach(&self, desk: &Arc<Desk>) {
        if let Self::Own(upstream) = self {
            upstream.attach(&(Arc::clone(desk) as Arc<dyn Recipient>));
        }
    }

    /// Waits until what belongs to no call is heard.
    pub(super) async fn until_listening(&self) {
        if let Self::Own(upstream) = self {
            upstream.until_listening().await;
        }
    }

    /// Ends it without waiting; a bridge only forgets us.
    pub(super) fn stop(&self) {
        match self {
            Self::Own(upstream) => upstream.stop(),
            Self::Behind(_, face) => face.end(),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        match self {
            Self::Own(upstream) => upstream.is_stopped(),
            Self::Behind(_, face) => face.is_over(),
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Own(upstream) => upstream.close().await,
            Self::Behind(_, face) => face.end(),
        }
    }

    /// The way back, for the answers to questions.
    pub(super) fn back(&self) -> Back {
        match self {
            Self::Own(upstream) => Back::Own(Arc::downgrade(upstream)),
            Self::Behind(bridge, face) => Back::Behind(Arc::downgrade(bridge), Arc::clone(face)),
        }
    }
}

/// The same for who must not keep it there.
pub(super) enum Back {
    Own(Weak<Upstream>),
    Behind(Weak<Bridge>, Arc<Face>),
}

impl Back {
    /// Who stands behind us there.
    pub(super) fn principal(&self) -> &[u8] {
        match self {
            Self::Own(_) => b"",
            Self::Behind(_, face) => face.principal(),
        }
    }

    pub(super) fn supply(&self, ask: Ask, answer: &Message) {
        let works = match self {
            Self::Own(upstream) => upstream.upgrade().map(|it| it.supply(ask, answer)),
            Self::Behind(bridge, face) => {
                let supply = Up::Supply { ask, answer: answer.clone() };
                bridge.upgrade().map(|bridge| bridge.take(face, supply))
            }
        };
        works.into_iter().for_each(Works::detach);
    }
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(upstream) => upstream.fmt(f),
            Self::Behind(_, face) => face.fmt(f),
        }
    }
}

impl std::fmt::Debug for Back {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Back").finish_non_exhaustive()
    }
}
