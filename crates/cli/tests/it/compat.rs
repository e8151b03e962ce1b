//! The command lines of other bridges, by links of their names.
//!
//! Each tool has a list of lines. A line is started for real and looked at from
//! outside; a flag of the tool's table that is in none of its lines fails the test.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::named::Home;
use crate::process::{Run, SERVER, Switchboard, greeting, server_line, text_of};
use crate::upstream::Upstream;
use crate::web::{Events, Response, post_to, send};

mod mcp_proxy_npm;
mod mcp_proxy_py;
mod mcp_remote;
mod supergateway;
mod switching;

/// One line: the words after the tool's name, with placeholders, and what must
/// come of it.
///
/// `{line}` is the test server's command in one string, `{server}` as words,
/// `{url}` and `{sse}` are servers at URLs, `{proxy}` is one taken for a proxy,
/// `{file}` is a file with `file` in it, and `_` is a blank inside a word.
struct Case {
    line: &'static str,
    vars: &'static [(&'static str, &'static str)],
    file: &'static str,
    check: fn(&mut Stage),
}

impl Case {
    const fn new(line: &'static str, check: fn(&mut Stage)) -> Self {
        Self { line, vars: &[], file: "", check }
    }

    const fn vars(mut self, vars: &'static [(&'static str, &'static str)]) -> Self {
        self.vars = vars;
        self
    }

    const fn file(mut self, file: &'static str) -> Self {
        self.file = file;
        self
    }
}

/// A line that runs, and the servers that it may be about.
struct Stage {
    /// Taken by checks that run it to its end.
    running: Option<Switchboard>,
    url: Upstream,
    _sse: Switchboard,
}

/// Starts every line as `tool`, and looks for flags that none of them has.
#[track_caller]
fn check(tool: &str, cases: &[Case]) {
    let home = Home::new();
    let program = home.path.join(tool);
    symlink(env!("CARGO_BIN_EXE_switchboard"), &program).unwrap();
    let help = Switchboard::start_program(&program, &["--help"], &[]).finish();
    assert_eq!(help.code, Some(0), "{}", help.stderr);
    let mut wanted = flags_of(&help.stdout);
    assert!(wanted.len() > 10, "{}", help.stdout);
    for case in cases {
        for word in case.line.split(' ').take_while(|word| *word != "--") {
            wanted.remove(word.split('=').next().unwrap());
        }
        let mut stage = Stage::start(&program, case, &home);
        (case.check)(&mut stage);
    }
    assert!(wanted.is_empty(), "flags that no line shows: {wanted:?}");
}

/// Every flag that a help names, aliases included.
fn flags_of(help: &str) -> BTreeSet<String> {
    let rows = help.lines().filter(|line| line.starts_with("  -"));
    let words = rows.flat_map(|line| line.trim().split("  ").next().unwrap().split([' ', ',']));
    words.filter(|word| word.starts_with('-')).map(ToOwned::to_owned).collect()
}

impl Stage {
    fn start(program: &std::path::Path, case: &Case, home: &Home) -> Self {
        let url = Upstream::start();
        let (sse, port) = Switchboard::serve(&[]);
        let file = home.write("file", case.file);
        let sse_url = format!("http://127.0.0.1:{port}/sse");
        let filled = |text: &str| {
            text.replace("{line}", &server_line())
                // By name, so that names are looked up.
                .replace("{url}", &url.url().replace("127.0.0.1", "localhost"))
                .replace("{proxy}", url.url().trim_end_matches("/mcp"))
                .replace("{sse}", &sse_url)
                .replace("{file}", &file)
        };
        let mut words = Vec::new();
        for word in case.line.split(' ') {
            match word {
                "{server}" => words.extend(SERVER.map(ToOwned::to_owned)),
                word => words.push(filled(&word.replace('_', " "))),
            }
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let vars: Vec<_> = case.vars.iter().map(|(name, value)| (*name, filled(value))).collect();
        let vars: Vec<_> = vars.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let running = Switchboard::start_program(program, &words, &vars);
        Self { running: Some(running), url, _sse: sse }
    }

    fn running(&mut self) -> &mut Switchboard {
        self.running.as_mut().expect("it was not run to its end")
    }

    /// Runs to its end.
    fn finish(&mut self) -> Run {
        self.running.take().expect("it runs").finish()
    }

    /// Greets and calls on stdin and stdout.
    fn echoes(&mut self) {
        let running = self.running();
        running.greet();
        assert_eq!(running.call(1, "echo", &json!({"text": "hello"})), "hello");
    }

    /// The head of the last request that the server at the URL got.
    fn last_head(&self) -> String {
        self.url.heads().last().cloned().unwrap_or_default().to_ascii_lowercase()
    }

    /// Whether a warning with all of `words` is on stderr.
    fn is_told(&mut self, words: &str) {
        self.running().until_logged(words);
    }
}

/// A session at an endpoint anywhere.
struct Talk {
    port: u16,
    path: String,
    headers: Vec<(&'static str, String)>,
}

impl Talk {
    fn open(port: u16, path: &str, key: Option<&str>) -> Self {
        let mut talk = Self { port, path: path.to_owned(), headers: Vec::new() };
        talk.headers.extend(key.map(|key| ("X-API-Key", key.to_owned())));
        let answer = talk.ask("initialize", &greeting());
        assert_eq!(answer.status, 200, "{answer:?}");
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        talk.headers.push(("Mcp-Session-Id", session));
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(talk.post(&ready).status, 202);
        talk
    }

    fn post(&self, message: &Value) -> Response {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        post_to(self.port, &self.path, &headers, message.to_string().as_bytes())
    }

    fn ask(&self, method: &str, params: &Value) -> Response {
        self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    fn call(&self, name: &str, arguments: &Value) -> String {
        text_of(&self.ask("tools/call", &json!({"name": name, "arguments": arguments})).message())
    }
}

/// The status and the text of a page.
fn page(port: u16, path: &str) -> (u16, String) {
    let answer = send(port, &format!("GET {path}"), &[], b"");
    (answer.status, String::from_utf8(answer.body).unwrap())
}

/// What a preflight of a page of `origin` comes to.
fn preflight(port: u16, path: &str, origin: &str) -> Response {
    let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST")];
    send(port, &format!("OPTIONS {path}"), &headers, b"")
}

/// Where a client of HTTP+SSE is told to send.
fn told_to_send(port: u16, path: &str) -> String {
    Events::open(port, path).next("event: endpoint")
}

#[test]
fn the_names_are_commands_too_and_their_flags_need_no_name() {
    let line = server_line();
    for args in [
        &["supergateway", "--stdio", &line, "--outputTransport", "stdio"][..],
        &["-y", "supergateway@4", "--stdio", &line, "--outputTransport", "stdio"],
        &["--stdio", &line, "--outputTransport", "stdio"],
        &["bridge", "--stdio", &line, "--outputTransport", "stdio"],
    ] {
        let mut bridge = Switchboard::start(args);
        bridge.greet();
        assert_eq!(bridge.call(1, "echo", &json!({"text": "hello"})), "hello", "{args:?}");
    }
    let url = Upstream::start().url();
    let mut bridge = Switchboard::start(&[&url]);
    bridge.greet();
}

#[test]
fn versions_are_told_and_nonsense_is_refused() {
    let version = Switchboard::start(&["mcp-remote", "--version"]).finish();
    assert_eq!(version.code, Some(0));
    assert!(version.stdout.starts_with("switchboard "), "{}", version.stdout);
    let wrong = Switchboard::start(&["supergateway", "--port", "1"]).finish();
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("\"hints\":["), "{}", wrong.stderr);
}

#[test]
fn the_help_names_every_flag_and_what_it_means() {
    let help = Switchboard::start(&["mcp-remote", "--help"]).finish().stdout;
    assert!(help.contains("--ignore-tool VALUE"), "{help}");
    assert!(help.contains("= bridge --ignore-tool"), "{help}");
    assert!(help.contains("= bridge --oauth-client-info"), "{help}");
}
