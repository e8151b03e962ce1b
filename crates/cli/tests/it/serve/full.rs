//! Connections and descriptors that somebody takes, and what is left for others.

use std::io::{Read as _, Write as _};
use std::process::Command;

use serde_json::{Map, json};

use super::access::{ADA, BOB, ROOT, begin_raw, key, keyed};
use super::owner::greet;
use super::{Gateway, file, rude};
use crate::named::Home;
use crate::process::{Switchboard, text_of, until};
use crate::web::{post_to, send};

#[test]
fn neither_strangers_nor_unfinished_bodies_silence_the_health_page() {
    let gateway = keyed(&json!({"it": rude()}), json!({"limits": {"maxConnections": 4}}));
    let port = gateway.port;
    let is_well = || send(port, "GET /healthz", &[], b"").status == 200;
    let mut strangers: Vec<_> = (0..10).map(|_| begin_raw(port, "GET /mcp", &[])).collect();
    for stranger in &mut strangers {
        let mut said = String::new();
        // The connection is over with the answer, 401 or that there is no other left.
        stranger.read_to_string(&mut said).unwrap();
        assert!(said.contains("connection: close"), "{said}");
    }
    assert!(is_well());
    let headers =
        [("X-API-Key", ROOT), ("Content-Type", "application/json"), ("Content-Length", "90000")];
    let mut bodies: Vec<_> = (0..10).map(|_| begin_raw(port, "POST /mcp", &headers)).collect();
    for body in &mut bodies {
        // Those beyond the bound are closed, sooner or later.
        _ = body.write_all(b" ");
    }
    until("the page is there for those who watch over us", is_well);
    let refused = send(port, "GET /mcp", &[("X-API-Key", ROOT)], b"");
    assert_eq!(refused.status, 503, "{refused:?}");
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
    until("it is well all the same", || send(port, "GET /healthz", &[], b"").status == 200);
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
