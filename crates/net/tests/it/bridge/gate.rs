//! Calls that wait for their turn, and servers that are not there.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::roster::{ServerPhase, ServerState};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::ServerTarget;
use switchboard_proto::failure::Failure;
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::error_of;
use switchboard_testkit::within;
use tokio::sync::watch;

use crate::upstream::{caller, journal};

/// A bridge that lets `calls` on at once, and waits `start` for its server.
pub(super) fn guarded(
    command: Command,
    children: Children,
    calls: usize,
    start: Duration,
) -> Arc<Bridge> {
    let server = ServerTarget::command(command, std::env::vars_os().collect());
    let limits = Limits { greeting: Some(start), ..Limits::default() };
    let bounds = (NonZeroUsize::new(calls).unwrap(), start);
    Bridge::guarding(server, children, Arc::new(limits), bounds)
}

/// Has the bridge follow a supervisor that says so of the server.
pub(crate) fn stands(bridge: &Bridge, phase: ServerPhase) {
    bridge.follow("it", watch::channel(ServerState::new(phase)).1);
}

pub(super) const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_server_that_has_failed_is_not_tried_and_one_that_is_back_is() {
    let journal = journal();
    let bridge = guarded(journal.server(&[]), Children::PerSession, 9, LONG);
    stands(&bridge, ServerPhase::Failed);
    let mut one = caller(&bridge);
    let failed = one.call("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    assert_eq!(
        error_of(&failed),
        "server \"it\" is down (Transport closed); restart it, or call it again later"
    );
    assert!(journal.pids().is_empty(), "nothing was started");
    stands(&bridge, ServerPhase::Ready);
    let mut two = caller(&bridge);
    two.greet().await;
    assert!(two.tool("pid", json!({})).await["pid"].is_number());
    // Who has a link goes on, whatever happens to others.
    stands(&bridge, ServerPhase::Failed);
    assert!(two.tool("pid", json!({})).await["pid"].is_number());
    within(bridge.close()).await;
}

#[tokio::test]
async fn calls_hear_what_the_supervisor_publishes_without_anybody_asking() {
    let journal = journal();
    let bridge = guarded(journal.server(&[]), Children::PerSession, 9, LONG);
    let (supervisor, state) = watch::channel(ServerState::new(ServerPhase::Starting));
    bridge.follow("it", state);
    let mut one = caller(&bridge);
    let waits = one.ask("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    while bridge.queued() == 0 {
        tokio::task::yield_now().await;
    }
    let why = Failure::TaskFailed;
    supervisor.send_replace(ServerState::down(ServerPhase::Retrying, why, None));
    let failed = one.answer(waits).await;
    let told = "server \"it\" is down (the task has failed); restart it, or call it again later";
    assert_eq!(error_of(&failed), told);
    supervisor.send_replace(ServerState::new(ServerPhase::Ready));
    let mut two = caller(&bridge);
    two.greet().await;
    within(bridge.close()).await;
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_starts_but_not_for_ever() {
    let journal = journal();
    let bridge = guarded(journal.server(&[]), Children::PerSession, 9, LONG);
    let mut one = caller(&bridge);
    let waits = one.ask("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    while bridge.queued() == 0 {
        tokio::task::yield_now().await;
    }
    stands(&bridge, ServerPhase::Ready);
    assert!(one.answer(waits).await.get("result").is_some());
    within(bridge.close()).await;
    let bridge = guarded(journal.server(&[]), Children::PerSession, 9, Duration::from_millis(50));
    stands(&bridge, ServerPhase::Starting);
    let mut one = caller(&bridge);
    let failed = one.call("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    // By the name that callers know: its own may be an address.
    assert_eq!(error_of(&failed), "the server \"it\" did not start within 50ms");
    assert_eq!(bridge.queued(), 0);
    within(bridge.close()).await;
}

#[tokio::test]
async fn a_greeting_has_the_time_that_the_server_has_to_start() {
    let bridge = guarded(
        Command::new("sleep").args(&["1000".to_owned()]),
        Children::PerSession,
        9,
        Duration::from_millis(100),
    );
    stands(&bridge, ServerPhase::Ready);
    let mut one = caller(&bridge);
    let failed = one.call("initialize", json!({"protocolVersion": "2025-11-25"})).await;
    assert!(error_of(&failed).starts_with("Request timeout after"), "{failed}");
    within(bridge.close()).await;
}

#[tokio::test]
async fn more_calls_than_the_server_gets_at_once_are_all_answered() {
    for children in [Children::PerSession, Children::Shared, Children::PerRequest] {
        let journal = journal();
        let bridge = guarded(journal.server(&[]), children, 2, LONG);
        stands(&bridge, ServerPhase::Ready);
        let mut callers = vec![caller(&bridge), caller(&bridge), caller(&bridge)];
        for caller in &mut callers {
            caller.greet().await;
        }
        let mut asked = Vec::new();
        for round in 0..5 {
            for (at, caller) in callers.iter_mut().enumerate() {
                let arguments = json!({"tag": format!("{at}.{round}")});
                let params = json!({"name": "work", "arguments": arguments});
                asked.push((at, round, caller.ask("tools/call", params).await));
            }
        }
        for (at, round, id) in asked {
            let answer = callers[at].answer(id).await;
            let tag = &answer["result"]["structuredContent"]["tag"];
            assert_eq!(*tag, format!("{at}.{round}"), "{children:?}");
        }
        assert_eq!(bridge.queued(), 0);
        within(bridge.close()).await;
    }
}

/// wire: GW-82
#[tokio::test]
async fn a_bridge_at_rest_has_no_child_and_its_sessions_go_on() {
    let journal = journal();
    let bridge = guarded(journal.server(&[]), Children::PerSession, 9, LONG);
    stands(&bridge, ServerPhase::Ready);
    let mut one = caller(&bridge);
    one.greet().await;
    let first = one.tool("pid", json!({})).await["pid"].clone();
    assert!(!bridge.rest(LONG), "it was used a moment ago");
    assert!(bridge.rest(Duration::ZERO));
    journal.all_gone().await;
    let second = one.tool("pid", json!({})).await["pid"].clone();
    assert_ne!(first, second);
    let greetings = journal.lines().iter().filter(|line| line.ends_with(" initialize")).count();
    assert_eq!(greetings, 2);
    within(bridge.close()).await;
    journal.all_gone().await;
}
