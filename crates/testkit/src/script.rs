//! A stdio server whose tools misbehave on request, and a journal of its lives.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_net::stdio::child::Command;

use crate::within;

static JOURNALS: AtomicU64 = AtomicU64::new(1);

/// Where a scripted server writes down its lives. Gone when dropped.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// An empty one, in `folder`.
    pub fn new(folder: &Path) -> Self {
        let number = JOURNALS.fetch_add(1, Ordering::Relaxed);
        Self { path: folder.join(format!("journal-{}-{number}", std::process::id())) }
    }

    /// The server as a command; `options` are words that change how it behaves.
    pub fn server(&self, options: &[&str]) -> Command {
        let command = Command::new("python3").name("scripted").env("JOURNAL", self.path());
        command.args(["-u", "-c", include_str!("script/server.py")]).args(options.iter().copied())
    }

    /// Whether servers with the option `moody` hang from their start on.
    pub fn hang(&self, hang: bool) {
        let path = format!("{}.hang", self.path());
        if hang {
            fs::write(path, "").expect("the folder takes files");
        } else {
            // It need not be there.
            _ = fs::remove_file(path);
        }
    }

    fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// What the servers wrote: `start 12`, `12 tools/call` and the like.
    pub fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The process ids of all servers that ever started, oldest first.
    pub fn pids(&self) -> Vec<u32> {
        let lines = self.lines();
        let starts = lines.iter().filter_map(|line| line.strip_prefix("start "));
        starts.map(|pid| pid.parse().expect("a number")).collect()
    }

    /// Waits until a line that contains `text` is there.
    pub async fn saw(&self, text: &str) {
        within(async {
            while !self.lines().iter().any(|line| line.contains(text)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Waits until no server of this journal runs any more.
    pub async fn all_gone(&self) {
        for pid in self.pids() {
            gone(pid).await;
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // It may never have been written.
        _ = fs::remove_file(&self.path);
        self.hang(false);
    }
}

/// Whether a process is there and is no zombie.
pub fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Waits until a process is gone.
pub async fn gone(pid: u32) {
    within(async {
        while runs(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
