//! Each test is a transcript: what happened, and what must come of it.
//!
//! ```text
//!   post 1: …        a POST on lane 1 (`line: …` on a pipe), in shorthand
//!   get 5            a GET on lane 5; `get 6 after 1-2` resumes
//!   close 1          the lane is gone
//!   stream 1         the answer takes its time
//!   note 1: …        the backend speaks, for call 1 or (`note: …`) for the session
//!   ask 1 q7: …      the backend asks, for call 1 or for the session
//!   recall q7: …     it wants no answer any more
//!   finish 1: …      the answer to call 1
//! ```

use super::*;
use crate::jsonrpc::parse;
use crate::tests::{lines, message, show, show_text, wire};

mod calls;
mod questions;
mod resuming;

const V2024: &str = "2024-11-05";
const V2025_03: &str = "2025-03-26";
const V2025_06: &str = "2025-06-18";
const V2025_11: &str = "2025-11-25";
const LEGACY: [&str; 4] = [V2024, V2025_03, V2025_06, V2025_11];

fn fresh(carrier: Carrier) -> LegacyServerHalf {
    LegacyServerHalf::new(carrier, &Limits::default())
}

fn with_limits(carrier: Carrier, revision: &str, change: impl Fn(&mut Limits)) -> LegacyServerHalf {
    let mut limits = Limits::default();
    change(&mut limits);
    greeted(LegacyServerHalf::new(carrier, &limits), revision)
}

/// A client whose handshake is over; its calls go on with exchange 2 and lane 2.
fn ready(carrier: Carrier, revision: &str) -> LegacyServerHalf {
    greeted(fresh(carrier), revision)
}

fn greeted(mut half: LegacyServerHalf, revision: &str) -> LegacyServerHalf {
    let result = format!("0 = {{\"protocolVersion\":\"{revision}\"}}");
    let hello = r#"0 initialize {"capabilities":{"elicitation":{},"roots":{},"sampling":{}}}"#;
    half.handle_incoming(Lane(1), parse(wire(hello)).unwrap());
    half.finish(Exchange(1), &message(&result));
    half.handle_incoming(Lane(1), parse(wire("notifications/initialized")).unwrap());
    while half.poll_transmit().is_some() {}
    while half.poll_to_server().is_some() {}
    assert_eq!(half.phase(), Phase::Ready);
    half
}

/// Plays `script` on `half`. The one place that knows the API.
#[track_caller]
fn check(mut half: LegacyServerHalf, script: &str, expected: &str) {
    let mut seen = Vec::new();
    for step in lines(script) {
        let (head, text) = step.split_once(": ").unwrap_or((step.trim_end_matches(':'), ""));
        let words: Vec<_> = head.split(' ').collect();
        if let Err(refused) = play(&mut half, &words, text) {
            seen.push(format!("refused {}: {refused}", refused.http_status()));
        }
        drain(&mut half, &mut seen);
    }
    assert_eq!(seen, lines(expected).collect::<Vec<_>>());
}

#[track_caller]
fn play(half: &mut LegacyServerHalf, words: &[&str], text: &str) -> Result<(), Refusal> {
    let number = |word: &str| -> u64 { word.trim_start_matches('q').parse().unwrap() };
    let lane = |word| Lane(number(word));
    let call = |word| Some(Exchange(number(word)));
    match *words {
        ["post", at] => arrive(half, lane(at), text),
        ["line"] => arrive(half, Lane::MAIN, text),
        ["get", at] => return half.handle_listen(lane(at), None),
        ["get", at, "after", last] => return half.handle_listen(lane(at), Some(last)),
        ["close", at] => half.handle_closed(lane(at)),
        ["stream", at] => half.begin_stream(lane(at)),
        ["hang", "up", of] => half.hang_up(Exchange(number(of))),
        ["let", "go", lane] => half.let_go(Lane(number(lane))),
        ["note"] => half.note(None, &message(text)),
        ["note", of] => half.note(call(of), &message(text)),
        ["ask", ask] => assert!(half.ask(None, Ask(number(ask)), &message(text)), "nobody to ask"),
        ["ask", of, ask] => {
            assert!(half.ask(call(of), Ask(number(ask)), &message(text)), "nobody to ask");
        }
        ["recall", ask] => half.recall(Ask(number(ask)), &message(text)),
        ["unanswered", of] => half.end_cancelled(Exchange(number(of))),
        ["finish", of] => half.finish(Exchange(number(of)), &message(text)),
        ["end"] => half.end(),
        _ => panic!("no such step: {words:?}"),
    }
    Ok(())
}

fn arrive(half: &mut LegacyServerHalf, lane: Lane, text: &str) {
    match parse(wire(text)) {
        Ok(incoming) => half.handle_incoming(lane, incoming),
        Err(refused) => half.handle_refused(lane, &refused),
    }
}

fn drain(half: &mut LegacyServerHalf, seen: &mut Vec<String>) {
    drain_frames(half, seen);
    drain_up(half, seen);
    drain_frames(half, seen);
}

fn drain_frames(half: &mut LegacyServerHalf, seen: &mut Vec<String>) {
    while let Some((Lane(lane), frame)) = half.poll_transmit() {
        seen.push(match frame {
            Frame::Answer { status, text } => {
                format!("lane {lane}: answer {status} {}", show_text(&text))
            }
            Frame::Accepted => format!("lane {lane}: accepted"),
            Frame::Begin { prime: None } => format!("lane {lane}: begin"),
            Frame::Begin { prime: Some(prime) } => {
                format!("lane {lane}: begin {} retry {}", prime.event, prime.retry_ms)
            }
            Frame::Message { event: None, text } => format!("lane {lane}: {}", show_text(&text)),
            Frame::Message { event: Some(event), text } => {
                format!("lane {lane}: event {event} {}", show_text(&text))
            }
            Frame::End => format!("lane {lane}: end"),
        });
    }
}

fn drain_up(half: &mut LegacyServerHalf, seen: &mut Vec<String>) {
    while let Some(up) = half.poll_to_server() {
        seen.push(match up {
            ClientEvent::Open { exchange, request, .. } => {
                format!("up: open {} {}", exchange.0, show(&request))
            }
            ClientEvent::Again { .. } => panic!("nobody comes back"),
            ClientEvent::Supply { ask, answer } => {
                format!("up: supply q{} {}", ask.0, show(&answer))
            }
            ClientEvent::Note { message } => format!("up: note {}", show(&message)),
            ClientEvent::Drop { exchange, message } => {
                let words = message.map(|message| show(&message)).unwrap_or_default();
                // In these tests the client says whether the backend may still answer.
                if words.contains("answer me") {
                    assert!(half.await_cancelled(exchange));
                }
                half.acknowledge_cancelled(exchange);
                format!("up: drop {} {words}", exchange.0).trim_end().to_owned()
            }
        });
    }
}
