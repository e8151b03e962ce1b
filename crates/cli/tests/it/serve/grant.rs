//! What somebody has under way while what they may use changes.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_net::client::{Called, Client, ClientOptions, ListenFilter};
use switchboard_proto::revision::Era;

use super::access::{ADA, ROOT, key, keyed};
use super::{ERAS, Gateway, demo, eventually, late, names, rude_with, text};
use crate::named::Home;
use crate::process::PATIENCE;

/// What the file says while `ada` may use these servers.
fn granting(ada: &[&str]) -> Value {
    let keys = json!({"ada": key(ADA, json!({"servers": ada})), "root": key(ROOT, json!({}))});
    json!({"switchboard": {"keys": keys}})
}

/// A gateway with these servers, both of which `ada` may use.
fn gateway(servers: &Value) -> Gateway {
    let gateway = keyed(servers, granting(&["a", "b"])["switchboard"].clone());
    gateway.ready(&["a", "b"]);
    gateway
}

async fn begin(client: &Client, tool: &str, seconds: f64) -> switchboard_net::client::Task {
    let arguments = json!({"seconds": seconds, "label": "it"});
    match client.call_tool_as_task(tool, arguments, None).await.unwrap() {
        Called::Task(task) => task,
        Called::Done(result) => panic!("no task: {result}"),
    }
}

/// wire: GW-59, TASK-8
#[tokio::test]
async fn tasks_go_on_under_another_grant_where_their_server_is_still_granted() {
    for (era, word) in [(Era::Legacy, "legacy"), (Era::Modern, "modern")] {
        let server = demo(&["--era", word]);
        let servers = json!({"a": server, "b": server});
        let mut gateway = gateway(&servers);
        let told = Arc::new(Mutex::new(Vec::new()));
        let hearing = Arc::clone(&told);
        let options = ClientOptions::default().on_notification(move |note| {
            if note.method == "notifications/tasks/status" {
                hearing.lock().unwrap().push(note.params);
            }
        });
        let ada = gateway.client_as_with(ADA, "/mcp", era, options).await;
        let mut before = begin(&ada, "a__slow_compute", 0.05).await;
        let mut lost = begin(&ada, "b__slow_compute", 60.0).await;
        gateway.rewrite(&servers, &granting(&["a"]));
        let id = before.id().to_owned();
        assert_eq!(before.refresh().await.unwrap()["taskId"], id, "{era:?}");
        assert!(text(&before.result().await.unwrap()).contains("Computed it"), "{era:?}");
        let mut after = begin(&ada, "a__slow_compute", 0.05).await;
        assert!(after.id().contains('.'), "{era:?}: {} is an id of ours", after.id());
        let done = after.result().await.unwrap();
        assert!(text(&done).contains("Computed it"), "{era:?}");
        if era == Era::Legacy {
            let related = &done["_meta"]["io.modelcontextprotocol/related-task"];
            assert_eq!(related["taskId"], after.id());
            let listed = ada.tasks().await.unwrap();
            let listed: Vec<_> = listed.iter().map(|task| task["taskId"].clone()).collect();
            assert_eq!(listed.len(), 2, "{listed:?}");
            assert!(listed.contains(&json!(id)) && listed.contains(&json!(after.id())));
            eventually("it is told", || {
                told.lock().unwrap().iter().any(|state| state["taskId"] == after.id())
            })
            .await;
            let ids = [id.as_str(), after.id(), lost.id()];
            let is_ours = |state: &Value| ids.iter().any(|id| state["taskId"] == **id);
            assert!(told.lock().unwrap().iter().all(is_ours), "{told:?}");
        }
        let refused = lost.refresh().await.unwrap_err();
        assert!(refused.to_string().contains("-32602"), "{era:?}: {refused}");
    }
}

/// wire: CAN-1, CAN-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_server_that_is_not_granted_any_more_is_given_up_there() {
    for era in ERAS {
        for process in ["shared", "per-session"] {
            let server = rude_with(&["hang"], &json!({"process": process}));
            let servers = json!({"a": server, "b": server});
            let mut gateway = gateway(&servers);
            let ada = gateway.client_as(ADA, "/mcp", era).await;
            let caller = ada.clone();
            let call = async move { caller.call_tool("b__hang", json!({})).await };
            let call = tokio::spawn(call);
            gateway.process.until_logged("hanging");
            gateway.rewrite(&servers, &granting(&["a"]));
            if era == Era::Legacy {
                let failed = tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap();
                assert!(failed.unwrap_err().to_string().contains("Transport closed"), "{process}");
            } else {
                call.abort();
            }
            let is_told = era == Era::Modern || process == "shared";
            let words = if is_told { "told to give up" } else { "server saw the end of stdin" };
            // It may have been told before the file was in force.
            if !gateway.process.logged.iter().any(|line| line.contains(words)) {
                gateway.process.until_logged(words);
            }
            let echo = ada.call_tool("a__echo", json!({"text": "on"})).await.unwrap();
            assert_eq!(text(&echo), "on", "{era:?} {process}");
        }
    }
}

#[tokio::test]
async fn a_call_that_waits_for_input_goes_on_under_another_grant() {
    let home = Home::new();
    let servers = json!({"a": late(&home, "--era modern"), "b": rude_with(&[], &json!({}))});
    let mut gateway = Gateway::start_in(home, &servers, &granting(&["a", "b"]));
    gateway.ready(&["b"]);
    let (asked, heard) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let once = Arc::new(Mutex::new(Some((asked, wait))));
    let options = ClientOptions::default().on_elicitation(move |_| {
        let once = once.lock().unwrap().take();
        async move {
            if let Some((asked, wait)) = once {
                asked.send(()).unwrap();
                wait.await.unwrap();
            }
            Ok(json!({"action": "accept", "content": {"confirm": true}}))
        }
    });
    let ada = gateway.client_as_with(ADA, "/mcp", Era::Modern, options).await;
    let call =
        tokio::spawn(
            async move { ada.call_tool("a__confirm_delete", json!({"filename": "x"})).await },
        );
    // It waits for its server, and what that says first comes under another grant.
    eventually("it waits", || gateway.status_as(ROOT).message()["servers"]["a"]["queued"] == 1)
        .await;
    gateway.rewrite(&servers, &granting(&["a"]));
    fs::write(gateway.home.path.join("go"), "").unwrap();
    heard.await.unwrap();
    gateway.rewrite(&servers, &granting(&["a", "b"]));
    go.send(()).unwrap();
    assert_eq!(text(&call.await.unwrap().unwrap()), "Deleted x");
}

/// Both at a server's own path, where sessions hear of it, and where all are together.
#[tokio::test]
async fn who_may_use_other_tools_hears_that_the_list_is_another() {
    let servers = json!({"a": rude_with(&["pid"], &json!({}))});
    let keys = |tools: &[&str]| {
        let ada = key(ADA, json!({"includeTools": tools}));
        json!({"switchboard": {"keys": {"ada": ada, "root": key(ROOT, json!({}))}}})
    };
    let mut gateway = keyed(&servers, keys(&["a__echo"])["switchboard"].clone());
    gateway.ready(&["a"]);
    for (path, prefix) in [("/servers/a/mcp", ""), ("/mcp", "a__")] {
        let ada = gateway.client_as(ADA, path, Era::Legacy).await;
        let shown =
            |names: &[&str]| names.iter().map(|name| format!("{prefix}{name}")).collect::<Vec<_>>();
        assert_eq!(names(&ada.tools().await.unwrap()), shown(&["echo"]), "{path}");
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let mut heard = ada.listen(filter).await.unwrap();
        gateway.rewrite(&servers, &keys(&["a__echo", "a__pid"]));
        let note = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
        assert_eq!(note.method, "notifications/tools/list_changed", "{path}");
        assert_eq!(names(&ada.tools().await.unwrap()), shown(&["echo", "pid"]), "{path}");
        gateway.rewrite(&servers, &keys(&["a__echo"]));
    }
}

#[tokio::test]
async fn tools_of_our_own_that_come_and_go_are_told() {
    let servers = json!({"a": rude_with(&[], &json!({}))});
    for era in ERAS {
        let mut gateway = Gateway::start(&servers);
        let client = gateway.client(era, &["a"]).await;
        let filter = ListenFilter { tools: true, ..ListenFilter::default() };
        let mut heard = client.listen(filter).await.unwrap();
        for (diagnostics, count) in [(true, 3), (false, 1)] {
            gateway.rewrite(&servers, &json!({"switchboard": {"diagnostics": diagnostics}}));
            let note = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
            assert_eq!(note.method, "notifications/tools/list_changed", "{era:?}");
            assert_eq!(client.tools().await.unwrap().len(), count, "{era:?}");
        }
    }
}

/// Legacy clients are told of it; a listen ends, for its client to look and listen again.
///
/// wire: SUB-8
#[tokio::test]
async fn who_listens_at_a_server_alone_looks_again_when_they_may_see_something_else() {
    let section = |tools: &[&str]| {
        let ada = key(ADA, json!({"servers": ["a"], "includeTools": tools}));
        json!({"switchboard": {"keys": {"ada": ada, "root": key(ROOT, json!({}))}}})
    };
    let hiding = |tools: &[&str]| {
        let mut server = demo(&[]);
        server["excludeTools"] = json!(tools);
        json!({"a": server})
    };
    let mut gateway = keyed(&hiding(&[]), section(&["a__echo"])["switchboard"].clone());
    gateway.ready(&["a"]);
    let ada = gateway.client_as(ADA, "/servers/a/mcp", Era::Modern).await;
    let root = gateway.client_as(ROOT, "/servers/a/mcp", Era::Modern).await;
    let filter = || ListenFilter { tools: true, ..ListenFilter::default() };
    let mut adas = ada.listen(filter()).await.unwrap();
    let mut roots = root.listen(filter()).await.unwrap();
    gateway.rewrite(&hiding(&[]), &section(&["a__echo", "a__add"]));
    let ended = tokio::time::timeout(PATIENCE, adas.next()).await;
    assert!(ended.unwrap().is_none(), "ada may see another tool");
    assert_eq!(names(&ada.tools().await.unwrap()), ["echo", "add"]);
    adas = ada.listen(filter()).await.unwrap();
    // Whom it does not concern hears of nothing until all see something else.
    gateway.rewrite(&hiding(&["add"]), &section(&["a__echo", "a__add"]));
    for (who, listening) in [("ada", &mut adas), ("root", &mut roots)] {
        let ended = tokio::time::timeout(PATIENCE, listening.next()).await;
        assert!(ended.unwrap().is_none(), "{who}");
    }
    assert_eq!(names(&ada.tools().await.unwrap()), ["echo"]);
}
