//! Whatever servers and browsers say, a sign-in ends, and a code goes only where it belongs.
//!
//! The input is a header with challenges, a query that a browser comes back with, and the
//! answers of all servers: parts between NUL bytes, the first two of an answer its status.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use no_chance::NoChance;
use switchboard_proto::auth::{
    Answer, AuthError, AuthResponse, Challenge, Goal, OauthSettings, Redirect, SignIn, Step,
};

#[path = "../no_chance.rs"]
mod no_chance;

/// Requests of one sign-in: 2 places of the resource, 3 of each of 8 issuers, and then some.
const MOST_STEPS: usize = 200;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.split(|byte| *byte == 0);
    let header = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let query = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let challenge = Challenge::find([header.as_str()]);
    let redirect = Redirect {
        uri: "http://127.0.0.1:4100/callback".to_owned(),
        is_native: true,
        client_name: "fuzz".to_owned(),
    };
    let goal = Goal {
        server: "https://mcp.example/mcp".to_owned(),
        challenge,
        settings: OauthSettings { dpop: header.len() % 2 == 1, ..OauthSettings::default() },
        before: None,
        redirect,
    };
    let mut run = SignIn::new(goal, Arc::new(NoChance));
    let mut answer = None;
    for _ in 0..MOST_STEPS {
        answer = Some(match run.step(answer.take()) {
            Step::Done(record) => {
                assert!(!record.access_token.reveal().is_empty());
                return;
            }
            Step::Failed(error) => {
                _ = error.to_string();
                return;
            }
            Step::Fetch(request) => {
                let url = request.url.to_ascii_lowercase();
                let safe = ["https://", "http://127.", "http://localhost", "http://["];
                assert!(safe.iter().any(|start| url.starts_with(start)), "{url}");
                let part = parts.next().unwrap_or_default();
                let (status, body) = part.split_at(part.len().min(2));
                let status = status.iter().fold(0, |sum, byte| sum * 256 + u16::from(*byte));
                // Most answers should be read.
                let status = if status % 3 == 0 { status % 600 } else { 200 };
                Answer::Response(Ok(AuthResponse { status, body: body.to_vec(), dpop_nonce: None }))
            }
            Step::FindRegistration { .. } => Answer::Registration(None),
            Step::Authorize(pending) => {
                let known = format!("state={}&{query}", pending.state.reveal());
                _ = pending.read_callback(&query);
                let code = pending.read_callback(&known);
                Answer::Code(code.unwrap_or(Err(AuthError::TimedOut)))
            }
            Step::KeepRegistration(_) | Step::ShowDevice { .. } | Step::Wait(_) => Answer::Done,
        });
    }
    panic!("a sign-in does not end");
});
