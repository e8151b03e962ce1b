//! Bytes of request bodies: how many are held, for whom, and for how long.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame};
use serde_json::json;
use switchboard_net::access::Authenticate;
use switchboard_net::call::ReplySink as _;
use switchboard_net::http::body::BodyBudget;
use switchboard_net::http::site::SiteOptions;
use switchboard_proto::jsonrpc::{Id, Message};
use tokio::task::JoinHandle;
use tower_service::Service as _;

use super::gate::{Names, greeted, post};
use super::{Set, direct, limits};
use crate::client::{Client, LEGACY, call, enveloped, initialize, request};
use switchboard_testkit::within;

/// A body of some bytes, of which the last does not come.
struct Unfinished(Option<Bytes>);

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(Frame::data(piece)))))
    }
}

const KIB: usize = 1024;

fn gated(bodies: &Arc<BodyBudget>) -> (Set, Arc<Names>) {
    let names = Arc::new(Names::default());
    let gate: Option<Arc<dyn Authenticate>> = Some(Arc::clone(&names) as _);
    (direct(SiteOptions::default().authenticator(gate).bodies(Arc::clone(bodies))), names)
}

/// Begins a POST of that many bytes, and waits until they are held.
async fn begin(set: &Set, bodies: &BodyBudget, name: &str, bytes: usize) -> JoinHandle<()> {
    let client = Client::new(set.way.clone());
    let body = Unfinished(Some(vec![b' '; bytes].into()));
    let request = client.posting(&json!(null)).header("x-name", name).body(body).unwrap();
    let held = bodies.held();
    let mut site = set.site.clone();
    let begun = tokio::spawn(async move {
        let response = site.call(request).await.unwrap();
        panic!("a body without an end was answered with {}", response.status());
    });
    within(async {
        while bodies.held() != held + bytes {
            tokio::task::yield_now().await;
        }
    })
    .await;
    begun
}

/// The status of a call with so many bytes of arguments.
async fn called(set: &mut Set, name: &str, bytes: usize) -> (u16, bool) {
    let client = Client::modern(set.way.clone());
    let mut message = enveloped(call(1, "large"));
    message["params"]["arguments"] = json!({"text": "x".repeat(bytes)});
    let posted = tokio::spawn({
        let name = name.to_owned();
        async move { post(&client, &name, &message).await }
    });
    while !posted.is_finished() && set.stage.is_silent() {
        tokio::task::yield_now().await;
    }
    if !set.stage.is_silent() {
        set.stage.call().await.finish(&json!({}));
    }
    let reply = within(posted).await.unwrap();
    (reply.status.as_u16(), reply.header("retry-after").is_some())
}

#[tokio::test]
async fn unfinished_bodies_are_bounded_for_each_principal_and_for_all() {
    let bodies = Arc::new(BodyBudget::new(200 * KIB, 100 * KIB));
    let (mut set, _names) = gated(&bodies);
    let ada = begin(&set, &bodies, "ada", 90 * KIB).await;
    assert_eq!(called(&mut set, "ada", 20 * KIB).await, (429, true), "hers are full");
    assert_eq!(called(&mut set, "bob", 20 * KIB).await, (200, false));
    let bob = begin(&set, &bodies, "bob", 90 * KIB).await;
    assert_eq!(called(&mut set, "cleo", 30 * KIB).await, (503, true), "all are full");
    assert_eq!(called(&mut set, "cleo", 10).await, (200, false), "small ones pass");
    ada.abort();
    _ = ada.await;
    assert_eq!(called(&mut set, "cleo", 30 * KIB).await, (200, false));
    bob.abort();
    _ = bob.await;
    assert_eq!(bodies.held(), 0);
}

#[tokio::test]
async fn a_large_body_has_its_turn_before_it_is_read() {
    let bodies = Arc::new(BodyBudget::default());
    let (mut set, names) = gated(&bodies);
    let first = begin(&set, &bodies, "ada", 90 * KIB).await;
    let second = begin(&set, &bodies, "ada", 90 * KIB).await;
    assert_eq!(names.of("ada").open(), (2, 0));
    assert_eq!(called(&mut set, "ada", 90 * KIB).await, (429, true), "two may be open");
    let ping = post(&Client::modern(set.way.clone()), "ada", &enveloped(request(1, "ping"))).await;
    assert_ne!(ping.status, 429, "a sign of life needs no turn");
    for begun in [first, second] {
        begun.abort();
        _ = begun.await;
    }
    assert_eq!(called(&mut set, "ada", 90 * KIB).await, (200, false));
    assert_eq!(names.of("ada").open(), (0, 0));
}

#[tokio::test]
async fn a_body_is_charged_for_as_long_as_anybody_has_its_text() {
    let bodies = Arc::new(BodyBudget::default());
    let (mut set, _names) = gated(&bodies);
    let mut message = enveloped(call(1, "large"));
    message["params"]["arguments"] = json!({"text": "x".repeat(90 * KIB)});
    let length = message.to_string().len();
    let client = Client::modern(set.way.clone());
    let posted = tokio::spawn(async move { post(&client, "ada", &message).await.status });
    let call = set.stage.call().await;
    assert_eq!(bodies.held(), length);
    call.finish(&json!({}));
    assert_eq!(within(posted).await.unwrap(), 200);
    assert_eq!(bodies.held(), length, "the server still has it");
    drop(call);
    assert_eq!(bodies.held(), 0);
}

/// Servers get copies of requests, in other words, and keep them until they answer.
#[tokio::test]
async fn a_call_is_charged_until_it_is_answered_or_cancelled_whoever_has_its_text() {
    let bodies = Arc::new(BodyBudget::new(200 * KIB, 100 * KIB));
    let (mut set, _names) = gated(&bodies);
    let client = greeted(&mut set, "ada").await;
    let post_call = |id: u64| {
        let client = client.clone();
        let mut message = call(id, "large");
        message["params"]["arguments"] = json!({"text": "x".repeat(60 * KIB)});
        tokio::spawn(async move { post(&client, "ada", &message).await.status })
    };
    let first = post_call(1);
    let (face, exchange) = set.stage.call().await.into_place();
    assert_eq!(within(post_call(2)).await.unwrap(), 429, "the first is still open");
    face.finish(exchange, Message::result(&Id::from(0), b"{}").into());
    assert_eq!(within(first).await.unwrap(), 200);
    let third = post_call(3);
    set.stage.call().await;
    let note =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    assert_eq!(post(&client, "ada", &note).await.status, 202, "it is small enough to pass");
    set.stage.heard().await;
    within(third).await.unwrap();
    assert_eq!(bodies.held(), 0);
}

#[tokio::test]
async fn a_large_answer_to_a_question_needs_no_turn() {
    let bodies = Arc::new(BodyBudget::default());
    let (mut set, names) = gated(&bodies);
    let client = greeted(&mut set, "ada").await;
    let posts = [1, 2].map(|id| {
        let client = client.clone();
        tokio::spawn(async move { post(&client, "ada", &call(id, "hold")).await })
    });
    let calls = [set.stage.call().await, set.stage.call().await];
    assert_eq!(names.of("ada").open().0, 2);
    let mut answer = json!({"jsonrpc": "2.0", "id": 7, "result": {"text": "x".repeat(90 * KIB)}});
    assert_eq!(post(&client, "ada", &answer).await.status, 429, "nothing was asked");
    assert!(calls[0].ask(7, "sampling/createMessage"));
    let [asking, holding] = posts;
    let mut asking = within(asking).await.unwrap();
    let (question, _) = asking.message().await;
    answer["id"] = question["id"].clone();
    assert_eq!(post(&client, "ada", &answer).await.status, 202);
    set.stage.heard().await;
    for call in &calls {
        call.finish(&json!({}));
    }
    assert_eq!(within(holding).await.unwrap().status, 200);
}

#[tokio::test]
async fn small_bodies_are_charged_too() {
    let bodies = Arc::new(BodyBudget::new(200 * KIB, 40 * KIB));
    let (mut set, _names) = gated(&bodies);
    let begun = [
        begin(&set, &bodies, "ada", 15 * KIB).await,
        begin(&set, &bodies, "ada", 15 * KIB).await,
        begin(&set, &bodies, "ada", 8 * KIB).await,
    ];
    assert_eq!(called(&mut set, "ada", 4 * KIB).await, (429, true), "hers are full");
    assert_eq!(called(&mut set, "bob", 4 * KIB).await, (200, false));
    for begun in begun {
        begun.abort();
        _ = begun.await;
    }
    assert_eq!(bodies.held(), 0);
}

#[tokio::test]
async fn a_greeting_is_not_charged_for_as_long_as_its_session_lives() {
    let bodies = Arc::new(BodyBudget::default());
    let (mut set, _names) = gated(&bodies);
    let mut hello = initialize(LEGACY);
    hello["params"]["capabilities"] = json!({"slow": true});
    hello["params"]["pad"] = json!("x".repeat(90 * KIB));
    let client = Client::new(set.way.clone());
    let posted = tokio::spawn(async move { post(&client, "ada", &hello).await.status });
    let call = set.stage.call().await;
    let server = json!({"name": "script", "version": "1"});
    call.finish(&json!({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": server}));
    assert_eq!(within(posted).await.unwrap(), 200);
    assert_eq!(bodies.held(), 0, "the greeting is kept, and not its charge");
    drop(call);
}

#[tokio::test]
async fn a_message_that_is_kept_with_its_session_is_refused_if_it_is_large() {
    let bodies = Arc::new(BodyBudget::default());
    let (mut set, _names) = gated(&bodies);
    let pad = json!("x".repeat(256 * KIB));
    let mut hello = initialize(LEGACY);
    hello["params"]["pad"] = pad.clone();
    let client = Client::new(set.way.clone());
    let reply = post(&client, "ada", &hello).await;
    assert_eq!((reply.status.as_u16(), bodies.held()), (413, 0));
    let client = greeted(&mut set, "ada").await;
    let mut level = request(2, "logging/setLevel");
    level["params"] = json!({"level": "error", "pad": pad});
    assert_eq!(post(&client, "ada", &level).await.status, 413);
    assert!(set.stage.is_silent());
}

/// A body of which a byte comes now and then.
struct Trickle(Pin<Box<tokio::time::Sleep>>);

impl Body for Trickle {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.0 = Box::pin(tokio::time::sleep(Duration::from_secs(10)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_given_up_on() {
    let set = direct(limits(|_| {}));
    let client = Client::new(set.way.clone());
    let slow = Trickle(Box::pin(tokio::time::sleep(Duration::ZERO)));
    let post = client.posting(&json!(null)).body(slow).unwrap();
    let begun = tokio::time::Instant::now();
    let answered = tokio::time::timeout(Duration::from_hours(1), set.site.clone().call(post));
    let response: Response<_> = answered.await.expect("not for ever").unwrap();
    assert_eq!(response.status(), 408);
    assert_eq!(begun.elapsed(), SiteOptions::default().body_pause);
}
