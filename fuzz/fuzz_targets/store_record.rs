//! Any bytes are no record, or a record of the store that is written back as it was.
//!
//! The input is taken as a file, and as a name and content that are sealed and opened.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use switchboard_net::auth::store::{RecordId, RecordKind, RecordSeal, StoreKey};

static SEAL: LazyLock<RecordSeal> = LazyLock::new(|| {
    let key = StoreKey::parse(&"5a".repeat(32), "the fuzz target").expect("32 bytes in hex");
    RecordSeal::new(&key)
});

fuzz_target!(|input: &[u8]| {
    let kind = RecordKind::Tokens;
    for whole in [input, &[SEAL.head().as_bytes(), input].concat()] {
        assert!(SEAL.open(kind, "", whole).is_err(), "nobody guesses a tag");
    }
    let text = String::from_utf8_lossy(input);
    let (name, content) = text.split_once('\n').unwrap_or((&text, ""));
    let record = RecordId { kind, name: name.to_owned() };
    let Ok(mut sealed) = SEAL.seal(&record, content.as_bytes()) else { return };
    let opened = SEAL.open(kind, &record.digest(), &sealed).expect("it was just sealed");
    assert_eq!((opened.0.as_str(), opened.1.as_slice()), (name, content.as_bytes()));
    let at = input.first().map_or(0, |&byte| usize::from(byte) * sealed.len() / 256);
    sealed[at] ^= 1;
    assert!(SEAL.open(kind, &record.digest(), &sealed).is_err(), "it was changed at {at}");
});
