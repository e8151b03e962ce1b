//! The GET that listens for what belongs to no call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_net::bridge::Bridge;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::{Caller, LEGACY};
use switchboard_testkit::http::{Answer, Hit, HttpServer};
use switchboard_testkit::within;

use super::before;

async fn up_to_listening(server: &mut HttpServer) -> (Arc<Bridge>, Caller, Hit) {
    let (bridge, mut caller) = before(server, Strategy::HttpOnly);
    let (_, listening) = tokio::join!(caller.greet(), async {
        server.post("initialize").await.welcome(Some("s1"), LEGACY).await;
        server.post("notifications/initialized").await.answer(202, &[], "").await;
        server.get().await
    });
    (bridge, caller, listening)
}

/// wire: HTTP-13, HTTP-14, GW-82
#[tokio::test]
async fn what_belongs_to_no_call_is_heard_and_asked_on_the_listening_stream() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, listening) = up_to_listening(&mut server).await;
    assert_eq!(listening.header("last-event-id"), None);
    let mut stream = listening.stream().await;
    stream.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    caller.told("notifications/tools/list_changed").await;
    stream.event(&json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})).await;
    let asked = caller.told("roots/list").await;
    caller.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})).await;
    let supplied = server.supplied().await;
    assert_eq!(supplied.message(), json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}));
    supplied.answer(202, &[], "").await;
    stream.event(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
    let pong = server.supplied().await;
    assert_eq!(pong.message(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    pong.answer(202, &[], "").await;
}

#[tokio::test]
async fn a_server_that_takes_no_answers_is_read_no_further_than_a_bound() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, listening) = up_to_listening(&mut server).await;
    let mut stream = listening.stream().await;
    for number in 0..100 {
        stream.event(&json!({"jsonrpc": "2.0", "id": number, "method": "ping"})).await;
    }
    let is_pong = |hit: &Hit| hit.method == "POST" && hit.message().get("method").is_none();
    let mut pongs = Vec::new();
    for _ in 0..32 {
        pongs.push(server.take(is_pong).await);
    }
    for _ in 0..5 {
        // Calls go on meanwhile, and would come after what was read before them.
        let id = caller.ask("tools/list", json!({})).await;
        server.post("tools/list").await.result(json!({})).await;
        caller.answer(id).await;
    }
    assert_eq!(server.waiting(is_pong), 0, "each takes a connection");
    for number in 32..100 {
        pongs.remove(0).answer(202, &[], "").await;
        pongs.push(server.take(is_pong).await);
        assert_eq!(pongs.len(), 32, "{number}");
    }
}

/// A server may ask there on any call, and what it asks before is told to nobody.
///
/// wire: HTTP-13, HTTP-14, HTTP-22
#[tokio::test]
async fn calls_wait_until_the_server_is_listened_to_in_each_session() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, listening) = up_to_listening(&mut server).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let _stream = begins_before_calls(&mut server, listening).await;
    server.post("tools/call").await.answer(404, &[], "").await;
    server.post("initialize").await.welcome(Some("s2"), LEGACY).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    let listening = server.get().await;
    let mut stream = begins_before_calls(&mut server, listening).await;
    let call = server.post("tools/call").await;
    stream.event(&json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})).await;
    let asked = caller.told("roots/list").await;
    caller.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})).await;
    server.supplied().await.answer(202, &[], "").await;
    call.result(json!({})).await;
    caller.answer(id).await;
}

async fn begins_before_calls(server: &mut HttpServer, listening: Hit) -> Answer {
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(server.waiting(|hit| hit.message()["method"] == "tools/call"), 0, "not listened to");
    listening.stream().await
}

#[tokio::test]
async fn a_server_that_does_not_say_whether_it_is_heard_is_called_all_the_same() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, listening) = up_to_listening(&mut server).await;
    for _ in 0..2 {
        let id = caller.ask("tools/call", json!({"name": "t"})).await;
        server.post("tools/call").await.result(json!({})).await;
        caller.answer(id).await;
    }
    let mut stream = listening.stream().await;
    stream.event(&json!({"jsonrpc": "2.0", "method": "notifications/a"})).await;
    caller.told("notifications/a").await;
}

/// How many seconds of a clock that only we move it takes until a call is made.
async fn seconds_until_called(server: &mut HttpServer, caller: &mut Caller) -> usize {
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    for seconds in 0..20 {
        let wait = Duration::from_millis(300);
        if let Ok(call) = tokio::time::timeout(wait, server.post("tools/call")).await {
            call.result(json!({})).await;
            caller.answer(id).await;
            return seconds;
        }
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::time::resume();
    }
    panic!("not called");
}

/// wire: HTTP-13
#[tokio::test]
async fn calls_wait_only_once_for_a_handshake_that_does_not_end() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpOnly);
    tokio::join!(caller.greet(), async {
        server.post("initialize").await.welcome(Some("s1"), LEGACY).await;
    });
    let _confirming = server.post("notifications/initialized").await;
    let first = seconds_until_called(&mut server, &mut caller).await;
    let second = seconds_until_called(&mut server, &mut caller).await;
    assert!(second + 3 < first, "first {first} s, then {second} s");
}

/// wire: HTTP-11, HTTP-18
#[tokio::test]
async fn a_broken_listening_stream_is_taken_up_again_as_the_server_asked() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, listening) = up_to_listening(&mut server).await;
    let mut stream = listening.stream().await;
    stream
        .write("id: 7\nretry: 25\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/a\"}\n\n")
        .await;
    caller.told("notifications/a").await;
    stream.reset();
    // More breaks in a row than a stream that brings nothing is given.
    for _ in 0..8 {
        let again = server.get().await;
        assert_eq!(again.header("last-event-id"), Some("7"));
        let mut stream = again.stream().await;
        stream.event(&json!({"jsonrpc": "2.0", "method": "notifications/b"})).await;
        caller.told("notifications/b").await;
    }
}

/// wire: HTTP-12
#[tokio::test(start_paused = true)]
async fn a_server_that_only_hangs_up_is_left_alone_until_it_is_used_again() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, listening) = up_to_listening(&mut server).await;
    listening.stream().await.write("id: 1\nretry: 20\n\n").await;
    for _ in 0..5 {
        drop(server.get().await.stream().await);
    }
    // Many times what the server asked us to wait.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.waiting(|hit| hit.method == "GET"), 0, "it does not give up");
    let id = caller.ask("tools/list", json!({})).await;
    server.post("tools/list").await.result(json!({})).await;
    caller.answer(id).await;
    let mut stream = server.get().await.stream().await;
    stream.event(&json!({"jsonrpc": "2.0", "method": "notifications/c"})).await;
    caller.told("notifications/c").await;
}

/// wire: HTTP-15
#[tokio::test]
async fn a_405_means_that_there_is_no_listening() {
    let mut server = HttpServer::start().await;
    let (bridge, mut caller, listening) = up_to_listening(&mut server).await;
    listening.answer(405, &[("allow", "POST")], "").await;
    for _ in 0..3 {
        let id = caller.ask("tools/list", json!({})).await;
        server.post("tools/list").await.result(json!({})).await;
        caller.answer(id).await;
    }
    assert_eq!(server.waiting(|hit| hit.method == "GET"), 0);
    tokio::join!(within(bridge.close()), async {
        server.delete().await.answer(204, &[], "").await;
    });
}

/// wire: HTTP-23
#[tokio::test]
async fn listening_ends_with_the_connection() {
    let mut server = HttpServer::start().await;
    let (bridge, _caller, listening) = up_to_listening(&mut server).await;
    let stream = listening.stream().await;
    tokio::join!(within(bridge.close()), async {
        server.delete().await.answer(204, &[], "").await;
    });
    stream.gone().await;
}
