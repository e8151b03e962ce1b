//! The gateway's own tools.

use serde_json::{Value, json};
use switchboard_net::client::ClientOptions;

use super::{Gateway, MIRROR, Session, TRACE, mirror};
use crate::serve::{ERAS, names};

fn config(diagnostics: bool) -> Value {
    json!({
        "mcpServers": {"mirror": mirror()},
        "switchboard": {"diagnostics": diagnostics, "groups": {"g": ["mirror"]}},
    })
}

#[tokio::test]
async fn the_gateway_tells_what_there_is_and_what_became_of_a_call() {
    let gateway = Gateway::told(&config(true), &[], &[]);
    gateway.until_ready(&["mirror"]);
    for era in ERAS {
        for path in ["/mcp", "/groups/g/mcp"] {
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            let tools = client.tools().await.unwrap();
            let listed =
                ["mirror__mirror", "mirror__broken", "get_tool_manifest", "get_trace_by_id"];
            assert_eq!(names(&tools), listed, "{era:?} {path}");
            let manifest = client.call_tool("get_tool_manifest", json!({})).await.unwrap();
            let content = &manifest["structuredContent"];
            assert_eq!(content["success"], true, "{manifest}");
            assert_eq!(content["tools"][0]["name"], "mirror__mirror", "{manifest}");
            assert_eq!(content["tools"][0]["inputSchema"], json!({"type": "object"}));
            for (tool, outcome) in [("mirror__mirror", "ok"), ("mirror__broken", "tool_error")] {
                let result = client.call_tool(tool, json!({"a": "s3cret"})).await.unwrap();
                let id = result["_meta"]["switchboard/traceId"].as_str().unwrap();
                let trace =
                    client.call_tool("get_trace_by_id", json!({"traceId": id})).await.unwrap();
                let trace = &trace["structuredContent"]["trace"];
                assert_eq!(trace["traceId"], id);
                assert_eq!((&trace["tool"], &trace["server"]), (&json!(tool), &json!("mirror")));
                assert_eq!(trace["outcome"], outcome, "{trace}");
                assert_eq!(trace["success"], outcome == "ok");
                assert!(trace["durationMs"].is_u64() && trace["startedAt"].is_string());
                assert!(!trace.to_string().contains("s3cret"), "{trace}");
            }
        }
        let alone = gateway.client_at("/servers/mirror/mcp", era, ClientOptions::default()).await;
        assert_eq!(names(&alone.tools().await.unwrap()), ["mirror", "broken"]);
    }
}

#[test]
fn a_trace_of_the_clients_own_is_found_by_its_id_and_another_is_not() {
    let gateway = Gateway::told(&config(true), &[], &[]);
    gateway.until_ready(&["mirror"]);
    let session = Session::open(gateway.port, "/mcp", &[]);
    let parent = super::PARENT;
    let called = json!({"name": "mirror__mirror", "_meta": {"traceparent": parent}});
    let result = session.call(&called, &[]);
    assert_eq!(result["result"]["_meta"]["switchboard/traceId"], TRACE, "{result}");
    let ask = |id: &str| json!({"name": "get_trace_by_id", "arguments": {"traceId": id}});
    let found = session.call(&ask(TRACE), &[]);
    assert_eq!(found["result"]["structuredContent"]["trace"]["traceId"], TRACE, "{found}");
    for unknown in ["", "nonsense", &TRACE.replace("4bf", "5bf")] {
        let answer = session.call(&ask(unknown), &[]);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let error = &answer["result"]["structuredContent"]["error"];
        assert_eq!(error["code"], "E_TRACE_NOT_FOUND", "{answer}");
    }
}

#[tokio::test]
async fn unless_the_file_says_so_the_gateway_has_no_tools_of_its_own() {
    let gateway = Gateway::told(&config(false), &[], &[]);
    for era in ERAS {
        let client = gateway.client(era, &["mirror"]).await;
        assert_eq!(names(&client.tools().await.unwrap()), ["mirror__mirror", "mirror__broken"]);
        let error = client.call_tool("get_tool_manifest", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("Unknown tool"), "{error}");
        let result = client.call_tool("mirror__mirror", json!({})).await.unwrap();
        assert!(result.get("_meta").is_none_or(|meta| meta.get("switchboard/traceId").is_none()));
    }
    assert!(MIRROR.contains("isError"), "the server says of each result whether it failed");
}
