//! The two ends of every pair: a client that uses every feature, and a server that has them.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::patch;
use switchboard_proto::revision::{Era, Revision};

pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// Questions that a tool of each name asks: first these, then those.
const QUESTIONS: [(&str, &[&str], &[&str]); 5] = [
    ("ask a person", &["elicitation/create"], &["elicitation/create"]),
    ("ask a model", &["sampling/createMessage"], &["sampling/createMessage"]),
    ("ask for roots", &["roots/list"], &["roots/list"]),
    ("ask it all", &["sampling/createMessage", "roots/list"], &["roots/list"]),
    ("ask again", &["roots/list"], &["sampling/createMessage"]),
];

/// What must come back byte for byte, however it is spelled.
const STATE: &str = r#""st\u0061te \/ ""#;

/// What is seen: whatever the era calls it.
pub(crate) type Log = Vec<String>;

/// What was seen, without what belongs to one hop: the envelope, names of
/// calls, what one era says and the other does not.
pub(crate) fn across(log: &[String]) -> Log {
    let hop = [VERSION, CAPABILITIES, SUBSCRIPTION, LOG_LEVEL, SERVER, CLIENT];
    let own = ["resultType", "ttlMs", "cacheScope", "protocolVersion", "progressToken"];
    let mut seen = BTreeSet::new();
    // Only one era has it, and it is answered where it arrives (GW-21).
    for line in log.iter().filter(|line| !line.starts_with("ping {")) {
        let (what, payload) = line.split_once(" {").unwrap_or((line, "}"));
        let mut value: Value = serde_json::from_str(&format!("{{{payload}")).expect("JSON");
        let members = value.as_object_mut().expect("an object");
        members.retain(|name, _| !own.contains(&name.as_str()));
        if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.retain(|name, _| !hop.contains(&name.as_str()) && !own.contains(&name.as_str()));
            if meta.is_empty() {
                members.remove("_meta");
            }
        }
        seen.insert(format!("{what} {value}"));
    }
    seen.into_iter().collect()
}

/// Works through its script, answers what it is asked, writes down what it sees.
pub(crate) struct Client {
    revision: Revision,
    /// Whether people may be asked.
    elicits: bool,
    log: BTreeSet<String>,
    /// Open calls: what they are, in our own words, and as they were made.
    open: HashMap<Id, (String, Message)>,
    given_up: BTreeSet<String>,
    retries: u32,
}

impl Client {
    pub(crate) fn new(revision: Revision, elicits: bool) -> Self {
        let (log, given_up) = (BTreeSet::new(), BTreeSet::new());
        Self { revision, elicits, log, open: HashMap::new(), given_up, retries: 0 }
    }

    /// What it says first.
    pub(crate) fn start(&mut self) -> Vec<Message> {
        let id = Id::Text("hello".into());
        if self.is_modern() {
            return vec![self.request("hello", &id, "server/discover", json!({}))];
        }
        let params = json!({
            "protocolVersion": self.revision.as_str(),
            "capabilities": capabilities(),
            "clientInfo": {"name": "client"},
        });
        vec![self.request("hello", &id, "initialize", params)]
    }

    /// What it says to a message.
    pub(crate) fn handle(&mut self, message: &Message) -> Vec<Message> {
        let payload = message.payload().unwrap_or(b"{}");
        let text = String::from_utf8_lossy(payload).into_owned();
        match message.kind() {
            Kind::Request => {
                self.log.insert(format!("asked {} {text}", message.method()));
                let answer = answer_to(message.method()).to_string();
                vec![Message::result(message.id().expect("a request"), answer.as_bytes())]
            }
            Kind::Notification => {
                self.log.insert(format!("told {} {text}", message.method()));
                self.enough(&text)
            }
            Kind::Result | Kind::Error => {
                let id = message.id().expect("an answer to somebody");
                // A server may say it twice.
                let Some((name, request)) = self.open.remove(id) else { return Vec::new() };
                if patch::string(payload, &["resultType"]).as_deref() == Some("input_required") {
                    return vec![self.come_back(name, &request, payload)];
                }
                let kind = if message.kind() == Kind::Error { "failed" } else { "=" };
                self.log.insert(format!("{} {kind} {text}", name.replace(' ', "_")));
                match name.as_str() {
                    "hello" => self.features(),
                    "level" => vec![self.call(&Id::Text("log".into()), "log")],
                    "log" => Vec::new(),
                    _ => self.last_wish().into_iter().collect(),
                }
            }
        }
    }

    /// When nothing else goes on: on a pipe a log record names no call.
    fn last_wish(&mut self) -> Option<Message> {
        let busy = self.open.values().any(|(name, _)| name != "listen");
        if busy || !self.given_up.contains("\"slow\"") {
            return None;
        }
        if self.is_modern() {
            return Some(self.call(&Id::Text("log".into()), "log"));
        }
        let level = json!({"level": "info"});
        Some(self.request("level", &Id::Integer(8), "logging/setLevel", level))
    }

    /// The call again, with answers to what the server wants to know.
    fn come_back(&mut self, name: String, request: &Message, result: &[u8]) -> Message {
        let wanted: Value = patch::get(result, &["inputRequests"])
            .map(|wanted| serde_json::from_slice(wanted).expect("JSON"))
            .expect("it asks something");
        let mut answers = serde_json::Map::new();
        for (key, question) in wanted.as_object().expect("by key") {
            let method = question["method"].as_str().expect("a method");
            let params = question.get("params").cloned().unwrap_or_else(|| json!({}));
            self.log.insert(format!("asked {method} {params}"));
            answers.insert(key.clone(), answer_to(method));
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

    /// A slow call is given up once it has shown that it runs, a listen once it has spoken.
    fn enough(&mut self, payload: &str) -> Vec<Message> {
        let value: Value = serde_json::from_str(payload).unwrap_or_default();
        let id = match (&value["progressToken"], &value["_meta"][SUBSCRIPTION], &value["uri"]) {
            (Value::String(token), ..) if token == "slow" => "\"slow\"".to_owned(),
            (_, Value::String(id), Value::String(_)) => format!("{id:?}"),
            _ => return Vec::new(),
        };
        self.open.remove(&read_id(id.as_bytes()));
        if !self.given_up.insert(id.clone()) {
            return Vec::new();
        }
        let params = format!("{{\"requestId\":{id},\"reason\":\"enough\"}}");
        let mut says =
            vec![Message::notification("notifications/cancelled", Some(params.as_bytes()))];
        if id == "\"slow\"" {
            // On a pipe a question names no call, and must not be taken for one of this.
            says.extend(self.questions());
        }
        says
    }

    fn questions(&mut self) -> Vec<Message> {
        let elicits = self.elicits;
        let asked = |first: &[&str]| elicits || !first.contains(&"elicitation/create");
        let tools = QUESTIONS.iter().filter(|(_, first, _)| asked(first));
        tools.map(|(name, ..)| self.call(&Id::Text((*name).into()), name)).collect()
    }

    fn features(&mut self) -> Vec<Message> {
        let mut script = Vec::new();
        if !self.is_modern() {
            script.push(Message::notification("notifications/initialized", None));
        }
        script.push(self.request("list", &Id::Integer(1), "tools/list", json!({})));
        let more = json!({"cursor": "2"});
        script.push(self.request("list more", &Id::Text("1".into()), "tools/list", more));
        script.push(self.call(&Id::Integer(2), "progress"));
        script.push(self.call(&Id::Text("slow".into()), "slow"));
        script.push(self.call(&Id::Large("123456789012345678901".into()), "fail"));
        if self.is_modern() {
            let wanted = json!({"notifications": {"resourceSubscriptions": ["x:1"]}});
            for id in ["s1", "s2"] {
                let id = Id::Text(id.into());
                script.push(self.request("listen", &id, "subscriptions/listen", wanted.clone()));
            }
        } else {
            let uri = json!({"uri": "x:1"});
            script.push(self.request("watch", &Id::Integer(7), "resources/subscribe", uri));
            script.push(self.request("ping", &Id::Integer(9), "ping", json!({})));
        }
        script
    }

    fn call(&mut self, id: &Id, name: &str) -> Message {
        let mut params = json!({"name": name, "_meta": {"progressToken": name, "odd": 1.5e3}});
        if self.is_modern() && name == "log" {
            params["_meta"][LOG_LEVEL] = "info".into();
        }
        self.request(name, id, "tools/call", params)
    }

    fn request(&mut self, name: &str, id: &Id, method: &str, mut params: Value) -> Message {
        if self.is_modern() {
            params["_meta"][VERSION] = self.revision.as_str().into();
            params["_meta"][CAPABILITIES] = capabilities();
            params["_meta"][CLIENT] = json!({"name": "client"});
        }
        let request = Message::request(id, method, Some(params.to_string().as_bytes()));
        self.open.insert(id.clone(), (name.to_owned(), request.clone()));
        request
    }

    fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    pub(crate) fn seen(self) -> Log {
        self.log.into_iter().collect()
    }
}

fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

fn answer_to(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({"action": "accept", "content": {"a": 1}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}})
        }
        _ => json!({"roots": [{"uri": "file:///r"}]}),
    }
}

fn question(method: &str, round: u8) -> Value {
    match method {
        "elicitation/create" => {
            let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
            json!({"message": format!("m{round}"), "requestedSchema": schema})
        }
        "sampling/createMessage" => json!({"messages": [], "maxTokens": round}),
        _ => json!({}),
    }
}

/// Has every feature of its era, and writes down what it is asked to do.
pub(crate) struct Server {
    revision: Revision,
    /// Each thing as often as it happened: a call that runs twice is a bug.
    log: Vec<String>,
    /// Open calls: id and name.
    calls: HashMap<Id, Call>,
    /// Questions: the call each was asked on.
    asked: HashMap<Id, (Id, String)>,
    /// What each call was told (modern).
    told: HashMap<String, Vec<String>>,
    level: bool,
}

#[derive(Default)]
struct Call {
    name: String,
    round: u8,
    /// What it still waits to be told.
    missing: usize,
    told: Vec<String>,
}

/// What the server says, and the request it belongs to.
type Said = (Option<Id>, Message);

impl Server {
    pub(crate) fn new(revision: Revision) -> Self {
        let (calls, asked, told) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { revision, log: Vec::new(), calls, asked, told, level: false }
    }

    pub(crate) fn handle(&mut self, message: &Message) -> Vec<Said> {
        let params = message.payload().unwrap_or(b"{}");
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
                let id = message.id().expect("an answer");
                let (call, method) = self.asked.remove(id).expect("asked once");
                let got = String::from_utf8_lossy(params).into_owned();
                self.handle_answer(&call, &method, &got)
            }
        }
    }

    fn handle_answer(&mut self, id: &Id, method: &str, got: &str) -> Vec<Said> {
        let call = self.calls.get_mut(id).expect("the call waits");
        call.told.push(format!("{method}: {got}"));
        call.missing -= 1;
        if call.missing == 0 { self.next_round(id) } else { Vec::new() }
    }

    /// A call is given up, by notice or by closing its lane.
    pub(crate) fn cancel(&mut self, id: &Id) {
        let call = self.calls.remove(id).unwrap_or_default();
        if call.name != "listen" {
            self.log.push(format!("cancelled {}", call.name));
        }
    }

    fn serve(&mut self, request: &Message, params: &[u8]) -> Vec<Said> {
        let id = request.id().expect("a request");
        let text = String::from_utf8_lossy(params).into_owned();
        let what = match request.method() {
            "initialize" | "server/discover" => "hello",
            "resources/subscribe" | "subscriptions/listen" => "watch",
            "resources/unsubscribe" => return vec![result(id, &json!({}))],
            "logging/setLevel" => "level",
            other => other,
        };
        // How it is asked for is the era's own business.
        let shown = if matches!(what, "hello" | "watch" | "level") { "{}" } else { &text };
        self.log.push(format!("{what} {shown}"));
        match request.method() {
            "initialize" | "server/discover" => vec![self.hello(id)],
            "tools/list" => {
                let tools = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
                let cursor = patch::string(params, &["cursor"]);
                vec![self.result(id, json!({"tools": tools, "nextCursor": cursor}))]
            }
            "tools/call" => self.call(id, params),
            "resources/subscribe" => {
                let update = notice("notifications/resources/updated", &json!({"uri": "x:1"}));
                vec![result(id, &json!({})), (None, update)]
            }
            "logging/setLevel" => {
                self.level = true;
                vec![result(id, &json!({}))]
            }
            "ping" => vec![result(id, &json!({}))],
            "subscriptions/listen" => self.listen(id, params),
            other => panic!("not in the script: {other}"),
        }
    }

    fn hello(&self, id: &Id) -> Said {
        let server = json!({"name": "server"});
        let capabilities = json!({"tools": {}, "logging": {}, "resources": {"subscribe": true}});
        let mut hello = json!({"capabilities": capabilities, "instructions": "use it"});
        if self.is_modern() {
            hello["supportedVersions"] = json!([self.revision.as_str()]);
            hello["_meta"][SERVER] = server;
            hello["ttlMs"] = 0.into();
            hello["cacheScope"] = "private".into();
        } else {
            hello["protocolVersion"] = self.revision.as_str().into();
            hello["serverInfo"] = server;
        }
        self.result(id, hello)
    }

    fn listen(&mut self, id: &Id, params: &[u8]) -> Vec<Said> {
        self.calls.insert(id.clone(), Call { name: "listen".to_owned(), ..Call::default() });
        let wanted = patch::get(params, &["notifications"]).expect("a filter");
        let wanted: Value = serde_json::from_slice(wanted).expect("JSON");
        let of: Value = serde_json::from_str(&id.to_string()).expect("JSON");
        let meta = json!({SUBSCRIPTION: of});
        let ack = json!({"notifications": wanted, "_meta": meta});
        let ack = notice("notifications/subscriptions/acknowledged", &ack);
        let update = json!({"uri": "x:1", "_meta": meta});
        let update = notice("notifications/resources/updated", &update);
        vec![(Some(id.clone()), ack), (Some(id.clone()), update)]
    }

    fn call(&mut self, id: &Id, params: &[u8]) -> Vec<Said> {
        let name = patch::string(params, &["name"]).expect("it has a name").into_owned();
        let token = patch::get(params, &["_meta", "progressToken"]).expect("it has a token");
        let token: Value = serde_json::from_slice(token).expect("JSON");
        let progress = |step: u8| {
            let params = json!({"progressToken": token, "progress": step});
            (Some(id.clone()), notice("notifications/progress", &params))
        };
        match name.as_str() {
            "progress" => {
                let content = json!({"content": [{"type": "text", "text": "done"}]});
                vec![progress(1), progress(2), self.result(id, content)]
            }
            "fail" => {
                let error = json!({"code": -32603, "message": "it failed", "data": {"k": 1}});
                vec![(Some(id.clone()), Message::error(Some(id), &error))]
            }
            "slow" => {
                self.calls.insert(id.clone(), Call { name, ..Call::default() });
                vec![progress(1)]
            }
            "log" => {
                let wanted = patch::get(params, &["_meta", LOG_LEVEL]).is_some() || self.level;
                let log = json!({"level": "info", "data": "hi"});
                let log = (Some(id.clone()), notice("notifications/message", &log));
                let done = self.result(id, json!({"content": []}));
                if wanted { vec![log, done] } else { vec![done] }
            }
            _ if self.is_modern() => self.modern_round(id, &name, params),
            _ => {
                self.calls.insert(id.clone(), Call { name, ..Call::default() });
                self.next_round(id)
            }
        }
    }

    /// The next questions of a call at a legacy server, or its end.
    fn next_round(&mut self, id: &Id) -> Vec<Said> {
        let call = self.calls.get_mut(id).expect("the call is open");
        call.round += 1;
        let Some(methods) = questions(&call.name, call.round) else {
            let told = self.calls.remove(id).map(|call| call.told).unwrap_or_default();
            return vec![told_result(id, told)];
        };
        call.missing = methods.len();
        let (name, round) = (call.name.clone(), call.round);
        let ask = |method: &&str| {
            let ask = Id::Text(format!("{name} {round} {method}").into());
            let params = question(method, round).to_string();
            let request = Message::request(&ask, method, Some(params.as_bytes()));
            (ask, request, (*method).to_owned())
        };
        let asked: Vec<_> = methods.iter().map(ask).collect();
        let mut said = Vec::new();
        for (ask, request, method) in asked {
            self.asked.insert(ask, (id.clone(), method));
            said.push((Some(id.clone()), request));
        }
        said
    }

    /// The same at a modern server, which is told how far it got.
    fn modern_round(&mut self, id: &Id, name: &str, params: &[u8]) -> Vec<Said> {
        let told = patch::get(params, &["inputResponses"]).unwrap_or(b"{}");
        let told: serde_json::Map<String, Value> = serde_json::from_slice(told).expect("JSON");
        let state = |round| format!("{}{round}\"", &STATE[..STATE.len() - 1]).into_bytes();
        let before = patch::get(params, &["requestState"]);
        let before = before.map(|it| (1..=2).find(|&round| it == state(round)).expect("as it was"));
        let round = before.unwrap_or(0) + 1;
        let past = self.told.entry(name.to_owned()).or_default();
        for (key, answer) in &told {
            let (asked, method) = key.split_once(' ').expect("round and method");
            assert_eq!(asked.parse::<u8>().ok(), before, "answers to what was asked last");
            past.push(format!("{method}: {answer}"));
        }
        let Some(methods) = questions(name, round) else {
            return vec![told_result(id, self.told.remove(name).unwrap_or_default())];
        };
        let ask = |method: &&str| {
            let entry = json!({"method": method, "params": question(method, round)});
            (format!("{round} {method}"), entry)
        };
        let wanted: serde_json::Map<_, _> = methods.iter().map(ask).collect();
        let text = format!(
            "{{\"resultType\":\"input_required\",\"inputRequests\":{},\"requestState\":{}}}",
            Value::from(wanted),
            String::from_utf8(state(round)).expect("text"),
        );
        vec![(Some(id.clone()), Message::result(id, text.as_bytes()))]
    }

    fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    fn result(&self, id: &Id, mut of: Value) -> Said {
        if self.is_modern() {
            of["resultType"] = "complete".into();
        }
        result(id, &of)
    }

    pub(crate) fn seen(mut self) -> Log {
        self.log.sort();
        self.log
    }
}

fn questions(name: &str, round: u8) -> Option<&'static [&'static str]> {
    let (_, first, second) = QUESTIONS.iter().find(|(tool, ..)| *tool == name).expect("a tool");
    match round {
        1 => Some(first),
        2 => Some(second),
        _ => None,
    }
}

fn told_result(id: &Id, mut told: Vec<String>) -> Said {
    told.sort();
    result(id, &json!({"content": [{"type": "text", "text": told.join(", ")}]}))
}

fn read_id(text: &[u8]) -> Id {
    Id::parse(text).ok().flatten().expect("an id")
}

fn result(id: &Id, result: &Value) -> Said {
    (Some(id.clone()), Message::result(id, result.to_string().as_bytes()))
}

fn notice(method: &str, params: &Value) -> Message {
    Message::notification(method, Some(params.to_string().as_bytes()))
}
