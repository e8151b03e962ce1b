//! Modern clients of servers of the first revision.

use serde_json::json;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::Caller;
use switchboard_testkit::http::{Answer, HttpServer};
use switchboard_testkit::within;

use super::able;
use crate::upstream::before;
use crate::upstream::old::serve_old;

/// What such a server says to a POST where it does not expect one.
const ENDPOINT: &str = "event: endpoint\ndata: /messages?s=0\n\n";

/// Calls a tool by the stream that is there.
async fn calls(server: &mut HttpServer, mut stream: Answer, client: &mut Caller, id: u64) {
    let hit = server.post("tools/call").await;
    assert_eq!(hit.path, "/messages?s=1");
    assert!(hit.message()["params"].get("_meta").is_none(), "{}", hit.message());
    let asked = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
    stream.event(&asked).await;
    let question = client.answer(id).await;
    assert_eq!(question["result"]["resultType"], "input_required", "{question}");
    let key = question["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut retry = able(json!({"name": "t"}));
    retry["inputResponses"][key] = json!({"roots": []});
    retry["requestState"] = question["result"]["requestState"].clone();
    let again = client.ask("tools/call", retry).await;
    let supplied = server.supplied().await;
    assert_eq!(supplied.message()["result"], json!({"roots": []}));
    supplied.answer(202, &[], "").await;
    let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "result": {"content": []}});
    hit.answer(202, &[], "").await;
    stream.event(&answer).await;
    let answer = client.answer(again).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

/// wire: GW-41, GW-45, OLD-2, OLD-7
#[tokio::test]
async fn a_modern_client_works_with_a_server_of_the_first_revision() {
    for strategy in [Strategy::SseOnly, Strategy::HttpFirst, Strategy::SseFirst] {
        let mut server = HttpServer::start().await;
        let (bridge, mut client) = before(&server, strategy);
        let id = client.ask("tools/call", able(json!({"name": "t"}))).await;
        if strategy != Strategy::SseOnly {
            server.post("server/discover").await.answer(405, &[], "").await;
        }
        if strategy == Strategy::HttpFirst {
            server.post("initialize").await.answer(405, &[], "").await;
        }
        let stream = serve_old(&mut server, "/messages?s=1", "\n").await;
        calls(&mut server, stream, &mut client, id).await;
        within(bridge.close()).await;
    }
}

/// wire: OLD-2, OLD-7, NEG-5
#[tokio::test]
async fn a_server_that_answers_a_post_with_its_stream_is_one_of_the_first_revision() {
    let mut server = HttpServer::start().await;
    let (bridge, mut client) = before(&server, Strategy::HttpFirst);
    let id = client.ask("tools/call", able(json!({"name": "t"}))).await;
    let mut stray = server.post("server/discover").await.stream().await;
    stray.write(ENDPOINT).await;
    let mut second = server.post("initialize").await.stream().await;
    second.write(ENDPOINT).await;
    let stream = serve_old(&mut server, "/messages?s=1", "\n").await;
    calls(&mut server, stream, &mut client, id).await;
    within(bridge.close()).await;

    // The same for a legacy client, and where that transport is not wanted.
    let (bridge, mut client) = before(&server, Strategy::HttpFirst);
    let id = client.begin_greeting().await;
    server.post("initialize").await.stream().await.write(ENDPOINT).await;
    let (welcome, _stream) = tokio::join!(client.answer(id), async {
        let get = server.get().await;
        let mut stream = get.stream().await;
        stream.write("event: endpoint\ndata: /m\n\n").await;
        let hello = server.post("initialize").await;
        let result = switchboard_testkit::http::welcome("2024-11-05");
        let answer = json!({"jsonrpc": "2.0", "id": hello.message()["id"], "result": result});
        hello.answer(202, &[], "").await;
        stream.event(&answer).await;
        stream
    });
    assert_eq!(welcome["result"]["protocolVersion"], "2024-11-05", "{welcome}");
    within(bridge.close()).await;
    let (_bridge, mut client) = before(&server, Strategy::HttpOnly);
    let id = client.begin_greeting().await;
    server.post("initialize").await.stream().await.write(ENDPOINT).await;
    let refused = client.answer(id).await;
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(text.contains("HTTP+SSE"), "{text}");
}

/// wire: GW-51, SUB-5, SUB-12
#[tokio::test]
async fn a_server_without_a_stream_of_its_own_is_not_listened_to() {
    let mut server = HttpServer::start().await;
    let (bridge, mut client) = before(&server, Strategy::HttpOnly);
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]});
    let id = client.ask("subscriptions/listen", able(json!({"notifications": wanted}))).await;
    server.post("server/discover").await.answer(400, &[], "").await;
    let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let hello = server.post("initialize").await;
    let mut welcome = switchboard_testkit::http::welcome("2025-11-25");
    welcome["capabilities"] = capabilities;
    hello.result(welcome).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    server.get().await.answer(405, &[], "").await;
    let ack = client.told("notifications/subscriptions/acknowledged").await;
    assert_eq!(ack["params"]["notifications"], json!({}), "{ack}");
    assert_eq!(client.answer(id).await["result"]["resultType"], "complete");
    assert_eq!(server.waiting(|hit| hit.message()["method"] == "resources/subscribe"), 0);
    within(bridge.close()).await;
}
