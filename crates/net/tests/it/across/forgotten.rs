//! Calls that wait for an answer, at a legacy server that has forgotten their session.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::bridge::Bridge;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::{Caller, LEGACY, error_of};
use switchboard_testkit::http::{Answer, HttpServer};

use super::able;
use crate::upstream::before;

/// A call that waits for input: its client, its state, and the stream that it came by.
async fn asked(server: &mut HttpServer) -> (Arc<Bridge>, Caller, Value, Answer) {
    let (bridge, mut client) = before(server, Strategy::HttpOnly);
    let id = client.ask("tools/call", able(json!({"name": "t"}))).await;
    server.post("server/discover").await.answer(400, &[], "").await;
    server.greet(Some("s1"), LEGACY).await;
    let mut stream = server.post("tools/call").await.stream().await;
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"message": "?", "requestedSchema": schema});
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"});
    let mut question = question;
    question["params"] = params;
    stream.event(&question).await;
    let asked = client.answer(id).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    (bridge, client, asked, stream)
}

/// The call again, with the answer.
fn retry(asked: &Value) -> Value {
    let mut again = able(json!({"name": "t"}));
    let key = asked["inputRequests"].as_object().and_then(|it| it.keys().next()).cloned();
    again["inputResponses"] = json!({key.expect("a question"): {"action": "accept"}});
    again["requestState"] = asked["requestState"].clone();
    again
}

/// wire: GW-46, HTTP-22
#[tokio::test]
async fn a_call_whose_session_was_renewed_while_it_waited_fails() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut client, asked, stream) = asked(&mut server).await;
    let other = client.ask("tools/call", able(json!({"name": "other"}))).await;
    server.post("tools/call").await.answer(404, &[], "").await;
    server.greet(Some("s2"), LEGACY).await;
    server.post("tools/call").await.result(json!({"content": []})).await;
    client.answer(other).await;
    let text = error_of(&client.call("tools/call", retry(&asked)).await);
    assert!(text.contains("session"), "{text}");
    stream.gone().await;
    assert_eq!(server.waiting(|_| true), 0, "nobody waits for that answer");
}

/// wire: GW-46, HTTP-22
#[tokio::test]
async fn a_call_whose_answer_the_server_does_not_take_fails() {
    for status in [400, 404] {
        let mut server = HttpServer::start().await;
        let (_bridge, mut client, asked, stream) = asked(&mut server).await;
        let id = client.ask("tools/call", retry(&asked)).await;
        let supplied = server.supplied().await;
        assert_eq!(supplied.header("mcp-session-id"), Some("s1"));
        supplied.answer(status, &[], "").await;
        let text = error_of(&client.answer(id).await);
        assert!(text.contains("make the call again"), "{text}");
        stream.gone().await;
    }
}
