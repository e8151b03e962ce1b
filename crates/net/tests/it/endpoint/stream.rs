//! Event streams: what they carry, how they are kept, how they are resumed.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::call::ReplySink as _;
use switchboard_net::http::site::SiteOptions;

use super::{NEVER, direct, limits, start};
use crate::client::{Client, LEGACY, call, enveloped};
use crate::script::notification;

fn progress(count: u64) -> Value {
    json!({"progressToken": 1, "progress": count})
}

/// wire: HTTP-5, HTTP-6, HTTP-7, HTTP-10, HTTP-11, HTTP-16, HTTP-17, MH-7, SSE-2
#[tokio::test]
async fn what_is_said_on_the_way_makes_the_answer_a_stream() {
    for (version, primes) in [("2025-03-26", false), ("2025-06-18", false), (LEGACY, true)] {
        let mut set = start(SiteOptions::default()).await;
        let client = Client::ready(set.way.clone(), version).await;
        set.stage.noted().await;
        let listening = client.listen(None).await;
        let message = call("c", "t");
        let (mut reply, call) = tokio::join!(client.post(&message), async {
            let call = set.stage.call().await;
            call.note("notifications/progress", &progress(1));
            call
        });
        assert_eq!(reply.header("x-accel-buffering"), Some("no"));
        assert_eq!(reply.header("cache-control"), Some("no-cache, no-transform"));
        assert!(reply.is_stream());
        let mut first = reply.event().await.unwrap();
        assert_eq!(first.data.is_empty(), primes, "{version}");
        assert_eq!(first.retry.is_some(), primes, "{version}");
        let mut ids = Vec::new();
        if primes {
            ids.extend(first.id);
            first = reply.event().await.unwrap();
        }
        let note: Value = serde_json::from_slice(&first.data).unwrap();
        assert_eq!(note["params"]["progress"], 1);
        ids.extend(first.id);

        call.note("notifications/progress", &progress(2));
        let second = reply.event().await.unwrap();
        ids.extend(second.id);
        call.finish(&json!({"content": []}));
        let answer = reply.event().await.unwrap();
        ids.extend(answer.id);
        assert_eq!(serde_json::from_slice::<Value>(&answer.data).unwrap()["id"], "c");
        assert_eq!(reply.event().await, None, "the answer ends the stream");
        let count = ids.len();
        ids.dedup();
        assert_eq!((ids.len(), count), (3 + usize::from(primes), 3 + usize::from(primes)));

        assert_eq!(client.delete().await.status, 204);
        assert_eq!(listening.messages().await, Vec::<Value>::new(), "nothing was said twice");
        set.stopped().await;
    }
}

/// wire: HTTP-7, HTTP-14, HTTP-16, MOD-1
#[tokio::test]
async fn questions_go_where_their_call_came_from() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let listening = client.listen(None).await;
    let (one, two) = (call(1, "one"), call(2, "two"));
    let (mut first, mut second, calls) =
        tokio::join!(client.post(&one), client.post(&two), async {
            let calls = [set.stage.call().await, set.stage.call().await];
            for call in &calls {
                assert!(call.ask(if call.tool() == "one" { 11 } else { 22 }, "roots/list"));
            }
            calls
        });
    for (reply, tool) in [(&mut first, "one"), (&mut second, "two")] {
        let (question, _) = reply.message().await;
        assert_eq!(question["method"], "roots/list");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [tool]}});
        assert_eq!(client.post(&answer).await.status, 202);
        match set.stage.heard().await.verb {
            switchboard_proto::exchange::ClientEvent::Supply { ask, answer } => {
                assert_eq!(ask.0, if tool == "one" { 11 } else { 22 });
                assert!(std::str::from_utf8(answer.text()).unwrap().contains(tool));
            }
            other => panic!("{other:?}"),
        }
    }
    for call in calls {
        call.finish(&json!({}));
    }
    assert_eq!(first.messages().await.len(), 1);
    assert_eq!(second.messages().await.len(), 1);
    assert_eq!(client.delete().await.status, 204);
    assert_eq!(listening.messages().await.len(), 0);
    let modern = Client::modern(set.way.clone());
    let message = enveloped(call(3, "three"));
    let (reply, ()) = tokio::join!(modern.post(&message), async {
        let call = set.stage.call().await;
        assert!(!call.ask(1, "roots/list"), "a modern client cannot be asked");
        call.finish(&json!({}));
    });
    assert_eq!(reply.json().await["id"], 3);
    set.stopped().await;
}

/// wire: HTTP-5, HTTP-10, MH-3
#[tokio::test(start_paused = true)]
async fn a_slow_call_becomes_a_stream_that_is_kept_alive() {
    let options = SiteOptions::default().keep_alive(Duration::from_secs(7));
    let mut set = direct(options);
    let legacy = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let modern = Client::modern(set.way.clone());
    for (client, message) in [(&legacy, call(1, "slow")), (&modern, enveloped(call(1, "slow")))] {
        let begin = tokio::time::Instant::now();
        let (mut reply, call) = tokio::join!(client.post(&message), set.stage.call());
        assert!(reply.is_stream());
        assert_eq!(begin.elapsed(), Duration::from_secs(2));
        if client.version == Some(LEGACY) {
            assert!(reply.piece().await.unwrap().starts_with("id: "));
        }
        for _ in 0..3 {
            let silent = tokio::time::Instant::now();
            assert_eq!(reply.piece().await.unwrap(), ": ping\n\n");
            assert_eq!(silent.elapsed(), Duration::from_secs(7));
        }
        call.finish(&json!({}));
        assert_eq!(reply.messages().await.len(), 1);
    }
}

/// wire: MH-7, HTTP-13, HTTP-16
#[tokio::test(start_paused = true)]
async fn listening_streams_are_kept_alive_and_the_newest_is_spoken_to() {
    let mut set = direct(SiteOptions::default());
    let client = Client::ready(set.way.clone(), "2025-06-18").await;
    let (face, _) = set.stage.noted().await;
    let mut old = client.listen(None).await;
    assert_eq!(old.piece().await.unwrap(), ": ping\n\n");
    let mut new = client.listen(None).await;
    face.note(None, &notification("notifications/a", &json!({})));
    assert_eq!(new.message().await.0["method"], "notifications/a");
    drop(new);
    face.note(None, &notification("notifications/b", &json!({})));
    assert_eq!(old.message().await.0["method"], "notifications/b");
}

/// wire: HTTP-8, HTTP-9, HTTP-12, HTTP-17, HTTP-18
#[tokio::test]
async fn a_cut_stream_is_resumed_with_exactly_what_was_missed() {
    for after_the_answer in [false, true] {
        let mut set = start(SiteOptions::default()).await;
        let client = Client::ready(set.way.clone(), LEGACY).await;
        set.stage.noted().await;
        let message = call(5, "t");
        let (mut reply, call) = tokio::join!(client.post(&message), async {
            let call = set.stage.call().await;
            call.note("notifications/progress", &progress(1));
            call
        });
        let (first, last) = reply.message().await;
        assert_eq!(first["params"]["progress"], 1);
        drop(reply);
        call.note("notifications/progress", &progress(2));
        if after_the_answer {
            call.finish(&json!({"done": true}));
        }
        let mut resumed = client.listen(last.as_deref()).await;
        assert!(resumed.is_stream());
        assert_eq!(resumed.message().await.0["params"]["progress"], 2);
        if !after_the_answer {
            call.note("notifications/progress", &progress(3));
            assert_eq!(resumed.message().await.0["params"]["progress"], 3);
            call.finish(&json!({"done": true}));
        }
        let rest = resumed.messages().await;
        assert_eq!(rest.len(), 1);
        assert_eq!((&rest[0]["id"], &rest[0]["result"]["done"]), (&json!(5), &json!(true)));
        assert!(set.stage.is_silent(), "a legacy disconnect cancels nothing");

        // Once more, for a client that lost the answer on the way.
        let again = client.listen(last.as_deref()).await.messages().await;
        assert_eq!(again.last().unwrap()["id"], 5);
        set.stopped().await;
    }
}

/// wire: HTTP-10, HTTP-18
#[tokio::test(start_paused = true)]
async fn a_stream_cut_after_its_first_breath_gives_its_answer_later() {
    let mut set = direct(SiteOptions::default().keep_alive(NEVER));
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let message = call(1, "slow");
    let (mut reply, call) = tokio::join!(client.post(&message), set.stage.call());
    let primed = reply.event().await.unwrap().id.unwrap();
    drop(reply);
    let resumed = client.listen(Some(&primed)).await;
    call.finish(&json!({}));
    assert_eq!(resumed.messages().await[0]["id"], 1);
}

/// wire: HTTP-18, HTTP-19
#[tokio::test]
async fn resuming_after_nothing_known_is_refused() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let (face, _) = set.stage.noted().await;
    for id in ["99-1", "0-7", "x", "", "1-18446744073709551616"] {
        let reply = client.listen(Some(id)).await;
        assert_eq!(reply.status, 400, "{id:?}");
        assert_eq!(reply.json().await["error"]["code"], -32600, "{id:?}");
    }
    // The ids of one session mean nothing in another.
    let mut stream = client.listen(None).await;
    face.note(None, &notification("notifications/a", &json!({})));
    let (_, id) = stream.message().await;
    let other = Client::ready(set.way.clone(), LEGACY).await;
    assert_eq!(other.listen(id.as_deref()).await.status, 400);
    set.stopped().await;
}

/// wire: HTTP-14, HTTP-18
#[tokio::test]
async fn what_is_said_while_nobody_listens_is_heard_later() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let (face, _) = set.stage.noted().await;
    face.note(None, &notification("notifications/a", &json!({})));
    let mut stream = client.listen(None).await;
    let (message, id) = stream.message().await;
    assert_eq!(message["method"], "notifications/a");
    drop(stream);
    face.note(None, &notification("notifications/b", &json!({})));
    let mut stream = client.listen(id.as_deref()).await;
    assert_eq!(stream.message().await.0["method"], "notifications/b");
    set.stopped().await;
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_until_one_closes() {
    let set = start(limits(|limits| limits.streams = 2)).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    let mut streams = vec![client.listen(None).await, client.listen(None).await];
    let refused = client.listen(None).await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
    drop(streams.pop());
    let mut reply = client.listen(None).await;
    // The hang-up is noticed a moment later.
    while reply.status == 429 {
        tokio::task::yield_now().await;
        reply = client.listen(None).await;
    }
    assert!(reply.is_stream());
    set.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_of_zero_is_none() {
    let set = direct(SiteOptions::default().keep_alive(Duration::ZERO));
    let client = Client::ready(set.way.clone(), "2025-06-18").await;
    let mut stream = client.listen(None).await;
    let silence = tokio::time::timeout(Duration::from_hours(2), stream.piece()).await;
    assert!(silence.is_err(), "{silence:?}");
}
