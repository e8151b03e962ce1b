//! Connections and descriptors that somebody takes, and what is left for others.

use std::io::{Read as _, Write as _};
use std::process::Command;

use serde_json::{Map, json};

use super::access::{ROOT, begin_raw, keyed};
use super::{file, rude};
use crate::named::Home;
use crate::process::{Switchboard, until};
use crate::web::send;

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

#[test]
fn no_more_children_are_started_than_the_descriptors_suffice_for() {
    let home = Home::new();
    let servers: Map<_, _> = (0..8).map(|number| (format!("s{number}"), rude())).collect();
    let path = home.write("servers.json", &file(&servers.into(), &json!({})));
    let limited = "ulimit -n 64; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_switchboard"), "serve", "--config"]);
    command.args([&path, "--port", "0", "--no-cache"]);
    let mut gateway = Switchboard::launch(&mut command, &[]);
    let port = gateway.port();
    gateway.until_logged("as many as the limit on open files permits");
    until("it is well all the same", || send(port, "GET /healthz", &[], b"").status == 200);
}
