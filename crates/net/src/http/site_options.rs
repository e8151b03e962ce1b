//! How a site behaves: its paths, its rules and its bounds.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use switchboard_proto::client::Sharing;
use switchboard_proto::cluster::ReplicaId;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Revision;

use super::body::{BodyBudget, HttpCounters};
use crate::access::{Authenticate, Guard};
#[cfg(feature = "client")]
use crate::cluster::replica::Replica;
use crate::connection::unread::Unread;
use crate::parked_calls::Sealer;

/// How a site behaves.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct SiteOptions {
    /// Who may talk to it.
    pub guard: Guard,
    /// Bounds of each conversation.
    pub limits: Arc<Limits>,
    /// How long a stream is silent before a comment keeps it open; zero for no comments.
    pub keep_alive: Duration,
    /// How long the stream of a call is silent before its connection is ended and
    /// the client comes back for the answer, where its revision has that; zero
    /// for never.
    pub hang_up: Duration,
    /// Between two pieces of a request's body: longer than a network needs, short
    /// enough that slow senders do not hold all connections.
    pub body_pause: Duration,
    /// Bytes of a request's body that have to come in each second, on average, once
    /// a [`body_pause`](Self::body_pause) is over; zero for any number.
    pub body_rate: u32,
    /// The bytes of requests that may be held; shared by sites that count together.
    pub bodies: Arc<BodyBudget>,
    /// The bytes that clients may leave unread; shared by sites that count together.
    pub unread: Arc<Unread>,
    /// After which an unused session ends.
    pub session_idle: Duration,
    /// Sessions at once; beyond it new ones are refused.
    pub max_sessions: usize,
    /// Whether several clients share one server: what is not theirs is kept from them.
    pub sharing: Sharing,
    /// What clients see before these paths, where the site is nested in a router
    /// or stands behind a proxy: `/tools`, or `https://example.com/tools`.
    pub base: String,
    /// Where the endpoint is; empty for nowhere.
    pub path: String,
    /// Where clients of the first revision listen; empty for nowhere.
    pub sse_path: String,
    /// Where they send.
    pub message_path: String,
    /// Where clients may open a `WebSocket`; empty for nowhere, as it is by default.
    pub ws_path: String,
    /// Whom every request has to pass.
    pub authenticator: Option<Arc<dyn Authenticate>>,
    /// Added to every answer.
    pub headers: HeaderMap,
    /// No sessions: each request of a legacy client stands alone, and its server
    /// is greeted in this revision, unless the request names another. What needs a
    /// session is not offered then.
    pub stateless: Option<Revision>,
    /// Whether clients of the modern era are served.
    pub modern: bool,
    /// The cluster that it serves sessions of, if it is one of several replicas.
    #[cfg(feature = "client")]
    pub replica: Option<Arc<Replica>>,
    /// Where it counts what it does.
    pub tally: Arc<HttpCounters>,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            guard: Guard::loopback(),
            limits: Arc::new(Limits::default()),
            keep_alive: Duration::from_secs(15),
            hang_up: Duration::ZERO,
            body_pause: Duration::from_secs(30),
            // A slow telephone sends ten times as much.
            body_rate: 1024,
            bodies: Arc::default(),
            unread: Arc::default(),
            session_idle: Duration::from_mins(30),
            max_sessions: 1024,
            sharing: Sharing::Alone,
            base: String::new(),
            path: "/mcp".to_owned(),
            sse_path: "/sse".to_owned(),
            message_path: "/message".to_owned(),
            ws_path: String::new(),
            authenticator: None,
            headers: HeaderMap::new(),
            stateless: None,
            modern: true,
            #[cfg(feature = "client")]
            replica: None,
            tally: Arc::default(),
        }
    }
}

setters! {
    SiteOptions {
        guard: Guard,
        limits: impl Into<Arc<Limits>>,
        keep_alive: Duration,
        hang_up: Duration,
        body_pause: Duration,
        body_rate: u32,
        bodies: impl Into<Arc<BodyBudget>>,
        unread: impl Into<Arc<Unread>>,
        session_idle: Duration,
        max_sessions: usize,
        sharing: Sharing,
        base: impl Into<String>,
        path: impl Into<String>,
        sse_path: impl Into<String>,
        message_path: impl Into<String>,
        ws_path: impl Into<String>,
        authenticator: Option<Arc<dyn Authenticate>>,
        headers: HeaderMap,
        stateless: impl Into<Option<Revision>>,
        tally: impl Into<Arc<HttpCounters>>,
    }
}

#[cfg(feature = "client")]
setters! {
    SiteOptions { replica: impl Into<Option<Arc<Replica>>> }
}

impl SiteOptions {
    /// Which replica its sessions are at, if there are several.
    #[cfg_attr(
        not(feature = "client"),
        expect(clippy::unused_self, reason = "there are replicas with clients only")
    )]
    pub(super) fn replica_id(&self) -> Option<ReplicaId> {
        #[cfg(feature = "client")]
        return self.replica.as_ref().map(|replica| replica.id());
        #[cfg(not(feature = "client"))]
        None
    }

    /// Seals the states of parked calls for all replicas, if there are several.
    #[cfg_attr(
        not(feature = "client"),
        expect(clippy::unused_self, reason = "there are replicas with clients only")
    )]
    pub(super) fn shared_sealer(&self) -> Option<Sealer> {
        #[cfg(feature = "client")]
        return self.replica.as_ref().map(|it| it.sealer(&format!("calls at {}", self.path)));
        #[cfg(not(feature = "client"))]
        None
    }

    /// Serves no clients of the modern era.
    pub fn without_modern(mut self) -> Self {
        self.modern = false;
        self
    }
}
