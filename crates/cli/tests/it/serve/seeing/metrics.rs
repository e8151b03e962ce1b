//! The page for Prometheus: its form, and what it counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Gateway, Session, mirror};
use crate::process::{SERVER, until};
use crate::serve::{demo, rude};
use crate::web::{Events, send};

/// What the page says, family by family.
#[derive(Debug, Default)]
struct Page {
    kinds: BTreeMap<String, String>,
    /// Labels in the order they came.
    samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

/// Reads the text format of Prometheus, and takes nothing else.
fn parse(text: &str) -> Page {
    let mut page = Page::default();
    let mut helped = BTreeSet::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name.to_owned()), "two families {name}");
            assert!(!help.is_empty());
            name.clone_into(&mut current);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "TYPE follows HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            page.kinds.insert(name.to_owned(), kind.to_owned());
        } else {
            let (name, labels, value) = sample(line);
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_histogram = page.kinds[&current] == "histogram";
            let family = if is_histogram { base.unwrap() } else { name.as_str() };
            assert_eq!(family, current, "a sample outside of its family: {line}");
            let before = page.samples.insert((name, labels), value);
            assert_eq!(before, None, "twice: {line}");
        }
    }
    assert_eq!(helped.len(), page.kinds.len());
    page
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (head, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
    let (name, mut rest) = match head.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').unwrap()),
        None => (head, ""),
    };
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, more) = rest.split_once("=\"").unwrap();
        assert!(is_name(label), "{line}");
        let (mut text, mut chars) = (String::new(), more.char_indices());
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => text.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => text.push(other),
            }
        };
        labels.push((label.to_owned(), text));
        rest = &more[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (name.to_owned(), labels, value)
}

impl Page {
    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        self.samples.get(&(name.to_owned(), labels.iter().map(own).collect())).copied()
    }

    /// Buckets grow, and the last is the count.
    fn check_histograms(&self) {
        let mut series: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.samples {
            if let Some(base) = name.strip_suffix("_bucket") {
                let (le, rest) = labels.split_last().unwrap();
                assert_eq!(le.0, "le");
                let end = if le.1 == "+Inf" { f64::INFINITY } else { le.1.parse().unwrap() };
                series.entry((base.to_owned(), rest.to_vec())).or_default().push((end, *value));
            }
        }
        assert!(!series.is_empty());
        for ((name, labels), mut buckets) in series {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(buckets.is_sorted_by_key(|bucket| bucket.1), "{name} {labels:?}");
            let last = buckets.last().unwrap();
            assert!(last.0.is_infinite());
            let count = self.samples[&(format!("{name}_count"), labels.clone())];
            assert_eq!(last.1.to_bits(), count.to_bits(), "{name} {labels:?}");
            assert!(self.samples[&(format!("{name}_sum"), labels)] >= 0.0);
        }
    }
}

#[test]
fn calls_are_counted_by_server_and_tool_and_names_of_nobody_are_not() {
    let gateway = Gateway::told(
        &json!({"mcpServers": {"demo \"x\"": demo(&[]), "mirror": mirror()}}),
        &[],
        &[],
    );
    gateway.until_ready(&["demo \"x\"", "mirror"]);
    let all = Session::open(gateway.port, "/mcp", &[]);
    for _ in 0..3 {
        all.call(&json!({"name": "mirror__mirror"}), &[]);
    }
    all.call(&json!({"name": "mirror__broken"}), &[]);
    all.call(&json!({"name": "nobody__has_this"}), &[]);
    let alone = Session::open(gateway.port, "/servers/mirror/mcp", &[]);
    alone.call(&json!({"name": "mirror"}), &[]);
    for number in 0..3 {
        alone.call(&json!({"name": format!("made_up_{number}")}), &[]);
    }
    let text = gateway.metrics();
    let page = parse(&text);
    page.check_histograms();
    let calls = |tool, outcome| {
        let labels = [("server", "mirror"), ("tool", tool), ("outcome", outcome)];
        page.get("switchboard_tool_calls_total", &labels)
    };
    assert_eq!(calls("mirror", "ok"), Some(4.0), "{text}");
    assert_eq!(calls("broken", "tool_error"), Some(1.0), "it never succeeds, but is listed");
    assert_eq!(calls("other", "error"), Some(3.0));
    assert!(!text.contains("made_up") && !text.contains("nobody"), "{text}");
    let requests = |method, outcome| {
        let labels = [("method", method), ("outcome", outcome)];
        page.get("switchboard_requests_total", &labels)
    };
    assert_eq!(requests("tools/call", "error"), Some(4.0), "{text}");
    assert_eq!(requests("initialize", "ok"), Some(2.0), "{text}");
    let series = [("server", "mirror"), ("tool", "mirror")];
    assert_eq!(page.get("switchboard_tool_call_duration_seconds_count", &series), Some(4.0));
    assert_eq!(page.get("switchboard_server_up", &[("server", "demo \"x\"")]), Some(1.0));
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(page.get("switchboard_build_info", &version), Some(1.0));
    for name in [
        "switchboard_uptime_seconds",
        "switchboard_received_bytes_total",
        "switchboard_sent_bytes_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(page.get(name, &[]).is_some_and(|value| value > 0.0), "{name} in {text}");
    }
    for name in ["received", "sent"] {
        let name = format!("switchboard_server_{name}_bytes_total");
        assert!(page.get(&name, &[("server", "mirror")]).is_some_and(|bytes| bytes > 100.0));
    }
}

#[test]
fn sessions_streams_and_refusals_are_counted_while_they_last() {
    let gateway = Gateway::told(&json!({"mcpServers": {"rude": rude()}}), &[], &[]);
    gateway.until_ready(&["rude"]);
    let session = Session::open(gateway.port, "/mcp", &[]);
    let sessions = r#"switchboard_sessions{path="/mcp"}"#;
    assert_eq!(gateway.sample(sessions), Some(1.0));
    assert_eq!(gateway.sample("switchboard_streams"), Some(0.0));
    let mut stream = Events::open(gateway.port, "/sse");
    stream.next("event: endpoint");
    assert_eq!(gateway.sample("switchboard_streams"), Some(1.0));
    drop(stream);
    until("the stream is gone", || gateway.sample("switchboard_streams") == Some(0.0));
    let gone = [("Mcp-Session-Id", session.id.as_str())];
    assert_eq!(send(gateway.port, "DELETE /mcp", &gone, b"").status, 204);
    assert_eq!(gateway.sample(sessions), Some(0.0));
    let answer = session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), &[]);
    assert_eq!(answer.status, 404);
    let page = parse(&gateway.metrics());
    let refused = |reason| page.get("switchboard_refusals_total", &[("reason", reason)]);
    assert_eq!(refused("session_over"), Some(1.0), "{page:?}");
    let strange = [("Origin", "https://evil.example")];
    assert_eq!(send(gateway.port, "GET /mcp", &strange, b"").status, 403);
    let page = parse(&gateway.metrics());
    let refused = |reason| page.get("switchboard_refusals_total", &[("reason", reason)]);
    assert_eq!((refused("forbidden"), refused("session_over")), (Some(1.0), Some(1.0)), "{page:?}");
}

#[test]
fn calls_that_nobody_wants_any_more_are_counted_as_cancelled() {
    let rude = json!({"command": SERVER[0], "args": [SERVER[1], "hang"]});
    let gateway = Gateway::told(&json!({"mcpServers": {"rude": rude}}), &[], &[]);
    gateway.until_ready(&["rude"]);
    let cancelled = r#"switchboard_requests_total{method="tools/call",outcome="cancelled"}"#;
    for (count, path) in [(1.0, "/mcp"), (2.0, "/servers/rude/mcp")] {
        let session = Session::open(gateway.port, path, &[]);
        let name = if path == "/mcp" { "rude__hang" } else { "hang" };
        let id = session.id.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let params = json!({"name": name, "arguments": {}});
                let call =
                    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
                session.send(&call, &[]);
            });
            until("the call is open", || gateway.sample("switchboard_open_calls") == Some(1.0));
            if path == "/mcp" {
                let params = json!({"requestId": 7});
                let method = "notifications/cancelled";
                session.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}), &[]);
            } else {
                send(gateway.port, &format!("DELETE {path}"), &[("Mcp-Session-Id", &id)], b"");
            }
        });
        until("it is closed", || gateway.sample("switchboard_open_calls") == Some(0.0));
        assert_eq!(gateway.sample(cancelled), Some(count));
    }
}

#[test]
fn children_and_their_restarts_are_counted() {
    let gateway = Gateway::told(&json!({"mcpServers": {"rude": rude()}}), &[], &[]);
    gateway.until_ready(&["rude"]);
    let of = |name: &str| {
        gateway.sample(&format!("switchboard_server_{name}{{server=\"rude\"}}")).unwrap()
    };
    assert_eq!((of("children"), of("restarts_total")), (1.0, 0.0));
    let session = Session::open(gateway.port, "/servers/rude/mcp", &[]);
    session.call(&json!({"name": "echo", "arguments": {"text": "a"}}), &[]);
    until("the session has a child", || of("children") > 1.5);
    let answer = session.call(&json!({"name": "die", "arguments": {}}), &[]);
    assert!(answer.get("error").is_some(), "{answer}");
    until("it is there again", || {
        session.call(&json!({"name": "echo", "arguments": {"text": "a"}}), &[]);
        of("restarts_total") > 0.5
    });
    assert!(of("starts_total") > 2.5);
}

/// Each attempt starts two processes: one is asked for its era, the other is greeted.
///
/// wire: NEG-7
#[test]
fn a_server_that_dies_at_its_start_is_restarted_once_an_attempt() {
    let dying = json!({"command": "sh", "args": ["-c", "exit 3"]});
    let gateway = Gateway::told(&json!({"mcpServers": {"dying": dying}}), &[], &[]);
    let of = |name: &str| {
        gateway.sample(&format!("switchboard_server_{name}_total{{server=\"dying\"}}")).unwrap()
    };
    until("it is started for the second time", || of("starts") > 3.5);
    assert_eq!(gateway.status()["servers"]["dying"]["restarts"], 1);
    assert!((of("restarts") - 1.0).abs() < 0.1);
}

/// A server that answers to any name: its answers make no names.
#[test]
fn names_that_no_list_has_are_not_counted_by_name_however_well_they_go() {
    let polite = super::MIRROR.replace(" and params[\"name\"] in names", "");
    let polite = json!({"command": "python3", "args": ["-c", polite]});
    let gateway = Gateway::told(&json!({"mcpServers": {"polite": polite}}), &[], &[]);
    gateway.until_ready(&["polite"]);
    let alone = Session::open(gateway.port, "/servers/polite/mcp", &[]);
    for number in 0..5 {
        let answer = alone.call(&json!({"name": format!("made_up_{number}")}), &[]);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    let text = gateway.metrics();
    let labels = [("server", "polite"), ("tool", "other"), ("outcome", "ok")];
    assert_eq!(parse(&text).get("switchboard_tool_calls_total", &labels), Some(5.0), "{text}");
    assert!(!text.contains("made_up"), "{text}");
}
