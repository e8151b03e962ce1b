//! Legacy requests without sessions, before servers of both eras.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::upstream::{ServerTarget as Target, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::script::Journal;
use switchboard_testkit::within;

use crate::client::{Client, LEGACY, Way, initialize, request};
use crate::upstream::{caller, child_bridge, fetch, journal, modern_bridge};

/// All that a server can tell of later, or remember.
fn capabilities() -> Value {
    json!({
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "tasks": {"list": {}},
        "tools": {"listChanged": true, "x": 1},
    })
}

/// What of it is of use to whoever has no session.
fn offered() -> Value {
    json!({"completions": {}, "prompts": {}, "resources": {}, "tools": {"x": 1}})
}

/// What makes sense only to whoever comes back.
const REFUSED: [&str; 7] = [
    "resources/subscribe",
    "resources/unsubscribe",
    "logging/setLevel",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
];

fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [super::MODERN],
        "capabilities": capabilities(),
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

fn bridge(server: &HttpServer, children: Children) -> Arc<Bridge> {
    let target = Target::url(server.url("/mcp"), Strategy::HttpOnly, HeaderMap::new(), fetch());
    Bridge::new(target, children, Arc::new(Limits::default()))
}

/// A client without sessions.
fn client(bridge: &Arc<Bridge>) -> Client {
    let stateless = Revision::parse(LEGACY);
    let sharing = bridge.sharing();
    let options = SiteOptions::default().stateless(stateless).sharing(sharing);
    Client::new(Way::Direct(Site::new(Arc::clone(bridge) as Arc<_>, options)))
}

/// Answers the greeting of a legacy server for one request.
async fn welcome(server: &mut HttpServer) -> Value {
    welcome_in(server, None).await
}

/// The same for one that speaks this revision, whatever it is asked for.
async fn welcome_in(server: &mut HttpServer, only: Option<&str>) -> Value {
    let hello = server.post("initialize").await;
    let said = hello.message();
    let asked = said["params"]["protocolVersion"].as_str();
    let result = json!({
        "protocolVersion": only.or(asked),
        "capabilities": capabilities(),
        "serverInfo": {"name": "far", "version": "1"},
    });
    let answer = json!({"jsonrpc": "2.0", "id": said["id"], "result": result}).to_string();
    let headers = [("content-type", "application/json"), ("mcp-session-id", "s1")];
    hello.answer(200, &headers, &answer).await;
    said
}

async fn confirmed(server: &mut HttpServer) {
    server.post("notifications/initialized").await.answer(202, &[], "").await;
}

async fn deleted(server: &mut HttpServer) {
    let delete = server.delete().await;
    assert_eq!(delete.header("mcp-session-id"), Some("s1"));
    delete.answer(204, &[], "").await;
}

async fn discover(server: &mut HttpServer) {
    server.post("server/discover").await.result(discovered()).await;
}

/// The first greeting finds out that the server is modern.
async fn find_out(server: &mut HttpServer) {
    let hello = server.post("initialize").await;
    let error = json!({"code": -32601, "message": "no such method"});
    let answer = json!({"jsonrpc": "2.0", "id": hello.message()["id"], "error": error});
    hello.json(404, &answer).await;
    discover(server).await;
    discover(server).await;
}

/// What an answer says, whether it is a stream or not.
async fn said(client: &Client, message: Value) -> Value {
    let messages = all_said(client, &message).await;
    assert_eq!(messages.len(), 1, "nothing but the answer: {messages:?}");
    messages.into_iter().next().unwrap()
}

async fn all_said(client: &Client, message: &Value) -> Vec<Value> {
    let reply = within(client.post(message)).await;
    assert_eq!(reply.status, 200);
    if reply.is_stream() { reply.messages().await } else { vec![reply.json().await] }
}

/// wire: GW-11
#[tokio::test]
async fn nobody_listens_at_a_modern_server_for_a_client_without_a_session() {
    let mut server = HttpServer::start().await;
    let bridge = bridge(&server, Children::PerSession);
    let client = client(&bridge);
    let (ping, ()) = tokio::join!(said(&client, request(1, "ping")), find_out(&mut server));
    assert_eq!(ping["result"], json!({}));
    for method in ["tools/list", "tools/call"] {
        let mut message = request(2, method);
        message["params"]["name"] = "t".into();
        let (answer, ()) = tokio::join!(said(&client, message), async {
            discover(&mut server).await;
            let call = server.post(method).await;
            let declared = &call.message()["params"]["_meta"];
            let declared = &declared["io.modelcontextprotocol/clientCapabilities"];
            assert_eq!(*declared, json!({}));
            let result = json!({"resultType": "complete", "tools": [], "content": []});
            call.result(result).await;
        });
        assert!(answer["result"]["tools"].is_array(), "{answer}");
    }
    within(bridge.close()).await;
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: GW-11
#[tokio::test]
async fn what_needs_a_session_is_not_offered_without_one() {
    let mut hello = initialize(LEGACY);
    hello["params"]["capabilities"] = json!({"elicitation": {}, "sampling": {}, "roots": {}});

    let mut server = HttpServer::start().await;
    let modern = bridge(&server, Children::PerSession);
    let greeted = client(&modern);
    let (answer, ()) = tokio::join!(said(&greeted, hello.clone()), find_out(&mut server));
    assert_eq!(answer["result"]["capabilities"], offered(), "{answer}");
    within(modern.close()).await;
    assert_eq!(server.waiting(|_| true), 0);

    let mut server = HttpServer::start().await;
    let legacy = bridge(&server, Children::PerSession);
    let greeted = client(&legacy);
    let (answer, told) = tokio::join!(said(&greeted, hello.clone()), welcome(&mut server));
    assert_eq!(answer["result"]["capabilities"], offered(), "{answer}");
    assert_eq!(told["params"]["capabilities"], json!({}), "nobody can be asked");
    assert_eq!(told["params"]["clientInfo"], hello["params"]["clientInfo"]);
    tokio::join!(within(legacy.close()), deleted(&mut server));
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: GW-11
#[tokio::test]
async fn what_would_be_remembered_is_refused_without_a_session() {
    let mut server = HttpServer::start().await;
    let bridge = bridge(&server, Children::PerSession);
    let client = client(&bridge);
    for method in REFUSED {
        let mut message = request(5, method);
        message["params"] = json!({"uri": "a://page", "level": "info", "taskId": "t"});
        let answer = said(&client, message).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32601)));
    }
    within(bridge.close()).await;
    assert_eq!(server.waiting(|_| true), 0, "the server is not troubled with it");
}

/// wire: GW-11, HTTP-23
#[tokio::test]
async fn nothing_is_left_at_a_legacy_server_and_nobody_listens_there() {
    let mut server = HttpServer::start().await;
    let bridge = bridge(&server, Children::PerSession);
    let client = client(&bridge);
    let mut call = crate::client::call(3, "t");
    call["params"]["task"] = json!({"ttl": 1000});
    let (answer, ()) = tokio::join!(said(&client, call), async {
        let hello = welcome(&mut server).await;
        assert_eq!(hello["params"]["capabilities"], json!({}));
        confirmed(&mut server).await;
        let call = server.post("tools/call").await;
        let id = call.message()["id"].clone();
        assert_eq!(call.message()["params"]["task"], Value::Null, "nobody would fetch its end");
        let mut stream = call.stream().await;
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        stream.event(&changed).await;
        let question = json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create"});
        stream.event(&question).await;
        let refused = server.supplied().await;
        assert_eq!(refused.message()["error"]["code"], -32601);
        refused.answer(202, &[], "").await;
        let result = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
        stream.event(&result).await;
    });
    assert_eq!(answer["result"]["content"], json!([]), "{answer}");
    deleted(&mut server).await;
    within(bridge.close()).await;
    assert_eq!(server.waiting(|_| true), 0);
}

fn asks(message: &Journal, method: &str) -> usize {
    message.lines().iter().filter(|line| line.ends_with(method)).count()
}

/// wire: GW-11, STD-8
#[tokio::test]
async fn a_child_of_either_era_serves_one_request_and_is_gone() {
    for era in [Era::Legacy, Era::Modern] {
        let journal = journal();
        let bridge = match era {
            Era::Legacy => child_bridge(journal.server(&[]), Children::PerSession),
            Era::Modern => {
                let server = journal.server(&["modern", "newest"]);
                modern_bridge(server, Children::PerSession)
            }
        };
        let client = client(&bridge);
        let hello = said(&client, initialize(LEGACY)).await;
        let offered = &hello["result"]["capabilities"];
        assert_eq!(*offered, json!({"resources": {}, "tools": {}}), "{era:?}");
        let mut call = crate::client::call(3, "work");
        call["params"]["arguments"] = json!({"tag": "t", "ask": era == Era::Legacy});
        let answer = said(&client, call).await;
        let content = &answer["result"]["structuredContent"];
        assert_eq!(content["tag"], "t", "{answer}");
        if era == Era::Legacy {
            assert_eq!(content["got"]["code"], -32601, "a question is refused");
        }
        journal.all_gone().await;
        for method in ["subscriptions/listen", "resources/subscribe", "logging/setLevel"] {
            assert_eq!(asks(&journal, method), 0, "{era:?}: {method}");
        }
        within(bridge.close()).await;
    }
}

/// wire: GW-11, GW-22
#[tokio::test]
async fn whoever_has_a_session_still_hears_by_the_connection_that_all_share() {
    let mut server = HttpServer::start().await;
    let bridge = bridge(&server, Children::Shared);
    let bare = client(&bridge);
    let (ping, ()) = tokio::join!(said(&bare, request(1, "ping")), find_out(&mut server));
    assert_eq!(ping["result"], json!({}));
    assert_eq!(server.waiting(|_| true), 0, "nobody listens yet");

    let mut lasting = caller(&bridge);
    lasting.greet().await;
    let listen = server.post("subscriptions/listen").await;
    let id = listen.message()["id"].clone();
    let mut stream = listen.stream().await;
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    let note = |method: &str| {
        let method = format!("notifications/{method}");
        let notifications = json!({"toolsListChanged": true});
        let params = json!({"_meta": meta, "notifications": notifications});
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    };
    stream.event(&note("subscriptions/acknowledged")).await;
    assert_eq!(said(&bare, request(2, "ping")).await["result"], json!({}));
    stream.event(&note("tools/list_changed")).await;
    lasting.told("notifications/tools/list_changed").await;
    assert_eq!(server.waiting(|_| true), 0);
    within(bridge.close()).await;
}

/// wire: GW-11, HTTP-3, HTTP-26, MSG-8
#[tokio::test]
async fn a_request_without_a_session_speaks_the_revision_of_its_header() {
    let one = request(7, "tools/list");
    let two = json!([request(7, "tools/list"), request(8, "resources/subscribe")]);
    // Clients that send several at once are older than the header.
    for (named, body, greeted, only) in [
        (None, &one, LEGACY, None),
        (Some("2025-06-18"), &one, "2025-06-18", None),
        (Some("2025-03-26"), &two, "2025-03-26", None),
        (None, &two, "2025-03-26", None),
        (None, &two, "2025-03-26", Some("2025-06-18")),
    ] {
        let mut server = HttpServer::start().await;
        let bridge = bridge(&server, Children::PerSession);
        let client = Client { version: named, ..client(&bridge) };
        let (answers, ()) = tokio::join!(all_said(&client, body), async {
            let hello = welcome_in(&mut server, only).await;
            assert_eq!(hello["params"]["protocolVersion"], greeted, "{named:?}");
            confirmed(&mut server).await;
            server.post("tools/list").await.result(json!({"tools": []})).await;
        });
        let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id);
        assert_eq!(answer(7).unwrap()["result"]["tools"], json!([]), "{answers:?}");
        if body.is_array() {
            assert_eq!(answer(8).unwrap()["error"]["code"], -32601, "{answers:?}");
        }
        deleted(&mut server).await;
        within(bridge.close()).await;
    }
}

/// wire: GW-11
#[tokio::test]
async fn what_wants_no_answer_goes_nowhere_without_a_session() {
    let mut server = HttpServer::start().await;
    let bridge = bridge(&server, Children::PerSession);
    let client = client(&bridge);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    for message in [note.clone(), answer, json!([note, note])] {
        assert_eq!(within(client.post(&message)).await.status, 202);
    }
    within(bridge.close()).await;
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: GW-11, GW-81
#[tokio::test]
async fn one_request_without_a_session_is_one_child_for_whoever_wants_one_for_each_call() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerRequest);
    let client = client(&bridge);
    let answer = said(&client, crate::client::call(3, "pid")).await;
    assert!(answer["result"]["structuredContent"]["pid"].is_u64(), "{answer}");
    assert_eq!(journal.pids().len(), 1);
    journal.all_gone().await;
    within(bridge.close()).await;
}
