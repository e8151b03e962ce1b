//! The commands that call a server.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::named::Home;
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
    assert_eq!(run.stdout, "", "it is told once");
    let (code, error) = failed(&run);
    assert_eq!(
        (code, &error["kind"], &error["message"]),
        (Some(5), &json!("tool"), &json!("it did not work"))
    );
    let whole = local(&["call", "fail", "--output", "json"]);
    let result: Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!((whole.code, &result["isError"]), (Some(5), &json!(true)));
}

/// The built-in server has tools with schemas.
fn demo(args: &[&str]) -> Run {
    run(&[args, &["--", env!("CARGO_BIN_EXE_switchboard"), "demo"]].concat(), &[])
}

#[test]
fn an_argument_has_the_type_that_the_schema_says() {
    let sum = demo(&["call", "add", "a=1", "b=2"]);
    assert_eq!((sum.code, sum.stdout.as_str(), sum.stderr.as_str()), (Some(0), "3", ""));
    let echo = demo(&["call", "echo", "message=1"]);
    assert_eq!((echo.code, echo.stdout.as_str()), (Some(0), "1"));
    let (code, error) = failed(&demo(&["call", "add", "a=one", "b=2"]));
    assert_eq!((code, &error["kind"]), (Some(2), &json!("usage")));
    assert_eq!(error["message"], "a wants number, which \"one\" is not");
    let (_, error) = failed(&demo(&["call", "echo", "mesage=hi"]));
    assert_eq!(error["hints"][0], "did you mean \"message\"?");
}

#[test]
fn a_call_that_fails_says_what_to_change() {
    let (code, error) = failed(&demo(&["call", "ecko", "message=hi"]));
    assert_eq!((code, &error["hints"]), (Some(1), &json!(["did you mean \"echo\"?"])));
    let (_, error) = failed(&demo(&["call", "add", "a=1"]));
    let hints = error["hints"].to_string();
    assert!(hints.contains("these arguments are missing: b"), "{error}");
    assert!(hints.contains("switchboard tools TARGET add"), "{error}");
    // The command of a server may hold secrets.
    assert!(!hints.contains(env!("CARGO_BIN_EXE_switchboard")), "{error}");
    let (code, error) = failed(&local(&["call", "hang", "--timeout", "1"]));
    assert_eq!((code, &error["kind"]), (Some(1), &json!("timeout")));
    assert!(error["hints"].to_string().contains("--timeout"), "{error}");
}

#[test]
fn one_tool_is_shown_with_its_arguments_and_a_line_to_type() {
    let shown = demo(&["tools", "add"]);
    let example = concat!("switchboard call add a=1 b=1 -- ", env!("CARGO_BIN_EXE_switchboard"));
    for text in ["Adds two numbers", "a         number  yes", example] {
        assert!(shown.stdout.contains(text), "no {text:?} in {}", shown.stdout);
    }
    let json: Value = serde_json::from_str(&demo(&["tools", "add", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["name"], "add");
    let (code, error) = failed(&demo(&["tools", "ad"]));
    assert_eq!((code, &error["message"]), (Some(1), &json!("there is no tool \"ad\"")));
}

#[test]
fn pictures_and_sound_are_saved_where_the_user_says() {
    let home = Home::new();
    let folder = home.path.join("pictures");
    let place = folder.to_str().unwrap();
    for (tool, file, start) in [
        ("test_image_content", "test_image_content-1.png", &b"\x89PNG"[..]),
        ("test_image_content", "test_image_content-2.png", b"\x89PNG"),
        ("test_audio_content", "test_audio_content-1.wav", b"RIFF"),
    ] {
        let saved = demo(&["call", tool, "--save", place]);
        assert_eq!(saved.code, Some(0), "{}", saved.stderr);
        assert!(saved.stdout.contains(file), "{}", saved.stdout);
        assert!(std::fs::read(folder.join(file)).unwrap().starts_with(start), "{file}");
    }
    let prompt = demo(&["prompt", "test_prompt_with_image", "--save", place]);
    assert_eq!(prompt.code, Some(0), "{}", prompt.stderr);
    assert!(prompt.stdout.contains("test_prompt_with_image-1.png"), "{}", prompt.stdout);
    for args in [&["tools"][..], &["complete", "prompt:p", "a"], &["listen"]] {
        let (code, error) = failed(&demo(&[args, &["--save", place]].concat()));
        assert_eq!(code, Some(2), "{args:?}: {error}");
    }
}

#[test]
fn wrong_usage_ends_with_two() {
    for args in [&["call"][..], &["call", "echo", "text"], &["read"], &["tools", "one", "more"]] {
        let (code, error) = failed(&local(args));
        assert_eq!((code, &error["kind"]), (Some(2), &json!("usage")), "{args:?}");
    }
    // What is wrong is said before anybody is called.
    let gone = "http://127.0.0.1:1/mcp";
    for args in [&["call", gone, "echo", "text"][..], &["read", gone], &["listen", gone, "tols"]] {
        let (code, error) = failed(&run(args, &[]));
        assert_eq!((code, &error["kind"]), (Some(2), &json!("usage")), "{args:?}");
    }
    let (code, error) = failed(&run(&["tools"], &[]));
    assert_eq!((code, &error["message"]), (Some(2), &json!("no server is named")));
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
        assert_eq!((code, &error["kind"]), (Some(2), &json!("usage")), "{args:?}");
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

/// Both transports are tried, and say the same.
#[test]
fn a_path_without_a_server_is_told_once() {
    let (_bridge, port) = Switchboard::serve(&[]);
    let url = format!("http://127.0.0.1:{port}/nowhere");
    let (code, error) = failed(&run(&["tools", &url], &[]));
    assert_eq!((code, &error["status"]), (Some(4), &json!(404)));
    let told = "HTTP 404: there is nothing here; the MCP endpoint is /mcp";
    assert_eq!(error["message"], told);
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
