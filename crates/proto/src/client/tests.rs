//! Most tests are a transcript: what happened, and what must come of it.

use super::*;
use crate::tests::{lines, message};

pub(super) mod script;

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
        "a: timed out
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
        "a: timed out",
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
        "a: timed out",
    );
}

#[test]
fn an_answer_that_crosses_a_cancel_is_for_nobody() {
    check(
        "call a
         cancel 1
         cancel 1
         answer 1
         answer 1",
        "a: cancelled
         nobody waits for 1
         nobody waits for 1",
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
        "b: timed out
         a: answered",
    );
    check(
        "call a
         hold 1
         at 25s
         release 1
         at 54s
         at 55s",
        "a: timed out",
    );
}

#[test]
fn the_time_in_all_runs_while_our_side_is_waited_for() {
    check(
        "call a
         hold 1
         at 59s
         at 60s",
        "a: timed out",
    );
}

#[test]
fn an_answer_to_no_call_is_for_nobody() {
    check("answer 7", "nobody waits for 7");
}

#[test]
fn drain_takes_every_open_call() {
    check(
        "call a
         call b
         call c
         cancel 2
         drain all
         answer 3
         at 90s",
        "b: cancelled
         a: drained
         c: drained
         nobody waits for 3",
    );
}

#[test]
fn timeout_is_that_of_the_most_urgent_call() {
    let (start, mut ledger) = (start(), Ledger::new(Sharing::Alone, &limits()));
    let request = message("0 x/y");
    assert_eq!(ledger.poll_timeout(), None);
    for n in 0..10_000 {
        ledger.begin(n, &request, None, start + Duration::from_millis(n));
    }
    let quiet = limits().quiet;
    assert_eq!(ledger.poll_timeout(), Some(start + quiet));
    let owner = |id| ledger.open.get(&Lane(id)).map(|call| call.owner);
    assert_eq!((ledger.open.len(), owner(1), owner(10_001)), (10_000, Some(0), None));
    for id in 1..=9_999 {
        ledger.end(Lane(id)).unwrap();
    }
    assert_eq!(ledger.poll_timeout(), Some(start + quiet + Duration::from_millis(9_999)));
    ledger.end(Lane(10_000)).unwrap();
    assert_eq!((ledger.poll_timeout(), ledger.open.len()), (None, 0));
}

#[test]
fn a_greeting_may_have_a_patience_of_its_own_and_time_may_be_without_end() {
    let endless = Limits { quiet: Duration::MAX, total: Duration::MAX, ..Limits::default() };
    let limits = Limits { greeting: Some(Duration::from_secs(1)), ..endless };
    let (start, mut ledger) = (start(), Ledger::new(Sharing::Alone, &limits));
    ledger.begin("short", &message("0 initialize {}"), None, start);
    ledger.begin("endless", &message("0 x/y"), None, start);
    let later = start + Duration::from_hours(24);
    assert_eq!(ledger.expired(later).unwrap().1.owner, "short");
    assert!(ledger.expired(later).is_none() && ledger.open.contains_key(&Lane(2)));
}

fn limits() -> Limits {
    Limits { quiet: Duration::from_secs(30), total: Duration::from_mins(1), ..Limits::default() }
}

/// Plays `script` with 30 s of patience, 60 s in all. Each call has its number as its
/// progress token.
#[track_caller]
fn check(script: &str, expected: &str) {
    let mut ledger = Ledger::new(Sharing::Alone, &limits());
    let start = start();
    let (mut now, mut seen) = (start, Vec::new());
    for step in lines(script) {
        let (verb, what) = step.split_once(' ').unwrap();
        let id = || Lane(what.parse().unwrap());
        match verb {
            "call" => {
                let token = ledger.next_id;
                let request = format!(r#"0 x/y {{"_meta":{{"progressToken":{token}}}}}"#);
                ledger.begin(what, &message(&request), None, now);
            }
            "cancel" => {
                seen.extend(ledger.end(id()).map(|call| format!("{}: cancelled", call.owner)));
            }
            "keep" => ledger.keep(id(), now),
            "hold" => ledger.hold(id(), now),
            "release" => ledger.release(id(), now),
            "progress" => {
                let note = format!(r#"notifications/progress {{"progressToken":{what}}}"#);
                ledger.progress(&message(&note), now);
            }
            "answer" => seen.push(match ledger.answer(&message(&format!("{what} = {{}}")), now) {
                Some((_, call)) => format!("{}: answered", call.owner),
                None => format!("nobody waits for {what}"),
            }),
            "drain" => seen.extend(ledger.drain().map(|call| format!("{}: drained", call.owner))),
            "at" => {
                now = start + Duration::from_secs(what.trim_end_matches('s').parse().unwrap());
                while let Some((_, call)) = ledger.expired(now) {
                    seen.push(format!("{}: timed out", call.owner));
                }
            }
            _ => panic!("no such step: {step}"),
        }
    }
    assert_eq!(seen, lines(expected).collect::<Vec<_>>());
}

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}
