//! Whatever a value holds, it arrives, and only that value passes.

use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_proto::header::{Mirror, decode_value, encode_value, param};

proptest! {
    // wire: HDR-10, HDR-11
    #[test]
    fn encoded_value_comes_back(text in text()) {
        let encoded = encode_value(&text);
        prop_assert!(encoded.as_bytes().iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
        prop_assert_eq!(decode_value(&encoded).unwrap(), text);
    }

    // wire: HDR-3, HDR-11
    #[test]
    fn only_the_name_that_was_written_passes(name in text(), other in text()) {
        let mirror = Mirror { version: "v", method: "m", name: Some(&name) };
        let mut headers = HeaderMap::new();
        mirror.write(&mut headers);
        prop_assert_eq!(mirror.check(&headers), Ok(()));
        let another = Mirror { name: Some(&other), ..mirror };
        prop_assert_eq!(another.check(&headers).is_ok(), name == other);
    }

    // wire: HDR-9, HDR-11
    #[test]
    fn only_the_arguments_that_were_written_pass(one in argument(), other in argument()) {
        let annotations = param::annotations(&json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "A"},
        }})).unwrap();
        let (one, other) = (json!({"a": one}), json!({"a": other}));
        let headers: HeaderMap = param::headers(&annotations, Some(&one)).into_iter().collect();
        prop_assert_eq!(param::check(&annotations, Some(&one), &headers), Ok(()));
        // `1` and `"1"` look the same in a header, so types are left out.
        let same = one["a"] == other["a"] || text_of(&one["a"]) == text_of(&other["a"]);
        let passes = param::check(&annotations, Some(&other), &headers).is_ok();
        prop_assert_eq!(passes, same || other["a"].is_null());
    }

    #[test]
    fn no_header_value_panics(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(header) = http::HeaderValue::from_bytes(&bytes)
            && let Ok(text) = decode_value(&header)
        {
            let again = encode_value(&text);
            prop_assert_eq!(decode_value(&again).unwrap(), text);
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{0,2}",
        "[ \t]?[ -~]{0,12}[ \t]?",
        "\\PC{0,12}",
        "(=\\?base64\\?|)[A-Za-z0-9+/]{0,8}={0,2}(\\?=|)",
        any::<String>(),
    ]
}

fn argument() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ]
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}
