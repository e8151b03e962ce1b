//! A running `switchboard`, ended with the test.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Longer than anything here takes, shorter than anybody waits.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The test server, as words of a command.
pub(crate) const SERVER: [&str; 2] =
    ["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/server.py")];

/// The test server, as one line.
pub(crate) fn server_line() -> String {
    format!("{} '{}'", SERVER[0], SERVER[1])
}

pub(crate) struct Switchboard {
    id: Pid,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    /// Every line of stderr that was looked at.
    pub(crate) logged: Vec<String>,
    exit: Receiver<ExitStatus>,
    ended: Option<ExitStatus>,
}

/// What a run came to.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs to its end with nothing on stdin.
pub(crate) fn run(args: &[&str], vars: &[(&str, &str)]) -> Run {
    Switchboard::start_with(args, vars).finish()
}

impl Switchboard {
    /// Runs to its end with nothing on stdin.
    pub(crate) fn finish(self) -> Run {
        let mut switchboard = self;
        switchboard.close_stdin();
        let code = switchboard.exit_code();
        let stdout = switchboard.stdout.iter().collect::<Vec<_>>().join("\n");
        let stderr = switchboard.stderr.iter().collect::<Vec<_>>().join("\n");
        Run { code, stdout, stderr }
    }
}

impl Switchboard {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    pub(crate) fn start_with(args: &[&str], vars: &[(&str, &str)]) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_switchboard")), args, vars)
    }

    /// Starts it by another name.
    pub(crate) fn start_program(program: &Path, args: &[&str], vars: &[(&str, &str)]) -> Self {
        Self::launch(Command::new(program).args(args), vars)
    }

    /// The binary, started by way of a command that becomes it.
    pub(crate) fn launch(command: &mut Command, vars: &[(&str, &str)]) -> Self {
        let mut child = command
            .env_remove("RUST_LOG")
            .env_remove("LOG_LEVEL")
            .envs(vars.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (out, out_lines) = channel();
        let (err, err_lines) = channel();
        thread::spawn(move || pass_lines(stdout, &out));
        thread::spawn(move || pass_lines(stderr, &err));
        let (id, stdin) = (Pid::from_child(&child), child.stdin.take());
        let (exit, ended) = channel();
        thread::spawn(move || exit.send(child.wait().unwrap()));
        Self {
            id,
            stdin,
            stdout: out_lines,
            stderr: err_lines,
            logged: Vec::new(),
            exit: ended,
            ended: None,
        }
    }

    /// Serves the test server over HTTP; the port it chose.
    pub(crate) fn serve(more: &[&str]) -> (Self, u16) {
        Self::serve_command(&server_line(), more)
    }

    /// The same with another server.
    pub(crate) fn serve_command(line: &str, more: &[&str]) -> (Self, u16) {
        let args = [&["bridge", "--stdio", line, "--port", "0"], more].concat();
        let mut switchboard = Self::start(&args);
        let port = switchboard.port();
        (switchboard, port)
    }

    /// The port in the first line on stdout.
    pub(crate) fn port(&mut self) -> u16 {
        let (port, path) = self.place();
        assert_eq!(path, "/mcp");
        port
    }

    /// The port and the path in the next line on stdout.
    pub(crate) fn place(&mut self) -> (u16, String) {
        let line = self.line();
        let rest = line.split_once("://127.0.0.1:").map(|(_, rest)| rest);
        let (port, path) =
            rest.and_then(|rest| rest.split_once('/')).unwrap_or_else(|| panic!("no URL: {line}"));
        (port.parse().unwrap(), format!("/{path}"))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a message on stdin, without waiting for anything.
    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request on stdin and returns what comes next on stdout.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.message()
    }

    /// Greets the test server, as a legacy client does.
    pub(crate) fn greet(&mut self) {
        self.greet_one("rude");
    }

    /// Greets the server of that name.
    pub(crate) fn greet_one(&mut self, name: &str) {
        let answer = self.ask(0, "initialize", &greeting());
        assert_eq!(answer["result"]["serverInfo"]["name"], name, "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// Calls a tool and returns its text.
    pub(crate) fn call(&mut self, id: u64, name: &str, arguments: &Value) -> String {
        let params = json!({"name": name, "arguments": arguments});
        let answer = self.ask(id, "tools/call", &params);
        assert_eq!(answer["id"], id, "{answer}");
        text_of(&answer)
    }

    /// The next message on stdout.
    pub(crate) fn message(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:.200}"))
    }

    fn line(&mut self) -> String {
        let line = self.stdout.recv_timeout(PATIENCE);
        line.unwrap_or_else(|_| panic!("nothing on stdout; stderr: {:?}", self.rest_of_log()))
    }

    /// Waits for a line on stderr that contains `text`.
    pub(crate) fn until_logged(&mut self, text: &str) -> String {
        loop {
            let line = self.stderr.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.logged));
            self.logged.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// All of stderr up to its end.
    pub(crate) fn whole_log(&mut self) -> String {
        self.logged.extend(self.stderr.iter());
        self.logged.join("\n")
    }

    fn rest_of_log(&mut self) -> &[String] {
        self.logged.extend(self.stderr.try_iter());
        &self.logged
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.id, signal).unwrap();
    }

    /// Waits for the end; none if a signal brought it.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let status = self.exit.recv_timeout(PATIENCE);
        let status = status.unwrap_or_else(|_| panic!("still runs: {:?}", self.rest_of_log()));
        self.ended = Some(status);
        status.code()
    }

    /// How many descriptors are open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.id)).unwrap().count()
    }

    /// How many descriptors are such as lead to children, and how many are others.
    pub(crate) fn descriptors_by_use(&self) -> (usize, usize) {
        let links = fs::read_dir(format!("/proc/{}/fd", self.id)).unwrap();
        let links = links.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let leads_to_child = |link: &std::path::PathBuf| {
            let link = link.to_string_lossy();
            link.starts_with("pipe:") || link.contains("pidfd")
        };
        let (children, others): (Vec<_>, Vec<_>) = links.partition(leads_to_child);
        (children.len(), others.len())
    }

    /// The processes that it has started itself: servers, and their guard.
    pub(crate) fn children(&self) -> Vec<u32> {
        let parent: u32 = self.id.as_raw_pid().try_into().unwrap();
        processes().filter(|process| process.parent == parent).map(|process| process.id).collect()
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Switchboard {
    fn drop(&mut self) {
        if self.ended.is_none() && self.exit.try_recv().is_err() {
            // It may be over by now; then there is nothing to end.
            _ = kill_process(self.id, Signal::KILL);
        }
    }
}

/// A process of this machine, as `/proc` shows it.
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
}

/// All that run; those that only wait to be reaped do not.
pub(crate) fn processes() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in the middle may contain anything.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let is_over = fields.next()? == "Z";
        let mut number = || fields.next()?.parse().ok();
        let process = Process { id, parent: number()?, group: number()? };
        (!is_over).then_some(process)
    })
}

/// The ids of all members of the groups that these processes are in.
pub(crate) fn families(of: &[u32]) -> Vec<u32> {
    let groups: Vec<_> = processes().filter(|it| of.contains(&it.id)).map(|it| it.group).collect();
    processes().filter(|it| groups.contains(&it.group)).map(|it| it.id).collect()
}

/// Which of these processes run.
pub(crate) fn running(of: &[u32]) -> Vec<u32> {
    processes().map(|it| it.id).filter(|id| of.contains(id)).collect()
}

/// Bytes that are no text become marks, so that nothing is hidden.
fn pass_lines(from: impl std::io::Read, to: &Sender<String>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
        line.clear();
        if to.send(text).is_err() {
            return;
        }
    }
}

/// What a client of the last legacy revision says first.
pub(crate) fn greeting() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    })
}

/// The text of a tool result.
#[track_caller]
pub(crate) fn text_of(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {answer:.300}")).to_owned()
}

/// Waits until `holds`, for what has no event to wait for.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
