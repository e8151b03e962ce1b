//! What one client may take, and what happens beyond it.

use serde_json::json;

use super::{direct, limits, start};
use crate::client::{Client, LEGACY, call, request};

/// wire: MSG-2
#[tokio::test]
async fn an_id_in_use_is_refused_and_the_first_call_lives() {
    let mut set = start(limits(|_| {})).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let message = call(1, "hold");
    let (first, ()) = tokio::join!(client.post(&message), async {
        let call = set.stage.call().await;
        let second = client.post(&request(1, "tools/list")).await;
        assert_eq!(second.status, 400);
        call.finish(&json!({"mine": true}));
    });
    assert_eq!(first.json().await["result"]["mine"], true);
    set.stopped().await;
}

/// A body of which nothing comes.
struct Stuck;

impl hyper::body::Body for Stuck {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up_on() {
    use tower_service::Service as _;

    let set = direct(limits(|_| {}));
    let client = Client::new(set.way.clone());
    let post = client.posting(&json!(null)).body(Stuck).unwrap();
    let response = set.site.clone().call(post).await.unwrap();
    assert_eq!(response.status(), 408);
}

/// wire: HTTP-4
#[tokio::test]
async fn calls_beyond_the_limit_are_refused_until_one_ends() {
    let mut set = start(limits(|limits| limits.calls = 2)).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let posts = [1, 2].map(|id| {
        let client = client.clone();
        tokio::spawn(async move { client.post(&call(id, "hold")).await })
    });
    let calls = [set.stage.call().await, set.stage.call().await];
    let reply = client.post(&request(3, "tools/list")).await;
    assert_eq!(reply.status, 429);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(reply.json().await["id"], 3);
    for call in calls {
        call.finish(&json!({}));
    }
    for post in posts {
        assert_eq!(post.await.unwrap().status, 200);
    }
    assert_eq!(client.post(&request(3, "tools/list")).await.status, 200);
    set.stopped().await;
}

/// wire: MSG-3, HTTP-16
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_find_their_own_request_when_many_come_at_once() {
    let mut set = start(limits(|_| {})).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::ready(set.way.clone(), LEGACY).await);
        set.stage.noted().await;
    }
    let mut posts = tokio::task::JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        for id in 0..32 {
            let client = client.clone();
            posts.spawn(async move {
                let tool = format!("{number}-{id}");
                let mut reply = client.post(&call(id, &tool)).await;
                let answer = if reply.is_stream() {
                    assert_eq!(reply.message().await.0["params"]["data"], tool);
                    reply.message().await.0
                } else {
                    reply.json().await
                };
                assert_eq!((&answer["id"], &answer["result"]["tool"]), (&json!(id), &json!(tool)));
            });
        }
    }
    for count in 0..4 * 32 {
        let call = set.stage.call().await;
        tokio::task::spawn_blocking(move || {
            if count % 3 == 0 {
                call.note("notifications/message", &json!({"data": call.tool()}));
            }
            call.finish(&json!({"tool": call.tool()}));
        });
    }
    while let Some(post) = posts.join_next().await {
        post.unwrap();
    }
    assert!(set.stage.is_silent());
    set.stopped().await;
}
