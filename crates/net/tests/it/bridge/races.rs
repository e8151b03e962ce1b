//! Ends that come while something begins.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::{Caller, error_of};
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;
use tokio::task::JoinSet;

use crate::upstream::{caller, child_bridge, fetch, journal};

/// wire: STD-10
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_come_while_a_bridge_closes_are_answered_one_way_or_the_other() {
    for children in [Children::PerSession, Children::Shared, Children::PerRequest] {
        let journal = journal();
        let bridge = child_bridge(journal.server(&[]), children);
        let mut clients = JoinSet::new();
        let (begun, mut beginning) = tokio::sync::mpsc::channel(8);
        for _ in 0..4 {
            let mut caller = caller(&bridge);
            let begun = begun.clone();
            clients.spawn(async move {
                caller.greet().await;
                caller.tool("echo", json!({})).await;
                begun.send(()).await.unwrap();
                // Until the end, and somewhat beyond it.
                let mut refused = 0;
                while refused < 3 {
                    let params = json!({"name": "echo", "arguments": {"k": 1}});
                    let answer = caller.call("tools/call", params).await;
                    if answer.get("error").is_some() {
                        let text = error_of(&answer);
                        assert!(text.starts_with("Transport closed"), "{text}");
                        refused += 1;
                    }
                }
            });
        }
        for _ in 0..4 {
            within(beginning.recv()).await.unwrap();
        }
        within(bridge.close()).await;
        within(clients.join_all()).await;
        within(bridge.close()).await;
        journal.all_gone().await;
    }
}

/// wire: UTL-2, UTL-1
#[tokio::test]
async fn a_call_that_takes_too_long_fails_and_is_cancelled_at_the_server() {
    let mut server = HttpServer::start().await;
    let limits = Arc::new(Limits { quiet: Duration::from_millis(400), ..Limits::default() });
    let target =
        ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, http::HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::clone(&limits));
    let mut caller = Caller::new(Arc::clone(&bridge) as _, Sharing::Alone, limits);
    let version = switchboard_testkit::caller::LEGACY;
    tokio::join!(caller.greet(), server.greet(Some("s1"), version));
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    let text = error_of(&caller.answer(id).await);
    assert!(text.starts_with("Request timeout"), "{text}");
    let told = server.post("notifications/cancelled").await;
    assert_eq!(told.message()["params"]["requestId"], hit.message()["id"]);
    told.answer(202, &[], "").await;
    hit.gone().await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_says_so_and_the_next_call_works() {
    let mut server = HttpServer::start().await;
    let limits = Arc::new(Limits { message: 1000, ..Limits::default() });
    let target =
        ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, http::HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::clone(&limits));
    let mut caller = Caller::new(Arc::clone(&bridge) as _, Sharing::Alone, limits);
    let version = switchboard_testkit::caller::LEGACY;
    tokio::join!(caller.greet(), server.greet(Some("s1"), version));
    // The event has an id, so that a stream could be resumed to bring it again.
    let forms = [("application/json", "", ""), ("text/event-stream", "id: 1\ndata: ", "\n\n")];
    let lengths = [(2000, true), (20, false)];
    for ((length, long), (media, before, after)) in
        lengths.into_iter().flat_map(|length| forms.map(|form| (length, form)))
    {
        let id = caller.ask("tools/call", json!({"name": "t"})).await;
        let hit = server.post("tools/call").await;
        let call = hit.message()["id"].clone();
        let answer = json!({"jsonrpc": "2.0", "id": call, "result": {"x": "y".repeat(length)}});
        let body = format!("{before}{answer}{after}");
        hit.answer(200, &[("content-type", media)], &body).await;
        let answer = caller.answer(id).await;
        if long {
            assert_eq!(error_of(&answer), "answer is longer than 1000 bytes");
        } else {
            assert_eq!(answer["result"]["x"], "y".repeat(length));
        }
    }
}

/// wire: HTTP-6, SSE-2
#[tokio::test]
async fn an_event_that_cannot_be_read_fails_the_call_of_its_stream_at_once() {
    let mut server = HttpServer::start().await;
    let limits = Arc::new(Limits { message: 1000, ..Limits::default() });
    let target =
        ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, http::HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::clone(&limits));
    let mut caller = Caller::new(Arc::clone(&bridge) as _, Sharing::Alone, limits);
    let version = switchboard_testkit::caller::LEGACY;
    tokio::join!(caller.greet(), server.greet(Some("s1"), version));
    let others = caller.ask("tools/call", json!({"name": "other"})).await;
    let _other = server.post("tools/call").await.stream().await;
    let long = "y".repeat(2000);
    let unreadable = [
        // Nothing of these says which call it was.
        ("data: {\"jsonrpc\":\"2.0\",\"result\":{},\"id\":1,\"id\":2}\n\n", "occurs twice"),
        ("data: {\"jsonrpc\":\"2.0\",\"result\":{},\"id\":[]}\n\n", "cannot be read"),
        // These have no end.
        (&format!("data: {{\"result\":\"{long}"), "answer is longer than 1000 bytes"),
        (&format!("data: \"{}", long.repeat(4)), "answer is longer than 1000 bytes"),
    ];
    for (event, why) in unreadable {
        let id = caller.ask("tools/call", json!({"name": "t"})).await;
        let mut stream = server.post("tools/call").await.stream().await;
        stream.write(event).await;
        let text = error_of(&caller.answer(id).await);
        assert!(text.contains(why), "{text}");
    }
    // A notification that is too long is no answer: that comes later.
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {}});
    let mut stream = hit.stream().await;
    stream
        .write(&format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{{\"a\":\"{long}"))
        .await;
    stream.write("\"}}\n\n").await;
    stream.event(&answer).await;
    assert_eq!(caller.answer(id).await["result"], json!({}));
    assert!(caller.early().iter().all(|said| said["id"] != others), "{:?}", caller.early());
}
