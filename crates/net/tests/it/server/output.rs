//! What tools promise of their results, and what becomes of a promise that is broken.

use serde_json::{Value, json};
use switchboard_net::server::{
    BuildError, Builder, Context, Server, TaskSupport, Tool, ToolOutcome, ToolResult,
};

use super::{LEGACY, serve, text};

#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Sum {
    sum: i64,
}

fn as_told(args: &Value) -> ToolResult {
    match args["how"].as_str() {
        Some("fail") => ToolOutcome::failure("E_NO", "no").into(),
        Some("nothing") => ToolResult::text("nothing"),
        _ => ToolResult::structured(args["value"].clone()),
    }
}

/// Tools that say what they are told to.
fn says() -> Builder {
    let says = Tool::new("says").output::<Sum>().run(async |args: Value, _| as_told(&args));
    let late = Tool::new("late")
        .output::<Sum>()
        .defers(TaskSupport::Optional)
        .run(async |args: Value, cx: Context| cx.defer(async move |_| as_told(&args)).await);
    Server::builder("s", "0").tool(says).tool(late)
}

fn call(tool: &str, how: &str, value: &Value) -> Value {
    json!({"name": tool, "arguments": {"how": how, "value": value}})
}

#[tokio::test]
async fn a_result_that_breaks_the_tools_promise_is_not_sent() {
    for revision in LEGACY {
        let mut client = serve(says());
        client.greet(revision, json!({})).await;
        for tool in ["says", "late"] {
            let good = client.call("tools/call", call(tool, "", &json!({"sum": 3}))).await;
            // Older clients know no structure, and read it as text.
            let content = &good["result"]["content"][0]["text"];
            assert_eq!(content, "{\"sum\":3}", "{revision}");
            for (how, value) in [
                ("", json!({"sum": "hunter2"})),
                ("", json!({})),
                ("", json!([])),
                ("nothing", json!(null)),
            ] {
                let broken = client.call("tools/call", call(tool, how, &value)).await;
                assert_eq!(broken["error"]["code"], -32603, "{broken}");
                assert!(broken.get("result").is_none());
                assert!(broken.to_string().contains(tool), "{broken}");
                assert!(!broken.to_string().contains("hunter2"), "{broken}");
            }
        }
    }
}

#[tokio::test]
async fn a_failure_of_a_tool_promises_nothing() {
    let mut client = serve(says());
    let failed = client.modern("tools/call", call("says", "fail", &json!(null))).await;
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(text(&failed), "no");
}

/// wire: UTL-9, TASK-3
#[tokio::test]
async fn a_task_that_breaks_its_promise_has_failed() {
    let mut client = serve(says());
    client.greet("2025-11-25", json!({})).await;
    let mut broken = call("late", "", &json!({"sum": "x"}));
    broken["task"] = json!({});
    let created = client.call("tools/call", broken).await;
    let id = json!({"taskId": created["result"]["task"]["taskId"]});
    let result = client.call("tasks/result", id.clone()).await;
    assert_eq!(result["error"]["code"], -32603);
    assert_eq!(client.call("tasks/get", id).await["result"]["status"], "failed");
}

#[test]
fn an_output_schema_that_is_none_is_told_before_anybody_asks() {
    let bad = Tool::new("bad").output_schema(&json!({"type": 7})).run(async |_: Value, _| "");
    let flaw = Server::builder("s", "0").tool(bad).build().unwrap_err();
    assert!(matches!(flaw, BuildError::OutputSchema { .. }), "{flaw:?}");
    assert!(flaw.to_string().starts_with("output schema of tool \"bad\": "), "{flaw}");
}

/// A model that sends a megabyte has no use for a megabyte of complaints.
#[tokio::test]
async fn complaints_are_short_whatever_they_are_about() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let tool = Tool::new("t").input_schema(&schema).run(async |_: Value, _| "");
    let mut client = serve(Server::builder("s", "0").tool(tool));
    let long = "é".repeat(40_000);
    let wrong = client.modern("tools/call", json!({"name": "t", "arguments": {"a": long}})).await;
    assert_eq!(wrong["result"]["isError"], true);
    assert!(text(&wrong).starts_with("invalid arguments: /a: \"é"), "{wrong}");
    assert!(text(&wrong).len() < 600, "{}", text(&wrong).len());
}

/// wire: GW-70
#[tokio::test]
async fn structure_is_wrapped_for_older_clients_as_its_schema_is() {
    let schema = json!({"anyOf": [{"type": "object"}, {"type": "array"}]});
    let any = Tool::new("any").output_schema(&schema);
    let any = any.run(async |args: Value, _| as_told(&args));
    let late = Tool::new("late").output_schema(&schema).defers(TaskSupport::Optional);
    let late =
        late.run(async |args: Value, cx: Context| cx.defer(async move |_| as_told(&args)).await);
    let slow = Tool::new("slow").output_schema(&schema).tasks(TaskSupport::Optional);
    let slow = slow.run(async |args: Value, _| as_told(&args));
    let mut client = serve(Server::builder("s", "0").tool(any).tool(late).tool(slow));
    client.greet("2025-11-25", json!({})).await;
    let listed = client.call("tools/list", json!({})).await;
    let shown = &listed["result"]["tools"][0]["outputSchema"];
    assert_eq!(shown["properties"]["result"], schema, "{listed}");
    let wrapped = json!({"result": {"sum": 3}});
    let direct = client.call("tools/call", call("any", "", &json!({"sum": 3}))).await;
    assert_eq!(direct["result"]["structuredContent"], wrapped, "{direct}");
    for tool in ["late", "slow"] {
        let mut params = call(tool, "", &json!({"sum": 3}));
        params["task"] = json!({});
        let created = client.call("tools/call", params).await;
        let id = &created["result"]["task"]["taskId"];
        let done = client.call("tasks/result", json!({"taskId": id})).await;
        assert_eq!(done["result"]["structuredContent"], wrapped, "{tool}: {done}");
    }
}
