//! How the binary ends when it is told to, or when its client is gone.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::process::{PATIENCE, SERVER, Switchboard, text_of, until};
use crate::web::Session;

/// wire: STD-5
#[test]
fn a_stop_lets_the_call_on_stdio_finish() {
    let gate = Gate::new("stdio");
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    let params = json!({"name": "wait", "arguments": {"file": gate.file}});
    bridge.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    bridge.until_logged("waiting for");
    bridge.signal(Signal::TERM);
    bridge.until_logged("SIGTERM: finishing");
    gate.open();
    assert_eq!(text_of(&bridge.message()), "waited");
    assert_eq!(bridge.exit_code(), Some(0));
}

#[test]
fn a_stop_lets_the_call_over_http_finish_and_stops_the_server() {
    let gate = Gate::new("http");
    let (mut bridge, port) = Switchboard::serve(&[]);
    let session = Session::open(port);
    let pid = text_of(&session.call("pid", &json!({})).message());
    let file = gate.file.clone();
    let calling = thread::spawn(move || session.call("wait", &json!({"file": file})));
    bridge.until_logged("waiting for");
    bridge.signal(Signal::TERM);
    bridge.until_logged("SIGTERM: finishing");
    gate.open();
    assert_eq!(text_of(&calling.join().unwrap().message()), "waited");
    assert_eq!(bridge.exit_code(), Some(0));
    until("the server ends", || !PathBuf::from(format!("/proc/{pid}")).exists());
}

#[test]
fn an_idle_bridge_ends_at_once() {
    for signal in [Signal::INT, Signal::TERM] {
        let (mut bridge, port) = Switchboard::serve(&[]);
        let _session = Session::open(port);
        bridge.signal(signal);
        assert_eq!(bridge.exit_code(), Some(0));
        let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
        bridge.greet();
        bridge.signal(signal);
        assert_eq!(bridge.exit_code(), Some(0));
    }
}

#[test]
fn a_second_signal_does_not_wait() {
    let gate = Gate::new("second");
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    let pid = bridge.call(1, "pid", &json!({}));
    let params = json!({"name": "wait", "arguments": {"file": gate.file}});
    bridge.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}));
    bridge.until_logged("waiting for");
    bridge.signal(Signal::TERM);
    bridge.until_logged("SIGTERM: finishing");
    bridge.signal(Signal::INT);
    assert_eq!(bridge.exit_code(), Some(130));
    until("the server ends", || !PathBuf::from(format!("/proc/{pid}")).exists());
}

/// wire: STD-5
#[test]
fn the_end_of_stdin_finishes_what_was_asked_and_ends_the_server() {
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    let params = json!({"name": "echo", "arguments": {"text": "last"}});
    bridge.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    bridge.close_stdin();
    assert_eq!(text_of(&bridge.message()), "last");
    bridge.until_logged("server saw the end of stdin");
    assert_eq!(bridge.exit_code(), Some(0));
}

#[test]
fn a_client_that_reads_no_more_ends_it_cleanly() {
    let script = format!(
        "exec {} bridge -- {} '{}' | read -r line",
        env!("CARGO_BIN_EXE_switchboard"),
        SERVER[0],
        SERVER[1]
    );
    let mut shell = Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {script}")])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": crate::process::greeting()});
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    // Writes until the bridge is gone; stdin itself stays open.
    while std::io::Write::write_all(&mut stdin, format!("{hello}\n{ping}\n").as_bytes()).is_ok() {}
    assert_eq!(shell.wait().unwrap().code(), Some(0));
}

/// A gateway reads its files again on SIGHUP, but not in place of ending with its terminal.
#[test]
fn a_gateway_whose_terminal_is_closed_ends() {
    let home = crate::named::Home::new();
    let servers = json!({"mcpServers": {"a": {"command": SERVER[0], "args": [SERVER[1]]}}});
    let file = home.write("servers.json", &servers.to_string());
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    // The terminal becomes its own.
    let mut gateway = Command::new("setsid")
        .args(["--ctty", env!("CARGO_BIN_EXE_switchboard")])
        .args(["serve", "--config", &file, "--port", "0", "--no-cache"])
        .stdin(theirs)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("http://"), "{line}");
    drop(ours);
    let start = Instant::now();
    while start.elapsed() < PATIENCE && gateway.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(10));
    }
    // One that has ended is not there to be killed.
    _ = gateway.kill();
    assert_eq!(gateway.wait().unwrap().code(), Some(0));
}

/// A file that the `wait` tool waits for.
pub(crate) struct Gate {
    pub(crate) file: PathBuf,
}

impl Gate {
    pub(crate) fn new(name: &str) -> Self {
        let file = format!("gate-{name}-{}", std::process::id());
        Self { file: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file) }
    }

    pub(crate) fn open(&self) {
        fs::write(&self.file, "").unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Opened or not: a server that still waits must not wait for ever.
        _ = fs::remove_file(&self.file);
    }
}
