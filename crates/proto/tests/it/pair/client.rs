//! A client that uses every feature of its era, and answers what it is asked.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::patch;
use switchboard_proto::revision::{Era, Revision};

use super::log::{
    CAPABILITIES, CLIENT, LOG_LEVEL, Log, QUESTIONS, SUBSCRIPTION, VERSION, put, sort_rounds,
};

/// Steps of what a client does after its script.
pub(crate) const AFTERWARDS: usize = 2;

/// What sort of client it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    pub(crate) name: &'static str,
    pub(crate) revision: Revision,
    /// Whether people may be asked.
    pub(crate) elicits: bool,
    /// Whether others hear as well when lists change.
    pub(crate) shares: bool,
}

/// How far it has got in its script.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Stage {
    Hello,
    Features,
    Updates,
    Questions,
    Level,
    Log,
    Changes,
    Done,
}

/// Works through its script, answers what it is asked, writes down what it sees.
pub(crate) struct Client {
    sort: Sort,
    stage: Stage,
    log: Log,
    /// Open calls: what they are, in our own words, and as they were made.
    open: HashMap<Id, (String, Message)>,
    /// Listens that were acknowledged.
    heard: BTreeSet<String>,
    given_up: BTreeSet<String>,
    retries: u32,
}

impl Client {
    pub(crate) fn new(sort: Sort) -> Self {
        Self {
            sort,
            stage: Stage::Hello,
            log: Log::new(),
            open: HashMap::new(),
            heard: BTreeSet::new(),
            given_up: BTreeSet::new(),
            retries: 0,
        }
    }

    /// What it says first.
    pub(crate) fn start(&mut self) -> Vec<Message> {
        let id = Id::Text("hello".into());
        if self.is_modern() {
            return vec![self.request("hello", &id, "server/discover", json!({}))];
        }
        let params = json!({
            "protocolVersion": self.sort.revision.as_str(),
            "capabilities": capabilities(),
            "clientInfo": {"name": self.sort.name},
        });
        vec![self.request("hello", &id, "initialize", params)]
    }

    /// What it says to a message.
    pub(crate) fn handle(&mut self, message: &Message) -> Vec<Message> {
        let payload = message.payload().unwrap_or(b"{}");
        let text = String::from_utf8_lossy(payload).into_owned();
        match message.kind() {
            Kind::Request => {
                let params: Value = serde_json::from_slice(payload).expect("JSON");
                let answer = self.asked(message.method(), &params).to_string();
                vec![Message::result(message.id().expect("a request"), answer.as_bytes())]
            }
            Kind::Notification => {
                let mut says = self.told(message.method(), &text);
                says.extend(self.advance());
                says
            }
            Kind::Result | Kind::Error => {
                let id = message.id().expect("an answer to somebody");
                let Some((name, request)) = self.open.remove(id) else {
                    assert!(self.given_up.contains(&id.to_string()), "answered again: {text}");
                    return Vec::new();
                };
                if patch::string(payload, &["resultType"]).as_deref() == Some("input_required") {
                    return vec![self.come_back(name, &request, payload)];
                }
                let kind = if message.kind() == Kind::Error { "failed" } else { "=" };
                put(&mut self.log, name, format!("{kind} {text}"));
                self.advance()
            }
        }
    }

    /// Writes a question down under the call that it is about; the answer to it.
    fn asked(&mut self, method: &str, params: &Value) -> Value {
        let of = params["_meta"]["of"].as_str().unwrap_or("?");
        let call = of.rsplit_once('/').map_or("?", |(call, _)| call);
        let whose = call.split_once('/').map_or("?", |(whose, _)| whose);
        assert_eq!(whose, self.sort.name, "a question for somebody else: {params}");
        let call = call.split_once('/').map_or("?", |(_, call)| call);
        put(&mut self.log, call, format!("asked {method} {params}"));
        answer_to(method, of)
    }

    /// Writes down what it is told. A slow call is given up once it has shown
    /// that it runs, most listens once they have spoken.
    fn told(&mut self, method: &str, text: &str) -> Vec<Message> {
        let params: Value = serde_json::from_str(text).expect("JSON");
        let listen = params["_meta"][SUBSCRIPTION].as_str();
        let token = params["progressToken"].as_str();
        let uri = params["uri"].as_str();
        let of = listen.or(token).map(|id| format!("{id:?}"));
        if of.is_some_and(|id| self.given_up.contains(&id)) {
            // It crossed our giving up.
            return Vec::new();
        }
        let stream = match (listen, token, method, uri) {
            (Some(listen), ..) => format!("listen {listen}"),
            // It has a lane of its own where a question comes by another.
            (_, Some(token), ..) if is_question(token) => progress_of(token),
            (_, Some(token), ..) => token.to_owned(),
            (_, _, "notifications/message", _) => "log".to_owned(),
            (_, _, _, Some(uri)) => format!("updated {uri}"),
            _ => method.to_owned(),
        };
        put(&mut self.log, stream, format!("told {method} {text}"));
        if let Some(listen) = listen {
            self.heard.insert(listen.to_owned());
        }
        match (listen, token, uri) {
            (_, Some("slow"), _) => vec![self.give_up("slow")],
            (Some(listen), _, Some(_)) if listen != "s3" => vec![self.give_up(listen)],
            (None, _, Some(uri)) if uri.starts_with("x:1") => self.unwatch(uri),
            _ => Vec::new(),
        }
    }

    /// One change is enough of a resource.
    fn unwatch(&mut self, uri: &str) -> Vec<Message> {
        if !self.heard.insert(uri.to_owned()) {
            return Vec::new();
        }
        let params = json!({ "uri": uri });
        vec![self.request("unwatch x:1", &11.into(), "resources/unsubscribe", params)]
    }

    fn give_up(&mut self, id: &str) -> Message {
        let id = format!("{id:?}");
        self.open.remove(&read_id(id.as_bytes()));
        self.given_up.insert(id.clone());
        let params = format!("{{\"requestId\":{id},\"reason\":\"enough\"}}");
        Message::notification("notifications/cancelled", Some(params.as_bytes()))
    }

    /// Goes on with the script, once nothing else is going on.
    fn advance(&mut self) -> Vec<Message> {
        let is_heard = |id: &Id| matches!(id, Id::Text(id) if self.heard.contains(&**id));
        let busy =
            self.open.iter().any(|(id, (name, _))| !(name.starts_with("listen") && is_heard(id)));
        if busy || self.stage == Stage::Done {
            return Vec::new();
        }
        let (next, says) = match self.stage {
            Stage::Hello if !self.is_welcome() => (Stage::Done, Vec::new()),
            Stage::Hello => (Stage::Features, self.features()),
            Stage::Features => (Stage::Updates, vec![self.touch("x:1", "", false)]),
            Stage::Updates => {
                let all = (0..QUESTIONS.len()).flat_map(|at| self.question(at)).collect();
                (Stage::Questions, all)
            }
            Stage::Questions if self.is_modern() => (Stage::Level, Vec::new()),
            Stage::Questions => {
                let level = json!({"level": "info"});
                (Stage::Level, vec![self.request("level", &8.into(), "logging/setLevel", level)])
            }
            Stage::Level => (Stage::Log, vec![self.call("log")]),
            Stage::Log => (Stage::Changes, vec![self.touch("x:2", "", !self.sort.shares)]),
            Stage::Changes | Stage::Done => (Stage::Done, Vec::new()),
        };
        self.stage = next;
        if says.is_empty() { self.advance() } else { says }
    }

    /// What it does once it is through and all is quiet: one call, which brings
    /// back a server that was lost; then it has its resources changed once more.
    pub(crate) fn afterwards(&mut self, step: usize) -> Vec<Message> {
        match step {
            _ if !self.is_welcome() => Vec::new(),
            0 => vec![self.call("knock")],
            _ => vec![self.touch("x:1", " again", false), self.touch("x:2", " again", false)],
        }
    }

    fn is_welcome(&self) -> bool {
        self.log.get("hello").is_some_and(|hello| !hello[0].starts_with("failed"))
    }

    /// The call again, with answers to what the server wants to know.
    fn come_back(&mut self, name: String, request: &Message, result: &[u8]) -> Message {
        let wanted: Value = patch::get(result, &["inputRequests"])
            .map(|wanted| serde_json::from_slice(wanted).expect("JSON"))
            .expect("it asks something");
        let mut answers = serde_json::Map::new();
        for (key, question) in wanted.as_object().expect("by key") {
            let method = question["method"].as_str().expect("a method");
            answers.insert(key.clone(), self.asked(method, &question["params"]));
        }
        let mut params = bytes::Bytes::copy_from_slice(request.payload().expect("params"));
        let answers = Value::from(answers).to_string();
        params = patch::put(&params, &[], "inputResponses", answers.as_bytes()).expect("put");
        if let Some(state) = patch::get(result, &["requestState"]) {
            params = patch::put(&params, &[], "requestState", state).expect("put");
        }
        self.retries += 1;
        let id = Id::Text(format!("{name} again {}", self.retries).into());
        let again = request.with_id(&id).with_payload(&params);
        self.open.insert(id, (name, again.clone()));
        again
    }

    fn question(&mut self, at: usize) -> Vec<Message> {
        let (name, first, _) = QUESTIONS[at];
        let may = self.sort.elicits || !first.contains(&"elicitation/create");
        may.then(|| self.call(name)).into_iter().collect()
    }

    fn features(&mut self) -> Vec<Message> {
        let mut script = Vec::new();
        if !self.is_modern() {
            script.push(Message::notification("notifications/initialized", None));
        }
        let of = json!({"of": self.sort.name});
        let list = json!({ "_meta": of });
        script.push(self.request("list", &Id::Integer(1), "tools/list", list));
        let more = json!({"cursor": "2", "_meta": of});
        script.push(self.request("list more", &Id::Text("1".into()), "tools/list", more));
        let progress = self.tool("progress", &json!({}));
        script.push(self.request("progress", &Id::Integer(2), "tools/call", progress));
        script.push(self.call("slow"));
        let fails = self.tool("fail", &json!({}));
        let large = Id::Large("123456789012345678901".into());
        script.push(self.request("fail", &large, "tools/call", fails));
        if self.is_modern() {
            for (id, uri, lists) in
                [("s1", "x:1", false), ("s2", "x:1", false), ("s3", "x:2", true)]
            {
                let mut wanted = json!({"resourceSubscriptions": [self.uri(uri)]});
                if lists && !self.sort.shares {
                    wanted["toolsListChanged"] = true.into();
                }
                let wanted = json!({ "notifications": wanted });
                let (name, id) = (format!("listen {id}"), Id::Text(id.into()));
                script.push(self.request(&name, &id, "subscriptions/listen", wanted));
            }
        } else {
            for (id, uri) in [(7, "x:1"), (10, "x:2")] {
                let params = json!({ "uri": self.uri(uri) });
                let name = format!("watch {uri}");
                script.push(self.request(&name, &id.into(), "resources/subscribe", params));
            }
            script.push(self.request("ping", &Id::Integer(9), "ping", json!({})));
        }
        script
    }

    /// A resource of its own.
    fn uri(&self, uri: &str) -> String {
        format!("{uri}/{}", self.sort.name)
    }

    /// Has the server change a resource, and its lists.
    fn touch(&mut self, uri: &str, again: &str, lists: bool) -> Message {
        let name = format!("touch {uri}{again}");
        let params = self.tool(&name, &json!({"uri": self.uri(uri), "lists": lists}));
        self.request(&name, &Id::Text(name.as_str().into()), "tools/call", params)
    }

    fn tool(&self, name: &str, arguments: &Value) -> Value {
        let meta = json!({"progressToken": name, "odd": 1.5e3, "of": self.sort.name});
        json!({"name": name, "arguments": arguments, "_meta": meta})
    }

    fn call(&mut self, name: &str) -> Message {
        let mut params = self.tool(name, &json!({}));
        if self.is_modern() && name == "log" {
            params["_meta"][LOG_LEVEL] = "info".into();
        }
        self.request(name, &Id::Text(name.into()), "tools/call", params)
    }

    fn request(&mut self, name: &str, id: &Id, method: &str, mut params: Value) -> Message {
        if self.is_modern() {
            params["_meta"][VERSION] = self.sort.revision.as_str().into();
            params["_meta"][CAPABILITIES] = capabilities();
            params["_meta"][CLIENT] = json!({"name": self.sort.name});
        }
        let request = Message::request(id, method, Some(params.to_string().as_bytes()));
        self.open.insert(id.clone(), (name.to_owned(), request.clone()));
        request
    }

    fn is_modern(&self) -> bool {
        self.sort.revision.era() == Era::Modern
    }

    pub(crate) fn name(&self) -> &'static str {
        self.sort.name
    }

    /// Whether it counts on being told of its second resource.
    pub(crate) fn is_watching(&self) -> bool {
        let is_watched = |lines: &Vec<String>| lines.last().is_some_and(|it| it.starts_with('='));
        self.open().contains("listen s3") || self.log.get("watch x:2").is_some_and(is_watched)
    }

    /// What it waits for.
    pub(crate) fn open(&self) -> BTreeSet<String> {
        self.open.values().map(|(name, _)| name.clone()).collect()
    }

    /// Whether it has been through everything.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    pub(crate) fn seen(mut self) -> Log {
        self.log.values_mut().for_each(|lines| sort_rounds(lines));
        self.log
    }
}

fn is_question(tool: &str) -> bool {
    QUESTIONS.iter().any(|(name, ..)| *name == tool)
}

/// What the progress of a call that asks is written down under.
fn progress_of(tool: &str) -> String {
    format!("progress of {tool}")
}

fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

/// An answer that tells which question it answers.
fn answer_to(method: &str, of: &str) -> Value {
    match method {
        "elicitation/create" => json!({"action": "accept", "content": {"a": of}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": of}})
        }
        _ => json!({"roots": [{"uri": "file:///r", "name": of}]}),
    }
}

pub(crate) fn read_id(text: &[u8]) -> Id {
    Id::parse(text).ok().flatten().expect("an id")
}
