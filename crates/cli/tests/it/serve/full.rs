//! Connections and descriptors that somebody takes, and what is left for others.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Map, json};

use super::access::{ADA, BOB, ROOT, begin_raw, key, keyed};
use super::owner::greet;
use super::{Gateway, file, rude};
use crate::named::Home;
use crate::process::{Switchboard, text_of, until};
use crate::web::{post_to, try_send};

#[test]
fn neither_strangers_nor_unfinished_bodies_silence_the_health_page() {
    let gateway = keyed(&json!({"it": rude()}), json!({"limits": {"maxConnections": 4}}));
    let port = gateway.port;
    // A connection that comes while all are taken is closed.
    let is_well = || try_send(port, "GET /healthz", &[], b"").is_ok_and(|it| it.status == 200);
    let mut strangers: Vec<_> = (0..10).map(|_| begin_raw(port, "GET /mcp", &[])).collect();
    for stranger in &mut strangers {
        let mut said = String::new();
        // The connection is over with the answer, 401 or that there is no other left.
        stranger.read_to_string(&mut said).unwrap();
        assert!(said.contains("connection: close"), "{said}");
    }
    until("the page is there when they have gone", is_well);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {ROOT}\r\n\
         Content-Type: application/json\r\nContent-Length: 90000\r\n\r\n "
    );
    let mut bodies = Vec::new();
    until("others hear that there is no room", || {
        // One that comes while another is being closed may be closed too.
        let mut body = TcpStream::connect(("127.0.0.1", port)).unwrap();
        _ = body.write_all(head.as_bytes());
        bodies.push(body);
        let answer = try_send(port, "GET /mcp", &[("X-API-Key", ROOT)], b"");
        answer.is_ok_and(|it| it.status == 503)
    });
    until("the page is there for those who watch over us", is_well);
}

/// A gateway that may open so many files, and its port.
fn limited(home: &Home, config: &str, files: u32) -> (Switchboard, u16) {
    let path = home.write("servers.json", config);
    let mut command = Command::new("sh");
    let line = format!("ulimit -n {files}; exec \"$@\"");
    command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_switchboard"), "serve", "--config"]);
    command.args([&path, "--port", "0", "--no-cache"]);
    let mut gateway = Switchboard::launch(&mut command, &[]);
    let port = gateway.port();
    (gateway, port)
}

#[test]
fn no_more_children_are_started_than_the_descriptors_suffice_for() {
    let home = Home::new();
    let servers: Map<_, _> = (0..8).map(|number| (format!("s{number}"), rude())).collect();
    let (mut gateway, port) = limited(&home, &file(&servers.into(), &json!({})), 64);
    gateway.until_logged("as many as the limit on open files permits");
    let is_well = || try_send(port, "GET /healthz", &[], b"").is_ok_and(|it| it.status == 200);
    until("it is well all the same", is_well);
}

#[test]
fn one_key_does_not_take_all_places_for_processes() {
    let keys = [("ada", ADA), ("bob", BOB), ("root", ROOT)];
    let keys: Map<_, _> =
        keys.map(|(name, it)| (name.to_owned(), key(it, json!({})))).into_iter().collect();
    let home = Home::new();
    let config = file(&json!({"it": rude()}), &json!({"switchboard": {"keys": keys}}));
    // Eight processes, of which one is for the lists.
    let (process, port) = limited(&home, &config, 128);
    let gateway = Gateway { process, port, home };
    gateway.ready(&["it"]);
    let echo = |key: &str| {
        let session = greet(&gateway, "/mcp", key).unwrap();
        let params = json!({"name": "it__echo", "arguments": {"text": "x"}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = [("X-API-Key", key), ("Mcp-Session-Id", &session)];
        post_to(port, "/mcp", &headers, call.to_string().as_bytes()).message()
    };
    for number in 1..=8 {
        let answer = echo(ADA);
        if number <= 4 {
            assert_eq!(text_of(&answer), "x", "{number}");
        } else {
            let why = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(why.contains("too many server processes run for this key"), "{answer}");
        }
    }
    assert_eq!(text_of(&echo(BOB)), "x", "others get in");
}
