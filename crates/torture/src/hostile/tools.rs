//! A server that is honest unless a tool is called that is not.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{family, raw, say, welcome};

const NAMES: [&str; 21] = [
    "echo",
    "wait",
    "hang",
    "pid",
    "big",
    "die",
    "twice",
    "stray",
    "garbage",
    "endless",
    "flood",
    "torn",
    "binary",
    "deep",
    "number",
    "ask",
    "steal",
    "family",
    "descriptors",
    "cancelled",
    "late",
];

/// The descriptors that are open at present. Asked for first of all, it says which were
/// inherited.
pub(super) fn descriptors() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let names = entries.filter_map(|entry| Some((entry.ok()?.file_name(), ())));
    let names: Vec<_> = names.filter_map(|(name, ())| name.into_string().ok()).collect();
    // Those that still lead somewhere; the one that was needed to look does not.
    names
        .into_iter()
        .filter(|name| fs::read_link(format!("/proc/self/fd/{name}")).is_ok())
        .collect()
}

/// The state of one server.
#[derive(Default)]
pub(super) struct Tools {
    descriptors: Vec<String>,
    /// Questions we asked, and who waits for their answers.
    asked: Mutex<HashMap<String, Sender<Value>>>,
    /// Calls that we were told to give up, as JSON.
    cancelled: Mutex<BTreeSet<String>>,
}

impl Tools {
    pub(super) fn new(descriptors: Vec<String>) -> Arc<Self> {
        Arc::new(Self { descriptors, ..Self::default() })
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<String, Sender<Value>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancelled(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a message wants.
    pub(super) fn handle(tools: &Arc<Self>, message: Value) {
        let id = message["id"].clone();
        let result = |result: Value| say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match message["method"].as_str() {
            None => {
                let waits = tools.asked().remove(id.as_str().unwrap_or_default());
                // The call that asked may be over.
                waits.map(|waits| waits.send(message["result"].clone()));
            }
            Some("initialize") => result(welcome()),
            Some("ping") => result(json!({})),
            Some("tools/list") => {
                let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
                result(json!({"tools": NAMES.map(tool)}));
            }
            Some("tools/call") => {
                let tools = Arc::clone(tools);
                let quick = message["params"]["name"] == "echo";
                if quick {
                    tools.call(&message);
                } else {
                    thread::spawn(move || tools.call(&message));
                }
            }
            Some("notifications/cancelled") => {
                let id = message["params"]["requestId"].to_string();
                let mut cancelled = tools.cancelled();
                if cancelled.len() > 4096 {
                    cancelled.clear();
                }
                cancelled.insert(id);
            }
            Some(_) if !id.is_null() => {
                let error = json!({"code": -32601, "message": "no such method"});
                say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Some(_) => {}
        }
    }

    fn call(&self, request: &Value) {
        let (id, params) = (&request["id"], &request["params"]);
        let arguments = &params["arguments"];
        let message = arguments["message"].as_str().unwrap_or_default();
        let number = |name: &str| arguments[name].as_u64().unwrap_or(0);
        let answer = |text: &str| answer(id, text);
        match params["name"].as_str().unwrap_or_default() {
            "echo" => answer(message),
            "wait" => {
                thread::sleep(Duration::from_millis(number("ms").min(600_000)));
                answer(message);
            }
            "hang" => {}
            "pid" => answer(&std::process::id().to_string()),
            "big" => {
                // Written by hand, for it may be large and often.
                let text = "x".repeat(usize::try_from(number("bytes")).unwrap_or(0).min(64 << 20));
                let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[");
                let line = format!("{start}{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n");
                raw(line.as_bytes());
            }
            "die" => std::process::exit(7),
            "late" => {
                // Answers only once it was told to give up.
                let id = id.to_string();
                for _ in 0..1000 {
                    if self.cancelled().contains(&id) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                answer(message);
            }
            "cancelled" => answer(&self.cancelled().len().to_string()),
            "ask" => self.ask(id, message),
            "family" => {
                family();
                answer(message);
            }
            "descriptors" => answer(&self.descriptors.join(" ")),
            other => misbehave(other, id, message, number("count")),
        }
    }

    /// Asks the caller, and says what came of it.
    fn ask(&self, id: &Value, message: &str) {
        let (sender, receiver) = channel();
        let question = format!("q-{message}");
        self.asked().insert(question.clone(), sender);
        let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}});
        let params = json!({"message": message, "requestedSchema": schema});
        say(
            &json!({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params}),
        );
        let got = receiver.recv_timeout(Duration::from_mins(2)).unwrap_or_default();
        self.asked().remove(&question);
        answer(id, got["content"]["word"].as_str().unwrap_or("nothing"));
    }
}

fn answer(id: &Value, text: &str) {
    let result = json!({"content": [{"type": "text", "text": text}]});
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

/// Breaks a rule, and then answers if that is still possible.
fn misbehave(tool: &str, id: &Value, message: &str, count: u64) {
    match tool {
        "twice" => {
            answer(id, message);
            answer(id, "stolen");
            say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "stolen"}}));
            return;
        }
        "stray" | "steal" => {
            // Ids that nobody has, and those that are in use in the form of texts.
            let near = id.as_u64().unwrap_or(0);
            for other in 0..count.min(10_000) {
                answer(&json!(near + other + 1_000_000_000), "stolen");
                answer(&json!(near.saturating_sub(other).to_string()), "stolen");
                answer(&json!((near + other).to_string()), "stolen");
                answer(&json!(-1 - i64::try_from(other).unwrap_or(0)), "stolen");
            }
        }
        "garbage" => {
            raw(b"hello\n\xff\xfe\x00\n{\"jsonrpc\":\"2.0\"}\n[]\n[1]\nnull\n\n{}\n{\"id\":1}\n");
            raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":2}\r\n");
        }
        "endless" => {
            // With its end in one write: a line of another thread in between would be lost.
            let mut line = vec![b'x'; usize::try_from(count).unwrap_or(0).min(128 << 20)];
            line.push(b'\n');
            raw(&line);
        }
        "flood" => {
            for number in 0..count.min(200_000) {
                let params = json!({"level": "info", "data": number});
                say(
                    &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
                );
            }
        }
        // Four answers that cannot be read, though they say whose they are.
        "torn" => {
            return raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{]\n").as_bytes());
        }
        "binary" => {
            raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":\"").as_bytes());
            return raw(b"\xff\xfe\xfd\"}}\n");
        }
        "deep" => {
            let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
            return raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{open}{close}}}\n")
                .as_bytes());
        }
        "number" => {
            let digits = "9".repeat(100_000);
            let text = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[],\"n\":{digits}}}}}\n"
            );
            return raw(text.as_bytes());
        }
        _ => {
            let error = json!({"code": -32602, "message": "no such tool"});
            return say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    }
    answer(id, message);
}
