//! HTTP+SSE of the first revision, beside the endpoint.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use switchboard_net::call::ReplySink as _;
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_proto::limits::Limits;

use crate::client::{Client, Reply, Way, call, initialize, initialized, request};
use crate::script::{Stage, notification};
use switchboard_testkit::within;

struct Old {
    client: Client,
    stream: Reply,
    address: String,
}

impl Old {
    async fn connect(site: &Site) -> Self {
        let client = Client::new(Way::Direct(site.clone()));
        let get = client.request(Method::GET, "/sse").header("accept", "text/event-stream");
        let mut stream = client.send(get, "").await;
        assert!(stream.is_stream());
        let endpoint = stream.event().await.unwrap();
        assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
        let address = String::from_utf8(endpoint.data.to_vec()).unwrap();
        Self { client, stream, address }
    }

    async fn post(&self, message: &Value) -> Reply {
        let post = self.client.request(Method::POST, &self.address);
        self.client.send(post.header("content-type", "application/json"), message.to_string()).await
    }

    async fn ready(site: &Site) -> Self {
        let mut old = Self::connect(site).await;
        assert_eq!(old.post(&initialize("2024-11-05")).await.status, 202);
        assert_eq!(old.stream.message().await.0["id"], 0);
        assert_eq!(old.post(&initialized()).await.status, 202);
        old
    }
}

fn site(options: SiteOptions) -> (Stage, Site) {
    let stage = Stage::new();
    let site = Site::new(stage.backend.clone(), options);
    (stage, site)
}

/// wire: OLD-1, OLD-2, OLD-4, OLD-5
#[tokio::test]
async fn everything_comes_on_the_one_stream_and_ends_with_it() {
    let (mut stage, site) = site(SiteOptions::default());
    let mut old = Old::ready(&site).await;
    let (face, _) = stage.noted().await;
    face.note(None, &notification("notifications/a", &json!({})));
    let (message, id) = old.stream.message().await;
    assert_eq!((message["method"].as_str(), id), (Some("notifications/a"), None));

    assert_eq!(old.post(&call("c", "t")).await.status, 202);
    let call = stage.call().await;
    assert!(call.ask(5, "roots/list"));
    let question = old.stream.message().await.0;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {}});
    assert_eq!(old.post(&answer).await.status, 202);
    stage.heard().await;
    call.finish(&json!({"done": true}));
    assert_eq!(old.stream.message().await.0["id"], "c");

    assert_eq!(site.sessions(), 1);
    drop(old.stream);
    stage.forgot(1).await;
    assert_eq!(site.sessions(), 0);
    let post = old.client.request(Method::POST, &old.address);
    let gone = old.client.send(post.header("content-type", "application/json"), "{}").await;
    assert_eq!(gone.status, 404);
}

/// wire: OLD-4
#[tokio::test]
async fn bad_posts_are_refused_and_the_next_works() {
    let (_stage, site) = site(SiteOptions::default());
    let mut old = Old::ready(&site).await;
    let post = |path: &str| old.client.request(Method::POST, path);
    for (request, body, status) in [
        (post("/message"), "{}", 400),
        (post("/message?sessionId=nobody"), "{}", 404),
        (post(&old.address).header("content-type", "application/json"), "{", 400),
        (post(&old.address).header("content-type", "text/plain"), "{}", 415),
        (old.client.request(Method::GET, &old.address), "", 405),
        (old.client.request(Method::POST, "/sse"), "{}", 405),
        (old.client.request(Method::GET, "/sse").header("accept", "text/html"), "", 406),
    ] {
        let reply = old.client.send(request, body).await;
        assert_eq!(reply.status, status, "{body}");
    }
    assert_eq!(old.post(&request(3, "tools/list")).await.status, 202);
    assert_eq!(old.stream.message().await.0["id"], 3);
}

/// wire: OLD-5
#[tokio::test]
async fn two_clients_hear_only_their_own() {
    let (_stage, site) = site(SiteOptions::default());
    let mut one = Old::ready(&site).await;
    let mut two = Old::ready(&site).await;
    assert_ne!(one.address, two.address);
    assert_eq!(one.post(&request("one", "tools/list")).await.status, 202);
    assert_eq!(two.post(&request("two", "tools/list")).await.status, 202);
    assert_eq!(one.stream.message().await.0["id"], "one");
    assert_eq!(two.stream.message().await.0["id"], "two");
}

#[tokio::test]
async fn closing_the_site_lets_a_call_finish_and_then_ends_the_stream() {
    let (mut stage, site) = site(SiteOptions::default());
    let old = Old::ready(&site).await;
    stage.noted().await;
    assert_eq!(old.post(&call(1, "t")).await.status, 202);
    let open = stage.call().await;
    site.close();
    assert_eq!(site.sessions(), 1);
    open.finish(&json!({}));
    assert_eq!(within(old.stream.messages()).await.len(), 1);
    stage.forgot(1).await;
}

/// A client that sends and never reads must not fill our memory with answers.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_from() {
    let limits = Arc::new(Limits { backlog: 4096, ..Limits::default() });
    let (_stage, site) = site(SiteOptions::default().limits(limits));
    let mut old = Old::ready(&site).await;
    let mut sent = 0;
    loop {
        let list = request(sent, "tools/list");
        let post = old.post(&list);
        if tokio::time::timeout(Duration::from_mins(1), post).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
        sent += 1;
        assert!(sent < 1000, "the backlog has no bound");
    }
    let list = request(sent, "tools/list");
    let Old { client, stream, address } = &mut old;
    let post = client.request(Method::POST, address).header("content-type", "application/json");
    let (reply, ()) = tokio::join!(client.send(post, list.to_string()), async {
        for id in 0..sent {
            assert_eq!(stream.message().await.0["id"], id);
        }
    });
    assert_eq!(reply.status, 202);
    assert_eq!(old.stream.message().await.0["id"], sent);
}

/// A message that waits for its client to read ends with the session.
#[tokio::test(start_paused = true)]
async fn a_post_that_waits_for_room_ends_with_its_session() {
    let limits = Arc::new(Limits { backlog: 4096, ..Limits::default() });
    let (mut stage, site) = site(SiteOptions::default().limits(limits));
    let old = Old::ready(&site).await;
    let (face, _) = stage.noted().await;
    face.note(None, &notification("notifications/message", &json!({"data": "x".repeat(8192)})));
    let list = request(1, "tools/list");
    let (reply, ()) = within(async { tokio::join!(old.post(&list), async { face.end() }) }).await;
    assert_eq!(reply.status, 404);
}
