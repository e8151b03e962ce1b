//! Whatever documents say, people and requests are sent only to https URLs, or to this machine.
//!
//! The first byte of the input says what the rest is: the document of the resource, that of
//! the authorization server, or lines with the values of its members. All requests that follow
//! are answered with it, too.

#![no_main]

use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use libfuzzer_sys::fuzz_target;
use no_chance::NoChance;
use serde_json::{Map, Value};
use switchboard_proto::auth::{
    Answer, AuthError, AuthResponse, Goal, OauthSettings, Redirect, SignIn, Step,
};

#[path = "../no_chance.rs"]
mod no_chance;

const RESOURCE: &[u8] =
    br#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"]}"#;

/// Requests of one sign-in: 2 places of the resource, 3 of each of 8 issuers, and then some.
const MOST_STEPS: usize = 200;

/// What lines are the values of.
const MEMBERS: [&str; 10] = [
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "pushed_authorization_request_endpoint",
    "require_pushed_authorization_requests",
    "scopes_supported",
    "token_endpoint_auth_methods_supported",
    "client_id",
    "redirect_uris",
];

/// A document of the authorization server with these lines as values.
fn document_of(lines: &[u8]) -> Vec<u8> {
    let mut object = Map::new();
    object.insert("issuer".to_owned(), "https://as.example".into());
    object.insert("code_challenge_methods_supported".to_owned(), vec!["S256"].into());
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (name, line) in MEMBERS.into_iter().zip(lines) {
        let text = || Value::from(String::from_utf8_lossy(line));
        object.insert(name.to_owned(), serde_json::from_slice(line).unwrap_or_else(|_| text()));
    }
    serde_json::to_vec(&object).expect("texts are keys")
}

fn check(url: &str) {
    let read: Uri = url.parse().expect("a URL");
    let host = read.host().expect("a host").trim_matches(['[', ']']);
    let is_here = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let scheme = read.scheme_str();
    assert!(scheme == Some("https") || scheme == Some("http") && is_here, "{url}");
}

fn answer(body: &[u8]) -> Answer {
    Answer::Response(Ok(AuthResponse { status: 200, body: body.to_vec(), dpop_nonce: None }))
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, document)) = input.split_first() else { return };
    let is_resource = mode % 4 == 0;
    let document = if mode % 4 < 2 { document.to_vec() } else { document_of(document) };
    let goal = Goal {
        server: "https://mcp.example/mcp".to_owned(),
        challenge: None,
        settings: OauthSettings {
            client_id: (mode & 4 == 0).then(|| "id".to_owned()),
            dpop: mode & 8 != 0,
            ..OauthSettings::default()
        },
        before: None,
        redirect: Redirect {
            uri: "http://127.0.0.1:4100/callback".to_owned(),
            is_native: true,
            client_name: "fuzz".to_owned(),
        },
    };
    let mut run = SignIn::new(goal, Arc::new(NoChance));
    let mut said = None;
    let mut is_first = true;
    for _ in 0..MOST_STEPS {
        said = Some(match run.step(said.take()) {
            Step::Done(_) => return,
            Step::Failed(error) => {
                _ = error.to_string();
                return;
            }
            Step::Fetch(request) => {
                check(&request.url);
                let body = if is_first && !is_resource { RESOURCE } else { &document };
                is_first = false;
                answer(body)
            }
            Step::FindRegistration { .. } => Answer::Registration(None),
            Step::Authorize(pending) => {
                check(&pending.url);
                Answer::Code(Err(AuthError::TimedOut))
            }
            Step::KeepRegistration(_) | Step::ShowDevice { .. } | Step::Wait(_) => Answer::Done,
        });
    }
    panic!("a sign-in does not end");
});
