//! Several replicas as one gateway: who owns a session, and what outlives its owner.
//!
//! A *replica* is one process. The *owner* of a session is the replica whose memory it is in.
//! The *store* is a database that all replicas reach; it keeps what was promised to clients.
//!
//! ```text
//!   request ──▶ OwnerSearch ──▶ forward to the owner, take the claim, or 503
//!   Holdings     the claims of this replica, and whether it may serve them now
//!   StreamLog    what a client may come back for, written before it is shown
//!   Portions     a replica's part of a limit that all replicas share
//!   ModelStore   what the store does with each StoreCommand, as a machine
//! ```
//!
//! A claim has an *epoch*. Each take adds one, and the store refuses writes of an older epoch.
//! So an owner that was frozen, cut off or replaced can say nothing that anybody keeps.
//!
//! Nothing here reads a clock, sends anything or makes a random number.

use std::fmt;
use std::sync::Arc;

pub mod command;
pub mod holdings;
pub mod model;
pub mod owner_search;
pub mod portions;
pub mod stream_log;

/// Names one run of a process: a restarted replica has another id.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ReplicaId(pub u32);

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl ReplicaId {
    /// Takes nothing but what `Display` prints.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = text.len() == 8 && text.bytes().all(is_plain);
        is_id.then(|| u32::from_str_radix(text, 16).ok().map(Self)).flatten()
    }

    /// The owner that a session id names, which was the first one. Only characters that
    /// gateways in front of us accept are in such an id.
    pub fn hint(session: &str) -> Option<Self> {
        let (owner, rest) = session.split_once('-')?;
        Self::parse(owner).filter(|_| rest.len() == SESSION_DIGITS)
    }

    /// A session id that begins with its first owner.
    pub fn session_id(self, unguessable: u128) -> String {
        format!("{self}-{unguessable:032x}")
    }
}

/// Hexadecimal digits of a session id, behind its hint.
const SESSION_DIGITS: usize = 32;

/// How often a claim has changed hands. The first owner has epoch 1.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of whoever makes a claim.
    pub const FIRST: Self = Self(1);

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The number of the first event of this epoch: no number means two events.
    pub fn first_position(self) -> u64 {
        self.0 << 40
    }
}

/// Who owns something, and since which epoch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Claim {
    /// None if its owner has handed it over: the next replica that needs it takes it.
    pub owner: Option<ReplicaId>,
    /// How often it has changed hands.
    pub epoch: Epoch,
}

/// What a claim is about: a session or a server.
pub type ClaimName = Arc<str>;

#[cfg(test)]
mod tests;
