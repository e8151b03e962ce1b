//! The bodies that we read: whole, in time, and charged to whoever sends them.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use switchboard_proto::refusal::Refusal;
use tokio::time::Instant;

use super::body::NEVER;
use super::budget::{BodyBudget, Charge, charged};
use super::listen::Awaited;
use super::site::{Inner, SiteOptions};
use crate::who::{Turns, Who};

/// What a client that sends too much may send before its connection is cut.
const MOST_UNREAD: u64 = 256 << 20;

/// A body that grows beyond this needs a turn. What is smaller may be an answer or
/// a sign of life, which need none.
const SMALL: usize = 16 << 10;

/// The least room that is made for a body that comes in pieces.
const ROOM: usize = 1 << 10;

/// A body that has been read.
pub(super) struct Taken {
    pub(super) text: Bytes,
    /// Of a large body, before anything is known of it.
    pub(super) turns: Turns,
    pub(super) charge: Arc<Charge>,
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
    awaited: Option<&Awaited>,
) -> Result<Taken, Refusal>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: fmt::Display,
{
    let SiteOptions { body_pause, body_rate, bodies, tally, .. } = &site.options;
    let limit = site.rules().limits.message;
    let announced = body.size_hint().lower();
    let whole = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    if announced > MOST_UNREAD {
        return Err(Refusal::TooLarge { limit });
    }
    let mut intake = Intake { answers, limit, whole, ..Intake::new(who, bodies) };
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
        let mut next = body.frame();
        let next = poll_fn(|cx| match Pin::new(&mut next).poll(cx) {
            Poll::Pending if awaited.is_some_and(|awaited| awaited.poll_ended(cx)) => {
                Poll::Ready(None)
            }
            next => next.map(Some),
        });
        let next = tokio::time::timeout_at(deadline, next).await;
        let next = next.map_err(|_| Refusal::TooSlow)?;
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
    tally.add_received(usize::try_from(intake.length).unwrap_or(usize::MAX));
    intake.finish()
}

/// A body as it arrives.
struct Intake<'a> {
    who: &'a Who,
    bodies: &'a Arc<BodyBudget>,
    answers: bool,
    limit: usize,
    /// How long it is, if its sender says so.
    whole: Option<usize>,
    length: u64,
    /// A copy of its pieces: each may be a small part of something large.
    text: Vec<u8>,
    turns: Turns,
    /// Whether it has its turn, or needs none.
    is_let: bool,
    /// For all the room that the text has.
    charge: Charge,
    refused: Option<Refusal>,
}

impl<'a> Intake<'a> {
    fn new(who: &'a Who, bodies: &'a Arc<BodyBudget>) -> Self {
        Self {
            who,
            bodies,
            answers: false,
            limit: 0,
            whole: None,
            length: 0,
            text: Vec::new(),
            turns: Turns::default(),
            is_let: false,
            charge: bodies.charge(who),
            refused: None,
        }
    }

    /// Something of `length` bytes is to come, or has come.
    fn expect(&mut self, length: u64) -> Result<(), Refusal> {
        if length > self.limit as u64 {
            return Err(Refusal::TooLarge { limit: self.limit });
        }
        if length > SMALL as u64 && !self.is_let {
            if !self.answers {
                self.turns = self.who.reserve()?;
            }
            self.is_let = true;
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
        (self.text, self.charge) = (Vec::new(), self.bodies.charge(self.who));
        self.turns = Turns::default();
        self.refused = Some(why);
    }

    fn finish(self) -> Result<Taken, Refusal> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        let charge = Arc::new(self.charge);
        let text = charged(self.text.into(), &charge);
        Ok(Taken { text, turns: self.turns, charge })
    }
}
