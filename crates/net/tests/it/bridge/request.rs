//! One child for each call.

use serde_json::json;
use switchboard_net::bridge::Children;
use switchboard_testkit::script::{gone, runs};
use switchboard_testkit::within;

use crate::upstream::{caller, child_bridge, journal};

#[tokio::test(flavor = "multi_thread")]
async fn each_call_has_a_child_of_its_own_that_ends_with_it() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerRequest);
    let mut caller = caller(&bridge);
    caller.greet().await;
    let greeted = journal.pids().len();
    // The one that was greeted has nothing else to do.
    journal.all_gone().await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let place = caller.tool("pid", json!({})).await;
        assert_eq!(place["hellos"], 1);
        let pid = u32::try_from(place["pid"].as_u64().unwrap()).unwrap();
        assert!(!seen.contains(&pid));
        gone(pid).await;
        seen.push(pid);
    }
    assert_eq!((greeted, journal.pids().len()), (1, 6));
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: HTTP-7
#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_a_child_of_its_own_may_ask_and_report() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerRequest);
    let mut caller = caller(&bridge);
    caller.greet().await;
    let mut open = Vec::new();
    for tag in ["a", "b", "c"] {
        let arguments = json!({"tag": tag, "ask": true, "steps": 2});
        let params =
            json!({"name": "work", "arguments": arguments, "_meta": {"progressToken": tag}});
        open.push((tag, caller.ask("tools/call", params).await));
    }
    for _ in 0..3 {
        let asked = caller.told("elicitation/create").await;
        let content = json!({"content": asked["params"]["message"]});
        caller.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": content})).await;
    }
    for (tag, id) in open {
        let answer = caller.answer(id).await;
        assert_eq!(answer["result"]["structuredContent"]["got"], json!({"content": tag}));
    }
    let progress = caller.early().iter().filter(|m| m["method"] == "notifications/progress");
    assert!(progress.clone().all(|m| m["params"]["message"] == m["params"]["progressToken"]));
    assert_eq!(progress.count(), 6);
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: UTL-1
#[tokio::test]
async fn a_cancelled_call_takes_its_child_with_it() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerRequest);
    let mut caller = caller(&bridge);
    caller.greet().await;
    let id = caller.ask("tools/call", json!({"name": "wait", "arguments": {"tag": "w"}})).await;
    journal.saw("waiting w").await;
    let pid = journal.pids()[1];
    caller.note("notifications/cancelled", json!({"requestId": id})).await;
    gone(pid).await;
    within(bridge.close()).await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_all_its_children_with_it() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerRequest);
    let mut caller = caller(&bridge);
    caller.greet().await;
    caller.ask("tools/call", json!({"name": "deaf", "arguments": {}})).await;
    journal.saw("deaf").await;
    // What is in flight is given a while before a client that hung up is forgotten.
    drop(caller);
    journal.all_gone().await;
    within(bridge.close()).await;
    assert!(journal.pids().iter().all(|pid| !runs(*pid)));
}
