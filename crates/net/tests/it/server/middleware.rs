//! What stands around the calls of tools.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_net::server::{
    Context, Error, Middleware, Next, Server, TaskSupport, Tool, ToolCall, ToolResult,
};

use super::{Client, serve, text};

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

#[tokio::test]
async fn a_task_leaves_the_middleware_when_it_begins() {
    let journal = CallNotes::default();
    let slow = Tool::new("slow")
        .tasks(TaskSupport::Required)
        .run(async |_: Value, _: Context| std::future::pending::<String>().await);
    let notes = Notes { name: "outer", journal: Arc::clone(&journal) };
    let mut client = serve(Server::builder("s", "0").tool(slow).middleware(notes));
    client.capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let begun = client.modern("tools/call", json!({"name": "slow"})).await;
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    assert_eq!(noted(&journal), ["outer slow {}", "outer task"]);
}
