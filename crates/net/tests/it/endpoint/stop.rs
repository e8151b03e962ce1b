//! Stopping: streams end, calls finish, nobody new comes in.

use serde_json::json;
use switchboard_net::http::site::SiteOptions;

use super::start;
use crate::client::{Client, LEGACY, call, enveloped, initialize};
use switchboard_testkit::within;

#[tokio::test]
async fn closing_ends_streams_and_lets_calls_finish() {
    let mut set = start(SiteOptions::default()).await;
    let idle = Client::ready(set.way.clone(), LEGACY).await;
    let busy = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    set.stage.noted().await;
    let listening = idle.listen(None).await;
    let message = call(1, "hold");
    let modern = Client::modern(set.way.clone());
    let request = enveloped(call(2, "hold"));
    let (reply, stateless, ()) = tokio::join!(busy.post(&message), modern.post(&request), async {
        let calls = [set.stage.call().await, set.stage.call().await];
        set.site.close();
        _ = set.stop.take().unwrap().send(());
        assert_eq!(listening.messages().await.len(), 0);
        for call in calls {
            // A question of a call that is still open can be answered to the last.
            call.finish(&json!({"done": true}));
        }
    });
    assert_eq!(reply.json().await["result"]["done"], true);
    assert_eq!(stateless.json().await["result"]["done"], true);
    within(set.task.take().unwrap()).await.unwrap();
    set.stage.forgot(2).await;
    assert_eq!(set.site.sessions(), 0);
}

#[tokio::test]
async fn a_closed_site_takes_no_new_sessions_but_answers_to_open_calls() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::ready(set.way.clone(), LEGACY).await;
    set.stage.noted().await;
    let message = call(1, "asks");
    let (mut reply, open) = tokio::join!(client.post(&message), async {
        let open = set.stage.call().await;
        assert!(open.ask(7, "roots/list"));
        open
    });
    let question = reply.message().await.0;
    set.site.close();
    let refused = Client::new(set.way.clone()).post(&initialize(LEGACY)).await;
    assert_eq!(refused.status, 503);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {}});
    assert_eq!(client.post(&answer).await.status, 202);
    open.finish(&json!({}));
    assert_eq!(reply.messages().await.len(), 1);
    set.stage.forgot(1).await;
    set.stopped().await;
}

/// wire: SUB-7, SUB-8, SUB-9
#[tokio::test]
async fn closing_ends_a_modern_listen_with_its_result() {
    let mut set = start(SiteOptions::default()).await;
    let client = Client::modern(set.way.clone());
    let params = json!({"notifications": {"toolsListChanged": true}});
    let listen =
        json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
    let message = enveloped(listen);
    let (mut reply, _open) = tokio::join!(client.post(&message), async {
        let call = set.stage.call().await;
        call.note("notifications/subscriptions/acknowledged", &json!({"notifications": {}}));
        call
    });
    assert_eq!(reply.message().await.0["method"], "notifications/subscriptions/acknowledged");
    set.site.close();
    let rest = reply.messages().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(
        (&rest[0]["id"], &rest[0]["result"]["resultType"]),
        (&json!("l"), &json!("complete"))
    );
    set.stage.forgot(1).await;
    set.stopped().await;
}
