//! Waiting: for the first of two things, for the time to stop, and for the end of a grace period.

use std::time::Duration;

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
#[derive(Debug)]
pub(crate) struct Stop {
    said: watch::Sender<bool>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { said: watch::Sender::new(false) }
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
