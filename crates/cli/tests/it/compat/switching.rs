//! `docs/switching.md`: every "after" is started, and used by a client.
//!
//! Example URLs become servers of ours, `npx -y …` our built-in server, and ports
//! free ones; nothing else of a line is changed.

use std::fs;
use std::net::TcpStream;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client};

use super::{Talk, page};
use crate::process::{Switchboard, greeting, text_of};

const DEMO: &str = "switchboard-demo";
const BINARY: &str = env!("CARGO_BIN_EXE_switchboard");

/// The blocks of a language that come after the word "After" and before "Before".
fn blocks(language: &str) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switching.md");
    let text = fs::read_to_string(page).unwrap();
    let fence = format!("```{language}");
    let (mut found, mut is_after, mut open) = (Vec::new(), false, None::<String>);
    for line in text.lines() {
        match &mut open {
            Some(_) if line == "```" => found.extend(open.take().filter(|_| is_after)),
            Some(block) => block.extend([line, "\n"]),
            None if line == fence => open = Some(String::new()),
            None if line.starts_with("After") => is_after = true,
            None if line.contains("efore:") || line.starts_with('#') => is_after = false,
            None => {}
        }
    }
    found
}

/// A server at a URL in place of one of the page.
fn serving() -> (Switchboard, u16) {
    let mut demo = Switchboard::start(&["demo", "--http"]);
    let port = demo.port();
    (demo, port)
}

#[test]
fn every_configuration_works_with_a_client_on_stdio() {
    let (_demo, port) = serving();
    let mut count = 0;
    for block in blocks("json") {
        let config: Value = serde_json::from_str(&block).unwrap();
        for (name, server) in config["mcpServers"].as_object().unwrap() {
            assert_eq!(server["command"], "switchboard", "{name}");
            let local = format!("http://127.0.0.1:{port}");
            let args = server["args"].as_array().unwrap().iter();
            let args: Vec<_> = args
                .map(|word| word.as_str().unwrap().replace("https://mcp.example.com", &local))
                .collect();
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let env = server["env"].as_object().into_iter().flatten();
            let env: Vec<_> =
                env.map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
            let mut bridge = Switchboard::start_with(&args, &env);
            bridge.greet_one(DEMO);
            assert_eq!(bridge.call(1, "echo", &json!({"message": name})), *name);
            count += 1;
        }
    }
    assert!(count >= 7, "{count} configurations");
}

#[test]
fn every_command_line_works_with_a_client_over_http() {
    let mut count = 0;
    for line in blocks("sh").iter().flat_map(|block| block.lines()) {
        let words = words(line);
        let (program, args) = words.split_first().unwrap();
        assert_eq!(program, "switchboard");
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let mut bridge = Switchboard::start_with(&args, &[("MCP_PROXY_PORT", "0")]);
        let (port, path) = bridge.place();
        let key = line.contains("--apiKey").then_some("secret");
        if line.contains("--outputTransport ws") {
            talk_on_a_socket(port, &path);
        } else if line.contains("--stateless") || is_stateless_supergateway(line) {
            talk_without_sessions(port, &path);
        } else {
            let talk = Talk::open(port, &path, key);
            assert_eq!(talk.call("echo", &json!({"message": "hello"})), "hello", "{line}");
        }
        if line.contains("--healthEndpoint") {
            assert_eq!(page(port, "/healthz").1, "ok");
        }
        if line.contains("--named-server") {
            let (port, path) = bridge.place();
            assert_eq!(path, "/servers/git/mcp");
            Talk::open(port, &path, None);
            assert_eq!(page(port, "/status").0, 200);
        }
        count += 1;
    }
    assert!(count >= 11, "{count} lines");
}

fn is_stateless_supergateway(line: &str) -> bool {
    line.contains("--outputTransport streamableHttp") && !line.contains("--stateful")
}

/// The words of a line, as a shell cuts them, with what must be ours put in.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for character in format!("{line} ").chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, ' ') => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    let mut ready: Vec<String> = Vec::new();
    let mut rest = words.into_iter().peekable();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--port" => {
                rest.next();
                ready.extend(["--port", "0", "--host", "127.0.0.1"].map(ToOwned::to_owned));
            }
            // A port by a variable only, so the address needs a flag.
            "--endpoint" => {
                ready.extend(["--host", "127.0.0.1", "--endpoint"].map(ToOwned::to_owned));
            }
            "npx" => {
                ready.extend([BINARY, "demo"].map(ToOwned::to_owned));
                break;
            }
            _ if word.starts_with("npx ") => ready.push(format!("'{BINARY}' demo")),
            _ => ready.push(word),
        }
    }
    ready
}

fn talk_without_sessions(port: u16, path: &str) {
    let talk = Talk { port, path: path.to_owned(), headers: Vec::new() };
    assert_eq!(talk.call("echo", &json!({"message": "hello"})), "hello");
}

fn talk_on_a_socket(port: u16, path: &str) {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut socket, _) = client(format!("ws://127.0.0.1:{port}{path}"), stream).unwrap();
    let mut ask = |id: u64, method: &str, params: Value| -> Value {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        socket.send(Message::text(request.to_string())).unwrap();
        let Message::Text(text) = socket.read().unwrap() else { panic!("not text") };
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(ask(0, "initialize", greeting())["result"]["serverInfo"]["name"], DEMO);
    let answer = ask(1, "tools/call", json!({"name": "echo", "arguments": {"message": "hello"}}));
    assert_eq!(text_of(&answer), "hello");
}
