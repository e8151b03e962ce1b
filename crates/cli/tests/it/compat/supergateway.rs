//! supergateway, line by line.

use std::net::TcpStream;

use serde_json::{Value, json};
use switchboard_testkit::script::runs;
use tokio_tungstenite::tungstenite::{Message, client};

use super::{Case, Stage, Talk, check, page, preflight, told_to_send};
use crate::process::{greeting, text_of, until};
use crate::web::post;

const CASES: &[Case] = &[
    Case::new(
        "--stdio {line} --port 0 --host 127.0.0.1 --outputTransport sse --baseUrl http://b.example/x \
         --ssePath /events --messagePath /send --streamableHttpPath /rpc --header X-Mine:1 \
         --cors https://a.example /\\.c\\.example$/ --healthEndpoint /healthz /readyz --logLevel debug",
        is_on_sse,
    )
    .vars(&[("AWS_SECRET", "s")]),
    Case::new(
        "--stdio {line} --outputTransport streamableHttp --stateful --sessionTimeout 1000 \
         --port 0 --host 127.0.0.1",
        has_sessions,
    ),
    Case::new(
        "--stdio {line} --outputTransport streamableHttp --protocolVersion 2025-06-18 \
         --port=0 --host=127.0.0.1",
        has_no_sessions,
    ),
    Case::new(
        "--stdio {line} --output-transport ws --messagePath /socket --port 0 --host 127.0.0.1 \
         --logLevel none",
        is_on_a_socket,
    ),
    Case::new("--sse {sse}", Stage::echoes),
    Case::new("--streamableHttp {url} --oauth2Bearer t0ken --header X-A:1 X-B:2", sends_headers),
    Case::new("--stdio cd_/_&&_exec_{line} --outputTransport stdio", is_run_by_a_shell),
    Case::new("--stdio {line} --outputTransport stdio --cors --header X:1", says_what_is_in_vain),
];

#[test]
fn every_flag_does_what_it_does_there() {
    check("supergateway", CASES);
}

fn is_on_sse(stage: &mut Stage) {
    let (port, path) = stage.running().place();
    assert_eq!(path, "/rpc");
    let place = told_to_send(port, "/events");
    assert!(place.starts_with("http://b.example/x/send?sessionId="), "{place}");
    let [one, two] = [0, 1].map(|_| Talk::open(port, "/rpc", None));
    assert_eq!(one.call("pid", &json!({})), two.call("pid", &json!({})), "one process for all");
    assert!(one.call("variables", &json!({})).contains("AWS_SECRET"));
    assert_eq!(one.ask("tools/list", &json!({})).header("x-mine"), Some("1"));
    for page_path in ["/healthz", "/readyz"] {
        assert_eq!(page(port, page_path), (200, "ok".to_owned()));
    }
    for (origin, status) in
        [("https://a.example", 204), ("https://x.c.example", 204), ("https://d.example", 403)]
    {
        assert_eq!(preflight(port, "/rpc", origin).status, status, "{origin}");
    }
    stage.is_told("[DEBUG]");
}

fn has_sessions(stage: &mut Stage) {
    let port = stage.running().port();
    let talk = Talk::open(port, "/mcp", None);
    let pid = talk.call("pid", &json!({})).parse().unwrap();
    assert!(runs(pid));
    until("an unused session ends with its process", || !runs(pid));
    assert_eq!(talk.ask("tools/list", &json!({})).status, 404);
    stage.running().close_stdin();
    assert_eq!(stage.running().exit_code(), Some(0), "it ends with whoever started it");
}

fn has_no_sessions(stage: &mut Stage) {
    let port = stage.running().port();
    let call = |name: &str| {
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}});
        let answer = post(port, &[], call.to_string().as_bytes());
        assert_eq!(answer.header("mcp-session-id"), None);
        text_of(&answer.message())
    };
    assert_eq!(call("greeted"), "2025-06-18");
    assert_ne!(call("pid"), call("pid"), "a process for each request");
}

fn is_on_a_socket(stage: &mut Stage) {
    let (port, path) = stage.running().place();
    assert_eq!(path, "/socket");
    assert_eq!(page(port, "/mcp").0, 404);
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut socket, _) = client(format!("ws://127.0.0.1:{port}/socket"), stream).unwrap();
    let mut ask = |id: u64, method: &str, params: Value| -> Value {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        socket.send(Message::text(request.to_string())).unwrap();
        loop {
            if let Message::Text(text) = socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    };
    assert_eq!(ask(0, "initialize", greeting())["result"]["serverInfo"]["name"], "rude");
    let answer = ask(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hello"}}));
    assert_eq!(text_of(&answer), "hello");
    stage.running().signal(rustix::process::Signal::TERM);
    assert!(matches!(socket.read().unwrap(), Message::Close(_)));
    assert_eq!(stage.running().exit_code(), Some(0));
    assert_eq!(stage.running().whole_log(), "");
}

fn sends_headers(stage: &mut Stage) {
    stage.echoes();
    let head = stage.last_head();
    for line in ["authorization: bearer t0ken", "x-a: 1", "x-b: 2"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
    }
}

fn is_run_by_a_shell(stage: &mut Stage) {
    stage.echoes();
    assert_eq!(stage.running().call(2, "folder", &json!({})), "/");
}

fn says_what_is_in_vain(stage: &mut Stage) {
    stage.is_told("--header has no effect here");
    stage.is_told("--cors has no effect here");
    stage.echoes();
}
