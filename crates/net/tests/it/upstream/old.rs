//! The client of the HTTP+SSE transport.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::bridge::Bridge;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::{Caller, error_of};
use switchboard_testkit::http::{Answer, HttpServer, welcome};
use switchboard_testkit::within;

use super::before;

const OLD: &str = "2024-11-05";

/// Answers the GET with `endpoint`, and the handshake after it.
pub(crate) async fn serve_old(server: &mut HttpServer, endpoint: &str, end: &str) -> Answer {
    let get = server.get().await;
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    let mut stream = get.stream().await;
    stream.write(&format!(": hi{end}event: endpoint{end}data: {endpoint}{end}{end}")).await;
    let hello = server.post("initialize").await;
    assert_eq!(hello.path, "/messages?s=1");
    assert_eq!(hello.header("content-type"), Some("application/json"));
    let answer = json!({"jsonrpc": "2.0", "id": hello.message()["id"], "result": welcome(OLD)});
    hello.answer(202, &[], "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"not this\"}").await;
    stream.write(&format!("event: message{end}data: {answer}{end}{end}")).await;
    server.post("notifications/initialized").await.answer(202, &[], "Accepted").await;
    stream
}

async fn connected(server: &mut HttpServer) -> (Arc<Bridge>, Caller, Answer) {
    let (bridge, mut caller) = before(server, Strategy::SseOnly);
    let (_, stream) = tokio::join!(caller.greet(), serve_old(server, "/messages?s=1", "\n"));
    (bridge, caller, stream)
}

/// wire: OLD-2, OLD-4, OLD-5, SSE-1
#[tokio::test]
async fn messages_go_to_the_endpoint_that_the_stream_names() {
    for end in ["\n", "\r\n", "\r"] {
        let mut server = HttpServer::start().await;
        let absolute = server.url("/messages?s=1").to_string();
        for endpoint in ["/messages?s=1", "messages?s=1", "./messages?s=1", absolute.as_str()] {
            let (bridge, mut caller) = before(&server, Strategy::SseOnly);
            let (answer, _stream) =
                tokio::join!(caller.greet(), serve_old(&mut server, endpoint, end));
            assert_eq!(answer["result"], welcome(OLD), "{endpoint}");
            within(bridge.close()).await;
        }
    }
}

/// wire: OLD-3
#[tokio::test]
async fn an_endpoint_of_another_origin_is_refused() {
    let mut server = HttpServer::start().await;
    let mut other = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::SseOnly);
    let id = caller.begin_greeting().await;
    let mut stream = server.get().await.stream().await;
    stream.write(&format!("event: endpoint\ndata: {}\n\n", other.url("/m"))).await;
    let text = error_of(&caller.answer(id).await);
    assert_eq!(text, "the endpoint event names no URL of the same origin");
    stream.gone().await;
    assert_eq!(other.waiting(|_| true), 0);
}

/// wire: OLD-2
#[tokio::test]
async fn a_stream_that_names_no_endpoint_is_given_up() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::SseOnly);
    let id = caller.begin_greeting().await;
    let mut stream = server.get().await.stream().await;
    stream.write("data: {}\n\n").await;
    let text = error_of(&caller.answer(id).await);
    assert_eq!(text, "the event stream did not begin with an endpoint event");
    stream.gone().await;

    let (_bridge, mut caller) = before(&server, Strategy::SseOnly);
    let id = caller.begin_greeting().await;
    let stream = server.get().await.stream().await;
    tokio::time::pause();
    let text = error_of(&caller.answer(id).await);
    assert_eq!(text, "Timed out waiting for SSE endpoint");
    stream.gone().await;
}

/// wire: HDR-15
#[tokio::test]
async fn headers_of_the_user_go_to_the_stream_and_to_the_endpoint() {
    let mut server = HttpServer::start().await;
    let headers = [("authorization", "Bearer t"), ("accept", "text/html")];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let headers = http::HeaderMap::from_iter(headers);
    let (_bridge, mut caller) = super::before_with(&server, Strategy::SseOnly, headers);
    caller.begin_greeting().await;
    let get = server.get().await;
    assert_eq!(get.header("authorization"), Some("Bearer t"));
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    get.stream().await.write("event: endpoint\ndata: /m\n\n").await;
    let hello = server.post("initialize").await;
    assert_eq!(hello.header("authorization"), Some("Bearer t"));
    assert_eq!(hello.header("accept"), None);
}

/// wire: OLD-4
#[tokio::test]
async fn a_query_may_hold_what_looks_like_a_url() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::SseOnly);
    caller.begin_greeting().await;
    let mut stream = server.get().await.stream().await;
    stream.write("event: endpoint\ndata: /m?from=http://evil.test/\n\n").await;
    assert_eq!(server.post("initialize").await.path, "/m?from=http://evil.test/");
}

/// wire: OLD-5
#[tokio::test]
async fn messages_keep_their_order_and_large_ones_their_size() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, mut stream) = connected(&mut server).await;
    let text = "x".repeat(1 << 20);
    let asking = async {
        let mut ids = Vec::new();
        for number in 0..20 {
            ids.push(caller.ask("tools/call", json!({"name": number, "text": text})).await);
        }
        ids
    };
    let answering = async {
        for number in 0..20 {
            let hit = server.post("tools/call").await;
            assert_eq!(hit.message()["params"]["name"], number);
            assert_eq!(server.waiting(|hit| hit.method == "POST"), 0, "two at once have no order");
            let result = json!({"number": number, "text": text});
            let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": result});
            hit.answer(202, &[], "").await;
            stream.event(&answer).await;
        }
    };
    let (ids, ()) = tokio::join!(asking, answering);
    for (number, id) in ids.into_iter().enumerate() {
        let result = caller.answer(id).await["result"].clone();
        assert_eq!(result, json!({"number": number, "text": text}));
    }
}

/// wire: OLD-5
#[tokio::test]
async fn a_post_that_is_answered_late_does_not_hold_up_the_others() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, mut stream) = connected(&mut server).await;
    let slow = caller.ask("tools/call", json!({"name": "slow"})).await;
    let fast = caller.ask("tools/list", json!({})).await;
    let slow_hit = server.post("tools/call").await;
    let hit = server.post("tools/list").await;
    let answer = |message: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": {}});
    stream.event(&answer(hit.message())).await;
    caller.answer(fast).await;
    hit.answer(202, &[], "").await;
    stream.event(&answer(slow_hit.message())).await;
    caller.answer(slow).await;
    slow_hit.answer(202, &[], "").await;
}

/// wire: OLD-5, STD-10
#[tokio::test]
async fn a_lost_stream_fails_what_is_open_and_the_next_call_connects_again() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, stream) = connected(&mut server).await;
    let one = caller.ask("tools/call", json!({"name": "one"})).await;
    let two = caller.ask("tools/call", json!({"name": "two"})).await;
    for _ in 0..2 {
        server.post("tools/call").await.answer(202, &[], "").await;
    }
    stream.reset();
    for id in [one, two] {
        let text = error_of(&caller.answer(id).await);
        assert!(text.starts_with("Transport closed"), "{text}");
    }
    let id = caller.ask("tools/list", json!({})).await;
    let mut stream = serve_old(&mut server, "/messages?s=1", "\n").await;
    let hit = server.post("tools/list").await;
    stream.event(&json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"k": 1}})).await;
    hit.answer(202, &[], "").await;
    assert_eq!(caller.answer(id).await["result"], json!({"k": 1}));
    caller.told("notifications/tools/list_changed").await;
}

/// wire: OLD-4, OLD-6
#[tokio::test]
async fn what_the_server_refuses_is_told_in_its_words() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller, _stream) = connected(&mut server).await;
    let id = caller.ask("tools/list", json!({})).await;
    let hint = [("www-authenticate", "Bearer")];
    server.post("tools/list").await.answer(401, &hint, "who are you").await;
    let text = error_of(&caller.answer(id).await);
    assert_eq!(text, "HTTP 401: who are you (www-authenticate: Bearer)");

    let (_bridge, mut caller) = before(&server, Strategy::SseOnly);
    let id = caller.begin_greeting().await;
    server.get().await.answer(401, &hint, "who are you").await;
    assert_eq!(error_of(&caller.answer(id).await), text);
}

#[tokio::test]
async fn closing_ends_the_stream_and_fails_what_is_open() {
    let mut server = HttpServer::start().await;
    let (bridge, mut caller, stream) = connected(&mut server).await;
    let id = caller.ask("tools/list", json!({})).await;
    let hit = server.post("tools/list").await;
    within(bridge.close()).await;
    assert_eq!(error_of(&caller.answer(id).await), "Transport closed");
    stream.gone().await;
    hit.gone().await;
}
