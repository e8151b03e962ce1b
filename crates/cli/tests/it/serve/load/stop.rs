//! The end, under load.

use std::fs;
use switchboard_proto::failure::Failure;

use rustix::process::Signal;
use serde_json::{Value, json};
use switchboard_net::client::{CallError, ClientOptions};

use super::super::reload::{rude, shared};
use super::super::{ERAS, Gateway, file, text};
use super::{Callers, marks};
use crate::named::Home;
use crate::process::{Switchboard, families, running, until};

fn servers() -> Value {
    json!({"stays": shared(rude("")), "own": rude(""), "slow": shared(rude("")), "dull": shared(rude(""))})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_under_load_it_answers_what_was_asked_and_refuses_the_rest() {
    let mut gateway = Gateway::start(&servers());
    gateway.until_ready(&["stays", "own", "slow", "dull"]);
    let mut callers = Callers::new(&gateway);
    for (path, tool) in
        [("/mcp", "stays__mark"), ("/mcp", "own__mark"), ("/servers/stays/mcp", "mark")]
    {
        callers.call(&gateway, path, tool).await;
    }
    let (gate, mut waiting) = (gateway.home.path.join("gate"), Vec::new());
    for (era, tool) in ERAS.into_iter().zip(["slow__wait", "dull__wait"]) {
        let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let arguments = json!({"file": gate});
        waiting.push(tokio::spawn(async move { client.call_tool(tool, arguments).await }));
        gateway.process.until_logged("waiting for gate");
    }
    let family = families(&gateway.process.children());
    gateway.process.signal(Signal::TERM);
    gateway.process.until_logged("finishing what is in flight");
    let mut made = callers.made().await;
    for (mark, error) in &made.failed {
        let is_clear =
            matches!(error, CallError::Failed(why) if !matches!(why, Failure::Timeout { .. }));
        assert!(is_clear, "{mark}: {error:?}");
    }
    fs::write(&gate, "").unwrap();
    for call in waiting {
        assert_eq!(text(&call.await.unwrap().unwrap()), "waited");
    }
    made.answered.sort_unstable();
    assert_eq!(marks(&gateway), made.answered, "what was done was answered, and nothing else");
    assert_eq!(gateway.process.exit_code(), Some(0));
    until("the children are gone", || running(&family).is_empty());
}

#[test]
fn the_end_of_stdin_under_load_waits_for_every_answer() {
    let home = Home::new();
    let path = home.write("servers.json", &file(&servers(), &json!({})));
    let mut gateway = Switchboard::start(&["serve", "--stdio", "--config", &path, "--no-cache"]);
    gateway.greet_one("switchboard");
    let (gate, marks) = (home.path.join("gate"), home.path.join("marks"));
    let call = |id: u64, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    gateway.send(&call(1, "slow__wait", json!({"file": gate})));
    gateway.until_logged("waiting for gate");
    for id in 2..100 {
        let tool = if id % 2 == 0 { "stays__mark" } else { "own__mark" };
        gateway.send(&call(id, tool, json!({"file": marks, "text": id.to_string()})));
    }
    let family = families(&gateway.children());
    gateway.close_stdin();
    let mut answered: Vec<_> = std::iter::repeat_with(|| gateway.message())
        .filter_map(|message| message["id"].as_u64())
        .inspect(|&id| {
            // The last of the others opens the gate.
            if id != 1 && fs::read_to_string(&marks).unwrap().lines().count() == 98 {
                fs::write(&gate, "").unwrap();
            }
        })
        .take(99)
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (1..100).collect::<Vec<_>>());
    assert_eq!(gateway.exit_code(), Some(0));
    until("the children are gone", || running(&family).is_empty());
}
