//! What happens on the way to an answer: progress, logs, cancelling, breaking.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::server::{Context, Server, Tool};
use switchboard_net::stdio;
use switchboard_net::stdio::StdioOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

use super::{LEGACY, MODERN, fixture, serve, text};
use switchboard_testkit::within;

/// wire: PRG-1, UTL-2
#[tokio::test]
async fn progress_only_grows_and_only_for_who_asked() {
    for token in [json!("t"), json!(7)] {
        let mut client = serve(fixture());
        client.greet("2025-11-25", json!({})).await;
        let call = json!({"name": "steps", "_meta": {"progressToken": token}});
        assert_eq!(text(&client.call("tools/call", call.clone()).await), "done");
        let params: Vec<_> =
            client.heard_of("notifications/progress").iter().map(|n| &n["params"]).collect();
        let step = |at: Value| json!({"progressToken": token, "progress": at, "total": 3, "message": "on it"});
        assert_eq!(params, [&step(json!(1)), &step(json!(2.5))]);

        client.heard.clear();
        client.modern("tools/call", call).await;
        assert_eq!(client.heard_of("notifications/progress").len(), 2);
        client.heard.clear();
        client.call("tools/call", json!({"name": "steps"})).await;
        assert!(client.heard_of("notifications/progress").is_empty());
    }
}

/// wire: UTL-4
#[tokio::test]
async fn a_legacy_client_sets_the_level_of_its_session() {
    for revision in LEGACY {
        let mut client = serve(fixture());
        client.greet(revision, json!({})).await;
        let steps = json!({"name": "steps"});
        client.call("tools/call", steps.clone()).await;
        assert_eq!(client.heard_of("notifications/message").len(), 2, "we chose info");
        client.heard.clear();
        client.call("logging/setLevel", json!({"level": "error"})).await;
        client.call("tools/call", steps).await;
        let heard = client.heard_of("notifications/message");
        let record = json!({"level": "error", "logger": "steps", "data": {"at": 2.5}});
        assert_eq!(heard.iter().map(|n| &n["params"]).collect::<Vec<_>>(), [&record]);
        let wrong = client.call("logging/setLevel", json!({"level": "loud"})).await;
        assert_eq!(wrong["error"]["code"], -32602);
    }
}

/// wire: LOG-1, META-4
#[tokio::test]
async fn a_modern_request_says_what_it_wants_logged() {
    let mut client = serve(fixture());
    let with = |level: &str| json!({"name": "steps", "_meta": {"io.modelcontextprotocol/logLevel": level}});
    client.modern("tools/call", json!({"name": "steps"})).await;
    assert!(client.heard_of("notifications/message").is_empty());
    client.modern("tools/call", with("debug")).await;
    assert_eq!(client.heard_of("notifications/message").len(), 3);
    let wrong = client.modern("tools/call", with("loud")).await;
    assert_eq!(wrong["error"]["code"], -32602);
}

/// wire: CAN-2, UTL-1
#[tokio::test]
async fn a_cancelled_call_is_told_and_dropped() {
    let (told, mut tell) = mpsc::channel::<&'static str>(8);
    let started = Arc::new(Notify::new());
    let begun = Arc::clone(&started);
    let forever = Tool::new("forever").run(move |_: Value, cx: Context| {
        let (told, begun) = (told.clone(), Arc::clone(&begun));
        async move {
            let _gone = OnDrop(told.clone());
            begun.notify_one();
            cx.cancelled().await;
            told.try_send("told").unwrap();
            std::future::pending::<()>().await;
            ""
        }
    });
    let mut client = serve(Server::builder("s", "0").tool(forever));
    client.greet("2025-06-18", json!({})).await;
    for modern in [false, true] {
        let call = json!({"name": "forever"});
        let params = if modern { client.envelope(call) } else { call };
        let id = client.request("tools/call", params).await;
        within(started.notified()).await;
        let cancel = json!({"requestId": id, "reason": "enough"});
        client
            .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
            .await;
        assert_eq!(within(tell.recv()).await, Some("told"));
        assert_eq!(within(tell.recv()).await, Some("dropped"));
        client.call("ping", json!({})).await;
        assert!(client.heard.is_empty(), "{:?}", client.heard);
    }
}

/// A call runs in a thread of its own here, as it does in a program: what the
/// test itself does is done by none of the runtime's.
///
/// wire: CAN-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_cancelled_call_is_told_before_it_is_dropped() {
    let (told, mut tell) = mpsc::unbounded_channel::<&'static str>();
    let forever = Tool::new("forever").run(move |_: Value, cx: Context| {
        let told = told.clone();
        async move {
            told.send("begun").unwrap();
            cx.cancelled().await;
            told.send("told").unwrap();
            ""
        }
    });
    let server = Server::builder("s", "0").tool(forever).build().unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    let calling = tokio::spawn(async move {
        let (mut answers, mut calls) = tokio::io::split(near);
        for id in 0..300 {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "forever",
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            }});
            calls.write_all(format!("{call}\n").as_bytes()).await.unwrap();
            assert_eq!(within(tell.recv()).await, Some("begun"));
            let method = "notifications/cancelled";
            let cancel = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": id}});
            calls.write_all(format!("{cancel}\n").as_bytes()).await.unwrap();
            assert_eq!(within(tell.recv()).await, Some("told"));
        }
        calls.shutdown().await.unwrap();
        answers.read_to_end(&mut Vec::new()).await.unwrap();
    });
    let (input, output) = tokio::io::split(far);
    let never = std::future::pending();
    let serving = stdio::serve_on((input, output), server, StdioOptions::default(), never);
    let (ended, called) = tokio::join!(serving, calling);
    called.unwrap();
    ended.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_calls_with_it() {
    let (told, mut tell) = mpsc::channel::<&'static str>(8);
    let forever = Tool::new("forever").run(move |_: Value, _| {
        let told = told.clone();
        async move {
            told.try_send("begun").unwrap();
            let _gone = OnDrop(told);
            std::future::pending::<()>().await;
            ""
        }
    });
    let server = Server::builder("s", "0").tool(forever).build().unwrap();
    let mut client = super::Client::of(Arc::clone(&server));
    client.greet("2025-06-18", json!({})).await;
    client.request("tools/call", json!({"name": "forever"})).await;
    assert_eq!(within(tell.recv()).await, Some("begun"));
    tokio::time::pause();
    client.leave().await;
    assert_eq!(within(tell.recv()).await, Some("dropped"));
}

#[tokio::test]
async fn a_tool_that_panics_costs_its_own_call_only() {
    let panics = Tool::new("panics").run(async |_: Value, _| {
        assert!(std::hint::black_box(false), "on purpose");
        ""
    });
    let mut client = serve(fixture().tool(panics));
    client.greet("2025-06-18", json!({})).await;
    let answer = client.call("tools/call", json!({"name": "panics"})).await;
    assert_eq!(answer["error"]["code"], -32603);
    let add = json!({"name": "add", "arguments": {"a": 1, "b": 1}});
    assert_eq!(text(&client.call("tools/call", add).await), "2");
}

struct OnDrop(mpsc::Sender<&'static str>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        _ = self.0.try_send("dropped");
    }
}
