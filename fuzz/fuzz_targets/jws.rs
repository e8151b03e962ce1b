//! Any text is no token, or a token whose signature does not fit: nobody signs by chance.

#![no_main]

#[allow(dead_code, unfulfilled_lint_expectations, reason = "no signatures are made; fewer lints")]
#[path = "../../crates/net/src/auth/jws.rs"]
mod jws;

use jws::{PublicJwk, SignedToken};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let (token, keys) = text.split_once('\n').unwrap_or((&text, "{}"));
    let set = serde_json::from_str(keys).unwrap_or_default();
    let keys = PublicJwk::read_set(&set).unwrap_or_default();
    if let Ok(token) = SignedToken::parse(token) {
        _ = (token.claims(), token.typ());
        _ = token.verify(keys.iter());
    }
});
