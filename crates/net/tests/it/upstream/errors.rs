//! What a client is told when an HTTP server does not answer as it should.

use serde_json::json;
use switchboard_net::upstream::Strategy;
use switchboard_testkit::caller::error_of;
use switchboard_testkit::http::HttpServer;

use super::{before, greeted};

#[tokio::test]
async fn a_refusal_is_told_with_its_status_its_text_and_the_hints_on_how_to_get_in() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let hints: &[_] = &[
        ("www-authenticate", "Bearer resource_metadata=\"https://a.test/r\""),
        ("mcp-auth-server", "https://auth.test"),
    ];
    let json: &[_] = &[("content-type", "application/json"), hints[0], hints[1]];
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no token"}}"#;
    let shown = "(www-authenticate: Bearer resource_metadata=\"https://a.test/r\") (mcp-auth-server: https://auth.test)";
    for (status, headers, body, expected) in [
        (401, hints, "go away\n", format!("HTTP 401: go away {shown}")),
        (403, hints, "", format!("HTTP 403: Forbidden {shown}")),
        (401, json, body, format!("HTTP 401: no token {shown}")),
        (400, json, body, format!("no token {shown}")),
        (500, &[][..], "<html>boom</html>", "HTTP 500: <html>boom</html>".to_owned()),
        (503, &[], "", "HTTP 503: Service Unavailable".to_owned()),
        (400, &[], "{\"error\":", "HTTP 400: {\"error\":".to_owned()),
    ] {
        let id = caller.ask("tools/list", json!({})).await;
        server.post("tools/list").await.answer(status, headers, body).await;
        assert_eq!(error_of(&caller.answer(id).await), expected);
    }
}

#[tokio::test]
async fn a_long_error_page_is_cut_but_not_lost() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let id = caller.ask("tools/list", json!({})).await;
    let page = "a".repeat(1 << 20);
    server.post("tools/list").await.answer(502, &[("content-type", "text/html")], &page).await;
    let text = error_of(&caller.answer(id).await);
    assert!(text.starts_with("HTTP 502: aaaa") && text.len() < 1000, "{text:.80}");
}

/// wire: MSG-5
#[tokio::test]
async fn the_error_in_the_body_belongs_to_the_call_even_without_an_id() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    for id in [json!(null), json!(77), json!("x")] {
        let number = caller.ask("tools/list", json!({})).await;
        let error = json!({"code": -32602, "message": "bad", "data": {"k": [1]}});
        let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
        server.post("tools/list").await.json(400, &body).await;
        assert_eq!(caller.answer(number).await["error"], error);
    }
}

#[tokio::test]
async fn answers_that_are_none_fail_the_call_and_the_next_one_works() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let json: &[_] = &[("content-type", "application/json")];
    let none = "No response received for request ID ";
    for (status, headers, body, expected) in [
        (202, &[][..], "", none),
        (204, &[], "", none),
        (200, json, "{\"jsonrpc\":\"2.0\",\"id\":", none),
        (200, json, "", none),
        (200, json, "{\"jsonrpc\":\"2.0\",\"id\":9999,\"result\":{}}", none),
        (200, &[("content-type", "text/html")], "<html>", "HTTP 200, but with \"text/html\""),
        (200, &[], "x", "HTTP 200, but with \"\""),
    ] {
        let id = caller.ask("tools/list", json!({})).await;
        server.post("tools/list").await.answer(status, headers, body).await;
        let text = error_of(&caller.answer(id).await);
        assert!(text.starts_with(expected), "{text}");
    }
    let id = caller.ask("tools/list", json!({})).await;
    server.post("tools/list").await.result(json!({"tools": []})).await;
    assert_eq!(caller.answer(id).await["result"], json!({"tools": []}));
}

#[tokio::test]
async fn connections_that_end_early_fail_the_call() {
    let mut server = HttpServer::start().await;
    let (_bridge, mut caller) = greeted(&mut server).await;
    let json: &[_] = &[("content-type", "application/json"), ("content-length", "100")];
    let id = caller.ask("tools/list", json!({})).await;
    server.post("tools/list").await.begin(200, json).await.write("{\"jsonrpc\"").await;
    let text = error_of(&caller.answer(id).await);
    assert!(text.starts_with("Transport closed ("), "{text}");
    let id = caller.ask("tools/list", json!({})).await;
    drop(server.post("tools/list").await);
    assert!(!error_of(&caller.answer(id).await).is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_with_a_reason() {
    let server = HttpServer::start().await;
    let (_bridge, mut caller) = before(&server, Strategy::HttpFirst);
    drop(server);
    let id = caller.begin_greeting().await;
    let text = error_of(&caller.answer(id).await);
    assert!(text.to_lowercase().contains("refused"), "{text}");
}
