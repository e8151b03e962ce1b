//! Rules of the way between the eras that need a wire to be seen.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::backend::Backend;
use switchboard_net::bridge::Bridge;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{Context, Server, Tool};
use switchboard_net::upstream::Strategy;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};
use switchboard_testkit::http::{Hit, HttpServer};
use switchboard_testkit::within;
use tokio::sync::Notify;

use super::{MODERN, able, bridge_to, builder, host, text};
use crate::client::{Client, LEGACY, Way, call, request};
use crate::upstream::{before, child_bridge, fetch, journal};

/// Answers are plain JSON, however long a child takes to start.
fn unhurried() -> SiteOptions {
    let limits = Limits { stream_after: Duration::from_mins(1), ..Limits::default() };
    SiteOptions::default().limits(limits)
}

/// A site before a bridge to a server of one era.
async fn before_site(server: Arc<Server>) -> (Arc<Bridge>, Way) {
    let limits = Arc::new(Limits::default());
    let url = host(server as Arc<dyn Backend>, Arc::clone(&limits)).await;
    let bridge = bridge_to(url, limits);
    let site = Site::new(Arc::clone(&bridge) as Arc<dyn Backend>, unhurried());
    (bridge, Way::Direct(site))
}

/// Answers a legacy greeting as a modern-only server does, and then what it is asked.
async fn refuse_greeting(server: &mut HttpServer) {
    let hello = server.post("initialize").await;
    let data = json!({"supported": [MODERN], "requested": LEGACY});
    let error = json!({"code": -32022, "message": "no", "data": data});
    let answer = json!({"jsonrpc": "2.0", "id": hello.message()["id"], "error": error});
    hello.json(400, &answer).await;
    let about = json!({"supportedVersions": [MODERN], "capabilities": {"tools": {}}});
    server.post("server/discover").await.result(about).await;
}

fn refuse(hit: &Hit, code: i32) -> Value {
    let error = json!({"code": code, "message": "header missing"});
    json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error})
}

/// wire: GW-13, GW-29, HDR-12
#[tokio::test]
async fn headers_that_a_modern_server_wants_are_made_for_a_legacy_client() {
    let mut server = HttpServer::start().await;
    let (bridge, mut client) = before(&server, Strategy::HttpOnly);
    tokio::join!(client.greet(), refuse_greeting(&mut server));
    let params = json!({"name": "t", "arguments": {"region": "eu"}});
    let id = client.ask("tools/call", params).await;
    let first = server.post("tools/call").await;
    assert_eq!(first.header("mcp-name"), Some("t"));
    assert_eq!(first.header("mcp-param-region"), None);
    let refused = refuse(&first, -32020);
    first.json(400, &refused).await;
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    let schema = json!({"type": "object", "properties": {"region": region}});
    let tools = json!([{"name": "t", "inputSchema": schema}]);
    server.post("tools/list").await.result(json!({"tools": tools})).await;
    let again = server.post("tools/call").await;
    assert_eq!(again.header("mcp-param-region"), Some("eu"));
    again.result(json!({"content": [{"type": "text", "text": "ok"}]})).await;
    assert_eq!(text(&client.answer(id).await), "ok");
    within(bridge.close()).await;
}

/// wire: GW-25, HTTP-3
#[tokio::test]
async fn a_batch_is_split_for_a_modern_server() {
    let server = builder(Some(Era::Modern)).build().unwrap();
    let (_bridge, way) = before_site(server).await;
    let client = Client::ready(way, "2025-03-26").await;
    let batch = json!([call(1, "report"), request("2", "tools/list"), request(3, "ping")]);
    let mut answers = client.post(&batch).await.messages().await;
    answers.retain(|answer| answer.get("id").is_some());
    answers.sort_by_key(|answer| answer["id"].to_string());
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!("2"), json!(1), json!(3)]);
    assert_eq!(text(&answers[1]), "Modern");
    assert!(answers.iter().all(|answer| answer["result"].is_object()), "{answers:?}");
}

/// wire: GW-18, GW-26, HTTP-18
#[tokio::test]
async fn a_legacy_client_resumes_what_a_modern_server_cannot() {
    let gate = Arc::new(Notify::new());
    let waits = Arc::clone(&gate);
    let slow = Tool::new("slow").run(move |_: Value, cx: Context| {
        let gate = Arc::clone(&waits);
        async move {
            cx.progress(1.0, None, None);
            gate.notified().await;
            "at last"
        }
    });
    let modern: Vec<_> = Revision::ALL.into_iter().filter(|it| it.era() == Era::Modern).collect();
    let server = Server::builder("far", "1").only(&modern).tool(slow).build().unwrap();
    let (bridge, way) = before_site(server).await;
    let client = Client::ready(way, LEGACY).await;
    let mut message = call(7, "slow");
    message["params"]["_meta"] = json!({"progressToken": 1});
    let mut reply = client.post(&message).await;
    let (progress, last) = loop {
        let (message, last) = reply.message().await;
        if message["method"] == "notifications/progress" {
            break (message, last);
        }
    };
    assert_eq!(progress["params"]["progress"], 1.0);
    // Hanging up is no cancelling.
    drop(reply);
    assert_eq!(bridge.calls(), 1);
    gate.notify_one();
    let rest = client.listen(last.as_deref()).await.messages().await;
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &json!(7)));
    assert_eq!(text(&rest[0]), "at last");
}

/// What a legacy server remembers is shared by who is alike, and by nobody else.
///
/// wire: GW-41, GW-42
#[tokio::test]
async fn modern_requests_share_a_legacy_session_if_they_are_alike() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), switchboard_net::bridge::Children::PerSession);
    let site = Site::new(Arc::clone(&bridge) as Arc<dyn Backend>, unhurried());
    let client = Client::modern(Way::Direct(site));
    let pid = async |token: &str, capabilities: Value| {
        let mut message = call(1, "pid");
        message["params"] = able(message["params"].clone());
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let request = client.posting(&message).header("authorization", token);
        let reply = within(client.send(request, message.to_string())).await;
        reply.json().await["result"]["structuredContent"]["pid"].clone()
    };
    let ann = pid("Bearer ann", json!({})).await;
    assert!(ann.is_u64());
    assert_eq!(ann, pid("Bearer ann", json!({})).await);
    assert_ne!(ann, pid("Bearer ann", json!({"roots": {}})).await);
    assert_ne!(ann, pid("Bearer bob", json!({})).await);
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// What somebody says to be able to do starts no more than a few processes, and
/// keeps nobody else out.
///
/// wire: GW-41
#[tokio::test]
async fn whoever_says_something_else_each_time_has_a_bound_of_their_own() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), switchboard_net::bridge::Children::PerSession);
    let site = Site::new(Arc::clone(&bridge) as Arc<dyn Backend>, unhurried());
    let client = Client::modern(Way::Direct(site));
    let pid = async |token: &str, mark: u64| {
        let mut message = call(1, "pid");
        message["params"] = able(message["params"].clone());
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"experimental": {"mark": {"at": mark}}});
        let request = client.posting(&message).header("authorization", token);
        let reply = within(client.send(request, message.to_string())).await;
        reply.json().await["result"]["structuredContent"]["pid"].clone()
    };
    let bob = pid("Bearer bob", 0).await;
    let first = pid("Bearer ann", 0).await;
    for mark in 1..20 {
        assert!(pid("Bearer ann", mark).await.is_u64(), "{mark}");
    }
    assert_ne!(first, pid("Bearer ann", 0).await, "the first has made room for another");
    assert_eq!(bob, pid("Bearer bob", 0).await, "his was not touched");
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: GW-84
#[tokio::test]
async fn no_header_of_a_client_goes_on_to_the_server() {
    for era in [Era::Legacy, Era::Modern] {
        let mut server = HttpServer::start().await;
        let headers = http::HeaderMap::new();
        let target = switchboard_net::upstream::ServerTarget::url(
            server.url("/mcp"),
            Strategy::HttpOnly,
            headers,
            fetch(),
        );
        let target = target.speaking(era);
        let children = switchboard_net::bridge::Children::PerSession;
        let bridge = Bridge::new(target, children, Arc::new(Limits::default()));
        let site = Site::new(Arc::clone(&bridge) as Arc<dyn Backend>, unhurried());
        let client = Client::modern(Way::Direct(site));
        let mut message = call(1, "t");
        message["params"] = able(message["params"].clone());
        let request = client.posting(&message);
        let request = request.header("authorization", "Bearer s").header("x-own", "1");
        let request = request.header("cookie", "c=1").header("mcp-own", "1");
        let _asking = tokio::spawn(async move { client.send(request, message.to_string()).await });
        let hit = match era {
            Era::Legacy => {
                server.post("server/discover").await.answer(400, &[], "").await;
                server.post("initialize").await
            }
            Era::Modern => server.post("tools/call").await,
        };
        for name in ["authorization", "x-own", "cookie", "mcp-own"] {
            assert_eq!(hit.header(name), None, "{name}, {era:?}");
        }
    }
}
