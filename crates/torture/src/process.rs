//! Processes as `/proc` shows them: who started whom, and what each holds.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

/// One process, told from a later one with the same id by when it began.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    began: u64,
}

/// What `/proc/PID/stat` says that we need.
struct Stat {
    process: Process,
    parent: u32,
    is_zombie: bool,
}

fn stat(id: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in the middle may contain anything.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let is_zombie = matches!(*fields.first()?, "Z" | "X");
    let parent = fields.get(1)?.parse().ok()?;
    let began = fields.get(19)?.parse().ok()?;
    Some(Stat { process: Process { id, began }, parent, is_zombie })
}

fn every() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| stat(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

impl Process {
    /// The process with this id, if it runs.
    pub(crate) fn find(id: u32) -> Option<Self> {
        stat(id).filter(|stat| !stat.is_zombie).map(|stat| stat.process)
    }

    /// Whether it is this very process that runs under its id.
    pub(crate) fn runs(self) -> bool {
        Self::find(self.id) == Some(self)
    }

    /// Sends a signal, if it still runs.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        self.runs() && id.is_some_and(|id| kill_process(id, signal).is_ok())
    }

    /// Everything it has started, and what those have, and so on.
    pub(crate) fn descendants(self) -> Vec<Self> {
        let all: Vec<Stat> = every().collect();
        let mut found = HashSet::from([self.id]);
        let mut family = Vec::new();
        loop {
            let before = found.len();
            for stat in &all {
                if found.contains(&stat.parent) && found.insert(stat.process.id) && !stat.is_zombie
                {
                    family.push(stat.process);
                }
            }
            if found.len() == before {
                return family;
            }
        }
    }

    /// The words of its command line.
    pub(crate) fn words(self) -> Vec<String> {
        let line = fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let words = line.split(|byte| *byte == 0);
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// How many descriptors it has open; none if it is gone.
    pub(crate) fn descriptors(self) -> Option<u64> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.id)).ok()?;
        Some(entries.count() as u64)
    }

    /// Resident memory in bytes; none if it is gone.
    pub(crate) fn memory(self) -> Option<u64> {
        self.kilobytes("VmRSS:")
    }

    /// The most that was ever resident.
    pub(crate) fn peak_memory(self) -> Option<u64> {
        self.kilobytes("VmHWM:")
    }

    fn kilobytes(self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|size| size * 1024)
    }
}

/// Processes that have `mark` in the environment they began with.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let has_mark = |stat: &Stat| {
        let text = fs::read(format!("/proc/{}/environ", stat.process.id)).unwrap_or_default();
        text.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    every().filter(|stat| !stat.is_zombie && has_mark(stat)).map(|stat| stat.process).collect()
}

/// Waits until `holds`; false if it does not in time.
pub(crate) async fn until(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
