//! Who hears of changes.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::server::{Server, Tool};

use super::{Client, fixture, serve};

fn tool(name: &str) -> Tool {
    Tool::new(name).run(async |_: Value, _| "")
}

/// wire: SUB-13
#[tokio::test]
async fn a_legacy_client_hears_of_lists_and_of_what_it_watches() {
    let mut client = serve(fixture());
    client.greet("2025-11-25", json!({})).await;
    client.server.add_tool(tool("new")).unwrap();
    assert_eq!(client.hear().await["method"], "notifications/tools/list_changed");
    let list = client.call("tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"][3]["name"], "new");
    assert!(client.server.remove_tool("new"));
    assert_eq!(client.hear().await["method"], "notifications/tools/list_changed");
    assert!(!client.server.remove_tool("new"));
    client.server.prompts_changed();
    assert_eq!(client.hear().await["method"], "notifications/prompts/list_changed");

    client.server.resource_updated("a://text");
    client.call("resources/subscribe", json!({"uri": "a://text"})).await;
    client.server.resource_updated("a://text/beneath");
    client.server.resource_updated("a://textual");
    let heard = client.hear().await;
    assert_eq!(heard["method"], "notifications/resources/updated");
    assert_eq!(heard["params"], json!({"uri": "a://text/beneath"}));
    client.call("resources/unsubscribe", json!({"uri": "a://text"})).await;
    client.server.resource_updated("a://text");
    client.call("ping", json!({})).await;
    assert!(client.heard.is_empty(), "{:?}", client.heard);
}

/// wire: LIF-2
#[tokio::test]
async fn nothing_is_said_before_the_handshake_is_over() {
    let mut client = serve(fixture());
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
    client.call("initialize", hello).await;
    client.server.tools_changed();
    client.call("ping", json!({})).await;
    assert!(client.heard.is_empty(), "{:?}", client.heard);
}

async fn listen(client: &mut Client, id: &Value, wanted: Value) -> Value {
    let params = client.envelope(json!({"notifications": wanted}));
    let request =
        json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
    client.say(request).await;
    client.hear().await
}

const ID: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// wire: SUB-1, SUB-2, SUB-3, SUB-4, SUB-5, SUB-6
#[tokio::test]
async fn a_modern_client_hears_what_it_listens_for_and_nothing_else() {
    let mut client = serve(fixture());
    let (tools, uris) = (json!("tools"), json!(17));
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": false, "else": true});
    let ack = listen(&mut client, &tools, wanted).await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(ack["params"]["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(ack["params"]["_meta"][ID], tools);
    let ack = listen(&mut client, &uris, json!({"resourceSubscriptions": ["a://text"]})).await;
    assert_eq!(ack["params"]["_meta"][ID], uris);

    client.server.prompts_changed();
    client.server.resource_updated("a://other");
    client.server.tools_changed();
    let heard = client.hear().await;
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    assert_eq!(heard["params"]["_meta"][ID], tools);
    client.server.resource_updated("a://text");
    let heard = client.hear().await;
    assert_eq!(heard["params"]["uri"], "a://text");
    assert_eq!(heard["params"]["_meta"][ID], uris);

    // wire: SUB-7, CAN-2
    let cancel = json!({"requestId": "tools"});
    client
        .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    client.modern("tools/list", json!({})).await;
    client.server.tools_changed();
    client.modern("tools/list", json!({})).await;
    assert!(client.heard.is_empty(), "{:?}", client.heard);
}

/// wire: SUB-8, SUB-12, MOD-7, DIV-1
#[tokio::test]
async fn a_listen_ends_with_its_result() {
    let mut client = serve(fixture());
    listen(&mut client, &json!("x"), json!({"toolsListChanged": true})).await;
    client.server.close();
    let end = client.hear().await;
    assert_eq!(end["id"], "x");
    assert_eq!(end["result"]["resultType"], "complete");
    assert_eq!(end["result"]["_meta"][ID], "x");
    assert_eq!(end["result"]["_meta"][SERVER]["name"], "fixture");

    let ack = listen(&mut client, &json!("y"), json!({})).await;
    assert_eq!(ack["params"]["notifications"], json!({}));
    let end = client.hear().await;
    assert_eq!((&end["id"], &end["result"]["_meta"][ID]), (&json!("y"), &json!("y")));
    assert_eq!(end["result"]["_meta"][SERVER]["name"], "fixture");
    let refused = client.modern("subscriptions/listen", json!({})).await;
    assert_eq!(refused["error"]["code"], -32602);
}

#[tokio::test]
async fn every_client_hears_of_a_change() {
    let server = Server::builder("s", "0").tool(tool("a")).build().unwrap();
    let mut clients = Vec::new();
    for revision in super::LEGACY {
        let mut client = Client::of(Arc::clone(&server));
        client.greet(revision, json!({})).await;
        clients.push(client);
    }
    server.tools_changed();
    for mut client in clients {
        assert_eq!(client.hear().await["method"], "notifications/tools/list_changed");
        client.leave().await;
    }
    server.tools_changed();
}
