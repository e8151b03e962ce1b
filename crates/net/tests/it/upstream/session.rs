//! Sessions at the server: lost, renewed, ended.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::{LEGACY, error_of};
use switchboard_testkit::http::{Hit, HttpServer};
use switchboard_testkit::within;

use super::{caller, fetch, greeted};

/// wire: HTTP-22, GW-82
#[tokio::test]
async fn a_lost_session_is_renewed_and_the_call_sent_once_more() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    server.post("tools/call").await.answer(404, &[], "").await;
    server.greet(Some("s2"), LEGACY).await;
    let again = server.post("tools/call").await;
    assert_eq!(again.header("mcp-session-id"), Some("s2"));
    again.result(json!({"k": 1})).await;
    assert_eq!(caller.answer(id).await["result"], json!({"k": 1}));
    caller.told("notifications/tools/list_changed").await;
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: HTTP-22
#[tokio::test]
async fn a_session_that_nobody_uses_is_kept_by_pings() {
    let mut server = HttpServer::start().await;
    let limits = Limits { ping: Duration::from_millis(20), ..Limits::default() };
    let url = server.url("/mcp");
    let target = ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::new(limits));
    let mut caller = caller(&bridge);
    tokio::join!(caller.greet(), server.greet(Some("s1"), LEGACY));
    let ping = server.post("ping").await;
    assert_eq!(ping.header("mcp-session-id"), Some("s1"));
    ping.result(json!({})).await;
    // It was forgotten all the same, and is there again before anybody needs it.
    server.post("ping").await.answer(404, &[], "").await;
    server.greet(Some("s2"), LEGACY).await;
    server.post("ping").await.result(json!({})).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    assert_eq!(hit.header("mcp-session-id"), Some("s2"));
    hit.result(json!({"k": 1})).await;
    assert_eq!(caller.answer(id).await["result"], json!({"k": 1}));
}

/// wire: HTTP-22
#[tokio::test]
async fn a_second_404_is_an_error() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    server.post("tools/call").await.answer(404, &[], "").await;
    server.greet(Some("s2"), LEGACY).await;
    server.post("tools/call").await.answer(404, &[], "").await;
    assert_eq!(error_of(&caller.answer(id).await), "Session not found");
    // And the one after that finds its way.
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    assert_eq!(hit.header("mcp-session-id"), Some("s2"));
    hit.answer(404, &[], "").await;
    server.greet(Some("s3"), LEGACY).await;
    server.post("tools/call").await.result(json!({})).await;
    assert!(caller.answer(id).await.get("result").is_some());
}

/// wire: HTTP-22, GW-82
#[tokio::test]
async fn calls_that_lose_their_session_together_renew_it_once() {
    for late in [false, true] {
        let mut server = HttpServer::start().await;
        let (_bridge, mut caller) = greeted(&mut server).await;
        let one = caller.ask("tools/call", json!({"name": "one"})).await;
        let two = caller.ask("tools/call", json!({"name": "two"})).await;
        let named = |name: &'static str| move |hit: &Hit| hit.message()["params"]["name"] == name;
        let first = server.take(named("one")).await;
        let second = server.take(named("two")).await;
        first.answer(404, &[], "").await;
        let hello = server.post("initialize").await;
        let mut second = Some(second);
        if !late {
            // While the server is being greeted.
            second.take().unwrap().answer(404, &[], "").await;
        }
        hello.welcome(Some("s2"), LEGACY).await;
        server.post("notifications/initialized").await.answer(202, &[], "").await;
        let again = server.take(named("one")).await;
        assert_eq!(again.header("mcp-session-id"), Some("s2"));
        again.result(json!({"name": "one"})).await;
        if let Some(second) = second {
            // After it has been: the news is old.
            second.answer(404, &[], "").await;
        }
        let again = server.take(named("two")).await;
        assert_eq!(again.header("mcp-session-id"), Some("s2"), "late: {late}");
        again.result(json!({"name": "two"})).await;
        assert_eq!(caller.answer(one).await["result"], json!({"name": "one"}));
        assert_eq!(caller.answer(two).await["result"], json!({"name": "two"}));
        assert_eq!(server.waiting(|hit| hit.message()["method"] == "initialize"), 0);
    }
}

/// wire: HTTP-22
#[tokio::test]
async fn a_notification_to_a_lost_session_does_not_strand_the_next_call() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    caller.note("notifications/roots/list_changed", json!({})).await;
    server.post("notifications/roots/list_changed").await.answer(404, &[], "").await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    assert_eq!(hit.header("mcp-session-id"), Some("s1"));
    hit.answer(404, &[], "").await;
    server.greet(Some("s2"), LEGACY).await;
    server.post("tools/call").await.result(json!({})).await;
    assert!(caller.answer(id).await.get("result").is_some());
}

/// wire: HTTP-22, GW-82
#[tokio::test]
async fn a_renewed_session_has_what_the_client_had_set_up() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    for (method, params) in [
        ("resources/subscribe", json!({"uri": "a://1"})),
        ("logging/setLevel", json!({"level": "error"})),
    ] {
        let id = caller.ask(method, params).await;
        server.post(method).await.result(json!({})).await;
        caller.answer(id).await;
    }
    let id = caller.ask("tools/list", json!({})).await;
    server.post("tools/list").await.answer(404, &[], "").await;
    server.greet(Some("s2"), LEGACY).await;
    let watch = server.post("resources/subscribe").await;
    assert_eq!(watch.message()["params"], json!({"uri": "a://1"}));
    assert_eq!(watch.header("mcp-session-id"), Some("s2"));
    watch.result(json!({})).await;
    let level = server.post("logging/setLevel").await;
    assert_eq!(level.message()["params"], json!({"level": "error"}));
    level.result(json!({})).await;
    server.post("tools/list").await.result(json!({})).await;
    caller.answer(id).await;
}

/// A server may answer so, and it is no word about the session.
///
/// wire: HTTP-22
#[tokio::test]
async fn a_404_that_answers_the_call_is_its_answer() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("a/b", json!({})).await;
    let hit = server.post("a/b").await;
    let error = json!({"code": -32601, "message": "no such thing", "data": 7});
    let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
    hit.json(404, &answer).await;
    assert_eq!(caller.answer(id).await["error"], error);
    assert_eq!(server.waiting(|_| true), 0, "the session is sound");
}

/// wire: HTTP-22
#[tokio::test]
async fn a_404_about_the_session_is_none_under_whichever_id() {
    let words = [(-32001, "unknown"), (-32600, "Session not found"), (-32000, "no such session")];
    for (code, text) in words {
        let mut server = HttpServer::start().await;
        let (_bridge, mut caller) = greeted(&mut server).await;
        let id = caller.ask("tools/list", json!({})).await;
        let hit = server.post("tools/list").await;
        let error = json!({"code": code, "message": text});
        let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
        hit.json(404, &answer).await;
        server.greet(Some("s2"), LEGACY).await;
        server.post("tools/list").await.result(json!({})).await;
        assert!(caller.answer(id).await.get("result").is_some());
    }
}

/// wire: HTTP-18, HTTP-22
#[tokio::test]
async fn a_broken_call_is_taken_up_again_in_its_own_session() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let broken = caller.ask("tools/call", json!({"name": "one"})).await;
    let mut stream = server.post("tools/call").await.stream().await;
    stream.write("id: e1\nretry: 300\ndata:\n\n").await;
    stream.reset();
    let id = caller.ask("tools/call", json!({"name": "two"})).await;
    server.post("tools/call").await.answer(404, &[], "").await;
    server.greet(Some("s2"), LEGACY).await;
    server.post("tools/call").await.result(json!({})).await;
    caller.answer(id).await;
    let again = server.get().await;
    assert_eq!(again.header("mcp-session-id"), Some("s1"));
    assert_eq!(again.header("last-event-id"), Some("e1"));
    again.answer(404, &[], "").await;
    error_of(&caller.answer(broken).await);
}

/// wire: HTTP-23, GW-82
#[tokio::test]
async fn the_session_is_deleted_when_the_client_leaves() {
    let mut server = HttpServer::start().await;
    let (_bridge, caller) = greeted(&mut server).await;
    caller.leave().await;
    let hit = server.delete().await;
    assert_eq!(hit.header("mcp-session-id"), Some("s1"));
    hit.answer(405, &[], "").await;
}

/// wire: HTTP-23, STD-10
#[tokio::test]
async fn closing_fails_what_is_open_and_what_comes_later() {
    let mut server = HttpServer::start().await;
    let (bridge, mut caller) = greeted(&mut server).await;
    let open = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    tokio::join!(within(bridge.close()), async {
        server.delete().await.answer(204, &[], "").await;
    });
    assert_eq!(error_of(&caller.answer(open).await), "Transport closed");
    hit.gone().await;
    let text = caller.tool_error("t", json!({})).await;
    assert_eq!(text, "Transport closed");
    within(bridge.close()).await;
    assert_eq!(server.waiting(|_| true), 0, "something was sent after the end");
}
