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

/// The text, as it grows.
#[derive(Debug, Default)]
struct MetricsText {
    text: String,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl MetricsText {
    /// Begins a family; its samples must follow at once.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            _ = write!(self.text, "{before}{label}=\"{}\"", escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        _ = writeln!(self.text, "{end} {value}");
    }

    /// A family with one sample.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// As the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A family: its name, what it is, what it means, and where its value comes from.
type MetricFamily<T, N> = (&'static str, &'static str, &'static str, fn(&T) -> N);

/// All metrics of a gateway.
pub fn page(fleet: &Fleet, sites: &Sites) -> String {
    let mut text = MetricsText::default();
    ourselves(&mut text, fleet);
    clients(&mut text, sites);
    calls(&mut text, fleet.monitor());
    servers(&mut text, fleet);
    text.text
}

fn ourselves(text: &mut MetricsText, fleet: &Fleet) {
    text.family("switchboard_build_info", GAUGE, "The version that runs.");
    text.sample("switchboard_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let age = fleet.began.elapsed().as_secs_f64();
    text.one("switchboard_uptime_seconds", GAUGE, "How long the gateway runs.", age);
    if let Some(bytes) = platform::resident_memory() {
        let help = "Resident memory size in bytes.";
        text.one("process_resident_memory_bytes", GAUGE, help, bytes);
    }
    if let Some(files) = platform::open_files() {
        let help = "Number of open file descriptors.";
        text.one("process_open_fds", GAUGE, help, files);
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let help = "Tasks of the runtime that are not over.";
        let tasks = runtime.metrics().num_alive_tasks();
        text.one("switchboard_tasks", GAUGE, help, tasks);
    }
    let help = "Spans that were not sent: too many, or no collector took them.";
    text.one("switchboard_dropped_spans_total", COUNTER, help, fleet.monitor().dropped_spans());
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

fn clients(text: &mut MetricsText, sites: &Sites) {
    let sites = &*sites.each();
    text.family("switchboard_sessions", GAUGE, "Sessions of clients, by path.");
    for site in sites {
        let path = site.options().path.as_str();
        text.sample("switchboard_sessions", &[("path", path)], site.sessions());
    }
    let parked: usize = sites.iter().map(Site::parked).sum();
    let help = "Calls that wait for their clients to come back with input.";
    text.one("switchboard_parked_calls", GAUGE, help, parked);
    let tallies = tallies(sites);
    for (name, kind, help, of) in CLIENTS {
        let sum: u64 = tallies.iter().map(|tally| of(tally)).sum();
        text.one(name, kind, help, sum);
    }
    let name = "switchboard_refusals_total";
    text.family(name, COUNTER, "Requests that were turned away, by reason.");
    let mut reasons = std::collections::BTreeMap::new();
    for (reason, count) in tallies.iter().flat_map(|tally| tally.refused()) {
        *reasons.entry(reason).or_insert(0) += count;
    }
    for (reason, count) in reasons {
        text.sample(name, &[("reason", reason)], count);
    }
}

fn calls(text: &mut MetricsText, monitor: &CallMonitor) {
    let (open, counts) = (monitor.open_calls(), monitor.counts());
    text.one("switchboard_open_calls", GAUGE, "Calls that are not answered yet.", open);
    let name = "switchboard_requests_total";
    text.family(name, COUNTER, "Requests of clients, by method and outcome.");
    counts.each_method(|method, series| outcomes(text, name, &[("method", method)], series));
    let name = "switchboard_request_duration_seconds";
    text.family(name, HISTOGRAM, "How long requests took, by method.");
    counts.each_method(|method, series| histogram(text, name, &[("method", method)], series));
    let name = "switchboard_tool_calls_total";
    text.family(name, COUNTER, "Calls of tools, by server, tool and outcome.");
    counts.each_tool(|labels, series| outcomes(text, name, labels, series));
    let name = "switchboard_tool_call_duration_seconds";
    text.family(name, HISTOGRAM, "How long calls of tools took, by server and tool.");
    counts.each_tool(|labels, series| histogram(text, name, labels, series));
}

fn outcomes(text: &mut MetricsText, name: &str, labels: Labels<'_>, series: &Series) {
    for outcome in CallResult::ALL.into_iter().filter(|outcome| series.of(*outcome) > 0) {
        let labels = [labels, &[("outcome", outcome.name())]].concat();
        text.sample(name, &labels, series.of(outcome));
    }
}

fn histogram(text: &mut MetricsText, name: &str, labels: Labels<'_>, series: &Series) {
    let cumulated = series.cumulated();
    let bucket = format!("{name}_bucket");
    let ends = BUCKETS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (end, count) in ends.zip(cumulated) {
        let labels = [labels, &[("le", end.as_str())]].concat();
        text.sample(&bucket, &labels, count);
    }
    text.sample(&format!("{name}_sum"), labels, series.seconds());
    text.sample(&format!("{name}_count"), labels, cumulated[BUCKETS.len()]);
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
const TRAFFIC: [MetricFamily<Traffic, u64>; 7] = [
    ("switchboard_server_children", GAUGE, "Processes of a server.", Traffic::children),
    ("switchboard_server_starts_total", COUNTER, "Processes of a server that were started.", Traffic::started),
    ("switchboard_server_restarts_total", COUNTER, "Starts in place of one that broke, whatever each took.", Traffic::restarted),
    ("switchboard_server_resumes_total", COUNTER, "Streams of a server that broke and were resumed.", Traffic::resumed),
    ("switchboard_server_reinitializations_total", COUNTER, "Sessions that a server had forgotten and were made anew.", Traffic::greeted_again),
    ("switchboard_server_received_bytes_total", COUNTER, "Bytes of messages from a server.", Traffic::received),
    ("switchboard_server_sent_bytes_total", COUNTER, "Bytes of messages to a server.", Traffic::sent),
];

fn servers(text: &mut MetricsText, fleet: &Fleet) {
    text.family("switchboard_server_up", GAUGE, "Whether a server is ready.");
    for (server, state) in fleet.states() {
        let is_up = u8::from(state.is_up() || fleet.is_open_to_people(&server, &state));
        text.sample("switchboard_server_up", &[("server", &server)], is_up);
    }
    let all = fleet.running_servers();
    for (name, kind, help, of) in GAUGES {
        text.family(name, kind, help);
        for (server, running) in all.iter() {
            text.sample(name, &[("server", server)], of(&running.bridge));
        }
    }
    for (name, kind, help, of) in TRAFFIC {
        text.family(name, kind, help);
        for (server, running) in all.iter() {
            text.sample(name, &[("server", server)], of(running.bridge.server().traffic()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_family_and_labels_are_escaped() {
        let mut text = MetricsText::default();
        text.one("a_total", COUNTER, "How many.", 3);
        text.family("b", GAUGE, "How much.");
        text.sample("b", &[("x", "1\"\\\n"), ("y", "é")], 0.5);
        let expected = "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n\
                        # HELP b How much.\n# TYPE b gauge\nb{x=\"1\\\"\\\\\\n\",y=\"é\"} 0.5\n";
        assert_eq!(text.text, expected);
    }
}
