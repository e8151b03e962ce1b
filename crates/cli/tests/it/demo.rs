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

#[test]
fn each_tool_tells_its_nature_and_each_call_leaves_a_trace() {
    let mut demo = Switchboard::start(&["demo"]);
    demo.greet_one(NAME);
    let list = demo.ask(1, "tools/list", &json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    for tool in tools {
        for member in ["layer", "category", "safety", "idempotent", "supportsDryRun"] {
            assert!(!tool["_meta"][member].is_null(), "{member} of {tool}");
        }
    }
    let manifest = demo.ask(2, "tools/call", &json!({"name": "get_tool_manifest"}));
    let manifest = &manifest["result"]["structuredContent"];
    assert_eq!(manifest["success"], true);
    assert_eq!(manifest["tools"].as_array().unwrap().len(), tools.len());
    let secret = json!({"name": "echo", "arguments": {"message": "hunter2"}});
    let said = demo.ask(3, "tools/call", &secret);
    let id = &said["result"]["_meta"]["switchboard/traceId"];
    let look = json!({"name": "get_trace_by_id", "arguments": {"traceId": id}});
    let found = demo.ask(4, "tools/call", &look);
    assert_eq!(found["result"]["structuredContent"]["trace"]["tool"], "echo");
    assert!(!found.to_string().contains("hunter2"), "{found}");
}

/// wire: STD-5
#[test]
fn a_stop_lets_the_demo_finish_what_is_in_flight() {
    let mut demo = Switchboard::start(&["demo"]);
    demo.greet_one(NAME);
    let arguments = json!({"seconds": 0.5, "label": "it"});
    let call =
        json!({"name": "slow_compute", "arguments": arguments, "_meta": {"progressToken": 1}});
    let begun = demo.ask(1, "tools/call", &call);
    assert_eq!(begun["method"], "notifications/progress", "{begun}");
    demo.signal(Signal::TERM);
    demo.until_logged("SIGTERM: finishing");
    assert_eq!(demo.message()["method"], "notifications/progress");
    assert_eq!(text_of(&demo.message()), "Computed it for 0.5 seconds");
    assert_eq!(demo.exit_code(), Some(0));
}

/// wire: STD-2
#[test]
fn stdin_may_come_whole_in_parts_and_without_a_last_line_end() {
    let line = |id: u64| {
        let params = json!({"name": "echo", "arguments": {"message": format!("n\u{e9}{id}")}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let mut demo = Switchboard::start(&["demo"]);
    demo.greet_one(NAME);
    demo.write(format!("{}\n\n{}\r\n", line(1), line(2)).as_bytes());
    let mut seen = vec![text_of(&demo.message()), text_of(&demo.message())];
    seen.sort();
    assert_eq!(seen, ["n\u{e9}1", "n\u{e9}2"]);
    for byte in format!("{}\n", line(3)).as_bytes() {
        demo.write(&[*byte]);
    }
    assert_eq!(text_of(&demo.message()), "n\u{e9}3");
    demo.write(line(4).as_bytes());
    demo.close_stdin();
    assert_eq!(text_of(&demo.message()), "n\u{e9}4");
    assert_eq!(demo.exit_code(), Some(0));
}

#[test]
fn a_person_is_sent_to_a_page_and_a_model_gets_tools() {
    let (_demo, port) = over_http(&[]);
    let call = |name: &str, able: Value, more: Value| {
        let mut params = json!({"name": name, "arguments": {"prompt": "x"}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut body = modern(1, "tools/call", params);
        body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able;
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", name),
        ];
        post(port, &headers, body.to_string().as_bytes()).message()
    };
    for (name, able, method, answer, said) in [
        (
            "test_url_elicitation",
            json!({"elicitation": {"url": {}}}),
            "elicitation/create",
            json!({"action": "accept"}),
            "You went there",
        ),
        (
            "test_sampling_with_tools",
            json!({"sampling": {"tools": {}}}),
            "sampling/createMessage",
            json!({"role": "assistant", "model": "m", "content": "sunny"}),
            "LLM response: \"sunny\"",
        ),
    ] {
        let asked = call(name, able.clone(), json!({}))["result"].clone();
        let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(question["method"], method);
        let back = json!({"requestState": asked["requestState"], "inputResponses": {key: answer}});
        assert_eq!(text_of(&call(name, able, back)), said);
    }
}
