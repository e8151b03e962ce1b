//! Servers that break, and calls meanwhile.

use std::time::Duration;
use switchboard_proto::failure::{Failure, Status};

use serde_json::json;
use switchboard_net::client;
use switchboard_net::roster::{Roster, RosterError, ServerPhase, ServerState};
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::script::{Journal, runs};
use switchboard_testkit::within;

use super::{patient, state, tools, until};
use crate::client_lib::{at, child, discovered};
use crate::upstream::journal;

fn is_retrying(state: &ServerState) -> bool {
    state.phase == ServerPhase::Retrying
}

#[tokio::test]
async fn a_server_that_dies_is_connected_again_and_a_call_waits_for_it() {
    let journal = journal();
    let roster = Roster::new(patient().wait(Duration::from_secs(30)));
    roster.add("a", child(&journal, &["lists"])).unwrap();
    assert_eq!(roster.ready().await, []);
    let mut changes = roster.changes();
    let args = json!({"code": 3, "words": "out of cheese\n"});
    let broken = within(roster.call("a", "die", args)).await.unwrap_err();
    let RosterError::Failed(client::CallError::Failed(why @ Failure::Exited(exit))) = &broken
    else {
        panic!("{broken:?}")
    };
    assert_eq!(
        (exit.status, &exit.last_words[..]),
        (Status::Code(3), &["out of cheese".to_owned()][..])
    );
    let retrying = until(&mut changes, "a", is_retrying).await;
    assert_eq!(retrying.reason.as_ref(), Some(why), "the reason is told to both");
    assert_eq!(tools(&roster), ["(a/echo)"]);
    within(roster.call("a", "echo", json!({"n": 1}))).await.unwrap();
    assert_eq!(state(&roster, "a").phase, ServerPhase::Ready);
    assert_eq!(tools(&roster), ["a/echo"]);
    let calls = journal.lines().iter().filter(|line| line.ends_with("tools/call")).count();
    assert_eq!(calls, 2, "each call was sent once");
    within(roster.close()).await;
    journal.all_gone().await;
}

#[tokio::test]
async fn a_call_to_a_server_that_does_not_come_back_in_time_fails_unsent() {
    let journal = journal();
    let roster = Roster::new(patient().wait(Duration::from_millis(100)));
    roster.add("a", child(&journal, &["lists", "moody"])).unwrap();
    assert_eq!(roster.ready().await, []);
    journal.hang(true);
    let mut changes = roster.changes();
    within(roster.call("a", "die", json!({"code": 3}))).await.unwrap_err();
    until(&mut changes, "a", is_retrying).await;
    let failed = within(roster.call("a", "echo", ())).await.unwrap_err();
    assert!(matches!(failed, RosterError::NotReady { .. }), "{failed:?}");
    let calls = journal.lines().iter().filter(|line| line.ends_with("tools/call")).count();
    assert_eq!(calls, 1);
    within(roster.close()).await;
    journal.all_gone().await;
}

#[tokio::test]
async fn a_server_that_breaks_too_often_is_left_alone_until_it_is_restarted() {
    let journal = journal();
    let roster = Roster::new(patient().attempts(0));
    roster.add("a", child(&journal, &["dies"])).unwrap();
    let late = within(roster.ready()).await;
    assert_eq!(late[0].state.phase, ServerPhase::Failed);
    let error = late[0].state.reason.as_ref().unwrap();
    assert!(error.to_string().contains("no configuration"), "{error}");
    let lives = journal.pids().len();
    let failed = within(roster.call("a", "echo", ())).await.unwrap_err();
    assert!(matches!(failed, RosterError::NotReady { .. }), "{failed:?}");
    assert_eq!(journal.pids().len(), lives);
    let mut changes = roster.changes();
    roster.restart("a");
    until(&mut changes, "a", |state| state.phase == ServerPhase::Failed).await;
    assert!(journal.pids().len() > lives);
    within(roster.close()).await;
}

#[tokio::test]
async fn a_server_that_is_left_alone_long_enough_is_tried_again_by_a_call() {
    let journal = journal();
    let roster =
        Roster::new(patient().attempts(0).rest(Duration::ZERO).wait(Duration::from_secs(30)));
    roster.add("a", child(&journal, &["lists"])).unwrap();
    assert_eq!(roster.ready().await, []);
    let mut changes = roster.changes();
    within(roster.call("a", "die", json!({"code": 3}))).await.unwrap_err();
    until(&mut changes, "a", |state| state.phase == ServerPhase::Failed).await;
    within(roster.call("a", "echo", ())).await.unwrap();
    within(roster.close()).await;
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_noticed_by_the_call_that_fails() {
    let mut server = HttpServer::start().await;
    let roster = Roster::new(patient());
    roster.add("a", at(&server)).unwrap();
    let mut hello = discovered();
    hello["capabilities"] = json!({"tools": {}});
    let (late, ()) = tokio::join!(roster.ready(), async {
        server.post("server/discover").await.result(hello).await;
        let list = json!({"resultType": "complete", "tools": [{"name": "x"}]});
        server.post("tools/list").await.result(list).await;
    });
    assert_eq!(late, []);
    assert_eq!(tools(&roster), ["a/x"]);
    let mut changes = roster.changes();
    drop(server);
    let failed = within(roster.call("a", "x", ())).await.unwrap_err();
    assert!(matches!(failed, RosterError::Failed(_)), "{failed:?}");
    until(&mut changes, "a", is_retrying).await;
    assert_eq!(tools(&roster), ["(a/x)"]);
    within(roster.close()).await;
}

#[tokio::test]
async fn an_endpoint_is_asked_before_it_is_given_up_and_met_again_when_it_is_back() {
    let mut server = HttpServer::start().await;
    let roster = Roster::new(patient().wait(Duration::from_secs(30)));
    roster.add("a", at(&server)).unwrap();
    let mut hello = discovered();
    hello["capabilities"] = json!({"tools": {}});
    let list = |name: &str| json!({"resultType": "complete", "tools": [{ "name": name }]});
    let (late, ()) = tokio::join!(roster.ready(), async {
        server.post("server/discover").await.result(hello.clone()).await;
        server.post("tools/list").await.result(list("x")).await;
    });
    assert_eq!(late, []);
    let mut changes = roster.changes();
    // One connection breaks, but the server is there.
    let (broken, ()) = tokio::join!(within(roster.call("a", "x", ())), async {
        drop(server.post("tools/call").await);
        server.post("server/discover").await.result(hello.clone()).await;
    });
    assert!(matches!(broken, Err(RosterError::Failed(_))), "{broken:?}");
    assert_eq!(state(&roster, "a").phase, ServerPhase::Ready);
    // Another breaks, and the server is not there until later.
    let (broken, ()) = tokio::join!(within(roster.call("a", "x", ())), async {
        drop(server.post("tools/call").await);
        drop(server.post("server/discover").await);
    });
    assert!(matches!(broken, Err(RosterError::Failed(_))), "{broken:?}");
    until(&mut changes, "a", is_retrying).await;
    let (called, ()) = tokio::join!(within(roster.call("a", "y", ())), async {
        server.post("server/discover").await.result(hello.clone()).await;
        server.post("tools/list").await.result(list("y")).await;
        let hit = server.post("tools/call").await;
        assert_eq!(hit.message()["params"]["name"], "y");
        hit.result(json!({"resultType": "complete", "content": []})).await;
    });
    called.unwrap();
    assert_eq!(tools(&roster), ["a/y"]);
    assert_eq!(server.waiting(|hit| hit.method == "POST"), 0, "nothing was sent twice");
    within(roster.close()).await;
}

#[tokio::test]
async fn whatever_is_done_to_servers_they_come_back_with_one_process_each() {
    let names = ["a", "b", "c"];
    let journals = names.map(|_| journal());
    let roster = Roster::new(patient().wait(Duration::from_millis(20)));
    let add = |at: usize| roster.add(names[at], child(&journals[at], &["lists"]));
    let mut chance: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..60 {
        // A sequence without a pattern, and the same each time.
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let at = usize::try_from(chance % 3).unwrap();
        match chance / 3 % 5 {
            0 => _ = add(at),
            1 => _ = within(roster.remove(names[at])).await,
            2 => _ = roster.restart(names[at]),
            3 => _ = within(roster.call(names[at], "die", json!({"code": 1}))).await,
            _ => _ = within(roster.call(names[at], "echo", json!({}))).await,
        }
    }
    for (at, name) in names.into_iter().enumerate() {
        if add(at).is_err() {
            assert!(roster.restart(name));
        }
    }
    assert_eq!(within(roster.ready()).await, []);
    assert_eq!(tools(&roster), ["a/echo", "b/echo", "c/echo"]);
    for (name, journal) in names.into_iter().zip(&journals) {
        let answer = within(roster.call(name, "pid", ())).await.unwrap();
        let pid = u32::try_from(answer["structuredContent"]["pid"].as_u64().unwrap()).unwrap();
        let running: Vec<_> = journal.pids().into_iter().filter(|&pid| runs(pid)).collect();
        assert_eq!(running, [pid]);
    }
    within(roster.close()).await;
    for pid in journals.iter().flat_map(Journal::pids) {
        assert!(!runs(pid), "{pid} is left");
    }
}
