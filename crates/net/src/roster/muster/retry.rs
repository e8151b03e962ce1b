//! When a server that broke is tried again.

use std::time::{Duration, Instant};

use switchboard_proto::backoff::{Reconnect, Restart};

use super::Pace;

/// The attempts at one server that count.
#[derive(Debug)]
pub(super) enum Retry {
    /// A little later each time, so many times in a row.
    Growing(Reconnect),
    /// At once after a long life, else three times in five minutes.
    Supervised(Restart),
}

impl Retry {
    pub(super) fn new(pace: &Pace) -> Self {
        match pace.probe {
            Some(_) => Self::Supervised(Restart::new()),
            None => Self::Growing(Reconnect::new(pace.attempts)),
        }
    }

    /// It broke, after it had been there since then: when to try again. `jitter`
    /// keeps clients of one server from coming back all at once.
    pub(super) fn handle_broken(
        &mut self,
        since: Option<Instant>,
        now: Instant,
        jitter: Duration,
    ) -> Option<Instant> {
        match self {
            Self::Growing(reconnect) => {
                let life = since.map(|since| now.saturating_duration_since(since));
                let lived_long = life.is_some_and(|life| life >= LONG_LIFE);
                if lived_long {
                    reconnect.handle_success();
                }
                let next = reconnect.handle_break(now, jitter);
                // After a long life the end was bad luck.
                if lived_long { next.map(|_| now) } else { next }
            }
            Self::Supervised(restart) => restart.handle_exit(since.unwrap_or(now), now),
        }
    }
}

/// A server that served this long was not broken from the start.
const LONG_LIFE: Duration = Duration::from_mins(1);
