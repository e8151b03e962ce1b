//! The example that calls.

use crate::process::{STDIO, Served, output};

const CALL: &str = env!("CARGO_BIN_EXE_call");

#[test]
fn the_client_calls_a_command() {
    let said = output(CALL, &[STDIO, "count", r#"{"text": "one two", "what": "words"}"#], "");
    assert!(said.starts_with("speaks 2026-07-28\nhas \"count\"\nat 0\n"), "{said}");
    assert!(said.contains(r#"{\"count\":2}"#), "{said}");
}

#[test]
fn the_client_calls_a_url() {
    let served = Served::start(env!("CARGO_BIN_EXE_embed"));
    let said = output(CALL, &[&served.url, "visit"], "");
    assert!(said.contains("You are visitor 1"), "{said}");
}

#[test]
fn a_person_answers_the_question_of_a_server() {
    let served = Served::start(env!("CARGO_BIN_EXE_serve_http"));
    let said = output(env!("CARGO_BIN_EXE_answer"), &[&served.url, "greet"], "Ada\n");
    assert!(said.starts_with("What is your name?\nname:\n"), "{said}");
    assert!(said.contains("Hello, Ada!"), "{said}");
}

#[test]
fn both_ends_speak_in_types() {
    let said = output(env!("CARGO_BIN_EXE_typed"), &[], "");
    let expected = "has book: Books a trip\n\
                    asked: Your trip, please\n  \
                    by train or bus\n  \
                    city \n\
                    a model is asked: What is worth seeing in Oslo?\n\
                    Booking { by: Bus, advice: \"The fjord.\" }\n";
    assert_eq!(said, expected);
}
