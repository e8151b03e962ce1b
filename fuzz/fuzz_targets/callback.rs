//! Whatever a browser comes back with, a code is taken only with the right `state` and issuer.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use switchboard_proto::auth::{AuthError, PendingSignIn, Secret, TokenSource};

const STATE: &str = "s7";
const ISSUER: &str = "https://as";

static PENDING: LazyLock<[PendingSignIn; 2]> = LazyLock::new(|| {
    [false, true].map(|is_issuer_promised| PendingSignIn {
        source: TokenSource { issuer: ISSUER.to_owned(), ..TokenSource::default() },
        state: Secret::new(STATE),
        is_issuer_promised,
        ..PendingSignIn::default()
    })
});

/// How often a parameter is in a query, however its name is written.
fn count(query: &str, name: &str) -> usize {
    let is_named = |pair: &&str| {
        let written = pair.split('=').next().unwrap_or_default();
        written.contains(['%', '+']) || written == name
    };
    query.split('&').filter(is_named).count()
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    for query in [text.to_string(), format!("state={STATE}&{text}")] {
        for pending in &*PENDING {
            match pending.read_callback(&query) {
                None => {}
                Some(Ok(code)) => {
                    assert!(!code.reveal().is_empty(), "an empty code: {query}");
                    assert!(count(&query, "state") >= 1, "no state: {query}");
                    let says_issuer = count(&query, "iss") >= 1;
                    assert!(says_issuer || !pending.is_issuer_promised, "no issuer: {query}");
                }
                Some(Err(AuthError::Refused { .. })) => {
                    assert!(count(&query, "error") >= 1, "nobody refused: {query}");
                }
                Some(Err(error)) => _ = error.to_string(),
            }
        }
    }
});
