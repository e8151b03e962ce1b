//! Calls that never end, when the binary is told to: each is answered all the
//! same, and its server hears that nobody waits.

use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::named::Home;
use crate::process::{SERVER, Switchboard, greeting};
use crate::serve::rude_with;
use crate::web::{Events, Response, Session, post, post_to};

/// The end comes soon after it is asked for.
const GRACE: [&str; 2] = ["--grace", "1"];

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A file that has the test server, with a tool that never answers.
fn file(home: &Home) -> String {
    let servers = json!({"mcpServers": {"a": rude_with(&["hang"], &json!({}))}});
    home.write("servers.json", &servers.to_string())
}

fn request(id: &Value, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn modern(id: &Value, tool: &str) -> Value {
    let mut request = request(id, tool);
    request["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request
}

#[track_caller]
fn assert_given_up(answer: &Value, id: &Value) {
    assert_eq!(&answer["id"], id, "{answer}");
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("is stopping"), "{answer}");
}

/// Waits until this was logged so often.
fn until_logged(process: &mut Switchboard, times: usize, text: &str) {
    for _ in 0..times {
        process.until_logged(text);
    }
}

/// Both eras call on one pipe; how it is told to end, the caller says.
fn on_stdio(args: &[&str], tool: &str, end: impl FnOnce(&mut Switchboard)) {
    let mut process = Switchboard::start(args);
    let hello = process.ask(0, "initialize", &greeting());
    assert!(hello["result"]["protocolVersion"].is_string(), "{hello}");
    process.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let ids = [json!(7), json!("eight")];
    process.send(&request(&ids[0], tool));
    process.send(&modern(&ids[1], tool));
    until_logged(&mut process, 2, "hanging");
    end(&mut process);
    let mut answer = || loop {
        let message = process.message();
        if message["method"].is_null() {
            return message;
        }
    };
    let mut answers = [answer(), answer()];
    answers.sort_by_key(|answer| answer["id"].is_string());
    for (answer, id) in answers.iter().zip(&ids) {
        assert_given_up(answer, id);
    }
    assert_eq!(process.exit_code(), Some(0));
    let log = process.whole_log();
    assert_eq!(log.matches("told to give up").count(), 2, "{log}");
}

/// wire: STD-5, MSG-3, UTL-1
#[test]
fn a_call_that_never_ends_is_answered_when_a_gateway_on_stdio_ends() {
    let home = Home::new();
    let file = file(&home);
    let args = [&["serve", "--stdio", "--no-cache", "--config", &file], &GRACE[..]].concat();
    on_stdio(&args, "a__hang", Switchboard::close_stdin);
    on_stdio(&args, "a__hang", |process| process.signal(Signal::TERM));
}

/// wire: STD-5, MSG-3, UTL-1
#[test]
fn a_call_that_never_ends_is_answered_when_a_bridge_on_stdio_ends() {
    let args = [&["bridge"], &GRACE[..], &["--"], &SERVER[..]].concat();
    on_stdio(&args, "hang", Switchboard::close_stdin);
    on_stdio(&args, "hang", |process| process.signal(Signal::INT));
}

/// Calls of both eras, for each form that an answer may have, and one by HTTP+SSE.
fn over_http(mut process: Switchboard, tool: &'static str) {
    let port = process.port();
    let mut calls = Vec::new();
    for (id, accept) in [(1, JSON), (2, EVENTS), (3, "*/*")] {
        let mut call = |headers: Vec<(&'static str, String)>, body: Value| {
            let id = body["id"].clone();
            let calling = thread::spawn(move || {
                let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
                crate::web::send(port, "POST /mcp", &headers, body.to_string().as_bytes())
            });
            calls.push((id, calling));
        };
        let basic = |body: &Value| {
            let length = body.to_string().len().to_string();
            let basic = [("Content-Type", JSON), ("Accept", accept), ("Content-Length", &length)];
            basic.map(|(name, value)| (name, value.to_owned())).to_vec()
        };
        let session = hello(port);
        let body = request(&json!(id), tool);
        call([basic(&body), vec![("Mcp-Session-Id", session.id)]].concat(), body);
        let body = modern(&json!(format!("m{id}")), tool);
        let mirror = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        let mirror = mirror.map(|(name, value)| (name, value.to_owned())).to_vec();
        call([basic(&body), mirror].concat(), body);
    }
    let mut events = Events::open(port, "/sse");
    let path = events.next("event: endpoint");
    let say = |message: Value| {
        assert_eq!(post_to(port, &path, &[], message.to_string().as_bytes()).status, 202);
    };
    say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting()}));
    events.next("event: message");
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    say(request(&json!("old"), tool));
    let open = calls.len() + 1;
    until_logged(&mut process, open, "hanging");
    process.signal(Signal::TERM);
    for (id, calling) in calls {
        let response: Response = calling.join().unwrap();
        assert_eq!(response.status, 200, "{response:?}");
        assert_given_up(&response.message(), &id);
    }
    // A gateway that has just started may tell of its tools at any time.
    let old = std::iter::repeat_with(|| serde_json::from_str(&events.next("event: message")));
    let old: Value = old.map(Result::unwrap).find(|old: &Value| !old["id"].is_null()).unwrap();
    assert_given_up(&old, &json!("old"));
    events.until_end();
    assert_eq!(process.exit_code(), Some(0));
    let log = process.whole_log();
    assert_eq!(log.matches("told to give up").count(), open, "{log}");
}

/// A session, whatever the server is called.
fn hello(port: u16) -> Session {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting()});
    let answer = post(port, &[], hello.to_string().as_bytes());
    let id = answer.header("mcp-session-id").expect("a session id").to_owned();
    let session = Session { port, id };
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(session.post(ready.to_string().as_bytes()).status, 202);
    session
}

/// wire: HTTP-5, MSG-3, UTL-1
#[test]
fn a_call_that_never_ends_is_answered_when_a_gateway_over_http_ends() {
    let home = Home::new();
    let file = file(&home);
    let args = ["serve", "--port", "0", "--no-cache", "--config", &file];
    over_http(Switchboard::start(&[&args, &GRACE[..]].concat()), "a__hang");
}

/// wire: HTTP-5, MSG-3, UTL-1
#[test]
fn a_call_that_never_ends_is_answered_when_a_bridge_over_http_ends() {
    let line = crate::process::server_line();
    let args = ["bridge", "--stdio", &line, "--port", "0"];
    over_http(Switchboard::start(&[&args, &GRACE[..]].concat()), "hang");
}
