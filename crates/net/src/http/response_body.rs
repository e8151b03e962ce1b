//! The bodies that we send: nothing, one piece, or a stream that goes on.
//!
//! A live body writes the frames of its lane as events, drives whatever work
//! the lane's request led to, and keeps the connection alive with comments, or
//! ends it after a long silence where the client will come back.
//! Dropped, it closes its lane: that is how a hang-up is noticed.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame as BodyFrame, SizeHint};
use switchboard_proto::exchange::Lane;
use switchboard_proto::framing::{self, Outgoing};
use switchboard_proto::server::{Frame, Prime};
use tokio::time::{Instant, Sleep};

use super::legacy_session::Held;
use super::listen::Awaited;
use super::site_control::{BodyCounter, HttpCounters};
use crate::backend::PendingWork;
use crate::connection::{ClientConnection, Written};
use crate::upstream::Through;

/// A lane that closes when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenLane {
    pub(crate) client: Arc<ClientConnection>,
    pub(crate) lane: Lane,
}

impl Drop for OpenLane {
    fn drop(&mut self) {
        self.client.close_lane(self.lane).detach();
    }
}

/// The body of a response.
#[derive(Debug)]
pub struct Body {
    kind: BodyKind,
    /// What is left of a piece that is being written.
    rest: Bytes,
    /// Ready when the last piece is written. The end waits for that: as long as it has
    /// not come, the stream of a client that does not read can be cut.
    written: Option<Written>,
    counted: Option<BodyCounter>,
    /// Whoever waits for it may send nothing more.
    awaited: Option<Awaited>,
    /// What the request came through: it is told on as long as this is open.
    through: Option<Through>,
}

#[derive(Debug)]
enum BodyKind {
    /// With the client that it is for, if that is known.
    Whole(Option<Bytes>, Option<Arc<ClientConnection>>),
    Live(Box<Live>),
}

#[derive(Debug)]
struct Live {
    lane: OpenLane,
    works: PendingWork,
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
    fn new(kind: BodyKind) -> Self {
        let (rest, written) = (Bytes::new(), None);
        Self { kind, rest, written, counted: None, awaited: None, through: None }
    }

    pub(crate) fn empty() -> Self {
        Self::new(BodyKind::Whole(None, None))
    }

    pub(crate) fn whole(text: Bytes) -> Self {
        Self::new(BodyKind::Whole(Some(text), None))
    }

    /// The same body, counted as unread by a client until it is written.
    pub(super) fn lent_by(mut self, client: &Arc<ClientConnection>) -> Self {
        if let BodyKind::Whole(text, lender) = &mut self.kind {
            let (lent, written) = client.lend(text.take().unwrap_or_default());
            (*text, *lender) = (Some(lent), Some(Arc::clone(client)));
            self.written = written;
        }
        self
    }

    /// A stream of events, beginning with `prime` if the revision has that.
    pub(crate) fn live(
        lane: OpenLane,
        works: PendingWork,
        prime: Option<Prime>,
        keep_alive: Duration,
    ) -> Self {
        let mut opening = Vec::new();
        if let Some(prime) = prime {
            let id = prime.event.to_string();
            let event =
                Outgoing { id: Some(&id), retry: Some(prime.retry_ms), ..Outgoing::default() };
            framing::encode_event(&event, &mut opening);
        }
        Self::streaming(lane, works, opening, keep_alive)
    }

    /// A stream of events, beginning with text that is already encoded.
    pub(crate) fn streaming(
        lane: OpenLane,
        works: PendingWork,
        opening: Vec<u8>,
        keep_alive: Duration,
    ) -> Self {
        let keep_alive = if keep_alive.is_zero() { NEVER } else { keep_alive };
        let ping = Box::pin(tokio::time::sleep(keep_alive));
        let live =
            Live { lane, works, opening, keep_alive, ping, silence: None, over: false, held: None };
        Self::new(BodyKind::Live(Box::new(live)))
    }

    /// The same body, ended after a silence if its client knows how to come
    /// back; never if `silence` is zero. It has been silent since `since`.
    pub(super) fn hanging_up(mut self, silence: Duration, since: Instant) -> Self {
        if let BodyKind::Live(live) = &mut self.kind {
            live.silence = (!silence.is_zero()).then(|| Silence::new(silence, since));
        }
        self
    }

    /// The same body, counted as it is written.
    pub(super) fn counted(mut self, tally: &Arc<HttpCounters>) -> Self {
        let is_stream = matches!(self.kind, BodyKind::Live(_));
        self.counted = Some(BodyCounter::new(tally, is_stream));
        self
    }

    /// The same body, for a client that may send nothing more.
    pub(super) fn awaited(mut self, awaited: Option<Awaited>) -> Self {
        self.awaited = awaited;
        self
    }

    /// The same body, for a request that came through these.
    pub(super) fn through(mut self, through: Option<Through>) -> Self {
        self.through = through;
        self
    }

    /// The same body, keeping `held` until it is over.
    pub(super) fn holding(mut self, held: Option<Held>) -> Self {
        if let BodyKind::Live(live) = &mut self.kind {
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
            self.lane.client.step(|half| half.let_go(lane)).1.detach();
            self.write_frames(&mut piece, cx);
        }
        if !piece.is_empty() {
            self.ping.as_mut().reset(Instant::now() + self.keep_alive);
            return Poll::Ready(Some(piece.into()));
        }
        if self.over {
            return Poll::Ready(None);
        }
        if self.ping.as_mut().poll(cx).is_ready() {
            self.ping.as_mut().reset(Instant::now() + self.keep_alive);
            // Registers the timer again, so that the next ping wakes us too.
            _ = self.ping.as_mut().poll(cx);
            framing::encode_comment("ping", &mut piece);
            return Poll::Ready(Some(piece.into()));
        }
        Poll::Pending
    }

    fn write_frames(&mut self, piece: &mut Vec<u8>, cx: &mut Context<'_>) {
        while !self.over && piece.len() < PIECE {
            match self.lane.client.poll_frame(self.lane.lane, cx) {
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
                framing::encode_event(&event, piece);
            }
            Frame::Answer { text, .. } => {
                framing::encode_event(&Outgoing { data: &text, ..Outgoing::default() }, piece);
                self.over = true;
            }
            Frame::End => self.over = true,
            Frame::Begin { .. } | Frame::Accepted => {}
        }
    }
}

impl BodyKind {
    fn lender(&self) -> Option<&Arc<ClientConnection>> {
        match self {
            Self::Whole(_, lender) => lender.as_ref(),
            Self::Live(live) => Some(&live.lane.client),
        }
    }
}

impl Body {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &mut self.kind {
            BodyKind::Whole(text, _) => Poll::Ready(text.take()),
            BodyKind::Live(live) => {
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
        this.kind.lender().into_iter().for_each(|client| client.is_reading());
        if let Some(counted) = &this.counted {
            counted.add_sent(part.len());
        }
        Poll::Ready(Some(Ok(BodyFrame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, BodyKind::Whole(None, _))
            && self.rest.is_empty()
            && self.written.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Whole(text, _) => {
                let left = self.rest.len() + text.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(left as u64)
            }
            BodyKind::Live(_) => SizeHint::default(),
        }
    }
}
