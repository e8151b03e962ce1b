//! The users that access tokens stand for. They are in no file: they are there while a token
//! of theirs counts, and are forgotten when the last one is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;

use switchboard_net::OwnedTask;
use switchboard_proto::Table;
use switchboard_proto::auth::Secret;
use switchboard_proto::auth::claims::LEEWAY;
use tokio::sync::Notify;

use super::{Authenticator, Usage};
use crate::issuer::KnownToken;
use crate::policy::{Grant, Principal};
use crate::token::TokenAccess;
use crate::{lock, read, write};

/// Users with tokens at a time.
const MAX_USERS: usize = 8192;

/// How often somebody looks whose tokens are over, at least; clocks may be set.
const LOOK: Duration = Duration::from_secs(30);

/// The user of a token, and what it grants by one table of the authenticator.
#[derive(Clone, Debug)]
pub(crate) struct TokenUser {
    edition: u64,
    pub(super) user: Arc<Usage>,
    pub(super) principal: Arc<Principal>,
}

/// The newest token of a user, to be exchanged.
#[derive(Debug)]
pub(super) struct KeptToken {
    token: Secret,
    /// What is known of it. A token that is forgotten there is not exchanged.
    known: Weak<KnownToken>,
}

impl KeptToken {
    /// What is known of it, if it counts at this time.
    fn find_valid(&self, now: u64) -> Option<Arc<KnownToken>> {
        let known = self.known.upgrade()?;
        (known.is_signed() && now < known.facts.expires).then_some(known)
    }
}

/// A valid access token of a user, to be exchanged for another (OX-6).
#[derive(Clone, Debug)]
pub(crate) struct SubjectToken {
    pub(crate) token: Secret,
    /// When it expires, in seconds of Unix time.
    pub(crate) expires: u64,
    /// Whose it is: the user's name and the issuer.
    pub(crate) identity: Option<Arc<str>>,
}

/// All users with tokens, by name.
#[derive(Default)]
pub(super) struct TokenUsers {
    users: RwLock<Table<Arc<str>, Arc<Usage>>>,
    /// The task that ends what belongs to users whose tokens are over.
    sweeping: Mutex<Option<OwnedTask>>,
    /// Whether their newest tokens are kept: some server is shown what they are exchanged for.
    keeps_subjects: AtomicBool,
    /// Told when a user comes, whose token may be over first, and when a key is gone.
    pub(super) earlier: Arc<Notify>,
}

impl TokenUsers {
    pub(super) fn grants(&self) -> Vec<Grant> {
        read(&self.users).values().map(|user| user.principal().grant.clone()).collect()
    }

    /// Keeps the users of these issuers, with the limits that hold now.
    pub(super) fn follow(&self, access: Option<&TokenAccess>) {
        write(&self.users).retain(|_, user| {
            let identity = user.identity.as_deref().unwrap_or_default();
            let rules = access.map(|access| &*access.issuers).unwrap_or_default();
            let rule = rules.iter().find(|rule| {
                let is_of =
                    identity.strip_prefix(&*rule.name).is_some_and(|it| it.starts_with('/'));
                is_of && identity.ends_with(&format!("\0{}", rule.issuer))
            });
            match rule.map(|rule| rule.grant.clone().unwrap_or_default()) {
                Some(limits) => {
                    let principal =
                        Principal { sessions: limits.sessions, ..(*user.principal()).clone() };
                    user.change(&Arc::new(Principal {
                        rate: limits.rate,
                        calls: limits.calls,
                        ..principal
                    }));
                }
                None => user.is_gone.store(true, Ordering::SeqCst),
            }
            rule.is_some()
        });
    }

    /// The user of that name, with a token that counts until then; none if there are too many.
    fn find(&self, principal: &Arc<Principal>, issuer: &str, until: u64) -> Option<Arc<Usage>> {
        // Within the lock: whoever looks for users that are over must not see the time before.
        let stays = |user: &Arc<Usage>| {
            user.until.fetch_max(until, Ordering::Relaxed);
            Arc::clone(user)
        };
        if let Some(user) = read(&self.users).get(&*principal.name) {
            return Some(stays(user));
        }
        let mut users = write(&self.users);
        if let Some(user) = users.get(&*principal.name) {
            return Some(stays(user));
        }
        if users.len() >= MAX_USERS {
            let idle =
                users.iter().find(|(_, user)| user.is_idle()).map(|(name, _)| Arc::clone(name))?;
            if let Some(user) = users.remove(&idle) {
                user.is_gone.store(true, Ordering::SeqCst);
            }
        }
        // Whoever comes back later is the same: what is theirs belongs to issuer and subject.
        let identity = format!("{}\0{issuer}", principal.name);
        let user = Arc::new(Usage::called(principal, Some(identity.into())));
        stays(&user);
        users.insert(Arc::clone(&user.name), Arc::clone(&user));
        self.earlier.notify_one();
        Some(user)
    }

    /// Forgets those whose tokens are over; whether something of theirs may be open.
    fn sweep(&self, now: u64) -> bool {
        let is_over = |user: &Arc<Usage>| user.until.load(Ordering::Relaxed) < now;
        let gone: Vec<_> = write(&self.users).extract_if(|_, user| is_over(user)).collect();
        for (_, user) in &gone {
            user.is_gone.store(true, Ordering::SeqCst);
        }
        gone.iter().any(|(_, user)| !user.is_idle())
    }

    /// When the next token is over.
    fn next_end(&self) -> Option<u64> {
        read(&self.users).values().map(|user| user.until.load(Ordering::Relaxed)).min()
    }
}

impl Usage {
    fn is_idle(&self) -> bool {
        self.sessions.load(Ordering::Relaxed) == 0 && lock(&self.meter).is_idle()
    }
}

impl Authenticator {
    /// The user of a token, by the rules that hold now; none if there is no place for them
    /// or their issuer is not accepted any more.
    pub(super) fn token_user(&self, token: &KnownToken) -> Option<TokenUser> {
        let table = self.table();
        let mut known = lock(&token.user);
        let is_same = |it: &&TokenUser| {
            it.edition == table.edition && !it.user.is_gone.load(Ordering::SeqCst)
        };
        if let Some(found) = known.as_ref().filter(is_same) {
            return Some(found.clone());
        }
        let tokens = table.access.tokens.as_ref()?;
        let principal = Arc::new(tokens.principal(&token.facts)?);
        let issuer = &tokens.issuer(&token.facts.issuer)?.issuer;
        let until = token.facts.expires.saturating_add(LEEWAY);
        let user = self.token_users.find(&principal, issuer, until)?;
        user.change(&principal);
        let found = TokenUser { edition: table.edition, user, principal };
        *known = Some(found.clone());
        Some(found)
    }

    /// Keeps the newest token of each user from here on, or forgets them all.
    pub(crate) fn keep_subjects(&self, keeps: bool) {
        self.token_users.keeps_subjects.store(keeps, Ordering::SeqCst);
        if !keeps {
            read(&self.token_users.users).values().for_each(|user| *lock(&user.subject) = None);
        }
    }

    /// A token that was shown, if it is to be kept once it is found valid.
    pub(super) fn subject_to_keep(&self, token: &str) -> Option<Secret> {
        self.token_users.keeps_subjects.load(Ordering::Relaxed).then(|| Secret::new(token))
    }

    /// Keeps a valid token of a user, unless there is one that is valid for longer.
    pub(super) fn keep_subject(&self, user: &Usage, known: &Arc<KnownToken>, token: Secret) {
        let mut kept = lock(&user.subject);
        let now = (self.sessions.clock)();
        let before = kept.as_ref().and_then(|kept| kept.find_valid(now));
        let is_newest = before.is_none_or(|it| it.facts.expires <= known.facts.expires);
        if is_newest && self.token_users.keeps_subjects.load(Ordering::SeqCst) {
            *kept = Some(KeptToken { token, known: Arc::downgrade(known) });
        }
    }

    /// The newest valid token of a user. None for users with keys.
    pub(crate) fn subject_token(&self, name: &str) -> Option<SubjectToken> {
        let user = read(&self.token_users.users).get(name).cloned()?;
        let kept = lock(&user.subject);
        let kept = kept.as_ref()?;
        let known = kept.find_valid((self.sessions.clock)())?;
        let (token, identity) = (kept.token.clone(), user.identity.clone());
        Some(SubjectToken { token, expires: known.facts.expires, identity })
    }

    /// A user with tokens.
    #[cfg(test)]
    pub(super) fn token_users_of(&self, name: &str) -> Option<Arc<Usage>> {
        read(&self.token_users.users).get(name).cloned()
    }

    /// Ends what belongs to users whose tokens are over, from here on (OR-18).
    pub(super) fn sweep_token_users(self: &Arc<Self>) {
        let mut sweeping = lock(&self.token_users.sweeping);
        let (this, earlier) = (Arc::downgrade(self), Arc::clone(&self.token_users.earlier));
        sweeping.get_or_insert_with(|| OwnedTask::spawn(sweep(this, earlier)));
    }
}

async fn sweep(authenticator: Weak<Authenticator>, earlier: Arc<Notify>) {
    loop {
        let Some(there) = authenticator.upgrade() else { return };
        let now = (there.sessions.clock)();
        let is_over = there.token_users.sweep(now);
        if there.issuers.take_lost() || is_over {
            there.tell_replaced();
        }
        let end = there.token_users.next_end();
        drop(there);
        let wait = end.map_or(LOOK, |end| Duration::from_secs(end.saturating_sub(now) + 1));
        _ = tokio::time::timeout(wait.min(LOOK), earlier.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // wire: OR-8, OR-18
    #[test]
    fn a_user_who_comes_is_not_taken_for_one_whose_token_is_over() {
        let users = TokenUsers::default();
        let named = |name: &str| Arc::new(Principal { name: name.into(), ..Principal::default() });
        let ada = users.find(&named("corp/ada"), "https://idp.example", 100).unwrap();
        users.sweep(50);
        assert!(!ada.is_gone.load(Ordering::SeqCst), "the sweep may come at once");
        let again = users.find(&named("corp/ada"), "https://idp.example", 200).unwrap();
        users.sweep(150);
        assert!(Arc::ptr_eq(&ada, &again) && !ada.is_gone.load(Ordering::SeqCst));
        users.sweep(250);
        assert!(ada.is_gone.load(Ordering::SeqCst));
    }
}
