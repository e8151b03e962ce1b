//! The claims of one replica, its lease, and whether it may serve now.
//!
//! | store | lease, by our own clock | sessions of ours |
//! |---|---|---|
//! | answers | lasts | served |
//! | answers | was over: we were frozen, or starved | each is served after one write as its owner |
//! | away | over, peers were heard all the time | served: nobody takes them while we answer pings |
//! | away | over, and so long nobody was heard | not served: another replica may have taken them |
//!
//! Nobody takes a claim while its owner has a lease, unless its process is gone. So an owner
//! whose lease never lapsed has every claim that it thinks it has, and asks nobody. One whose
//! lease has lapsed, or whose store has lost data, is in doubt: it writes to each claim
//! before it serves it again, and the store fences it if the claim is another's. A store that
//! has lost data may take the write of an old owner before the new one has written: so each
//! claim is written once more when all owners have had the time for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::command::{StoreCommand, StoreReply};
use super::{ClaimName, Epoch, ReplicaId};
use crate::Table;

/// How long owners have, besides a lease, to write their claims again into a store
/// that has lost them.
const TO_ASSERT: Duration = Duration::from_secs(1);

/// Whether a replica may serve a session that is in its memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServingState {
    /// It may.
    Now,
    /// It renews its lease and writes the claim first, with its record and its log, which the
    /// store may have lost. If the store is away, [`Holdings::may_go_on`] decides.
    AfterCheck,
}

/// What one replica owns, and knows of the others.
#[derive(Debug)]
pub struct Holdings {
    id: ReplicaId,
    lease: Duration,
    held: Table<ClaimName, HeldClaim>,
    members: BTreeMap<ReplicaId, Bytes>,
    /// When a renewal was sent that the store has answered. The lease counts from there.
    renewed: Option<Instant>,
    /// Claims count that were written to since then.
    doubted: Option<Instant>,
    /// When all owners have written what the store may have lost.
    settles: Option<Instant>,
    /// When the store or a peer was last heard, without a lease's silence before it.
    contact: Option<Instant>,
    age: Duration,
    given_up: VecDeque<ClaimName>,
    unasserted: BTreeSet<ClaimName>,
}

#[derive(Debug)]
struct HeldClaim {
    epoch: Epoch,
    /// When a write, or the take, was sent that the store has accepted. None if there was none.
    confirmed: Option<Instant>,
}

impl Holdings {
    /// A replica that owns nothing.
    pub fn new(id: ReplicaId, lease: Duration) -> Self {
        Self {
            id,
            lease,
            held: Table::default(),
            members: BTreeMap::new(),
            renewed: None,
            doubted: None,
            settles: None,
            contact: None,
            age: Duration::ZERO,
            given_up: VecDeque::new(),
            unasserted: BTreeSet::new(),
        }
    }

    /// Which replica this is.
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// It owns `name` as of `epoch`, by a write that was sent then. None if the store was
    /// away when the claim was made.
    pub fn hold(&mut self, name: ClaimName, epoch: Epoch, confirmed: Option<Instant>) {
        if confirmed.is_none() {
            self.unasserted.insert(name.clone());
        }
        self.held.insert(name, HeldClaim { epoch, confirmed });
    }

    /// It has ended `name`, or handed it over.
    pub fn let_go(&mut self, name: &str) -> Option<Epoch> {
        self.held.remove(name).map(|held| held.epoch)
    }

    /// Since which epoch it owns `name`.
    pub fn epoch(&self, name: &str) -> Option<Epoch> {
        self.held.get(name).map(|held| held.epoch)
    }

    /// How many claims it has.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The replicas with a lease when the store was last asked, with what they say.
    pub fn members(&self) -> &BTreeMap<ReplicaId, Bytes> {
        &self.members
    }

    /// Whether a claim that the store does not have is gone for certain: its owner
    /// would have written it again.
    pub fn is_settled(&self) -> bool {
        self.age > self.lease + TO_ASSERT
    }

    /// What it tells the store three times in a lease. `state` is what others read.
    pub fn renewal(&self, state: Bytes) -> StoreCommand {
        StoreCommand::Renew { replica: self.id, state, lease: self.lease }
    }

    /// The store has answered the renewal that was sent then.
    pub fn handle_renewed(&mut self, sent: Instant, reply: &StoreReply) {
        let StoreReply::Members { members, was_there, age, .. } = reply else { return };
        // One that begins has nothing to lose.
        let begins = self.renewed.is_none() && self.held.is_empty();
        let has_lapsed = !self.has_lease(sent);
        if !begins && (has_lapsed || !was_there || *age < self.age) {
            self.doubt(sent);
        } else if self.settles.is_some_and(|at| at <= sent) {
            self.doubt(sent);
            self.settles = None;
        }
        self.members = members.iter().cloned().collect();
        self.age = *age;
        self.renewed = self.renewed.max(Some(sent));
        self.contact = self.contact.max(Some(sent));
    }

    /// The connection to the store is another: what was last written may be lost.
    pub fn handle_reconnect(&mut self, now: Instant) {
        self.doubt(now);
    }

    fn doubt(&mut self, since: Instant) {
        self.doubted = self.doubted.max(Some(since));
        self.settles = Some(since + self.lease + TO_ASSERT);
        self.unasserted = self.held.keys().cloned().collect();
    }

    /// A peer has answered. After a silence that was long enough for another replica to take
    /// what is ours, only the store can tell.
    pub fn handle_peer(&mut self, now: Instant) {
        if self.is_in_contact(now) {
            self.contact = self.contact.max(Some(now));
        }
    }

    fn is_in_contact(&self, now: Instant) -> bool {
        self.contact.is_some_and(|at| now.saturating_duration_since(at) < self.lease)
    }

    /// The store has taken a write as of `epoch` that was sent then.
    pub fn handle_written(&mut self, name: &str, epoch: Epoch, sent: Instant) {
        if let Some(held) = self.held.get_mut(name).filter(|held| held.epoch == epoch) {
            held.confirmed = held.confirmed.max(Some(sent));
        }
    }

    /// A write to `name` as of `epoch` was refused: the claim is another's. Its lanes are to
    /// be closed and its children ended, if we still have it.
    pub fn handle_fenced(&mut self, name: &str, epoch: Epoch) {
        // It may have come back to us since.
        if self.epoch(name) == Some(epoch)
            && let Some((name, _)) = self.held.remove_entry(name)
        {
            self.given_up.push_back(name);
        }
    }

    /// What is another's now.
    pub fn poll_given_up(&mut self) -> Option<ClaimName> {
        self.given_up.pop_front()
    }

    /// A claim that is to be written again, with its record and its log.
    pub fn poll_unasserted(&mut self) -> Option<(ClaimName, Epoch)> {
        loop {
            let name = self.unasserted.pop_first()?;
            if let Some(epoch) = self.epoch(&name) {
                return Some((name, epoch));
            }
        }
    }

    /// The write failed, for the store is away: it is to be written later.
    pub fn handle_unwritten(&mut self, name: ClaimName) {
        if self.held.contains_key(&name) {
            self.unasserted.insert(name);
        }
    }

    fn has_lease(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now.saturating_duration_since(renewed) < self.lease)
    }

    /// Whether a session of ours may be served. None if it is not ours.
    pub fn serving(&self, name: &str, now: Instant) -> Option<ServingState> {
        let held = self.held.get(name)?;
        let is_sure = held.confirmed.is_some() && held.confirmed >= self.doubted;
        let is_now = is_sure && self.settles.is_none() && self.has_lease(now);
        Some(if is_now { ServingState::Now } else { ServingState::AfterCheck })
    }

    /// Whether sessions may be served although the store does not answer: nobody takes
    /// them from a replica that peers can reach.
    pub fn may_go_on(&self, now: Instant) -> bool {
        let has_peers = self.members.keys().any(|&id| id != self.id);
        !has_peers || self.is_in_contact(now)
    }
}
