//! A replica's part of a rate that all replicas share.
//!
//! The store has one bucket for each principal. A replica takes a tenth of a second's worth
//! at a time, and gives back what it has not used after a second. If the store is away, each
//! replica has its share of the limit for itself.

use std::time::{Duration, Instant};

use super::model::UNITS;

/// After this time an unused portion goes back.
const UNUSED: Duration = Duration::from_secs(1);

/// Whether a call may go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PortionStep {
    /// It has a token.
    Go,
    /// Ask the store for so many, and give so many back; then ask here again.
    Ask {
        /// How many are wanted.
        want: u32,
        /// How many go back.
        back: u32,
    },
}

/// The tokens that one replica has of one bucket.
#[derive(Debug)]
pub struct Portions {
    per_minute: u32,
    burst: u32,
    tokens: u32,
    since: Instant,
    /// What came in the time without the store, in units of a bucket.
    own_units: u64,
    own_at: Instant,
}

impl Portions {
    /// A bucket of `burst` tokens, of which `per_minute` come back.
    pub fn new(per_minute: u32, burst: u32, now: Instant) -> Self {
        Self { per_minute, burst, tokens: 0, since: now, own_units: 0, own_at: now }
    }

    /// A call wants a token.
    pub fn take(&mut self, now: Instant) -> PortionStep {
        let is_stale = now.saturating_duration_since(self.since) > UNUSED;
        let back = if is_stale { std::mem::take(&mut self.tokens) } else { 0 };
        if self.tokens > 0 {
            self.tokens -= 1;
            return PortionStep::Go;
        }
        PortionStep::Ask { want: self.portion(), back }
    }

    /// What one portion is: a tenth of a second's worth, at least one.
    fn portion(&self) -> u32 {
        (self.per_minute / 600).clamp(1, self.burst.max(1))
    }

    /// What goes back because nobody called; zero if nothing does.
    pub fn poll_unused(&mut self, now: Instant) -> u32 {
        let is_stale = now.saturating_duration_since(self.since) > UNUSED;
        if is_stale { std::mem::take(&mut self.tokens) } else { 0 }
    }

    /// The store gave so many. False if the call that asked has none.
    pub fn handle_granted(&mut self, granted: u32, now: Instant) -> bool {
        self.since = now;
        self.tokens += granted;
        self.spend()
    }

    /// The store is away, and `members` replicas were there when it last answered.
    /// False if the call that asked has no token.
    pub fn handle_away(&mut self, members: u32, now: Instant) -> bool {
        let (members, burst) = (u64::from(members.max(1)), u64::from(self.burst));
        let since = now.saturating_duration_since(self.own_at).as_millis();
        let earned =
            u64::try_from(since).unwrap_or(u64::MAX).saturating_mul(self.per_minute.into());
        // A token is dearer where several replicas earn it.
        let token = UNITS * members;
        let most = (burst * UNITS).max(token);
        (self.own_units, self.own_at) = (self.own_units.saturating_add(earned).min(most), now);
        let whole = self.own_units >= token;
        self.own_units -= if whole { token } else { 0 };
        whole
    }

    fn spend(&mut self) -> bool {
        let has = self.tokens > 0;
        self.tokens -= u32::from(has);
        has
    }
}
