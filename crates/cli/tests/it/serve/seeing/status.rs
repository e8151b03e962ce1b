//! `switchboard status`, and the page behind it.

use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Gateway, Session, mirror};
use crate::process::{Switchboard, run, until};
use crate::serve::demo;
use crate::terminal::Terminal;

fn config() -> Value {
    let gone = json!({"command": "/s3cret/no-such-program"});
    let url = json!({"url": "http://127.0.0.1:1/mcp?key=s3cret"});
    json!({"mcpServers": {"demo": demo(&[]), "mirror": mirror(), "gone": gone, "far": url}})
}

#[test]
fn a_table_shows_servers_and_sessions() {
    let gateway = Gateway::told(&config(), &[], &[]);
    gateway.until_ready(&["demo", "mirror"]);
    until("the others are known to be broken", || {
        let status = gateway.status();
        ["gone", "far"].iter().all(|name| status["servers"][name]["error"].is_string())
    });
    let _session = Session::open(gateway.port, "/mcp", &[]);
    let url = format!("http://127.0.0.1:{}", gateway.port);
    let shown = run(&["status", &url], &[]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let rows: Vec<Vec<_>> =
        shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["SERVER", "STATE", "PROTOCOL", "TRANSPORT"]);
    let row = |name: &str| rows.iter().find(|row| row.first() == Some(&name)).unwrap();
    assert_eq!(row("demo")[1..4], ["ready", "2026-07-28", "stdio"], "{}", shown.stdout);
    assert_eq!(row("mirror")[1..5], ["ready", "2025-11-25", "stdio", "2"], "{}", shown.stdout);
    assert_eq!(row("gone")[1], "failed", "{}", shown.stdout);
    for down in ["gone is down (command not found); next try in ", "far is down ("] {
        assert!(shown.stdout.contains(down), "{}", shown.stdout);
    }
    assert!(
        shown.stdout.contains("1 session (anonymous 1), 0 listens, 0 streams"),
        "{}",
        shown.stdout
    );
    assert!(!shown.stdout.contains("s3cret"), "{}", shown.stdout);
    let json = run(&["status", "--json", &format!("{url}/mcp")], &[]);
    let status: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(status["servers"]["far"]["transport"], "http", "{status}");
    let kinds = ["gone", "far"].map(|name| &status["servers"][name]["errorKind"]);
    assert_eq!(kinds, ["not_started", "unreachable"], "{status}");
    assert_eq!(status["sessions"]["principals"]["anonymous"], 1, "{status}");
    assert!(!status.to_string().contains("s3cret"), "{status}");
}

#[test]
fn it_is_shown_again_and_again_until_a_signal() {
    let gateway = Gateway::told(&json!({"mcpServers": {"mirror": mirror()}}), &[], &[]);
    gateway.until_ready(&["mirror"]);
    let url = format!("http://127.0.0.1:{}", gateway.port);
    let mut watching = Switchboard::start(&["status", &url, "--json", "--watch", "1"]);
    let first = watching.message();
    let _session = Session::open(gateway.port, "/mcp", &[]);
    let second = watching.message();
    assert_eq!([&first, &second].map(|it| &it["sessions"]["count"]), [&json!(0), &json!(1)]);
    watching.signal(Signal::INT);
    assert_eq!(watching.exit_code(), Some(130));
    let mut terminal = Terminal::start(&["status", &url, "--watch", "1"]);
    for _ in 0..2 {
        terminal.until("\u{1b}[2J").until("mirror  ready");
    }
    terminal.types("\u{3}");
}

#[test]
fn no_gateway_no_key_and_nobody_there_are_told_apart() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = run(&["status", &format!("http://127.0.0.1:{port}")], &[]);
    assert_eq!(nobody.code, Some(4), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("switchboard serve"), "{}", nobody.stderr);
    let wrong = run(&["status", "ftp://nowhere"], &[]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    let mut demo = Switchboard::start(&["demo", "--http", "--port", "0"]);
    let other = run(&["status", &format!("http://127.0.0.1:{}", demo.port())], &[]);
    assert_eq!(other.code, Some(1), "{}", other.stderr);
    assert!(other.stderr.contains("no gateway"), "{}", other.stderr);
}
