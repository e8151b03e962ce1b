//! Requests whose session is at another replica of the gateway.
//!
//! ```text
//!   client ──▶ entry: Host, Origin, key ──▶ note ──▶ owner: the same checks, session, answer
//! ```
//!
//! The entry reads the body and passes head and body on as they came. It streams the answer
//! back. The owner checks the key again, counts the call and parses it, as if the client had
//! come to it. A client that hangs up drops the hop, and the owner sees its lane close.
//! A hop is never passed on.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use switchboard_proto::cluster::ReplicaId;
use switchboard_proto::cluster::owner_search::SearchEnd;
use switchboard_proto::header::SESSION_ID;
use switchboard_proto::jsonrpc::{self, InvalidMessage};
use switchboard_proto::refusal::Refusal;
use tokio::net::TcpListener;
use tower_service::Service;

use super::body::{Body, RequestBody, read};
use super::endpoint::HttpReply;
use super::listen::{self, ClientPeer, ListenOptions};
use super::site::{SiteState, Sites, plain};
use crate::cluster::replica::{HOP, Passed, Replica};
use crate::who::Who;

/// Marks a request that came from another replica.
#[derive(Clone, Copy, Debug)]
struct Hopped;

/// HTTP/2 streams of a connection between two replicas: each is a call or a stream of a client.
const MAX_STREAMS: u32 = 100_000;

/// The replica that has the session that a request names, if it is another one.
pub(super) fn owner_of<'p>(
    site: &SiteState,
    parts: &'p Parts,
    session: impl FnOnce() -> Option<&'p str>,
) -> Option<(&'p str, ReplicaId)> {
    let replica = site.options.replica.as_ref()?;
    if parts.extensions.get::<Hopped>().is_some() {
        return None;
    }
    let session = session()?;
    Some((session, replica.elsewhere(session)?))
}

/// The session that a header names.
pub(super) fn in_header(parts: &Parts) -> Option<&str> {
    parts.headers.get(SESSION_ID)?.to_str().ok()
}

/// Passes a request on that was not read yet.
pub(super) async fn pass_on(
    site: &SiteState,
    who: &Who,
    parts: &Parts,
    body: impl RequestBody,
    owner: (&str, ReplicaId),
) -> HttpReply {
    let peer: Option<&ClientPeer> = parts.extensions.get();
    let awaited = peer.map(ClientPeer::await_answer);
    // The owner counts the call.
    let no_turn = || true;
    let (text, _, _charge) =
        read(&parts.headers, body, site, who, no_turn, awaited.as_ref()).await?;
    let mut reply = pass_text_on(site, parts, &text, owner).await;
    if let Ok(response) = &mut reply {
        response.body_mut().awaited = awaited;
    }
    reply
}

async fn pass_text_on(
    site: &SiteState,
    parts: &Parts,
    text: &Bytes,
    owner: (&str, ReplicaId),
) -> HttpReply {
    let Some(replica) = &site.options.replica else { return Err(Refusal::SessionOver.into()) };
    let why = match replica.pass_on(owner, parts, text).await {
        Passed::Answer(response) => return Ok(response.map(Body::hopped)),
        Passed::Not(SearchEnd::Gone) => Refusal::SessionOver,
        Passed::Not(SearchEnd::OutcomeUnknown) if parts.method == Method::POST => {
            Refusal::OwnerGone
        }
        Passed::Not(_) => Refusal::OwnerAway,
    };
    let message = jsonrpc::parse_one(text.clone()).ok();
    Err(InvalidMessage { id: message.and_then(|message| message.id().cloned()), why })
}

/// Passes the retry of a call on that is parked at another replica. None if it is here, or no
/// such retry.
pub(super) async fn pass_retry_on(
    site: &SiteState,
    who: &Who,
    parts: &Parts,
    text: &Bytes,
) -> Option<HttpReply> {
    let replica = site.options.replica.as_ref()?;
    if parts.extensions.get::<Hopped>().is_some() || !site.parking.may_be_retry(text) {
        return None;
    }
    let message = jsonrpc::parse_one(text.clone()).ok()?;
    let owner = site.parking.owner(&message, who.identity())?;
    if owner == replica.id() {
        return None;
    }
    Some(match replica.pass_on(("", owner), parts, text).await {
        Passed::Answer(response) => Ok(response.map(Body::hopped)),
        Passed::Not(SearchEnd::OutcomeUnknown) => {
            Err(InvalidMessage { id: message.id().cloned(), why: Refusal::OwnerGone })
        }
        // The call ended with its replica.
        Passed::Not(_) => Err(InvalidMessage { id: message.id().cloned(), why: Refusal::BadState }),
    })
}

/// What other replicas reach: the same sites, for those who have the key of the cluster.
#[derive(Clone)]
struct HopEntrance {
    sites: Sites,
    replica: Arc<Replica>,
}

impl Service<Request<Incoming>> for HopEntrance {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if let Err(status) = self.replica.check_hop(&parts) {
            // R-3: whoever asks for another replica is told which one this is.
            let is_stranger = status == StatusCode::FORBIDDEN;
            let id = if is_stranger { String::new() } else { self.replica.id().to_string() };
            return Box::pin(async move { Ok(plain(status, format!("{id}\n"))) });
        }
        // The host is the one that the client named.
        let path = parts.uri.path_and_query().cloned();
        parts.uri = path.map_or_else(Uri::default, Uri::from);
        parts.headers.remove(HOP);
        parts.extensions.insert(Hopped);
        let sites = self.sites.clone();
        let request = Request::from_parts(parts, body);
        Box::pin(async move { Ok(sites.route(request).await) })
    }
}

/// Serves the other replicas of a cluster until `shutdown`.
pub async fn serve_hops(
    listener: TcpListener,
    sites: Sites,
    replica: Arc<Replica>,
    shutdown: impl Future<Output = ()> + Send,
) {
    let entrance = HopEntrance { sites, replica };
    let options = ListenOptions::default().max_streams(MAX_STREAMS).reserve(0);
    listen::serve(listener, entrance, options, shutdown).await;
}
