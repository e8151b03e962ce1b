//! Clients that do not read: what they hold together, and who gives way.

use std::sync::Arc;

use serde_json::json;
use switchboard_net::face::unread::Unread;
use switchboard_net::http::site::SiteOptions;
use tokio::io::AsyncReadExt as _;

use super::half::{BOTH, send};
use super::{direct, limits, start};
use crate::client::{Client, LEGACY, request};
use crate::peer::within;
use crate::script::notification;

const KIB: usize = 1024;

fn bounded(unread: &Arc<Unread>, history: usize) -> SiteOptions {
    let options = limits(|limits| limits.history = history);
    SiteOptions { unread: Arc::clone(unread), ..options }
}

async fn until(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn of_clients_that_do_not_read_the_one_that_holds_most_is_cut() {
    let unread = Arc::new(Unread::new(1024 * KIB));
    let mut set = direct(bounded(&unread, 0));
    let slow = Client::ready(set.way.clone(), LEGACY).await;
    let (slow_face, _) = set.stage.noted().await;
    let other = Client::ready(set.way.clone(), LEGACY).await;
    let (other_face, _) = set.stage.noted().await;
    let slow_stream = slow.listen(None).await;
    let mut other_stream = other.listen(None).await;
    let sized = |size: usize| {
        notification("notifications/message", &json!({"data": "x".repeat(size * KIB)}))
    };
    let note = sized(300);
    slow_face.note(None, &note);
    slow_face.note(None, &note);
    other_face.note(None, &note);
    assert_eq!(set.stage.forgotten(), 0, "there is room for all of it");
    assert!(unread.held() > 900 * KIB, "{}", unread.held());
    other_face.note(None, &sized(200));
    set.stage.forgot(1).await;
    until(|| unread.held() < 700 * KIB).await;
    assert_eq!(slow.post(&request(1, "tools/list")).await.status, 404);
    assert_eq!(slow_stream.messages().await.len(), 0, "its stream is over");
    for _ in 0..2 {
        assert_eq!(other_stream.message().await.0["method"], "notifications/message");
    }
    assert_eq!(other.post(&request(1, "tools/list")).await.status, 200);
    assert_eq!(unread.held(), 0);
}

#[tokio::test]
async fn what_a_client_could_resume_gives_way_before_the_client_does() {
    let unread = Arc::new(Unread::new(1024 * KIB));
    let mut set = direct(bounded(&unread, 4096 * KIB));
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let (face, _) = set.stage.noted().await;
    let mut stream = client.listen(None).await;
    let note = notification("notifications/message", &json!({"data": "x".repeat(300 * KIB)}));
    for _ in 0..8 {
        face.note(None, &note);
        stream.message().await;
        until(|| unread.held() <= 1024 * KIB).await;
    }
    assert_eq!(client.post(&request(1, "tools/list")).await.status, 200);
    drop((stream, face, set));
    until(|| unread.held() == 0).await;
}

#[tokio::test]
async fn a_connection_whose_client_does_not_read_a_large_answer_is_cut() {
    let unread = Arc::new(Unread::new(8 << 20));
    let mut set = start(bounded(&unread, 0)).await;
    let mut stream = send(&set, BOTH).await;
    let call = set.stage.call().await;
    call.finish(&json!({"text": "x".repeat(24 << 20)}));
    drop(call);
    until(|| unread.held() == 0).await;
    let mut said = Vec::new();
    // However it ends, it ends early.
    _ = within(stream.read_to_end(&mut said)).await;
    assert!(said.len() < 24 << 20, "{}", said.len());
    set.stopped().await;
}
