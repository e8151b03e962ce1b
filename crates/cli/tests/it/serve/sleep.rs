//! Servers that nobody uses sleep, and whoever wants them wakes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use switchboard_net::client::{ClientOptions, ListenFilter};

use super::task::{PAIRS, begin};
use super::{ERAS, Gateway, demo, names, pid, rude_with, text};
use crate::process::{Switchboard, running, until};

const IDLE: &str = "300ms";

#[tokio::test]
async fn a_server_that_nobody_uses_sleeps_and_the_next_call_of_the_session_wakes_it() {
    for process in [json!("shared"), json!("per-session"), json!("per-user"), json!({"pool": 1})] {
        let keys = json!({"idleTimeout": IDLE, "process": process});
        let gateway = Gateway::start(&json!({"it": rude_with(&["pid"], &keys)}));
        // Its tools are known from here on.
        gateway.until_state("it", "asleep");
        for era in ERAS {
            let told = Arc::new(AtomicUsize::new(0));
            let hears = Arc::clone(&told);
            let options = ClientOptions::default().on_notification(move |note| {
                let is_change = note.method.ends_with("list_changed");
                hears.fetch_add(usize::from(is_change), Ordering::SeqCst);
            });
            let client = gateway.client_at("/mcp", era, options).await;
            let first = pid(&client, "it__pid").await;
            // What a server shows one person is known when it was asked for that one.
            while !names(&client.tools().await.unwrap()).contains(&"it__pid") {}
            let before = told.load(Ordering::SeqCst);
            gateway.until_state("it", "asleep");
            until("no child is left", || gateway.process.children().is_empty());
            assert!(running(&[first]).is_empty());
            let second = pid(&client, "it__pid").await;
            assert_ne!(first, second, "{process}, {era:?}");
            gateway.until_state("it", "asleep");
            let list = client.request("tools/list", json!({})).await.unwrap();
            assert!(names(list["tools"].as_array().unwrap()).contains(&"it__pid"));
            assert_eq!(told.load(Ordering::SeqCst), before, "{process}, {era:?}");
            client.close().await;
        }
        assert_eq!(gateway.status()["servers"]["it"]["restarts"], 0, "{process}: nothing broke");
    }
}

#[tokio::test]
async fn a_list_comes_at_once_and_wakes_the_server() {
    let keys = json!({"idleTimeout": IDLE});
    let gateway = Gateway::start(&json!({"it": rude_with(&["pid"], &keys)}));
    gateway.until_state("it", "asleep");
    until("no child is left", || gateway.process.children().is_empty());
    let client = gateway.client_at("/mcp", ERAS[0], ClientOptions::default()).await;
    assert!(names(&client.tools().await.unwrap()).contains(&"it__pid"));
    until("it is woken", || !gateway.process.children().is_empty());
    gateway.until_state("it", "asleep");
}

#[tokio::test]
async fn a_client_of_one_server_alone_wakes_it_too() {
    for args in [&["--era", "legacy"][..], &["--era", "modern"]] {
        let mut server = demo(args);
        server["idleTimeout"] = IDLE.into();
        let gateway = Gateway::start(&json!({"it": server}));
        for era in ERAS {
            let client = gateway.client_at("/servers/it/mcp", era, ClientOptions::default()).await;
            for _ in 0..2 {
                let sum = client.call_tool("add", json!({"a": 1, "b": 2})).await.unwrap();
                assert_eq!(text(&sum), "3", "{args:?}, {era:?}");
                gateway.until_state("it", "asleep");
                until("no child is left", || gateway.process.children().is_empty());
            }
            client.close().await;
        }
    }
}

#[tokio::test]
async fn a_session_at_a_url_is_ended_and_begun_again() {
    for era in ["legacy", "modern"] {
        let mut web = Switchboard::start(&["demo", "--http", "--era", era]);
        let url = format!("http://127.0.0.1:{}/mcp", web.port());
        let server = json!({"type": "http", "url": url, "idleTimeout": IDLE});
        let gateway = Gateway::start(&json!({"it": server}));
        gateway.until_state("it", "asleep");
        for client_era in ERAS {
            let client = gateway.client_at("/mcp", client_era, ClientOptions::default()).await;
            for _ in 0..2 {
                let sum = client.call_tool("it__add", json!({"a": 1, "b": 2})).await.unwrap();
                assert_eq!(text(&sum), "3", "{era} server, {client_era:?} client");
                gateway.until_state("it", "asleep");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_somebody_watches_does_not_sleep() {
    for args in [&["--era", "legacy"][..], &["--era", "modern"]] {
        let mut server = demo(args);
        server["idleTimeout"] = "100ms".into();
        let gateway = Gateway::start(&json!({"it": server, "other": demo(&[])}));
        for era in ERAS {
            let client = gateway.client(era, &["other"]).await;
            gateway.until_state("it", "asleep");
            let uris = vec!["test://watched-resource".to_owned()];
            let filter = ListenFilter { uris, ..ListenFilter::default() };
            let mut listening = client.listen(filter).await.unwrap();
            // Long enough for somebody to look several times.
            for _ in 0..10 {
                let status = gateway.status();
                assert_ne!(status["servers"]["it"]["state"], "asleep", "{args:?}, {era:?}");
                client.call_tool("other__add", json!({"a": 1, "b": 2})).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(40)).await;
            }
            client.call_tool("it__touch", json!({})).await.unwrap();
            let heard = listening.next().await.unwrap();
            assert_eq!(heard.method, "notifications/resources/updated", "{args:?}, {era:?}");
            drop(listening);
            client.close().await;
        }
    }
}

/// Its client need not ask how it goes in the meantime.
#[tokio::test]
async fn a_server_with_a_task_does_not_sleep_before_its_end_was_fetched() {
    for process in ["shared", "per-session"] {
        for (era, args) in PAIRS {
            let mut server = demo(&["--era", args]);
            server["idleTimeout"] = "100ms".into();
            server["process"] = process.into();
            let gateway = Gateway::start(&json!({"it": server}));
            // Before that nobody knows that it has tasks.
            gateway.until_state("it", "asleep");
            let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
            let slow = json!({"seconds": 0.5, "label": "it"});
            let mut task = begin(&client, "it__slow_compute", slow).await;
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            let done = task.result().await;
            let done = done.unwrap_or_else(|error| panic!("{process}, {era:?}, {args}: {error}"));
            assert!(text(&done).contains("Computed it"), "{process}, {era:?}, {args}: {done}");
            gateway.until_state("it", "asleep");
            until("no child is left", || gateway.process.children().is_empty());
        }
    }
}
