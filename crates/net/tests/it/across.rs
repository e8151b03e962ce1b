//! Clients of one era and servers of the other, with a bridge between them and
//! sockets on the way.

mod bare;
mod child;
mod ear;
mod fault;
mod forgotten;
mod old;
mod rule;
mod session;
mod shared;
mod state;
mod task;

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::backend::Backend;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::http::listen::{ListenOptions, serve};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{
    Builder, Context, Elicited, Error, Level, Resource, Server, Tool, ToolResult,
};
use switchboard_net::upstream::{ServerTarget as Target, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};
use switchboard_testkit::caller::Caller;
use tokio::net::TcpListener;

use crate::upstream::{caller, fetch};

pub(super) const MODERN: &str = "2026-07-28";

/// A server with a tool for each thing that crosses.
pub(super) fn builder(era: Option<Era>) -> Builder {
    let name = Tool::new("name").run(async |_: Value, cx: Context| {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        Ok::<_, Error>(match cx.elicit("Name?", schema).await? {
            Elicited::Accept(content) => format!("Hello, {}!", content["name"]),
            other => format!("{other:?}"),
        })
    });
    let both = Tool::new("both").run(async |_: Value, cx: Context| {
        let sample = json!({"messages": [], "maxTokens": 5});
        let (roots, sampled) = tokio::join!(cx.roots(), cx.sample(sample));
        Ok::<_, Error>(format!("{} {}", roots?.len(), sampled?["model"]))
    });
    let report = Tool::new("report").run(async |_: Value, cx: Context| {
        cx.progress(1.0, None, None);
        cx.log(Level::Info, None, json!("on it"));
        format!("{:?}", cx.era())
    });
    let list = Tool::new("list").run(async |_: Value, _| ToolResult::structured([1, 2]));
    let mut builder = Server::builder("far", "1").instructions("Be kind.");
    if let Some(era) = era {
        let spoken: Vec<_> = Revision::ALL.into_iter().filter(|it| it.era() == era).collect();
        builder = builder.only(&spoken);
    }
    let page = Resource::text("a://page", "page", "text/plain", "words");
    builder.tool(name).tool(both).tool(report).tool(list).resource(page)
}

/// Serves whatever it is at a URL.
pub(super) async fn host(backend: Arc<dyn Backend>, limits: Arc<Limits>) -> http::Uri {
    host_site(Site::new(backend, SiteOptions::default().limits(limits))).await
}

pub(super) async fn host_site(site: Site) -> http::Uri {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // A test holds a thousand calls open, each on a connection of its own.
    let options = ListenOptions::default().max_connections(4096);
    tokio::spawn(serve(listener, site, options, std::future::pending()));
    format!("http://{address}/mcp").parse().unwrap()
}

pub(super) fn bridge_to(url: http::Uri, limits: Arc<Limits>) -> Arc<Bridge> {
    let target = Target::url(url, Strategy::HttpFirst, HeaderMap::new(), fetch());
    Bridge::new(target, Children::PerSession, limits)
}

/// A client in front of a bridge to a server that speaks only this era, and the server.
async fn meet(era: Option<Era>) -> (Arc<Server>, Arc<Bridge>, Caller) {
    let server = builder(era).build().unwrap();
    let limits = Arc::new(Limits::default());
    let url = host(Arc::clone(&server) as Arc<dyn Backend>, Arc::clone(&limits)).await;
    let bridge = bridge_to(url, limits);
    let caller = caller(&bridge);
    (server, bridge, caller)
}

/// The parameters of a modern call of a client that can do everything.
pub(crate) fn able(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {}, "sampling": {}, "roots": {}});
    params
}

pub(super) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// wire: GW-10, GW-12, GW-14, GW-16, GW-70
#[tokio::test]
async fn a_legacy_client_calls_a_modern_server_and_is_asked_by_requests() {
    let (_server, _bridge, mut client) = meet(Some(Era::Modern)).await;
    let welcome = &client.greet().await["result"];
    assert_eq!(welcome["protocolVersion"], "2025-11-25");
    assert_eq!(welcome["serverInfo"]["name"], "far");
    assert_eq!(welcome["instructions"], "Be kind.");
    assert!(welcome["capabilities"]["tools"].is_object());
    assert!(welcome.get("resultType").is_none() && welcome.get("supportedVersions").is_none());

    let id = client.ask("tools/call", json!({"name": "name"})).await;
    let question = client.told("elicitation/create").await;
    assert_eq!(question["params"]["message"], "Name?");
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
    assert_eq!(text(&client.answer(id).await), "Hello, \"Ann\"!");

    let id = client.ask("tools/call", json!({"name": "both"})).await;
    let (roots, sample) =
        (client.told("roots/list").await, client.told("sampling/createMessage").await);
    let model = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": ""}});
    client.send(&json!({"jsonrpc": "2.0", "id": sample["id"], "result": model})).await;
    client.send(&json!({"jsonrpc": "2.0", "id": roots["id"], "result": {"roots": []}})).await;
    assert_eq!(text(&client.answer(id).await), "0 \"m\"");

    let id = client.ask("tools/call", json!({"name": "both"})).await;
    let refused = client.told("roots/list").await;
    let error = json!({"code": -1, "message": "not here"});
    client.send(&json!({"jsonrpc": "2.0", "id": refused["id"], "error": error})).await;
    let failed = client.answer(id).await;
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    assert!(text(&failed).contains("not here"), "{failed}");

    let listed = client.call("tools/call", json!({"name": "list"})).await;
    assert_eq!(listed["result"]["structuredContent"], json!({"result": [1, 2]}));
    assert!(listed["result"].get("resultType").is_none());
}

/// wire: GW-20, GW-21, GW-22, GW-23, GW-24
#[tokio::test]
async fn a_legacy_client_hears_what_a_modern_server_says_to_who_listens() {
    let (server, _bridge, mut client) = meet(Some(Era::Modern)).await;
    client.greet().await;
    assert_eq!(client.call("ping", json!({})).await["result"], json!({}));
    client.note("notifications/roots/list_changed", json!({})).await;
    let watched = client.call("resources/subscribe", json!({"uri": "a://page"})).await;
    assert_eq!(watched["result"], json!({}));
    server.resource_updated("a://page");
    let update = client.told("notifications/resources/updated").await;
    assert_eq!(update["params"], json!({"uri": "a://page"}));
    server.tools_changed();
    let changed = client.told("notifications/tools/list_changed").await;
    assert!(changed.get("params").is_none(), "{changed}");
    let left = client.call("resources/unsubscribe", json!({"uri": "a://page"})).await;
    assert_eq!(left["result"], json!({}));

    let silent = client.call("tools/call", json!({"name": "report"})).await;
    assert_eq!(text(&silent), "Modern");
    assert!(client.early().iter().all(|it| it["method"] != "notifications/message"));
    client.call("logging/setLevel", json!({"level": "info"})).await;
    let report = json!({"name": "report", "_meta": {"progressToken": "t"}});
    client.call("tools/call", report).await;
    assert_eq!(client.told("notifications/message").await["params"]["data"], "on it");
    assert_eq!(client.told("notifications/progress").await["params"]["progressToken"], "t");
    let wrong = client.call("logging/setLevel", json!({"level": "loud"})).await;
    assert_eq!(wrong["error"]["code"], -32602);
}

/// wire: GW-40, GW-41, GW-43, GW-44, GW-45, MRTR-5
#[tokio::test]
async fn a_modern_client_calls_a_legacy_server_and_comes_back_with_answers() {
    let (_server, _bridge, mut client) = meet(Some(Era::Legacy)).await;
    let hello = client.call("server/discover", able(json!({}))).await;
    let hello = &hello["result"];
    assert_eq!(hello["supportedVersions"], json!([MODERN]));
    assert_eq!(hello["instructions"], "Be kind.");
    assert_eq!(hello["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "far");
    assert_eq!((&hello["ttlMs"], &hello["cacheScope"]), (&json!(0), &json!("private")));
    assert!(hello["capabilities"].get("tasks").is_none());

    let call = json!({"name": "both"});
    let asked = client.call("tools/call", able(call.clone())).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(questions.len(), 2, "questions close together share a round: {asked}");
    let answers = questions.iter().map(|(key, question)| {
        let answer = match question["method"].as_str().unwrap() {
            "roots/list" => json!({"roots": [{"uri": "file:///r"}]}),
            _ => {
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": ""}})
            }
        };
        (key.clone(), answer)
    });
    let mut retry = able(call);
    retry["inputResponses"] = answers.collect::<serde_json::Map<_, _>>().into();
    retry["requestState"] = asked["result"]["requestState"].clone();
    let answer = client.call("tools/call", retry).await;
    assert_eq!(text(&answer), "1 \"m\"");
    assert_eq!(answer["result"]["resultType"], "complete");

    let missing = client.call("resources/read", able(json!({"uri": "a://nothing"}))).await;
    assert_eq!(missing["error"]["code"], -32602, "{missing}");
    assert_eq!(missing["error"]["data"]["uri"], "a://nothing");
    let removed = client.call("ping", able(json!({}))).await;
    assert_eq!(removed["error"]["code"], -32601);
}

/// wire: GW-51, GW-54, GW-55, SUB-3, SUB-4, LOG-1
#[tokio::test]
async fn a_modern_client_listens_at_a_legacy_server() {
    let (server, _bridge, mut client) = meet(Some(Era::Legacy)).await;
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://page"]});
    let id = client.ask("subscriptions/listen", able(json!({"notifications": wanted}))).await;
    let ack = client.told("notifications/subscriptions/acknowledged").await;
    assert_eq!(ack["params"]["notifications"], wanted);
    assert_eq!(ack["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    server.resource_updated("a://page");
    let update = client.told("notifications/resources/updated").await;
    assert_eq!(update["params"]["uri"], "a://page");
    assert_eq!(update["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    server.tools_changed();
    client.told("notifications/tools/list_changed").await;

    let silent = client.call("tools/call", able(json!({"name": "report"}))).await;
    assert_eq!(text(&silent), "Legacy");
    let mut report = able(json!({"name": "report"}));
    report["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into();
    report["_meta"]["progressToken"] = 7.into();
    client.call("tools/call", report).await;
    assert_eq!(client.told("notifications/message").await["params"]["data"], "on it");
    assert_eq!(client.told("notifications/progress").await["params"]["progressToken"], 7);
    let more = client.early().iter().filter(|it| it["method"] == "notifications/message");
    assert_eq!(more.count(), 0, "only who asked for them gets log records");
}

/// wire: GW-54, LOG-1
#[tokio::test]
async fn log_records_of_a_legacy_server_are_for_the_request_that_asks_for_them() {
    let later = Tool::new("later").run(async |_: Value, cx: Context| {
        cx.log(Level::Info, None, json!("before"));
        cx.roots().await?;
        cx.log(Level::Info, None, json!("between"));
        cx.roots().await?;
        cx.log(Level::Info, None, json!("after"));
        Ok::<_, Error>("done")
    });
    let server = builder(Some(Era::Legacy)).tool(later).build().unwrap();
    let limits = Arc::new(Limits::default());
    let url = host(server as Arc<dyn Backend>, Arc::clone(&limits)).await;
    let mut client = caller(&bridge_to(url, limits));
    let mut call = able(json!({"name": "later"}));
    for level in [json!("info"), Value::Null] {
        let asked = client.call("tools/call", call.clone()).await["result"].clone();
        let (key, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        call["inputResponses"] = json!({key: {"roots": []}});
        call["requestState"] = asked["requestState"].clone();
        call["_meta"]["io.modelcontextprotocol/logLevel"] = level;
    }
    assert_eq!(text(&client.call("tools/call", call).await), "done");
    let logs = client.early().iter().filter(|it| it["method"] == "notifications/message");
    let logs: Vec<_> = logs.map(|log| log["params"]["data"].clone()).collect();
    assert_eq!(logs, ["between"]);
}

/// wire: GW-1
#[tokio::test]
async fn a_server_of_both_eras_is_spoken_to_in_the_clients_own() {
    let (_server, bridge, mut legacy) = meet(None).await;
    legacy.greet().await;
    let report = json!({"name": "report"});
    assert_eq!(text(&legacy.call("tools/call", report.clone()).await), "Legacy");
    let mut modern = caller(&bridge);
    assert_eq!(text(&modern.call("tools/call", able(report)).await), "Modern");
}
