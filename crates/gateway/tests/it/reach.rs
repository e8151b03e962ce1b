//! What is hidden, and every way around that: other spellings, other shapes of
//! a name, lists that are another person's.

use serde_json::{Value, json};
use switchboard_net::client::{Client, ListenFilter};
use switchboard_proto::revision::Era;

use crate::served::{ADA, BOB, ERAS, PATIENCE, Served, key, lenient};

const PLACES: [&str; 2] = ["/mcp", "/servers/a/mcp"];

async fn gateway(more: &Value) -> Served {
    Served::start(&json!({"a": lenient(more)}), &json!({})).await
}

/// That each of these is answered as what is not there.
async fn none(client: &Client, uris: &[&str], what: &str) {
    for uri in uris {
        let read = client.read(uri).await;
        let refused = read.expect_err(&format!("{what} {uri:?}")).to_string();
        assert!(refused.contains("Resource not found"), "{what} {uri:?}: {refused}");
    }
}

#[tokio::test]
async fn another_spelling_of_a_uri_is_no_way_to_what_is_hidden() {
    let hidden = [
        "box://secret/doc",
        "BOX://secret/doc",
        "box://SECRET/doc",
        " box://secret/doc",
        "box://secret/doc\n",
        "box://secret/x/../doc",
        "box://secret/%2e%2e/doc",
        "box://secret/%64oc",
        "box://secre%74/doc",
    ];
    for more in [
        json!({"excludeResources": ["box://secret/*"]}),
        json!({"includeResources": ["box://open/*", "page://{id}"]}),
    ] {
        let gateway = gateway(&more).await;
        for (path, era) in PLACES.into_iter().flat_map(|path| ERAS.map(|era| (path, era))) {
            let what = format!("{more} {era:?} {path}");
            let client = gateway.client(path, era).await;
            none(&client, &hidden, &what).await;
            none(&client, &["box://open/../../secret/doc", "box://open/%2E./x"], &what).await;
            for uri in ["box://open/doc", "page://7", "page://ä b"] {
                assert!(client.read(uri).await.is_ok(), "{what} {uri}");
            }
            let filter = ListenFilter {
                uris: vec![hidden[2].to_owned()],
                tools: true,
                ..ListenFilter::default()
            };
            match client.listen(filter).await {
                Ok(listening) => {
                    let honoured = listening.honoured().to_string();
                    assert!(!honoured.contains("SECRET"), "{what}: {honoured}");
                    assert_eq!(era, Era::Modern, "{what}: a listen honours the rest");
                }
                Err(refused) => assert_eq!(era, Era::Legacy, "{what}: {refused}"),
            }
            for uri in [hidden[1], hidden[5]] {
                let of = json!({"type": "ref/resource", "uri": uri});
                let completed = client.complete(of, "id", "", serde_json::Map::new()).await;
                assert!(completed.is_err(), "{what} {uri}: {completed:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_string_names_nothing_while_something_is_hidden() {
    let more = json!({
        "excludeTools": ["secret"], "excludePrompts": ["secret"],
        "excludeResources": ["box://secret/*"],
    });
    let gateway = gateway(&more).await;
    let argument = json!({"name": "a", "value": ""});
    for (path, era) in PLACES.into_iter().flat_map(|path| ERAS.map(|era| (path, era))) {
        let client = gateway.client(path, era).await;
        for (method, params) in [
            ("tools/call", json!({"name": ["secret"]})),
            ("tools/call", json!({"name": {"secret": 1}})),
            ("prompts/get", json!({"name": ["secret"]})),
            ("resources/read", json!({"uri": ["box://secret/doc"]})),
            ("completion/complete", json!({"ref": {"name": "secret"}, "argument": argument})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": ["secret"]}, "argument": argument}),
            ),
        ] {
            let answer = client.request(method, params.clone()).await;
            let refused = answer.expect_err(&format!("{era:?} {path} {params}")).to_string();
            assert!(refused.contains("-32602"), "{era:?} {path} {params}: {refused}");
        }
        if era == Era::Modern {
            let uris = json!(["box://secret/doc", 1]);
            let listen = json!({"notifications": {"resourceSubscriptions": uris}});
            let refused = client.request("subscriptions/listen", listen).await.unwrap_err();
            assert!(refused.to_string().contains("-32602"), "{path}: {refused}");
        }
    }
}

/// Whom a server tells apart is judged by what it lists to them.
#[tokio::test]
async fn what_is_hidden_of_a_persons_own_list_is_hidden_from_them() {
    for (more, hidden, seen) in [
        (json!({"excludeResources": ["den://{id}"]}), "den://7", "attic://7"),
        (json!({"includeResources": ["attic://{id}"]}), "den://7", "attic://7"),
    ] {
        let mut more = more;
        more["process"] = "per-user".into();
        let keys = json!({"ada": key(ADA, json!({})), "bob": key(BOB, json!({}))});
        let servers = json!({"a": lenient(&more)});
        let gateway = Served::start(&servers, &json!({"keys": keys})).await;
        for era in ERAS {
            let all = gateway.client_as(ADA, "/mcp", era).await;
            for room in ["den", "attic"] {
                all.call_tool("a__open", json!({"room": room})).await.unwrap();
            }
            let alone = gateway.client_as(ADA, "/servers/a/mcp", era).await;
            for (client, path) in [(&all, "/mcp"), (&alone, "/servers/a/mcp")] {
                let what = format!("{more} {era:?} {path}");
                // Which lists there are is read again a moment later.
                let known = async { while client.read(seen).await.is_err() {} };
                let known = tokio::time::timeout(PATIENCE, known).await;
                assert!(known.is_ok(), "{what}: {:?}", client.read(seen).await);
                let gone = async { while client.read(hidden).await.is_ok() {} };
                assert!(tokio::time::timeout(PATIENCE, gone).await.is_ok(), "{what}");
                none(client, &[hidden], &what).await;
            }
        }
    }
}
