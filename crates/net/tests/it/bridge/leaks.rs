//! Nothing is left behind: no task, no process, no connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::limits::Limits;
use switchboard_testkit::caller::LEGACY;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;

use crate::upstream::{caller, child_bridge, fetch, journal};

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Waits until no more tasks run than before.
async fn back_to(before: usize) {
    within(async {
        while tasks() > before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// wire: HTTP-23
#[tokio::test(start_paused = true)]
async fn sessions_at_a_url_leave_no_task_behind() {
    let mut server = HttpServer::start().await;
    let before = tasks();
    let target =
        ServerTarget::url(server.url("/mcp"), Strategy::HttpFirst, http::HeaderMap::new(), fetch());
    let bridge = Bridge::new(target, Children::PerSession, Arc::new(Limits::default()));
    for number in 0..10 {
        let mut caller = caller(&bridge);
        let (_, listening) = tokio::join!(caller.greet(), async {
            server.post("initialize").await.welcome(Some("s"), LEGACY).await;
            server.post("notifications/initialized").await.answer(202, &[], "").await;
            server.get().await.stream().await
        });
        let id = caller.ask("tools/call", json!({"name": "t"})).await;
        let call = server.post("tools/call").await;
        // Some are cancelled, some are open when their client goes.
        if number % 2 == 0 {
            caller.note("notifications/cancelled", json!({"requestId": id})).await;
            server.post("notifications/cancelled").await.answer(202, &[], "").await;
            call.gone().await;
        } else {
            call.stream().await.write("id: 1\ndata:\n\n").await;
            caller.note("notifications/cancelled", json!({"requestId": id})).await;
            server.post("notifications/cancelled").await.answer(202, &[], "").await;
        }
        caller.leave().await;
        server.delete().await.answer(204, &[], "").await;
        listening.gone().await;
    }
    within(bridge.close()).await;
    back_to(before).await;
}

/// wire: STD-5
#[tokio::test]
async fn children_leave_no_task_behind() {
    for children in [Children::PerSession, Children::Shared, Children::PerRequest] {
        let journal = journal();
        let before = tasks();
        let bridge = child_bridge(journal.server(&[]), children);
        for _ in 0..3 {
            let mut caller = caller(&bridge);
            caller.greet().await;
            caller.tool("echo", json!({})).await;
            caller.leave().await;
        }
        within(bridge.close()).await;
        journal.all_gone().await;
        back_to(before).await;
    }
}
