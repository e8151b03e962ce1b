//! A replica while it runs: its lease, its peers, and hops to them.
//!
//! A hop is a request of a client, passed on as it came to the replica that has its session:
//! over HTTP/2, to a listener that only replicas reach, with a sealed note. The other replica
//! treats it as any request, so that answers are the same at every entry.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use switchboard_proto::cluster::ReplicaId;
use switchboard_proto::cluster::command::{StoreCommand, StoreReply};
use switchboard_proto::cluster::holdings::Holdings;
use switchboard_proto::cluster::owner_search::{HopResult, OwnerSearch, SearchEnd, SearchStep};

use super::key::ClusterKey;
use super::{Store, StoreAway};
use crate::connection::lock;
use crate::drive::{OwnedTask, now};
use crate::parked_calls::Sealer;

/// Carries the note of a hop.
pub(crate) const HOP: HeaderName = HeaderName::from_static("switchboard-hop");

/// How long a connection to a peer may take.
const CONNECT: Duration = Duration::from_millis(500);

/// Addresses that are remembered, of replicas that are there or were.
const MOST_ADDRESSES: usize = 1024;

/// How a replica takes part in a cluster.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// Where other replicas reach it: host and port.
    pub advertise: String,
    /// How long it counts as there without a sign of life.
    pub lease: Duration,
}

/// What a replica says about itself begins with this, and its address follows. What begins
/// otherwise is of another version, and not understood.
const STATE: &str = "1 ";

/// One replica of a gateway.
#[derive(Debug)]
pub struct Replica {
    id: ReplicaId,
    options: ReplicaOptions,
    store: Arc<dyn Store>,
    key: ClusterKey,
    holdings: Mutex<Holdings>,
    /// Where replicas are, also those whose lease is over.
    addresses: Mutex<BTreeMap<ReplicaId, String>>,
    client: Client<HttpConnector, Full<Bytes>>,
    store_up: AtomicBool,
    connections: AtomicU64,
    hops: AtomicU64,
    renewing: OnceLock<OwnedTask>,
}

/// What became of a request that was to be passed on.
pub(crate) enum Passed {
    /// The owner's answer.
    Answer(Response<Incoming>),
    /// Why there is none.
    Not(SearchEnd),
}

impl Replica {
    /// Joins the cluster, and stays in it as long as this is held.
    pub async fn join(
        store: Arc<dyn Store>,
        key: ClusterKey,
        options: ReplicaOptions,
    ) -> Result<Arc<Self>, getrandom::Error> {
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes)?;
        let id = ReplicaId(u32::from_be_bytes(bytes));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        // A peer that is frozen, or cut off, is noticed within a lease.
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(options.lease / 3)
            .http2_keep_alive_timeout(options.lease * 2 / 3)
            .http2_initial_stream_window_size(1 << 20)
            .http2_initial_connection_window_size(1 << 24)
            .build(connector);
        let replica = Arc::new(Self {
            id,
            holdings: Mutex::new(Holdings::new(id, options.lease)),
            options,
            store,
            key,
            addresses: Mutex::default(),
            client,
            store_up: AtomicBool::new(true),
            connections: AtomicU64::new(0),
            hops: AtomicU64::new(0),
            renewing: OnceLock::new(),
        });
        if replica.renew(None).await.is_err() {
            tracing::warn!("the store of the cluster does not answer; trying on");
        }
        let pace = replica.options.lease / 3;
        let task = OwnedTask::spawn(keep_lease(Arc::downgrade(&replica), pace));
        _ = replica.renewing.set(task);
        Ok(replica)
    }

    /// Which replica it is.
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// Whether the store answered when it was last asked.
    pub fn is_store_up(&self) -> bool {
        self.store_up.load(Ordering::Relaxed)
    }

    /// How many replicas there are, with this one.
    pub fn members(&self) -> usize {
        lock(&self.holdings).members().len()
    }

    /// How many requests were passed on.
    pub fn hops(&self) -> u64 {
        self.hops.load(Ordering::Relaxed)
    }

    /// A sealer whose states open at every replica, for the same purpose.
    pub fn sealer(&self, purpose: &str) -> Sealer {
        Sealer::shared(&self.key, self.id, purpose)
    }

    /// Leaves the cluster: others do not look for it here any more.
    pub async fn leave(&self) {
        _ = self.store.execute(vec![StoreCommand::Leave(self.id)]).await;
    }

    /// Renews the lease, and does one thing more.
    /// Answers with the store's clock, and what came of that.
    async fn renew(
        &self,
        more: Option<StoreCommand>,
    ) -> Result<(Duration, Option<StoreReply>), StoreAway> {
        let state = format!("{STATE}{}", self.options.advertise);
        let renewal = lock(&self.holdings).renewal(state.into());
        let sent = now();
        let answer =
            self.store.execute([Some(renewal), more].into_iter().flatten().collect()).await;
        if self.store_up.swap(answer.is_ok(), Ordering::Relaxed) != answer.is_ok() {
            match &answer {
                Ok(_) => tracing::info!("the store of the cluster answers again"),
                Err(away) => tracing::warn!("{away}; sessions go on where they are"),
            }
        }
        let mut replies = answer?.into_iter();
        let members = replies.next().ok_or(StoreAway)?;
        let mut holdings = lock(&self.holdings);
        let connections = self.store.connections();
        if self.connections.swap(connections, Ordering::Relaxed) != connections {
            holdings.handle_reconnect(sent);
        }
        holdings.handle_renewed(sent, &members);
        let mut addresses = lock(&self.addresses);
        for (id, state) in holdings.members() {
            let state = std::str::from_utf8(state).ok();
            if let Some(address) = state.and_then(|state| state.strip_prefix(STATE)) {
                addresses.insert(*id, address.to_owned());
            }
        }
        while addresses.len() > MOST_ADDRESSES {
            addresses.pop_first();
        }
        let clock = match members {
            StoreReply::Members { clock, .. } => clock,
            _ => Duration::ZERO,
        };
        Ok((clock, replies.next()))
    }

    /// The replica that has the session of a request, if it is another one.
    pub(crate) fn elsewhere(&self, session: &str) -> Option<ReplicaId> {
        ReplicaId::hint(session).filter(|&owner| owner != self.id)
    }

    /// Passes a request on to the replica that has its session.
    pub(crate) async fn pass_on(
        &self,
        (session, owner): (&str, ReplicaId),
        parts: &Parts,
        body: &Bytes,
    ) -> Passed {
        let (mut search, mut step) = OwnerSearch::new(self.id, Some(owner));
        loop {
            step = match step {
                SearchStep::Forward(to) => match self.hop(to, parts, body).await {
                    Ok(answer) => return Passed::Answer(answer),
                    Err(result) => search.handle_hop(result),
                },
                SearchStep::ReadClaim => {
                    match self.renew(Some(StoreCommand::Read(session.into()))).await {
                        Ok((clock, Some(StoreReply::Claim(stored)))) => {
                            let claim = stored.map(|stored| stored.claim);
                            let holdings = lock(&self.holdings);
                            let owner = claim.and_then(|claim| claim.owner);
                            let has_lease =
                                owner.is_some_and(|owner| holdings.members().contains_key(&owner));
                            let store = (holdings.is_settled(), clock);
                            search.handle_claim(claim, has_lease, store)
                        }
                        _ => search.handle_store_away(),
                    }
                }
                SearchStep::Ping(_) | SearchStep::Take(..) => search.handle_store_away(),
                SearchStep::End(end) => return Passed::Not(end),
            };
        }
    }

    /// One hop, to a replica that is not asked twice.
    async fn hop(
        &self,
        to: ReplicaId,
        parts: &Parts,
        body: &Bytes,
    ) -> Result<Response<Incoming>, HopResult> {
        let known = lock(&self.addresses).get(&to).cloned();
        let address = if let Some(address) = known {
            address
        } else {
            _ = self.renew(None).await;
            let known = lock(&self.addresses).get(&to).cloned();
            known.ok_or(HopResult::Unreachable)?
        };
        let request = self.request(to, &address, parts, body).ok_or(HopResult::Unreachable)?;
        self.hops.fetch_add(1, Ordering::Relaxed);
        match self.client.request(request).await {
            Ok(answer) if answer.status() == StatusCode::MISDIRECTED_REQUEST => {
                Err(HopResult::Dead)
            }
            Ok(answer) => {
                lock(&self.holdings).handle_peer(now());
                Ok(answer)
            }
            Err(error) if error.is_connect() && is_refused(&error) => Err(HopResult::Dead),
            Err(error) if error.is_connect() => Err(HopResult::Unreachable),
            Err(error) => {
                tracing::debug!(%to, "a hop is broken: {error}");
                Err(HopResult::Broken)
            }
        }
    }

    fn request(
        &self,
        to: ReplicaId,
        address: &str,
        parts: &Parts,
        body: &Bytes,
    ) -> Option<Request<Full<Bytes>>> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() =
            Uri::builder().scheme("http").authority(address).path_and_query(path).build().ok()?;
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        *headers = parts.headers.clone();
        for name in HOP_BY_HOP {
            headers.remove(name);
        }
        headers.insert(CONTENT_LENGTH, body.len().into());
        let host = parts.uri.authority().map(http::uri::Authority::as_str);
        if let Some(host) = host.filter(|_| !parts.headers.contains_key(http::header::HOST)) {
            headers.insert(http::header::HOST, HeaderValue::from_str(host).ok()?);
        }
        let note = self.key.note(to, &about(parts))?;
        headers.insert(HOP, HeaderValue::from_str(&note).ok()?);
        Some(request)
    }

    /// Whether a request that came by the listener of replicas is from one of them, and
    /// meant for this one.
    pub(crate) fn check_hop(&self, parts: &Parts) -> Result<(), StatusCode> {
        let note = parts.headers.get(HOP).and_then(|note| note.to_str().ok());
        let to = note.and_then(|note| self.key.open_note(note, &about(parts)));
        match to {
            None => Err(StatusCode::FORBIDDEN),
            Some(to) if to != self.id => Err(StatusCode::MISDIRECTED_REQUEST),
            Some(_) => {
                lock(&self.holdings).handle_peer(now());
                Ok(())
            }
        }
    }
}

/// Headers that are about one connection.
const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "expect"];

/// What a note is bound to: it is of no use for another request.
fn about(parts: &Parts) -> Vec<u8> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let session = parts.headers.get(switchboard_proto::header::SESSION_ID);
    let session = session.map_or(&b""[..], HeaderValue::as_bytes);
    [parts.method.as_str().as_bytes(), path.as_bytes(), session].join(&b' ')
}

/// Whether nobody listens there.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Renews the lease as long as the replica is there.
async fn keep_lease(replica: Weak<Replica>, pace: Duration) {
    loop {
        tokio::time::sleep(pace).await;
        let Some(replica) = replica.upgrade() else { return };
        _ = replica.renew(None).await;
    }
}
