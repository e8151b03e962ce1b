//! What stands around the calls of tools.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_net::server::{
    Content, Context, Error, Middleware, Next, Server, TaskSupport, Tool, ToolCall, ToolResult,
};

use super::task::poll;
use super::{Client, serve, text};
use switchboard_testkit::within;
use tokio::sync::mpsc;

type CallNotes = Arc<Mutex<Vec<String>>>;

/// Notes what passes, and what comes back.
struct Notes {
    name: &'static str,
    journal: CallNotes,
}

impl Middleware for Notes {
    async fn call(&self, call: ToolCall, next: Next) -> Result<ToolResult, Error> {
        let note = |what: String| self.journal.lock().unwrap().push(what);
        note(format!("{} {} {}", self.name, call.name(), call.arguments));
        let result = next.run(call).await;
        note(match &result {
            Ok(result) if result.is_task() => format!("{} task", self.name),
            Ok(result) => format!("{} failed={}", self.name, result.is_error()),
            Err(error) => {
                format!("{} {error}: {:?}", self.name, error.source().map(ToString::to_string))
            }
        });
        result
    }
}

/// Answers, changes arguments, or changes results.
struct Meddles;

impl Middleware for Meddles {
    async fn call(&self, mut call: ToolCall, next: Next) -> Result<ToolResult, Error> {
        match call.arguments["how"].as_str() {
            Some("answer") => return Ok(ToolResult::text("from the middle")),
            Some("refuse") => return Err(Error::invalid_params("not you")),
            Some("spoil") => call.arguments = json!({"n": "seven"}),
            Some("lie") => {
                call.arguments = json!({"n": 1});
                return Ok(next.run(call).await?.with_structured(json!("no number")));
            }
            Some(_) => call.arguments = json!({"n": 7}),
            None => {}
        }
        next.run(call).await
    }
}

fn double() -> Tool {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    Tool::new("double")
        .input_schema(&schema)
        .output_schema(&json!({"type": "integer"}))
        .run(async |args: Value, _| ToolResult::structured(args["n"].as_i64().unwrap() * 2))
}

fn meddled() -> (Client, CallNotes) {
    let journal = CallNotes::default();
    let broken = Tool::new("broken").run(async |_: Value, _| {
        let cause = io::Error::other("the disk is full");
        Err::<ToolResult, _>(Error::internal("cannot save").with_source(cause))
    });
    let notes = |name| Notes { name, journal: Arc::clone(&journal) };
    let builder = Server::builder("s", "0")
        .tool(double())
        .tool(broken)
        .middleware(notes("outer"))
        .middleware(Meddles)
        .middleware(notes("inner"));
    (serve(builder), journal)
}

async fn call(client: &mut Client, arguments: Value) -> Value {
    client.modern("tools/call", json!({"name": "double", "arguments": arguments})).await
}

/// The journal since the last look.
fn noted(journal: &CallNotes) -> Vec<String> {
    std::mem::take(&mut *journal.lock().unwrap())
}

#[tokio::test]
async fn the_first_is_the_outermost_and_sees_the_end_last() {
    let (mut client, journal) = meddled();
    assert_eq!(call(&mut client, json!({"n": 2})).await["result"]["structuredContent"], 4);
    let expected = [
        r#"outer double {"n":2}"#,
        r#"inner double {"n":2}"#,
        "inner failed=false",
        "outer failed=false",
    ];
    assert_eq!(noted(&journal), expected);
}

#[tokio::test]
async fn arguments_that_were_changed_are_checked() {
    let (mut client, journal) = meddled();
    assert_eq!(call(&mut client, json!({"how": "well"})).await["result"]["structuredContent"], 14);
    assert_eq!(noted(&journal)[1], r#"inner double {"n":7}"#);
    let spoiled = call(&mut client, json!({"how": "spoil"})).await;
    assert!(text(&spoiled).starts_with("invalid arguments: "), "{spoiled}");
    assert_eq!(noted(&journal)[3], "outer failed=true");
}

#[tokio::test]
async fn a_call_may_end_before_the_tool() {
    let (mut client, journal) = meddled();
    let refused = call(&mut client, json!({"how": "refuse"})).await;
    assert_eq!(refused["error"]["message"], "not you");
    assert_eq!(noted(&journal), [r#"outer double {"how":"refuse"}"#, "outer not you: None"]);
    // A tool that promises structure cannot be answered for with words alone.
    let words = call(&mut client, json!({"how": "answer"})).await;
    assert!(words["error"]["message"].as_str().unwrap().contains("output schema"), "{words}");
    let lie = call(&mut client, json!({"how": "lie"})).await;
    assert!(lie["error"]["message"].as_str().unwrap().contains("output schema"), "{lie}");
}

#[tokio::test]
async fn middleware_learns_what_the_client_does_not() {
    let (mut client, journal) = meddled();
    let answer = client.modern("tools/call", json!({"name": "broken"})).await;
    let message = json!({"code": -32603, "message": "cannot save"});
    assert_eq!(answer["error"], message);
    assert_eq!(noted(&journal)[2], r#"inner cannot save: Some("the disk is full")"#);
    let unknown = client.modern("tools/call", json!({"name": "nobody"})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(noted(&journal).is_empty(), "a tool that is not there is not called");
}

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A client that can handle tasks, of a tool that runs as one, around which these stand.
fn tasked(tool: Tool, journal: &CallNotes) -> Client {
    let notes = Notes { name: "outer", journal: Arc::clone(journal) };
    let builder = Server::builder("s", "0").tool(tool).middleware(notes).middleware(Meddles);
    let mut client = serve(builder);
    client.capabilities = json!({"extensions": {EXTENSION: {}}});
    client
}

/// Begins a task; what is asked about it by.
async fn begin(client: &mut Client, call: Value) -> Value {
    let begun = client.modern("tools/call", call).await;
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    json!({"taskId": begun["result"]["taskId"]})
}

/// wire: TASK-3, TASK-4
#[tokio::test]
async fn the_result_of_a_task_passes_the_middleware() {
    let journal = CallNotes::default();
    let double = Tool::new("double")
        .tasks(TaskSupport::Required)
        .output_schema(&json!({"type": "integer"}))
        .run(async |args: Value, _: Context| ToolResult::structured(args["n"].as_i64()));
    let mut client = tasked(double, &journal);
    let over = |task: &Value| task["status"] != "working";
    let task = begin(&mut client, json!({"name": "double", "arguments": {"n": 2}})).await;
    let ended = poll(&mut client, &task, over).await;
    assert_eq!(ended["result"]["structuredContent"], 2, "{ended}");
    assert_eq!(noted(&journal), [r#"outer double {"n":2}"#, "outer failed=false"]);
    // A refusal, and a result that does not fit.
    for (how, why) in [("refuse", "not you"), ("lie", "output schema")] {
        let call = json!({"name": "double", "arguments": {"how": how}});
        let task = begin(&mut client, call).await;
        let ended = poll(&mut client, &task, over).await;
        assert_eq!(ended["status"], "failed", "{ended}");
        let message = ended["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{ended}");
    }
}

/// Says when it is dropped.
struct Watch(mpsc::UnboundedSender<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

/// Says when a call begins, and when it is dropped.
struct Watches(mpsc::UnboundedSender<()>);

impl Middleware for Watches {
    async fn call(&self, call: ToolCall, next: Next) -> Result<ToolResult, Error> {
        _ = self.0.send(());
        let _watch = Watch(self.0.clone());
        next.run(call).await
    }
}

/// wire: TASK-5
#[tokio::test]
async fn a_task_that_is_cancelled_ends_in_the_middleware() {
    let slow = Tool::new("slow")
        .tasks(TaskSupport::Required)
        .run(async |_: Value, _: Context| std::future::pending::<String>().await);
    let (tell, mut ended) = mpsc::unbounded_channel();
    let mut client = serve(Server::builder("s", "0").tool(slow).middleware(Watches(tell)));
    client.capabilities = json!({"extensions": {EXTENSION: {}}});
    let task = begin(&mut client, json!({"name": "slow"})).await;
    within(ended.recv()).await.unwrap();
    assert!(ended.try_recv().is_err(), "it goes on");
    client.modern("tasks/cancel", task).await;
    within(ended.recv()).await.unwrap();
}

#[tokio::test]
async fn a_tool_that_defers_by_itself_leaves_the_middleware_when_its_task_begins() {
    let journal = CallNotes::default();
    let late =
        Tool::new("late").defers(TaskSupport::Optional).run(async |_: Value, cx: Context| {
            cx.defer(async |_| std::future::pending::<String>().await).await
        });
    let mut client = tasked(late, &journal);
    begin(&mut client, json!({"name": "late"})).await;
    assert_eq!(noted(&journal), ["outer late {}", "outer task"]);
}

/// Tells what it reads.
struct Reads(CallNotes);

impl Middleware for Reads {
    async fn call(&self, call: ToolCall, next: Next) -> Result<ToolResult, Error> {
        let result = next.run(call).await?;
        let words: Vec<_> = result.content().iter().map(Content::as_text).collect();
        let read = format!("{words:?} {:?} {:?}", result.structured_content(), result.meta());
        self.0.lock().unwrap().push(read);
        Ok(result)
    }
}

#[tokio::test]
async fn middleware_can_read_a_result() {
    let journal = CallNotes::default();
    let tool = Tool::new("t").run(async |_: Value, _| {
        let marked = Content::text("two").with("annotations", json!({"priority": 1}));
        let result = ToolResult::text("one").with(marked).with(Content::image([1], "image/png"));
        result.with_structured(3).with_meta("k", 4)
    });
    let reads = Reads(Arc::clone(&journal));
    let mut client = serve(Server::builder("s", "0").tool(tool).middleware(reads));
    client.modern("tools/call", json!({"name": "t"})).await;
    let expected = r#"[Some("one"), Some("two"), None] Some(Number(3)) {"k": Number(4)}"#;
    assert_eq!(noted(&journal), [expected]);
}
