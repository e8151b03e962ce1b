//! Who shares a child with whom, and that nobody gets what is another's.

pub(crate) mod gate;
mod leaks;
mod queue;
mod races;
mod request;
mod served;
mod shared;
mod signing_in;

use std::sync::Arc;

use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::script::{gone, runs};
use switchboard_testkit::within;

use crate::upstream::{caller, child_bridge, fetch, journal, modern_bridge};

/// wire: GW-81
#[tokio::test]
async fn each_session_has_a_child_of_its_own_that_ends_with_it() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let (mut one, mut two) = (caller(&bridge), caller(&bridge));
    one.greet().await;
    two.greet().await;
    let first = one.tool("pid", json!({})).await["pid"].clone();
    let second = two.tool("pid", json!({})).await["pid"].clone();
    assert_ne!(first, second);
    let pids = journal.pids();
    one.leave().await;
    gone(pids[0]).await;
    assert!(runs(pids[1]));
    assert_eq!(two.tool("pid", json!({})).await["pid"], second);
    within(bridge.close()).await;
    assert!(!runs(pids[1]));
}

#[tokio::test]
async fn closing_ends_every_child_before_it_returns() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let mut callers: Vec<_> = (0..5).map(|_| caller(&bridge)).collect();
    for caller in &mut callers {
        caller.greet().await;
    }
    within(bridge.close()).await;
    let pids = journal.pids();
    assert_eq!(pids.len(), 5);
    assert!(pids.into_iter().all(|pid| !runs(pid)));
}

/// wire: GW-81
#[tokio::test]
async fn modern_clients_share_one_child() {
    let journal = journal();
    let bridge = modern_bridge(journal.server(&[]), Children::PerSession);
    let mut pids = Vec::new();
    for _ in 0..3 {
        let mut caller = caller(&bridge);
        let params = crate::upstream::enveloped(json!({"name": "pid"}));
        let answer = caller.call("tools/call", params).await;
        pids.push(answer["result"]["structuredContent"]["pid"].clone());
        caller.leave().await;
    }
    assert!(pids[0].is_u64() && pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// wire: HTTP-23
#[tokio::test]
async fn each_session_has_a_session_of_its_own_at_a_url() {
    let mut server = HttpServer::start().await;
    let target =
        ServerTarget::url(server.url("/mcp"), Strategy::HttpOnly, http::HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::new(Limits::default()));
    let (mut one, mut two) = (caller(&bridge), caller(&bridge));
    let version = switchboard_testkit::caller::LEGACY;
    tokio::join!(one.greet(), server.greet(Some("s1"), version));
    tokio::join!(two.greet(), server.greet(Some("s2"), version));
    one.leave().await;
    let hit = server.delete().await;
    assert_eq!(hit.header("mcp-session-id"), Some("s1"));
    hit.answer(204, &[], "").await;
    let id = two.ask("tools/list", json!({})).await;
    let hit = server.post("tools/list").await;
    assert_eq!(hit.header("mcp-session-id"), Some("s2"));
    hit.result(json!({})).await;
    two.answer(id).await;
}
