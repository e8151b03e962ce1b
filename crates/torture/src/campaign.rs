//! One run of the campaign: its attacks one after the other, and what came of each.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::gateway::{Footprint, Gateway, Plan};
use crate::process::until;
use crate::random::Random;

/// No attack takes longer, whatever it meets.
const LONGEST: Duration = Duration::from_mins(4);

/// What an attack comes to: how often it was tried, or how the promise broke.
pub(crate) type Verdict = Result<u64, String>;

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) area: &'static str,
    pub(crate) attack: String,
    pub(crate) promise: String,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
}

/// The run, and what the user said about it.
#[derive(Debug)]
pub(crate) struct Campaign {
    pub(crate) binary: PathBuf,
    pub(crate) is_quick: bool,
    pub(crate) random: Random,
    /// Only attacks whose area or name has this text.
    pub(crate) only: Option<String>,
    /// This program, which is the hostile servers too.
    program: PathBuf,
    area: &'static str,
    pub(crate) rows: Vec<Row>,
}

impl Campaign {
    pub(crate) fn new(binary: PathBuf, is_quick: bool, seed: u64, only: Option<String>) -> Self {
        let (random, program) = (Random::new(seed), std::env::current_exe().unwrap_or_default());
        Self { binary, is_quick, random, only, program, area: "", rows: Vec::new() }
    }

    /// A run with the same settings that has seen nothing yet.
    pub(crate) fn another(&self) -> Self {
        let (binary, program, only) =
            (self.binary.clone(), self.program.clone(), self.only.clone());
        let (is_quick, random) = (self.is_quick, self.random.clone());
        Self { binary, is_quick, random, only, program, area: "", rows: Vec::new() }
    }

    pub(crate) fn enter(&mut self, area: &'static str) {
        self.area = area;
    }

    /// How much of something: in CI, and when there is time.
    pub(crate) fn size(&self, small: usize, full: usize) -> usize {
        if self.is_quick { small } else { full }
    }

    /// Whether this attack is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| self.area.contains(only) || name.contains(only))
    }

    /// Tries an attack and writes down what came of it.
    pub(crate) async fn attack(
        &mut self,
        name: &str,
        promise: &str,
        run: impl AsyncFnOnce(&Self) -> Verdict,
    ) {
        if !self.wants(name) {
            return;
        }
        let since = Instant::now();
        let verdict = timeout(LONGEST, run(self)).await;
        let verdict = verdict.unwrap_or_else(|_| Err("the attack was never over".to_owned()));
        let row = Row {
            area: self.area,
            attack: name.to_owned(),
            promise: promise.to_owned(),
            verdict,
            took: since.elapsed(),
        };
        crate::table::show(&row);
        self.rows.push(row);
    }

    pub(crate) async fn gateway(&self, plan: &Plan) -> Result<Gateway, String> {
        Gateway::start(&self.binary, plan).await
    }

    /// Starts a gateway and waits until its servers can be called.
    pub(crate) async fn ready(&self, plan: &Plan) -> Result<Gateway, String> {
        let gateway = self.gateway(plan).await?;
        let names: Vec<_> =
            plan.servers.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        gateway.ready(&names).await?;
        Ok(gateway)
    }

    /// The built-in server, as a server of a file.
    pub(crate) fn demo(&self, args: &[&str]) -> Value {
        let args = [&["demo"], args].concat();
        json!({"command": self.binary, "args": args})
    }

    /// A server of ours that behaves as `kind` says.
    pub(crate) fn hostile(&self, kind: &str) -> Value {
        json!({"command": self.program, "args": ["hostile", kind]})
    }

    /// The same, one process for everybody.
    pub(crate) fn shared(&self, kind: &str) -> Value {
        let mut server = self.hostile(kind);
        server["process"] = "shared".into();
        server
    }

    /// Whether a gateway is back to what it had, with some slack.
    pub(crate) async fn at_rest(&self, gateway: &Gateway, before: Footprint) -> Result<(), String> {
        self.at_rest_within(gateway, before, Duration::from_secs(45)).await
    }

    pub(crate) async fn at_rest_within(
        &self,
        gateway: &Gateway,
        before: Footprint,
        patience: Duration,
    ) -> Result<(), String> {
        let end = Instant::now() + patience;
        loop {
            let now = gateway.footprint().await?;
            let Some(why) = excess(before, now) else { return Ok(()) };
            if Instant::now() > end {
                return Err(why);
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

/// What is more than it was, beyond what caches and pools may keep.
fn excess(before: Footprint, now: Footprint) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    if now.processes > before.processes + 4 {
        return Some(format!("{} processes, {} before", now.processes, before.processes));
    }
    if now.descriptors > before.descriptors + 32 {
        return Some(format!("{} descriptors, {} before", now.descriptors, before.descriptors));
    }
    if now.tasks > before.tasks + 40 {
        return Some(format!("{} tasks, {} before", now.tasks, before.tasks));
    }
    let allowed = before.memory + (64 << 20);
    (now.memory > allowed)
        .then(|| format!("{} MiB of memory, {} before", mib(now.memory), mib(before.memory)))
}

/// Polls until `holds`, or says what never came.
pub(crate) async fn eventually(
    what: &str,
    patience: Duration,
    holds: impl FnMut() -> bool,
) -> Result<(), String> {
    if until(patience, holds).await { Ok(()) } else { Err(format!("never: {what}")) }
}

/// Fails with what it says.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
