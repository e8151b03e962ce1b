//! Sites with a key, with headers of their own, without sessions, without an era.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use serde_json::json;
use switchboard_net::access::ApiKey;
use switchboard_net::access::{Guard, Regex};
use switchboard_net::http::page::{LivePage, PageReply, PageVisit};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::http::site::{SitePage, Sites};
use switchboard_proto::revision::Revision;

use super::{direct, start};
use crate::client::{Client, LEGACY, call, enveloped, initialize, initialized, request};
use crate::script::Stage;

fn stateless() -> SiteOptions {
    SiteOptions::default().stateless(Revision::parse(LEGACY))
}

#[tokio::test]
async fn without_sessions_each_request_is_greeted_for_and_forgotten() {
    let mut set = start(stateless()).await;
    let client = Client::new(set.way.clone());
    let hello = client.post(&initialize(LEGACY)).await;
    assert_eq!((hello.status.as_u16(), hello.header("mcp-session-id")), (200, None));
    assert_eq!(hello.json().await["result"]["serverInfo"]["name"], "script");
    set.stage.forgot(1).await;
    assert_eq!(client.post(&initialized()).await.status, 202);
    let message = call(7, "t");
    let (reply, ()) = tokio::join!(client.post(&message), async {
        assert_eq!(set.stage.noted().await.1, "notifications/initialized");
        set.stage.call().await.finish(&json!({"done": true}));
    });
    let answer = reply.json().await;
    assert_eq!((&answer["id"], &answer["result"]["done"]), (&json!(7), &json!(true)));
    set.stage.forgot(2).await;
    let with_session = client.posting(&request(8, "tools/list")).header("mcp-session-id", "stale");
    let body = request(8, "tools/list").to_string();
    assert_eq!(client.send(with_session, body).await.status, 200);
    assert_eq!(set.site.sessions(), 0);
    set.stopped().await;
}

#[tokio::test]
async fn without_sessions_a_call_may_stream_and_there_is_nothing_to_listen_to() {
    let mut set = start(stateless()).await;
    let client = Client::new(set.way.clone());
    let message = call(7, "t");
    let (reply, ()) = tokio::join!(client.post(&message), async {
        set.stage.noted().await;
        let call = set.stage.call().await;
        call.note("notifications/progress", &json!({"progress": 1}));
        call.finish(&json!({}));
    });
    assert!(reply.is_stream());
    assert_eq!(reply.messages().await.len(), 2);
    set.stage.forgot(1).await;
    assert_eq!(client.listen(None).await.status, 405);
    assert_eq!(client.delete().await.status, 405);
    set.stopped().await;
}

/// wire: HTTP-10, GW-11
#[tokio::test(start_paused = true)]
async fn without_sessions_there_is_nothing_to_come_back_to() {
    let hang_up = Duration::from_secs(20);
    let mut set = direct(stateless().hang_up(hang_up));
    let client = Client::new(set.way.clone());
    let message = call(7, "slow");
    let (mut reply, call) = tokio::join!(client.post(&message), async {
        set.stage.noted().await;
        set.stage.call().await
    });
    assert!(!call.ask(1, "elicitation/create"), "nobody could answer");
    call.note("notifications/progress", &json!({"progress": 1}));
    let (progress, id) = reply.message().await;
    assert_eq!((&progress["params"]["progress"], id), (&json!(1), None));
    let answered = async {
        tokio::time::sleep(2 * hang_up).await;
        call.finish(&json!({"done": true}));
    };
    let (event, ()) = tokio::join!(reply.event(), answered);
    let event = event.expect("it is not hung up");
    assert!(event.id.is_none() && event.retry.is_none(), "{event:?}");
    drop(reply);
    set.stage.forgot(1).await;
}

#[tokio::test]
async fn a_key_is_asked_of_everybody_and_preflights_pass() {
    let guard = Guard::loopback().allow_origin("https://app.example");
    let gate = Some(Arc::new(ApiKey::new("k3y")) as _);
    let set = direct(SiteOptions::default().authenticator(gate).guard(guard));
    let client = Client::new(set.way.clone());
    let hello = initialize(LEGACY);
    let refused = client.post(&hello).await;
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(refused.status, 401);
    let shown = client.posting(&hello).header("x-api-key", "k3y");
    assert_eq!(client.send(shown, hello.to_string()).await.status, 200);
    assert_eq!(client.send(client.request(Method::GET, "/sse"), "").await.status, 401);
    let preflight = client
        .request(Method::OPTIONS, "/mcp")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST");
    assert_eq!(client.send(preflight, "").await.status, 204);
}

#[tokio::test]
async fn answers_carry_the_headers_that_the_user_adds() {
    let headers = HeaderMap::from_iter([("x-mine".parse().unwrap(), "1".parse().unwrap())]);
    let set = direct(SiteOptions::default().headers(headers));
    let client = Client::new(set.way.clone());
    let hello = client.post(&initialize(LEGACY)).await;
    assert_eq!(hello.header("x-mine"), Some("1"));
}

#[tokio::test]
async fn a_site_without_the_modern_era_says_so() {
    let set = direct(SiteOptions::default().without_modern());
    let client = Client::modern(set.way.clone());
    let reply = client.post(&enveloped(request(1, "tools/list"))).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json().await["error"]["code"], -32022);
}

#[tokio::test]
async fn a_path_that_is_empty_is_nowhere_and_a_slash_at_the_end_is_none() {
    let options = SiteOptions::default().sse_path("");
    let set = direct(options);
    let client = Client::new(set.way.clone());
    assert_eq!(client.send(client.request(Method::GET, "/sse"), "").await.status, 404);
    assert_eq!(client.send(client.request(Method::GET, "/"), "").await.status, 404);
    assert_eq!(client.send(client.request(Method::GET, "/mcp/"), "").await.status, 200);
}

#[tokio::test]
async fn origins_may_be_listed_by_pattern_and_more_headers_shared_with_them() {
    let guard = Guard::loopback()
        .allow_origins_like(Regex::new(r"\.example\.com$").unwrap())
        .allow_header(&"x-sent".parse().unwrap())
        .expose_header(&"x-read".parse().unwrap());
    let set = direct(SiteOptions::default().guard(guard));
    let client = Client::new(set.way.clone());
    for (origin, status) in [("https://a.example.com", 204), ("https://example.com.evil", 403)] {
        let preflight = client
            .request(Method::OPTIONS, "/mcp")
            .header("origin", origin)
            .header("access-control-request-method", "POST");
        let reply = client.send(preflight, "").await;
        assert_eq!(reply.status, status, "{origin}");
        if status == 204 {
            assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
            let may_send = reply.header("access-control-allow-headers").unwrap();
            let may_read = reply.header("access-control-expose-headers").unwrap();
            assert!(may_send.ends_with(", x-sent"), "{may_send}");
            assert!(may_read.ends_with(", x-read"), "{may_read}");
        }
    }
}

#[tokio::test]
async fn several_sites_and_pages_stand_side_by_side() {
    use tower_service::Service as _;

    let stages = [Stage::new(), Stage::new()];
    let site = |number: usize| {
        let path = |rest| format!("/servers/s{number}/{rest}");
        let options = SiteOptions::default().path(path("mcp")).sse_path(path("sse"));
        Site::new(stages[number].backend.clone(), options)
    };
    let pages = vec![
        ("/healthz".to_owned(), SitePage::Text("ok".to_owned())),
        ("/status".to_owned(), SitePage::Json(Box::new(|sites| sites.each().len().to_string()))),
        ("/visit".to_owned(), SitePage::Live(Arc::new(Echo))),
    ];
    let sites = Sites::new(Guard::loopback(), vec![site(0), site(1)], pages);
    let ask = async |method: Method, path: &str, host: &str| {
        let request = http::Request::builder().method(method).uri(path).header("host", host);
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        let response = sites.clone().call(request).await.unwrap();
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
        (status, String::from_utf8(body.to_bytes().into()).unwrap())
    };
    let get = async |path: &str| ask(Method::GET, path, "localhost").await;
    assert_eq!(get("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(get("/status").await, (200, "2".to_owned()));
    assert_eq!(get("/servers/s1/mcp").await.0, 200);
    assert_eq!(get("/mcp").await.0, 404);
    assert_eq!(ask(Method::POST, "/healthz", "localhost").await.0, 405);
    assert_eq!(ask(Method::GET, "/status", "evil.example").await.0, 403);
    assert!(sites.last_used() <= std::time::SystemTime::now());
    // A live page has all below its path, needs no key, and takes no endless body.
    assert_eq!(get("/visit/a?b=c").await, (418, "GET /visit/a b=c ".to_owned()));
    assert_eq!(get("/visitor").await.0, 404);
    assert_eq!(ask(Method::POST, "/visit", "evil.example").await.0, 403);
    let post = async |length: usize| {
        let request = http::Request::post("/visit").header("host", "localhost");
        let request = request.header("origin", "https://elsewhere.example");
        let body = http_body_util::Full::<bytes::Bytes>::from("x".repeat(length));
        sites.clone().call(request.body(body).unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(post(64 << 10).await, 418);
    assert_eq!(post((64 << 10) + 1).await, 413);
}

/// A page that repeats what it gets.
struct Echo;

impl LivePage for Echo {
    fn visit(&self, visit: PageVisit) -> PageReply<'_> {
        let PageVisit { method, path, query, body, .. } = visit;
        let text = format!("{method} {path} {query} {}", String::from_utf8_lossy(&body));
        let mut response = http::Response::new(bytes::Bytes::from(text));
        *response.status_mut() = http::StatusCode::IM_A_TEAPOT;
        Box::pin(std::future::ready(response))
    }
}
