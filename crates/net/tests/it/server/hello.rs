//! How a server introduces itself.

use serde_json::{Value, json};
use switchboard_net::server::{
    BuildError, Builder, CacheHints, Context, Prompt, PromptResult, Resource, Server, Tool,
};
use switchboard_proto::revision::Revision;

use super::{LEGACY, MODERN, fixture, serve, text};

/// wire: LIF-1, UTL-3
#[tokio::test]
async fn each_legacy_revision_is_spoken_as_asked() {
    for revision in LEGACY {
        let mut client = serve(fixture());
        let hello = client.greet(revision, json!({})).await;
        assert_eq!(hello["protocolVersion"], revision);
        assert_eq!(hello["serverInfo"]["name"], "fixture");
        assert_eq!(hello["serverInfo"]["title"], "A fixture");
        assert_eq!(hello["instructions"], "Try it.");
        assert_eq!(hello["capabilities"]["tools"], json!({"listChanged": true}));
        assert_eq!(
            hello["capabilities"]["resources"],
            json!({"subscribe": true, "listChanged": true})
        );
        assert_eq!(hello["capabilities"]["completions"], json!({}));
        assert!(hello["capabilities"].get("extensions").is_none());
        assert!(hello.get("resultType").is_none());
        assert_eq!(client.call("ping", json!({})).await["result"], json!({}));
        client.leave().await;
    }
}

/// wire: LIF-1, NEG-11
#[tokio::test]
async fn a_handshake_never_settles_on_what_it_cannot_be() {
    for asked in [MODERN, "2024-10-07", "2099-01-01", "nonsense"] {
        let mut client = serve(fixture());
        assert_eq!(client.greet(asked, json!({})).await["protocolVersion"], "2025-11-25");
        client.leave().await;
    }
    let mut client = serve(fixture());
    let refused = client.call("initialize", json!({})).await;
    assert_eq!(refused["error"]["code"], -32602);
}

/// wire: DISC-1, DISC-2, MOD-6, MOD-7, CACHE-1, META-6
#[tokio::test]
async fn a_modern_client_discovers_without_a_handshake() {
    let cache = CacheHints { ttl_ms: 60_000, public: true };
    let mut client = serve(fixture().cache(cache).extension("com.example/x", json!({"y": 1})));
    let answer = client.modern("server/discover", json!({})).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"], json!([MODERN]));
    assert_eq!(result["capabilities"]["prompts"], json!({"listChanged": true}));
    assert_eq!(result["capabilities"]["extensions"], json!({"com.example/x": {"y": 1}}));
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(60_000), &json!("public")));
    assert_eq!(result["instructions"], "Try it.");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["version"], "1.2.3");
    assert!(result.get("serverInfo").is_none());
    client.leave().await;
}

/// wire: MH-13, NEG-10
#[tokio::test]
async fn each_era_has_its_own_methods() {
    let mut client = serve(fixture());
    client.greet("2025-06-18", json!({})).await;
    for removed in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "nonsense"] {
        let answer = client.modern(removed, json!({"uri": "a://text", "level": "info"})).await;
        assert_eq!(answer["error"]["code"], -32601, "{removed}");
    }
    for unborn in ["server/discover", "subscriptions/listen", "nonsense"] {
        let answer = client.call(unborn, json!({"notifications": {}})).await;
        assert_eq!(answer["error"]["code"], -32601, "{unborn}");
    }
    client.leave().await;
}

#[tokio::test]
async fn a_server_may_speak_fewer_revisions() {
    let mut old = serve(fixture().only(&[Revision::V2024_11_05]));
    assert_eq!(old.modern("server/discover", json!({})).await["error"]["code"], -32601);
    assert_eq!(old.greet("2025-11-25", json!({})).await["protocolVersion"], "2024-11-05");

    let mut new = serve(fixture().only(&[Revision::V2026_07_28]));
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}});
    let refused = new.call("initialize", hello).await;
    // wire: NEG-2
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["supported"], json!([MODERN]));
}

/// wire: META-6
#[tokio::test]
async fn an_empty_server_offers_nothing() {
    let mut client = serve(Server::builder("bare", "0").without_logging());
    let hello = client.greet("2025-11-25", json!({})).await;
    assert_eq!(hello["capabilities"], json!({}));
    for method in [
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "completion/complete",
        "logging/setLevel",
        "tasks/list",
    ] {
        assert_eq!(client.call(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
}

/// wire: LIF-3, META-6
#[tokio::test]
async fn a_client_hears_of_nothing_that_it_was_not_told_to_expect() {
    let quiet = fixture().capability("tools", json!({})).capability("prompts", json!({}));
    let mut client = serve(quiet.without_logging());
    client.greet("2025-11-25", json!({})).await;
    client.server.tools_changed();
    client.server.prompts_changed();
    client.call("tools/call", json!({"name": "steps"})).await;
    assert!(client.heard_of("notifications/tools/list_changed").is_empty(), "{:?}", client.heard);
    assert!(client.heard_of("notifications/message").is_empty(), "{:?}", client.heard);
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourcesListChanged": true}});
    let wanted = client.envelope(wanted);
    client.request("subscriptions/listen", wanted).await;
    let ack = client.hear().await;
    assert_eq!(ack["params"]["notifications"], json!({"resourcesListChanged": true}));

    let mut bare = serve(Server::builder("bare", "0"));
    bare.greet("2025-11-25", json!({})).await;
    bare.server.add_tool(Tool::new("new").run(async |_, _| "")).unwrap();
    bare.call("ping", json!({})).await;
    assert!(bare.heard.is_empty(), "{:?}", bare.heard);
}

/// wire: EXT-1, EXT-2
#[tokio::test]
async fn an_extension_is_on_if_both_sides_say_so() {
    let tool = Tool::new("ui").run(async |_: Value, cx: Context| {
        cx.extension("com.example/ui").map_or("off".to_owned(), |settings| settings.to_string())
    });
    let mut client = serve(fixture().tool(tool).extension("com.example/ui", json!({})));
    for (declared, expected) in [
        (json!({}), "off"),
        (json!({"extensions": {"com.example/other": {"z": 1}}}), "off"),
        (json!({"extensions": {"com.example/ui": true}}), "off"),
        (json!({"extensions": ["com.example/ui"]}), "off"),
        (json!({"extensions": {"com.example/ui": {"a": 1}, "x/y": {}}}), r#"{"a":1}"#),
    ] {
        client.capabilities = declared.clone();
        let said = client.modern("tools/call", json!({"name": "ui"})).await;
        assert_eq!(text(&said), expected, "{declared}");
    }
    for (id, settings) in [("ui", json!({})), ("/ui", json!({})), ("a/b", json!(true))] {
        let flaw = fixture().extension(id, settings).build().unwrap_err();
        assert_eq!(flaw, BuildError::Extension { id: id.to_owned() });
    }
}

/// wire: MSG-6
#[test]
fn keys_of_meta_have_a_shape() {
    let tool = |key: &str| Tool::new("t").meta(key, 1).run(async |_: Value, _| "");
    let prompt =
        |key: &str| Prompt::new("p").meta(key, 1).run(async |_, _| Ok(PromptResult::new()));
    let resource = |key: &str| Resource::new("a://r", "r").meta(key, 1);
    for key in ["layer", "com.example/x", "progressToken"] {
        let builder = Server::builder("s", "0").tool(tool(key)).prompt(prompt(key));
        builder.resource(resource(key).read(async |_, _| Ok(Vec::new()))).build().unwrap();
    }
    for key in ["", "-x", "a b", "1.com/x"] {
        let flaw = |builder: Builder| builder.build().unwrap_err();
        let expected = BuildError::Meta { key: key.to_owned() };
        let empty = || Server::builder("s", "0");
        assert_eq!(flaw(empty().tool(tool(key))), expected);
        assert_eq!(flaw(empty().prompt(prompt(key))), expected);
        let read = resource(key).read(async |_, _| Ok(Vec::new()));
        assert_eq!(flaw(empty().resource(read)), expected);
        let read = resource(key).read_each(async |_, _, _| Ok(Vec::new()));
        assert_eq!(flaw(empty().template(read)), expected);
    }
}
