//! Calls to a Streamable HTTP server and the ways in which they are answered.

use serde_json::json;
use switchboard_testkit::caller::error_of;
use switchboard_testkit::http::HttpServer;

use super::greeted;

/// wire: HTTP-1, HTTP-2, HTTP-5
#[tokio::test]
async fn a_call_is_a_post_that_json_or_a_stream_may_answer() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/list", json!({})).await;
    let hit = server.post("tools/list").await;
    assert_eq!(hit.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(hit.header("content-type"), Some("application/json"));
    hit.result(json!({"tools": []})).await;
    assert_eq!(caller.answer(id).await["result"], json!({"tools": []}));

    let id = caller.ask("tools/list", json!({})).await;
    let hit = server.post("tools/list").await;
    let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"tools": [1]}});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}});
    let mut stream = hit.stream().await;
    // What is no message is skipped, and the next event read.
    stream.write("data: {\"jsonrpc\":\n\nevent: other\ndata: {}\n\n").await;
    stream.event(&log).await;
    stream.event(&answer).await;
    assert_eq!(caller.answer(id).await["result"], json!({"tools": [1]}));
    assert_eq!(caller.early()[0]["params"], json!({"data": 1}));
}

/// wire: HTTP-6, GW-85
#[tokio::test]
async fn a_stream_is_left_when_the_answer_was_on_it() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/list", json!({})).await;
    let hit = server.post("tools/list").await;
    let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {}});
    let mut stream = hit.stream().await;
    stream.event(&answer).await;
    caller.answer(id).await;
    stream.gone().await;
}

/// wire: HTTP-7
#[tokio::test]
async fn a_question_on_the_stream_is_answered_by_a_post_of_its_own() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    let call = hit.message()["id"].clone();
    let mut stream = hit.stream().await;
    let params = json!({"message": "?", "requestedSchema": {}});
    stream
        .event(
            &json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}),
        )
        .await;
    let asked = caller.told("elicitation/create").await;
    caller
        .send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}}))
        .await;
    let supplied = server.supplied().await;
    assert_eq!(supplied.header("mcp-session-id"), Some("s1"));
    assert_eq!(
        supplied.message(),
        json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}})
    );
    supplied.answer(202, &[], "").await;
    stream.event(&json!({"jsonrpc": "2.0", "id": call, "result": {}})).await;
    caller.answer(id).await;
}

/// wire: HTTP-7, UTL-2
#[tokio::test]
async fn progress_on_a_question_reaches_the_server_before_its_answer() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    let call = hit.message()["id"].clone();
    let mut stream = hit.stream().await;
    let params = json!({"messages": [], "maxTokens": 1, "_meta": {"progressToken": "p"}});
    stream
        .event(
            &json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params}),
        )
        .await;
    let asked = caller.told("sampling/createMessage").await;
    for progress in 1..=2 {
        let params = json!({"progressToken": "p", "progress": progress});
        caller.note("notifications/progress", params).await;
    }
    caller.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"k": 1}})).await;
    for progress in 1..=2 {
        let hit = server.take(|hit| hit.method == "POST").await;
        assert_eq!(hit.message()["params"]["progress"], progress, "{}", hit.message());
        // What belongs to no question waits for none, and would have been overtaken.
        let other = caller.ask("tools/list", json!({})).await;
        server.post("tools/list").await.result(json!({})).await;
        caller.answer(other).await;
        assert_eq!(server.waiting(|hit| hit.method == "POST"), 0, "overtook {progress}");
        hit.answer(202, &[], "").await;
    }
    let supplied = server.take(|hit| hit.method == "POST").await;
    assert_eq!(supplied.message(), json!({"jsonrpc": "2.0", "id": "q", "result": {"k": 1}}));
    supplied.answer(202, &[], "").await;
    stream.event(&json!({"jsonrpc": "2.0", "id": call, "result": {}})).await;
    caller.answer(id).await;
}

/// wire: HTTP-9, UTL-1
#[tokio::test]
async fn a_cancelled_call_is_told_to_the_server_and_what_that_says_is_passed_on() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    for begun in [false, true] {
        let id = caller.ask("tools/call", json!({"name": "t"})).await;
        let hit = server.post("tools/call").await;
        let wire_id = hit.message()["id"].clone();
        caller.note("notifications/cancelled", json!({"requestId": id, "reason": "enough"})).await;
        let told = server.post("notifications/cancelled").await;
        assert_eq!(told.message()["params"], json!({"requestId": wire_id, "reason": "enough"}));
        assert_eq!(told.header("mcp-session-id"), Some("s1"));
        told.answer(202, &[], "").await;
        let answer = json!({"jsonrpc": "2.0", "id": wire_id, "error": {"code": 0, "message": "c"}});
        if begun {
            hit.stream().await.event(&answer).await;
        } else {
            hit.json(200, &answer).await;
        }
        assert_eq!(error_of(&caller.answer(id).await), "c");
    }
}

/// wire: LIF-2
#[tokio::test(start_paused = true)]
async fn calls_wait_until_the_server_has_taken_the_end_of_the_handshake() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = super::before(&server, super::Strategy::HttpOnly);
    let hello = caller.begin_greeting().await;
    server.post("initialize").await.welcome(None, super::LEGACY).await;
    caller.answer(hello).await;
    caller.note("notifications/initialized", json!({})).await;
    let id = caller.ask("tools/list", json!({})).await;
    let initialized = server.post("notifications/initialized").await;
    // Long enough for a second request to arrive, if one had been sent.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(server.waiting(|hit| hit.method == "POST"), 0, "a call overtook the handshake");
    initialized.answer(202, &[], "").await;
    server.post("tools/list").await.result(json!({})).await;
    caller.answer(id).await;
}

/// wire: HTTP-12, HTTP-8
#[tokio::test]
async fn a_stream_that_breaks_before_any_event_id_fails_its_call() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    for reset in [false, true] {
        let id = caller.ask("tools/call", json!({"name": "t"})).await;
        let mut stream = server.post("tools/call").await.stream().await;
        stream.write("data: {\"jsonrpc\":\"2.0\",").await;
        if reset {
            stream.reset();
        } else {
            drop(stream);
        }
        let text = error_of(&caller.answer(id).await);
        assert!(text.starts_with("No response received for request ID "), "{text}");
    }
}

/// wire: HTTP-11, HTTP-12, HTTP-18
#[tokio::test]
async fn a_stream_that_breaks_after_an_event_id_is_taken_up_again() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let hit = server.post("tools/call").await;
    let call = hit.message()["id"].clone();
    let mut stream = hit.stream().await;
    stream.write("id: e1\nretry: 30\ndata:\n\n").await;
    drop(stream);
    let again = server.get().await;
    assert_eq!(again.header("last-event-id"), Some("e1"));
    assert_eq!(again.header("mcp-session-id"), Some("s1"));
    assert_eq!(again.header("accept"), Some("text/event-stream"));
    let mut stream = again.stream().await;
    stream
        .write("id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
        .await;
    stream.reset();
    let again = server.get().await;
    assert_eq!(again.header("last-event-id"), Some("e2"));
    again.stream().await.event(&json!({"jsonrpc": "2.0", "id": call, "result": {"k": 1}})).await;
    assert_eq!(caller.answer(id).await["result"], json!({"k": 1}));
    let again = |hit: &switchboard_testkit::http::Hit| hit.message()["method"] == "tools/call";
    assert_eq!(server.waiting(again), 0, "the call was sent twice");
}

/// wire: HTTP-12, HTTP-19
#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_fails_its_call() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/call", json!({"name": "t"})).await;
    let mut stream = server.post("tools/call").await.stream().await;
    stream.write("id: e1\nretry: 20\ndata:\n\n").await;
    drop(stream);
    server.get().await.answer(400, &[], "unknown event").await;
    let text = error_of(&caller.answer(id).await);
    assert!(text.starts_with("No response received for request ID "), "{text}");
}

/// wire: SSE-1, SSE-2
#[tokio::test]
async fn large_and_oddly_written_events_arrive_whole() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let text = "x".repeat(1 << 20);
    let id = caller.ask("tools/call", json!({"name": "t", "arguments": {"text": text}})).await;
    let hit = server.post("tools/call").await;
    assert_eq!(hit.message()["params"]["arguments"]["text"], text);
    let call = &hit.message()["id"];
    let event = format!(
        "\u{feff}: hello\r\nevent: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{call},\r\ndata: \"result\":{{\"text\":\"{text}\"}}}}\r\n\r\n"
    );
    hit.stream().await.write(&event).await;
    assert_eq!(caller.answer(id).await["result"]["text"], text);
}
