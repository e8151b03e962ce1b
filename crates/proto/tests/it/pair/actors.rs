//! The two ends of every pair: a client that uses every feature, and a server that has them.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::patch;
use switchboard_proto::revision::{Era, Revision};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Works through its script, answers what it is asked, writes down what it sees.
pub(crate) struct Client {
    revision: Revision,
    log: BTreeSet<String>,
    cancelled: BTreeSet<String>,
}

impl Client {
    pub(crate) fn new(revision: Revision) -> Self {
        Self { revision, log: BTreeSet::new(), cancelled: BTreeSet::new() }
    }

    /// What it says first.
    pub(crate) fn start(&mut self) -> Vec<Message> {
        let params = json!({"protocolVersion": self.revision.as_str()});
        let method = if self.is_modern() { "server/discover" } else { "initialize" };
        vec![self.request(&Id::Text("hello".into()), method, params)]
    }

    /// What it says to a message.
    pub(crate) fn handle(&mut self, message: &Message) -> Vec<Message> {
        let payload = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
        match message.kind() {
            Kind::Request => {
                self.log.insert(format!("asked {} {payload}", message.method()));
                let result = json!({"answer to": message.method()}).to_string();
                vec![Message::result(message.id().expect("a request"), result.as_bytes())]
            }
            Kind::Notification => {
                self.log.insert(format!("told {} {payload}", message.method()));
                self.enough(&payload).into_iter().collect()
            }
            Kind::Result | Kind::Error => {
                let id = message.id().expect("an answer to somebody").clone();
                self.log.insert(format!("{id} = {payload}"));
                if id == Id::Text("hello".into()) { self.features() } else { Vec::new() }
            }
        }
    }

    /// A slow call is given up once it has shown that it runs, a listen once it has spoken.
    fn enough(&mut self, payload: &str) -> Option<Message> {
        let value: Value = serde_json::from_str(payload).unwrap_or_default();
        let id = match (&value["progressToken"], &value["_meta"][SUBSCRIPTION], &value["uri"]) {
            (Value::String(token), ..) if token == "slow" => "\"slow\"".to_owned(),
            (_, Value::String(id), Value::String(_)) => format!("{id:?}"),
            _ => return None,
        };
        let params = format!("{{\"requestId\":{id},\"reason\":\"enough\"}}");
        let new = self.cancelled.insert(id);
        new.then(|| Message::notification("notifications/cancelled", Some(params.as_bytes())))
    }

    fn features(&mut self) -> Vec<Message> {
        let mut script = Vec::new();
        if !self.is_modern() {
            script.push(Message::notification("notifications/initialized", None));
        }
        script.push(self.request(&Id::Integer(1), "tools/list", json!({})));
        script.push(self.request(&Id::Text("1".into()), "tools/list", json!({"cursor": "2"})));
        script.push(self.call(&Id::Integer(2), "progress"));
        script.push(self.call(&Id::Text("slow".into()), "slow"));
        script.push(self.call(&Id::Large("123456789012345678901".into()), "fail"));
        if self.is_modern() {
            let wanted = json!({"notifications": {"resourceSubscriptions": ["x:1"]}});
            for id in ["s1", "s2"] {
                script.push(self.request(
                    &Id::Text(id.into()),
                    "subscriptions/listen",
                    wanted.clone(),
                ));
            }
        } else {
            for kind in ["elicitation/create", "sampling/createMessage", "roots/list"] {
                script.push(self.call(&Id::Text(kind.into()), kind));
            }
            let level = json!({"level": "info"});
            script.push(self.request(
                &Id::Integer(7),
                "resources/subscribe",
                json!({"uri": "x:1"}),
            ));
            script.push(self.request(&Id::Integer(8), "logging/setLevel", level));
        }
        script
    }

    fn call(&self, id: &Id, name: &str) -> Message {
        let params = json!({"name": name, "_meta": {"progressToken": name, "odd": 1.5e3}});
        self.request(id, "tools/call", params)
    }

    fn request(&self, id: &Id, method: &str, mut params: Value) -> Message {
        if self.is_modern() {
            params["_meta"][VERSION] = self.revision.as_str().into();
            params["_meta"][CAPABILITIES] = json!({});
        }
        Message::request(id, method, Some(params.to_string().as_bytes()))
    }

    fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    pub(crate) fn seen(self) -> Vec<String> {
        self.log.into_iter().collect()
    }
}

/// Has every feature of its era, and writes down what it is asked to do.
pub(crate) struct Server {
    revision: Revision,
    /// Each thing as often as it happened: a call that runs twice is a bug.
    log: Vec<String>,
    /// Open calls: id and name.
    calls: HashMap<Id, String>,
    /// Questions: the call each was asked on.
    asked: HashMap<Id, Id>,
}

/// What the server says, and the request it belongs to.
type Said = (Option<Id>, Message);

impl Server {
    pub(crate) fn new(revision: Revision) -> Self {
        Self { revision, log: Vec::new(), calls: HashMap::new(), asked: HashMap::new() }
    }

    pub(crate) fn handle(&mut self, message: &Message) -> Vec<Said> {
        let params = message.payload().unwrap_or_default();
        match message.kind() {
            Kind::Request => self.serve(message, params),
            Kind::Notification => {
                if let Some(id) = patch::get(params, &["requestId"]) {
                    self.cancel(&read_id(id));
                } else {
                    self.log.push(message.method().to_owned());
                }
                Vec::new()
            }
            Kind::Result | Kind::Error => {
                let call = self.asked.remove(message.id().expect("an answer")).expect("asked once");
                let name = self.calls.remove(&call).expect("the call waits");
                let got = String::from_utf8_lossy(params).into_owned();
                self.log.push(format!("{name} was told {got}"));
                vec![result(&call, &format!("{{\"got\":{got}}}"))]
            }
        }
    }

    /// A call is given up, by notice or by closing its lane.
    pub(crate) fn cancel(&mut self, id: &Id) {
        let name = self.calls.remove(id);
        self.log.push(format!("cancelled {}", name.unwrap_or_else(|| "nothing".to_owned())));
    }

    fn serve(&mut self, request: &Message, params: &[u8]) -> Vec<Said> {
        let id = request.id().expect("a request");
        let text = String::from_utf8_lossy(params).into_owned();
        self.log.push(format!("{} {text}", request.method()));
        match request.method() {
            "initialize" | "server/discover" => {
                let version = self.revision.as_str();
                vec![result(
                    id,
                    &json!({"protocolVersion": version, "capabilities": {}}).to_string(),
                )]
            }
            "tools/list" => vec![result(id, &format!("{{\"tools\":[],\"asked\":{text}}}"))],
            "tools/call" => self.call(id, params),
            "resources/subscribe" => {
                let update = notice("notifications/resources/updated", r#"{"uri":"x:1"}"#);
                vec![result(id, "{}"), (None, update)]
            }
            "logging/setLevel" => {
                let log = notice("notifications/message", r#"{"level":"info","data":"hi"}"#);
                vec![(Some(id.clone()), log), result(id, "{}")]
            }
            "subscriptions/listen" => {
                self.calls.insert(id.clone(), "listen".to_owned());
                let meta = format!("\"_meta\":{{\"{SUBSCRIPTION}\":{id}}}");
                let ack =
                    notice("notifications/subscriptions/acknowledged", &format!("{{{meta}}}"));
                let update = format!("{{\"uri\":\"x:1\",{meta}}}");
                let update = notice("notifications/resources/updated", &update);
                vec![(Some(id.clone()), ack), (Some(id.clone()), update)]
            }
            other => panic!("not in the script: {other}"),
        }
    }

    fn call(&mut self, id: &Id, params: &[u8]) -> Vec<Said> {
        let name = patch::string(params, &["name"]).expect("it has a name").into_owned();
        let token = patch::get(params, &["_meta", "progressToken"]).expect("it has a token");
        let token = String::from_utf8_lossy(token).into_owned();
        let progress = |step: u8| {
            let params = format!("{{\"progressToken\":{token},\"progress\":{step}}}");
            (Some(id.clone()), notice("notifications/progress", &params))
        };
        match name.as_str() {
            "progress" => vec![progress(1), progress(2), result(id, r#"{"content":[ 1.50 ]}"#)],
            "fail" => {
                let error = json!({"code": -32603, "message": "it failed", "data": {"k": 1}});
                vec![(Some(id.clone()), Message::error(Some(id), &error))]
            }
            "slow" => {
                self.calls.insert(id.clone(), name);
                vec![progress(1)]
            }
            kind => {
                let ask = Id::Text(format!("ask {kind}").into());
                let question = format!("{{\"about\":\"{kind}\"}}");
                let question = Message::request(&ask, kind, Some(question.as_bytes()));
                self.calls.insert(id.clone(), name);
                self.asked.insert(ask, id.clone());
                vec![(Some(id.clone()), question)]
            }
        }
    }

    pub(crate) fn seen(mut self) -> Vec<String> {
        self.log.sort();
        self.log
    }
}

fn read_id(text: &[u8]) -> Id {
    Id::parse(text).ok().flatten().expect("an id")
}

fn result(id: &Id, result: &str) -> Said {
    (Some(id.clone()), Message::result(id, result.as_bytes()))
}

fn notice(method: &str, params: &str) -> Message {
    Message::notification(method, Some(params.as_bytes()))
}
