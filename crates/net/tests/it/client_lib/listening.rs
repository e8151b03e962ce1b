//! Hearing of changes.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::client::{ClientOptions, ListenFilter};
use switchboard_net::types::ServerNotification;
use switchboard_testkit::http::{Answer, Hit, HttpServer};
use switchboard_testkit::within;
use tokio::sync::mpsc;

use super::{connected, legacy, modern};
use crate::upstream::journal;

pub(crate) const CHANGED: &str = "notifications/tools/list_changed";

pub(crate) fn note(method: &str, id: &Value, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub(crate) async fn acknowledge(hit: Hit) -> (Answer, Value) {
    let id = hit.message()["id"].clone();
    let honoured = hit.message()["params"]["notifications"].clone();
    let mut stream = hit.stream().await;
    let params = json!({"notifications": honoured});
    stream.event(&note("notifications/subscriptions/acknowledged", &id, params)).await;
    (stream, id)
}

/// wire: SUB-1, SUB-3, SUB-7, SUB-8, SUB-10
#[tokio::test]
async fn a_listen_that_breaks_is_made_again_and_one_that_ends_is_over() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let filter = ListenFilter { tools: true, ..ListenFilter::default() };
    let (listening, (mut stream, id)) = tokio::join!(client.listen(filter), async {
        let hit = server.post("subscriptions/listen").await;
        acknowledge(hit).await
    });
    let mut listening = listening.unwrap();
    assert_eq!(*listening.honoured(), json!({"toolsListChanged": true}));
    stream.event(&note(CHANGED, &id, json!({}))).await;
    let changed = within(listening.next()).await.unwrap();
    assert_eq!(changed.method, CHANGED);
    let ServerNotification::ToolsChanged(typed) = changed.typed() else { panic!("{changed:?}") };
    assert_eq!(json!(typed), changed.params);
    assert!(typed.meta.is_some_and(|meta| !meta.is_empty()), "it says which listen it is of");
    stream.reset();
    let (missed, (mut stream, id)) = tokio::join!(within(listening.next()), async {
        let hit = server.post("subscriptions/listen").await;
        acknowledge(hit).await
    });
    // It may have changed meanwhile.
    assert_eq!(missed.unwrap().method, CHANGED);
    let result = json!({"resultType": "complete"});
    stream.event(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    assert_eq!(within(listening.next()).await, None);
}

/// wire: SUB-7
#[tokio::test]
async fn a_listen_that_is_dropped_hangs_up() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let filter = ListenFilter { uris: vec!["file:///a".to_owned()], ..ListenFilter::default() };
    let (listening, (stream, _)) = tokio::join!(client.listen(filter), async {
        let hit = server.post("subscriptions/listen").await;
        acknowledge(hit).await
    });
    drop(listening);
    stream.gone().await;
}

#[tokio::test]
async fn a_legacy_server_is_subscribed_to_and_heard() {
    let mut server = HttpServer::start().await;
    let connecting = switchboard_net::client::Client::connect(super::at(&server));
    let (client, get) = tokio::join!(connecting, async {
        server.post("server/discover").await.answer(400, &[], "").await;
        server.post("initialize").await.welcome(Some("s1"), super::LEGACY).await;
        server.post("notifications/initialized").await.answer(202, &[], "").await;
        server.get().await
    });
    let client = client.unwrap();
    let filter =
        ListenFilter { tools: true, uris: vec!["file:///a".to_owned()], ..ListenFilter::default() };
    let (listening, ()) = tokio::join!(client.listen(filter), async {
        server.post("resources/subscribe").await.result(json!({})).await;
    });
    let mut listening = listening.unwrap();
    let mut stream = get.stream().await;
    for method in ["notifications/prompts/list_changed", CHANGED] {
        stream.event(&json!({"jsonrpc": "2.0", "method": method})).await;
    }
    assert_eq!(within(listening.next()).await.unwrap().method, CHANGED);
    let updated = "notifications/resources/updated";
    let params = json!({"uri": "file:///a"});
    stream.event(&json!({"jsonrpc": "2.0", "method": updated, "params": params})).await;
    assert_eq!(within(listening.next()).await.unwrap().params, params);
    tokio::join!(listening.close(), async {
        server.post("resources/unsubscribe").await.result(json!({})).await;
    });
}

#[tokio::test]
async fn a_listener_of_a_child_that_dies_hears_of_the_next_one() {
    let journal = journal();
    let client = connected(&journal, ClientOptions::default()).await;
    let filter =
        ListenFilter { tools: true, uris: vec!["file:///a".to_owned()], ..ListenFilter::default() };
    let mut listening = client.listen(filter).await.unwrap();
    client.call_tool("die", json!({"code": 1})).await.unwrap_err();
    assert_eq!(within(listening.next()).await.unwrap().method, CHANGED);
    let subscribed =
        || journal.lines().iter().filter(|line| line.ends_with("resources/subscribe")).count();
    assert_eq!(subscribed(), 2);
    within(client.close()).await;
    assert_eq!(within(listening.next()).await, None);
}

#[tokio::test]
async fn what_belongs_to_no_call_is_told_to_whoever_asked() {
    let mut server = HttpServer::start().await;
    let (sender, mut told) = mpsc::unbounded_channel();
    let sender = Arc::new(sender);
    let options = ClientOptions::default().on_notification(move |note| _ = sender.send(note));
    let client = legacy(&mut server, options).await;
    let (called, ()) = tokio::join!(client.call_tool("x", json!({})), async {
        let hit = server.post("tools/call").await;
        let id = hit.message()["id"].clone();
        let mut stream = hit.stream().await;
        let params = json!({"level": "info", "data": "d"});
        stream
            .event(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
            .await;
        stream.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})).await;
    });
    called.unwrap();
    assert_eq!(within(told.recv()).await.unwrap().params["data"], "d");
}

#[tokio::test]
async fn what_a_listen_hears_is_told_to_whoever_asked_in_both_eras() {
    let mut server = HttpServer::start().await;
    let (sender, mut told) = mpsc::unbounded_channel();
    let options = ClientOptions::default().on_notification(move |note| _ = sender.send(note));
    let client = modern(&mut server, options).await;
    let filter = ListenFilter { tools: true, ..ListenFilter::default() };
    let (listening, (mut stream, id)) = tokio::join!(client.listen(filter), async {
        let hit = server.post("subscriptions/listen").await;
        acknowledge(hit).await
    });
    stream.event(&note(CHANGED, &id, json!({}))).await;
    assert_eq!(within(told.recv()).await.unwrap().method, CHANGED);
    assert_eq!(within(listening.unwrap().next()).await.unwrap().method, CHANGED);
}

/// wire: GW-51
#[tokio::test]
async fn closing_a_listen_leaves_what_another_one_watches() {
    let mut server = HttpServer::start().await;
    let client = legacy(&mut server, ClientOptions::default()).await;
    let filter = |uris: &[&str]| ListenFilter {
        uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        ..ListenFilter::default()
    };
    let (first, ()) = tokio::join!(client.listen(filter(&["a://1", "a://2"])), async {
        for _ in 0..2 {
            server.post("resources/subscribe").await.result(json!({})).await;
        }
    });
    let (second, ()) = tokio::join!(client.listen(filter(&["a://1"])), async {
        server.post("resources/subscribe").await.result(json!({})).await;
    });
    let told = |hit: &Hit| hit.message()["params"]["uri"].clone();
    let ((), uri) = tokio::join!(first.unwrap().close(), async {
        let hit = server.post("resources/unsubscribe").await;
        let uri = told(&hit);
        hit.result(json!({})).await;
        uri
    });
    assert_eq!(uri, "a://2", "the other is still watched");
    let ((), uri) = tokio::join!(second.unwrap().close(), async {
        let hit = server.post("resources/unsubscribe").await;
        let uri = told(&hit);
        hit.result(json!({})).await;
        uri
    });
    assert_eq!(uri, "a://1");
}
