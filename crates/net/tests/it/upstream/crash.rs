//! Children that end unasked, and their next lives.

use std::time::Duration;

use serde_json::json;
use switchboard_testkit::caller::error_of;
use switchboard_testkit::script::runs;
use switchboard_testkit::within;

use super::{before_child, journal};

/// wire: STD-6, STD-10
#[tokio::test]
async fn an_exit_fails_every_open_call_and_the_next_call_starts_the_child_again() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&[]));
    caller.greet().await;
    caller.call("resources/subscribe", json!({"uri": "a://1"})).await;
    caller.call("logging/setLevel", json!({"level": "error"})).await;
    let one = caller.ask("tools/call", json!({"name": "wait", "arguments": {}})).await;
    let two = caller
        .ask(
            "tools/call",
            json!({"name": "die", "arguments": {"code": 3, "words": "boom\nbang\n"}}),
        )
        .await;
    for id in [one, two] {
        let text = error_of(&caller.answer(id).await);
        assert_eq!(text, "Transport closed (exit status 3); last words: boom | bang");
    }
    let place = caller.tool("pid", json!({})).await;
    assert_eq!(place["hellos"], 1, "the new child was greeted");
    caller.told("notifications/tools/list_changed").await;
    let pids = journal.pids();
    assert_eq!((pids.len(), place["pid"].as_u64()), (2, Some(u64::from(pids[1]))));
    let lines = journal.lines();
    let second: Vec<_> =
        lines.iter().filter_map(|l| l.strip_prefix(&format!("{} ", pids[1]))).collect();
    let greeting = [
        "initialize",
        "notifications/initialized",
        "resources/subscribe",
        "logging/setLevel",
        "tools/call",
    ];
    assert_eq!(second, greeting);
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: STD-6
#[tokio::test]
async fn an_answer_that_was_written_before_the_exit_is_not_lost() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&[]));
    caller.greet().await;
    let last = caller.ask("tools/call", json!({"name": "answer and exit"})).await;
    for _ in 0..20 {
        // What is written to a child that reads no more must not hide what it wrote.
        caller.ask("tools/list", json!({})).await;
    }
    let answer = caller.answer(last).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"last": true}), "{answer}");
    within(bridge.close()).await;
}

/// wire: STD-6
#[tokio::test]
async fn an_exit_is_seen_though_a_detached_descendant_holds_the_pipes() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&[]));
    caller.greet().await;
    let left = caller.ask("tools/call", json!({"name": "leave", "arguments": {"code": 1}})).await;
    journal.saw("left ").await;
    let answer = tokio::time::timeout(Duration::from_secs(30), caller.answer(left)).await;
    let lines = journal.lines();
    let pid = lines.iter().find_map(|line| line.strip_prefix("left ")).expect("it was seen");
    let ended = std::process::Command::new("kill").arg(pid).status();
    assert!(ended.expect("kill can be run").success(), "the descendant held the pipes");
    let text = error_of(&answer.expect("the call fails when the child exits"));
    assert_eq!(text, "Transport closed (exit status 1)");
    let place = caller.tool("pid", json!({})).await;
    let pids = journal.pids();
    assert_eq!((pids.len(), place["pid"].as_u64()), (2, Some(u64::from(pids[1]))));
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: STD-6
#[tokio::test]
async fn a_child_that_closes_its_streams_but_lives_is_ended_and_started_again() {
    for name in ["close stdout", "close stdin"] {
        let journal = journal();
        let (bridge, mut caller) = before_child(journal.server(&[]));
        caller.greet().await;
        let first = caller.ask("tools/call", json!({"name": name})).await;
        let answer = caller.answer(first).await;
        if name == "close stdout" {
            let text = error_of(&answer);
            assert!(text.starts_with("Transport closed ("), "{text}");
        } else {
            let text = caller.tool_error("wait", json!({})).await;
            assert!(text.starts_with("Transport closed ("), "{text}");
        }
        assert!(!runs(journal.pids()[0]), "{name}");
        caller.tool("pid", json!({})).await;
        within(bridge.close()).await;
        journal.all_gone().await;
    }
}

/// wire: STD-6
#[tokio::test(start_paused = true)]
async fn a_child_that_ends_every_time_is_started_less_and_less_often() {
    // Found out before a process is made: a paused clock does not wait for those.
    let command = journal().server(&[]).cwd("/no/such/place");
    let (bridge, mut caller) = before_child(command);
    let mut tries = Vec::new();
    for _ in 0..7 {
        let before = tokio::time::Instant::now();
        let id = caller.begin_greeting().await;
        let text = error_of(&caller.answer(id).await);
        assert!(text.contains("/no/such/place"), "{text}");
        tries.push((before.elapsed().as_secs(), text.contains("left alone")));
    }
    // While it is left alone calls fail at once.
    let expected =
        [(0, false), (1, false), (5, false), (15, true), (0, true), (0, true), (0, true)];
    assert_eq!(tries, expected);
    tokio::time::sleep(Duration::from_mins(6)).await;
    let id = caller.begin_greeting().await;
    assert!(!error_of(&caller.answer(id).await).contains("left alone"));
    bridge.close().await;
}

/// wire: STD-6
#[tokio::test]
async fn a_child_that_ends_at_once_is_an_error_with_its_last_words() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&["dies"]));
    for _ in 0..2 {
        let id = caller.begin_greeting().await;
        let text = error_of(&caller.answer(id).await);
        assert_eq!(text, "Transport closed (exit status 4); last words: no configuration");
    }
    // It is started when it is asked for and not otherwise.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(journal.pids().len(), 2);
    within(bridge.close()).await;
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_an_error_that_says_so() {
    let command = switchboard_net::stdio::child::Command::new("no-such-program-anywhere");
    let (bridge, mut caller) = before_child(command);
    let id = caller.begin_greeting().await;
    let text = error_of(&caller.answer(id).await);
    assert!(text.contains("no-such-program-anywhere"), "{text}");
    within(bridge.close()).await;
}
