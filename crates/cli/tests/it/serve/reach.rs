//! What is hidden, and every way around that: other spellings, other shapes of
//! a name, lists that are another person's, lists that are not known yet.

use std::{fs, thread};

use serde_json::{Value, json};
use switchboard_net::client::{Client, ClientOptions, Filter};
use switchboard_proto::revision::Era;

use super::access::{ADA, BOB, key, keyed};
use super::{ERAS, Gateway};
use crate::named::Home;
use crate::process::{PATIENCE, SERVER, until};
use crate::web::{post_to, send};

const PLACES: [&str; 2] = ["/mcp", "/servers/a/mcp"];

/// A server that takes any spelling, with these keys beside.
fn lenient(args: &[&str], more: &Value) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/lenient.py");
    let args = [&[script], args].concat();
    let mut server = json!({"command": SERVER[0], "args": args});
    for (key, value) in more.as_object().unwrap() {
        server[key] = value.clone();
    }
    server
}

fn gateway(more: &Value) -> Gateway {
    let gateway = Gateway::start(&json!({"a": lenient(&[], more)}));
    gateway.until_ready(&["a"]);
    gateway
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
        let gateway = gateway(&more);
        for (path, era) in PLACES.into_iter().flat_map(|path| ERAS.map(|era| (path, era))) {
            let what = format!("{more} {era:?} {path}");
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            none(&client, &hidden, &what).await;
            none(&client, &["box://open/../../secret/doc", "box://open/%2E./x"], &what).await;
            for uri in ["box://open/doc", "page://7", "page://ä b"] {
                assert!(client.read(uri).await.is_ok(), "{what} {uri}");
            }
            let filter =
                Filter { uris: vec![hidden[2].to_owned()], tools: true, ..Filter::default() };
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
    let gateway = gateway(&more);
    let argument = json!({"name": "a", "value": ""});
    for (path, era) in PLACES.into_iter().flat_map(|path| ERAS.map(|era| (path, era))) {
        let client = gateway.client_at(path, era, ClientOptions::default()).await;
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
        let gateway = keyed(&json!({"a": lenient(&[], &more)}), json!({"keys": keys}));
        gateway.ready(&["a"]);
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

/// A client without a session may ask before anything is known of the server.
#[test]
fn a_read_waits_for_the_lists_that_decide_on_it() {
    let home = Home::new();
    let go = home.path.join("go");
    let args = ["hold", go.to_str().unwrap()];
    let server = lenient(&args, &json!({"excludeResources": ["page://{id}"]}));
    let gateway = Gateway::start_in(home, &json!({"a": server}), &json!({}));
    let read = |uri: &str| {
        let params = json!({"uri": uri, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "resources/read"),
            ("Mcp-Name", uri),
        ];
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params});
        post_to(gateway.port, "/servers/a/mcp", &headers, call.to_string().as_bytes()).message()
    };
    thread::scope(|scope| {
        let reading = ["page://7", "box://open/doc"].map(|uri| scope.spawn(move || read(uri)));
        until("both have come", || {
            let page = send(gateway.port, "GET /metrics", &[], b"").body;
            String::from_utf8(page).unwrap().contains("switchboard_open_calls 2\n")
        });
        fs::write(&go, "").unwrap();
        let [hidden, open] = reading.map(|it| it.join().unwrap());
        let refused = hidden["error"]["message"].as_str();
        assert!(refused.is_some_and(|it| it.contains("Resource not found")), "{hidden}");
        assert_eq!(open["result"]["contents"][0]["uri"], "box://open/doc", "{open}");
    });
}
