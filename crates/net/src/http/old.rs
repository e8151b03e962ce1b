//! The two endpoints of the first revision: a stream to listen on, a place to send to.
//!
//! The stream is the session: it begins with the address to send to, carries
//! everything the server says, and when it closes the session is over (OLD-5).

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};
use http_body::Body as HttpBody;
use switchboard_proto::exchange::{Carrier, Lane};
use switchboard_proto::jsonrpc::InvalidMessage;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;
use switchboard_proto::server::ServerHalf;
use switchboard_proto::sse::{self, Outgoing};

use super::body::{Body, OpenLane};
use super::endpoint::{Reply, only_id, refused, stream};
use super::intake::{Taken, read};
use super::listen::Peer;
use super::session::SessionId;
use super::site::{Inner, plain};
use super::{accepts, content_type, is_json};
use crate::face::Face;
use crate::inside::Works;
use crate::kept;
use crate::who::Who;

pub(super) fn listen(site: &Inner, who: &Who, parts: &Parts) -> Reply {
    if parts.method != Method::GET {
        return Err(Refusal::WrongHttpMethod { allow: "GET" });
    }
    if !accepts(&parts.headers, "text/event-stream") {
        return Err(Refusal::NotAcceptable);
    }
    site.is_full()?;
    let limits = &site.rules().limits;
    let shared = site.options.shared;
    let face = Face::new(Era::Legacy, Carrier::Pipe, Arc::clone(&site.inside), limits, shared);
    face.speak_for(who);
    face.count_in(&site.options.unread);
    face.carry(&parts.headers)?;
    let peer: Option<&Peer> = parts.extensions.get();
    face.reached_by(peer);
    let held = site.old.open(&face)?;
    let options = &site.options;
    let address =
        format!("{}{}?sessionId={}", options.base, options.message_path, held.id().as_str());
    let mut opening = Vec::new();
    let event =
        Outgoing { name: Some("endpoint"), data: address.as_bytes(), ..Outgoing::default() };
    sse::encode(&event, &mut opening);
    let open = OpenLane { face, lane: Lane::MAIN };
    let body = Body::streaming(open, Works::none(), opening, site.options.keep_alive);
    let body = body.awaited(peer.map(Peer::await_answer));
    Ok(stream(body.holding(Some(held))))
}

pub(super) async fn message<B>(site: &Inner, who: &Who, parts: Parts, body: B) -> Reply
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: fmt::Display,
{
    if parts.method != Method::POST {
        return Err(Refusal::WrongHttpMethod { allow: "POST" });
    }
    let query = parts.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
    let id = id.ok_or(Refusal::NoSession)?;
    let face = site.old.find(&SessionId::from_text(id), who)?;
    if !content_type(&parts.headers).is_some_and(is_json) {
        return Err(Refusal::WrongMediaType);
    }
    let answers = face.is_asked();
    let awaited = parts.extensions.get().map(Peer::await_answer);
    let Taken { text, turns, charge } =
        read(&parts.headers, body, site, who, answers, awaited.as_ref()).await?;
    // A client that does not read its stream is not read from: what it sends
    // would be answered there.
    face.room().await;
    if face.is_over() {
        return Err(Refusal::SessionOver);
    }
    match kept::parse(text) {
        Ok(incoming) => {
            let turns = match site.keeps(who).and_then(|()| who.enter(&incoming, turns)) {
                Ok(turns) => turns,
                Err(why) => return Ok(refused(only_id(&incoming), &why)),
            };
            let take = |half: &mut ServerHalf| half.handle_incoming(Lane::MAIN, incoming, None);
            face.step_in(turns, Some(&charge), take).1.holding(charge).detach();
            site.after_call(&face);
            Ok(plain(StatusCode::ACCEPTED, "Accepted".to_owned()))
        }
        Err(InvalidMessage { id, why }) => Ok(refused(id.as_ref(), &why)),
    }
}
