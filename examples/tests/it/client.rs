//! The example that calls.

use crate::process::{STDIO, Served, output};

const CALL: &str = env!("CARGO_BIN_EXE_call");

#[test]
fn the_client_calls_a_command() {
    let said = output(CALL, &[STDIO, "count", r#"{"text": "one two", "what": "words"}"#]);
    assert!(said.starts_with("speaks 2026-07-28\nhas \"count\"\nat 0\n"), "{said}");
    assert!(said.contains(r#"{\"count\":2}"#), "{said}");
}

#[test]
fn the_client_calls_a_url_and_answers_its_question() {
    let served = Served::start(env!("CARGO_BIN_EXE_serve_http"));
    let said = output(CALL, &[&served.url, "greet"]);
    assert!(said.contains("asked: \"What is your name?\""), "{said}");
    assert!(said.contains("Hello, Ada!"), "{said}");
}
