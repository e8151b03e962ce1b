//! Calls that wait for a modern client to come back with input.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::http::site::SiteOptions;
use switchboard_proto::exchange::ClientEvent;

use super::{direct, limits, start};
use crate::client::{Client, call, enveloped};

/// A call of a client that can be asked for anything.
fn able(id: u64, tool: &str) -> Value {
    let mut message = enveloped(call(id, tool));
    let declared = json!({"elicitation": {}, "roots": {}, "sampling": {}});
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
    message
}

/// The same call again, with what it was asked for.
fn retry(id: u64, tool: &str, state: &Value, answers: Value) -> Value {
    let mut message = able(id, tool);
    message["params"]["requestState"] = state.clone();
    message["params"]["inputResponses"] = answers;
    message
}

/// wire: MRTR-2, MRTR-3, MRTR-5, GW-45
#[tokio::test]
async fn a_call_goes_on_where_it_was_when_its_client_comes_back() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::modern(set.way.clone());
    let first = able(1, "t");
    let (asked, waiting) = tokio::join!(client.post(&first), async {
        let call = set.stage.call().await;
        assert!(call.ask(71, "elicitation/create"));
        assert!(call.ask(72, "roots/list"));
        call
    });
    let asked = asked.json().await;
    let result = &asked["result"];
    assert_eq!((&asked["id"], &result["resultType"]), (&json!(1), &json!("input_required")));
    assert_eq!(result["inputRequests"].as_object().unwrap().len(), 2, "one round: {asked}");

    let answers = json!({"q1": {"action": "accept"}, "q2": {"roots": []}});
    let again = retry(2, "t", &result["requestState"], answers);
    let (answer, ()) = tokio::join!(client.post(&again), async {
        let heard = set.stage.heard().await;
        assert!(matches!(heard.verb, ClientEvent::Again { .. }), "{heard:?}");
        for expected in [71, 72] {
            let heard = set.stage.heard().await;
            assert!(
                matches!(heard.verb, ClientEvent::Supply { ask, .. } if ask.0 == expected),
                "{heard:?}"
            );
        }
        waiting.finish(&json!({"done": true}));
    });
    let answer = answer.json().await;
    assert_eq!((&answer["id"], &answer["result"]["done"]), (&json!(2), &json!(true)));
    let used = client.post(&again).await.json().await;
    assert_eq!(used["error"]["code"], -32602, "a state is good for one retry");
    set.stopped().await;
}

/// wire: MRTR-7, MRTR-8, GW-46
#[tokio::test]
async fn a_state_that_was_tampered_with_or_belongs_to_another_call_is_refused() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::modern(set.way.clone());
    let first = able(1, "t");
    let (asked, _waiting) = tokio::join!(client.post(&first), async {
        let call = set.stage.call().await;
        assert!(call.ask(71, "roots/list"));
        call
    });
    let state = asked.json().await["result"]["requestState"].clone();
    let forged = json!(format!("{}-TAMPERED", state.as_str().unwrap()));
    let answers = json!({"q1": {"roots": []}});
    for (why, message) in [
        ("forged", retry(2, "t", &forged, answers.clone())),
        ("another call", retry(3, "u", &state, answers.clone())),
    ] {
        let refused = client.post(&message).await.json().await;
        assert_eq!(refused["error"]["code"], -32602, "{why}: {refused}");
    }
    assert!(set.stage.is_silent(), "none of that reached the inside");
    set.stopped().await;
}

/// wire: GW-46, MRTR-9
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_come_back_is_given_up() {
    let mut set = direct(limits(|limits| limits.park = Duration::from_secs(3)));
    let client = Client::modern(set.way.clone());
    let first = able(1, "t");
    let (asked, waiting) = tokio::join!(client.post(&first), async {
        let call = set.stage.call().await;
        assert!(call.ask(71, "roots/list"));
        call
    });
    let state = asked.json().await["result"]["requestState"].clone();
    assert_eq!(set.stage.dropped().await, waiting.exchange);
    let late = retry(2, "t", &state, json!({"q1": {"roots": []}}));
    assert_eq!(client.post(&late).await.json().await["error"]["code"], -32602);
}

/// wire: META-3, MRTR-4
#[tokio::test]
async fn what_a_request_does_not_declare_cannot_be_asked() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::modern(set.way.clone());
    let plain = enveloped(call(1, "t"));
    let (answer, ()) = tokio::join!(client.post(&plain), async {
        let call = set.stage.call().await;
        assert!(!call.ask(71, "elicitation/create"));
        call.finish(&json!({}));
    });
    assert_eq!(answer.json().await["result"], json!({}));
    set.stopped().await;
}
