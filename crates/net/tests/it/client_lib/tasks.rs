//! Calls that go on as tasks: with our own server, and with one that plays tricks.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_net::client::{CallError, Called, Client, ClientOptions, Task};
use switchboard_net::http::listen::{ListenOptions, serve};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_net::server::{Context, Error, Server, TaskSupport, Tool, ToolResult};
use switchboard_net::types::TaskStatus;
use switchboard_net::upstream::{self, Strategy};
use switchboard_proto::revision::Era;
use switchboard_testkit::http::{Hit, HttpServer};
use switchboard_testkit::within;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

use super::{discovered, modern};
use crate::upstream::fetch;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A server whose tools go on as tasks; the slow one until `gate` opens.
fn server(gate: &Arc<Notify>) -> Arc<Server> {
    let gate = Arc::clone(gate);
    let slow = Tool::new("slow").tasks(TaskSupport::Optional).run(move |args: Value, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            match args["how"].as_str() {
                Some("break") => Err(Error::new(7, "broken")),
                Some("fail") => Ok(ToolResult::error("no")),
                _ => Ok(ToolResult::text("done")),
            }
        }
    });
    let ask = Tool::new("ask").tasks(TaskSupport::Optional).run(async |_: Value, cx: Context| {
        let (a, b) = tokio::join!(
            cx.ask_as("a", "elicitation/create", json!({"message": "a"})),
            cx.ask_as("b", "elicitation/create", json!({"message": "b"})),
        );
        Ok::<_, Error>(format!("{} {}", a?["content"]["said"], b?["content"]["said"]))
    });
    let must = Tool::new("must").tasks(TaskSupport::Required).run(async |_: Value, _| "it had to");
    Server::builder("tasks", "0").tool(slow).tool(ask).tool(must).build().unwrap()
}

/// A client of that server, over HTTP; the server ends with what comes last.
async fn client(era: Era, gate: &Arc<Notify>) -> (Client, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let site = Site::new(server(gate), SiteOptions::default());
    let (stop, stopped) = oneshot::channel();
    let shutdown = async move { _ = stopped.await };
    tokio::spawn(serve(listener, site, ListenOptions::default(), shutdown));
    let options = ClientOptions::default().era(era);
    let options = options.on_elicitation(|params| async move {
        Ok(json!({"action": "accept", "content": {"said": params["message"]}}))
    });
    let target = upstream::ServerTarget::url(url, Strategy::HttpOnly, HeaderMap::new(), fetch());
    (within(options.connect(target)).await.unwrap(), stop)
}

async fn begun(client: &Client, tool: &str, args: Value) -> Task {
    let ttl = Some(Duration::from_mins(1));
    match within(client.call_tool_as_task(tool, args, ttl)).await.unwrap() {
        Called::Task(task) => task,
        Called::Done(result) => panic!("no task: {result}"),
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// wire: UTL-9, TASK-1, TASK-3, TASK-4, TASK-6, EXT-1
#[tokio::test]
async fn a_task_is_waited_for_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let gate = Arc::new(Notify::new());
        let (client, _stop) = client(era, &gate).await;
        let mut task = begun(&client, "slow", json!({})).await;
        assert_eq!(task.status(), "working");
        gate.notify_one();
        assert_eq!(text(&within(task.result()).await.unwrap()), "done", "{era:?}");

        let mut task = begun(&client, "slow", json!({"how": "fail"})).await;
        gate.notify_one();
        assert_eq!(within(task.result()).await.unwrap()["isError"], true, "{era:?}");

        let task = begun(&client, "slow", json!({"how": "break"})).await;
        gate.notify_one();
        // Under its id alone, as after a restart.
        let ended = within(client.task(task.id()).result()).await;
        assert!(matches!(ended, Err(CallError::Server { code: 7, .. })), "{era:?}: {ended:?}");
        within(client.close()).await;
    }
}

/// wire: UTL-9, TASK-5
#[tokio::test]
async fn what_a_task_asks_is_answered_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let (client, _stop) = client(era, &Arc::default()).await;
        let mut task = begun(&client, "ask", json!({})).await;
        let result = within(task.result()).await.unwrap();
        assert_eq!(text(&result), r#""a" "b""#, "{era:?}");
        within(client.close()).await;
    }
}

/// wire: UTL-9, TASK-5
#[tokio::test]
async fn a_task_can_be_cancelled_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let (client, _stop) = client(era, &Arc::default()).await;
        let mut task = begun(&client, "slow", json!({})).await;
        within(task.cancel()).await.unwrap();
        assert_eq!(within(task.result()).await, Err(CallError::Cancelled), "{era:?}");
        let listed = within(client.tasks()).await;
        match era {
            Era::Legacy => assert_eq!(listed.unwrap()[0]["taskId"], task.id()),
            Era::Modern => assert!(matches!(listed, Err(CallError::Unsupported { .. }))),
        }
        within(client.close()).await;
    }
}

/// What a scripted server makes of a call.
fn created(interval: u64) -> Value {
    json!({
        "resultType": "task", "taskId": "t1", "status": "working", "ttlMs": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "pollIntervalMs": interval,
    })
}

fn extensions(hit: &Hit) -> Value {
    let meta = &hit.message()["params"]["_meta"];
    meta["io.modelcontextprotocol/clientCapabilities"]["extensions"].clone()
}

/// A client of a scripted server that has tasks.
async fn with_tasks(server: &mut HttpServer) -> Client {
    let options = ClientOptions::default()
        .on_elicitation(|params| async move { Ok(json!({"action": params["message"]})) });
    let connecting = options.connect(super::at(server));
    let answering = async {
        let mut welcome = discovered();
        welcome["capabilities"]["extensions"][EXTENSION] = json!({});
        server.post("server/discover").await.result(welcome).await;
    };
    tokio::join!(connecting, answering).0.unwrap()
}

/// wire: TASK-5, TASK-6, TASK-8, HDR-3
#[tokio::test]
async fn a_question_is_answered_once_however_often_it_is_listed() {
    let mut server = HttpServer::start().await;
    let client = with_tasks(&mut server).await;
    let question =
        |text: &str| json!({"method": "elicitation/create", "params": {"message": text}});
    let (result, ()) = tokio::join!(
        async { within(client.call_tool_as_task("x", json!({}), None)).await?.result().await },
        async {
            let hit = server.post("tools/call").await;
            assert_eq!(extensions(&hit), json!({EXTENSION: {}}));
            hit.result(created(1)).await;
            for (requests, answers) in [
                (json!({"a": question("a")}), json!({"a": {"action": "a"}})),
                (json!({"a": question("a"), "b": question("b")}), json!({"b": {"action": "b"}})),
            ] {
                let hit = server.post("tasks/get").await;
                assert_eq!(hit.header("mcp-name"), Some("t1"));
                assert_eq!(extensions(&hit), json!({EXTENSION: {}}));
                let mut state = created(1);
                state["resultType"] = "complete".into();
                state["status"] = "input_required".into();
                state["inputRequests"] = requests;
                hit.result(state).await;
                let hit = server.post("tasks/update").await;
                assert_eq!(hit.message()["params"]["inputResponses"], answers);
                hit.result(json!({"resultType": "complete"})).await;
            }
            let mut state = created(1);
            state["resultType"] = "complete".into();
            state["status"] = "completed".into();
            state["result"] = json!({"content": []});
            server.post("tasks/get").await.result(state).await;
        }
    );
    assert_eq!(result.unwrap(), json!({"content": []}));
}

/// wire: EXT-1, LIF-3
#[tokio::test]
async fn what_the_server_does_not_offer_is_not_used() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let (called, ()) = tokio::join!(client.call_tool_as_task("x", json!({}), None), async {
        let hit = server.post("tools/call").await;
        assert_eq!(extensions(&hit), Value::Null);
        hit.result(json!({"resultType": "complete", "content": []})).await;
    });
    assert!(matches!(called.unwrap(), Called::Done(_)));
    let client = super::legacy(&mut server, ClientOptions::default()).await;
    let (called, ()) = tokio::join!(client.call_tool_as_task("x", json!({}), None), async {
        let hit = server.post("tools/call").await;
        assert_eq!(hit.message()["params"].get("task"), None);
        hit.result(json!({"content": [], "task": {"taskId": "not one"}})).await;
    });
    assert!(matches!(called.unwrap(), Called::Done(_)));
    let unsupported = |error| matches!(error, CallError::Unsupported { .. });
    assert!(unsupported(client.tasks().await.unwrap_err()));
    assert!(unsupported(client.task("t").cancel().await.unwrap_err()));
    assert!(unsupported(client.task("t").update(serde_json::Map::new()).await.unwrap_err()));
    assert_eq!(server.waiting(|_| true), 0, "nobody was asked");
}

/// wire: TASK-1
#[tokio::test]
async fn a_task_that_was_not_welcome_is_refused_and_one_that_was_is_waited_for() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let (called, ()) = tokio::join!(client.call_tool("x", json!({})), async {
        server.post("tools/call").await.result(created(1)).await;
    });
    assert!(matches!(called, Err(CallError::Unusable { .. })), "{called:?}");
    let capabilities = json!({"extensions": {EXTENSION: {}}}).as_object().unwrap().clone();
    let options = ClientOptions::default().capabilities(capabilities);
    let client = modern(&mut server, options).await;
    let (called, ()) = tokio::join!(client.call_tool("x", json!({})), async {
        server.post("tools/call").await.result(created(1)).await;
        let mut state = created(1);
        state["resultType"] = "complete".into();
        state["status"] = "completed".into();
        state["result"] = json!({"content": ["late"]});
        server.post("tasks/get").await.result(state).await;
    });
    assert_eq!(called.unwrap(), json!({"content": ["late"]}));
}

/// wire: UTL-9, TASK-1, EXT-1
#[tokio::test]
async fn a_tool_that_runs_only_as_a_task_is_called_as_one() {
    for era in [Era::Legacy, Era::Modern] {
        let (client, _stop) = client(era, &Arc::new(Notify::new())).await;
        let result = within(client.call_tool("must", json!({}))).await.unwrap();
        assert_eq!(text(&result), "it had to", "{era:?}");
        let unknown = within(client.call_tool("none", json!({}))).await.unwrap_err();
        assert!(matches!(unknown, CallError::Server { code: -32602, .. }), "{unknown}");
    }
}

/// wire: UTL-9
#[tokio::test]
async fn tasks_are_typed() {
    let (client, _stop) = client(Era::Legacy, &Arc::default()).await;
    let task = begun(&client, "slow", json!({})).await;
    let state = task.typed().unwrap();
    assert_eq!((&*state.task_id, &state.status), (task.id(), &TaskStatus::Working));
    let listed = within(client.typed().tasks()).await.unwrap();
    assert_eq!((listed.len(), &listed[0].task_id), (1, &state.task_id));
    within(client.close()).await;
}
