//! Servers that are killed under load.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_net::client::{CallError, Client, ClientOptions};
use switchboard_proto::revision::Era;

use super::super::reload::{rude, shared};
use super::super::{ERAS, Gateway};
use super::{Callers, Made, at_rest, marks, servers, size};
use crate::named::Home;
use crate::process::{PATIENCE, families, running, until};

/// Where clients call what.
const CALLED: [(&str, &str); 3] =
    [("/mcp", "shared__mark"), ("/mcp", "own__mark"), ("/servers/own/mcp", "mark")];

/// What a gateway has open while nobody calls.
struct Rest {
    open: Descriptors,
    /// How many descriptors lead to one server.
    each: usize,
    memory: u64,
}

struct Descriptors {
    servers: usize,
    /// Such as lead to servers.
    for_servers: usize,
    others: usize,
}

fn descriptors(gateway: &Gateway) -> Descriptors {
    let (for_servers, others) = gateway.process.descriptors_by_use();
    Descriptors { servers: servers(gateway).len(), for_servers, others }
}

async fn first_call(gateway: &Gateway, path: &str, tool: &str, era: Era) -> Client {
    let file = gateway.home.path.join("first");
    let client = gateway.client_at(path, era, ClientOptions::default()).await;
    client.call_tool(tool, json!({"file": file, "text": "first"})).await.unwrap();
    client
}

impl Rest {
    /// After one client of each kind has come and gone, for what each needs first stays.
    async fn of(gateway: &Gateway) -> Self {
        for (path, tool) in CALLED {
            for era in ERAS {
                first_call(gateway, path, tool, era).await.close().await;
            }
        }
        nobody_is_left(gateway);
        let (memory, open) = (at_rest(&gateway.process), descriptors(gateway));
        let client = first_call(gateway, "/servers/own/mcp", "mark", Era::Legacy).await;
        let one_more = descriptors(gateway);
        client.close().await;
        nobody_is_left(gateway);
        assert_eq!(one_more.servers, open.servers + 1, "a session has a server of its own");
        let each = one_more.for_servers - open.for_servers;
        assert!(each >= 3, "a server has three streams");
        Self { open, each, memory }
    }

    /// Waits until it is so again.
    fn until_back(&self, gateway: &Gateway) {
        nobody_is_left(gateway);
        let Self { open, each, memory } = self;
        until("no descriptor is left", || {
            // Fewer servers may be left, and then fewer descriptors must be.
            let now = descriptors(gateway);
            let gone = each * open.servers.saturating_sub(now.servers);
            now.for_servers + gone <= open.for_servers && now.others <= open.others
        });
        until(&format!("memory is back to {memory}"), || {
            gateway.process.memory() <= memory + memory / 10
        });
    }
}

/// What is left is one for the lists of each server, one an era that clients share, and
/// one that modern clients who are alike have for a while.
fn nobody_is_left(gateway: &Gateway) {
    until("the servers of sessions are gone", || servers(gateway).len() <= 2 + 2 + 1);
    until("no session is left, no stream and no call", || {
        let status = gateway.status();
        let counts = ["count", "listens", "streams", "parked"];
        let is_idle = |name: &str| status["servers"][name]["calls"] == 0;
        counts.iter().all(|key| status["sessions"][key] == 0)
            && ["shared", "own"].into_iter().all(is_idle)
    });
}

/// Kills servers for a while, one after the other.
async fn kill(gateway: &Gateway, callers: &Callers) {
    let until_then = Instant::now() + Duration::from_secs(size(8, 60) as u64);
    let (mut killed, mut turn) = (0, 0);
    // However slow the machine is: some must be killed, and some calls with them.
    let is_enough = |killed| killed >= 10 && callers.failures.load(Ordering::Relaxed) > 0;
    while Instant::now() < until_then || !is_enough(killed) {
        assert!(Instant::now() < until_then + PATIENCE, "{killed} were killed");
        tokio::time::sleep(Duration::from_millis(150)).await;
        let victims = servers(gateway);
        turn += 7;
        if let Some(&victim) = victims.get(turn % victims.len().max(1)) {
            let victim = Pid::from_raw(victim.try_into().unwrap()).unwrap();
            // It may have ended by itself.
            killed += u32::from(kill_process(victim, Signal::KILL).is_ok());
        }
    }
}

/// Every answer is right, every failure an error under the id of its call.
fn check(gateway: &Gateway, made: &mut Made) {
    for (mark, error) in &made.failed {
        // The client knows no other id.
        assert!(matches!(error, CallError::Server { .. }), "{mark}: {error:?}");
    }
    let done = marks(gateway);
    assert!(!made.answered.is_empty());
    made.answered.sort_unstable();
    assert!(made.answered.iter().all(|mark| done.binary_search(mark).is_ok()));
    assert!(done.windows(2).all(|two| two[0] != two[1]), "a call was made twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_killed_at_random_fail_their_calls_and_leave_nothing_behind() {
    let config = json!({"shared": shared(rude("")), "own": rude("")});
    let args = ["--session-timeout", "2", "--log-level", "error"];
    let mut gateway = Gateway::start_with(Home::new(), &config, &json!({}), &args);
    gateway.until_ready(&["shared", "own"]);
    let before = Rest::of(&gateway).await;
    let mut callers = Callers::new(&gateway);
    for (path, tool) in [CALLED, CALLED].concat() {
        callers.call(&gateway, path, tool).await;
    }
    kill(&gateway, &callers).await;
    callers.stop();
    check(&gateway, &mut callers.made().await);
    before.until_back(&gateway);
    let family = families(&gateway.process.children());
    gateway.process.signal(Signal::TERM);
    assert_eq!(gateway.process.exit_code(), Some(0));
    until("the children are gone", || running(&family).is_empty());
}
