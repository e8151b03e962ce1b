//! Waiting: for the first of two things, for the time to stop, and for the end of a grace
//! period. And how much may come in what time.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Which of two came first.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Either<A, B> {
    Left(A),
    Right(B),
}

/// Waits for whichever comes first, the left one if both are there.
pub async fn race<A, B>(
    left: impl Future<Output = A>,
    right: impl Future<Output = B>,
) -> Either<A, B> {
    tokio::select! {
        biased;
        left = left => Either::Left(left),
        right = right => Either::Right(right),
    }
}

/// A spawned task that ends with its owner: dropping this aborts it at its next await.
#[derive(Debug)]
#[must_use = "dropping it ends the task"]
pub struct OwnedTask(AbortHandle);

impl OwnedTask {
    /// Spawns a task on the current tokio runtime.
    pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says once, to everybody who asks, that it is time to stop.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    said: watch::Sender<bool>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn say(&self) {
        self.said.send_replace(true);
    }

    /// Whether it was said.
    pub(crate) fn is_said(&self) -> bool {
        *self.said.borrow()
    }

    /// Waits until it is said.
    pub(crate) async fn said(&self) {
        // The sender is ours, so waiting cannot fail.
        _ = self.said.subscribe().wait_for(|&said| said).await;
    }

    /// Runs `work` until it is done or it is time to stop.
    pub(crate) async fn until<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match race(self.said(), work).await {
            Either::Left(()) => None,
            Either::Right(done) => Some(done),
        }
    }

    /// Sleeps; false if it is time to stop before that.
    pub(crate) async fn sleep(&self, time: Duration) -> bool {
        self.until(tokio::time::sleep(time)).await.is_some()
    }
}

/// So much of the time that things take for ever may be used at once.
const BURST: Duration = Duration::from_secs(10);

/// How often the log tells that something is too much, while it lasts.
const AGAIN: Duration = Duration::from_mins(1);

/// Lets much pass at once, and little for ever.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// When there is room for all of it again.
    clear: Option<Instant>,
    /// When the log was last told.
    told: Option<Instant>,
}

/// Something is more than may pass.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct TooMuch {
    /// The log is to tell of it.
    pub(crate) is_to_tell: bool,
}

impl Throttle {
    /// One more thing, which takes so much time for ever.
    pub(crate) fn pass(&mut self, time: Duration, now: Instant) -> Result<(), TooMuch> {
        let clear = self.clear.map_or(now, |clear| clear.max(now));
        if clear.saturating_duration_since(now) < BURST {
            self.clear = Some(clear + time.min(BURST));
            return Ok(());
        }
        let is_to_tell = self.told.is_none_or(|told| now.saturating_duration_since(told) >= AGAIN);
        if is_to_tell {
            self.told = Some(now);
        }
        Err(TooMuch { is_to_tell })
    }
}

/// How long what is in flight may take, where nobody says otherwise: what
/// container platforms grant before they kill.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// More than a network needs to carry a few errors.
const READ_ERRORS: Duration = Duration::from_secs(1);

/// What of `grace` the clients get, to read that their calls were given up.
pub(crate) fn time_to_read_errors(grace: Duration) -> Duration {
    READ_ERRORS.min(grace / 4)
}

/// What of it the calls get.
pub(crate) fn time_for_calls(grace: Duration) -> Duration {
    grace.saturating_sub(time_to_read_errors(grace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_passes_at_once_and_little_for_ever_and_the_log_is_told_each_minute() {
        let start = crate::connection::now();
        let mut throttle = Throttle::default();
        let mut pass = |count: u32, at| {
            let passed = (0..count).map(|_| throttle.pass(Duration::from_millis(10), at));
            let (good, bad): (Vec<_>, Vec<_>) = passed.partition(Result::is_ok);
            (good.len(), bad.iter().map(|it| *it == Err(TooMuch { is_to_tell: true })).collect())
        };
        assert_eq!(pass(1000, start), (1000, vec![]));
        assert_eq!(pass(2, start), (0, vec![true, false]), "it is told at once");
        assert_eq!(pass(5000, start + Duration::from_secs(1)), (100, vec![false; 4900]));
        assert_eq!(pass(1001, start + AGAIN), (1000, vec![true]), "and once more");
    }

    #[test]
    fn calls_get_all_of_it_but_a_moment() {
        for (grace, calls) in [(10_000, 9_000), (4_000, 3_000), (1_000, 750), (0, 0)] {
            let (grace, calls) = (Duration::from_millis(grace), Duration::from_millis(calls));
            assert_eq!(
                (time_for_calls(grace), time_to_read_errors(grace)),
                (calls, grace.saturating_sub(calls))
            );
        }
    }
}
