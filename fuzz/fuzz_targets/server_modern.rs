//! A modern client and the inside do anything; the server half keeps its promises.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "one of several drivers is used here")]
#[path = "../../crates/proto/tests/it/drive.rs"]
mod drive;

fuzz_target!(|input: &[u8]| drive::server_modern(input));
