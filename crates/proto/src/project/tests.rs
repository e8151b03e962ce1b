//! What each revision gets to read.

use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::parse_one;

const SERVER: &[u8] = br#"{"name":"n"}"#;

/// wire: MOD-6, MOD-7, CACHE-1, GW-44
#[test]
fn a_modern_result_gets_what_it_lacks_and_keeps_what_it_has() {
    let dress = |text: &str, method| {
        let cache = CacheHints { ttl_ms: 5, public: true };
        let bytes = modern(text.as_bytes(), method, Some(SERVER), cache).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap().to_string()
    };
    let meta = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}}"#;
    assert_eq!(
        dress("{ }", method::LIST_TOOLS),
        format!(r#"{{{meta},"cacheScope":"public","resultType":"complete","ttlMs":5}}"#)
    );
    assert_eq!(
        dress(r#"{"a":1}"#, method::CALL_TOOL),
        format!(r#"{{{meta},"a":1,"resultType":"complete"}}"#)
    );
    let own = r#"{"_meta":{"x":1},"cacheScope":"private","ttlMs":9}"#;
    assert_eq!(
        dress(own, method::READ_RESOURCE),
        r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"},"x":1},"cacheScope":"private","resultType":"complete","ttlMs":9}"#
    );
    let asks = r#"{"resultType":"input_required"}"#;
    assert_eq!(
        dress(asks, method::READ_RESOURCE),
        format!(r#"{{{meta},"resultType":"input_required"}}"#)
    );
    assert_eq!(modern(b"[]", "x", Some(SERVER), CacheHints::default()), Err(no_object()));
    assert_eq!(
        modern(b"{}", "x", None, CacheHints::default()).unwrap(),
        r#"{"resultType":"complete"}"#
    );
}

/// wire: GW-70, GW-73
#[test]
fn a_legacy_result_loses_what_its_client_has_never_heard_of() {
    let strip = |text| to_all("x", text)[3].clone();
    assert_eq!(strip(r#"{"a": 1,"resultType":"complete","ttlMs":0 }"#), r#"{"a": 1}"#);
    assert_eq!(strip(r#"{ "a": 1,"_meta":{"k":[ 1.0]} }"#), r#"{ "a": 1,"_meta":{"k":[ 1.0]} }"#);
    let legacy = legacy(Bytes::from_static(b"7"), "x", Revision::NEWEST_LEGACY, || false);
    assert_eq!(legacy, Err(no_object()));
}

/// wire: GW-70
#[test]
fn structure_is_an_object_or_text_for_who_knows_no_better() {
    let text = r#"{"content":[],"structuredContent":[1, 2]}"#;
    let block = r#""content":[{"text":"[1, 2]","type":"text"}]"#;
    let gone = format!("{{{block}}}");
    let wrapped = format!(r#"{{{block},"structuredContent":{{"result":[1, 2]}}}}"#);
    assert_eq!(to_all(method::CALL_TOOL, text), [&gone, &gone, &wrapped, &wrapped, text]);

    let said = r#"{"content":[{"type":"text","text":"t"}],"structuredContent":{"a":1}}"#;
    let gone = r#"{"content":[{"type":"text","text":"t"}]}"#;
    assert_eq!(to_all(method::CALL_TOOL, said), [gone, gone, said, said, said]);

    let bare = r#"{"structuredContent":{"a":1}}"#;
    let with = r#"{"content":[{"text":"{\"a\":1}","type":"text"}],"structuredContent":{"a":1}}"#;
    assert_eq!(to_all(method::CALL_TOOL, bare)[2..], [with, with, bare]);
}

/// wire: GW-70
#[test]
fn structure_of_a_tool_with_a_wrapped_schema_is_wrapped_though_it_is_an_object() {
    let text = br#"{"content":[{"type":"text","text":"t"}],"structuredContent":{"a":1}}"#;
    let show = |revision| legacy(Bytes::from_static(text), method::CALL_TOOL, revision, || true);
    let fitting =
        br#"{"content":[{"type":"text","text":"t"}],"structuredContent":{"result":{"a":1}}}"#;
    assert_eq!(show(Revision::NEWEST_LEGACY).unwrap(), fitting.as_slice());
    let older = show(Revision::ALL[0]).unwrap();
    assert_eq!(older, br#"{"content":[{"type":"text","text":"t"}]}"#.as_slice());
    for (schema, is_wrapped) in [
        (r#"{"type":"object"}"#, false),
        (r#"{ "type" : "object", "anyOf": [] }"#, false),
        (r#"{"type":"array"}"#, true),
        (r#"{"type":["object","null"]}"#, true),
        (r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}"##, true),
        ("true", true),
    ] {
        assert_eq!(wraps(schema.as_bytes()), is_wrapped, "{schema}");
        let list = format!(r#"{{"tools":[{{"name":"t","outputSchema":{schema}}}]}}"#);
        let shown = to_all(method::LIST_TOOLS, &list)[3].clone();
        assert_eq!(shown.contains("\"result\""), is_wrapped, "{shown}");
    }
}

/// wire: GW-70
#[test]
fn content_of_unknown_kinds_becomes_text() {
    let link = r#"{"type":"resource_link","uri":"x:1","name":"n","annotations":{"priority":1}}"#;
    let audio = r#"{"type":"audio","data":"QQ==","mimeType":"audio/wav"}"#;
    let image = r#"{"type":"image", "data":"QQ==","mimeType":"image/png"}"#;
    let next = r#"{"type":"hologram"}"#;
    let link_text = r#"{"annotations":{"priority":1},"text":"n: x:1","type":"text"}"#;
    let audio_text =
        r#"{"text":"[audio, audio/wav: left out, for this client cannot take it]","type":"text"}"#;
    let next_text = r#"{"text":"{\"type\":\"hologram\"}","type":"text"}"#;
    let content = |blocks: [&str; 4]| format!(r#"{{"content":[{}]}}"#, blocks.join(", "));
    let text = content([link, image, audio, next]);
    let old = content([link_text, image, audio_text, next_text]);
    let mid = content([link_text, image, audio, next_text]);
    let new = content([link, image, audio, next_text]);
    assert_eq!(to_all(method::CALL_TOOL, &text)[..4], [&*old, &mid, &new, &new]);

    let prompt = |block: &str| format!(r#"{{"messages":[{{"role":"user","content":{block}}}]}}"#);
    let shown = to_all(method::GET_PROMPT, &prompt(audio));
    assert_eq!(shown[..2], [prompt(audio_text), prompt(audio)]);
}

/// wire: GW-70
#[test]
fn output_schemas_are_wrapped_like_the_structure_they_describe() {
    let list = |output: &Value| json!({"tools": [{"name": "t", "outputSchema": output}]});
    let output = json!({
        "$schema": "s", "type": "array", "items": {"$ref": "#/$defs/a"},
        "$defs": {
            "a": {"$dynamicRef": "#"},
            "const": {"$ref": "#/x", "const": {"$ref": "#/y"}, "default": {"$ref": "#/z"}},
            "own": {"$id": "i", "$ref": "#/$defs/b"},
            "named": {"$ref": "#anchor"},
        },
    });
    let shown = to_all(method::LIST_TOOLS, &list(&output).to_string());
    let bare = json!({"tools": [{"name": "t"}]}).to_string();
    assert_eq!([&shown[0], &shown[1]], [&bare, &bare]);
    let wrapped: Value = serde_json::from_str(&shown[2]).unwrap();
    let moved = json!({
        "type": "array", "items": {"$ref": "#/properties/result/$defs/a"},
        "$defs": {
            "a": {"$dynamicRef": "#/properties/result"},
            "const": {"$ref": "#/properties/result/x",
                      "const": {"$ref": "#/y"}, "default": {"$ref": "#/z"}},
            "own": {"$id": "i", "$ref": "#/$defs/b"},
            "named": {"$ref": "#anchor"},
        },
    });
    let whole = json!({
        "$schema": "s", "type": "object", "properties": {"result": moved}, "required": ["result"],
    });
    assert_eq!(wrapped, list(&whole));
    let plain = list(&json!({"type": "object"})).to_string();
    assert_eq!(to_all(method::LIST_TOOLS, &plain)[3], plain);
}

/// wire: GW-44
#[test]
fn what_the_modern_era_has_dropped_is_not_listed_there() {
    let list = br#"{"tools":[{"name":"t","execution":{"taskSupport":"optional"}},{"name":"u"}]}"#;
    let list = Bytes::from_static(list);
    let shown = without_dropped(list, method::LIST_TOOLS);
    assert_eq!(shown, r#"{"tools":[{"name":"t"},{"name":"u"}]}"#);
}

/// wire: GW-58, GW-72, ERR-4, DIV-16
#[test]
fn codes_mean_the_same_on_both_sides() {
    let error = |code: i64| format!(r#"{{"code":{code},"message":"m","data":{{"uri":"x:1"}}}}"#);
    let answer = |error: &str| {
        parse_one(format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#).into()).unwrap()
    };
    let to_modern = |code| error_for_modern(&answer(&error(code))).payload_bytes();
    assert_eq!(to_modern(-32002), error(-32602));
    assert_eq!(to_modern(-32042), error(-32603));
    assert_eq!(to_modern(-32021), error(-32603));
    for same in [-32602, -32601, -1, 7] {
        assert_eq!(to_modern(same), error(same));
    }
    let legacy = |error: &str, method| error_for_legacy(&answer(error), method).payload_bytes();
    let to_legacy = |code, method| legacy(&error(code), method);
    assert_eq!(to_legacy(-32602, method::READ_RESOURCE), error(-32002));
    assert_eq!(to_legacy(-32602, method::CALL_TOOL), error(-32602));
    let nameless = r#"{"code":-32602}"#;
    assert_eq!(legacy(nameless, method::READ_RESOURCE), nameless);
    assert_eq!(to_legacy(-32022, method::CALL_TOOL), error(-32603));
}

/// What each revision gets, oldest first.
fn to_all(method: &str, text: &str) -> [String; 5] {
    Revision::ALL.map(|revision| {
        if revision == Revision::NEWEST_MODERN {
            return text.to_owned();
        }
        let shown =
            legacy(Bytes::copy_from_slice(text.as_bytes()), method, revision, || false).unwrap();
        String::from_utf8(shown.to_vec()).unwrap()
    })
}
