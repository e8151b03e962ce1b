//! A modern server and its clients do anything; the client half keeps its promises.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "one of several drivers is used here")]
#[path = "../../crates/proto/tests/it/drive.rs"]
mod drive;

fuzz_target!(|input: &[u8]| drive::client_to_modern(input));
