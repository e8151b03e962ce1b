//! Modern clients that listen, and a legacy server whose listening stream does not last.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::bridge::Bridge;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::{Caller, LEGACY};
use switchboard_testkit::http::{Answer, Hit, HttpServer};

use super::able;
use crate::upstream::before;

const CHANGED: &str = "notifications/tools/list_changed";

/// A client that listens for tools and one resource, up to the GET that listens for it.
async fn listens(server: &mut HttpServer) -> (Arc<Bridge>, Caller, Hit) {
    let (bridge, mut client) = before(server, Strategy::HttpOnly);
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://1"]});
    client.ask("subscriptions/listen", able(json!({"notifications": wanted}))).await;
    server.post("server/discover").await.answer(400, &[], "").await;
    server.post("initialize").await.welcome(Some("s1"), LEGACY).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    let listening = server.get().await;
    (bridge, client, listening)
}

/// The same, heard.
async fn heard(server: &mut HttpServer) -> (Arc<Bridge>, Caller, Answer) {
    let (bridge, mut client, listening) = listens(server).await;
    let mut stream = listening.stream().await;
    stream.write("retry: 20\n\n").await;
    server.post("resources/subscribe").await.result(json!({})).await;
    client.told("notifications/subscriptions/acknowledged").await;
    (bridge, client, stream)
}

fn changed() -> Value {
    json!({"jsonrpc": "2.0", "method": CHANGED})
}

fn count(client: &Caller, method: &str) -> usize {
    client.early().iter().filter(|it| it["method"] == method).count()
}

/// wire: GW-51, HTTP-22
#[tokio::test]
async fn who_listens_hears_a_server_that_was_restarted() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, stream) = heard(&mut server).await;
    drop(stream);
    let again = server.get().await;
    assert_eq!(again.header("mcp-session-id"), Some("s1"));
    again.answer(404, &[], "").await;
    server.post("initialize").await.welcome(Some("s2"), LEGACY).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    let listening = server.get().await;
    assert_eq!(listening.header("mcp-session-id"), Some("s2"));
    let mut stream = listening.stream().await;
    let watch = server.post("resources/subscribe").await;
    assert_eq!(watch.header("mcp-session-id"), Some("s2"));
    watch.result(json!({})).await;
    client.told(CHANGED).await;
    let update = json!({"uri": "a://1"});
    let method = "notifications/resources/updated";
    stream.event(&json!({"jsonrpc": "2.0", "method": method, "params": update})).await;
    assert_eq!(client.told(method).await["params"]["uri"], "a://1");
    assert_eq!(count(&client, CHANGED), 0, "the gap is told once");
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: HTTP-12, HTTP-22
#[tokio::test]
async fn a_session_that_cannot_be_renewed_is_renewed_later() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, stream) = heard(&mut server).await;
    drop(stream);
    server.get().await.answer(404, &[], "").await;
    server.post("initialize").await.answer(503, &[], "").await;
    let page = [("content-type", "text/html"), ("mcp-session-id", "no")];
    server.post("initialize").await.answer(200, &page, "<p>starting</p>").await;
    let hello = server.post("initialize").await;
    let error = json!({"code": -32603, "message": "starting"});
    let id = hello.message()["id"].clone();
    hello.json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    drop(server.post("initialize").await.stream().await);
    server.post("initialize").await.welcome(Some("s2"), LEGACY).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    let mut stream = server.get().await.stream().await;
    client.told(CHANGED).await;
    stream.event(&changed()).await;
    client.told(CHANGED).await;
}

/// A server that forgets each session must not be greeted without an end.
///
/// wire: HTTP-12, HTTP-22
#[tokio::test]
async fn sessions_that_do_not_last_are_renewed_less_and_less_often() {
    let mut server = HttpServer::start().await;
    let (_bridge, _client, stream) = heard(&mut server).await;
    drop(stream);
    let mut renewed = 0;
    server.get().await.answer(404, &[], "").await;
    // Many times what the server asked us to wait.
    let quiet = Duration::from_millis(500);
    while let Ok(hello) = tokio::time::timeout(quiet, server.post("initialize")).await {
        renewed += 1;
        assert!(renewed <= 5, "it does not give up");
        hello.welcome(Some(&format!("s{renewed}")), LEGACY).await;
        server.post("notifications/initialized").await.answer(202, &[], "").await;
        server.get().await.answer(404, &[], "").await;
    }
}

/// wire: HTTP-12
#[tokio::test]
async fn trouble_with_a_listening_stream_passes_and_the_gap_is_told() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, mut stream) = heard(&mut server).await;
    for status in [400, 401, 429, 503] {
        drop(stream);
        server.get().await.answer(status, &[], "").await;
        stream = server.get().await.stream().await;
        // What was said meanwhile was said to nobody.
        client.told(CHANGED).await;
        stream.event(&changed()).await;
        client.told(CHANGED).await;
    }
    assert_eq!(count(&client, CHANGED), 0);
}

/// wire: HTTP-12
#[tokio::test]
async fn who_listens_hears_a_server_that_was_away_for_long() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, stream) = heard(&mut server).await;
    drop(stream);
    for _ in 0..5 {
        server.get().await.answer(503, &[], "").await;
    }
    // Nobody has to call for it.
    let mut again = None;
    for _ in 0..120 {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::time::resume();
        again = tokio::time::timeout(Duration::from_millis(50), server.get()).await.ok();
        if again.is_some() {
            break;
        }
    }
    let mut stream = again.expect("another attempt").stream().await;
    client.told(CHANGED).await;
    stream.event(&changed()).await;
    client.told(CHANGED).await;
}

/// What a server has kept for who comes back is asked for, however late.
///
/// wire: HTTP-12, HTTP-18
#[tokio::test]
async fn a_stream_that_was_given_up_goes_on_where_it_ended() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, mut stream) = heard(&mut server).await;
    stream.write(&format!("id: 7\ndata: {}\n\n", changed())).await;
    client.told(CHANGED).await;
    drop(stream);
    for _ in 0..5 {
        server.get().await.answer(503, &[], "").await;
    }
    let id = client.ask("tools/list", able(json!({}))).await;
    server.post("tools/list").await.result(json!({"tools": []})).await;
    client.answer(id).await;
    let again = server.get().await;
    assert_eq!(again.header("last-event-id"), Some("7"));
    let mut stream = again.stream().await;
    stream.event(&changed()).await;
    client.told(CHANGED).await;
}

/// wire: GW-51, HTTP-13
#[tokio::test]
async fn nothing_is_promised_where_the_first_listening_is_refused() {
    for status in [400, 403, 404, 405] {
        let mut server = HttpServer::start().await;
        let (_bridge, mut client, listening) = listens(&mut server).await;
        listening.answer(status, &[], "").await;
        let ack = client.told("notifications/subscriptions/acknowledged").await;
        assert_eq!(ack["params"]["notifications"], json!({}), "HTTP {status}");
        client.answer(1).await;
        assert_eq!(server.waiting(|_| true), 0, "HTTP {status}");
    }
}

/// wire: GW-51, HTTP-15
#[tokio::test]
async fn a_listen_ends_when_the_server_stops_to_offer_listening() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, stream) = heard(&mut server).await;
    drop(stream);
    server.get().await.answer(405, &[], "").await;
    assert!(client.answer(1).await.get("result").is_some());
    let left = server.post("resources/unsubscribe").await;
    assert_eq!(left.message()["params"], json!({"uri": "a://1"}));
}

/// wire: HTTP-18
#[tokio::test(start_paused = true)]
async fn a_session_that_is_renewed_while_nobody_hears_it_is_heard_once() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, mut stream) = heard(&mut server).await;
    // Longer than the rest takes.
    stream.write("retry: 300\n\n").await;
    drop(stream);
    let call = able(json!({"name": "t"}));
    let id = client.ask("tools/call", call).await;
    server.post("tools/call").await.answer(404, &[], "").await;
    server.post("initialize").await.welcome(Some("s2"), LEGACY).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    let _stream = server.get().await.stream().await;
    server.post("tools/call").await.result(json!({"content": []})).await;
    client.answer(id).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.waiting(|hit| hit.method == "GET"), 0, "heard twice");
}
