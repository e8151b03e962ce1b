//! Replicas in virtual time: killed, frozen, cut off, with a store that is away, loses its
//! data, or falls back to what it had a moment ago. Chance is seeded; a failure names its seed.
//!
//! What is promised (numbers of the design of the cluster): the store takes the writes of one
//! owner in an epoch. No call is executed twice. No request waits longer than
//! the lease and a second. A stream that was shown ends with one answer. A session
//! that may come back is never said to be gone. After the last fault everything works.

use world::{Mutation, World};

mod world;

fn play(seed: u64, mutation: Mutation) -> Result<(), String> {
    World::new(seed, mutation).play()
}

/// `CLUSTER_SEEDS=1000000` plays more.
#[test]
fn replicas_keep_their_promises_whatever_breaks() {
    let seeds = std::env::var("CLUSTER_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds: u64 = seeds.unwrap_or(10_000);
    let threads = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (thread..seeds).step_by(2) {
                    if let Err(broken) = play(seed, Mutation::None) {
                        panic!("seed {seed}: {broken}");
                    }
                }
            });
        }
    });
}

/// Each guard is needed: without it a promise is broken, and the simulation sees it.
#[test]
fn a_missing_guard_breaks_a_promise() {
    let guards = [
        Mutation::NoFence,
        Mutation::TakeAnything,
        Mutation::ShowBeforeBegin,
        Mutation::AnswerBeforeWrite,
        Mutation::SendAgain,
        Mutation::GoneInDoubt,
        Mutation::NoDoubt,
    ];
    for guard in guards {
        let found = (0..20_000).find(|&seed| play(seed, guard).is_err());
        assert!(found.is_some(), "{guard:?} is not seen");
    }
}
