//! What a POST comes to when nothing goes on for long.

use http::Method;
use serde_json::{Value, json};
use switchboard_net::access::Guard;
use switchboard_net::http::site::SiteOptions;

use super::{limits, start};
use crate::client::{BOTH, Client, LEGACY, call, enveloped, initialize, initialized, request};

/// wire: HTTP-3, HTTP-5, MSG-3, MH-3
#[tokio::test]
async fn answers_are_json_where_nothing_else_is_to_be_said() {
    let set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    for id in [json!(1), json!("1")] {
        let reply = client.post(&request(id.clone(), "tools/list")).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("mcp-session-id"), None);
        let want = json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}});
        assert_eq!(reply.json().await, want);
    }
    set.stopped().await;
}

/// wire: HTTP-4, HTTP-1
#[tokio::test]
async fn notifications_and_responses_are_accepted_without_a_body() {
    let set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let stray = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
    for message in [stray, json!({"jsonrpc": "2.0", "method": "notifications/x"})] {
        let reply = client.post(&message).await;
        assert_eq!(reply.status, 202);
        assert_eq!(reply.header("content-type"), None);
        assert_eq!(reply.text().await, "");
    }
    set.stopped().await;
}

/// wire: HTTP-2, MH-2, MH-15, MH-16, MSG-1, MSG-5, VAL-1, ERR-1
#[tokio::test]
async fn bad_posts_are_refused_each_in_its_way_and_the_next_works() {
    let set = start(limits(|limits| limits.message = 4096)).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let list = request(1, "tools/list").to_string();
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":4,"method":"x","params":{}{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let long = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{}"}}"#, "x".repeat(5000));
    let cases: [(&str, &str, Vec<u8>, u16, i64); 10] = [
        ("application/json", BOTH, b"{".to_vec(), 400, -32700),
        ("application/json", BOTH, b"".to_vec(), 400, -32700),
        ("application/json", BOTH, b"\"\xff\"".to_vec(), 400, -32700),
        ("application/json", BOTH, b"{\"jsonrpc\":\"2.0\",\"id\":1,\0}".to_vec(), 400, -32700),
        ("application/json", BOTH, b"{\"id\":1}".to_vec(), 400, -32600),
        ("application/json", BOTH, deep.into_bytes(), 400, -32600),
        ("application/json", BOTH, long.into_bytes(), 413, -32600),
        ("text/plain", BOTH, list.clone().into_bytes(), 415, -32600),
        ("", BOTH, list.clone().into_bytes(), 415, -32600),
        ("application/json", "text/html", list.clone().into_bytes(), 406, -32600),
    ];
    for (media, accept, body, status, code) in cases {
        let mut post = client.request(Method::POST, "/mcp").header("accept", accept);
        if !media.is_empty() {
            post = post.header("content-type", media);
        }
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let reply = client.send(post, body).await;
        assert_eq!(reply.status, status, "{media} {accept} {shown}");
        assert_eq!(reply.json().await["error"]["code"], code, "{media} {accept} {shown}");
        let next = client.send(client.posting(&Value::Null), list.clone()).await;
        assert_eq!(next.status, 200, "after {shown}");
    }
    set.stopped().await;
}

/// wire: MSG-8, MSG-9, HTTP-3, HTTP-25, MH-5
#[tokio::test]
async fn arrays_are_served_where_the_revision_has_them() {
    let set = start(SiteOptions::default()).await;
    let batch = json!([request(1, "tools/list"), request("2", "tools/list"), initialized()]);
    let notes = json!([initialized(), initialized()]);

    let old = Client::ready(set.way.clone(), "2025-03-26").await;
    let reply = old.post(&batch).await;
    assert!(reply.is_stream());
    let mut answers = reply.messages().await;
    answers.sort_by_key(|answer| answer["id"].to_string());
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!("2"), json!(1)]);
    assert_eq!(old.post(&notes).await.status, 202);
    let greets = json!([initialize(LEGACY), request(1, "tools/list")]);
    assert_eq!(old.post(&greets).await.status, 400);

    let new = Client::ready(set.way.clone(), LEGACY).await;
    let reply = new.post(&batch).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json().await["error"]["code"], -32600);

    let modern = Client::modern(set.way.clone());
    for batch in [json!([enveloped(request(1, "tools/list"))]), json!([])] {
        let reply = modern.post(&batch).await;
        assert_eq!(reply.status, 400);
        assert_eq!(reply.json().await["error"]["code"], -32600);
    }
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let reply = modern.post(&response).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json().await["error"]["code"].clone()),
        (400, json!(-32600))
    );
    set.stopped().await;
}

/// A client that takes one of the two forms of an answer gets that one.
#[tokio::test]
async fn clients_that_take_only_one_form_get_that() {
    let mut set =
        start(limits(|limits| limits.stream_after = std::time::Duration::from_millis(20))).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    assert_eq!(set.stage.noted().await.1, "notifications/initialized");

    let message = request(1, "tools/list");
    let mut post = client.posting(&message);
    post.headers_mut().unwrap().insert("accept", "text/event-stream".parse().unwrap());
    let reply = client.send(post, message.to_string()).await;
    assert!(reply.is_stream());
    assert_eq!(reply.messages().await.len(), 1);

    let message = call(2, "slow");
    let mut post = client.posting(&message);
    post.headers_mut().unwrap().insert("accept", "application/json".parse().unwrap());
    let (reply, ()) = tokio::join!(client.send(post, message.to_string()), async {
        let call = set.stage.call().await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        call.finish(&json!({"content": []}));
    });
    assert_eq!(reply.json().await["id"], 2);
    set.stopped().await;
}

/// A body far over the limit gets its answer, though the client is still sending.
///
/// wire: MH-15
#[tokio::test]
async fn bodies_far_too_long_are_answered_to_clients_that_write_first() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let set = start(limits(|limits| limits.message = 1 << 20)).await;
    let crate::client::Way::Socket(address) = set.way else { unreachable!() };
    let mut peer = tokio::net::TcpStream::connect(address).await.unwrap();
    let length = 64 << 20;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    peer.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b' '; 1 << 20];
    for _ in 0..64 {
        peer.write_all(&piece).await.unwrap();
    }
    let mut answer = vec![0; 1024];
    let read = switchboard_testkit::within(peer.read(&mut answer)).await.unwrap();
    assert!(
        answer[..read].starts_with(b"HTTP/1.1 413 "),
        "{}",
        String::from_utf8_lossy(&answer[..read])
    );
    drop(peer);
    set.stopped().await;
}

/// wire: HTTP-29
#[tokio::test]
async fn browsers_of_listed_origins_get_their_grant() {
    let guard = Guard::loopback().allow_origin("https://app.example");
    let set = start(SiteOptions::default().guard(guard)).await;
    let client = Client::new(set.way.clone());
    let preflight = client
        .request(Method::OPTIONS, "/mcp")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST");
    let reply = client.send(preflight, "").await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(reply.header("access-control-allow-headers").unwrap().contains("mcp-session-id"));
    assert_eq!(reply.headers.get_all("vary").iter().count(), 1);

    let message = initialize(LEGACY);
    let post = client.posting(&message).header("origin", "https://app.example");
    let reply = client.send(post, message.to_string()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(reply.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));

    let bare = client.send(client.request(Method::OPTIONS, "/mcp"), "").await;
    assert_eq!((bare.status.as_u16(), bare.header("allow").is_some()), (204, true));
    set.stopped().await;
}

/// wire: HTTP-13, HTTP-28, MH-10, MH-11
#[tokio::test]
async fn other_methods_and_strangers_are_turned_away() {
    let set = start(SiteOptions::default()).await;
    let client = Client::new(set.way.clone());
    let put = client.send(client.request(Method::PUT, "/mcp"), "").await;
    assert_eq!(put.status, 405);
    assert_eq!(put.header("allow"), Some("GET, POST, DELETE, OPTIONS"));

    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let mut post = client.posting(&Value::Null);
        let headers = post.headers_mut().unwrap();
        headers.insert(http::HeaderName::from_static(name), value.parse().unwrap());
        let reply = client.send(post, initialize(LEGACY).to_string()).await;
        assert_eq!(reply.status, 403, "{name}");
    }
    let elsewhere = client.send(client.request(Method::GET, "/other"), "").await;
    assert_eq!(elsewhere.status, 404);
    assert_eq!(set.site.sessions(), 0);
    set.stopped().await;
}

/// wire: HTTP-21, HTTP-22, HTTP-25, HTTP-26, MH-16
#[tokio::test]
async fn sessions_and_versions_are_checked() {
    let set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let list = request("a", "tools/list");

    let stranger = Client { session: None, ..client.clone() };
    let unknown = Client { session: Some("feedface".to_owned()), ..client.clone() };
    let odd = Client { version: Some("1999-01-01"), ..client.clone() };
    let ahead = Client { version: Some("2026-07-28"), ..client.clone() };
    let old = Client { version: None, ..client.clone() };
    for (client, message, status, code) in [
        (&stranger, &list, 400, json!(-32600)),
        (&stranger, &initialized(), 400, json!(-32600)),
        (&unknown, &list, 404, json!(-32001)),
        (&unknown, &initialize(LEGACY), 404, json!(-32001)),
        (&odd, &list, 400, json!(-32600)),
        (&ahead, &list, 400, json!(-32602)),
        (&client, &initialize(LEGACY), 400, json!(-32600)),
        (&old, &list, 200, Value::Null),
    ] {
        let post = client.posting(message);
        let reply = client.send(post, message.to_string()).await;
        assert_eq!(reply.status, status, "{client:?} {message}");
        let body = reply.json().await;
        assert_eq!(body["error"]["code"], code, "{client:?} {message}");
        assert_eq!(body["id"], message["id"], "{client:?} {message}");
    }
    // A bad version is refused whatever the method; the session lives on.
    for reply in [odd.listen(None).await, odd.delete().await] {
        assert_eq!(reply.status, 400);
    }
    assert_eq!(client.post(&list).await.status, 200);
    set.stopped().await;
}
