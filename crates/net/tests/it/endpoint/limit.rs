//! What one client may take, and what happens beyond it.

use serde_json::json;

use super::{limits, start};
use crate::client::{Client, LEGACY, call, request};

/// wire: MSG-2
#[tokio::test]
async fn an_id_in_use_is_refused_and_the_first_call_lives() {
    let mut set = start(limits(|_| {})).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let message = call(1, "hold");
    let (first, ()) = tokio::join!(client.post(&message), async {
        let call = set.stage.call().await;
        let second = client.post(&request(1, "tools/list")).await;
        assert_eq!(second.status, 400);
        call.finish(&json!({"mine": true}));
    });
    assert_eq!(first.json().await["result"]["mine"], true);
    set.stopped().await;
}
