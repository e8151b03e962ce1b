//! Calls that wait: for their turn, and for a server that is not there.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{ERAS, Gateway, demo, rude_with, text};
use crate::process::PATIENCE;

async fn until_queued(gateway: &Gateway, count: u64) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while gateway.status()["servers"]["busy"]["queued"] != count {
        assert!(tokio::time::Instant::now() < until, "never {count} in the queue");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn calls_beyond_the_bound_of_a_server_wait_for_their_turn() {
    let keys = json!({"maxConcurrency": 1});
    let servers = json!({"busy": rude_with(&["wait"], &keys), "other": demo(&[])});
    let gateway = Gateway::start(&servers);
    for era in ERAS {
        let client = gateway.client(era, &["busy", "other"]).await;
        let file = gateway.home.path.join(format!("{era:?}"));
        let call = |tool: &'static str, arguments: Value| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool(tool, arguments).await })
        };
        let first = call("busy__wait", json!({"file": file.to_str().unwrap()}));
        until_first(&gateway).await;
        let second = call("busy__echo", json!({"text": "second"}));
        until_queued(&gateway, 1).await;
        let third = call("busy__echo", json!({"text": "third"}));
        until_queued(&gateway, 2).await;
        let sum = client.call_tool("other__add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3", "others do not wait");
        second.abort();
        until_queued(&gateway, 1).await;
        fs::write(&file, "").unwrap();
        assert_eq!(text(&first.await.unwrap().unwrap()), "waited");
        assert_eq!(text(&third.await.unwrap().unwrap()), "third");
        until_queued(&gateway, 0).await;
    }
}

async fn until_first(gateway: &Gateway) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while gateway.status()["servers"]["busy"]["calls"] != 1 {
        assert!(tokio::time::Instant::now() < until, "the first call is never made");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// They were never sent, so nothing is made twice.
#[tokio::test]
async fn calls_that_wait_for_their_turn_outlive_the_process_of_a_shared_server() {
    let keys = json!({"maxConcurrency": 1, "process": "shared"});
    let gateway = Gateway::start(&json!({"busy": rude_with(&["wait"], &keys)}));
    for era in ERAS {
        let client = gateway.client(era, &["busy"]).await;
        let never = gateway.home.path.join("never");
        let call = |tool: &'static str, arguments: Value| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool(tool, arguments).await })
        };
        let first = call("busy__wait", json!({"file": never.to_str().unwrap()}));
        until_first(&gateway).await;
        let second = call("busy__echo", json!({"text": "second"}));
        until_queued(&gateway, 1).await;
        for child in gateway.process.children() {
            let id = Pid::from_raw(child.try_into().unwrap()).unwrap();
            // The guard may end with the last child.
            _ = kill_process(id, Signal::KILL);
        }
        first.await.unwrap().unwrap_err();
        assert_eq!(text(&second.await.unwrap().unwrap()), "second", "{era:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_has_its_own_time_and_says_when_it_is_tried_again() {
    let servers = json!({
        "good": demo(&[]),
        "hang": {"command": "sleep", "args": ["1000"], "startTimeout": "500ms"},
    });
    let gateway = Gateway::start(&servers);
    gateway.until_ready(&["good"]);
    gateway.until_state("hang", "retrying");
    let status = gateway.status();
    assert!(status["servers"]["hang"]["nextAttemptMs"].is_u64(), "{status}");
    for era in ERAS {
        let client = gateway.client(era, &["good"]).await;
        let failed = client.call_tool("hang__anything", json!({})).await.unwrap_err();
        let failed = failed.to_string();
        assert!(failed.contains("is down") || failed.contains("did not start within"), "{failed}");
    }
}
