//! Files that change under load.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::reload::{rude, shared};
use super::super::{Gateway, file};
use super::{Callers, marks, size};
use crate::process::until;

/// What the file says the `round`th time: two servers stay, one is another each
/// time, one comes and goes.
fn servers(round: usize) -> Value {
    let turns = shared(rude(&round.to_string()));
    let mut servers = json!({"stays": shared(rude("")), "own": rude(""), "turns": turns});
    if round % 2 == 1 {
        servers["comes"] = rude("");
        servers["stays"]["excludeTools"] = json!(["echo"]);
        servers["stays"]["tools"] = json!({"pid": {"description": round.to_string()}});
    }
    servers
}

fn groups(round: usize) -> Value {
    let group = format!("g{}", round % 3);
    json!({"switchboard": {"groups": {"few": ["stays", "turns"], group: ["stays"]}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_twenty_times_loses_no_call_and_makes_none_twice() {
    let mut gateway = Gateway::start_in(crate::named::Home::new(), &servers(0), &groups(0));
    gateway.until_ready(&["stays", "own", "turns"]);
    let mut callers = Callers::new(&gateway);
    for (path, tool) in [
        ("/mcp", "stays__mark"),
        ("/mcp", "own__mark"),
        ("/mcp", "turns__mark"),
        ("/groups/few/mcp", "stays__mark"),
        ("/servers/stays/mcp", "mark"),
        ("/servers/turns/mcp", "mark"),
    ] {
        callers.call(&gateway, path, tool).await;
    }
    for round in 1..=size(20, 200) {
        if round % 2 == 0 {
            gateway.rewrite(&servers(round), &groups(round));
        } else {
            gateway.write(&file(&servers(round), &groups(round)));
            gateway.process.signal(Signal::HUP);
            gateway.process.until_logged("configuration is in force");
        }
    }
    callers.stop();
    let mut made = callers.made().await;
    assert!(made.failed.is_empty(), "{:?}", made.failed);
    made.answered.sort_unstable();
    assert_eq!(marks(&gateway), made.answered);
    // Three for the lists, two an era that clients share, and what modern clients who
    // are alike have for a while.
    until("servers of other files are gone", || super::servers(&gateway).len() <= 3 + 4 + 1);
}
