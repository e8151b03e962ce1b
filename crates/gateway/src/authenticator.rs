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
//!
//! Users with access tokens are not in the plan. `token_user.rs` has them while they are here.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};

use switchboard_net::access::{Authenticate, Who};
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::Table;

use crate::gateway::Place;
use crate::issuer::{Clock, Issuers, KnownToken, system_clock};
use crate::policy::{Access, Grant, KeyHash, Meter, Principal};
use crate::token::TokenAccess;
#[cfg(feature = "console")]
use crate::token::TokenFacts;
use crate::{lock, read, write};
use entrance::EntranceGate;
use present_user::PresentUser;

pub(crate) use token_user::{SubjectToken, TokenUser};

mod entrance;
mod present_user;
mod token_gate;
mod token_user;

/// What whoever runs the gateway is called in logs and lists.
const OPERATOR: &str = "operator";

/// Knows who may come in at present.
pub struct Authenticator {
    table: RwLock<Arc<KeyTable>>,
    /// Sessions of everybody.
    sessions: Arc<SessionRoom>,
    /// Those who act when somebody must leave or sees something else.
    hear: Mutex<Vec<Weak<OnReplace>>>,
    /// Who checks access tokens.
    issuers: Arc<Issuers>,
    token_users: token_user::TokenUsers,
    /// Whoever has shown that they run this gateway. Nothing is kept from them.
    operator: Arc<Usage>,
}

type OnReplace = dyn Fn() + Send + Sync;

/// Hears when others may come in, for as long as it is kept.
#[must_use = "whoever drops it hears nothing"]
pub struct Hearing(#[expect(dead_code, reason = "it is kept, not read")] Arc<OnReplace>);

/// Everybody that may come in, by what they show and by name.
#[derive(Default)]
struct KeyTable {
    /// Counts the tables.
    edition: u64,
    access: Access,
    users: Table<Arc<str>, Arc<Usage>>,
}

/// The sessions of all users together.
struct SessionRoom {
    taken: AtomicUsize,
    most: AtomicUsize,
    clock: Clock,
}

impl fmt::Debug for SessionRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRoom").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Sessions of all together, where nobody says otherwise: it takes some
    /// kilobytes to remember one.
    pub const SESSIONS: usize = 8192;

    /// Lets in whom `access` names, with at most so many sessions of all together.
    pub fn new(access: Access, max_sessions: usize) -> Arc<Self> {
        Self::with(access, max_sessions, None, system_clock())
    }

    /// The same, reading the keys of issuers by `fetch`. Must be called within a tokio
    /// runtime if tokens are accepted.
    pub fn fetching(access: Access, max_sessions: usize, fetch: Fetch) -> Arc<Self> {
        Self::with(access, max_sessions, Some(fetch), system_clock())
    }

    pub(crate) fn with(
        access: Access,
        max_sessions: usize,
        fetch: Option<Fetch>,
        clock: Clock,
    ) -> Arc<Self> {
        let (taken, most) = (AtomicUsize::new(0), AtomicUsize::new(max_sessions));
        let sessions = Arc::new(SessionRoom { taken, most, clock: Arc::clone(&clock) });
        let token_users = token_user::TokenUsers::default();
        let issuers = Issuers::new(fetch, clock, &token_users.earlier);
        issuers.follow(access.tokens.as_deref());
        let table = RwLock::new(Arc::new(KeyTable::default().next(access)));
        let operator = Principal { name: OPERATOR.to_owned(), ..Principal::default() };
        let operator = Arc::new(Usage::new(&Arc::new(operator)));
        Arc::new(Self { table, sessions, hear: Mutex::default(), issuers, token_users, operator })
    }

    /// Lets in whom `access` names, from here on. When this returns, a key that is
    /// not in it opens nothing, and what was open by it is closed.
    pub fn replace(&self, access: Access) {
        let mut table = write(&self.table);
        *table = Arc::new(table.next(access));
        let now = Arc::clone(&table);
        drop(table);
        self.issuers.follow(now.access.tokens.as_deref());
        self.token_users.follow(now.access.tokens.as_deref());
        self.tell_replaced();
    }

    fn tell_replaced(&self) {
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

    /// Whose tokens are accepted at present.
    pub(crate) fn tokens(&self) -> Option<Arc<TokenAccess>> {
        self.table().access.tokens.clone()
    }

    /// Who checks tokens and their issuers.
    pub(crate) fn issuers(&self) -> &Arc<Issuers> {
        &self.issuers
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

    /// Who somebody is that was let in, with what they may use at present.
    pub(crate) fn principal_of(&self, who: &Who) -> Option<Arc<Principal>> {
        let present = who.standing::<PresentUser>();
        if present.is_some_and(|present| Arc::ptr_eq(&present.user, &self.operator)) {
            return Some(self.operator.principal());
        }
        match present.and_then(PresentUser::token) {
            Some(token) => Some(self.token_user(&token)?.principal),
            None => self.principal(who.name()),
        }
    }

    /// Whether scopes of tokens decide on anything.
    pub(crate) fn has_scopes(&self) -> bool {
        let table = read(&self.table);
        table.access.tokens.as_ref().is_some_and(|tokens| !tokens.scopes.is_empty())
    }

    /// The scopes that somebody needs for a tool and does not have, if more scopes would do.
    pub(crate) fn lacking(&self, who: &Who, server: &str, tool: &str) -> Option<String> {
        let token = who.standing::<PresentUser>().and_then(PresentUser::token)?;
        let has = |grant: &Grant| grant.has_server(server) && grant.has_tool(server, tool);
        if has(&self.token_user(&token)?.principal.grant) {
            return None;
        }
        self.table().access.tokens.as_ref()?.lacking(&token.facts, has)
    }

    /// The name of the user whose key this is.
    pub(crate) fn owner_of_key(&self, shown: &[u8]) -> Option<String> {
        self.table().access.owner_of_key(shown)
    }

    /// The principal of this name, if they have a key and may come in.
    pub fn principal(&self, name: &str) -> Option<Arc<Principal>> {
        self.table().users.get(name).map(|user| user.principal())
    }

    /// Every grant that somebody has.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let table = self.table();
        let keys = table.users.values().map(|user| user.principal().grant.clone());
        keys.chain(self.token_users.grants()).collect()
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
        self.gate_at(place, Vec::new())
    }

    /// The same for a place with these paths, for which access tokens may be issued.
    pub fn gate_at(
        self: &Arc<Self>,
        place: Option<Place>,
        paths: Vec<String>,
    ) -> Arc<dyn Authenticate> {
        Arc::new(EntranceGate { authenticator: Arc::clone(self), place, paths })
    }

    /// A user who is let in by this.
    fn enter(
        &self,
        user: &Arc<Usage>,
        key: Option<KeyHash>,
        token: Option<Arc<KnownToken>>,
    ) -> Who {
        let room = Arc::clone(&self.sessions);
        let (user, token) = (Arc::clone(user), token.map(RwLock::new));
        let (name, identity) = (Arc::clone(&user.name), user.identity.clone());
        let who = Who::with(name, Arc::new(PresentUser { user, key, token, room }));
        match identity {
            Some(identity) => who.marked(identity),
            None => who,
        }
    }

    /// Whoever has shown that they run this gateway.
    #[cfg(feature = "console")]
    pub(crate) fn enter_as_operator(&self) -> Who {
        self.enter(&self.operator, None, None)
    }

    /// The user of this name, if this is a key of theirs.
    #[cfg(feature = "console")]
    pub(crate) fn enter_by_key(&self, name: &str, key: &KeyHash) -> Option<Who> {
        let table = self.table();
        let user = table.users.get(name)?;
        let is_theirs = user.principal().keys.iter().any(|own| own.matches(key));
        is_theirs.then(|| self.enter(user, Some(*key), None))
    }

    /// Somebody of whom their issuer has said this.
    #[cfg(feature = "console")]
    pub(crate) fn enter_by_issuer(self: &Arc<Self>, facts: TokenFacts) -> Option<Who> {
        let token = KnownToken::of_person(facts);
        let user = self.token_user(&token)?.user;
        self.sweep_token_users();
        Some(self.enter(&user, None, Some(token)))
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
        (next.access, next.edition) = (access, self.edition + 1);
        next
    }
}

static USERS: AtomicU64 = AtomicU64::new(1);

/// What is known of a principal while the gateway runs.
#[derive(Debug)]
pub(crate) struct Usage {
    name: Arc<str>,
    /// What is theirs belongs to this; none for whoever shows no key.
    identity: Option<Arc<str>>,
    /// They are not in the plan any more, or another user has their name.
    is_gone: AtomicBool,
    principal: RwLock<Arc<Principal>>,
    meter: Mutex<Meter>,
    sessions: AtomicUsize,
    /// For those with tokens: until when the newest counts, in seconds of Unix time.
    until: AtomicU64,
    /// Their newest token, while tokens are exchanged.
    subject: Mutex<Option<token_user::KeptToken>>,
}

impl Usage {
    fn new(principal: &Arc<Principal>) -> Self {
        let name = principal.name.as_str();
        let number = USERS.fetch_add(1, Ordering::Relaxed);
        Self::called(principal, (!name.is_empty()).then(|| format!("{name}\0{number}").into()))
    }

    fn called(principal: &Arc<Principal>, identity: Option<Arc<str>>) -> Self {
        Self {
            name: principal.name.as_str().into(),
            identity,
            until: AtomicU64::new(0),
            subject: Mutex::default(),
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

#[cfg(test)]
mod tests;
