//! The road to a child process, while it lives.

use serde_json::json;
use std::sync::Arc;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::ServerTarget;
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::{Caller, error_of};
use switchboard_testkit::script::gone;
use switchboard_testkit::within;

use super::{before_child, caller, child_bridge, journal};

/// wire: STD-1, STD-7
#[tokio::test]
async fn a_child_runs_where_and_with_what_it_was_told() {
    let journal = journal();
    let command = journal.server(&[]).env("TOKEN", "t").cwd("/usr");
    let (bridge, mut caller) = before_child(command);
    caller.greet().await;
    let place = caller.tool("place", json!({})).await;
    assert_eq!((&place["cwd"], &place["environment"]["TOKEN"]), (&json!("/usr"), &json!("t")));
    assert_eq!(place["environment"].get("CARGO_PKG_NAME"), None, "what is ours stays ours");
    assert!(caller.call("ping", json!({})).await.get("result").is_some());
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// A greeted child whose messages may have 64 KiB.
async fn with_short_messages(command: Command) -> (Arc<Bridge>, Caller) {
    let limits = Arc::new(Limits { message: 1 << 16, ..Limits::default() });
    let server = ServerTarget::command(command, std::env::vars_os().collect());
    let bridge = Bridge::new(server, Children::PerSession, Arc::clone(&limits));
    let mut caller = Caller::new(Arc::clone(&bridge) as _, Sharing::Alone, limits);
    caller.greet().await;
    (bridge, caller)
}

/// wire: STD-1, STD-10
#[tokio::test]
async fn an_answer_that_is_too_long_fails_its_call_and_no_other() {
    let journal = journal();
    let (bridge, mut caller) = with_short_messages(journal.server(&[])).await;
    let waiting = json!({"name": "wait", "arguments": {"tag": "other"}});
    caller.ask("tools/call", waiting).await;
    let text = caller.tool_error("big", json!({"size": 1 << 17})).await;
    assert_eq!(text, "answer is longer than 65536 bytes");
    assert_eq!(caller.tool("echo", json!({"k": 1})).await, json!({"k": 1}));
    assert!(caller.early().is_empty(), "the other call still waits: {:?}", caller.early());
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: STD-1, STD-2, STD-3
#[tokio::test]
async fn lines_that_are_no_messages_are_skipped() {
    let journal = journal();
    let (bridge, mut caller) = with_short_messages(journal.server(&[])).await;
    for text in [
        "hello\n",
        "\r\n\n  \n",
        "{\"jsonrpc\":\n",
        "\u{ff}\u{fe}\u{0}\n",
        "[]\n",
        "{}\n",
        "12\n",
        "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n",
    ] {
        caller.tool("raw", json!({"text": text})).await;
    }
    caller.tool("long line", json!({"size": 1 << 17})).await;
    assert_eq!(caller.tool("echo", json!({"k": 1})).await, json!({"k": 1}));
    assert!(caller.early().is_empty(), "{:?}", caller.early());
    assert_eq!(journal.pids().len(), 1);
    within(bridge.close()).await;
}

/// wire: STD-1, STD-10
#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_call_and_no_other() {
    let journal = journal();
    let (bridge, mut caller) = with_short_messages(journal.server(&[])).await;
    let deep = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
    let unreadable = [
        (r#"{"jsonrpc":"2.0","id":$id,"result":{"text":"ÿ"}}"#, "not UTF-8, from byte"),
        (r#"{"jsonrpc":"2.0","result":{},"id":$id,"id":$id}"#, "occurs twice"),
        (&format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{deep}}}"#), "nested too deep"),
    ];
    // The only call: it need not be named.
    let nameless = r#"{"jsonrpc":"2.0","id":[],"result":{}}"#;
    let text = caller.tool_error("answer as", json!({"text": format!("{nameless}\n")})).await;
    assert!(text.starts_with("the server's answer cannot be read: "), "{text}");
    // Some servers answer notifications, and have no id to do so.
    for line in [r#"{"jsonrpc":"2.0","result":{}}"#, r#"{"jsonrpc":"2.0","id":null,"result":{}}"#] {
        caller.tool("raw", json!({"text": format!("{line}\n")})).await;
    }
    caller.ask("tools/call", json!({"name": "wait", "arguments": {"tag": "other"}})).await;
    for (line, why) in unreadable {
        let text = caller.tool_error("answer as", json!({"text": format!("{line}\n")})).await;
        assert!(text.starts_with("the server's answer cannot be read: "), "{text}");
        assert!(text.contains(why), "{text}");
    }
    // What is no answer, or does not say to which of two calls, fails none.
    let question = r#"{"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":"ÿ"}}"#;
    for line in [question, nameless] {
        caller.tool("raw", json!({"text": format!("{line}\n")})).await;
    }
    assert!(caller.early().is_empty(), "the other call still waits: {:?}", caller.early());
    within(bridge.close()).await;
    journal.all_gone().await;
}

#[tokio::test]
async fn an_answer_in_a_batch_that_cannot_be_read_fails_its_call() {
    let journal = journal();
    let (bridge, mut caller) = with_short_messages(journal.server(&[])).await;
    caller.ask("tools/call", json!({"name": "wait", "arguments": {"tag": "other"}})).await;
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}"#;
    let answer = r#"{"jsonrpc":"2.0","result":{},"id":$id,"id":$id}"#;
    let batch = format!("[{answer},{notice}]\n");
    let text = caller.tool_error("answer as", json!({"text": batch})).await;
    assert!(text.starts_with("the server's answer cannot be read: "), "{text}");
    assert!(text.contains("occurs twice"), "{text}");
    caller.told("notifications/message").await;
    within(bridge.close()).await;
}

#[tokio::test]
async fn a_line_of_a_log_that_looks_like_an_error_fails_no_call() {
    let journal = journal();
    let (bridge, mut caller) = with_short_messages(journal.server(&[])).await;
    for line in ["{\"error\": \"log of something", "{\"result\": {\"id\": 1"] {
        let answer = r#"{"jsonrpc":"2.0","id":$id,"result":{"structuredContent":{"k":1}}}"#;
        let text = format!("{line}\n{answer}\n");
        assert_eq!(caller.tool("answer as", json!({"text": text})).await, json!({"k": 1}));
    }
    within(bridge.close()).await;
}

/// wire: STD-2
#[tokio::test]
async fn a_line_without_an_end_ends_the_child() {
    let journal = journal();
    let (bridge, mut caller) = with_short_messages(journal.server(&[])).await;
    let text = caller.tool_error("long line", json!({"size": 1 << 24})).await;
    assert_eq!(text, "the server writes a line that does not end");
    assert_eq!(caller.tool("echo", json!({"k": 1})).await, json!({"k": 1}));
    assert_eq!(journal.pids().len(), 2, "another has taken its place");
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: STD-3
#[tokio::test]
async fn a_flood_of_stderr_stops_nothing() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&[]));
    caller.greet().await;
    caller.tool("stderr", json!({"lines": 2000})).await;
    within(bridge.close()).await;
}

#[tokio::test]
async fn a_megabyte_passes_both_ways() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&[]));
    caller.greet().await;
    let text = "x".repeat(1 << 20);
    assert_eq!(caller.tool("echo", json!({"text": text})).await["text"], text);
    assert_eq!(caller.tool("big", json!({"size": 1 << 20})).await["text"], text);
    within(bridge.close()).await;
}

/// wire: GW-85
#[tokio::test]
async fn a_child_is_not_read_while_its_client_does_not_read() {
    let journal = journal();
    let limits = Arc::new(Limits { backlog: 1 << 18, ..Limits::default() });
    let server = ServerTarget::command(journal.server(&[]), std::env::vars_os().collect());
    let bridge = Bridge::new(server, Children::PerSession, Arc::clone(&limits));
    let backend = Arc::clone(&bridge);
    let mut caller = Caller::new(backend, Sharing::Alone, limits);
    caller.greet().await;
    caller.tool("echo", json!({})).await;
    // 64 MiB, of which the pipes and the backlog take less than two.
    let id = caller
        .ask("tools/call", json!({"name": "flood", "arguments": {"count": 1024, "size": 1 << 16}}))
        .await;
    journal.saw("flooded 4").await;
    let count = || journal.lines().iter().filter(|line| line.starts_with("flooded")).count();
    let mut last = 0;
    while count() != last {
        last = count();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert!(last < 64, "{last} messages were taken from a child whose client reads none");
    assert!(caller.answer(id).await.get("result").is_some());
    assert_eq!(caller.early().len(), 1024);
    within(bridge.close()).await;
}

/// wire: GW-85
#[tokio::test]
async fn results_count_as_unread_too() {
    let journal = journal();
    let limits = Arc::new(Limits { backlog: 1 << 18, ..Limits::default() });
    let server = ServerTarget::command(journal.server(&[]), std::env::vars_os().collect());
    let bridge = Bridge::new(server, Children::PerSession, Arc::clone(&limits));
    let backend = Arc::clone(&bridge);
    let mut caller = Caller::new(backend, Sharing::Alone, limits);
    caller.greet().await;
    caller.tool("echo", json!({})).await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        let params = json!({"name": "big", "arguments": {"size": 1 << 17}});
        ids.push(caller.ask("tools/call", params).await);
    }
    for id in ids {
        assert!(caller.answer(id).await.get("result").is_some());
    }
    within(bridge.close()).await;
}

/// wire: GW-85
#[tokio::test]
async fn a_child_that_does_not_read_is_not_written_to_without_end() {
    let journal = journal();
    let limits = Arc::new(Limits { backlog: 4 << 20, ..Limits::default() });
    let server = ServerTarget::command(journal.server(&[]), std::env::vars_os().collect());
    let bridge = Bridge::new(server, Children::PerSession, Arc::clone(&limits));
    let backend = Arc::clone(&bridge);
    let mut caller = Caller::new(backend, Sharing::Alone, limits);
    caller.greet().await;
    caller.ask("tools/call", json!({"name": "deaf"})).await;
    journal.saw("deaf").await;
    let text = "x".repeat(1 << 20);
    let mut refused = 0;
    for _ in 0..20 {
        let id =
            caller.ask("tools/call", json!({"name": "echo", "arguments": {"text": text}})).await;
        // The pipe takes a little, the queue its bound; then each is refused at once.
        if refused > 0 || id > 12 {
            let error = error_of(&caller.answer(id).await);
            assert!(error.contains("does not read"), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: GW-85
#[tokio::test]
async fn a_child_that_pings_and_does_not_read_the_answers_is_ended() {
    let journal = journal();
    let limits = Arc::new(Limits { backlog: 1 << 20, ..Limits::default() });
    let server = ServerTarget::command(journal.server(&[]), std::env::vars_os().collect());
    let bridge = Bridge::new(server, Children::PerSession, Arc::clone(&limits));
    let backend = Arc::clone(&bridge);
    let mut caller = Caller::new(backend, Sharing::Alone, limits);
    caller.greet().await;
    let text = caller.tool_error("pings", json!({"count": 100_000})).await;
    assert!(text.contains("does not read"), "{text}");
    journal.all_gone().await;
    within(bridge.close()).await;
}

/// wire: STD-5
#[tokio::test]
async fn a_child_that_ignores_every_request_to_end_is_ended() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&["stubborn"]));
    caller.greet().await;
    let pid = journal.pids()[0];
    within(bridge.close()).await;
    gone(pid).await;
}

/// wire: STD-5, STD-10
#[tokio::test]
async fn closing_fails_what_is_open_and_what_comes_later() {
    let journal = journal();
    let (bridge, mut caller) = before_child(journal.server(&[]));
    caller.greet().await;
    let id = caller.ask("tools/call", json!({"name": "wait", "arguments": {"tag": 1}})).await;
    journal.saw("waiting 1").await;
    within(bridge.close()).await;
    assert_eq!(error_of(&caller.answer(id).await), "Transport closed");
    journal.all_gone().await;
    assert_eq!(caller.tool_error("pid", json!({})).await, "Transport closed");
    let mut late = self::caller(&bridge);
    let hello = late.begin_greeting().await;
    assert_eq!(error_of(&late.answer(hello).await), "Transport closed");
    assert_eq!(journal.pids().len(), 1, "a child was started after the end");
}

#[tokio::test]
async fn a_bridge_that_is_dropped_takes_its_children_with_it() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::Shared);
    let mut client = caller(&bridge);
    client.greet().await;
    client.leave().await;
    drop(bridge);
    journal.all_gone().await;
}
