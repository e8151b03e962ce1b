//! Servers that tell what they were given, and addresses that nobody is to know.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use rustix::process::Signal;
use serde_json::json;
use switchboard_net::client::ClientOptions;
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::upstream::{ServerTarget, Strategy};

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
            let options = ClientOptions::default().era(era);
            let place = at(&format!("http://127.0.0.1:{}{path}", gateway.port));
            let error = match options.connect(place).await {
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

/// A server that answers with this status alone, and repeats what it was shown.
fn parrot(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n")
                && reader.read_line(&mut head).is_ok_and(|length| length > 0)
            {}
            let lower = head.to_lowercase();
            let length = lower.split("content-length: ").nth(1).unwrap_or("0").lines().next();
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let (length, said) = (head.len(), head.replace("\r\n", " "));
            let length = length - head.matches("\r\n").count();
            // Whoever hangs up has heard enough.
            _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{said}"
            );
        }
    });
    url
}

#[tokio::test]
async fn what_a_server_repeats_of_its_headers_is_told_to_nobody() {
    let home = crate::named::Home::new();
    let file = home.write("headers", "X-File: s3cret-of-the-file\n");
    for status in ["401 Unauthorized", "403 Forbidden", "500 Internal Server Error"] {
        for kind in ["http", "sse"] {
            let parrot = json!({
                "type": kind, "url": parrot(status), "passHeaders": ["X-User"],
                "headers": {"Authorization": "Bearer s3cret-of-ours"}, "headerFile": file,
                "headersHelper": r#"printf '{"X-Help": "s3cret-of-the-helper"}'"#,
            });
            let mut gateway = Gateway::told(&json!({"mcpServers": {"parrot": parrot}}), &[], &[]);
            for (path, era) in
                ["/mcp", "/servers/parrot/mcp"].into_iter().flat_map(|it| ERAS.map(|era| (it, era)))
            {
                let mut headers = http::HeaderMap::new();
                headers.insert("x-user", "s3cret-of-the-client".parse().unwrap());
                let url = format!("http://127.0.0.1:{}{path}", gateway.port).parse().unwrap();
                let fetch = Fetch::new(FetchOptions::default()).unwrap();
                let place = ServerTarget::url(url, Strategy::HttpOnly, headers, fetch);
                let options = ClientOptions::default().era(era);
                let error = match options.connect(place).await {
                    Err(error) => error.to_string(),
                    Ok(client) => {
                        client.call_tool("parrot__x", json!({})).await.unwrap_err().to_string()
                    }
                };
                assert!(!error.contains("s3cret"), "{status} {kind} {era:?} {path}: {error}");
            }
            let page = gateway.status().to_string();
            gateway.process.signal(Signal::TERM);
            gateway.process.exit_code();
            let log = gateway.process.whole_log();
            assert!(!log.contains("s3cret") && !page.contains("s3cret"), "{page}\n{log}");
            // Who is let in is for the log alone, all else for whoever asked.
            let is_logged = log.contains("${x-user}") && log.contains("${x-file}");
            assert!(is_logged || status.starts_with("500"), "{log}");
        }
    }
}
