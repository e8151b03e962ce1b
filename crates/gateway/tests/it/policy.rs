//! Which clients share a process of a server.

use serde_json::{Value, json};
use switchboard_net::client::Client;

use crate::served::{ERAS, Served, names, pid, rude_with, text};

fn with(process: &Value) -> Value {
    rude_with(&["pid"], &json!({"process": process}))
}

async fn gateway() -> Served {
    let servers = json!({
        "shared": with(&json!("shared")),
        "session": with(&json!("per-session")),
        "user": with(&json!("per-user")),
        "request": with(&json!("per-request")),
    });
    Served::start(&servers, &json!({})).await
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
    let gateway = gateway().await;
    let era = ERAS[0];
    let (ada, again, bob) = (
        gateway.client_as("ada", "/mcp", era).await,
        gateway.client_as("ada", "/mcp", era).await,
        gateway.client_as("bob", "/mcp", era).await,
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
    let gateway = gateway().await;
    let era = ERAS[1];
    let (ada, again, bob) = (
        gateway.client_as("ada", "/mcp", era).await,
        gateway.client_as("ada", "/mcp", era).await,
        gateway.client_as("bob", "/mcp", era).await,
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
async fn a_tool_that_only_a_clients_own_process_has_is_reached() {
    let servers = json!({
        "own": rude_with(&[], &json!({"process": "per-session"})),
        "all": rude_with(&[], &json!({"process": "shared"})),
    });
    let gateway = Served::start(&servers, &json!({})).await;
    for era in ERAS {
        let client = gateway.client("/mcp", era).await;
        let tools = client.tools().await.unwrap();
        assert!(!names(&tools).contains(&"own__folder"));
        let found = client.call_tool("own__folder", json!({})).await.unwrap();
        assert!(!text(&found).is_empty());
        let unknown = client.call_tool("all__folder", json!({})).await.unwrap_err();
        assert!(unknown.to_string().contains("Unknown tool: all__folder"), "{unknown}");
    }
}
