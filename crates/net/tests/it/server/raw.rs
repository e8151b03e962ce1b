//! A handler that takes bytes and gives bytes.

use bytes::Bytes;
use serde_json::json;
use switchboard_net::server::{Context, Error, Handler, Request, Server, Tool};

use super::{LEGACY, serve, text};

struct Echo;

impl Handler for Echo {
    async fn call(&self, call: Request, cx: Context) -> Result<Bytes, Error> {
        match call.method() {
            "tools/list" => Ok(Bytes::from_static(br#"{"tools":[],"ttlMs":7}"#)),
            "x/echo" => {
                cx.progress(1.0, None, None);
                let value = call.param(&["value"]).unwrap_or(b"null");
                Ok([br#"{"value":"#, value, b"}"].concat().into())
            }
            "x/bad" => Ok(Bytes::from_static(b"[]")),
            other => Err(Error::unknown_method(other)),
        }
    }
}

/// wire: GW-70, MOD-6, MOD-7
#[tokio::test]
async fn one_handler_serves_every_revision() {
    for revision in LEGACY {
        let mut client = serve(Server::builder("raw", "0").handler(Echo));
        client.greet(revision, json!({})).await;
        let echo = client.call("x/echo", json!({"value": [1, 2]})).await;
        assert_eq!(echo["result"], json!({"value": [1, 2]}));
        assert_eq!(client.call("tools/list", json!({})).await["result"], json!({"tools": []}));
        assert_eq!(client.call("x/other", json!({})).await["error"]["code"], -32601);
        assert_eq!(client.call("x/bad", json!({})).await["error"]["code"], -32603);
    }
    let mut client = serve(Server::builder("raw", "0").handler(Echo));
    let call = json!({"value": 1.50, "_meta": {"progressToken": 1}});
    let echo = client.modern("x/echo", call).await;
    assert_eq!(echo["result"]["resultType"], "complete");
    assert!(echo["result"].get("ttlMs").is_none());
    assert_eq!(client.heard_of("notifications/progress").len(), 1);
    let list = client.modern("tools/list", json!({})).await;
    assert_eq!(
        (&list["result"]["ttlMs"], &list["result"]["cacheScope"]),
        (&json!(7), &json!("private"))
    );
    assert_eq!(client.modern("ping", json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn a_handler_and_typed_tools_share_a_server() {
    let tool = Tool::new("typed").run(async |_, _| "typed");
    let mut client = serve(
        Server::builder("raw", "0").tool(tool).handler(Echo).capability("x", json!({"y": true})),
    );
    let hello = client.greet("2025-11-25", json!({})).await;
    assert_eq!(hello["capabilities"]["x"], json!({"y": true}));
    assert_eq!(text(&client.call("tools/call", json!({"name": "typed"})).await), "typed");
    let list = client.call("tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"][0]["name"], "typed");
    let echo = client.call("x/echo", json!({"value": 1})).await;
    assert_eq!(echo["result"], json!({"value": 1}));
}
