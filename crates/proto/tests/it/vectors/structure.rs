//! Arrays, objects, words, white space, depth.

use bytes::Bytes;
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::jsonrpc::{parse, parse_one};
use switchboard_proto::limits::MAX_DEPTH;
use switchboard_proto::refusal::Refusal;

use super::{in_a_message, no, yes};

/// wire: MSG-1
#[test]
fn values_may_be_nested_and_spaced() {
    for text in [
        "null",
        "true",
        "false",
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "{\"a\":[]}",
        "[[],[[]],[]]",
        "[null]",
        "[1,null,null,2]",
        "[null,1,\"1\",{}]",
        "[\"\"]",
        "[false,true]",
        r#"{"":0}"#,
        r#"{"a":1}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"a":1}"#,
        r#"{"a":{"b":{"c":[{}]}}}"#,
        r#"{"a":[{"b":null}],"c":"d"}"#,
        " [] ",
        "[ ]",
        "{ }",
        "\t\r\n []\t\r\n ",
        "[1 , 2]",
        "[\n1\n,\n2\n]",
        "{ \"a\" : 1 , \"b\" : 2 }",
        "{\n\"a\"\n:\n1\n}",
        "[]\n",
        "\n[]",
        "true ",
    ] {
        yes(text);
    }
}

const BROKEN: &[&str] = &[
    "",
    " ",
    "\n",
    "[",
    "]",
    "{",
    "}",
    "[[",
    "[]]",
    "{}}",
    "[}",
    "{]",
    "[1",
    "[1,",
    "[1,]",
    "[1,,]",
    "[,1]",
    "[,]",
    "[,",
    "[1,,2]",
    "[1;2]",
    "[1:2]",
    "[\"a\"",
    "[\"a\",",
    "[\"a\" \"b\"]",
    "[1 true]",
    "[1}",
    "[1][2]",
    "[] []",
    "[]x",
    "[]//",
    "[1]]",
    "[[1]",
    "[x",
    "[x, 1]",
    "[*]",
    "[\"\": 1]",
    "[1\n",
    "[1,\n1\n,1",
    "[{}",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{\"a\":1,,\"b\":2}",
    "{,}",
    "{,\"a\":1}",
    "{\"a\"}",
    "{\"a\",1}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1]",
    "{\"a\":1}}",
    "{\"a\":1}x",
    "{\"a\":1}#",
    "{\"a\":1}/**/",
    "{\"a\":1}//",
    "{a:1}",
    "{1:1}",
    "{null:1}",
    "{'a':1}",
    "{[]:1}",
    "{\"a\":\"b\":1}",
    "{\"a\":1 /* */}",
    "{\"a\":true false}",
    "{a",
    "{*}",
    ":",
    ",",
    "tru",
    "fals",
    "nul",
    "TRUE",
    "True",
    "nulL",
    "truee",
    "null1",
    "true true",
    "undefined",
    "None",
    "<a>",
    "// a",
    "/* a */",
    "# a",
    "[1,/*a*/2]",
    "*",
    "\\u0020[]",
    "\u{0}",
    "[]\u{0}",
    "[\u{0}]",
    "\u{c}",
    "[\u{c}]",
    "\u{b}[]",
    "[\u{b}]",
    "\u{a0}[]",
    "[\u{a0}]",
    "\u{85}[]",
    "\u{2028}[]",
    "\u{3000}[]",
    "\u{200b}[]",
    "\u{2060}",
    "\u{e5}",
    "[\u{e5}]",
    "&",
    "@",
];

/// wire: MSG-1
#[test]
fn what_is_not_closed_separated_or_spelled_is_refused() {
    for text in BROKEN {
        no(text.as_bytes());
    }
}

/// wire: MSG-1
#[test]
fn depth_has_a_bound_that_costs_nothing_to_reach() {
    let most = usize::try_from(MAX_DEPTH).unwrap();
    yes(&("[".repeat(most - 1) + &"]".repeat(most - 1)));
    for levels in [500, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"\":", "}]")] {
            let text = open.repeat(levels) + "1" + &close.repeat(levels);
            let alone = Walker::new(text.as_bytes()).whole();
            assert!(matches!(alone, Err(Fault::TooDeep { .. })), "{levels} {open}");
            let refused = parse_one(in_a_message(text.as_bytes())).unwrap_err().why;
            assert!(matches!(refused, Refusal::TooDeep { .. }), "{levels} {open}");
            let open = open.repeat(levels);
            let unclosed = parse_one(in_a_message(open.as_bytes())).unwrap_err().why;
            assert!(matches!(unclosed, Refusal::TooDeep { .. }), "{levels} unclosed");
        }
    }
}

/// wire: MSG-1
#[test]
fn two_texts_are_not_one_message() {
    let one = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    for text in [format!("{one}{one}"), format!("{one}\n{one}"), format!("{one},{one}")] {
        assert_eq!(parse(Bytes::from(text.clone())).unwrap_err().why.rpc_code(), -32700, "{text}");
    }
    for spaced in [format!(" \t\r\n{one}"), format!("{one} \t\r\n")] {
        assert!(parse(Bytes::from(spaced.clone())).is_ok(), "{spaced:?}");
    }
}
