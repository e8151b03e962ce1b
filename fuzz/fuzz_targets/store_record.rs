//! Any bytes are no record, or a record of the store that is written back as it was.
//!
//! The input is taken as a file, and as a name and content that are sealed and opened.

#![no_main]

#[expect(dead_code, reason = "the target needs no names of keys")]
#[path = "../../crates/net/src/auth/store/record.rs"]
mod record;
#[path = "../../crates/net/src/seal.rs"]
mod seal;
#[expect(dead_code, reason = "the target only needs digests")]
#[path = "../../crates/net/src/secret.rs"]
mod secret;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use record::{RecordSeal, digest};

static SEAL: LazyLock<RecordSeal> = LazyLock::new(|| RecordSeal::new(&[0x5a; 32]));

fuzz_target!(|input: &[u8]| {
    let kind = "tokens";
    for whole in [input, &[SEAL.head().as_bytes(), input].concat()] {
        assert!(SEAL.open(kind, "", whole).is_err(), "nobody guesses a tag");
    }
    let text = String::from_utf8_lossy(input);
    let (name, content) = text.split_once('\n').unwrap_or((&text, ""));
    if name.len() > 8 << 10 {
        return;
    }
    let mut sealed = SEAL.seal(kind, name, content.as_bytes()).expect("there is randomness");
    let name_digest = digest(kind, name);
    let opened = SEAL.open(kind, &name_digest, &sealed).expect("it was just sealed");
    assert_eq!((opened.0.as_str(), opened.1.as_slice()), (name, content.as_bytes()));
    let at = input.first().map_or(0, |&byte| usize::from(byte) * sealed.len() / 256);
    sealed[at] ^= 1;
    assert!(SEAL.open(kind, &name_digest, &sealed).is_err(), "it was changed at {at}");
});
