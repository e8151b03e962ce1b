//! The gateway's own tools.

use serde_json::{Value, json};
use switchboard_net::client::ClientOptions;

use super::{Gateway, MIRROR, Session, TRACE, mirror};
use crate::serve::access::{ADA, BOB, key, keyed};
use crate::serve::{ERAS, demo, names};

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

/// Who searches sees two tools; the manifest has all that a key may use.
#[tokio::test]
async fn the_manifest_has_all_tools_of_a_key_where_clients_search() {
    let section = json!({
        "diagnostics": true,
        "toolSearch": true,
        "keys": {"ada": key(ADA, json!({"servers": ["mirror"]})), "bob": key(BOB, json!({}))},
    });
    let gateway = keyed(&json!({"mirror": mirror(), "demo": demo(&[])}), section);
    gateway.ready(&["mirror", "demo"]);
    let mirrored = ["mirror__mirror", "mirror__broken"];
    for era in ERAS {
        for (key, sees_demo) in [(ADA, false), (BOB, true)] {
            let client = gateway.client_with(era, &[("X-API-Key", key)]).await;
            let listed = client.tools().await.unwrap();
            let ours = ["find_tools", "call_tool", "get_tool_manifest", "get_trace_by_id"];
            assert_eq!(names(&listed), ours, "{era:?}");
            let manifest = client.call_tool("get_tool_manifest", json!({})).await.unwrap();
            let tools = manifest["structuredContent"]["tools"].as_array().unwrap();
            let tools = names(tools);
            assert!(mirrored.iter().all(|tool| tools.contains(tool)), "{era:?}: {tools:?}");
            assert_eq!(tools.contains(&"demo__echo"), sees_demo, "{era:?}: {tools:?}");
            assert_eq!(tools.len() == mirrored.len(), !sees_demo, "{era:?}: {tools:?}");
        }
    }
}

#[tokio::test]
async fn each_key_finds_its_own_traces_and_no_others() {
    let keys = json!({"ada": key(ADA, json!({})), "bob": key(BOB, json!({}))});
    let gateway = keyed(&json!({"mirror": mirror()}), json!({"diagnostics": true, "keys": keys}));
    gateway.ready(&["mirror"]);
    for era in ERAS {
        let ada = gateway.client_with(era, &[("X-API-Key", ADA)]).await;
        let bob = gateway.client_with(era, &[("X-API-Key", BOB)]).await;
        for (caller, other) in [(&ada, &bob), (&bob, &ada)] {
            let result = caller.call_tool("mirror__mirror", json!({})).await.unwrap();
            let asked = json!({"traceId": result["_meta"]["switchboard/traceId"]});
            let own = caller.call_tool("get_trace_by_id", &asked).await.unwrap();
            let trace = &own["structuredContent"]["trace"];
            assert_eq!(trace["tool"], "mirror__mirror", "{era:?}: {own}");
            let others = other.call_tool("get_trace_by_id", &asked).await.unwrap();
            let error = &others["structuredContent"]["error"]["code"];
            assert_eq!(error, "E_TRACE_NOT_FOUND", "{era:?}: {others}");
        }
        // In a trace of both, each sees their own part.
        let meta = json!({"traceparent": super::PARENT});
        for client in [&ada, &bob] {
            let call = json!({"name": "mirror__mirror", "arguments": {}, "_meta": meta});
            client.request("tools/call", call).await.unwrap();
        }
        for client in [&ada, &bob] {
            let asked = json!({"traceId": TRACE});
            let found = client.call_tool("get_trace_by_id", asked).await.unwrap();
            let others = found["structuredContent"]["others"].as_array().map_or(0, Vec::len);
            let own = if era == ERAS[0] { 1 } else { 2 };
            assert_eq!(others + 1, own, "{era:?}: {found}");
        }
    }
}
