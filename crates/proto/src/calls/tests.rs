//! Each test is a transcript: what happened, and what must come of it.

use super::*;

#[test]
fn answers_find_their_call_in_any_order() {
    check(
        "call a
         call b
         answer 2
         answer 1",
        "b: answered
         a: answered",
    );
}

#[test]
fn quiet_call_times_out() {
    check(
        "call a
         at 29s
         call b
         at 30s
         answer 2",
        "a: TimedOut
         b: answered",
    );
}

/// wire: SUB-14
#[test]
fn a_call_that_is_kept_never_times_out() {
    check(
        "call a
         at 10s
         keep 1
         at 3600s
         progress 1
         at 360000s
         answer 1",
        "a: answered",
    );
}

#[test]
fn progress_buys_time_but_not_for_ever() {
    check(
        "call a
         at 29s
         progress 1
         at 58s
         progress 1
         at 60s",
        "a: TimedOut",
    );
}

#[test]
fn call_that_made_progress_is_still_open_after_its_first_deadline() {
    check(
        "call a
         at 29s
         progress 1
         at 58s
         answer 1",
        "a: answered",
    );
}

#[test]
fn progress_of_one_call_is_nothing_to_another() {
    check(
        "call a
         call b
         at 29s
         progress 2
         progress 7
         at 30s",
        "a: TimedOut",
    );
}

#[test]
fn answer_that_crosses_a_cancel_is_swallowed_once() {
    check(
        "call a
         cancel 1
         cancel 1
         answer 1
         answer 1",
        "a: Cancelled
         refused: answer to call 1, which is not open",
    );
}

#[test]
fn answer_after_the_grace_is_unasked() {
    check(
        "call a
         call b
         cancel 1
         cancel 2
         at 59s
         answer 1
         at 60s
         answer 2",
        "a: Cancelled
         b: Cancelled
         refused: answer to call 2, which is not open",
    );
}

#[test]
fn time_does_not_run_while_our_side_is_waited_for() {
    check(
        "call a
         call b
         hold 1
         hold 1
         hold 9
         at 20s
         release 1
         progress 1
         at 29s
         at 30s
         release 1
         release 1
         at 59s
         answer 1",
        "b: TimedOut
         a: answered",
    );
    check(
        "call a
         hold 1
         at 25s
         release 1
         at 54s
         at 55s",
        "a: TimedOut",
    );
}

#[test]
fn the_time_in_all_runs_while_our_side_is_waited_for() {
    check(
        "call a
         hold 1
         at 59s
         at 60s",
        "a: TimedOut",
    );
}

#[test]
fn answer_to_no_call_is_unasked() {
    check("answer 7", "refused: answer to call 7, which is not open");
}

#[test]
fn drain_takes_every_open_call_and_the_memory_of_dropped_ones() {
    check(
        "call a
         call b
         call c
         cancel 2
         drain all
         answer 2
         at 90s",
        "b: Cancelled
         1 a drained
         3 c drained
         refused: answer to call 2, which is not open",
    );
}

#[test]
fn timeout_is_that_of_the_most_urgent_call() {
    let start = start();
    let mut calls = Calls::new(PATIENCE);
    assert_eq!(calls.poll_timeout(), None);
    for n in 0..10_000 {
        calls.begin(n, start + Duration::from_millis(n));
    }
    assert_eq!(calls.poll_timeout(), Some(start + PATIENCE.quiet));
    assert_eq!((calls.len(), calls.get(1), calls.get(10_001)), (10_000, Some(&0), None));
    for id in 1..=9_999 {
        calls.handle_answer(id).unwrap();
    }
    assert_eq!(calls.poll_timeout(), Some(start + PATIENCE.quiet + Duration::from_millis(9_999)));
    calls.handle_answer(10_000).unwrap();
    assert_eq!((calls.poll_timeout(), calls.is_empty()), (None, true));
}

#[test]
fn call_may_have_a_patience_of_its_own() {
    let start = start();
    let mut calls = Calls::new(PATIENCE);
    let second = Duration::from_secs(1);
    calls.begin_with("short", Patience { quiet: second, total: second }, start);
    calls.begin_with("endless", Patience { quiet: Duration::MAX, total: Duration::MAX }, start);
    calls.handle_timeout(start + Duration::from_hours(24));
    let gave_up = CallEvent::GaveUp { id: 1, ticket: "short", why: Why::TimedOut };
    assert_eq!((calls.poll(), calls.poll()), (Some(gave_up), None));
    assert_eq!(calls.get(2), Some(&"endless"));
}

#[test]
fn flood_of_cancels_is_not_remembered_in_full() {
    let start = start();
    let mut calls = Calls::new(PATIENCE);
    for _ in 0..5_000 {
        let id = calls.begin((), start);
        calls.cancel(id, start);
        calls.poll();
    }
    assert_eq!((calls.dropped.len(), calls.forgets.len()), (MOST_DROPPED, MOST_DROPPED));
    assert_eq!(calls.handle_answer(1), Err(Unasked { id: 1 }));
    assert_eq!(calls.handle_answer(5_000), Ok(()));
}

const PATIENCE: Patience =
    Patience { quiet: Duration::from_secs(30), total: Duration::from_mins(1) };

/// Plays `script` with 30 s of patience, 60 s in all. The one place that knows
/// the API, so that the transcripts above outlive it.
#[track_caller]
fn check(script: &str, expected: &str) {
    let mut calls = Calls::new(PATIENCE);
    let start = start();
    let mut now = start;
    let mut seen = Vec::new();
    for step in lines(script) {
        match step.split_once(' ').unwrap() {
            ("call", ticket) => _ = calls.begin(ticket, now),
            ("cancel", id) => calls.cancel(id.parse().unwrap(), now),
            ("keep", id) => calls.keep(id.parse().unwrap(), now),
            ("hold", id) => calls.hold(id.parse().unwrap(), now),
            ("release", id) => calls.release(id.parse().unwrap(), now),
            ("progress", id) => calls.handle_progress(id.parse().unwrap(), now),
            ("answer", id) => match calls.handle_answer(id.parse().unwrap()) {
                Ok(()) => {}
                Err(unasked) => seen.push(format!("refused: {unasked}")),
            },
            ("drain", _) => {
                seen.extend(calls.drain().iter().map(|(id, it)| format!("{id} {it} drained")));
            }
            ("at", time) => {
                now = start + Duration::from_secs(time.trim_end_matches('s').parse().unwrap());
                calls.handle_timeout(now);
            }
            _ => panic!("no such step: {step}"),
        }
        while let Some(event) = calls.poll() {
            seen.push(match event {
                CallEvent::Answered { ticket, .. } => format!("{ticket}: answered"),
                CallEvent::GaveUp { ticket, why, .. } => format!("{ticket}: {why:?}"),
            });
        }
    }
    assert_eq!(seen, lines(expected).collect::<Vec<_>>());
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}
