//! Who shares a process with whom.

use serde_json::{Value, json};
use switchboard_net::client::Client;

use super::{ERAS, Gateway, names, pid, rude_with, text};
use crate::process::{running, until};

const ADA: &[(&str, &str)] = &[("Authorization", "Bearer ada")];
const BOB: &[(&str, &str)] = &[("Authorization", "Bearer bob")];

fn with(process: &Value) -> Value {
    rude_with(&["pid"], &json!({"process": process}))
}

fn gateway() -> Gateway {
    let servers = json!({
        "shared": with(&json!("shared")),
        "session": with(&json!("per-session")),
        "user": with(&json!("per-user")),
        "request": with(&json!("per-request")),
    });
    let gateway = Gateway::start(&servers);
    gateway.until_ready(&["shared", "session", "user", "request"]);
    gateway
}

async fn pids(clients: &[&Client], tool: &str) -> Vec<u32> {
    let mut pids = Vec::new();
    for client in clients {
        pids.push(pid(client, tool).await);
    }
    pids
}

/// wire: GW-81
#[tokio::test]
async fn sessions_share_a_process_as_the_plan_of_the_server_says() {
    let gateway = gateway();
    let era = ERAS[0];
    let (ada, again, bob) = (
        gateway.client_with(era, ADA).await,
        gateway.client_with(era, ADA).await,
        gateway.client_with(era, BOB).await,
    );
    let clients = [&ada, &ada, &again, &bob];
    let shared = pids(&clients, "shared__pid").await;
    assert!(shared.iter().all(|pid| *pid == shared[0]), "{shared:?}");
    let [first, second, other, bobs] = pids(&clients, "session__pid").await[..] else { panic!() };
    assert!(first == second && first != other && other != bobs && first != bobs);
    let [first, second, other, bobs] = pids(&clients, "user__pid").await[..] else { panic!() };
    assert!(first == second && first == other && first != bobs);
    let mut each = pids(&clients, "request__pid").await;
    each.sort_unstable();
    each.dedup();
    assert_eq!(each.len(), 4);
}

#[tokio::test]
async fn modern_clients_of_different_users_have_different_processes() {
    let gateway = gateway();
    let era = ERAS[1];
    let (ada, again, bob) = (
        gateway.client_with(era, ADA).await,
        gateway.client_with(era, ADA).await,
        gateway.client_with(era, BOB).await,
    );
    let [first, second, bobs] = pids(&[&ada, &again, &bob], "user__pid").await[..] else {
        panic!()
    };
    assert!(first == second && first != bobs);
    let [first, second, bobs] = pids(&[&ada, &again, &bob], "shared__pid").await[..] else {
        panic!()
    };
    assert!(first == second && first == bobs);
}

#[tokio::test]
async fn a_pool_has_children_waiting_and_a_session_takes_one() {
    let gateway = Gateway::start(&json!({"pool": with(&json!({"pool": 2}))}));
    gateway.until_ready(&["pool"]);
    // Ours, which lists the tools, and two that wait, beside their guard.
    let waiting = || {
        let mut children = gateway.process.children();
        children.sort_unstable();
        children
    };
    let servers = || gateway.status()["servers"]["pool"]["children"].as_u64();
    for era in ERAS {
        until("two wait", || servers() == Some(3));
        let before = waiting();
        let client = gateway.client(era, &["pool"]).await;
        let taken = pid(&client, "pool__pid").await;
        assert!(before.contains(&taken), "{taken} was started before: {before:?}");
        assert_eq!(pid(&client, "pool__pid").await, taken);
        until("another takes its place", || waiting().iter().any(|child| !before.contains(child)));
        client.close().await;
    }
    let children = waiting();
    let mut process = gateway.process;
    process.signal(rustix::process::Signal::TERM);
    process.exit_code();
    assert_eq!(running(&children), Vec::<u32>::new());
}

#[tokio::test]
async fn a_tool_that_only_a_clients_own_process_has_is_reached() {
    let servers = json!({
        "own": rude_with(&[], &json!({"process": "per-session"})),
        "all": rude_with(&[], &json!({"process": "shared"})),
    });
    let gateway = Gateway::start(&servers);
    for era in ERAS {
        let client = gateway.client(era, &["own", "all"]).await;
        let tools = client.tools().await.unwrap();
        assert!(!names(&tools).contains(&"own__folder"));
        let found = client.call_tool("own__folder", json!({})).await.unwrap();
        assert!(!text(&found).is_empty());
        let unknown = client.call_tool("all__folder", json!({})).await.unwrap_err();
        assert!(unknown.to_string().contains("Unknown tool: all__folder"), "{unknown}");
    }
}
