//! An inside that a test plays itself: verbs arrive on a channel, the test answers.
//!
//! `initialize` (with the version that was asked for) and `tools/list` are
//! answered at once, so that a test can get to its point.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::face::Face;
use switchboard_net::inside::{Inside, Works};
use switchboard_proto::exchange::{Ask, Exchange, Up};
use switchboard_proto::jsonrpc::{Id, Message, parse_one};
use tokio::sync::{mpsc, watch};

use crate::peer::within;

/// What stands behind the clients of a test.
#[derive(Debug)]
pub(crate) struct Script {
    verbs: mpsc::UnboundedSender<Heard>,
    forgotten: watch::Sender<usize>,
}

/// The test's end of a [`Script`].
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) inside: Arc<Script>,
    verbs: mpsc::UnboundedReceiver<Heard>,
    forgotten: watch::Receiver<usize>,
}

/// A verb, and the client that it came from.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) face: Arc<Face>,
    pub(crate) verb: Up,
}

/// A call that waits for the test to answer it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) face: Arc<Face>,
    pub(crate) exchange: Exchange,
    pub(crate) request: Message,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let (sender, verbs) = mpsc::unbounded_channel();
        let (count, forgotten) = watch::channel(0);
        let inside = Arc::new(Script { verbs: sender, forgotten: count });
        Self { inside, verbs, forgotten }
    }

    /// The next verb that the script does not deal with itself.
    pub(crate) async fn heard(&mut self) -> Heard {
        within(self.verbs.recv()).await.expect("the script lives as long as the stage")
    }

    /// The next verb, which must open a call.
    pub(crate) async fn call(&mut self) -> Call {
        let Heard { face, verb } = self.heard().await;
        match verb {
            Up::Open { exchange, request, .. } => Call { face, exchange, request },
            other => panic!("not a call: {other:?}"),
        }
    }

    /// The next verb, which must give a call up.
    pub(crate) async fn dropped(&mut self) -> Exchange {
        match self.heard().await.verb {
            Up::Drop { exchange, .. } => exchange,
            other => panic!("not a drop: {other:?}"),
        }
    }

    /// The next verb, which must be a notification.
    pub(crate) async fn noted(&mut self) -> (Arc<Face>, String) {
        let Heard { face, verb } = self.heard().await;
        match verb {
            Up::Note { message } => (face, message.method().to_owned()),
            other => panic!("not a notification: {other:?}"),
        }
    }

    /// Whether nothing has been heard that was not asked for.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.verbs.is_empty()
    }

    /// Waits until `count` clients have been forgotten.
    pub(crate) async fn forgot(&mut self, count: usize) {
        within(self.forgotten.wait_for(|&forgotten| forgotten >= count)).await.unwrap();
    }

    pub(crate) fn forgotten(&self) -> usize {
        *self.forgotten.borrow()
    }
}

impl Inside for Script {
    fn take(&self, face: &Arc<Face>, verb: Up) -> Works {
        let face = Arc::clone(face);
        let Up::Open { exchange, request, .. } = &verb else {
            _ = self.verbs.send(Heard { face, verb });
            return Works::none();
        };
        let params: Value = serde_json::from_slice(request.payload().unwrap_or(b"{}")).unwrap();
        let result = match request.method() {
            "initialize" if params["capabilities"]["slow"] == true => None,
            "initialize" if params["capabilities"]["fail"] == true => {
                Some(error(-32602, "no").to_string())
            }
            "initialize" => Some(greeting(&params["protocolVersion"]).to_string()),
            "tools/list" => Some(json!({"result": {"tools": []}}).to_string()),
            _ => None,
        };
        let Some(result) = result else {
            _ = self.verbs.send(Heard { face, verb });
            return Works::none();
        };
        let exchange = *exchange;
        // As work, because that is how a real inside answers.
        Works::one(async move { face.finish(exchange, answer(&result)) })
    }

    fn forget(&self, _: &Arc<Face>) {
        self.forgotten.send_modify(|count| *count += 1);
    }
}

impl Call {
    /// Says something on the way.
    pub(crate) fn note(&self, method: &str, params: &Value) {
        self.face.note(Some(self.exchange), &notification(method, params));
    }

    /// Asks the client; true if it can be asked.
    pub(crate) fn ask(&self, ask: u64, method: &str) -> bool {
        let request = Message::request(&Id::from(ask), method, Some(b"{}"));
        self.face.ask(Some(self.exchange), Ask(ask), &request)
    }

    pub(crate) fn finish(&self, result: &Value) {
        self.face.finish(self.exchange, answer(&json!({"result": result}).to_string()));
    }

    /// Whose it is, without the request.
    pub(crate) fn into_place(self) -> (Arc<Face>, Exchange) {
        (self.face, self.exchange)
    }

    pub(crate) fn fail(&self, code: i32) {
        self.face.finish(self.exchange, answer(&error(code, "no").to_string()));
    }

    pub(crate) fn tool(&self) -> String {
        let params: Value = serde_json::from_slice(self.request.payload().unwrap()).unwrap();
        params["name"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) fn notification(method: &str, params: &Value) -> Message {
    Message::notification(method, Some(params.to_string().as_bytes()))
}

fn greeting(version: &Value) -> Value {
    let server = json!({"name": "script", "version": "1"});
    json!({"result": {"protocolVersion": version, "capabilities": {}, "serverInfo": server}})
}

fn error(code: i32, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

/// An answer under an id that means nothing to the client.
fn answer(body: &str) -> Message {
    let text = format!(r#"{{"jsonrpc":"2.0","id":987,{}"#, &body[1..]);
    parse_one(Bytes::from(text)).unwrap()
}
