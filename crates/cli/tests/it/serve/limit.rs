//! How much each may have: calls, sessions, streams, bytes.

use std::fs;
use std::path::Path;
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use super::access::{ADA, BOB, ROOT, key, keyed};
use super::owner::greet;
use super::{Gateway, demo, rude};
use crate::process::{text_of, until};
use crate::web::{Events, Response, post_to, send};

fn limited(servers: &Value, grant: Value, limits: &Value) -> Gateway {
    let keys = json!({"ada": key(ADA, grant), "bob": key(BOB, json!({}))});
    let gateway = keyed(servers, json!({"keys": keys, "limits": limits}));
    let names: Vec<_> = servers.as_object().unwrap().keys().map(String::as_str).collect();
    gateway.ready(&names);
    gateway
}

/// Somebody with a session.
#[derive(Clone)]
struct Person {
    port: u16,
    key: &'static str,
    session: String,
}

impl Person {
    fn new(gateway: &Gateway, key: &'static str) -> Self {
        let session = greet(gateway, "/mcp", key).unwrap();
        Self { port: gateway.port, key, session }
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [("X-API-Key", self.key), ("Mcp-Session-Id", &self.session)]
    }

    fn ask(&self, id: u64, method: &str, params: &Value) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        post_to(self.port, "/mcp", &self.headers(), body.to_string().as_bytes())
    }

    fn call(&self, id: u64, tool: &str, arguments: &Value) -> Response {
        self.ask(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Begins a call that lasts until the file is there.
    fn wait_for(&self, file: &Path) -> JoinHandle<Response> {
        let (person, arguments) = (self.clone(), json!({"file": file.to_str().unwrap()}));
        thread::spawn(move || person.call(1, "it__wait", &arguments))
    }

    fn echo(&self, id: u64) -> Response {
        self.call(id, "it__echo", &json!({"text": "x"}))
    }
}

/// An error for the request of this id, and when to come back.
#[track_caller]
fn is_told_to_wait(answer: &Response, status: u16, id: u64) -> u64 {
    assert_eq!(answer.status, status, "{answer:?}");
    let message = answer.message();
    assert_eq!(message["id"], id, "{message}");
    assert!(message["error"]["message"].as_str().unwrap().contains("too many"), "{message}");
    answer.header("retry-after").unwrap().parse().unwrap()
}

#[test]
fn calls_beyond_the_rate_are_told_when_to_come_back() {
    let gateway = limited(&json!({"it": rude()}), json!({"rateLimit": "2/h"}), &json!({}));
    let (ada, bob) = (Person::new(&gateway, ADA), Person::new(&gateway, BOB));
    for id in 1..=2 {
        assert_eq!(text_of(&ada.echo(id).message()), "x");
    }
    let wait = is_told_to_wait(&ada.echo(3), 429, 3);
    assert!((1..=1800).contains(&wait), "{wait}");
    assert_eq!(ada.ask(4, "ping", &json!({})).status, 200, "a sign of life costs nothing");
    let other = Person::new(&gateway, ADA);
    is_told_to_wait(&other.echo(5), 429, 5);
    for id in 1..=4 {
        assert_eq!(text_of(&bob.echo(id).message()), "x", "others have their own");
    }
    let mut stream = Events::open_as(gateway.port, "/sse", ADA);
    let address = stream.next("event: endpoint");
    let body = json!({"jsonrpc": "2.0", "id": 6, "method": "tools/list"}).to_string();
    let old = post_to(gateway.port, &address, &[("X-API-Key", ADA)], body.as_bytes());
    is_told_to_wait(&old, 429, 6);
    let modern = modern_call(&gateway, ADA, 7, "it__echo");
    is_told_to_wait(&modern, 429, 7);
}

fn modern_call(gateway: &Gateway, key: &str, id: u64, tool: &str) -> Response {
    let params = json!({"name": tool, "arguments": {"message": "Who?"}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }});
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
        ("X-API-Key", key),
    ];
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    post_to(gateway.port, "/mcp", &headers, call.to_string().as_bytes())
}

#[test]
fn notifications_count_for_the_rate_but_greetings_and_cancelling_do_not() {
    let gateway = limited(&json!({"it": rude()}), json!({"rateLimit": "2/h"}), &json!({}));
    let ada = Person::new(&gateway, ADA);
    let notify = |method: &str| {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}});
        post_to(gateway.port, "/mcp", &ada.headers(), body.to_string().as_bytes())
    };
    for _ in 0..2 {
        assert_eq!(notify("notifications/roots/list_changed").status, 202);
    }
    let refused = notify("notifications/roots/list_changed");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    is_told_to_wait(&ada.echo(3), 429, 3);
    assert_eq!(notify("notifications/cancelled").status, 202);
    Person::new(&gateway, ADA);
}

#[test]
fn bytes_of_requests_in_flight_are_bounded_for_each_key_and_for_all() {
    let limits = json!({
        "maxMessageBytes": 100_000, "maxBodyBytes": 190_000, "maxBodyBytesPerKey": 100_000,
    });
    let gateway = limited(&json!({"it": rude()}), json!({}), &limits);
    let (ada, bob) = (Person::new(&gateway, ADA), Person::new(&gateway, BOB));
    let root = Person::new(&gateway, ROOT);
    let long = json!({"text": "x".repeat(30_000)});
    let begin = |person: &Person| {
        let headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", "90000"),
            ("X-API-Key", person.key),
            ("Mcp-Session-Id", &person.session),
        ];
        let mut stream = super::access::begin_raw(gateway.port, "POST /mcp", &headers);
        std::io::Write::write_all(&mut stream, &vec![b' '; 80_000]).unwrap();
        stream
    };
    let of_ada = begin(&ada);
    until("her bytes are held", || ada.call(1, "it__echo", &long).status == 429);
    let told = ada.call(2, "it__echo", &long);
    assert!(told.header("retry-after").is_some(), "{told:?}");
    assert_eq!(ada.echo(3).status, 200, "small ones pass");
    assert_eq!(bob.call(4, "it__echo", &long).status, 200);
    let of_bob = begin(&bob);
    until("all bytes are held", || root.call(5, "it__echo", &long).status == 503);
    drop((of_ada, of_bob));
    until("none is held", || root.call(6, "it__echo", &long).status == 200);
}

#[test]
fn calls_at_once_are_bounded_until_they_are_answered() {
    let grant = json!({"maxConcurrency": 1});
    let mut gateway = limited(&json!({"it": rude()}), grant, &json!({}));
    let file = gateway.home.path.join("go");
    let waiting = Person::new(&gateway, ADA).wait_for(&file);
    gateway.process.until_logged("waiting for go");
    let (ada, bob) = (Person::new(&gateway, ADA), Person::new(&gateway, BOB));
    is_told_to_wait(&ada.echo(2), 429, 2);
    assert_eq!(bob.echo(3).status, 200);
    fs::write(&file, "").unwrap();
    assert_eq!(text_of(&waiting.join().unwrap().message()), "waited");
    assert_eq!(text_of(&ada.echo(4).message()), "x", "its turn is free again");
}

#[test]
fn sessions_are_bounded_for_each_and_for_all() {
    let limits = json!({"maxSessions": 3});
    let gateway = limited(&json!({"it": rude()}), json!({"maxSessions": 1}), &limits);
    let refused = |path: &str, key: &str| {
        let refused = greet(&gateway, path, key).unwrap_err();
        assert!(is_told_to_wait(&refused, 503, 0) > 0);
    };
    let ada = greet(&gateway, "/mcp", ADA).unwrap();
    refused("/servers/it/mcp", ADA);
    greet(&gateway, "/servers/it/mcp", BOB).unwrap();
    greet(&gateway, "/mcp", BOB).unwrap();
    refused("/mcp", BOB);
    refused("/servers/it/mcp", ROOT);
    let headers = [("X-API-Key", ADA), ("Mcp-Session-Id", ada.as_str())];
    assert_eq!(send(gateway.port, "DELETE /mcp", &headers, b"").status, 204);
    greet(&gateway, "/servers/it/mcp", ADA).unwrap();
}

#[test]
fn bytes_streams_and_calls_of_a_session_are_bounded() {
    let limits = json!({
        "maxMessageBytes": 4000, "maxHeaderBytes": 8192, "maxStreams": 1, "maxCalls": 1,
    });
    let mut gateway = limited(&json!({"it": rude()}), json!({}), &limits);
    let ada = Person::new(&gateway, ADA);
    let large = ada.call(1, "it__echo", &json!({"text": "x".repeat(5000)}));
    assert_eq!(large.status, 413, "{large:?}");
    let long = "x".repeat(100_000);
    let head = send(gateway.port, "GET /healthz", &[("X-Long", &long)], b"");
    assert_eq!(head.status, 431, "{head:?}");
    let stream = [ada.headers().as_slice(), &[("Accept", "text/event-stream")]].concat();
    let listening = super::access::begin(gateway.port, "GET /mcp", &stream);
    let second = send(gateway.port, "GET /mcp", &stream, b"");
    assert_eq!(second.status, 429, "{second:?}");
    drop(listening);
    let file = gateway.home.path.join("go");
    let waiting = ada.wait_for(&file);
    gateway.process.until_logged("waiting for go");
    is_told_to_wait(&ada.echo(2), 429, 2);
    fs::write(&file, "").unwrap();
    assert_eq!(text_of(&waiting.join().unwrap().message()), "waited");
}

#[test]
fn calls_that_wait_for_input_are_bounded() {
    let servers = json!({"it": demo(&["--era", "legacy"])});
    let gateway = limited(&servers, json!({}), &json!({"maxParkedCalls": 1}));
    let first = modern_call(&gateway, ADA, 1, "it__test_elicitation").message();
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let second = modern_call(&gateway, BOB, 2, "it__test_elicitation").message();
    assert_ne!(second["result"]["resultType"], "input_required", "{second}");
    assert_eq!(second["id"], 2, "{second}");
}
