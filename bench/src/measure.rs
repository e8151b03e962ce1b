//! What the kernel knows about a process, and what to make of several readings.

use std::fs;
use std::time::Duration;

use crate::Failure;

/// CPU time that the threads of `pid` have used, in the scheduler's own count: the
/// clock of `/proc/PID/stat` ticks a hundred times a second, too coarse for a
/// process that answers a few hundred requests.
pub fn cpu(pid: u32) -> Result<Duration, Failure> {
    let mut spent = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let nanos = text.split_whitespace().next().ok_or("an empty schedstat")?;
        spent += Duration::from_nanos(nanos.parse()?);
    }
    Ok(spent)
}

/// The part of it in user space. The clock is coarse, so only the sum of many readings tells.
pub fn user_cpu(pid: u32) -> Result<Duration, Failure> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = text.rsplit_once(") ").ok_or("a stat without a name")?;
    let ticks: u64 = fields.split(' ').nth(11).ok_or("short stat")?.parse()?;
    Ok(Duration::from_millis(10 * ticks))
}

/// The processes that `pid` has started, and those that these have.
pub fn descendants(pid: u32) -> Result<Vec<u32>, Failure> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        for child in fs::read_to_string(task?.path().join("children"))?.split_whitespace() {
            let child = child.parse()?;
            found.push(child);
            found.extend(descendants(child)?);
        }
    }
    Ok(found)
}

/// Memory of `pid` that is in RAM, in KiB.
pub fn memory(pid: u32) -> Result<f64, Failure> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("short VmRSS")?.parse()?)
}

/// Open files of `pid`.
pub fn descriptors(pid: u32) -> Result<usize, Failure> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// As many files as the system lets us have; the processes under test inherit it.
pub fn raise_descriptors() -> Result<u64, Failure> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.current.unwrap_or(u64::MAX))
}

/// The middle reading, with the lowest and the highest beside it.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// The spread of at least one reading.
    pub fn new(mut readings: Vec<f64>) -> Result<Self, Failure> {
        readings.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (readings.first(), readings.last()) else {
            return Err("no rounds".into());
        };
        Ok(Self { median: readings[readings.len() / 2], low, high })
    }
}

/// The value below which `part` of the times are, in microseconds.
pub fn percentile(times: &mut [Duration], part: f64) -> f64 {
    times.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let at = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}
