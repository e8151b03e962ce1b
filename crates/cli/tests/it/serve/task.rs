//! Tasks of many servers, in both eras: found by their owner alone.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_net::client::{CallError, Called, Client, ClientOptions, Task};
use switchboard_proto::revision::Era;

use super::{ERAS, Gateway, demo, eventually, rude, text};
use crate::named::Home;
use crate::process::PATIENCE;
use crate::web::{Response, post};

/// Two servers of an era with tasks, and one without.
fn gateway(era: &str) -> Gateway {
    let server = demo(&["--era", era]);
    let gateway = Gateway::start(&json!({"a": server, "b": server, "rude": rude()}));
    gateway.until_ready(&["a", "b", "rude"]);
    gateway
}

/// Who has tasks of whom: legacy clients not those of modern servers (GW-27).
pub(super) const PAIRS: [(Era, &str); 3] =
    [(Era::Legacy, "legacy"), (Era::Modern, "modern"), (Era::Modern, "legacy")];

pub(super) async fn begin(client: &Client, tool: &str, arguments: Value) -> Task {
    match client.call_tool_as_task(tool, arguments, None).await.unwrap() {
        Called::Task(task) => task,
        Called::Done(result) => panic!("no task: {result}"),
    }
}

fn confirming() -> ClientOptions {
    ClientOptions::default()
        .on_elicitation(async |_| Ok(json!({"action": "accept", "content": {"confirm": true}})))
}

/// wire: GW-59, TASK-2, TASK-4, UTL-9
#[tokio::test]
async fn tasks_of_two_servers_each_come_to_their_own_end() {
    for (era, server) in PAIRS {
        let what = format!("{era:?} client, {server} servers");
        let gateway = gateway(server);
        let client = gateway.client_at("/mcp", era, confirming()).await;
        let slow = |label: &str| json!({"seconds": 0.05, "label": label});
        let mut one = begin(&client, "a__slow_compute", slow("one")).await;
        let mut other = begin(&client, "b__slow_compute", slow("other")).await;
        assert_ne!(one.id(), other.id());
        let id = one.id().to_owned();
        assert_eq!(one.refresh().await.unwrap()["taskId"], id, "{what}");
        assert!(text(&other.result().await.unwrap()).contains("Computed other"), "{what}");
        let done = one.result().await.unwrap();
        assert!(text(&done).contains("Computed one"), "{what}");
        if era == Era::Legacy {
            let related = &done["_meta"]["io.modelcontextprotocol/related-task"];
            assert_eq!(related["taskId"], id, "{what}: {done}");
        }
        let mut asking = begin(&client, "b__confirm_delete", json!({"filename": "x"})).await;
        assert_eq!(text(&asking.result().await.unwrap()), "Deleted x", "{what}");
    }
}

/// wire: GW-59, UTL-9
#[tokio::test]
async fn a_call_by_name_may_become_a_task_like_the_call_itself() {
    for (era, server) in PAIRS {
        let servers = json!({"a": demo(&["--era", server])});
        let more = json!({"switchboard": {"toolSearch": true}});
        let gateway = Gateway::start_in(Home::new(), &servers, &more);
        let client = gateway.client(era, &["a"]).await;
        let slow = json!({"name": "a__slow_compute", "arguments": {"seconds": 0, "label": "it"}});
        let mut task = begin(&client, "call_tool", slow).await;
        let done = task.result().await.unwrap();
        assert!(text(&done).contains("Computed it"), "{era:?} client, {server} server: {done}");
        let tools = client.tools().await.unwrap();
        let says = &tools[1]["execution"]["taskSupport"];
        assert_eq!(*says == "optional", era == Era::Legacy, "{era:?}: {tools:?}");
    }
}

/// wire: TASK-5, UTL-9
#[tokio::test]
async fn a_task_is_cancelled_at_its_server_and_an_unknown_one_is_refused() {
    for (era, server) in PAIRS {
        let gateway = gateway(server);
        let client = gateway.client_at("/mcp", era, ClientOptions::default()).await;
        let mut task = begin(&client, "a__slow_compute", json!({"seconds": 60})).await;
        task.cancel().await.unwrap();
        let ended = task.result().await.unwrap_err();
        assert!(matches!(ended, CallError::Cancelled), "{era:?} {server}: {ended}");
        let theirs = task.id().split_once('.').unwrap().1;
        for unknown in [theirs, "made-up"] {
            let refused = client.task(unknown).refresh().await.unwrap_err();
            assert!(refused.to_string().contains("-32602"), "{era:?} {server}: {refused}");
        }
    }
}

/// wire: UTL-9
#[tokio::test]
async fn a_legacy_client_lists_its_own_tasks_of_all_servers() {
    let gateway = gateway("legacy");
    let client = gateway.client_at("/mcp", Era::Legacy, ClientOptions::default()).await;
    let other = gateway.client_at("/mcp", Era::Legacy, ClientOptions::default()).await;
    assert_eq!(client.tasks().await.unwrap(), Vec::<Value>::new());
    let mut ids = Vec::new();
    for tool in ["a__slow_compute", "b__slow_compute", "a__slow_compute"] {
        let task = begin(&client, tool, json!({"seconds": 0})).await;
        ids.push(task.id().to_owned());
    }
    let theirs = begin(&other, "a__slow_compute", json!({"seconds": 0})).await;
    let listed = |tasks: Vec<Value>| {
        let mut ids: Vec<_> =
            tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    ids.sort();
    assert_eq!(listed(client.tasks().await.unwrap()), ids);
    assert_eq!(listed(other.tasks().await.unwrap()), [theirs.id()]);
    let refused = other.task(&ids[0]).refresh().await.unwrap_err();
    assert!(refused.to_string().contains("-32602"), "a task of another session: {refused}");
    let wrong = client.request("tasks/list", json!({"cursor": "made up"})).await.unwrap_err();
    assert!(wrong.to_string().contains("-32602"), "{wrong}");
}

/// wire: UTL-9
#[tokio::test]
async fn how_a_task_stands_is_told_to_its_owner_alone() {
    let gateway = gateway("legacy");
    let told = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    let listening = |told: &Arc<Mutex<Vec<Value>>>| {
        let told = Arc::clone(told);
        ClientOptions::default().on_notification(move |note| {
            if note.method == "notifications/tasks/status" {
                told.lock().unwrap().push(note.params);
            }
        })
    };
    let client = gateway.client_at("/mcp", Era::Legacy, listening(&told[0])).await;
    let other = gateway.client_at("/mcp", Era::Legacy, listening(&told[1])).await;
    other.call_tool("a__add", json!({"a": 1, "b": 2})).await.unwrap();
    let mut task = begin(&client, "a__slow_compute", json!({"seconds": 0.1})).await;
    task.result().await.unwrap();
    eventually("the owner is told", || !told[0].lock().unwrap().is_empty()).await;
    assert!(told[0].lock().unwrap().iter().all(|state| state["taskId"] == task.id()));
    other.call_tool("a__add", json!({"a": 1, "b": 2})).await.unwrap();
    assert_eq!(*told[1].lock().unwrap(), Vec::<Value>::new());
}

/// A request of a modern client by hand, with somebody's token: its headers and its body.
fn request(method: &str, params: &Value, token: &str) -> (Vec<(&'static str, String)>, String) {
    let mut params = params.clone();
    let extensions = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": extensions,
    });
    let named = params.get("name").or_else(|| params.get("taskId")).and_then(Value::as_str);
    let mut headers = vec![
        ("MCP-Protocol-Version", "2026-07-28".to_owned()),
        ("Mcp-Method", method.to_owned()),
        ("Authorization", token.to_owned()),
    ];
    headers.extend(named.map(|name| ("Mcp-Name", name.to_owned())));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    (headers, call.to_string())
}

fn modern(port: u16, method: &str, params: &Value, token: &str) -> Response {
    let (headers, body) = request(method, params, token);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    post(port, &headers, body.as_bytes())
}

/// wire: TASK-8
#[test]
fn a_task_is_there_only_for_whoever_it_was_made_for() {
    for era in ["modern", "legacy"] {
        let gateway = gateway(era);
        let call = json!({"name": "a__slow_compute", "arguments": {"seconds": 60}});
        let made = modern(gateway.port, "tools/call", &call, "Bearer one").message();
        let id = json!({"taskId": made["result"]["taskId"].as_str().unwrap()});
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let other = modern(gateway.port, method, &id, "Bearer other").message();
            assert_eq!(other["error"]["code"], -32602, "{method}: {other}");
        }
        let own = modern(gateway.port, "tasks/get", &id, "Bearer one").message();
        assert_eq!(own["result"]["status"], "working", "{own}");
        let ended = modern(gateway.port, "tasks/cancel", &id, "Bearer one").message();
        assert!(ended["result"].is_object(), "{ended}");
    }
}

/// Reads a stream until a line has all of these.
fn until_said(stream: &mut impl BufRead, parts: &[&str]) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {parts:?}");
        if parts.iter().all(|part| line.contains(part)) {
            return line;
        }
    }
}

/// wire: TASK-7
#[test]
fn who_listens_for_a_task_of_its_own_hears_how_it_stands() {
    let gateway = gateway("modern");
    let call = json!({"name": "b__slow_compute", "arguments": {"seconds": 60}});
    let made = modern(gateway.port, "tools/call", &call, "Bearer one").message();
    let id = made["result"]["taskId"].as_str().unwrap();
    let listen = |token: &str| {
        let wanted = json!({"notifications": {"taskIds": [id, "made-up"]}});
        let (headers, body) = request("subscriptions/listen", &wanted, token);
        let mut stream = TcpStream::connect(("127.0.0.1", gateway.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = head.concat();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{head}\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let begun = until_said(&mut stream, &["subscriptions/acknowledged"]);
        (stream, begun)
    };
    let (mut own, begun) = listen("Bearer one");
    assert!(begun.contains(&format!(r#""taskIds":["{id}"]"#)), "{begun}");
    let (_other, begun) = listen("Bearer other");
    assert!(!begun.contains("taskIds"), "a task of somebody else: {begun}");
    modern(gateway.port, "tasks/cancel", &json!({"taskId": id}), "Bearer one");
    until_said(&mut own, &["notifications/tasks", id, "cancelled"]);
}

/// wire: GW-27, TASK-6
#[tokio::test]
async fn tasks_are_declared_only_if_some_server_has_them() {
    let none = Gateway::start(&json!({"rude": rude()}));
    none.until_ready(&["rude"]);
    for era in ERAS {
        let client = none.client_at("/mcp", era, ClientOptions::default()).await;
        assert!(client.capabilities().get("tasks").is_none());
        assert!(client.capabilities()["extensions"].get("io.modelcontextprotocol/tasks").is_none());
        let refused = client.task("x").refresh().await.unwrap_err();
        assert!(refused.to_string().contains("-32601"), "{era:?}: {refused}");
    }
    let modern = gateway("modern");
    let legacy = modern.client_at("/mcp", Era::Legacy, ClientOptions::default()).await;
    assert!(legacy.capabilities().get("tasks").is_none(), "they cannot be had there");
    let undeclared = json!({"taskId": "x"});
    let client = modern.client_at("/mcp", Era::Modern, ClientOptions::default()).await;
    let refused = client.request("tasks/get", undeclared).await.unwrap_err();
    assert!(refused.to_string().contains("-32021"), "{refused}");
}
