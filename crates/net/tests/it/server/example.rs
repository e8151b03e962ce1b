//! The examples do what they say.

use serde_json::json;

use super::{Client, text};

#[expect(dead_code, reason = "only what it serves is of interest here")]
#[path = "../../../examples/raw.rs"]
mod raw;
#[expect(dead_code, reason = "only what it serves is of interest here")]
#[path = "../../../examples/typed_http.rs"]
mod typed_http;
#[expect(dead_code, reason = "only what it serves is of interest here")]
#[path = "../../../examples/typed_stdio.rs"]
mod typed_stdio;

#[tokio::test]
async fn the_typed_example_counts() {
    let mut client = Client::of(typed_stdio::server().unwrap());
    let call = json!({"name": "count", "arguments": {"text": "two words", "what": "words"}});
    let counted = client.modern("tools/call", call).await;
    assert_eq!(counted["result"]["structuredContent"], json!({"count": 2}));
    let call = json!({"name": "count", "arguments": {"text": "x", "what": "sheep"}});
    let wrong = client.modern("tools/call", call).await;
    assert!(text(&wrong).contains("/what: "), "{wrong}");
}

#[tokio::test]
async fn the_http_example_asks_and_learns() {
    let mut client = Client::of(typed_http::server().unwrap());
    client.greet("2025-11-25", json!({"elicitation": {}})).await;
    let id = client.request("tools/call", json!({"name": "greet"})).await;
    let question = client.hear_of("elicitation/create").await;
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
    assert_eq!(text(&client.answer(id).await), "Hello, \"Ann\"!");
    let learn = json!({"name": "learn", "arguments": {"name": "new", "says": "hi"}});
    client.call("tools/call", learn).await;
    assert_eq!(client.heard_of("notifications/tools/list_changed").len(), 1);
    assert_eq!(text(&client.call("tools/call", json!({"name": "new"})).await), "hi");
}

#[tokio::test]
async fn the_raw_example_counts_calls() {
    let mut client = Client::of(raw::server().unwrap());
    client.modern("tools/list", json!({})).await;
    client.modern("tools/list", json!({})).await;
    let calls = client.modern("x/calls", json!({})).await;
    assert_eq!(calls["result"]["calls"], json!({"tools/list": 2, "x/calls": 1}));
}
