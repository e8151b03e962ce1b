//! Server half against client half, joined as a bridge joins them, over links
//! that cut, delay, split and repeat.
//!
//! A scripted client and a scripted server play through every feature twice:
//! face to face with one of their own revision, and with the halves between
//! them. What each of them saw must be the same, to the byte within an era and
//! but for the words of one hop across. Time is computed, chance is seeded; a
//! failure names its seed.

use switchboard_proto::exchange::Carrier;
use switchboard_proto::revision::{Era, Revision};

use self::actors::{Client, Log, Server, across};
use self::world::World;

mod actors;
mod world;

/// wire: LIF-1, LIF-2, HTTP-6, HTTP-7, HTTP-9, HTTP-18, UTL-1, UTL-2, UTL-7, GW-82
#[test]
fn legacy_peers_see_what_they_would_see_face_to_face() {
    for revision in of(Era::Legacy) {
        compare(revision, revision);
    }
}

/// wire: MOD-2, MH-6, MH-9, SUB-3, SUB-4, CAN-1, CAN-2, PRG-1, GW-80, GW-81
#[test]
fn modern_peers_see_what_they_would_see_face_to_face() {
    compare(Revision::NEWEST_MODERN, Revision::NEWEST_MODERN);
}

/// wire: GW-10, GW-11, GW-12, GW-14, GW-18, GW-19, GW-20, GW-21, GW-22, GW-26, GW-70
#[test]
fn a_legacy_client_meets_a_modern_server() {
    for client in of(Era::Legacy) {
        compare(client, Revision::NEWEST_MODERN);
    }
}

/// wire: GW-40, GW-41, GW-43, GW-44, GW-45, GW-47, GW-51, GW-52, GW-54, GW-55
#[test]
fn a_modern_client_meets_a_legacy_server() {
    for server in of(Era::Legacy) {
        compare(Revision::NEWEST_MODERN, server);
    }
}

/// Older and newer legacy peers agree on a revision by themselves.
///
/// wire: GW-1, LIF-1
#[test]
fn legacy_peers_of_different_revisions_meet() {
    for (client, server) in of(Era::Legacy).flat_map(|c| of(Era::Legacy).map(move |s| (c, s))) {
        if client != server {
            compare(client, server);
        }
    }
}

fn of(era: Era) -> impl Iterator<Item = Revision> + Clone {
    Revision::ALL.into_iter().filter(move |revision| revision.era() == era)
}

/// What each of the two saw, sorted: streams have no order among one another.
type Seen = (Log, Log);

fn compare(client: Revision, server: Revision) {
    let elicits = client.rules().elicitation && server.rules().elicitation;
    let direct = (face_to_face(client, elicits).0, face_to_face(server, elicits).1);
    assert!(direct.0.len() > 8 && direct.1.len() > 8, "the script is played: {direct:#?}");
    let carriers = [Carrier::Pipe, Carrier::Http];
    for (near, far) in carriers.into_iter().flat_map(|near| carriers.map(|far| (near, far))) {
        let seeds = if client == server { SEEDS } else { SEEDS / 4 };
        for seed in 1..=seeds {
            let seen = World::new((client, server), (near, far), elicits, seed).play();
            let place = format!("{client} over {near:?} to {server} over {far:?}, seed {seed}");
            let plainly = |log: &Log| if client == server { log.clone() } else { across(log) };
            for (who, seen, direct) in
                [("client", seen.0, &direct.0), ("server", seen.1, &direct.1)]
            {
                let (seen, direct) = (plainly(&seen), plainly(direct));
                if seen == direct {
                    continue;
                }
                let missing: Vec<_> = direct.iter().filter(|it| !seen.contains(it)).collect();
                let more: Vec<_> = seen.iter().filter(|it| !direct.contains(it)).collect();
                panic!("{place}, {who}: missing {missing:#?}, more {more:#?}");
            }
        }
    }
}

/// Enough for every kind of cut on every stream, in a few seconds in all.
const SEEDS: u64 = 20;

fn face_to_face(revision: Revision, elicits: bool) -> Seen {
    let (mut client, mut server) = (Client::new(revision, elicits), Server::new(revision));
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
