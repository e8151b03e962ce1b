//! Outcomes, the nature of tools, the manifest and the traces.

use serde_json::{Value, json};
use switchboard_net::server::{Nature, Server, Tool, ToolOutcome};

use super::{Client, serve};

fn client() -> Client {
    let nature = Nature {
        layer: "core",
        category: "files",
        safety: "write",
        idempotent: true,
        supports_dry_run: true,
    };
    let save = Tool::new("save")
        .description("Saves")
        .nature(nature)
        .example("the usual", &json!({"secret": "hunter2"}))
        .run(async |args: Value, _| {
            if args["fail"] == true {
                return ToolOutcome::failure("E_FULL", "the disk is full");
            }
            ToolOutcome::success("saved").with("bytes", 3)
        });
    serve(Server::builder("s", "0").tool(save).manifest().traces())
}

#[tokio::test]
async fn outcomes_say_whether_they_succeeded() {
    let mut client = client();
    client.greet("2025-06-18", json!({})).await;
    let saved = client.call("tools/call", json!({"name": "save"})).await;
    let result = &saved["result"];
    assert_eq!(result["structuredContent"], json!({"success": true, "bytes": 3}));
    assert_eq!(result["content"][0]["text"], "saved");
    assert!(result.get("isError").is_none());
    let call = json!({"name": "save", "arguments": {"fail": true}});
    let failed = client.call("tools/call", call).await;
    let result = &failed["result"];
    assert_eq!(result["isError"], true);
    let error = json!({"code": "E_FULL", "message": "the disk is full"});
    assert_eq!(result["structuredContent"], json!({"success": false, "error": error}));
}

#[tokio::test]
async fn tools_list_their_nature_and_the_manifest_their_examples() {
    let mut client = client();
    client.greet("2025-06-18", json!({})).await;
    let list = client.call("tools/list", json!({})).await;
    let expected = json!({
        "layer": "core", "category": "files", "safety": "write",
        "idempotent": true, "supportsDryRun": true,
    });
    assert_eq!(list["result"]["tools"][0]["_meta"], expected);
    for tool in list["result"]["tools"].as_array().unwrap() {
        assert!(tool["_meta"]["layer"].is_string(), "{tool}");
    }
    let manifest = client.call("tools/call", json!({"name": "get_tool_manifest"})).await;
    let tools = &manifest["result"]["structuredContent"]["tools"];
    assert_eq!(tools.as_array().unwrap().len(), 3);
    assert_eq!(tools[0]["inputSchema"]["type"], "object");
    assert_eq!(tools[0]["examples"][0]["description"], "the usual");
}

#[tokio::test]
async fn a_call_can_be_looked_up_and_its_secrets_cannot() {
    let mut client = client();
    client.greet("2025-06-18", json!({})).await;
    let call = json!({"name": "save", "arguments": {"fail": true, "secret": "hunter2"}});
    let failed = client.call("tools/call", call).await;
    let id = failed["result"]["_meta"]["switchboard/traceId"].clone();
    let look = json!({"name": "get_trace_by_id", "arguments": {"traceId": id}});
    let found = client.call("tools/call", look).await;
    let trace = &found["result"]["structuredContent"]["trace"];
    assert_eq!((&trace["tool"], &trace["traceId"]), (&json!("save"), &id));
    assert_eq!((&trace["success"], &trace["errorCode"]), (&json!(false), &json!("E_FULL")));
    assert!(trace["durationMs"].is_u64());
    assert!(!found.to_string().contains("hunter2"), "{found}");
    let look = json!({"name": "get_trace_by_id", "arguments": {"traceId": "none"}});
    let missing = client.call("tools/call", look).await;
    let code = &missing["result"]["structuredContent"]["error"]["code"];
    assert_eq!(code, "E_TRACE_NOT_FOUND");
}
