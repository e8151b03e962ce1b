//! How a server introduces itself.

use serde_json::json;
use switchboard_net::server::{Cache, Server};
use switchboard_proto::revision::Revision;

use super::{LEGACY, MODERN, fixture, serve};

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
    let cache = Cache { ttl_ms: 60_000, public: true };
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
    for method in ["tools/list", "prompts/list", "resources/list", "completion/complete"] {
        assert_eq!(client.call(method, json!({})).await["error"]["code"], -32601, "{method}");
    }
}
