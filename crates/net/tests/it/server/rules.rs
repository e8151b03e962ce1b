//! Rules of HTTP that a server keeps whatever it serves.

use http::Request;
use serde_json::{Value, json};
use switchboard_net::server::{TaskSupport, Tool};

use super::web::Web;
use super::{MODERN, fixture, text};
use switchboard_testkit::within;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn modern_body(id: &Value, method: &str) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}})
}

const HEADERS: [(&str, &str); 2] = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];

/// wire: MH-1, MH-5, MH-10
#[tokio::test]
async fn a_modern_body_is_one_request_on_one_path() {
    let web = Web::of(fixture()).await;
    let one = modern_body(&json!(1), "tools/list");
    assert_eq!(web.post(&HEADERS, &one).await.status, 200);
    let post = |path: &str| Request::post(path).header("content-type", "application/json");
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    for (body, code) in [
        (format!("{one}{one}"), -32700),
        (format!("{one}\n{one}"), -32700),
        (json!([one]).to_string(), -32600),
        (json!([one, one]).to_string(), -32600),
        (answer.to_string(), -32600),
    ] {
        let mut reply = web.send(post("/mcp"), &HEADERS, body.clone()).await;
        assert_eq!(reply.status, 400, "{body}");
        assert_eq!(reply.last().await["error"]["code"], code, "{body}");
    }
    assert_eq!(web.send(post("/other"), &HEADERS, one.to_string()).await.status, 404);
    for method in ["PUT", "PATCH"] {
        let request = Request::builder().method(method).uri("/mcp");
        let reply = web.send(request, &HEADERS, one.to_string()).await;
        assert_eq!(reply.status, 405, "{method}");
        assert!(reply.headers["allow"].to_str().unwrap().contains("POST"), "{method}");
    }
    web.stopped().await;
}

/// wire: HTTP-24, HTTP-28, MH-11
#[tokio::test]
async fn a_session_opens_no_door() {
    let web = Web::of(fixture()).await;
    let session = web.greet("2025-06-18", json!({})).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let evil = [("mcp-session-id", session.as_str()), ("origin", "https://evil.test")];
    assert_eq!(web.post(&evil, &list).await.status, 403);
    for method in ["GET", "DELETE"] {
        let request = Request::builder().method(method).uri("/mcp");
        assert_eq!(web.send(request, &evil, String::new()).await.status, 403, "{method}");
    }
    // It is still there for who may come, and nobody else's id is one.
    assert_eq!(web.legacy(&session, &list).await.status, 200);
    let mut guessed = session.clone();
    let other = if guessed.pop() == Some('0') { '1' } else { '0' };
    guessed.push(other);
    assert_eq!(web.legacy(&guessed, &list).await.status, 404);
    web.stopped().await;
}

/// wire: MOD-2, MOD-3
#[tokio::test]
async fn what_lasts_has_a_name_that_any_connection_may_say() {
    let slow = Tool::new("slow").tasks(TaskSupport::Optional).run(async |_: Value, _| "done");
    let web = Web::of(fixture().tool(slow)).await;
    let able =
        json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}}});
    let call = json!({"name": "slow", "_meta": able});
    let created = web.modern("tools/call", call, &[]).await.last().await["result"].clone();
    let id = created["taskId"].as_str().unwrap();
    // Each request is a connection of its own.
    let polling = async {
        loop {
            let get = json!({"taskId": id, "_meta": able});
            let task = web.modern("tasks/get", get, &[]).await.last().await;
            if task["result"]["status"] != "working" {
                return task;
            }
        }
    };
    let over = within(polling).await;
    assert_eq!(over["result"]["result"]["content"][0]["text"], "done");
    // What was said before does not speak for the next request (META-3).
    let get = json!({"taskId": id});
    let refused = web.modern("tasks/get", get, &[]).await.last().await;
    assert_eq!(refused["error"]["code"], -32021);
    web.stopped().await;
}

/// wire: MOD-5, MOD-6, DIV-4
#[tokio::test]
async fn the_whole_modern_core_is_answered() {
    let web = Web::of(fixture()).await;
    let reference = json!({"type": "ref/prompt", "name": "hello"});
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "hello", "arguments": {"name": "Ann"}})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "a://text"})),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "n", "value": ""}})),
        ("subscriptions/listen", json!({"notifications": {}})),
    ] {
        let mut reply = web.modern(method, params, &[]).await;
        assert_eq!(reply.status, 200, "{method}");
        assert_eq!(reply.last().await["result"]["resultType"], "complete", "{method}");
    }
    web.stopped().await;
}

/// wire: MH-8, DIV-13
#[tokio::test]
async fn a_modern_stream_has_nothing_to_come_back_to() {
    let web = Web::of(fixture()).await;
    let call = json!({"name": "steps", "_meta": {"progressToken": 1}});
    let mut reply = web.modern("tools/call", call, &[("last-event-id", "1-0")]).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    let raw = reply.raw().await;
    assert!(raw.contains("notifications/progress") && raw.contains("done"), "{raw}");
    assert!(
        !raw.lines().any(|line| line.starts_with("id:") || line.starts_with("retry:")),
        "{raw}"
    );
    web.stopped().await;
}

/// wire: DIV-5, DIV-11, DIV-15, HDR-4
#[tokio::test]
async fn of_several_faults_the_first_in_order_is_told() {
    let web = Web::of(fixture()).await;
    let mut note = modern_body(&json!(1), "notifications/x");
    note.as_object_mut().unwrap().remove("id");
    assert_eq!(web.post(&[], &note).await.status, 202, "a notification needs no headers");
    let with = |version: Value| {
        let mut body = modern_body(&json!(1), "tools/list");
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = version;
        body
    };
    let mut broken = with(json!(7));
    broken["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!([]);
    let method = ("mcp-method", "tools/list");
    for (body, headers, code) in [
        // The envelope before the headers, the headers before the version.
        (broken, vec![("mcp-protocol-version", "x"), ("mcp-method", "x")], -32602),
        (with(json!("1999-01-01")), vec![("mcp-protocol-version", MODERN), method], -32020),
        (with(json!("1999-01-01")), vec![("mcp-protocol-version", "1999-01-01"), method], -32022),
        (with(json!("2025-11-25")), vec![("mcp-protocol-version", "2025-11-25"), method], -32022),
    ] {
        let mut reply = web.post(&headers, &body).await;
        assert_eq!(reply.status, 400, "{body}");
        assert_eq!(reply.last().await["error"]["code"], code, "{body}");
    }
    web.stopped().await;
}

/// wire: DIV-18, HTTP-26
#[tokio::test]
async fn a_legacy_request_without_a_version_is_served() {
    let web = Web::of(fixture()).await;
    let session = web.greet("2025-11-25", json!({})).await;
    let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    assert_eq!(text(&web.legacy(&session, &call).await.last().await), "3");
    let wrong = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "1999-01-01")];
    assert_eq!(web.post(&wrong, &call).await.status, 400);
    web.stopped().await;
}
