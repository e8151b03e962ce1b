//! Speaking to a server by hand, on each of the transports.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::refusal::Refusal;

use super::evidence::{Exchange, ExchangeResult, Heard};

pub(super) mod http;
pub(super) mod old;
pub(super) mod pipe;

pub(super) use http::Http;
pub(super) use old::Old;
pub(super) use pipe::Pipe;

/// Bytes of one message; more is not looked at.
const MAX: usize = 8 << 20;

/// A connection.
pub(super) enum Wire {
    Pipe(Box<Pipe>),
    Http(Box<Http>),
    Old(Box<Old>),
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
                Self::Pipe(pipe) => pipe.ask(&request).await,
                Self::Http(http) => http.ask(&request).await,
                Self::Old(old) => old.ask(&request).await,
            }
        };
        let outcome =
            tokio::time::timeout(patience, asked).await.unwrap_or(ExchangeResult::Silence);
        Exchange { id, method: method.to_owned(), outcome }
    }

    pub(super) fn heard(self) -> Heard {
        match self {
            Self::Pipe(pipe) => pipe.heard,
            Self::Http(http) => http.heard,
            Self::Old(old) => old.heard,
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
