//! Any text is read without a panic, and a message survives a change of its id.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "one of several drivers is used here")]
#[path = "../../crates/proto/tests/it/drive.rs"]
mod drive;

fuzz_target!(|input: &[u8]| drive::jsonrpc(input));
