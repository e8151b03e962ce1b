//! Two tools in place of all.

use serde_json::json;

use crate::served::{ERAS, Served, eventually, rude_with};

/// wire: GW-52
#[tokio::test]
async fn a_call_by_name_that_nobody_wants_any_more_is_dropped_at_its_server() {
    let servers = json!({"rude": rude_with(&["wait"], &json!({}))});
    let gateway = Served::start(&servers, &json!({"toolSearch": true})).await;
    let calls = async |wanted: u64| {
        let holds = || gateway.server("rude")["calls"] == wanted;
        eventually(&format!("it has {wanted} calls"), holds).await;
    };
    for era in ERAS {
        let client = gateway.client("/mcp", era).await;
        let file = gateway.folder.join("never");
        let call = json!({"name": "rude__wait", "arguments": {"file": file.to_str().unwrap()}});
        let caller = client.clone();
        let call = tokio::spawn(async move { caller.call_tool("call_tool", call).await });
        calls(1).await;
        call.abort();
        calls(0).await;
    }
}
