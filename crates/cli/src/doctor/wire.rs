//! Speaks to a server without our client: over the pipes of a child process, or over HTTP
//! (`http`).

use std::ffi::OsString;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::stdio::child::{Child, Command, Grace, SpawnError};
use switchboard_proto::framing::LineDecoder;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::refusal::Refusal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};

use super::evidence::{Exchange, ExchangeResult, Heard};

pub(super) use http::{Http, SseEndpoint};

pub(super) mod http;

/// Bytes of one message; more is not looked at.
const MAX: usize = 8 << 20;

/// A connection.
pub(super) enum Wire {
    Child(Box<ChildPipe>),
    Http(Box<Http>),
    Sse(Box<SseEndpoint>),
}

impl Wire {
    /// Sends a request and waits for what comes of it.
    pub(super) async fn ask(
        &mut self,
        id: Value,
        method: &str,
        params: Value,
        patience: Duration,
    ) -> Exchange {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let asked = async {
            match self {
                Self::Child(pipe) => pipe.ask(&request).await,
                Self::Http(http) => http.ask(&request).await,
                Self::Sse(old) => old.ask(&request).await,
            }
        };
        let outcome =
            tokio::time::timeout(patience, asked).await.unwrap_or(ExchangeResult::Silence);
        Exchange { id, method: method.to_owned(), outcome }
    }

    pub(super) fn heard(self) -> Heard {
        match self {
            Self::Child(pipe) => pipe.heard,
            Self::Http(http) => http.heard,
            Self::Sse(old) => old.heard,
        }
    }
}

/// What a text from the server is, given the request that is open.
enum Sorted {
    Answer(Value),
    /// A request of the server, and what to answer.
    Reply(Value),
    Nothing,
}

/// Sorts what came; what is neither an answer nor a request is written down.
fn sort(text: &[u8], request: &Value, heard: &mut Heard) -> Vec<Sorted> {
    let parsed: Result<Value, _> = serde_json::from_slice(text);
    match parsed {
        Ok(Value::Array(batch)) => {
            batch.into_iter().map(|message| sort_one(message, request, heard)).collect()
        }
        Ok(message @ Value::Object(_)) => vec![sort_one(message, request, heard)],
        _ => {
            heard.stray(&String::from_utf8_lossy(text));
            Vec::new()
        }
    }
}

fn sort_one(message: Value, request: &Value, heard: &mut Heard) -> Sorted {
    let id = message.get("id").cloned().unwrap_or_default();
    if let Some(method) = message["method"].as_str() {
        if id.is_null() {
            return Sorted::Nothing;
        }
        if method == switchboard_proto::method::PING {
            return Sorted::Reply(json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        }
        heard.asked(method);
        return Sorted::Reply(refusal(&id, method));
    }
    if message.get("result").is_none() && message.get("error").is_none() {
        heard.stray(&message.to_string());
        return Sorted::Nothing;
    }
    // An id of the wrong type is found by a check; here it is the answer.
    let looks_like = |value: &Value| value.to_string().trim_matches('"').to_owned();
    let is_ours = looks_like(&id) == looks_like(&request["id"]);
    if is_ours || (id.is_null() && message.get("error").is_some()) {
        return Sorted::Answer(message);
    }
    heard.unasked(&id);
    Sorted::Nothing
}

/// We offer nothing, so nothing may be asked of us.
fn refusal(id: &Value, method: &str) -> Value {
    let refusal = Refusal::UnknownMethod { method: method.to_owned() };
    let message = Message::refusal(None, &refusal);
    let mut message: Value = serde_json::from_slice(message.text()).unwrap_or_default();
    message["id"] = id.clone();
    message
}

pub(crate) struct ChildPipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    lines: LineDecoder,
    pub(crate) heard: Heard,
}

impl ChildPipe {
    pub(crate) fn start(
        command: &Command,
        environment: &[(OsString, OsString)],
        heard: Heard,
    ) -> Result<Self, SpawnError> {
        let mut child = command.spawn(environment)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, stdin, stdout, lines: LineDecoder::new(MAX), heard })
    }

    async fn ask(&mut self, request: &Value) -> ExchangeResult {
        if self.write(request).await.is_none() {
            return self.gone().await;
        }
        loop {
            while let Some(line) = self.lines.next_line() {
                let Ok(line) = line else {
                    self.heard.stray("a line that is longer than 8 MiB");
                    continue;
                };
                for sorted in sort(&line, request, &mut self.heard) {
                    match sorted {
                        Sorted::Answer(message) => {
                            return ExchangeResult::Answer { message, http: None };
                        }
                        Sorted::Reply(reply) => _ = self.write(&reply).await,
                        Sorted::Nothing => {}
                    }
                }
            }
            let Some(stdout) = &mut self.stdout else { return self.gone().await };
            if !matches!(stdout.read_buf(self.lines.buffer()).await, Ok(1..)) {
                return self.gone().await;
            }
        }
    }

    pub(crate) async fn write(&mut self, message: &Value) -> Option<()> {
        let stdin = self.stdin.as_mut()?;
        stdin.write_all(format!("{message}\n").as_bytes()).await.ok()?;
        stdin.flush().await.ok()
    }

    /// Why it is gone; some close their stdout and live on.
    async fn gone(&mut self) -> ExchangeResult {
        let ended = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        let text = ended.map_or_else(
            |_| "it closed its stdout".to_owned(),
            |exit| {
                let words = exit.last_words.iter().rev().take(5).rev();
                let words = words.map(String::as_str).collect::<Vec<_>>().join(" | ");
                let words = if words.is_empty() { "nothing on stderr".to_owned() } else { words };
                format!("{}; {words}", exit.status)
            },
        );
        ExchangeResult::Gone { text }
    }

    /// Ends it; whether the end of its stdin was enough.
    pub(crate) async fn close(mut self) -> (bool, Heard) {
        drop(self.stdin.take());
        let went = tokio::time::timeout(EXIT_PATIENCE, self.child.wait()).await.is_ok();
        self.child.stop(Grace { close: Duration::ZERO, ..Grace::default() }).await;
        (went, self.heard)
    }
}

/// How long the end of a process may come after that of its stdout.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a server may take to end by itself, before clients send a signal.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);
