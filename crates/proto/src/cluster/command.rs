//! What replicas ask of the store, and what it answers.
//!
//! Commands are data. [`ModelStore`](super::model::ModelStore) says what each does; a test
//! compares a real store with it. Every command may be sent again if its answer was lost.

use std::time::Duration;

use bytes::Bytes;

use super::{Claim, ClaimName, Epoch, ReplicaId};

/// One thing to do, whole or not at all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreCommand {
    /// Keeps the lease of a replica, with what it says about itself; answered with
    /// [`StoreReply::Members`].
    Renew {
        /// Whose lease it is.
        replica: ReplicaId,
        /// What others read of it.
        state: Bytes,
        /// How long the lease lasts from now.
        lease: Duration,
    },
    /// Ends the lease of a replica.
    Leave(ReplicaId),
    /// Reads a claim; answered with [`StoreReply::Claim`].
    Read(ClaimName),
    /// Takes a claim if it still is as expected and it is not too late; answered with
    /// [`StoreReply::Taken`], or with the claim as it is.
    Take {
        /// What is taken.
        name: ClaimName,
        /// What the taker has read.
        expected: Claim,
        /// Who takes it.
        by: ReplicaId,
        /// Until when, by the store's clock. What the taker knows of the owner is old then.
        not_after: Duration,
        /// How long the claim is kept without another write.
        keep: Duration,
    },
    /// Writes as the owner of a claim. An older epoch is [fenced](StoreReply::Fenced). A
    /// newer one is adopted, for the store may have lost data.
    Write {
        /// What is written to.
        name: ClaimName,
        /// Who writes.
        owner: ReplicaId,
        /// As of which epoch.
        epoch: Epoch,
        /// The new record; None leaves the one that is there.
        record: Option<Bytes>,
        /// What is added to the log. An entry that is there already is left out.
        entries: Vec<LogEntry>,
        /// How long the claim is kept without another write.
        keep: Duration,
    },
    /// Hands a claim over to whoever takes it.
    Release {
        /// What is handed over.
        name: ClaimName,
        /// By whom.
        owner: ReplicaId,
        /// As of which epoch.
        epoch: Epoch,
    },
    /// Deletes a claim with its record and log.
    Delete {
        /// What is over.
        name: ClaimName,
        /// Who says so.
        owner: ReplicaId,
        /// As of which epoch.
        epoch: Epoch,
    },
    /// Reads the log of a claim, oldest entry first; answered with [`StoreReply::Log`].
    ReadLog(ClaimName),
    /// Takes tokens from a bucket that all replicas share; answered with
    /// [`StoreReply::Granted`].
    Portion {
        /// Whose bucket it is.
        name: ClaimName,
        /// Tokens that come back in a minute.
        per_minute: u32,
        /// What the bucket holds.
        burst: u32,
        /// How many are wanted.
        want: u32,
        /// How many of an earlier portion were not used.
        back: u32,
    },
    /// Says how much of something a replica has open; answered with
    /// [`StoreReply::Granted`]: all of it, or what it had before.
    Hold {
        /// What is counted.
        name: ClaimName,
        /// Who has it open.
        replica: ReplicaId,
        /// How much.
        count: u32,
        /// What all replicas may have open together.
        most: u32,
        /// How long it counts without being said again.
        lease: Duration,
    },
}

/// An entry of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogEntry {
    /// Grows within a log.
    pub position: u64,
    /// Whether others are evicted before it.
    pub is_lasting: bool,
    /// What the owner wrote.
    pub payload: Bytes,
}

/// What the store says about a claim.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredClaim {
    /// Whose it is.
    pub claim: Claim,
    /// What its owner last wrote.
    pub record: Bytes,
}

/// What comes of a [`StoreCommand`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreReply {
    /// It is done.
    Done,
    /// Every replica with a lease, by id.
    Members {
        /// The replicas, with what they say about themselves.
        members: Vec<(ReplicaId, Bytes)>,
        /// Whether the lease was there before it was renewed. If it was not, although
        /// its time was not over, the store has lost data.
        was_there: bool,
        /// For how long the store has its data: a claim that is missing in a young store
        /// may have an owner that has not written it again yet.
        age: Duration,
        /// What the store's clock says.
        clock: Duration,
    },
    /// The claim, if there is one.
    Claim(Option<StoredClaim>),
    /// The claim is the taker's, as of this epoch.
    Taken(StoredClaim),
    /// The claim has another owner, or a newer epoch: nothing was written.
    Fenced(Claim),
    /// The entries of a log.
    Log(Vec<LogEntry>),
    /// How many it got.
    Granted(u32),
}
