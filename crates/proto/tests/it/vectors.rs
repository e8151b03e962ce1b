//! What is JSON and what is not: vectors of our own, in the classes of the
//! public suites. Each is read alone, and as the result in a message that must
//! then carry it byte for byte.

mod encoding;
mod number;
mod string;
mod structure;

use bytes::Bytes;
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::jsonrpc::parse_one;
use switchboard_proto::refusal::Refusal;

/// Is JSON, for everybody.
#[track_caller]
fn yes(text: &str) {
    passes(text);
    let parsed = serde_json::from_str::<serde_json::Value>(text);
    assert!(parsed.is_ok(), "another parser does not agree about {text:?}: {parsed:?}");
}

/// Is JSON by its grammar, though not every parser can hold it: it passes as it is.
#[track_caller]
fn passes(text: &str) {
    let place = Walker::new(text.as_bytes()).whole();
    let value = text.trim_matches([' ', '\t', '\r', '\n']);
    assert_eq!(place.map(|place| &text[place]), Ok(value), "{text:?}");
    let message = parse_one(in_a_message(text.as_bytes())).unwrap_or_else(|refused| {
        panic!("{text:?} in a message: {refused:?}");
    });
    assert_eq!(message.payload(), Some(value.as_bytes()), "{text:?}");
}

/// Is not JSON.
#[track_caller]
fn no(text: &[u8]) {
    let shown = String::from_utf8_lossy(text);
    let alone = std::str::from_utf8(text).map(|text| Walker::new(text.as_bytes()).whole());
    assert!(matches!(alone, Err(_) | Ok(Err(Fault::Syntax { .. }))), "{shown:?}: {alone:?}");
    let refused = parse_one(in_a_message(text)).expect_err(&shown).why;
    assert_eq!(refused.rpc_code(), -32700, "{shown:?}: {refused:?}");
    assert!(serde_json::from_slice::<serde_json::Value>(text).is_err(), "{shown:?}");
}

/// Is not text at all.
#[track_caller]
fn no_text(bytes: &[u8]) {
    let refused = parse_one(in_a_message(bytes)).expect_err("bytes that are no text").why;
    assert!(matches!(refused, Refusal::NotUtf8 { .. }), "{bytes:x?}: {refused:?}");
}

fn in_a_message(value: &[u8]) -> Bytes {
    [br#"{"jsonrpc":"2.0","id":1,"result":"#, value, b"}"].concat().into()
}
