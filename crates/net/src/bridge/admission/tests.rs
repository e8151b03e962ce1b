//! Each test is a transcript: what happened, and what must come of it.

use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Carrier;
use switchboard_proto::jsonrpc::{Message, parse};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;

use super::*;
use crate::backend::Backend as _;
use crate::bridge::Children;
use crate::call::Call;
use crate::connection::ClientConnection;
use crate::stdio::child::Command;
use crate::upstream::ServerTarget;

#[test]
fn calls_beyond_the_bound_wait_for_their_turn_in_order() {
    check(
        "open
         call a
         call b
         call c
         call d
         call e
         over a
         over b",
        "a goes
         b goes
         c waits
         d waits
         e waits
         c goes
         d goes",
    );
}

#[test]
fn a_call_that_is_dropped_while_it_waits_is_never_made() {
    check(
        "open
         call a
         call b
         call c
         call d
         over c
         over a",
        "a goes
         b goes
         c waits
         d waits
         c was never made
         d goes",
    );
}

#[test]
fn what_takes_no_turn_needs_none() {
    check(
        "open
         call a
         call b
         call c
         errand d",
        "a goes
         b goes
         c waits
         d goes",
    );
}

#[test]
fn calls_wait_for_a_server_that_starts() {
    check(
        "call a
         errand b
         call c
         call d
         open
         over a",
        "a waits
         b waits
         c waits
         d waits
         a goes
         b goes
         c goes
         d goes",
    );
}

#[test]
fn calls_do_not_wait_for_a_server_for_ever() {
    check(
        "call a
         at 5
         call b
         at 10
         at 14
         at 15",
        "a waits
         b waits
         a has waited too long
         b has waited too long",
    );
}

#[test]
fn calls_that_wait_for_their_turn_do_so_for_as_long_as_it_takes() {
    check(
        "open
         call a
         call b
         call c
         at 100
         over a",
        "a goes
         b goes
         c waits
         c goes",
    );
}

#[test]
fn a_failed_attempt_fails_who_waited_for_it_and_the_next_ones_wait_for_the_next() {
    check(
        "call a
         retrying
         call b
         retrying
         starting
         retrying
         call c
         open",
        "a waits
         a fails: down
         b waits
         b fails: down
         c waits
         c goes",
    );
}

#[test]
fn a_server_that_was_up_is_waited_for_until_it_is_given_up() {
    check(
        "open
         call a
         call b
         call c
         retrying
         starting
         retrying
         failed",
        "a goes
         b goes
         c waits
         c fails: down",
    );
}

#[test]
fn calls_that_wait_for_their_turn_wait_for_a_server_that_has_died_as_long_as_for_one_that_starts() {
    check(
        "open
         call a
         call b
         call c
         call d
         at 100
         retrying
         over a
         over b
         at 105
         starting
         open
         call e
         over c
         over d
         retrying
         at 114
         at 115
         at 116",
        "a goes
         b goes
         c waits
         d waits
         c goes
         d goes
         e waits
         e goes",
    );
    check(
        "open
         call a
         call b
         call c
         at 100
         retrying
         at 109
         at 110",
        "a goes
         b goes
         c waits
         c has waited too long",
    );
}

#[test]
fn a_server_that_can_be_called_is_not_waited_for_while_it_is_started_once_more() {
    check(
        "open
         starting
         call a",
        "a goes",
    );
}

#[test]
fn a_server_that_has_failed_is_not_waited_for_but_links_that_live_go_on() {
    check(
        "failed
         call a
         linked b
         linked c
         linked d
         over b",
        "a fails: down
         b goes
         c goes
         d waits
         d goes",
    );
}

#[test]
fn who_waits_for_the_server_does_not_hold_up_who_has_a_link() {
    check(
        "call a
         linked b",
        "a waits
         b goes",
    );
}

#[test]
fn a_client_that_is_gone_wants_nothing() {
    check(
        "open
         call a
         call b
         call c
         gone
         call d",
        "a goes
         b goes
         c waits
         d goes",
    );
}

#[test]
fn no_more_wait_than_may() {
    let mut queue = AdmissionQueue::new(1, Duration::from_secs(10), Instant::now());
    let call = |number| QueuedCall {
        key: (1, Exchange(number)),
        principal: NOBODY,
        counts: true,
        linked: true,
    };
    let most = u64::try_from(MOST_WAITING).unwrap();
    for number in 0..=most {
        let entry = queue.enter(call(number), number, Instant::now());
        assert_eq!(entry, if number == 0 { Decision::Passes(0) } else { Decision::Waits });
    }
    assert_eq!(queue.enter(call(7777), 7777, Instant::now()), Decision::Crowded(7777));
    assert_eq!(queue.waiting.len(), MOST_WAITING);
}

#[test]
fn a_server_is_idle_since_its_last_call_was_over() {
    let start = Instant::now();
    let later = |seconds| start + Duration::from_secs(seconds);
    let mut queue = AdmissionQueue::new(1, Duration::from_secs(10), start);
    queue.handle_state(&"a".into(), &ServerState::new(ServerPhase::Ready), start);
    let call = QueuedCall { key: (1, Exchange(1)), principal: NOBODY, counts: true, linked: false };
    assert_eq!(queue.idle_since(), Some(start));
    assert_eq!(queue.enter(call, (), later(5)), Decision::Passes(()));
    assert_eq!(queue.idle_since(), None);
    queue.leave(call.key, later(9));
    assert_eq!(queue.idle_since(), Some(later(9)));
}

/// Plays `script` with two turns and ten seconds of patience.
#[track_caller]
fn check(script: &str, expected: &str) {
    let start = Instant::now();
    let mut now = start;
    let mut queue = AdmissionQueue::new(2, Duration::from_secs(10), now);
    let mut state = ServerState::new(ServerPhase::Starting);
    let mut seen = Vec::new();
    for step in lines(script) {
        let (verb, name) = step.split_once(' ').unwrap_or((step, ""));
        let key = (1, Exchange(u64::from(name.bytes().next().unwrap_or_default())));
        match verb {
            "call" | "errand" | "linked" => {
                let (counts, linked) = (verb != "errand", verb == "linked");
                let call = QueuedCall { key, principal: NOBODY, counts, linked };
                seen.push(match queue.enter(call, name, now) {
                    Decision::Passes(name) => format!("{name} goes"),
                    Decision::Waits => format!("{name} waits"),
                    Decision::Fails(name, why) => format!("{name} fails: {}", why.kind()),
                    Decision::Crowded(name) => format!("{name} is one too many"),
                });
            }
            "over" => {
                if queue.leave(key, now) {
                    seen.push(format!("{name} was never made"));
                }
            }
            "gone" => queue.forget(1),
            "at" => {
                now = start + Duration::from_secs(name.parse().unwrap());
                let late = queue.handle_timeout(now);
                seen.extend(late.iter().map(|name| format!("{name} has waited too long")));
            }
            phase => {
                let phase = match phase {
                    "open" => ServerPhase::Ready,
                    "starting" => ServerPhase::Starting,
                    "retrying" => ServerPhase::Retrying,
                    "failed" => ServerPhase::Failed,
                    _ => panic!("no such step: {step}"),
                };
                state = ServerState::new(phase).after(&state);
                let vain = queue.handle_state(&"a".into(), &state, now);
                seen.extend(vain.iter().map(|(name, why)| format!("{name} fails: {}", why.kind())));
            }
        }
        assert!(queue.poll_timeout().is_none_or(|at| at > now), "{step}: nothing is left to do");
        while let Some(name) = queue.poll(now) {
            seen.push(format!("{name} goes"));
        }
    }
    assert_eq!(seen, lines(expected).collect::<Vec<_>>());
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[test]
fn one_principal_neither_fills_the_queue_nor_keeps_the_turns() {
    let now = Instant::now();
    let mut queue = AdmissionQueue::new(2, Duration::from_secs(1), now);
    queue.handle_state(&"a".into(), &ServerState::new(ServerPhase::Ready), now);
    let call = |principal, number| QueuedCall {
        key: (principal, Exchange(number)),
        principal,
        counts: true,
        linked: false,
    };
    let mut enter =
        |principal, number| queue.enter(call(principal, number), (principal, number), now);
    let ada: Vec<_> = (0..MOST_WAITING as u64).map(|number| enter(1, number)).collect();
    let waits = ada.iter().filter(|entry| **entry == Decision::Waits).count();
    assert_eq!(waits, SHARE_WAITING);
    assert!(matches!(ada.last(), Some(Decision::Crowded(_))));
    assert_eq!(enter(7, 0), Decision::Waits, "there is room for others");
    assert_eq!(queue.poll(now), None, "no turn is free");
    queue.leave((1, Exchange(0)), now);
    assert_eq!(queue.poll(now), Some((7, 0)), "who has none is next");
    queue.leave((1, Exchange(1)), now);
    assert_eq!(queue.poll(now), Some((1, 2)), "then whoever has waited longest");
}

#[test]
fn a_call_hears_when_its_server_is_tried_again() {
    let now = Instant::now();
    let next = Some(now + Duration::from_secs(40));
    let down = |why| {
        let state = ServerState::down(ServerPhase::Failed, why, next);
        let mut queue: AdmissionQueue<()> = AdmissionQueue::new(1, Duration::ZERO, now);
        queue.handle_state(&"s".into(), &state, now);
        queue.failure(now).to_string()
    };
    assert_eq!(down(Failure::CLOSED), "server \"s\" is down (Transport closed); next try in 40 s");
    let looped = down(Failure::LOOP);
    assert!(looped.starts_with("server \"s\" leads back to this gateway; remove it"), "{looped}");
}

#[tokio::test]
async fn a_call_that_is_dropped_on_its_way_from_the_gate_is_dropped_at_the_server() {
    let server = ServerTarget::command(Command::new("sleep").args(["1000"]), Vec::new());
    let bounds = (NonZeroUsize::MIN, Duration::from_mins(1));
    let bridge = Bridge::guarding(server, Children::PerSession, Arc::default(), bounds);
    let backend: Arc<Bridge> = Arc::clone(&bridge);
    let client = ClientConnection::new(
        Era::Legacy,
        Carrier::Http,
        backend,
        &Limits::default(),
        Sharing::Alone,
    );
    let exchange = Exchange(1);
    let request = Message::request(&1.into(), method::CALL_TOOL, None);
    let call = Call::new(Arc::<ClientConnection>::clone(&client), exchange);
    bridge.open(&client, &call, request, None).detach();
    assert_eq!(bridge.queued(), 1, "the server is not there yet");
    let admission = bridge.admission.as_ref().unwrap();
    // As `follow` does, but nobody lets the call on.
    let ready = ServerState::new(ServerPhase::Ready);
    lock(admission).queue.handle_state(&"a".into(), &ready, now());
    let open = lock(admission).next().unwrap();
    call.cancel(None).detach();
    bridge.permit(&open);
    bridge.connect(open).detach();
    assert_eq!(bridge.calls(), 0, "nobody waits for it");
    bridge.close().await;
}

#[tokio::test]
async fn a_client_that_leaves_before_its_greeting_is_answered_leaves_nothing_behind() {
    let server = ServerTarget::command(Command::new("sleep").args(["1000"]), Vec::new());
    let bridge = Bridge::new(server, Children::PerSession, Arc::default());
    let backend: Arc<Bridge> = Arc::clone(&bridge);
    let (era, limits) = (Era::Legacy, Limits::default());
    let client = ClientConnection::new(era, Carrier::Http, backend, &limits, Sharing::Alone);
    let params = br#"{"protocolVersion":"x","capabilities":{}}"#;
    let greeting = Message::request(&1.into(), method::INITIALIZE, Some(params));
    let greeting = parse(greeting.text().clone()).unwrap();
    let lane = client.open_lane();
    client.step(|half| half.handle_incoming(lane, greeting, None)).1.detach();
    assert_eq!(bridge.calls(), 1, "the server does not answer");
    client.end();
    bridge.close().await;
    let gone = Arc::downgrade(&client);
    drop(client);
    assert!(gone.upgrade().is_none());
}
