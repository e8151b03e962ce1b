//! The other end of a line: a connection of its own, or one behind a bridge.

use std::sync::Arc;

use switchboard_proto::client::Sharing;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;

use super::desk::Desk;
use crate::bridge::Bridge;
use crate::call::{Call, ReplySink};
use crate::face::Face;
use crate::inside::{Inside as _, Works};
use crate::upstream::{Server, Upstream};

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

    /// Opens a call; what must be done for it.
    pub(super) fn open(&self, call: &Call, request: &Message) -> Works {
        match self {
            Self::Own(upstream) => upstream.open(call, true, request, &None),
            Self::Behind(bridge, face) => bridge.open(face, call, request.clone(), None),
        }
    }

    pub(super) fn note(&self, message: Message) -> Works {
        match self {
            Self::Own(upstream) => upstream.note(message),
            Self::Behind(bridge, face) => bridge.note(face, message),
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
            upstream.attach(&(Arc::clone(desk) as Arc<dyn ReplySink>));
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
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(upstream) => upstream.fmt(f),
            Self::Behind(_, face) => face.fmt(f),
        }
    }
}
