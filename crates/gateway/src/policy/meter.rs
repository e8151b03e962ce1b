//! The rate limit of a principal, and how many calls it may have open.

use std::str::FromStr;
use std::time::{Duration, Instant};

/// So many calls in so long: `60/m`. All of them may come at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Calls.
    pub calls: u32,
    /// In so long.
    pub per: Duration,
}

/// Not a rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a rate is a number of calls and a time: 10/s, 60/m or 1000/h")]
pub struct BadRate;

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(text: &str) -> Result<Self, BadRate> {
        let (calls, per) = text.split_once('/').ok_or(BadRate)?;
        let per = match per.trim() {
            "s" | "sec" | "second" => 1,
            "m" | "min" | "minute" => 60,
            "h" | "hour" => 3600,
            "d" | "day" => 86400,
            _ => return Err(BadRate),
        };
        let calls = calls.trim().parse().ok().filter(|calls| *calls > 0).ok_or(BadRate)?;
        Ok(Self { calls, per: Duration::from_secs(per) })
    }
}

/// Why a call is refused for now.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Busy {
    /// The rate limit is reached.
    #[error("rate limit reached; retry in {} s", wait.as_secs() + 1)]
    Rate { wait: Duration },
    /// Too many calls are open.
    #[error("{0} calls are open, which is the limit")]
    Calls(usize),
}

/// Counts the calls of one principal.
#[derive(Clone, Debug)]
pub struct Meter {
    rate: Option<Rate>,
    max_open: Option<usize>,
    open: usize,
    /// How much of `per` is saved up: a call costs its share of it.
    saved: Duration,
    last: Option<Instant>,
}

impl Meter {
    /// A meter that nothing has gone through.
    pub fn new(rate: Option<Rate>, max_open: Option<usize>) -> Self {
        let saved = rate.map_or(Duration::ZERO, |rate| rate.per);
        Self { rate, max_open, open: 0, saved, last: None }
    }

    /// Counts a call that begins. If it is let through, [`Meter::leave`] must follow.
    pub fn enter(&mut self, now: Instant) -> Result<(), Busy> {
        if let Some(max) = self.max_open.filter(|max| self.open >= *max) {
            return Err(Busy::Calls(max));
        }
        self.pay(now)?;
        self.open += 1;
        Ok(())
    }

    /// Something that counts for the rate, and is never open.
    pub fn pay(&mut self, now: Instant) -> Result<(), Busy> {
        let Some(rate) = self.rate else { return Ok(()) };
        self.save(rate, now);
        let cost = rate.per / rate.calls;
        let Some(left) = self.saved.checked_sub(cost) else {
            return Err(Busy::Rate { wait: cost.saturating_sub(self.saved) });
        };
        self.saved = left;
        Ok(())
    }

    /// A call is over.
    pub fn leave(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Calls that are open.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Other limits from here on, for the calls that are open too.
    pub fn adjust(&mut self, rate: Option<Rate>, max_open: Option<usize>) {
        if self.rate != rate {
            self.saved = rate.map_or(Duration::ZERO, |rate| rate.per);
        }
        (self.rate, self.max_open) = (rate, max_open);
    }

    fn save(&mut self, rate: Rate, now: Instant) {
        let passed = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.saved = rate.per.min(self.saved.saturating_add(passed));
        self.last = Some(now.max(self.last.unwrap_or(now)));
    }
}
