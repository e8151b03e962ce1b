//! What there is to see of a gateway: metrics, traces, logs, status, its own tools.

use serde_json::{Value, json};

use super::Gateway;
use crate::named::Home;
use crate::process::{Switchboard, until};
use crate::web::{Response, post_to, send};

mod log;
mod metrics;
mod secret;
mod session;
mod span;
mod status;
mod tool;
mod traffic;

/// A server that shows the `_meta` it gets, and a tool that fails.
const MIRROR: &str = r#"
import json, sys
names = ("mirror", "broken")
for line in sys.stdin:
    message = json.loads(line)
    method, params, outcome = message.get("method"), message.get("params", {}), None
    if method == "initialize":
        outcome = {"result": {"protocolVersion": params["protocolVersion"],
                   "capabilities": {"tools": {}}, "serverInfo": {"name": "mirror", "version": "1"}}}
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        outcome = {"result": {"tools": tools}}
    elif method == "ping":
        outcome = {"result": {}}
    elif method == "tools/call" and params["name"] in names:
        text = json.dumps(params.get("_meta", {}))
        failed = params["name"] == "broken"
        outcome = {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}
    else:
        outcome = {"error": {"code": -32602, "message": "s3cret words of a server"}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
"#;

fn mirror() -> Value {
    json!({"command": "python3", "args": ["-c", MIRROR]})
}

/// The trace that clients of these tests are in.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

impl Gateway {
    /// A gateway that is told more on its line and by its environment.
    fn told(config: &Value, args: &[&str], vars: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let file = home.write("servers.json", &config.to_string());
        let line = ["serve", "--config", &file, "--port", "0", "--no-cache"];
        let mut process = Switchboard::start_with(&[&line, args].concat(), vars);
        let port = process.port();
        Self { process, port, home }
    }

    /// Waits until a server is known to be broken.
    fn until_error(&self, server: &str) {
        until(&format!("{server} is known to be broken"), || {
            self.status()["servers"][server]["error"].is_string()
        });
    }

    fn metrics(&self) -> String {
        let page = send(self.port, "GET /metrics", &[], b"");
        let media = page.header("content-type");
        assert_eq!(media, Some("text/plain; version=0.0.4; charset=utf-8"));
        String::from_utf8(page.body).unwrap()
    }

    /// The value of one sample, spelled as the page has it; none if it is not there.
    fn sample(&self, name: &str) -> Option<f64> {
        let page = self.metrics();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }
}

/// A legacy session anywhere in a gateway, opened by hand.
struct Session {
    port: u16,
    path: &'static str,
    id: String,
}

impl Session {
    fn open(port: u16, path: &'static str, headers: &[(&str, &str)]) -> Self {
        let params = crate::process::greeting();
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = post_to(port, path, headers, hello.to_string().as_bytes());
        let id = answer.header("mcp-session-id").unwrap_or_else(|| panic!("{answer:?}")).to_owned();
        let session = Self { port, path, id };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.send(&ready, headers).status, 202);
        session
    }

    fn send(&self, message: &Value, headers: &[(&str, &str)]) -> Response {
        let headers = [&[("Mcp-Session-Id", self.id.as_str())], headers].concat();
        post_to(self.port, self.path, &headers, message.to_string().as_bytes())
    }

    fn call(&self, params: &Value, headers: &[(&str, &str)]) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        self.send(&call, headers).message()
    }
}
