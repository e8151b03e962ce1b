//! The built-in server, on each transport and in each era.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::process::{Switchboard, greeting, text_of};
use crate::web::{Events, Response, Session, post};

const NAME: &str = "switchboard-demo";

/// A request as clients without a handshake make them.
fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn post_modern(port: u16, method: &str, name: Option<&str>, params: Value) -> Response {
    let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    post(port, &headers, modern(1, method, params).to_string().as_bytes())
}

fn over_http(more: &[&str]) -> (Switchboard, u16) {
    let mut demo = Switchboard::start(&[&["demo", "--http"], more].concat());
    let port = demo.port();
    (demo, port)
}

#[test]
fn a_person_tries_the_everyday_tools_on_stdio() {
    let mut demo = Switchboard::start(&["demo"]);
    demo.greet_one(NAME);
    assert_eq!(demo.call(1, "echo", &json!({"message": "hello"})), "hello");
    assert_eq!(demo.call(2, "add", &json!({"a": 2, "b": 3})), "5");
    assert_eq!(demo.call(3, "add", &json!({"a": 0.5, "b": 1})), "1.5");
    assert!(demo.call(4, "time", &json!({})).ends_with('Z'));
    let wrong = demo.call(5, "add", &json!({"a": "two", "b": 3}));
    assert!(wrong.contains("invalid arguments"), "{wrong}");
    demo.close_stdin();
    assert_eq!(demo.exit_code(), Some(0));
}

#[test]
fn who_watches_a_resource_hears_that_it_was_touched() {
    let mut demo = Switchboard::start(&["demo"]);
    demo.greet_one(NAME);
    let uri = json!({"uri": "test://watched-resource"});
    assert_eq!(demo.ask(1, "resources/subscribe", &uri)["result"], json!({}));
    let told = demo.ask(2, "tools/call", &json!({"name": "touch"}));
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
    assert_eq!(told["params"]["uri"], uri["uri"]);
    assert_eq!(text_of(&demo.message()), "Touched 1 times");
    let read = demo.ask(3, "resources/read", &uri);
    assert_eq!(read["result"]["contents"][0]["text"], "Touched 1 times");
}

#[test]
fn a_modern_client_is_asked_in_rounds_on_stdio() {
    let mut demo = Switchboard::start(&["demo"]);
    let call = json!({"name": "test_input_required_result_elicitation"});
    demo.send(&modern(1, "tools/call", call.clone()));
    let asked = demo.message()["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["user_name"]["method"], "elicitation/create");
    let mut again = call;
    again["requestState"] = asked["requestState"].clone();
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    again["inputResponses"] = json!({"user_name": answer});
    demo.send(&modern(2, "tools/call", again));
    assert_eq!(text_of(&demo.message()), "Hello, Ann!");
}

#[test]
fn one_endpoint_serves_every_transport_and_era_until_told_to_stop() {
    let (mut demo, port) = over_http(&["--port", "0"]);
    let session = Session::open_at(port, NAME);
    let answer = session.call("echo", &json!({"message": "old"}));
    assert_eq!(text_of(&answer.message()), "old");
    let params = json!({"name": "echo", "arguments": {"message": "new"}});
    let answer = post_modern(port, "tools/call", Some("echo"), params);
    assert_eq!(text_of(&answer.message()), "new");
    let mut events = Events::open(port, "/sse");
    assert!(events.next("event: endpoint").contains("session"), "no endpoint");
    demo.signal(Signal::TERM);
    assert_eq!(demo.exit_code(), Some(0));
}

/// Both ends seal states, and neither may take the other's for its own.
#[test]
fn a_bridge_to_a_server_of_ours_passes_its_states_on() {
    let demo = env!("CARGO_BIN_EXE_switchboard");
    let mut bridge = Switchboard::start(&["bridge", "--port", "0", "--", demo, "demo"]);
    let port = bridge.port();
    let name = "test_input_required_result_elicitation";
    let call = |more: Value| {
        let mut params = json!({"name": name});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post_modern(port, "tools/call", Some(name), params).message()
    };
    let asked = call(json!({}))["result"].clone();
    let state = asked["requestState"].as_str().unwrap();
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Ann"}}});
    let forged = call(json!({"requestState": format!("{state}x"), "inputResponses": answers}));
    assert_eq!(forged["error"]["code"], -32602, "{forged}");
    let answer = call(json!({"requestState": state, "inputResponses": answers}));
    assert_eq!(text_of(&answer), "Hello, Ann!");
}

#[test]
fn an_era_can_be_left_out() {
    let discover = |port| post_modern(port, "server/discover", None, json!({}));
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting()});
    let hello = hello.to_string();
    let (_both, port) = over_http(&[]);
    assert_eq!(discover(port).status, 200);
    let (_legacy, port) = over_http(&["--era", "legacy"]);
    assert!(discover(port).message()["error"].is_object());
    Session::open_at(port, NAME);
    let (_modern, port) = over_http(&["--era", "modern"]);
    let versions = discover(port).message()["result"]["supportedVersions"].clone();
    assert_eq!(versions, json!(["2026-07-28"]));
    let refused = post(port, &[], hello.as_bytes()).message();
    assert!(refused["error"].is_object(), "{refused}");
}

#[test]
fn a_single_revision_is_what_everybody_gets() {
    let mut demo = Switchboard::start(&["demo", "--revision", "2025-03-26"]);
    let answer = demo.ask(1, "initialize", &greeting());
    assert_eq!(answer["result"]["protocolVersion"], "2025-03-26", "{answer}");
    assert!(answer["result"]["capabilities"].get("tasks").is_none());
    let mut demo = Switchboard::start(&["demo", "--revision", "2026-07-28"]);
    assert!(demo.ask(1, "initialize", &greeting())["error"].is_object());
}
