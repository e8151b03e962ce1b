//! Servers that die between the calls of a session.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_net::client::{CallError, Client, ClientOptions, ListenFilter};

use super::{ERAS, Gateway, demo, text};
use crate::process::{PATIENCE, Switchboard};

/// Ends the children that came after these.
fn kill_new(gateway: &Gateway, before: &[u32]) {
    let mut killed = 0;
    for child in gateway.process.children().into_iter().filter(|child| !before.contains(child)) {
        let id = Pid::from_raw(child.try_into().unwrap()).unwrap();
        // The guard may end with the last child.
        killed += usize::from(kill_process(id, Signal::KILL).is_ok());
    }
    assert!(killed > 0, "the session has a child of its own");
}

/// Makes a call. One that comes before the end was noticed fails with it, and is not repeated.
async fn add(client: &Client) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        match client.call_tool("it__add", json!({"a": 1, "b": 2})).await {
            Ok(sum) => return assert_eq!(text(&sum), "3"),
            Err(error) => assert!(matches!(error, CallError::Server { .. }), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(tokio::time::Instant::now() < until, "the server never comes back");
    }
}

/// wire: GW-22, GW-51
#[tokio::test]
async fn a_session_outlives_its_server_and_hears_what_it_watched_before() {
    for args in [&["--era", "legacy"][..], &["--era", "modern"]] {
        for era in ERAS {
            let gateway = Gateway::start(&json!({"it": demo(args)}));
            gateway.until_ready(&["it"]);
            let before = gateway.process.children();
            let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
            let uris = vec!["test://watched-resource".to_owned()];
            let mut listening = client
                .listen(ListenFilter { uris: uris.clone(), ..ListenFilter::default() })
                .await
                .unwrap();
            client.call_tool("it__touch", json!({})).await.unwrap();
            let heard = listening.next().await.unwrap();
            assert_eq!(heard.params["uri"], uris[0], "{args:?}, {era:?}");
            kill_new(&gateway, &before);
            add(&client).await;
            if args[1] == "modern" && era == ERAS[1] {
                // A listen of a modern client ends with its server, and is begun again.
                listening = loop {
                    if listening.next().await.is_none() {
                        let filter = ListenFilter { uris: uris.clone(), ..ListenFilter::default() };
                        break client.listen(filter).await.unwrap();
                    }
                };
            }
            client.call_tool("it__touch", json!({})).await.unwrap();
            let heard = listening.next().await.unwrap();
            assert_eq!(heard.method, "notifications/resources/updated", "{args:?}, {era:?}");
            assert_eq!(heard.params["uri"], uris[0], "{args:?}, {era:?}");
        }
    }
}

/// wire: HTTP-22, GW-22
#[tokio::test]
async fn a_session_outlives_an_endpoint_that_forgets_it() {
    for era in ERAS {
        let mut web = Switchboard::start(&["demo", "--http", "--era", "legacy"]);
        let port = web.port().to_string();
        let url = format!("http://127.0.0.1:{port}/mcp");
        let gateway = Gateway::start(&json!({"it": {"type": "http", "url": url}}));
        let client = gateway.client(era, &["it"]).await;
        let uris = vec!["test://watched-resource".to_owned()];
        let mut listening =
            client.listen(ListenFilter { uris, ..ListenFilter::default() }).await.unwrap();
        client.call_tool("it__touch", json!({})).await.unwrap();
        assert!(listening.next().await.is_some());
        web.signal(Signal::KILL);
        web.exit_code();
        let mut again = Switchboard::start(&["demo", "--http", "--era", "legacy", "--port", &port]);
        again.port();
        add(&client).await;
        // What was watched is watched again, a moment after the first call.
        let heard = async {
            loop {
                let touched = client.call_tool("it__touch", json!({})).await;
                assert!(touched.is_ok(), "{era:?}: {touched:?}");
                let next = tokio::time::timeout(Duration::from_millis(500), listening.next());
                if let Ok(heard) = next.await {
                    return heard.unwrap();
                }
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await.expect("it is never heard of");
        assert_eq!(heard.method, "notifications/resources/updated", "{era:?}");
    }
}
