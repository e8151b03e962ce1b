//! When to try again: a stream that broke, a child that ended.
//!
//! Both are told what happened and when, and answer with the instant of the
//! next attempt or with `None`: enough. Neither sleeps, and chance, where it
//! is wanted, is handed in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// When to reopen a stream of the legacy era.
#[derive(Clone, Debug)]
pub struct Reconnect {
    most: u32,
    failures: u32,
    /// What the server asked for; it holds for the stream from then on.
    retry: Option<Duration>,
}

impl Reconnect {
    /// Gives up after `most` attempts in a row that brought nothing.
    pub fn new(most: u32) -> Self {
        Self { most, failures: 0, retry: None }
    }

    /// The server said how many milliseconds to wait.
    pub fn handle_retry(&mut self, millis: u64) {
        self.retry = Some(Duration::from_millis(millis).clamp(SHORTEST_RETRY, LONGEST_RETRY));
    }

    /// The stream brought an event. Being accepted is not enough: a server
    /// that accepts and hangs up would keep us busy for ever.
    pub fn handle_success(&mut self) {
        self.failures = 0;
    }

    /// The stream broke, or could not be opened: when to try again.
    ///
    /// `jitter` is added to our own delay, so that clients of a server that
    /// went down do not come back all at once. What the server asked for is
    /// kept to exactly.
    pub fn handle_break(&mut self, now: Instant, jitter: Duration) -> Option<Instant> {
        if self.failures >= self.most {
            return None;
        }
        let wait = self.retry.unwrap_or_else(|| delay(self.failures) + jitter.min(FIRST));
        self.failures += 1;
        Some(now + wait)
    }
}

/// 1 s, half as long again each time, 30 s at most.
fn delay(failures: u32) -> Duration {
    let steps = failures.min(STEPS_TO_LONGEST);
    (0..steps).fold(FIRST, |delay, _| delay * 3 / 2).min(LONGEST)
}

/// When to start a child process again that ended unasked.
#[derive(Clone, Debug, Default)]
pub struct Restart {
    /// The restarts that still count, oldest first; as many as there are delays.
    recent: VecDeque<Instant>,
}

impl Restart {
    /// The child that was started at `started` has ended: when to start it
    /// again. After a long life at once, for then the end was bad luck; else
    /// a little later each time, and not more than three times in five minutes.
    pub fn handle_exit(&mut self, started: Instant, now: Instant) -> Option<Instant> {
        if now.saturating_duration_since(started) >= LONG_LIFE {
            self.recent.clear();
            return Some(now);
        }
        while let Some(&oldest) = self.recent.front()
            && now.saturating_duration_since(oldest) >= WINDOW
        {
            self.recent.pop_front();
        }
        let at = now + *RESTARTS.get(self.recent.len())?;
        self.recent.push_back(at);
        Some(at)
    }
}

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// 1.5^9 is more than 30, and the exponent must not overflow a duration.
const STEPS_TO_LONGEST: u32 = 9;

/// A server that says 0 and hangs up must not make us spin. Nobody measures
/// reconnecting finer than this.
const SHORTEST_RETRY: Duration = Duration::from_millis(20);

/// Longer waits are mistakes of the server; a day keeps the arithmetic safe.
const LONGEST_RETRY: Duration = Duration::from_hours(24);

/// A child that served this long was not broken from the start.
const LONG_LIFE: Duration = Duration::from_mins(1);

/// The delays before restarts of a child that keeps ending.
const RESTARTS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];

/// How long a restart counts.
const WINDOW: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests;
