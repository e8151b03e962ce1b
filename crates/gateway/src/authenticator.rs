//! Who is in: the keys of a plan at the entrances of a gateway.
//!
//! ```text
//!   headers ──▶ policy: whose key? ──▶ may they use this entrance? ──▶ Who
//!                                                                   │ as long as they are here
//!   calls, sessions, tools ──▶ Usage: counted and looked up by name ◀┘
//! ```
//!
//! A [`Authenticator`] is told who may come in, and may be told otherwise while the
//! gateway runs ([`Authenticator::replace`]). Whoever is there goes on under the new
//! rules, or has to leave; what was counted stays counted.
//!
//! A name whose keys are all replaced at once is another user, who inherits
//! nothing. While old and new keys are in the file together they are one user, and what
//! was opened with a key ends when that key is removed.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Instant;

use http::{HeaderMap, HeaderValue};
use switchboard_net::access::{AuthDenial, Authenticate, Standing, Who};
use switchboard_proto::refusal::Refusal;

use crate::gateway::Place;
use crate::policy::{Access, Denied, Grant, KeyHash, Meter, Principal};
use crate::{lock, read, write};

/// Where everything is that a gateway serves.
const ENDPOINT: &str = "/mcp";

/// Knows who may come in at present.
pub struct Authenticator {
    table: RwLock<Arc<KeyTable>>,
    /// Sessions of everybody.
    sessions: Arc<SessionRoom>,
    /// Those who act when somebody must leave or sees something else.
    hear: Mutex<Vec<Weak<OnReplace>>>,
}

type OnReplace = dyn Fn() + Send + Sync;

/// Hears when others may come in, for as long as it is kept.
#[must_use = "whoever drops it hears nothing"]
pub struct Hearing(#[expect(dead_code, reason = "it is kept, not read")] Arc<OnReplace>);

/// Everybody that may come in, by what they show and by name.
#[derive(Default)]
struct KeyTable {
    access: Access,
    users: HashMap<Arc<str>, Arc<Usage>>,
}

/// The sessions of all users together.
#[derive(Debug)]
struct SessionRoom {
    taken: AtomicUsize,
    most: AtomicUsize,
}

/// Takes one more of something, if there are not so many yet.
fn take_one(taken: &AtomicUsize, most: usize) -> bool {
    let one_more = |taken| (taken < most).then_some(taken + 1);
    taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

impl Authenticator {
    /// Sessions of all together, where nobody says otherwise: it takes some
    /// kilobytes to remember one.
    pub const SESSIONS: usize = 8192;

    /// Lets in whom `access` names, with at most so many sessions of all together.
    pub fn new(access: Access, max_sessions: usize) -> Arc<Self> {
        let most = AtomicUsize::new(max_sessions);
        let sessions = Arc::new(SessionRoom { taken: AtomicUsize::new(0), most });
        let table = RwLock::new(Arc::new(KeyTable::default().next(access)));
        Arc::new(Self { table, sessions, hear: Mutex::default() })
    }

    /// Lets in whom `access` names, from here on. When this returns, a key that is
    /// not in it opens nothing, and what was open by it is closed.
    pub fn replace(&self, access: Access) {
        let mut table = write(&self.table);
        *table = Arc::new(table.next(access));
        drop(table);
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
        let hear: Arc<OnReplace> = Arc::new(hear);
        let mut all = lock(&self.hear);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&hear));
        Hearing(hear)
    }

    /// Whether anybody may come in without showing who they are.
    pub fn is_open(&self) -> bool {
        self.table().access.is_open()
    }

    /// How many sessions and listens are open, of all together.
    #[cfg(test)]
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.taken.load(Ordering::Relaxed)
    }

    /// The principal of this name, if they may come in.
    pub fn principal(&self, name: &str) -> Option<Arc<Principal>> {
        self.table().users.get(name).map(|user| user.principal())
    }

    /// Every grant that somebody has.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.table().users.values().map(|user| user.principal().grant.clone()).collect()
    }

    /// How many sessions and calls each has open, by name.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> Vec<(Arc<str>, usize, usize)> {
        let table = self.table();
        let counts = table.users.iter().map(|(name, user)| {
            let sessions = user.sessions.load(Ordering::Relaxed);
            (Arc::clone(name), sessions, lock(&user.meter).open())
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort();
        counts
    }

    /// The gate of a place, for a site; none is that of the pages, which tell of all servers.
    pub fn gate(self: &Arc<Self>, place: Option<Place>) -> Arc<dyn Authenticate> {
        Arc::new(EntranceGate { authenticator: Arc::clone(self), place })
    }

    fn table(&self) -> Arc<KeyTable> {
        Arc::clone(&read(&self.table))
    }
}

impl KeyTable {
    /// The table that follows, with what is counted of those who stay.
    fn next(&self, access: Access) -> Self {
        let mut next = Self::default();
        for principal in access.principals.iter().chain(&access.anonymous) {
            let before = self.users.get(principal.name.as_str());
            let before = before.filter(|user| user.shares_key_with(principal));
            before.inspect(|user| user.change(principal));
            let user = before.cloned().unwrap_or_else(|| Arc::new(Usage::new(principal)));
            next.users.insert(Arc::clone(&user.name), user);
        }
        let stays =
            |user: &Arc<Usage>| next.users.get(&user.name).is_some_and(|it| Arc::ptr_eq(it, user));
        for user in self.users.values().filter(|user| !stays(user)) {
            user.is_gone.store(true, Ordering::SeqCst);
        }
        next.access = access;
        next
    }
}

/// Admits clients at one entrance.
struct EntranceGate {
    authenticator: Arc<Authenticator>,
    place: Option<Place>,
}

impl EntranceGate {
    /// The pages are for those from whom nothing is kept.
    fn lets(&self, who: &Principal) -> bool {
        match &self.place {
            None => who.grant.is_open(),
            Some(Place::All) => true,
            Some(Place::Group(name)) => who.grant.has_group(name),
            Some(Place::Server(name)) => who.grant.has_server(name),
        }
    }
}

impl Authenticate for EntranceGate {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        let table = self.authenticator.table();
        let (principal, key) = table.access.identify(headers).map_err(refused)?;
        if !self.lets(&principal) {
            // Whoever may not use a server or a group is not to know that it is there.
            return Err(match &self.place {
                None => AuthDenial::forbidden("this page is for keys that may use every server"),
                Some(_) => AuthDenial::nothing_here(ENDPOINT),
            });
        }
        let user = table.users.get(principal.name.as_str());
        let user = user.ok_or_else(|| refused(Denied::UnknownKey))?;
        let room = Arc::clone(&self.authenticator.sessions);
        let present = PresentUser { user: Arc::clone(user), key, room };
        let who = Who::with(Arc::clone(&user.name), Arc::new(present));
        Ok(match &user.identity {
            Some(identity) => who.marked(Arc::clone(identity)),
            None => who,
        })
    }

    fn keeps(&self, name: &str) -> bool {
        let table = self.authenticator.table();
        table.users.get(name).is_some_and(|user| self.lets(&user.principal()))
    }
}

fn refused(denied: Denied) -> AuthDenial {
    let challenge = match denied {
        Denied::UnknownKey => HeaderValue::from_static("Bearer error=\"invalid_token\""),
        _ => HeaderValue::from_static("Bearer"),
    };
    AuthDenial::unknown(challenge, format!("{denied}; send it as X-API-Key or as a bearer token"))
}

impl fmt::Debug for EntranceGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntranceGate").field("place", &self.place).finish_non_exhaustive()
    }
}

static USERS: AtomicU64 = AtomicU64::new(1);

/// What is known of a principal while the gateway runs.
#[derive(Debug)]
struct Usage {
    name: Arc<str>,
    /// What is theirs belongs to this; none for whoever shows no key.
    identity: Option<Arc<str>>,
    /// They are not in the plan any more, or another user has their name.
    is_gone: AtomicBool,
    principal: RwLock<Arc<Principal>>,
    meter: Mutex<Meter>,
    sessions: AtomicUsize,
}

impl Usage {
    fn new(principal: &Arc<Principal>) -> Self {
        let name = principal.name.as_str();
        let number = USERS.fetch_add(1, Ordering::Relaxed);
        Self {
            name: name.into(),
            identity: (!name.is_empty()).then(|| format!("{name}\0{number}").into()),
            is_gone: AtomicBool::new(false),
            principal: RwLock::new(Arc::clone(principal)),
            meter: Mutex::new(Meter::new(principal.rate, principal.calls)),
            sessions: AtomicUsize::new(0),
        }
    }

    fn principal(&self) -> Arc<Principal> {
        Arc::clone(&read(&self.principal))
    }

    /// Whether a principal of the same name is the same user: a key of theirs stays.
    fn shares_key_with(&self, principal: &Principal) -> bool {
        let had = &self.principal().keys;
        had.is_empty() && principal.keys.is_empty()
            || had.iter().any(|key| principal.keys.contains(key))
    }

    /// Other rules hold from here on.
    fn change(&self, principal: &Arc<Principal>) {
        lock(&self.meter).adjust(principal.rate, principal.calls);
        *write(&self.principal) = Arc::clone(principal);
    }
}

/// A user who is there.
#[derive(Debug)]
struct PresentUser {
    user: Arc<Usage>,
    /// What they showed.
    key: Option<KeyHash>,
    room: Arc<SessionRoom>,
}

impl Standing for PresentUser {
    fn begin_call(&self, now: Instant) -> Result<(), Refusal> {
        lock(&self.user.meter).enter(now)
    }

    fn count_notification(&self, now: Instant) -> Result<(), Refusal> {
        lock(&self.user.meter).pay(now)
    }

    fn end_call(&self) {
        lock(&self.user.meter).leave();
    }

    fn begin_session(&self) -> Result<(), Refusal> {
        let all = self.room.most.load(Ordering::Relaxed);
        // Where the file says nothing of a key, it leaves a quarter of all to others.
        let share = if self.user.name.is_empty() { usize::MAX } else { all - all / 4 };
        let most = self.user.principal().sessions.unwrap_or(share);
        if !take_one(&self.user.sessions, most) {
            return Err(Refusal::TooManySessions);
        }
        if !take_one(&self.room.taken, all) {
            self.user.sessions.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::TooManySessions);
        }
        Ok(())
    }

    fn end_session(&self) {
        self.user.sessions.fetch_sub(1, Ordering::Relaxed);
        self.room.taken.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_current(&self) -> bool {
        let has = |key: &KeyHash| self.user.principal().keys.contains(key);
        self.is_known() && self.key.as_ref().is_none_or(has)
    }

    fn is_known(&self) -> bool {
        !self.user.is_gone.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests;
