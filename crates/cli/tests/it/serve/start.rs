//! How a start goes: what the log, the summary and clients hear of servers that do not work.

use std::process::Command;

use serde_json::{Value, json};
use switchboard_proto::revision::Era;

use super::{ERAS, Gateway, demo, file, names};
use crate::named::Home;
use crate::process::{Switchboard, run, until};
use crate::upstream::failing;

/// The lines of the log about a server, without those about calls.
fn lines_about<'l>(log: &'l [String], server: &str) -> Vec<&'l str> {
    let head = format!("] [{server}] ");
    let lines = log.iter().filter_map(|line| Some(line.split_once(&head)?.1));
    lines.filter(|line| !line.starts_with("call ")).collect()
}

/// A gateway with a server for each way to fail, and one that works.
fn gateway() -> Gateway {
    Gateway::start(&json!({
        "good": demo(&[]),
        "gone": {"command": "no-such-program-here"},
        "ends": {"command": "false"},
        "locked": {"url": failing("401")},
        "broken": {"url": failing("500")},
        "page": {"url": failing("html")},
        "hangs": {"command": "sleep", "args": ["1000"]},
    }))
}

#[tokio::test]
async fn each_server_has_one_line_and_the_summary_names_those_that_are_not_ready() {
    let mut gateway = gateway();
    gateway.process.until_logged("1 of 7 servers are ready: 4");
    for text in [
        "  broken is down (HTTP 500: Internal Server Error); next try in ",
        "  ends is down (Transport closed (exit status 1)); next try in ",
        "  gone is down (command not found); next try in ",
        "  hangs is still starting",
        "  locked is down (HTTP 401: Unauthorized); next try in ",
        "  page is down (HTTP 200, but with \"text/html\" instead of JSON or an event stream; is \
         this an MCP endpoint?); next try in ",
        "claude mcp add --transport http switchboard http://127.0.0.1:",
        "Claude Desktop",
        "Cursor",
        "code --add-mcp '{",
        "switchboard status http://127.0.0.1:",
    ] {
        gateway.process.until_logged(text);
    }
    let log = gateway.process.logged.clone();
    let about = |server| lines_about(&log, server);
    assert!(about("good")[0].starts_with("ready: 4"), "{log:#?}");
    for (server, text) in [
        ("good", "ready: "),
        ("gone", "is down (command not found: no-such-program-here is in no directory of PATH"),
        ("ends", "is down (Transport closed (exit status 1)); next try in "),
        ("locked", "is down (HTTP 401: "),
        ("broken", "is down (HTTP 500: "),
        ("page", "is down (HTTP 200, but with \"text/html\""),
    ] {
        let lines = about(server);
        assert!(lines.len() == 1 && lines[0].starts_with(text), "{server}: {lines:#?}");
    }
    assert_eq!(about("hangs"), [""; 0], "{log:#?}");
    let ports = log.iter().filter(|line| line.contains("[127.0.0.1:")).count();
    assert_eq!(ports, 0, "servers go by their names: {log:#?}");
}

#[tokio::test]
async fn a_command_that_is_missing_has_one_line_and_clients_hear_why() {
    let servers = json!({"good": demo(&[]), "gone": {"command": "no-such-program-here"}});
    let args = ["--probe-every", "1"];
    let mut gateway = Gateway::start_with(Home::new(), &servers, &json!({}), &args);
    gateway.process.until_logged("[gone] is down (command not found");
    gateway.until_state("gone", "failed");
    let attempts = || gateway.status()["servers"]["gone"]["nextAttemptMs"].as_u64();
    for era in ERAS {
        let client = gateway.client(era, &["good"]).await;
        let error = client.call_tool("gone__x", json!({})).await.unwrap_err().to_string();
        let told = "server \"gone\" is down (command not found); next try in ";
        assert!(error.contains(told), "{era:?}: {error}");
        let list = client.request("tools/list", json!({})).await.unwrap();
        let missing = json!([{"server": "gone", "state": "failed", "cached": false,
            "reason": "command not found"}]);
        assert_eq!(list["_meta"]["switchboard/deferred"], missing, "{era:?}");
    }
    // Two more attempts, of which the log has nothing.
    for _ in 0..2 {
        let before = attempts();
        until("it is tried again", || attempts() > before);
    }
    gateway.write(&file(&json!({"good": demo(&[])}), &json!({})));
    gateway.process.until_logged("configuration is in force");
    let about = lines_about(&gateway.process.logged, "gone");
    assert_eq!(about.len(), 1, "{about:#?}");
}

#[tokio::test]
async fn a_server_that_comes_back_is_told_once() {
    let home = Home::new();
    let server = super::late(&home, "");
    let go = home.path.join("go");
    let line = format!("[ -e '{}' ] || exit 1; exec \"$@\"", go.display());
    let args = json!(["-c", line, "sh", server["command"], server["args"][0], server["args"][1]]);
    let servers = json!({"it": {"command": "sh", "args": args}});
    let mut gateway = Gateway::start_in(home, &servers, &json!({}));
    gateway.process.until_logged("[it] is down (Transport closed (exit status 1)); next try in ");
    std::fs::write(go, "").unwrap();
    gateway.process.until_logged("[it] ready: ");
    let lines = lines_about(&gateway.process.logged, "it");
    assert_eq!(lines.len(), 2, "{lines:#?}");
}

#[tokio::test]
async fn an_edit_that_breaks_a_server_takes_its_tools_away() {
    for broken in [json!({"command": "no-such-program-here"}), json!({"command": "false"})] {
        let mut gateway = Gateway::start(&json!({"a": demo(&[]), "b": demo(&[])}));
        let client = gateway.client(Era::Legacy, &["a", "b"]).await;
        assert!(names(&client.tools().await.unwrap()).contains(&"b__add"));
        // Its end may be told before the change is.
        gateway.write(&file(&json!({"a": demo(&[]), "b": broken}), &json!({})));
        gateway.process.until_logged("[b] is down (");
        let tools = client.tools().await.unwrap();
        let tools = names(&tools);
        assert!(tools.contains(&"a__add"), "{tools:?}");
        assert!(!tools.iter().any(|tool| tool.starts_with("b__")), "{tools:?}");
        assert_eq!(gateway.status()["servers"]["b"]["tools"], 0);
        gateway.write(&file(&json!({"a": demo(&[]), "b": demo(&[])}), &json!({})));
        gateway.until_ready(&["b"]);
        assert!(names(&client.tools().await.unwrap()).contains(&"b__add"));
    }
}

/// `serve` in a folder, by somebody who has these files at home.
fn serve_in(folder: &Home, home: &Home, args: &[&str]) -> Switchboard {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    command.args([&["serve", "--no-cache"], args].concat()).current_dir(&folder.path);
    let home = home.path.to_str().unwrap();
    let vars = [("HOME", home), ("XDG_CONFIG_HOME", ""), ("CODEX_HOME", "")];
    Switchboard::launch(&mut command, &vars)
}

fn named(server: &str) -> String {
    file(&json!({server: demo(&[])}), &json!({}))
}

#[test]
fn without_a_file_on_the_line_those_of_the_folder_are_served() {
    let (folder, home) = (Home::new(), Home::new());
    folder.write(".mcp.json", &named("one"));
    folder.write(".cursor/mcp.json", &named("two"));
    folder.write(".zed/settings.json", "{\"theme\": \"dark\"}");
    home.write(".config/switchboard/config.json", &named("three"));
    home.write(".cursor/mcp.json", &named("four"));
    let mut gateway = serve_in(&folder, &home, &["--port", "0"]);
    let line = gateway.until_logged("serving the servers of ");
    let files = "./.mcp.json, ./.cursor/mcp.json, ~/.config/switchboard/config.json";
    assert!(line.ends_with(files), "{line}");
    gateway.until_logged("3 of 3 servers are ready: ");
    // They are followed like files that are named.
    folder.write(".mcp.json", &file(&json!({"one": demo(&[]), "five": demo(&[])}), &json!({})));
    let line = gateway.until_logged("configuration is in force");
    assert!(line.contains("added=[\"five\"]"), "{line}");
}

#[test]
fn without_any_file_the_log_says_how_to_serve_ones_own_servers() {
    let (folder, home) = (Home::new(), Home::new());
    let mut gateway = serve_in(&folder, &home, &["--port", "0"]);
    gateway.until_logged("serving the built-in demo server; for your servers: --config FILE");
    gateway.until_logged("1 of 1 server is ready: ");
    home.write(".cursor/mcp.json", &named("four"));
    let mut gateway = serve_in(&folder, &home, &["--port", "0"]);
    gateway.until_logged("for your servers: --config ~/.cursor/mcp.json");
}

#[test]
fn a_file_of_the_folder_that_starts_its_own_gateway_is_a_loop() {
    let (folder, home) = (Home::new(), Home::new());
    let me = json!({"command": env!("CARGO_BIN_EXE_switchboard"), "args": ["serve", "--stdio"],
        "env": {"HOME": home.path, "XDG_CONFIG_HOME": ""}});
    folder.write(".mcp.json", &file(&json!({"demo": demo(&[]), "me": me}), &json!({})));
    let mut gateway = serve_in(&folder, &home, &["--port", "0"]);
    gateway.until_logged("server \"me\" leads back to this gateway; remove it from ");
    gateway.until_logged("1 of 2 servers are ready: ");
}

#[test]
fn a_file_with_mistakes_shows_in_the_status() {
    let gateway = Gateway::start(&json!({"a": demo(&[])}));
    gateway.until_ready(&["a"]);
    let url = format!("http://127.0.0.1:{}", gateway.port);
    let shown = || run(&["status", &url], &[]).stdout;
    assert!(!shown().contains("mistake"), "{}", shown());
    gateway.write("{\"mcpServers\": {\"a\": {\"comand\": \"x\"}}}");
    until("the page tells it", || gateway.status()["config"]["problems"] != 0);
    let told = shown();
    assert!(told.contains("the configuration has changed and has 1 mistake"), "{told}");
    assert_eq!(gateway.status()["config"]["isCurrent"], json!(false));
}

#[tokio::test]
async fn calls_are_counted_in_all_and_while_they_are_open() {
    let gateway = Gateway::start(&json!({"a": super::rude()}));
    let client = gateway.client(Era::Legacy, &["a"]).await;
    let counts = || {
        let server = gateway.status()["servers"]["a"].clone();
        (server["callsTotal"].clone(), server["calls"].clone())
    };
    assert_eq!(counts(), (json!(0), json!(0)), "reading its lists is no call");
    client.call_tool("a__echo", json!({"text": "x"})).await.unwrap();
    let wait = gateway.home.path.join("gate").to_str().unwrap().to_owned();
    let (caller, file) = (client.clone(), json!({"file": wait}));
    let waiting = tokio::spawn(async move { caller.call_tool("a__wait", file).await });
    super::eventually("it is open", || counts() == (json!(2), json!(1))).await;
    std::fs::write(wait, "").unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(counts(), (json!(2), json!(0)));
    let shown: Value = serde_json::from_str(
        &run(&["status", "--json", &format!("http://127.0.0.1:{}", gateway.port)], &[]).stdout,
    )
    .unwrap();
    assert_eq!(shown["servers"]["a"]["revision"], "2025-11-25");
}
