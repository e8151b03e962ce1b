//! Metrics in the text format of Prometheus.
//!
//! Nothing is registered anywhere: each scrape asks whoever counts. So what is
//! gone is not shown, and what nobody scrapes costs nothing.

use std::fmt::{Display, Write as _};

mod show;

pub use show::page;

/// What a family of samples is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The text, as it grows.
#[derive(Debug, Default)]
struct Text {
    text: String,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// Begins a family; its samples must follow at once.
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
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
    fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// As the value of a label.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_family_and_labels_are_escaped() {
        let mut text = Text::default();
        text.one("a_total", Kind::Counter, "How many.", 3);
        text.family("b", Kind::Gauge, "How much.");
        text.sample("b", &[("x", "1\"\\\n"), ("y", "é")], 0.5);
        let expected = "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n\
                        # HELP b How much.\n# TYPE b gauge\nb{x=\"1\\\"\\\\\\n\",y=\"é\"} 0.5\n";
        assert_eq!(text.text, expected);
    }
}
