//! Two tools in place of all: found by plain words, called by name.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_net::client::{CallError, CallOptions, Client, ClientOptions};
use switchboard_proto::revision::Era;

use super::feature::asked;
use super::{ERAS, Gateway, demo, eventually, names, rude, text};
use crate::named::Home;

/// A gateway whose clients search.
fn searching(servers: &Value, when: &Value) -> Gateway {
    let more = json!({"switchboard": {"toolSearch": when, "groups": {"few": ["rude"]}}});
    Gateway::start_in(Home::new(), servers, &more)
}

/// What is found, as it is shown to a model.
async fn find(client: &Client, query: &str) -> Vec<Value> {
    let found = client.call_tool("find_tools", json!({"query": query})).await.unwrap();
    let found: Value = serde_json::from_str(text(&found)).unwrap();
    found["tools"].as_array().unwrap().clone()
}

fn wrapped(name: &str, arguments: &Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[tokio::test]
async fn tools_are_found_by_plain_words_and_called_by_name() {
    let gateway = searching(&json!({"it": demo(&[]), "rude": rude()}), &json!(true));
    for era in ERAS {
        let client = gateway.client(era, &["it", "rude"]).await;
        let tools = client.tools().await.unwrap();
        assert_eq!(names(&tools), ["find_tools", "call_tool"], "{era:?}");
        assert!(tools[0]["description"].as_str().unwrap().contains("it, rude"), "{tools:?}");
        let found = find(&client, "add two numbers together").await;
        assert_eq!(found[0]["name"], "it__add", "{found:?}");
        assert_eq!(found[0]["inputSchema"]["properties"]["a"]["type"], "number", "{found:?}");
        assert!(find(&client, "xyzzy").await.is_empty());
        let sum = wrapped("it__add", &json!({"a": 1, "b": 2}));
        assert_eq!(text(&client.call_tool("call_tool", sum).await.unwrap()), "3");
        let itself = client.call_tool("it__add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&itself), "3", "who knows a tool may call it");
        let vague = client.call_tool("find_tools", json!({})).await.unwrap();
        assert_eq!(
            (text(&vague), &vague["isError"]),
            ("arguments.query must be a string", &json!(true))
        );
        let vague = client.call_tool("call_tool", json!({})).await.unwrap();
        assert_eq!(vague["isError"], true, "{vague}");
    }
}

#[tokio::test]
async fn a_call_by_name_goes_and_fails_as_the_call_itself() {
    let servers = json!({"old": demo(&["--era", "legacy"]), "new": demo(&["--era", "modern"]), "rude": rude()});
    let gateway = searching(&servers, &json!(true));
    gateway.until_ready(&["old", "new", "rude"]);
    for (era, server) in ERAS.into_iter().flat_map(|era| [(era, "old"), (era, "new")]) {
        let what = format!("{era:?} client, {server} server");
        let client = gateway.client_at("/mcp", era, asked(&Arc::default())).await;
        for (tool, arguments) in
            [("nothing", json!({})), ("add", json!({"a": "x"})), ("test_error_handling", json!({}))]
        {
            let tool = format!("{server}__{tool}");
            let itself = client.call_tool(&tool, &arguments).await;
            let by_name = client.call_tool("call_tool", wrapped(&tool, &arguments)).await;
            let said = |called: Result<Value, CallError>| match called {
                Ok(mut result) => {
                    // It names the call.
                    result.as_object_mut().unwrap().remove("_meta");
                    result.to_string()
                }
                Err(error) => format!("{error:?}"),
            };
            assert_eq!(said(by_name), said(itself), "{what}: {tool}");
        }
        let ask = wrapped(&format!("{server}__test_elicitation"), &json!({"message": what}));
        let answer = client.call_tool("call_tool", ask).await.unwrap();
        assert!(text(&answer).contains(&what), "{what}: {answer}");
        let steps = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&steps);
        let options = CallOptions::default()
            .on_progress(move |progress| seen.lock().unwrap().push(progress.progress));
        let call = wrapped(&format!("{server}__test_tool_with_progress"), &json!({}));
        client.call_tool_with("call_tool", call, options).await.unwrap();
        assert_eq!(*steps.lock().unwrap(), [0.0, 50.0, 100.0], "{what}");
    }
}

#[tokio::test]
async fn clients_search_only_where_there_are_many_tools() {
    let gateway = searching(&json!({"it": demo(&[]), "rude": rude()}), &json!(25));
    gateway.until_ready(&["it", "rude"]);
    for era in ERAS {
        let seen = async |path: &str| {
            let client = gateway.client_at(path, era, ClientOptions::default()).await;
            let tools = client.tools().await.unwrap();
            (names(&tools).contains(&"find_tools"), client)
        };
        assert!(seen("/mcp").await.0, "{era:?}");
        let (is_searched, few) = seen("/groups/few/mcp").await;
        assert!(!is_searched, "{era:?}");
        let echo = wrapped("rude__echo", &json!({"text": "seen before"}));
        let echo = few.call_tool("call_tool", echo).await.unwrap();
        assert_eq!(text(&echo), "seen before", "it may have been listed when there were more");
    }
}

#[tokio::test]
async fn who_searches_is_not_told_of_tools_that_come_and_go() {
    let home = Home::new();
    let servers = json!({"it": demo(&[]), "late": super::late(&home, "")});
    let gateway = Gateway::start_in(home, &servers, &json!({"switchboard": {"toolSearch": true}}));
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = ClientOptions::default()
        .on_notification(move |note| heard.lock().unwrap().push(note.method));
    gateway.until_ready(&["it"]);
    let client = gateway.client_at("/mcp", Era::Legacy, options).await;
    client.tools().await.unwrap();
    std::fs::write(gateway.home.path.join("go"), "").unwrap();
    gateway.until_ready(&["late"]);
    let found = find(&client, "late add numbers").await;
    assert_eq!(found[0]["name"], "late__add", "{found:?}");
    let heard = |name: &str| told.lock().unwrap().iter().any(|told| told == name);
    eventually("the prompts are announced", || heard("notifications/prompts/list_changed")).await;
    assert!(!heard("notifications/tools/list_changed"), "{:?}", told.lock().unwrap());
}
