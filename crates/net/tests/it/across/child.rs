//! Modern clients of a legacy child.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::bridge::Children;
use switchboard_testkit::within;

use super::able;
use crate::upstream::{caller, child_bridge, journal};

/// wire: NEG-7, GW-41
#[tokio::test]
async fn a_child_that_the_question_of_the_era_upsets_is_begun_anew() {
    for temper in ["", "pins", "fragile"] {
        let journal = journal();
        let bridge = child_bridge(journal.server(&[temper]), Children::PerSession);
        let mut client = caller(&bridge);
        let echo = able(json!({"name": "echo", "arguments": {"a": 1}}));
        let answer = client.call("tools/call", echo.clone()).await;
        assert_eq!(answer["result"]["structuredContent"], json!({"a": 1}), "{temper}: {answer}");
        assert_eq!(answer["result"]["resultType"], "complete");
        client.leave().await;

        let mut again = caller(&bridge);
        let before = journal.lines();
        again.call("tools/call", echo).await;
        let asked = |lines: &[String]| lines.iter().filter(|it| it.ends_with("discover")).count();
        assert_eq!(asked(&journal.lines()), asked(&before), "it is asked once");
        within(bridge.close()).await;
        journal.all_gone().await;
    }
}

/// wire: GW-46, STD-10
#[tokio::test]
async fn a_server_that_dies_while_a_call_is_parked_fails_it_when_its_client_is_back() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let mut client = caller(&bridge);
    let work = able(json!({"name": "work", "arguments": {"tag": "t", "ask": true}}));
    let asked = client.call("tools/call", work.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let die = able(json!({"name": "die", "arguments": {"code": 3}}));
    let died = client.call("tools/call", die).await;
    assert_eq!(died["error"]["code"], -32603, "{died}");
    let mut retry = work;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    retry["inputResponses"][key] = json!({"action": "accept", "content": {}});
    retry["requestState"] = asked["result"]["requestState"].clone();
    let failed = client.call("tools/call", retry).await;
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    assert_eq!(bridge.calls(), 0);
    let alive = client.call("tools/call", able(json!({"name": "pid"}))).await;
    assert!(alive["result"]["structuredContent"]["pid"].is_u64(), "{alive}");
    within(bridge.close()).await;
}

/// Nobody has to call it for that.
///
/// wire: GW-51, SUB-10, STD-10
#[tokio::test]
async fn who_listens_at_a_server_that_dies_hears_soon_of_the_next_one() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let mut client = caller(&bridge);
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["x:1"]});
    client.ask("subscriptions/listen", able(json!({"notifications": wanted}))).await;
    client.told("notifications/subscriptions/acknowledged").await;
    let greetings = || journal.lines().iter().filter(|line| line.ends_with(" initialize")).count();
    let before = greetings();
    let die = able(json!({"name": "die", "arguments": {"code": 3}}));
    client.call("tools/call", die).await;
    client.told("notifications/tools/list_changed").await;
    assert_eq!(greetings(), before + 1);
    within(bridge.close()).await;
    journal.all_gone().await;
}

fn declaring(params: &Value, capabilities: Value) -> Value {
    let mut params = able(params.clone());
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

/// A request says by itself what its client can do, and another may say otherwise.
///
/// wire: GW-41, META-3, MRTR-4
#[tokio::test]
async fn each_request_on_a_pipe_meets_a_child_that_asks_only_what_it_can_answer() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let mut client = caller(&bridge);
    let pid = json!({"name": "pid"});
    let work = json!({"name": "work", "arguments": {"tag": "t", "ask": "elicitation"}});
    let nothing = json!({});
    let people = json!({"elicitation": {}});
    let content = |answer: &Value| answer["result"]["structuredContent"].clone();

    let bare = content(&client.call("tools/call", declaring(&pid, nothing.clone())).await);
    let asked = client.call("tools/call", declaring(&work, people.clone())).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let unasked = client.call("tools/call", declaring(&work, nothing.clone())).await;
    assert_eq!(content(&unasked)["got"], Value::Null, "{unasked}");
    assert_eq!(content(&unasked)["pid"], bare["pid"], "those that are alike share one");
    let able = content(&client.call("tools/call", declaring(&pid, people.clone())).await);
    assert_eq!((&bare["able"], &able["able"]), (&nothing, &people));
    assert_ne!(bare["pid"], able["pid"]);

    let mut retry = declaring(&work, people);
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    retry["inputResponses"][key] = json!({"action": "accept", "content": {}});
    retry["requestState"] = asked["result"]["requestState"].clone();
    let answer = client.call("tools/call", retry).await;
    assert_eq!(content(&answer)["got"]["action"], "accept", "{answer}");
    client.leave().await;
    journal.all_gone().await;
    assert_eq!(bridge.connections(), 0, "nothing is left");
    within(bridge.close()).await;
}

/// What a client once said to be able to do ends when it says so no more; what
/// it says at last stays with it.
///
/// wire: GW-41, GW-42
#[tokio::test]
async fn of_the_children_of_one_pipe_there_are_few_and_the_last_one_stays() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let mut client = caller(&bridge);
    let pid = json!({"name": "pid"});
    let marked = |mark: u64| declaring(&pid, json!({"experimental": {"mark": {"at": mark}}}));
    for mark in 0..18 {
        let answer = client.call("tools/call", marked(mark)).await;
        assert!(answer["result"]["structuredContent"]["pid"].is_u64(), "{mark}: {answer}");
    }
    assert_eq!(bridge.connections(), 16, "the oldest have made room for others");
    tokio::time::pause();
    tokio::time::sleep(Duration::from_mins(12)).await;
    tokio::time::resume();
    assert_eq!(bridge.connections(), 1, "nobody has used the others for long");
    let last = journal.pids()[journal.pids().len() - 1];
    let again = client.call("tools/call", marked(17)).await;
    assert_eq!(again["result"]["structuredContent"]["pid"], last);
    client.leave().await;
    journal.all_gone().await;
    within(bridge.close()).await;
}

/// Each of two clients on one child: their calls meet there, and nothing else of theirs.
///
/// wire: GW-41, GW-81
#[tokio::test]
async fn clients_on_pipes_have_children_of_their_own() {
    let journal = journal();
    let bridge = child_bridge(journal.server(&[]), Children::PerSession);
    let (mut one, mut two) = (caller(&bridge), caller(&bridge));
    let pid = |answer: &Value| answer["result"]["structuredContent"]["pid"].clone();
    let first = pid(&one.call("tools/call", able(json!({"name": "pid"}))).await);
    let second = pid(&two.call("tools/call", able(json!({"name": "pid"}))).await);
    assert!(first.is_u64() && first != second);
    assert_eq!(pid(&one.call("tools/call", able(json!({"name": "pid"}))).await), first);
    within(bridge.close()).await;
    journal.all_gone().await;
}
