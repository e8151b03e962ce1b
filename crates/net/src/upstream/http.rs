//! The road to a Streamable HTTP endpoint: a POST for each message.
//!
//! ```text
//!   POST ──▶ 200 JSON ─────────────▶ the answer
//!       ├──▶ 200 event stream ─────▶ messages; broken: resumed, if legacy and it had ids
//!       ├──▶ 202 ──────────────────▶ nothing to wait for
//!       ├──▶ 404, with a session ──▶ greet again, send it once more, unless it is the answer
//!       ├──▶ 400, 404, 405 to the first greeting ──▶ perhaps HTTP+SSE (OLD-7)
//!       └──▶ any other ────────────▶ its JSON-RPC error, else `HTTP <status>: <text>`
//! ```
//!
//! POSTs have no order, but the end of the handshake comes before what follows
//! it: servers refuse calls that overtake it. So does progress on a question come
//! before further progress and before the answer: servers ignore what is late.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use switchboard_proto::client::ClientHalf;
use switchboard_proto::exchange::Lane;
use switchboard_proto::failure::Failure;
use switchboard_proto::jsonrpc::{Id, Kind, Message};
use switchboard_proto::method;
use switchboard_proto::revision::Era;
use switchboard_proto::trace;
use tokio::sync::Notify;

use super::flood::too_long;
use super::{Core, Fallback, Upstream};
use crate::backend::PendingWork;
use crate::connection::lock;
use crate::drive::{Either, Stop, race};
use crate::http::{content_type, is_event_stream, is_json};

mod ear;
mod link;
mod stream;

pub(super) use link::Link;
pub(super) use link::Refused;
use link::Session;

/// One message on its way, and all that goes with it.
struct Post {
    lane: Lane,
    message: Message,
    mirrored: Vec<(HeaderName, HeaderValue)>,
    session: Session,
    /// The call is not wanted any more.
    ended: Arc<Notify>,
    /// The end of the handshake that comes first.
    after: Option<Arc<Stop>>,
    /// The progress that comes first.
    progress: Option<Arc<Stop>>,
}

/// How long a server may take over what it need not answer.
const NOTE_WAIT: Duration = Duration::from_secs(30);

/// How long calls wait for the end of the handshake. A server that takes
/// longer over it may be waiting for the calls.
const CONFIRM_WAIT: Duration = Duration::from_secs(5);

/// How long progress on a question, and its answer, wait until the server has
/// taken the progress before them.
const PROGRESS_WAIT: Duration = Duration::from_secs(5);

impl Upstream {
    /// Sends a message by a POST of its own.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        core: &mut Core,
        lane: Lane,
        message: Message,
        mut mirrored: Vec<(HeaderName, HeaderValue)>,
    ) -> PendingWork {
        let Some(link) = self.link() else { return PendingWork::none() };
        self.start(core);
        self.server.traffic().add_sent(message.text().len());
        mirrored.extend(trace::to_headers(&message));
        let greets = message.method() == method::INITIALIZE;
        let ended = Arc::new(Notify::new());
        if lane != Lane::MAIN {
            core.lanes.insert(lane, Arc::clone(&ended));
        }
        if greets {
            core.confirming = None;
        }
        let after = core.confirming.clone();
        let confirms = (message.method() == method::INITIALIZED).then(|| Arc::new(Stop::new()));
        if confirms.is_some() {
            core.confirming.clone_from(&confirms);
        }
        let progresses = message.method() == method::PROGRESS;
        let progress = core.progressing.clone().filter(|_| progresses || message.is_response());
        let taken = progresses.then(|| Arc::new(Stop::new()));
        if taken.is_some() {
            core.progressing.clone_from(&taken);
        }
        let with_session = self.era() == Era::Legacy && !greets;
        let session = if with_session { link.session() } else { Session::default() };
        let post = Post { lane, message, mirrored, session, ended, after, progress };
        let in_flight = self.count_in_flight(&post.message);
        let this = Arc::clone(self);
        PendingWork::one(async move {
            this.see_through(post).await;
            drop(in_flight);
            if let Some(confirms) = confirms {
                this.confirmed(&confirms);
            }
            if let Some(taken) = taken {
                lock(&this.core).progressing.take_if(|latest| Arc::ptr_eq(latest, &taken));
                taken.say();
            }
        })
    }

    /// Calls do not wait for this end of a handshake any more.
    fn stop_waiting_for(&self, confirms: &Arc<Stop>) {
        let mut core = lock(&self.core);
        core.confirming.take_if(|latest| Arc::ptr_eq(latest, confirms));
        drop(core);
        confirms.say();
    }

    /// The server has taken the end of the handshake: calls may follow.
    fn confirmed(self: &Arc<Self>, confirms: &Arc<Stop>) {
        self.stop_waiting_for(confirms);
        if let Some(link) = self.link() {
            self.listen(link);
        }
    }

    /// Sends one message and sees its answer through.
    async fn see_through(self: &Arc<Self>, post: Post) {
        if post.message.kind() != Kind::Request {
            let sending = tokio::time::timeout(NOTE_WAIT, self.converse(&post));
            if let Some(Ok(works)) = self.stop.until(sending).await {
                works.await;
            }
            return;
        }
        match race(post.ended.notified(), self.converse(&post)).await {
            // Whoever opened the lane closed it: there is nobody to tell.
            Either::Left(()) => {}
            Either::Right(works) => {
                lock(&self.core).close_lane(&post);
                works.await;
            }
        }
    }

    async fn converse(self: &Arc<Self>, post: &Post) -> PendingWork {
        let Some(link) = self.link() else { return PendingWork::none() };
        if let Some(after) = &post.after
            && tokio::time::timeout(CONFIRM_WAIT, after.said()).await.is_err()
        {
            // Too late or not, it is our turn, and the next ones'.
            self.stop_waiting_for(after);
        }
        if let Some(progress) = &post.progress {
            // Too late or not, it is our turn.
            _ = tokio::time::timeout(PROGRESS_WAIT, progress.said()).await;
        }
        if self.era() == Era::Legacy && is_followed_by_more(post.message.method()) {
            link.until_heard().await;
        }
        if post.message.method() == method::INITIALIZE {
            self.show_anew().await;
        }
        let sending = self.send(link, |link| {
            let mut request = link.post(post.message.text(), &post.session);
            for (name, value) in &post.mirrored {
                request.headers_mut().insert(name, value.clone());
            }
            request
        });
        let response = match sending.await {
            Ok(response) => response,
            Err(why) => return self.unanswered(post, &why),
        };
        let is_call = post.message.kind() == Kind::Request;
        match response.status() {
            StatusCode::OK => self.take_answer(link, post, response).await,
            status if status.is_success() => self.no_answer_unless_note(post),
            status => {
                let refused = Refused::read(response, &link.last_shown()).await;
                let of_session = status == StatusCode::NOT_FOUND && post.session.id.is_some();
                if of_session && is_call && !refused.answers(post.message.id()) {
                    return self.handle_session_over(link, post);
                }
                self.take_error(post, &refused)
            }
        }
    }

    /// Sends what `request` makes, with what we show. A server that does not let
    /// us in has done nothing: it is asked once more, if there may be something
    /// else to show by now.
    async fn send(
        &self,
        link: &Link,
        request: impl Fn(&Link) -> Request<Bytes>,
    ) -> Result<Response<Incoming>, Failure> {
        let shown = self.shown(None).await?;
        link.show(&shown);
        let response = link.fetch.send(request(link)).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !self.may_show_others() {
            return Ok(response);
        }
        let other = self.shown(Some(&shown)).await?;
        link.show(&other);
        Ok(link.fetch.send(request(link)).await?)
    }

    /// The server does not know our session any more.
    fn handle_session_over(self: &Arc<Self>, link: &Link, post: &Post) -> PendingWork {
        let over = |half: &mut ClientHalf<_>, now| {
            half.handle_session_over(post.lane, now);
            // Only when it is being renewed: else a call would go without any.
            if half.is_greeting() {
                self.server.traffic().add_greeted_again();
                link.forget(&post.session);
            }
        };
        self.step(over).1
    }

    /// The same where no call has found out.
    fn renew_session(self: &Arc<Self>, link: &Link, session: &Session) -> PendingWork {
        let renew = |half: &mut ClientHalf<_>, now| {
            if link.session().number != session.number {
                return;
            }
            if !half.is_greeting() {
                self.server.traffic().add_greeted_again();
                link.forget(session);
            }
            half.renew_session(now);
        };
        self.step(renew).1
    }

    async fn take_answer(
        self: &Arc<Self>,
        link: &Link,
        post: &Post,
        response: Response<Incoming>,
    ) -> PendingWork {
        if post.message.method() == method::INITIALIZE {
            link.handle_offer(response.headers());
        } else if post.message.kind() == Kind::Request {
            self.listen_again();
        }
        let media = content_type(response.headers()).unwrap_or_default();
        if is_event_stream(media) {
            return self.follow(link, post, response).await;
        }
        if !is_json(media) {
            let why = Failure::NotMcp { status: 200, media: Some(media.into()) };
            return self.unanswered(post, &why);
        }
        match Limited::new(response.into_body(), self.limits.message).collect().await {
            Ok(body) => {
                let works = self.deliver(link, post, body.to_bytes());
                self.clients_have_room().await;
                works
            }
            Err(error) if error.is::<LengthLimitError>() => {
                self.unanswered(post, &too_long(self.limits.message))
            }
            Err(error) => self.unanswered(post, &Failure::closed(error.to_string())),
        }
    }

    /// Hands an answer to the half, after a look at what a greeting settled.
    fn deliver(self: &Arc<Self>, link: &Link, post: &Post, text: Bytes) -> PendingWork {
        if post.message.method() == method::INITIALIZE {
            self.settle_road();
            link.handle_greeted(&text);
        }
        let mut works = self.handle_text(post.lane, text);
        if post.message.kind() == Kind::Request && self.is_open(post.lane) {
            works.append(self.no_answer_unless_note(post));
        }
        works
    }

    /// The server has answered a greeting: this is the road to it.
    fn settle_road(&self) {
        lock(&self.core).trial = Fallback::Settled;
    }

    fn is_open(&self, lane: Lane) -> bool {
        lock(&self.core).half.is_open(lane)
    }

    fn no_answer_unless_note(self: &Arc<Self>, post: &Post) -> PendingWork {
        match post.message.id().filter(|_| post.message.kind() == Kind::Request) {
            Some(id) => self.unanswered(post, &Failure::NoAnswer { id: id.clone() }),
            None => PendingWork::none(),
        }
    }

    fn take_error(self: &Arc<Self>, post: &Post, refused: &Refused) -> PendingWork {
        let mut why = refused.failure(self);
        if post.message.method() == method::INITIALIZE {
            // What answers our own id speaks JSON-RPC here.
            let is_answer = refused.error().is_some_and(|error| error.id() == post.message.id());
            let may_be_old = matches!(refused.status.as_u16(), 400 | 404 | 405);
            if may_be_old && !is_answer && !refused.is_modern() {
                match self.try_other_road(&why, Some(&post.message)) {
                    Ok(()) => return PendingWork::none(),
                    Err(both) => why = both,
                }
            }
        }
        // Who is let in is between the server and us: no answer to the call.
        let is_call = post.message.kind() == Kind::Request && !refused.is_about_us();
        let id = post.message.id().filter(|_| is_call);
        match id.and_then(|id| refused.answer(id)) {
            Some(answer) => self.handle_text(post.lane, answer.text().clone()),
            None if post.message.is_response() && refused.status.is_client_error() => {
                tracing::warn!(server = self.name, "an answer was refused: {why}");
                self.step(|half, now| half.handle_unsupplied(&post.message, now)).1
            }
            None => self.unanswered(post, &why),
        }
    }

    /// The message went out, or did not, and no answer will come.
    fn unanswered(self: &Arc<Self>, post: &Post, why: &Failure) -> PendingWork {
        if post.message.kind() != Kind::Request {
            self.tell_undelivered(&post.message, why);
            return PendingWork::none();
        }
        self.tell_details(why);
        self.step(|half, now| half.handle_unanswered(post.lane, why, now)).1
    }
}

impl Core {
    /// A POST is over. Its call may have been sent again, and have a new one.
    fn close_lane(&mut self, post: &Post) {
        if self.lanes.get(&post.lane).is_some_and(|ended| Arc::ptr_eq(ended, &post.ended)) {
            self.lanes.remove(&post.lane);
        }
    }
}

/// Whether a server says more because of it than its answer, and perhaps where
/// nobody hears it who does not listen.
fn is_followed_by_more(method: &str) -> bool {
    method == method::SUBSCRIBE || method::may_ask(method)
}

/// The lane of the call with this id.
pub(super) fn lane_of(id: &Id) -> Option<Lane> {
    match id {
        Id::Integer(number) => u64::try_from(*number).ok().map(Lane),
        Id::Large(_) | Id::Text(_) => None,
    }
}
