//! A tool that is written once, in the newest words, and every client that calls it.

use serde_json::{Value, json};
use switchboard_net::server::{Content, Server, Tool, ToolResult};

use super::{Client, LEGACY, serve};

fn server() -> Client {
    let list = Tool::new("list")
        .output_schema(
            &json!({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {}}}),
        )
        .run(async |_: Value, _| {
            ToolResult::structured([1, 2])
                .with(Content::link("a://text", "a text"))
                .with(Content::audio([1], "audio/wav"))
        });
    serve(Server::builder("server", "0").tool(list))
}

/// wire: GW-70
#[tokio::test]
async fn each_revision_gets_a_result_that_it_can_read() {
    let audio = json!({"type": "audio", "data": "AQ==", "mimeType": "audio/wav"});
    let link = json!({"type": "resource_link", "uri": "a://text", "name": "a text"});
    let link_text = json!({"type": "text", "text": "a text: a://text"});
    let no_audio = "[audio, audio/wav: left out, for this client cannot take it]";
    let no_audio = json!({"type": "text", "text": no_audio});
    let structure = json!({"type": "text", "text": "[1,2]"});
    let expected = [
        json!({"content": [link_text, no_audio]}),
        json!({"content": [link_text, audio]}),
        json!({"content": [link, audio, structure], "structuredContent": {"result": [1, 2]}}),
        json!({"content": [link, audio, structure], "structuredContent": {"result": [1, 2]}}),
    ];
    for (revision, expected) in LEGACY.into_iter().zip(expected) {
        let mut client = server();
        client.greet(revision, json!({})).await;
        let called = client.call("tools/call", json!({"name": "list"})).await;
        assert_eq!(called["result"], expected, "{revision}");
        let tool = &client.call("tools/list", json!({})).await["result"]["tools"][0];
        let output = tool.get("outputSchema");
        let has_structure = expected.get("structuredContent").is_some();
        assert_eq!(output.is_some(), has_structure, "{revision}");
        if let Some(output) = output {
            let inner = &output["properties"]["result"];
            assert_eq!(output["type"], "object");
            assert_eq!(inner["items"]["$ref"], "#/properties/result/$defs/n");
        }
    }
    let mut client = server();
    let called = client.modern("tools/call", json!({"name": "list"})).await;
    assert_eq!(called["result"]["structuredContent"], json!([1, 2]));
    assert_eq!(called["result"]["content"], json!([link, audio]));
}
