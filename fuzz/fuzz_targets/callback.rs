//! Whatever a browser comes back with, a code is taken only with the right `state` and issuer.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use switchboard_proto::auth::{AuthError, PendingSignIn, Secret, TokenSource, query_pairs};

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

/// The values of a parameter, however its name is written.
fn values(query: &str, name: &str) -> Vec<String> {
    let pairs = query_pairs(query).into_iter();
    pairs.filter(|(written, _)| written == name).map(|(_, value)| value).collect()
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    for query in [text.to_string(), format!("state={STATE}&{text}")] {
        for pending in &*PENDING {
            match pending.read_callback(&query) {
                None => {}
                Some(Ok(code)) => {
                    assert!(!code.reveal().is_empty(), "an empty code: {query}");
                    assert_eq!(values(&query, "code"), [code.reveal()], "{query}");
                    assert_eq!(values(&query, "state"), [STATE], "{query}");
                    let issuers = values(&query, "iss");
                    let is_unsaid = issuers.is_empty() && !pending.is_issuer_promised;
                    assert!(is_unsaid || issuers == [ISSUER], "{query}");
                }
                Some(Err(AuthError::Refused { .. })) => {
                    assert_eq!(values(&query, "error").len(), 1, "nobody refused: {query}");
                    assert_eq!(values(&query, "state"), [STATE], "{query}");
                }
                Some(Err(error)) => _ = error.to_string(),
            }
        }
    }
});
