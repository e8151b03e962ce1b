//! Values there and back, and headers against the body they mirror.

use super::*;

// wire: HDR-10, DIV-7
#[test]
fn values_that_a_header_cannot_hold_travel_as_base64() {
    for (text, expected) in [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?base64?open", "=?base64?open"),
        ("a\tb", "a\tb"),
        ("\u{7f}", "=?base64?fw==?="),
        ("", "=?base64??="),
    ] {
        let value = encode_value(text);
        assert_eq!(value, expected, "{text:?}");
        assert_eq!(decode_value(&value).as_deref(), Ok(text));
    }
}

// wire: HDR-5, HDR-11, DIV-7
#[test]
fn values_of_others_are_read() {
    use Unreadable::{ForbiddenByte, NotBase64, NotUtf8};
    for (said, expected) in [
        ("", Ok("")),
        (" \tus-west1 ", Ok("us-west1")),
        ("=?base64?YQliCg==?=", Ok("a\tb\n")),
        ("=?BASE64?YQ==?=", Ok("=?BASE64?YQ==?=")),
        ("=?base64?YQ==", Ok("=?base64?YQ==")),
        ("=?base64?=", Ok("=?base64?=")),
        ("=?base64?YQ?=", Err(NotBase64)),
        ("=?base64?Y!==?=", Err(NotBase64)),
        ("=?base64?-_8=?=", Err(NotBase64)),
        ("=?base64?/w==?=", Err(NotUtf8)),
        ("世界", Err(ForbiddenByte)),
    ] {
        let value = HeaderValue::from_bytes(said.as_bytes()).unwrap();
        assert_eq!(decode_value(&value).as_deref(), expected.as_ref().copied(), "{said:?}");
    }
}

// wire: HDR-1, HDR-2, HDR-3, HDR-5
#[test]
fn headers_that_repeat_the_body_pass() {
    check("MCP-Protocol-Version: v1\nMcp-Method: tools/call\nMCP-NAME: add", "agrees");
    check("mcp-protocol-version:  v1 \nmcp-method: \ttools/call\nmcp-name: add  ", "agrees");
    check("mcp-protocol-version: v1\nmcp-method: tools/call\nmcp-name: =?base64?YWRk?=", "agrees");
}

// wire: HDR-1, HDR-2, HDR-3, HDR-11
#[test]
fn missing_header_is_a_mismatch() {
    check("mcp-method: tools/call\nmcp-name: add", "header mcp-protocol-version is missing");
    check("mcp-protocol-version: v1\nmcp-name: add", "header mcp-method is missing");
    check("mcp-protocol-version: v1\nmcp-method: tools/call", "header mcp-name is missing");
}

// wire: HDR-2, HDR-5, HDR-11
#[test]
fn other_value_is_a_mismatch() {
    check(
        "mcp-protocol-version: v2\nmcp-method: tools/call\nmcp-name: add",
        r#"header mcp-protocol-version says "v2", the body says "v1""#,
    );
    check(
        "mcp-protocol-version: v1\nmcp-method: Tools/call\nmcp-name: add",
        r#"header mcp-method says "Tools/call", the body says "tools/call""#,
    );
    check(
        "mcp-protocol-version: v1\nmcp-method: tools/call\nmcp-name: Add",
        r#"header mcp-name says "Add", the body says "add""#,
    );
    check(
        "mcp-protocol-version: v1\nmcp-method: tools/call\nmcp-name: =?base64?YWR?=",
        "header mcp-name cannot be read: not standard Base64",
    );
}

// wire: HDR-5
#[test]
fn repeated_header_is_a_mismatch_even_if_equal() {
    check(
        "mcp-protocol-version: v1\nmcp-method: tools/call\nmcp-name: add\nMcp-Name: add",
        "header mcp-name is there more than once",
    );
}

// wire: HDR-14
#[test]
fn written_headers_replace_what_was_there_and_agree() {
    let mut headers = parse("mcp-name: old\nmcp-name: older\nmcp-method: old");
    let mirror = Mirror { version: "v1", method: "resources/read", name: Some("file:///ä") };
    mirror.write(&mut headers);
    assert_eq!(mirror.check(&headers), Ok(()));
    assert_eq!(headers[NAME], "=?base64?ZmlsZTovLy/DpA==?=");
    Mirror { name: None, ..mirror }.write(&mut headers);
    assert!(!headers.contains_key(NAME));
}

#[test]
fn error_shows_no_more_of_a_value_than_one_can_read() {
    let long = "x".repeat(100_000);
    let mirror = Mirror { version: "v1", method: "m", name: Some(&long) };
    let headers = parse("mcp-protocol-version: v1\nmcp-method: m\nmcp-name: y");
    let mismatch = mirror.check(&headers).unwrap_err();
    assert!(mismatch.to_string().starts_with("header mcp-name says"));
    assert!(mismatch.to_string().len() < 200);
}

// wire: HDR-15
#[test]
fn users_cannot_override_what_is_ours() {
    for name in ["Authorization", "Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method"] {
        assert!(is_ours(&name.parse().unwrap()), "{name}");
    }
    for name in ["Mcp-Name", "Mcp-Session-Id", "Last-Event-ID"] {
        assert!(is_ours(&name.parse().unwrap()), "{name}");
    }
    for name in ["X-Api-Key", "User-Agent", "Mcp-Param-Region"] {
        assert!(!is_ours(&name.parse().unwrap()), "{name}");
    }
}

/// Checks the headers against a call of the tool `add` at revision `v1`.
#[track_caller]
fn check(headers: &str, expected: &str) {
    let mirror = Mirror { version: "v1", method: "tools/call", name: Some("add") };
    let outcome = mirror.check(&parse(headers));
    assert_eq!(
        outcome.map_or_else(|mismatch| mismatch.to_string(), |()| "agrees".into()),
        expected
    );
}

pub(super) fn parse(headers: &str) -> HeaderMap {
    let pairs = headers.lines().map(|line| line.split_once(": ").unwrap());
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    map
}
