//! The time, and waiting: for the first of two things, for the time to stop, for a part of a
//! task, and for the end of a grace period. And how much may come in what time.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::connection::lock;

thread_local! {
    /// The time of the poll that is going on in this thread.
    static POLL_TIME: Cell<PollTime> = const { Cell::new(PollTime::NoPoll) };
}

#[derive(Clone, Copy)]
enum PollTime {
    NoPoll,
    Unread,
    Read(Instant),
}

/// The time, by tokio's clock, so that tests can pause it. While a connection is polled, it
/// is read once.
pub fn now() -> Instant {
    let time = POLL_TIME.get();
    if let PollTime::Read(now) = time {
        return now;
    }
    let now = tokio::time::Instant::now().into_std();
    if let PollTime::Unread = time {
        POLL_TIME.set(PollTime::Read(now));
    }
    now
}

/// Makes one poll of a task, during which the clock stands still. A call asks for the time
/// at a dozen places, and in some machines the answer takes as long as everything else there.
pub(crate) fn at_one_time<T>(poll: impl FnOnce() -> T) -> T {
    struct PollEnd;
    impl Drop for PollEnd {
        fn drop(&mut self) {
            POLL_TIME.set(PollTime::NoPoll);
        }
    }
    let _end = PollEnd;
    POLL_TIME.set(PollTime::Unread);
    poll()
}

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

/// Says once, to everybody who asks, that it is time to stop. Takes no memory of its own: each
/// call has some.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_said: AtomicBool,
    waiting: Notify,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn say(&self) {
        self.is_said.store(true, Ordering::Release);
        self.waiting.notify_waiters();
    }

    /// Whether it was said.
    pub(crate) fn is_said(&self) -> bool {
        self.is_said.load(Ordering::Acquire)
    }

    /// Waits until it is said.
    pub(crate) async fn said(&self) {
        // It hears of what is said from here on, so nothing is missed after the look.
        let told = self.waiting.notified();
        if !self.is_said() {
            told.await;
        }
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

/// A part of a task: something that is polled only when it is woken itself.
///
/// A task is polled from its top, whatever has woken it. A part that was not woken says so
/// at once. A part that wakes itself while it is polled is polled again at once: the task
/// does not have to go through the scheduler for that, or wake another thread.
#[derive(Debug)]
pub(crate) struct TaskPart {
    shared: Arc<PartWaker>,
    /// The same.
    waker: Waker,
    /// The waker of the task, as it is known to `shared`.
    task: Waker,
}

/// Steps that one poll makes at most: tokio tells a task that runs for long to pause, by a
/// wake that comes at once.
const MOST_STEPS: usize = 8;

impl TaskPart {
    pub(crate) fn new() -> Self {
        let shared = Arc::new(PartWaker {
            task: Mutex::new(Waker::noop().clone()),
            state: AtomicU8::new(POLLED),
        });
        let waker = Waker::from(Arc::clone(&shared));
        Self { shared, waker, task: Waker::noop().clone() }
    }

    /// Polls the part by `step`, if it was woken, until it waits or is ready.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if !self.task.will_wake(cx.waker()) {
            self.task.clone_from(cx.waker());
            lock(&self.shared.task).clone_from(cx.waker());
        }
        if self.shared.state.load(Ordering::Acquire) == WAITING {
            return Poll::Pending;
        }
        for _ in 0..MOST_STEPS {
            self.look_again();
            let done = step(&mut Context::from_waker(&self.waker));
            if done.is_ready() || self.shared.is_left_alone() {
                return done;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The next poll is made in any case: more has happened than the part knows of.
    pub(crate) fn look_again(&self) {
        // A wake before this is answered by the poll that follows it, so that must see what
        // the waker did: a store could be overtaken by what the poll reads.
        self.shared.state.swap(POLLED, Ordering::AcqRel);
    }
}

/// Wakes the task, unless that polls the part.
#[derive(Debug)]
struct PartWaker {
    task: Mutex<Waker>,
    state: AtomicU8,
}

/// A poll is going on, or is to come.
const POLLED: u8 = 0;
/// Nothing has happened since the last poll: a wake goes to the task.
const WAITING: u8 = 1;
/// Something has happened since.
const WOKEN: u8 = 2;

impl PartWaker {
    /// Whether nothing has happened since the poll began: from here on the task is woken.
    fn is_left_alone(&self) -> bool {
        let left =
            self.state.compare_exchange(POLLED, WAITING, Ordering::AcqRel, Ordering::Acquire);
        left.is_ok()
    }
}

impl Wake for PartWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {
            lock(&self.task).wake_by_ref();
        }
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
    use std::pin::pin;

    use super::*;

    struct CountingWaker(AtomicU8);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_part_is_polled_when_it_was_woken_and_the_task_is_woken_once() {
        let task = Arc::new(CountingWaker(AtomicU8::new(0)));
        let waker = Waker::from(Arc::clone(&task));
        let cx = Context::from_waker(&waker);
        let woken = || task.0.load(Ordering::SeqCst);
        let mut part = TaskPart::new();
        let (mut polls, mut inner) = (0, None);
        // It wakes itself in its first poll.
        let mut poll = |part: &mut TaskPart| {
            let done = part.poll(&cx, |cx| {
                polls += 1;
                if polls == 1 {
                    cx.waker().wake_by_ref();
                }
                inner = Some(cx.waker().clone());
                if polls < 4 { Poll::Pending } else { Poll::Ready(()) }
            });
            (done.is_ready(), polls)
        };
        assert_eq!(poll(&mut part), (false, 2), "it is polled again, without the scheduler");
        assert_eq!((poll(&mut part), woken()), ((false, 2), 0), "it was not woken");
        part.look_again();
        assert_eq!(poll(&mut part), (false, 3));
        let inner = inner.unwrap();
        inner.wake_by_ref();
        inner.wake_by_ref();
        assert_eq!(woken(), 1);
    }

    #[test]
    fn who_waits_is_told_to_stop_and_so_is_who_comes_later() {
        let task = Arc::new(CountingWaker(AtomicU8::new(0)));
        let waker = Waker::from(Arc::clone(&task));
        let mut cx = Context::from_waker(&waker);
        let stop = Stop::new();
        let mut waiting = pin!(stop.said());
        assert!(waiting.as_mut().poll(&mut cx).is_pending() && !stop.is_said());
        let unpolled = pin!(stop.said());
        stop.say();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
        assert!(unpolled.poll(&mut cx).is_ready());
        assert!(pin!(stop.said()).poll(&mut cx).is_ready() && stop.is_said());
    }

    #[test]
    fn a_part_that_never_rests_lets_the_others_have_their_turn() {
        let task = Arc::new(CountingWaker(AtomicU8::new(0)));
        let waker = Waker::from(Arc::clone(&task));
        let mut polls = 0;
        let busy = TaskPart::new().poll(&Context::from_waker(&waker), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(busy.is_pending());
        assert_eq!((polls, task.0.load(Ordering::SeqCst)), (MOST_STEPS, 1));
    }

    #[test]
    fn much_passes_at_once_and_little_for_ever_and_the_log_is_told_each_minute() {
        let start = now();
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
