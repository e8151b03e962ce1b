//! The callers of a server: legacy sessions with their handshake, and modern requests.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::legacy::Phase;

use super::catalog::Catalog;
use super::handler::{Error, Request};
use super::{Server, server_tasks};
use crate::connection::{ClientConnection, lock};

/// Resources that one legacy client may watch.
const MOST_WATCHED: usize = 4096;

/// What a legacy client said when it introduced itself, and has set since.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Weak<ClientConnection>,
    pub(super) revision: Revision,
    pub(super) capabilities: Value,
    pub(super) client_info: Value,
    /// What we said we can do.
    offered: Value,
    /// None until the client chose one.
    pub(super) level: Mutex<Option<Level>>,
    watched: Mutex<BTreeSet<Box<str>>>,
}

impl Session {
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

    /// Whether the handshake is over: before that, nothing but logs is said (LIF-2).
    pub(super) fn is_ready(&self) -> bool {
        self.client.upgrade().is_some_and(|client| client.phase() == Some(Phase::Ready))
    }

    /// Whether this client was told that it will hear of changes to a list (LIF-3).
    pub(super) fn expects(&self, list: &str) -> bool {
        self.is_offered(&format!("/{list}/listChanged"))
    }

    /// Whether this client was told that we can do this (LIF-3).
    pub(super) fn is_offered(&self, capability: &str) -> bool {
        self.offered.pointer(capability).is_some_and(|offer| *offer != Value::Bool(false))
    }

    pub(super) fn watch(&self, uri: &str) -> Result<(), Error> {
        let mut watched = lock(&self.watched);
        if watched.len() >= MOST_WATCHED && !watched.contains(uri) {
            return Err(Refusal::TooManyWatched.into());
        }
        watched.insert(uri.into());
        Ok(())
    }

    pub(super) fn unwatch(&self, uri: &str) {
        lock(&self.watched).remove(uri);
    }

    pub(super) fn watches(&self, uri: &str) -> bool {
        lock(&self.watched).iter().any(|watched| covers(watched, uri))
    }
}

/// Whether `uri` is `watched` or lies beneath it (SUB-13); `file:///ab` is not beneath `file:///a`.
pub(crate) fn covers(watched: &str, uri: &str) -> bool {
    uri.strip_prefix(watched).is_some_and(|rest| {
        rest.is_empty() || watched.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}

/// Where to look up what is known of the caller.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    Session(Arc<Session>),
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
            Self::Request(_) => self.envelope(Member::MetaCapabilities).unwrap_or_default(),
        }
    }

    pub(super) fn client(&self) -> Option<Value> {
        match self {
            Self::Session(session) => {
                Some(session.client_info.clone()).filter(|info| !info.is_null())
            }
            Self::Request(_) => self.envelope(Member::MetaClient),
        }
    }

    /// The least grave level of log records to send, if any (LOG-1, UTL-4).
    pub(super) fn level(&self) -> Option<Level> {
        match self {
            // Before the client chooses, we do.
            Self::Session(session) => Some(lock(&session.level).unwrap_or(Level::Info)),
            Self::Request(_) => Level::parse(self.envelope(Member::MetaLogLevel)?.as_str()?),
        }
    }

    fn envelope(&self, member: Member) -> Option<Value> {
        let Self::Request(request) = self else { return None };
        request.value(member)
    }
}

/// The legacy clients, in parts so that clients do not wait for one another.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    parts: [Mutex<HashMap<u64, Arc<Session>>>; 16],
}

impl Sessions {
    fn part(&self, client: u64) -> &Mutex<HashMap<u64, Arc<Session>>> {
        let index = usize::try_from(client % 16).unwrap_or_default();
        &self.parts[index]
    }

    pub(super) fn greet(&self, client: u64, session: Arc<Session>) {
        lock(self.part(client)).insert(client, session);
    }

    pub(super) fn get(&self, client: u64) -> Option<Arc<Session>> {
        lock(self.part(client)).get(&client).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        let all =
            self.parts.iter().flat_map(|part| lock(part).values().cloned().collect::<Vec<_>>());
        all.collect()
    }

    /// A client is gone.
    pub(super) fn forget(&self, client: u64) {
        lock(self.part(client)).remove(&client);
    }
}

/// Who we are and what else we say about ourselves.
#[derive(Clone, Debug)]
pub(super) struct Identity {
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
    /// `initialize`: settles on a revision, and remembers who this is (LIF-1).
    pub(super) fn initialize(
        &self,
        client: &Arc<ClientConnection>,
        call: &Request,
    ) -> Result<Bytes, Error> {
        let params = call.value()?;
        let asked = params["protocolVersion"].as_str();
        let asked = asked
            .ok_or_else(|| Error::invalid_params("params.protocolVersion must be a string"))?;
        let revision = self.settle_on(asked)?;
        let offered = self.capabilities(&self.catalog(), revision);
        let session = Session::new(client, revision, &params, offered.clone());
        self.sessions.greet(client.number(), session);
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": offered,
            "serverInfo": self.identity.info,
        });
        if let Some(instructions) = &self.identity.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        Ok(result.to_string().into())
    }

    /// The revision that was asked for, else our newest with a handshake (NEG-11).
    fn settle_on(&self, asked: &str) -> Result<Revision, Error> {
        let legacy = |revision: &Revision| revision.era() == Era::Legacy;
        let speaks = || self.identity.speaks.iter().copied().filter(legacy);
        let same = speaks().find(|revision| revision.as_str() == asked);
        same.or_else(|| speaks().max()).ok_or_else(|| {
            let asked = asked.to_owned();
            Refusal::WrongEra { asked, serves: "modern" }.into()
        })
    }

    /// Whether a client of that era is served at all.
    pub(super) fn speaks(&self, era: Era) -> bool {
        self.identity.speaks.iter().any(|revision| revision.era() == era)
    }

    /// Whether clients are told that we log to them (LIF-3).
    pub(super) fn logs(&self) -> bool {
        self.identity.logging || self.identity.capabilities.contains_key("logging")
    }

    /// `server/discover` (DISC-1, DISC-2).
    pub(super) fn discover(&self) -> Bytes {
        let revision = Revision::NEWEST_MODERN;
        let mut result = json!({
            "supportedVersions": Revision::names(Era::Modern),
            "capabilities": self.capabilities(&self.catalog(), revision),
        });
        if let Some(instructions) = &self.identity.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        result.to_string().into()
    }

    /// What is offered, derived from what is there (META-6).
    pub(super) fn capabilities(&self, catalog: &Catalog, revision: Revision) -> Value {
        let mut all = Map::new();
        let shelves = [("tools", catalog.tools.offered), ("prompts", catalog.prompts.offered)];
        for (name, _) in shelves.into_iter().filter(|(_, offered)| *offered) {
            all.insert(name.to_owned(), json!({"listChanged": true}));
        }
        if catalog.resources.offered || catalog.templates.offered {
            let resources = json!({"subscribe": true, "listChanged": true});
            all.insert("resources".to_owned(), resources);
        }
        if catalog.completion.is_some() {
            all.insert("completions".to_owned(), json!({}));
        }
        if self.identity.logging {
            all.insert("logging".to_owned(), json!({}));
        }
        let tasks =
            catalog.tools.iter().any(|tool| tool.support != server_tasks::TaskSupport::Forbidden);
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

/// The eight levels of syslog, least grave first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(missing_docs, reason = "the names are syslog's own")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    /// Least grave first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of that name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
