//! The readings as a page for people, with plots.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::bars::{self, Limit};
use crate::measure::Spread;
use crate::plot::{self, Row};
use crate::run::{Plan, Reading, Results};
use crate::target::{ALONE, Case, HUGE, Kind, LARGE, LIST, MANY, Road, SMALL};

/// A page, and the plots that it shows: file names and what is in them.
pub struct Page {
    pub text: String,
    plots: Vec<(String, String)>,
}

/// Where the plots are, seen from the page.
const FOLDER: &str = "performance";

pub fn write(
    results: &Results,
    plan: &Plan,
    peers: Option<&Path>,
    notes: Option<&str>,
) -> Result<Page, Failure> {
    let mut page = Page { text: String::new(), plots: Vec::new() };
    write!(
        page.text,
        "# What a request costs\n\n\
         Written by `bench/run.sh`; do not edit. CPU is the time (user and system) of the tested process alone, in\n\
         microseconds for one request: a `tools/call` of an echo tool, with 100 bytes each way unless the table says otherwise. Each value is the\n\
         median of {} rounds of {} ms, in which all targets of a table take turns. User and system time are means of all rounds.\n\
         The tested process has one core; the load and the server behind it share another. The load checks the id and the content of\n\
         every answer. Ratios hold from machine to machine; microseconds do not.\n\n\
         *Bare* is the least that a hyper program can do for the same job. *A session* is a client with a handshake (2025-11-25). *Events* means that\n\
         answers are event streams, not JSON. rmcp sends with `TCP_NODELAY`, which its examples do not set.\n\n",
        plan.rounds,
        plan.window.as_millis()
    )?;
    machine(&mut page.text, peers)?;
    bar_table(&mut page.text, results)?;
    for (road, title, file) in [
        (Road::Server, "A server of one's own", "server"),
        (Road::Stdio, "HTTP to a stdio server", "stdio"),
        (Road::Http, "HTTP to HTTP", "http"),
    ] {
        let readings: Vec<_> =
            results.readings.iter().filter(|reading| reading.target.road == road).collect();
        if !readings.is_empty() {
            writeln!(page.text, "\n## {title}")?;
            road_tables(&mut page, results, &readings, file)?;
            if road == Road::Http {
                for (name, dropped) in &results.dropped_spans {
                    writeln!(
                        page.text,
                        "\nSpans that \"{name}\" dropped instead of sending: {dropped}."
                    )?;
                }
            }
        }
    }
    sections(&mut page, results)?;
    if let Some(notes) = notes {
        write!(page.text, "\n## What paid and what did not\n\n{}", notes.trim_start())?;
    }
    Ok(page)
}

/// Writes the page to `path` and its plots beside it.
pub fn save(page: &Page, path: &Path) -> Result<(), Failure> {
    let folder = path.with_file_name(FOLDER);
    std::fs::create_dir_all(&folder)?;
    for (file, svg) in &page.plots {
        std::fs::write(folder.join(file), svg)?;
    }
    Ok(std::fs::write(path, &page.text)?)
}

impl Page {
    fn plot(&mut self, file: &str, title: &str, svg: String) -> Result<(), Failure> {
        writeln!(self.text, "\n![{title}]({FOLDER}/{file}.svg)")?;
        self.plots.push((format!("{file}.svg"), svg));
        Ok(())
    }
}

fn machine(text: &mut String, peers: Option<&Path>) -> Result<(), Failure> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::fs::read_to_string("/proc/stat")?;
    let cores = cores.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    writeln!(text, "- Machine: {cores} cores, {}", model.trim_start_matches(['\t', ' ', ':']))?;
    writeln!(text, "- Kernel: {}", said("uname", &["-sr"]))?;
    writeln!(text, "- Compiler: {}; rmcp 3.8.0", said("rustc", &["--version"]))?;
    writeln!(text, "- Commit: {}", said("git", &["describe", "--always", "--dirty"]))?;
    let Some(peers) = peers else { return Ok(()) };
    for package in ["supergateway", "mcp-proxy"] {
        let file = peers.join("node_modules").join(package).join("package.json");
        let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        writeln!(text, "- {package} (npm) {}", json["version"].as_str().unwrap_or("?"))?;
    }
    let python = peers.join("venv/bin/python");
    let ask = "import importlib.metadata as m; print(m.version('mcp-proxy'))";
    writeln!(
        text,
        "- mcp-proxy (Python) {}",
        said(python.to_str().unwrap_or_default(), &["-c", ask])
    )?;
    Ok(())
}

/// The first line that a command says.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "?".into())
}

fn bar_table(text: &mut String, results: &Results) -> Result<(), Failure> {
    let all = bars::all(results);
    let with = |verdict| all.iter().filter(|bar| bar.is_met() == verdict).count();
    let (met, missed, unmeasured) = (with(Some(true)), with(Some(false)), with(None));
    if unmeasured == all.len() {
        return Ok(());
    }
    writeln!(
        text,
        "\n## What must be reached\n\nOf {} bars {met} are met, {missed} missed, {unmeasured} not measured.\n",
        all.len()
    )?;
    writeln!(text, "| what | bar | measured | |\n|---|---|---|---|")?;
    for bar in &all {
        let (sign, limit, unit) = match bar.limit {
            Limit::AtMost(limit, unit) => ("at most", limit, unit),
            Limit::AtLeast(limit, unit) => ("at least", limit, unit),
        };
        let measured = bar.measured.map_or_else(String::new, |value| format!("{value:.2} {unit}"));
        let verdict = match bar.is_met() {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not measured",
        };
        writeln!(text, "| {} | {sign} {limit} {unit} | {measured} | {verdict} |", bar.what)?;
    }
    Ok(())
}

fn road_tables(
    page: &mut Page,
    results: &Results,
    readings: &[&Reading],
    file: &str,
) -> Result<(), Failure> {
    let of = |case: Case| {
        readings.iter().copied().filter(|reading| reading.case == case).collect::<Vec<_>>()
    };
    let ratio = |reading: &Reading| {
        results.yardstick(reading).map_or_else(String::new, |bare| {
            format!("{:.2}", reading.cost.median / bare.cost.median)
        })
    };
    let text = &mut page.text;
    for (case, title) in
        [(SMALL, "Calls of 100 B, 8 connections"), (LIST, "Lists of tools, 8 connections")]
    {
        let rows = of(case);
        if rows.is_empty() {
            continue;
        }
        write!(
            text,
            "\n### {title}\n\n\
             | what | CPU us | lowest - highest | x bare | user | system | p50 us | p99 us | requests/s | MiB | files | load: CPU us | user | system | server behind: CPU us |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        )?;
        for reading in rows {
            let Reading { cost, split, p50, p99, rate, load, load_split, .. } = reading;
            writeln!(
                text,
                "| {} | {:.1} | {:.1} - {:.1} | {} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.1} | {} | {:.1} | {:.1} | {:.1} | {} |",
                reading.target.name,
                cost.median,
                cost.low,
                cost.high,
                ratio(reading),
                split.0,
                split.1,
                p50.median,
                p99.median,
                rate.median,
                reading.memory / 1024.0,
                reading.descriptors,
                load.median,
                load_split.0,
                load_split.1,
                back(reading),
            )?;
        }
    }
    matrix(text, results, readings)?;
    let small = of(SMALL)
        .into_iter()
        .filter(|reading| !["servers", "lists"].contains(&reading.target.group));
    let rows: Vec<_> = small.map(|reading| row(reading, reading.cost.median)).collect();
    if !rows.is_empty() {
        let title = "CPU us of one call of 100 B, 8 connections";
        page.plot(file, title, plot::bars(title, &rows))?;
    }
    connections_plot(page, readings, file)?;
    sizes_plot(page, results, readings, file)
}

/// CPU of the server behind a proxy; a server has none.
fn back(reading: &Reading) -> String {
    reading.back.map_or_else(String::new, |back| format!("{:.1}", back.median))
}

fn row(reading: &Reading, value: f64) -> Row {
    Row { name: reading.target.name.to_owned(), kind: reading.target.kind, values: vec![value] }
}

/// The cases besides the usual one: what they cost, how often that is of the bare work, and how long they take.
fn matrix(text: &mut String, results: &Results, readings: &[&Reading]) -> Result<(), Failure> {
    let rows: Vec<_> =
        readings.iter().filter(|reading| ![SMALL, LIST].contains(&reading.case)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    write!(
        text,
        "\n### Other sizes and numbers of connections\n\n\
         | what | bytes, connections | CPU us | lowest - highest | x bare | p50 us | p99 us | requests/s | load: CPU us | server behind: CPU us |\n\
         |---|---|---|---|---|---|---|---|---|---|\n"
    )?;
    for reading in rows {
        let Spread { median, low, high } = reading.cost;
        let ratio =
            results.yardstick(reading).map(|bare| format!("{:.2}", median / bare.cost.median));
        writeln!(
            text,
            "| {} | {} | {median:.1} | {low:.1} - {high:.1} | {} | {:.0} | {:.0} | {:.0} | {:.1} | {} |",
            reading.target.name,
            reading.case,
            ratio.unwrap_or_default(),
            reading.p50.median,
            reading.p99.median,
            reading.rate.median,
            reading.load.median,
            back(reading),
        )?;
    }
    Ok(())
}

fn connections_plot(page: &mut Page, readings: &[&Reading], file: &str) -> Result<(), Failure> {
    let many = Case { connections: 256, ..SMALL };
    let axis = [ALONE, SMALL, MANY, many];
    let mut rows: Vec<Row> = Vec::new();
    for first in readings.iter().filter(|reading| reading.case == many) {
        let same = |case: &Case| {
            readings
                .iter()
                .find(|other| other.target.name == first.target.name && other.case == *case)
        };
        let values: Vec<_> =
            axis.iter().filter_map(same).map(|reading| reading.cost.median).collect();
        if values.len() == axis.len() {
            rows.push(Row { values, ..row(first, 0.0) });
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let axis: Vec<_> = axis.iter().map(|case| case.connections.to_string()).collect();
    let title = "CPU us of one call of 100 B, by connections";
    page.plot(&format!("{file}-connections"), title, plot::lines(title, &axis, &rows))
}

fn sizes_plot(
    page: &mut Page,
    results: &Results,
    readings: &[&Reading],
    file: &str,
) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for reading in readings.iter().filter(|reading| [LARGE, HUGE].contains(&reading.case)) {
        if let (Some(bare), false) = (results.yardstick(reading), reading.target.kind == Kind::Bare)
        {
            let mut row = row(reading, reading.cost.median / bare.cost.median);
            row.name = format!("{}, {}", row.name, reading.case.to_string().replace(", 8", ""));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let title = "CPU of large calls, as a multiple of the bare work";
    page.plot(&format!("{file}-sizes"), title, plot::bars(title, &rows))
}

fn sections(page: &mut Page, results: &Results) -> Result<(), Failure> {
    let text = &mut page.text;
    if !results.started.is_empty() {
        writeln!(
            text,
            "\n## Start to first answer\n\nThe answer is that of a tool; proxies have reached their server for it.\n"
        )?;
        writeln!(
            text,
            "| what | ms | lowest - highest | MiB then | files |\n|---|---|---|---|---|"
        )?;
        for one in &results.started {
            let Spread { median, low, high } = one.milliseconds;
            let mib = one.memory / 1024.0;
            writeln!(
                text,
                "| {} | {median:.1} | {low:.1} - {high:.1} | {mib:.1} | {} |",
                one.name, one.descriptors
            )?;
        }
    }
    if !results.updates.is_empty() {
        writeln!(text, "\n## One changed list, told to many clients\n")?;
        writeln!(
            text,
            "| what | clients | CPU us for each | lowest - highest | ms until the last one knows |\n|---|---|---|---|---|"
        )?;
        for one in &results.updates {
            let Spread { median, low, high } = one.cost;
            let last = one.milliseconds.median;
            writeln!(
                text,
                "| {} | {} | {median:.1} | {low:.1} - {high:.1} | {last:.0} |",
                one.name, one.subscribers
            )?;
        }
    }
    if !results.readers.is_empty() {
        writeln!(
            text,
            "\n## A client that never reads\n\np99 in us of eight other connections, while a client asks for 1 MiB again and again and reads nothing.\n"
        )?;
        writeln!(text, "| what | without | with | ratio |\n|---|---|---|---|")?;
        for one in &results.readers {
            let (with, without) = (one.with.median, one.without.median);
            writeln!(text, "| {} | {without:.0} | {with:.0} | {:.2} |", one.name, with / without)?;
        }
    }
    if !results.soaked.is_empty() {
        writeln!(
            text,
            "\n## Under load for a while\n\nA gateway with small and large calls of both eras, and sessions that begin and end.\n"
        )?;
        writeln!(
            text,
            "| minutes | requests/s | CPU us | p99 us | MiB | files |\n|---|---|---|---|---|---|"
        )?;
        for one in &results.soaked {
            let mib = one.memory / 1024.0;
            writeln!(
                text,
                "| {:.1} | {:.0} | {:.1} | {:.0} | {mib:.1} | {} |",
                one.minutes, one.rate, one.cost, one.p99, one.descriptors
            )?;
        }
    }
    idle(page, results)
}

fn idle(page: &mut Page, results: &Results) -> Result<(), Failure> {
    if results.idle.is_empty() {
        return Ok(());
    }
    let text = &mut page.text;
    writeln!(text, "\n## Idle sessions\n")?;
    writeln!(
        text,
        "| what | sessions | KiB each | files | CPU us of a call before | beside them |\n|---|---|---|---|---|---|"
    )?;
    let mut rows = Vec::new();
    for one in &results.idle {
        let name = format!(
            "{}, {}",
            one.name,
            if one.streams { "each with a stream" } else { "no streams" }
        );
        writeln!(
            text,
            "| {name} | {} | {:.1} | {} | {:.1} | {:.1} |",
            one.sessions, one.kib, one.descriptors, one.before, one.after
        )?;
        let kind = match one.name.split(' ').next() {
            Some("bare") => Kind::Bare,
            Some("rmcp") => Kind::Rmcp,
            _ => Kind::Ours,
        };
        rows.push(Row { name, kind, values: vec![one.kib] });
    }
    let title = "KiB of an idle session";
    page.plot("idle", title, plot::bars(title, &rows))
}
