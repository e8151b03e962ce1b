//! A process that everybody shares is one: for clients of both eras, and for the lists.

use std::sync::mpsc::channel;

use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions, ListenFilter};

use super::{ERAS, Gateway, demo, eventually, names, pid, text};
use crate::named::Home;
use crate::process::running;

/// A gateway to one server that may run once only.
fn gateway(more: &Value) -> Gateway {
    let home = Home::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/once.py");
    let args = [script, home.path.join("lock").to_str().unwrap()].map(str::to_owned);
    let mut it = json!({"command": "python3", "args": args, "process": "shared"});
    for (key, value) in more.as_object().unwrap() {
        it[key] = value.clone();
    }
    Gateway::start_in(home, &json!({ "it": it }), &json!({}))
}

/// Clients of both eras, of all servers and of the one.
async fn everybody(gateway: &Gateway) -> Vec<(Client, &'static str)> {
    gateway.until_ready(&["it"]);
    let mut all = Vec::new();
    for era in ERAS {
        for (path, prefix) in [("/mcp", "it__"), ("/servers/it/mcp", "")] {
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            all.push((client, prefix));
        }
    }
    all
}

async fn one_pid(all: &[(Client, &str)]) -> u32 {
    let mut pids = Vec::new();
    for (client, prefix) in all {
        pids.push(pid(client, &format!("{prefix}pid")).await);
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
    pids[0]
}

#[tokio::test]
async fn a_server_that_may_run_once_only_serves_clients_of_both_eras() {
    let gateway = gateway(&json!({}));
    let all = everybody(&gateway).await;
    let first = one_pid(&all).await;
    let others = everybody(&gateway).await;
    assert_eq!(one_pid(&others).await, first);
    assert_eq!(gateway.status()["servers"]["it"]["state"], "ready");
}

#[tokio::test]
async fn a_tool_that_appears_is_listed_told_and_called_by_everybody() {
    let gateway = gateway(&json!({}));
    let all = everybody(&gateway).await;
    let (told, mut hears) = (channel(), Vec::new());
    let say = told.0.clone();
    let options = ClientOptions::default().on_notification(move |note| {
        _ = say.send(note.method);
    });
    let _legacy = gateway.client_at("/mcp", ERAS[0], options).await;
    for path in ["/mcp", "/servers/it/mcp"] {
        let modern = gateway.client_at(path, ERAS[1], ClientOptions::default()).await;
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        hears.push(modern.listen(filter).await.unwrap());
    }
    for (grown, (client, prefix)) in (3..).zip(&all) {
        client.call_tool(&format!("{prefix}grow"), json!({})).await.unwrap();
        for hears in &mut hears {
            let first = hears.next().await.unwrap();
            assert_eq!(first.method, "notifications/tools/list_changed");
        }
        eventually("the legacy client is told", || {
            told.1.try_iter().any(|method| method == "notifications/tools/list_changed")
        })
        .await;
        for (other, prefix) in &all {
            let name = format!("{prefix}grown_{grown}");
            assert!(names(&other.tools().await.unwrap()).contains(&&*name), "{name}");
            let answer = other.call_tool(&name, json!({})).await.unwrap();
            assert_ne!(answer["isError"], true, "{}", text(&answer));
        }
    }
}

#[tokio::test]
async fn it_dies_and_everybody_has_the_next_one() {
    let gateway = gateway(&json!({}));
    let all = everybody(&gateway).await;
    let mut last = one_pid(&all).await;
    for (client, prefix) in [&all[0], &all[3]] {
        client.call_tool(&format!("{prefix}grow"), json!({})).await.unwrap();
        client.call_tool(&format!("{prefix}die"), json!({})).await.unwrap_err();
        eventually("it is gone", || running(&[last]).is_empty()).await;
        gateway.until_ready(&["it"]);
        let next = one_pid(&all).await;
        assert_ne!(last, next);
        // What it learned is forgotten, and so it is listed.
        for (client, prefix) in &all {
            eventually_listed(client, &["pid", "grow", "die"].map(|it| format!("{prefix}{it}")))
                .await;
        }
        last = next;
    }
}

async fn eventually_listed(client: &Client, wanted: &[String]) {
    let until = tokio::time::Instant::now() + crate::process::PATIENCE;
    while names(&client.tools().await.unwrap()) != wanted {
        assert!(tokio::time::Instant::now() < until, "never listed: {wanted:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn it_sleeps_for_everybody_and_whoever_calls_wakes_it() {
    // Long enough to be seen ready on a busy machine: it sleeps as soon as that is over.
    let gateway = gateway(&json!({"idleTimeout": "1s"}));
    let all = everybody(&gateway).await;
    for (client, prefix) in &all {
        eventually("no child is left", || gateway.process.children().is_empty()).await;
        gateway.until_state("it", "asleep");
        pid(client, &format!("{prefix}pid")).await;
    }
}

#[tokio::test]
async fn a_modern_server_is_one_process_too() {
    let mut server = demo(&[]);
    server["process"] = json!("shared");
    let gateway = Gateway::start(&json!({ "it": server }));
    gateway.until_ready(&["it"]);
    let before = gateway.process.children();
    for (client, prefix) in everybody(&gateway).await {
        let tool = format!("{prefix}echo");
        let answer = client.call_tool(&tool, json!({"message": "hi", "text": "hi"})).await.unwrap();
        assert!(text(&answer).contains("hi"));
        assert!(!client.tools().await.unwrap().is_empty());
    }
    assert_eq!(gateway.process.children(), before);
}
