//! What somebody has open is theirs alone.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use super::access::{ADA, BOB, ROOT, begin_raw, key, keyed};
use super::{Gateway, demo, rude, text};
use crate::process::{Switchboard, greeting, run, text_of, until};
use crate::web::{Events, Response, post_to, send};

fn two_people(servers: &Value) -> Gateway {
    let keys = json!({"ada": key(ADA, json!({})), "bob": key(BOB, json!({}))});
    let gateway = keyed(servers, json!({"keys": keys}));
    let names: Vec<_> = servers.as_object().unwrap().keys().map(String::as_str).collect();
    gateway.ready(&names);
    gateway
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn call(id: u64, tool: &str, arguments: &Value) -> String {
    request(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// Opens a session; its id.
pub(super) fn greet(gateway: &Gateway, path: &str, key: &str) -> Result<String, Response> {
    let hello = request(0, "initialize", &greeting());
    let welcome = post_to(gateway.port, path, &[("X-API-Key", key)], hello.as_bytes());
    if welcome.status != 200 {
        return Err(welcome);
    }
    let id = welcome.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let headers = [("X-API-Key", key), ("Mcp-Session-Id", &id)];
    assert_eq!(post_to(gateway.port, path, &headers, ready.as_bytes()).status, 202);
    Ok(id)
}

/// wire: HTTP-22
#[test]
fn a_session_is_refused_to_everybody_else_and_lives_on() {
    let gateway = two_people(&json!({"it": rude()}));
    for (path, tool) in [("/mcp", "it__echo"), ("/servers/it/mcp", "echo")] {
        let id = greet(&gateway, path, ADA).unwrap();
        let echo = call(1, tool, &json!({"text": "mine"}));
        let stream = ("Accept", "text/event-stream");
        for (shown, status) in
            [(Some(BOB), 404), (Some(ROOT), 404), (Some("wrong"), 401), (None, 401)]
        {
            let mut headers = vec![("Mcp-Session-Id", id.as_str())];
            headers.extend(shown.map(|key| ("X-API-Key", key)));
            let posted = post_to(gateway.port, path, &headers, echo.as_bytes());
            assert_eq!(posted.status, status, "{path} {posted:?}");
            let deleted = send(gateway.port, &format!("DELETE {path}"), &headers, b"");
            assert_eq!(deleted.status, status, "{path} {deleted:?}");
            headers.push(stream);
            let get = format!("GET {path}");
            assert_eq!(send(gateway.port, &get, &headers, b"").status, status, "{path}");
            headers.push(("Last-Event-ID", "1-1"));
            assert_eq!(send(gateway.port, &get, &headers, b"").status, status, "{path}");
        }
        let headers = [("Mcp-Session-Id", id.as_str()), ("X-API-Key", ADA)];
        let mine = post_to(gateway.port, path, &headers, echo.as_bytes());
        assert_eq!(text_of(&mine.message()), "mine", "{path}");
        assert_eq!(send(gateway.port, &format!("DELETE {path}"), &headers, b"").status, 204);
    }
}

/// wire: OLD-5
#[test]
fn a_stream_of_the_first_revision_is_its_owners_too() {
    let gateway = two_people(&json!({"it": rude()}));
    for place in ["", "/servers/it"] {
        let path = format!("{place}/sse");
        let mut stream = Events::open_as(gateway.port, &path, ADA);
        let address = stream.next("event: endpoint");
        let hello = request(0, "initialize", &greeting());
        for (shown, status) in [(BOB, 404), ("wrong", 401)] {
            let headers = [("X-API-Key", shown)];
            let posted = post_to(gateway.port, &address, &headers, hello.as_bytes());
            assert_eq!(posted.status, status, "{posted:?}");
        }
        let posted = post_to(gateway.port, &address, &[("X-API-Key", ADA)], hello.as_bytes());
        assert_eq!(posted.status, 202);
        let welcome: Value = serde_json::from_str(&stream.next("event: message")).unwrap();
        assert_eq!(welcome["id"], 0, "{welcome}");
    }
}

/// A call of a modern client, by hand.
fn modern(port: u16, path: &str, key: &str, tool: &str, more: &Value) -> Value {
    let mut params = json!({"name": tool, "arguments": {"message": "Who?"}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }});
    for (member, value) in more.as_object().unwrap() {
        params[member] = value.clone();
    }
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
        ("X-API-Key", key),
    ];
    let body = request(1, "tools/call", &params);
    post_to(port, path, &headers, body.as_bytes()).message()
}

/// wire: MRTR-8, GW-45
#[test]
fn a_call_that_waits_for_input_goes_on_for_who_made_it_alone() {
    let servers = json!({"old": demo(&["--era", "legacy"]), "new": demo(&["--era", "modern"])});
    let gateway = two_people(&servers);
    for (path, tool) in [
        ("/mcp", "old__test_elicitation"),
        ("/servers/old/mcp", "test_elicitation"),
        ("/mcp", "new__test_input_required_result_elicitation"),
    ] {
        let asked = modern(gateway.port, path, ADA, tool, &json!({}));
        let result = &asked["result"];
        assert_eq!(result["resultType"], "input_required", "{path} {tool}: {asked}");
        let mut responses = json!({});
        for name in result["inputRequests"].as_object().unwrap().keys() {
            let content = json!({"name": "Ann", "response": "Ann"});
            responses[name] = json!({"action": "accept", "content": content});
        }
        let again = json!({"requestState": result["requestState"], "inputResponses": responses});
        let theirs = modern(gateway.port, path, BOB, tool, &again);
        let why = theirs["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("requestState"), "{path} {tool}: {theirs}");
        let done = modern(gateway.port, path, ADA, tool, &again);
        assert!(text(&done["result"]).contains("Ann"), "{path} {tool}: {done}");
    }
}

#[test]
fn no_key_is_in_any_log_or_answer() {
    let home = crate::named::Home::new();
    let clear = "key-in-the-environment-0123456789";
    let keys = json!({"ada": key(ADA, json!({})), "env": {"key": "${GATEWAY_KEY}"}});
    let config = json!({"mcpServers": {"it": rude()}, "switchboard": {"keys": keys}});
    let file = home.write("servers.json", &config.to_string());
    let args = ["--log-level", "trace", "serve", "--config", &file, "--port", "0", "--no-cache"];
    let args = [&args[..], &["--api-key", "${OTHER_KEY}"]].concat();
    let vars = [("GATEWAY_KEY", clear), ("OTHER_KEY", ROOT)];
    let mut process = Switchboard::start_with(&args, &vars);
    let port = process.port();
    let wrong = "key-that-is-wrong-0123456789";
    let mut seen = String::new();
    for shown in [ADA, clear, ROOT, wrong] {
        let bearer = format!("Bearer {shown}");
        for header in [("X-API-Key", shown), ("Authorization", &bearer)] {
            let hello = request(0, "initialize", &greeting());
            for line in ["POST /mcp", "POST /servers/it/mcp", "GET /status", "GET /none"] {
                let json = ("Content-Type", "application/json");
                let length = hello.len().to_string();
                let headers = [header, json, ("Content-Length", &length)];
                let answer = send(port, line, &headers, hello.as_bytes());
                assert_eq!(answer.status == 401, shown == wrong, "{line}: {answer:?}");
                write!(seen, "{answer:?} {}", String::from_utf8_lossy(&answer.body)).unwrap();
            }
        }
    }
    process.signal(rustix::process::Signal::TERM);
    assert_eq!(process.exit_code(), Some(0));
    seen += &process.whole_log();
    assert!(seen.contains("TRACE") || seen.contains("trace"), "{seen:.400}");
    for secret in [ADA, clear, ROOT, wrong] {
        assert!(!seen.contains(secret), "{secret} was shown");
    }
    let checked = run(&["serve", "--check", "--config", &file], &vars);
    assert!(!checked.stderr.contains(clear), "{}", checked.stderr);
}

#[test]
fn a_key_that_leaves_the_file_opens_nothing_and_the_sessions_of_others_live_on() {
    let servers = json!({"it": rude()});
    let gateway = two_people(&servers);
    let (ada, bob) =
        (greet(&gateway, "/mcp", ADA).unwrap(), greet(&gateway, "/servers/it/mcp", BOB).unwrap());
    let keys = json!({
        "bob": key(BOB, json!({"servers": ["it"]})),
        "root": key(ROOT, json!({})),
    });
    let config = json!({"mcpServers": servers, "switchboard": {"keys": keys}});
    gateway.home.write("servers.json", &config.to_string());
    let echo = |path: &str, id: &str, key: &str, tool: &str| {
        let headers = [("Mcp-Session-Id", id), ("X-API-Key", key)];
        let body = call(1, tool, &json!({"text": "on"}));
        post_to(gateway.port, path, &headers, body.as_bytes())
    };
    until("the key of ada is gone", || echo("/mcp", &ada, ADA, "it__echo").status == 401);
    assert_eq!(echo("/mcp", &ada, ROOT, "it__echo").status, 404);
    let on = echo("/servers/it/mcp", &bob, BOB, "echo");
    assert_eq!(text_of(&on.message()), "on");
}

/// Writes the file anew with this key for `ada`, and waits until it holds.
fn replace_ada(gateway: &Gateway, servers: &Value, other: &str) {
    let keys = json!({"ada": key(other, json!({})), "root": key(ROOT, json!({}))});
    let config = json!({"mcpServers": servers, "switchboard": {"keys": keys}});
    gateway.home.write("servers.json", &config.to_string());
    until("the key of ada is another", || gateway.status_as(other).status == 200);
}

const OTHER_ADA: &str = "key-of-another-ada-0123456789abcdef";

/// wire: MRTR-8, GW-45
#[test]
fn a_new_key_of_the_same_name_finishes_no_call_of_the_old_one() {
    let servers = json!({"old": demo(&["--era", "legacy"]), "new": demo(&["--era", "modern"])});
    let gateway = two_people(&servers);
    let mut parked = Vec::new();
    for (path, tool) in [
        ("/mcp", "old__test_elicitation"),
        ("/servers/old/mcp", "test_elicitation"),
        ("/mcp", "new__test_input_required_result_elicitation"),
    ] {
        let asked = modern(gateway.port, path, ADA, tool, &json!({}));
        let result = &asked["result"];
        assert_eq!(result["resultType"], "input_required", "{path} {tool}: {asked}");
        let mut responses = json!({});
        for name in result["inputRequests"].as_object().unwrap().keys() {
            let content = json!({"name": "Ann", "response": "Ann"});
            responses[name] = json!({"action": "accept", "content": content});
        }
        let again = json!({"requestState": result["requestState"], "inputResponses": responses});
        parked.push((path, tool, again));
    }
    let calls = || gateway.status_as(ROOT).message()["servers"]["old"]["calls"].clone();
    assert_eq!(calls(), 2, "both wait for their client");
    replace_ada(&gateway, &servers, OTHER_ADA);
    until("no call waits for the old key", || calls() == 0);
    for (path, tool, again) in parked {
        let theirs = modern(gateway.port, path, OTHER_ADA, tool, &again);
        let why = theirs["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("requestState"), "{path} {tool}: {theirs}");
    }
}

#[test]
fn a_modern_call_in_flight_ends_when_its_key_is_replaced() {
    let servers = json!({"it": rude()});
    let gateway = two_people(&servers);
    let never = gateway.home.path.join("never");
    let wait = json!({"arguments": {"file": never.to_str().unwrap()}});
    for (path, tool) in [("/mcp", "it__wait"), ("/servers/it/mcp", "wait")] {
        let (port, wait) = (gateway.port, wait.clone());
        let calling = std::thread::spawn(move || modern(port, path, ADA, tool, &wait));
        let calls = || gateway.status_as(ROOT).message()["servers"]["it"]["calls"].clone();
        until("the call is made", || calls() == 1);
        replace_ada(&gateway, &servers, OTHER_ADA);
        until("the call ends", || calling.is_finished());
        let answer = calling.join().unwrap();
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("key"), "{path}: {answer}");
        until("its server is told", || calls() == 0);
        replace_ada(&gateway, &servers, ADA);
    }
}

/// A request whose last byte comes after `change` to the file, with the key of ada.
fn late(port: u16, path: &str, tool: &str, change: impl FnOnce()) -> (u16, Value) {
    let params = json!({"name": tool, "arguments": {"text": "late"}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let body = request(1, "tools/call", &params);
    let (first, last) = body.split_at(body.len() - 1);
    let length = body.len().to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Content-Length", length.as_str()),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
        ("X-API-Key", ADA),
        ("Connection", "close"),
    ];
    let mut stream = begin_raw(port, &format!("POST {path}"), &headers);
    stream.write_all(first.as_bytes()).unwrap();
    change();
    stream.write_all(last.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn a_body_that_ends_after_its_key_is_removed_calls_nothing() {
    let servers = json!({"it": demo(&[]), "other": demo(&[])});
    let only_other = key(ADA, json!({"servers": ["other"]}));
    for (path, tool) in [("/mcp", "it__echo"), ("/servers/it/mcp", "echo")] {
        for left in [None, Some(&only_other), Some(&key(BOB, json!({})))] {
            let mut gateway = two_people(&servers);
            let mut keys = json!({"root": key(ROOT, json!({}))});
            if let Some(left) = left {
                keys["ada"] = left.clone();
            }
            let section = json!({"switchboard": {"keys": keys}});
            let port = gateway.port;
            let rewrite = || gateway.rewrite(&servers, &section);
            let (status, answer) = late(port, path, tool, rewrite);
            assert!(answer["result"]["content"].is_null(), "{path} {left:?}: {status} {answer}");
            let metrics = send(port, "GET /metrics", &[("X-API-Key", ROOT)], b"");
            let calls = String::from_utf8_lossy(&metrics.body).contains(r#"tool="echo""#);
            assert!(!calls, "the server was called: {path} {left:?}");
        }
    }
}

/// wire: GW-45
#[test]
fn a_call_that_waits_for_input_ends_with_the_grant_of_its_server() {
    let servers = json!({"old": demo(&["--era", "legacy"]), "other": demo(&[])});
    let mut gateway = two_people(&servers);
    let tool = "old__test_elicitation";
    let asked = modern(gateway.port, "/mcp", ADA, tool, &json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let keys = json!({
        "root": key(ROOT, json!({})),
        "ada": key(ADA, json!({"servers": ["other"]})),
    });
    gateway.rewrite(&servers, &json!({"switchboard": {"keys": keys}}));
    let mut responses = json!({});
    for name in asked["result"]["inputRequests"].as_object().unwrap().keys() {
        responses[name] = json!({"action": "accept", "content": {"name": "Ann"}});
    }
    let state = &asked["result"]["requestState"];
    let again = json!({"requestState": state, "inputResponses": responses});
    let done = modern(gateway.port, "/mcp", ADA, tool, &again);
    assert!(done["error"]["message"].is_string(), "{done}");
}
