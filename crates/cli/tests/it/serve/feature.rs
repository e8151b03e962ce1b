//! Every feature, with clients and servers of both eras, on stdio and over HTTP.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_net::client::{CallError, CallOptions, Client, ClientOptions, ListenFilter};
use switchboard_proto::revision::Era;

use super::{ERAS, Gateway, demo, names, rude, text};
use crate::process::Switchboard;
use crate::web::post;

/// A gateway with one server that is looked at, and another beside it.
async fn with_each(check: impl AsyncFn(&Gateway, Era, &str)) {
    let mut web = Switchboard::start(&["demo", "--http"]);
    let url = format!("http://127.0.0.1:{}/mcp", web.port());
    let servers = [
        ("stdio", demo(&[])),
        ("http", json!({"type": "http", "url": url})),
        ("legacy", demo(&["--era", "legacy"])),
        ("modern", demo(&["--era", "modern"])),
    ];
    for (what, server) in servers {
        let gateway = Gateway::start(&json!({"it": server, "rude": rude()}));
        gateway.until_ready(&["it", "rude"]);
        for era in ERAS {
            check(&gateway, era, &format!("{what} server, {era:?} client")).await;
        }
    }
}

#[tokio::test]
async fn calls_prompts_resources_and_completions_find_their_server() {
    with_each(async |gateway, era, what| {
        let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        assert_eq!(client.server()["name"], "switchboard", "{what}");
        let tools = client.tools().await.unwrap();
        let tools = names(&tools);
        assert!(tools.contains(&"it__add") && tools.contains(&"rude__echo"), "{what}: {tools:?}");
        let sum = client.call_tool("it__add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(text(&sum), "3", "{what}");
        let echo = client.call_tool("rude__echo", json!({"text": what})).await.unwrap();
        assert_eq!(text(&echo), what);
        let args = json!({"arg1": "x", "arg2": "y"});
        let prompt = client.prompt("it__test_prompt_with_arguments", args).await.unwrap();
        let said = prompt["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(said.contains("arg1='x'"), "{what}: {prompt}");
        let read = client.read("test://static-text").await.unwrap();
        assert_eq!(read["contents"][0]["uri"], "test://static-text", "{what}");
        let read = client.read("test://template/7/data").await.unwrap();
        assert!(read["contents"][0]["text"].as_str().unwrap().contains('7'), "{what}: {read}");
        let missing = client.read("nowhere://1").await.unwrap_err();
        assert!(matches!(missing, CallError::Server { .. }), "{what}: {missing}");
        let complete = json!({
            "ref": {"type": "ref/prompt", "name": "it__test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "par"},
        });
        let completed = client.request("completion/complete", complete).await.unwrap();
        let values = &completed["completion"]["values"];
        assert_eq!(*values, json!(["paris", "park", "party"]), "{what}");
        let unknown = client.call_tool("it__nothing", json!({})).await.unwrap_err();
        // A server with a process for each session may know more than it lists, so it is asked.
        assert!(unknown.to_string().contains("Unknown tool: nothing"), "{what}: {unknown}");
    })
    .await;
}

/// Answers questions, and keeps what it is told.
pub(super) fn asked(told: &Arc<Mutex<Vec<Value>>>) -> ClientOptions {
    let told = Arc::clone(told);
    let options = ClientOptions::default().log_level("info");
    options
        .on_elicitation(async |form| {
            let name = form["message"].clone();
            Ok(json!({"action": "accept", "content": {"response": name, "name": name}}))
        })
        .on_sampling(async |_| {
            let content = json!({"type": "text", "text": "the model says so"});
            Ok(json!({"role": "assistant", "content": content, "model": "m"}))
        })
        .on_notification(move |note| {
            told.lock().unwrap().push(json!({"method": note.method, "params": note.params}));
        })
}

/// wire: GW-83
#[tokio::test]
async fn questions_progress_and_logs_go_to_who_made_the_call() {
    with_each(async |gateway, era, what| {
        let (mine, theirs) = (Arc::default(), Arc::default());
        let client = gateway.client_at("/mcp", era, asked(&mine)).await;
        let unasked = asked(&theirs).on_elicitation(async |_| panic!("another's question"));
        let other = gateway.client_at("/mcp", era, unasked).await;
        assert_eq!(text(&other.call_tool("it__add", json!({"a": 1, "b": 1})).await.unwrap()), "2");
        let answer =
            client.call_tool("it__test_elicitation", json!({"message": what})).await.unwrap();
        assert!(text(&answer).contains(what), "{what}: {answer}");
        let answer = client.call_tool("it__test_sampling", json!({"prompt": "say"})).await.unwrap();
        assert!(text(&answer).contains("the model says so"), "{what}: {answer}");
        let steps = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&steps);
        let options = CallOptions::default()
            .on_progress(move |progress| seen.lock().unwrap().push(progress.progress));
        let call = client.call_tool_with("it__test_tool_with_progress", json!({}), options);
        call.await.unwrap();
        assert_eq!(*steps.lock().unwrap(), [0.0, 50.0, 100.0], "{what}");
        client.call_tool("it__test_tool_with_logging", json!({})).await.unwrap();
        let logs = |told: &Mutex<Vec<Value>>| {
            let told = told.lock().unwrap();
            told.iter().filter(|note| note["method"] == "notifications/message").count()
        };
        assert_eq!((logs(&mine), logs(&theirs)), (3, 0), "{what}");
    })
    .await;
}

/// wire: GW-22, GW-51
#[tokio::test]
async fn who_watches_a_resource_of_a_server_hears_that_it_changed() {
    with_each(async |gateway, era, what| {
        let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let uri = "test://watched-resource".to_owned();
        let filter = ListenFilter { uris: vec![uri.clone()], ..ListenFilter::default() };
        let mut listening = client.listen(filter).await.unwrap();
        assert_eq!(listening.honoured()["resourceSubscriptions"], json!([uri]), "{what}");
        touch(&client).await;
        let heard = listening.next().await.unwrap();
        assert_eq!(heard.method, "notifications/resources/updated", "{what}");
        assert_eq!(heard.params["uri"], uri, "{what}");
    })
    .await;
}

/// wire: GW-22, GW-51
#[tokio::test]
async fn only_who_watches_a_resource_hears_that_it_changed() {
    with_each(async |gateway, era, what| {
        let told = Arc::default();
        let watcher = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let other = gateway.client_at("/mcp", era, asked(&told)).await;
        let uris =
            |uri: &str| ListenFilter { uris: vec![uri.to_owned()], ..ListenFilter::default() };
        let mut watching = watcher.listen(uris("test://watched-resource")).await.unwrap();
        // Something else of the same server.
        let elsewhere = other.listen(uris("test://static-text")).await.unwrap();
        touch(&watcher).await;
        assert_eq!(
            watching.next().await.unwrap().params["uri"],
            "test://watched-resource",
            "{what}"
        );
        // What it was told by now has arrived before the answer.
        other.call_tool("it__add", json!({"a": 1, "b": 1})).await.unwrap();
        let updates = told
            .lock()
            .unwrap()
            .iter()
            .any(|note: &Value| note["method"] == "notifications/resources/updated");
        assert!(!updates, "{what}");
        elsewhere.close().await;
    })
    .await;
}

/// wire: GW-18, GW-52
#[tokio::test]
async fn a_dropped_call_is_dropped_whatever_its_server_speaks() {
    for server in ["legacy", "modern"] {
        let servers = json!({"it": demo(&["--era", server]), "rude": rude()});
        let gateway = Gateway::start(&servers);
        for era in ERAS {
            let client = gateway.client(era, &["it", "rude"]).await;
            let caller = client.clone();
            let arguments = json!({"seconds": 60});
            let call =
                tokio::spawn(async move { caller.call_tool("it__slow_compute", arguments).await });
            gateway.until_calls("it", 1).await;
            call.abort();
            gateway.until_calls("it", 0).await;
            let sum = client.call_tool("it__add", json!({"a": 1, "b": 2})).await.unwrap();
            assert_eq!(text(&sum), "3", "{era:?} client, {server} server");
        }
    }
}

async fn touch(client: &Client) {
    client.call_tool("it__touch", json!({})).await.unwrap();
}

/// wire: GW-52
#[tokio::test]
async fn a_call_that_nobody_wants_any_more_is_dropped_at_its_server() {
    let gateway = Gateway::start(&json!({"a": rude(), "b": rude()}));
    let until_calls = |wanted: u64| gateway.until_calls("a", wanted);
    for era in ERAS {
        let client = gateway.client(era, &["a", "b"]).await;
        let file = gateway.home.path.join("never");
        let arguments = json!({"file": file.to_str().unwrap()});
        let caller = client.clone();
        let call = tokio::spawn(async move { caller.call_tool("a__wait", arguments).await });
        until_calls(1).await;
        call.abort();
        until_calls(0).await;
        let echo = client.call_tool("b__echo", json!({"text": "still here"})).await.unwrap();
        assert_eq!(text(&echo), "still here");
    }
}

/// A call of a modern client, by hand.
pub(super) fn modern(port: u16, tool: &str, more: &Value) -> Value {
    let mut params = json!({"name": tool, "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }});
    for (member, value) in more.as_object().unwrap() {
        params[member] = value.clone();
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    post(port, &headers, call.to_string().as_bytes()).message()
}

/// wire: GW-83, MRTR-8
#[test]
fn what_a_server_lets_a_client_carry_goes_back_to_that_server_alone() {
    let servers = json!({"a": demo(&["--era", "modern"]), "b": demo(&["--era", "modern"])});
    let gateway = Gateway::start(&servers);
    gateway.until_ready(&["a", "b"]);
    let tool = "a__test_input_required_result_elicitation";
    let asked = modern(gateway.port, tool, &json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    let state = asked["result"]["requestState"].clone();
    let again = json!({"requestState": state, "inputResponses": {"user_name": answer}});
    let other = modern(gateway.port, &tool.replace("a__", "b__"), &again);
    assert!(other["error"]["message"].as_str().unwrap().contains("requestState"), "{other}");
    let mut forged = again.clone();
    forged["requestState"] = "made up".into();
    let refused = modern(gateway.port, tool, &forged);
    assert!(refused["error"]["message"].as_str().unwrap().contains("requestState"), "{refused}");
    let done = modern(gateway.port, tool, &again);
    assert_eq!(text(&done["result"]), "Hello, Ann!", "{done}");
}
