//! Bad input of every kind: a clear error each, no growth, and on it goes.

use serde_json::json;

use crate::process::{SERVER, Switchboard, text_of, until};
use crate::upstream::Upstream;
use crate::web::{Session, post};

const HUGE: usize = 64 << 20;

/// What a message may have (32 MiB), twice for a buffer that grows, and some for the allocator.
const GROWTH: u64 = 128 << 20;

/// Bytes that are no message, and the code that says why.
fn bad_input() -> Vec<(&'static str, Vec<u8>, i64)> {
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":""#;
    let nested = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let deep =
        [br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"#, &nested[..], b"}"].concat();
    vec![
        ("invalid UTF-8", [call, &b"\xff\xfe\"}}"[..]].concat(), -32700),
        ("NUL", [call, &b"\0\"}}"[..]].concat(), -32700),
        ("nothing but NUL", vec![0; 64], -32700),
        ("truncated JSON", call.to_vec(), -32700),
        ("deep nesting", deep, -32600),
        ("no message", br#"{"hello":"world"}"#.to_vec(), -32600),
    ]
}

/// wire: STD-1, STD-2
#[test]
fn each_bad_line_on_stdin_gets_its_error_and_the_next_call_works() {
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    for (what, line, code) in bad_input() {
        bridge.write(&[&line[..], b"\n"].concat());
        let answer = bridge.message();
        assert_eq!(answer["error"]["code"], code, "{what}: {answer}");
        assert!(!answer["error"]["message"].as_str().unwrap_or_default().is_empty(), "{what}");
        bridge.until_logged("refused a message");
        assert_eq!(bridge.call(1, "echo", &json!({"text": what})), what);
    }
}

/// wire: STD-1
#[test]
fn lines_of_64_mib_on_stdin_are_refused_without_growing() {
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    let before = bridge.memory();
    let mut line = vec![b'a'; HUGE];
    line.push(b'\n');
    for id in 1..=4 {
        bridge.write(&line);
        let answer = bridge.message();
        let text = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(text.contains("33554432"), "{answer}");
        assert_eq!(bridge.call(id, "echo", &json!({"text": "on"})), "on");
    }
    // The allocator takes some seconds to give back.
    until("memory is back", || bridge.memory() < before + GROWTH);
}

#[test]
fn each_bad_body_gets_its_error_and_the_next_call_works() {
    let (_bridge, port) = Switchboard::serve(&[]);
    let session = Session::open(port);
    for (what, body, code) in bad_input() {
        let answer = session.post(&body);
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        assert_eq!(answer.message()["error"]["code"], code, "{what}: {answer:?}");
        assert_eq!(text_of(&session.call("echo", &json!({"text": what})).message()), what);
    }
}

#[test]
fn bodies_of_64_mib_are_refused_without_growing() {
    let (bridge, port) = Switchboard::serve(&[]);
    let session = Session::open(port);
    let before = bridge.memory();
    let body = vec![b'a'; HUGE];
    for _ in 1..=4 {
        let answer = post(port, &[("Mcp-Session-Id", &session.id)], &body);
        assert_eq!(answer.status, 413, "{answer:?}");
        let text = answer.message()["error"]["message"].to_string();
        assert!(text.contains("33554432"), "{text}");
        assert_eq!(text_of(&session.call("echo", &json!({"text": "on"})).message()), "on");
    }
    // The allocator takes some seconds to give back.
    until("memory is back", || bridge.memory() < before + GROWTH);
}

/// wire: STD-2
#[test]
fn noise_from_a_server_is_reported_and_skipped() {
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    let before = bridge.memory();
    for id in 1..=3 {
        let answer = bridge.call(id, "noise", &json!({"bytes": HUGE}));
        assert_eq!(answer, "after the noise");
    }
    // The allocator takes some seconds to give back.
    until("memory is back", || bridge.memory() < before + GROWTH);
    let line = bridge.until_logged("33554432");
    assert!(line.contains("[WARN] [python3]"), "{line}");
}

#[test]
fn events_of_64_mib_from_a_server_are_skipped_without_growing() {
    let upstream = Upstream::start();
    let mut bridge = Switchboard::start(&["bridge", &upstream.url()]);
    bridge.greet();
    let before = bridge.memory();
    for id in 1..=3 {
        assert_eq!(bridge.call(id, "flood", &json!({"text": "dry"})), "dry");
    }
    // The allocator takes some seconds to give back.
    until("memory is back", || bridge.memory() < before + GROWTH);
    bridge.until_logged("33554432");
}
