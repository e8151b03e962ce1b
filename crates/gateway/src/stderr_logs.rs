//! The last lines that each server said on stderr, for people who look for why it failed.
//!
//! Lines are kept as the log has them: secrets are out before they come here. The bounds are for
//! each server and for all together; if there is too much of all, the server that has most
//! loses its oldest line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;

use switchboard_net::stdio::child::StderrListener;

use crate::plan::PlanSecret;
use crate::{lock, read, write};

/// Lines of one server: several stack traces.
pub const MAX_LINES: usize = 1000;
/// Bytes of one server.
const MAX_BYTES: usize = 512 << 10;
/// Bytes of all servers.
const MAX_BYTES_OF_ALL: usize = 4 << 20;
/// What a line takes beside its text.
const LINE_COST: usize = 48;

/// A line of a server.
#[derive(Clone, Debug)]
pub struct StderrLine {
    /// Counts the lines of a server, from 1.
    pub number: u64,
    /// When it was read.
    pub at: SystemTime,
    /// What it says.
    pub text: Arc<str>,
}

/// The lines of all servers.
#[derive(Default)]
pub struct StderrLogs {
    kept: Mutex<KeptLines>,
    /// What lines show by name.
    secrets: RwLock<Arc<[PlanSecret]>>,
}

#[derive(Default)]
struct KeptLines {
    servers: BTreeMap<Arc<str>, ServerLines>,
    /// Of all servers.
    bytes: usize,
}

#[derive(Default)]
struct ServerLines {
    lines: VecDeque<StderrLine>,
    /// The number of the last line.
    last: u64,
    bytes: usize,
}

/// What is kept of a server after some line.
#[derive(Debug, Default)]
pub struct LinesAfter {
    /// The lines, oldest first.
    pub lines: Vec<StderrLine>,
    /// The number of the last line of all.
    pub last: u64,
    /// Lines that were asked for and are not kept any more.
    pub lost: u64,
}

impl StderrLogs {
    /// Shows these by name, from the next line on.
    pub fn hide(&self, secrets: Vec<PlanSecret>) {
        *write(&self.secrets) = secrets.into();
    }

    /// Hears what a server of this name says.
    pub(crate) fn listener(self: &Arc<Self>, server: &Arc<str>) -> StderrListener {
        let (logs, server) = (Arc::downgrade(self), Arc::clone(server));
        StderrListener::new(move |line| {
            if let Some(logs) = logs.upgrade() {
                logs.push(&server, line);
            }
        })
    }

    fn push(&self, server: &Arc<str>, line: &str) {
        let secrets = Arc::clone(&read(&self.secrets));
        let text = PlanSecret::veil(line, &secrets);
        lock(&self.kept).push(server, &text);
    }

    /// What a server said after the line of this number.
    pub fn after(&self, server: &str, number: u64) -> LinesAfter {
        let kept = lock(&self.kept);
        let Some(of) = kept.servers.get(server) else { return LinesAfter::default() };
        // A reader that knows a later line knows one of an earlier gateway.
        let number = if number > of.last { 0 } else { number };
        let first = of.lines.front().map_or(of.last + 1, |line| line.number);
        let lines = of.lines.iter().filter(|line| line.number > number).cloned().collect();
        LinesAfter { lines, last: of.last, lost: first.saturating_sub(number + 1) }
    }

    /// Keeps the lines of these servers only.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut kept = lock(&self.kept);
        let KeptLines { servers, bytes } = &mut *kept;
        servers.retain(|name, of| {
            let stays = is_there(name);
            *bytes -= if stays { 0 } else { of.bytes };
            stays
        });
    }
}

impl KeptLines {
    fn push(&mut self, server: &Arc<str>, text: &str) {
        let of = self.servers.entry(Arc::clone(server)).or_default();
        of.last += 1;
        let line = StderrLine { number: of.last, at: SystemTime::now(), text: text.into() };
        self.bytes += cost(&line);
        of.bytes += cost(&line);
        of.lines.push_back(line);
        while of.lines.len() > MAX_LINES || of.bytes > MAX_BYTES {
            self.bytes -= of.drop_oldest();
        }
        while self.bytes > MAX_BYTES_OF_ALL {
            let Some(most) = self.servers.values_mut().max_by_key(|of| of.bytes) else { return };
            self.bytes -= most.drop_oldest();
        }
    }
}

impl ServerLines {
    /// The bytes that are free now.
    fn drop_oldest(&mut self) -> usize {
        let freed = self.lines.pop_front().as_ref().map_or(0, cost);
        self.bytes -= freed;
        freed
    }
}

fn cost(line: &StderrLine) -> usize {
    LINE_COST + line.text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(logs: &StderrLogs, server: &str, text: &str) {
        logs.push(&server.into(), text);
    }

    #[test]
    fn the_last_lines_are_kept_and_what_is_lost_is_counted() {
        let logs = StderrLogs::default();
        (1..=MAX_LINES + 5).for_each(|number| push(&logs, "a", &number.to_string()));
        let all = logs.after("a", 0);
        assert_eq!((all.lines.len(), all.lost, all.last), (MAX_LINES, 5, MAX_LINES as u64 + 5));
        assert_eq!(&*all.lines[0].text, "6");
        let some = logs.after("a", all.last - 2);
        assert_eq!((some.lines.len(), some.lost), (2, 0));
        assert_eq!(logs.after("a", all.last).lines.len(), 0);
        assert_eq!(logs.after("b", 0).last, 0);
    }

    #[test]
    fn all_servers_together_have_a_bound_and_the_largest_makes_room() {
        let logs = StderrLogs::default();
        let long = "x".repeat(4 << 10);
        push(&logs, "small", "first");
        for server in 0..12 {
            (0..200).for_each(|_| push(&logs, &format!("s{server}"), &long));
        }
        let kept = lock(&logs.kept);
        let sum: usize = kept.servers.values().map(|of| of.bytes).sum();
        assert!(kept.bytes == sum && sum <= MAX_BYTES_OF_ALL, "{sum}");
        assert!(kept.servers.values().all(|of| of.bytes <= MAX_BYTES));
        assert_eq!(kept.servers["small"].lines.len(), 1);
        drop(kept);
        logs.keep(|name| name == "small");
        assert_eq!(lock(&logs.kept).bytes, 5 + LINE_COST);
    }

    #[test]
    fn a_secret_of_the_plan_is_shown_by_its_name() {
        let logs = StderrLogs::default();
        let secret = PlanSecret { name: "TOKEN".to_owned(), value: "s3cret".to_owned() };
        logs.hide(vec![secret]);
        push(&logs, "a", "I have s3cret");
        assert_eq!(&*logs.after("a", 0).lines[0].text, "I have ${TOKEN}");
    }
}
