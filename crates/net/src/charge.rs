//! How many bytes of clients' messages are held, and who holds them.
//!
//! [`BodyBudget`] bounds the bytes that are held at one time: for the
//! whole process, with a share of it for each principal. A message is charged as it arrives.
//! The charge stays with the text of the message, and with the work that the message
//! leads to, until the last of them is dropped. Sites that share a budget count together.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use switchboard_proto::Table;
use switchboard_proto::jsonrpc::{self, Incoming, InvalidMessage, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;

use crate::connection::lock;
use crate::who::Who;

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
    each: Table<Arc<str>, usize>,
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
        let held = HeldBytes { most, most_each, all: 0, each: Table::default() };
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
    pub(crate) fn charge(self: &Arc<Self>, who: &Who) -> Charge {
        Charge { budget: Arc::clone(self), principal: Arc::clone(&who.name), bytes: 0 }
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
    /// A charge of nothing yet to the same principal.
    pub(crate) fn fresh(&self) -> Self {
        let (budget, principal) = (Arc::clone(&self.budget), Arc::clone(&self.principal));
        Self { budget, principal, bytes: 0 }
    }

    /// Charges up to `bytes` in all.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Refusal> {
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
pub(crate) fn charged(text: Bytes, charge: &Arc<Charge>) -> Bytes {
    Bytes::from_owner(Charged { text, _charge: Arc::clone(charge) })
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
