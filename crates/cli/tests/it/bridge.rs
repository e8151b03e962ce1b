//! The bridge in each of its directions.

use rustix::process::Signal;
use serde_json::json;

use crate::process::{SERVER, Switchboard, greeting, text_of};
use crate::upstream::Upstream;
use crate::web::{Events, Session, send};

/// wire: STD-1
#[test]
fn a_command_is_served_over_http() {
    let (_bridge, port) = Switchboard::serve(&[]);
    let session = Session::open(port);
    let answer = session.call("echo", &json!({"text": "grüße\nzwei"}));
    assert_eq!(answer.status, 200);
    assert_eq!(text_of(&answer.message()), "grüße\nzwei");
    let large = session.call("large", &json!({"bytes": 1 << 20}));
    assert_eq!(text_of(&large.message()).len(), 1 << 20);
}

#[test]
fn each_session_has_a_process_of_its_own_unless_shared() {
    let pids = |more: &[&str]| {
        let (_bridge, port) = Switchboard::serve(more);
        let sessions = [Session::open(port), Session::open(port)];
        sessions.map(|session| text_of(&session.call("pid", &json!({})).message()))
    };
    let [one, two] = pids(&[]);
    assert_ne!(one, two);
    let [one, two] = pids(&["--children", "shared"]);
    assert_eq!(one, two);
}

#[test]
fn the_first_revision_is_served_beside_the_endpoint() {
    let (mut bridge, port) = Switchboard::serve(&[]);
    let mut events = Events::open(port, "/sse");
    let path = events.next("event: endpoint");
    assert!(path.starts_with("/message?"), "{path}");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting()});
    let media = [("Content-Type", "application/json")];
    let length = hello.to_string().len().to_string();
    let headers = [&media[..], &[("Content-Length", length.as_str())]].concat();
    let accepted = send(port, &format!("POST {path}"), &headers, hello.to_string().as_bytes());
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let answer = events.next("event: message");
    assert!(answer.contains("\"serverInfo\""), "{answer}");
    bridge.signal(Signal::TERM);
    events.until_end();
    assert_eq!(bridge.exit_code(), Some(0));
}

/// wire: STD-1, STD-2
#[test]
fn a_command_is_served_on_stdio() {
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    assert_eq!(bridge.call(1, "echo", &json!({"text": "one"})), "one");
    assert_eq!(bridge.call(2, "echo", &json!({"text": "two"})), "two");
    let list = bridge.ask(3, "tools/list", &json!({}));
    assert_eq!(list["result"]["tools"][0]["name"], "echo", "{list}");
}

#[test]
fn a_url_is_served_on_stdio_with_the_users_headers() {
    let upstream = Upstream::start();
    let url = upstream.url();
    let args = [
        "bridge",
        url.as_str(),
        "--header",
        "Authorization: Bearer ${TEST_TOKEN}",
        "--header",
        "X-One: 1",
        "--header",
        "x-one: ${NOT_SET_ANYWHERE:-2}",
    ];
    let mut bridge = Switchboard::start_with(&args, &[("TEST_TOKEN", "t0ken")]);
    bridge.greet();
    assert_eq!(bridge.call(1, "echo", &json!({"text": "hello"})), "hello");
    let heads = upstream.heads();
    let call = heads.last().unwrap().to_ascii_lowercase();
    assert!(call.contains("\r\nauthorization: bearer t0ken\r\n"), "{call}");
    assert!(call.contains("\r\nx-one: 2\r\n") && !call.contains("x-one: 1"), "{call}");
    let agent = format!("\r\nuser-agent: switchboard/{}\r\n", env!("CARGO_PKG_VERSION"));
    assert!(call.contains(&agent), "{call}");
    bridge.close_stdin();
    assert_eq!(bridge.exit_code(), Some(0));
    assert!(!bridge.logged.iter().any(|line| line.contains("t0ken")));
}

#[test]
fn a_url_is_served_over_http() {
    let upstream = Upstream::start();
    let mut bridge = Switchboard::start(&["bridge", &upstream.url(), "--port", "0"]);
    let port = bridge.port();
    let session = Session::open(port);
    let answer = session.call("echo", &json!({"text": "hello"}));
    assert_eq!(text_of(&answer.message()), "hello");
}

/// wire: STD-7, OA-24
#[test]
fn a_command_sees_little_of_our_environment_unless_told_otherwise() {
    let key = "5".repeat(64);
    let variables = |more: &[&str]| {
        let args = [&["bridge"], more, &["--"], &SERVER].concat();
        let ours = [("AWS_SECRET", "s"), ("SWITCHBOARD_STORE_KEY", &*key)];
        let mut bridge = Switchboard::start_with(&args, &ours);
        bridge.greet();
        bridge.call(1, "variables", &json!({}))
    };
    let few = variables(&["--env", "MINE=1"]);
    assert!(few.contains("MINE") && few.contains("PATH"), "{few}");
    assert!(!few.contains("AWS_SECRET"), "{few}");
    let all = variables(&["--pass-environment"]);
    assert!(all.contains("AWS_SECRET"), "{all}");
    assert!(!all.contains("SWITCHBOARD_STORE_KEY"), "the key to the user's credentials: {all}");
}

/// wire: STD-10
#[test]
fn a_server_that_dies_in_a_call_fails_it_with_its_last_words() {
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    let answer = bridge.ask(1, "tools/call", &json!({"name": "die"}));
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("Transport closed"), "{answer}");
    assert!(text.contains('7') && text.contains("these are my last words"), "{answer}");
}

#[test]
fn strangers_are_turned_away_unless_listed() {
    let origin = [("Origin", "https://app.example")];
    let status = |port| send(port, "GET /mcp", &origin, b"").status;
    let (_strict, port) = Switchboard::serve(&[]);
    assert_eq!(status(port), 403);
    let (_open, port) = Switchboard::serve(&["--allow-origin", "https://app.example"]);
    assert_eq!(status(port), 200);
}

#[test]
fn a_wrong_path_is_told_the_right_one() {
    for (serve, path) in [("http", "/mcp"), ("sse", "/sse"), ("ws", "/ws")] {
        let args = ["bridge", "--stdio", "true", "--port", "0", "--serve", serve];
        let mut bridge = Switchboard::start(&args);
        let (port, told) = bridge.place();
        assert_eq!(told, path);
        let nothing = send(port, "GET /nowhere", &[], b"");
        assert_eq!(nothing.status, 404);
        let text = String::from_utf8(nothing.body).unwrap();
        assert_eq!(text, format!("there is nothing here; the MCP endpoint is {path}\n"));
    }
}
