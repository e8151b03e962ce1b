//! An inside that a test plays itself: verbs arrive on a channel, the test answers.
//!
//! `initialize` (with the version that was asked for) and `tools/list` are
//! answered at once, so that a test can get to its point.

use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::{CallHolder, ReplySink as _};
use switchboard_net::connection::ClientConnection;
use switchboard_net::upstream::Upstream;
use switchboard_proto::exchange::{Ask, ClientEvent, Exchange, HeaderParams};
use switchboard_proto::jsonrpc::{Id, Message, parse_one};
use tokio::sync::{mpsc, watch};

use switchboard_testkit::within;

/// What stands behind the clients of a test.
#[derive(Debug)]
pub(crate) struct Script {
    verbs: mpsc::UnboundedSender<Heard>,
    forgotten: watch::Sender<usize>,
    held: Mutex<Vec<Arc<Held>>>,
}

/// The test's end of a [`Script`].
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) backend: Arc<Script>,
    verbs: mpsc::UnboundedReceiver<Heard>,
    forgotten: watch::Receiver<usize>,
}

/// A verb, and the client that it came from.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) face: Arc<ClientConnection>,
    pub(crate) verb: ClientEvent,
}

/// A call that waits for the test to answer it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) face: Arc<ClientConnection>,
    pub(crate) exchange: Exchange,
    pub(crate) request: Message,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let (sender, verbs) = mpsc::unbounded_channel();
        let (count, forgotten) = watch::channel(0);
        let backend = Arc::new(Script { verbs: sender, forgotten: count, held: Mutex::default() });
        Self { backend, verbs, forgotten }
    }

    /// The next verb that the script does not deal with itself.
    pub(crate) async fn heard(&mut self) -> Heard {
        within(self.verbs.recv()).await.expect("the script lives as long as the stage")
    }

    /// The next verb, which must open a call.
    pub(crate) async fn call(&mut self) -> Call {
        let Heard { face, verb } = self.heard().await;
        match verb {
            ClientEvent::Open { exchange, request, .. } => Call { face, exchange, request },
            other => panic!("not a call: {other:?}"),
        }
    }

    /// The next verb, which must give a call up.
    pub(crate) async fn dropped(&mut self) -> Exchange {
        match self.heard().await.verb {
            ClientEvent::Drop { exchange, .. } => exchange,
            other => panic!("not a drop: {other:?}"),
        }
    }

    /// The next verb, which must be a notification.
    pub(crate) async fn noted(&mut self) -> (Arc<ClientConnection>, String) {
        let Heard { face, verb } = self.heard().await;
        match verb {
            ClientEvent::Note { message } => (face, message.method().to_owned()),
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

impl Script {
    fn heard(&self, face: &Arc<ClientConnection>, verb: ClientEvent) {
        _ = self.verbs.send(Heard { face: Arc::clone(face), verb });
    }
}

impl Backend for Script {
    fn open(
        &self,
        face: &Arc<ClientConnection>,
        call: &switchboard_net::call::Call,
        request: Message,
        said: HeaderParams,
    ) -> PendingWork {
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
            let held = Arc::new(Held { face: Arc::clone(face), verbs: self.verbs.clone() });
            let holder: Weak<Held> = Arc::downgrade(&held);
            assert!(call.hold(holder), "it has just begun");
            self.held.lock().unwrap().push(held);
            self.heard(face, ClientEvent::Open { exchange: call.exchange(), request, said });
            return PendingWork::none();
        };
        let call = call.clone();
        // As work, because that is how a real inside answers.
        PendingWork::one(async move { call.finish(answer(&result)) })
    }

    fn note(&self, face: &Arc<ClientConnection>, message: Message) -> PendingWork {
        self.heard(face, ClientEvent::Note { message });
        PendingWork::none()
    }

    fn cancel(&self, face: &Arc<ClientConnection>, call: &switchboard_net::call::Call) {
        self.heard(face, ClientEvent::Drop { exchange: call.exchange(), message: None });
    }

    fn supply(&self, face: &Arc<ClientConnection>, ask: Ask, answer: Message) -> Option<Message> {
        self.heard(face, ClientEvent::Supply { ask, answer });
        None
    }

    fn forget(&self, _: &Arc<ClientConnection>) {
        self.forgotten.send_modify(|count| *count += 1);
    }
}

/// Has a call that the test answers.
#[derive(Debug)]
struct Held {
    face: Arc<ClientConnection>,
    verbs: mpsc::UnboundedSender<Heard>,
}

impl CallHolder for Held {
    fn cancel(
        self: Arc<Self>,
        _: &switchboard_net::call::Call,
        _: Option<&Message>,
    ) -> PendingWork {
        PendingWork::none()
    }

    fn retry(
        self: Arc<Self>,
        call: &switchboard_net::call::Call,
        request: &Message,
    ) -> PendingWork {
        let verb = ClientEvent::Again { exchange: call.exchange(), request: request.clone() };
        _ = self.verbs.send(Heard { face: Arc::clone(&self.face), verb });
        PendingWork::none()
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
        Arc::clone(&self.face).ask(Some(self.exchange), Weak::<Upstream>::new(), Ask(ask), &request)
    }

    pub(crate) fn finish(&self, result: &Value) {
        self.face.finish(self.exchange, answer(&json!({"result": result}).to_string()).into());
    }

    /// Whose it is, without the request.
    pub(crate) fn into_place(self) -> (Arc<ClientConnection>, Exchange) {
        (self.face, self.exchange)
    }

    pub(crate) fn fail(&self, code: i32) {
        self.face.finish(self.exchange, answer(&error(code, "no").to_string()).into());
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
