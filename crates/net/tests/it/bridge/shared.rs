//! One child for many clients.

use std::sync::Arc;

use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::upstream::ServerTarget;
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::Caller;
use switchboard_testkit::within;
use tokio::task::JoinSet;

use crate::upstream::{caller, child_bridge, journal};

/// wire: STD-9, GW-81
#[tokio::test(flavor = "multi_thread")]
async fn fifty_clients_share_a_child_and_nobody_gets_what_is_anothers() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::Shared);
    let mut clients = JoinSet::new();
    for number in 0..50 {
        let mut caller = caller(&bridge);
        clients.spawn(async move {
            caller.greet().await;
            for round in 0..4 {
                let tag = format!("{number}.{round}");
                // All clients use the same ids and the same tokens.
                let arguments = json!({"tag": tag, "steps": 5});
                let params =
                    json!({"name": "work", "arguments": arguments, "_meta": {"progressToken": 7}});
                let answer = caller.call("tools/call", params).await;
                assert_eq!(answer["result"]["structuredContent"]["tag"], tag);
                let told: Vec<_> = caller.early().iter().map(|m| m["params"].clone()).collect();
                let of_round = told.iter().filter(|params| params["message"] == tag).count();
                assert_eq!(of_round, 5, "{told:?}");
                assert!(told.iter().all(|params| params["progressToken"] == 7), "{told:?}");
                assert_eq!(told.len(), 5 * (round + 1), "{told:?}");
            }
            caller.leave().await;
        });
    }
    within(clients.join_all()).await;
    assert_eq!(journal.pids().len(), 1);
    let lines = journal.lines();
    assert_eq!(lines.iter().filter(|line| line.ends_with(" initialize")).count(), 1);
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: GW-81
#[tokio::test]
async fn a_question_goes_to_the_one_client_it_can_be_meant_for_or_to_nobody() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::Shared);
    let (mut one, mut two) = (caller(&bridge), caller(&bridge));
    one.greet().await;
    two.greet().await;
    let params = |tag: &str| json!({"name": "work", "arguments": {"tag": tag, "ask": true}});
    let id = one.ask("tools/call", params("mine")).await;
    let asked = one.told("elicitation/create").await;
    assert_eq!(asked["params"]["message"], "mine");
    // While that is open nobody can tell whose the next question is.
    let answer = two.call("tools/call", params("whose")).await;
    let got = &answer["result"]["structuredContent"]["got"];
    assert_eq!(
        got["message"],
        "no client can answer this request: none is connected, or it lacks the capability"
    );
    one.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})).await;
    let answer = one.answer(id).await;
    assert_eq!(answer["result"]["structuredContent"]["got"], json!({"action": "accept"}));
    assert!(two.early().is_empty(), "{:?}", two.early());
    within(bridge.close()).await;
}

/// wire: UTL-1, GW-81
#[tokio::test]
async fn cancelling_reaches_only_the_call_of_the_client_that_cancels() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::Shared);
    let (mut one, mut two) = (caller(&bridge), caller(&bridge));
    one.greet().await;
    two.greet().await;
    // Both under the same id of their own.
    let first = one.ask("tools/call", json!({"name": "wait", "arguments": {"tag": "one"}})).await;
    journal.saw("waiting one").await;
    let second = two.ask("tools/call", json!({"name": "wait", "arguments": {"tag": "two"}})).await;
    journal.saw("waiting two").await;
    assert_eq!(first, second);
    one.note("notifications/cancelled", json!({"requestId": first, "reason": "of one"})).await;
    journal.saw("cancelled of one").await;
    two.leave().await;
    journal.saw("cancelled None").await;
    assert_eq!(one.tool("echo", json!({"k": 1})).await, json!({"k": 1}));
    within(bridge.close()).await;
}

/// wire: GW-85
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_and_the_others_go_on() {
    let journal = journal();
    let limits = Arc::new(Limits { backlog: 1 << 18, ..Limits::default() });
    let server = ServerTarget::command(journal.server(&[]), std::env::vars_os().collect());
    let bridge = Bridge::new(server, Children::Shared, Arc::clone(&limits));
    let client = || Caller::new(Arc::clone(&bridge) as _, Sharing::Shared, Arc::clone(&limits));
    let (mut slow, mut other) = (client(), client());
    slow.greet().await;
    other.greet().await;
    for _ in 0..20 {
        slow.ask("tools/call", json!({"name": "big", "arguments": {"size": 1 << 17}})).await;
    }
    for number in 0..20 {
        assert_eq!(other.tool("echo", json!({"n": number})).await, json!({"n": number}));
    }
    slow.closed().await;
    assert_eq!(journal.pids().len(), 1);
    within(bridge.close()).await;
}

/// wire: STD-6, STD-10
#[tokio::test]
async fn a_shared_child_that_exits_fails_the_calls_of_all_and_comes_back_for_all() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::Shared);
    let (mut one, mut two) = (caller(&bridge), caller(&bridge));
    one.greet().await;
    two.greet().await;
    let open = one.ask("tools/call", json!({"name": "wait", "arguments": {"tag": "w"}})).await;
    journal.saw("waiting w").await;
    let text = two.tool_error("die", json!({"code": 2})).await;
    assert_eq!(text, "Transport closed (exit status 2)");
    assert_eq!(switchboard_testkit::caller::error_of(&one.answer(open).await), text);
    let first = one.tool("pid", json!({})).await;
    assert_eq!(first, two.tool("pid", json!({})).await);
    assert_eq!(journal.pids().len(), 2);
    within(bridge.close()).await;
}
