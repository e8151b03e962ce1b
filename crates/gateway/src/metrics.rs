//! Metrics in the text format of Prometheus.
//!
//! There is no registry: each scrape asks the parts that count. A server that is gone is
//! not shown, and a gateway that is not scraped spends nothing.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use switchboard_net::bridge::Bridge;
use switchboard_net::http::body::HttpCounters;
use switchboard_net::http::site::{Site, Sites};
use switchboard_net::platform;
use switchboard_net::upstream::Traffic;

use crate::fleet::Fleet;
use crate::monitor::{BUCKETS, CallMonitor, CallResult, Series};

/// What a family of samples is.
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";
const HISTOGRAM: &str = "histogram";

type Labels<'a> = &'a [(&'a str, &'a str)];

/// Begins a family; its samples must follow at once.
fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(text: &mut String, name: &str, labels: Labels<'_>, value: impl Display) {
    text.push_str(name);
    for (at, (label, value)) in labels.iter().enumerate() {
        let before = if at == 0 { '{' } else { ',' };
        _ = write!(text, "{before}{label}=\"{}\"", escaped(value));
    }
    let end = if labels.is_empty() { "" } else { "}" };
    _ = writeln!(text, "{end} {value}");
}

/// A family with one sample.
fn one(text: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    family(text, name, kind, help);
    sample(text, name, &[], value);
}

/// As the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A family: its name, what it is, what it means, and where its value comes from.
type MetricFamily<T, N> = (&'static str, &'static str, &'static str, fn(&T) -> N);

/// All metrics of a gateway.
pub fn page(fleet: &Fleet, sites: &Sites) -> String {
    let mut text = String::new();
    ourselves(&mut text, fleet);
    clients(&mut text, sites);
    calls(&mut text, fleet.monitor());
    servers(&mut text, fleet);
    text
}

fn ourselves(text: &mut String, fleet: &Fleet) {
    family(text, "switchboard_build_info", GAUGE, "The version that runs.");
    sample(text, "switchboard_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let age = fleet.began.elapsed().as_secs_f64();
    one(text, "switchboard_uptime_seconds", GAUGE, "How long the gateway runs.", age);
    if let Some(bytes) = platform::resident_memory() {
        let help = "Resident memory size in bytes.";
        one(text, "process_resident_memory_bytes", GAUGE, help, bytes);
    }
    if let Some(files) = platform::open_files() {
        let help = "Number of open file descriptors.";
        one(text, "process_open_fds", GAUGE, help, files);
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let help = "Tasks of the runtime that are not over.";
        let tasks = runtime.metrics().num_alive_tasks();
        one(text, "switchboard_tasks", GAUGE, help, tasks);
    }
    let help = "Spans that were not sent: too many, or no collector took them.";
    one(text, "switchboard_dropped_spans_total", COUNTER, help, fleet.monitor().dropped_spans());
}

/// The counters of all sites; several sites may share theirs.
fn tallies(sites: &[Site]) -> Vec<Arc<HttpCounters>> {
    let mut tallies: Vec<Arc<HttpCounters>> = Vec::new();
    for site in sites {
        let tally = &site.options().tally;
        if !tallies.iter().any(|known| Arc::ptr_eq(known, tally)) {
            tallies.push(Arc::clone(tally));
        }
    }
    tallies
}

fn clients(text: &mut String, sites: &Sites) {
    let sites = &*sites.each();
    family(text, "switchboard_sessions", GAUGE, "Sessions of clients, by path.");
    for site in sites {
        let path = site.options().path.as_str();
        sample(text, "switchboard_sessions", &[("path", path)], site.sessions());
    }
    let parked: usize = sites.iter().map(Site::parked).sum();
    let help = "Calls that wait for their clients to come back with input.";
    one(text, "switchboard_parked_calls", GAUGE, help, parked);
    let tallies = tallies(sites);
    for (name, kind, help, of) in CLIENTS {
        let sum: u64 = tallies.iter().map(|tally| of(tally)).sum();
        one(text, name, kind, help, sum);
    }
    let name = "switchboard_refusals_total";
    family(text, name, COUNTER, "Requests that were turned away, by reason.");
    let mut reasons = std::collections::BTreeMap::new();
    for (reason, count) in tallies.iter().flat_map(|tally| tally.refused()) {
        *reasons.entry(reason).or_insert(0) += count;
    }
    for (reason, count) in reasons {
        sample(text, name, &[("reason", reason)], count);
    }
}

fn calls(text: &mut String, monitor: &CallMonitor) {
    let (open, counts) = (monitor.open_calls(), monitor.counts());
    one(text, "switchboard_open_calls", GAUGE, "Calls that are not answered yet.", open);
    let name = "switchboard_requests_total";
    family(text, name, COUNTER, "Requests of clients, by method and outcome.");
    counts.each_method(|method, series| outcomes(text, name, &[("method", method)], series));
    let name = "switchboard_request_duration_seconds";
    family(text, name, HISTOGRAM, "How long requests took, by method.");
    counts.each_method(|method, series| histogram(text, name, &[("method", method)], series));
    let name = "switchboard_tool_calls_total";
    family(text, name, COUNTER, "Calls of tools, by server, tool and outcome.");
    counts.each_tool(|labels, series| outcomes(text, name, labels, series));
    let name = "switchboard_tool_call_duration_seconds";
    family(text, name, HISTOGRAM, "How long calls of tools took, by server and tool.");
    counts.each_tool(|labels, series| histogram(text, name, labels, series));
}

fn outcomes(text: &mut String, name: &str, labels: Labels<'_>, series: &Series) {
    for outcome in CallResult::ALL.into_iter().filter(|outcome| series.of(*outcome) > 0) {
        let labels = [labels, &[("outcome", outcome.name())]].concat();
        sample(text, name, &labels, series.of(outcome));
    }
}

fn histogram(text: &mut String, name: &str, labels: Labels<'_>, series: &Series) {
    let cumulated = series.cumulated();
    let bucket = format!("{name}_bucket");
    let ends = BUCKETS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (end, count) in ends.zip(cumulated) {
        let labels = [labels, &[("le", end.as_str())]].concat();
        sample(text, &bucket, &labels, count);
    }
    sample(text, &format!("{name}_sum"), labels, series.seconds());
    sample(text, &format!("{name}_count"), labels, cumulated[BUCKETS.len()]);
}

#[rustfmt::skip]
const CLIENTS: [MetricFamily<HttpCounters, u64>; 4] = [
    ("switchboard_streams", GAUGE, "Event streams that are open.", HttpCounters::streams),
    ("switchboard_stream_resumes_total", COUNTER, "Streams that clients came back to.", HttpCounters::resumed),
    ("switchboard_received_bytes_total", COUNTER, "Bytes of bodies from clients.", HttpCounters::received),
    ("switchboard_sent_bytes_total", COUNTER, "Bytes of bodies to clients.", HttpCounters::sent),
];

#[rustfmt::skip]
const GAUGES: [MetricFamily<Bridge, usize>; 4] = [
    ("switchboard_server_open_calls", GAUGE, "Calls that are open at a server.", Bridge::calls),
    ("switchboard_server_queued_calls", GAUGE, "Calls that wait for a server, or for their turn there.", Bridge::queued),
    ("switchboard_server_unsent_messages", GAUGE, "Messages that wait to be written to a server.", Bridge::unsent),
    ("switchboard_server_connections", GAUGE, "Connections to a server for calls of clients.", Bridge::connections),
];

#[rustfmt::skip]
const TRAFFIC: [MetricFamily<Traffic, u64>; 8] = [
    ("switchboard_server_calls_total", COUNTER, "Calls of clients that went on to a server.", Traffic::called),
    ("switchboard_server_children", GAUGE, "Processes of a server.", Traffic::children),
    ("switchboard_server_starts_total", COUNTER, "Processes of a server that were started.", Traffic::started),
    ("switchboard_server_restarts_total", COUNTER, "Starts in place of one that broke, whatever each took.", Traffic::restarted),
    ("switchboard_server_resumes_total", COUNTER, "Streams of a server that broke and were resumed.", Traffic::resumed),
    ("switchboard_server_reinitializations_total", COUNTER, "Sessions that a server had forgotten and were made anew.", Traffic::greeted_again),
    ("switchboard_server_received_bytes_total", COUNTER, "Bytes of messages from a server.", Traffic::received),
    ("switchboard_server_sent_bytes_total", COUNTER, "Bytes of messages to a server.", Traffic::sent),
];

fn servers(text: &mut String, fleet: &Fleet) {
    family(text, "switchboard_server_up", GAUGE, "Whether a server is ready.");
    for (server, state) in fleet.states() {
        let is_up = u8::from(state.is_up() || fleet.is_open_to_people(&server, &state));
        sample(text, "switchboard_server_up", &[("server", &server)], is_up);
    }
    let all = fleet.running_servers();
    for (name, kind, help, of) in GAUGES {
        family(text, name, kind, help);
        for (server, running) in all.iter() {
            sample(text, name, &[("server", server)], of(&running.bridge));
        }
    }
    for (name, kind, help, of) in TRAFFIC {
        family(text, name, kind, help);
        for (server, running) in all.iter() {
            sample(text, name, &[("server", server)], of(running.bridge.server().traffic()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_family_and_labels_are_escaped() {
        let mut text = String::new();
        one(&mut text, "a_total", COUNTER, "How many.", 3);
        family(&mut text, "b", GAUGE, "How much.");
        sample(&mut text, "b", &[("x", "1\"\\\n"), ("y", "é")], 0.5);
        let expected = "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n\
                        # HELP b How much.\n# TYPE b gauge\nb{x=\"1\\\"\\\\\\n\",y=\"é\"} 0.5\n";
        assert_eq!(text, expected);
    }
}
