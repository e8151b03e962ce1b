//! A client that a test drives by hand, over a pipe in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::backend::Backend;
use switchboard_net::stdio::{StdioOptions, serve_on};
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;

use crate::within;

/// The newest revision with a handshake.
pub const LEGACY: &str = "2025-11-25";

/// One client of whatever stands behind the pipe.
#[derive(Debug)]
pub struct Caller {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    /// What came while the test waited for something else.
    early: VecDeque<Value>,
    next_id: u64,
    task: JoinHandle<std::io::Result<()>>,
}

impl Caller {
    /// A client that has said nothing yet.
    pub fn new(backend: Arc<dyn Backend>, sharing: Sharing, limits: Arc<Limits>) -> Self {
        let (input, ours) = tokio::io::duplex(64 << 10);
        let (theirs, output) = tokio::io::duplex(64 << 10);
        let never = std::future::pending();
        let task = tokio::spawn(serve_on(
            (ours, theirs),
            backend,
            StdioOptions::default().sharing(sharing).limits(limits),
            never,
        ));
        let output = BufReader::new(output).lines();
        Self { input, output, early: VecDeque::new(), next_id: 1, task }
    }

    /// Sends a message as it is.
    pub async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        within(self.input.write_all(line.as_bytes())).await.expect("the pipe is open");
    }

    /// Sends a notification.
    pub async fn note(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request and does not wait; its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The answer to the request with this id; others wait.
    pub async fn answer(&mut self, id: u64) -> Value {
        self.take(|message| message.get("method").is_none() && message["id"] == id).await
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// Calls a tool; its `structuredContent`.
    pub async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        let answer = self.call("tools/call", params).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// The message of the error that a tool call fails with.
    pub async fn tool_error(&mut self, name: &str, arguments: Value) -> String {
        let params = json!({"name": name, "arguments": arguments});
        error_of(&self.call("tools/call", params).await)
    }

    /// The next message with this method.
    pub async fn told(&mut self, method: &str) -> Value {
        self.take(|message| message["method"] == method).await
    }

    async fn take(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&wanted) {
            return self.early.remove(at).expect("it was just found");
        }
        loop {
            let line = within(self.output.next_line()).await.expect("the pipe is open");
            let message = serde_json::from_str(&line.expect("the pipe is open")).expect("JSON");
            if wanted(&message) {
                return message;
            }
            self.early.push_back(message);
        }
    }

    /// What came and was not waited for, so far.
    pub fn early(&self) -> &VecDeque<Value> {
        &self.early
    }

    /// Sends `initialize` and does not wait; its id.
    pub async fn begin_greeting(&mut self) -> u64 {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
            "clientInfo": {"name": "caller", "version": "1"},
        });
        self.ask("initialize", params).await
    }

    /// The handshake of a legacy client, with a server that does its part.
    pub async fn greet(&mut self) -> Value {
        let id = self.begin_greeting().await;
        let welcome = self.answer(id).await;
        assert!(welcome.get("error").is_none(), "{welcome}");
        self.note("notifications/initialized", json!({})).await;
        welcome
    }

    /// Waits until nothing comes any more.
    pub async fn closed(&mut self) {
        while let Ok(Some(_)) = within(self.output.next_line()).await {}
    }

    /// Hangs up, and waits until that has been noticed.
    pub async fn leave(self) {
        drop(self.input);
        drop(self.output);
        within(self.task).await.expect("no panic").expect("a clean end");
    }
}

/// The message of an error.
pub fn error_of(answer: &Value) -> String {
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {answer}")).to_owned()
}
