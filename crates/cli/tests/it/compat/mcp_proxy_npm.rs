//! mcp-proxy of npm, line by line.

use serde_json::json;

use super::{Case, Stage, Talk, check, page, preflight, told_to_send};
use crate::process::until;
use crate::web::{post, post_to};
use switchboard_testkit::script::runs;

const CASES: &[Case] = &[
    Case::new(
        "--port 0 --host 127.0.0.1 --sseEndpoint /events --streamEndpoint /rpc --apiKey k3y \
         --corsAddAllowedHeader X-Mine --requestTimeout 1000 --maxBodySize 2048 \
         --keepAliveTimeout 1000 --gracefulShutdownTimeout 2000 --eventStoreMaxEvents 5 --upstreamProtocol legacy --modern --eventStore --debug -- {server}",
        has_bounds_and_a_key,
    )
    .vars(&[("AWS_SECRET", "s")]),
    Case::new(
        "--server sse --endpoint /only --port 0 --host 127.0.0.1 -- {server}",
        serves_only_sse,
    ),
    Case::new(
        "--server stream --endpoint /only --no-modern --no-eventStore --sessionIdleTimeout 0 \
         --port 0 --host 127.0.0.1 -- {server}",
        serves_only_streams,
    ),
    Case::new(
        "--stateless --shell --port 0 --host 127.0.0.1 -- cd / && exec {server}",
        has_no_sessions,
    ),
    Case::new("--server stream -- {server}", is_set_by_variables).vars(&[
        ("MCP_PROXY_PORT", "0"),
        ("MCP_PROXY_HOST", "127.0.0.1"),
        ("MCP_PROXY_API_KEY", "k3y"),
    ]),
    Case::new(
        "--connectionTimeout 1000 --server stream --port 0 --host 127.0.0.1 -- sleep 1000",
        is_not_waited_for,
    ),
    Case::new("--sslCert /no/such.pem --sslKey k -- {server}", wants_the_files),
    Case::new("--sslCa a -- {server}", is_refused),
    Case::new("--tunnel -- {server}", is_refused),
    Case::new("--tunnelSubdomain s -- {server}", is_refused),
];

#[test]
fn every_flag_does_what_it_does_there() {
    check("mcp-proxy-npm", CASES);
}

fn has_bounds_and_a_key(stage: &mut Stage) {
    let (port, path) = stage.running().place();
    assert_eq!(path, "/rpc");
    assert_eq!(page(port, "/ping"), (200, "pong".to_owned()));
    assert_eq!(page(port, "/rpc").0, 401);
    assert_eq!(page(port, "/events").0, 401);
    let [talk, other] = [0, 1].map(|_| Talk::open(port, "/rpc", Some("k3y")));
    assert_eq!(talk.call("pid", &json!({})), other.call("pid", &json!({})));
    assert!(talk.call("variables", &json!({})).contains("AWS_SECRET"));
    let large = vec![b' '; 4096];
    assert_eq!(post_to(port, "/rpc", &[("X-API-Key", "k3y")], &large).status, 413);
    let never = json!({"name": "wait", "arguments": {"file": "/nowhere/at-all"}});
    let answer = talk.ask("tools/call", &never).message();
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("timeout"), "{answer}");
    let granted = preflight(port, "/rpc", "https://any.example");
    assert_eq!(granted.header("access-control-allow-origin"), Some("*"));
    let sendable = granted.header("access-control-allow-headers").unwrap();
    assert!(sendable.contains("x-mine"), "{sendable}");
    stage.is_told("[DEBUG]");
}

fn serves_only_sse(stage: &mut Stage) {
    let (port, path) = stage.running().place();
    assert_eq!(path, "/only");
    assert!(told_to_send(port, "/only").starts_with("/message?sessionId="));
    assert_eq!(page(port, "/mcp").0, 404);
}

fn serves_only_streams(stage: &mut Stage) {
    let (port, path) = stage.running().place();
    assert_eq!(path, "/only");
    assert_eq!(page(port, "/sse").0, 404);
    let talk = Talk::open(port, "/only", None);
    assert_eq!(talk.call("echo", &json!({"text": "hello"})), "hello");
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let modern =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let refused = post_to(port, "/only", &headers, modern.to_string().as_bytes());
    assert_eq!(refused.status, 400);
    assert_eq!(refused.message()["error"]["code"], -32022);
}

fn has_no_sessions(stage: &mut Stage) {
    let port = stage.running().port();
    let call = |name: &str| {
        let params = json!({"name": name});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = post(port, &[], call.to_string().as_bytes());
        crate::process::text_of(&answer.message())
    };
    assert_eq!(call("folder"), "/");
    let pid = call("pid");
    assert_eq!(pid, call("pid"), "one process for all");
    stage.running().signal(rustix::process::Signal::TERM);
    assert_eq!(stage.running().exit_code(), Some(0));
    until("the process ends with us", || !runs(pid.parse().unwrap()));
}

fn is_set_by_variables(stage: &mut Stage) {
    let port = stage.running().port();
    assert_eq!(page(port, "/mcp").0, 401);
    Talk::open(port, "/mcp", Some("k3y"));
}

/// A request would have five minutes.
fn is_not_waited_for(stage: &mut Stage) {
    let port = stage.running().port();
    let greeting = crate::process::greeting();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting});
    let answer = post(port, &[], hello.to_string().as_bytes()).message();
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("timeout after"), "{answer}");
}

fn wants_the_files(stage: &mut Stage) {
    let run = stage.finish();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("cannot read /no/such.pem"), "{}", run.stderr);
}

fn is_refused(stage: &mut Stage) {
    let run = stage.finish();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("\"hints\":[\"leave it out\""), "{}", run.stderr);
}
