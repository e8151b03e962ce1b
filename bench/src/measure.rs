//! What the kernel knows about a process, and what to make of several readings.

use std::fs;
use std::time::Duration;

use crate::Failure;

/// CPU time that all threads of `pid` have used.
pub fn cpu(pid: u32) -> Result<Duration, Failure> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is a name in parentheses that may hold anything.
    let after = stat.rsplit_once(')').ok_or("no such process")?.1;
    let field = |at: usize| -> Result<u64, Failure> {
        Ok(after.split_whitespace().nth(at).ok_or("short stat")?.parse()?)
    };
    let ticks = field(11)? + field(12)?;
    Ok(Duration::from_micros(ticks * 1_000_000 / rustix::param::clock_ticks_per_second()))
}

/// Memory of `pid` that is in RAM, in KiB.
pub fn memory(pid: u32) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("short VmRSS")?.parse()?)
}

/// The middle reading, with the lowest and the highest beside it.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// Of at least one reading.
    pub fn of(mut readings: Vec<f64>) -> Option<Self> {
        readings.sort_by(f64::total_cmp);
        let (low, high) = (*readings.first()?, *readings.last()?);
        Some(Self { median: readings[readings.len() / 2], low, high })
    }
}
