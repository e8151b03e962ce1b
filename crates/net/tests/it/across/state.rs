//! States that modern clients carry for calls at a legacy server, in the wrong hands.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use switchboard_net::backend::Backend;
use switchboard_net::http::fetch::Fetch;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_testkit::within;

use super::{MODERN, able, bridge_to, builder, host, text};
use crate::upstream::fetch;

/// A modern client on HTTP, with a token of its own.
struct Client {
    fetch: Fetch,
    url: http::Uri,
    token: &'static str,
}

impl Client {
    async fn call(&self, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = Request::post(self.url.clone())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", self.token)
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", "tools/call")
            .header("mcp-name", params["name"].as_str().unwrap())
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let response = within(self.fetch.send(request)).await.unwrap();
        let text = within(response.into_body().collect()).await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(last.unwrap_or(&text)).unwrap()
    }

    /// Begins a call that asks for a name; the state, and the retry that goes on with it.
    async fn begin(&self) -> Value {
        let asked = self.call(&able(json!({"name": "name"}))).await;
        let questions = asked["result"]["inputRequests"].as_object().expect("it asks");
        let key = questions.keys().next().unwrap();
        let mut retry = able(json!({"name": "name"}));
        retry["inputResponses"][key] = json!({"action": "accept", "content": {"name": "Ann"}});
        retry["requestState"] = asked["result"]["requestState"].clone();
        retry
    }
}

async fn two_clients() -> (Client, Client) {
    let limits = Arc::new(Limits::default());
    let server = builder(Some(Era::Legacy)).build().unwrap();
    let far = host(server as Arc<dyn Backend>, Arc::clone(&limits)).await;
    let url = host(bridge_to(far, Arc::clone(&limits)), limits).await;
    let client = |token| Client { fetch: fetch(), url: url.clone(), token };
    (client("Bearer ann"), client("Bearer bob"))
}

/// wire: GW-41, GW-45, GW-46, MRTR-7, MRTR-8
#[tokio::test]
async fn a_state_is_good_once_for_its_own_call_and_its_own_client() {
    let (ann, bob) = two_clients().await;
    let (hers, his) = (ann.begin().await, bob.begin().await);
    let code = |answer: &Value| answer["error"]["code"].clone();
    assert_eq!(code(&bob.call(&hers).await), -32602, "another's");
    assert_eq!(code(&ann.call(&his).await), -32602, "another's");

    let mut forged = hers.clone();
    let state = hers["requestState"].as_str().unwrap();
    forged["requestState"] = format!("{}A", &state[..state.len() - 1]).into();
    if forged["requestState"] == hers["requestState"] {
        forged["requestState"] = format!("{}B", &state[..state.len() - 1]).into();
    }
    assert_eq!(code(&ann.call(&forged).await), -32602, "forged");
    let mut strange = hers.clone();
    strange["requestState"] = "of somebody else".into();
    assert_eq!(code(&ann.call(&strange).await), -32602, "not of ours");
    let mut other = hers.clone();
    other["arguments"] = json!({"other": 1});
    assert_eq!(code(&ann.call(&other).await), -32602, "another call");

    assert_eq!(text(&ann.call(&hers).await), "Hello, \"Ann\"!");
    assert_eq!(code(&ann.call(&hers).await), -32602, "used before");
    assert_eq!(text(&bob.call(&his).await), "Hello, \"Ann\"!");
}
