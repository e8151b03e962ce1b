//! Event streams: the answer to a POST, and the one that listens.
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
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use switchboard_proto::sse::Decoder;

use super::Post;
use super::link::{Ear, Link};
use crate::face::{lock, now};
use crate::http::{content_type, is_event_stream};
use crate::inside::Works;
use crate::upstream::{Road, Upstream};

/// Attempts in a row that bring nothing before a stream is given up.
const ATTEMPTS: u32 = 5;

/// A connection that lasted this long was sound, even if nothing had to be
/// said: what cuts idle connections must not make us give up.
const SOUND: Duration = Duration::from_secs(10);

/// One stream over all its connections.
struct Course {
    reconnect: Reconnect,
    last: Option<HeaderValue>,
    /// The server said when to come back, as one does that hangs up on purpose (HTTP-11).
    polls: bool,
    /// An event was too long to be read.
    skipped: bool,
}

impl Course {
    fn new() -> Self {
        Self { reconnect: Reconnect::new(ATTEMPTS), last: None, polls: false, skipped: false }
    }
}

/// Why a connection of a stream is over.
enum Over {
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
    ) -> Works {
        let mut course = Course::new();
        let mut response = Some(response);
        loop {
            if let Some(response) = response.take() {
                match self.read(link, post.lane, &post.message, &mut course, response).await {
                    Over::Done => return Works::none(),
                    Over::Ended if course.polls && course.last.is_some() => {
                        self.pass_hang_up(post.lane);
                    }
                    Over::Ended | Over::Broken => {}
                    Over::Old => return self.take_old(post),
                }
            }
            if course.skipped {
                // Resuming would bring the same again.
                let limit = self.limits.message;
                return self.unanswered(post, format!("answer is longer than {limit} bytes"));
            }
            let resumable = self.era() == Era::Legacy && course.last.is_some();
            if !resumable || !self.pause(&mut course).await {
                return self.no_answer_unless_note(post);
            }
            match self.get(link, &course).await {
                Ok(again) => response = again,
                Err(_) => return self.no_answer_unless_note(post),
            }
        }
    }

    /// The answer to a POST is where to POST to (OLD-2): so the greeting goes by
    /// that transport, if it may.
    fn take_old(self: &Arc<Self>, post: &Post) -> Works {
        let why = "HTTP 200, but with the stream of an HTTP+SSE server";
        if post.message.method() != method::INITIALIZE {
            return self.unanswered(post, why.to_owned());
        }
        match self.try_other_road(why, Some(&post.message)) {
            Ok(()) => Works::none(),
            Err(why) => self.unanswered(post, why),
        }
    }

    /// Waits before the next connection; false if there is to be none.
    async fn pause(&self, course: &mut Course) -> bool {
        match course.reconnect.handle_break(now(), Duration::ZERO) {
            Some(at) => self.stop.sleep(at.saturating_duration_since(now())).await,
            None => false,
        }
    }

    /// Reads one connection to its end, or until the call is answered.
    async fn read(
        self: &Arc<Self>,
        link: &Link,
        lane: Lane,
        message: &Message,
        course: &mut Course,
        response: Response<Incoming>,
    ) -> Over {
        let opened = now();
        let mut body = response.into_body();
        let mut decoder = Decoder::new(self.limits.message);
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
                    Err(error) => {
                        tracing::warn!(server = self.name, "skipped an event: {error}");
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
        }
        if now().saturating_duration_since(opened) >= SOUND {
            course.reconnect.handle_success();
        }
        over
    }

    /// A server that lets a call's connection go means its client's too.
    fn pass_hang_up(&self, lane: Lane) {
        let seat = lock(&self.core).half.ticket(lane).cloned();
        if let Some(seat) = seat {
            seat.owner.hang_up(seat.exchange);
        }
    }

    async fn take_event(self: &Arc<Self>, link: &Link, lane: Lane, message: &Message, data: Bytes) {
        if message.method() == method::INITIALIZE {
            self.settle_road();
            link.remember_version(&data);
        }
        self.handle_text(lane, data).detach();
        self.pace().await;
        self.clients_have_room().await;
    }

    /// Asks for the rest of a stream. `Ok(None)` if it may be worth trying again.
    async fn get(
        &self,
        link: &Link,
        course: &Course,
    ) -> Result<Option<Response<Incoming>>, StatusCode> {
        let request = link.get(course.last.as_ref());
        let Ok(response) = link.fetch.send(request).await else { return Ok(None) };
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

    /// Listens for what belongs to no call, if that is not done already.
    pub(super) fn listen(self: &Arc<Self>, link: &Link) {
        let begins = link.ear.send_if_modified(|ear| {
            let begins = matches!(*ear, Ear::NotYet | Ear::Lost);
            if begins {
                *ear = Ear::Asking;
            }
            begins
        });
        if begins {
            self.spawn(Arc::clone(self).keep_listening());
        }
    }

    /// Waits until it is known whether the server lets us listen.
    pub(crate) async fn until_listening(&self) {
        let by_http = lock(&self.core).road == Road::Http;
        if let Some(link) = self.http.get().filter(|_| by_http) {
            self.stop.until(link.until_heard()).await;
        }
    }

    /// It is known whether the server can say what belongs to no call.
    pub(in crate::upstream) fn hears(self: &Arc<Self>, hears: bool) {
        self.step(|half, now| half.handle_hearing(hears, now)).1.detach();
    }

    /// The server has answered: time to listen again, if that had been given up.
    pub(super) fn listen_again(self: &Arc<Self>, link: &Link) {
        let is_lost = *link.ear.borrow() == Ear::Lost;
        if is_lost {
            self.listen(link);
        }
    }

    /// Listens until the session is over or the server does not offer it.
    async fn keep_listening(self: Arc<Self>) {
        let Some(link) = self.link() else { return };
        let session = link.session().id;
        let nothing = Message::notification("", None);
        let mut course = Course::new();
        let ear = loop {
            let Some(got) = self.stop.until(self.get(link, &course)).await else { return };
            if link.session().id == session {
                link.heard();
            }
            match got {
                Ok(Some(response)) => {
                    self.hears(true);
                    let read = self.read(link, Lane::MAIN, &nothing, &mut course, response);
                    if self.stop.until(read).await.is_none() {
                        return;
                    }
                }
                Ok(None) => {}
                Err(status) => {
                    if status == StatusCode::METHOD_NOT_ALLOWED {
                        self.hears(false);
                    }
                    tracing::debug!(server = self.name, "no listening stream: HTTP {status}");
                    break Ear::Refused;
                }
            }
            if link.session().id != session || !self.pause(&mut course).await {
                break Ear::Lost;
            }
        };
        // A session that came after this one has an ear of its own.
        if link.session().id == session {
            link.ear.send_replace(ear);
        }
    }
}
