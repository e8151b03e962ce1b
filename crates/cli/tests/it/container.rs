//! Servers in containers, with a real engine: podman, without a registry.
//!
//! `./test.sh setup` installs what they need. Without it they fail; whoever does
//! without says so: `cargo test -- --skip container::`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::process::{Switchboard, until};
use crate::serve::Gateway;
use crate::web::{Session, send};

const IMAGE: &str = "localhost/switchboard-test";

/// An engine with a storage of its own, in which nobody else's containers are.
struct Podman {
    place: PathBuf,
}

impl Podman {
    fn start(name: &str) -> Self {
        for tool in ["podman", "busybox"] {
            let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
            let is_there = found.is_ok_and(|found| found.status.success());
            assert!(is_there, "{tool} is missing: ./test.sh setup installs it");
        }
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("podman-{name}"));
        let podman = Self { place };
        podman.clean();
        let files = podman.place.join("image");
        fs::create_dir_all(files.join("bin")).unwrap();
        let busybox = run(Command::new("sh").args(["-c", "command -v busybox"]));
        fs::copy(text(&busybox), files.join("bin/busybox")).unwrap();
        for applet in ["sh", "sleep"] {
            std::os::unix::fs::symlink("busybox", files.join("bin").join(applet)).unwrap();
        }
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/torture/server.sh");
        fs::copy(server, files.join("server.sh")).unwrap();
        let line =
            format!("tar -C '{}' -c . | {} import - {IMAGE}", files.display(), podman.line());
        run(Command::new("sh").args(["-c", &line]));
        podman
    }

    /// The engine and its options.
    fn line(&self) -> String {
        let place = self.place.display();
        format!("podman --root '{place}/root' --runroot '{place}/run' --storage-driver vfs")
    }

    /// A command that runs `words` in a container.
    fn run_line(&self, words: &str) -> String {
        // A container must not ask for higher limits than a test may have.
        let limits = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024";
        format!("{} run --rm -i --network none --pull never {limits} {words}", self.line())
    }

    fn server(&self) -> String {
        self.run_line(&format!("{IMAGE} sh /server.sh"))
    }

    /// One that goes on after the end of its stdin. The first process of a
    /// container ignores SIGTERM, too, unless it says otherwise.
    fn stubborn_server(&self) -> String {
        self.run_line(&format!("{IMAGE} sh -c 'sh /server.sh; sleep 1000'"))
    }

    /// What the engine prints.
    fn ask(&self, words: &str) -> String {
        text(&run(Command::new("sh").args(["-c", &format!("{} {words}", self.line())])))
    }

    /// The names of all containers, in whatever state.
    fn names(&self) -> Vec<String> {
        let names = self.ask("ps -a --format '{{.Names}}'");
        names.lines().map(ToOwned::to_owned).collect()
    }

    fn is_empty(&self) -> bool {
        self.names().is_empty()
    }

    /// Removes everything, also what an earlier run has left.
    fn clean(&self) {
        if self.place.exists() {
            let all = format!("{} rm -fa -t 0; {} rmi -fa", self.line(), self.line());
            let all = format!("{all}; umount '{}'/root/*; rm -rf '{0}'", self.place.display());
            _ = Command::new("sh").args(["-c", &all]).stderr(Stdio::null()).output();
        }
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.clean();
    }
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

fn kill(id: u32) {
    kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_container_comes_with_the_first_message_and_goes_with_its_session() {
    let podman = Podman::start("session");
    let (_bridge, port) = Switchboard::serve_command(&podman.server(), &[]);
    assert!(podman.is_empty(), "nobody has asked for it yet");
    let session = Session::open_at(port, "small");
    let names = podman.names();
    assert!(names.len() == 1 && names[0].starts_with("switchboard-"), "{names:?}");
    let second = Session::open_at(port, "small");
    assert_eq!(podman.names().len(), 2, "each session has its own");
    for session in [session, second] {
        let gone = send(port, "DELETE /mcp", &[("Mcp-Session-Id", &session.id)], b"");
        assert_eq!(gone.status, 204);
    }
    until("both are removed", || podman.is_empty());
}

#[test]
fn a_container_that_ignores_every_request_to_end_is_removed() {
    let podman = Podman::start("stubborn");
    let (mut bridge, port) = Switchboard::serve_command(&podman.stubborn_server(), &[]);
    let _session = Session::open_at(port, "small");
    assert_eq!(podman.names().len(), 1);
    bridge.signal(Signal::TERM);
    assert_eq!(bridge.exit_code(), Some(0));
    assert_eq!(podman.names(), [""; 0]);
}

/// As `supergateway --stdio` does with a line that has variables.
#[test]
fn a_container_that_a_shell_has_started_is_removed_too() {
    let podman = Podman::start("shell");
    let line = podman.stubborn_server().replace(IMAGE, "$IMAGE");
    let line = ["supergateway", "--stdio", &line, "--port", "0", "--host", "127.0.0.1"];
    let mut bridge = Switchboard::start_with(&line, &[("IMAGE", IMAGE)]);
    let port = bridge.port();
    let _session = Session::open_at(port, "small");
    let names = podman.names();
    assert!(names.len() == 1 && names[0].starts_with("switchboard-"), "{names:?}");
    bridge.signal(Signal::TERM);
    assert_eq!(bridge.exit_code(), Some(0));
    assert_eq!(podman.names(), [""; 0]);
}

#[test]
fn a_killed_bridge_leaves_no_container() {
    let podman = Podman::start("killed");
    let (bridge, port) = Switchboard::serve_command(&podman.stubborn_server(), &[]);
    let _sessions = [Session::open_at(port, "small"), Session::open_at(port, "small")];
    assert_eq!(podman.names().len(), 2);
    bridge.signal(Signal::KILL);
    until("they are removed", || podman.is_empty());
}

#[test]
fn what_was_left_is_removed_at_the_next_start_and_nothing_else() {
    let podman = Podman::start("stale");
    let limits = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024";
    podman.ask(&format!("run -d --name theirs --network none {limits} {IMAGE} sleep 1000"));
    let (lost, port) = Switchboard::serve_command(&podman.stubborn_server(), &[]);
    let _session = Session::open_at(port, "small");
    let left = podman.names().into_iter().find(|name| name != "theirs").unwrap();
    // Neither it, nor its guard, nor the engine's client can do anything any more.
    lost.signal(Signal::STOP);
    lost.children().into_iter().for_each(kill);
    lost.signal(Signal::KILL);
    assert!(podman.names().contains(&left), "it was not left after all");

    let (living, port) = Switchboard::serve_command(&podman.server(), &[]);
    let (one, more) = (Session::open_at(port, "small"), Session::open_at(port, "small"));
    until("what was left is removed", || !podman.names().contains(&left));
    for session in [&one, &more] {
        assert_eq!(session.call("any", &json!({})).message()["result"], json!({}));
    }
    drop(living);
    until("only theirs is there", || podman.names() == ["theirs"]);
}

#[test]
fn a_gateway_ends_the_container_of_a_server_that_is_gone_and_at_last_all() {
    let podman = Podman::start("gateway");
    let line = podman.server();
    let words: Vec<_> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
    let server = json!({"command": words[0], "args": words[1..]});
    let mut gateway = Gateway::start(&json!({"one": server, "other": server}));
    gateway.until_ready(&["one", "other"]);
    assert_eq!(podman.names().len(), 2);
    gateway.rewrite(&json!({"one": server}), &json!({}));
    until("that of the other is removed", || podman.names().len() == 1);
    gateway.process.signal(Signal::TERM);
    assert_eq!(gateway.process.exit_code(), Some(0));
    assert_eq!(podman.names(), [""; 0]);
}

#[test]
fn what_keeps_a_container_from_starting_is_told_in_words_for_people() {
    let podman = Podman::start("errors");
    let missing = podman.run_line("localhost/no-such-image");
    let command = podman.run_line(&format!("{IMAGE} no-such-command"));
    let engine = "podman --remote --url unix:///no/such/engine.sock run --rm -i image".to_owned();
    for (line, expected) in [
        (missing, "there is no such image"),
        (command, "the container's command is not in the image"),
        (engine, "podman is not running"),
    ] {
        let mut bridge = Switchboard::start(&["bridge", "--stdio", &line]);
        let answer = bridge.ask(0, "initialize", &crate::process::greeting());
        let told = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(told.contains(expected), "{line}: {answer}");
    }
    until("none is left", || podman.is_empty());
}
