//! Ids for traces and spans: unlike all others, and no secret.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes ids, each another, from a beginning that nobody else has.
#[derive(Debug)]
pub(crate) struct Ids {
    next: AtomicU64,
}

/// The step of splitmix64: each number comes once before any comes again.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Ids {
    pub(crate) fn new() -> Self {
        let chance = RandomState::new().hash_one(std::process::id());
        Self { next: AtomicU64::new(chance) }
    }

    /// A number that is never zero.
    pub(crate) fn span(&self) -> u64 {
        let mixed = mix(self.next.fetch_add(STEP, Ordering::Relaxed));
        mixed.max(1)
    }

    pub(crate) fn trace(&self) -> u128 {
        u128::from(self.span()) << 64 | u128::from(self.span())
    }
}

/// Splitmix64's way to spread what is near over all numbers.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_within_a_run_and_between_runs() {
        let (one, other) = (Ids::new(), Ids::new());
        let ids: HashSet<_> = (0..1000).flat_map(|_| [one.span(), other.span()]).collect();
        assert_eq!(ids.len(), 2000);
        assert_ne!(one.trace(), other.trace());
    }
}
