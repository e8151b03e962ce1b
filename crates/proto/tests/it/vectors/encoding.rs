//! Bytes: only UTF-8 is text, and it has no mark in front.

use bytes::Bytes;
use switchboard_proto::jsonrpc::{parse, parse_one};

use super::{no, no_text};

/// wire: MSG-1
#[test]
fn bytes_that_are_no_text_are_refused_wherever_they_stand() {
    let bad: &[&[u8]] = &[
        b"\xe9",                     // Latin-1
        b"\xff",                     // never a byte of UTF-8
        b"\x81",                     // what goes on without a beginning
        b"\xe0\xff",                 // a beginning with a wrong continuation
        b"\xe5",                     // cut after one of three
        b"\xf0\x9f\x98",             // cut after three of four
        b"\xc0\xaf",                 // two bytes for what needs one
        b"\xe0\x80\xaf",             // three bytes for what needs one
        b"\xf0\x80\x80\xaf",         // four bytes for what needs one
        b"\xfc\x83\xbf\xbf\xbf\xbf", // six bytes, as there once were
        b"\xed\xa0\x80",             // half a surrogate pair, encoded
        b"\xed\xa0\xb4\xed\xb4\x9e", // a whole pair, each half encoded
        b"\xf4\x90\x80\x80",         // beyond the last character
        b"\xf4\xbf\xbf\xbf",         // far beyond
    ];
    for bytes in bad {
        for (before, after) in [
            (&b"\""[..], &b"\""[..]),
            (b"\"\\u0041", b"\""),
            (b"\"\\", b"\""),
            (b"{\"", b"\":1}"),
            (b"[1", b"]"),
            (b"1e1", b""),
            (b"", b""),
        ] {
            no_text(&[before, bytes, after].concat());
        }
    }
}

/// wire: MSG-1
#[test]
fn other_encodings_and_marks_are_refused() {
    let one = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    let utf16: Vec<u16> = one.encode_utf16().collect();
    let little: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let utf32: Vec<u8> = one.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    for text in [
        [b"\xff\xfe", little.as_slice()].concat(),
        [b"\xfe\xff", big.as_slice()].concat(),
        little,
        big,
        utf32,
        [b"\xef\xbb\xbf", one.as_bytes()].concat(),
        [b"\xef\xbb", one.as_bytes()].concat(),
        b"\xef\xbb\xbf".to_vec(),
    ] {
        let refused = parse(Bytes::from(text.clone())).unwrap_err().why;
        assert_eq!(refused.rpc_code(), -32700, "{text:x?}");
        assert!(parse_one(Bytes::from(text)).is_err());
    }
    no("\u{feff}[]".as_bytes());
    no("[\u{feff}]".as_bytes());
}
