//! Any headers hold no challenge for a token, or one that says nothing beyond the headers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_proto::auth::Challenge;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let Some(challenge) = Challenge::find(text.split('\n')) else { return };
    let scopes = challenge.scopes();
    for (at, scope) in scopes.iter().enumerate() {
        assert!(!scope.is_empty() && !scopes[..at].contains(scope), "{scopes:?}");
    }
    _ = challenge.asks_for_more_scope();
    let said = [
        &challenge.resource_metadata,
        &challenge.scope,
        &challenge.error,
        &challenge.error_description,
    ];
    let length: usize = said.into_iter().flatten().map(String::len).sum();
    assert!(length < text.len(), "{challenge:?}");
});
