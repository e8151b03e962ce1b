//! Connections that we end before the answer, for clients that come back for it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_testkit::http::HttpServer;
use tokio::time::Instant;

use super::{NEVER, direct};
use crate::client::{Client, LEGACY, Way, call, enveloped};
use crate::upstream::fetch;

fn hanging_up() -> SiteOptions {
    SiteOptions::default().hang_up(Duration::from_secs(20))
}

/// Comments keep a connection alive, but do not count as a word.
/// wire: HTTP-8, HTTP-10, HTTP-11, HTTP-18, GW-26
#[tokio::test(start_paused = true)]
async fn a_silent_call_is_hung_up_and_answered_when_its_client_is_back() {
    let mut set = direct(hanging_up());
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let message = call(1, "slow");
    let begin = Instant::now();
    let (mut reply, call) = tokio::join!(client.post(&message), set.stage.call());
    assert_eq!(begin.elapsed(), Duration::from_secs(2), "it became a stream");
    let primed = reply.event().await.unwrap();
    assert!(primed.id.is_some() && primed.retry.is_some(), "{primed:?}");
    call.note("notifications/progress", &json!({"progress": 1}));
    let (_, last) = reply.message().await;
    let spoken = Instant::now();
    assert_eq!(reply.event().await, None, "it ended");
    assert_eq!(spoken.elapsed(), Duration::from_secs(20));

    // Who comes back too early waits once more, and is hung up on once more.
    let mut again = client.listen(last.as_deref()).await;
    let back = Instant::now();
    assert_eq!(again.event().await, None, "it ended");
    assert_eq!(back.elapsed(), Duration::from_secs(20));

    call.finish(&json!({"done": true}));
    let rest = client.listen(last.as_deref()).await.messages().await;
    assert_eq!((&rest[0]["id"], &rest[0]["result"]["done"]), (&json!(1), &json!(true)));
    assert_eq!(rest.len(), 1);
    assert!(set.stage.is_silent(), "nothing was cancelled");
}

/// Hanging up begins with saying how to come back.
/// wire: HTTP-10, HTTP-11
#[tokio::test(start_paused = true)]
async fn a_call_that_is_no_stream_yet_becomes_one_to_be_hung_up() {
    let options = SiteOptions::default().hang_up(Duration::from_secs(1));
    let mut set = direct(options);
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let message = call(1, "slow");
    let begin = Instant::now();
    let (mut reply, call) = tokio::join!(client.post(&message), set.stage.call());
    let primed = reply.event().await.unwrap().id.unwrap();
    assert_eq!(reply.event().await, None, "it ended");
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
    call.finish(&json!({}));
    assert_eq!(client.listen(Some(&primed)).await.messages().await[0]["id"], 1);
}

/// wire: HTTP-8, HTTP-10, MH-8
#[tokio::test(start_paused = true)]
async fn nobody_is_hung_up_on_who_cannot_come_back() {
    let mut set = direct(hanging_up());
    let old = Client::ready(set.way.clone(), "2025-06-18").await;
    set.stage.noted().await;
    let modern = Client::modern(set.way.clone());
    for (client, message) in [(&old, call(1, "slow")), (&modern, enveloped(call(1, "slow")))] {
        let (mut reply, call) = tokio::join!(client.post(&message), set.stage.call());
        for _ in 0..5 {
            assert_eq!(reply.piece().await.unwrap(), ": ping\n\n");
        }
        call.finish(&json!({}));
        assert_eq!(reply.messages().await.len(), 1);
    }
    // A stream that listens belongs to no call.
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let mut listening = client.listen(None).await;
    assert!(listening.piece().await.unwrap().starts_with("id: "));
    for _ in 0..5 {
        assert_eq!(listening.piece().await.unwrap(), ": ping\n\n");
    }
}

/// A client over HTTP, after its handshake, and the bridge to its server.
async fn before(server: &mut HttpServer) -> (Arc<Bridge>, Client) {
    let headers = http::HeaderMap::new();
    let target = ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, headers, fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::new(Limits::default()));
    let options = SiteOptions::default().keep_alive(NEVER);
    let way = Way::Direct(Site::new(Arc::clone(&bridge) as _, options));
    let (client, ()) =
        tokio::join!(Client::ready(way, LEGACY), server.greet_only(Some("s"), LEGACY));
    (bridge, client)
}

/// What a server says could not be passed on else.
/// wire: HTTP-13
#[tokio::test(start_paused = true)]
async fn a_server_is_listened_to_while_its_client_listens_or_calls() {
    let mut server = HttpServer::start().await;
    let (_bridge, client) = before(&mut server).await;
    assert_eq!(server.waiting(|hit| hit.method == "GET"), 0);
    let (mut listening, mut stream) =
        tokio::join!(client.listen(None), async { server.get().await.stream().await });
    let changed = "notifications/tools/list_changed";
    stream.event(&json!({"jsonrpc": "2.0", "method": changed})).await;
    assert_eq!(listening.message().await.0["method"], changed);
    tokio::time::advance(Duration::from_mins(2)).await;
    stream.event(&json!({"jsonrpc": "2.0", "method": changed})).await;
    assert_eq!(listening.message().await.0["method"], changed, "however long it is silent");
    drop(listening);
    tokio::time::advance(Duration::from_mins(1)).await;
    stream.gone().await;
    let message = call(1, "t");
    let (reply, ()) = tokio::join!(client.post(&message), async {
        server.get().await.answer(405, &[], "").await;
        server.post("tools/call").await.result(json!({"content": []})).await;
    });
    assert_eq!(reply.status, 200);
}

/// wire: HTTP-8, HTTP-11, GW-26, GW-53
#[tokio::test]
async fn a_server_that_hangs_up_on_us_hangs_up_on_the_client_too() {
    let mut server = HttpServer::start().await;
    let (bridge, client) = before(&mut server).await;
    let message = call(7, "slow");
    let (mut reply, id) = tokio::join!(client.post(&message), async {
        server.get().await.answer(405, &[], "").await;
        let hit = server.post("tools/call").await;
        let id = hit.message()["id"].clone();
        hit.stream().await.write("id: up-0\nretry: 10\ndata:\n\n").await;
        id
    });
    assert!(reply.is_stream());
    let primed = reply.event().await.unwrap().id.expect("an id to come back with");
    assert_eq!(reply.event().await, None, "it ended");
    drop(reply);

    let resumed = server.get().await;
    assert_eq!(resumed.header("last-event-id"), Some("up-0"));
    let mut back = client.listen(Some(&primed)).await;
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"done": true}});
    resumed.stream().await.event(&answer).await;
    let (answer, _) = back.message().await;
    assert_eq!((&answer["id"], &answer["result"]["done"]), (&json!(7), &json!(true)));
    tokio::join!(bridge.close(), async { server.delete().await.answer(204, &[], "").await });
}
