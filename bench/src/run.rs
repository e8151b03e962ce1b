//! The benchmark: every target in turn, round after round, in one run.
//!
//! The machine is shared and noisy, so what counts is CPU time of the process
//! under test, its median over interleaved rounds, and the ratio to the
//! yardstick of the same run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::Failure;
use crate::load::Caller;
use crate::measure::{Spread, cpu, memory, user_cpu};
use crate::process::{MEASURED, OTHERS, Process};
use crate::report;
use crate::target::{self, Kind, Road, Target};
use crate::wire::Era;

#[derive(Args)]
pub struct Options {
    /// The program under test
    #[arg(long, default_value = "target/release/switchboard")]
    switchboard: PathBuf,
    /// Where other people's bridges are installed, if they are
    #[arg(long, default_value = ".cache/bench")]
    peers: PathBuf,
    /// Rounds over all targets
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Milliseconds of load on one target in one round
    #[arg(long, default_value_t = 1500)]
    window: u64,
    /// Connections that call at once
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Idle sessions to open for the reading of memory
    #[arg(long, default_value_t = 1000)]
    sessions: u64,
    /// Measure only what has this in its name; `bare` is always measured
    #[arg(long, default_value = "")]
    only: String,
    /// Where to write the report; stdout without it
    #[arg(long)]
    report: Option<PathBuf>,
}

/// What one target has shown.
pub struct Reading {
    pub name: &'static str,
    pub road: Road,
    pub kind: Kind,
    /// CPU of the target, and of the load, in microseconds a request.
    pub cost: Spread,
    pub load: Spread,
    /// The part of it that the target spends in user space.
    pub user: f64,
    pub requests: u64,
    /// KiB after the load.
    pub memory: u64,
}

/// What a session with an open stream costs while nothing happens.
pub struct Idle {
    pub name: &'static str,
    pub sessions: u64,
    pub kib: f64,
}

struct Seat {
    target: Target,
    process: Process,
    caller: Caller,
    costs: Vec<f64>,
    loads: Vec<f64>,
    user: Duration,
    requests: u64,
}

pub async fn run(options: Options) -> Result<(), Failure> {
    let bench = std::env::current_exe()?;
    let bench = bench.to_str().ok_or("our own path is no text")?;
    let switchboard = options.switchboard.canonicalize().map_err(|error| {
        format!("{}: {error}; build it with cargo build --release", options.switchboard.display())
    })?;
    let switchboard = switchboard.to_str().ok_or("its path is no text")?;
    pin_self()?;
    let upstream =
        Process::start(OTHERS, &[bench.to_owned(), "echo-http".to_owned()], None).await?;
    let peers = options.peers.canonicalize().unwrap_or_else(|_| options.peers.clone());
    let gateway = std::env::temp_dir().join(format!("bench-{}.json", std::process::id()));
    let server = serde_json::json!({ "url": upstream.url, "prefix": "" });
    std::fs::write(&gateway, serde_json::json!({ "mcpServers": { "echo": server } }).to_string())?;
    let file = gateway.to_str().ok_or("the folder for temporary files has no text as its name")?;
    let mut seats = Vec::new();
    for target in target::all(bench, switchboard, &peers, &upstream.url, file)? {
        if target.kind == Kind::Bare || target.name.contains(&options.only) {
            seats.push(Seat::take(target, &options).await?);
        }
    }
    std::fs::remove_file(&gateway)?;
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for seat in &mut seats {
            seat.measure(&options).await?;
        }
    }
    let readings: Result<Vec<_>, _> = seats.into_iter().map(Seat::reading).collect();
    let idle = idle(bench, switchboard, &options).await?;
    let text = report::write(&readings?, &idle, options.connections, options.rounds, &peers)?;
    match &options.report {
        Some(path) => std::fs::write(path, text)?,
        None => print!("{text}"),
    }
    Ok(())
}

impl Seat {
    /// Starts a target and calls it until it is warm.
    async fn take(target: Target, options: &Options) -> Result<Self, Failure> {
        eprintln!("starting {} ({:?})", target.name, target.road);
        let process = Process::start(MEASURED, &target.words, target.port).await?;
        let caller = Caller::new(&process.url, target.era)
            .await
            .map_err(|error| format!("{} ({:?}): {error}", target.name, target.road))?;
        caller.call_for(Duration::from_millis(options.window / 2), options.connections).await?;
        let (costs, loads) = (Vec::new(), Vec::new());
        Ok(Self { target, process, caller, costs, loads, user: Duration::ZERO, requests: 0 })
    }

    async fn measure(&mut self, options: &Options) -> Result<(), Failure> {
        let (pid, load) = (self.process.pid()?, std::process::id());
        let (before, load_before, user_before) = (cpu(pid)?, cpu(load)?, user_cpu(pid)?);
        let window = Duration::from_millis(options.window);
        let calls =
            self.caller.call_for(window, options.connections).await.map_err(|error| {
                format!("{} ({:?}): {error}", self.target.name, self.target.road)
            })?;
        self.costs.push(per_call(cpu(pid)?.saturating_sub(before), calls));
        self.loads.push(per_call(cpu(load)?.saturating_sub(load_before), calls));
        self.user += user_cpu(pid)?.saturating_sub(user_before);
        self.requests += calls;
        Ok(())
    }

    fn reading(self) -> Result<Reading, Failure> {
        let memory = memory(self.process.pid()?)?;
        Ok(Reading {
            name: self.target.name,
            road: self.target.road,
            kind: self.target.kind,
            cost: Spread::of(self.costs).ok_or("no rounds")?,
            load: Spread::of(self.loads).ok_or("no rounds")?,
            user: per_call(self.user, self.requests),
            requests: self.requests,
            memory,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 calls")]
fn per_call(spent: Duration, calls: u64) -> f64 {
    spent.as_secs_f64() * 1e6 / calls.max(1) as f64
}

/// Sessions with an open stream and nothing to say, of ours and of the rmcp proxy.
async fn idle(bench: &str, switchboard: &str, options: &Options) -> Result<Vec<Idle>, Failure> {
    let echo = [bench, "echo-stdio"];
    let ours =
        [switchboard, "bridge", "--log-level", "warn", "--port", "0", "--children", "shared", "--"];
    let rmcp = [bench, "rmcp-proxy", "--"];
    let mut readings = Vec::new();
    for (name, front) in [("switchboard bridge, one child", &ours[..]), ("rmcp proxy", &rmcp[..])] {
        eprintln!("{} idle sessions: {name}", options.sessions);
        let words: Vec<_> = [front, &echo].concat().into_iter().map(str::to_owned).collect();
        let process = Process::start(MEASURED, &words, None).await?;
        let kib = sessions(&process, options.sessions).await?;
        readings.push(Idle { name, sessions: options.sessions, kib });
    }
    Ok(readings)
}

#[expect(clippy::cast_precision_loss, reason = "memory in KiB is far below 2^52")]
async fn sessions(process: &Process, count: u64) -> Result<f64, Failure> {
    let mut open = Vec::new();
    // The first ones pay for what all share.
    for _ in 0..count / 10 {
        open.push(Caller::new(&process.url, Era::Legacy).await?.watch().await?);
    }
    let before = memory(process.pid()?)?;
    for _ in 0..count {
        open.push(Caller::new(&process.url, Era::Legacy).await?.watch().await?);
    }
    let after = memory(process.pid()?)?;
    Ok(after.saturating_sub(before) as f64 / count.max(1) as f64)
}

/// The load is not on the core that is measured.
fn pin_self() -> Result<(), Failure> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(OTHERS.parse()?);
    // The runtime has its threads already, and each has an affinity of its own.
    for task in std::fs::read_dir("/proc/self/task")? {
        let id: i32 = task?.file_name().to_str().ok_or("no number")?.parse()?;
        rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(id), &cores)?;
    }
    more_descriptors()
}

/// As many files as the system lets us have; the processes under test inherit it.
fn more_descriptors() -> Result<(), Failure> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
