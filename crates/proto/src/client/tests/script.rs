//! Transcripts of a layer between the eras: what happened, and what must come of it.
//!
//! ```text
//!   open a1: 7 tools/call {…}    a client opens a call; its letter is its owner
//!   again a1: 8 tools/call {…}   it is back with input for it
//!   note: …   drop a1   supply 1: …   refuse 1   gone a   wait 5   lost   hears   deaf
//!   recv 2: …                    the server says something, by the lane of call 2
//!   unanswered 2                 that lane ended without an answer
//!   look                         says how many calls are open, and whether the link is needed
//! ```
//!
//! What comes of it is `send LANE: …`, `abort LANE`, and for whom it is: `a1: note …`,
//! `a1: ask 1 …`, `a1: recall 1`, `a1: finish …`, `all: note …`. `@` stands for an
//! envelope that was put on; progress tokens of ours are `T1`, `T2`, ….

use std::time::{Duration, Instant};

use crate::client::{ClientHalf, Ticket, Transmit};
use crate::exchange::{Ask, Lane, ServerEvent, To};
use crate::failure::{Failure, Words};
use crate::tests::{lines, message, show};

/// A call by its name; the first letter is its owner.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::client) struct Name(pub(in crate::client) String);

impl Ticket for Name {
    fn owner(&self) -> u64 {
        self.0.bytes().next().unwrap_or_default().into()
    }

    /// Capital letters are for somebody else.
    fn principal(&self) -> &[u8] {
        if self.0.starts_with(|first: char| first.is_ascii_uppercase()) { b"else" } else { b"" }
    }

    /// `n` and `m` speak what the server speaks.
    fn is_native(&self) -> bool {
        self.0.starts_with(['n', 'm'])
    }
}

/// Plays a script; `envelope` is what `@` stands for.
#[track_caller]
pub(in crate::client) fn check(
    mut half: ClientHalf<Name>,
    envelope: &str,
    script: &str,
    expected: &str,
) {
    #[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
    let mut now = Instant::now();
    let mut seen = Vec::new();
    for line in lines(script) {
        let (what, rest) = line.split_once(": ").unwrap_or((line, ""));
        let rest = rest.replace('@', envelope);
        let (verb, whom) = what.split_once(' ').unwrap_or((what, ""));
        let ticket = Name(whom.to_owned());
        let number = || whom.parse().expect("a number");
        match verb {
            "open" => half.open(ticket, &message(&rest), &None, now),
            "note" => half.note(message(&rest), now),
            "recv" => half.handle_message(Lane(whom.parse().unwrap_or(0)), &message(&rest), now),
            "supply" => half.supply(Ask(number()), &message(&rest), now),
            "refuse" => half.refuse_ask(Ask(number()), now),
            "drop" => half.drop_call(&ticket, None, now),
            "again" => half.again(&ticket, &message(&rest), now),
            "look" => {
                let needed = if half.is_needed(now) { "needed" } else { "not needed" };
                seen.push(format!("{} open, {needed}", half.calls()));
            }
            "hears" => half.handle_hearing(true, now),
            "deaf" => half.handle_hearing(false, now),
            "gone" => half.forget_owner(ticket.owner(), now),
            "unanswered" => {
                let why = Failure::translation("the stream broke");
                half.handle_unanswered(Lane(number()), &why, now);
            }
            "lost" => {
                half.handle_lost(&Failure::CLOSED, now);
            }
            "wait" => {
                now += Duration::from_millis(number());
                half.handle_timeout(now);
            }
            other => panic!("no such line: {other}"),
        }
        drain(&mut half, &mut seen);
    }
    let seen: Vec<_> = seen.iter().map(|line| shorten(line, envelope)).collect();
    let expected: Vec<_> = lines(expected).collect();
    assert_eq!(seen, expected, "\n{}\n", seen.join("\n"));
}

fn shorten(line: &str, envelope: &str) -> String {
    line.replace(envelope, "@").replace("\"switchboard-", "\"T")
}

fn drain(half: &mut ClientHalf<Name>, seen: &mut Vec<String>) {
    loop {
        if let Some(down) = half.poll_to_client() {
            seen.push(told(down));
        } else if let Some(transmit) = half.poll_transmit() {
            seen.push(match transmit {
                Transmit::Send { lane, message, .. } => {
                    format!("send {}: {}", lane.0, show(&message))
                }
                Transmit::Abort { lane } => format!("abort {}", lane.0),
            });
        } else {
            return;
        }
    }
}

fn told(down: ServerEvent<Name>) -> String {
    let whom = |to: To<Name>| match to {
        To::Call(Name(name)) => name,
        To::Session => "all".to_owned(),
    };
    match down {
        ServerEvent::Note { to, message } => format!("{}: note {}", whom(to), show(&message)),
        ServerEvent::Ask { to, ask, request } => {
            format!("{}: ask {} {}", whom(to), ask.0, show(&request))
        }
        ServerEvent::Recall { to, ask, .. } => format!("{}: recall {}", whom(to), ask.0),
        ServerEvent::Finish { to: Name(name), outcome } => {
            format!("{name}: finish {}", show(&outcome.into_message(Words::Full)))
        }
        ServerEvent::Unanswered { to: Name(name) } => format!("{name}: unanswered"),
    }
}
