//! Each test is a transcript: what happened, and what must come of it.

use proptest::prelude::*;
use switchboard_proto::failure::Failure;

use super::*;

#[test]
fn servers_connect_side_by_side_up_to_the_bound() {
    check(
        "add a
         add b
         add c
         ready a 1",
        "a: waiting
         a: connecting
         connect a 1
         b: waiting
         b: connecting
         connect b 2
         c: waiting
         a: ready
         c: connecting
         connect c 3",
    );
}

#[test]
fn servers_that_hang_give_their_places_to_the_next_and_may_still_come() {
    check(
        "add a
         add b
         add c
         at 0.1s
         ready c 3
         at 20s
         ready a 1",
        "a: waiting
         a: connecting
         connect a 1
         b: waiting
         b: connecting
         connect b 2
         c: waiting
         c: connecting
         connect c 3
         c: ready
         a: ready",
    );
}

#[test]
fn a_server_that_cannot_be_reached_is_tried_again_a_little_later_each_time() {
    check(
        "add a
         broken a 1
         at 0.9s
         at 1s
         broken a 2
         at 2.4s
         at 2.5s
         ready a 3",
        "a: waiting
         a: connecting
         connect a 1
         release a 1
         a: retrying at 1s
         a: waiting
         a: connecting
         connect a 2
         release a 2
         a: retrying at 2.5s
         a: waiting
         a: connecting
         connect a 3
         a: ready",
    );
}

#[test]
fn a_server_that_breaks_too_often_is_left_alone_until_it_is_used_after_a_rest() {
    check(
        "add a
         broken a 1
         at 1s
         broken a 2
         at 2.5s
         broken a 3
         at 20s
         want a
         at 33s
         want a
         ready a 4
         broken a 4",
        "a: waiting
         a: connecting
         connect a 1
         release a 1
         a: retrying at 1s
         a: waiting
         a: connecting
         connect a 2
         release a 2
         a: retrying at 2.5s
         a: waiting
         a: connecting
         connect a 3
         release a 3
         a: failed
         a: waiting
         a: connecting
         connect a 4
         a: ready
         release a 4
         a: failed",
    );
}

#[test]
fn a_server_that_breaks_after_a_long_life_is_connected_at_once_and_counts_anew() {
    check(
        "add a
         broken a 1
         at 1s
         ready a 2
         at 62s
         broken a 2
         broken a 3",
        "a: waiting
         a: connecting
         connect a 1
         release a 1
         a: retrying at 1s
         a: waiting
         a: connecting
         connect a 2
         a: ready
         release a 2
         a: retrying at 62s
         a: waiting
         a: connecting
         connect a 3
         release a 3
         a: retrying at 63.5s",
    );
}

#[test]
fn a_short_life_is_no_success() {
    check(
        "add a
         ready a 1
         broken a 1
         at 1s
         ready a 2
         broken a 2
         at 2.5s
         ready a 3
         broken a 3",
        "a: waiting
         a: connecting
         connect a 1
         a: ready
         release a 1
         a: retrying at 1s
         a: waiting
         a: connecting
         connect a 2
         a: ready
         release a 2
         a: retrying at 2.5s
         a: waiting
         a: connecting
         connect a 3
         a: ready
         release a 3
         a: failed",
    );
}

#[test]
fn a_supervised_server_is_tried_after_1_5_and_15_s_then_it_has_failed_and_is_looked_at() {
    supervise(
        "add a
         broken a 1
         at 1s
         broken a 2
         at 6s
         broken a 3
         at 21s
         broken a 4
         want a
         at 81s
         broken a 5
         at 141s
         ready a 6",
        "a: waiting
         a: connecting
         connect a 1
         release a 1
         a: retrying at 1s
         a: waiting
         a: connecting
         connect a 2
         release a 2
         a: retrying at 6s
         a: waiting
         a: connecting
         connect a 3
         release a 3
         a: retrying at 21s
         a: waiting
         a: connecting
         connect a 4
         release a 4
         a: failed until 81s
         connect a 5
         release a 5
         a: failed until 141s
         connect a 6
         a: ready",
    );
}

#[test]
fn a_supervised_server_that_ends_after_a_long_life_is_back_at_once() {
    supervise(
        "add a
         ready a 1
         at 59s
         broken a 1
         at 60s
         ready a 2
         at 120s
         broken a 2
         ready a 3
         broken a 3",
        "a: waiting
         a: connecting
         connect a 1
         a: ready
         release a 1
         a: retrying at 60s
         a: waiting
         a: connecting
         connect a 2
         a: ready
         release a 2
         a: retrying at 120s
         a: waiting
         a: connecting
         connect a 3
         a: ready
         release a 3
         a: retrying at 121s",
    );
}

#[test]
fn a_server_that_nobody_uses_sleeps_until_it_is_wanted() {
    check(
        "add a
         sleep a
         ready a 1
         sleep a
         sleep a
         broken a 1
         at 1000s
         want a
         want a
         ready a 2",
        "a: waiting
         a: connecting
         connect a 1
         cannot sleep a
         a: ready
         release a 1
         a: asleep
         cannot sleep a
         a: waiting
         a: connecting
         connect a 2
         a: ready",
    );
}

#[test]
fn a_restart_ends_what_there_is_and_what_is_told_of_it_later_changes_nothing() {
    check(
        "add a
         ready a 1
         restart a
         broken a 1
         ready a 1
         ready a 2
         restart b",
        "a: waiting
         a: connecting
         connect a 1
         a: ready
         release a 1
         a: waiting
         a: connecting
         connect a 2
         a: ready
         cannot restart b",
    );
}

#[test]
fn a_restart_while_it_waits_does_not_put_it_in_the_queue_twice() {
    check(
        "add a
         add b
         add c
         restart c
         ready a 1
         ready b 2",
        "a: waiting
         a: connecting
         connect a 1
         b: waiting
         b: connecting
         connect b 2
         c: waiting
         c: waiting
         a: ready
         c: connecting
         connect c 3
         b: ready",
    );
}

#[test]
fn a_removed_server_gives_up_its_place_and_is_heard_of_no_more() {
    check(
        "add a
         add b
         add c
         remove a
         broken a 1
         remove c
         ready c 3
         remove c
         add c
         add c",
        "a: waiting
         a: connecting
         connect a 1
         b: waiting
         b: connecting
         connect b 2
         c: waiting
         release a 1
         c: connecting
         connect c 3
         release c 3
         cannot remove c
         c: waiting
         c: connecting
         connect c 4
         cannot add c",
    );
}

#[test]
fn a_place_that_was_given_up_wakes_nobody_again() {
    check(
        "add a
         add b
         add c
         add d
         add e
         at 0.1s",
        "a: waiting
         a: connecting
         connect a 1
         b: waiting
         b: connecting
         connect b 2
         c: waiting
         d: waiting
         e: waiting
         c: connecting
         connect c 3
         d: connecting
         connect d 4",
    );
}

/// Plays `script` with two places for 0.1 s, two attempts again, and a rest of 30 s.
#[track_caller]
fn check(script: &str, expected: &str) {
    play(None, script, expected);
}

/// The same for servers that are supervised, and looked at each minute once they failed.
#[track_caller]
fn supervise(script: &str, expected: &str) {
    play(Some(Duration::from_mins(1)), script, expected);
}

#[track_caller]
fn play(probe: Option<Duration>, script: &str, expected: &str) {
    let options = RosterOptions {
        at_once: 2,
        turn: Duration::from_millis(100),
        attempts: 2,
        rest: Duration::from_secs(30),
        probe,
        ..RosterOptions::default()
    };
    let mut supervisor = Supervisor::new(options.into());
    let start = Instant::now();
    let mut now = start;
    let mut seen = Vec::new();
    for step in lines(script) {
        let words: Vec<_> = step.split(' ').collect();
        let attempt = || words[2].parse().unwrap();
        let mut is_possible = true;
        match words[0] {
            "add" => is_possible = supervisor.add(&words[1].into(), now),
            "remove" => is_possible = supervisor.remove(words[1], now),
            "restart" => is_possible = supervisor.restart(words[1], now),
            "sleep" => is_possible = supervisor.sleep(words[1]),
            "want" => supervisor.want(words[1], now),
            "ready" => supervisor.handle_ready(words[1], attempt(), now),
            "broken" => {
                supervisor.handle_broken(
                    words[1],
                    attempt(),
                    Failure::CLOSED,
                    now,
                    Some(Duration::ZERO),
                );
            }
            "at" => {
                let time = words[1].trim_end_matches('s').parse().unwrap();
                now = start + Duration::from_secs_f64(time);
                if supervisor.poll_timeout().is_some_and(|at| at <= now) {
                    supervisor.handle_timeout(now);
                }
            }
            _ => panic!("no such step: {step}"),
        }
        if !is_possible {
            seen.push(format!("cannot {step}"));
        }
        let next = supervisor.poll_timeout();
        assert!(next.is_none_or(|at| at > now), "{step}: nothing is left to do at this time");
        while let Some((name, action)) = supervisor.poll() {
            seen.push(print(&name, &action, start));
        }
    }
    assert_eq!(seen, lines(expected).collect::<Vec<_>>());
}

fn print(name: &str, action: &Action, start: Instant) -> String {
    match action {
        Action::Connect { attempt } => format!("connect {name} {attempt}"),
        Action::Release { attempt } => format!("release {name} {attempt}"),
        Action::Tell { state } => {
            let at = state.next_attempt.map(|at| at.duration_since(start).as_secs_f64());
            let state = match (state.phase, at) {
                (ServerPhase::Queued, _) => "waiting".to_owned(),
                (ServerPhase::Retrying, Some(at)) => format!("retrying at {at}s"),
                (ServerPhase::Failed, None) => "failed".to_owned(),
                (ServerPhase::Failed, Some(at)) => format!("failed until {at}s"),
                _ => state.to_string(),
            };
            format!("{name}: {state}")
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// What can happen to one of four servers, and how much later.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add,
    Remove,
    Restart,
    Want,
    Sleep,
    Ready,
    Broken,
    Late,
}

fn step() -> impl Strategy<Value = (Step, usize, u64)> {
    use Step::{Add, Broken, Late, Ready, Remove, Restart, Sleep, Want};
    let all = vec![Add, Add, Remove, Restart, Want, Sleep, Ready, Broken, Late];
    let step = prop::sample::select(all);
    (step, 0..4_usize, 0..2000_u64)
}

proptest! {
    #[test]
    fn whatever_happens_each_server_has_one_connection_and_its_turn_comes(
        steps in prop::collection::vec(step(), 0..60),
        probe in prop::option::of((0..2000_u64).prop_map(Duration::from_millis)),
    ) {
        let names = ["a", "b", "c", "d"].map(Arc::<str>::from);
        let turn = Duration::from_millis(100);
        let rest = Duration::from_secs(1);
        let defaults = RosterOptions::default();
        let options = RosterOptions { at_once: 2, turn, attempts: 3, rest, probe, ..defaults };
        let mut supervisor = Supervisor::new(options.into());
        let mut now = Instant::now();
        let mut live: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (step, at, later) in steps {
            let name = &names[at];
            let attempt = live.get(name).copied().unwrap_or(0);
            match step {
                Step::Add => _ = supervisor.add(name, now),
                Step::Remove => _ = supervisor.remove(name, now),
                Step::Restart => _ = supervisor.restart(name, now),
                Step::Want => supervisor.want(name, now),
                Step::Sleep => _ = supervisor.sleep(name),
                Step::Ready => supervisor.handle_ready(name, attempt, now),
                Step::Broken => {
                    supervisor.handle_broken(name, attempt, Failure::CLOSED, now, Some(Duration::ZERO));
                }
                Step::Late => {
                    now += Duration::from_millis(later);
                    supervisor.handle_timeout(now);
                }
            }
            while let Some((name, action)) = supervisor.poll() {
                match action {
                    Action::Connect { attempt } => {
                        prop_assert_eq!(live.insert(name, attempt), None, "one at a time");
                    }
                    Action::Release { attempt } => {
                        prop_assert_eq!(live.remove(&name), Some(attempt));
                    }
                    Action::Tell { .. } => {}
                }
            }
            prop_assert!(supervisor.poll_timeout().is_none_or(|at| at > now));
            let waits = |name: &&Arc<str>| {
                matches!(supervisor.members.get(*name).map(|member| &member.phase), Some(MemberPhase::Queued))
            };
            prop_assert_eq!(names.iter().filter(waits).count(), supervisor.queue.len());
            prop_assert!(supervisor.queue.is_empty() || supervisor.poll_timeout().is_some());
        }
    }
}
