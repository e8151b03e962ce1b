//! Which of the two HTTP transports is used, and when it is changed.

use serde_json::json;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::{LEGACY, error_of};
use switchboard_testkit::http::HttpServer;

use super::before;
use super::old::serve_old;

/// wire: OLD-7, NEG-5
#[tokio::test]
async fn http_first_changes_to_sse_when_the_greeting_is_refused() {
    for status in [400, 404, 405] {
        let mut server = HttpServer::start().await;
        let (_bridge, mut caller) = before(&server, Strategy::HttpFirst);
        let (_, mut stream) = tokio::join!(caller.greet(), async {
            server.post("initialize").await.answer(status, &[], "nothing here").await;
            serve_old(&mut server, "/messages?s=1", "\n").await
        });
        let id = caller.ask("tools/list", json!({})).await;
        let hit = server.post("tools/list").await;
        assert_eq!(hit.path, "/messages?s=1");
        stream.event(&json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {}})).await;
        hit.answer(202, &[], "").await;
        assert!(caller.answer(id).await.get("result").is_some());
    }
}

/// wire: OLD-7, NEG-2
#[tokio::test]
async fn http_first_stays_where_the_refusal_has_another_reason() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpFirst);
    let modern =
        json!({"code": -32022, "message": "modern only", "data": {"supported": ["2026-07-28"]}});
    let body = json!({"jsonrpc": "2.0", "id": null, "error": modern}).to_string();
    for (status, body, expected) in [
        (401, "who", "HTTP 401: who"),
        (500, "boom", "HTTP 500: boom"),
        (400, body.as_str(), "HTTP 500: later"),
    ] {
        let id = caller.begin_greeting().await;
        server.post("initialize").await.answer(status, &[], body).await;
        if status == 400 {
            // It is modern, and asked as such.
            server.post("server/discover").await.answer(500, &[], "later").await;
        }
        assert_eq!(error_of(&caller.answer(id).await), expected);
        assert_eq!(server.waiting(|_| true), 0);
    }
}

/// wire: OLD-7
#[tokio::test]
async fn http_first_that_finds_neither_says_both_and_begins_anew_the_next_time() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpFirst);
    let id = caller.begin_greeting().await;
    server.post("initialize").await.answer(404, &[], "starting up").await;
    server.get().await.answer(404, &[], "no stream").await;
    let text = error_of(&caller.answer(id).await);
    assert!(
        text.contains("HTTP 404: starting up") && text.contains("HTTP 404: no stream"),
        "{text}"
    );
    tokio::join!(caller.greet(), server.greet(None, LEGACY));
}

/// wire: OLD-7
#[tokio::test]
async fn a_server_that_has_spoken_one_transport_is_not_tried_with_the_other() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpFirst);
    tokio::join!(caller.greet(), server.greet(Some("s1"), LEGACY));
    let id = caller.ask("tools/list", json!({})).await;
    server.post("tools/list").await.answer(404, &[], "").await;
    server.post("initialize").await.answer(404, &[], "starting up").await;
    assert_eq!(error_of(&caller.answer(id).await), "HTTP 404: starting up");
    let id = caller.ask("tools/list", json!({})).await;
    server.greet(Some("s2"), LEGACY).await;
    server.post("tools/list").await.result(json!({})).await;
    assert!(caller.answer(id).await.get("result").is_some());
}

/// wire: OLD-7
#[tokio::test]
async fn http_only_and_sse_only_do_not_change() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpOnly);
    let id = caller.begin_greeting().await;
    server.post("initialize").await.answer(405, &[], "no").await;
    assert_eq!(error_of(&caller.answer(id).await), "HTTP 405: no");

    let (_bridge, mut caller) = before(&server, Strategy::SseOnly);
    let id = caller.begin_greeting().await;
    server.get().await.answer(405, &[], "no").await;
    assert_eq!(error_of(&caller.answer(id).await), "HTTP 405: no");
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: OLD-7, OLD-8
#[tokio::test]
async fn sse_first_changes_to_http_when_there_is_no_stream() {
    for (status, media) in [(404, "text/plain"), (405, "text/plain"), (200, "application/json")] {
        let mut server = HttpServer::start().await;
        let (_bridge, mut caller) = before(&server, Strategy::SseFirst);
        tokio::join!(caller.greet(), async {
            server.get().await.answer(status, &[("content-type", media)], "{}").await;
            server.greet(Some("s1"), LEGACY).await;
        });
        let id = caller.ask("tools/list", json!({})).await;
        let hit = server.post("tools/list").await;
        assert_eq!(hit.header("mcp-session-id"), Some("s1"));
        hit.result(json!({})).await;
        assert!(caller.answer(id).await.get("result").is_some());
    }
}

#[tokio::test]
async fn sse_first_uses_the_stream_where_there_is_one() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::SseFirst);
    tokio::join!(caller.greet(), serve_old(&mut server, "/messages?s=1", "\n"));
}

/// wire: NEG-2, NEG-11, GW-10
#[tokio::test]
async fn a_server_that_welcomes_to_a_revision_without_greetings_is_modern() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpOnly);
    let id = caller.begin_greeting().await;
    let welcome = json!({"protocolVersion": "2026-07-28", "capabilities": {}});
    server.post("initialize").await.result(welcome).await;
    let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
    server.post("server/discover").await.result(discovered).await;
    let welcome = caller.answer(id).await;
    assert_eq!(welcome["result"]["protocolVersion"], LEGACY);
    assert_eq!(welcome["result"]["capabilities"], json!({"tools": {}}));
    let id = caller.ask("tools/list", json!({})).await;
    let hit = server.post("tools/list").await;
    assert_eq!(hit.header("mcp-method"), Some("tools/list"));
    hit.result(json!({"tools": [], "resultType": "complete"})).await;
    assert_eq!(caller.answer(id).await["result"], json!({"tools": []}));
}
