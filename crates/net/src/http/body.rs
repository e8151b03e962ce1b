//! The bodies we read, and those we send: nothing, one piece, or a stream that goes on.
//!
//! A live body writes the frames of its lane as events, drives whatever work
//! the lane's request led to, and keeps the connection alive with comments, or
//! ends it after a long silence where the client will come back.
//! Dropped, it closes its lane: that is how a hang-up is noticed.

use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::EXPECT;
use http_body::{Body as HttpBody, Frame as BodyFrame, SizeHint};
use http_body_util::BodyExt as _;
use switchboard_proto::exchange::Lane;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::server::{Frame, Prime};
use switchboard_proto::sse::{self, Outgoing};
use tokio::time::{Instant, Sleep};

use super::budget::{BodyBudget, Charge, charged};
use super::session::Held;
use super::site::{Inner, SiteOptions};
use super::tally::{Counted, Tally};
use crate::face::Face;
use crate::inside::Works;
use crate::who::{Turns, Who};

/// What a client that sends too much may send before its connection is cut.
const MOST_UNREAD: u64 = 256 << 20;

/// A body that grows beyond this needs a turn, and is charged to its sender. What
/// is smaller may be an answer or a sign of life, which need none; as many as
/// there may be connections are 128 MiB.
const SMALL: usize = 16 << 10;

/// A body that has been read.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) text: Bytes,
    /// Of a large body, before anything is known of it.
    pub(super) turns: Turns,
    pub(super) charge: Option<Arc<Charge>>,
}

/// Reads a whole body of up to the bytes that a message may have.
///
/// `answers` if the sender may be about to answer a question: that needs no turn.
///
/// A body that is refused is read all the same, and forgotten: whoever writes first
/// and reads then would get a reset instead of our refusal.
pub(super) async fn read<B>(
    headers: &HeaderMap,
    body: B,
    site: &Inner,
    who: &Who,
    answers: bool,
) -> Result<Taken, Refusal>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: fmt::Display,
{
    let SiteOptions { body_pause, body_rate, bodies, tally, .. } = &site.options;
    let limit = site.rules().limits.message;
    let announced = body.size_hint().lower();
    if announced > MOST_UNREAD {
        return Err(Refusal::TooLarge { limit });
    }
    let mut intake = Intake { answers, limit, ..Intake::new(who, bodies) };
    if let Err(why) = intake.expect(announced) {
        if headers.contains_key(EXPECT) {
            return Err(why);
        }
        intake.refuse(why);
    }
    let mut body = pin!(body);
    let begun = Instant::now();
    loop {
        let earned = intake.length.checked_div(u64::from(*body_rate)).map(Duration::from_secs);
        let rate = earned.map_or(NEVER, |earned| *body_pause + earned);
        let deadline = (Instant::now() + *body_pause).min(begun + rate);
        let next = tokio::time::timeout_at(deadline, body.frame()).await;
        let Some(frame) = next.map_err(|_| Refusal::TooSlow)? else { break };
        // The client broke off: whatever it was, it is not all there.
        let Ok(frame) = frame else { return Err(Refusal::NotJson { at: intake.text.len() }) };
        let Ok(piece) = frame.into_data() else { continue };
        if let Err(why) = intake.push(piece) {
            intake.refuse(why);
        }
        if intake.length > MOST_UNREAD {
            break;
        }
    }
    tally.add_received(usize::try_from(intake.length).unwrap_or(usize::MAX));
    intake.finish()
}

/// A body as it arrives.
struct Intake<'a> {
    who: &'a Who,
    bodies: &'a Arc<BodyBudget>,
    answers: bool,
    limit: usize,
    length: u64,
    text: Text,
    turns: Turns,
    charge: Option<Charge>,
    refused: Option<Refusal>,
}

impl<'a> Intake<'a> {
    fn new(who: &'a Who, bodies: &'a Arc<BodyBudget>) -> Self {
        Self {
            who,
            bodies,
            answers: false,
            limit: 0,
            length: 0,
            text: Text::default(),
            turns: Turns::default(),
            charge: None,
            refused: None,
        }
    }

    /// Something of `length` bytes is to come, or has come.
    fn expect(&mut self, length: u64) -> Result<(), Refusal> {
        if length > self.limit as u64 {
            return Err(Refusal::TooLarge { limit: self.limit });
        }
        if length > SMALL as u64 && self.charge.is_none() {
            if !self.answers {
                self.turns = self.who.reserve()?;
            }
            self.charge = Some(self.bodies.charge(self.who));
        }
        Ok(())
    }

    fn push(&mut self, piece: Bytes) -> Result<(), Refusal> {
        self.length += piece.len() as u64;
        if self.refused.is_some() {
            return Ok(());
        }
        self.expect(self.length)?;
        let length = self.text.len() + piece.len();
        self.charge.iter_mut().try_for_each(|charge| charge.grow_to(length))?;
        self.text.push(piece);
        Ok(())
    }

    /// Keeps nothing of it.
    fn refuse(&mut self, why: Refusal) {
        (self.text, self.charge) = (Text::default(), None);
        self.turns = Turns::default();
        self.refused = Some(why);
    }

    fn finish(self) -> Result<Taken, Refusal> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        let charge = self.charge.map(Arc::new);
        let mut text = Bytes::from(self.text);
        if let Some(charge) = &charge {
            text = charged(text, charge);
        }
        Ok(Taken { text, turns: self.turns, charge })
    }
}

/// The pieces of a body: mostly one, which is kept as it is.
#[derive(Default)]
enum Text {
    #[default]
    Nothing,
    One(Bytes),
    Several(BytesMut),
}

impl Text {
    fn push(&mut self, piece: Bytes) {
        *self = match std::mem::take(self) {
            Self::Nothing => Self::One(piece),
            Self::One(first) => {
                let mut text = BytesMut::with_capacity(2 * (first.len() + piece.len()));
                text.extend_from_slice(&first);
                text.extend_from_slice(&piece);
                Self::Several(text)
            }
            Self::Several(mut text) => {
                text.extend_from_slice(&piece);
                Self::Several(text)
            }
        };
    }

    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(text) => text.len(),
            Self::Several(text) => text.len(),
        }
    }
}

impl From<Text> for Bytes {
    fn from(text: Text) -> Self {
        match text {
            Text::Nothing => Self::new(),
            Text::One(text) => text,
            Text::Several(text) => text.freeze(),
        }
    }
}

/// A lane that closes when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenLane {
    pub(crate) face: Arc<Face>,
    pub(crate) lane: Lane,
}

impl Drop for OpenLane {
    fn drop(&mut self) {
        self.face.close_lane(self.lane).detach();
    }
}

/// The body of a response.
#[derive(Debug)]
pub struct Body {
    kind: Kind,
    counted: Option<Counted>,
}

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    Live(Box<Live>),
}

#[derive(Debug)]
struct Live {
    lane: OpenLane,
    works: Works,
    /// What to write first.
    opening: Vec<u8>,
    keep_alive: Duration,
    ping: Pin<Box<Sleep>>,
    /// The silence after which the client had better come back.
    silence: Option<Silence>,
    over: bool,
    /// The session that ends with this stream, if one does. Dropped after the lane.
    held: Option<Held>,
}

/// The time since something was said, pings aside.
#[derive(Debug)]
struct Silence {
    most: Duration,
    timer: Pin<Box<Sleep>>,
    told: bool,
}

impl Silence {
    fn new(most: Duration, since: Instant) -> Self {
        Self { most, timer: Box::pin(tokio::time::sleep_until(since + most)), told: false }
    }

    fn restart(&mut self) {
        self.timer.as_mut().reset(Instant::now() + self.most);
        self.told = false;
    }

    /// Whether it has been too long; true once for each silence.
    fn is_too_long(&mut self, cx: &mut Context<'_>) -> bool {
        if self.told {
            return false;
        }
        self.told = self.timer.as_mut().poll(cx).is_ready();
        self.told
    }
}

/// Events are gathered into pieces of about this size, so that many small ones
/// cost one write and a large one is not held up.
const PIECE: usize = 64 << 10;

/// As good as never, and no instant overflows.
const NEVER: Duration = Duration::from_hours(24 * 365);

impl Body {
    pub(crate) fn empty() -> Self {
        Self { kind: Kind::Whole(None), counted: None }
    }

    pub(crate) fn whole(text: Bytes) -> Self {
        Self { kind: Kind::Whole(Some(text)), counted: None }
    }

    /// A stream of events, beginning with `prime` if the revision has that.
    pub(crate) fn live(
        lane: OpenLane,
        works: Works,
        prime: Option<Prime>,
        keep_alive: Duration,
    ) -> Self {
        let mut opening = Vec::new();
        if let Some(prime) = prime {
            let id = prime.event.to_string();
            let event =
                Outgoing { id: Some(&id), retry: Some(prime.retry_ms), ..Outgoing::default() };
            sse::encode(&event, &mut opening);
        }
        Self::streaming(lane, works, opening, keep_alive)
    }

    /// A stream of events, beginning with text that is already encoded.
    pub(crate) fn streaming(
        lane: OpenLane,
        works: Works,
        opening: Vec<u8>,
        keep_alive: Duration,
    ) -> Self {
        let keep_alive = if keep_alive.is_zero() { NEVER } else { keep_alive };
        let ping = Box::pin(tokio::time::sleep(keep_alive));
        let live =
            Live { lane, works, opening, keep_alive, ping, silence: None, over: false, held: None };
        Self { kind: Kind::Live(Box::new(live)), counted: None }
    }

    /// The same body, ended after a silence if its client knows how to come
    /// back; never if `silence` is zero. It has been silent since `since`.
    pub(super) fn hanging_up(mut self, silence: Duration, since: Instant) -> Self {
        if let Kind::Live(live) = &mut self.kind {
            live.silence = (!silence.is_zero()).then(|| Silence::new(silence, since));
        }
        self
    }

    /// The same body, counted as it is written.
    pub(super) fn counted(mut self, tally: &Arc<Tally>) -> Self {
        let is_stream = matches!(self.kind, Kind::Live(_));
        self.counted = Some(Counted::new(tally, is_stream));
        self
    }

    /// The same body, keeping `held` until it is over.
    pub(super) fn holding(mut self, held: Option<Held>) -> Self {
        if let Kind::Live(live) = &mut self.kind {
            live.held = held;
        }
        self
    }
}

impl Live {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // The work ends on its own terms; the stream goes on without it.
        _ = Pin::new(&mut self.works).poll(cx);
        let mut piece = std::mem::take(&mut self.opening);
        self.write_frames(&mut piece, cx);
        let silence = self.silence.as_mut().filter(|_| piece.is_empty() && !self.over);
        if silence.is_some_and(|silence| silence.is_too_long(cx)) {
            let lane = self.lane.lane;
            self.lane.face.step(|half| half.let_go(lane)).1.detach();
            self.write_frames(&mut piece, cx);
        }
        if !piece.is_empty() {
            self.ping.as_mut().reset(Instant::now() + self.keep_alive);
            return Poll::Ready(Some(self.lane.face.lend(piece.into())));
        }
        if self.over {
            return Poll::Ready(None);
        }
        if self.ping.as_mut().poll(cx).is_ready() {
            self.ping.as_mut().reset(Instant::now() + self.keep_alive);
            // Registers the timer again, so that the next ping wakes us too.
            _ = self.ping.as_mut().poll(cx);
            sse::comment("ping", &mut piece);
            return Poll::Ready(Some(piece.into()));
        }
        Poll::Pending
    }

    fn write_frames(&mut self, piece: &mut Vec<u8>, cx: &mut Context<'_>) {
        while !self.over && piece.len() < PIECE {
            match self.lane.face.poll_frame(self.lane.lane, cx) {
                Poll::Ready(Some(frame)) => self.write(frame, piece),
                Poll::Ready(None) => self.over = true,
                Poll::Pending => break,
            }
        }
    }

    fn write(&mut self, frame: Frame, piece: &mut Vec<u8>) {
        match frame {
            Frame::Message { event, text } => {
                self.silence.iter_mut().for_each(Silence::restart);
                let id = event.map(|event| event.to_string());
                let name = Some("message");
                let event =
                    Outgoing { id: id.as_deref(), name, data: &text, ..Outgoing::default() };
                sse::encode(&event, piece);
            }
            Frame::Answer { text, .. } => {
                sse::encode(&Outgoing { data: &text, ..Outgoing::default() }, piece);
                self.over = true;
            }
            Frame::End => self.over = true,
            Frame::Begin { .. } | Frame::Accepted => {}
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
        let piece = match &mut self.kind {
            Kind::Whole(text) => Poll::Ready(text.take()),
            Kind::Live(live) => live.poll_piece(cx),
        };
        if let (Poll::Ready(Some(piece)), Some(counted)) = (&piece, &self.counted) {
            counted.add_sent(piece.len());
        }
        piece.map(|piece| piece.map(|piece| Ok(BodyFrame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Kind::Live(_) => SizeHint::default(),
        }
    }
}
