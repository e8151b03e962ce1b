//! What the file keeps from clients: in no list, and not to be had by name either.

use serde_json::{Value, json};
use switchboard_net::client::{CallError, Client, ClientOptions, ListenFilter};
use switchboard_proto::revision::Era;

use super::reload::{call_at, session_at};
use super::{ERAS, Gateway, demo, rude_with, text};
use crate::process::PATIENCE;
use crate::web::post_to;

/// Where a server is found, and what stands before its names there.
const PLACES: [(&str, &str); 2] = [("/mcp", "a__"), ("/servers/a/mcp", "")];

/// The built-in server of each era, with these keys beside.
fn server(era: &str, more: &Value) -> Gateway {
    let mut server = demo(&["--era", era]);
    for (key, value) in more.as_object().unwrap() {
        server[key] = value.clone();
    }
    let gateway = Gateway::start(&json!({"a": server}));
    gateway.until_ready(&["a"]);
    gateway
}

async fn listed(client: &Client, list: &str, member: &str, name: &str) -> Vec<String> {
    let result = client.request(list, json!({})).await.unwrap();
    let items = result[member].as_array().unwrap();
    items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

/// That one is answered as the other is, which is not there.
#[track_caller]
fn same(one: (&str, Result<Value, CallError>), none: (&str, Result<Value, CallError>), what: &str) {
    let told = |it: Result<Value, CallError>| it.unwrap_err().to_string();
    assert_eq!(told(one.1).replace(one.0, none.0), told(none.1), "{what}");
}

#[tokio::test]
async fn what_has_another_name_is_not_to_be_had_by_its_old_one() {
    let more = json!({
        "tools": {"echo": {"name": "say"}},
        "prompts": {"test_simple_prompt": {"name": "plain"}},
    });
    // Also where the server may have tools that the gateway does not know of.
    for process in ["per-session", "shared"] {
        let mut more = more.clone();
        more["process"] = process.into();
        let gateway = server("legacy", &more);
        for era in ERAS {
            let what = format!("{process}, {era:?}");
            let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
            let tools = listed(&client, "tools/list", "tools", "name").await;
            assert!(tools.contains(&"a__say".to_owned()), "{what}: {tools:?}");
            let said = client.call_tool("a__say", json!({"message": "hello"})).await.unwrap();
            assert!(text(&said).contains("hello"), "{what}: {said}");
            let old = client.call_tool("a__echo", json!({"message": "hello"})).await;
            let none = client.call_tool("none", json!({})).await;
            same(("a__echo", old), ("none", none), &what);
            client.prompt("a__plain", json!({})).await.unwrap();
            let old = client.prompt("a__test_simple_prompt", json!({})).await;
            let none = client.prompt("none", json!({})).await;
            same(("a__test_simple_prompt", old), ("none", none), &what);
            let alone = gateway.client_at("/servers/a/mcp", era, ClientOptions::default()).await;
            let said = alone.call_tool("echo", json!({"message": "hello"})).await.unwrap();
            assert!(text(&said).contains("hello"), "{what}: its own path has its own names");
        }
    }
}

const TEMPLATE: &str = "test://template/{id}/data";

#[tokio::test]
async fn what_is_excluded_is_not_to_be_had_by_name() {
    let more = json!({
        "process": "shared",
        "excludePrompts": ["test_simple_*"],
        "excludeResources": ["test://static-text", "test://template/*", "test://watched*"],
    });
    for word in ["legacy", "modern"] {
        let gateway = server(word, &more);
        for (path, prefix) in PLACES {
            for era in ERAS {
                let what = format!("{era:?} client of a {word} server at {path}");
                let client = gateway.client_at(path, era, ClientOptions::default()).await;
                let prompts = listed(&client, "prompts/list", "prompts", "name").await;
                assert!(prompts.len() > 1 && !prompts.iter().any(|it| it.contains("simple")));
                let uris = listed(&client, "resources/list", "resources", "uri").await;
                assert_eq!(uris, ["test://static-binary"], "{what}");
                let list = "resources/templates/list";
                let templates = listed(&client, list, "resourceTemplates", "uriTemplate").await;
                assert!(!templates.contains(&TEMPLATE.to_owned()), "{what}: {templates:?}");
                let hidden = format!("{prefix}test_simple_prompt");
                let refused = client.prompt(&hidden, json!({})).await.unwrap_err().to_string();
                assert!(
                    refused.contains(&format!("Unknown prompt: {hidden}")),
                    "{what}: {refused}"
                );
                let complete = |reference: Value| {
                    let ask = json!({"ref": reference, "argument": {"name": "a", "value": ""}});
                    client.request("completion/complete", ask)
                };
                let prompt = |name: &str| complete(json!({"type": "ref/prompt", "name": name}));
                assert!(prompt(&hidden).await.is_err(), "{what}");
                assert!(complete(json!({"type": "ref/resource", "uri": TEMPLATE})).await.is_err());
                for uri in ["test://static-text", "test://template/7/data"] {
                    let refused = client.read(uri).await.unwrap_err().to_string();
                    assert!(refused.contains("Resource not found"), "{what}: {refused}");
                }
                client.read("test://static-binary").await.unwrap();
                if path == "/mcp" {
                    let none = "a__none";
                    let (one, other) = (prompt(&hidden).await, prompt(none).await);
                    same((&hidden, one), (none, other), &what);
                }
            }
        }
    }
}

#[tokio::test]
async fn only_what_is_included_is_to_be_had() {
    let more = json!({
        "includePrompts": ["test_simple_prompt"],
        "includeResources": [TEMPLATE],
    });
    let gateway = server("legacy", &more);
    for (path, prefix) in PLACES {
        for era in ERAS {
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            let read = client.read("test://template/7/data").await;
            assert!(read.is_ok(), "{era:?} {path}: {read:?}");
            assert!(client.read("test://static-text").await.is_err(), "{era:?} {path}");
            let simple = format!("{prefix}test_simple_prompt");
            client.prompt(&simple, json!({})).await.unwrap();
            let other = format!("{prefix}test_prompt_with_image");
            assert!(client.prompt(&other, json!({})).await.is_err(), "{era:?} {path}");
        }
    }
}

/// wire: SUB-3
#[tokio::test]
async fn what_is_excluded_is_not_to_be_watched() {
    let more = json!({"excludeResources": ["test://watched*"]});
    for word in ["legacy", "modern"] {
        let gateway = server(word, &more);
        for (path, _) in PLACES {
            for era in ERAS {
                let client = gateway.client_at(path, era, ClientOptions::default()).await;
                let uris = vec!["test://watched-resource".to_owned()];
                let filter = ListenFilter { uris, tools: true, ..ListenFilter::default() };
                let listening = client.listen(filter).await;
                match listening {
                    Ok(listening) => {
                        let honoured = listening.honoured().to_string();
                        assert!(!honoured.contains("watched"), "{word} {path}: {honoured}");
                        assert_eq!(era, Era::Modern, "a listen honours the rest");
                    }
                    Err(refused) => {
                        let refused = refused.to_string();
                        assert!(refused.contains("Resource not found"), "{word} {path}: {refused}");
                        assert_eq!(era, Era::Legacy, "{word} {path}");
                    }
                }
            }
        }
    }
}

/// Who watches a resource hears nothing of it once it is excluded.
#[tokio::test]
async fn what_becomes_excluded_is_heard_of_no_more() {
    let with = |more: Value| {
        let mut server = demo(&["--era", "legacy"]);
        server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"a": server})
    };
    for (path, prefix) in PLACES {
        for era in ERAS {
            if (era, path) == (Era::Modern, "/servers/a/mcp") {
                // There its server alone says when a list is another.
                continue;
            }
            let mut gateway = Gateway::start(&with(json!({})));
            gateway.until_ready(&["a"]);
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            let uris = vec!["test://watched-resource".to_owned()];
            let filter = ListenFilter { uris, tools: true, ..ListenFilter::default() };
            let mut heard = client.listen(filter).await.unwrap();
            let mut next = async || {
                let note = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
                note.method
            };
            let touch = async || {
                client.call_tool(&format!("{prefix}touch"), json!({})).await.unwrap();
            };
            touch().await;
            assert_eq!(next().await, "notifications/resources/updated", "{era:?} {path}");
            gateway.rewrite(&with(json!({"excludeResources": ["test://watched*"]})), &json!({}));
            touch().await;
            gateway.rewrite(&with(json!({"excludeTools": ["add"]})), &json!({}));
            assert_eq!(next().await, "notifications/tools/list_changed", "{era:?} {path}");
            touch().await;
            assert_eq!(next().await, "notifications/resources/updated", "{era:?} {path}");
        }
    }
}

/// Both rules for case: that of names, and that of members.
#[test]
fn case_counts_in_names_and_no_member_has_a_twin() {
    let more = json!({"excludeTools": ["ECHO", "pid"]});
    let gateway = Gateway::start(&json!({"a": rude_with(&["pid"], &more)}));
    gateway.until_ready(&["a"]);
    for (path, prefix) in PLACES {
        let session = session_at(gateway.port, path);
        let echo = format!("{prefix}echo");
        let (_, answer) = call_at(gateway.port, path, &session, &echo, &json!({"text": "x"}));
        assert_eq!(text(&answer["result"]), "x", "{path}");
        let send = |message: &str| {
            let headers = [("Mcp-Session-Id", session.as_str())];
            post_to(gateway.port, path, &headers, message.as_bytes()).message()
        };
        let call = |params: &str| {
            let head = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"#;
            send(&format!("{head}{params}}}"))
        };
        for params in [
            format!(r#"{{"name":"{echo}","arguments":{{"text":"x"}},"Name":"pid"}}"#),
            format!(r#"{{"name":"pid","name":"{echo}","arguments":{{"text":"x"}}}}"#),
            format!(r#"{{"name":"{echo}","arguments":{{"text":"x"}},"\u004eAME":"pid"}}"#),
            r#"["pid"]"#.to_owned(),
        ] {
            let answer = call(&params);
            assert_eq!(answer["error"]["code"], -32602, "{path} {params}: {answer}");
        }
        let twin =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call","params":{}}"#;
        assert_eq!(send(twin)["error"]["code"], -32600, "{path}");
    }
}
