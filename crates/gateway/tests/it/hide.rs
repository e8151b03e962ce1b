//! What a key keeps from clients.

use serde_json::json;

use crate::served::{ADA, ERAS, Served, key, rude_with};

/// Where a server is found, and what stands before its names there.
const PLACES: [(&str, &str); 2] = [("/mcp", "a__"), ("/servers/a/mcp", "")];

/// A key that may use some tools is no way around the case of their names.
#[tokio::test]
async fn a_twin_is_refused_where_a_key_decides() {
    let keys = json!({"ada": key(ADA, json!({"includeTools": ["a__echo"]}))});
    let servers = json!({"a": rude_with(&["pid"], &json!({}))});
    let gateway = Served::start(&servers, &json!({"keys": keys})).await;
    for (path, prefix) in PLACES {
        for era in ERAS {
            let ada = gateway.client_as(ADA, path, era).await;
            let echo = format!("{prefix}echo");
            let fine = json!({"name": echo, "arguments": {"text": "x", "Name": "pid"}});
            ada.request("tools/call", fine).await.unwrap();
            let twin = json!({"name": echo, "arguments": {"text": "x"}, "Name": "pid"});
            let refused = ada.request("tools/call", twin).await.unwrap_err().to_string();
            assert!(refused.contains("-32602"), "{era:?} {path}: {refused}");
        }
    }
}
