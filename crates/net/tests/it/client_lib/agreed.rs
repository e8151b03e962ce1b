//! What was agreed on is kept to, from the first word to the last.

use serde_json::json;
use switchboard_net::client::{CallError, ClientOptions, ConnectError, ListenFilter};
use switchboard_proto::revision::Era;
use switchboard_testkit::caller::LEGACY;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;

use super::{at, child};
use crate::upstream::journal;

/// wire: LIF-3
#[tokio::test]
async fn what_was_not_agreed_on_is_not_used() {
    let mut server = HttpServer::start().await;
    let options = ClientOptions::default().era(Era::Legacy).log_level("debug");
    let (client, ()) = tokio::join!(options.connect(at(&server)), async {
        let hello = server.post("initialize").await;
        assert_eq!(hello.message()["params"]["capabilities"], json!({}));
        let nothing = json!({"name": "bare", "version": "1"});
        let nothing =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": nothing});
        hello.result(nothing).await;
        server.post("notifications/initialized").await.answer(202, &[], "").await;
        server.get().await.answer(405, &[], "").await;
    });
    let client = client.unwrap();
    let filter = ListenFilter { uris: vec!["file:///a".to_owned()], ..ListenFilter::default() };
    let refused = client.listen(filter).await.unwrap_err();
    assert!(matches!(refused, CallError::Unsupported { .. }), "{refused:?}");
    client.roots_changed().await.unwrap();
    // No level was set, nothing watched, no roots told of; and the version is the agreed one.
    assert_eq!(server.waiting(|_| true), 0);
    let (pinged, ()) = tokio::join!(client.ping(), async {
        let hit = server.post("ping").await;
        assert_eq!(hit.header("mcp-protocol-version"), Some("2025-06-18"));
        hit.result(json!({})).await;
    });
    pinged.unwrap();
}

/// wire: LIF-5, HTTP-23
#[tokio::test]
async fn the_end_is_a_delete_and_closed_connections() {
    let mut server = HttpServer::start().await;
    let options = ClientOptions::default().era(Era::Legacy);
    let (client, stream) = tokio::join!(options.connect(at(&server)), async {
        server.post("initialize").await.welcome(Some("s1"), LEGACY).await;
        server.post("notifications/initialized").await.answer(202, &[], "").await;
        server.get().await.stream().await
    });
    let client = client.unwrap();
    let ((), ()) = tokio::join!(client.close(), async {
        let hit = server.delete().await;
        assert_eq!(hit.header("mcp-session-id"), Some("s1"));
        hit.answer(204, &[], "").await;
    });
    stream.gone().await;
    assert!(!client.is_connected());
}

/// wire: NEG-4
#[tokio::test]
async fn a_client_that_is_modern_only_asks_before_a_legacy_server_could_run_anything() {
    let journal = journal();
    let options = ClientOptions::default().era(Era::Modern);
    let refused = within(options.connect(child(&journal, &[]))).await.unwrap_err();
    assert!(matches!(refused, ConnectError::NotModern { .. }), "{refused:?}");
    journal.all_gone().await;
    let said = journal.lines();
    let said: Vec<_> = said.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(said[1..], ["server/discover"]);
}
