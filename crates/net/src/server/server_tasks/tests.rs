//! What bounds the store.

use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method::meta;
use switchboard_proto::revision::Revision;

use super::*;
use crate::stdio;
use crate::stdio::StdioOptions;

fn caller() -> Caller {
    Caller::Request(Message::request(&Id::from(1), "tools/call", None))
}

fn task(ttl: Duration) -> Arc<ServerTask> {
    ServerTask::new(&caller(), (1, b"ann"), ttl, false).unwrap()
}

/// wire: TASK-8
#[test]
fn ids_of_tasks_cannot_be_guessed() {
    let ids: std::collections::BTreeSet<_> = (0..100).map(|_| task(TTL).id.clone()).collect();
    assert_eq!(ids.len(), 100);
    assert!(ids.iter().all(|id| id.len() == 32), "128 bits of randomness each");
}

/// wire: TASK-8
#[test]
fn a_task_is_found_by_who_began_it_and_by_nobody_else_who_knows_its_id() {
    let tasks = ServerTasks::default();
    let hers = task(TTL);
    tasks.add(Arc::clone(&hers)).unwrap();
    assert!(tasks.find(&hers.id, &caller(), b"ann").is_some());
    assert!(tasks.find(&hers.id, &caller(), b"bob").is_none());
}

#[test]
fn the_store_is_bounded_and_what_is_over_goes_first() {
    let tasks = ServerTasks::default();
    let all: Vec<_> = (0..MOST).map(|_| task(TTL)).collect();
    for task in &all {
        tasks.add(Arc::clone(task)).unwrap();
    }
    let refused = tasks.add(task(TTL)).unwrap_err();
    assert_eq!(refused.message, "too many tasks are running");
    let over = &all[7];
    over.end(TaskEnd::Result(Box::new(ToolResult::text("done"))));
    let newest = task(TTL);
    tasks.add(Arc::clone(&newest)).unwrap();
    assert!(tasks.find(&over.id, &caller(), b"ann").is_none());
    assert!(tasks.find(&newest.id, &caller(), b"ann").is_some());
    assert!(tasks.find(&all[0].id, &caller(), b"ann").is_some(), "what is at work stays");
    assert_eq!(lock(&tasks.by_id).len(), MOST);
}

#[tokio::test(start_paused = true)]
async fn nothing_outlives_its_time() {
    let tasks = ServerTasks::default();
    let (short, long) = (task(SHORTEST), task(LONGEST));
    tasks.add(Arc::clone(&short)).unwrap();
    tasks.add(Arc::clone(&long)).unwrap();
    tokio::time::advance(SHORTEST).await;
    assert!(tasks.find(&short.id, &caller(), b"ann").is_none());
    assert_eq!(short.to_json(Era::Modern)["status"], "cancelled");
    assert!(tasks.find(&long.id, &caller(), b"ann").is_some());
    tokio::time::advance(LONGEST).await;
    // Nobody asked: the next one sweeps.
    tasks.add(task(TTL)).unwrap();
    assert_eq!(long.to_json(Era::Legacy)["status"], "cancelled");
    assert_eq!(lock(&tasks.by_id).len(), 1);
}

#[test]
fn a_task_asks_a_bounded_number_of_questions_and_none_when_it_is_over() {
    let task = task(TTL);
    for n in 0..MOST_QUESTIONS {
        assert!(task.ask(Ask(n as u64), "", Some(json!({}))));
    }
    assert!(!task.ask(Ask(999), "", Some(json!({}))));
    task.close_question(Ask(0));
    assert!(task.ask(Ask(999), "mine", Some(json!({}))));
    task.close_question(Ask(1));
    assert!(!task.ask(Ask(1000), "mine", Some(json!({}))), "one of that name is open");
    task.end(TaskEnd::Cancelled);
    assert!(!task.ask(Ask(1001), "", Some(json!({}))));
    assert_eq!(task.to_full_json()["status"], "cancelled");
    assert!(task.to_full_json().get("inputRequests").is_none());
}

/// wire: TASK-3, UTL-9
#[test]
fn an_end_is_told_in_the_words_of_each_era() {
    let ends = [
        (TaskEnd::Result(Box::new(ToolResult::text("x"))), ["completed", "completed"]),
        (TaskEnd::Result(Box::new(ToolResult::error("x"))), ["failed", "completed"]),
        (TaskEnd::Error(Error::internal("x")), ["failed", "failed"]),
        (TaskEnd::Cancelled, ["cancelled", "cancelled"]),
    ];
    for (end, statuses) in ends {
        let task = task(TTL);
        assert_eq!(task.to_json(Era::Legacy)["status"], "working");
        task.end(end.clone());
        // Whatever comes later changes nothing.
        task.end(TaskEnd::Cancelled);
        let told = [Era::Legacy, Era::Modern].map(|era| task.to_json(era)["status"].clone());
        assert_eq!(told, statuses, "{end:?}");
    }
}

/// The work of a task may be called off before it is asked to go on for the first time.
#[tokio::test]
async fn a_task_that_is_cancelled_while_it_begins_is_over_and_watched_no_longer() {
    let tool =
        Tool::new("late").defers(TaskSupport::Optional).run(async |_: Value, cx: Context| {
            let begin = |cx: Context| {
                cx.state.server.tasks.cancel(|_| true);
                std::future::pending::<&'static str>()
            };
            cx.defer(begin).await
        });
    let server = Server::builder("tasks", "0").tool(tool).build().unwrap();
    let meta = json!({
        meta::VERSION: Revision::NEWEST_MODERN.as_str(),
        meta::CLIENT: {"name": "test", "version": "0"},
        meta::CAPABILITIES: {"extensions": {EXTENSION: {}}},
    });
    let params = json!({"name": "late", "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (input, mut answers) = (format!("{call}\n"), Vec::new());
    let (streams, never) = ((input.as_bytes(), &mut answers), std::future::pending());
    stdio::serve_on(streams, server, StdioOptions::default(), never).await.unwrap();
    let answer: Value = serde_json::from_slice(&answers).unwrap();
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let is_over = async {
        while alive() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(10), is_over).await;
    assert!(ended.is_ok(), "{} tasks go on", alive());
}
