//! An authenticated user, and what they have open.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use switchboard_net::who::Standing;
use switchboard_proto::refusal::Refusal;

use super::{Room, lock};
use crate::policy::{Busy, KeyHash, Meter, Principal};

static GUESTS: AtomicU64 = AtomicU64::new(1);

/// What is known of a principal while the gateway runs.
#[derive(Debug)]
pub(super) struct Guest {
    name: Arc<str>,
    /// What is theirs belongs to this; none for whoever shows no key.
    identity: Option<Arc<str>>,
    /// They are not in the plan any more, or another guest has their name.
    is_gone: AtomicBool,
    principal: RwLock<Arc<Principal>>,
    meter: Mutex<Meter>,
    sessions: AtomicUsize,
}

impl Guest {
    pub(super) fn new(principal: &Arc<Principal>) -> Self {
        let name = principal.name.as_str();
        let number = GUESTS.fetch_add(1, Ordering::Relaxed);
        Self {
            name: name.into(),
            identity: (!name.is_empty()).then(|| format!("{name}\0{number}").into()),
            is_gone: AtomicBool::new(false),
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

    /// What tells them from everybody else, and from others who had their name.
    pub(super) fn identity(&self) -> Option<&Arc<str>> {
        self.identity.as_ref()
    }

    /// Whether a principal of the same name is the same user: a key of theirs stays.
    pub(super) fn shares_key_with(&self, principal: &Principal) -> bool {
        let had = &self.principal().keys;
        had.is_empty() && principal.keys.is_empty()
            || had.iter().any(|key| principal.keys.contains(key))
    }

    /// They may not come in any more.
    pub(super) fn dismiss(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
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

    /// Takes one session more, of so many that all may have together. Where the file
    /// says nothing of a key, it leaves a quarter of them to others.
    fn take_session(&self, all: usize) -> bool {
        let is_anybody = self.name.is_empty();
        let share = if is_anybody { usize::MAX } else { all - all / 4 };
        let most = self.principal().sessions.unwrap_or(share);
        let one_more = |open| (open < most).then_some(open + 1);
        self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }
}

/// A guest who is there.
#[derive(Debug)]
pub(super) struct Present {
    guest: Arc<Guest>,
    /// What they showed.
    key: Option<KeyHash>,
    room: Arc<Room>,
}

impl Present {
    pub(super) fn new(guest: &Arc<Guest>, key: Option<KeyHash>, room: &Arc<Room>) -> Self {
        Self { guest: Arc::clone(guest), key, room: Arc::clone(room) }
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
        if !self.guest.take_session(self.room.most.load(Ordering::Relaxed)) {
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

    fn is_current(&self) -> bool {
        let has = |key: &KeyHash| self.guest.principal().keys.contains(key);
        self.is_known() && self.key.as_ref().is_none_or(has)
    }

    fn is_known(&self) -> bool {
        !self.guest.is_gone.load(Ordering::SeqCst)
    }
}
