//! What the binary says to people, and how it ends.

use std::net::TcpListener;

use serde_json::Value;

use crate::process::run;

#[test]
fn help_teaches_with_examples() {
    let top = run(&["--help"], &[]);
    assert_eq!(top.code, Some(0));
    assert!(top.stdout.contains("switchboard bridge --stdio"), "{}", top.stdout);
    let bridge = run(&["bridge", "--help"], &[]);
    assert_eq!(bridge.code, Some(0));
    for text in [
        "switchboard bridge [OPTIONS] -- <CMD> [ARG]...",
        "switchboard bridge https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'",
        "the server keeps no state for a client",
        "[default: http-first]",
        "Exit status:",
    ] {
        assert!(bridge.stdout.contains(text), "no {text:?} in {}", bridge.stdout);
    }
    assert_eq!(bridge.stderr, "");
    let demo = run(&["demo", "--help"], &[]);
    assert!(demo.stdout.contains("switchboard demo --http --port 8000"), "{}", demo.stdout);
}

#[test]
fn every_command_has_a_manual_page_with_its_examples() {
    let folder = format!("{}/man/man1", env!("CARGO_TARGET_TMPDIR"));
    let done = run(&["man", &folder], &[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{}", done.stderr);
    for (page, example) in [
        ("switchboard", "switchboard serve \\-\\-config mcp.json"),
        ("switchboard-call", "switchboard call "),
        ("switchboard-config-check", ""),
    ] {
        let text = std::fs::read_to_string(format!("{folder}/{page}.1")).unwrap();
        let (_, examples) = text.split_once(".SH EXAMPLES\n").unwrap_or_default();
        assert!(examples.contains(example), "{page}: {text}");
    }
}

#[test]
fn every_command_teaches_by_examples_of_its_own() {
    let top = run(&["--help"], &[]).stdout;
    let commands = top.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let commands: Vec<_> = commands.filter(|line| !line.starts_with("   ")).collect();
    assert!(commands.len() >= 14, "{commands:?}");
    for line in commands {
        let command = line.split_whitespace().next().unwrap();
        let help = run(&[command, "--help"], &[]).stdout;
        let examples = help.split("Examples:").nth(1).unwrap_or_default();
        let example = format!("switchboard {command} ");
        assert!(examples.contains(&example), "no example of {command} in {help}");
    }
    let call = run(&["call", "--help"], &[]).stdout;
    assert!(call.contains("switchboard call [OPTIONS] TARGET NAME [K=V | K:=JSON]..."), "{call}");
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = run(&["--version"], &[]);
    assert_eq!(version.code, Some(0));
    assert_eq!(version.stdout, format!("switchboard {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_public_url_is_checked_like_that_of_a_file() {
    // wire: OR-4
    for url in
        ["gw.example", "ftp://gw.example", "https://gw.example/?a=b", "https://gw.example/#a", ""]
    {
        let serve = ["serve", "--public-url", url, "--check"];
        let bridge = ["bridge", "--port", "0", "--public-url", url, "--stdio", "true"];
        for words in [&serve[..], &bridge] {
            let run = run(words, &[]);
            assert_eq!(run.code, Some(2), "{words:?}: {}", run.stderr);
            assert!(run.stderr.contains("https://mcp.example.com"), "{words:?}: {}", run.stderr);
        }
    }
}

#[test]
fn wrong_usage_ends_with_two_and_says_where_help_is() {
    for args in [
        &["bridge"][..],
        &["bridge", "http://127.0.0.1:1/mcp", "--stdio", "true"],
        &["bridge", "--stdio", "true", "--", "true"],
        &["bridge", "http://127.0.0.1:1/mcp", "--env", "A=b"],
        &["bridge", "--stdio", "true", "--header", "A: b"],
        &["bridge", "--stdio", "true", "--host", "127.0.0.1"],
        &["bridge", "--stdio", "true", "--port", "70000"],
        &["bridge", "http://127.0.0.1:1/mcp", "--transport", "carrier-pigeon"],
        &["bridge", "--children", "adopted", "--", "true"],
        &["demo", "--era", "bronze"],
        &["demo", "--revision", "2024-10-07"],
        &["demo", "--era", "legacy", "--revision", "2025-06-18"],
        &["bridgee"],
        &[],
    ] {
        let wrong = run(args, &[]);
        assert_eq!(wrong.code, Some(2), "{args:?}: {}", wrong.stderr);
        assert!(wrong.stderr.contains("--help"), "{args:?}: {}", wrong.stderr);
        assert_eq!(wrong.stdout, "", "{args:?}");
    }
}

#[test]
fn a_command_that_is_not_there_fails_the_start() {
    fails_with(
        1,
        &["bridge", "--", "no-such-program-here"],
        "error: no-such-program-here is in no directory of PATH",
        "hint: ",
    );
    fails_with(
        1,
        &["bridge", "--stdio", "./absent a b", "--port", "0"],
        "error: there is no file",
        "hint: ",
    );
    fails(
        &["bridge", "--stdio", "'open"],
        "error: quote ' at character 1",
        "hint: quote the whole",
    );
    fails_with(
        1,
        &["bridge", "--cwd", "/no/such/place", "--", "true"],
        "error: working directory",
        "hint: ",
    );
}

#[test]
fn a_url_that_is_none_fails_the_start() {
    fails(&["bridge", "example.com/mcp"], "error: \"example.com/mcp\" is not", "hint: write it in");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/empty.json");
    let shown = fails(
        &["bridge", "npx", "--config", file],
        "error: no configuration file names a server \"npx\"",
        "hint: looked into",
    );
    assert!(shown.contains("a command after --"), "{shown}");
    let shown = fails(&["bridge", "http://me:secret@127.0.0.1/"], "error: the URL", "hint: send");
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_header_that_cannot_be_sent_fails_the_start() {
    let url = "http://127.0.0.1:1/mcp";
    let ours = "error: header mcp-session-id is set by switchboard";
    fails(
        &["bridge", url, "--header", "Mcp-Session-Id: 1"],
        ours,
        "hint: leave mcp-session-id out",
    );
    let unset = "error: header x-key needs the environment variable NOT_SET_ANYWHERE";
    fails(&["bridge", url, "-H", "X-Key: ${NOT_SET_ANYWHERE}"], unset, "hint: export NOT_SET");
    let shown =
        fails(&["bridge", url, "--header", "secret"], "error: a header has no", "hint: write");
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_file_without_certificates_fails_the_start() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let url = "https://127.0.0.1:1/mcp";
    fails(
        &["bridge", url, "--ca-file", here],
        "error: no certificate in the file",
        "hint: look into",
    );
    fails(
        &["bridge", url, "--ca-file", "/no/such.pem"],
        "error: cannot read /no/such.pem",
        "hint: ",
    );
}

#[test]
fn a_port_in_use_fails_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let error = format!("error: cannot listen on 127.0.0.1 port {port}");
    fails_with(
        1,
        &["bridge", "--stdio", "true", "--port", &port],
        &error,
        "hint: stop the program",
    );
}

/// Whoever sends no key, or an empty one, would be let in.
#[test]
fn an_empty_key_fails_the_start() {
    for key in ["", " ", "${EMPTY:-}"] {
        let line = ["bridge", "--stdio", "true", "--port", "0", "--api-key", key];
        fails(&line, "error: the API key is empty", "hint: give a key");
    }
}

/// As in a file: fewer characters can be guessed.
#[test]
fn a_short_key_fails_the_start_of_a_gateway() {
    for key in ["", "twelve chars", "  fifteen chars    ", "${NONE:-short}"] {
        let line = ["serve", "--port", "0", "--no-cache", "--api-key", key];
        let hint = "hint: make one with: switchboard key new";
        fails_with(2, &line, "error: --api-key has fewer than 16 characters", hint);
    }
}

#[test]
fn two_servers_of_one_name_fail_the_start() {
    let named = |name| ["--named-server", name, "true"];
    let line = |name| [&["bridge", "--port", "0"][..], &named("a"), &named(name)].concat();
    fails(&line("a"), "error: two servers are called \"a\"", "hint: give each");
    fails(&line(""), "error: a named server has no name", "hint: write");
}

/// Ends like wrong usage, and says nothing but an error of one line and hints; returns it.
#[track_caller]
fn fails(args: &[&str], error: &str, hint: &str) -> String {
    fails_with(2, args, error, hint)
}

/// The same with another status. A script reads one line of JSON.
#[track_caller]
fn fails_with(status: i32, args: &[&str], error: &str, hint: &str) -> String {
    let failed = run(&[&["--log-level", "error"], args].concat(), &[]);
    assert_eq!(failed.code, Some(status), "{args:?}: {}", failed.stderr);
    assert_eq!(failed.stdout, "", "{args:?}");
    let line: Value = serde_json::from_str(&failed.stderr).unwrap();
    let told = &line["error"];
    let kind = if status == 2 { "usage" } else { "other" };
    assert_eq!(told["kind"], kind, "{line}");
    let message = format!("error: {}", told["message"].as_str().unwrap());
    assert!(message.starts_with(error), "{line}");
    let first = format!("hint: {}", told["hints"][0].as_str().unwrap());
    assert!(first.starts_with(hint), "{line}");
    failed.stderr
}
