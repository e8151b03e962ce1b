//! Who is in: the keys of a plan at the doors of a gateway.
//!
//! ```text
//!   headers ──▶ policy: whose key? ──▶ may they use this door? ──▶ Who
//!                                                                   │ as long as they are here
//!   calls, sessions, tools ──▶ Guest: counted and looked up by name ◀┘
//! ```
//!
//! A [`Authenticate`] is told who may come in, and may be told otherwise while the
//! gateway runs ([`Authenticator::replace`]). Whoever is there goes on under the new
//! rules, or has to leave; what was counted stays counted.
//!
//! A name whose keys are all replaced at once is another guest, who inherits
//! nothing. While old and new keys are in the file together they are one guest, and what
//! was opened with a key ends when that key is removed.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Instant;

use http::{HeaderMap, HeaderValue};
use switchboard_net::access::{AuthDenial, Authenticate, Standing, Who};
use switchboard_proto::refusal::Refusal;

use crate::policy::{Access, Busy, Denied, Grant, KeyHash, Meter, Principal};

/// Where everything is that a gateway serves.
const ENDPOINT: &str = "/mcp";

/// Knows who may come in at present.
pub struct Authenticator {
    roll: RwLock<Arc<KeyTable>>,
    /// Sessions of everybody.
    sessions: Arc<Room>,
    /// Those who act when somebody must leave or sees something else.
    hear: Mutex<Vec<Weak<Hear>>>,
}

type Hear = dyn Fn() + Send + Sync;

/// Hears when others may come in, for as long as it is kept.
#[must_use = "whoever drops it hears nothing"]
pub struct Hearing(#[expect(dead_code, reason = "it is kept, not read")] Arc<Hear>);

/// Everybody that may come in, by what they show and by name.
#[derive(Default)]
struct KeyTable {
    access: Access,
    guests: HashMap<Arc<str>, Arc<Usage>>,
}

/// Something of which there may be so many.
#[derive(Debug)]
struct Room {
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl Room {
    fn take(&self) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let one_more = |taken| (taken < most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn leave(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A way in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Entrance {
    /// All servers together, as far as each may use them.
    All,
    /// A group, for those who may use it.
    Group(String),
    /// Pages that tell of all servers, for those from whom nothing is kept.
    Pages,
    /// One server, for those who may use it.
    Server(String),
}

impl Entrance {
    fn lets(&self, who: &Principal) -> bool {
        match self {
            Self::All => true,
            Self::Group(name) => who.may_enter(name),
            Self::Pages => who.grant.is_open(),
            Self::Server(name) => who.may_use(name),
        }
    }

    /// Whoever may not use a server or a group is not to know that it is there.
    fn shut(&self) -> AuthDenial {
        match self {
            Self::Pages => AuthDenial::forbidden("this page is for keys that may use every server"),
            _ => AuthDenial::nothing_here(ENDPOINT),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Authenticator {
    /// Sessions of all together, where nobody says otherwise: it takes some
    /// kilobytes to remember one.
    pub const SESSIONS: usize = 8192;

    /// Lets in whom `access` names, with at most so many sessions of all together.
    pub fn new(access: Access, max_sessions: usize) -> Arc<Self> {
        let most = AtomicUsize::new(max_sessions);
        let sessions = Arc::new(Room { taken: AtomicUsize::new(0), most });
        let roll = RwLock::new(Arc::new(KeyTable::default().next(access)));
        Arc::new(Self { roll, sessions, hear: Mutex::default() })
    }

    /// Lets in whom `access` names, from here on. When this returns, a key that is
    /// not in it opens nothing, and what was open by it is closed.
    pub fn replace(&self, access: Access) {
        let mut roll = self.roll.write().unwrap_or_else(PoisonError::into_inner);
        let next = Arc::new(roll.next(access));
        *roll = next;
        drop(roll);
        let hear: Vec<_> = lock(&self.hear).iter().filter_map(Weak::upgrade).collect();
        for hear in hear {
            hear();
        }
    }

    /// Lets in so many sessions of all together from here on; those that are there stay.
    pub fn bound(&self, max_sessions: usize) {
        self.sessions.most.store(max_sessions, Ordering::Relaxed);
    }

    /// Has `hear` called after each [`Authenticator::replace`]: to close what is not to
    /// be open any more, and to show others what they see.
    pub fn on_replace(&self, hear: impl Fn() + Send + Sync + 'static) -> Hearing {
        let hear: Arc<Hear> = Arc::new(hear);
        let mut all = lock(&self.hear);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&hear));
        Hearing(hear)
    }

    /// Whether anybody may come in without showing who they are.
    pub fn is_open(&self) -> bool {
        self.roll().access.is_open()
    }

    /// How many sessions and listens are open, of all together.
    pub fn sessions(&self) -> usize {
        self.sessions.taken.load(Ordering::Relaxed)
    }

    /// The principal of this name, if they may come in.
    pub fn principal(&self, name: &str) -> Option<Arc<Principal>> {
        self.roll().guests.get(name).map(|guest| guest.principal())
    }

    /// Every grant that somebody has.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.roll().guests.values().map(|guest| guest.principal().grant.clone()).collect()
    }

    /// How many sessions and calls each has open, by name.
    pub fn counts(&self) -> Vec<(Arc<str>, usize, usize)> {
        let roll = self.roll();
        let counts = roll.guests.iter();
        let counts =
            counts.map(|(name, guest)| (Arc::clone(name), guest.sessions(), guest.calls()));
        let mut counts: Vec<_> = counts.collect();
        counts.sort();
        counts
    }

    /// The gate of a door, for a site.
    pub fn gate(self: &Arc<Self>, door: Entrance) -> Arc<dyn Authenticate> {
        Arc::new(Keeper { authenticator: Arc::clone(self), door })
    }

    fn roll(&self) -> Arc<KeyTable> {
        Arc::clone(&self.roll.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KeyTable {
    /// The roll that follows, with what is counted of those who stay.
    fn next(&self, access: Access) -> Self {
        let mut next = Self::default();
        for principal in access.principals.iter().chain(&access.anonymous) {
            let before = self.guests.get(principal.name.as_str());
            let before = before.filter(|guest| guest.shares_key_with(principal));
            before.inspect(|guest| guest.change(principal));
            let guest = before.cloned().unwrap_or_else(|| Arc::new(Usage::new(principal)));
            next.guests.insert(Arc::clone(guest.name()), guest);
        }
        let stays = |guest: &Arc<Usage>| {
            next.guests.get(guest.name()).is_some_and(|it| Arc::ptr_eq(it, guest))
        };
        self.guests.values().filter(|guest| !stays(guest)).for_each(|guest| guest.dismiss());
        next.access = access;
        next
    }
}

/// A porter at one door.
struct Keeper {
    authenticator: Arc<Authenticator>,
    door: Entrance,
}

impl Authenticate for Keeper {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        let roll = self.authenticator.roll();
        let (principal, key) = roll.access.identify(headers).map_err(refused)?;
        if !self.door.lets(&principal) {
            return Err(self.door.shut());
        }
        let guest = roll.guests.get(principal.name.as_str());
        let guest = guest.ok_or_else(|| refused(Denied::UnknownKey))?;
        let present = Present::new(guest, key, &self.authenticator.sessions);
        let who = Who::with(Arc::clone(guest.name()), Arc::new(present));
        Ok(match guest.identity() {
            Some(identity) => who.marked(Arc::clone(identity)),
            None => who,
        })
    }

    fn keeps(&self, name: &str) -> bool {
        let roll = self.authenticator.roll();
        roll.guests.get(name).is_some_and(|guest| self.door.lets(&guest.principal()))
    }
}

fn refused(denied: Denied) -> AuthDenial {
    let challenge = match denied {
        Denied::UnknownKey => HeaderValue::from_static("Bearer error=\"invalid_token\""),
        _ => HeaderValue::from_static("Bearer"),
    };
    AuthDenial::unknown(challenge, format!("{denied}; send it as X-API-Key or as a bearer token"))
}

impl fmt::Debug for Hearing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hearing").finish_non_exhaustive()
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("door", &self.door).finish_non_exhaustive()
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roll = self.roll();
        f.debug_struct("Porter").field("guests", &roll.guests.keys()).finish_non_exhaustive()
    }
}

static GUESTS: AtomicU64 = AtomicU64::new(1);

/// What is known of a principal while the gateway runs.
#[derive(Debug)]
struct Usage {
    name: Arc<str>,
    /// What is theirs belongs to this; none for whoever shows no key.
    identity: Option<Arc<str>>,
    /// They are not in the plan any more, or another guest has their name.
    is_gone: AtomicBool,
    principal: RwLock<Arc<Principal>>,
    meter: Mutex<Meter>,
    sessions: AtomicUsize,
}

impl Usage {
    fn new(principal: &Arc<Principal>) -> Self {
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

    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn principal(&self) -> Arc<Principal> {
        Arc::clone(&self.principal.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What tells them from everybody else, and from others who had their name.
    fn identity(&self) -> Option<&Arc<str>> {
        self.identity.as_ref()
    }

    /// Whether a principal of the same name is the same user: a key of theirs stays.
    fn shares_key_with(&self, principal: &Principal) -> bool {
        let had = &self.principal().keys;
        had.is_empty() && principal.keys.is_empty()
            || had.iter().any(|key| principal.keys.contains(key))
    }

    /// They may not come in any more.
    fn dismiss(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }

    /// Other rules hold from here on.
    fn change(&self, principal: &Arc<Principal>) {
        lock(&self.meter).adjust(principal.rate, principal.calls);
        let mut current = self.principal.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::clone(principal);
    }

    fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    fn calls(&self) -> usize {
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
struct Present {
    guest: Arc<Usage>,
    /// What they showed.
    key: Option<KeyHash>,
    room: Arc<Room>,
}

impl Present {
    fn new(guest: &Arc<Usage>, key: Option<KeyHash>, room: &Arc<Room>) -> Self {
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

#[cfg(test)]
mod tests;
