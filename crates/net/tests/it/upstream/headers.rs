//! Which headers go to a legacy server.

use http::HeaderMap;
use serde_json::json;
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_testkit::http::HttpServer;

use super::{before, before_with};

/// wire: HTTP-20, HTTP-21, HTTP-26, HTTP-27
#[tokio::test]
async fn session_and_version_are_sent_from_the_handshake_on_if_the_revision_has_them() {
    for (version, sent) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", true), ("2025-11-25", true)]
    {
        let mut server = HttpServer::start().await;
        let (bridge, mut caller) = before(&server, Strategy::HttpFirst);
        let id = caller.begin_greeting().await;
        let hello = server.post("initialize").await;
        assert_eq!(
            (hello.header("mcp-session-id"), hello.header("mcp-protocol-version")),
            (None, None)
        );
        hello.welcome(Some("abc"), version).await;
        caller.answer(id).await;
        caller.note("notifications/initialized", json!({})).await;
        let sent = sent.then_some(version);
        let check = |hit: &switchboard_testkit::http::Hit| {
            assert_eq!(hit.header("mcp-session-id"), Some("abc"), "{version}");
            assert_eq!(hit.header("mcp-protocol-version"), sent, "{version}");
            assert_eq!(hit.header("mcp-method"), None, "that is of the other era");
        };
        let initialized = server.post("notifications/initialized").await;
        check(&initialized);
        initialized.answer(202, &[], "").await;
        let listening = server.get().await;
        check(&listening);
        listening.answer(405, &[], "").await;
        let id = caller.ask("tools/list", json!({})).await;
        let call = server.post("tools/list").await;
        check(&call);
        call.result(json!({})).await;
        caller.answer(id).await;
        tokio::join!(bridge.close(), async {
            let hit = server.delete().await;
            check(&hit);
            hit.answer(204, &[], "").await;
        });
    }
}

/// wire: HDR-15
#[tokio::test]
async fn headers_of_the_user_are_sent_but_never_instead_of_ours() {
    let mut server = HttpServer::start().await;
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("authorization", "Bearer t"),
        ("x-team", "a"),
        ("x-team", "b"),
        ("accept", "text/html"),
        ("content-type", "text/plain"),
        ("content-length", "3"),
        ("transfer-encoding", "chunked"),
        ("host", "evil.test"),
        ("mcp-session-id", "stolen"),
        ("mcp-protocol-version", "1999-01-01"),
        ("mcp-method", "x"),
        ("mcp-name", "x"),
        ("mcp-param-region", "x"),
        ("last-event-id", "x"),
    ] {
        headers.append(name, value.parse().unwrap());
    }
    let (_bridge, mut caller) = before_with(&server, Strategy::HttpOnly, headers);
    let host = server.url("/").authority().unwrap().to_string();
    let check = |hit: &switchboard_testkit::http::Hit| {
        assert_eq!(hit.header("authorization"), Some("Bearer t"));
        assert_eq!(hit.headers.get_all("x-team").iter().count(), 2);
        assert_eq!(hit.header("host"), Some(host.as_str()));
        let ours =
            ["mcp-method", "mcp-name", "mcp-param-region", "transfer-encoding", "last-event-id"];
        assert_eq!(ours.map(|name| hit.header(name)), [None; 5]);
    };
    let id = caller.begin_greeting().await;
    let hello = server.post("initialize").await;
    check(&hello);
    assert_eq!(
        (hello.header("mcp-session-id"), hello.header("mcp-protocol-version")),
        (None, None)
    );
    assert_eq!(hello.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(hello.header("content-type"), Some("application/json"));
    hello.welcome(Some("s1"), "2025-11-25").await;
    caller.answer(id).await;
    caller.note("notifications/initialized", json!({})).await;
    server.post("notifications/initialized").await.answer(202, &[], "").await;
    let listening = server.get().await;
    check(&listening);
    assert_eq!(listening.header("accept"), Some("text/event-stream"));
    assert_eq!(listening.header("mcp-session-id"), Some("s1"));
    listening.answer(405, &[], "").await;
}

/// wire: OLD-3
#[tokio::test]
async fn redirects_are_followed_within_the_origin_only() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = super::greeted(&mut server).await;
    let id = caller.ask("tools/list", json!({})).await;
    server.post("tools/list").await.answer(307, &[("location", "/elsewhere")], "").await;
    let again = server.post("tools/list").await;
    assert_eq!((again.path.as_str(), again.header("mcp-session-id")), ("/elsewhere", Some("s1")));
    again.result(json!({})).await;
    assert!(caller.answer(id).await.get("result").is_some());

    let mut other = HttpServer::start().await;
    let id = caller.ask("tools/list", json!({})).await;
    let place = other.url("/mcp").to_string();
    server.post("tools/list").await.answer(307, &[("location", &place)], "").await;
    let answer = caller.answer(id).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("redirect"), "{answer}");
    assert_eq!(other.waiting(|_| true), 0, "the request went to a stranger");
}

#[test]
fn what_is_sent_along_is_not_printed() {
    let mut headers = HeaderMap::new();
    headers.insert("x-token", "secret".parse().unwrap());
    let url = "http://127.0.0.1:1/mcp".parse().unwrap();
    let server = ServerTarget::url(url, Strategy::HttpOnly, headers, super::fetch());
    assert!(!format!("{:?} {server:?}", server.target()).contains("secret"));
}
