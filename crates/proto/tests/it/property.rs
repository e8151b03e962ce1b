//! What holds for any text and any sequence of events.

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::jsonrpc::{Id, parse_one};
use switchboard_proto::patch;

use crate::drive;

/// Any JSON value of modest size.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 2.0)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-d\"\\\\é]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Text that is JSON, or almost.
fn almost_json() -> impl Strategy<Value = String> {
    let mangled =
        (value(), vec((any::<prop::sample::Index>(), "[\\[\\]{}\",:0-9eE.+\\-\\\\u tfn]"), 0..3));
    let mangled = mangled.prop_map(|(value, changes)| {
        let mut text: Vec<char> = value.to_string().chars().collect();
        for (at, with) in changes {
            let at = at.index(text.len());
            text.splice(at..=at, with.chars());
        }
        text.into_iter().collect()
    });
    prop_oneof![mangled, "[\\[\\]{}\",:0-9eE.+\\-\\\\u tfnrals]{0,40}"]
}

/// An id as we would print it ourselves.
fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        any::<i64>().prop_map(Id::Integer),
        "[1-9][0-9]{19,30}".prop_map(|digits| Id::Large(digits.into())),
        ".{0,12}".prop_map(|text| Id::Text(text.into())),
    ]
}

const SPACE: &str = "[ \t\n\r]{0,2}";

proptest! {
    #[test]
    fn the_walker_takes_what_the_grammar_takes(text in almost_json()) {
        let walked = Walker::new(text.as_bytes()).whole();
        if !matches!(walked, Err(Fault::TooDeep { .. })) {
            prop_assert_eq!(walked.is_ok(), serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        }
    }

    /// wire: MSG-3, MSG-7
    #[test]
    fn a_message_under_another_id_and_back_is_what_it_was(
        (first, other) in (id(), id()),
        (space, more) in (SPACE, SPACE),
        (extra, params) in (value(), btree_map("[a-z]{1,4}", value(), 0..3)),
    ) {
        let params = Value::Object(params.into_iter().collect::<Map<_, _>>());
        let text = format!(
            "{{{space}\"x-{more}\":{extra},\"id\":{space}{first}{more},\"jsonrpc\":\"2.0\",{space}\"method\":\"a/b\",\"params\":{params}{more}}}",
            space = space, more = more.replace(['\n', '\t', '\r'], " "),
        );
        let message = parse_one(Bytes::from(text.clone())).unwrap();
        prop_assert_eq!(message.id(), Some(&first));
        let moved = message.with_id(&other);
        prop_assert_eq!(moved.id(), Some(&other));
        let again = parse_one(moved.text().clone()).unwrap();
        prop_assert_eq!(again.id(), Some(&other));
        prop_assert_eq!(again.payload(), message.payload());
        let back = again.with_id(&first);
        prop_assert_eq!(back.text(), text.as_bytes());
        let params = message.with_payload(b"{}").with_payload(params.to_string().as_bytes());
        prop_assert_eq!(params.text(), text.as_bytes());
    }

    /// wire: MSG-7
    #[test]
    fn patches_agree_with_a_parser(
        object in btree_map("[a-c\"]{0,2}", value(), 0..4),
        name in "[a-c\"]{0,2}",
        new in value(),
    ) {
        let object = Value::Object(object.into_iter().collect());
        let text = object.to_string();
        let found = patch::get(text.as_bytes(), &[&name]);
        let found = found.map(|text| serde_json::from_slice::<Value>(text).unwrap());
        prop_assert_eq!(found.as_ref(), object.get(&name));
        let mut want = object.clone();
        want[&name] = new.clone();
        let put = patch::put(text.as_bytes(), &[], &name, new.to_string().as_bytes()).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&put).unwrap(), want.clone());
        let replaced = patch::replace(text.as_bytes(), &[&name], new.to_string().as_bytes());
        prop_assert_eq!(replaced.is_some(), found.is_some());
        if let Some(replaced) = replaced {
            prop_assert_eq!(serde_json::from_slice::<Value>(&replaced).unwrap(), want);
        }
    }

    #[test]
    fn no_text_panics_the_envelope(text in prop_oneof![almost_json().prop_map(String::into_bytes), vec(any::<u8>(), 0..60)]) {
        drive::jsonrpc(&text);
    }

    #[test]
    fn server_legacy_keeps_its_promises(bytes in vec(any::<u8>(), 0..400)) {
        drive::server_legacy(&bytes);
    }

    #[test]
    fn server_modern_keeps_its_promises(bytes in vec(any::<u8>(), 0..400)) {
        drive::server_modern(&bytes);
    }

    #[test]
    fn client_legacy_keeps_its_promises(bytes in vec(any::<u8>(), 0..400)) {
        drive::client_legacy(&bytes);
    }

    #[test]
    fn client_modern_keeps_its_promises(bytes in vec(any::<u8>(), 0..400)) {
        drive::client_modern(&bytes);
    }

    #[test]
    fn client_to_modern_keeps_its_promises(bytes in vec(any::<u8>(), 0..400)) {
        drive::client_to_modern(&bytes);
    }

    #[test]
    fn client_to_legacy_keeps_its_promises(bytes in vec(any::<u8>(), 0..400)) {
        drive::client_to_legacy(&bytes);
    }
}
