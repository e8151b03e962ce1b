//! The commands that call a server.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::process::{Run, SERVER, Switchboard, run};
use crate::upstream::Upstream;

fn local(args: &[&str]) -> Run {
    run(&[args, &["--"], &SERVER].concat(), &[])
}

/// What a run that succeeds prints.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let run = local(args);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{args:?}");
    run.stdout
}

/// The one line of JSON on stderr, and the exit status.
#[track_caller]
fn failed(run: &Run) -> (Option<i32>, Value) {
    let line: Value = serde_json::from_str(&run.stderr)
        .unwrap_or_else(|error| panic!("{error}: {:?}", run.stderr));
    (run.code, line["error"].clone())
}

#[test]
fn lists_are_tables() {
    assert_eq!(printed(&["tools"]), "NAME  DESCRIPTION\necho");
    assert_eq!(printed(&["prompts"]), "NAME  ARGUMENTS  DESCRIPTION\np     a");
    assert_eq!(printed(&["resources"]), "URI        NAME  TYPE\nfile:///a  A");
    let json: Value = serde_json::from_str(&printed(&["tools", "--output", "json"])).unwrap();
    assert_eq!(json["tools"][0]["name"], "echo");
}

#[test]
fn one_thing_is_printed_as_what_it_says() {
    assert_eq!(printed(&["call", "echo", "text=hello"]), "hello");
    assert_eq!(printed(&["prompt", "p", "a=b"]), "user: b");
    assert_eq!(printed(&["read", "file:///a"]), "of file:///a");
    assert_eq!(printed(&["complete", "prompt:p", "a", "x"]), "p\na");
    assert!(printed(&["ping"]).starts_with("answered in "));
    let server = printed(&["discover"]);
    assert!(server.starts_with("server    rude 1\nprotocol  2025-11-25 (legacy)\n"), "{server}");
}

#[test]
fn arguments_are_text_json_or_an_object() {
    let given = printed(&["call", "arguments", "--json", r#"{"a":0,"z":1}"#, "a=1", "b:=[2]"]);
    let given: Value = serde_json::from_str(&given).unwrap();
    assert_eq!(given, json!({"a": "1", "b": [2], "z": 1}));
}

#[test]
fn a_tool_that_fails_ends_with_five() {
    let run = local(&["call", "fail"]);
    assert_eq!(run.stdout, "it did not work");
    let (code, error) = failed(&run);
    assert_eq!(
        (code, &error["kind"], &error["message"]),
        (Some(5), &json!("tool"), &json!("it did not work"))
    );
}

#[test]
fn wrong_usage_ends_with_one() {
    for args in [&["call"][..], &["call", "echo", "text"], &["read"], &["tools", "more"]] {
        let (code, error) = failed(&local(args));
        assert_eq!((code, &error["kind"]), (Some(1), &json!("usage")), "{args:?}");
    }
    // What is wrong is said before anybody is called.
    let gone = "http://127.0.0.1:1/mcp";
    for args in [&["call", gone, "echo", "text"][..], &["read", gone], &["listen", gone, "tols"]] {
        let (code, error) = failed(&run(args, &[]));
        assert_eq!((code, &error["kind"]), (Some(1), &json!("usage")), "{args:?}");
    }
    let (code, error) = failed(&run(&["tools"], &[]));
    assert_eq!((code, &error["message"]), (Some(1), &json!("no server is named")));
    // Not everything takes arguments; who writes this wants results as JSON.
    for args in [&["tools"][..], &["listen", "tools"], &["read", "file:///a"], &["ping"]] {
        let (_, error) = failed(&local(&[args, &["--json", "{}"]].concat()));
        assert_eq!(error["kind"], "usage", "{args:?}");
        assert!(error["hints"].to_string().contains("--output json"), "{error}");
    }
    // Also where it is the parser that complains.
    for args in [
        &["tools", "--bogus"][..],
        &["--log-level", "warn", "tools", gone, "--timeout", "0"],
        &["call", gone, "echo", "--json"],
        &["doctor", "--era", "bronze", gone],
    ] {
        let (code, error) = failed(&run(args, &[]));
        assert_eq!((code, &error["kind"]), (Some(1), &json!("usage")), "{args:?}");
        assert!(error["hints"].to_string().contains("--help"), "{error}");
    }
}

#[test]
fn a_server_that_is_not_there_ends_with_four() {
    let (code, error) = failed(&run(&["tools", "http://127.0.0.1:1/mcp"], &[]));
    assert_eq!((code, &error["kind"]), (Some(4), &json!("unreachable")));
    let (code, error) = failed(&local(&["call", "die"]));
    assert_eq!((code, &error["kind"]), (Some(4), &json!("unreachable")));
    assert!(error["message"].as_str().unwrap().contains("these are my last words"), "{error}");
}

#[test]
fn a_server_that_does_not_let_us_in_ends_with_three() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        _ = stream.read(&mut [0; 4096]).unwrap();
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"who?"}}"#;
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 401 No\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
    });
    let (code, error) = failed(&run(&["tools", &url], &[]));
    server.join().unwrap();
    assert_eq!((code, &error["kind"], &error["status"]), (Some(3), &json!("auth"), &json!(401)));
}

#[test]
fn a_server_that_throws_us_out_later_ends_with_three() {
    let upstream = Upstream::start();
    let (code, error) = failed(&run(&["call", &upstream.url(), "forbidden"], &[]));
    assert_eq!((code, &error["kind"], &error["status"]), (Some(3), &json!("auth"), &json!(401)));
    assert_eq!(error["message"], "HTTP 401: your token is stale");
}

#[test]
fn a_url_is_called_with_the_headers_that_were_given() {
    let upstream = Upstream::start();
    let url = upstream.url();
    let run = run(&["call", &url, "echo", "text=hi", "-H", "X-Key: ${KEY}"], &[("KEY", "k1")]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "hi", ""));
    assert!(upstream.heads().iter().all(|head| head.to_lowercase().contains("x-key: k1")));
}

#[test]
fn a_signal_ends_listening_and_the_server() {
    let args = [&["listen", "tools", "--log-level", "info", "--"][..], &SERVER].concat();
    let mut listening = Switchboard::start(&args);
    listening.until_logged("listening for");
    listening.signal(Signal::TERM);
    assert_eq!(listening.exit_code(), Some(130));
    listening.until_logged("server saw the end of stdin");
}
