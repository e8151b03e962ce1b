//! Who calls: a legacy session, or a modern request that speaks for itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};

use serde_json::Value;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::legacy::Phase;

use super::error::Error;
use super::level::Level;
use crate::face::{Face, lock};

/// Resources that one legacy client may watch.
const MOST_WATCHED: usize = 4096;

/// What a legacy client said when it introduced itself, and has set since.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) face: Weak<Face>,
    pub(super) revision: Revision,
    pub(super) capabilities: Value,
    pub(super) client: Value,
    /// What we said we can do.
    offered: Value,
    /// None until the client chose one.
    pub(super) level: Mutex<Option<Level>>,
    watched: Mutex<BTreeSet<Box<str>>>,
}

impl Session {
    pub(super) fn new(
        face: &Arc<Face>,
        revision: Revision,
        params: &Value,
        offered: Value,
    ) -> Arc<Self> {
        Arc::new(Self {
            face: Arc::downgrade(face),
            revision,
            capabilities: params["capabilities"].clone(),
            client: params["clientInfo"].clone(),
            offered,
            level: Mutex::new(None),
            watched: Mutex::default(),
        })
    }

    /// Whether the handshake is over: before that, nothing but logs is said (LIF-2).
    pub(super) fn is_ready(&self) -> bool {
        self.face.upgrade().is_some_and(|face| face.phase() == Some(Phase::Ready))
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
            Self::Session(session) => Some(session.client.clone()).filter(|info| !info.is_null()),
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
    fn part(&self, face: u64) -> &Mutex<HashMap<u64, Arc<Session>>> {
        let index = usize::try_from(face % 16).unwrap_or_default();
        &self.parts[index]
    }

    pub(super) fn greet(&self, face: u64, session: Arc<Session>) {
        lock(self.part(face)).insert(face, session);
    }

    pub(super) fn get(&self, face: u64) -> Option<Arc<Session>> {
        lock(self.part(face)).get(&face).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        let all =
            self.parts.iter().flat_map(|part| lock(part).values().cloned().collect::<Vec<_>>());
        all.collect()
    }

    /// A client is gone.
    pub(super) fn forget(&self, face: u64) {
        lock(self.part(face)).remove(&face);
    }
}
