//! A child served over HTTP: both ends of the wire are sockets or pipes.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::http::listen::{ListenOptions, serve};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::LEGACY;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::script::{gone, runs};
use switchboard_testkit::within;
use tokio::net::TcpListener;

use crate::upstream::{child_bridge, enveloped, fetch, journal, modern_bridge};

/// A client of a site that knows just enough HTTP.
struct Browser {
    fetch: Fetch,
    url: http::Uri,
    session: Option<http::HeaderValue>,
}

async fn site(bridge: &Arc<Bridge>) -> http::Uri {
    let backend = Arc::clone(bridge);
    let site = Site::new(backend, SiteOptions::default().sharing(bridge.sharing()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, site, ListenOptions::default(), std::future::pending()));
    format!("http://{address}/mcp").parse().unwrap()
}

impl Browser {
    fn new(url: &http::Uri) -> Self {
        Self { fetch: fetch(), url: url.clone(), session: None }
    }

    fn request(&self, method: Method, body: String) -> Request<Bytes> {
        let mut request = Request::builder().method(method).uri(self.url.clone());
        request = request.header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        request.body(body.into()).unwrap()
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = self.request(Method::POST, body.to_string());
        let version = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        if let Some(version) = version {
            let headers = request.headers_mut();
            headers.insert("mcp-protocol-version", version.parse().unwrap());
            headers.insert("mcp-method", method.parse().unwrap());
            let name = params["name"].as_str().unwrap_or_default();
            headers.insert("mcp-name", name.parse().unwrap());
        }
        let response = within(self.fetch.send(request)).await.unwrap();
        let session = response.headers().get("mcp-session-id");
        self.session = session.or(self.session.as_ref()).cloned();
        let text = within(response.into_body().collect()).await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(last.unwrap_or(&text)).unwrap()
    }

    async fn greet(&mut self) {
        let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}});
        self.call("initialize", params).await;
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        let response = within(self.fetch.send(self.request(Method::POST, note))).await.unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
    }

    async fn pid(&mut self) -> u32 {
        let answer = self.call("tools/call", json!({"name": "pid"})).await;
        let pid = answer["result"]["structuredContent"]["pid"].as_u64();
        pid.unwrap_or_else(|| panic!("{answer}")).try_into().unwrap()
    }
}

/// wire: GW-81, HTTP-23
#[tokio::test]
async fn each_http_session_has_a_child_that_ends_when_it_is_deleted() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let url = site(&bridge).await;
    let (mut one, mut two) = (Browser::new(&url), Browser::new(&url));
    one.greet().await;
    two.greet().await;
    let (first, second) = (one.pid().await, two.pid().await);
    assert_ne!(first, second);
    let deleted = within(one.fetch.send(one.request(Method::DELETE, String::new()))).await;
    assert_eq!(deleted.unwrap().status(), StatusCode::NO_CONTENT);
    gone(first).await;
    assert!(runs(second));
    assert_eq!(two.pid().await, second);
    within(bridge.close()).await;
    assert!(!runs(second));
}

/// wire: GW-81, MH-8
#[tokio::test]
async fn modern_requests_share_a_child_and_hanging_up_cancels_just_one() {
    let journal = journal();
    let bridge = modern_bridge(journal.server(&[]), Children::PerSession);
    let url = site(&bridge).await;
    let mut waiting = Browser::new(&url);
    let wait = enveloped(json!({"name": "wait", "arguments": {"tag": "w"}}));
    let call = tokio::spawn(async move { waiting.call("tools/call", wait).await });
    journal.saw("waiting w").await;
    let echo = enveloped(json!({"name": "echo", "arguments": {"k": 1}}));
    let answer = Browser::new(&url).call("tools/call", echo.clone()).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"k": 1}));
    assert!(!journal.lines().iter().any(|line| line.contains("cancelled")));
    call.abort();
    journal.saw("cancelled").await;
    // The child reads in order: a second notice would come before these calls.
    for _ in 0..2 {
        let answer = Browser::new(&url).call("tools/call", echo.clone()).await;
        assert_eq!(answer["result"]["structuredContent"], json!({"k": 1}));
    }
    assert_eq!(journal.pids().len(), 1);
    let cancelled = journal.lines().iter().filter(|line| line.starts_with("cancelled")).count();
    assert_eq!(cancelled, 1);
    within(bridge.close()).await;
}

/// wire: HTTP-9, UTL-1
#[tokio::test]
async fn the_stream_of_a_cancelled_call_ends_as_the_servers_does() {
    let mut server = HttpServer::start().await;
    let target =
        ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, http::HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::new(Limits::default()));
    let url = site(&bridge).await;
    let mut browser = Browser::new(&url);
    tokio::join!(browser.greet(), server.greet_only(Some("s1"), LEGACY));
    for answers in [true, false] {
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}});
        let request = browser.request(Method::POST, body.to_string());
        let fetch = browser.fetch.clone();
        let call = tokio::spawn(async move {
            fetch.send(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
        });
        if answers {
            // The first call begins to listen.
            server.get().await.answer(405, &[], "").await;
        }
        let hit = server.post("tools/call").await;
        let id = hit.message()["id"].clone();
        let mut stream = hit.stream().await;
        let params = json!({"requestId": 1});
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        let cancel = browser.request(Method::POST, body.to_string());
        let cancelled = within(browser.fetch.send(cancel)).await.unwrap();
        assert_eq!(cancelled.status(), StatusCode::ACCEPTED);
        server.post("notifications/cancelled").await.answer(202, &[], "").await;
        if answers {
            stream.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"k": 1}})).await;
        }
        drop(stream);
        let said = String::from_utf8(within(call).await.unwrap().to_vec()).unwrap();
        assert_eq!(said.contains("\"result\":{\"k\":1}"), answers, "{said}");
        assert!(!said.contains("error"), "{said}");
    }
    within(bridge.close()).await;
}

#[tokio::test]
async fn a_megabyte_passes_from_http_to_a_child_and_back() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let mut client = Browser::new(&site(&bridge).await);
    client.greet().await;
    let text = "x".repeat(1 << 20);
    let params = json!({"name": "echo", "arguments": {"text": text}});
    let answer = client.call("tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"]["text"], text);
    within(bridge.close()).await;
}
