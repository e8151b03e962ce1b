//! Sessions at a legacy server that its modern clients know nothing of.

use serde_json::json;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;

use super::able;
use crate::upstream::before;

/// wire: GW-41, GW-53, HTTP-22
#[tokio::test]
async fn a_session_that_is_over_is_renewed_unseen_and_ended_at_the_end() {
    let mut server = HttpServer::start().await;
    let (bridge, mut client) = before(&server, Strategy::HttpOnly);
    let id = client.ask("tools/call", able(json!({"name": "t"}))).await;
    server.post("server/discover").await.answer(400, &[], "").await;
    server.greet(Some("s1"), "2025-11-25").await;
    let call = server.post("tools/call").await;
    assert_eq!(call.header("mcp-session-id"), Some("s1"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-11-25"));
    for header in ["mcp-method", "mcp-name"] {
        assert_eq!(call.header(header), None, "a legacy server has no use for {header}");
    }
    call.answer(404, &[], "").await;
    server.greet(Some("s2"), "2025-11-25").await;
    let again = server.post("tools/call").await;
    assert_eq!(again.header("mcp-session-id"), Some("s2"));
    again.result(json!({"content": []})).await;
    let answer = client.answer(id).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    let ended = async {
        let delete = server.delete().await;
        assert_eq!(delete.header("mcp-session-id"), Some("s2"));
        delete.answer(204, &[], "").await;
    };
    tokio::join!(within(bridge.close()), ended);
}

/// wire: GW-53, HTTP-11
#[tokio::test]
async fn a_broken_stream_of_a_legacy_server_is_resumed_unseen() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client) = before(&server, Strategy::HttpOnly);
    let id = client.ask("tools/call", able(json!({"name": "t"}))).await;
    server.post("server/discover").await.answer(400, &[], "").await;
    server.greet(Some("s1"), "2025-11-25").await;
    let call = server.post("tools/call").await;
    let wire = call.message()["id"].clone();
    let mut stream = call.stream().await;
    stream.write("id: e1\nretry: 1\ndata:\n\n").await;
    stream.reset();
    let back = server.get().await;
    assert_eq!(back.header("last-event-id"), Some("e1"));
    let answer = json!({"jsonrpc": "2.0", "id": wire, "result": {"content": []}});
    back.stream().await.event(&answer).await;
    assert_eq!(client.answer(id).await["result"]["resultType"], "complete");
}
