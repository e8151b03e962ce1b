//! What is logged, where, and in which shape.

use serde_json::{Value, json};

use crate::process::{SERVER, Switchboard, run};

/// wire: STD-2, STD-3
#[test]
fn log_lines_go_to_stderr_and_stdout_stays_clean() {
    let args = [&["bridge", "--log-level", "debug", "--"], &SERVER[..]].concat();
    let mut switchboard = Switchboard::start(&args);
    switchboard.greet();
    assert_eq!(switchboard.call(1, "echo", &json!({"text": "hello"})), "hello");
    let line = switchboard.until_logged("server started");
    assert_eq!(shape(&line), "[0000-00-00T00:00:00.000Z] [INFO] [python3] server started");
    switchboard.close_stdin();
    assert_eq!(switchboard.exit_code(), Some(0));
}

#[test]
fn the_way_of_a_message_is_logged_on_request() {
    let args = [&["--log-level", "trace", "bridge", "--"], &SERVER[..]].concat();
    let mut switchboard = Switchboard::start(&args);
    switchboard.greet();
    switchboard.call(1, "echo", &json!({"text": "a secret"}));
    let steps = [
        "[TRACE] [connection] from the client",
        "[TRACE] [python3] to the server",
        "[TRACE] [python3] from the server",
        "[TRACE] [python3] to the client",
    ];
    for step in steps {
        switchboard.until_logged(step);
    }
    switchboard.close_stdin();
    assert_eq!(switchboard.exit_code(), Some(0));
    assert!(!switchboard.logged.iter().any(|line| line.contains("a secret")));
}

#[test]
fn json_lines_have_the_same_parts() {
    let run = run(&["bridge", "--log-format", "json", "--", "true"], &[]);
    assert_eq!(run.stdout, "");
    let first: Value = serde_json::from_str(run.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(first["level"], "INFO");
    assert_eq!(first["component"], "true");
    assert_eq!(shape(first["timestamp"].as_str().unwrap()), "0000-00-00T00:00:00.000Z");
}

#[test]
fn log_level_is_read_from_the_environment_and_never_fatal() {
    let args = ["bridge", "--", "true"];
    assert!(run(&args, &[]).stderr.contains("[INFO]"));
    assert_eq!(run(&args, &[("LOG_LEVEL", "error")]).stderr, "");
    assert!(run(&args, &[("LOG_LEVEL", "error"), ("RUST_LOG", "info")]).stderr.contains("[INFO]"));
    let odd = run(&args, &[("LOG_LEVEL", "verbose")]);
    assert_eq!(odd.code, Some(0));
    assert!(
        odd.stderr.contains("[WARN] [log] LOG_LEVEL is ignored: \"verbose\""),
        "{}",
        odd.stderr
    );
}

#[test]
fn listening_for_other_machines_is_warned_about() {
    let args = ["bridge", "--stdio", "true", "--host", "0.0.0.0", "--port", "0"];
    let mut switchboard = Switchboard::start(&args);
    let line = switchboard.until_logged("there is no authentication");
    assert!(line.contains("[WARN] [web] 0.0.0.0:"), "{line}");
    // The URL on stdout is one that can be used.
    switchboard.port();
}

/// Digits as zeros.
fn shape(line: &str) -> String {
    let (time, rest) = line.split_at(line.find('Z').unwrap_or(0));
    let zeros = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
    zeros.chain(rest.chars()).collect()
}
