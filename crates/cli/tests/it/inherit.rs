//! What servers get of us besides their pipes: nothing.

use std::fs;
use std::process::Command;

use crate::named::Home;
use crate::process::{Switchboard, until};

/// The descriptors of a process, by number.
fn descriptors(of: &str) -> Vec<u32> {
    let all = fs::read_dir(format!("/proc/{of}/fd")).unwrap();
    let mut all: Vec<_> =
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

#[test]
fn descriptors_that_we_were_started_with_reach_no_server_and_no_guard() {
    let home = Home::new();
    let seen = home.path.join("seen");
    let line = format!("ls /proc/$$/fd > '{0}.new'; mv '{0}.new' '{0}'; exec cat", seen.display());
    let config = serde_json::json!({"mcpServers": {"it": {"command": "sh", "args": ["-c", line]}}});
    let file = home.write("servers.json", &config.to_string());
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 7</dev/null 9</dev/null; exec "$@""#, "sh"]);
    command.args([env!("CARGO_BIN_EXE_switchboard"), "serve", "--config", &file, "--port", "0"]);
    let mut switchboard = Switchboard::launch(command.arg("--no-cache"), &[]);
    switchboard.port();
    until("the server has looked", || seen.exists());
    let of_server = fs::read_to_string(&seen).unwrap();
    let of_server: Vec<u32> = of_server.lines().map(|line| line.parse().unwrap()).collect();
    assert!(!of_server.contains(&7) && !of_server.contains(&9), "{of_server:?}");
    let guards = switchboard.children().into_iter().map(|id| id.to_string()).filter(|id| {
        let words = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        words.contains("switchboard-guard")
    });
    let guards: Vec<_> = guards.collect();
    let [guard] = &guards[..] else { panic!("one guard: {guards:?}") };
    assert_eq!(descriptors(guard), [0, 1, 2]);
}
