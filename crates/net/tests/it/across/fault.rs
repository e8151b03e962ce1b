//! What goes wrong while a call is parked.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::inside::Inside;
use switchboard_net::server::{Context, Error, Server, Tool};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::{Era, Revision};
use switchboard_testkit::within;
use tokio::sync::mpsc;

use super::{able, bridge_to, host, text};
use crate::upstream::caller;

/// Says what came of a call when it is over, however it ends.
struct Gone(mpsc::UnboundedSender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

/// A legacy server whose tool asks and waits; each end of a call is told.
fn asking() -> (Arc<Server>, mpsc::UnboundedReceiver<()>) {
    let (told, ends) = mpsc::unbounded_channel();
    let tool = Tool::new("wait").run(move |_: Value, cx: Context| {
        let gone = Gone(told.clone());
        async move {
            let _gone = gone;
            let roots = cx.roots().await?;
            Ok::<_, Error>(format!("{}", roots.len()))
        }
    });
    let legacy: Vec<_> = Revision::ALL.into_iter().filter(|it| it.era() == Era::Legacy).collect();
    (Server::builder("far", "1").only(&legacy).tool(tool).build().unwrap(), ends)
}

/// wire: GW-46, GW-52
#[tokio::test]
async fn calls_whose_client_does_not_come_back_expire_and_nothing_is_left() {
    const CALLS: usize = 1000;
    let many = Limits { asks: 2 * CALLS, ..Limits::default() };
    let limits = Arc::new(Limits { park: Duration::from_millis(300), ..many.clone() });
    let (server, mut ends) = asking();
    let far = host(server as Arc<dyn Inside>, Arc::new(many)).await;
    let bridge = bridge_to(far, Arc::clone(&limits));
    let inside = Arc::clone(&bridge);
    let mut client = switchboard_testkit::caller::Caller::new(inside, false, limits);
    let mut ids = Vec::new();
    for _ in 0..CALLS {
        ids.push(client.ask("tools/call", able(json!({"name": "wait"}))).await);
    }
    let mut state = Value::Null;
    for id in ids {
        let asked = client.answer(id).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        state = asked["result"]["requestState"].clone();
    }
    for _ in 0..CALLS {
        within(ends.recv()).await.expect("the server was told");
    }
    let mut late = able(json!({"name": "wait", "inputResponses": {}}));
    late["requestState"] = state;
    assert_eq!(client.call("tools/call", late).await["error"]["code"], -32602);
    assert_eq!(bridge.calls(), 0, "nothing is left");
}

/// wire: GW-46
#[tokio::test]
async fn a_client_that_leaves_takes_its_parked_calls_with_it() {
    let (server, mut ends) = asking();
    let limits = Arc::new(Limits::default());
    let far = host(server as Arc<dyn Inside>, Arc::clone(&limits)).await;
    let bridge = bridge_to(far, limits);
    let mut client = caller(&bridge);
    let asked = client.call("tools/call", able(json!({"name": "wait"}))).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    client.leave().await;
    within(ends.recv()).await.expect("the server was told");
    within(bridge.close()).await;
}

/// wire: GW-45
#[tokio::test]
async fn a_call_that_ends_while_its_client_is_away_is_answered_when_it_comes_back() {
    let (told, mut tell) = mpsc::unbounded_channel();
    let tool = Tool::new("hasty").run(move |_: Value, cx: Context| {
        let told = told.clone();
        async move {
            // It does not wait for the answer.
            _ = tokio::time::timeout(Duration::from_millis(50), cx.roots()).await;
            _ = told.send(());
            "done without it"
        }
    });
    let legacy: Vec<_> = Revision::ALL.into_iter().filter(|it| it.era() == Era::Legacy).collect();
    let server = Server::builder("far", "1").only(&legacy).tool(tool).build().unwrap();
    let limits = Arc::new(Limits::default());
    let far = host(server as Arc<dyn Inside>, Arc::clone(&limits)).await;
    let bridge = bridge_to(far, limits);
    let mut client = caller(&bridge);
    let asked = client.call("tools/call", able(json!({"name": "hasty"}))).await;
    within(tell.recv()).await.unwrap();
    let mut retry = able(json!({"name": "hasty", "inputResponses": {"q1": {"roots": []}}}));
    retry["requestState"] = asked["result"]["requestState"].clone();
    assert_eq!(text(&client.call("tools/call", retry).await), "done without it");
}

/// wire: GW-28, GW-46
#[tokio::test]
async fn a_server_that_cannot_be_reached_says_so_in_every_era() {
    let nowhere: http::Uri = "http://127.0.0.1:1/mcp".parse().unwrap();
    let bridge = bridge_to(nowhere, Arc::new(Limits::default()));
    let mut client = caller(&bridge);
    let modern = client.call("tools/list", able(json!({}))).await;
    assert_eq!(modern["error"]["code"], -32603, "{modern}");
    let id = client.begin_greeting().await;
    assert_eq!(client.answer(id).await["error"]["code"], -32603);
}
