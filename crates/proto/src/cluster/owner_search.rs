//! The way of one request to the owner of its session.
//!
//! ```text
//!   hint ──▶ Forward ──answered──▶ done
//!              │ refused, another process, not the owner
//!              ▼
//!           ReadClaim ──▶ Forward (its owner lives) ──▶ Ping (its lease is over) ──▶ Take
//! ```
//!
//! A request that may have reached an owner is never sent again: its outcome is not known.
//! A session is gone only if a settled store has no claim. In every other case of doubt
//! the client is asked to come back.

use std::time::Duration;

use super::{Claim, Epoch, ReplicaId};

/// How long after its claim was read an owner may be taken for dead. An owner that has come
/// back meanwhile still writes to each claim before it serves it.
const TO_TAKE: Duration = Duration::from_secs(1);

/// Hops that one request may make.
const MOST_HOPS: u32 = 3;

/// Claims that one request may read.
const MOST_READS: u32 = 4;

/// What to do next for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SearchStep {
    /// Send the request to this replica.
    Forward(ReplicaId),
    /// Read the claim, and who has a lease.
    ReadClaim,
    /// Ask the owner whether it is there: its lease is over.
    Ping(ReplicaId),
    /// Take the claim, which must be as it was read, until this time of the store.
    Take(Claim, Duration),
    /// It is over.
    End(SearchEnd),
}

/// How a search ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SearchEnd {
    /// The claim was taken as of this epoch: restore the session, and serve the request.
    Taken(Epoch),
    /// The owner has answered.
    Answered,
    /// There is no such session any more.
    Gone,
    /// It cannot be told where the session is. The request reached nobody.
    Unavailable,
    /// The owner may have had the request, and is gone.
    OutcomeUnknown,
}

/// How a hop went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HopResult {
    /// The owner answers.
    Answered,
    /// Nothing was sent: the address refuses connections, or another process is there.
    Dead,
    /// Nothing was sent: the address is not known, or does not answer.
    Unreachable,
    /// The replica is there, and does not own the session.
    NotOwner,
    /// The request may have been received.
    Broken,
}

/// Looks for the owner of one request's session.
#[derive(Debug)]
pub struct OwnerSearch {
    me: ReplicaId,
    /// A replica that is dead for certain.
    dead: Option<ReplicaId>,
    /// A replica that answered a ping, or is known to live.
    alive: Option<ReplicaId>,
    asked: Option<ReplicaId>,
    claim: Option<Claim>,
    /// Until when the claim may be taken.
    not_after: Duration,
    /// A claim whose owner says that it does not have the session.
    disclaimed: Option<Claim>,
    hops: u32,
    reads: u32,
}

impl OwnerSearch {
    /// A search by a replica that does not have the session, and its first step.
    pub fn new(me: ReplicaId, hint: Option<ReplicaId>) -> (Self, SearchStep) {
        let (dead, alive, asked) = (None, None, None);
        let (claim, disclaimed) = (None, None);
        let not_after = Duration::ZERO;
        let mut search =
            Self { me, dead, alive, asked, claim, not_after, disclaimed, hops: 0, reads: 0 };
        let step = match hint.filter(|&owner| owner != me) {
            Some(owner) => search.forward(owner),
            None => search.read(),
        };
        (search, step)
    }

    /// The hop that was to be made is over.
    pub fn handle_hop(&mut self, result: HopResult) -> SearchStep {
        match result {
            HopResult::Answered => SearchStep::End(SearchEnd::Answered),
            HopResult::Broken => SearchStep::End(SearchEnd::OutcomeUnknown),
            HopResult::Dead => {
                self.dead = self.asked;
                self.read()
            }
            HopResult::Unreachable => self.read(),
            HopResult::NotOwner => {
                self.disclaimed = self.claim;
                self.read()
            }
        }
    }

    /// The store has answered, at this time of its clock. `has_lease` is about the owner of
    /// the claim, `is_settled` about the store.
    pub fn handle_claim(
        &mut self,
        claim: Option<Claim>,
        has_lease: bool,
        (is_settled, clock): (bool, Duration),
    ) -> SearchStep {
        let Some(claim) = claim else {
            let end = if is_settled { SearchEnd::Gone } else { SearchEnd::Unavailable };
            return SearchStep::End(end);
        };
        self.claim = Some(claim);
        self.not_after = clock + TO_TAKE;
        let take = SearchStep::Take(claim, self.not_after);
        match claim.owner {
            None => take,
            // Its take was answered by a store that nobody heard.
            _ if self.disclaimed == Some(claim) => take,
            Some(owner) if owner == self.me || Some(owner) == self.dead => take,
            Some(owner) if has_lease || Some(owner) == self.alive => self.forward(owner),
            Some(owner) => SearchStep::Ping(owner),
        }
    }

    /// The owner whose lease is over was asked.
    pub fn handle_ping(&mut self, is_answered: bool) -> SearchStep {
        match self.claim {
            Some(Claim { owner: Some(owner), .. }) if is_answered => {
                self.alive = Some(owner);
                self.forward(owner)
            }
            Some(claim) => SearchStep::Take(claim, self.not_after),
            None => self.read(),
        }
    }

    /// The claim was taken.
    pub fn handle_taken(&mut self, epoch: Epoch) -> SearchStep {
        SearchStep::End(SearchEnd::Taken(epoch))
    }

    /// Another replica has taken it, or it was too late.
    pub fn handle_not_taken(&mut self) -> SearchStep {
        self.read()
    }

    /// The store does not answer.
    pub fn handle_store_away(&mut self) -> SearchStep {
        SearchStep::End(SearchEnd::Unavailable)
    }

    fn forward(&mut self, owner: ReplicaId) -> SearchStep {
        self.hops += 1;
        if self.hops > MOST_HOPS {
            return SearchStep::End(SearchEnd::Unavailable);
        }
        self.asked = Some(owner);
        SearchStep::Forward(owner)
    }

    fn read(&mut self) -> SearchStep {
        self.reads += 1;
        if self.reads > MOST_READS {
            return SearchStep::End(SearchEnd::Unavailable);
        }
        SearchStep::ReadClaim
    }
}
