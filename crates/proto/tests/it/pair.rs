//! Server half against client half, joined as a bridge joins them, over links
//! that cut, delay, split and repeat.
//!
//! A scripted client and a scripted server of the same revision play through
//! every feature twice: face to face, and with the two halves between them.
//! What each of them saw must be the same. Time is computed, chance is seeded;
//! a failure names its seed.

use switchboard_proto::exchange::Carrier;
use switchboard_proto::revision::{Era, Revision};

use self::actors::{Client, Server};
use self::world::World;

mod actors;
mod world;

/// wire: LIF-1, LIF-2, HTTP-6, HTTP-7, HTTP-9, HTTP-18, UTL-1, UTL-2, UTL-7, GW-82
#[test]
fn legacy_peers_see_what_they_would_see_face_to_face() {
    let legacy = Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Legacy);
    for revision in legacy {
        compare(revision);
    }
}

/// wire: MOD-2, MH-6, MH-9, SUB-3, SUB-4, CAN-1, CAN-2, PRG-1, GW-80, GW-81
#[test]
fn modern_peers_see_what_they_would_see_face_to_face() {
    compare(Revision::NEWEST_MODERN);
}

/// What each of the two saw, sorted: streams have no order among one another.
type Seen = (Vec<String>, Vec<String>);

fn compare(revision: Revision) {
    let direct = face_to_face(revision);
    assert!(direct.0.len() > 8 && direct.1.len() > 8, "the script is played: {direct:#?}");
    let carriers = [Carrier::Pipe, Carrier::Http];
    for (near, far) in carriers.into_iter().flat_map(|near| carriers.map(|far| (near, far))) {
        for seed in 1..=SEEDS {
            let seen = World::new(revision, near, far, seed).play();
            assert_eq!(seen, direct, "{revision} over {near:?} to {far:?}, seed {seed}");
        }
    }
}

/// Enough for every kind of cut on every stream, in about a second in all.
const SEEDS: u64 = 40;

fn face_to_face(revision: Revision) -> Seen {
    let (mut client, mut server) = (Client::new(revision), Server::new(revision));
    let mut to_server = client.start();
    while !to_server.is_empty() {
        let mut answers = Vec::new();
        for message in to_server.drain(..) {
            answers.extend(server.handle(&message));
        }
        for (_, message) in answers {
            to_server.extend(client.handle(&message));
        }
    }
    (client.seen(), server.seen())
}
