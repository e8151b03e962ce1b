//! Bridges, and what may be different about them.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use switchboard_proto::limits::Limits;
use tokio::sync::Notify;

use super::gate::Gate;
use super::turn::Gatehouse;
use super::{Bridge, Children, Hidden};
use crate::face::now;
use crate::upstream::Server;

impl Bridge {
    /// A bridge to `server`; it is reached when the first client needs it.
    pub fn new(server: Server, children: Children, limits: Arc<Limits>) -> Arc<Self> {
        Self::hiding(Hidden::default(), server, children, limits)
    }

    /// The same, without some of the server's tools.
    pub fn hiding(
        hidden: Hidden,
        server: Server,
        children: Children,
        limits: Arc<Limits>,
    ) -> Arc<Self> {
        Self::made(hidden, server, children, limits, None)
    }

    /// A bridge with a bound on the calls that the server gets at once; further
    /// ones wait for their turn. They also wait for a server that is not there,
    /// for `start` at most: [`follow`](Self::follow) says who supervises it,
    /// and until then it is being started.
    pub fn guarding(
        server: Server,
        children: Children,
        limits: Arc<Limits>,
        (calls, start): (NonZeroUsize, Duration),
    ) -> Arc<Self> {
        let gate = Gate::new(calls.get(), start, now());
        let house = Some(Gatehouse::new(gate));
        Self::made(Hidden::default(), server, children, limits, house)
    }

    /// Whether several clients may stand behind one connection.
    pub fn is_shared(&self) -> bool {
        self.children.is_shared()
    }

    /// Connections that are made from here on keep these bounds.
    pub fn set_limits(&self, limits: Limits) {
        let limits = fitting(self.children, Arc::new(limits));
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The bounds of connections that are made at this time.
    pub(super) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn made(
        hidden: Hidden,
        server: Server,
        children: Children,
        limits: Arc<Limits>,
        house: Option<Mutex<Gatehouse>>,
    ) -> Arc<Self> {
        let limits = fitting(children, limits);
        Arc::new_cyclic(|this| Self {
            server,
            children,
            limits: RwLock::new(limits),
            hidden: Arc::new(hidden),
            house,
            state: Mutex::default(),
            stirred: Notify::new(),
            this: Weak::clone(this),
        })
    }
}

/// The bounds of connections that are shared like this.
fn fitting(children: Children, limits: Arc<Limits>) -> Arc<Limits> {
    match children {
        // A child that has answered is gone: nobody could ask it for a task.
        Children::PerRequest => Arc::new(Limits { tasks: 0, ..Limits::clone(&limits) }),
        _ => limits,
    }
}
