//! The long form: all faults at random under load, against one gateway with many servers
//! and many clients of both eras, every answer checked.
//!
//! ```text
//!   load without faults ─▶ at rest: what it had then is what it may have
//!   ┌─▶ load and faults, step by step ─▶ all servers are back ─▶ at rest ─┐
//!   └─────────────────────────────────────────────────────────────────────┘
//!   SIGTERM: it ends by itself, and nothing is left
//! ```
//!
//! The steps follow from the seed alone. What a failure prints repeats them up to its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::caller::ERAS;
use crate::campaign::Campaign;
use crate::gateway::{ADA, BOB, Footprint, Gateway, Plan, ROOT};
use crate::load::{Load, Target};
use crate::random::Random;
use crate::servers::Web;

mod fault;

/// Steps between two looks at what the gateway has when nobody calls.
const ROUND: u64 = 120;

/// Servers of each sort.
const SHARED: [&str; 4] = ["shared0", "shared1", "shared2", "shared3"];
const OWN: [&str; 3] = ["own0", "own1", "own2"];
const DEMO: [&str; 3] = ["demo", "demo-legacy", "demo-shared"];
const WEB: [&str; 2] = ["web0", "web1"];

/// One long run.
struct Soak {
    cx: Campaign,
    gateway: Gateway,
    plan: Plan,
    web: Vec<Web>,
    random: Random,
    counts: BTreeMap<&'static str, u64>,
    sums: Sums,
    peak: u64,
}

/// What the clients of all rounds have seen.
#[derive(Default)]
struct Sums {
    calls: u64,
    answered: u64,
    failed: u64,
}

pub(crate) async fn run(
    binary: PathBuf,
    minutes: f64,
    seed: u64,
    steps: Option<u64>,
) -> Result<bool, String> {
    let end = Instant::now() + Duration::from_secs_f64(minutes.clamp(0.0, 10_000.0) * 60.0);
    let cx = Campaign::new(binary, false, seed, None);
    let mut soak = Soak::start(cx).await?;
    say(&format!("seed {seed}: {minutes} minutes against process {}", soak.gateway.process.id));
    let mut step = 0;
    let ran = soak.last(end, steps, &mut step).await;
    let pid = soak.gateway.process;
    soak.peak = soak.peak.max(pid.peak_memory().unwrap_or(0));
    say(&soak.summary(step));
    let ran = match ran {
        // It ends by itself, in time, with nothing left behind.
        Ok(()) => soak.gateway.end(Signal::TERM, Duration::from_secs(30)).await,
        Err(why) => Err(format!("{why}\n  the gateway said: {}", soak.gateway.said(5))),
    };
    match ran {
        Ok(()) => Ok(true),
        Err(why) => {
            say(&format!("BROKEN at step {step}: {why}"));
            say(&format!(
                "repeat with: torture --minutes {minutes} --seed {seed} --steps {}",
                step + 1
            ));
            Ok(false)
        }
    }
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn say(text: &str) {
    println!("{text}");
}

fn labelled(mut server: Value, label: &str) -> Value {
    if let Some(args) = server["args"].as_array_mut() {
        args.push(label.into());
    }
    server
}

/// The servers that every round begins and ends with.
fn plan(cx: &Campaign, web: &[Web]) -> Plan {
    let mut servers = json!({});
    for name in SHARED {
        servers[name] = labelled(cx.shared("tools"), name);
    }
    for name in OWN {
        servers[name] = labelled(cx.hostile("tools"), name);
    }
    servers["demo"] = cx.demo(&[]);
    servers["demo-legacy"] = cx.demo(&["--era", "legacy"]);
    servers["demo-shared"] = cx.demo(&["--era", "modern"]);
    servers["demo-shared"]["process"] = "shared".into();
    for (name, web) in WEB.into_iter().zip(web) {
        servers[name] = json!({"url": web.url(), "type": "http"});
    }
    for kind in ["exit", "mute", "asker", "flood"] {
        servers[format!("bad-{kind}")] = cx.shared(kind);
    }
    let key = |name: &str, grant: Value| {
        let mut entry = grant;
        entry["key"] = format!("${{{name}_KEY}}").into();
        entry
    };
    let section = json!({
        "keys": {
            "root": key("ROOT", json!({})),
            "ada": key("ADA", json!({"servers": ["shared*", "own*", "demo*", "web*"]})),
            "bob": key("BOB", json!({"groups": ["some"]})),
        },
        "groups": {"some": ["*0", "demo*", "*1", "*2", "*3"]},
        "defaults": {"startTimeout": "20s", "timeout": "30s"},
    });
    Plan::new(servers).section(section).args(&["--probe-every", "2", "--log-level", "warn"])
}

fn good() -> Vec<&'static str> {
    [&SHARED[..], &OWN, &DEMO, &WEB].concat()
}

impl Soak {
    async fn start(cx: Campaign) -> Result<Self, String> {
        let web = vec![Web::start().await?, Web::start().await?];
        let plan = plan(&cx, &web);
        let gateway = cx.gateway(&plan).await?;
        gateway.ready(&good()).await?;
        let random = cx.random.clone();
        let (counts, sums) = (BTreeMap::new(), Sums::default());
        Ok(Self { cx, gateway, plan, web, random, counts, sums, peak: 0 })
    }

    /// Two clients of each era at every good server, with the keys in turn.
    fn load(&self, round: u64) -> Load {
        let mut load = Load::new();
        let keys = [ROOT, ADA, BOB];
        let targets = good().into_iter().flat_map(|name| [Target::of(name), Target::alone(name)]);
        for (number, target) in targets.enumerate() {
            for (turn, era) in ERAS.into_iter().enumerate() {
                let mut caller = self.gateway.caller(&target.path, era);
                caller.key = Some(keys[(number + turn) % 3].to_owned());
                let part = round * 1_000_000 + (number * 2 + turn) as u64;
                load.add(caller, target.clone(), self.random.fork(part));
            }
        }
        load
    }

    /// Rounds until the time is over, or the steps are.
    async fn last(
        &mut self,
        end: Instant,
        most: Option<u64>,
        step: &mut u64,
    ) -> Result<(), String> {
        let load = self.load(0);
        load.goes_on(3_000, Duration::from_mins(2)).await?;
        self.stop(load).await?;
        let rest = self.rest().await?;
        say(&format!("  at rest: {}", show(rest)));
        let mut round = 0;
        while Instant::now() < end && most.is_none_or(|most| *step < most) {
            round += 1;
            let load = self.load(round);
            for _ in 0..ROUND {
                if Instant::now() > end || most.is_some_and(|most| *step >= most) {
                    break;
                }
                *step += 1;
                let mut random = self.random.fork(0xFA_0000_0000 + *step);
                let what = fault::inject(self, &mut random).await?;
                *self.counts.entry(what).or_default() += 1;
                load.is_right().map_err(|why| format!("{why} (the last fault was {what})"))?;
                self.gateway.lives().map_err(|why| format!("{why} (the last fault was {what})"))?;
                tokio::time::sleep(Duration::from_millis(random.below(500))).await;
            }
            self.gateway.reload_to(&self.plan).await?;
            self.gateway.is_well(Duration::from_secs(30)).await?;
            self.gateway.ready(&good()).await?;
            load.goes_on(1_000, Duration::from_mins(2)).await?;
            let since = Instant::now();
            self.stop(load).await?;
            self.back_to(rest).await?;
            let minutes = end.saturating_duration_since(since).as_secs() / 60;
            let now = self.gateway.footprint().await?;
            say(&format!(
                "  step {step}: {} answers, {}; {minutes} min to go",
                self.sums.answered,
                show(now)
            ));
        }
        Ok(())
    }

    async fn stop(&mut self, load: Load) -> Result<(), String> {
        let tally = load.stop().await?;
        self.sums.calls += tally.calls.load(Ordering::Relaxed);
        self.sums.answered += tally.answered.load(Ordering::Relaxed);
        self.sums.failed += tally.failed.load(Ordering::Relaxed);
        match tally.lost.load(Ordering::Relaxed) {
            0 => Ok(()),
            lost => {
                Err(format!("{lost} calls were lost with their connections: {}", tally.last_lost()))
            }
        }
    }

    /// What the gateway has when its sessions are over.
    async fn rest(&self) -> Result<Footprint, String> {
        let end = Instant::now() + Duration::from_mins(1);
        while self.gateway.metric("switchboard_sessions").await?.unwrap_or(0.0) > 0.0 {
            if Instant::now() > end {
                return Err("sessions outlive their timeout".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // What is given back a moment later is not to count.
        tokio::time::sleep(Duration::from_secs(10)).await;
        self.gateway.footprint().await
    }

    async fn back_to(&self, rest: Footprint) -> Result<(), String> {
        // The allocator keeps some of what a burst took; a leak grows with every round.
        let allowed = Footprint { memory: rest.memory + (128 << 20), ..rest };
        self.cx.at_rest_within(&self.gateway, allowed, Duration::from_mins(2)).await
    }

    fn summary(&self, steps: u64) -> String {
        let Sums { calls, answered, failed } = self.sums;
        let mut text = format!(
            "{steps} steps, {calls} calls: {answered} answered with what was asked, {failed} failed clearly, 0 wrong\n  faults:"
        );
        for (what, count) in &self.counts {
            // Writing to a string does not fail.
            _ = write!(text, " {what} {count},");
        }
        _ = write!(text, "\n  peak memory {} MiB", self.peak >> 20);
        text
    }
}

fn show(it: Footprint) -> String {
    let Footprint { processes, descriptors, tasks, memory } = it;
    format!("{processes} processes, {descriptors} descriptors, {tasks} tasks, {} MiB", memory >> 20)
}
