//! What a store does, as a machine: the measure of real ones, and a store for tests.
//!
//! ```text
//!   write of epoch   missing  older in store  same, same owner  same, other owner  newer in store
//!                    adopted  adopted         written           fenced             fenced
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::command::{LogEntry, StoreCommand, StoreReply, StoredClaim};
use super::{Claim, ClaimName, Epoch, ReplicaId};

/// Entries that one log keeps, as a session in memory does.
pub const MOST_ENTRIES: usize = 4096;

/// Bytes that one log keeps.
pub const MOST_LOG_BYTES: usize = 4 * 1024 * 1024;

/// Units of a token in a bucket.
pub(super) const UNITS: u64 = 60_000;

/// All that a store has, in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelStore {
    born: Option<Instant>,
    members: BTreeMap<ReplicaId, (Bytes, Instant)>,
    claims: BTreeMap<ClaimName, KeptClaim>,
    buckets: BTreeMap<ClaimName, Bucket>,
    holds: BTreeMap<ClaimName, BTreeMap<ReplicaId, (u32, Instant)>>,
}

#[derive(Clone, Debug)]
struct KeptClaim {
    claim: Claim,
    record: Bytes,
    log: Log,
    until: Instant,
}

#[derive(Clone, Debug, Default)]
struct Log {
    /// Evicted first, oldest first.
    passing: BTreeMap<u64, LogEntry>,
    lasting: BTreeMap<u64, LogEntry>,
    bytes: usize,
}

/// A token is 60,000 units: a unit comes back each millisecond for each token of a minute.
#[derive(Clone, Debug)]
struct Bucket {
    units: u64,
    at: Instant,
}

impl ModelStore {
    /// Does one thing at this time of the store.
    pub fn execute(&mut self, now: Instant, command: &StoreCommand) -> StoreReply {
        match command {
            StoreCommand::Renew { replica, state, lease } => {
                self.renew(now, *replica, state, *lease)
            }
            StoreCommand::Leave(replica) => {
                self.members.remove(replica);
                StoreReply::Done
            }
            StoreCommand::Read(name) => StoreReply::Claim(self.read(now, name)),
            StoreCommand::Take { name, expected, by, not_after, keep } => {
                self.take(now, name, *expected, (*by, *not_after, *keep))
            }
            StoreCommand::Write { name, owner, epoch, record, entries, keep } => {
                self.write(now, name, (*owner, *epoch), (record.as_ref(), entries, *keep))
            }
            StoreCommand::Release { name, owner, epoch } => {
                self.change(now, name, (*owner, *epoch), |kept| {
                    kept.claim = Claim { owner: None, epoch: epoch.next() };
                    true
                })
            }
            StoreCommand::Delete { name, owner, epoch } => {
                self.change(now, name, (*owner, *epoch), |_| false)
            }
            StoreCommand::ReadLog(name) => StoreReply::Log(self.read_log(now, name)),
            StoreCommand::Portion { name, per_minute, burst, want, back } => {
                let bucket = self.buckets.entry(name.clone());
                let full = u64::from(*burst) * UNITS;
                let bucket = bucket.or_insert(Bucket { units: full, at: now });
                StoreReply::Granted(bucket.grant(now, (*per_minute, *burst), *want, *back))
            }
            StoreCommand::Hold { name, replica, count, most, lease } => {
                self.hold(now, name, *replica, (*count, *most, *lease))
            }
        }
    }

    /// How many claims there are, over or not.
    pub fn claims(&self) -> usize {
        self.claims.len()
    }

    fn renew(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        state: &Bytes,
        lease: Duration,
    ) -> StoreReply {
        self.born.get_or_insert(now);
        let age = self.age(now);
        self.members.retain(|_, (_, until)| *until > now);
        let was_there = self.members.insert(replica, (state.clone(), now + lease)).is_some();
        let members = self.members.iter().map(|(&id, (state, _))| (id, state.clone())).collect();
        StoreReply::Members { members, was_there, age, clock: age }
    }

    fn age(&self, now: Instant) -> Duration {
        self.born.map(|born| now.saturating_duration_since(born)).unwrap_or_default()
    }

    fn live(&mut self, now: Instant, name: &str) -> Option<&mut KeptClaim> {
        if self.claims.get(name).is_some_and(|kept| kept.until <= now) {
            self.claims.remove(name);
        }
        self.claims.get_mut(name)
    }

    fn read(&mut self, now: Instant, name: &str) -> Option<StoredClaim> {
        let kept = self.live(now, name)?;
        Some(StoredClaim { claim: kept.claim, record: kept.record.clone() })
    }

    fn take(
        &mut self,
        now: Instant,
        name: &str,
        expected: Claim,
        (by, not_after, keep): (ReplicaId, Duration, Duration),
    ) -> StoreReply {
        let taken = Claim { owner: Some(by), epoch: expected.epoch.next() };
        let in_time = self.age(now) <= not_after;
        let Some(kept) = self.live(now, name) else { return StoreReply::Claim(None) };
        // Said again, because the answer was lost.
        let is_again = kept.claim == taken;
        if kept.claim == expected && in_time || is_again {
            kept.claim = taken;
            kept.until = now + keep;
            return StoreReply::Taken(StoredClaim { claim: taken, record: kept.record.clone() });
        }
        StoreReply::Claim(self.read(now, name))
    }

    fn write(
        &mut self,
        now: Instant,
        name: &ClaimName,
        (owner, epoch): (ReplicaId, Epoch),
        (record, entries, keep): (Option<&Bytes>, &[LogEntry], Duration),
    ) -> StoreReply {
        let ours = Claim { owner: Some(owner), epoch };
        let until = now + keep;
        self.live(now, name);
        let kept = self.claims.entry(name.clone()).or_insert_with(|| KeptClaim {
            claim: ours,
            record: Bytes::new(),
            log: Log::default(),
            until,
        });
        if kept.claim.epoch > epoch || kept.claim.epoch == epoch && kept.claim != ours {
            return StoreReply::Fenced(kept.claim);
        }
        (kept.claim, kept.until) = (ours, until);
        if let Some(record) = record {
            kept.record.clone_from(record);
        }
        for entry in entries {
            kept.log.push(entry);
        }
        StoreReply::Done
    }

    /// Lets the owner change its claim, or end it.
    fn change(
        &mut self,
        now: Instant,
        name: &str,
        (owner, epoch): (ReplicaId, Epoch),
        stays: impl FnOnce(&mut KeptClaim) -> bool,
    ) -> StoreReply {
        let Some(kept) = self.live(now, name) else { return StoreReply::Done };
        if kept.claim.epoch > epoch || kept.claim.epoch == epoch && kept.claim.owner != Some(owner)
        {
            return StoreReply::Fenced(kept.claim);
        }
        if !stays(kept) {
            self.claims.remove(name);
        }
        StoreReply::Done
    }

    fn read_log(&mut self, now: Instant, name: &str) -> Vec<LogEntry> {
        let Some(kept) = self.live(now, name) else { return Vec::new() };
        let log = kept.log.passing.values().chain(kept.log.lasting.values());
        let mut log: Vec<_> = log.cloned().collect();
        log.sort_by_key(|entry| entry.position);
        log
    }

    fn hold(
        &mut self,
        now: Instant,
        name: &ClaimName,
        replica: ReplicaId,
        (count, most, lease): (u32, u32, Duration),
    ) -> StoreReply {
        let holds = self.holds.entry(name.clone()).or_default();
        holds.retain(|_, (_, until)| *until > now);
        let before = holds.get(&replica).map_or(0, |(count, _)| *count);
        let others: u32 = holds.values().map(|(count, _)| count).sum::<u32>() - before;
        // Less than before is never refused.
        let granted = if count <= before || others + count <= most { count } else { before };
        if granted == 0 {
            holds.remove(&replica);
        } else {
            holds.insert(replica, (granted, now + lease));
        }
        if holds.is_empty() {
            self.holds.remove(name);
        }
        StoreReply::Granted(granted)
    }
}

impl Log {
    /// Adds an entry, unless it is there. A store that has lost data gets older ones later.
    fn push(&mut self, entry: &LogEntry) {
        let queue = if entry.is_lasting { &mut self.lasting } else { &mut self.passing };
        if queue.contains_key(&entry.position) {
            return;
        }
        queue.insert(entry.position, entry.clone());
        self.bytes += entry.payload.len();
        while self.passing.len() + self.lasting.len() > MOST_ENTRIES || self.bytes > MOST_LOG_BYTES
        {
            let oldest = self.passing.pop_first().or_else(|| self.lasting.pop_first());
            self.bytes -= oldest.map_or(self.bytes, |(_, entry)| entry.payload.len());
        }
    }
}

impl Bucket {
    fn grant(
        &mut self,
        now: Instant,
        (per_minute, burst): (u32, u32),
        want: u32,
        back: u32,
    ) -> u32 {
        let since = now.saturating_duration_since(self.at).as_millis();
        let earned = u64::try_from(since).unwrap_or(u64::MAX).saturating_mul(per_minute.into());
        let units = self.units.saturating_add(earned).saturating_add(u64::from(back) * UNITS);
        (self.units, self.at) = (units.min(u64::from(burst) * UNITS), now);
        let granted = u32::try_from(self.units / UNITS).unwrap_or(u32::MAX).min(want);
        self.units -= u64::from(granted) * UNITS;
        granted
    }
}
