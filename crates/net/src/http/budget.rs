//! Bytes of request bodies that are held at one time: a budget for the whole
//! process, and a share of it for each principal.
//!
//! A body is charged as it arrives. The charge stays with the text of the message,
//! and with the work that the message leads to, until the last of them is dropped.
//! Sites that share a budget count together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use switchboard_proto::refusal::Refusal;

use crate::face::lock;
use crate::who::Who;

/// A body that is no larger is counted and never refused: it may cancel a call, or
/// answer a question. The connection that it comes by takes as much.
const FREE: usize = 1 << 10;

/// The bytes of requests that a process may hold.
#[derive(Debug)]
pub struct BodyBudget {
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
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
        let held = Held { most, most_each, all: 0, each: HashMap::new() };
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
