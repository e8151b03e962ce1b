//! Event streams: the answer to a POST, over all its connections. `ear.rs` has the
//! one that listens.
//!
//! A legacy stream that showed an event id and broke is taken up again with a
//! GET (HTTP-11, HTTP-12, HTTP-18); a modern one is lost with its call (MH-8).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use switchboard_proto::backoff::Reconnect;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::framing::{EventDecoder, EventTooLong};
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use super::Post;
use super::link::{Link, Session};
use crate::backend::PendingWork;
use crate::connection::{lock, now};
use crate::http::{content_type, is_event_stream};
use crate::upstream::Upstream;
use crate::upstream::flood::too_long;

/// Attempts in a row that bring nothing before a stream is given up.
pub(super) const ATTEMPTS: u32 = 5;

/// A connection that lasted this long was sound, even if nothing had to be
/// said: what cuts idle connections must not make us give up.
const SOUND: Duration = Duration::from_secs(10);

/// One stream over all its connections.
pub(super) struct Course {
    pub(super) reconnect: Reconnect,
    pub(super) last: Option<HeaderValue>,
    /// The server said when to come back, as one does that hangs up on purpose (HTTP-11).
    polls: bool,
    /// An event was too long to be read.
    skipped: bool,
}

impl Course {
    fn new() -> Self {
        Self::under(Reconnect::new(ATTEMPTS))
    }

    /// The same after trouble with a stream before it.
    pub(super) fn under(reconnect: Reconnect) -> Self {
        Self { reconnect, last: None, polls: false, skipped: false }
    }
}

/// Why a connection of a stream is over.
pub(super) enum Over {
    /// What it was for has happened.
    Done,
    /// The server ended it before that.
    Ended,
    /// It broke before that.
    Broken,
    /// It is the stream of the first revision's transport, whatever was asked.
    Old,
}

impl Upstream {
    /// Follows the event stream that answers a POST, over as many connections as it takes.
    pub(super) async fn follow(
        self: &Arc<Self>,
        link: &Link,
        post: &Post,
        response: Response<Incoming>,
    ) -> PendingWork {
        let mut course = Course::new();
        let greets = post.message.method() == method::INITIALIZE;
        let session = if greets { link.offered() } else { post.session.clone() };
        let mut response = Some(response);
        loop {
            if let Some(response) = response.take() {
                match self.read(link, post.lane, &post.message, &mut course, response).await {
                    Over::Done => return PendingWork::none(),
                    Over::Ended if course.polls && course.last.is_some() => {
                        self.pass_hang_up(post.lane);
                    }
                    Over::Ended | Over::Broken => {}
                    Over::Old => return self.take_old(post),
                }
            }
            if course.skipped {
                // Resuming would bring the same again.
                return self.unanswered(post, &too_long(self.limits.message));
            }
            let resumable = self.era() == Era::Legacy && course.last.is_some();
            if !resumable || !self.pause(&mut course).await {
                return self.no_answer_unless_note(post);
            }
            match self.get(link, &session, &course).await {
                Ok(again) => response = again,
                Err(_) => return self.no_answer_unless_note(post),
            }
        }
    }

    /// The answer to a POST is where to POST to (OLD-2): so the greeting goes by
    /// that transport, if it may.
    fn take_old(self: &Arc<Self>, post: &Post) -> PendingWork {
        let why = "HTTP 200, but with the stream of an HTTP+SSE server";
        let why = Failure::WrongTransport { why };
        if post.message.method() != method::INITIALIZE {
            return self.unanswered(post, &why);
        }
        match self.try_other_road(&why, Some(&post.message)) {
            Ok(()) => PendingWork::none(),
            Err(why) => self.unanswered(post, &why),
        }
    }

    /// Waits before the next connection; false if there is to be none.
    pub(super) async fn pause(&self, course: &mut Course) -> bool {
        match course.reconnect.handle_break(now(), Duration::ZERO) {
            Some(at) => self.stop.sleep(at.saturating_duration_since(now())).await,
            None => false,
        }
    }

    /// Reads one connection to its end, or until the call is answered.
    pub(super) async fn read(
        self: &Arc<Self>,
        link: &Link,
        lane: Lane,
        message: &Message,
        course: &mut Course,
        response: Response<Incoming>,
    ) -> Over {
        let opened = now();
        let mut body = response.into_body();
        let mut decoder = EventDecoder::new(self.limits.message);
        let mut over = Over::Ended;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                over = Over::Broken;
                break;
            };
            let Some(chunk) = frame.data_ref() else { continue };
            decoder.push(chunk);
            while let Some(event) = decoder.next_event() {
                let event = match event {
                    Ok(event) => event,
                    Err(EventTooLong { limit, head }) => {
                        self.handle_too_long(lane, &head, limit);
                        self.pace().await;
                        course.skipped = true;
                        continue;
                    }
                };
                if let Some(millis) = event.retry {
                    course.reconnect.handle_retry(millis);
                    course.polls = true;
                }
                if let Some(id) = event.id.as_ref().and_then(|id| HeaderValue::from_str(id).ok()) {
                    course.last = Some(id);
                }
                if event.name.as_deref() == Some("endpoint") && lane != Lane::MAIN {
                    return Over::Old;
                }
                if event.is_message() {
                    course.reconnect.handle_success();
                    self.take_event(link, lane, message, event.data).await;
                }
            }
            if lane != Lane::MAIN && !self.is_open(lane) {
                return Over::Done;
            }
            if decoder.is_endless() {
                over = Over::Broken;
                break;
            }
        }
        if now().saturating_duration_since(opened) >= SOUND {
            course.reconnect.handle_success();
        }
        over
    }

    /// A server that lets a call's connection go means its client's too.
    fn pass_hang_up(&self, lane: Lane) {
        let call = lock(&self.core).half.ticket(lane).cloned();
        if let Some(call) = call {
            call.sink().hang_up(call.exchange());
        }
    }

    async fn take_event(self: &Arc<Self>, link: &Link, lane: Lane, message: &Message, data: Bytes) {
        if message.method() == method::INITIALIZE {
            self.settle_road();
            link.handle_greeted(&data);
        }
        self.handle_text(lane, data).detach();
        self.answers_are_taken().await;
        self.pace().await;
        self.clients_have_room().await;
    }

    /// Asks for the rest of a stream. `Ok(None)` if it may be worth trying again.
    pub(super) async fn get(
        &self,
        link: &Link,
        session: &Session,
        course: &Course,
    ) -> Result<Option<Response<Incoming>>, StatusCode> {
        let sending = self.send(link, |link| link.get(session, course.last.as_ref()));
        let Ok(response) = sending.await else { return Ok(None) };
        let media = content_type(response.headers()).unwrap_or_default();
        match response.status() {
            StatusCode::OK if is_event_stream(media) => {
                if course.last.is_some() {
                    self.server.traffic().add_resumed();
                }
                Ok(Some(response))
            }
            status if status.is_server_error() => Ok(None),
            status => Err(status),
        }
    }
}
