//! A server that has every feature of its era, and writes down what it is asked to do.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::patch;
use switchboard_proto::revision::{Era, Revision};

use super::client::read_id;
use super::log::{LOG_LEVEL, Log, QUESTIONS, SERVER, SUBSCRIPTION, put};

/// What must come back byte for byte, however it is spelled.
const STATE: &str = r#""st\u0061te \/ ""#;

/// What a server has, and what it knows.
pub(crate) struct Server {
    revision: Revision,
    /// Each thing as often as it happened: a call that runs twice is a bug.
    log: Log,
    calls: HashMap<Id, Call>,
    /// Questions: the call each was asked on, and its method.
    asked: HashMap<Id, (Id, String)>,
    next_ask: u64,
    /// What each call was told (modern).
    told: HashMap<String, Vec<String>>,
    watched: BTreeSet<String>,
    level: bool,
    /// It has begun anew, and may be told what it does not know of.
    was_lost: bool,
}

#[derive(Default)]
struct Call {
    /// Whose it is, and what it is called.
    name: String,
    /// What a listen wants to hear.
    wanted: Value,
    round: u8,
    /// What it still waits to be told.
    missing: usize,
    told: Vec<String>,
    token: Value,
}

/// What the server says, and the request it belongs to.
pub(crate) type HeaderParams = (Option<Id>, Message);

impl Server {
    pub(crate) fn new(revision: Revision) -> Self {
        Self {
            revision,
            log: Log::new(),
            calls: HashMap::new(),
            asked: HashMap::new(),
            next_ask: 1,
            told: HashMap::new(),
            watched: BTreeSet::new(),
            level: false,
            was_lost: false,
        }
    }

    /// Everything is gone but what was written down, and what clients carry for it.
    pub(crate) fn lose(&mut self) {
        let (log, told) = (std::mem::take(&mut self.log), std::mem::take(&mut self.told));
        let next_ask = self.next_ask;
        *self = Self { log, told, next_ask, was_lost: true, ..Self::new(self.revision) };
    }

    /// What it is still busy with.
    pub(crate) fn open(&self) -> Vec<&str> {
        self.calls.values().map(|call| call.name.as_str()).collect()
    }

    pub(crate) fn handle(&mut self, message: &Message) -> Vec<HeaderParams> {
        let params = message.payload().unwrap_or(b"{}");
        match message.kind() {
            Kind::Request => self.serve(message, params),
            Kind::Notification => {
                if let Some(id) = patch::get(params, &["requestId"]) {
                    self.cancel(&read_id(id));
                } else {
                    put(&mut self.log, message.method(), String::new());
                }
                Vec::new()
            }
            Kind::Result | Kind::Error => {
                let id = message.id().expect("an answer");
                let asked = self.asked.remove(id);
                let Some((call, method)) = asked else {
                    let text = String::from_utf8_lossy(message.text());
                    assert!(self.was_lost, "answered, but not asked: {text}");
                    return Vec::new();
                };
                let got = String::from_utf8_lossy(params).into_owned();
                self.handle_answer(&call, &method, &got)
            }
        }
    }

    fn handle_answer(&mut self, id: &Id, method: &str, got: &str) -> Vec<HeaderParams> {
        // Whoever has given up on the call may have been asked before that.
        let Some(call) = self.calls.get_mut(id) else { return Vec::new() };
        call.told.push(format!("{method}: {got}"));
        call.missing -= 1;
        if call.missing == 0 { self.next_round(id) } else { Vec::new() }
    }

    /// A call is given up, by notice or by closing its lane.
    pub(crate) fn cancel(&mut self, id: &Id) {
        let Some(call) = self.calls.remove(id) else { return };
        if !call.name.starts_with("listen") {
            return put(&mut self.log, call.name, "cancelled".to_owned());
        }
        for uri in uris(&call.wanted) {
            if !self.is_watched(uri) {
                put(&mut self.log, format!("watch {uri}"), "unwatched".to_owned());
            }
        }
    }

    /// Whether anybody is told of a resource.
    pub(crate) fn is_watched(&self, uri: &str) -> bool {
        let is_listened_for = |call: &Call| uris(&call.wanted).any(|wanted| wanted == uri);
        self.watched.contains(uri) || self.calls.values().any(is_listened_for)
    }

    fn serve(&mut self, request: &Message, params: &[u8]) -> Vec<HeaderParams> {
        let id = request.id().expect("a request");
        let text = String::from_utf8_lossy(params).into_owned();
        let member = |path: &[&str]| patch::string(params, path).unwrap_or_default().into_owned();
        let whose = member(&["_meta", "of"]);
        match request.method() {
            // How it is asked for is the era's own business.
            "initialize" | "server/discover" => {
                put(&mut self.log, "hello", String::new());
                vec![self.hello(id)]
            }
            "tools/list" => {
                let cursor = patch::string(params, &["cursor"]);
                put(&mut self.log, format!("{whose}/list {cursor:?}"), format!("asked {text}"));
                let tools = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
                vec![self.result(id, json!({"tools": tools, "nextCursor": cursor}))]
            }
            "tools/call" => {
                let name = format!("{whose}/{}", member(&["name"]));
                put(&mut self.log, &name, format!("called {text}"));
                self.call(id, &name, params)
            }
            "resources/subscribe" => {
                if self.watched.insert(member(&["uri"])) {
                    put(&mut self.log, format!("watch {}", member(&["uri"])), "watched".to_owned());
                }
                vec![result(id, &json!({}))]
            }
            "resources/unsubscribe" => {
                if self.watched.remove(&member(&["uri"])) {
                    let stream = format!("watch {}", member(&["uri"]));
                    put(&mut self.log, stream, "unwatched".to_owned());
                }
                vec![result(id, &json!({}))]
            }
            "logging/setLevel" => {
                self.level = true;
                put(&mut self.log, "level", member(&["level"]));
                vec![result(id, &json!({}))]
            }
            "ping" => {
                put(&mut self.log, "ping", String::new());
                vec![result(id, &json!({}))]
            }
            "subscriptions/listen" => self.listen(id, params),
            other => panic!("not in the script: {other}"),
        }
    }

    fn hello(&self, id: &Id) -> HeaderParams {
        let server = json!({"name": "server"});
        let capabilities = json!({
            "tools": {"listChanged": true}, "logging": {}, "resources": {"subscribe": true},
        });
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

    fn listen(&mut self, id: &Id, params: &[u8]) -> Vec<HeaderParams> {
        let wanted = patch::get(params, &["notifications"]).expect("a filter");
        let wanted: Value = serde_json::from_slice(wanted).expect("JSON");
        for uri in uris(&wanted) {
            if !self.is_watched(uri) {
                put(&mut self.log, format!("watch {uri}"), "watched".to_owned());
            }
        }
        let ack = json!({"notifications": wanted, "_meta": marked(id)});
        let ack = notice("notifications/subscriptions/acknowledged", &ack);
        let call = Call { name: "listen".to_owned(), wanted, ..Call::default() };
        self.calls.insert(id.clone(), call);
        vec![(Some(id.clone()), ack)]
    }

    /// Tells who wants to know that a resource has changed, and lists.
    fn touch(&self, uri: &str, by: &str, lists: bool) -> Vec<HeaderParams> {
        let (updated, changed) =
            ("notifications/resources/updated", "notifications/tools/list_changed");
        let mut said = Vec::new();
        if self.watched.contains(uri) {
            said.push((None, notice(updated, &json!({"uri": uri, "_meta": {"by": by}}))));
        }
        if lists && !self.is_modern() {
            said.push((None, Message::notification(changed, None)));
        }
        for (id, call) in &self.calls {
            if uris(&call.wanted).any(|wanted| wanted == uri) {
                let mut update = json!({"uri": uri, "_meta": marked(id)});
                update["_meta"]["by"] = by.into();
                said.push((Some(id.clone()), notice(updated, &update)));
            }
            if lists && call.wanted["toolsListChanged"] == true {
                let change = notice(changed, &json!({"_meta": marked(id)}));
                said.push((Some(id.clone()), change));
            }
        }
        said
    }

    fn call(&mut self, id: &Id, name: &str, params: &[u8]) -> Vec<HeaderParams> {
        let token = patch::get(params, &["_meta", "progressToken"]).expect("it has a token");
        let token: Value = serde_json::from_slice(token).expect("JSON");
        let progress = |step: u8| progress(id, &token, step);
        let call = || Call { name: name.to_owned(), token: token.clone(), ..Call::default() };
        match name.split_once('/').map_or("?", |(_, tool)| tool) {
            "knock" | "progress" => {
                let content = json!({"content": [{"type": "text", "text": "done"}]});
                vec![progress(1), progress(2), self.result(id, content)]
            }
            "fail" => {
                let error = json!({"code": -32603, "message": "it failed", "data": {"k": 1}});
                vec![(Some(id.clone()), Message::error(Some(id), &error))]
            }
            "slow" => {
                self.calls.insert(id.clone(), call());
                vec![progress(1)]
            }
            "log" => {
                let wanted = patch::get(params, &["_meta", LOG_LEVEL]).is_some() || self.level;
                let log = json!({"level": "info", "data": "hi"});
                let log = (Some(id.clone()), notice("notifications/message", &log));
                let done = self.result(id, json!({"content": []}));
                if wanted { vec![log, done] } else { vec![done] }
            }
            tool if tool.starts_with("touch") => {
                let uri = patch::string(params, &["arguments", "uri"]).expect("a resource");
                let lists = patch::get(params, &["arguments", "lists"]) == Some(b"true");
                let mut said = self.touch(&uri, tool, lists);
                said.push(self.result(id, json!({"content": []})));
                said
            }
            _ if self.is_modern() => self.modern_round(id, name, params, &token),
            _ => {
                self.calls.insert(id.clone(), call());
                self.next_round(id)
            }
        }
    }

    /// The next questions of a call at a legacy server, or its end.
    fn next_round(&mut self, id: &Id) -> Vec<HeaderParams> {
        let call = self.calls.get_mut(id).expect("the call is open");
        call.round += 1;
        let Some(methods) = questions(&call.name, call.round) else {
            let told = self.calls.remove(id).map(|call| call.told).unwrap_or_default();
            return vec![told_result(id, told)];
        };
        call.missing = methods.len();
        let of = format!("{}/{}", call.name, call.round);
        let mut said = vec![progress(id, &call.token, call.round)];
        for method in methods {
            let ask = Id::from(self.next_ask);
            self.next_ask += 1;
            let params = question(method, &of).to_string();
            let request = Message::request(&ask, method, Some(params.as_bytes()));
            self.asked.insert(ask, (id.clone(), (*method).to_owned()));
            said.push((Some(id.clone()), request));
        }
        said
    }

    /// The same at a modern server, which is told how far it got.
    fn modern_round(
        &mut self,
        id: &Id,
        name: &str,
        params: &[u8],
        token: &Value,
    ) -> Vec<HeaderParams> {
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
            let params = question(method, &format!("{name}/{round}"));
            (format!("{round} {method}"), json!({"method": method, "params": params}))
        };
        let wanted: serde_json::Map<_, _> = methods.iter().map(ask).collect();
        let text = format!(
            "{{\"resultType\":\"input_required\",\"inputRequests\":{},\"requestState\":{}}}",
            Value::from(wanted),
            String::from_utf8(state(round)).expect("text"),
        );
        let asks = (Some(id.clone()), Message::result(id, text.as_bytes()));
        vec![progress(id, token, round), asks]
    }

    fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    fn result(&self, id: &Id, mut of: Value) -> HeaderParams {
        if self.is_modern() {
            of["resultType"] = "complete".into();
        }
        result(id, &of)
    }

    pub(crate) fn seen(self) -> Log {
        self.log
    }
}

fn question(method: &str, of: &str) -> Value {
    let mut params = match method {
        "elicitation/create" => {
            let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
            json!({"message": of, "requestedSchema": schema})
        }
        "sampling/createMessage" => json!({"messages": [], "maxTokens": 9}),
        _ => json!({}),
    };
    params["_meta"]["of"] = of.into();
    params
}

fn questions(name: &str, round: u8) -> Option<&'static [&'static str]> {
    let tool = name.split_once('/').map_or("?", |(_, tool)| tool);
    let (_, first, second) = QUESTIONS.iter().find(|(it, ..)| *it == tool).expect("a tool");
    match round {
        1 => Some(first),
        2 => Some(second),
        _ => None,
    }
}

/// The resources that a listen wants to hear of.
fn uris(wanted: &Value) -> impl Iterator<Item = &str> {
    let uris = wanted["resourceSubscriptions"].as_array().into_iter().flatten();
    uris.map(|uri| uri.as_str().expect("text"))
}

fn progress(id: &Id, token: &Value, step: u8) -> HeaderParams {
    let params = json!({"progressToken": token, "progress": step});
    (Some(id.clone()), notice("notifications/progress", &params))
}

fn told_result(id: &Id, mut told: Vec<String>) -> HeaderParams {
    told.sort();
    result(id, &json!({"content": [{"type": "text", "text": told.join(", ")}]}))
}

/// What marks a message as one of a listen.
fn marked(id: &Id) -> Value {
    let of: Value = serde_json::from_str(&id.to_string()).expect("JSON");
    json!({ SUBSCRIPTION: of })
}

fn result(id: &Id, result: &Value) -> HeaderParams {
    (Some(id.clone()), Message::result(id, result.to_string().as_bytes()))
}

fn notice(method: &str, params: &Value) -> Message {
    Message::notification(method, Some(params.to_string().as_bytes()))
}
