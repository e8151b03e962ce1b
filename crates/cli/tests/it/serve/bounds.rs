//! Bounds, names and pages that the file says otherwise while clients call.

use serde_json::{Value, json};

use super::{Gateway, rude};
use crate::named::Home;
use crate::process::{greeting, text_of};
use crate::web::{Session, post_to, send};

fn section(section: &Value) -> Value {
    json!({"switchboard": section})
}

#[test]
fn other_names_and_pages_are_let_in_from_the_next_request_on() {
    let servers = json!({"it": rude()});
    let mut gateway = Gateway::start_in(Home::new(), &servers, &section(&json!({})));
    gateway.until_ready(&["it"]);
    let session = Session::open_at(gateway.port, "switchboard");
    let page = "https://app.example";
    let port = gateway.port;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting()});
    let seen = || {
        let of = |path: &str, header: (&str, &str)| match path {
            "/status" => send(port, "GET /status", &[header], b""),
            _ => post_to(port, path, &[header], hello.to_string().as_bytes()),
        };
        ["/mcp", "/servers/it/mcp", "/status"].map(|path| {
            let paged = of(path, ("Origin", page));
            let granted = paged.header("access-control-allow-origin") == Some(page);
            (of(path, ("Host", "mcp.example")).status, paged.status, granted)
        })
    };
    assert_eq!(seen(), [(403, 403, false); 3]);
    let wide = json!({"allowedHosts": ["mcp.example"], "allowedOrigins": [page]});
    gateway.rewrite(&servers, &section(&wide));
    assert_eq!(seen(), [(200, 200, true); 3]);
    // What cannot be followed changes nothing.
    let wrong = json!({"allowedHosts": [], "allowedOrigins": ["/(/"]});
    gateway.write(&super::file(&servers, &section(&wrong)));
    gateway.process.until_logged("stays in force");
    assert_eq!(seen(), [(200, 200, true); 3]);
    gateway.rewrite(&servers, &section(&json!({})));
    assert_eq!(seen(), [(403, 403, false); 3]);
    let echo = session.call("it__echo", &json!({"text": "still here"})).message();
    assert_eq!(text_of(&echo), "still here");
}

#[test]
fn other_bounds_hold_for_what_begins_after_a_reload() {
    let servers = json!({"it": rude()});
    let limits = |limits: &Value| section(&json!({"limits": limits}));
    let mut gateway = Gateway::start_in(Home::new(), &servers, &limits(&json!({"maxSessions": 1})));
    gateway.until_ready(&["it"]);
    let port = gateway.port;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting()});
    let open = || post_to(port, "/mcp", &[], hello.to_string().as_bytes()).status;
    let session = Session::open_at(port, "switchboard");
    let said = |length: usize| session.call("it__echo", &json!({"text": "x".repeat(length)}));
    assert_eq!((open(), said(20_000).status), (503, 200));
    gateway.rewrite(&servers, &limits(&json!({"maxMessageBytes": 10_000})));
    assert_eq!((open(), said(20_000).status, said(10).status), (200, 413, 200));
    let log = gateway.process.logged.join("\n");
    assert!(!log.contains("from the next start on"), "it is in force: {log}");
    gateway.rewrite(&servers, &limits(&json!({"maxSessions": 2})));
    assert_eq!((open(), said(20_000).status), (503, 200), "those that are there stay");
    gateway.write(&super::file(&servers, &limits(&json!({"maxConnections": 9}))));
    gateway.process.until_logged("from the next start on");
}
