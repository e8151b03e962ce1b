//! What is counted of the way to servers, and of the way back to clients.

use std::fs;
use std::io::{BufRead as _, BufReader};

use serde_json::json;

use super::{Gateway, Session, mirror};
use crate::process::{text_of, until};
use crate::serve::rude_with;
use crate::web::{self, send};
use cutting::Cutting;

mod cutting;

/// A server that reads no more once it is asked to sleep.
const DEAF: &str = r#"
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    result = {"tools": [{"name": "sleep", "inputSchema": {"type": "object"}}]}
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"],
                  "capabilities": {"tools": {}}, "serverInfo": {"name": "deaf", "version": "1"}}
    elif message["method"] == "tools/call":
        time.sleep(1000)
    elif "id" in message and message["method"] == "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"],
                          "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

impl Gateway {
    /// A value of the only server, `it`.
    fn of(&self, name: &str) -> u64 {
        let value = self.sample(&format!("switchboard_server_{name}{{server=\"it\"}}"));
        value.unwrap().to_string().parse().unwrap()
    }
}

/// wire: HTTP-11, HTTP-12, HTTP-18
#[test]
fn streams_of_a_server_that_break_and_are_resumed_are_counted() {
    let server = Cutting::start();
    let it = json!({"type": "http", "url": server.url()});
    let gateway = Gateway::told(&json!({"mcpServers": {"it": it}}), &[], &[]);
    gateway.until_ready(&["it"]);
    let session = Session::open(gateway.port, "/mcp", &[]);
    let answer = session.call(&json!({"name": "it__echo"}), &[]);
    assert_eq!(text_of(&answer), "echo");
    // Ours and the client's: each stream that listens is cut once.
    until("streams that listen are resumed", || server.resumed() == 2);
    until("they are counted", || gateway.of("resumes_total") == 2);
    let answer = session.call(&json!({"name": "it__cut"}), &[]);
    assert_eq!(text_of(&answer), "cut");
    assert_eq!((gateway.of("resumes_total"), server.resumed()), (3, 3));
    assert_eq!(gateway.of("reinitializations_total"), 0);
}

/// wire: HTTP-22
#[test]
fn sessions_that_a_server_forgot_and_were_made_anew_are_counted() {
    let server = Cutting::start();
    let it = json!({"type": "http", "url": server.url()});
    let gateway = Gateway::told(&json!({"mcpServers": {"it": it}}), &[], &[]);
    gateway.until_ready(&["it"]);
    let session = Session::open(gateway.port, "/mcp", &[]);
    for count in 1..=2 {
        let answer = session.call(&json!({"name": "it__forget"}), &[]);
        assert_eq!(text_of(&answer), "forget");
        let answer = session.call(&json!({"name": "it__echo"}), &[]);
        assert_eq!(text_of(&answer), "echo");
        assert_eq!(gateway.of("reinitializations_total"), count);
    }
}

#[test]
fn calls_that_wait_for_their_turn_are_counted_while_they_wait() {
    let it = rude_with(&["wait"], &json!({"maxConcurrency": 1}));
    let gateway = Gateway::told(&json!({"mcpServers": {"it": it}}), &[], &[]);
    gateway.until_ready(&["it"]);
    let file = gateway.home.path.join("go");
    let session = Session::open(gateway.port, "/mcp", &[]);
    let wait = |id: u64| {
        let params = json!({"name": "it__wait", "arguments": {"file": file}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    std::thread::scope(|scope| {
        let calls = [7, 8, 9].map(|id| {
            let (session, call) = (&session, wait(id));
            scope.spawn(move || session.send(&call, &[]).message())
        });
        until("two calls wait", || gateway.of("queued_calls") == 2);
        assert_eq!(gateway.of("open_calls"), 3);
        fs::write(&file, "").unwrap();
        for call in calls {
            assert_eq!(text_of(&call.join().unwrap()), "waited");
        }
    });
    assert_eq!((gateway.of("queued_calls"), gateway.of("open_calls")), (0, 0));
}

#[test]
fn messages_that_a_server_does_not_read_are_counted_until_it_is_gone() {
    let it = json!({"command": "python3", "args": ["-c", DEAF]});
    let gateway = Gateway::told(&json!({"mcpServers": {"it": it}}), &[], &[]);
    gateway.until_ready(&["it"]);
    assert_eq!(gateway.of("unsent_messages"), 0);
    let session = web::Session::open_at(gateway.port, "switchboard");
    // More than any pipe holds.
    let arguments = json!({"text": "x".repeat(1 << 20)});
    let params = json!({"name": "it__sleep", "arguments": arguments});
    let mut calls = vec![session.begin_call(1, &json!({"name": "it__sleep", "arguments": {}}))];
    until("it sleeps", || gateway.of("open_calls") == 1);
    calls.extend((2..6).map(|id| session.begin_call(id, &params)));
    until("messages wait", || gateway.of("unsent_messages") >= 1);
    let id = [("Mcp-Session-Id", session.id.as_str())];
    assert_eq!(send(gateway.port, "DELETE /mcp", &id, b"").status, 204);
    until("none waits", || gateway.of("unsent_messages") == 0);
}

#[test]
fn bytes_of_messages_are_counted_in_both_directions() {
    const MANY: usize = 100_000;
    let gateway = Gateway::told(&json!({"mcpServers": {"it": mirror()}}), &[], &[]);
    gateway.until_ready(&["it"]);
    let session = Session::open(gateway.port, "/mcp", &[]);
    session.call(&json!({"name": "it__mirror"}), &[]);
    let bytes = || ["sent_bytes_total", "received_bytes_total"].map(|name| gateway.of(name));
    let before = bytes();
    // What is said in `_meta` comes back.
    session.call(&json!({"name": "it__mirror", "_meta": {"said": "x".repeat(MANY)}}), &[]);
    for (after, before) in bytes().into_iter().zip(before) {
        assert!((100_000..101_000).contains(&(after - before)), "{before}, {after}");
    }
    let before = bytes();
    session.call(&json!({"name": "it__mirror", "arguments": {"said": "x".repeat(MANY)}}), &[]);
    let [sent, received] = bytes();
    assert!((100_000..101_000).contains(&(sent - before[0])), "{sent}");
    assert!((1..1_000).contains(&(received - before[1])), "{received}");
}

/// wire: HTTP-18
#[test]
fn streams_that_clients_come_back_to_are_counted_and_those_that_they_may_not_are_not() {
    let it = rude_with(&["wait"], &json!({}));
    let gateway = Gateway::told(&json!({"mcpServers": {"it": it}}), &[], &[]);
    gateway.until_ready(&["it"]);
    let file = gateway.home.path.join("go");
    let session = web::Session::open_at(gateway.port, "switchboard");
    let stream = session.begin_call(7, &json!({"name": "it__wait", "arguments": {"file": file}}));
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let event = lines.find_map(|line| line.strip_prefix("id: ").map(ToOwned::to_owned)).unwrap();
    drop(lines);
    let resume = |last: &str| {
        let id = ("Mcp-Session-Id", session.id.as_str());
        let headers = [id, ("Accept", "text/event-stream"), ("Last-Event-ID", last)];
        send(gateway.port, "GET /mcp", &headers, b"")
    };
    let resumes = || gateway.sample("switchboard_stream_resumes_total");
    assert!((400..500).contains(&resume("made-up").status));
    assert_eq!(resumes(), Some(0.0));
    fs::write(&file, "").unwrap();
    assert_eq!(text_of(&resume(&event).message()), "waited");
    assert_eq!(resumes(), Some(1.0));
}
