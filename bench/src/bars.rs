//! What must be reached, and what was.

use crate::run::{Reading, Results};
use crate::target::{ALONE, Back, Case, HUGE, LARGE, MANY, Program, Road, SMALL};

/// One thing to reach.
pub struct Bar {
    pub what: String,
    pub limit: Limit,
    /// Nothing if this run did not measure it.
    pub measured: Option<f64>,
}

#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64, &'static str),
    AtLeast(f64, &'static str),
}

impl Bar {
    pub fn is_met(&self) -> Option<bool> {
        Some(match self.limit {
            Limit::AtMost(limit, _) => self.measured? <= limit,
            Limit::AtLeast(limit, _) => self.measured? >= limit,
        })
    }
}

const ERAS: [&str; 2] = ["a session", "2026-07-28"];

fn times(limit: f64) -> Limit {
    Limit::AtMost(limit, "x")
}

/// Every bar, in the order in which they were set.
pub fn all(results: &Results) -> Vec<Bar> {
    let mut bars = calls(results);
    bars.extend(latency(results));
    bars.extend(rest(results));
    bars.extend(growth(results));
    bars
}

fn calls(results: &Results) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut add = |what: String, limit, measured| bars.push(Bar { what, limit, measured });
    let cost =
        |road, name: &str, case| results.find(road, name, case).map(|reading| reading.cost.median);
    let ratio = |road, one: &str, other: &str, case| {
        Some(cost(road, one, case)? / cost(road, other, case)?)
    };
    for era in ERAS {
        let measured =
            ratio(Road::Server, &format!("library, {era}"), &format!("bare server, {era}"), SMALL);
        add(format!("server library, 100 B, {era}, over bare"), times(1.4), measured);
    }
    for (theirs, ours) in [
        ("rmcp, events, a session", "library, events"),
        ("rmcp, JSON, no session", "library, a session"),
        ("rmcp, JSON, 2026-07-28", "library, 2026-07-28"),
    ] {
        let measured = ratio(Road::Server, theirs, ours, SMALL);
        add(format!("{ours}, under {theirs}"), Limit::AtLeast(3.0, "x"), measured);
    }
    for era in ERAS {
        let measured =
            ratio(Road::Stdio, &format!("bridge, {era}"), &format!("bare handler, {era}"), SMALL);
        add(format!("bridge to stdio, 100 B, {era}, over bare"), times(1.3), measured);
    }
    for era in ERAS {
        let measured =
            ratio(Road::Http, &format!("bridge, {era}"), &format!("bare proxy, {era}"), SMALL);
        add(format!("bridge to HTTP, 100 B, {era}, over bare"), times(1.5), measured);
    }
    for era in ERAS {
        let measured = ratio(Road::Http, "rmcp proxy", &format!("bridge, {era}"), SMALL);
        let what = format!("bridge to HTTP, {era}, under the rmcp proxy");
        add(what, Limit::AtLeast(6.0, "x"), measured);
    }
    for (era, case) in ERAS.into_iter().flat_map(|era| [(era, SMALL), (era, MANY)]) {
        let measured =
            ratio(Road::Http, &format!("gateway, {era}"), &format!("bare proxy, {era}"), case);
        add(
            format!("gateway, 100 B, {era}, {} connections, over bare", case.connections),
            times(1.7),
            measured,
        );
    }
    for era in ERAS {
        let measured = ratio(
            Road::Http,
            &format!("gateway, guarded, {era}"),
            &format!("gateway, {era}"),
            SMALL,
        );
        add(
            format!("gateway with keys, grants, metrics and traces, {era}, over without"),
            times(1.15),
            measured,
        );
    }
    for ours in ["bridge", "gateway"] {
        for (from, to) in [(ERAS[0], ERAS[1]), (ERAS[1], ERAS[0])] {
            let within = format!("{ours}, {from}");
            let measured = ratio(Road::Http, &format!("{within} to {to}"), &within, SMALL);
            add(format!("{within} to {to}, over {from} alone"), times(1.4), measured);
        }
    }
    for (name, road, bare, ours) in [
        ("bridge to stdio", Road::Stdio, "bare handler", "bridge"),
        ("bridge to HTTP", Road::Http, "bare proxy", "bridge"),
        ("gateway", Road::Http, "bare proxy", "gateway"),
    ] {
        for (case, size) in [(LARGE, "64 KiB"), (HUGE, "1 MiB")] {
            for era in ERAS {
                let measured =
                    ratio(road, &format!("{ours}, {era}"), &format!("{bare}, {era}"), case);
                add(format!("{name}, {size}, {era}, over bare"), times(1.3), measured);
            }
        }
    }
    bars
}

fn latency(results: &Results) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (ours, era) in
        ["bridge", "gateway"].into_iter().flat_map(|ours| ERAS.map(|era| (ours, era)))
    {
        let p50 = |name: &str| {
            Some(results.find(Road::Http, &format!("{name}, {era}"), ALONE)?.p50.median)
        };
        // A proxy that seems to save time tells of noise, and a ratio to it says nothing.
        let added =
            |name| Some(p50(name)? - p50("no proxy")?).filter(|&microseconds| microseconds > 0.0);
        let measured = added(ours).zip(added("bare proxy")).map(|(ours, bare)| ours / bare);
        let what = format!(
            "{ours} to HTTP, {era}, added p50 at 1 connection, over what the bare proxy adds"
        );
        bars.push(Bar { what, limit: times(1.3), measured });
        let p99 = |name: &str| {
            Some(results.find(Road::Http, &format!("{name}, {era}"), MANY)?.p99.median)
        };
        let measured = p99(ours).zip(p99("bare proxy")).map(|(ours, bare)| ours / bare);
        let what = format!("{ours} to HTTP, {era}, p99 at 64 connections, over bare");
        bars.push(Bar { what, limit: times(1.5), measured });
    }
    bars
}

const GATEWAY: Program = Program::Gateway { to: Back::Http, servers: 1, guarded: false };
const BRIDGE: Program = Program::Bridge(Back::Http);

fn rest(results: &Results) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (name, program, streams, limit) in [
        ("gateway", GATEWAY, true, 20.0),
        ("bridge to HTTP", BRIDGE, true, 40.0),
        ("gateway", GATEWAY, false, 4.0),
        ("bridge to HTTP", BRIDGE, false, 16.0),
    ] {
        let found =
            results.idle.iter().find(|idle| idle.program == program && idle.streams == streams);
        let what = format!(
            "{name}, an idle session {} a stream",
            if streams { "with" } else { "without" }
        );
        bars.push(Bar {
            what,
            limit: Limit::AtMost(limit, "KiB"),
            measured: found.map(|idle| idle.kib),
        });
    }
    let started = |program| results.started.iter().find(move |started| started.program == program);
    let bridges =
        [("bridge to stdio", Program::Bridge(Back::Stdio), 8.0), ("bridge to HTTP", BRIDGE, 8.0)];
    for (name, program, limit) in [("gateway", GATEWAY, 12.0)].into_iter().chain(bridges) {
        let measured = started(program).map(|started| started.memory / 1024.0);
        bars.push(Bar {
            what: format!("{name}, memory at rest"),
            limit: Limit::AtMost(limit, "MiB"),
            measured,
        });
        let measured = started(program).map(|started| started.milliseconds.median);
        bars.push(Bar {
            what: format!("{name}, start to first answer"),
            limit: Limit::AtMost(15.0, "ms"),
            measured,
        });
    }
    bars
}

fn growth(results: &Results) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut add = |what, measured| bars.push(Bar { what, limit: times(1.2), measured });
    for name in ["library", "gateway", "bridge to HTTP"] {
        let found = results.idle.iter().find(|idle| idle.name == name && idle.streams);
        let sessions = found.map_or_else(|| "many".to_owned(), |idle| idle.sessions.to_string());
        add(
            format!("{name}, a call beside {sessions} sessions, over few"),
            found.map(|idle| idle.after / idle.before),
        );
    }
    let cost =
        |name: String| results.find(Road::Http, &name, SMALL).map(|reading| reading.cost.median);
    for era in ERAS {
        let few = cost(format!("gateway, {era}"));
        let many = cost(format!("gateway, 200 servers, {era}"));
        add(
            format!("gateway, {era}, a call with 200 servers, over 1"),
            many.zip(few).map(|(many, few)| many / few),
        );
        let few = cost(format!("gateway, 20 tools, {era}"));
        let many = cost(format!("gateway, 2,000 tools, {era}"));
        add(
            format!("gateway, {era}, a call with 2,000 tools, over 20"),
            many.zip(few).map(|(many, few)| many / few),
        );
    }
    for name in ["library", "bridge to stdio", "bridge to HTTP", "gateway"] {
        let found = results.readers.iter().find(|reader| reader.name == name);
        let measured = found.map(|reader| reader.with.median / reader.without.median);
        add(format!("{name}, p99 beside a client that never reads, over without"), measured);
    }
    bars
}

impl Results {
    pub fn find(&self, road: Road, name: &str, case: Case) -> Option<&Reading> {
        let mut all = self.readings.iter();
        all.find(|reading| {
            reading.target.road == road && reading.target.name == name && reading.case == case
        })
    }

    /// The bare work that a reading is compared with: the same road, era and answers.
    pub fn yardstick(&self, of: &Reading) -> Option<&Reading> {
        use crate::target::Kind;
        let (road, back) = (of.target.road, of.target.program.back());
        let bare: Vec<_> = self
            .readings
            .iter()
            .filter(|reading| reading.target.kind == Kind::Bare && reading.target.group != "direct")
            .filter(|bare| bare.target.road == road && bare.case == of.case)
            .filter(|bare| bare.target.program.back() == back)
            .collect();
        let same = bare.iter().find(|bare| bare.target.era == of.target.era);
        same.or(bare.first()).copied()
    }
}
