//! Bringing servers up, and letting go of them.

use std::time::Duration;

use serde_json::json;
use switchboard_net::client::ClientOptions;
use switchboard_net::roster::{AddError, Change, Roster, RosterError, RosterOptions, ServerPhase};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::ServerTarget;
use switchboard_proto::failure::Failure;
use switchboard_proto::revision::Era;
use switchboard_testkit::script::{Journal, runs};
use switchboard_testkit::within;
use tokio::sync::mpsc;

use super::{names, patient, state, tools, until};
use crate::client_lib::child;
use crate::upstream::journal;

#[tokio::test]
async fn servers_are_connected_side_by_side_and_offered_together() {
    let journals = [journal(), journal()];
    let roster = Roster::new(patient());
    roster.add("b", child(&journals[1], &["lists"])).unwrap();
    roster.add("a", child(&journals[0], &["lists"])).unwrap();
    assert_eq!(roster.ready().await, []);
    assert_eq!(tools(&roster), ["a/echo", "b/echo"]);
    let tool = &roster.tools()[0];
    let text = r#"{ "name" :"echo", "inputSchema":{"type":"object"},"x":1.0e2 }"#;
    assert_eq!(tool.text, text, "as it came");
    assert_eq!(tool.value()["x"], 100.0);
    let pid = |answer: serde_json::Value| answer["structuredContent"]["pid"].as_u64().unwrap();
    let a = pid(roster.call("a", "pid", ()).await.unwrap());
    let b = pid(roster.call("b", "pid", ()).await.unwrap());
    assert!(journals[0].pids().contains(&u32::try_from(a).unwrap()));
    assert!(journals[1].pids().contains(&u32::try_from(b).unwrap()));
    let unknown = roster.call("c", "pid", ()).await.unwrap_err();
    assert_eq!(unknown.to_string(), "no server is called \"c\"");
    within(roster.close()).await;
    for journal in &journals {
        journal.all_gone().await;
    }
}

#[tokio::test]
async fn servers_that_hang_or_crash_neither_delay_nor_hide_the_others() {
    let journals = [journal(), journal(), journal()];
    journals[0].hang(true);
    // One place: those that hang must give it up.
    let options = RosterOptions::default().at_once(1);
    let roster = Roster::new(options);
    let mut changes = roster.changes();
    roster.add("a hangs", child(&journals[0], &["lists", "moody"])).unwrap();
    roster.add("b crashes", child(&journals[1], &["dies"])).unwrap();
    roster.add("c works", child(&journals[2], &["lists"])).unwrap();
    until(&mut changes, "c works", |state| state.phase == ServerPhase::Ready).await;
    assert_eq!(tools(&roster), ["c works/echo"]);
    within(roster.call("c works", "echo", json!({}))).await.unwrap();
    if state(&roster, "b crashes").phase == ServerPhase::Starting {
        until(&mut changes, "b crashes", |state| state.phase == ServerPhase::Retrying).await;
    }
    let late = within(roster.ready()).await;
    assert_eq!(names(&late), ["a hangs".into(), "b crashes".into()]);
    assert_eq!(late[0].state.phase, ServerPhase::Starting);
    assert!(!late[0].is_cached && !late[1].is_cached);
    within(roster.close()).await;
    for journal in &journals {
        journal.all_gone().await;
    }
}

#[tokio::test]
async fn ready_returns_although_nothing_is() {
    let journal = journal();
    journal.hang(true);
    let roster = Roster::new(RosterOptions::default());
    roster.add("a", child(&journal, &["moody"])).unwrap();
    let late = within(roster.ready()).await;
    assert_eq!((&*late[0].name, &late[0].state.phase), ("a", &ServerPhase::Starting));
    within(roster.close()).await;
    journal.all_gone().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_started_says_why_and_is_tried_again() {
    let roster = Roster::new(patient().wait(Duration::from_millis(50)));
    roster.add("a", ServerTarget::command(Command::new("/no/such/server"), Vec::new())).unwrap();
    let late = within(roster.ready()).await;
    assert_eq!(late[0].state.phase, ServerPhase::Retrying);
    let error = late[0].state.reason.as_ref().unwrap();
    assert!(matches!(error, Failure::NotStarted { .. }), "{error:?}");
    assert!(error.to_string().contains("/no/such/server"), "{error}");
    let failed = roster.call("a", "echo", ()).await.unwrap_err();
    assert!(matches!(failed, RosterError::NotReady { .. }), "{failed:?}");
    assert!(failed.to_string().starts_with("server \"a\" is not ready: "), "{failed}");
    within(roster.close()).await;
}

#[tokio::test]
async fn servers_come_and_go_while_others_work() {
    let journals = [journal(), journal()];
    let roster = Roster::new(patient().servers(2));
    let mut changes = roster.changes();
    roster.add("a", child(&journals[0], &["lists"])).unwrap();
    assert_eq!(roster.ready().await, []);
    roster.add("b", child(&journals[1], &["lists"])).unwrap();
    let taken = roster.add("a", child(&journals[0], &[])).unwrap_err();
    assert_eq!(taken, AddError::Taken { name: "a".to_owned() });
    assert_eq!(roster.ready().await, []);
    assert_eq!(roster.add("c", child(&journals[0], &[])), Err(AddError::Full { most: 2 }));
    assert!(within(roster.remove("a")).await);
    assert!(!within(roster.remove("a")).await);
    journals[0].all_gone().await;
    assert_eq!(tools(&roster), ["b/echo"]);
    within(async { while changes.next().await != Some(Change::Removed { server: "a".into() }) {} })
        .await;
    let before = journals[1].pids();
    assert!(roster.restart("b") && !roster.restart("a"));
    assert_eq!(tools(&roster), ["(b/echo)"], "what it offered is still offered");
    assert_eq!(roster.ready().await, []);
    assert_eq!(tools(&roster), ["b/echo"]);
    assert!(journals[1].pids().len() > before.len());
    within(roster.close()).await;
    assert_eq!(roster.add("d", child(&journals[0], &[])), Err(AddError::Closed));
    assert!(matches!(roster.call("b", "echo", ()).await, Err(RosterError::Unknown { .. })));
    journals[1].all_gone().await;
}

#[tokio::test]
async fn a_roster_that_is_dropped_lets_go_of_its_servers() {
    let journals = [journal(), journal()];
    journals[1].hang(true);
    let roster = Roster::new(RosterOptions::default());
    let mut changes = roster.changes();
    roster.add("a", child(&journals[0], &["lists"])).unwrap();
    roster.add("b", child(&journals[1], &["moody"])).unwrap();
    until(&mut changes, "a", |state| state.phase == ServerPhase::Ready).await;
    journals[1].saw("start").await;
    drop(roster);
    within(async { while changes.next().await.is_some() {} }).await;
    for journal in &journals {
        journal.all_gone().await;
    }
}

#[tokio::test]
async fn closing_ends_servers_that_do_not_want_to() {
    let journals = [journal(), journal(), journal()];
    let roster = Roster::new(patient());
    for (name, journal) in ["a", "b", "c"].into_iter().zip(&journals) {
        roster.add(name, child(journal, &["stubborn"])).unwrap();
    }
    assert_eq!(roster.ready().await, []);
    within(roster.close()).await;
    for pid in journals.iter().flat_map(Journal::pids) {
        assert!(!runs(pid), "{pid} is left");
    }
}

#[tokio::test]
async fn closing_ends_what_has_only_begun() {
    let journal = journal();
    journal.hang(true);
    let roster = Roster::new(RosterOptions::default());
    roster.add("a", child(&journal, &["moody"])).unwrap();
    journal.saw("start").await;
    within(roster.close()).await;
    for pid in journal.pids() {
        assert!(!runs(pid), "{pid} is left");
    }
}

#[tokio::test]
async fn a_server_may_have_ears_and_options_of_its_own() {
    let journal = journal();
    let roster = Roster::new(patient());
    let (sender, mut told) = mpsc::unbounded_channel();
    let (notes, errors, ends) = (sender.clone(), sender.clone(), sender);
    let options = ClientOptions::default()
        .era(Era::Legacy)
        .on_notification(move |note| _ = notes.send(note.method))
        .on_error(move |_| _ = errors.send("error".to_owned()))
        .on_close(move || _ = ends.send("close".to_owned()));
    let connect = Duration::from_mins(1);
    roster.add_within("a", child(&journal, &["lists"]), options, connect).unwrap();
    assert_eq!(roster.ready().await, []);
    assert!(!journal.lines().iter().any(|line| line.ends_with("server/discover")));
    let client = roster.client("a").await.unwrap();
    client.call_tool("change", json!({"tool": "x"})).await.unwrap();
    client.call_tool("die", json!({"code": 1})).await.unwrap_err();
    for wanted in ["notifications/tools/list_changed", "error", "close"] {
        assert_eq!(within(told.recv()).await.unwrap(), wanted);
    }
    within(roster.close()).await;
}

#[tokio::test]
async fn whoever_reads_too_slowly_is_told_that_something_was_missed() {
    let roster = Roster::new(RosterOptions::default());
    let mut changes = roster.changes();
    roster.add("a", ServerTarget::command(Command::new("/no/such/server"), Vec::new())).unwrap();
    for _ in 0..1000 {
        assert!(roster.restart("a"));
    }
    assert_eq!(within(changes.next()).await, Some(Change::Missed));
    assert!(matches!(within(changes.next()).await, Some(Change::State { .. })));
    within(roster.close()).await;
}

#[tokio::test]
async fn the_state_of_a_server_is_published_until_it_is_removed() {
    let journal = journal();
    let roster = Roster::new(patient());
    roster.add("a", child(&journal, &["lists"])).unwrap();
    let mut state = roster.state("a").unwrap();
    assert!(roster.state("b").is_none());
    let ready = within(state.wait_for(|state| state.phase == ServerPhase::Ready)).await.unwrap();
    assert!(ready.accepts_calls && ready.was_ready && ready.reason.is_none());
    drop(ready);
    assert!(roster.restart("a"));
    assert!(state.borrow().is_pending() && state.borrow().accepts_calls, "it was ready");
    assert!(within(roster.remove("a")).await);
    assert_eq!(state.borrow().phase, ServerPhase::Draining);
    journal.all_gone().await;
}
