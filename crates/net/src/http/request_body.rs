//! The bodies of requests: read whole and in time, charged to their sender, and parsed.
//!
//! [`BodyBudget`] bounds the bytes of request bodies that are held at one time: for the
//! whole process, with a share of it for each principal. A body is charged as it arrives.
//! The charge stays with the text of the message, and with the work that the message
//! leads to, until the last of them is dropped. Sites that share a budget count together.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use switchboard_proto::jsonrpc::{self, Incoming, InvalidMessage, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use tokio::time::Instant;

use super::listen::Awaited;
use super::response_body::NEVER;
use super::site::{Inner, SiteOptions};
use crate::connection::lock;
use crate::who::{Turns, Who};

/// A body that is no larger is counted and never refused: it may cancel a call, or
/// answer a question. The connection that it comes by takes as much.
const FREE: usize = 1 << 10;

/// The bytes of requests that a process may hold.
#[derive(Debug)]
pub struct BodyBudget {
    held: Mutex<HeldBytes>,
}

#[derive(Debug)]
struct HeldBytes {
    most: usize,
    most_each: usize,
    all: usize,
    /// By the name of the principal; those who hold nothing are not in it.
    /// Clients without a name are one principal.
    each: HashMap<Arc<str>, usize>,
}

impl Default for BodyBudget {
    /// Sixteen of the largest messages, and four of each principal.
    fn default() -> Self {
        Self::new(Self::BYTES, Self::BYTES_EACH)
    }
}

impl BodyBudget {
    /// What all principals may hold together, where nobody says otherwise.
    pub const BYTES: usize = 512 << 20;
    /// What one principal may hold, where nobody says otherwise.
    pub const BYTES_EACH: usize = 128 << 20;

    /// At most `most` bytes, and `most_each` of one principal.
    pub fn new(most: usize, most_each: usize) -> Self {
        let held = HeldBytes { most, most_each, all: 0, each: HashMap::new() };
        Self { held: Mutex::new(held) }
    }

    /// Other bounds from here on; what is held stays.
    pub fn bound(&self, most: usize, most_each: usize) {
        let mut held = lock(&self.held);
        (held.most, held.most_each) = (most, most_each);
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        lock(&self.held).all
    }

    /// A charge of nothing yet.
    pub(super) fn charge(self: &Arc<Self>, who: &Who) -> Charge {
        Charge { budget: Arc::clone(self), principal: who.shared_name(), bytes: 0 }
    }
}

/// Bytes that are charged to a principal until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<BodyBudget>,
    principal: Arc<str>,
    bytes: usize,
}

impl Charge {
    /// Charges up to `bytes` in all.
    pub(super) fn grow_to(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        let mut held = lock(&self.budget.held);
        let each = held.each.get(&self.principal).copied().unwrap_or_default();
        let is_free = bytes <= FREE;
        if each.saturating_add(more) > held.most_each && !is_free {
            return Err(Refusal::TooManyBytesOfYours);
        }
        if held.all.saturating_add(more) > held.most && !is_free {
            return Err(Refusal::TooManyBytes);
        }
        held.all += more;
        held.each.insert(Arc::clone(&self.principal), each + more);
        drop(held);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut held = lock(&self.budget.held);
        held.all = held.all.saturating_sub(self.bytes);
        let Some(each) = held.each.get_mut(&self.principal) else { return };
        *each = each.saturating_sub(self.bytes);
        if *each == 0 {
            held.each.remove(&self.principal);
        }
    }
}

/// A text that keeps its charge for as long as any part of it lives.
struct Charged {
    text: Bytes,
    _charge: Arc<Charge>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// The same text, with its charge.
pub(super) fn charged(text: Bytes, charge: &Arc<Charge>) -> Bytes {
    Bytes::from_owner(Charged { text, _charge: Arc::clone(charge) })
}

/// What a client that sends too much may send before its connection is cut.
const MOST_UNREAD: u64 = 256 << 20;

/// A body that grows beyond this needs a turn. What is smaller may be an answer or
/// a sign of life, which need none.
const SMALL: usize = 16 << 10;

/// The least room that is made for a body that comes in pieces.
const ROOM: usize = 1 << 10;

/// A body that has been read.
pub(super) struct ReadBody {
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
) -> Result<ReadBody, Refusal>
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
    let mut intake = BodyReader { answers, limit, whole, ..BodyReader::new(who, bodies) };
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
struct BodyReader<'a> {
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

impl<'a> BodyReader<'a> {
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

    fn finish(self) -> Result<ReadBody, Refusal> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        let charge = Arc::new(self.charge);
        let text = charged(self.text.into(), &charge);
        Ok(ReadBody { text, turns: self.turns, charge })
    }
}

/// The largest message that is kept. Honest ones have a few kilobytes.
const MOST_KEPT: usize = 256 << 10;

/// Parses what a client sent. Messages that are kept with the session are copied.
///
/// A greeting and a log level are repeated to servers that the client calls later. They
/// have a bound of their own, and are copied: the text of a request is charged to its
/// sender until the last part of it is dropped, which would be the end of the session.
pub(crate) fn parse_to_keep(text: Bytes) -> Result<Incoming, InvalidMessage> {
    Ok(match jsonrpc::parse(text)? {
        Incoming::One(message) => Incoming::One(keepable(message)?),
        Incoming::Batch(batch) => {
            let keepable = |one: Result<_, _>| one.and_then(keepable);
            Incoming::Batch(batch.into_iter().map(keepable).collect())
        }
    })
}

fn keepable(message: Message) -> Result<Message, InvalidMessage> {
    if !matches!(message.method(), method::INITIALIZE | method::SET_LEVEL) {
        return Ok(message);
    }
    if message.text().len() > MOST_KEPT {
        let why = Refusal::TooLarge { limit: MOST_KEPT };
        return Err(InvalidMessage { id: message.id().cloned(), why });
    }
    jsonrpc::parse_one(Bytes::copy_from_slice(message.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_its_share_and_all_have_the_whole_until_texts_are_dropped() {
        let budget = Arc::new(BodyBudget::new(100 * FREE, 60 * FREE));
        let [ada, bob] = ["ada", "bob"].map(Who::new);
        let mut first = budget.charge(&ada);
        first.grow_to(40 * FREE).unwrap();
        let mut second = budget.charge(&ada);
        assert_eq!(second.grow_to(21 * FREE), Err(Refusal::TooManyBytesOfYours));
        second.grow_to(20 * FREE).unwrap();
        let mut others = budget.charge(&bob);
        assert_eq!(others.grow_to(41 * FREE), Err(Refusal::TooManyBytes));
        others.grow_to(40 * FREE).unwrap();
        assert_eq!(budget.held(), 100 * FREE);
        let charge = Arc::new(first);
        let text = charged(Bytes::from_static(b"{\"some\": \"text\"}"), &charge);
        drop(charge);
        let part = text.slice(1..7);
        drop((text, second));
        assert_eq!(budget.held(), 80 * FREE, "a part keeps the whole");
        drop((part, others));
        assert_eq!(budget.held(), 0);
        assert!(lock(&budget.held).each.is_empty(), "nothing is kept of who holds nothing");
    }
}
