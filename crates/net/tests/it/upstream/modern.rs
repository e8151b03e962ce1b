//! Calls to a modern server over HTTP.

use serde_json::{Value, json};
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::{Caller, error_of};
use switchboard_testkit::http::HttpServer;

use super::before_modern as before;

const VERSION: &str = "2026-07-28";

/// The parameters of a modern call.
pub(crate) fn enveloped(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = VERSION.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params
}

async fn ask(caller: &mut Caller, method: &str, params: Value) -> u64 {
    caller.ask(method, enveloped(params)).await
}

/// wire: HDR-1, HDR-2, HDR-3, HDR-10, GW-80
#[tokio::test]
async fn the_headers_repeat_what_the_body_says() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpFirst);
    for (method, params, name) in [
        ("tools/list", json!({}), None),
        ("tools/call", json!({"name": "plain"}), Some("plain")),
        ("tools/call", json!({"name": " padded "}), Some("=?base64?IHBhZGRlZCA=?=")),
        ("prompts/get", json!({"name": "Hello, 世界"}), Some("=?base64?SGVsbG8sIOS4lueVjA==?=")),
        ("resources/read", json!({"uri": "file:///a"}), Some("file:///a")),
    ] {
        let id = ask(&mut caller, method, params).await;
        let hit = server.post(method).await;
        assert_eq!(hit.header("mcp-protocol-version"), Some(VERSION));
        assert_eq!(hit.header("mcp-method"), Some(method));
        assert_eq!(hit.header("mcp-name"), name);
        assert_eq!(hit.header("mcp-session-id"), None);
        hit.result(json!({})).await;
        caller.answer(id).await;
    }
    assert_eq!(server.waiting(|_| true), 0, "a modern server is not greeted and not listened to");
}

/// wire: HDR-4
#[tokio::test]
async fn notifications_carry_their_method_too() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpOnly);
    let id = ask(&mut caller, "tools/list", json!({})).await;
    server.post("tools/list").await.result(json!({})).await;
    caller.answer(id).await;
    caller.note("notifications/x", enveloped(json!({}))).await;
    let hit = server.post("notifications/x").await;
    assert_eq!(hit.header("mcp-method"), Some("notifications/x"));
    assert_eq!(hit.header("mcp-protocol-version"), Some(VERSION));
    hit.answer(202, &[], "").await;
}

/// wire: HDR-6, HDR-9, HDR-12
#[tokio::test]
async fn a_call_that_lacked_a_header_is_sent_once_more_with_it() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpOnly);
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"r": region}}});
    let call = json!({"name": "t", "arguments": {"r": "eu"}});
    let mismatch = |hit: &switchboard_testkit::http::Hit| {
        let error = json!({"code": -32020, "message": "where is it"});
        json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error})
    };
    let id = ask(&mut caller, "tools/call", call.clone()).await;
    let hit = server.post("tools/call").await;
    assert_eq!(hit.header("mcp-param-region"), None);
    let answer = mismatch(&hit);
    hit.json(400, &answer).await;
    let list = server.post("tools/list").await;
    assert_eq!(list.header("mcp-method"), Some("tools/list"));
    list.result(json!({"tools": [tool]})).await;
    let again = server.post("tools/call").await;
    assert_eq!(again.header("mcp-param-region"), Some("eu"));
    let answer = mismatch(&again);
    again.json(400, &answer).await;
    let answer = caller.answer(id).await;
    assert_eq!(answer["error"]["code"], -32020, "{answer}");
    assert_eq!(server.waiting(|_| true), 0, "once more, and not again");

    let id = ask(&mut caller, "tools/call", call).await;
    let hit = server.post("tools/call").await;
    assert_eq!(hit.header("mcp-param-region"), Some("eu"));
    hit.result(json!({})).await;
    caller.answer(id).await;
}

/// wire: CAN-1, GW-80, MH-8
#[tokio::test]
async fn a_cancelled_call_is_told_by_hanging_up() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpOnly);
    for begun in [false, true] {
        let id = ask(&mut caller, "tools/call", json!({"name": "t"})).await;
        let hit = server.post("tools/call").await;
        if begun {
            let mut stream = hit.stream().await;
            stream.event(&json!({"jsonrpc": "2.0", "method": "notifications/message"})).await;
            caller.told("notifications/message").await;
            caller.note("notifications/cancelled", json!({"requestId": id})).await;
            stream.gone().await;
        } else {
            caller.note("notifications/cancelled", json!({"requestId": id})).await;
            hit.gone().await;
        }
    }
    assert_eq!(server.waiting(|_| true), 0, "the notice itself is not passed on");
}

/// wire: MH-8, GW-80
#[tokio::test]
async fn a_broken_stream_is_an_error_and_is_not_resumed() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpOnly);
    let id = ask(&mut caller, "tools/call", json!({"name": "t"})).await;
    let mut stream = server.post("tools/call").await.stream().await;
    stream.write("id: 1\nretry: 20\ndata:\n\n").await;
    stream.reset();
    let text = error_of(&caller.answer(id).await);
    assert!(text.starts_with("No response received for request ID "), "{text}");
    assert_eq!(server.waiting(|_| true), 0);
}

/// wire: NEG-3, MH-13
#[tokio::test]
async fn an_error_with_a_status_keeps_its_code() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpFirst);
    for (status, code) in [(404, -32601), (400, -32022), (400, -32021)] {
        let id = ask(&mut caller, "tools/list", json!({})).await;
        let hit = server.post("tools/list").await;
        let error = json!({"code": code, "message": "no"});
        let body = json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error});
        hit.json(status, &body).await;
        assert_eq!(caller.answer(id).await["error"], error);
    }
}

/// wire: HDR-1, HDR-2
#[tokio::test]
async fn a_modern_call_goes_by_the_new_transport_even_where_the_old_is_preferred() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::SseFirst);
    let id = ask(&mut caller, "tools/call", json!({"name": "t"})).await;
    let hit = server.take(|_| true).await;
    assert_eq!((hit.method.as_str(), hit.header("mcp-name")), ("POST", Some("t")));
    hit.result(json!({})).await;
    caller.answer(id).await;
}
