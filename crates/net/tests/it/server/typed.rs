//! Tools, prompts, resources and completion.

use serde_json::{Value, json};
use switchboard_net::server::{
    BuildError, Builder, CacheHints, Prompt, PromptResult, Resource, Server, Template, Tool,
};

use super::{LEGACY, fixture, serve, text};

/// wire: ERR-3
#[tokio::test]
async fn arguments_are_checked_against_the_schema_of_their_type() {
    for revision in LEGACY {
        let mut client = serve(fixture());
        client.greet(revision, json!({})).await;
        let good = json!({"name": "add", "arguments": {"a": 2, "b": 40}});
        assert_eq!(text(&client.call("tools/call", good).await), "42");
        let bad = json!({"name": "add", "arguments": {"a": "two"}});
        let answer = client.call("tools/call", bad).await;
        assert_eq!(answer["result"]["isError"], true);
        let complaint = text(&answer);
        assert!(complaint.contains("/a: \"two\" is not of type \"integer\""), "{complaint}");
        assert!(complaint.contains("\"b\" is a required property"), "{complaint}");
        let unknown = client.call("tools/call", json!({"name": "nobody"})).await;
        assert_eq!(unknown["error"]["code"], -32602);
        let broken = client.call("tools/call", json!({"name": "broken"})).await;
        assert_eq!(broken["error"], json!({"code": 7, "message": "broken"}));
        client.leave().await;
    }
}

#[tokio::test]
async fn a_schema_of_ones_own_is_listed_byte_for_byte() {
    let schema = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"b":{"$anchor":"b","type":"string"},"a":{"type":"integer"}},"properties":{"z":{"$ref":"#/$defs/b"},"y":{"type":"string","x-mcp-header":"Why"}},"if":{"required":["z"]},"then":{"required":["y"]},"additionalProperties":false}"##;
    let own =
        Tool::new("own").input_schema_text(schema).run(async |args: Value, _| args.to_string());
    let server = Server::builder("s", "0").tool(own).build().unwrap();
    let mut client = super::Client::of(server);
    client.greet("2025-11-25", json!({})).await;
    client.request("tools/list", json!({})).await;
    // The text itself: a parser would sort it.
    let line = client.line().await;
    assert!(line.contains(&format!("\"inputSchema\":{schema}")), "{line}");

    let wrong = client.call("tools/call", json!({"name": "own", "arguments": {"z": "1"}})).await;
    assert!(text(&wrong).contains("\"y\" is a required property"), "{wrong}");
    let right = json!({"name": "own", "arguments": {"z": "1", "y": "2"}});
    assert_eq!(text(&client.call("tools/call", right).await), r#"{"y":"2","z":"1"}"#);
}

/// wire: PAG-1, UTL-5, MOD-4
#[tokio::test]
async fn lists_come_in_pages_in_the_order_they_were_made() {
    let names = ["e", "a", "d", "b", "c"];
    let tools = names.map(|name| Tool::new(name).run(async |_, _| ""));
    let builder = tools.into_iter().fold(Server::builder("s", "0").page_size(2), Builder::tool);
    let mut client = serve(builder);
    let mut seen = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.modern("tools/list", params.clone()).await;
        let result = &page["result"];
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        let tools = result["tools"].as_array().unwrap();
        seen.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match result.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(seen, names);
    for bad in [json!("nonsense"), json!(""), json!(7)] {
        let answer = client.modern("tools/list", json!({"cursor": bad})).await;
        assert_eq!(answer["error"]["code"], -32602, "{bad}");
    }
}

/// wire: PAG-1, CACHE-4
#[tokio::test]
async fn every_list_has_pages_that_share_a_scope() {
    let cache = CacheHints { ttl_ms: 9, public: true };
    let mut builder = Server::builder("s", "0").page_size(2).cache(cache);
    for n in 0..3 {
        let name = format!("n{n}");
        builder = builder
            .tool(Tool::new(&name).run(async |_, _| ""))
            .prompt(Prompt::new(&name).run(async |_, _| Ok(PromptResult::new())))
            .resource(Resource::text(&format!("a://{n}"), &name, "text/plain", ""))
            .template(
                Template::new(format!("b{n}://{{x}}"), &name)
                    .read_each(async |_, _, _| Ok(Vec::new())),
            );
    }
    let mut client = serve(builder);
    for (method, member) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let first = client.modern(method, json!({})).await["result"].clone();
        let next = json!({"cursor": first["nextCursor"]});
        let second = client.modern(method, next).await["result"].clone();
        let names = |page: &Value| {
            let items = page[member].as_array().unwrap();
            items.iter().map(|item| item["name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&first), names(&second)),
            (vec![json!("n0"), json!("n1")], vec![json!("n2")])
        );
        assert!(second.get("nextCursor").is_none());
        for page in [first, second] {
            assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(9), &json!("public")));
        }
    }
}

/// wire: ERR-3
#[tokio::test]
async fn prompts_are_filled_in() {
    let mut client = serve(fixture());
    let list = client.modern("prompts/list", json!({})).await;
    let argument = json!({"name": "name", "description": "whom to greet", "required": true});
    assert_eq!(list["result"]["prompts"][0]["arguments"], json!([argument]));
    let get = json!({"name": "hello", "arguments": {"name": "Ann"}});
    let prompt = client.modern("prompts/get", get).await;
    let message = json!({"role": "user", "content": {"type": "text", "text": "Hello, Ann!"}});
    assert_eq!(prompt["result"]["messages"], json!([message]));
    assert_eq!(prompt["result"]["resultType"], "complete");
    for (wrong, why) in [
        (json!({"name": "hello"}), "argument \"name\" is missing"),
        (json!({"name": "hello", "arguments": {"name": 7}}), "argument \"name\" must be a string"),
        (json!({"name": "hello", "arguments": []}), "params.arguments must be an object"),
        (json!({"name": "nobody"}), "Unknown prompt: nobody"),
        (json!({}), "params.name must be a string"),
    ] {
        let answer = client.modern("prompts/get", wrong).await;
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["message"]),
            (&json!(-32602), &json!(why))
        );
    }
}

/// wire: ERR-3, CACHE-1, DIV-16
#[tokio::test]
async fn resources_are_read_by_name_and_by_pattern() {
    let mut client = serve(fixture());
    client.greet("2025-11-25", json!({})).await;
    let read = |uri: &str| json!({"uri": uri});
    let blob = client.call("resources/read", read("a://blob")).await;
    let contents = json!([{"uri": "a://blob", "mimeType": "image/png", "blob": "AQID"}]);
    assert_eq!(blob["result"], json!({"contents": contents}));
    let item = client.modern("resources/read", read("a://item/12/x")).await;
    assert_eq!(item["result"]["contents"][0]["text"], "item 12");
    assert_eq!(item["result"]["ttlMs"], 0);
    let templates = client.call("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "a://item/{id}/x");

    let gone = client.call("resources/read", read("a://gone")).await;
    assert_eq!(gone["error"]["code"], -32002);
    let gone = client.modern("resources/read", read("a://gone")).await;
    assert_eq!(gone["error"]["code"], -32602);
    assert_eq!(gone["error"]["data"]["uri"], "a://gone");
}

/// wire: CACHE-1
#[tokio::test]
async fn a_resource_may_say_itself_how_long_it_keeps() {
    let cache = CacheHints { ttl_ms: 60_000, public: true };
    let own = Resource::new("a://own", "own").cache(cache).read(async |_, _| Ok(Vec::new()));
    let each = Template::new("b://{x}", "b").cache(cache).read_each(async |_, _, _| Ok(Vec::new()));
    let mut client = serve(fixture().resource(own).template(each));
    for (uri, ttl, scope) in
        [("a://own", 60_000, "public"), ("b://1", 60_000, "public"), ("a://text", 0, "private")]
    {
        let read = client.modern("resources/read", json!({"uri": uri})).await["result"].clone();
        assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(ttl), &json!(scope)), "{uri}");
    }
    client.greet("2025-11-25", json!({})).await;
    let read = client.call("resources/read", json!({"uri": "a://own"})).await;
    assert_eq!(read["result"], json!({"contents": []}), "a legacy client knows nothing of it");
}

#[tokio::test]
async fn completion_is_cut_at_a_hundred() {
    let mut client = serve(fixture());
    let ask = json!({
        "ref": {"type": "ref/prompt", "name": "hello"},
        "argument": {"name": "name", "value": "A"},
    });
    let answer = client.modern("completion/complete", ask).await;
    let completion = &answer["result"]["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(completion["values"][1], "A1");
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(150), &json!(true)));
    for of in [
        json!({"type": "x"}),
        json!({"type": "ref/prompt", "name": "nobody's"}),
        json!({"type": "ref/resource", "uri": "a://nobodys/{x}"}),
    ] {
        let ask = json!({"ref": of, "argument": {"name": "name", "value": ""}});
        let wrong = client.modern("completion/complete", ask).await;
        assert_eq!(wrong["error"]["code"], -32602, "{of}");
    }
}

#[test]
fn what_cannot_be_offered_is_told_before_anybody_asks() {
    let flaw = |builder: Builder| builder.build().unwrap_err();
    let tool = |name: &str| Tool::new(name).run(async |_, _| "");
    let twice = Server::builder("s", "0").tool(tool("a")).tool(tool("a"));
    assert_eq!(flaw(twice), BuildError::Duplicate { key: "a".to_owned() });
    for schema in [
        json!({"type": "string"}),
        json!({"type": "object", "properties": {"a": {"type": 7}}}),
        json!({"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
    ] {
        let bad = Tool::new("bad").input_schema(&schema).run(async |_, _| "");
        let flaw = flaw(Server::builder("s", "0").tool(bad));
        assert!(matches!(flaw, BuildError::Schema { .. }), "{flaw:?} for {schema}");
    }
    let bad = Template::new("a://{x", "n").read_each(async |_, _, _| Ok(Vec::new()));
    assert!(matches!(flaw(Server::builder("s", "0").template(bad)), BuildError::Template { .. }));
}
