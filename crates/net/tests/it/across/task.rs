//! Tasks, where client and server have them in different forms.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::backend::Backend;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::roster::ServerPhase;
use switchboard_net::server::{Context, Error, Server, TaskSupport, Tool};
use switchboard_net::upstream::{ServerTarget as Target, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};
use switchboard_testkit::caller::Caller;
use switchboard_testkit::within;

use super::{able, bridge_to, host, text};
use crate::bridge::gate::stands;
use crate::upstream::{caller, fetch};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A server of one era whose tools are tasks: one asks, one may not be anything else.
async fn tasking(era: Era) -> http::Uri {
    let ask = Tool::new("ask").tasks(TaskSupport::Optional).run(async |_: Value, cx: Context| {
        let roots = cx.roots().await?;
        Ok::<_, Error>(format!("{} roots", roots.len()))
    });
    let must = Tool::new("must").tasks(TaskSupport::Required).run(async |_: Value, _| "must");
    let quick = Tool::new("quick").run(async |_: Value, _| "quick");
    let spoken: Vec<_> = Revision::ALL.into_iter().filter(|it| it.era() == era).collect();
    let builder = Server::builder("far", "1").only(&spoken).tool(ask).tool(must).tool(quick);
    host(builder.build().unwrap() as Arc<dyn Backend>, Arc::new(Limits::default())).await
}

async fn meet(era: Era) -> (Arc<Bridge>, Caller) {
    let bridge = bridge_to(tasking(era).await, Arc::new(Limits::default()));
    let client = caller(&bridge);
    (bridge, client)
}

/// The parameters of a modern call of a client that knows tasks.
fn knowing(params: Value) -> Value {
    let mut params = able(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
        json!({EXTENSION: {}});
    params
}

/// wire: GW-10, GW-27, TASK-1, UTL-9
#[tokio::test]
async fn a_legacy_client_has_tasks_at_a_modern_server() {
    let (_bridge, mut client) = meet(Era::Modern).await;
    let welcome = client.greet().await;
    let offered = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(welcome["result"]["capabilities"]["tasks"], offered, "{welcome}");
    let listed = client.call("tools/list", json!({})).await;
    for tool in listed["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool["execution"]["taskSupport"], "optional", "{tool}");
    }

    let task = json!({"name": "ask", "task": {"ttl": 60_000}});
    let created = client.call("tools/call", task).await;
    let id = created["result"]["task"]["taskId"].clone();
    assert!(id.is_string(), "{created}");
    let open = client.ask("tasks/result", json!({"taskId": id})).await;
    let question = client.told("roots/list").await;
    let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(*related, id);
    let roots = json!({"roots": [{"uri": "file:///r"}]});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots})).await;
    let result = client.answer(open).await;
    assert_eq!(text(&result), "1 roots");
    let related = &result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(*related, id);
    let state = client.call("tasks/get", json!({"taskId": id})).await;
    assert_eq!(state["result"]["status"], "completed", "{state}");

    let over = client.call("tools/call", json!({"name": "quick", "task": {}})).await;
    assert_eq!(over["result"]["task"]["status"], "completed", "{over}");
    let id = over["result"]["task"]["taskId"].clone();
    assert_eq!(text(&client.call("tasks/result", json!({"taskId": id})).await), "quick");
    let all = client.call("tasks/list", json!({})).await;
    assert_eq!(all["result"]["tasks"].as_array().unwrap().len(), 2, "{all}");
    // Its client asked for none, and need not know.
    assert_eq!(text(&client.call("tools/call", json!({"name": "must"})).await), "must");
}

/// wire: TASK-7, GW-51, GW-59
#[tokio::test]
async fn a_modern_client_listens_to_a_task_of_a_legacy_server() {
    let (_bridge, mut client) = meet(Era::Legacy).await;
    let created = client.call("tools/call", knowing(json!({"name": "ask"}))).await;
    let id = created["result"]["taskId"].clone();
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let state = loop {
        let state = client.call("tasks/get", knowing(json!({"taskId": id}))).await;
        if state["result"]["status"] == "input_required" {
            break state;
        }
    };
    let wanted = json!({"taskIds": [id, "another"]});
    client.ask("subscriptions/listen", knowing(json!({"notifications": wanted}))).await;
    let ack = client.told("notifications/subscriptions/acknowledged").await;
    assert_eq!(ack["params"]["notifications"], json!({"taskIds": [id]}), "{ack}");
    let key = state["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let update = json!({"taskId": id, "inputResponses": {key: {"roots": []}}});
    client.call("tasks/update", knowing(update)).await;
    let ended = loop {
        let told = client.told("notifications/tasks").await;
        if told["params"]["status"] == "completed" {
            break told;
        }
    };
    assert_eq!(ended["params"]["result"]["content"][0]["text"], "0 roots", "{ended}");
    assert_eq!(text(&client.call("tools/call", able(json!({"name": "must"}))).await), "must");
}

/// wire: GW-41, GW-59
#[tokio::test]
async fn a_server_is_not_left_to_rest_while_a_task_goes_on_there() {
    let target =
        Target::url(tasking(Era::Legacy).await, Strategy::HttpFirst, HeaderMap::new(), fetch());
    let bounds = (NonZeroUsize::MIN, Duration::from_mins(1));
    let limits = Arc::new(Limits::default());
    let bridge = Bridge::guarding(target, Children::PerSession, limits, bounds);
    stands(&bridge, ServerPhase::Ready);
    let mut client = caller(&bridge);
    let created = client.call("tools/call", knowing(json!({"name": "ask"}))).await;
    let id = created["result"]["taskId"].clone();
    assert!(bridge.is_idle(), "no call is open");
    assert!(!bridge.rest(Duration::ZERO), "its task would end");
    let asked = loop {
        let state = client.call("tasks/get", knowing(json!({"taskId": id}))).await;
        if state["result"]["status"] == "input_required" {
            break state["result"]["inputRequests"].clone();
        }
    };
    let key = asked.as_object().unwrap().keys().next().unwrap().clone();
    let update = json!({"taskId": id, "inputResponses": {key: {"roots": []}}});
    client.call("tasks/update", knowing(update)).await;
    let ended = loop {
        let state = client.call("tasks/get", knowing(json!({"taskId": id}))).await;
        if state["result"]["status"] == "completed" {
            break state;
        }
    };
    assert_eq!(ended["result"]["result"]["content"][0]["text"], "0 roots", "{ended}");
    assert!(bridge.rest(Duration::ZERO), "its client has seen its end");
    within(bridge.close()).await;
}

/// wire: GW-27, GW-59
#[tokio::test]
async fn where_each_call_has_a_session_of_its_own_tasks_are_waited_for() {
    let target =
        Target::url(tasking(Era::Legacy).await, Strategy::HttpFirst, HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerRequest, Arc::new(Limits::default()));
    for _ in 0..2 {
        let mut client = caller(&bridge);
        let offered = client.call("server/discover", knowing(json!({}))).await;
        assert!(offered["result"]["capabilities"]["tools"].is_object(), "{offered}");
        assert_eq!(offered["result"]["capabilities"]["extensions"], Value::Null, "{offered}");
        let must = client.call("tools/call", knowing(json!({"name": "must"}))).await;
        assert_eq!(text(&must), "must");
        // Nor do other bounds change that.
        bridge.set_limits(Limits::default());
    }
    within(bridge.close()).await;
}

/// wire: GW-42, GW-59, TASK-8
#[tokio::test]
async fn the_id_of_a_task_is_enough_whatever_a_request_declares_besides() {
    let (_bridge, mut client) = meet(Era::Legacy).await;
    let created = client.call("tools/call", knowing(json!({"name": "ask"}))).await;
    let id = created["result"]["taskId"].clone();
    let plainly = |params: Value| {
        let mut params = knowing(params);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"extensions": {EXTENSION: {}}});
        params
    };
    let asked = loop {
        let state = client.call("tasks/get", plainly(json!({"taskId": id}))).await;
        assert_eq!(state["result"]["taskId"], id, "{state}");
        if state["result"]["status"] == "input_required" {
            break state["result"]["inputRequests"].clone();
        }
    };
    let wanted = json!({"taskIds": [id]});
    client.ask("subscriptions/listen", plainly(json!({"notifications": wanted}))).await;
    let ack = client.told("notifications/subscriptions/acknowledged").await;
    assert_eq!(ack["params"]["notifications"], wanted, "{ack}");
    let key = asked.as_object().unwrap().keys().next().unwrap().clone();
    let update = json!({"taskId": id, "inputResponses": {key: {"roots": []}}});
    client.call("tasks/update", plainly(update)).await;
    let ended = loop {
        let told = client.told("notifications/tasks").await;
        if told["params"]["status"] == "completed" {
            break told;
        }
    };
    assert_eq!(ended["params"]["result"]["content"][0]["text"], "0 roots", "{ended}");
}
