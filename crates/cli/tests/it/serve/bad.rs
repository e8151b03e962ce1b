//! Servers that hang, crash or come late harm nobody.

use std::fs;

use serde_json::{Value, json};
use switchboard_net::client::{CallError, ClientOptions, ListenFilter};

use super::{ERAS, Gateway, demo, late, names, text};
use crate::named::Home;

/// A server that ends at every call.
const BOOM: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), {}
    if method == "tools/call":
        sys.exit(3)
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"],
                  "capabilities": {"tools": {}}, "serverInfo": {"name": "boom", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [{"name": "boom", "inputSchema": {"type": "object"}}]}
    if "id" in message:
        error = {"code": -32601, "message": "no such method"}
        known = method in ("initialize", "tools/list", "ping")
        outcome = {"result": result} if known else {"error": error}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
"#;

fn servers() -> Value {
    json!({
        "good": demo(&[]),
        "hang": {"command": "sleep", "args": ["1000"]},
        "gone": {"command": "false"},
        "boom": {"command": "python3", "args": ["-c", BOOM]},
    })
}

#[tokio::test]
async fn lists_come_at_once_and_name_who_is_missing() {
    let gateway = Gateway::start(&servers());
    for era in ERAS {
        let client = gateway.client(era, &["good", "boom"]).await;
        let list = client.request("tools/list", json!({})).await.unwrap();
        let deferred = list["_meta"]["switchboard/deferred"].as_array().unwrap();
        let missing: Vec<_> =
            deferred.iter().map(|late| late["server"].as_str().unwrap()).collect();
        assert_eq!(missing, ["gone", "hang"], "{list:.300}");
        let tools = client.tools().await.unwrap();
        assert!(names(&tools).contains(&"good__echo") && names(&tools).contains(&"boom__boom"));
    }
}

#[tokio::test]
async fn a_server_that_crashes_at_every_call_fails_its_own_calls_alone() {
    let gateway = Gateway::start(&servers());
    for era in ERAS {
        let client = gateway.client(era, &["good", "boom"]).await;
        for _ in 0..3 {
            let (boom, good) = tokio::join!(
                client.call_tool("boom__boom", json!({})),
                client.call_tool("good__add", json!({"a": 1, "b": 2})),
            );
            let failed = boom.unwrap_err();
            assert!(matches!(failed, CallError::Server { .. }), "{era:?}: {failed}");
            assert_eq!(text(&good.unwrap()), "3", "{era:?}");
        }
    }
}

#[tokio::test]
async fn a_call_to_a_server_that_cannot_be_started_says_so() {
    let gateway = Gateway::start(&servers());
    for era in ERAS {
        let client = gateway.client(era, &["good"]).await;
        let failed = client.call_tool("gone__anything", json!({})).await.unwrap_err();
        assert!(matches!(failed, CallError::Server { .. }), "{era:?}: {failed}");
    }
}

#[tokio::test]
async fn a_server_that_comes_late_is_announced() {
    for era in ERAS {
        let home = Home::new();
        let servers = json!({"good": demo(&[]), "late": late(&home, "")});
        let gateway = Gateway::start_in(home, &servers, &json!({}));
        let client = gateway.client(era, &["good"]).await;
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let mut listening = client.listen(filter).await.unwrap();
        let before = client.tools().await.unwrap();
        assert!(!names(&before).contains(&"late__echo"));
        fs::write(gateway.home.path.join("go"), "").unwrap();
        let heard = listening.next().await.unwrap();
        assert_eq!(heard.method, "notifications/tools/list_changed");
        let after = client.tools().await.unwrap();
        assert!(names(&after).contains(&"late__echo"), "{era:?}");
        let echo = client.call_tool("late__echo", json!({"message": "here"})).await.unwrap();
        assert_eq!(text(&echo), "here");
    }
}

/// wire: GW-81
#[tokio::test]
async fn sessions_come_and_go_and_their_servers_with_them() {
    let gateway = Gateway::start(&json!({"good": demo(&["--era", "legacy"])}));
    gateway.until_ready(&["good"]);
    let before = gateway.process.children().len();
    for era in ERAS {
        for _ in 0..3 {
            let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
            client.call_tool("good__add", json!({"a": 1, "b": 2})).await.unwrap();
            client.close().await;
        }
    }
    // Modern clients that are alike share a session for a while: one more.
    crate::process::until("the children are gone", || {
        gateway.process.children().len() <= before + 1
    });
}
