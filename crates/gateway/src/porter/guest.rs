//! Somebody who is in, or was, or will be: counted under one name.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use switchboard_net::who::Standing;
use switchboard_proto::refusal::Refusal;

use super::{Room, lock};
use crate::policy::{Busy, Meter, Principal};

/// What is known of a principal while the gateway runs.
#[derive(Debug)]
pub(super) struct Guest {
    name: Arc<str>,
    principal: RwLock<Arc<Principal>>,
    meter: Mutex<Meter>,
    sessions: AtomicUsize,
}

impl Guest {
    pub(super) fn new(principal: &Arc<Principal>) -> Self {
        Self {
            name: principal.name.as_str().into(),
            principal: RwLock::new(Arc::clone(principal)),
            meter: Mutex::new(Meter::new(principal.rate, principal.calls)),
            sessions: AtomicUsize::new(0),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn principal(&self) -> Arc<Principal> {
        Arc::clone(&self.principal.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Other rules hold from here on.
    pub(super) fn change(&self, principal: &Arc<Principal>) {
        lock(&self.meter).adjust(principal.rate, principal.calls);
        let mut current = self.principal.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::clone(principal);
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    pub(super) fn calls(&self) -> usize {
        lock(&self.meter).open()
    }

    fn take_session(&self) -> bool {
        let most = self.principal().sessions.unwrap_or(usize::MAX);
        let one_more = |open| (open < most).then_some(open + 1);
        self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }
}

/// A guest who is there.
#[derive(Debug)]
pub(super) struct Present {
    guest: Arc<Guest>,
    room: Arc<Room>,
}

impl Present {
    pub(super) fn new(guest: &Arc<Guest>, room: &Arc<Room>) -> Self {
        Self { guest: Arc::clone(guest), room: Arc::clone(room) }
    }
}

fn refusal(busy: Busy) -> Refusal {
    match busy {
        Busy::Rate { wait } => Refusal::TooOften { wait },
        Busy::Calls(_) => Refusal::TooManyCalls,
    }
}

impl Standing for Present {
    fn begin_call(&self, now: Instant) -> Result<(), Refusal> {
        lock(&self.guest.meter).enter(now).map_err(refusal)
    }

    fn count_notification(&self, now: Instant) -> Result<(), Refusal> {
        lock(&self.guest.meter).pay(now).map_err(refusal)
    }

    fn end_call(&self) {
        lock(&self.guest.meter).leave();
    }

    fn begin_session(&self) -> Result<(), Refusal> {
        if !self.guest.take_session() {
            return Err(Refusal::TooManySessions);
        }
        if !self.room.take() {
            self.guest.sessions.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::TooManySessions);
        }
        Ok(())
    }

    fn end_session(&self) {
        self.guest.sessions.fetch_sub(1, Ordering::Relaxed);
        self.room.leave();
    }
}
