//! The benchmark: the targets of a road take turns, round after round, in one run.
//!
//! The machine is shared and noisy, so what counts is CPU time of the process
//! under test, its median over interleaved rounds, and the ratio to the
//! yardstick of the same run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;
use crate::load::{Caller, PATIENCE, Work, within};
use crate::measure::{
    Spread, cpu, descendants, descriptors, memory, percentile, raise_descriptors, user_cpu,
};
use crate::process::Process;
use crate::report;
use crate::sections::{self, Idle, Reader, Soaked, Started, Update};
use crate::target::{self, Case, Kind, Program, ROOT_KEY, Road, SMALL, Starter, Target};

/// Parts of a run that are no table of calls.
const SECTIONS: [&str; 4] = ["start", "idle", "update", "reader"];

#[derive(Args)]
pub struct Options {
    /// The program under test
    #[arg(long, default_value = "target/dist/switchboard")]
    switchboard: PathBuf,
    /// Measure other people's bridges too, which are installed here
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Fewer rounds, shorter windows, fewer sessions: about three minutes
    #[arg(long)]
    quick: bool,
    /// Rounds over all targets (default: 5; 3 with --quick)
    #[arg(long)]
    rounds: Option<u32>,
    /// Milliseconds of load on one target in one round (default: 400; 150 with --quick)
    #[arg(long)]
    window: Option<u64>,
    /// Idle sessions to open (default: 10000; 1000 with --quick)
    #[arg(long)]
    sessions: Option<usize>,
    /// Measure only these parts, separated by commas, and the bare work beside them
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Of the calls, measure only those with so many bytes
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Of the calls, measure only those with so many connections
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Load a gateway for so many minutes (10 if none are given), too
    #[arg(long, num_args = 0..=1, default_missing_value = "10")]
    soak: Option<u64>,
    /// Write the page of a whole run here, its plots into the folder beside it; stdout without it
    #[arg(long, conflicts_with_all = ["only", "sizes", "connections"])]
    report: Option<PathBuf>,
    /// What to put at the end of the page
    #[arg(long)]
    notes: Option<PathBuf>,
}

/// How long the parts of a run take.
pub struct Plan {
    pub rounds: u32,
    pub window: Duration,
    pub sessions: usize,
}

/// All that a run has shown.
#[derive(Default)]
pub struct Results {
    pub readings: Vec<Reading>,
    pub started: Vec<Started>,
    pub idle: Vec<Idle>,
    pub updates: Vec<Update>,
    pub readers: Vec<Reader>,
    pub soaked: Vec<Soaked>,
    /// Spans that gateways with traces did not send, by target.
    pub dropped_spans: Vec<(&'static str, f64)>,
}

/// What one target has shown in one case.
pub struct Reading {
    pub target: Target,
    pub case: Case,
    /// CPU of the target, of the load, and of the server behind the target, in microseconds a
    /// request.
    pub cost: Spread,
    pub load: Spread,
    pub back: Option<Spread>,
    /// Mean of the target over all rounds, in user space and in the kernel, and of the load.
    pub split: (f64, f64),
    pub load_split: (f64, f64),
    pub p50: Spread,
    pub p99: Spread,
    /// Requests a second.
    pub rate: Spread,
    /// KiB after the load, and open files.
    pub memory: f64,
    pub descriptors: usize,
}

/// Measures, unless a signal ends it: whatever runs then ends with the future that holds it.
pub async fn run(options: Options) -> Result<(), Failure> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = measure(options) => ended,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminated.recv() => Err("terminated".into()),
    }
}

async fn measure(options: Options) -> Result<(), Failure> {
    let plan = Plan {
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 5 }),
        window: Duration::from_millis(options.window.unwrap_or(if options.quick {
            150
        } else {
            400
        })),
        sessions: options.sessions.unwrap_or(if options.quick { 1000 } else { 10_000 }),
    };
    if cfg!(debug_assertions) && options.report.is_some() {
        return Err("the bare programs are slow in a debug build; build with --profile dist".into());
    }
    let begun = Instant::now();
    let limit = raise_descriptors()?;
    let mut starter = Starter::new(&options.switchboard, options.peers.as_deref())?;
    check_names(&options.only)?;
    let mut results = Results::default();
    for road in [Road::Server, Road::Stdio, Road::Http] {
        let targets = options.select(road, &starter);
        measure_road(&mut starter, targets, &plan, &mut results).await?;
    }
    if options.wants("start") {
        results.started = sections::start(&mut starter, &plan).await?;
    }
    if options.wants("idle") {
        results.idle = sections::idle(&mut starter, &plan, limit).await?;
    }
    if options.wants("update") {
        results.updates = sections::update(&mut starter, &plan).await?;
    }
    if options.wants("reader") {
        results.readers = sections::reader(&mut starter, &plan).await?;
    }
    if let Some(minutes) = options.soak {
        results.soaked = sections::soak(&mut starter, Duration::from_secs(60 * minutes)).await?;
    }
    eprintln!("measured in {:.0} s", begun.elapsed().as_secs_f64());
    let notes = options.notes.as_deref().map(std::fs::read_to_string).transpose()?;
    let page = report::write(&results, &plan, options.peers.as_deref(), notes.as_deref())?;
    match &options.report {
        Some(path) => report::save(&page, path)?,
        None => print!("{}", page.text),
    }
    Ok(())
}

fn check_names(only: &[String]) -> Result<(), Failure> {
    let mut known: Vec<_> =
        target::all().iter().map(|target| target.group).chain(SECTIONS).collect();
    known.dedup();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("--only {name}: there is only {}", known.join(", ")).into()),
        None => Ok(()),
    }
}

impl Options {
    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == part)
    }

    /// The targets of a road that are wanted, each with the cases that are, and the bare
    /// ones that these are compared with.
    fn select(&self, road: Road, starter: &Starter) -> Vec<(Target, Vec<Case>)> {
        let of_road = target::all().into_iter().filter(|target| target.road == road);
        let mut chosen: Vec<_> = of_road
            .filter(|target| starter.has(target.program))
            .map(|target| (self.wants(target.group), self.cases(&target), target))
            .collect();
        let wanted: Vec<Case> = chosen
            .iter()
            .filter(|(wanted, ..)| *wanted)
            .flat_map(|(_, cases, _)| cases.clone())
            .collect();
        for (is_wanted, cases, target) in &mut chosen {
            if !*is_wanted && target.is_yardstick() {
                cases.retain(|case| wanted.contains(case));
                *is_wanted = true;
            }
        }
        let chosen =
            chosen.into_iter().filter(|(is_wanted, cases, _)| *is_wanted && !cases.is_empty());
        chosen.map(|(_, cases, target)| (target, cases)).collect()
    }

    fn cases(&self, target: &Target) -> Vec<Case> {
        let is_chosen = |case: &&Case| {
            let sized = match case.work {
                Work::Call(bytes) => self.sizes.is_empty() || self.sizes.contains(&bytes),
                Work::List => self.sizes.is_empty(),
            };
            sized && (self.connections.is_empty() || self.connections.contains(&case.connections))
        };
        target.cases.iter().filter(is_chosen).copied().collect()
    }
}

impl Target {
    /// Whether other groups are compared with it.
    fn is_yardstick(&self) -> bool {
        self.kind == Kind::Bare && !["events", "lists"].contains(&self.group)
    }
}

/// A target that runs.
struct Running {
    target: Target,
    process: Process,
    caller: Caller,
    cases: Vec<(Case, Vec<Sample>)>,
}

async fn measure_road(
    starter: &mut Starter,
    targets: Vec<(Target, Vec<Case>)>,
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (target, cases) in targets {
        eprintln!("starting {} ({:?})", target.name, target.road);
        let named = |error| format!("{} ({:?}): {error}", target.name, target.road);
        let process = starter.start(target.program).await.map_err(named)?;
        let manner = target.program.manner(target.era);
        let caller = Caller::new(&process.url, &manner).await.map_err(named)?;
        sample(&process, &caller, SMALL, plan.window).await.map_err(named)?;
        let cases = cases.into_iter().map(|case| (case, Vec::new())).collect();
        all.push(Running { target, process, caller, cases });
    }
    let mut order: Vec<Case> = Vec::new();
    for (case, _) in all.iter().flat_map(|running| &running.cases) {
        if !order.contains(case) {
            order.push(*case);
        }
    }
    for round in 1..=plan.rounds {
        for case in &order {
            eprintln!("round {round} of {}: {case}", plan.rounds);
            for Running { target, process, caller, cases } in &mut all {
                let Some((_, samples)) = cases.iter_mut().find(|(its, _)| its == case) else {
                    continue;
                };
                let taken = sample(process, caller, *case, plan.window).await;
                samples
                    .push(taken.map_err(|error| {
                        format!("{} ({:?}): {error}", target.name, target.road)
                    })?);
            }
        }
    }
    for Running { target, cases, caller, .. } in all {
        if matches!(target.program, Program::Gateway { guarded: true, .. }) {
            let asked = caller.metric(ROOT_KEY, "switchboard_dropped_spans_total");
            results.dropped_spans.push((target.name, within(PATIENCE, target.name, asked).await?));
        }
        for (case, samples) in cases {
            results.readings.push(Reading::new(target.clone(), case, &samples)?);
        }
    }
    Ok(())
}

/// What one window has shown.
pub struct Sample {
    pub cost: f64,
    load: f64,
    back: Option<f64>,
    spent: Spent,
    load_spent: Spent,
    p50: f64,
    pub p99: f64,
    pub rate: f64,
    pub requests: u64,
    pub memory: f64,
    pub descriptors: usize,
}

/// CPU time of a process: all of it, and the part in user space.
#[derive(Clone, Copy, Default)]
struct Spent {
    all: Duration,
    user: Duration,
}

impl Spent {
    fn read(pid: u32) -> Result<Self, Failure> {
        Ok(Self { all: cpu(pid)?, user: user_cpu(pid)? })
    }

    /// What `pid` has spent since.
    fn since(self, pid: u32) -> Result<Self, Failure> {
        let now = Self::read(pid)?;
        let (all, user) = (now.all.saturating_sub(self.all), now.user.saturating_sub(self.user));
        Ok(Self { all, user })
    }

    /// Microseconds a request in user space and in the kernel, over all rounds.
    fn split(parts: impl Iterator<Item = Self> + Clone, requests: u64) -> (f64, f64) {
        let all = each(parts.clone().map(|part| part.all).sum(), requests);
        // The clock of the user time is coarse.
        let user = each(parts.map(|part| part.user).sum(), requests).min(all);
        (user, all - user)
    }
}

/// Loads a process for one window.
pub async fn sample(
    process: &Process,
    caller: &Caller,
    case: Case,
    window: Duration,
) -> Result<Sample, Failure> {
    within(window + PATIENCE, "a sample", take_sample(process, caller, case, window)).await
}

async fn take_sample(
    process: &Process,
    caller: &Caller,
    case: Case,
    window: Duration,
) -> Result<Sample, Failure> {
    let (pid, load) = (process.pid()?, std::process::id());
    let connections = caller.connections(case.connections).await?;
    let backs = process.shared_back.map_or_else(|| descendants(pid), |back| Ok(vec![back]))?;
    let cpu_of_backs = || backs.iter().map(|&back| cpu(back)).sum::<Result<Duration, _>>();
    let (before, load_before) = (Spent::read(pid)?, Spent::read(load)?);
    let backs_before = cpu_of_backs()?;
    let begun = Instant::now();
    let mut times = caller.work_for(case.work, window, connections).await?;
    let took = begun.elapsed().as_secs_f64();
    let requests = times.len() as u64;
    let (spent, load_spent) = (before.since(pid)?, load_before.since(load)?);
    let back = each(cpu_of_backs()?.saturating_sub(backs_before), requests);
    Ok(Sample {
        cost: each(spent.all, requests),
        load: each(load_spent.all, requests),
        back: (!backs.is_empty()).then_some(back),
        spent,
        load_spent,
        p50: percentile(&mut times, 0.5),
        p99: percentile(&mut times, 0.99),
        rate: count(requests) / took,
        requests,
        memory: memory(pid)?,
        descriptors: descriptors(pid)?,
    })
}

impl Reading {
    fn new(target: Target, case: Case, samples: &[Sample]) -> Result<Self, Failure> {
        let spread = |value: fn(&Sample) -> f64| Spread::new(samples.iter().map(value).collect());
        let last = samples.last().ok_or("no rounds")?;
        let requests = samples.iter().map(|sample| sample.requests).sum();
        let backs: Option<Vec<_>> = samples.iter().map(|sample| sample.back).collect();
        Ok(Self {
            target,
            case,
            cost: spread(|sample| sample.cost)?,
            load: spread(|sample| sample.load)?,
            back: backs.map(Spread::new).transpose()?,
            split: Spent::split(samples.iter().map(|sample| sample.spent), requests),
            load_split: Spent::split(samples.iter().map(|sample| sample.load_spent), requests),
            p50: spread(|sample| sample.p50)?,
            p99: spread(|sample| sample.p99)?,
            rate: spread(|sample| sample.rate)?,
            memory: last.memory,
            descriptors: last.descriptors,
        })
    }
}

/// Microseconds of one among `requests`.
pub fn each(spent: Duration, requests: u64) -> f64 {
    spent.as_secs_f64() * 1e6 / count(requests.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 calls")]
pub fn count(number: u64) -> f64 {
    number as f64
}
