//! Each test is a transcript: what happened, and what must come of it.
//!
//! ```text
//!   open a1: …       client a opens a call that it knows as 1
//!   drop a1: …       it gives up, in its own words or (`drop a1`) without;
//!                    the answer to `a1!` would still be passed on; the id of
//!                    `a1=` is one that its client chose
//!   forget a         it is gone for good
//!   note: …          a client says something;  supply q1: … answers a question
//!   recv: …          the server says something;  recv 3: … on the lane of call 3
//!   lost             the link is gone;  over 3: the session is, says lane 3;  over: nobody's
//!   unsupplied: …    the server did not take this answer;  gap: nobody heard it for a while
//!   unanswered 3     lane 3 ended without an answer
//!   at 30s           time passes (patience is 60 s)
//! ```

use std::time::Duration;

use super::*;
use crate::failure::{Failure, Words};
use crate::tests::{lines, message, show};

mod calls;
mod greeting;
mod ids;
mod patience;
mod sharing;
mod watch;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Name(String);

impl Ticket for Name {
    fn owner(&self) -> u64 {
        self.0.bytes().next().unwrap().into()
    }

    fn awaits_dropped(&self) -> bool {
        self.0.ends_with('!')
    }

    fn has_own_id(&self) -> bool {
        self.0.contains('=')
    }
}

fn limits() -> Limits {
    Limits {
        calls: 4,
        asks: 2,
        quiet: Duration::from_mins(1),
        total: Duration::from_mins(2),
        ..Limits::default()
    }
}

fn fresh(sharing: Sharing) -> LegacyClientHalf<Name> {
    LegacyClientHalf::new(sharing, &limits())
}

/// A server that client `a` has greeted; calls go on with id 2.
fn ready(sharing: Sharing) -> LegacyClientHalf<Name> {
    let mut half = fresh(sharing);
    let now = start();
    half.open(Name("a0".into()), &message(r#"0 initialize {"v":1}"#), now);
    let welcome = r#"1 = {"capabilities":{"tools":{"listChanged":true}}}"#;
    half.handle_message(Lane(1), &message(welcome), now);
    half.note(message("notifications/initialized"), now);
    half.out.clear();
    half.to_client.0.clear();
    assert!(half.is_ready());
    half
}

#[expect(clippy::disallowed_methods, reason = "any start will do, only differences count")]
fn start() -> Instant {
    Instant::now()
}

/// Plays `script` on `half`. The one place that knows the API.
#[track_caller]
fn check(mut half: LegacyClientHalf<Name>, script: &str, expected: &str) {
    let start = start();
    let mut stage = Stage { start, now: start };
    let mut seen = Vec::new();
    for step in lines(script) {
        let (head, text) = step.split_once(": ").unwrap_or((step.trim_end_matches(':'), ""));
        stage.play(&mut half, &head.split(' ').collect::<Vec<_>>(), text);
        drain(&mut half, &mut seen);
    }
    assert_eq!(seen, lines(expected).collect::<Vec<_>>());
}

struct Stage {
    start: Instant,
    now: Instant,
}

impl Stage {
    #[track_caller]
    fn play(&mut self, half: &mut LegacyClientHalf<Name>, words: &[&str], text: &str) {
        let number = |word: &str| -> u64 { word.trim_start_matches('q').parse().unwrap() };
        let now = self.now;
        match *words {
            ["open", name] => half.open(Name(name.to_owned()), &message(text), now),
            ["drop", name] => {
                let words = (!text.is_empty()).then(|| message(text));
                half.drop_call(&Name(name.to_owned()), words.as_ref(), now);
            }
            ["forget", name] => half.forget_owner(Name(name.to_owned()).owner(), now),
            ["note"] => half.note(message(text), now),
            ["supply", ask] => half.supply(Ask(number(ask)), &message(text), now),
            ["refuse", ask] => half.refuse_ask(Ask(number(ask)), now),
            ["recv"] => half.handle_message(Lane::MAIN, &message(text), now),
            ["recv", at] => half.handle_message(Lane(number(at)), &message(text), now),
            ["unanswered", at] => {
                let text = "gone".to_owned();
                half.handle_unanswered(Lane(number(at)), &Failure::translation(text));
            }
            ["over", at] => half.handle_session_over(Lane(number(at)), now),
            ["over"] => half.renew_session(now),
            ["unsupplied"] => half.handle_unsupplied(&message(text)),
            ["gap"] => half.handle_gap(),
            ["lost"] => half.handle_lost(&Failure::CLOSED, now),
            ["at", time] => {
                self.now = self.start + Duration::from_secs(number(time.trim_end_matches('s')));
                half.handle_timeout(self.now);
            }
            _ => panic!("no such step: {words:?}"),
        }
    }
}

fn drain(half: &mut LegacyClientHalf<Name>, seen: &mut Vec<String>) {
    while let Some(transmit) = half.out.pop_front() {
        seen.push(match transmit {
            Transmit::Send { lane, message, .. } => format!("send {}: {}", lane.0, show(&message)),
            Transmit::Abort { lane } => format!("abort {}", lane.0),
        });
    }
    let whom = |to: To<Name>| match to {
        To::Call(name) => name.0,
        To::Session => "all".to_owned(),
    };
    while let Some(down) = half.to_client.0.pop_front() {
        seen.push(match down {
            ServerEvent::Note { to, message } => format!("{}: note {}", whom(to), show(&message)),
            ServerEvent::Ask { to, ask, request } => {
                format!("{}: ask q{} {}", whom(to), ask.0, show(&request))
            }
            ServerEvent::Recall { to, ask, message } => {
                format!("{}: recall q{} {}", whom(to), ask.0, show(&message))
            }
            ServerEvent::Finish { to, outcome } => {
                format!("{}: finish {}", to.0, show(&outcome.into_message(Words::Full)))
            }
            ServerEvent::Unanswered { to } => format!("{}: unanswered", to.0),
        });
    }
}
