//! The examples do what they say.

use http::HeaderMap;
use serde_json::json;
use switchboard_net::client::{self as connect, ClientOptions};
use switchboard_net::upstream::{self, Strategy};
use switchboard_proto::revision::Era;

use super::web::Web;
use super::{Client, fixture, text};
use crate::peer::within;
use crate::upstream::fetch;

#[expect(dead_code, reason = "only what it serves is of interest here")]
#[path = "../../../examples/forward.rs"]
mod forward;
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

#[tokio::test]
async fn the_forwarding_example_stands_between_any_two_eras() {
    let (told, mut tell) = tokio::sync::mpsc::channel(8);
    let far = fixture().on_notification(move |notice| {
        let told = told.clone();
        async move { told.send(notice.method().to_owned()).await.unwrap() }
    });
    let web = Web::of(far).await;
    for era in [Era::Legacy, Era::Modern] {
        let url = format!("http://{}/mcp", web.address).parse().unwrap();
        let other = upstream::Server::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch());
        let options = ClientOptions { era: Some(era), ..ClientOptions::default() };
        let to = within(connect::Client::connect(other, options)).await.unwrap();
        let mut client = Client::of(forward::server(to.clone()).unwrap());
        client.greet("2025-06-18", json!({})).await;
        let steps = json!({"name": "steps", "_meta": {"progressToken": "mine"}});
        for modern in [false, true] {
            client.heard.clear();
            let params = if modern { client.envelope(steps.clone()) } else { steps.clone() };
            assert_eq!(text(&client.call("tools/call", params).await), "done", "{era:?}");
            let progress = client.heard_of("notifications/progress");
            assert_eq!(progress.len(), 2, "{era:?}");
            assert_eq!(progress[0]["params"]["progressToken"], "mine");
        }
        let list = client.modern("resources/list", json!({})).await;
        assert_eq!(list["result"]["resources"][0]["uri"], "a://text");
        let broken = client.call("tools/call", json!({"name": "broken"})).await;
        assert_eq!(broken["error"], json!({"code": 7, "message": "broken"}));
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/x"})).await;
        assert_eq!(within(tell.recv()).await.unwrap(), "notifications/x");
        to.close().await;
    }
    web.stopped().await;
}
