//! Results that are kept, and those that are not.

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use switchboard_net::client::{
    CallError, ClientOptions, ConnectError, ListenFilter, ResponseCache,
};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::failure::Failure;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;

use super::{discovered, modern};
use crate::upstream::fetch;

fn keeping() -> ClientOptions {
    ClientOptions::default().cache(ResponseCache::new(1 << 20))
}

fn page(name: &str, next: Option<&str>, scope: &str) -> Value {
    let mut page = json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": scope});
    page["tools"] = json!([{"name": name, "inputSchema": {}}]);
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    page
}

fn names(tools: Result<Vec<Value>, CallError>) -> Vec<String> {
    let tools = tools.unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// wire: CACHE-2, CACHE-5, DISC-4
#[tokio::test]
async fn a_list_is_not_asked_for_again_until_it_changes() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, keeping()).await;
    let (first, ()) = tokio::join!(client.tools(), async {
        server.post("tools/list").await.result(page("a", None, "private")).await;
    });
    assert_eq!(names(first), ["a"]);
    assert_eq!(names(within(client.tools()).await), ["a"]);
    // Whether the server is there cannot be kept.
    let (pinged, ()) = tokio::join!(client.ping(), async {
        server.post("server/discover").await.result(discovered()).await;
    });
    pinged.unwrap();
    let filter = ListenFilter { tools: true, ..ListenFilter::default() };
    let (listening, mut stream) = tokio::join!(client.listen(filter), async {
        let hit = server.post("subscriptions/listen").await;
        let meta = json!({"io.modelcontextprotocol/subscriptionId": hit.message()["id"]});
        let mut stream = hit.stream().await;
        for method in
            ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
        {
            let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
            stream.event(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
        }
        stream
    });
    within(listening.unwrap().next()).await.unwrap();
    let (again, ()) = tokio::join!(client.tools(), async {
        server.post("tools/list").await.result(page("b", None, "private")).await;
    });
    assert_eq!(names(again), ["b"]);
    stream.write("").await;
}

/// wire: CACHE-3, CACHE-6
#[tokio::test]
async fn clients_that_share_a_cache_share_what_is_public_and_nothing_else() {
    let mut server = HttpServer::start().await;
    let cache = ResponseCache::new(1 << 20);
    let target = |token: &'static str| {
        let token = HeaderValue::from_static(token);
        let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, token)]);
        ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, headers, fetch())
    };
    let targets = ["Bearer one", "Bearer two", "Bearer none"].map(target);
    let options = || ClientOptions::default().cache(cache.clone());
    let mut clients = Vec::new();
    for target in &targets[..2] {
        let (client, ()) = tokio::join!(options().connect(target.clone()), async {
            server.post("server/discover").await.result(discovered()).await;
        });
        clients.push(client.unwrap());
    }
    let [one, two] = &clients[..] else { panic!("two clients") };
    for scope in ["private", "public"] {
        cache.clear();
        let (first, ()) = tokio::join!(one.tools(), async {
            server.post("tools/list").await.result(page("one's", None, scope)).await;
        });
        assert_eq!(names(first), ["one's"]);
        assert_eq!(names(within(one.tools()).await), ["one's"]);
        if scope == "public" {
            assert_eq!(names(within(two.tools()).await), ["one's"]);
            continue;
        }
        let (other, ()) = tokio::join!(two.tools(), async {
            let hit = server.post("tools/list").await;
            assert_eq!(hit.header("authorization"), Some("Bearer two"));
            hit.result(page("two's", None, scope)).await;
        });
        assert_eq!(names(other), ["two's"]);
    }
    // What is kept lets nobody in.
    let (refused, ()) = tokio::join!(options().connect(targets[2].clone()), async {
        server.post("server/discover").await.answer(401, &[], "who").await;
    });
    let refused = refused.unwrap_err();
    assert!(matches!(
        refused,
        ConnectError::Failed(CallError::Failed(Failure::HttpStatus { status: 401, .. }))
    ));
}

/// wire: CACHE-4
#[tokio::test]
async fn a_kept_page_that_leads_nowhere_is_forgotten_with_its_list() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, keeping()).await;
    let (first, ()) = tokio::join!(client.tools(), async {
        server.post("tools/list").await.result(page("a", Some("2"), "private")).await;
        let mut last = page("b", None, "private");
        last["ttlMs"] = 0.into();
        server.post("tools/list").await.result(last).await;
    });
    assert_eq!(names(first), ["a", "b"]);
    let (again, ()) = tokio::join!(client.tools(), async {
        // The first page was kept; the cursor on it is not known any more.
        let hit = server.post("tools/list").await;
        assert_eq!(hit.message()["params"]["cursor"], "2");
        let error = json!({"code": -32602, "message": "no such cursor"});
        let id = hit.message()["id"].clone();
        hit.json(200, &json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
        let hit = server.post("tools/list").await;
        assert_eq!(hit.message()["params"].get("cursor"), None);
        hit.result(page("c", None, "private")).await;
    });
    assert_eq!(names(again), ["c"]);
}

/// wire: MRTR-12
#[tokio::test]
async fn what_took_questions_is_not_kept() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, keeping()).await;
    let kept =
        json!({"resultType": "complete", "contents": [], "ttlMs": 60_000, "cacheScope": "private"});
    let rounds = [true, true, false];
    for (at, asks) in rounds.into_iter().enumerate() {
        let (read, ()) = tokio::join!(client.read("file:///a"), async {
            if asks {
                let hit = server.post("resources/read").await;
                let asking = json!({"resultType": "input_required", "requestState": "s"});
                hit.result(asking).await;
            }
            let hit = server.post("resources/read").await;
            assert_eq!(hit.message()["params"].get("requestState").is_some(), asks, "{at}");
            hit.result(kept.clone()).await;
        });
        read.unwrap();
    }
    // The last one was given without.
    within(client.read("file:///a")).await.unwrap();
    // Nor is it looked for by who brings a state along.
    let params = json!({"uri": "file:///a", "requestState": "mine"});
    let (read, ()) = tokio::join!(client.request("resources/read", params), async {
        server.post("resources/read").await.result(kept.clone()).await;
    });
    read.unwrap();
}
