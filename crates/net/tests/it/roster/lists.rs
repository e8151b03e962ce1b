//! Lists that change.

use std::time::Duration;

use serde_json::json;
use switchboard_net::roster::{Change, Changes, ListKind, Roster};
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;

use super::{patient, tools};
use crate::client_lib::listening::{CHANGED, acknowledge, note};
use crate::client_lib::{at, child, discovered};
use crate::upstream::journal;

async fn until_changed(changes: &mut Changes, server: &str, kind: ListKind) {
    let wanted = Change::Definitions { server: server.into(), kind };
    within(async { while changes.next().await != Some(wanted.clone()) {} }).await;
}

#[tokio::test]
async fn a_list_that_changes_is_read_again_and_many_changes_are_read_together() {
    let journal = journal();
    let roster = Roster::new(patient());
    roster.add("a", child(&journal, &["lists"])).unwrap();
    assert_eq!(roster.ready().await, []);
    let mut changes = roster.changes();
    roster.call("a", "change", json!({"tool": "new", "times": 200})).await.unwrap();
    until_changed(&mut changes, "a", ListKind::Tools).await;
    assert_eq!(tools(&roster), ["a/echo", "a/new"]);
    roster.call("a", "change", json!({"tool": "newer"})).await.unwrap();
    until_changed(&mut changes, "a", ListKind::Tools).await;
    assert_eq!(tools(&roster), ["a/echo", "a/new", "a/newer"]);
    let reads = journal.lines().iter().filter(|line| line.ends_with("tools/list")).count();
    assert!(reads < 50, "{reads}");
    within(roster.close()).await;
}

/// wire: SUB-1
#[tokio::test]
async fn a_modern_server_is_listened_to() {
    let mut server = HttpServer::start().await;
    let roster = Roster::new(patient());
    roster.add("a", at(&server)).unwrap();
    let list = |names: &[&str]| {
        let tools: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({"resultType": "complete", "tools": tools})
    };
    let (late, ()) = tokio::join!(roster.ready(), async {
        server.post("server/discover").await.result(discovered()).await;
        server.post("tools/list").await.result(list(&["x"])).await;
    });
    assert_eq!(late, []);
    let mut changes = roster.changes();
    let hit = server.post("subscriptions/listen").await;
    assert_eq!(hit.message()["params"]["notifications"], json!({"toolsListChanged": true}));
    let (mut stream, id) = acknowledge(hit).await;
    // It may have changed before it was listened to.
    server.post("tools/list").await.result(list(&["x", "y"])).await;
    until_changed(&mut changes, "a", ListKind::Tools).await;
    assert_eq!(tools(&roster), ["a/x", "a/y"]);
    stream.event(&note(CHANGED, &id, json!({}))).await;
    server.post("tools/list").await.result(list(&["y"])).await;
    until_changed(&mut changes, "a", ListKind::Tools).await;
    assert_eq!(tools(&roster), ["a/y"]);
    within(roster.close()).await;
}

/// wire: SUB-5, SUB-12
#[tokio::test]
async fn a_server_that_agrees_to_tell_nothing_is_not_asked_to_for_ever() {
    let mut server = HttpServer::start().await;
    let roster = Roster::new(patient());
    roster.add("a", at(&server)).unwrap();
    let (late, ()) = tokio::join!(roster.ready(), async {
        server.post("server/discover").await.result(discovered()).await;
        let list = json!({"resultType": "complete", "tools": [{"name": "x"}]});
        server.post("tools/list").await.result(list).await;
    });
    assert_eq!(late, []);
    let listen = server.post("subscriptions/listen").await;
    listen.result(json!({"resultType": "complete"})).await;
    let again = server.post("subscriptions/listen");
    let again = tokio::time::timeout(Duration::from_secs(2), again).await;
    assert!(again.is_err(), "it has said that it tells nothing");
    assert_eq!(server.waiting(|_| true), 0, "nor is anything else asked for");
    within(roster.close()).await;
}

#[tokio::test]
async fn pages_are_read_to_the_end_and_what_a_server_does_not_have_is_not_asked_for() {
    let mut server = HttpServer::start().await;
    let roster = Roster::new(patient());
    roster.add("a", at(&server)).unwrap();
    let mut hello = discovered();
    hello["capabilities"] = json!({"prompts": {}, "resources": {}});
    let (late, ()) = tokio::join!(roster.ready(), async {
        server.post("server/discover").await.result(hello).await;
        let page = json!({"resultType": "complete", "prompts": [{"name": "p"}], "nextCursor": "2"});
        server.post("prompts/list").await.result(page).await;
        let hit = server.post("prompts/list").await;
        assert_eq!(hit.message()["params"]["cursor"], "2");
        hit.result(json!({"resultType": "complete", "prompts": [{"name": "q"}]})).await;
        let found = json!({"resultType": "complete", "resources": [{"uri": "file:///r"}]});
        server.post("resources/list").await.result(found).await;
        let hit = server.post("resources/templates/list").await;
        let error = json!({"code": -32601, "message": "no templates"});
        let answer = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
        hit.json(200, &answer).await;
    });
    assert_eq!(late, []);
    let names: Vec<_> = roster
        .definitions(ListKind::Prompts)
        .iter()
        .map(|prompt| prompt.name().into_owned())
        .collect();
    assert_eq!(names, ["p", "q"]);
    assert_eq!(roster.definitions(ListKind::Resources)[0].name(), "file:///r");
    assert_eq!((roster.definitions(ListKind::Templates).len(), roster.tools().len()), (0, 0));
    assert_eq!(server.waiting(|hit| hit.message()["method"] == "tools/list"), 0);
    within(roster.close()).await;
}
