//! Calls: their time, their end, their errors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use switchboard_proto::failure::Failure;

use serde_json::json;
use switchboard_net::client::{CallError, CallOptions, Client, ClientOptions};
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;

use super::{child, connected, legacy, modern};
use crate::upstream::journal;

fn within_millis(millis: u64) -> CallOptions {
    CallOptions::default().timeout(Duration::from_millis(millis))
}

/// wire: CAN-4, UTL-6
#[tokio::test]
async fn a_call_that_takes_too_long_fails_and_the_server_is_told() {
    let journal = journal();
    let client = connected(&journal, ClientOptions::default()).await;
    let called = client.call_tool_with("wait", json!({}), within_millis(300)).await;
    assert_eq!(called.unwrap_err().to_string(), "Request timeout after 300ms");
    journal.saw("cancelled Request timeout").await;
    within(client.close()).await;
}

/// wire: CAN-4, PRG-1
#[tokio::test(start_paused = true)]
async fn progress_gives_a_call_more_time_and_is_told() {
    let mut server = HttpServer::start().await;
    let client = legacy(&mut server, ClientOptions::default()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let options =
        within_millis(2000).on_progress(move |step| told.lock().unwrap().push(step.progress));
    let (called, ()) = tokio::join!(client.call_tool_with("x", json!({}), options), async {
        let hit = server.post("tools/call").await;
        let (id, token) = (
            hit.message()["id"].clone(),
            hit.message()["params"]["_meta"]["progressToken"].clone(),
        );
        let mut stream = hit.stream().await;
        for step in [1, 2] {
            tokio::time::sleep(Duration::from_millis(1200)).await;
            let params = json!({"progressToken": token, "progress": step});
            let method = "notifications/progress";
            stream.event(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
        }
        stream.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})).await;
    });
    called.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1.0, 2.0]);
}

/// wire: CAN-4
#[tokio::test]
async fn no_progress_gives_a_call_more_time_than_it_may_take_in_all() {
    let journal = journal();
    let client = connected(&journal, ClientOptions::default()).await;
    let options = CallOptions::default().total(Duration::from_millis(200));
    let args = json!({"steps": 1_000_000, "tag": "t"});
    let called = client.call_tool_with("work", args, options).await;
    assert!(matches!(called, Err(CallError::Failed(Failure::Timeout { .. }))), "{called:?}");
    within(client.close()).await;
}

/// wire: UTL-1
#[tokio::test]
async fn a_call_that_is_not_wanted_any_more_is_cancelled_at_a_legacy_server() {
    let journal = journal();
    let client = connected(&journal, ClientOptions::default()).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("wait", json!({"tag": "t"})).await }
    });
    journal.saw("waiting t").await;
    call.abort();
    journal.saw("cancelled").await;
    within(client.close()).await;
}

/// wire: CAN-2
#[tokio::test]
async fn a_call_that_is_not_wanted_any_more_is_cancelled_at_a_modern_child() {
    let journal = journal();
    let client = Client::connect(child(&journal, &["modern"]));
    let client = within(client).await.unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("wait", json!({"tag": "t"})).await }
    });
    journal.saw("waiting t").await;
    call.abort();
    journal.saw("cancelled").await;
    within(client.close()).await;
}

/// wire: CAN-1
#[tokio::test]
async fn a_call_that_is_not_wanted_any_more_hangs_up_on_a_modern_endpoint() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("x", json!({})).await }
    });
    let hit = server.post("tools/call").await;
    call.abort();
    hit.gone().await;
    assert_eq!(server.waiting(|_| true), 0, "no notice is sent");
}

#[tokio::test]
async fn what_is_open_fails_when_the_connection_is_closed() {
    let journal = journal();
    let closed = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&closed);
    let options =
        ClientOptions::default().on_close(move || _ = told.fetch_add(1, Ordering::Relaxed));
    let client = connected(&journal, options).await;
    assert!(client.is_connected());
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("wait", json!({"tag": "t"})).await }
    });
    journal.saw("waiting t").await;
    within(client.close()).await;
    assert_eq!(within(call).await.unwrap().unwrap_err().to_string(), "Transport closed");
    assert!(!client.is_connected());
    assert_eq!(closed.load(Ordering::Relaxed), 1);
    let late = client.ping().await.unwrap_err();
    assert_eq!(late.to_string(), "Transport closed");
    journal.all_gone().await;
}

#[tokio::test]
async fn a_child_that_dies_fails_its_calls_and_is_there_for_the_next() {
    let journal = journal();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&errors);
    let options = ClientOptions::default().on_error(move |why| told.lock().unwrap().push(why));
    let client = connected(&journal, options).await;
    let error = within(client.call_tool("die", json!({"code": 3}))).await.unwrap_err();
    assert!(matches!(error, CallError::Failed(Failure::Exited(_))), "{error:?}");
    assert!(!client.is_connected());
    assert_eq!(errors.lock().unwrap().len(), 1);
    within(client.call_tool("echo", json!({}))).await.unwrap();
    assert!(client.is_connected());
    assert_eq!(journal.pids().len(), 2);
    within(client.close()).await;
}

#[tokio::test]
async fn errors_say_what_the_server_said() {
    let mut server = HttpServer::start().await;
    let client = legacy(&mut server, ClientOptions::default()).await;
    let (failed, ()) = tokio::join!(client.ping(), async {
        let hit = server.post("ping").await;
        let error = json!({"code": -32602, "message": "no", "data": {"k": 1}});
        let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
        hit.json(200, &answer).await;
    });
    let failed = failed.unwrap_err();
    assert_eq!(failed.to_string(), "MCP error -32602: no");
    assert!(matches!(failed, CallError::Server { data: Some(_), .. }));
    let (failed, ()) = tokio::join!(client.ping(), async {
        server.post("ping").await.answer(500, &[], "broken").await;
    });
    let failed = failed.unwrap_err();
    assert_eq!((failed.to_string().as_str(), failed.status()), ("HTTP 500: broken", Some(500)));
}

#[tokio::test]
async fn parameters_are_an_object_or_nothing() {
    let journal = journal();
    let client = connected(&journal, ClientOptions::default()).await;
    assert_eq!(client.request("ping", 7).await, Err(CallError::BadParams));
    client.request("ping", ()).await.unwrap();
    client.notify("notifications/x", json!({"k": 1})).await.unwrap();
    journal.saw("notifications/x").await;
    within(client.close()).await;
}
