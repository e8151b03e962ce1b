//! Clients of ours behind a bridge, among its own.

use std::sync::Arc;

use serde_json::json;
use switchboard_net::bridge::{Bridge, Children};
use switchboard_net::client::{CallError, Client};
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::{ClientIdentity, ServerTarget};
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Carrier;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;
use switchboard_testkit::within;

use super::child;
use crate::upstream::journal;

async fn behind(bridge: &Arc<Bridge>, era: Era) -> Client {
    let backend = Arc::clone(bridge);
    let face =
        ClientConnection::new(era, Carrier::Http, backend, &Limits::default(), Sharing::Shared);
    let server = ServerTarget::behind(bridge, &Arc::new(ClientIdentity::of(&face, None)));
    within(Client::connect(server)).await.unwrap()
}

#[tokio::test]
async fn those_who_are_alike_go_by_one_connection_and_none_ends_it_for_the_others() {
    for era in [Era::Legacy, Era::Modern] {
        let journal = journal();
        let bridge = Bridge::new(child(&journal, &["lists"]), Children::PerUser, Arc::default());
        let (one, two) = (behind(&bridge, era).await, behind(&bridge, era).await);
        assert_eq!((one.era(), two.era()), (era, era));
        let (first, second) = (within(one.tools()).await, within(two.tools()).await);
        assert_eq!(first.unwrap(), second.unwrap(), "{era:?}");
        assert_eq!(bridge.connections(), 1, "{era:?}");
        let (held, ()) =
            tokio::join!(within(one.call_tool("wait", json!({"tag": "never"}))), async {
                while bridge.calls() == 0 {
                    tokio::task::yield_now().await;
                }
                one.close().await;
            });
        assert!(matches!(held, Err(CallError::Failed(_))), "{era:?}: {held:?}");
        assert!(!one.is_connected());
        within(two.ping()).await.unwrap();
        assert_eq!(bridge.connections(), 1, "{era:?}");
        within(bridge.close()).await;
        journal.all_gone().await;
    }
}
