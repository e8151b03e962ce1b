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

use self::client::{AFTERWARDS, Client, Sort};
use self::log::{Log, across, sort_rounds};
use self::server::Server;
use self::world::{Fault, Meeting, PairResult, World};

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
            let sort = |&name| Sort { name, revision: client, elicits, shares };
            let names = if shares { &["ann", "bob"][..] } else { &["ann"] };
            let clients = names.iter().map(sort).collect();
            let meeting = Meeting { clients, server, near, far, sharing, fault, seed: 0 };
            if meeting.hides_whose() {
                // Whoever is alone there is asked all the same.
                all.push(Meeting { clients: vec![sort(&"ann")], ..meeting.clone() });
            }
            // Such a server may ask once more about calls of a client that is gone.
            if !(meeting.hides_whose() && fault == Fault::Gone) {
                all.push(meeting);
            }
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
            for (stream, lines) in face_to_face(Sort { revision: meeting.server, ..sort }).1 {
                server.entry(stream).or_default().extend(lines);
            }
        }
        let direct = Self { clients: clients.collect(), server };
        let played = direct.clients.iter().all(|log| log.len() > 12) && direct.server.len() > 12;
        assert!(played, "the script is played: {:#?}", direct.clients);
        direct
    }

    fn compare(&self, meeting: &Meeting, seen: &PairResult) {
        assert!(seen.left.is_empty(), "{meeting:?}: left {:?}", seen.left);
        let is_same = meeting.clients[0].revision == meeting.server;
        let plainly = |log: &Log| if is_same { log.clone() } else { across(log) };
        let mut out = Vec::new();
        for (at, (log, direct)) in seen.clients.iter().zip(&self.clients).enumerate() {
            let (log, direct) = (plainly(log), plainly(direct));
            // Who was not even welcomed does nothing else.
            out.push(lines(&log, "hello") != lines(&direct, "hello"));
            let of = Of { meeting, hit: &seen.hit[at], is_out: out[at], log: &log };
            for stream in log.keys().chain(direct.keys()).collect::<BTreeSet<_>>() {
                let (log, direct) = (lines(&log, stream), lines(&direct, stream));
                let is_gone = meeting.fault == Fault::Gone && at == 0;
                let fits = log == direct
                    || of.fits(stream, log, direct)
                    || is_gone && is_part(log, direct, stream);
                assert!(fits, "{meeting:#?}, client {at}, {stream}: {log:#?} not {direct:#?}");
            }
        }
        // Where clients share a server, the tokens of their calls are ours.
        let is_same = is_same && meeting.sharing == Sharing::Alone;
        let plainly = |log: &Log| if is_same { log.clone() } else { across(log) };
        let (log, direct) = (plainly(&seen.server), plainly(&self.server));
        for stream in log.keys().chain(direct.keys()).collect::<BTreeSet<_>>() {
            let (log, direct) = (lines(&log, stream), lines(&direct, stream));
            let may = meeting.clients.iter().enumerate().any(|(at, sort)| {
                let call = stream.strip_prefix(sort.name).and_then(|it| it.strip_prefix('/'));
                let is_theirs = call.is_some() || stream.ends_with(&format!("/{}", sort.name));
                let is_hit = call.is_none_or(|call| seen.hit[at].contains(client_stream(call)));
                match meeting.fault {
                    Fault::Nothing => false,
                    // Who has given up waits for nothing, and the word of it may be lost.
                    Fault::Lost => is_theirs && (is_hit || out[at] || call == Some("slow")),
                    Fault::Gone => is_theirs && at == 0,
                }
            });
            let fits = log == direct
                || stream.starts_with("watch") && meeting.is_to_modern() && settled(log) == direct
                || is_setup(stream) && is_set_up(meeting, log, direct)
                || may && (stream.starts_with("watch") || is_part(log, direct, stream));
            assert!(fits, "{meeting:#?}, server, {stream}: {log:#?} not {direct:#?}");
        }
    }
}

/// What happened to a client whose streams are looked at.
struct Of<'a> {
    meeting: &'a Meeting,
    hit: &'a BTreeSet<String>,
    is_out: bool,
    log: &'a Log,
}

impl Of<'_> {
    /// Whether a stream that is not as it would be face to face may be as it is.
    fn fits(&self, stream: &str, log: &[String], direct: &[String]) -> bool {
        let Meeting { far, fault, .. } = *self.meeting;
        let is_shared = self.meeting.clients.len() > 1;
        // While one listen takes over from another, rather both of them tell than none.
        let mut once = log.to_vec();
        once.dedup();
        if is_shared && stream.starts_with("updated") && once == direct {
            return true;
        }
        // What the old listen still tells by its own stream may be overtaken by that.
        let takes_over = is_shared && self.meeting.is_to_modern() && far == Carrier::Http;
        if takes_over && stream.starts_with("updated") && is_told_at_last(&once, direct, stream) {
            return true;
        }
        // On a pipe a record does not say which of two calls it is about.
        if stream == "log" && is_shared && far == Carrier::Pipe && log == &direct[1..] {
            return true;
        }
        // Nor does a question, and what might be another's is refused.
        if self.meeting.hides_whose() && is_shared && is_partly_asked(log, direct) {
            return true;
        }
        // A client that is away, asked for another of its calls, hears nothing of this one.
        let is_away = self.meeting.is_to_legacy() && far == Carrier::Pipe;
        if is_away && stream.starts_with("progress of") && is_part(log, direct, stream) {
            return true;
        }
        if fault != Fault::Lost || self.is_out && log.is_empty() {
            return fault == Fault::Lost;
        }
        let has_failed = |stream: &str| lines(self.log, stream).last().is_some_and(|it| ends(it));
        if let Some(call) = stream.strip_prefix("progress of ") {
            return has_failed(call) && is_part(log, direct, stream);
        }
        if let Some(uri) = stream.strip_prefix("updated ") {
            let watch = format!("watch {}", uri.split_once('/').map_or(uri, |it| it.0));
            return has_failed(&watch) || is_told_at_last(&once, direct, stream);
        }
        if has_failed(stream) {
            return self.hit.contains(stream) && is_part(log, direct, stream);
        }
        match stream {
            "unwatch x:1" => log.is_empty(),
            _ if stream.starts_with("listen") => is_told_at_last(log, direct, stream),
            _ if told(stream) => is_part(log, direct, stream),
            _ => false,
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
    ["hello", "level", "ping", "notifications/"].iter().any(|it| stream.starts_with(it))
}

/// Each of our clients does it for itself, or all at once; at a server that was lost it
/// is done again.
fn is_set_up(meeting: &Meeting, log: &[String], direct: &[String]) -> bool {
    let times = if meeting.fault == Fault::Lost { 2 } else { 1 };
    let is_due = meeting.fault == Fault::Nothing && !direct.is_empty();
    let known = log.iter().all(|line| direct.contains(line));
    known && log.len() <= direct.len() * times && !(is_due && log.is_empty())
}

/// Without what was not even acknowledged before more was wanted.
fn settled(log: &[String]) -> Vec<String> {
    let mut settled = log.to_vec();
    while let Some(at) = settled.windows(2).position(|it| it == ["unwatched {}", "watched {}"]) {
        settled.drain(at..at + 2);
    }
    settled
}

/// What a client calls what its server writes down under `call`.
fn client_stream(call: &str) -> &str {
    match call {
        "list None" => "list",
        call if call.starts_with("list ") => "list more",
        call => call,
    }
}

/// Whether a line says that there is no more, and why.
fn ends(line: &str) -> bool {
    line.starts_with("failed") || line.starts_with("cancelled")
}

/// Whether it is the same up to some point, at which it ends or fails. Who is asked
/// by a server that is gone is told so; who was away, that lists may have changed.
fn is_part(log: &[String], direct: &[String], stream: &str) -> bool {
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

/// Whether who listens on was told of what happened when all was quiet again,
/// whatever it missed before. Who hears of one change alone hears of a later one.
fn is_told_at_last(log: &[String], direct: &[String], stream: &str) -> bool {
    let later = |line: &String| line.replace("touch x:1 again", "touch x:1");
    let log: Vec<_> = log.iter().map(later).collect();
    let is_change = |line: &&String| !line.contains("list_changed");
    log.iter().rfind(is_change) == direct.iter().rfind(is_change) && is_part(&log, direct, stream)
}

/// Whether only questions are missing, and what was answered to them.
fn is_partly_asked(log: &[String], direct: &[String]) -> bool {
    let is_asked = |line: &&String| line.starts_with("asked");
    let mut all = direct.iter().filter(is_asked);
    let ends = |lines: &[String]| lines.last().is_some_and(|line| line.starts_with("= "));
    direct.iter().any(|line| is_asked(&line))
        && log.iter().filter(is_asked).all(|line| all.any(|theirs| theirs == line))
        && log.iter().filter(|line| !is_asked(line)).count() == 1
        && ends(log)
}

fn face_to_face(sort: Sort) -> (Log, Log) {
    let (mut client, mut server) = (Client::new(sort), Server::new(sort.revision));
    let mut to_server = client.start();
    for step in 0..=AFTERWARDS {
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
        if step < AFTERWARDS {
            to_server = client.afterwards(step);
        }
    }
    (client.seen(), server.seen())
}
