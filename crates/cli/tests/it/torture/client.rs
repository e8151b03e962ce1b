//! Clients that take everything and give nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use crate::process::{PATIENCE, Switchboard, text_of, until};
use crate::web::Session;

/// What is kept for one client (64 MiB), what is on the way, and some for the allocator.
const GROWTH: u64 = 160 << 20;

/// wire: GW-81
#[test]
fn a_client_that_never_reads_slows_nobody_down() {
    for rule in ["per-session", "shared"] {
        let (bridge, port) = Switchboard::serve(&["--children", rule]);
        let (stuck, other) = (Session::open(port), Session::open(port));
        let before = bridge.memory();
        // 512 MiB are asked for, and nothing is read of them.
        let deaf: Vec<_> = (100..228).map(|id| stuck.begin_call(id, &large(4 << 20))).collect();
        for number in 0..200 {
            let text = number.to_string();
            let answer = other.call("echo", &json!({"text": text})).message();
            assert_eq!(text_of(&answer), text, "{rule}");
        }
        let after = bridge.memory();
        assert!(after < before + GROWTH, "{rule}: from {before} to {after} bytes");
        drop(deaf);
        assert_eq!(text_of(&other.call("echo", &json!({"text": "on"})).message()), "on");
    }
}

fn large(bytes: usize) -> serde_json::Value {
    json!({"name": "large", "arguments": {"bytes": bytes}})
}

#[test]
fn five_hundred_half_open_connections_are_cut_in_time_and_others_work() {
    let (bridge, port) = Switchboard::serve(&["--request-timeout", "3"]);
    let session = Session::open(port);
    let before = bridge.descriptors();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
    let body = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\":";
    let parts = [String::new(), "PO".to_owned(), head.clone(), head + body];
    let mut connections: Vec<_> = (0..500)
        .map(|number| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(parts[number % parts.len()].as_bytes()).unwrap();
            stream
        })
        .collect();
    for number in 0..50 {
        let text = number.to_string();
        assert_eq!(text_of(&session.call("echo", &json!({"text": text})).message()), text);
    }
    for stream in &mut connections {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server says why, or only hangs up; a reset is as good, waiting in vain is not.
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
    }
    until("their descriptors are free", || bridge.descriptors() <= before);
    assert_eq!(text_of(&session.call("echo", &json!({"text": "on"})).message()), "on");
}
