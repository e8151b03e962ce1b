//! Schemas with their annotations, and arguments against headers.

use super::super::tests::parse;
use super::*;
use serde_json::json;

// wire: HDR-6, HDR-7
#[test]
fn annotations_are_found_through_properties() {
    schema(
        json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
            "page": {"type": "object", "properties": {
                "limit": {"type": "integer", "x-mcp-header": "Limit"},
                "size": {"type": "number"},
            }},
        }}),
        "mcp-param-dry-run at dry
         mcp-param-limit at page.limit
         mcp-param-region at region",
    );
}

#[test]
fn schema_without_annotations_is_fine() {
    schema(json!({"type": "object", "items": [{"oneOf": [true]}]}), "");
    schema(json!(true), "");
}

// wire: HDR-7
#[test]
fn what_only_looks_like_an_annotation_is_none() {
    schema(
        json!({
            "default": {"x-mcp-header": "A"},
            "examples": [{"x-mcp-header": "A"}],
            "properties": {
                "x-mcp-header": {"type": "string", "const": {"x-mcp-header": "A"}},
                "b": {"enum": [{"x-mcp-header": "A"}]},
            },
            "$defs": {"x-mcp-header": {"properties": {"x-mcp-header": {"type": "string"}}}},
        }),
        "",
    );
}

// wire: HDR-7, DIV-9
#[test]
fn annotation_beyond_properties_makes_the_tool_invalid() {
    let annotated = json!({"type": "string", "x-mcp-header": "A"});
    let misplaced = "x-mcp-header is used outside of properties";
    for keyword in ["items", "additionalProperties", "not", "if", "then", "else", "contains"] {
        schema(json!({"properties": {"a": {keyword: annotated}}}), misplaced);
        schema(json!({keyword: {"properties": {"a": annotated}}}), misplaced);
    }
    for keyword in ["oneOf", "anyOf", "allOf", "prefixItems"] {
        schema(json!({"properties": {"a": {keyword: [annotated]}}}), misplaced);
    }
    for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas"] {
        schema(json!({keyword: {"a": annotated}}), misplaced);
    }
    schema(annotated, misplaced);
}

// wire: HDR-7, DIV-8
#[test]
fn annotation_needs_a_type_with_one_way_to_write_it() {
    for kind in [json!("number"), json!("object"), json!("array"), json!(["string", "null"])] {
        schema(
            json!({"properties": {"a": {"type": kind, "x-mcp-header": "A"}}}),
            r#"x-mcp-header "A" is on something else than a string, integer or boolean"#,
        );
    }
}

// wire: HDR-7
#[test]
fn annotation_must_be_a_header_name() {
    for name in
        [json!(""), json!("a b"), json!("a:b"), json!("a\n"), json!("ä"), json!(1), json!({})]
    {
        let expected = format!("x-mcp-header {name} is no header name");
        schema(json!({"properties": {"a": {"type": "string", "x-mcp-header": name}}}), &expected);
    }
}

// wire: HDR-7
#[test]
fn annotations_are_unique_whatever_their_case() {
    schema(
        json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"properties": {"c": {"type": "string", "x-mcp-header": "REGION"}}},
        }}),
        r#"x-mcp-header "REGION" is used twice"#,
    );
}

#[test]
fn number_of_annotations_is_bounded() {
    let property =
        |n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("P{n}")}));
    let with = |n: usize| json!({"properties": (0..n).map(property).collect::<Map<_, _>>()});
    assert_eq!(annotations(&with(64)).unwrap().len(), 64);
    schema(with(65), "x-mcp-header is used more than 64 times");
}

// wire: HDR-9, HDR-10
#[test]
fn arguments_become_headers() {
    written(
        json!({"s": "a", "b": true, "n": {"i": -7}}),
        "mcp-param-b: true\nmcp-param-i: -7\nmcp-param-s: a",
    );
    written(
        json!({"s": "世界", "n": {"i": 42.0}}),
        "mcp-param-i: 42\nmcp-param-s: =?base64?5LiW55WM?=",
    );
    written(json!({"s": null, "n": {}}), "");
    written(json!({"n": {"i": 1.5}}), "");
    written(json!([]), "");
    assert!(headers(&sample(), None).is_empty());
}

// wire: HDR-9, HDR-11
#[test]
fn headers_that_repeat_the_arguments_pass() {
    check(json!({"s": "a"}), "mcp-param-s: a", "agrees");
    check(json!({"s": "世"}), "mcp-param-s: =?base64?5LiW?=", "agrees");
    check(json!({"b": false}), "mcp-param-b: false", "agrees");
    check(json!({}), "", "agrees");
}

// wire: HDR-11
#[test]
fn integers_compare_as_numbers() {
    for (meant, said) in [(json!(42), "42.0"), (json!(42.0), "42"), (json!(4e1), "40")] {
        check(json!({"n": {"i": meant}}), &format!("mcp-param-i: {said}"), "agrees");
    }
    check(json!({"n": {"i": u64::MAX}}), "mcp-param-i: 18446744073709551615", "agrees");
    check(
        json!({"n": {"i": u64::MAX}}),
        "mcp-param-i: 18446744073709551614",
        r#"header mcp-param-i says "18446744073709551614", the body says "18446744073709551615""#,
    );
    let expected = r#"header mcp-param-i says "forty", the body says "40""#;
    check(json!({"n": {"i": 40}}), "mcp-param-i: forty", expected);
}

// wire: HDR-11
#[test]
fn argument_without_its_header_is_a_mismatch() {
    check(json!({"s": ""}), "", "header mcp-param-s is missing");
    check(
        json!({"s": "a"}),
        "mcp-param-s: A",
        r#"header mcp-param-s says "A", the body says "\"a\"""#,
    );
    check(
        json!({"s": "a"}),
        "mcp-param-s: a\nmcp-param-s: a",
        "header mcp-param-s is there more than once",
    );
    check(
        json!({"b": [1]}),
        "mcp-param-b: [1]",
        r#"header mcp-param-b says "[1]", the body says "[1]""#,
    );
}

// wire: DIV-6
#[test]
fn header_for_an_absent_argument_is_ignored() {
    check(json!({"s": null}), "mcp-param-s: a\nmcp-param-s: b", "agrees");
    check(json!({}), "mcp-param-s: =?base64?!?=", "agrees");
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that each test reads as a table")]
fn schema(schema: Value, expected: &str) {
    let seen = match annotations(&schema) {
        Ok(found) => found.iter().map(show).collect::<Vec<_>>().join("\n"),
        Err(invalid) => invalid.to_string(),
    };
    let expected = expected.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(seen, expected, "{schema}");
}

fn show(annotation: &Annotation) -> String {
    format!("{} at {}", annotation.header, annotation.path.join("."))
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that each test reads as a table")]
fn written(arguments: Value, expected: &str) {
    let headers = headers(&sample(), Some(&arguments));
    let lines = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), expected);
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that each test reads as a table")]
fn check(arguments: Value, headers: &str, expected: &str) {
    let outcome = super::check(&sample(), Some(&arguments), &parse(headers));
    assert_eq!(
        outcome.map_or_else(|mismatch| mismatch.to_string(), |()| "agrees".into()),
        expected
    );
}

/// A string `s`, a boolean `b`, and an integer `n.i`.
fn sample() -> Vec<Annotation> {
    let schema = json!({"properties": {
        "s": {"type": "string", "x-mcp-header": "S"},
        "b": {"type": "boolean", "x-mcp-header": "B"},
        "n": {"properties": {"i": {"type": "integer", "x-mcp-header": "I"}}},
    }});
    annotations(&schema).unwrap()
}
