//! Results on stdout: tables and text for people, JSON for machines.
//!
//! What a server says is shown without control characters, so that it cannot
//! drive the terminal.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;
use switchboard_net::client::Progress;

use crate::args::Form;

/// Widest cell of a table; the rest is cut.
const CELL: usize = 80;

impl Form {
    /// A result: the whole of it, or what `text` makes of it.
    pub(crate) fn show(self, result: &Value, text: impl FnOnce(&Value) -> String) {
        let shown = match self {
            Self::Json => serde_json::to_string_pretty(result).unwrap_or_default(),
            Self::Text => text(result),
        };
        write_line(&shown);
    }
}

/// A text that ends with its line, on stdout.
pub(crate) fn write_line(text: &str) {
    let text = text.trim_end_matches('\n');
    let mut stdout = io::stdout().lock();
    // A reader that closed stdout wants no more.
    _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// A mistake that the user asked about, on stderr, without the form of a log line.
pub(crate) fn write_finding(text: &str) {
    let mut stderr = io::stderr().lock();
    // A reader that closed stderr wants no more.
    _ = writeln!(stderr, "{}", plain(text));
}

/// So many of something: `1 server`, `2 servers`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Text without what could drive a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The first line of a text, cut to the size of a cell.
pub(crate) fn cell(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let line = plain(text.trim().lines().next().unwrap_or_default());
    if line.chars().count() <= CELL {
        return line;
    }
    line.chars().take(CELL - 1).chain(['…']).collect()
}

/// Columns as wide as they need to be; nothing for no rows but `none`. In `head` the names
/// of the columns have two spaces between them, as in the table.
pub(crate) fn table(head: &str, rows: &[Vec<String>], none: &str) -> String {
    if rows.is_empty() {
        return none.to_owned();
    }
    let head: Vec<String> = head.split("  ").map(ToOwned::to_owned).collect();
    let all = || std::iter::once(&head).chain(rows);
    let widths: Vec<usize> = (0..head.len())
        .map(|at| all().map(|row| row[at].chars().count()).max().unwrap_or_default())
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all().map(line).collect::<Vec<_>>().join("\n")
}

/// What a list of content blocks says.
pub(crate) fn contents(blocks: &Value) -> String {
    let blocks = blocks.as_array().into_iter().flatten();
    blocks.map(content).collect::<Vec<_>>().join("\n")
}

fn content(block: &Value) -> String {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match text("type") {
        "text" => plain(text("text")),
        "resource_link" => format!("[{}]", plain(text("uri"))),
        "resource" => resource(&block["resource"]),
        _ => {
            let (kind, mime) = (cell(&block["type"]), cell(&block["mimeType"]));
            format!("[{kind} {mime}, {} characters of Base64]", text("data").len())
        }
    }
}

/// What a resource holds.
pub(crate) fn resource(resource: &Value) -> String {
    match (resource["text"].as_str(), resource["blob"].as_str()) {
        (Some(text), _) => plain(text),
        (None, Some(blob)) => {
            let mime = cell(&resource["mimeType"]);
            format!("[{mime}, {} characters of Base64; see --output json]", blob.len())
        }
        (None, None) => format!("[{}]", cell(&resource["uri"])),
    }
}

/// Shows progress on the last line of a terminal, and nowhere else.
pub(crate) fn show_progress(step: &Progress) {
    let total = step.total.map(|total| format!("/{total}")).unwrap_or_default();
    let words = plain(step.message.as_deref().unwrap_or_default()).replace('\n', " ");
    replace_progress(&format!("{}{total} {words}", step.progress));
}

/// Puts a text in the place of the progress that is shown.
pub(crate) fn replace_progress(text: &str) {
    let mut stderr = io::stderr().lock();
    if stderr.is_terminal() {
        // There is no other stream to report this on.
        _ = write!(stderr, "\r\x1b[K{text}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "x".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table("N  D", &rows, "none"), "N     D\na     x\nlong");
        assert_eq!(table("N", &[], "none"), "none");
    }

    #[test]
    fn what_a_server_says_cannot_drive_the_terminal() {
        let blocks = json!([{"type": "text", "text": "a\u{1b}[2Jb\nc"}]);
        assert_eq!(contents(&blocks), "a[2Jb\nc");
        let strange = json!([{"type": "a\u{1b}b", "mimeType": "c\u{9b}d"}]);
        assert_eq!(contents(&strange), "[ab cd, 0 characters of Base64]");
        assert_eq!(cell(&json!("\u{7}bell\nmore")), "bell");
    }
}
