//! Each case is a text and whether it is JSON, in the manner of the public suites.

use super::*;

const YES: &[&str] = &[
    "{}",
    "[]",
    " [ ] ",
    "[[]]",
    r#"{"":0}"#,
    r#"{"a":{"b":[1,2,{}]}}"#,
    "0",
    "-0",
    "1e5",
    "1E+5",
    "-1.5e-7",
    "123456789012345678901234567890",
    "true",
    "false",
    "null",
    r#""""#,
    r#""a\"b\\c\/d\b\f\n\r\t\u00e9""#,
    "\"\u{7f}\u{2028}\u{10ffff}\"",
    "\t[\r\n1\n,\t2 ]\n",
    r#"[""]"#,
    r#""\uD834\uDD1E""#,
    r#""\uDEAD""#,
    r#"{"a":1,"a":2}"#,
    "\"0123456789abcdef0123456789abcdef\"",
];

const NO: &[&str] = &[
    "",
    " ",
    "[",
    "]",
    "{",
    "}",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1,,2]",
    "[1 2]",
    r#"{"a"}"#,
    r#"{"a":}"#,
    r#"{"a":1,}"#,
    "{a:1}",
    r#"{"a" 1}"#,
    "{1:1}",
    "{,}",
    "[1]]",
    "[1}",
    "{\"a\":1]",
    "01",
    "-",
    "-a",
    "+1",
    "1.",
    ".5",
    "1e",
    "1e+",
    "0x1",
    "1_0",
    "NaN",
    "Infinity",
    "tru",
    "nulL",
    "truee",
    "\"",
    "\"a",
    r#""\"#,
    r#""\x""#,
    r#""\u12""#,
    r#""\u12g4""#,
    "\"a\nb\"",
    "\"01234567\u{1}\"",
    "\"\t\"",
    "'a'",
    "// c",
    "/**/",
    "[1]x",
    "\u{feff}[]",
    "[\u{a0}]",
    "\u{0}",
    "[1\u{0}]",
];

#[test]
fn json_is_told_from_what_is_not() {
    for text in YES {
        let place = Walker::new(text.as_bytes()).whole();
        assert_eq!(place.map(|place| &text[place]), Ok(text.trim()), "{text:?}");
    }
    for text in NO {
        assert!(Walker::new(text.as_bytes()).whole().is_err(), "{text:?}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text:?}");
    }
}

#[test]
fn depth_is_bounded_and_told_apart_from_bad_syntax() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let limit = MAX_DEPTH as usize;
    assert!(Walker::new(nested(limit).as_bytes()).whole().is_ok());
    let over = Walker::new(nested(limit + 1).as_bytes()).whole();
    assert_eq!(over, Err(Fault::TooDeep { at: limit }));
    let objects = r#"{"a":"#.repeat(limit + 1) + "1" + &"}".repeat(limit + 1);
    assert!(matches!(Walker::new(objects.as_bytes()).whole(), Err(Fault::TooDeep { .. })));
    let endless = "[".repeat(1 << 20);
    assert!(matches!(Walker::new(endless.as_bytes()).whole(), Err(Fault::TooDeep { .. })));
}

#[test]
fn members_and_elements_are_found_in_order() {
    let text = r#" { "a" : 1 , "b\n" : [ 2 ] } "#;
    let mut seen = Vec::new();
    let walked = Walker::new(text.as_bytes()).members(|member| {
        seen.push((member.key.name().into_owned(), &text[member.value]));
    });
    assert_eq!(walked, Ok(()));
    assert_eq!(seen, [("a".to_owned(), "1"), ("b\n".to_owned(), "[ 2 ]")]);

    let mut count = 0;
    let walked = Walker::new(b"[1,[2,3],{}]").elements(|_| count += 1);
    assert_eq!((walked, count), (Ok(()), 3));
    assert!(Walker::new(b"[1] x").elements(|_| {}).is_err());
    assert!(Walker::new(b"{\"a\":1").members(|_| {}).is_err());
}

#[test]
fn every_special_byte_ends_a_plain_run_wherever_it_stands() {
    for special in (0..0x20).chain([b'"', b'\\']) {
        // Long texts are looked at in blocks.
        for at in (0..20).chain(BLOCK - 1..3 * BLOCK + 20) {
            let mut text = vec![b'x'; if at < 20 { 20 } else { 3 * BLOCK + 20 }];
            text[at] = special;
            assert_eq!(plain_run(&text), at, "byte {special:#x} at {at}");
        }
    }
    for plain in (0x20..=0xff).filter(|byte| !matches!(byte, b'"' | b'\\')) {
        for length in [17, 3 * BLOCK + 17] {
            assert_eq!(plain_run(&vec![plain; length]), length, "byte {plain:#x}");
        }
    }
}

#[test]
fn values_are_written_as_by_serde() {
    let mut texts: Vec<String> = YES.iter().map(|text| (*text).to_owned()).collect();
    texts.extend((0..0x80u8).map(|byte| format!("aaaaaaa{}b\u{e4}", char::from(byte))));
    texts.push("line\n".repeat(30));
    for text in &texts {
        // What is JSON is written as a value, all of it as a string too.
        let parsed = serde_json::from_str::<Value>(text).ok();
        for value in parsed.into_iter().chain([Value::String(text.clone())]) {
            let mut written = Vec::new();
            write(&value, &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), value.to_string());
        }
    }
}
