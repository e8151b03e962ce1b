//! Strings: escapes, surrogates, what must be escaped.

use bytes::Bytes;
use switchboard_proto::jsonrpc::parse_one;

use super::{no, passes, yes};

/// wire: MSG-1
#[test]
fn strings_are_as_the_grammar_has_them() {
    for text in [
        r#""""#,
        r#"" ""#,
        r#""a""#,
        r#""\"""#,
        r#""\\""#,
        r#""\/""#,
        r#""\b\f\n\r\t""#,
        r#""\\\"""#,
        r#""\\a""#,
        r#""\\n""#,
        r#""\\\\""#,
        r#""\u0000""#,
        r#""\u0060\u012a\u12AB""#,
        r#""\u00e9""#,
        r#""\uFFFF\ufffe\uFDD0""#,
        r#""\uD834\uDD1E""#,
        r#""\ud83d\ude39\ud83d\udc8d""#,
        r#""\uDBFF\uDFFF""#,
        r#""\uD801\udc37""#,
        r#""new\u000Aline""#,
        r#""\u0022\u005C\u005c""#,
        r#""a/*b*/c/*d//e""#,
        "\"\u{7f}\"",
        "\"\u{80}\u{9f}\u{a0}\"",
        "\"\u{2028}\u{2029}\"",
        "\"\u{e9}\u{20ac}\u{1d11e}\u{10ffff}\"",
        "\"\u{feff}\"",
        "\"\u{fffd}\"",
        "\"\u{1ffff}\"",
        r#"["\uA66D"]"#,
        r#"{"\u0000":"\u0000"}"#,
        r#"{"a\"b":"c\\"}"#,
        r#"" leading and trailing ""#,
    ] {
        yes(text);
    }
}

/// Half a surrogate pair is JSON by its grammar. It passes where it is
/// somebody's text, and is refused where we must understand it.
///
/// wire: MSG-2, MSG-7
#[test]
fn half_a_character_passes_in_what_is_not_ours() {
    for text in [
        r#""\uD800""#,
        r#""\ud800abc""#,
        r#""\uDADA""#,
        r#""\uDFAA""#,
        r#""\uD888\u1234""#,
        r#""\uD800\n""#,
        r#""\uD800\uD800\n""#,
        r#""\uDd1e\uD834""#,
        r#""\uDd1ea""#,
        r#""\uDBFF\u0041""#,
        r#"{"\uDFFF":1}"#,
    ] {
        passes(text);
        if text.starts_with('"') {
            let asked = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"m"}}"#);
            assert!(parse_one(Bytes::from(asked)).is_err(), "as an id: {text}");
        }
    }
}

/// wire: MSG-1
#[test]
fn what_must_be_escaped_must_be_escaped_well() {
    for text in [
        "\"",
        "\"a",
        "a\"",
        "\"\"\"",
        "'a'",
        "a",
        "\\n",
        r#""\"#,
        r#""\""#,
        r#""\\\""#,
        r#""\x00""#,
        r#""\a""#,
        r#""\v""#,
        r#""\0""#,
        r#""\e""#,
        r#""\'""#,
        r#""\ ""#,
        r#""\U0041""#,
        r#""\u""#,
        r#""\u1""#,
        r#""\u12""#,
        r#""\u123""#,
        r#""\u123g""#,
        r#""\u 123""#,
        r#""\u+123""#,
        r#""\u{41}""#,
        r#""\uD834\uDd""#,
        r#""\uD834\u""#,
        r#""\uD800\u1x""#,
        r#""\uD834\x""#,
        "\"\\\u{1f300}\"",
        "\"\\\t\"",
        "\"\\\n\"",
        "\"a\"b",
        "\"a\"\"b\"",
        "[\u{a0}\"a\"]",
        "[\"a\"\u{2028}]",
        "\u{201c}a\u{201d}",
        "`a`",
    ] {
        no(text.as_bytes());
    }
    for control in 0..0x20_u8 {
        for text in [&[b'"', control, b'"'][..], &[b'"', b'a', control, b'b', b'"']] {
            no(text);
        }
    }
}
