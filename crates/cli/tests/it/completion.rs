//! Scripts for shells, and what they offer.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::named::Home;
use crate::process::{Switchboard, run};
use crate::terminal::Terminal;

const BINARY: &str = env!("CARGO_BIN_EXE_switchboard");

#[test]
fn every_shell_gets_a_script_that_asks_us() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(&["completion", shell], &[]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(script.stdout.contains("SWITCHBOARD_COMPLETE"), "{shell}: {}", script.stdout);
    }
    assert_eq!(run(&["completion", "cmd.exe"], &[]).code, Some(2));
}

/// Asks bash itself what it would offer, as on a press of Tab.
fn offered(home: &Home, words: &[&str]) -> Vec<String> {
    let (last, before) = words.split_last().unwrap();
    let quoted = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let ask = format!(
        "source <(switchboard completion bash); COMP_WORDS=({quoted}); COMP_CWORD={}; COMP_TYPE=9; \
         COMP_LINE=\"${{COMP_WORDS[*]}}\"; _switchboard switchboard '{last}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        before.len(),
        before.last().unwrap(),
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", &ask])
        .env("PATH", path())
        .env("HOME", &home.path)
        .env("XDG_CONFIG_HOME", "")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_names() {
    let home = Home::new();
    let mark = home.path.join("started");
    let start = json!({"command": "touch", "args": [mark]});
    let servers = json!({"mcpServers": {"built-in": start}});
    home.write(".cursor/mcp.json", &servers.to_string());
    let check = |words: &[&str], expected: &[&str]| {
        let words = [&["switchboard"], words].concat();
        assert_eq!(offered(&home, &words), expected, "{words:?}");
    };
    check(&["to"], &["tools"]);
    check(&["doc"], &["doctor"]);
    check(&["tools", "--conf"], &["--config"]);
    check(&["tools", "--output", ""], &["text", "json"]);
    check(&["tools", "bui"], &["built-in"]);
    check(&["bridge", "bui"], &["built-in"]);
    let mut demo = Switchboard::start(&["demo", "--http", "--port", "0"]);
    let url = format!("http://127.0.0.1:{}/mcp", demo.port());
    check(&["call", &url, "ec"], &["echo"]);
    check(&["tools", &url, "ad"], &["add"]);
    // Behind the arguments come options.
    let arguments = offered(&home, &["switchboard", "call", &url, "add", ""]);
    assert_eq!(arguments[..2], ["a=", "b="], "{arguments:?}");
    // Nobody has pressed Enter: no command is started.
    check(&["call", "built-in", "ec"], &[]);
    let line = format!("touch {}", mark.display());
    check(&["tools", "--stdio", &line, "ec"], &[]);
    assert!(!mark.exists());
}

/// Where a shell finds us.
fn path() -> String {
    let folder = std::path::Path::new(BINARY).parent().unwrap().display();
    format!("{folder}:{}", std::env::var("PATH").unwrap())
}

/// Bash cuts words at `:` and `=`, and replaces the piece at the cursor alone.
#[test]
fn bash_completes_behind_colons_and_equals_signs() {
    let home = Home::new();
    let rc = home.write("rc", "PS1='> '\nsource <(switchboard completion bash)\n");
    home.write(".cursor/mcp.json", r#"{"mcpServers": {"built-in": {"command": "demo"}}}"#);
    let mut demo = Switchboard::start(&["demo", "--http", "--port", "0"]);
    let url = format!("http://127.0.0.1:{}/mcp", demo.port());
    let place = home.path.to_str().unwrap();
    let path = path();
    let vars = [("HOME", place), ("PATH", path.as_str()), ("XDG_CONFIG_HOME", "")];
    let vars = [&vars[..], &[("HISTFILE", ""), ("INPUTRC", "/dev/null")]].concat();
    let mut bash = Command::new("bash");
    let bash = bash.args(["--noprofile", "--rcfile", &rc, "-i"]);
    let mut terminal = Terminal::launch(bash, &vars);
    for (line, whole) in [
        ("tools --output=t", "--output=text"),
        ("tools --output=j", "--output=json"),
        ("tools --log-level=d", "--log-level=debug"),
        ("tools bui", "built-in"),
        (&format!("call {url} ec"), "echo"),
        (&format!("read {url} test://static-t"), "test://static-text"),
        (&format!("read {url} test:"), "test://"),
        (&format!("read {url} test://static-b"), "test://static-binary"),
        // A space ends the word, and the next one is new.
        (&format!("tools {url} ad"), "add"),
    ] {
        // The line becomes words of another command, which shows each.
        terminal.types(&format!("switchboard {line}\t\u{1}printf '<%s>' \n"));
        terminal.until(&format!("<{whole}>"));
    }
    terminal.types("exit\n").ends_with(0);
}
