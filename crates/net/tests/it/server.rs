//! The server library, as its clients see it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_net::server::{
    Builder, Contents, Context, Error, Level, Prompt, PromptArguments, PromptResult, Resource,
    Server, Template, Tool, ToolResult,
};
use switchboard_net::stdio;
use switchboard_net::stdio::StdioOptions;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use switchboard_testkit::within;

mod again;
mod ask;
mod asks_typed;
mod call;
mod change;
mod everywhere;
mod hello;
mod middleware;
mod notice;
mod output;
mod project;
mod raw;
mod rules;
mod seed;
mod task;
mod typed;
mod web;

pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const MODERN: &str = "2026-07-28";

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    /// The other one.
    b: i64,
}

/// A server with a little of everything.
pub(crate) fn fixture() -> Builder {
    Server::builder("fixture", "1.2.3")
        .title("A fixture")
        .instructions("Try it.")
        .tool(
            Tool::new("add")
                .description("Adds")
                .input::<Add>()
                .run(async |args: Add, _| ToolResult::text((args.a + args.b).to_string())),
        )
        .tool(Tool::new("steps").description("Reports").run(async |_, cx: Context| {
            for (progress, level) in [(1.0, Level::Debug), (0.5, Level::Info), (2.5, Level::Error)]
            {
                cx.progress(progress, Some(3.0), Some("on it"));
                cx.log(level, Some("steps"), json!({"at": progress}));
            }
            "done"
        }))
        .tool(Tool::new("broken").run(async |_, _| Err::<ToolResult, _>(Error::new(7, "broken"))))
        .prompt(
            Prompt::new("hello").description("Says hello").argument("name", "whom to greet").run(
                async |arguments: PromptArguments, _| {
                    Ok(PromptResult::new().user(format!("Hello, {}!", arguments["name"])))
                },
            ),
        )
        .resource(Resource::text("a://text", "text", "text/plain", "some text"))
        .resource(Resource::blob("a://blob", "blob", "image/png", [1, 2, 3]))
        .template(Template::new("a://item/{id}/x", "item").mime("text/plain").read_each(
            async |uri: String, variables, _| {
                Ok(vec![Contents::text(&uri, "text/plain", format!("item {}", variables["id"]))])
            },
        ))
        .completion(async |completing, _| {
            let all = (0..150).map(|n| format!("{}{n}", completing.value));
            Ok(all.collect())
        })
}

pub(crate) fn serve(builder: Builder) -> Client {
    Client::of(builder.build().unwrap())
}

/// A client at the other end of a pipe.
pub(crate) struct Client {
    pub(crate) server: Arc<Server>,
    output: WriteHalf<DuplexStream>,
    input: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<()>,
    next_id: u64,
    /// Declared on every modern request.
    pub(crate) capabilities: Value,
    /// What came while an answer was awaited.
    pub(crate) heard: Vec<Value>,
}

impl Client {
    pub(crate) fn of(server: Arc<Server>) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(far);
        let backend = Arc::clone(&server);
        let serving = tokio::spawn(async move {
            let never = std::future::pending();
            let options = StdioOptions::default();
            stdio::serve_on((input, output), backend, options, never).await.unwrap();
        });
        let (input, output) = tokio::io::split(near);
        Self {
            server,
            output,
            input: BufReader::new(input).lines(),
            serving,
            next_id: 1,
            capabilities: json!({}),
            heard: Vec::new(),
        }
    }

    pub(crate) async fn say(&mut self, message: Value) {
        let line = format!("{message}\n");
        within(self.output.write_all(line.as_bytes())).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) async fn line(&mut self) -> String {
        within(self.input.next_line()).await.unwrap().expect("the server went away")
    }

    /// Sends a request, and returns its id.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The answer to a request; what comes before it is kept.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Makes a legacy call, and returns the whole answer.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    pub(crate) fn envelope(&self, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        params
    }

    /// Makes a modern call, and returns the whole answer.
    pub(crate) async fn modern(&mut self, method: &str, params: Value) -> Value {
        let params = self.envelope(params);
        self.call(method, params).await
    }

    /// Shakes hands, and returns the result of `initialize`.
    pub(crate) async fn greet(&mut self, revision: &str, capabilities: Value) -> Value {
        let client = json!({"name": "tester", "version": "0"});
        let hello = json!({
            "protocolVersion": revision, "capabilities": capabilities, "clientInfo": client
        });
        let answer = self.call("initialize", hello).await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        // Whatever is answered after this has seen the handshake end.
        self.call("ping", json!({})).await;
        answer["result"].clone()
    }

    /// The next message of a method; others are kept.
    pub(crate) async fn hear_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.hear().await;
            if message["method"] == method {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// What was kept of these notifications, in order.
    pub(crate) fn heard_of(&self, method: &str) -> Vec<&Value> {
        self.heard.iter().filter(|message| message["method"] == method).collect()
    }

    /// Closes the pipe, and waits for the server to notice.
    pub(crate) async fn leave(self) {
        drop((self.output, self.input));
        within(self.serving).await.unwrap();
    }
}

/// The text of a tool's first block.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text block")
}
