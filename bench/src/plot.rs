//! Plots as SVG, for the page.

use std::fmt::Write as _;

use crate::target::Kind;

const WIDTH: f64 = 760.0;
const LABELS: f64 = 270.0;
const ROW: f64 = 22.0;
const HEAD: f64 = 34.0;

/// One bar, or one line.
pub struct Row {
    pub name: String,
    pub kind: Kind,
    pub values: Vec<f64>,
}

fn color(kind: Kind) -> &'static str {
    match kind {
        Kind::Bare => "#8a8f98",
        Kind::Ours => "#2f6fde",
        Kind::Rmcp => "#d9822b",
        Kind::Peer => "#a8553a",
    }
}

fn begin(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{title}</text>\n"
    )
}

/// A bar for the first value of each row.
pub fn bars(title: &str, rows: &[Row]) -> String {
    let first = |row: &Row| row.values.first().copied().unwrap_or_default();
    let most = rows.iter().map(first).fold(f64::MIN_POSITIVE, f64::max);
    let mut y = HEAD;
    let mut svg = String::new();
    for row in rows {
        let value = first(row);
        let length = (value / most * (WIDTH - LABELS - 60.0)).max(1.0);
        // Writing to memory cannot fail.
        _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABELS}\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"16\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{value:.1}</text>",
            LABELS - 8.0,
            y + 12.0,
            row.name,
            color(row.kind),
            LABELS + length + 5.0,
            y + 12.0,
        );
        y += ROW;
    }
    format!("{}{svg}</svg>\n", begin(title, y + 8.0))
}

/// A line for each row over the points of `axis`; its name at its end.
pub fn lines(title: &str, axis: &[String], rows: &[Row]) -> String {
    const HEIGHT: f64 = 300.0;
    const BOTTOM: f64 = HEIGHT - 30.0;
    let most = rows.iter().flat_map(|row| &row.values).copied().fold(f64::MIN_POSITIVE, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "a handful of points")]
    let x = |at: usize| 60.0 + at as f64 * (WIDTH - LABELS) / axis.len().max(2) as f64;
    let y = |value: f64| BOTTOM - value / most * (BOTTOM - HEAD - 10.0);
    let mut svg = String::new();
    for part in [0.0, 0.5, 1.0] {
        let at = y(most * part);
        _ = writeln!(
            svg,
            "<line x1=\"50\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"44\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
            WIDTH - LABELS,
            at + 4.0,
            most * part
        );
    }
    for (at, name) in axis.iter().enumerate() {
        _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{name}</text>",
            x(at),
            HEIGHT - 10.0
        );
    }
    // Names do not cover each other: from below, each at least a line above the one before.
    let mut order: Vec<_> = rows.iter().filter(|row| !row.values.is_empty()).collect();
    order.sort_by(|a, b| {
        a.values.last().partial_cmp(&b.values.last()).unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut free = HEIGHT;
    for row in order {
        let points: Vec<_> = row
            .values
            .iter()
            .enumerate()
            .map(|(at, value)| format!("{:.1},{:.1}", x(at), y(*value)))
            .collect();
        let end = row.values.last().copied().unwrap_or_default();
        free = y(end).min(free - 14.0);
        _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{color}\">{}</text>",
            points.join(" "),
            x(row.values.len() - 1) + 8.0,
            free + 4.0,
            row.name,
            color = color(row.kind),
        );
    }
    format!("{}{svg}</svg>\n", begin(title, HEIGHT))
}
