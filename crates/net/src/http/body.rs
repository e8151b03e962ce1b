//! The bodies of requests and of responses.
//!
//! A request's body is read whole and in time, and charged to its sender as it arrives
//! ([`BodyBudget`]).
//!
//! A response's [`Body`] is nothing, one piece, or a stream that goes on. A live body
//! writes the frames of its lane as events, drives whatever work the lane's request led
//! to, and keeps the connection alive with comments, or ends it after a long silence where
//! the client will come back. Dropped, it closes its lane: that is how a hang-up is noticed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::EXPECT;
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body as HttpBody, Frame as BodyFrame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use switchboard_proto::exchange::Lane;
use switchboard_proto::framing::{self, Outgoing};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::server::{Frame, Prime};
use tokio::time::Sleep;

use super::endpoint::HeldSession;
use super::listen::Awaited;
use super::page::PageStream;
use super::site::{SiteOptions, SiteState};
use crate::backend::{PendingWork, Through};
pub use crate::charge::BodyBudget;
use crate::charge::{Charge, charged};
use crate::connection::{ClientConnection, PieceWritten, lock};
use crate::drive::now;
use crate::who::{Turns, Who};

/// The body of a request, as a listener or a router hands it over.
pub trait RequestBody: HttpBody<Data = Bytes, Error: fmt::Display> + Send {}

impl<B: HttpBody<Data = Bytes, Error: fmt::Display> + Send> RequestBody for B {}

/// What a client that sends too much may send before its connection is cut.
const MOST_UNREAD: u64 = 256 << 20;

/// A body that grows beyond this needs a turn. What is smaller may be an answer or
/// a sign of life, which need none.
const SMALL: usize = 16 << 10;

/// The least room that is made for a body that comes in pieces.
const ROOM: usize = 1 << 10;

/// Reads a whole body of up to the bytes that a message may have.
///
/// `answers` tells whether the sender may be about to answer a question: that needs no turn. A large
/// body has its turn before anything is known of it.
///
/// A body that is refused is read all the same, and forgotten: whoever writes first
/// and reads then would get a reset instead of our refusal.
pub(super) async fn read(
    headers: &HeaderMap,
    body: impl RequestBody,
    site: &SiteState,
    who: &Who,
    answers: impl FnOnce() -> bool,
    awaited: Option<&Awaited>,
) -> Result<(Bytes, Turns, Arc<Charge>), Refusal> {
    let SiteOptions { body_pause, body_rate, bodies, tally, .. } = &site.options;
    let limit = site.rules().limits.message;
    let announced = body.size_hint().lower();
    let whole = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    if announced > MOST_UNREAD {
        return Err(Refusal::TooLarge { limit });
    }
    let mut intake = BodyReader {
        who,
        answers: Some(answers),
        limit,
        whole,
        length: 0,
        text: Vec::new(),
        turns: Turns::default(),
        charge: bodies.charge(who),
        refused: None,
    };
    if let Err(why) = intake.expect(announced) {
        if headers.contains_key(EXPECT) {
            return Err(why);
        }
        intake.refuse(why);
    }
    let mut body = pin!(body);
    let begun = now();
    loop {
        let earned = intake.length.checked_div(u64::from(*body_rate)).map(Duration::from_secs);
        let rate = earned.map_or(NEVER, |earned| *body_pause + earned);
        let mut next = body.frame();
        // Mostly it is there already: then no time is asked for and no timer made.
        let mut too_slow = None;
        let next = poll_fn(|cx| match Pin::new(&mut next).poll(cx) {
            Poll::Ready(next) => Poll::Ready(Ok(Some(next))),
            Poll::Pending if awaited.is_some_and(|awaited| awaited.poll_ended(cx)) => {
                Poll::Ready(Ok(None))
            }
            Poll::Pending => {
                let timer = too_slow.get_or_insert_with(|| {
                    let deadline = (now() + *body_pause).min(begun + rate);
                    Box::pin(tokio::time::sleep_until(deadline.into()))
                });
                timer.as_mut().poll(cx).map(|()| Err(Refusal::TooSlow))
            }
        });
        let next = next.await?;
        // The client broke off: whatever it was, it is not all there.
        let broken = Refusal::NotJson { at: intake.text.len() };
        let Some(frame) = next.ok_or_else(|| broken.clone())? else { break };
        let frame = frame.map_err(|_| broken)?;
        let Ok(piece) = frame.into_data() else { continue };
        if let Err(why) = intake.push(&piece) {
            intake.refuse(why);
        }
        if intake.length > MOST_UNREAD {
            break;
        }
    }
    tally.received.fetch_add(intake.length, Ordering::Relaxed);
    if let Some(why) = intake.refused {
        return Err(why);
    }
    let charge = Arc::new(intake.charge);
    Ok((charged(intake.text.into(), &charge), intake.turns, charge))
}

/// A body as it arrives.
struct BodyReader<'a, F> {
    who: &'a Who,
    /// Until it is asked, once: the question may be over before its answer is read.
    answers: Option<F>,
    limit: usize,
    /// How long it is, if its sender says so.
    whole: Option<usize>,
    length: u64,
    /// A copy of its pieces: each may be a small part of something large.
    text: Vec<u8>,
    turns: Turns,
    /// For all the room that the text has.
    charge: Charge,
    refused: Option<Refusal>,
}

impl<F: FnOnce() -> bool> BodyReader<'_, F> {
    /// Something of `length` bytes is to come, or has come.
    fn expect(&mut self, length: u64) -> Result<(), Refusal> {
        if length > self.limit as u64 {
            return Err(Refusal::TooLarge { limit: self.limit });
        }
        if length > SMALL as u64
            && let Some(answers) = self.answers.take()
            && !answers()
        {
            self.turns = self.who.reserve()?;
        }
        Ok(())
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        self.length += piece.len() as u64;
        if self.refused.is_some() {
            return Ok(());
        }
        self.expect(self.length)?;
        let (length, room) = (self.text.len() + piece.len(), self.text.capacity());
        if length > room {
            let most = self.whole.unwrap_or(self.limit);
            let room = length.max(most.min(ROOM.max(2 * room)));
            self.charge.grow_to(room)?;
            self.text.reserve_exact(room - self.text.len());
        }
        self.text.extend_from_slice(piece);
        Ok(())
    }

    /// Keeps nothing of it.
    fn refuse(&mut self, why: Refusal) {
        (self.text, self.charge) = (Vec::new(), self.charge.fresh());
        self.turns = Turns::default();
        self.refused = Some(why);
    }
}

/// A lane that closes when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenLane {
    pub(crate) client: Arc<ClientConnection>,
    pub(crate) lane: Lane,
}

impl OpenLane {
    pub(super) fn new(client: &Arc<ClientConnection>) -> Self {
        Self { client: Arc::clone(client), lane: client.open_lane() }
    }
}

impl Drop for OpenLane {
    fn drop(&mut self) {
        self.client.close_lane(self.lane).detach();
    }
}

/// The body of a response.
#[derive(Debug, Default)]
pub struct Body {
    /// Where pieces come from, if it is a stream of a client.
    live: Option<Box<Live>>,
    /// The same, if it is a stream of a page.
    piped: Option<Box<PageStream>>,
    /// The same, if another replica answers.
    hopped: Option<Box<Incoming>>,
    /// What is left of a piece that is being written, or of a body that is no stream.
    rest: Bytes,
    /// The client that it is for, if that is known.
    reader: Option<Arc<ClientConnection>>,
    /// Ready when the last piece is written. The end waits for that: as long as it has
    /// not come, the stream of a client that does not read can be cut.
    written: Option<PieceWritten>,
    counted: Option<BodyCounter>,
    /// Whoever waits for it may send nothing more.
    pub(super) awaited: Option<Awaited>,
    /// What the request came through: it is told on as long as this is open.
    pub(super) through: Option<Through>,
}

#[derive(Debug)]
struct Live {
    lane: OpenLane,
    works: PendingWork,
    /// What to write first.
    opening: Vec<u8>,
    /// The time since anything was written.
    quiet: Silence,
    /// The time since something was said, pings aside: after it the client had better come back.
    silence: Silence,
    over: bool,
    /// The session that ends with this stream, if one does. Dropped after the lane.
    _held: Option<HeldSession>,
}

/// A time in which nothing happened.
#[derive(Debug)]
struct Silence {
    most: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    /// May last for `most`; zero for any time.
    fn new(most: Duration, since: Instant) -> Self {
        let most = if most.is_zero() { NEVER } else { most };
        Self { most, timer: Box::pin(tokio::time::sleep_until((since + most).into())) }
    }

    fn restart(&mut self) {
        self.timer.as_mut().reset((now() + self.most).into());
    }

    /// Whether it has been too long; true once for each silence.
    fn is_too_long(&mut self, cx: &mut Context<'_>) -> bool {
        let is_so = self.timer.as_mut().poll(cx).is_ready();
        if is_so {
            self.timer.as_mut().reset((now() + NEVER).into());
        }
        is_so
    }
}

/// Events are gathered into pieces of about this size, so that many small ones
/// cost one write and a large one is not held up.
const PIECE: usize = 64 << 10;

/// As good as never, and no instant overflows.
pub(super) const NEVER: Duration = Duration::from_hours(24 * 365);

impl Body {
    pub(crate) fn whole(rest: Bytes) -> Self {
        Self { rest, ..Self::default() }
    }

    /// The stream of a page.
    pub(super) fn piped(stream: PageStream) -> Self {
        Self { piped: Some(Box::new(stream)), ..Self::default() }
    }

    /// What another replica answers, as it comes.
    #[cfg(feature = "client")]
    pub(super) fn hopped(answer: Incoming) -> Self {
        Self { hopped: Some(Box::new(answer)), ..Self::default() }
    }

    fn is_stream(&self) -> bool {
        self.live.is_some() || self.piped.is_some() || self.hopped.is_some()
    }

    /// The same body, counted as unread by a client until it is written.
    pub(super) fn lent_by(self, client: &Arc<ClientConnection>) -> Self {
        let (rest, written) = client.lend(self.rest);
        Self { rest, written, reader: Some(Arc::clone(client)), ..self }
    }

    /// A stream of events, beginning with `opening`. If it has been silent for long since
    /// `silent_since`, it ends, and a client that knows how to come back does so. The
    /// session that is `held` ends with it.
    pub(super) fn live(
        lane: OpenLane,
        works: PendingWork,
        opening: Vec<u8>,
        options: &SiteOptions,
        silent_since: Option<Instant>,
        held: Option<HeldSession>,
    ) -> Self {
        let quiet = Silence::new(options.keep_alive, now());
        let silence = match silent_since {
            Some(since) => Silence::new(options.hang_up, since),
            None => Silence::new(NEVER, now()),
        };
        let reader = Some(Arc::clone(&lane.client));
        let live = Live { lane, works, opening, quiet, silence, over: false, _held: held };
        Self { live: Some(Box::new(live)), reader, ..Self::default() }
    }
}

/// The event that a stream begins with, if the revision has that.
pub(super) fn primed(prime: Option<Prime>) -> Vec<u8> {
    let mut opening = Vec::new();
    if let Some(Prime { event, retry_ms }) = prime {
        let id = event.to_string();
        let event = Outgoing { id: Some(&id), retry: Some(retry_ms), ..Outgoing::default() };
        framing::encode_event(&event, &mut opening);
    }
    opening
}

impl Live {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // The work ends on its own terms; the stream goes on without it.
        self.lane.client.look_away(self.lane.lane);
        _ = Pin::new(&mut self.works).poll(cx);
        let mut piece = std::mem::take(&mut self.opening);
        self.write_frames(&mut piece, cx);
        if piece.is_empty() && !self.over && self.silence.is_too_long(cx) {
            let lane = self.lane.lane;
            self.lane.client.step(|half| half.let_go(lane)).1.detach();
            self.write_frames(&mut piece, cx);
        }
        if piece.is_empty() && self.over {
            return Poll::Ready(None);
        }
        if piece.is_empty() {
            if !self.quiet.is_too_long(cx) {
                return Poll::Pending;
            }
            framing::encode_comment("ping", &mut piece);
        }
        self.quiet.restart();
        Poll::Ready(Some(piece.into()))
    }

    fn write_frames(&mut self, piece: &mut Vec<u8>, cx: &mut Context<'_>) {
        while !self.over && piece.len() < PIECE {
            let Poll::Ready(frame) = self.lane.client.poll_frame(self.lane.lane, cx) else { break };
            match frame {
                Some(Frame::Message { event, text }) => {
                    self.silence.restart();
                    let id = event.map(|event| event.to_string());
                    let (id, name) = (id.as_deref(), Some("message"));
                    framing::encode_event(
                        &Outgoing { id, name, data: &text, ..Outgoing::default() },
                        piece,
                    );
                }
                Some(Frame::Answer { text, .. }) => {
                    framing::encode_event(&Outgoing { data: &text, ..Outgoing::default() }, piece);
                    self.over = true;
                }
                Some(Frame::End) | None => self.over = true,
                Some(Frame::Begin { .. } | Frame::Accepted) => {}
            }
        }
    }
}

impl Body {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(piped) = &mut self.piped {
            return piped.pieces.poll_recv(cx);
        }
        if let Some(hopped) = &mut self.hopped {
            return poll_hopped(Pin::new(&mut **hopped), cx);
        }
        let Some(live) = &mut self.live else { return Poll::Ready(None) };
        if self.awaited.as_mut().is_some_and(|awaited| awaited.poll_doubt(cx)) {
            // If the client is gone, writing to it says so.
            framing::encode_comment("ping", &mut live.opening);
        }
        let piece = ready!(live.poll_piece(cx));
        Poll::Ready(piece.map(|piece| {
            let (piece, written) = live.lane.client.lend(piece);
            self.written = written.or(self.written.take());
            piece
        }))
    }
}

/// The next piece of an answer; none at its end, and if its replica is gone.
fn poll_hopped(mut answer: Pin<&mut Incoming>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
    loop {
        let Some(Ok(frame)) = ready!(answer.as_mut().poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        if let Ok(piece) = frame.into_data()
            && !piece.is_empty()
        {
            return Poll::Ready(Some(piece));
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let Some(piece) = ready!(this.poll_piece(cx)) else {
                if let Some(written) = &mut this.written {
                    _ = ready!(Pin::new(written).poll(cx));
                    this.written = None;
                }
                return Poll::Ready(None);
            };
            this.rest = piece;
        }
        // Whoever writes asks for the next part when the client has read of the last ones.
        let part = this.rest.split_to(this.rest.len().min(PIECE));
        this.reader.iter().for_each(|client| client.is_reading());
        if let Some(counted) = &this.counted {
            counted.tally.sent.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
        Poll::Ready(Some(Ok(BodyFrame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        !self.is_stream() && self.rest.is_empty() && self.written.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_stream() {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// Counters of one site or of several.
#[derive(Debug, Default)]
pub struct HttpCounters {
    received: AtomicU64,
    sent: AtomicU64,
    streams: AtomicU64,
    pub(super) resumed: AtomicU64,
    /// As many as there are reasons.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl HttpCounters {
    /// Bytes of bodies that clients have sent.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes of bodies that clients were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Event streams that are open.
    pub fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }

    /// How often a client came back for the rest of a stream.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// How many requests were turned away, by reason.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.refused).clone()
    }

    /// Counts a response, and its body as it is written.
    pub(super) fn count(self: &Arc<Self>, mut response: Response<Body>) -> Response<Body> {
        let reason = match (response.extensions().get(), response.status()) {
            (Some(RefusalReason(name)), _) => Some(*name),
            (None, StatusCode::UNAUTHORIZED) => Some("unauthorized"),
            (None, StatusCode::FORBIDDEN) => Some("forbidden"),
            (None, StatusCode::TOO_MANY_REQUESTS) => Some("too_many_requests"),
            (None, status) if status.is_server_error() => Some("unavailable"),
            // A half said why, in the body.
            (None, status) if status.is_client_error() => Some("message"),
            _ => None,
        };
        if let Some(reason) = reason {
            *lock(&self.refused).entry(reason).or_default() += 1;
        }
        let body = response.body_mut();
        let is_stream = body.is_stream();
        if is_stream {
            self.streams.fetch_add(1, Ordering::Relaxed);
        }
        body.counted = Some(BodyCounter { tally: Arc::clone(self), is_stream });
        response
    }
}

/// Why a request was turned away, for whoever counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusalReason(pub(super) &'static str);

/// The bytes of one body, and that it is a stream.
#[derive(Debug)]
struct BodyCounter {
    tally: Arc<HttpCounters>,
    is_stream: bool,
}

impl Drop for BodyCounter {
    fn drop(&mut self) {
        if self.is_stream {
            self.tally.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_body_that_was_let_in_as_an_answer_stays_one() {
        let (budget, who) = (Arc::new(BodyBudget::default()), Who::new("ada"));
        let asked = Cell::new(0);
        let mut reader = BodyReader {
            who: &who,
            answers: Some(|| asked.replace(asked.get() + 1) == 0),
            limit: 4 * SMALL,
            whole: None,
            length: 0,
            text: Vec::new(),
            turns: Turns::default(),
            charge: budget.charge(&who),
            refused: None,
        };
        for _ in 0..3 {
            reader.push(&[b' '; SMALL]).unwrap();
        }
        assert_eq!(asked.get(), 1, "its question may be over by now");
    }
}
