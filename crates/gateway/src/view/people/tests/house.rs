//! A server over HTTP that shows each tenant something else, and nothing to strangers.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use switchboard_net::access::{AuthDenial, Authenticate, Who};
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::{Call, ReplySink as _};
use switchboard_net::connection::ClientConnection;
use switchboard_net::http::listen::{self, ListenOptions};
use switchboard_net::http::site::{Site, SiteOptions};
use switchboard_proto::exchange::{Exchange, HeaderParams};
use switchboard_proto::jsonrpc::{Id, Message};
use switchboard_proto::method::{self, meta};
use switchboard_proto::patch;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use tokio::net::TcpListener;
use tokio::sync::watch;

const CHANGED: &str = "notifications/tools/list_changed";

/// What each tenant is shown.
pub(super) struct House {
    era: Era,
    tools: Mutex<BTreeMap<String, Vec<String>>>,
    /// How often each has read the list.
    reads: Mutex<BTreeMap<String, usize>>,
    /// How long its lists may be kept; if it does not say, it tells when they change.
    ttl: Option<u64>,
    /// How often each was greeted.
    greetings: Mutex<BTreeMap<String, usize>>,
    sessions: Mutex<Vec<Arc<ClientConnection>>>,
    listens: Mutex<Vec<(Arc<ClientConnection>, Exchange, Id)>>,
    calls: AtomicUsize,
    /// What is not answered for now.
    held: watch::Sender<Option<&'static str>>,
}

#[derive(Debug)]
struct Door;

impl Authenticate for Door {
    fn authenticate(&self, headers: &HeaderMap) -> Result<Who, AuthDenial> {
        let tenant = headers.get("x-tenant").or_else(|| headers.get("x-caretaker"));
        match tenant.and_then(|value| value.to_str().ok()) {
            Some(tenant) => Ok(Who::new(tenant)),
            None => Err(AuthDenial::unknown(HeaderValue::from_static("Bearer"), "who?")),
        }
    }
}

impl House {
    /// Serves `red` and `blue`, each with a tool of that name.
    pub(super) async fn open(era: Era, ttl: Option<u64>) -> (Arc<Self>, SocketAddr) {
        let tools = ["red", "blue"].map(|name| (name.to_owned(), vec![name.to_owned()]));
        let house = Arc::new(Self {
            era,
            tools: Mutex::new(tools.into()),
            reads: Mutex::default(),
            ttl,
            greetings: Mutex::default(),
            sessions: Mutex::default(),
            listens: Mutex::default(),
            calls: AtomicUsize::new(0),
            held: watch::Sender::new(None),
        });
        let gate: Option<Arc<dyn Authenticate>> = Some(Arc::new(Door));
        let mut options = SiteOptions::default().authenticator(gate);
        options.modern = era == Era::Modern;
        let backend = Arc::clone(&house);
        let site = Site::new(backend, options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = ListenOptions::default();
        tokio::spawn(listen::serve(listener, site, options, std::future::pending()));
        (house, address)
    }

    /// Nobody is told which tools there are until it is opened again.
    pub(super) fn shut(&self, is_shut: bool) {
        self.held.send_replace(is_shut.then_some(method::LIST_TOOLS));
    }

    /// No call is answered until it is let go.
    pub(super) fn hold(&self, is_held: bool) {
        self.held.send_replace(is_held.then_some(method::CALL_TOOL));
    }

    /// How many calls there were.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Shows a tenant other tools.
    pub(super) fn change(&self, tenant: &str, tools: &[&str]) {
        let tools = tools.iter().map(|name| (*name).to_owned()).collect();
        self.tools.lock().unwrap().insert(tenant.to_owned(), tools);
    }

    /// Tells a tenant that its tools are others.
    pub(super) fn tell(&self, tenant: &str) {
        let note = Message::notification(CHANGED, None);
        for client in self.sessions.lock().unwrap().iter().filter(|it| it.who().name() == tenant) {
            client.note(None, &note);
        }
        for (client, exchange, id) in self.listens.lock().unwrap().iter() {
            if client.who().name() == tenant {
                client.note(Some(*exchange), &stamped(CHANGED, id, json!({})));
            }
        }
    }

    /// How often a tenant's list was read.
    pub(super) fn reads(&self, tenant: &str) -> usize {
        self.reads.lock().unwrap().get(tenant).copied().unwrap_or_default()
    }

    /// How often a tenant was greeted.
    pub(super) fn greetings(&self, tenant: &str) -> usize {
        self.greetings.lock().unwrap().get(tenant).copied().unwrap_or_default()
    }

    /// How often anybody was.
    pub(super) fn all_greetings(&self) -> usize {
        self.greetings.lock().unwrap().values().sum()
    }

    fn tools(&self, tenant: &str) -> Vec<String> {
        self.tools.lock().unwrap().get(tenant).cloned().unwrap_or_default()
    }

    fn answer(
        &self,
        client: &Arc<ClientConnection>,
        exchange: Exchange,
        request: &Message,
    ) -> Option<Value> {
        let tenant = client.who().name();
        let params = request.payload().unwrap_or_default();
        let capabilities = json!({"tools": {"listChanged": self.ttl.is_none()}});
        match request.method() {
            method::INITIALIZE if self.era == Era::Legacy => {
                *self.greetings.lock().unwrap().entry(tenant.to_owned()).or_default() += 1;
                self.sessions.lock().unwrap().push(Arc::clone(client));
                let version = patch::string(params, &["protocolVersion"]).unwrap();
                let whoami = json!({"name": "house", "version": "1"});
                Some(
                    json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": whoami}),
                )
            }
            method::DISCOVER => {
                let versions = Revision::names(Era::Modern);
                Some(json!({"supportedVersions": versions, "capabilities": capabilities}))
            }
            method::LIST_TOOLS => {
                *self.reads.lock().unwrap().entry(tenant.to_owned()).or_default() += 1;
                let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
                let tools: Vec<_> = self.tools(tenant).into_iter().map(tool).collect();
                Some(
                    json!({"tools": tools, "ttlMs": self.ttl.unwrap_or(0), "cacheScope": "public"}),
                )
            }
            method::CALL_TOOL => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                let name = patch::string(params, &["name"]).unwrap();
                let is_theirs = self.tools(tenant).contains(&name.clone().into_owned());
                let text = format!("{name} of {tenant}");
                let content = json!([{"type": "text", "text": text}]);
                Some(json!({"content": content, "isError": !is_theirs}))
            }
            method::LISTEN => {
                let id = request.id().unwrap().clone();
                let honoured = json!({"notifications": {"toolsListChanged": true}});
                client.note(Some(exchange), &stamped(method::ACKNOWLEDGED, &id, honoured));
                self.listens.lock().unwrap().push((Arc::clone(client), exchange, id));
                None
            }
            _ => {
                let why = Refusal::UnknownMethod { method: request.method().to_owned() };
                client.turn_away(exchange, request.id(), &why);
                None
            }
        }
    }
}

fn stamped(name: &str, id: &Id, mut params: Value) -> Message {
    let id: Value = serde_json::from_str(&id.to_string()).unwrap();
    params["_meta"] = json!({meta::SUBSCRIPTION: id});
    Message::notification(name, Some(params.to_string().as_bytes()))
}

impl Backend for House {
    fn open(
        &self,
        client: &Arc<ClientConnection>,
        call: &Call,
        request: Message,
        _: HeaderParams,
    ) -> PendingWork {
        let Some(mut result) = self.answer(client, call.exchange(), &request) else {
            return PendingWork::none();
        };
        if client.era() == Era::Modern {
            result["resultType"] = "complete".into();
        }
        let answer = Message::result(request.id().unwrap(), result.to_string().as_bytes());
        let (call, mut held) = (call.clone(), self.held.subscribe());
        PendingWork::one(async move {
            held.wait_for(|held| *held != Some(request.method())).await.unwrap();
            call.finish(answer);
        })
    }

    fn forget(&self, client: &Arc<ClientConnection>) {
        self.sessions.lock().unwrap().retain(|it| it.number() != client.number());
        self.listens.lock().unwrap().retain(|(it, ..)| it.number() != client.number());
    }
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").finish_non_exhaustive()
    }
}
