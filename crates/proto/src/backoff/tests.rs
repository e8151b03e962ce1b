//! Each test is a transcript: what happened, and how long the wait is.

use super::*;

// wire: HTTP-12
#[test]
fn waits_grow_by_half_up_to_thirty_seconds() {
    let mut reconnect = Reconnect::new(u32::MAX);
    let waits = (0..12).map(|_| wait(&mut reconnect, Duration::ZERO).unwrap());
    let expected = [1000, 1500, 2250, 3375, 5062, 7593, 11390, 17085, 25628, 30000, 30000, 30000];
    assert_eq!(waits.map(|wait| wait.as_millis()).collect::<Vec<_>>(), expected);
}

// wire: HTTP-11
#[test]
fn servers_own_retry_is_kept_to() {
    reconnect("break retry:500 break break event break", "1000 500 500 500");
    reconnect("retry:0 break", "20");
    reconnect("retry:18446744073709551615 break", "86400000");
}

// wire: HTTP-12
#[test]
fn attempts_are_bounded_until_an_event_comes() {
    reconnect("break break break break break", "1000 1500 2250 enough enough");
    reconnect("break break break event break break", "1000 1500 2250 1000 1500");
    reconnect("retry:70 break break break break", "70 70 70 enough");
}

#[test]
fn jitter_adds_to_our_own_delay_only() {
    let mut stream = Reconnect::new(9);
    assert_eq!(wait(&mut stream, Duration::from_millis(70)), Some(Duration::from_millis(1070)));
    assert_eq!(wait(&mut stream, Duration::MAX), Some(Duration::from_millis(2500)));
    stream.handle_retry(500);
    assert_eq!(wait(&mut stream, Duration::from_millis(70)), Some(Duration::from_millis(500)));
}

#[test]
fn child_that_keeps_ending_is_restarted_three_times() {
    restart(&[0, 0, 0, 0], "1 5 15 enough");
    restart(&[59, 59, 59, 59], "1 5 15 enough");
}

#[test]
fn child_that_lived_long_is_restarted_at_once() {
    restart(&[0, 0, 60, 0, 0, 0, 0], "1 5 0 1 5 15 enough");
}

#[test]
fn restarts_count_for_five_minutes() {
    let mut child = Restart::default();
    let start = start();
    let at = |seconds| start + Duration::from_secs(seconds);
    for (ended, restarted) in [(0, Some(1)), (9, Some(14)), (20, Some(35)), (300, None)] {
        assert_eq!(child.handle_exit(at(ended), at(ended)), restarted.map(at), "at {ended}");
    }
    assert_eq!(child.handle_exit(at(301), at(301)), Some(at(316)));
}

/// Plays breaks, events and retries with three attempts; expects waits in ms.
#[track_caller]
fn reconnect(script: &str, expected: &str) {
    let mut stream = Reconnect::new(3);
    let mut seen = Vec::new();
    for step in script.split(' ') {
        match step.split_once(':') {
            None if step == "event" => stream.handle_success(),
            None => seen.push(match wait(&mut stream, Duration::ZERO) {
                Some(wait) => wait.as_millis().to_string(),
                None => "enough".into(),
            }),
            Some((_, millis)) => stream.handle_retry(millis.parse().unwrap()),
        }
    }
    assert_eq!(seen.join(" "), expected);
}

fn wait(stream: &mut Reconnect, jitter: Duration) -> Option<Duration> {
    let now = start();
    stream.handle_break(now, jitter).map(|at| at - now)
}

/// Lets a child live the given seconds each time; expects waits in seconds.
#[track_caller]
fn restart(lives: &[u64], expected: &str) {
    let mut child = Restart::default();
    let mut started = start();
    let mut seen = Vec::new();
    for &life in lives {
        let ended = started + Duration::from_secs(life);
        let again = child.handle_exit(started, ended);
        seen.push(again.map_or("enough".into(), |at| (at - ended).as_secs().to_string()));
        started = again.unwrap_or(ended);
    }
    assert_eq!(seen.join(" "), expected);
}

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}
