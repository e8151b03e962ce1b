//! Servers that tell what they were given, and addresses that nobody is to know.

use rustix::process::Signal;
use serde_json::json;
use switchboard_net::client::{Client, ClientOptions};

use super::Gateway;
use crate::serve::{ERAS, server as at};

/// A server that ends at each call, and says with what it was started.
const BLAB: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    method, params, result = message.get("method"), message.get("params", {}), {}
    if method == "tools/call":
        print("cannot log in with", os.environ["TOKEN"], file=sys.stderr, flush=True)
        sys.exit(3)
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "blab", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [{"name": "blab", "inputSchema": {"type": "object"}}]}
    if method == "server/discover":
        outcome = {"error": {"code": -32601, "message": "no such method"}}
    else:
        outcome = {"result": result}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
"#;

#[tokio::test]
async fn the_last_words_of_a_server_are_for_the_log_alone_and_without_secrets() {
    let config = json!({
        "mcpServers": {"blab": {
            "command": "python3",
            "args": ["-c", BLAB],
            "env": {"TOKEN": "s3cret-token"},
        }},
        "switchboard": {"diagnostics": true},
    });
    for format in ["text", "json"] {
        let mut gateway =
            Gateway::told(&config, &["--log-level", "trace", "--log-format", format], &[]);
        gateway.until_ready(&["blab"]);
        for era in ERAS {
            for (path, tool) in [("/mcp", "blab__blab"), ("/servers/blab/mcp", "blab")] {
                let client = gateway.client_at(path, era, ClientOptions::default()).await;
                let error = client.call_tool(tool, json!({})).await.unwrap_err().to_string();
                assert!(error.contains("exit status 3"), "{era:?} {path}: {error}");
                assert!(!error.contains("log in"), "{era:?} {path}: {error}");
            }
        }
        let mut pages = gateway.metrics();
        pages += &gateway.status().to_string();
        gateway.process.signal(Signal::TERM);
        gateway.process.exit_code();
        let log = gateway.process.whole_log();
        assert!(log.contains("cannot log in with ${TOKEN}"), "{log}");
        assert!(!log.contains("s3cret") && !pages.contains("s3cret"), "{pages}\n{log}");
    }
}

#[tokio::test]
async fn why_a_server_cannot_be_reached_is_not_for_clients_to_know() {
    let config = json!({"mcpServers": {
        "far": {"url": "http://127.0.0.1:1/s3cret-path", "passHeaders": ["X-Mine"]},
        "file": {"command": "/s3cret-folder/run"},
        "old": {"type": "sse", "url": "http://127.0.0.1:1/s3cret-path", "passHeaders": ["X-Mine"]},
    }});
    let mut gateway = Gateway::told(&config, &[], &[]);
    for server in ["far", "file", "old"] {
        // Who has headers of their own may be let in where we are not: they are always tried.
        gateway.until_error(server);
        let paths = ["/mcp".to_owned(), format!("/servers/{server}/mcp")];
        for (era, path) in ERAS.into_iter().zip(paths) {
            let options = ClientOptions { era: Some(era), ..ClientOptions::default() };
            let place = at(&format!("http://127.0.0.1:{}{path}", gateway.port));
            let error = match Client::connect(place, options).await {
                Err(error) => error.to_string(),
                Ok(client) => {
                    let tool = format!("{server}__x");
                    client.call_tool(&tool, json!({})).await.unwrap_err().to_string()
                }
            };
            assert!(!error.contains("s3cret") && !error.contains("127.0.0.1:1"), "{error}");
        }
    }
    gateway.process.signal(Signal::TERM);
    gateway.process.exit_code();
    let log = gateway.process.whole_log();
    assert!(log.contains("s3cret-folder") && log.contains("127.0.0.1:1"), "the log has it: {log}");
}
