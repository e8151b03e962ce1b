//! Without sessions: a legacy client's request that stands alone.
//!
//! Clients that never greet, or that reach another replica with each request, are
//! served as if each request were a session: the server behind is greeted in the
//! client's stead, and forgotten with the answer. What would outlive that is not
//! offered: the client's half is a bare one.

use std::sync::Arc;

use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::header;
use switchboard_proto::jsonrpc::{self, Id, Incoming, Kind, Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::server::Frame;

use super::body::{Body, OpenLane};
use super::endpoint::empty;
use super::session::Held;
use super::site::Inner;
use crate::face::Face;
use crate::who::Who;

/// The face for one request, greeted, and what ends it.
pub(super) async fn face(
    site: &Inner,
    who: &Who,
    usual: Revision,
    incoming: &Incoming,
    headers: &HeaderMap,
) -> Result<(Arc<Face>, Held), Refusal> {
    site.is_full()?;
    let limits = &site.rules().limits;
    let inside = Arc::clone(&site.inside);
    let face = Face::new(Era::Legacy, Carrier::Http, inside, limits, site.options.shared);
    face.go_bare();
    face.speak_for(who);
    face.count_in(&site.options.unread);
    face.carry(headers)?;
    let held = site.sessions.open(&face)?;
    if wants_server(incoming) {
        greet(&face, spoken(headers, incoming).unwrap_or(usual)).await?;
    }
    Ok((face, held))
}

/// What wants no answer has nobody to go to.
pub(super) fn wants_nothing(incoming: &Incoming) -> bool {
    let is_quiet = |message: &Message| message.kind() != Kind::Request;
    match incoming {
        Incoming::One(message) => is_quiet(message),
        Incoming::Batch(all) => all.iter().all(|one| one.as_ref().is_ok_and(is_quiet)),
    }
}

/// There is nothing to listen to and nothing to end.
pub(super) fn refuse_others(method: &Method) -> Option<Response<Body>> {
    if method == Method::POST {
        return None;
    }
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
    Some(response)
}

/// Whether somebody has to greet the server first: neither who does so nor who
/// is refused in any case.
fn wants_server(incoming: &Incoming) -> bool {
    match incoming {
        Incoming::One(message) => {
            message.method() != method::INITIALIZE && !method::needs_session(message.method())
        }
        Incoming::Batch(_) => true,
    }
}

/// The revision that the client has settled on, as far as it can be told. Those
/// who send several messages at once are older than the header.
fn spoken(headers: &HeaderMap, incoming: &Incoming) -> Option<Revision> {
    match headers.get(header::PROTOCOL_VERSION) {
        Some(name) => Revision::parse(name.to_str().ok()?.trim()),
        None => matches!(incoming, Incoming::Batch(_)).then_some(Revision::ASSUMED),
    }
}

async fn greet(face: &Arc<Face>, revision: Revision) -> Result<(), Refusal> {
    let params = serde_json::json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {},
        "clientInfo": {"name": "switchboard", "version": env!("CARGO_PKG_VERSION")},
    });
    let hello =
        Message::request(&Id::from(0), method::INITIALIZE, Some(params.to_string().as_bytes()));
    let answer = ask(face, hello).await.ok_or_else(|| failed("no answer"))?;
    if answer.kind() == Kind::Error {
        let words = answer.string(Member::ErrorMessage);
        return Err(failed(words.as_deref().unwrap_or("an error")));
    }
    let ready = Incoming::One(Message::notification(method::INITIALIZED, None));
    let lane = OpenLane { face: Arc::clone(face), lane: face.open_lane() };
    // The call that follows waits for its delivery where it has to.
    face.step(|half| half.handle_incoming(lane.lane, ready, None)).1.detach();
    Ok(())
}

/// The answer to a request of ours, whatever comes before it.
async fn ask(face: &Arc<Face>, request: Message) -> Option<Message> {
    let lane = OpenLane { face: Arc::clone(face), lane: face.open_lane() };
    let request = Incoming::One(request);
    let ((), works) = face.step(|half| half.handle_incoming(lane.lane, request, None));
    works.detach();
    loop {
        let (Frame::Answer { text, .. } | Frame::Message { text, .. }) =
            face.next_frame(lane.lane).await?
        else {
            continue;
        };
        match jsonrpc::parse_one(text) {
            Ok(message) if message.is_response() => return Some(message),
            _ => {}
        }
    }
}

fn failed(why: &str) -> Refusal {
    Refusal::NotGreeted { why: why.to_owned() }
}
