//! Processes under test: started, found by their URL, and ended by their id.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::Failure;

/// How long a process may take to serve: Python needs seconds to start.
const STARTING: Duration = Duration::from_secs(30);

/// The core of what is measured, and the core of everything else.
pub const MEASURED: usize = 0;
pub const OTHERS: usize = 1;

/// Keeps this thread, and what it starts, on one core.
pub fn pin(core: usize) -> Result<(), Failure> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)
        .map_err(|error| format!("core {core}: {error}; two are needed").into())
}

/// A server that listens, and everything it started.
pub struct Process {
    child: Child,
    pub url: String,
    /// The server behind it, unless the process has started that itself.
    pub shared_back: Option<u32>,
}

impl Process {
    /// Runs `words` on `core` and waits for the URL it prints, or, if `port` is
    /// given, for that port to be open.
    pub async fn start(core: usize, words: &[String], port: Option<u16>) -> Result<Self, Failure> {
        let (program, arguments) = words.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        pin(core)?;
        let started = command.spawn();
        pin(OTHERS)?;
        let child = started.map_err(|error| format!("{program}: {error}"))?;
        // From here on its whole group ends with it.
        let mut process = Self { child, url: String::new(), shared_back: None };
        let child = &mut process.child;
        let (said, mut lines) = mpsc::channel(64);
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            tokio::spawn(drain(stdout, said.clone()));
            tokio::spawn(drain(stderr, said));
        }
        let url = match port {
            Some(port) => timeout(STARTING, open(port)).await,
            None => timeout(STARTING, announced(&mut lines)).await,
        };
        process.url =
            url.ok().flatten().ok_or_else(|| format!("{words:?} did not start to serve"))?;
        Ok(process)
    }

    /// The id that `/proc` knows it by.
    pub fn pid(&self) -> Result<u32, Failure> {
        self.child.id().ok_or_else(|| "the process has ended".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            // It may have ended by itself.
            _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads what a process says to the end, so that it never blocks on a full pipe.
async fn drain(stream: impl AsyncRead + Unpin, said: mpsc::Sender<String>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // Only the first lines matter, to find the URL.
        _ = said.try_send(line);
    }
}

async fn announced(lines: &mut mpsc::Receiver<String>) -> Option<String> {
    while let Some(line) = lines.recv().await {
        if let Some(at) = line.find("http://127.0.0.1:") {
            let url = line[at..].split_whitespace().next()?;
            return Some(url.to_owned());
        }
    }
    None
}

async fn open(port: u16) -> Option<String> {
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Some(format!("http://127.0.0.1:{port}/mcp"))
}
