//! The clients of a server: legacy sessions with their handshake, modern requests, and who
//! of them hears of changes: sessions by themselves, modern clients by a listen.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Id, Member, Message};
use switchboard_proto::method::{self, meta};
use switchboard_proto::project;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::legacy::{Phase, covers};
use switchboard_proto::types::Level;

use super::handler::{Error, RawResult, Request};
use super::{ClientCall, Server, notification, server_tasks};
use crate::call::ReplySink as _;
use crate::connection::{ClientConnection, lock};

/// Resources that one legacy client may watch.
const MOST_WATCHED: usize = 4096;

/// What a legacy client said when it introduced itself, and has set since.
#[derive(Debug)]
pub(super) struct ServerSession {
    pub(super) client: Weak<ClientConnection>,
    pub(super) revision: Revision,
    pub(super) capabilities: Value,
    pub(super) client_info: Value,
    /// What we said we can do.
    offered: Value,
    /// None until the client chose one.
    level: Mutex<Option<Level>>,
    pub(super) watched: Mutex<BTreeSet<Box<str>>>,
}

impl ServerSession {
    pub(super) fn new(
        client: &Arc<ClientConnection>,
        revision: Revision,
        params: &Value,
        offered: Value,
    ) -> Arc<Self> {
        Arc::new(Self {
            client: Arc::downgrade(client),
            revision,
            capabilities: params["capabilities"].clone(),
            client_info: params["clientInfo"].clone(),
            offered,
            level: Mutex::new(None),
            watched: Mutex::default(),
        })
    }

    /// Whether this client was told that we can do this (LIF-3).
    pub(super) fn is_offered(&self, capability: &str) -> bool {
        self.offered.pointer(capability).is_some_and(|offer| *offer != Value::Bool(false))
    }

    pub(super) fn set_level(&self, name: &str) -> Result<(), Error> {
        *lock(&self.level) = Some(read_level(name).map_err(Error::invalid_params)?);
        Ok(())
    }

    pub(super) fn watch(&self, uri: &str) -> Result<(), Error> {
        let mut watched = lock(&self.watched);
        if watched.len() >= MOST_WATCHED && !watched.contains(uri) {
            return Err(Refusal::TooManyWatched.into());
        }
        watched.insert(uri.into());
        Ok(())
    }
}

/// Where to look up what is known of the caller.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    Session(Arc<ServerSession>),
    /// The request that was made, with its envelope (MOD-2).
    Request(Message),
}

impl Caller {
    pub(super) fn era(&self) -> Era {
        match self {
            Self::Session(_) => Era::Legacy,
            Self::Request(_) => Era::Modern,
        }
    }

    pub(super) fn revision(&self) -> Revision {
        match self {
            Self::Session(session) => session.revision,
            // The half lets no other pass.
            Self::Request(_) => Revision::NEWEST_MODERN,
        }
    }

    pub(super) fn capabilities(&self) -> Value {
        match self {
            Self::Session(session) => session.capabilities.clone(),
            Self::Request(request) => request.value(Member::MetaCapabilities).unwrap_or_default(),
        }
    }

    pub(super) fn client(&self) -> Option<Value> {
        match self {
            Self::Session(session) => {
                Some(session.client_info.clone()).filter(|info| !info.is_null())
            }
            Self::Request(request) => request.value(Member::MetaClient),
        }
    }

    /// The least grave level of log records to send, if any (LOG-1, UTL-4).
    pub(super) fn level(&self) -> Option<Level> {
        match self {
            // Before the client chooses, we do.
            Self::Session(session) => Some(lock(&session.level).unwrap_or(Level::Info)),
            Self::Request(request) => Level::parse(&request.string(Member::MetaLogLevel)?),
        }
    }
}

/// Who we are and what else we say about ourselves.
#[derive(Default)]
pub(super) struct ServerIdentity {
    pub(super) info: Map<String, Value>,
    /// The same as text.
    pub(super) text: Bytes,
    pub(super) instructions: Option<String>,
    pub(super) logging: bool,
    pub(super) capabilities: Map<String, Value>,
    pub(super) extensions: Map<String, Value>,
    /// What is spoken; the newest first.
    pub(super) speaks: Vec<Revision>,
}

impl Server {
    /// The session of a legacy client, once it has introduced itself.
    pub(super) fn session(&self, client: &ClientConnection) -> Option<Arc<ServerSession>> {
        lock(&self.sessions).get(&client.number()).cloned()
    }

    fn all_sessions(&self) -> Vec<Arc<ServerSession>> {
        lock(&self.sessions).values().cloned().collect()
    }

    /// `initialize`: settles on a revision, and remembers who this is (LIF-1).
    pub(super) fn initialize(&self, from: &ClientCall) -> RawResult {
        let ClientCall { client, request: call, .. } = from;
        let params = call.value()?;
        let asked = call.text("protocolVersion")?;
        // The revision that was asked for, else our newest with a handshake (NEG-11).
        let legacy = |revision: &Revision| revision.era() == Era::Legacy;
        let speaks = || self.identity.speaks.iter().copied().filter(legacy);
        let same = speaks().find(|revision| revision.as_str() == asked);
        let revision =
            same.or_else(|| speaks().max()).ok_or(Refusal::WrongEra { asked, serves: "modern" })?;
        let offered = self.capabilities(revision);
        let session = ServerSession::new(client, revision, &params, offered.clone());
        lock(&self.sessions).insert(client.number(), session);
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": offered,
            "serverInfo": self.identity.info,
        });
        self.instruct(&mut result);
        Ok(result.to_string().into())
    }

    /// How to use the server, if it says so.
    fn instruct(&self, result: &mut Value) {
        if let Some(instructions) = &self.identity.instructions {
            result["instructions"] = instructions.as_str().into();
        }
    }

    /// Whether clients are told that we log to them (LIF-3).
    pub(super) fn logs(&self) -> bool {
        self.identity.logging || self.identity.capabilities.contains_key("logging")
    }

    /// `server/discover` (DISC-1, DISC-2).
    pub(super) fn discover(&self) -> Bytes {
        let mut result = json!({
            "supportedVersions": Revision::names(Era::Modern),
            "capabilities": self.capabilities(Revision::NEWEST_MODERN),
        });
        self.instruct(&mut result);
        result.to_string().into()
    }

    /// What is offered, derived from what is there (META-6).
    fn capabilities(&self, revision: Revision) -> Value {
        let catalog = self.catalog();
        let derived = [
            ("tools", catalog.tools.offered, json!({"listChanged": true})),
            ("prompts", catalog.prompts.offered, json!({"listChanged": true})),
            ("resources", catalog.has_resources(), json!({"subscribe": true, "listChanged": true})),
            ("completions", self.completion.is_some(), json!({})),
            ("logging", self.identity.logging, json!({})),
        ];
        let derived = derived.into_iter().filter(|(_, is_there, _)| *is_there);
        let mut all: Map<_, _> = derived.map(|(name, _, it)| (name.to_owned(), it)).collect();
        let tasks = catalog.has_tasks();
        if tasks && revision.rules().core_tasks {
            let requests = json!({"tools": {"call": {}}});
            let tasks = json!({"list": {}, "cancel": {}, "requests": requests});
            all.insert("tasks".to_owned(), tasks);
        }
        if revision.era() == Era::Modern {
            let mut extensions = self.identity.extensions.clone();
            if tasks {
                extensions.insert(server_tasks::EXTENSION.to_owned(), json!({}));
            }
            if !extensions.is_empty() {
                all.insert("extensions".to_owned(), extensions.into());
            }
        }
        all.extend(self.identity.capabilities.clone());
        all.into()
    }
}

/// The level of that name, or what is wrong with the name.
pub(super) fn read_level(name: &str) -> Result<Level, String> {
    let why = || format!("there is no log level {name:?}; there are {}", method::LEVELS.join(", "));
    Level::parse(name).ok_or_else(why)
}

/// Listens at once, over all clients (SUB-12).
const MOST_LISTENS: usize = 1024;

/// URIs, or tasks, in one listen.
const MOST_NAMES: usize = 1024;

/// The open listens, by their client and its call.
pub(super) type ClientListens = HashMap<(u64, Exchange), ClientListen>;

pub(super) struct ClientListen {
    client: Weak<ClientConnection>,
    id: Id,
    filter: ListenWishes,
}

/// What a listen wants to hear of.
#[derive(Clone, Debug, Default, PartialEq)]
struct ListenWishes {
    /// Of tools, prompts, resources.
    lists: BTreeSet<&'static str>,
    uris: BTreeSet<String>,
    tasks: BTreeSet<String>,
}

/// The lists that may change.
const LISTS: [&str; 3] = ["tools", "prompts", "resources"];

/// Something that changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum ServerChange<'a> {
    /// `tools`, `prompts` or `resources`.
    List(&'static str),
    Resource(&'a str),
    Task(&'a str),
}

impl ListenWishes {
    fn read(call: &Request) -> Result<Self, Error> {
        let params = call.value()?;
        let wanted = &params["notifications"];
        if !wanted.is_object() {
            return Err(Error::invalid_params("params.notifications must be an object"));
        }
        let names = |member: &str| -> Result<BTreeSet<String>, Error> {
            let Some(names) = wanted.get(member) else { return Ok(BTreeSet::new()) };
            let names = serde_json::from_value::<BTreeSet<String>>(names.clone());
            let names = names.ok().filter(|names| names.len() <= MOST_NAMES);
            let what =
                || format!("notifications.{member} is a list of at most {MOST_NAMES} strings");
            names.ok_or_else(|| Error::invalid_params(what()))
        };
        let is_wanted = |list: &&str| wanted[format!("{list}ListChanged")] == true;
        Ok(Self {
            lists: LISTS.into_iter().filter(is_wanted).collect(),
            uris: names("resourceSubscriptions")?,
            tasks: names("taskIds")?,
        })
    }

    fn to_json(&self) -> Value {
        let mut all = Map::new();
        for list in &self.lists {
            all.insert(format!("{list}ListChanged"), true.into());
        }
        for (member, names) in [("resourceSubscriptions", &self.uris), ("taskIds", &self.tasks)] {
            if !names.is_empty() {
                all.insert(member.to_owned(), json!(names));
            }
        }
        all.into()
    }

    fn wants(&self, change: ServerChange<'_>) -> bool {
        match change {
            ServerChange::List(list) => self.lists.contains(list),
            ServerChange::Resource(uri) => self.uris.iter().any(|wanted| covers(wanted, uri)),
            ServerChange::Task(id) => self.tasks.contains(id),
        }
    }
}

impl Server {
    /// `subscriptions/listen`: says what is honoured, and goes on until dropped
    /// (SUB-1, SUB-3, SUB-5). A result only if nothing is.
    pub(super) fn listen(&self, from: &ClientCall) -> Option<RawResult> {
        let ClientCall { client, exchange, request: call } = from;
        let mut filter = match ListenWishes::read(call) {
            Ok(filter) => filter,
            Err(error) => return Some(Err(error)),
        };
        let offered = self.capabilities(Revision::NEWEST_MODERN);
        filter.lists.retain(|list| offered[list]["listChanged"] == true);
        if offered["resources"]["subscribe"] != true {
            filter.uris.clear();
        }
        let (caller, principal) = (Caller::Request(call.message.clone()), client.principal());
        filter.tasks.retain(|id| self.tasks.find(id, &caller, principal).is_some());
        let id = call.message.id()?.clone();
        let honoured = stamped(json!({"notifications": filter.to_json()}), &id);
        let nothing = filter == ListenWishes::default();
        if !nothing {
            client.introduce(&self.identity.text);
            let mut open = lock(&self.listens);
            if open.len() >= MOST_LISTENS {
                return Some(Err(Error::internal("too many subscriptions are open")));
            }
            let listen = ClientListen { client: Arc::downgrade(client), id: id.clone(), filter };
            open.insert((client.number(), *exchange), listen);
        }
        client.note(Some(*exchange), &Message::notification(method::ACKNOWLEDGED, Some(&honoured)));
        nothing.then(|| Ok(stamped(json!({}), &id).into()))
    }

    /// Ends every listen with its result (SUB-8), and every task: say this before a shutdown.
    pub fn close(&self) {
        self.tasks.cancel(|_| true);
        let open = std::mem::take(&mut *lock(&self.listens));
        for ((_, exchange), listen) in open {
            let Some(client) = listen.client.upgrade() else { continue };
            let result = stamped(json!({}), &listen.id);
            let projected =
                project::modern(&result, method::LISTEN, Some(&self.identity.text), self.cache);
            let result = projected.unwrap_or_else(|_| result.into());
            client.finish(exchange, Message::result(&listen.id, &result).into());
        }
    }

    /// The list of tools is another one.
    pub fn tools_changed(&self) {
        self.list_changed("tools");
    }

    /// The list of prompts is another one.
    pub fn prompts_changed(&self) {
        self.list_changed("prompts");
    }

    /// The list of resources, or of templates, is another one.
    pub fn resources_changed(&self) {
        self.list_changed("resources");
    }

    pub(super) fn list_changed(&self, list: &'static str) {
        let Some(name) = method::list_changed(list) else { return };
        let message = Message::notification(name, None);
        for session in self.all_sessions() {
            // Before the handshake is over, nothing but logs is said (LIF-2).
            let client = session.client.upgrade();
            let is_ready = client.is_some_and(|client| client.phase() == Some(Phase::Ready));
            if is_ready && session.is_offered(&format!("/{list}/listChanged")) {
                tell(&session.client, None, &message);
            }
        }
        self.tell_listens(ServerChange::List(list), name, &json!({}));
    }

    /// A resource has changed; clients that watch it, or what it lies beneath, are told (SUB-13).
    pub fn resource_updated(&self, uri: &str) {
        let params = json!({"uri": uri});
        let message = notification(method::UPDATED, &params);
        for session in self.all_sessions() {
            if lock(&session.watched).iter().any(|watched| covers(watched, uri)) {
                tell(&session.client, None, &message);
            }
        }
        self.tell_listens(ServerChange::Resource(uri), method::UPDATED, &params);
    }

    /// Tells the listens that want to hear of it, each under its own id (SUB-2, SUB-4).
    pub(super) fn tell_listens(&self, change: ServerChange<'_>, name: &str, params: &Value) {
        let open = lock(&self.listens);
        let wanted = open.iter().filter(|(_, listen)| listen.filter.wants(change));
        let wanted: Vec<_> = wanted
            .map(|(&(_, exchange), it)| (exchange, Weak::clone(&it.client), it.id.clone()))
            .collect();
        drop(open);
        for (exchange, client, id) in wanted {
            let params = stamped(params.clone(), &id);
            tell(&client, Some(exchange), &Message::notification(name, Some(&params)));
        }
    }
}

/// Tells one client. One that does not read what it asked for is cut loose: a
/// slow reader must harm nobody else.
pub(super) fn tell(client: &Weak<ClientConnection>, exchange: Option<Exchange>, message: &Message) {
    let Some(client) = client.upgrade() else { return };
    client.note(exchange, message);
    if client.is_slow() {
        tracing::warn!("a client that does not read is disconnected");
        client.end();
    }
}

/// `params` with the listen they belong to.
fn stamped(mut params: Value, id: &Id) -> Vec<u8> {
    let id: Value = serde_json::from_str(&id.to_string()).unwrap_or_default();
    params["_meta"] = json!({meta::SUBSCRIPTION: id});
    params.to_string().into_bytes()
}
