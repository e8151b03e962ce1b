//! What users write, and what is sent or said.

use super::*;

#[test]
fn variables_are_replaced_in_all_three_spellings() {
    assert_eq!(sent("X-Key: ${KEY}"), "x-key: secret");
    assert_eq!(sent("X-Key:${env:KEY}"), "x-key: secret");
    assert_eq!(sent("X-Key: a-${KEY}-${NOPE:-b}"), "x-key: a-secret-b");
    assert_eq!(sent("X-Key: ${env:NOPE:-}"), "x-key: ");
}

#[test]
fn a_default_also_stands_in_for_an_empty_variable() {
    assert_eq!(sent("X: ${EMPTY:-other}"), "x: other");
    assert_eq!(sent("X: [${EMPTY}]"), "x: []");
}

#[test]
fn what_a_variable_contains_is_not_expanded_again() {
    assert_eq!(sent("X: ${NESTED}"), "x: ${KEY}");
}

#[test]
fn a_lone_dollar_and_later_colons_are_kept() {
    assert_eq!(sent("X: $5 at 10:30"), "x: $5 at 10:30");
}

#[test]
fn the_user_may_authorize() {
    assert_eq!(sent("Authorization: Bearer ${KEY}"), "authorization: Bearer secret");
}

#[test]
fn a_missing_variable_is_named() {
    let error = merge(HeaderMap::new(), &["X-Key: ${NOPE}".to_owned()], lookup).unwrap_err();
    assert_eq!(
        error.to_string(),
        "error: header x-key needs the environment variable NOPE, which is not set\n\
         hint: export NOPE=…, or give a default: ${NOPE:-value}\n"
    );
}

#[test]
fn headers_of_the_protocol_and_of_the_framing_are_refused() {
    for name in [
        "Accept",
        "content-type",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Last-Event-ID",
        "Content-Length",
        "Transfer-Encoding",
    ] {
        let error = merge(HeaderMap::new(), &[format!("{name}: x")], lookup).unwrap_err();
        assert!(error.to_string().contains("is set by switchboard"), "{name}: {error}");
    }
}

#[test]
fn no_error_repeats_a_value() {
    for text in ["secret", "Bad Name: secret", "X: secret\u{1}", "X: ${secret", "X: ${}secret"] {
        let error = merge(HeaderMap::new(), &[text.to_owned()], lookup).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}

#[test]
fn later_headers_replace_earlier_ones_and_the_base() {
    let given = ["X-A: 1", "x-a: 2", "User-Agent: mine"].map(ToOwned::to_owned);
    let headers = merge(HeaderMap::new(), &given, lookup).unwrap();
    assert_eq!(headers["x-a"], "2");
    assert_eq!(headers["user-agent"], "mine");
    assert_eq!(headers.len(), 2);
    assert_eq!(merge(HeaderMap::new(), &[], lookup).unwrap()["user-agent"], AGENT);
}

#[test]
fn debug_output_shows_no_value() {
    let headers = merge(HeaderMap::new(), &["X-Key: ${KEY}".to_owned()], lookup).unwrap();
    assert!(!format!("{headers:?}").contains("secret"));
}

/// `name: value` of the one header that `text` leads to.
#[track_caller]
fn sent(text: &str) -> String {
    let (name, value) = parse(text, lookup).unwrap();
    format!("{name}: {}", value.to_str().unwrap())
}

fn lookup(name: &str) -> Option<String> {
    let value = match name {
        "KEY" => "secret",
        "EMPTY" => "",
        "NESTED" => "${KEY}",
        _ => return None,
    };
    Some(value.to_owned())
}
