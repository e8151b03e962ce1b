//! Lists, page by page.

use serde_json::{Value, json};
use switchboard_net::client::{CallError, ClientOptions};
use switchboard_testkit::http::HttpServer;

use super::{legacy, modern};

fn page(tools: &Value, next: &Value) -> Value {
    json!({"resultType": "complete", "tools": tools, "nextCursor": next})
}

/// wire: PAG-1
#[tokio::test]
async fn a_list_is_read_to_its_end() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let (tools, ()) = tokio::join!(client.tools(), async {
        let hit = server.post("tools/list").await;
        assert_eq!(hit.message()["params"].get("cursor"), None);
        hit.result(page(&json!([{"name": "a", "inputSchema": {}}]), &json!(""))).await;
        // An empty cursor is a cursor, in this revision.
        let hit = server.post("tools/list").await;
        assert_eq!(hit.message()["params"]["cursor"], "");
        hit.result(page(&json!([{"name": "b", "inputSchema": {}}]), &json!("c"))).await;
        let hit = server.post("tools/list").await;
        assert_eq!(hit.message()["params"]["cursor"], "c");
        hit.result(json!({"resultType": "complete", "tools": []})).await;
    });
    let names: Vec<_> = tools.unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

/// wire: UTL-5
#[tokio::test]
async fn a_server_that_gives_the_same_cursor_for_ever_is_refused() {
    let mut server = HttpServer::start().await;
    let client = legacy(&mut server, ClientOptions::default()).await;
    let (tools, ()) = tokio::join!(client.tools(), async {
        for _ in 0..2 {
            let hit = server.post("tools/list").await;
            hit.result(page(&json!([]), &json!("again"))).await;
        }
    });
    assert!(matches!(tools, Err(CallError::Unusable { .. })), "{tools:?}");
    let (tools, ()) = tokio::join!(client.tools(), async {
        let hit = server.post("tools/list").await;
        hit.result(page(&json!([{"name": "a"}]), &json!(""))).await;
    });
    assert_eq!(tools.unwrap().len(), 1);
}

#[tokio::test]
async fn each_method_asks_for_what_its_name_says() {
    let mut server = HttpServer::start().await;
    let client = legacy(&mut server, ClientOptions::default()).await;
    let reference = json!({"type": "ref/prompt", "name": "p"});
    let calls = async {
        client.prompts().await.unwrap();
        client.prompt("p", json!({"a": "1"})).await.unwrap();
        client.resources().await.unwrap();
        client.templates().await.unwrap();
        client.read("file:///a").await.unwrap();
        client.complete(reference.clone(), "a", "x", serde_json::Map::new()).await.unwrap();
    };
    let answers = async {
        for (method, expected) in [
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "p", "arguments": {"a": "1"}})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "file:///a"})),
            (
                "completion/complete",
                json!({"ref": reference, "argument": {"name": "a", "value": "x"}}),
            ),
        ] {
            let hit = server.post(method).await;
            let mut params = hit.message()["params"].clone();
            params.as_object_mut().unwrap().remove("_meta");
            assert_eq!(params, expected, "{method}");
            hit.result(json!({})).await;
        }
    };
    tokio::join!(calls, answers);
}
