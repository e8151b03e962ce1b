//! Hang-ups and cancelling, by the means of each era.

use std::time::Duration;

use serde_json::json;
use switchboard_net::call::ReplySink as _;
use switchboard_net::http::site::SiteOptions;

use super::{limits, start};
use crate::client::{Client, LEGACY, call, enveloped, request};
use switchboard_testkit::within;

/// wire: MH-9, CAN-1
#[tokio::test]
async fn a_modern_client_that_hangs_up_while_the_answer_is_computed_cancels() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::modern(set.way.clone());
    let posting = tokio::spawn(async move { client.post(&enveloped(call(1, "hold"))).await });
    let held = set.stage.call().await;
    posting.abort();
    assert_eq!(set.stage.dropped().await, held.exchange);
    held.finish(&json!({}));
    set.stopped().await;
}

/// wire: MH-9, CAN-1
#[tokio::test]
async fn a_modern_client_that_closes_its_stream_cancels() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::modern(set.way.clone());
    let message = enveloped(call(1, "hold"));
    let (mut reply, held) = tokio::join!(client.post(&message), async {
        let call = set.stage.call().await;
        call.note("notifications/progress", &json!({"progress": 1}));
        call
    });
    let (note, id) = reply.message().await;
    assert_eq!((note["params"]["progress"].as_u64(), id), (Some(1), None), "no event ids");
    drop(reply);
    assert_eq!(set.stage.dropped().await, held.exchange);
    set.stopped().await;
}

/// wire: MH-9
#[tokio::test]
async fn a_reset_of_an_http2_stream_cancels_too() {
    let mut set = start(SiteOptions::default()).await;
    let crate::client::Way::Socket(address) = set.way else { unreachable!() };
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    let connection = tokio::spawn(connection);
    let client = Client::modern(set.way.clone());
    let message = enveloped(call(1, "hold"));
    let post = client.posting(&message).uri(format!("http://{address}/mcp"));
    let post =
        post.body(http_body_util::Full::new(bytes::Bytes::from(message.to_string()))).unwrap();
    let posting = tokio::spawn(async move { sender.send_request(post).await.map(|_| sender) });
    let held = set.stage.call().await;
    posting.abort();
    assert_eq!(set.stage.dropped().await, held.exchange);
    connection.abort();
    set.stopped().await;
}

/// wire: HTTP-9
#[tokio::test]
async fn a_legacy_client_that_hangs_up_cancels_nothing() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let poster = client.clone();
    let posting = tokio::spawn(async move { poster.post(&call(1, "hold")).await });
    let held = set.stage.call().await;
    posting.abort();
    _ = posting.await;
    // The session goes on, and the id is taken for as long as the call is.
    while held.face.calls() == 1 && client.post(&call(1, "again")).await.status != 400 {}
    assert_eq!(client.post(&request(2, "tools/list")).await.status, 200);
    assert!(set.stage.is_silent());
    held.finish(&json!({}));
    assert_eq!(client.post(&request(1, "tools/list")).await.status, 200);
    set.stopped().await;
}

/// wire: HTTP-9, UTL-1, HTTP-6
#[tokio::test]
async fn a_cancelled_legacy_call_ends_its_post() {
    for streaming in [false, true] {
        let mut set = start(limits(|limits| {
            limits.stream_after = Duration::from_millis(if streaming { 1 } else { 60_000 });
        }))
        .await;
        let client = Client::ready(set.way.clone(), LEGACY).await;
        set.stage.noted().await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
        let message = call(9, "hold");
        let (reply, held) = tokio::join!(client.post(&message), async {
            let held = set.stage.call().await;
            if !streaming {
                assert_eq!(client.post(&cancel).await.status, 202);
            }
            held
        });
        if streaming {
            assert_eq!(client.post(&cancel).await.status, 202);
        }
        assert_eq!(reply.status, 200);
        assert_eq!(reply.messages().await.len(), 0);
        assert_eq!(set.stage.dropped().await, held.exchange);
        held.finish(&json!({}));
        assert_eq!(client.post(&request(9, "tools/list")).await.status, 200);
        set.stopped().await;
    }
}

/// Its work goes on without it, and nobody else has to wait.
///
/// wire: HTTP-16
#[tokio::test]
async fn a_client_that_does_not_read_stalls_nobody() {
    let mut set = start(limits(|limits| limits.backlog = 1 << 20)).await;
    let slow = Client::ready(set.way.clone(), LEGACY).await;
    let (face, _) = set.stage.noted().await;
    let stream = slow.listen(None).await;
    let large = json!({"text": "x".repeat(64 << 10)});
    let mut said = 0;
    // What the kernel and hyper hold comes first, then our own backlog.
    while !face.is_slow() {
        face.note(None, &crate::script::notification("notifications/x", &large));
        tokio::task::yield_now().await;
        said += 1;
        assert!(said < 10_000, "the backlog has no bound");
    }
    let room = face.wait_for_room();
    let mut room = std::pin::pin!(room);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut room).await.is_err());

    let other = Client::ready(set.way.clone(), LEGACY).await;
    assert_eq!(other.post(&request(1, "tools/list")).await.status, 200);
    assert_eq!(slow.post(&request(1, "tools/list")).await.status, 200, "nor its own calls");
    drop(stream);
    within(room).await;
    set.stopped().await;
}
