//! The state of a connection: the half, its road, and what waits on it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_proto::client::Half;
use switchboard_proto::exchange::{Down, Lane};
use switchboard_proto::jsonrpc::Message;
use tokio::sync::Notify;

use super::Seat;
use crate::drive::Stop;
use crate::face::now;

/// What is behind the lock of an upstream.
pub(super) struct Core {
    pub(super) half: Half<Seat>,
    /// What the half has to tell and nobody has passed on yet.
    pub(super) down: VecDeque<Down<Seat>>,
    pub(super) road: Road,
    pub(super) outbound: VecDeque<Message>,
    pub(super) outbound_bytes: usize,
    /// How to end a lane early.
    pub(super) lanes: HashMap<Lane, Arc<Notify>>,
    /// Over HTTP: the end of the handshake, while it is on its way.
    pub(super) confirming: Option<Arc<Stop>>,
    pub(super) trial: Trial,
    /// The deadlines are watched.
    pub(super) watched: bool,
    /// When they are looked at next.
    pub(super) next_look: Option<Instant>,
    /// The pipe is made whenever it is needed.
    pub(super) piped: bool,
    /// More of ours than the bound allows is left unread.
    pub(super) choked: bool,
    /// When a client last opened a call.
    pub(super) used: Instant,
}

/// How messages leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Road {
    Pipe,
    Http,
}

/// Whether the road is the right one.
pub(super) enum Trial {
    /// Not known yet.
    First,
    /// The other road was no good; why.
    Second(String),
    /// The server has answered by it.
    Settled,
}

/// The deadlines are not looked at more often than this.
pub(super) const LEAST_LOOK: Duration = Duration::from_millis(10);

impl Core {
    pub(super) fn new(half: Half<Seat>, road: Road) -> Self {
        Self {
            half,
            down: VecDeque::new(),
            road,
            outbound: VecDeque::new(),
            outbound_bytes: 0,
            lanes: HashMap::new(),
            confirming: None,
            trial: Trial::First,
            watched: false,
            next_look: None,
            piped: false,
            choked: false,
            used: now(),
        }
    }

    /// Whether something is due before the deadlines are looked at again.
    pub(super) fn is_due_sooner(&self) -> bool {
        match (self.half.poll_timeout(), self.next_look) {
            // Not sooner than the watcher would look by itself: it must not chase its own steps.
            (Some(due), Some(look)) => due.max(now() + LEAST_LOOK) < look,
            _ => false,
        }
    }

    /// Moves what the half has to tell to where it is passed on from.
    pub(super) fn settle(&mut self) {
        while let Some(verb) = self.half.poll_down() {
            self.down.push_back(verb);
        }
    }
}
