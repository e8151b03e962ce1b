//! Calls that go on as tasks, in both forms.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::server::{
    Builder, Context, Elicited, Error, Server, TaskSupport, Tool, ToolOutcome, ToolResult,
};
use tokio::sync::Notify;

use super::{Client, serve, text};
use switchboard_testkit::within;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A server whose slow tool waits for `gate`.
fn tasks(gate: &Arc<Notify>) -> Builder {
    let gate = Arc::clone(gate);
    let slow = Tool::new("slow").tasks(TaskSupport::Optional).run(move |args: Value, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            match args["how"].as_str() {
                Some("fail") => Ok(ToolOutcome::failure("E_NO", "no").into()),
                Some("break") => Err(Error::new(7, "broken")),
                _ => Ok(ToolResult::text("done")),
            }
        }
    });
    let must = Tool::new("must").tasks(TaskSupport::Required).run(async |_, _| "must");
    let never = Tool::new("never").run(async |_, _| "never");
    let ask = Tool::new("ask").tasks(TaskSupport::Optional).run(async |_, cx: Context| {
        let (a, b) = tokio::join!(
            cx.ask_as("a", "elicitation/create", json!({"message": "a?"})),
            cx.ask_as("b", "elicitation/create", json!({"message": "b?"})),
        );
        Ok::<_, Error>(format!("{} {}", a?["action"], b?["action"]))
    });
    let late = Tool::new("late").defers(TaskSupport::Optional).run(async |_, cx: Context| {
        let name = match cx.elicit("Name?", json!({"type": "object"})).await? {
            Elicited::Accept(content) => content["name"].as_str().unwrap_or_default().to_owned(),
            Elicited::Decline | Elicited::Cancel => return Ok("no name".into()),
        };
        cx.defer(async move |_| format!("late {name}")).await
    });
    Server::builder("tasks", "0").tool(slow).tool(must).tool(never).tool(ask).tool(late)
}

async fn legacy(gate: &Arc<Notify>) -> Client {
    let mut client = serve(tasks(gate));
    let hello = client.greet("2025-11-25", json!({"elicitation": {}})).await;
    let offered = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(hello["capabilities"]["tasks"], offered);
    client
}

fn modern(gate: &Arc<Notify>) -> Client {
    let mut client = serve(tasks(gate));
    client.capabilities = json!({"elicitation": {}, "extensions": {EXTENSION: {}}});
    client
}

fn slow(how: &str) -> Value {
    json!({"name": "slow", "arguments": {"how": how}, "task": {"ttl": 60000}})
}

/// wire: UTL-9
#[tokio::test]
async fn a_legacy_client_asks_for_a_task_and_waits_for_its_result() {
    let gate = Arc::new(Notify::new());
    let mut client = legacy(&gate).await;
    for (how, status) in [("", "completed"), ("fail", "failed"), ("break", "failed")] {
        let created = client.call("tools/call", slow(how)).await;
        let task = &created["result"]["task"];
        assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60000)));
        let id = json!({"taskId": task["taskId"]});
        assert_eq!(client.call("tasks/get", id.clone()).await["result"], *task);
        let waiting = client.request("tasks/result", id.clone()).await;
        gate.notify_one();
        let result = client.answer(waiting).await;
        if how == "break" {
            assert_eq!(result["error"]["code"], 7);
        } else {
            let related = &result["result"]["_meta"]["io.modelcontextprotocol/related-task"];
            assert_eq!(*related, id);
        }
        assert_eq!(client.call("tasks/get", id.clone()).await["result"]["status"], status);
        let cancelled = client.call("tasks/cancel", id).await;
        assert_eq!(cancelled["error"]["code"], -32602);
    }
    while client.heard_of("notifications/tasks/status").len() < 3 {
        let heard = client.hear().await;
        client.heard.push(heard);
    }
    let told = client.heard_of("notifications/tasks/status");
    let told: Vec<_> = told.iter().map(|note| note["params"]["status"].as_str().unwrap()).collect();
    assert_eq!(told, ["completed", "failed", "failed"]);
    let list = client.call("tasks/list", json!({})).await;
    assert_eq!(list["result"]["tasks"].as_array().unwrap().len(), 3);
}

/// wire: UTL-9
#[tokio::test]
async fn a_tool_says_whether_it_may_be_a_task() {
    let gate = Arc::new(Notify::new());
    let mut client = legacy(&gate).await;
    let list = client.call("tools/list", json!({})).await;
    let support = |index: usize| list["result"]["tools"][index]["execution"]["taskSupport"].clone();
    assert_eq!(
        [support(0), support(1), support(2)],
        [json!("optional"), json!("required"), json!(null)]
    );
    let never = client.call("tools/call", json!({"name": "never", "task": {}})).await;
    assert_eq!(never["error"]["code"], -32601);
    let must = client.call("tools/call", json!({"name": "must"})).await;
    assert_eq!(must["error"]["code"], -32601);

    let mut old = serve(tasks(&gate));
    let hello = old.greet("2025-06-18", json!({})).await;
    assert!(hello["capabilities"].get("tasks").is_none());
    let must = old.call("tools/call", json!({"name": "must", "task": {}})).await;
    assert_eq!(text(&must), "must", "who has never heard of tasks waits");
    assert_eq!(old.call("tasks/list", json!({})).await["error"]["code"], -32601);
}

/// wire: UTL-9, TASK-8
#[tokio::test]
async fn tasks_of_one_client_are_nothing_to_another() {
    let gate = Arc::new(Notify::new());
    let server = tasks(&gate).build().unwrap();
    let mut clients = [Client::of(Arc::clone(&server)), Client::of(server)];
    for client in &mut clients {
        client.greet("2025-11-25", json!({})).await;
    }
    let [owner, other] = &mut clients;
    let created = owner.call("tools/call", slow("")).await;
    let id = json!({"taskId": created["result"]["task"]["taskId"]});
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(other.call(method, id.clone()).await["error"]["code"], -32602, "{method}");
    }
    assert_eq!(other.call("tasks/list", json!({})).await["result"]["tasks"], json!([]));
    let cancelled = owner.call("tasks/cancel", id).await;
    assert_eq!(cancelled["result"]["status"], "cancelled");
}

#[tokio::test]
async fn a_task_of_a_legacy_client_asks_by_requests_that_name_it() {
    let mut client = legacy(&Arc::new(Notify::new())).await;
    let created = client.call("tools/call", json!({"name": "ask", "task": {}})).await;
    let id = created["result"]["task"]["taskId"].clone();
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let question = client.hear_of("elicitation/create").await;
        let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
        assert_eq!(related["taskId"], id);
        asked.push(question["id"].clone());
    }
    let task = client.call("tasks/get", json!({"taskId": id})).await;
    assert_eq!(task["result"]["status"], "input_required");
    for question in asked {
        client.say(json!({"jsonrpc": "2.0", "id": question, "result": {"action": "accept"}})).await;
    }
    let result = client.call("tasks/result", json!({"taskId": id})).await;
    assert_eq!(text(&result), r#""accept" "accept""#);
}

/// wire: TASK-1, TASK-2, TASK-3, TASK-4, TASK-9, DIV-12
#[tokio::test]
async fn a_modern_server_decides_and_its_client_polls() {
    let gate = Arc::new(Notify::new());
    let mut client = modern(&gate);
    let discovered = client.modern("server/discover", json!({})).await;
    assert_eq!(discovered["result"]["capabilities"]["extensions"], json!({EXTENSION: {}}));
    assert!(discovered["result"]["capabilities"].get("tasks").is_none());
    for (how, status, member) in
        [("", "completed", "result"), ("fail", "completed", "result"), ("break", "failed", "error")]
    {
        let created = client.modern("tools/call", slow(how)).await["result"].clone();
        assert_eq!(
            (&created["resultType"], &created["status"]),
            (&json!("task"), &json!("working"))
        );
        assert!(created["ttlMs"].is_u64() && created["createdAt"].is_string());
        for gone in ["task", "ttl", "pollInterval", "result", "error"] {
            assert!(created.get(gone).is_none(), "{gone}");
        }
        let id = json!({"taskId": created["taskId"]});
        let task = client.modern("tasks/get", id.clone()).await["result"].clone();
        assert_eq!((&task["resultType"], &task["status"]), (&json!("complete"), &json!("working")));
        gate.notify_one();
        let over = poll(&mut client, &id, |task| task["status"] != "working").await;
        assert_eq!(over["status"], status);
        assert!(over.get(member).is_some(), "{over}");
        let ack = client.modern("tasks/cancel", id).await["result"].clone();
        assert!(ack.get("status").is_none());
        assert_eq!(ack["resultType"], "complete");
    }
    for method in ["tasks/result", "tasks/list"] {
        let gone = client.modern(method, json!({"taskId": "x"})).await;
        assert_eq!(gone["error"]["code"], -32601, "{method}");
    }
    let never = client.modern("tools/call", json!({"name": "never", "task": {}})).await;
    assert_eq!(text(&never), "never");
    let unknown = client.modern("tasks/get", json!({"taskId": "x"})).await;
    assert_eq!(unknown["error"]["code"], -32602);
}

pub(super) async fn poll(client: &mut Client, id: &Value, until: impl Fn(&Value) -> bool) -> Value {
    let polling = async {
        loop {
            let task = client.modern("tasks/get", id.clone()).await["result"].clone();
            if until(&task) {
                return task;
            }
            tokio::task::yield_now().await;
        }
    };
    within(polling).await
}

/// wire: TASK-1, TASK-6
#[tokio::test]
async fn without_the_extension_there_are_no_tasks() {
    let gate = Arc::new(Notify::new());
    let mut client = modern(&gate);
    client.capabilities = json!({"tasks": {}});
    gate.notify_one();
    assert_eq!(text(&client.modern("tools/call", slow("")).await), "done");
    let must = client.modern("tools/call", json!({"name": "must"})).await;
    assert_eq!(must["error"]["code"], -32021);
    let required = json!({"extensions": {EXTENSION: {}}});
    assert_eq!(must["error"]["data"]["requiredCapabilities"], required);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = client.modern(method, json!({"taskId": "x"})).await;
        assert_eq!(refused["error"]["code"], -32021, "{method}");
    }
}

/// wire: TASK-4, TASK-5, TASK-7
#[tokio::test]
async fn a_modern_task_asks_through_itself() {
    let mut client = modern(&Arc::new(Notify::new()));
    let created = client.modern("tools/call", json!({"name": "ask"})).await;
    let id = json!({"taskId": created["result"]["taskId"]});
    let asking = poll(&mut client, &id, |task| task["inputRequests"].get("b").is_some()).await;
    assert_eq!(asking["status"], "input_required");
    assert_eq!(asking["inputRequests"]["a"]["method"], "elicitation/create");

    let params = client.envelope(json!({"notifications": {"taskIds": [id["taskId"], "x"]}}));
    client.request("subscriptions/listen", params).await;
    let ack = client.hear().await;
    assert_eq!(ack["params"]["notifications"]["taskIds"], json!([id["taskId"]]));

    let update = |answers: Value| json!({"taskId": id["taskId"], "inputResponses": answers});
    let answers = json!({"a": {"action": "accept"}, "zz": {"action": "accept"}, "b": 7});
    client.modern("tasks/update", update(answers)).await;
    let left = client.modern("tasks/get", id.clone()).await["result"].clone();
    let keys: Vec<_> = left["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["b"]);
    client.modern("tasks/update", update(json!({"b": {"action": "decline"}}))).await;
    let over = poll(&mut client, &id, |task| task["status"] == "completed").await;
    assert_eq!(over["result"]["content"][0]["text"], r#""accept" "decline""#);
    while client
        .heard_of("notifications/tasks")
        .last()
        .is_none_or(|n| n["params"].get("result").is_none())
    {
        let heard = client.hear().await;
        client.heard.push(heard);
    }
}

/// wire: TASK-9, UTL-9
#[tokio::test]
async fn a_tool_may_ask_before_it_goes_on_as_a_task() {
    let mut client = legacy(&Arc::new(Notify::new())).await;
    for task in [true, false] {
        let mut call = json!({"name": "late"});
        if task {
            call["task"] = json!({});
        }
        let id = client.request("tools/call", call).await;
        let question = client.hear_of("elicitation/create").await;
        let answer = json!({"action": "accept", "content": {"name": "Ann"}});
        client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        let mut answer = client.answer(id).await;
        if task {
            let id = answer["result"]["task"]["taskId"].clone();
            answer = client.call("tasks/result", json!({"taskId": id})).await;
        }
        assert_eq!(text(&answer), "late Ann");
    }
}

/// wire: TASK-9, MRTR-5
#[tokio::test]
async fn a_modern_client_is_asked_before_the_task_is_made() {
    let mut client = modern(&Arc::new(Notify::new()));
    let asked = client.modern("tools/call", json!({"name": "late"})).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert!(asked.get("taskId").is_none());
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    let retry = json!({
        "name": "late", "requestState": asked["requestState"], "inputResponses": {key: answer}
    });
    let created = client.modern("tools/call", retry).await["result"].clone();
    assert_eq!(created["resultType"], "task");
    let id = json!({"taskId": created["taskId"]});
    let over = poll(&mut client, &id, |task| task["status"] == "completed").await;
    assert_eq!(over["result"]["content"][0]["text"], "late Ann");
}

/// wire: UTL-5, UTL-9
#[tokio::test]
async fn tasks_are_listed_in_pages_and_a_cancelled_one_has_no_result() {
    let gate = Arc::new(Notify::new());
    let mut client = serve(tasks(&gate).page_size(2));
    client.greet("2025-11-25", json!({})).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        let created = client.call("tools/call", slow("")).await;
        made.push(created["result"]["task"]["taskId"].as_str().unwrap().to_owned());
    }
    let (mut seen, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.call("tasks/list", params).await["result"].clone();
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= 2, "{page}");
        seen.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    made.sort();
    seen.sort();
    assert_eq!(seen, made);
    let wrong = client.call("tasks/list", json!({"cursor": "nonsense"})).await;
    assert_eq!(wrong["error"]["code"], -32602);

    let id = json!({"taskId": made[0]});
    let waiting = client.request("tasks/result", id.clone()).await;
    let cancelled = client.call("tasks/cancel", id.clone()).await;
    assert_eq!(cancelled["result"]["status"], "cancelled");
    let told = client.heard.iter().find(|message| message["id"] == waiting).cloned();
    let told = match told {
        Some(told) => told,
        None => client.answer(waiting).await,
    };
    assert_eq!(told["error"]["message"], "the task was cancelled", "who waits learns of it");
    let again = client.call("tasks/cancel", id).await;
    assert_eq!(again["error"]["code"], -32602);
}

/// wire: TASK-5, UTL-1
#[tokio::test]
async fn cancelling_the_request_does_not_cancel_its_task() {
    let gate = Arc::new(Notify::new());
    let mut client = legacy(&gate).await;
    let call = client.request("tools/call", slow("")).await;
    let created = client.answer(call).await;
    let cancel = json!({"requestId": call});
    client
        .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    let id = json!({"taskId": created["result"]["task"]["taskId"]});
    assert_eq!(client.call("tasks/get", id.clone()).await["result"]["status"], "working");
    gate.notify_one();
    assert_eq!(text(&client.call("tasks/result", id).await), "done");
}

#[tokio::test]
async fn a_cancelled_task_stops() {
    let gate = Arc::new(Notify::new());
    let mut client = modern(&gate);
    let created = client.modern("tools/call", slow("")).await;
    let id = json!({"taskId": created["result"]["taskId"]});
    client.modern("tasks/cancel", id.clone()).await;
    gate.notify_waiters();
    gate.notify_one();
    let task = client.modern("tasks/get", id).await;
    assert_eq!(task["result"]["status"], "cancelled");
    assert!(task["result"].get("result").is_none());
}

/// Says so when it is dropped.
struct Guard(Arc<Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_out_of_time_stops_although_nobody_asks_for_it() {
    let stopped = Arc::new(Notify::new());
    let theirs = Arc::clone(&stopped);
    let endless = Tool::new("endless").tasks(TaskSupport::Optional).run(move |_: Value, _| {
        let guard = Guard(Arc::clone(&theirs));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            "never"
        }
    });
    let mut client = serve(Server::builder("tasks", "0").tool(endless));
    client.greet("2025-11-25", json!({})).await;
    let call = json!({"name": "endless", "task": {"ttl": 1000}});
    let begun = client.call("tools/call", call).await;
    assert_eq!(begun["result"]["task"]["status"], "working", "{begun}");
    within(stopped.notified()).await;
}

#[tokio::test]
async fn closing_a_server_ends_the_work_of_its_tasks() {
    let gate = Arc::new(Notify::new());
    let mut client = modern(&gate);
    let idle = Arc::strong_count(&gate);
    let created = client.modern("tools/call", slow("")).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    while Arc::strong_count(&gate) == idle {
        tokio::task::yield_now().await;
    }
    client.server.close();
    let ended = async {
        while Arc::strong_count(&gate) > idle {
            tokio::task::yield_now().await;
        }
    };
    within(ended).await;
}
