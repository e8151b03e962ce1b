//! The bodies that we send: nothing, one piece, or a stream that goes on.
//!
//! A live body writes the frames of its lane as events, drives whatever work
//! the lane's request led to, and keeps the connection alive with comments, or
//! ends it after a long silence where the client will come back.
//! Dropped, it closes its lane: that is how a hang-up is noticed.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame as BodyFrame, SizeHint};
use switchboard_proto::exchange::Lane;
use switchboard_proto::server::{Frame, Prime};
use switchboard_proto::sse::{self, Outgoing};
use tokio::time::{Instant, Sleep};

use super::listen::Awaited;
use super::session::Held;
use super::tally::{Counted, Tally};
use crate::face::Face;
use crate::inside::Works;

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
    /// Whoever waits for it may send nothing more.
    awaited: Option<Awaited>,
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
pub(super) const NEVER: Duration = Duration::from_hours(24 * 365);

impl Body {
    pub(crate) fn empty() -> Self {
        Self { kind: Kind::Whole(None), counted: None, awaited: None }
    }

    pub(crate) fn whole(text: Bytes) -> Self {
        Self { kind: Kind::Whole(Some(text)), counted: None, awaited: None }
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
        Self { kind: Kind::Live(Box::new(live)), counted: None, awaited: None }
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

    /// The same body, for a client that may send nothing more.
    pub(super) fn awaited(mut self, awaited: Option<Awaited>) -> Self {
        self.awaited = awaited;
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
        let this = &mut *self;
        let piece = match &mut this.kind {
            Kind::Whole(text) => Poll::Ready(text.take()),
            Kind::Live(live) => {
                if this.awaited.as_mut().is_some_and(|awaited| awaited.poll_doubt(cx)) {
                    // If the client is gone, writing to it says so.
                    sse::comment("ping", &mut live.opening);
                }
                live.poll_piece(cx)
            }
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
