//! Servers that talk for ever, on stdout and on stderr, harm nobody.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::client::{CallOptions, Client, ClientOptions};

use super::reload::{events, shared};
use super::{ERAS, Gateway, demo, text};
use crate::process::PATIENCE;
use crate::web::Session;

/// A server that floods from its greeting on, and answers calls meanwhile. `stdout`,
/// `changed`, `stderr` or `nothing` says with what.
const FLOOD: &str = r#"
import json, sys, threading
out = threading.Lock()
def say(message):
    with out:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()
def flood():
    log = {"method": "notifications/message", "params": {"level": "info", "data": "x" * 200}}
    changed = {"method": "notifications/tools/list_changed"}
    line = json.dumps({"jsonrpc": "2.0", **(changed if sys.argv[1] == "changed" else log)}) + "\n"
    while True:
        if sys.argv[1] == "stderr":
            sys.stderr.write("so much to say " * 10 + "\n")
        else:
            with out:
                sys.stdout.write(line * 20)
                sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, params, result = message.get("method"), message.get("params", {}), {}
    if method == "notifications/initialized" and sys.argv[1] != "nothing":
        threading.Thread(target=flood, daemon=True).start()
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"],
                  "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                  "serverInfo": {"name": "flood", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        token = params.get("_meta", {}).get("progressToken")
        for step in range(params["arguments"].get("steps", 0)):
            say({"method": "notifications/progress",
                 "params": {"progressToken": token, "progress": step}})
        result = {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    if "id" in message and method == "server/discover":
        say({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    elif "id" in message:
        say({"id": message["id"], "result": result})
"#;

fn flood(with: &str) -> Value {
    json!({"command": "python3", "args": ["-c", FLOOD, with]})
}

async fn said(client: &Client, server: &str) -> String {
    let (tool, arguments) = match server {
        "good" => ("good__echo".to_owned(), json!({"message": "here"})),
        _ => (format!("{server}__echo"), json!({"text": "here"})),
    };
    let answer = tokio::time::timeout(PATIENCE, client.call_tool(&tool, arguments)).await;
    text(&answer.unwrap_or_else(|_| panic!("no answer of {server}")).unwrap()).to_owned()
}

/// More than a gateway has at rest, and far less than what is said in the meantime.
const MOST: u64 = 128 << 20;

async fn check(servers: &Value, floods: &[&str], told: &[&str]) {
    let mut gateway = Gateway::start(servers);
    let names: Vec<_> = floods.iter().copied().chain(["good"]).collect();
    gateway.until_ready(&names);
    // Somebody who hears everything and reads nothing.
    let deaf = Session::open_at(gateway.port, "switchboard");
    let _unread = events(gateway.port, "/mcp", &deaf.id);
    let mut clients = Vec::new();
    for era in ERAS {
        clients.push(gateway.client_at("/mcp", era, ClientOptions::default()).await);
    }
    for _ in 0..10 {
        for client in &clients {
            for name in &names {
                assert_eq!(said(client, name).await, "here");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for text in told {
        gateway.process.until_logged(text);
    }
    assert!(gateway.process.memory() < MOST, "{} bytes", gateway.process.memory());
    let echo = deaf.call("good__echo", &json!({"message": "still here"})).message();
    assert_eq!(crate::process::text_of(&echo), "still here");
}

#[tokio::test]
async fn a_server_that_logs_for_ever_is_read_slowly_and_told_of() {
    let servers =
        json!({"alone": flood("stdout"), "one": shared(flood("stdout")), "good": demo(&[])});
    check(
        &servers,
        &["alone", "one"],
        &["[alone] the server floods us", "[one] the server floods us"],
    )
    .await;
}

#[tokio::test]
async fn a_server_whose_list_changes_for_ever_is_read_slowly_and_told_of() {
    let servers = json!({"it": shared(flood("changed")), "good": demo(&[])});
    check(&servers, &["it"], &["[it] the server floods us"]).await;
}

#[tokio::test]
async fn a_server_that_writes_to_stderr_for_ever_does_not_fill_the_log() {
    let servers = json!({"it": shared(flood("stderr")), "good": demo(&[])});
    check(&servers, &["it"], &["[it] the server floods its stderr"]).await;
}

#[tokio::test]
async fn of_all_that_a_server_says_in_a_call_nothing_is_lost() {
    const STEPS: u32 = 15_000;
    let gateway = Gateway::start(&json!({"it": flood("nothing")}));
    gateway.until_ready(&["it"]);
    for era in ERAS {
        let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let options =
            CallOptions::default().on_progress(move |it| told.lock().unwrap().push(it.progress));
        let arguments = json!({"text": "here", "steps": STEPS});
        let answer = client.call_tool_with("it__echo", arguments, options).await.unwrap();
        assert_eq!(text(&answer), "here");
        let expected: Vec<_> = (0..STEPS).map(f64::from).collect();
        assert!(*seen.lock().unwrap() == expected, "{} of them", seen.lock().unwrap().len());
    }
}
