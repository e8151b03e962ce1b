//! The readings as a page for people.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::run::{Idle, Reading};
use crate::target::{Kind, Road};

/// What the bridge must reach, as ratios: at most so much over the yardstick,
/// at least so much under the rmcp proxy.
const OVER_BARE: f64 = 2.0;
const UNDER_RMCP: f64 = 3.0;

pub fn write(
    readings: &[Reading],
    idle: &[Idle],
    connections: usize,
    rounds: u32,
    peers: &Path,
) -> Result<String, Failure> {
    let mut page = String::new();
    write!(
        page,
        "# What a request costs\n\n\
         Written by `bench/run.sh`; do not edit. CPU time (user and system) of the tested process, in\n\
         microseconds for one `tools/call` of an echo tool with 100 bytes. Each value is the median of {rounds}\n\
         interleaved rounds with {connections} connections. The time in user space is the mean of all rounds. The\n\
         load checks each answer. Ratios hold from machine to machine; microseconds do not.\n\n",
    )?;
    machine(&mut page, peers)?;
    for (road, title) in [(Road::Stdio, "HTTP to a stdio server"), (Road::Http, "HTTP to HTTP")] {
        let of_road: Vec<_> = readings.iter().filter(|reading| reading.road == road).collect();
        table(&mut page, title, &of_road)?;
    }
    memory(&mut page, idle)?;
    bars(&mut page, readings)?;
    Ok(page)
}

fn machine(page: &mut String, peers: &Path) -> Result<(), Failure> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::fs::read_to_string("/proc/stat")?;
    let cores = cores.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    writeln!(page, "- Machine: {cores} cores, {}", model.trim_start_matches(['\t', ' ', ':']))?;
    writeln!(page, "- Kernel: {}", said("uname", &["-sr"]))?;
    writeln!(page, "- Compiler: {}; rmcp 3.8.0", said("rustc", &["--version"]))?;
    for package in ["supergateway", "mcp-proxy"] {
        let file = peers.join("node_modules").join(package).join("package.json");
        if let Ok(text) = std::fs::read_to_string(file) {
            let version = serde_json::from_str::<serde_json::Value>(&text)?["version"].clone();
            writeln!(page, "- {package} (npm) {}", version.as_str().unwrap_or("?"))?;
        }
    }
    if peers.join("venv/bin/mcp-proxy").exists() {
        let python = peers.join("venv/bin/python");
        let ask = "import importlib.metadata as m; print(m.version('mcp-proxy'))";
        let version = said(python.to_str().unwrap_or_default(), &["-c", ask]);
        writeln!(page, "- mcp-proxy (Python) {version}")?;
    }
    Ok(())
}

/// The first line that a command says.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "?".into())
}

fn table(page: &mut String, title: &str, readings: &[&Reading]) -> Result<(), Failure> {
    let Some(bare) = readings.iter().find(|reading| reading.kind == Kind::Bare) else {
        return Ok(());
    };
    writeln!(page, "\n## {title}\n")?;
    writeln!(
        page,
        "| what | CPU us | lowest - highest | x bare | in user space, us | x bare | memory MiB | CPU us of the load | requests |"
    )?;
    writeln!(page, "|---|---|---|---|---|---|---|---|---|")?;
    for reading in readings {
        let cost = reading.cost;
        writeln!(
            page,
            "| {} | {:.1} | {:.1} - {:.1} | {:.2} | {:.1} | {:.2} | {} | {:.1} | {} |",
            reading.name,
            cost.median,
            cost.low,
            cost.high,
            cost.median / bare.cost.median,
            reading.user,
            reading.user / bare.user,
            reading.memory / 1024,
            reading.load.median,
            reading.requests
        )?;
    }
    Ok(())
}

fn memory(page: &mut String, idle: &[Idle]) -> Result<(), Failure> {
    writeln!(page, "\n## An idle session with an open stream\n")?;
    writeln!(page, "| what | sessions | KiB each |\n|---|---|---|")?;
    for reading in idle {
        writeln!(page, "| {} | {} | {:.1} |", reading.name, reading.sessions, reading.kib)?;
    }
    Ok(())
}

fn bars(page: &mut String, readings: &[Reading]) -> Result<(), Failure> {
    write!(
        page,
        "\n## What must be reached\n\n\
         At most {OVER_BARE} x the bare work, and at least {UNDER_RMCP} x under a proxy as the examples of rmcp serve it. Each\n\
         answer of that proxy waits 40 ms for an acknowledgement. The proxy is therefore mostly idle, and\n\
         an idle process pays more for each request. The last column compares with a proxy that sends\n\
         at once. The brackets show the best possible ratio.\n\n\
         | what | x bare | x under rmcp | | with TCP_NODELAY (bare) |\n|---|---|---|---|---|\n"
    )?;
    for ours in readings.iter().filter(|reading| reading.kind == Kind::Ours) {
        let median = |kind| {
            let same = readings.iter().find(|other| other.road == ours.road && other.kind == kind);
            same.map(|other| other.cost.median)
        };
        let [Some(bare), Some(rmcp), Some(tuned)] =
            [Kind::Bare, Kind::Rmcp, Kind::RmcpTuned].map(median)
        else {
            continue;
        };
        let cost = ours.cost.median;
        let (over, under) = (cost / bare, rmcp / cost);
        let is_met = over <= OVER_BARE && under >= UNDER_RMCP;
        writeln!(
            page,
            "| {}, {} | {over:.2} | {under:.1} | {} | {:.1} ({:.1}) |",
            ours.name,
            if ours.road == Road::Stdio { "stdio" } else { "HTTP" },
            if is_met { "met" } else { "missed" },
            tuned / cost,
            tuned / bare
        )?;
    }
    Ok(())
}
