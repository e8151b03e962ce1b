//! Server half against client half, joined as a bridge joins them, over links
//! that cut, delay, split and repeat.
//!
//! Scripted clients and a scripted server play through every feature twice:
//! face to face with one of their own revision, and with the halves between
//! them. What each of them saw must be the same, in the same order within each
//! call and each stream, to the byte within an era and but for the words of one
//! hop across. Time is computed, chance is seeded; a failure names its seed.

use std::collections::BTreeSet;

use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::Carrier;
use switchboard_proto::revision::{Era, Revision};

use self::client::{Client, Sort};
use self::log::{Log, across, sort_rounds};
use self::server::Server;
use self::world::{Fault, Meeting, Outcome, World};

mod client;
mod link;
mod log;
mod server;
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

fn compare(client: Revision, server: Revision) {
    // Legacy peers agree by themselves: their revisions make no difference to us.
    let usual = if client != server && client.era() == server.era() { SEEDS / 2 } else { SEEDS };
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual);
    for meeting in meetings(client, server) {
        let direct = Direct::of(&meeting);
        for seed in 1..=seeds {
            let meeting = Meeting { seed, ..meeting.clone() };
            let seen = World::new(&meeting).play();
            direct.compare(&meeting, &seen);
        }
    }
}

/// Enough for every kind of cut on most streams; the variable of that name makes it more.
const SEEDS: u64 = 4;

/// Everything that may be different about a client and a server of these revisions.
fn meetings(client: Revision, server: Revision) -> Vec<Meeting> {
    let carriers = [Carrier::Pipe, Carrier::Http];
    let faults = [Fault::Nothing, Fault::Lost, Fault::Gone];
    let elicits = client.rules().elicitation && server.rules().elicitation;
    let mut all = Vec::new();
    for (near, far) in carriers.into_iter().flat_map(|near| carriers.map(|far| (near, far))) {
        for (sharing, fault) in
            [Sharing::Alone, Sharing::Shared].into_iter().flat_map(|it| faults.map(|f| (it, f)))
        {
            let shares = sharing == Sharing::Shared;
            // On a pipe a legacy server does not say which call its question is about.
            let serial = shares && far == Carrier::Pipe && server.era() == Era::Legacy;
            let names = if shares && !serial { &["ann", "bob"][..] } else { &["ann"] };
            let sort = |&name| Sort { name, revision: client, elicits, serial, shares };
            let clients = names.iter().map(sort).collect();
            all.push(Meeting { clients, server, near, far, sharing, fault, seed: 0 });
        }
    }
    all
}

/// What each of them sees without anything in between.
struct Direct {
    clients: Vec<Log>,
    server: Log,
}

impl Direct {
    fn of(meeting: &Meeting) -> Self {
        let clients = meeting.clients.iter().map(|&sort| face_to_face(sort).0);
        let mut server = Log::new();
        for &sort in &meeting.clients {
            server.extend(face_to_face(Sort { revision: meeting.server, ..sort }).1);
        }
        let direct = Self { clients: clients.collect(), server };
        let played = direct.clients.iter().all(|log| log.len() > 12) && direct.server.len() > 12;
        assert!(played, "the script is played: {:#?}", direct.clients);
        direct
    }

    fn compare(&self, meeting: &Meeting, seen: &Outcome) {
        let is_same = meeting.clients[0].revision == meeting.server;
        let plainly = |log: &Log| if is_same { log.clone() } else { across(log) };
        // On a pipe a record does not say which of two calls it is about.
        let is_unclear = meeting.clients.len() > 1 && meeting.far == Carrier::Pipe;
        let is_shared = meeting.clients.len() > 1;
        let is_far_lost = meeting.fault == Fault::Lost;
        assert!(seen.left.is_empty(), "{meeting:?}: left {:?}", seen.left);
        for (at, (log, direct)) in seen.clients.iter().zip(&self.clients).enumerate() {
            let is_gone = meeting.fault == Fault::Gone && at == 0;
            let (log, direct) = (plainly(log), plainly(direct));
            // Who was not even welcomed does nothing else.
            let is_out = is_gone || is_far_lost && lines(&log, "hello") != lines(&direct, "hello");
            let streams: BTreeSet<_> = log.keys().chain(direct.keys()).collect();
            for stream in streams {
                let (log, direct) = (lines(&log, stream), lines(&direct, stream));
                let may = is_out || is_far_lost && (seen.hit[at].contains(stream) || told(stream));
                let fits = log == direct || may && is_part(log, direct, stream);
                // While one listen takes over from another, rather both of them tell than none.
                let mut once = log.to_vec();
                once.dedup();
                let fits = fits || is_shared && stream.starts_with("updated") && once == direct;
                let fits = fits || stream == "log" && is_unclear && log == &direct[1..];
                assert!(fits, "{meeting:#?}, client {at}, {stream}: {log:#?} not {direct:#?}");
            }
        }
        // Where clients share a server, the tokens of their calls are ours.
        let is_same = is_same && meeting.sharing == Sharing::Alone;
        let plainly = |log: &Log| if is_same { log.clone() } else { across(log) };
        let (log, direct) = (plainly(&seen.server), plainly(&self.server));
        let streams: BTreeSet<_> = log.keys().chain(direct.keys()).collect();
        for stream in streams {
            let (log, direct) = (lines(&log, stream), lines(&direct, stream));
            let fits = match meeting.fault {
                // Each of our clients greets and watches for itself, or all at once.
                _ if is_setup(stream) => is_far_lost || log.is_empty() == direct.is_empty(),
                Fault::Nothing => log == direct,
                Fault::Lost | Fault::Gone => log == direct || is_part(log, direct, stream),
            };
            let fits = fits || meeting.fault == Fault::Gone && is_setup(stream);
            assert!(fits, "{meeting:#?}, server, {stream}: {log:#?} not {direct:#?}");
        }
    }
}

fn lines<'a>(log: &'a Log, stream: &str) -> &'a [String] {
    log.get(stream).map_or(&[], Vec::as_slice)
}

/// What is told to whoever listens, and is lost while nobody can.
fn told(stream: &str) -> bool {
    ["listen", "updated", "notifications/"].iter().any(|it| stream.starts_with(it))
}

/// What a server is asked once for many, or again for the same.
fn is_setup(stream: &str) -> bool {
    ["hello", "watch", "level", "ping", "notifications/"].iter().any(|it| stream.starts_with(it))
}

/// Whether it is the same up to some point, at which it ends or fails. Who is asked
/// by a server that is gone is told so; who was away, that lists may have changed.
fn is_part(log: &[String], direct: &[String], stream: &str) -> bool {
    let ends = |line: &String| line.starts_with("failed") || line.starts_with("cancelled");
    if stream == "notifications/cancelled" {
        return true;
    }
    let is_change = |line: &String| line.contains("list_changed");
    let is_own = |line: &&String| !(ends(line) || told(stream) && is_change(line));
    // Of a round of questions only some may have come, and on a pipe one of them
    // by another call, after the end of its own.
    let mut begun: Vec<_> = log.iter().filter(is_own).cloned().collect();
    sort_rounds(&mut begun);
    let mut direct = direct.iter();
    begun.iter().all(|line| direct.any(|theirs| theirs == line))
        && log.iter().filter(|line| ends(line)).count() <= 1
}

fn face_to_face(sort: Sort) -> (Log, Log) {
    let (mut client, mut server) = (Client::new(sort), Server::new(sort.revision));
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
    assert!(client.is_done(), "face to face nothing goes wrong");
    (client.seen(), server.seen())
}
