//! Children that wait for a session.

use serde_json::json;

use super::{ERAS, Gateway, pid, rude_with};
use crate::process::{running, until};

#[tokio::test]
async fn a_pool_has_children_waiting_and_a_session_takes_one() {
    let gateway =
        Gateway::start(&json!({"pool": rude_with(&["pid"], &json!({"process": {"pool": 2}}))}));
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
