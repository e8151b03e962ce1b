//! A read that comes before the lists which decide on it.

use std::{fs, thread};

use serde_json::json;

use super::Gateway;
use crate::named::Home;
use crate::process::{SERVER, until};
use crate::web::{post_to, send};

/// A client without a session may ask before anything is known of the server.
#[test]
fn a_read_waits_for_the_lists_that_decide_on_it() {
    let home = Home::new();
    let go = home.path.join("go");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway/tests/it/lenient.py");
    let args = [script, "hold", go.to_str().unwrap()];
    let hidden = ["page://{id}"];
    let server = json!({"command": SERVER[0], "args": args, "excludeResources": hidden});
    let gateway = Gateway::start_in(home, &json!({"a": server}), &json!({}));
    let read = |uri: &str| {
        let params = json!({"uri": uri, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "resources/read"),
            ("Mcp-Name", uri),
        ];
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params});
        post_to(gateway.port, "/servers/a/mcp", &headers, call.to_string().as_bytes()).message()
    };
    thread::scope(|scope| {
        let reading = ["page://7", "box://open/doc"].map(|uri| scope.spawn(move || read(uri)));
        until("both have come", || {
            let page = send(gateway.port, "GET /metrics", &[], b"").body;
            String::from_utf8(page).unwrap().contains("switchboard_open_calls 2\n")
        });
        fs::write(&go, "").unwrap();
        let [hidden, open] = reading.map(|it| it.join().unwrap());
        let refused = hidden["error"]["message"].as_str();
        assert!(refused.is_some_and(|it| it.contains("Resource not found")), "{hidden}");
        assert_eq!(open["result"]["contents"][0]["uri"], "box://open/doc", "{open}");
    });
}
