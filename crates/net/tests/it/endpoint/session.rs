//! How sessions begin, wait, and end.

use std::time::Duration;

use serde_json::json;
use switchboard_net::call::ReplySink as _;
use switchboard_net::http::site::SiteOptions;

use super::{NEVER, direct, limits, start};
use crate::client::{Client, LEGACY, call, greeting, initialize, initialized, request};
use switchboard_testkit::within;

/// wire: HTTP-20
#[tokio::test]
async fn session_ids_are_visible_ascii_and_differ() {
    let set = start(SiteOptions::default()).await;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..10 {
        let client = Client::greeted(set.way.clone(), LEGACY).await;
        let id = client.session.unwrap();
        assert!(id.len() >= 32 && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        assert!(seen.insert(id));
    }
    assert_eq!(set.site.sessions(), 10);
    set.stopped().await;
}

/// wire: HTTP-20
#[tokio::test]
async fn a_greeting_that_fails_mints_no_session() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::new(set.way.clone());
    let reply = client.post(&greeting(LEGACY, &json!({"fail": true}))).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("mcp-session-id"), None);
    assert_eq!(reply.json().await["error"]["code"], -32602);
    assert_eq!(set.site.sessions(), 0);
    set.stage.forgot(1).await;
    set.stopped().await;
}

/// wire: HTTP-22, HTTP-23, LIF-5
#[tokio::test]
async fn a_deleted_session_is_gone_with_its_streams() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let listening = client.listen(None).await;
    let deleted = client.delete().await;
    assert_eq!((deleted.status.as_u16(), deleted.text().await.as_str()), (204, ""));
    assert_eq!(listening.messages().await.len(), 0);
    set.stage.forgot(1).await;

    for reply in [
        client.delete().await,
        client.listen(None).await,
        client.listen(Some("0-0")).await,
        client.post(&request(1, "tools/list")).await,
        client.post(&initialized()).await,
    ] {
        assert_eq!(reply.status, 404);
        assert_eq!(reply.json().await["error"]["code"], -32001);
    }
    let none = Client { session: None, ..client };
    assert_eq!(none.delete().await.status, 400);
    assert_eq!(none.listen(None).await.status, 400);
    assert_eq!(set.stage.forgotten(), 1);
    set.stopped().await;
}

/// Real clients open the GET at the moment they post `initialized`.
///
/// wire: HTTP-13, LIF-2
#[tokio::test]
async fn a_get_before_initialized_waits_for_it() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::greeted(set.way.clone(), LEGACY).await;
    let (mut stream, face) = tokio::join!(client.listen(None), async {
        // The GET is on its way or waiting; either must do.
        assert_eq!(client.post(&initialized()).await.status, 202);
        set.stage.noted().await.0
    });
    assert!(stream.is_stream());
    face.note(None, &crate::script::notification("notifications/x", &json!({})));
    assert_eq!(stream.message().await.0["method"], "notifications/x");
    set.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_get_waits_in_vain_for_a_client_that_never_confirms() {
    let set = direct(SiteOptions::default());
    let client = Client::greeted(set.way.clone(), LEGACY).await;
    let before = tokio::time::Instant::now();
    let reply = client.listen(None).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json().await["error"]["code"], -32600);
    assert_eq!(before.elapsed().as_secs(), 5);
    // It was only early: the session lives.
    assert_eq!(client.post(&initialized()).await.status, 202);
    assert!(client.listen(None).await.is_stream());
}

/// The first pain of users: what is abandoned must go.
#[tokio::test(start_paused = true)]
async fn a_thousand_abandoned_sessions_are_all_forgotten() {
    let mut set = direct(SiteOptions::default());
    for _ in 0..1000 {
        Client::greeted(set.way.clone(), LEGACY).await;
    }
    assert_eq!(set.site.sessions(), 1000);
    tokio::time::sleep(Duration::from_mins(45)).await;
    assert_eq!(set.site.sessions(), 0);
    set.stage.forgot(1000).await;
    assert_eq!(set.stage.forgotten(), 1000);
}

#[tokio::test]
async fn sessions_beyond_the_limit_are_refused_until_one_goes() {
    let set = start(limits(|_| {}).max_sessions(2)).await;
    let first = Client::greeted(set.way.clone(), LEGACY).await;
    let _second = Client::greeted(set.way.clone(), LEGACY).await;
    let third = Client::new(set.way.clone());
    let reply = third.post(&initialize(LEGACY)).await;
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(reply.json().await["id"], 0);
    assert_eq!(first.delete().await.status, 204);
    within(Client::greeted(set.way.clone(), LEGACY)).await;
    set.stopped().await;
}

/// An idle timer that cuts a long call, or a stream, is worse than none.
#[tokio::test(start_paused = true)]
async fn sessions_are_reaped_when_idle_and_never_before() {
    let idle = Duration::from_mins(10);
    let options = SiteOptions::default().session_idle(idle).keep_alive(NEVER);
    let mut set = direct(options);
    let idler = Client::ready(set.way.clone(), LEGACY).await;
    let listener = Client::ready(set.way.clone(), LEGACY).await;
    let stream = listener.listen(None).await;
    let caller = Client::ready(set.way.clone(), LEGACY).await;
    for _ in 0..3 {
        set.stage.noted().await;
    }
    // Its connection breaks, its call goes on.
    let message = call(1, "long");
    let posted = tokio::time::timeout(Duration::from_millis(1), caller.post(&message)).await;
    assert!(posted.is_err());
    let long = set.stage.call().await;

    tokio::time::sleep(idle * 3).await;
    set.stage.forgot(1).await;
    assert_eq!(set.stage.forgotten(), 1);
    assert_eq!(idler.post(&request(1, "tools/list")).await.status, 404);
    assert_eq!(set.site.sessions(), 2);

    // From here on they are idle, and have their whole time again.
    drop(stream);
    long.finish(&json!({}));
    tokio::time::sleep(idle / 2).await;
    assert_eq!(set.site.sessions(), 2);
    tokio::time::sleep(idle).await;
    assert_eq!(set.site.sessions(), 0);
    assert_eq!(set.stage.forgotten(), 3);
}

/// The inside may end a client on its own; the client must learn that it is gone.
#[tokio::test]
async fn a_client_that_the_inside_ended_is_not_found() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let (face, _) = set.stage.noted().await;
    face.end();
    assert_eq!(client.listen(None).await.status, 404);
    assert_eq!(client.post(&request(1, "tools/list")).await.status, 404);
    assert_eq!(set.site.sessions(), 0);
    assert_eq!(set.stage.forgotten(), 1);
    set.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_a_get_waits_is_not_found() {
    let set = direct(SiteOptions::default());
    let client = Client::greeted(set.way.clone(), LEGACY).await;
    let (reply, deleted) = tokio::join!(client.listen(None), client.delete());
    assert_eq!((reply.status.as_u16(), deleted.status.as_u16()), (404, 204));
}

/// A POST is never left without an answer, nor its connection dropped.
///
/// wire: HTTP-22
#[tokio::test]
async fn calls_of_a_deleted_session_are_told() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let message = call("c", "hold");
    let (reply, ()) = tokio::join!(client.post(&message), async {
        set.stage.call().await;
        assert_eq!(client.delete().await.status, 204);
    });
    assert_eq!(reply.status, 404);
    let body = reply.json().await;
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!("c"), &json!(-32001)));
    set.stopped().await;
}

/// Its id was shown with the head of the stream, before anybody could know.
#[tokio::test(start_paused = true)]
async fn a_greeting_that_fails_late_ends_its_session_too() {
    let mut set = direct(SiteOptions::default());
    let client = Client::new(set.way.clone());
    let slow = greeting(LEGACY, &json!({"slow": true}));
    let (reply, greeting) = tokio::join!(client.post(&slow), set.stage.call());
    assert!(reply.is_stream() && reply.header("mcp-session-id").is_some());
    greeting.fail(-32603);
    assert_eq!(reply.messages().await.len(), 1);
    assert_eq!(set.site.sessions(), 0);
    set.stage.forgot(1).await;
}

/// Nobody has heard of the session, so nobody could ever end it.
#[tokio::test]
async fn a_client_that_leaves_before_its_greeting_is_answered_leaves_no_session() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::new(set.way.clone());
    let slow = greeting(LEGACY, &json!({"slow": true}));
    let posting = tokio::spawn(async move { client.post(&slow).await });
    set.stage.call().await;
    assert_eq!(set.site.sessions(), 1);
    posting.abort();
    set.stage.forgot(1).await;
    assert_eq!(set.site.sessions(), 0);
    set.stopped().await;
}
