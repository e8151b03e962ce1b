//! HTTP servers that fail in every way there is.

use serde_json::{Value, json};

use crate::process::{Switchboard, text_of};
use crate::upstream::Upstream;
use crate::web::Session;

/// How a call fails, and what its client is told.
const WAYS: [(&str, &str); 10] = [
    ("stall before the head", "Request timeout after"),
    ("stall in the head", "Request timeout after"),
    ("stall in the body", "Request timeout after"),
    ("stall in an event", "Request timeout after"),
    ("reset", "connection to http://127.0.0.1:"),
    ("reset in an event", "No response received for request ID"),
    ("404", "HTTP 404"),
    ("500", "HTTP 500"),
    ("401", "HTTP 401"),
    ("html", "HTTP 200, but with \"text/html\""),
];

fn check(way: &str, expected: &str, id: u64, answer: &Value) {
    assert_eq!(answer["id"], id, "{way}: {answer}");
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.starts_with(expected), "{way}: {answer}");
}

/// wire: HTTP-6, HTTP-22, STD-10
#[test]
fn a_server_that_fails_in_any_way_fails_that_call_and_no_other() {
    let upstream = Upstream::start();
    let (mut bridge, port) = {
        let args = ["bridge", &upstream.url(), "--port", "0", "--timeout", "1"];
        let mut bridge = Switchboard::start(&args);
        let port = bridge.port();
        (bridge, port)
    };
    let session = Session::open(port);
    for ((way, expected), id) in WAYS.into_iter().zip(10..) {
        check(way, expected, id, &session.call_as(id, way).message());
        assert_eq!(text_of(&session.call("echo", &json!({"text": way})).message()), way);
    }
    // All at once, with a call that works among them.
    let mut calls: Vec<_> = WAYS
        .iter()
        .zip(50..)
        .map(|(&(way, _), id)| super::call_at_once(&session, id, 1, way))
        .collect();
    assert_eq!(text_of(&session.call("echo", &json!({"text": "on"})).message()), "on");
    for ((_, expected), calls) in WAYS.into_iter().zip(calls.drain(..)) {
        calls.all_fail(expected);
    }
    bridge.signal(rustix::process::Signal::TERM);
    assert_eq!(bridge.exit_code(), Some(0));
}

/// wire: STD-10
#[test]
fn a_client_on_stdio_is_told_how_its_server_failed() {
    let upstream = Upstream::start();
    let mut bridge = Switchboard::start(&["bridge", &upstream.url(), "--timeout", "1"]);
    bridge.greet();
    for ((way, expected), id) in WAYS.into_iter().zip(10..) {
        let params = json!({"name": way, "arguments": {}});
        check(way, expected, id, &bridge.ask(id, "tools/call", &params));
        assert_eq!(bridge.call(1, "echo", &json!({"text": way})), way);
    }
}
