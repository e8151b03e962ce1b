//! A user who is there: what they have open is counted, and their right to be there is asked for.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use switchboard_net::access::Standing;
use switchboard_proto::refusal::Refusal;

use super::{SessionRoom, Usage};
use crate::issuer::KnownToken;
use crate::policy::KeyHash;
use crate::{lock, read, write};

/// Takes one more of something, if there are not so many yet.
fn take_one(taken: &AtomicUsize, most: usize) -> bool {
    let one_more = |taken| (taken < most).then_some(taken + 1);
    taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

/// A user who is there.
#[derive(Debug)]
pub(super) struct PresentUser {
    pub(super) user: Arc<Usage>,
    /// What they showed.
    pub(super) key: Option<KeyHash>,
    /// Or the token that they showed last.
    pub(super) token: Option<RwLock<Arc<KnownToken>>>,
    pub(super) room: Arc<SessionRoom>,
}

impl PresentUser {
    pub(super) fn token(&self) -> Option<Arc<KnownToken>> {
        self.token.as_ref().map(|token| Arc::clone(&read(token)))
    }
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
        if let Some(token) = &self.token {
            let until = self.user.until.load(Ordering::Relaxed);
            return self.is_known() && read(token).is_signed() && (self.room.clock)() <= until;
        }
        let has = |key: &KeyHash| self.user.principal().keys.contains(key);
        self.is_known() && self.key.as_ref().is_none_or(has)
    }

    fn renew(&self, newer: &dyn Standing) {
        let newer = newer.as_any().and_then(|newer| newer.downcast_ref::<Self>());
        if let (Some(token), Some(newer)) = (&self.token, newer.and_then(Self::token))
            && !Arc::ptr_eq(&read(token), &newer)
        {
            *write(token) = newer;
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn is_known(&self) -> bool {
        !self.user.is_gone.load(Ordering::SeqCst)
    }
}
