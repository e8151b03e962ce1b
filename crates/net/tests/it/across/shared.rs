//! Modern clients of a legacy child that all share, or that each call has to itself.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::backend::Backend;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::roster::ServerPhase;
use switchboard_net::upstream::ServerTarget;
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;
use switchboard_testkit::within;

use super::able;
use crate::bridge::gate::stands;
use crate::client::{Client, Way, call};
use crate::upstream::{caller, child_bridge, journal};

fn content(answer: &Value) -> &Value {
    &answer["result"]["structuredContent"]
}

fn work(tag: &str) -> Value {
    able(json!({"name": "work", "arguments": {"tag": tag, "ask": true}}))
}

/// The retry that answers the only question of `asked`.
fn answered(mut params: Value, asked: &Value) -> Value {
    let questions = asked["result"]["inputRequests"].as_object();
    let questions = questions.unwrap_or_else(|| panic!("{asked}"));
    let key = questions.keys().next().unwrap();
    params["inputResponses"][key] = json!({"action": "accept", "content": {}});
    params["requestState"] = asked["result"]["requestState"].clone();
    params
}

/// wire: GW-41, GW-45, GW-46
#[tokio::test(flavor = "multi_thread")]
async fn each_call_of_a_modern_client_has_a_legacy_child_of_its_own_even_while_parked() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerRequest);
    let mut client = caller(&bridge);
    let one = client.call("tools/call", work("one")).await;
    let two = client.call("tools/call", work("two")).await;
    for (tag, asked) in [("two", &two), ("one", &one)] {
        let answer = client.call("tools/call", answered(work(tag), asked)).await;
        assert_eq!(content(&answer)["tag"], tag, "{answer}");
        assert_eq!(content(&answer)["got"]["action"], "accept");
    }
    let pid = |answer: &Value| content(answer)["pid"].clone();
    let first = pid(&client.call("tools/call", able(json!({"name": "pid"}))).await);
    assert_ne!(first, pid(&client.call("tools/call", able(json!({"name": "pid"}))).await));
    // What is listened for needs a child as long as it is listened for.
    let wanted = json!({"toolsListChanged": true});
    client.ask("subscriptions/listen", able(json!({"notifications": wanted}))).await;
    let ack = client.told("notifications/subscriptions/acknowledged").await;
    assert_eq!(ack["params"]["notifications"], wanted);
    client.leave().await;
    journal.all_gone().await;
    assert_eq!(bridge.calls(), 0, "nothing is left");
    within(bridge.close()).await;
}

/// wire: GW-41, GW-47, GW-81
#[tokio::test(flavor = "multi_thread")]
async fn modern_clients_share_a_legacy_child_and_nobody_gets_what_is_anothers() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::Shared);
    let (mut ann, mut bob) = (caller(&bridge), caller(&bridge));
    let hers = ann.call("tools/call", work("hers")).await;
    // Hers waits for her, so that it is clear whose the next question is.
    let his = bob.call("tools/call", work("his")).await;
    let answer = bob.call("tools/call", answered(work("his"), &his)).await;
    assert_eq!(content(&answer)["tag"], "his", "{answer}");
    let answer = ann.call("tools/call", answered(work("hers"), &hers)).await;
    assert_eq!(content(&answer)["tag"], "hers", "{answer}");
    let swapped = bob.call("tools/call", answered(work("hers"), &hers)).await;
    assert_eq!(swapped["error"]["code"], -32602, "{swapped}");

    let wanted = json!({"toolsListChanged": true});
    let id = ann.ask("subscriptions/listen", able(json!({"notifications": wanted}))).await;
    ann.told("notifications/subscriptions/acknowledged").await;
    let change = able(json!({"name": "change", "arguments": {"tool": "new"}}));
    bob.call("tools/call", change).await;
    let changed = ann.told("notifications/tools/list_changed").await;
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    assert!(bob.early().is_empty(), "who does not listen is not told: {:?}", bob.early());
    ann.leave().await;
    assert_eq!(content(&bob.call("tools/call", able(json!({"name": "pid"}))).await)["hellos"], 1);
    within(bridge.close()).await;
    journal.all_gone().await;
}

/// The one whose call is not being asked yet could be meant; or somebody else is
/// asked twice, and that is not for others to see.
///
/// wire: GW-47
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_shown_a_question_that_may_be_anothers_even_if_calls_wait_for_turns() {
    for gated in [false, true] {
        let journal = journal();
        let server = ServerTarget::command(journal.server(&[]), std::env::vars_os().collect());
        let (shared, limits) = (Children::Shared, Arc::new(Limits::default()));
        let bridge = if gated {
            let bound = (NonZeroUsize::MIN.saturating_add(7), Duration::from_mins(1));
            Bridge::guarding(server, shared, limits, bound)
        } else {
            Bridge::new(server, shared, limits)
        };
        stands(&bridge, ServerPhase::Ready);
        let options = SiteOptions::default().sharing(Sharing::Shared);
        let site = Site::new(Arc::clone(&bridge) as Arc<dyn Backend>, options);
        let client = Client::modern(Way::Direct(site));
        let works = async |token: &str, tag: &str| {
            let mut message = call(1, "work");
            message["params"] = work(tag);
            let request = client.posting(&message).header("authorization", token);
            within(client.send(request, message.to_string())).await.json().await
        };
        let hers = works("Bearer ann", "hers").await;
        assert_eq!(hers["result"]["resultType"], "input_required", "{hers}");
        let his = works("Bearer bob", "his").await;
        assert!(content(&his)["got"]["code"].is_i64(), "gated: {gated}: {his}");
        within(bridge.close()).await;
        journal.all_gone().await;
    }
}
