//! Servers that are killed under load.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_net::client::CallError;

use super::super::Gateway;
use super::super::reload::{rude, shared};
use super::{Callers, marks, servers, size};
use crate::named::Home;
use crate::process::{PATIENCE, families, running, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_killed_at_random_fail_their_calls_and_leave_nothing_behind() {
    let config = json!({"shared": shared(rude("")), "own": rude("")});
    let args = ["--session-timeout", "2", "--log-level", "error"];
    let mut gateway = Gateway::start_with(Home::new(), &config, &json!({}), &args);
    gateway.until_ready(&["shared", "own"]);
    let mut callers = Callers::new(&gateway);
    for _ in 0..2 {
        callers.call(&gateway, "/mcp", "shared__mark").await;
        callers.call(&gateway, "/mcp", "own__mark").await;
        callers.call(&gateway, "/servers/own/mcp", "mark").await;
    }
    let until_then = Instant::now() + Duration::from_secs(size(8, 60) as u64);
    let (mut killed, mut turn) = (0, 0);
    // However slow the machine is: some must be killed, and some calls with them.
    let is_enough = |killed| killed >= 10 && callers.failures.load(Ordering::Relaxed) > 0;
    while Instant::now() < until_then || !is_enough(killed) {
        assert!(Instant::now() < until_then + PATIENCE, "{killed} were killed");
        tokio::time::sleep(Duration::from_millis(150)).await;
        let victims = servers(&gateway);
        turn += 7;
        if let Some(&victim) = victims.get(turn % victims.len().max(1)) {
            let victim = Pid::from_raw(victim.try_into().unwrap()).unwrap();
            // It may have ended by itself.
            killed += u32::from(kill_process(victim, Signal::KILL).is_ok());
        }
    }
    callers.stop();
    let mut made = callers.made().await;
    for (mark, error) in &made.failed {
        // An error under the id of its call: the client knows no other.
        assert!(matches!(error, CallError::Server { .. }), "{mark}: {error:?}");
    }
    let done = marks(&gateway);
    assert!(!made.answered.is_empty());
    made.answered.sort_unstable();
    assert!(made.answered.iter().all(|mark| done.binary_search(mark).is_ok()));
    assert!(done.windows(2).all(|two| two[0] != two[1]), "a call was made twice");
    // What is left is one that all share, one for the lists of the other server, and one
    // that modern clients who are alike have for a while.
    until("sessions and their servers are gone", || servers(&gateway).len() <= 1 + 1 + 1);
    let family = families(&gateway.process.children());
    gateway.process.signal(Signal::TERM);
    assert_eq!(gateway.process.exit_code(), Some(0));
    until("the children are gone", || running(&family).is_empty());
}
