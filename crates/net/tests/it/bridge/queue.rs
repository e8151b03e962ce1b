//! A long queue of calls that are all refused: nothing grows with its length but the queue.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::backend::Backend;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::roster::ServerPhase;
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::{Caller, error_of};
use switchboard_testkit::within;

use super::gate::{LONG, guarded, stands};
use crate::across::able;
use crate::upstream::journal;

/// As many calls as may wait for one server.
const WAITING: usize = 1024;

/// A client that may have more calls open than may wait.
fn busy_caller(bridge: &Arc<Bridge>) -> Caller {
    let limits = Limits { calls: 2 * WAITING, ..Limits::default() };
    Caller::new(Arc::clone(bridge) as Arc<dyn Backend>, bridge.sharing(), Arc::new(limits))
}

/// Runs a test on one thread with the stack that threads of the runtime have.
fn on_a_small_stack(test: impl Future<Output = ()> + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    });
    thread.unwrap().join().unwrap();
}

fn wait(tag: u64) -> Value {
    json!({"name": "wait", "arguments": {"tag": tag}})
}

/// Sends as many calls as may wait, and waits until they do; their ids.
async fn crowd(bridge: &Bridge, client: &mut Caller, params: &Value) -> Vec<u64> {
    let mut ids = Vec::new();
    for number in 1..=WAITING {
        ids.push(client.ask("tools/call", params.clone()).await);
        while bridge.queued() < number {
            tokio::task::yield_now().await;
        }
    }
    ids
}

async fn all_fail(client: &mut Caller, ids: Vec<u64>, why: &str) {
    for id in ids {
        let answer = client.answer(id).await;
        assert!(error_of(&answer).contains(why), "{answer}");
    }
}

#[test]
fn waiting_calls_of_a_server_that_is_removed_are_refused_in_a_loop() {
    on_a_small_stack(async {
        let journal = journal();
        let bridge = guarded(journal.server(&[]), Children::PerSession, 1, LONG);
        stands(&bridge, ServerPhase::Ready);
        let mut client = busy_caller(&bridge);
        client.greet().await;
        let open = client.ask("tools/call", wait(0)).await;
        journal.saw("waiting 0").await;
        let ids = crowd(&bridge, &mut client, &wait(1)).await;
        within(bridge.close()).await;
        all_fail(&mut client, vec![open], "Transport closed").await;
        all_fail(&mut client, ids, "Transport closed").await;
        assert_eq!(bridge.queued(), 0);
        journal.all_gone().await;
    });
}

#[test]
fn waiting_calls_without_a_session_to_go_by_are_refused_in_a_loop() {
    on_a_small_stack(async {
        let journal = journal();
        // Each of the sixteen sessions that a client may have keeps two calls.
        let bridge = guarded(journal.server(&[]), Children::PerSession, 32, LONG);
        stands(&bridge, ServerPhase::Ready);
        let mut client = busy_caller(&bridge);
        let declaring = |mark: u64, call: Value| {
            let mut params = able(call);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({"experimental": {"mark": {"at": mark}}});
            params
        };
        let mut open = Vec::new();
        for mark in 0..16 {
            for tag in [mark, mark + 16] {
                let params = declaring(mark, wait(tag));
                open.push(client.ask("tools/call", params).await);
                journal.saw(&format!("waiting {tag}")).await;
            }
        }
        let ids = crowd(&bridge, &mut client, &declaring(16, wait(99))).await;
        let cancelled = json!({"requestId": open[0]});
        client.note("notifications/cancelled", cancelled).await;
        all_fail(&mut client, ids, "session").await;
        assert_eq!(bridge.queued(), 0);
        within(bridge.close()).await;
        journal.all_gone().await;
    });
}

#[test]
fn waiting_calls_of_a_server_that_is_given_up_are_refused_in_a_loop() {
    on_a_small_stack(async {
        let journal = journal();
        let bridge = guarded(journal.server(&[]), Children::PerSession, 1, LONG);
        let mut client = busy_caller(&bridge);
        let params = able(wait(1));
        let ids = crowd(&bridge, &mut client, &params).await;
        stands(&bridge, ServerPhase::Failed);
        all_fail(&mut client, ids, "server \"it\" is down").await;
        assert_eq!(bridge.queued(), 0);
        within(bridge.close()).await;
    });
}

#[test]
fn waiting_calls_that_a_client_takes_back_end_in_a_loop() {
    on_a_small_stack(async {
        let journal = journal();
        let bridge = guarded(journal.server(&[]), Children::PerSession, 1, LONG);
        stands(&bridge, ServerPhase::Ready);
        let mut client = busy_caller(&bridge);
        client.greet().await;
        client.ask("tools/call", wait(0)).await;
        journal.saw("waiting 0").await;
        crowd(&bridge, &mut client, &wait(1)).await;
        client.leave().await;
        assert_eq!(bridge.queued(), 0);
        within(bridge.close()).await;
        journal.all_gone().await;
    });
}
